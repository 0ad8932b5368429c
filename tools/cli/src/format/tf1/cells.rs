//! What turns the tensors and constructor arguments of TensorFlow 1's cells into canonical layers. The graph
//! importer and checkpoints both come through here.
//!
//! A kernel is [input + hidden, gates * units]: rows of x first, then rows of h.

use tidegate::activation::Activation;
use tidegate::cell::CellKind;
use tidegate::gate::{Gate, LSTM, LSTM_TF1};

use crate::canonical::Tensor;
use crate::error::ImportError;
use crate::format::conv_lstm::{self, Axis, Kernel, Padding};
use crate::format::layer::Layer;
use crate::format::weights::{Named, add_forget_bias, reordered, stacked, zeros};

/// What `LSTMCell` can have beyond its kernel and bias.
#[derive(Clone, Copy, Debug)]
pub struct LstmOptions<'a> {
    /// Added to the forget gate at run time; folded into the bias here.
    pub forget_bias: f32,
    /// `w_i_diag`, `w_f_diag`, `w_o_diag`, each `[units]`.
    pub peepholes: Option<[&'a Tensor; 3]>,
    /// `projection/kernel`, [units, projected].
    pub projection: Option<&'a Tensor>,
    /// c is clipped to plus and minus this.
    pub cell_clip: Option<f32>,
    /// The projected h is clipped to plus and minus this; without a projection TensorFlow ignores it, as we do.
    pub projection_clip: Option<f32>,
    /// Of the candidate and of the output.
    pub activation: Activation,
    /// Order of the kernel's blocks.
    pub order: [Gate; 4],
}

impl Default for LstmOptions<'_> {
    /// The constructor's defaults.
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

/// `BasicLSTMCell`: kernel [input + units, 4 * units], bias [4 * units].
///
/// # Errors
/// If a tensor has another shape.
pub fn basic_lstm(
    kernel: &Tensor,
    bias: &Tensor,
    forget_bias: f32,
    activation: Activation,
) -> Result<Layer, ImportError> {
    lstm(kernel, bias, LstmOptions { forget_bias, activation, ..LstmOptions::default() })
}

/// `LSTMCell`: kernel [input + output, 4 * units], bias [4 * units].
///
/// # Errors
/// If a tensor has another shape, or a clip is not positive.
pub fn lstm(kernel: &Tensor, bias: &Tensor, options: LstmOptions<'_>) -> Result<Layer, ImportError> {
    let kernel = Named { name: "kernel", tensor: kernel };
    let units = kernel.units(4)?;
    let projection = options.projection.map(|tensor| Named { name: "projection/kernel", tensor });
    let output = match projection {
        Some(projection) => projection.matrix()?.1,
        None => units,
    };
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
    if let Some(clip) = options.cell_clip {
        layer.params.insert("cell_clip", positive("cell_clip", clip)?);
    }
    if let Some(projection) = projection {
        layer.options.push("projection");
        layer.output_size = output;
        projection.shaped(&[units, output], units)?;
        layer = layer.tensor("projection_weights", projection.transposed(0, units)?);
        if let Some(clip) = options.projection_clip {
            layer.params.insert("projection_clip", positive("proj_clip", clip)?);
        }
    }
    Ok(layer)
}

/// `GLSTMCell`: for each group a kernel [(input + output) / groups, 4 * units / groups] in the order i, j, f, o; biases
/// i, f, j, o of all units; projection [units, output]. The activation is that of the output; the candidate has tanh.
///
/// # Errors
/// If there is no kernel, or a tensor has another shape.
pub fn glstm(
    kernels: &[&Tensor],
    biases: [&Tensor; 4],
    forget_bias: f32,
    projection: Option<&Tensor>,
    activation: Activation,
) -> Result<Layer, ImportError> {
    let Some(&first) = kernels.first() else {
        return Err(ImportError::MissingTensor { tensor: "group0/kernel".into() });
    };
    let (groups, part) = (kernels.len(), Named { name: "group0/kernel", tensor: first }.units(4)?);
    let units = groups * part;
    let projection = projection.map(|tensor| Named { name: "projection/kernel", tensor });
    let output = match projection {
        Some(projection) => projection.matrix()?.1,
        None => units,
    };
    if output % groups != 0 {
        return Err(ImportError::Unsupported(format!("an output of {output} features in {groups} groups")));
    }
    let mut parts = Vec::new();
    for &tensor in kernels {
        let kernel = Named { name: "group/kernel", tensor };
        kernel.shaped(&first.shape, units)?;
        let (input, recurrent) = kernel.split_kernel(output / groups)?;
        parts.push((reordered(&input, LSTM_TF1, LSTM), reordered(&recurrent, LSTM_TF1, LSTM)));
    }
    let (inputs, recurrents): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
    let input_weights = interleaved(&inputs, LSTM.len());
    let vector = |tensor| Named { name: "bias", tensor }.shaped(&[units], units);
    let biases = biases.into_iter().map(vector).collect::<Result<Vec<_>, _>>()?;
    let mut bias = stacked(&biases);
    add_forget_bias(&mut bias, forget_bias);
    let mut layer = Layer::new(CellKind::Glstm, groups * input_weights.shape[1], units)
        .extent("groups", groups)
        .tensor("input_weights", input_weights)
        .tensor("recurrent_weights", interleaved(&recurrents, LSTM.len()))
        .tensor("input_bias", bias)
        .activation("output_activation", activation);
    if let Some(projection) = projection {
        projection.shaped(&[units, output], units)?;
        layer = layer.option("projection").tensor("projection_weights", projection.transposed(0, units)?);
        layer.output_size = output;
    }
    Ok(layer)
}

/// Matrices of one shape, each with so many blocks of rows: block 0 of each, then block 1 of each.
fn interleaved(parts: &[Tensor], blocks: usize) -> Tensor {
    let mut whole = Tensor { shape: vec![0, 0], data: Vec::new() };
    for block in 0..blocks {
        for part in parts {
            let len = part.data.len() / blocks;
            whole.data.extend(&part.data[block * len..(block + 1) * len]);
            whole.shape = vec![parts.len() * part.shape[0], part.shape[1]];
        }
    }
    whole
}

/// `NASCell`: kernel [input, 8 * units], recurrent kernel [output, 8 * units], bias [8 * units], projection
/// [units, output].
///
/// # Errors
/// If a tensor has another shape.
pub fn nas(
    kernel: &Tensor,
    recurrent_kernel: &Tensor,
    bias: Option<&Tensor>,
    projection: Option<&Tensor>,
) -> Result<Layer, ImportError> {
    let kernel = Named { name: "kernel", tensor: kernel };
    let units = kernel.units(8)?;
    let (input, _) = kernel.matrix()?;
    let recurrent = Named { name: "recurrent_kernel", tensor: recurrent_kernel };
    let (output, _) = recurrent.matrix()?;
    recurrent.shaped(&[output, 8 * units], units)?;
    let mut layer = Layer::new(CellKind::Nas, input, units)
        .tensor("input_weights", kernel.transposed(0, input)?)
        .tensor("recurrent_weights", recurrent.transposed(0, output)?);
    if let Some(bias) = bias {
        let bias = Named { name: "bias", tensor: bias }.shaped(&[8 * units], units)?;
        layer = layer.tensor("recurrent_bias", bias);
    }
    if let Some(projection) = projection {
        let projection = Named { name: "projection_weights", tensor: projection };
        projection.shaped(&[units, output], units)?;
        layer = layer.option("projection").tensor("projection_weights", projection.transposed(0, units)?);
        layer.output_size = output;
    }
    Ok(layer)
}

/// `ConvLSTMCell` over an input `[lengths.., channels]`: kernel `[taps.., channels + filters, 4 * filters]`, of which
/// the first channels see x and the others h, and biases `[4 * filters]`, in the order i, j, f, o. With `skip` x
/// stands beside h in what goes out. (There TensorFlow hands on as h what goes out; its next step then fails.)
///
/// # Errors
/// If a tensor has another shape.
pub fn conv_lstm(
    kernel: &Tensor,
    biases: Option<&Tensor>,
    input_shape: &[usize],
    forget_bias: f32,
    skip: bool,
) -> Result<Layer, ImportError> {
    let Some((&channels, lengths)) = input_shape.split_last() else {
        return Err(ImportError::Unsupported("a ConvLSTM over no axis".into()));
    };
    let named = Named { name: "kernel", tensor: kernel };
    let kernel = Kernel::read(named, lengths.len())?;
    let filters = kernel.filters;
    if kernel.channels.checked_sub(filters) != Some(channels) {
        return named.refuse(format!("{filters} filters over {channels} channels must see {}", filters + channels));
    }
    let mut bias = match biases {
        Some(tensor) => Named { name: "biases", tensor }.shaped(&[4 * filters], filters)?,
        None => zeros(4 * filters),
    };
    bias = reordered(&bias, LSTM_TF1, LSTM);
    add_forget_bias(&mut bias, forget_bias);
    let axis = |(&length, &kernel)| Axis { length, kernel, stride: 1, dilation: 1 };
    let axes: Vec<Axis> = lengths.iter().zip(kernel.taps).map(axis).collect();
    let layer = conv_lstm::layer(&axes, channels, filters, Padding::Same)?
        .tensor("input_weights", reordered(&kernel.weights(0..channels)?, LSTM_TF1, LSTM))
        .tensor("recurrent_weights", reordered(&kernel.weights(channels..kernel.channels)?, LSTM_TF1, LSTM))
        .tensor("bias", bias);
    let output_size = layer.input_size + layer.output_size;
    Ok(if skip { Layer { output_size, ..layer.option("skip") } } else { layer })
}

/// `CudnnCompatibleLSTMCell`: an `LSTMCell` without a forget bias at run time.
///
/// # Errors
/// If a tensor has another shape.
pub fn cudnn_compatible_lstm(kernel: &Tensor, bias: &Tensor) -> Result<Layer, ImportError> {
    basic_lstm(kernel, bias, 0.0, Activation::Tanh)
}

/// `GRUCell`: gates [input + units, 2 * units] in the order r, u; candidate [input + units, units]; reset before the
/// product. r, u, c are the canonical r, z, n.
///
/// # Errors
/// If a tensor has another shape.
pub fn gru(
    gates_kernel: &Tensor,
    gates_bias: &Tensor,
    candidate_kernel: &Tensor,
    candidate_bias: &Tensor,
    activation: Activation,
) -> Result<Layer, ImportError> {
    let gates = Named { name: "gates/kernel", tensor: gates_kernel };
    let units = gates.units(2)?;
    let (gates_input, gates_recurrent) = gates.split_kernel(units)?;
    let input = gates_input.shape[1];
    let candidate = Named { name: "candidate/kernel", tensor: candidate_kernel };
    candidate.shaped(&[input + units, units], units)?;
    let (candidate_input, candidate_recurrent) = candidate.split_kernel(units)?;
    let gates_bias = Named { name: "gates/bias", tensor: gates_bias }.shaped(&[2 * units], units)?;
    let candidate_bias = Named { name: "candidate/bias", tensor: candidate_bias }.shaped(&[units], units)?;
    Ok(Layer::new(CellKind::Gru, input, units)
        .tensor("input_weights", stacked([&gates_input, &candidate_input]))
        .tensor("recurrent_weights", stacked([&gates_recurrent, &candidate_recurrent]))
        .tensor("input_bias", stacked([&gates_bias, &candidate_bias]))
        .activation("new_activation", activation))
}

/// `CudnnCompatibleGRUCell`: gates as in [`gru`]; the candidate has an input projection [input, units] and a hidden
/// projection [units, units], each with its bias; reset after the product.
///
/// # Errors
/// If a tensor has another shape.
pub fn cudnn_compatible_gru(
    gates_kernel: &Tensor,
    gates_bias: &Tensor,
    input_projection: [&Tensor; 2],
    hidden_projection: [&Tensor; 2],
    activation: Activation,
) -> Result<Layer, ImportError> {
    let gates = Named { name: "gates/kernel", tensor: gates_kernel };
    let units = gates.units(2)?;
    let (gates_input, gates_recurrent) = gates.split_kernel(units)?;
    let input = gates_input.shape[1];
    let gates_bias = Named { name: "gates/bias", tensor: gates_bias }.shaped(&[2 * units], units)?;
    let part = |name, tensor, shape: &[usize]| Named { name, tensor }.shaped(shape, units);
    let kernel = part("candidate/input_projection/kernel", input_projection[0], &[input, units])?;
    let input_bias = part("candidate/input_projection/bias", input_projection[1], &[units])?;
    let recurrent = part("candidate/hidden_projection/kernel", hidden_projection[0], &[units, units])?;
    let recurrent_bias = part("candidate/hidden_projection/bias", hidden_projection[1], &[units])?;
    let transposed = |tensor: &Tensor, rows| Named { name: "candidate", tensor }.transposed(0, rows);
    let mut layer = Layer::new(CellKind::Gru, input, units)
        .tensor("input_weights", stacked([&gates_input, &transposed(&kernel, input)?]))
        .tensor("recurrent_weights", stacked([&gates_recurrent, &transposed(&recurrent, units)?]))
        .tensor("input_bias", stacked([&gates_bias, &input_bias]))
        .tensor("recurrent_bias", stacked([&zeros(2 * units), &recurrent_bias]))
        .activation("new_activation", activation);
    layer.options.push("reset_after");
    Ok(layer)
}

/// `UGRNNCell`: kernel `[input + units, 2 * units]`, bias `[2 * units]`, blocks in the order g, c.
///
/// # Errors
/// If a tensor has another shape.
pub fn ugrnn(kernel: &Tensor, bias: &Tensor, forget_bias: f32, activation: Activation) -> Result<Layer, ImportError> {
    let kernel = Named { name: "kernel", tensor: kernel };
    let units = kernel.units(2)?;
    let (input_weights, recurrent_weights) = kernel.split_kernel(units)?;
    let mut bias = Named { name: "bias", tensor: bias }.shaped(&[2 * units], units)?;
    for value in &mut bias.data[..units] {
        *value += forget_bias;
    }
    Ok(Layer::new(CellKind::Ugrnn, input_weights.shape[1], units)
        .tensor("input_weights", input_weights)
        .tensor("recurrent_weights", recurrent_weights)
        .tensor("input_bias", bias)
        .activation("candidate_activation", activation))
}

/// `BasicRNNCell`: kernel `[input + units, units]`, bias `[units]`.
///
/// # Errors
/// If a tensor has another shape.
pub fn basic_rnn(kernel: &Tensor, bias: &Tensor, activation: Activation) -> Result<Layer, ImportError> {
    let kernel = Named { name: "kernel", tensor: kernel };
    let units = kernel.units(1)?;
    let (input_weights, recurrent_weights) = kernel.split_kernel(units)?;
    Ok(Layer::new(CellKind::Elman, input_weights.shape[1], units)
        .tensor("input_weights", input_weights)
        .tensor("recurrent_weights", recurrent_weights)
        .tensor("input_bias", Named { name: "bias", tensor: bias }.shaped(&[units], units)?)
        .activation("activation", activation))
}

/// `IndRNNCell`: kernel_w [input, units], kernel_u [1, units], bias `[units]`.
///
/// # Errors
/// If a tensor has another shape.
pub fn indrnn(
    kernel_w: &Tensor,
    kernel_u: &Tensor,
    bias: &Tensor,
    activation: Activation,
) -> Result<Layer, ImportError> {
    let (input_weights, recurrent_weights, bias) = independent(kernel_w, kernel_u, bias, 1)?;
    Ok(Layer::new(CellKind::Indrnn, input_weights.shape[1], bias.shape[0])
        .tensor("input_weights", input_weights)
        .tensor("recurrent_weights", recurrent_weights)
        .tensor("bias", bias)
        .activation("activation", activation))
}

/// `IndyLSTMCell`: kernel_w [input, 4 * units], kernel_u [1, 4 * units], bias [4 * units]; i, j, f, o.
///
/// # Errors
/// If a tensor has another shape.
pub fn indy_lstm(
    kernel_w: &Tensor,
    kernel_u: &Tensor,
    bias: &Tensor,
    forget_bias: f32,
    activation: Activation,
) -> Result<Layer, ImportError> {
    let (input_weights, recurrent_weights, bias) = independent(kernel_w, kernel_u, bias, 4)?;
    let units = bias.shape[0] / 4;
    let mut bias = reordered(&bias, LSTM_TF1, LSTM);
    add_forget_bias(&mut bias, forget_bias);
    Ok(Layer::new(CellKind::IndyLstm, input_weights.shape[1], units)
        .tensor("input_weights", reordered(&input_weights, LSTM_TF1, LSTM))
        .tensor("recurrent_weights", reordered(&recurrent_weights, LSTM_TF1, LSTM))
        .tensor("bias", bias)
        .activation("cell_activation", activation)
        .activation("output_activation", activation))
}

/// `IndyGRUCell`: as [`gru`], with kernels of the input [input, gates * units] and of the state [1, gates * units]
/// apart; `gates` and `candidate` are each these two and the bias.
///
/// # Errors
/// If a tensor has another shape.
pub fn indy_gru(gates: [&Tensor; 3], candidate: [&Tensor; 3], activation: Activation) -> Result<Layer, ImportError> {
    let (gates_input, gates_recurrent, gates_bias) = independent(gates[0], gates[1], gates[2], 2)?;
    let (input, units) = (gates_input.shape[1], gates_bias.shape[0] / 2);
    Named { name: "candidate/kernel", tensor: candidate[0] }.shaped(&[input, units], units)?;
    let (new_input, new_recurrent, new_bias) = independent(candidate[0], candidate[1], candidate[2], 1)?;
    Ok(Layer::new(CellKind::IndyGru, input, units)
        .tensor("input_weights", stacked([&gates_input, &new_input]))
        .tensor("recurrent_weights", stacked([&gates_recurrent, &new_recurrent]))
        .tensor("bias", stacked([&gates_bias, &new_bias]))
        .activation("new_activation", activation))
}

/// The kernel of the input, the kernel of the state [1, gates * units] as a vector, and the bias.
fn independent(
    kernel_w: &Tensor,
    kernel_u: &Tensor,
    bias: &Tensor,
    gates: usize,
) -> Result<(Tensor, Tensor, Tensor), ImportError> {
    let kernel = Named { name: "kernel_w", tensor: kernel_w };
    let (units, (input, cols)) = (kernel.units(gates)?, kernel.matrix()?);
    let recurrent = Named { name: "kernel_u", tensor: kernel_u }.shaped(&[1, cols], units)?;
    let recurrent = Tensor { shape: vec![cols], data: recurrent.data };
    Ok((kernel.transposed(0, input)?, recurrent, Named { name: "bias", tensor: bias }.shaped(&[cols], units)?))
}

/// `MinimalRNNCell`: kernel [input + 2 * units, units], rows of x, then of the latent z, then of h; bias `[units]`.
///
/// # Errors
/// If a tensor has another shape.
pub fn minimal_rnn(kernel: &Tensor, bias: &Tensor, activation: Activation) -> Result<Layer, ImportError> {
    let kernel = Named { name: "kernel", tensor: kernel };
    let (rows, units) = kernel.matrix()?;
    let Some(input) = rows.checked_sub(2 * units).filter(|&input| input > 0) else {
        return kernel.refuse(format!("{units} units need more than {} rows", 2 * units));
    };
    Ok(Layer::new(CellKind::MinimalRnn, input, units)
        .tensor("input_weights", kernel.transposed(0, input)?)
        .tensor("latent_weights", kernel.transposed(input, input + units)?)
        .tensor("recurrent_weights", kernel.transposed(input + units, rows)?)
        .tensor("bias", Named { name: "bias", tensor: bias }.shaped(&[units], units)?)
        .activation("activation", activation))
}

/// `CFNCell`: kernel [input, 3 * units] in the order theta, eta, candidate; recurrent kernel [units, 2 * units] and
/// bias [2 * units]. It computes with 1 - eta, so that the canonical eta has the negated weights.
///
/// # Errors
/// If a tensor has another shape.
pub fn cfn(
    kernel: &Tensor,
    recurrent_kernel: &Tensor,
    bias: &Tensor,
    activation: Activation,
) -> Result<Layer, ImportError> {
    let kernel = Named { name: "kernel", tensor: kernel };
    let (units, (input, _)) = (kernel.units(3)?, kernel.matrix()?);
    let mut input_weights = kernel.transposed(0, input)?;
    let candidate = Tensor { shape: vec![units, input], data: input_weights.data.split_off(2 * units * input) };
    input_weights.shape[0] = 2 * units;
    let recurrent = Named { name: "recurrent_kernel", tensor: recurrent_kernel };
    recurrent.shaped(&[units, 2 * units], units)?;
    let bias = Named { name: "bias", tensor: bias }.shaped(&[2 * units], units)?;
    Ok(Layer::new(CellKind::Cfn, input, units)
        .tensor("input_weights", second_negated(input_weights))
        .tensor("recurrent_weights", second_negated(recurrent.transposed(0, units)?))
        .tensor("bias", second_negated(bias))
        .tensor("candidate_weights", candidate)
        .activation("activation", activation))
}

/// The second of two row blocks with the other sign.
fn second_negated(mut tensor: Tensor) -> Tensor {
    let half = tensor.data.len() / 2;
    for value in tensor.data.iter_mut().skip(half) {
        *value = -*value;
    }
    tensor
}

/// `IntersectionRNNCell` behind its input projection: kernel [2 * units, 4 * units], bias [4 * units]; `forget_bias`
/// is added to both gates.
///
/// # Errors
/// If a tensor has another shape.
pub fn intersection(
    kernel: &Tensor,
    bias: &Tensor,
    forget_bias: f32,
    y_activation: Activation,
) -> Result<Layer, ImportError> {
    let kernel = Named { name: "kernel", tensor: kernel };
    let units = kernel.units(4)?;
    kernel.shaped(&[2 * units, 4 * units], units)?;
    let (input_weights, recurrent_weights) = kernel.split_kernel(units)?;
    let mut bias = Named { name: "bias", tensor: bias }.shaped(&[4 * units], units)?;
    for block in bias.data.chunks_mut(units).step_by(2) {
        for value in block {
            *value += forget_bias;
        }
    }
    Ok(Layer::new(CellKind::Intersection, units, units)
        .tensor("input_weights", input_weights)
        .tensor("recurrent_weights", recurrent_weights)
        .tensor("bias", bias)
        .activation("output_activation", y_activation))
}

/// `SRUCell`: kernel [input, 4 * units] in the order candidate, forget, reset, highway; bias [2 * units] of forget and
/// reset.
///
/// # Errors
/// If a tensor has another shape.
pub fn sru(kernel: &Tensor, bias: &Tensor, activation: Activation) -> Result<Layer, ImportError> {
    let kernel = Named { name: "kernel", tensor: kernel };
    let (units, (input, _)) = (kernel.units(4)?, kernel.matrix()?);
    let mut input_weights = kernel.transposed(0, input)?;
    let highway = Tensor { shape: vec![units, input], data: input_weights.data.split_off(3 * units * input) };
    input_weights.shape[0] = 3 * units;
    let bias = Named { name: "bias", tensor: bias }.shaped(&[2 * units], units)?;
    Ok(Layer::new(CellKind::Sru, input, units)
        .tensor("input_weights", input_weights)
        .tensor("bias", stacked([&zeros(units), &bias]))
        .option("highway")
        .tensor("highway_weights", highway)
        .activation("output_activation", activation))
}

/// `act(x K + b)`: kernel [input, output], bias `[output]`.
///
/// # Errors
/// If a tensor has another shape.
pub fn dense(kernel: &Tensor, bias: &Tensor, activation: Activation) -> Result<Layer, ImportError> {
    let kernel = Named { name: "kernel", tensor: kernel };
    let (input, output) = kernel.matrix()?;
    let bias = Named { name: "bias", tensor: bias }.shaped(&[output], output)?;
    Ok(Layer::dense(kernel.transposed(0, input)?, Some(bias), activation))
}

/// A kernel that `num_unit_shards` or `num_proj_shards` cut by rows into `part_0`, `part_1`, ...
///
/// # Errors
/// If there is no part, or the parts differ in width.
pub fn unsharded(parts: &[&Tensor]) -> Result<Tensor, ImportError> {
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

/// Canonical models write "no clip" as 0, so a real clip of 0, which TensorFlow would apply, must be refused.
pub(super) fn positive(name: &str, clip: f32) -> Result<f32, ImportError> {
    if clip > 0.0 {
        return Ok(clip);
    }
    Err(ImportError::Unsupported(format!("argument {name} = {clip}")))
}
