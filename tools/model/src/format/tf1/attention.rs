//! TensorFlow 1's `AttentionCellWrapper` around an LSTM, as one cell.

use tidegate::internals::cell::CellKind;

use super::{cells::unsupported_if, classes::cell};
use crate::format::{case::Case, layer::At, layer::Layer, weights::Named};
use crate::{canonical::Tensor, error::ImportError, error::Result};

/// The layer for the wrapper and the LSTM inside it.
pub(super) fn layer(case: &mut Case<'_>) -> Result<Layer> {
    let length = case.size("attn_length")?.ok_or_else(|| unsupported("no attn_length"))?;
    let tuple = case.flag("state_is_tuple", true)?;
    let [memory, query, query_bias, score] =
        ["attn_w", "kernel", "bias", "attn_v"].map(|name| case.tensor(&format!("attention/{name}")));
    let [output, output_bias] = ["kernel", "bias"].map(|name| case.tensor(&format!("attn_output_projection/{name}")));
    let mixed = Named { name: "kernel", tensor: case.tensor("kernel")? };
    let mixed_bias = Named { name: "bias", tensor: case.tensor("bias")? };
    let call = case.text("cell")?.ok_or_else(|| unsupported("no cell"))?;
    let lstm = case.cell(&call, &[], cell)?;
    let plain = lstm.options.is_empty() && lstm.params.is_empty();
    let tanh = Layer::new(CellKind::Lstm, lstm.input_size, lstm.hidden_size).node("", Vec::new());
    let other = lstm.kind != CellKind::Lstm || lstm.node("", Vec::new()).activations != tanh.activations;
    unsupported_if(other || !plain, format_args!("attention around {call}"))?;

    let units = lstm.hidden_size;
    let output = Named { name: "attn_output_projection/kernel", tensor: output? };
    let size = output.matrix()?.1;
    output.shaped(&[units + size, size], size)?;
    let (rows, width) = mixed.matrix()?;
    let input = rows.checked_sub(size).ok_or_else(|| unsupported("a kernel that does not see the attention"))?;
    mixed.shaped(&[rows, lstm.input_size], width)?;
    let score = Named { name: "attention/attn_v", tensor: score? };
    let features = score.tensor.data.len();
    let memory = memory?;
    let misshaped = memory.shape != [1, 1, size, features];
    unsupported_if(misshaped, format_args!("attention/attn_w of shape {:?}", memory.shape))?;
    let memory = Tensor { shape: vec![size, features], data: memory.data.clone() };
    let query = Named { name: "attention/kernel", tensor: query? };
    query.shaped(&[2 * units, features], features)?;
    case.units("attn_size", size)?;
    case.units("attn_vec_size", features)?;
    case.units("input_size", width)?;

    // The cell sees x and the attention a through the wrapper's kernel. Its input weights become W K, split at the
    // columns of a, which are placed beside those of h.
    let tensor = |name: &str| lstm.tensors.get(name).ok_or_else(|| ImportError::MissingTensor { tensor: name.into() });
    let (weights, recurrent, bias) = (tensor("input_weights")?, tensor("recurrent_weights")?, tensor("input_bias")?);
    let mixed_bias = mixed_bias.shaped(&[width], width)?;
    let (mut of_input, mut beside, mut folded) = (Vec::new(), Vec::new(), Vec::new());
    for ((w, r), &b) in weights.data.chunks(width).zip(recurrent.data.chunks(units)).zip(&bias.data) {
        let through = |column: &mut dyn Iterator<Item = f32>| -> f64 {
            w.iter().zip(column).map(|(&w, k)| f64::from(w) * f64::from(k)).sum()
        };
        let row = |k: usize| through(&mut mixed.tensor.data[k * width..(k + 1) * width].iter().copied()) as f32;
        of_input.extend((0..input).map(row));
        beside.extend_from_slice(r);
        beside.extend((input..rows).map(row));
        folded.push((f64::from(b) + through(&mut mixed_bias.data.iter().copied())) as f32);
    }
    let matrix = |cols: usize, data| Tensor { shape: vec![4 * units, cols], data };
    let mut layer = Layer::new(CellKind::AttentionLstm, input, units)
        .extent("length", length)
        .extent("features", features)
        .tensor("input_weights", matrix(input, of_input))
        .tensor("recurrent_weights", matrix(units + size, beside))
        .tensor("input_bias", Tensor { shape: vec![4 * units], data: folded })
        .tensor("query_weights", query.transposed(0, 2 * units)?)
        .tensor("query_bias", Named { name: "attention/bias", tensor: query_bias? }.shaped(&[features], features)?)
        .tensor("memory_weights", Named { name: "attention/attn_w", tensor: &memory }.transposed(0, size)?)
        .tensor("score_weights", score.shaped(&[features], features)?)
        .tensor("output_weights", output.transposed(0, units + size)?)
        .tensor(
            "output_bias",
            Named { name: "attn_output_projection/bias", tensor: output_bias? }.shaped(&[size], size)?,
        );
    layer.output_size = size;
    layer.states = lstm.states;
    let (attention, memory) = match tuple {
        true => (At::new("attns"), At::new("attn_states")),
        false => (At::new("state").from(2 * units), At::new("state").from(2 * units + size)),
    };
    Ok(layer.state("attention", attention).state("memory", memory))
}

fn unsupported(what: &str) -> ImportError {
    ImportError::Unsupported(what.to_owned())
}
