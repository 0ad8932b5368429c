//! TensorFlow 1's cells that go through bands of features within a step: from checkpoint tensors to canonical layers.
//!
//! A kernel is [band + 2 * units, gates * units]: rows of the band's features, then of what the same band gave one step
//! before, then of what the band before it gave. Columns are i, j, f, o.

use tidegate::cell::CellKind;
use tidegate::gate::{LSTM, LSTM_TF1};

use super::cells::positive;
use crate::canonical::Tensor;
use crate::error::ImportError;
use crate::format::layer::Layer;
use crate::format::weights::{Named, add_forget_bias, reordered, stacked};

/// Where the bands lie among the features.
#[derive(Clone, Copy, Debug)]
pub struct Bands {
    /// Features that come in.
    pub input: usize,
    /// How many.
    pub count: usize,
    /// Features of one.
    pub size: usize,
    /// From one to the next.
    pub hop: usize,
    /// Where the first begins, on the padded features.
    pub first: usize,
    /// Zeros before the first feature.
    pub pad_before: usize,
    /// Zeros behind the last.
    pub pad_after: usize,
}

impl Bands {
    /// As many as there is room for from feature `from` on, and before feature `to`.
    ///
    /// # Errors
    /// If there is no room for one.
    pub fn between([from, to]: [usize; 2], input: usize, size: usize, hop: usize) -> Result<Self, ImportError> {
        let room = to.checked_sub(from).and_then(|len| len.checked_sub(size)).filter(|_| to <= input && size > 0);
        let Some(steps) = room.and_then(|room| room.checked_div(hop)) else {
            let refused = format!("a row of bands of {size} features, {hop} apart, from {from} to {to} of {input}");
            return Err(ImportError::Unsupported(refused));
        };
        Ok(Self { input, count: steps + 1, size, hop, first: from, pad_before: 0, pad_after: 0 })
    }

    /// The same, so many features higher; or with so many zeros before the features, if it is less than 0.
    #[must_use]
    pub fn shifted(self, offset: isize) -> Self {
        let distance = offset.unsigned_abs();
        if offset < 0 {
            return Self { pad_before: distance, ..self };
        }
        Self { first: self.first.saturating_add(distance), pad_after: distance, ..self }
    }

    fn layer(self, kind: CellKind, units: usize, sides: usize) -> Layer {
        let mut layer = Layer::new(kind, self.input, units)
            .extent("bands", self.count)
            .extent("band_size", self.size)
            .extent("band_hop", self.hop)
            .extent("first", self.first)
            .extent("pad_before", self.pad_before)
            .extent("pad_after", self.pad_after);
        layer.output_size = sides * self.count * units;
        layer
    }
}

/// The weights of one of the two LSTMs of a `GridLSTMCell`.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// `W_f_<block>` or `W_t_<block>`, [band + 2 * units, 4 * units]; without the columns of f if the gates are coupled.
    pub kernel: &'a Tensor,
    /// `B_f_<block>` or `B_t_<block>`.
    pub bias: &'a Tensor,
}

/// What the gates of one side of a `GridLSTMCell` see of the memory that goes from band to band, and of the one that
/// goes from step to step; each `[units]`.
#[derive(Clone, Copy, Debug)]
pub struct Peepholes<'a> {
    /// `W_I_diag_<side>f`, `W_I_diag_<side>t`
    pub input: [&'a Tensor; 2],
    /// `W_F_diag_<side>f`, `W_F_diag_<side>t`; none if the gates are coupled.
    pub forget: Option<[&'a Tensor; 2]>,
    /// `W_O_diag_<side>f`, `W_O_diag_<side>t`
    pub output: [&'a Tensor; 2],
}

/// What the two cells have beyond their tensors.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Added to the forget gate at run time; folded into the bias here.
    pub forget_bias: f32,
    /// The memories are clipped to plus and minus this.
    pub cell_clip: Option<f32>,
}

/// `GridLSTMCell` over one block of its bands. Without tensors of its own the time side has those of the frequency
/// side. With `coupled` f is 1 - i, which is σ(-a) where i is σ(a).
///
/// # Errors
/// If a tensor has another shape, or the clip is not positive.
pub fn grid_lstm(
    frequency: Side<'_>,
    time: Option<Side<'_>>,
    peepholes: Option<[Peepholes<'_>; 2]>,
    coupled: bool,
    bands: Bands,
    options: Options,
) -> Result<Layer, ImportError> {
    let gates = if coupled { 3 } else { 4 };
    let units = Named { name: "W_f", tensor: frequency.kernel }.units(gates)?;
    let convert = |side: Side<'_>, names: [&str; 2]| {
        let [input, recurrent, mut bias] = blocks(side.kernel, side.bias, names, [gates, units], bands.size)?;
        if !coupled {
            add_forget_bias(&mut bias, options.forget_bias);
        }
        Ok::<_, ImportError>([input, recurrent, bias])
    };
    let [input, recurrent, bias] = convert(frequency, ["W_f", "B_f"])?;
    let mut layer = bands
        .layer(CellKind::GridLstm, units, 2)
        .tensor("frequency_input_weights", input)
        .tensor("frequency_recurrent_weights", recurrent)
        .tensor("frequency_bias", bias);
    layer = match time {
        None => layer.option("shared"),
        Some(time) => {
            let [input, recurrent, bias] = convert(time, ["W_t", "B_t"])?;
            layer
                .tensor("time_input_weights", input)
                .tensor("time_recurrent_weights", recurrent)
                .tensor("time_bias", bias)
        }
    };
    if let Some([frequency, time]) = peepholes {
        let names = ["frequency_input_peephole", "frequency_forget_peephole", "frequency_output_peephole"];
        layer = with_peepholes(layer.option("peephole"), frequency, names)?;
        layer = with_peepholes(layer, time, ["time_input_peephole", "time_forget_peephole", "time_output_peephole"])?;
    }
    clipped(layer, options.cell_clip)
}

/// `TimeFreqLSTMCell`; peepholes `W_I_diag`, `W_F_diag`, `W_O_diag`, each `[units]`.
///
/// # Errors
/// If a tensor has another shape, or the clip is not positive.
pub fn time_freq_lstm(
    kernel: &Tensor,
    bias: &Tensor,
    peepholes: Option<[&Tensor; 3]>,
    bands: Bands,
    options: Options,
) -> Result<Layer, ImportError> {
    let units = Named { name: "W", tensor: kernel }.units(4)?;
    let [input, recurrent, mut bias] = blocks(kernel, bias, ["W", "B"], [4, units], bands.size)?;
    add_forget_bias(&mut bias, options.forget_bias);
    let mut layer = bands
        .layer(CellKind::TimeFreqLstm, units, 1)
        .tensor("input_weights", input)
        .tensor("recurrent_weights", recurrent)
        .tensor("input_bias", bias);
    if let Some([input, forget, output]) = peepholes {
        let vector = |name, tensor| Named { name, tensor }.shaped(&[units], units);
        layer = layer
            .option("peephole")
            .tensor("input_peephole", vector("W_I_diag", input)?)
            .tensor("forget_peephole", vector("W_F_diag", forget)?)
            .tensor("output_peephole", vector("W_O_diag", output)?);
    }
    clipped(layer, options.cell_clip)
}

/// Input weights, recurrent weights and bias, blocks in canonical order.
fn blocks(
    kernel: &Tensor,
    bias: &Tensor,
    [kernel_name, bias_name]: [&str; 2],
    [gates, units]: [usize; 2],
    band: usize,
) -> Result<[Tensor; 3], ImportError> {
    let kernel = Named { name: kernel_name, tensor: kernel };
    kernel.shaped(&[band.saturating_add(2 * units), gates * units], units)?;
    let (input, recurrent) = kernel.split_kernel(2 * units)?;
    let bias = Named { name: bias_name, tensor: bias }.shaped(&[gates * units], units)?;
    Ok([input, recurrent, bias]
        .map(|tensor| if gates == 3 { uncoupled(&tensor) } else { reordered(&tensor, LSTM_TF1, LSTM) }))
}

/// Blocks i, j, o as i, f, g, o with f the opposite of i.
fn uncoupled(tensor: &Tensor) -> Tensor {
    let block = tensor.data.len() / 3;
    let (input, rest) = tensor.data.split_at(block);
    let mut shape = tensor.shape.clone();
    shape[0] = shape[0] / 3 * 4;
    let opposite: Vec<f32> = input.iter().map(|value| -value).collect();
    Tensor { shape, data: [input, &opposite, rest].concat() }
}

fn with_peepholes(layer: Layer, peepholes: Peepholes<'_>, names: [&'static str; 3]) -> Result<Layer, ImportError> {
    let units = layer.hidden_size;
    let both = |name, [of_frequency, of_time]: [&Tensor; 2]| {
        let vector = |tensor| Named { name, tensor }.shaped(&[units], units);
        Ok::<_, ImportError>(stacked([&vector(of_frequency)?, &vector(of_time)?]))
    };
    let input = both("W_I_diag", peepholes.input)?;
    let forget = match peepholes.forget {
        Some(forget) => both("W_F_diag", forget)?,
        None => Tensor { shape: input.shape.clone(), data: input.data.iter().map(|value| -value).collect() },
    };
    let output = both("W_O_diag", peepholes.output)?;
    let [input_name, forget_name, output_name] = names;
    Ok(layer.tensor(input_name, input).tensor(forget_name, forget).tensor(output_name, output))
}

fn clipped(layer: Layer, clip: Option<f32>) -> Result<Layer, ImportError> {
    match clip {
        Some(clip) => Ok(layer.param("cell_clip", positive("cell_clip", clip)?)),
        None => Ok(layer),
    }
}
