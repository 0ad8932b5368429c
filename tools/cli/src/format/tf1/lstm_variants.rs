//! The LSTMs of TensorFlow 1's contrib that are an `LSTMCell` with other weights and options: normalized layers,
//! normalized weights, coupled gates. What they have in common with it goes through [`cells::lstm`].

use std::ops::Range;

use tidegate::gate::{LSTM, LSTM_TF1};

use super::cells::{self, LstmOptions};
use crate::canonical::Tensor;
use crate::error::ImportError;
use crate::format::layer::Layer;
use crate::format::weights::{Named, reordered, stacked, zeros};

/// Of contrib's `layer_norm`.
const LAYER_NORM_EPSILON: f32 = 1e-12;
/// The least sum of squares of `l2_normalize`.
const L2_EPSILON: f64 = 1e-12;

/// `gamma` and `beta` of one scope, both `[units]`.
#[derive(Clone, Copy, Debug)]
pub struct LayerNorm<'a> {
    /// The factor.
    pub gamma: &'a Tensor,
    /// What is added; the gates' is all the bias they have.
    pub beta: &'a Tensor,
}

impl LayerNorm<'_> {
    fn checked(self, units: usize) -> Result<(Tensor, Tensor), ImportError> {
        let gamma = Named { name: "gamma", tensor: self.gamma }.shaped(&[units], units)?;
        Ok((gamma, Named { name: "beta", tensor: self.beta }.shaped(&[units], units)?))
    }
}

/// The scopes of a normalized LSTM.
#[derive(Clone, Copy, Debug)]
pub struct LayerNorms<'a> {
    /// Of the gates in the order of the kernel.
    pub gates: [LayerNorm<'a>; 4],
    /// Of the new cell state, which is carried normalized.
    pub state: LayerNorm<'a>,
}

/// `LayerNormLSTMCell`, and `LayerNormBasicLSTMCell`, which has fewer options: kernel [input + output, 4 * units].
///
/// # Errors
/// If a tensor has another shape, or a clip is not positive.
pub fn layer_norm_lstm(kernel: &Tensor, norms: LayerNorms<'_>, options: LstmOptions<'_>) -> Result<Layer, ImportError> {
    let units = Named { name: "kernel", tensor: kernel }.units(4)?;
    let gates = norms.gates.into_iter().map(|gate| gate.checked(units)).collect::<Result<Vec<_>, _>>()?;
    let (gains, biases): (Vec<_>, Vec<_>) = gates.into_iter().unzip();
    let (cell_gain, cell_bias) = norms.state.checked(units)?;
    let gate_gain = reordered(&stacked(&gains), options.order, LSTM);
    Ok(cells::lstm(kernel, &stacked(&biases), options)?
        .option("gate_norm")
        .option("cell_norm")
        .param("epsilon", LAYER_NORM_EPSILON)
        .tensor("gate_gain", gate_gain)
        .tensor("cell_gain", cell_gain)
        .tensor("cell_bias", cell_bias))
}

/// `CoupledInputForgetGateLSTMCell`: a kernel [input + output, 3 * units] of j, f, o, with its bias, or with
/// `norms` of j, f, o and the cell state instead of it; `peepholes` of f and o. The canonical weights of the input
/// gate, which it does not have, are 0.
///
/// # Errors
/// If a tensor has another shape, or a clip is not positive.
pub fn coupled_lstm(
    kernel: &Tensor,
    bias: Option<&Tensor>,
    norms: Option<[LayerNorm<'_>; 4]>,
    peepholes: Option<[&Tensor; 2]>,
    options: LstmOptions<'_>,
) -> Result<Layer, ImportError> {
    let named = Named { name: "kernel", tensor: kernel };
    let (units, (rows, cols)) = (named.units(3)?, named.matrix()?);
    let widened = kernel.data.chunks(cols).flat_map(|row| [vec![0.0; units].as_slice(), row].concat()).collect();
    let kernel = Tensor { shape: vec![rows, 4 * units], data: widened };
    let none = zeros(units);
    let peepholes = peepholes.map(|[forget, output]| [&none, forget, output]);
    let options = LstmOptions { peepholes, order: LSTM_TF1, ..options };
    let layer = match (norms, bias) {
        (Some([transform, forget, output, state]), _) => {
            let input = LayerNorm { gamma: &none, beta: &none };
            layer_norm_lstm(&kernel, LayerNorms { gates: [input, transform, forget, output], state }, options)
        }
        (None, Some(bias)) => {
            let bias = Named { name: "bias", tensor: bias }.shaped(&[3 * units], units)?;
            cells::lstm(&kernel, &stacked([&none, &bias]), options)
        }
        (None, None) => Err(ImportError::MissingTensor { tensor: "bias".into() }),
    };
    Ok(layer?.option("coupled"))
}

/// These rows of a kernel, each column divided by its norm over them and times its own of `norms`, as
/// `WeightNormLSTMCell` does at run time.
///
/// # Errors
/// If a tensor has another shape.
pub fn weight_normalized(
    kernel: &Tensor,
    rows: Range<usize>,
    norms: &Tensor,
    name: &str,
) -> Result<Tensor, ImportError> {
    let named = Named { name: "kernel", tensor: kernel };
    let (len, cols) = named.matrix()?;
    if rows.is_empty() || rows.end > len {
        return named.refuse(format!("it must have rows {} to {}", rows.start, rows.end));
    }
    let norms = Named { name, tensor: norms }.shaped(&[cols], cols)?;
    let data = kernel.data[rows.start * cols..rows.end * cols].to_vec();
    let mut part = Tensor { shape: vec![rows.len(), cols], data };
    for (col, &norm) in norms.data.iter().enumerate() {
        let squares: f64 = part.data.iter().skip(col).step_by(cols).map(|&w| f64::from(w).powi(2)).sum();
        let scale = f64::from(norm) / squares.max(L2_EPSILON).sqrt();
        for w in part.data.iter_mut().skip(col).step_by(cols) {
            *w = (f64::from(*w) * scale) as f32;
        }
    }
    Ok(part)
}
