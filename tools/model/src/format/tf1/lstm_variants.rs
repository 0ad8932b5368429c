//! The LSTM variants of TensorFlow 1's contrib that are an `LSTMCell` with other weights and options: layer
//! normalization, weight normalization, coupled gates. [`cells::lstm`] converts the common part.

use std::ops::Range;

use tidegate::internals::gate::{LSTM, LSTM_TF1};

use super::cells::{self, Converted, LstmOptions};
use crate::format::weights::{Named, reordered, stacked, zeros};
use crate::{canonical::Tensor, error::ImportError, error::Result};

/// Epsilon of contrib's `layer_norm`.
const LAYER_NORM_EPSILON: f32 = 1e-12;
/// Lower bound for the sum of squares in `l2_normalize`.
const L2_EPSILON: f64 = 1e-12;

/// `gamma` (factor) and `beta` (shift) of one scope, both `[units]`. A normalized gate has no other bias.
pub(super) struct LayerNorm {
    pub gamma: Tensor,
    pub beta: Tensor,
}

impl LayerNorm {
    fn checked(&self, units: usize) -> Result<(Tensor, Tensor)> {
        let gamma = Named { name: "gamma", tensor: &self.gamma }.shaped(&[units], units)?;
        Ok((gamma, Named { name: "beta", tensor: &self.beta }.shaped(&[units], units)?))
    }
}

/// `LayerNormLSTMCell`: kernel [input + output, 4 * units]. `norms` are those of the gates in kernel order, then that of
/// the new cell state, which is carried to the next step normalized.
pub(super) fn layer_norm_lstm(kernel: &Tensor, norms: &[LayerNorm; 5], options: LstmOptions<'_>) -> Converted {
    let units = Named { name: "kernel", tensor: kernel }.units(4)?;
    let [gates @ .., state] = norms;
    let (gains, biases): (Vec<_>, Vec<_>) = gates.iter().map(|gate| gate.checked(units)).collect::<Result<_>>()?;
    let (cell_gain, cell_bias) = state.checked(units)?;
    let gate_gain = reordered(&stacked(&gains), options.order, LSTM);
    Ok(cells::lstm(kernel, &stacked(&biases), options)?
        .option("gate_norm")
        .option("cell_norm")
        .param("epsilon", LAYER_NORM_EPSILON)
        .tensor("gate_gain", gate_gain)
        .tensor("cell_gain", cell_gain)
        .tensor("cell_bias", cell_bias))
}

/// `CoupledInputForgetGateLSTMCell`: kernel [input + output, 3 * units] of j, f, o. `norms` of j, f, o and the cell state
/// replace the bias `B`; `peepholes` are those of f and o. The canonical weights of the input gate are 0.
pub(super) fn coupled_lstm(
    kernel: &Tensor,
    bias: Option<&Tensor>,
    norms: Option<[LayerNorm; 4]>,
    peepholes: Option<[&Tensor; 2]>,
    options: LstmOptions<'_>,
) -> Converted {
    let named = Named { name: "kernel", tensor: kernel };
    let (units, (rows, cols)) = (named.units(3)?, named.matrix()?);
    let widened = kernel.data.chunks(cols).flat_map(|row| [vec![0.0; units].as_slice(), row].concat()).collect();
    let kernel = Tensor { shape: vec![rows, 4 * units], data: widened };
    let none = zeros(units);
    let peepholes = peepholes.map(|[forget, output]| [&none, forget, output]);
    let options = LstmOptions { peepholes, order: LSTM_TF1, ..options };
    let layer = if let Some([transform, forget, output, state]) = norms {
        let input = LayerNorm { gamma: none.clone(), beta: none.clone() };
        layer_norm_lstm(&kernel, &[input, transform, forget, output, state], options)
    } else {
        let bias = bias.ok_or_else(|| ImportError::MissingTensor { tensor: "B".into() })?;
        let bias = Named { name: "bias", tensor: bias }.shaped(&[3 * units], units)?;
        cells::lstm(&kernel, &stacked([&none, &bias]), options)
    };
    Ok(layer?.option("coupled"))
}

/// The given rows of a kernel, with each column divided by its norm over these rows and multiplied by its element of
/// `norms`. `WeightNormLSTMCell` does this at run time.
pub(super) fn weight_normalized(kernel: &Tensor, rows: Range<usize>, norms: Named<'_>) -> Result<Tensor> {
    let named = Named { name: "kernel", tensor: kernel };
    let (len, cols) = named.matrix()?;
    if rows.is_empty() || rows.end > len {
        return named.refuse(format!("it must have rows {} to {}", rows.start, rows.end));
    }
    let norms = norms.shaped(&[cols], cols)?;
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
