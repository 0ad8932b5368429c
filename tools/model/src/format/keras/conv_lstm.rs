//! Keras's `ConvLSTM1D`, `ConvLSTM2D` and `ConvLSTM3D`: kernel `[taps.., channels, 4 · filters]`, recurrent kernel
//! `[taps.., filters, 4 · filters]`, bias `[4 · filters]`. The gate order i, f, c, o is the canonical one.

use tidegate::internals::activation::Activation;

use crate::error::{ImportError, Result};
use crate::format::conv_lstm::{self, Axis, Kernel, Padding};
use crate::format::{
    activation::HARD_SIGMOID_KERAS2, activation::Names, case::Case, layer::At, layer::Layer, refuse::unsupported_if,
};

/// The layer with `axes` spatial axes; their lengths come from the shape of the case's input.
pub(super) fn layer(case: &mut Case<'_>, axes: usize) -> Result<Layer> {
    let kernel = Kernel::read(case.named("kernel")?, axes)?;
    let recurrent = case.named("recurrent_kernel")?;
    let (taps, filters) = (kernel.taps, kernel.filters);
    recurrent.shaped(&[taps, &[filters, 4 * filters]].concat(), filters)?;
    let recurrent = Kernel::read(recurrent, axes)?;
    case.units("filters", filters)?;
    let given = case.per_axis("kernel_size", axes)?.unwrap_or_else(|| taps.to_vec());
    unsupported_if(given != taps, format_args!("argument kernel_size = {given:?} with a kernel of {taps:?} taps"))?;
    let channels_first = match case.text("data_format")?.as_deref() {
        None | Some("channels_last") => false,
        Some("channels_first") => true,
        Some(other) => return Err(ImportError::Unsupported(format!("argument data_format = {other:?}"))),
    };
    let shape = case.input_shape()?;
    let (lengths, channels) = match (channels_first, shape.as_slice()) {
        (false, [lengths @ .., channels]) | (true, [channels, lengths @ ..]) if lengths.len() == axes => {
            (lengths, *channels)
        }
        _ => return Err(ImportError::Unsupported(format!("an input of shape {shape:?} for {}", case.cls))),
    };
    let padding = match case.text("padding")?.as_deref().map(str::to_lowercase).as_deref() {
        None | Some("valid") => Padding::Valid,
        Some("same") => Padding::Same,
        Some(other) => return Err(ImportError::Unsupported(format!("argument padding = {other:?}"))),
    };
    let strides = case.per_axis("strides", axes)?.unwrap_or_else(|| vec![1; axes]);
    let dilation = case.per_axis("dilation_rate", axes)?.unwrap_or_else(|| vec![1; axes]);
    let axis = |k: usize| Axis { length: lengths[k], kernel: taps[k], stride: strides[k], dilation: dilation[k] };
    let axes: Vec<Axis> = (0..axes).map(axis).collect();
    let gate = if case.names == Names::Keras2 { HARD_SIGMOID_KERAS2 } else { Activation::Sigmoid };
    let gate = case.activation("recurrent_activation", gate)?;
    let activation = case.activation("activation", Activation::Tanh)?;
    let mut layer = conv_lstm::layer(&axes, channels, filters, padding)?
        .tensor("input_weights", kernel.weights(0..channels)?)
        .tensor("recurrent_weights", recurrent.weights(0..filters)?)
        .activation("gate_activation", gate)
        .activation("cell_activation", activation)
        .activation("output_activation", activation);
    if case.flag("use_bias", true)? {
        let bias = case.named("bias")?;
        layer = layer.tensor("bias", bias.shaped(&[4 * filters], filters)?);
    }
    let layer = layer.state("hidden", At::new("h")).state("cell_state", At::new("c"));
    Ok(if channels_first { layer.option("channels_first") } else { layer })
}
