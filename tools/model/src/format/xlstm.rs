//! sLSTM of NX-AI's xlstm; with the argument `function` set to `lstm`, its cell is an LSTM with heads. The gates i, f, z, o
//! are the canonical i, f, g, o. The parameter layout depends on the backend: `vanilla` has a recurrent kernel [heads,
//! gates × out, in] and a bias [gates, heads, out], `cuda` a kernel [heads, in, gates × out] and a bias [heads, gates,
//! out].

use tidegate::internals::{activation::Activation, cell::CellKind};

use super::{case::Case, layer::At, layer::Layer, network::Network, refuse::unsupported_if, weights::Named};
use crate::{canonical::Tensor, error::ImportError, error::Result};

const GATES: usize = 4;

pub(crate) fn convert(case: &mut Case<'_>) -> Result<Network> {
    match case.cls.as_str() {
        "sLSTMCell" | "sLSTMCell(function=slstm)" | "sLSTMCell(function=lstm)" => Ok(Network::of(cell(case, "state")?)),
        "sLSTMLayer" => layer(case),
        _ => case.unknown_class(),
    }
}

/// A causal convolution of each channel before the first two gates, the cell, and a normalization of each head.
///
/// The authors' layer passes the gates to the cell in the order `fgate`, `igate`, `zgate`, `ogate`; the cell reads them
/// as i, f, z, o.
fn layer(case: &mut Case<'_>) -> Result<Network> {
    case.ignore("dropout");
    let cell = cell(case, "slstm_state")?;
    let Some(&heads) = cell.extents.get("heads") else {
        return Err(ImportError::Unsupported("argument function = \"lstm\" of a layer".into()));
    };
    let units = cell.hidden_size;
    case.units("embedding_dim", units)?;
    let mut network = Network::new();
    let x = network.input("input", units);
    let convolved = match case.size("conv1d_kernel_size")?.unwrap_or(4) {
        0 => x.clone(),
        // The authors' code drops as many steps from the end as it adds before the first; if it adds none, it drops
        // all.
        1 => return Err(ImportError::Unsupported("argument conv1d_kernel_size = 1".into())),
        taps => {
            let window = Layer::new(CellKind::Window, units, taps * units);
            let rows = window.extent("length", taps).extent("prefill", taps - 1);
            let rows = network.add(rows, &[&x]);
            network.add(convolution(case, units, taps)?, &[&rows])
        }
    };
    let mut gates = Vec::with_capacity(GATES);
    for (name, source) in [("fgate", &convolved), ("igate", &convolved), ("zgate", &x), ("ogate", &x)] {
        let name = format!("{name}.weight");
        let weights = case.named(&name)?;
        let part = units / heads;
        let data = weights.shaped(&[heads, part, part], units)?.data;
        let dense = Layer::new(CellKind::Dense, units, units).extent("groups", heads);
        gates.push(network.add(dense.tensor("weights", Tensor { shape: vec![units, part], data }), &[source]));
    }
    let y = network.add(cell, &gates.iter().collect::<Vec<_>>());
    let mut norm = Layer::new(CellKind::LayerNorm, units, units).extent("groups", heads).param("epsilon", 1e-5);
    if case.flag("group_norm_weight", true)? {
        // The gain is stored as its difference from 1.
        let mut gain = case.named("group_norm.weight")?.shaped(&[units], units)?;
        gain.data.iter_mut().for_each(|gain| *gain += 1.0);
        norm = norm.option("gain").tensor("gain", gain);
    }
    let output = network.add(norm, &[&y]);
    network.output("output", &output);
    Ok(network)
}

/// SiLU of `conv1d.conv`, `[units, 1, taps]`, over the last steps, the oldest first.
fn convolution(case: &mut Case<'_>, units: usize, taps: usize) -> Result<Layer> {
    let weights = case.named("conv1d.conv.weight")?;
    let data = weights.shaped(&[units, 1, taps], units)?.data;
    let bias = case.named("conv1d.conv.bias")?.shaped(&[units], units)?;
    Ok(Layer::new(CellKind::DepthwiseConv, taps * units, units)
        .extent("in_height", taps)
        .extent("in_channels", units)
        .extent("kernel_height", taps)
        .activation("activation", Activation::Silu)
        .tensor("weights", Tensor { shape: vec![units, taps], data })
        .tensor("bias", bias))
}

/// The cell; its four states are one tensor. Arguments that have no effect after training, or that only the other
/// backend reads, are ignored.
fn cell(case: &mut Case<'_>, state: &str) -> Result<Layer> {
    case.ignore_all(&["bias_init", "recurrent_weight_init", "_block_idx", "_num_blocks", "gradient_recurrent_cut"]);
    case.ignore_all(&["batch_size", "enable_automatic_mixed_precision", "constants", "gradient_recurrent_clipval"]);
    // The layout of the case defines the dimensions.
    case.ignore_all(&["internal_input_shape", "input_shape", "output_shape"]);
    // Only the other backend clips.
    if case.text("backend")?.as_deref() == Some("vanilla") {
        case.ignore("forward_clipval");
    }
    let set = case.number("initial_val")?.is_some_and(|value| value != 0.0);
    unsupported_if(set, "argument initial_val that is not zero")?;
    let plain = match case.text("function")?.as_deref() {
        None => case.cls.contains("function=lstm"),
        Some("slstm") => false,
        Some("lstm") => true,
        Some(other) => return Err(ImportError::Unsupported(format!("argument function = {other:?}"))),
    };
    for number in ["", "_b", "_r", "_w", "_g", "_s", "_a"] {
        must_be(case, &format!("dtype{number}"), "float32")?;
    }
    // `num_states` follows from the function.
    case.size("num_states")?;
    case.units("num_gates", GATES)?;
    let layer = slstm(case.tensor("_recurrent_kernel_")?, case.tensor("_bias_")?)?;
    case.units("hidden_size", layer.hidden_size)?;
    case.units("num_heads", layer.extents["heads"])?;
    // The same parameters in the layout of the constructor.
    case.optional("ext/recurrent_kernel")?;
    case.optional("ext/bias")?;
    let states: &[&str] =
        if plain { &["hidden", "cell_state"] } else { &["hidden", "cell_state", "normalizer", "stabilizer"] };
    let many = plain && layer.hidden_size > MAX_PLAIN;
    unsupported_if(many, format_args!("function = \"lstm\" with more than {MAX_PLAIN} units"))?;
    let layer = if plain { lstm(&layer) } else { layer };
    let parts = states.iter().enumerate();
    Ok(parts.fold(layer, |layer, (index, name)| layer.state(name, At::new(state).index(index))))
}

/// Maximum number of units of an LSTM with an input weight of 1 for each preactivation.
const MAX_PLAIN: usize = 1024;

/// An LSTM that reads the preactivations of this sLSTM, with its recurrent weights and bias.
fn lstm(slstm: &Layer) -> Layer {
    let (units, heads) = (slstm.hidden_size, slstm.extents["heads"]);
    let (head, rows) = (units / heads, GATES * units);
    let mut input = vec![0.0; rows * rows];
    input.iter_mut().step_by(rows + 1).for_each(|weight| *weight = 1.0);
    let mut recurrent = vec![0.0; rows * units];
    let parts = slstm.tensors["recurrent_weights"].data.chunks(head);
    for ((row, weights), part) in recurrent.chunks_mut(units).enumerate().zip(parts) {
        let first = row % units / head * head;
        weights[first..first + head].copy_from_slice(part);
    }
    Layer::new(CellKind::Lstm, rows, units)
        .tensor("input_weights", Tensor { shape: vec![rows, rows], data: input })
        .tensor("recurrent_weights", Tensor { shape: vec![rows, units], data: recurrent })
        .tensor("input_bias", slstm.tensors["bias"].clone())
}

fn must_be(case: &mut Case<'_>, argument: &str, only: &str) -> Result<()> {
    match case.text(argument)? {
        Some(found) if found != only => Err(ImportError::Unsupported(format!("argument {argument} = {found:?}"))),
        _ => Ok(()),
    }
}

/// `sLSTMCell` from `_recurrent_kernel_` and `_bias_`, in the layout of either backend.
pub(crate) fn slstm(kernel: &Tensor, bias: &Tensor) -> Result<Layer> {
    let named = Named { name: "_recurrent_kernel_", tensor: kernel };
    let (heads, head, is_vanilla) = match *kernel.shape {
        [heads, rows, cols] if heads > 0 && cols > 0 && rows == GATES * cols => (heads, cols, true),
        [heads, rows, cols] if heads > 0 && rows > 0 && cols == GATES * rows => (heads, rows, false),
        _ => return named.refuse("it must be [heads, 4 · units, units] or [heads, units, 4 · units]".into()),
    };
    let units = heads * head;
    named.shaped(&kernel.shape, units)?;
    let bias = Named { name: "_bias_", tensor: bias }.shaped(&[GATES * units], units)?;
    let mut recurrent = Vec::with_capacity(kernel.data.len());
    let mut ordered = Vec::with_capacity(bias.data.len());
    for row in 0..GATES * units {
        let (gate, part, out) = (row / units, row % units / head, row % head);
        let own = (part * GATES + gate) * head + out;
        ordered.push(bias.data[if is_vanilla { row } else { own }]);
        let at =
            |col| if is_vanilla { own * head + col } else { (part * head + col) * GATES * head + gate * head + out };
        recurrent.extend((0..head).map(|col| kernel.data[at(col)]));
    }
    Ok(Layer::new(CellKind::Slstm, GATES * units, units)
        .option("preactivated")
        .extent("heads", heads)
        .tensor("recurrent_weights", Tensor { shape: vec![GATES * units, head], data: recurrent })
        .tensor("bias", Tensor { shape: vec![GATES * units], data: ordered }))
}
