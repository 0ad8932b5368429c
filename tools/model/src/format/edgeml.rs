//! EdgeML's cells: FastRNN, FastGRNN, and the LSTM, GRU and UGRNN with low-rank matrices.
//!
//! Matrices are [in, out], biases [1, units]. With a rank, a cell with one matrix has W = W1 W2; a cell with several
//! has W_k = W Wk, with a common W. The factor next to the input becomes a `dense` layer before the cell.

use tidegate::internals::activation::{Activation, sigmoid};
use tidegate::internals::cell::CellKind;

use super::{case::Case, layer::At, layer::Layer, network::Network, weights::stacked};
use crate::{canonical::Tensor, error::Result};

pub(crate) fn convert(case: &mut Case<'_>) -> Result<Network> {
    // Arguments for training only: initial values of trained numbers, and the sparsity of the weights.
    case.ignore_all(&["zetaInit", "nuInit", "alphaInit", "betaInit", "wSparsity", "uSparsity", "name"]);
    let layers = match case.cls.as_str() {
        "FastRNNCell" => fast_rnn(case)?,
        "FastGRNNCell" => fast_grnn(case)?,
        "UGRNNLRCell" => gated(case, CellKind::Ugrnn, &["bias_gate", "bias_update"], &["candidate_activation"])?,
        "GRULRCell" => gated(case, CellKind::Gru, &["bias_r", "bias_gate", "bias_update"], &["new_activation"])?,
        "LSTMLRCell" => lstm(case)?,
        _ => return case.unknown_class(),
    };
    Network::chain("input", layers, "output")
}

fn fast_rnn(case: &mut Case<'_>) -> Result<Vec<Layer>> {
    let activation = case.activation("update_nonlinearity", Activation::Tanh)?;
    let layers = Matrices::read(case, 1)?.layers(CellKind::FastRnn)?;
    let (alpha, beta) = (scalar(case, "alpha")?, scalar(case, "beta")?);
    of_last(layers, |layer| {
        let bias = bias(case, "bias_update", layer.hidden_size)?;
        let layer = layer.tensor("input_bias", bias).param("alpha", alpha).param("beta", beta);
        Ok(layer.activation("activation", activation).state("hidden", At::new("h")))
    })
}

fn fast_grnn(case: &mut Case<'_>) -> Result<Vec<Layer>> {
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

/// A cell of several gates, whose matrices are numbered in the canonical order: `biases` are those of the gates,
/// `candidates` the activations that are not those of gates. A GRU's reset precedes the product.
fn gated(case: &mut Case<'_>, kind: CellKind, biases: &[&str], candidates: &[&'static str]) -> Result<Vec<Layer>> {
    let gate = case.activation("gate_nonlinearity", Activation::Sigmoid)?;
    let candidate = case.activation("update_nonlinearity", Activation::Tanh)?;
    let layers = Matrices::read(case, biases.len())?.layers(kind)?;
    of_last(layers, |layer| {
        let units = layer.hidden_size;
        let blocks = biases.iter().map(|name| bias(case, name, units)).collect::<Result<Vec<_>>>()?;
        let layer = layer.tensor("input_bias", stacked(&blocks)).activation("gate_activation", gate);
        let layer = candidates.iter().fold(layer, |layer, name| layer.activation(name, candidate));
        Ok(layer.state("hidden", At::new("h")))
    })
}

fn lstm(case: &mut Case<'_>) -> Result<Vec<Layer>> {
    let biases = ["bias_i", "bias_f", "bias_c", "bias_o"];
    let layers = gated(case, CellKind::Lstm, &biases, &["cell_activation", "output_activation"])?;
    of_last(layers, |layer| Ok(layer.state("cell_state", At::new("c")).trace("cell_state", "c")))
}

/// The layers, with the last one replaced by the result of `finish`.
fn of_last(mut layers: Vec<Layer>, finish: impl FnOnce(Layer) -> Result<Layer>) -> Result<Vec<Layer>> {
    if let Some(last) = layers.pop() {
        layers.push(finish(last)?);
    }
    Ok(layers)
}

/// The matrices of one side of a cell, in canonical orientation.
struct Side {
    /// [rank, in], for a low rank.
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
    fn read(case: &mut Case<'_>, gates: usize) -> Result<Self> {
        let (input_size, units) = (case.needed_size("input_size")?, case.needed_size("hidden_size")?);
        let ranks = [case.size("wRank")?, case.size("uRank")?];
        let input = side(case, "W", gates, [input_size, units], ranks[0])?;
        let recurrent = side(case, "U", gates, [units, units], ranks[1])?;
        Ok(Self { input, recurrent, input_size, units })
    }

    /// A cell with these matrices, and the layers before it.
    fn layers(self, kind: CellKind) -> Result<Vec<Layer>> {
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

/// The matrices named `stem`, with a number if there are several.
fn side(case: &mut Case<'_>, stem: &str, gates: usize, [from, units]: [usize; 2], rank: Option<usize>) -> Result<Side> {
    let mut matrix = |name: &str, rows: usize, cols: usize| {
        let named = case.named(name)?;
        named.shaped(&[rows, cols], units)?;
        named.transposed(0, rows)
    };
    let (basis, rows, names) = match (rank, gates) {
        (None, 1) => (None, from, vec![stem.to_owned()]),
        (None, _) => (None, from, (1..=gates).map(|gate| format!("{stem}{gate}")).collect()),
        (Some(rank), 1) => (Some(matrix(&format!("{stem}1"), from, rank)?), rank, vec![format!("{stem}2")]),
        (Some(rank), _) => {
            let names = (1..=gates).map(|gate| format!("{stem}{gate}")).collect();
            (Some(matrix(stem, from, rank)?), rank, names)
        }
    };
    let blocks: Vec<Tensor> = names.iter().map(|name| matrix(name, rows, units)).collect::<Result<_, _>>()?;
    Ok(Side { basis, weights: stacked(&blocks) })
}

/// A bias `[1, units]`.
fn bias(case: &mut Case<'_>, name: &str, units: usize) -> Result<Tensor> {
    let tensor = case.named(name)?.shaped(&[1, units], units)?;
    Ok(Tensor { shape: vec![units], data: tensor.data })
}

/// A trained number `[1, 1]`, to which the cells apply σ.
fn scalar(case: &mut Case<'_>, name: &str) -> Result<f32> {
    let named = case.named(name)?;
    match *named.tensor.data {
        [value] => Ok(sigmoid(value)),
        _ => named.refuse("it must be one number".into()),
    }
}
