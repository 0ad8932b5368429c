//! Keras's `LSTM` (order i, f, c, o: the canonical one), `GRU` (order z, r, h) and `SimpleRNN`, alike in Keras 2 and
//! 3, `Bidirectional` over two of them, ConvLSTMs, and Keras 2's `CuDNNLSTM` and `CuDNNGRU`. Over a reversed sequence a
//! network looks at the whole of it as one window.

mod activation;
mod arguments;
mod config;
mod conv_lstm;
mod defaults;
mod file;
mod first;
mod graph;
mod hdf5;
mod kernel;
pub(crate) mod layers;
mod mask;
mod names;
mod plain;
mod variables;
mod weights;

use serde_json::Map;
use tidegate::activation::Activation;
use tidegate::cell::CellKind;
use tidegate::gate;

use super::cudnn;
use super::golden::{Case, Control};
use super::layer::{At, Layer};
use super::network::{Direction, Idle, Network, Source};
use super::weights::{Named, reordered};
use crate::canonical::Tensor;
use crate::error::ImportError;

pub(crate) use defaults::{Origin, check};
pub(crate) use file::{description, import_archive, import_hdf5, is_keras};
pub(crate) use hdf5::MAGIC;

/// The network of a `keras2` or `keras3` case.
pub(crate) fn convert(case: &mut Case<'_>) -> Result<Network, ImportError> {
    case.control("mask", Control::Mask);
    // A case that does not say has every output, whatever the class's default.
    let last_only = !case.flag("return_sequences", true)?;
    let mut network = match case.cls.as_str() {
        "Bidirectional" => bidirectional(case, last_only)?,
        _ => {
            let zero = case.flag("zero_output_for_mask", false)?;
            let mut network = directed(case)?;
            network.idle = if zero { Idle::Zero } else { Idle::Repeat };
            network
        }
    };
    network.last_only = last_only;
    Ok(network)
}

/// A recurrent layer in either direction. Backwards its outputs stay in the order in which they were made.
fn directed(case: &mut Case<'_>) -> Result<Network, ImportError> {
    if !case.flag("go_backwards", false)? {
        return Ok(Network::of(recurrent(case)?));
    }
    let layer = recurrent(case)?;
    let mut network = Network::new();
    let x = network.input("input", layer.input_size);
    let rows = network.window(&x, case.steps()?);
    let output = network.directed(layer, &[&rows], Direction::BackwardAsProcessed);
    network.output("output", &output);
    network.reversed = true;
    Ok(network)
}

/// A layer in each direction, which share what arguments there are beside those of `Bidirectional`; outputs of steps
/// that do not count are zero. The only output, where there is one, is what each layer gives at the end of its way.
fn bidirectional(case: &mut Case<'_>, last_only: bool) -> Result<Network, ImportError> {
    let units = case.sizes("units")?.unwrap_or_default();
    let class = |case: &mut Case<'_>, name| case.text(name).map(Option::unwrap_or_default);
    let (forward, backward) = (class(case, "forward")?, class(case, "backward")?);
    let how = match case.is_null("merge_mode") {
        true => None,
        false => Some(case.text("merge_mode")?.unwrap_or_else(|| "concat".to_owned())),
    };
    // Keras begins the forward layer's name with this; the other one may have any.
    let scope = case.segment("forward_");
    let back = if last_only { Direction::BackwardAsProcessed } else { Direction::Backward };
    let shared = case.remaining();
    let mut network = Network::new();
    let mut outputs = Vec::new();
    let mut rows: Option<Source> = None;
    let directions = [
        ("forward", forward, Direction::Forward, scope.as_deref().into_iter().collect()),
        ("backward", backward, back, vec![]),
    ];
    for (k, (name, class, direction, scope)) in directions.into_iter().enumerate() {
        let mut args = shared.clone();
        args.extend(units.get(k).map(|&units| ("units".to_owned(), units.into())));
        let layer = case.scoped(class, args, &scope, recurrent)?;
        let x = match rows.take() {
            Some(rows) => rows,
            None => {
                let x = network.input("input", layer.input_size);
                network.window(&x, case.steps()?)
            }
        };
        let output = network
            .renamed(|state| format!("{name}_{state}"), |network| Ok(network.directed(layer, &[&x], direction)))?;
        outputs.push(output);
        rows = Some(x);
    }
    let parts: Vec<&Source> = outputs.iter().collect();
    let size = parts.first().map_or(0, |part| part.size());
    let output = match how.as_deref() {
        None => {
            let numbered = case.has_output("output_0");
            let names = if numbered { ["output_0", "output_1"] } else { ["output_forward", "output_backward"] };
            for (name, part) in names.into_iter().zip(parts) {
                network.output(name, part);
            }
            return Ok(network);
        }
        Some("concat") => network.concat(&outputs),
        Some("sum") => network.add(Layer::merge("add", parts.len(), size), &parts),
        Some("mul") => network.add(Layer::merge("multiply", parts.len(), size), &parts),
        Some("ave") => network.add(Layer::merge("average", parts.len(), size), &parts),
        Some(other) => return Err(ImportError::Unsupported(format!("argument merge_mode = {other:?}"))),
    };
    network.output("output", &output);
    Ok(network)
}

/// A recurrent layer.
fn recurrent(case: &mut Case<'_>) -> Result<Layer, ImportError> {
    // A case has successive calls or not, and its layout says which dimension is time.
    for argument in ["stateful", "time_major", "return_state", "trainable"] {
        case.ignore(argument);
    }
    // The forget bias is an initial value, baked into the bias.
    case.ignore_where(arguments::is_of_training);
    match case.cls.as_str() {
        "LSTM" => layer(case, CellKind::Lstm),
        "GRU" => layer(case, CellKind::Gru),
        "SimpleRNN" => layer(case, CellKind::Elman),
        "ConvLSTM1D" => conv_lstm::layer(case, 1),
        "ConvLSTM2D" => conv_lstm::layer(case, 2),
        "ConvLSTM3D" => conv_lstm::layer(case, 3),
        "CuDNNLSTM" if case.has_tensor("cudnn/kernel") => cudnn_layer(case, CellKind::Lstm),
        "CuDNNGRU" if case.has_tensor("cudnn/kernel") => cudnn_layer(case, CellKind::Gru),
        "CuDNNLSTM" => layer(case, CellKind::Lstm),
        "CuDNNGRU" => layer(case, CellKind::Gru),
        _ => case.unknown_class(),
    }
}

/// A layer with Keras's own weights or, whichever the class, with those that a layer of cuDNN has saved: its bias, twice
/// as long, tells them.
fn layer(case: &mut Case<'_>, kind: CellKind) -> Result<Layer, ImportError> {
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
    // Where nobody says it, the bias does.
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
    Ok(match kind {
        CellKind::Lstm => {
            let gate = case.activation("recurrent_activation", Activation::Sigmoid)?;
            layer
                .activation("gate_activation", gate)
                .activation("cell_activation", activation)
                .activation("output_activation", activation)
        }
        CellKind::Gru => {
            let gate = case.activation("recurrent_activation", Activation::Sigmoid)?;
            layer.activation("gate_activation", gate).activation("new_activation", activation)
        }
        _ => layer.activation("activation", activation),
    })
}

/// Blocks of rows in the canonical order.
fn ordered(kind: CellKind, tensor: Tensor) -> Tensor {
    match kind {
        CellKind::Gru => reordered(&tensor, gate::GRU_KERAS, gate::GRU),
        _ => tensor,
    }
}

/// A bias of the input side, then one of the recurrent side.
fn with_both_biases(layer: Layer, both: &Tensor) -> Layer {
    let rows = both.data.len() / 2;
    let (input, recurrent) = both.data.split_at(rows);
    let vector = |data: &[f32]| ordered(layer.kind, Tensor { shape: vec![rows], data: data.to_vec() });
    let (input, recurrent) = (vector(input), vector(recurrent));
    layer.tensor("input_bias", input).tensor("recurrent_bias", recurrent)
}

fn with_states(layer: Layer) -> Layer {
    let layer = layer.state("hidden", At::new("h"));
    if matches!(layer.kind, CellKind::Lstm | CellKind::ConvLstm) {
        layer.state("cell_state", At::new("c"))
    } else {
        layer
    }
}

/// `CuDNNLSTM` and `CuDNNGRU`: in each gate's block of columns a kernel holds cuDNN's matrix in its order of memory,
/// which is the canonical one. The case has the parameters of the layer that Keras loads them into as well.
fn cudnn_layer(case: &mut Case<'_>, kind: CellKind) -> Result<Layer, ImportError> {
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

/// The rows of every block of columns, one after the other, as a matrix with as many columns as it has rows.
fn unfolded(kernel: Named<'_>, gates: usize) -> Result<Tensor, ImportError> {
    let units = kernel.units(gates)?;
    let (rows, cols) = kernel.matrix()?;
    let block =
        |gate: usize| kernel.tensor.data.chunks(cols).flat_map(move |row| &row[gate * units..(gate + 1) * units]);
    Ok(Tensor { shape: vec![cols, rows], data: (0..gates).flat_map(block).copied().collect() })
}
