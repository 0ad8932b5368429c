//! Converts the tensors of TensorFlow 1's cells to canonical layers, for the graph importer and the checkpoint importer.
//!
//! A kernel is [input + hidden, gates * units]: rows of x first, then rows of h.

use tidegate::internals::gate::{Gate, LSTM, LSTM_TF1};
use tidegate::internals::{activation::Activation, cell::CellKind};

pub(super) use crate::format::refuse::unsupported_if;
use crate::format::weights::{Named, add_forget_bias, reordered, stacked, zeros};
use crate::format::{case::Case, layer::Layer};
use crate::{canonical::Tensor, error::ImportError, error::Result};

/// A layer, or the reason why the tensors do not fit: a wrong shape, or a clip that is not positive.
pub type Converted = Result<Layer>;

pub(super) fn unsupported<T>(what: impl Into<String>) -> Result<T> {
    Err(ImportError::Unsupported(what.into()))
}

/// Optional parts of an `LSTMCell` besides its kernel and bias.
#[derive(Clone, Copy, Debug)]
pub struct LstmOptions<'a> {
    /// Added to the forget gate by TensorFlow at run time; folded into the bias here.
    pub forget_bias: f32,
    /// `w_i_diag`, `w_f_diag`, `w_o_diag`, each `[units]`.
    pub peepholes: Option<[&'a Tensor; 3]>,
    /// `projection/kernel`, [units, projected].
    pub projection: Option<&'a Tensor>,
    /// c is clipped to plus and minus this value.
    pub cell_clip: Option<f32>,
    /// The projected h is clipped to plus and minus this value. Like TensorFlow, this is ignored without a projection.
    pub projection_clip: Option<f32>,
    /// Activation of the candidate and of the output.
    pub activation: Activation,
    /// Order of the gates in the kernel.
    pub order: [Gate; 4],
}

impl Default for LstmOptions<'_> {
    fn default() -> Self {
        Self {
            forget_bias: 1.0,
            peepholes: None,
            projection: None,
            cell_clip: None,
            projection_clip: None,
            activation: Activation::Tanh,
            order: LSTM_TF1,
        }
    }
}

/// `LSTMCell`: kernel [input + output, 4 * units], bias [4 * units].
pub(crate) fn lstm(kernel: &Tensor, bias: &Tensor, options: LstmOptions<'_>) -> Converted {
    let kernel = Named { name: "kernel", tensor: kernel };
    let units = kernel.units(4)?;
    let projection = options.projection.map(|tensor| Named { name: "projection/kernel", tensor });
    let output = output_size(projection, units)?;
    let (input_weights, recurrent_weights) = kernel.split_kernel(output)?;
    let ordered = |tensor: &Tensor| reordered(tensor, options.order, LSTM);
    let mut bias = ordered(&Named { name: "bias", tensor: bias }.shaped(&[4 * units], units)?);
    add_forget_bias(&mut bias, options.forget_bias);
    let mut layer = Layer::new(CellKind::Lstm, input_weights.shape[1], units)
        .tensor("input_weights", ordered(&input_weights))
        .tensor("recurrent_weights", ordered(&recurrent_weights))
        .tensor("input_bias", bias)
        .activation("cell_activation", options.activation)
        .activation("output_activation", options.activation);
    if let Some(peepholes) = options.peepholes {
        layer.options.push("peephole");
        let names = [("w_i_diag", "input_peephole"), ("w_f_diag", "forget_peephole"), ("w_o_diag", "output_peephole")];
        for ((name, canonical), tensor) in names.into_iter().zip(peepholes) {
            layer = layer.tensor(canonical, Named { name, tensor }.shaped(&[units], units)?);
        }
    }
    layer = clipped(layer, "cell_clip", "cell_clip", options.cell_clip)?;
    if projection.is_none() {
        return Ok(layer);
    }
    clipped(projected(layer, projection, output)?, "projection_clip", "proj_clip", options.projection_clip)
}

/// Number of output features of a cell that may have a projection [units, output].
pub(super) fn output_size(projection: Option<Named<'_>>, units: usize) -> Result<usize> {
    projection.map_or(Ok(units), |projection| Ok(projection.matrix()?.1))
}

/// The layer with its projection to `output` features, if it has one.
pub(super) fn projected(layer: Layer, projection: Option<Named<'_>>, output: usize) -> Converted {
    let Some(projection) = projection else { return Ok(layer) };
    let units = layer.hidden_size;
    projection.shaped(&[units, output], units)?;
    let layer = layer.option("projection").tensor("projection_weights", projection.transposed(0, units)?);
    Ok(Layer { output_size: output, ..layer })
}

/// The layer with a clip, if it has one. A clip of 0 is refused: in canonical models, 0 means no clip.
pub(super) fn clipped(layer: Layer, param: &'static str, argument: &str, clip: Option<f32>) -> Converted {
    match clip {
        None => Ok(layer),
        Some(clip) if clip > 0.0 => Ok(layer.param(param, clip)),
        Some(clip) => unsupported(format!("argument {argument} = {clip}")),
    }
}

/// `CudnnCompatibleLSTMCell`: an `LSTMCell` that adds no forget bias at run time.
///
/// # Errors
/// If a tensor has the wrong shape.
pub fn cudnn_compatible_lstm(kernel: &Tensor, bias: &Tensor) -> Converted {
    lstm(kernel, bias, LstmOptions { forget_bias: 0.0, ..LstmOptions::default() })
}

/// `GRUCell`: the gates r, u have a kernel [input + units, 2 * units] and a bias, the candidate a kernel [input + units,
/// units] and a bias. The reset gate is applied before the product. r, u, c are the canonical r, z, n.
pub(crate) fn gru(gates: [&Tensor; 2], candidate: [&Tensor; 2], activation: Activation) -> Converted {
    let kernel = Named { name: "gates/kernel", tensor: gates[0] };
    let units = kernel.units(2)?;
    let (gates_input, gates_recurrent) = kernel.split_kernel(units)?;
    let input = gates_input.shape[1];
    let kernel = Named { name: "candidate/kernel", tensor: candidate[0] };
    kernel.shaped(&[input + units, units], units)?;
    let (candidate_input, candidate_recurrent) = kernel.split_kernel(units)?;
    let gates_bias = Named { name: "gates/bias", tensor: gates[1] }.shaped(&[2 * units], units)?;
    let candidate_bias = Named { name: "candidate/bias", tensor: candidate[1] }.shaped(&[units], units)?;
    Ok(Layer::new(CellKind::Gru, input, units)
        .tensor("input_weights", stacked([&gates_input, &candidate_input]))
        .tensor("recurrent_weights", stacked([&gates_recurrent, &candidate_recurrent]))
        .tensor("input_bias", stacked([&gates_bias, &candidate_bias]))
        .activation("new_activation", activation))
}

/// `CudnnCompatibleGRUCell`: gates as in `GRUCell`. The candidate has an input projection [input, units] and a hidden
/// projection [units, units], each with a bias; the reset gate is applied after the product.
///
/// # Errors
/// If a tensor has the wrong shape.
pub fn cudnn_compatible_gru(
    gates_kernel: &Tensor,
    gates_bias: &Tensor,
    input_projection: [&Tensor; 2],
    hidden_projection: [&Tensor; 2],
    activation: Activation,
) -> Converted {
    let gates = Named { name: "gates/kernel", tensor: gates_kernel };
    let units = gates.units(2)?;
    let (gates_input, gates_recurrent) = gates.split_kernel(units)?;
    let input = gates_input.shape[1];
    let gates_bias = Named { name: "gates/bias", tensor: gates_bias }.shaped(&[2 * units], units)?;
    let side = |names: [&str; 2], [kernel, bias]: [&Tensor; 2], rows: usize| {
        let kernel = Named { name: names[0], tensor: kernel };
        kernel.shaped(&[rows, units], units)?;
        let bias = Named { name: names[1], tensor: bias }.shaped(&[units], units)?;
        Ok::<_, ImportError>((kernel.transposed(0, rows)?, bias))
    };
    let names = ["candidate/input_projection/kernel", "candidate/input_projection/bias"];
    let (input_weights, input_bias) = side(names, input_projection, input)?;
    let names = ["candidate/hidden_projection/kernel", "candidate/hidden_projection/bias"];
    let (recurrent_weights, recurrent_bias) = side(names, hidden_projection, units)?;
    Ok(Layer::new(CellKind::Gru, input, units)
        .option("reset_after")
        .tensor("input_weights", stacked([&gates_input, &input_weights]))
        .tensor("recurrent_weights", stacked([&gates_recurrent, &recurrent_weights]))
        .tensor("input_bias", stacked([&gates_bias, &input_bias]))
        .tensor("recurrent_bias", stacked([&zeros(2 * units), &recurrent_bias]))
        .activation("new_activation", activation))
}

/// A layer with the weights of a kernel [input + units, gates * units], and the bias [gates * units].
pub(super) fn fused(kind: CellKind, kernel: &Tensor, bias: &Tensor, gates: usize) -> Result<(Layer, Tensor)> {
    let kernel = Named { name: "kernel", tensor: kernel };
    let units = kernel.units(gates)?;
    let (input_weights, recurrent_weights) = kernel.split_kernel(units)?;
    let bias = Named { name: "bias", tensor: bias }.shaped(&[gates * units], units)?;
    let layer = Layer::new(kind, input_weights.shape[1], units);
    Ok((layer.tensor("input_weights", input_weights).tensor("recurrent_weights", recurrent_weights), bias))
}

/// `UGRNNCell`: kernel `[input + units, 2 * units]`, bias `[2 * units]`, blocks in the order g, c.
pub(super) fn ugrnn(kernel: &Tensor, bias: &Tensor, forget_bias: f32, activation: Activation) -> Converted {
    let (layer, mut bias) = fused(CellKind::Ugrnn, kernel, bias, 2)?;
    bias.data[..layer.hidden_size].iter_mut().for_each(|value| *value += forget_bias);
    Ok(layer.tensor("input_bias", bias).activation("candidate_activation", activation))
}

/// `BasicRNNCell`: kernel `[input + units, units]`, bias `[units]`.
///
/// # Errors
/// If a tensor has the wrong shape.
pub fn basic_rnn(kernel: &Tensor, bias: &Tensor, activation: Activation) -> Converted {
    let (layer, bias) = fused(CellKind::Elman, kernel, bias, 1)?;
    Ok(layer.tensor("input_bias", bias).activation("activation", activation))
}

/// `IndRNNCell`: kernel_w [input, units], kernel_u [1, units], bias `[units]`.
pub(super) fn indrnn(tensors: [&Tensor; 3], activation: Activation) -> Converted {
    let [input_weights, recurrent_weights, bias] = independent(tensors, 1)?;
    Ok(Layer::new(CellKind::Indrnn, input_weights.shape[1], bias.shape[0])
        .tensor("input_weights", input_weights)
        .tensor("recurrent_weights", recurrent_weights)
        .tensor("bias", bias)
        .activation("activation", activation))
}

/// `IndyLSTMCell`: kernel_w [input, 4 * units], kernel_u [1, 4 * units], bias [4 * units]; i, j, f, o.
pub(super) fn indy_lstm(tensors: [&Tensor; 3], forget_bias: f32, activation: Activation) -> Converted {
    let [input_weights, recurrent_weights, mut bias] =
        independent(tensors, 4)?.map(|tensor| reordered(&tensor, LSTM_TF1, LSTM));
    add_forget_bias(&mut bias, forget_bias);
    Ok(Layer::new(CellKind::IndyLstm, input_weights.shape[1], bias.shape[0] / 4)
        .tensor("input_weights", input_weights)
        .tensor("recurrent_weights", recurrent_weights)
        .tensor("bias", bias)
        .activation("cell_activation", activation)
        .activation("output_activation", activation))
}

/// `IndyGRUCell`: as [`gru`], but with separate kernels for the input [input, gates * units] and the state [1, gates *
/// units]. `gates` and `candidate` each hold these two kernels and the bias.
pub(super) fn indy_gru(gates: [&Tensor; 3], candidate: [&Tensor; 3], activation: Activation) -> Converted {
    let gates = independent(gates, 2)?;
    let (input, units) = (gates[0].shape[1], gates[2].shape[0] / 2);
    Named { name: "candidate/kernel", tensor: candidate[0] }.shaped(&[input, units], units)?;
    let candidate = independent(candidate, 1)?;
    let both = |part: usize| stacked([&gates[part], &candidate[part]]);
    Ok(Layer::new(CellKind::IndyGru, input, units)
        .tensor("input_weights", both(0))
        .tensor("recurrent_weights", both(1))
        .tensor("bias", both(2))
        .activation("new_activation", activation))
}

/// The input kernel, the state kernel [1, gates * units] as a vector, and the bias.
fn independent([kernel_w, kernel_u, bias]: [&Tensor; 3], gates: usize) -> Result<[Tensor; 3]> {
    let kernel = Named { name: "kernel_w", tensor: kernel_w };
    let (units, (input, cols)) = (kernel.units(gates)?, kernel.matrix()?);
    let recurrent = Named { name: "kernel_u", tensor: kernel_u }.shaped(&[1, cols], units)?;
    let recurrent = Tensor { shape: vec![cols], data: recurrent.data };
    Ok([kernel.transposed(0, input)?, recurrent, Named { name: "bias", tensor: bias }.shaped(&[cols], units)?])
}

/// `act(x K + b)`: kernel [input, output], bias `[output]`.
pub(super) fn dense(kernel: &Tensor, bias: &Tensor, activation: Activation) -> Converted {
    let kernel = Named { name: "kernel", tensor: kernel };
    let (input, output) = kernel.matrix()?;
    let bias = Named { name: "bias", tensor: bias }.shaped(&[output], output)?;
    Ok(Layer::dense(kernel.transposed(0, input)?, Some(bias), activation))
}

/// Joins a kernel that is split by rows into `path_0`, `path_1`, ..., `count` of them.
pub(super) fn numbered(case: &mut Case<'_>, path: &str, count: usize) -> Result<Tensor> {
    let parts: Result<Vec<_>> = (0..count).map(|k| case.tensor(&format!("{path}_{k}"))).collect();
    unsharded(&parts?)
}

/// Joins a kernel that is split by rows into `part_0`, `part_1`, ...
pub(super) fn unsharded(parts: &[&Tensor]) -> Result<Tensor> {
    let Some((first, rest)) = parts.split_first() else {
        return Err(ImportError::MissingTensor { tensor: "kernel/part_0".into() });
    };
    let (_, width) = Named { name: "kernel/part_0", tensor: first }.matrix()?;
    for tensor in rest {
        let part = Named { name: "kernel/part", tensor };
        if part.matrix()?.1 != width {
            return part.refuse(format!("part 0 has {width} columns"));
        }
    }
    Ok(stacked(parts.iter().copied()))
}
