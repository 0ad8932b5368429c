//! Keras's recurrent layers, the same in Keras 2 and 3: `LSTM` (gate order i, f, c, o, the canonical one), `GRU` (order
//! z, r, h) and `SimpleRNN`, `Bidirectional` over two of them, ConvLSTMs, and `CuDNNLSTM` and `CuDNNGRU` of Keras 2. A
//! network that reverses a sequence processes the whole of it as one window.

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
mod part;
mod pointwise;
mod variables;
mod weights;

use serde_json::Map;
use tidegate::internals::{activation::Activation, cell::CellKind, gate};

use super::network::{Control, Direction, Idle, Network, Source};
use super::{case::Case, cudnn, layer::At, layer::Layer, weights::Named, weights::reordered};
use crate::{canonical::Tensor, error::Result};

pub(crate) use defaults::{Origin, check};
pub(crate) use file::{description, import_archive, import_hdf5, is_keras};
pub(crate) use hdf5::MAGIC;

pub(crate) fn convert(case: &mut Case<'_>) -> Result<Network> {
    case.control("mask", Control::Mask);
    // If a case does not set the argument, it has every output, whatever the default of the class is.
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

/// A recurrent layer in either direction. Backward outputs stay in the order in which they were computed.
fn directed(case: &mut Case<'_>) -> Result<Network> {
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

/// A layer in each direction. The two share all arguments other than those of `Bidirectional`; outputs of masked steps
/// are zero. With `last_only`, the output is the last output that each direction computes.
fn bidirectional(case: &mut Case<'_>, last_only: bool) -> Result<Network> {
    let units = case.sizes("units")?.unwrap_or_default();
    let class = |case: &mut Case<'_>, name| case.text(name).map(Option::unwrap_or_default);
    let (forward, backward) = (class(case, "forward")?, class(case, "backward")?);
    let how = match case.is_null("merge_mode") {
        true => None,
        false => Some(case.text("merge_mode")?.unwrap_or_else(|| "concat".to_owned())),
    };
    // Keras starts the name of the forward layer with this; the backward layer may have any name.
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
        let add = |network: &mut Network| Ok(network.directed(layer, &[&x], direction));
        outputs.push(network.renamed(|state| format!("{name}_{state}"), add)?);
        rows = Some(x);
    }
    match how {
        None => {
            let numbered = case.has_output("output_0");
            let names = if numbered { ["output_0", "output_1"] } else { ["output_forward", "output_backward"] };
            for (name, part) in names.into_iter().zip(&outputs) {
                network.output(name, part);
            }
        }
        Some(how) => {
            let output = layers::merged(&mut network, &outputs, &how)?;
            network.output("output", &output);
        }
    }
    Ok(network)
}

fn recurrent(case: &mut Case<'_>) -> Result<Layer> {
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

/// A layer with Keras's own weights or with weights saved by a cuDNN layer, whichever the class is. The bias of cuDNN
/// weights is twice as long.
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
    // If the argument is not set, the shape of the bias decides.
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
    let has_cell = matches!(layer.kind, CellKind::Lstm | CellKind::ConvLstm);
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
