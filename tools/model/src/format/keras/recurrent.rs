//! Keras's recurrent layers, the same in Keras 2 and 3: `LSTM` (gate order i, f, c, o, the canonical one), `GRU` (order
//! z, r, h, with the reset before or after the product) and `SimpleRNN`, and `CuDNNLSTM` and `CuDNNGRU` of Keras 2.

use serde_json::Map;
use tidegate::internals::{activation::Activation, cell::CellKind, gate};

use super::{arguments, conv_lstm};
use crate::format::{case::Case, cudnn, layer::At, layer::Layer, weights::Named, weights::reordered};
use crate::{canonical::Tensor, error::Result};

/// The recurrent layer of a case of any class.
pub(super) fn recurrent(case: &mut Case<'_>) -> Result<Layer> {
    // A case states whether its calls are successive, and its layout states which dimension is time.
    case.ignore_all(&["stateful", "time_major", "return_state", "trainable"]);
    // The forget bias is an initial value, already contained in the trained bias.
    case.ignore_where(arguments::is_of_training);
    match case.cls.as_str() {
        "SimpleRNN" => layer(case, CellKind::Elman),
        "ConvLSTM1D" => conv_lstm::layer(case, 1),
        "ConvLSTM2D" => conv_lstm::layer(case, 2),
        "ConvLSTM3D" => conv_lstm::layer(case, 3),
        "CuDNNLSTM" if case.has_tensor("cudnn/kernel") => cudnn_layer(case, CellKind::Lstm),
        "CuDNNGRU" if case.has_tensor("cudnn/kernel") => cudnn_layer(case, CellKind::Gru),
        "LSTM" | "CuDNNLSTM" => layer(case, CellKind::Lstm),
        "GRU" | "CuDNNGRU" => layer(case, CellKind::Gru),
        _ => case.unknown_class(),
    }
}

/// A layer with Keras's own weights or with those of `CuDNNLSTM` and `CuDNNGRU`; either class may have either weights. The
/// bias of cuDNN weights is twice as long.
fn layer(case: &mut Case<'_>, kind: CellKind) -> Result<Layer> {
    let gates = kind.spec().gates.len().max(1);
    let kernel = case.named("kernel")?;
    let recurrent = case.named("recurrent_kernel")?;
    let units = kernel.units(gates)?;
    case.units("units", units)?;
    let (input, rows) = kernel.matrix()?;
    recurrent.shaped(&[units, rows], units)?;
    let bias = if case.flag("use_bias", true)? { Some(case.named("bias")?) } else { None };
    let shape = bias.map(|bias| bias.tensor.shape.as_slice());
    let folded = gates > 1 && shape == Some(&[2 * rows]);
    let [input_weights, recurrent_weights] = match folded {
        true => [unfolded(kernel, gates)?, unfolded(recurrent, gates)?],
        false => [kernel.transposed(0, input)?, recurrent.transposed(0, units)?],
    };
    let mut layer = Layer::new(kind, input, units)
        .tensor("input_weights", ordered(kind, input_weights))
        .tensor("recurrent_weights", ordered(kind, recurrent_weights));
    // If the argument is not set, the shape of the bias decides. Without a bias, `defaults` has asked for the argument.
    let twice = shape.is_none_or(|shape| shape.len() == 2 || folded);
    let reset_after = kind == CellKind::Gru && case.flag("reset_after", twice)?;
    if reset_after {
        layer.options.push("reset_after");
    }
    if let Some(bias) = bias {
        layer = match reset_after || (folded && kind == CellKind::Lstm) {
            true if folded => with_both_biases(layer, bias.tensor),
            true => with_both_biases(layer, &bias.shaped(&[2, rows], units)?),
            false => layer.tensor("input_bias", ordered(kind, bias.shaped(&[rows], units)?)),
        };
    }
    let activation = case.activation("activation", Activation::Tanh)?;
    layer = with_states(layer);
    let names: &[&'static str] = match kind {
        CellKind::Lstm => &["cell_activation", "output_activation"],
        CellKind::Gru => &["new_activation"],
        _ => &["activation"],
    };
    if kind != CellKind::Elman {
        layer = layer.activation("gate_activation", case.activation("recurrent_activation", Activation::Sigmoid)?);
    }
    Ok(names.iter().fold(layer, |layer, name| layer.activation(name, activation)))
}

/// The blocks of rows of a tensor in the canonical gate order.
fn ordered(kind: CellKind, tensor: Tensor) -> Tensor {
    match kind {
        CellKind::Gru => reordered(&tensor, gate::GRU_KERAS, gate::GRU),
        _ => tensor,
    }
}

/// Splits `both` into the input bias and the recurrent bias.
fn with_both_biases(layer: Layer, both: &Tensor) -> Layer {
    let rows = both.data.len() / 2;
    let (input, recurrent) = both.data.split_at(rows);
    let vector = |data: &[f32]| ordered(layer.kind, Tensor { shape: vec![rows], data: data.to_vec() });
    let (input, recurrent) = (vector(input), vector(recurrent));
    layer.tensor("input_bias", input).tensor("recurrent_bias", recurrent)
}

fn with_states(layer: Layer) -> Layer {
    let layer = layer.state("hidden", At::new("h"));
    let has_cell = layer.kind == CellKind::Lstm;
    if has_cell { layer.state("cell_state", At::new("c")) } else { layer }
}

/// `CuDNNLSTM` and `CuDNNGRU`: each gate's block of columns in a kernel holds cuDNN's matrix in cuDNN's memory order,
/// which is the canonical one. The case also has the parameters of the layer that Keras loads the weights into.
fn cudnn_layer(case: &mut Case<'_>, kind: CellKind) -> Result<Layer> {
    let gates = kind.spec().gates.len();
    let kernel = case.named("cudnn/kernel")?;
    let recurrent = case.named("cudnn/recurrent_kernel")?;
    let bias = case.named("cudnn/bias")?;
    let units = kernel.units(gates)?;
    case.units("units", units)?;
    let (input, rows) = kernel.matrix()?;
    recurrent.shaped(&[units, rows], units)?;
    let layer = Layer::new(kind, input, units)
        .tensor("input_weights", ordered(kind, unfolded(kernel, gates)?))
        .tensor("recurrent_weights", ordered(kind, unfolded(recurrent, gates)?));
    let layer = with_both_biases(layer, &bias.shaped(&[2 * rows], units)?);
    let (layer, native) = match kind {
        CellKind::Gru => (layer.option("reset_after"), "GRU"),
        _ => (layer, "LSTM"),
    };
    let native = case.scoped(native.to_owned(), Map::new(), &["native"], self::recurrent)?;
    cudnn::agreeing(layer, native)
}

/// Reinterprets each gate's block of columns, `[rows, units]`, as `[units, rows]` in the same memory order, and stacks
/// the blocks.
fn unfolded(kernel: Named<'_>, gates: usize) -> Result<Tensor> {
    let units = kernel.units(gates)?;
    let (rows, cols) = kernel.matrix()?;
    let block =
        |gate: usize| kernel.tensor.data.chunks(cols).flat_map(move |row| &row[gate * units..(gate + 1) * units]);
    Ok(Tensor { shape: vec![cols, rows], data: (0..gates).flat_map(block).copied().collect() })
}
