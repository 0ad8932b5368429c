//! EdgeML's cells: FastRNN, FastGRNN, and the LSTM, GRU and UGRNN with matrices of low rank.
//!
//! Matrices are [in, out], biases [1, units]. Where a rank is given, a cell with one matrix has W = W1 W2; a cell with
//! several has W_k = W Wk, with W for all of them. The part next to the input becomes a `dense` layer in front.

use tidegate::activation::{Activation, sigmoid};
use tidegate::cell::CellKind;

use super::golden::Case;
use super::layer::{At, Layer};
use super::network::Network;
use super::weights::stacked;
use crate::canonical::Tensor;
use crate::error::ImportError;

/// The network of an `edgeml` case.
pub(crate) fn convert(case: &mut Case<'_>) -> Result<Network, ImportError> {
    // What only training sees: where trained numbers begin, and how many weights are set to zero.
    for argument in ["zetaInit", "nuInit", "alphaInit", "betaInit", "wSparsity", "uSparsity", "name"] {
        case.ignore(argument);
    }
    let layers = match case.cls.as_str() {
        "FastRNNCell" => fast_rnn(case)?,
        "FastGRNNCell" => fast_grnn(case)?,
        "UGRNNLRCell" => ugrnn(case)?,
        "GRULRCell" => gru(case)?,
        "LSTMLRCell" => lstm(case)?,
        _ => return case.unknown_class(),
    };
    Network::chain("input", layers, "output")
}

fn fast_rnn(case: &mut Case<'_>) -> Result<Vec<Layer>, ImportError> {
    let activation = case.activation("update_nonlinearity", Activation::Tanh)?;
    let layers = Matrices::read(case, 1)?.layers(CellKind::FastRnn)?;
    let (alpha, beta) = (scalar(case, "alpha")?, scalar(case, "beta")?);
    of_last(layers, |layer| {
        let bias = bias(case, "bias_update", layer.hidden_size)?;
        let layer = layer.tensor("input_bias", bias).param("alpha", alpha).param("beta", beta);
        Ok(layer.activation("activation", activation).state("hidden", At::new("h")))
    })
}

fn fast_grnn(case: &mut Case<'_>) -> Result<Vec<Layer>, ImportError> {
    let gate = case.activation("gate_nonlinearity", Activation::Sigmoid)?;
    let candidate = case.activation("update_nonlinearity", Activation::Tanh)?;
    let layers = Matrices::read(case, 1)?.layers(CellKind::FastGrnn)?;
    let (zeta, nu) = (scalar(case, "zeta")?, scalar(case, "nu")?);
    of_last(layers, |layer| {
        let units = layer.hidden_size;
        let layer = layer
            .tensor("gate_bias", bias(case, "bias_gate", units)?)
            .tensor("candidate_bias", bias(case, "bias_update", units)?)
            .param("zeta", zeta)
            .param("nu", nu);
        let layer = layer.activation("gate_activation", gate).activation("candidate_activation", candidate);
        Ok(layer.state("hidden", At::new("h")))
    })
}

/// Matrices 1, 2 are those of z, c: the canonical g, c.
fn ugrnn(case: &mut Case<'_>) -> Result<Vec<Layer>, ImportError> {
    let gate = case.activation("gate_nonlinearity", Activation::Sigmoid)?;
    let candidate = case.activation("update_nonlinearity", Activation::Tanh)?;
    let layers = Matrices::read(case, 2)?.layers(CellKind::Ugrnn)?;
    of_last(layers, |layer| {
        let biases = biases(case, ["bias_gate", "bias_update"], layer.hidden_size)?;
        let layer = layer.tensor("input_bias", biases).activation("gate_activation", gate);
        Ok(layer.activation("candidate_activation", candidate).state("hidden", At::new("h")))
    })
}

/// Matrices 1, 2, 3 are those of r, z, c: the canonical r, z, n. The reset is before the product.
fn gru(case: &mut Case<'_>) -> Result<Vec<Layer>, ImportError> {
    let gate = case.activation("gate_nonlinearity", Activation::Sigmoid)?;
    let candidate = case.activation("update_nonlinearity", Activation::Tanh)?;
    let layers = Matrices::read(case, 3)?.layers(CellKind::Gru)?;
    of_last(layers, |layer| {
        let biases = biases(case, ["bias_r", "bias_gate", "bias_update"], layer.hidden_size)?;
        let layer = layer.tensor("input_bias", biases).activation("gate_activation", gate);
        Ok(layer.activation("new_activation", candidate).state("hidden", At::new("h")))
    })
}

/// Matrices 1 to 4 are those of i, f, c, o: the canonical i, f, g, o.
fn lstm(case: &mut Case<'_>) -> Result<Vec<Layer>, ImportError> {
    let gate = case.activation("gate_nonlinearity", Activation::Sigmoid)?;
    let update = case.activation("update_nonlinearity", Activation::Tanh)?;
    let layers = Matrices::read(case, 4)?.layers(CellKind::Lstm)?;
    of_last(layers, |layer| {
        let biases = biases(case, ["bias_i", "bias_f", "bias_c", "bias_o"], layer.hidden_size)?;
        let layer = layer.tensor("input_bias", biases).activation("gate_activation", gate);
        let layer = layer.activation("cell_activation", update).activation("output_activation", update);
        let layer = layer.state("hidden", At::new("h")).state("cell_state", At::new("c"));
        Ok(layer.trace("cell_state", "c"))
    })
}

/// The layers, the last of which is what `finish` makes of it.
fn of_last(
    mut layers: Vec<Layer>,
    finish: impl FnOnce(Layer) -> Result<Layer, ImportError>,
) -> Result<Vec<Layer>, ImportError> {
    if let Some(last) = layers.pop() {
        layers.push(finish(last)?);
    }
    Ok(layers)
}

/// The matrices of one side of a cell, in canonical orientation.
struct Side {
    /// [rank, in], where the rank is low.
    basis: Option<Tensor>,
    /// [gates · units, in] or [gates · units, rank].
    weights: Tensor,
}

/// Both sides, checked against the arguments.
struct Matrices {
    input: Side,
    recurrent: Side,
    input_size: usize,
    units: usize,
}

impl Matrices {
    fn read(case: &mut Case<'_>, gates: usize) -> Result<Self, ImportError> {
        let (input_size, units) = (case.needed_size("input_size")?, case.needed_size("hidden_size")?);
        let ranks = [case.size("wRank")?, case.size("uRank")?];
        let input = side(case, "W", gates, [input_size, units], ranks[0])?;
        let recurrent = side(case, "U", gates, [units, units], ranks[1])?;
        Ok(Self { input, recurrent, input_size, units })
    }

    /// A cell with these matrices, and what stands in front of it.
    fn layers(self, kind: CellKind) -> Result<Vec<Layer>, ImportError> {
        let mut layers = Vec::new();
        let mut input_size = self.input_size;
        if let Some(basis) = self.input.basis {
            input_size = basis.shape[0];
            layers.push(Layer::dense(basis, None, Activation::Identity));
        }
        let mut layer = Layer::new(kind, input_size, self.units)
            .tensor("input_weights", self.input.weights)
            .tensor("recurrent_weights", self.recurrent.weights);
        if let Some(basis) = self.recurrent.basis {
            layer.extents.insert("rank", basis.shape[0]);
            layer = layer.option("low_rank").tensor("recurrent_basis", basis);
        }
        layers.push(layer);
        Ok(layers)
    }
}

/// `letter` with its number where there are several.
fn side(
    case: &mut Case<'_>,
    letter: &str,
    gates: usize,
    [from, units]: [usize; 2],
    rank: Option<usize>,
) -> Result<Side, ImportError> {
    let mut matrix = |name: &str, rows: usize, cols: usize| {
        let named = case.named(name)?;
        named.shaped(&[rows, cols], units)?;
        named.transposed(0, rows)
    };
    let (basis, rows, names) = match (rank, gates) {
        (None, 1) => (None, from, vec![letter.to_owned()]),
        (None, _) => (None, from, (1..=gates).map(|gate| format!("{letter}{gate}")).collect()),
        (Some(rank), 1) => (Some(matrix(&format!("{letter}1"), from, rank)?), rank, vec![format!("{letter}2")]),
        (Some(rank), _) => {
            let names = (1..=gates).map(|gate| format!("{letter}{gate}")).collect();
            (Some(matrix(letter, from, rank)?), rank, names)
        }
    };
    let blocks: Vec<Tensor> = names.iter().map(|name| matrix(name, rows, units)).collect::<Result<_, _>>()?;
    Ok(Side { basis, weights: stacked(&blocks) })
}

/// A bias `[1, units]`.
fn bias(case: &mut Case<'_>, name: &str, units: usize) -> Result<Tensor, ImportError> {
    let tensor = case.named(name)?.shaped(&[1, units], units)?;
    Ok(Tensor { shape: vec![units], data: tensor.data })
}

/// Biases end to end.
fn biases<const N: usize>(case: &mut Case<'_>, names: [&str; N], units: usize) -> Result<Tensor, ImportError> {
    let blocks = names.into_iter().map(|name| bias(case, name, units)).collect::<Result<Vec<_>, _>>()?;
    Ok(stacked(&blocks))
}

/// A trained number `[1, 1]`, which the cells put through σ.
fn scalar(case: &mut Case<'_>, name: &str) -> Result<f32, ImportError> {
    let named = case.named(name)?;
    match *named.tensor.data {
        [value] => Ok(sigmoid(value)),
        _ => named.refuse("it must be one number".into()),
    }
}
