//! A long short-term memory whose units are the pixels of an image: input and recurrent products are convolutions (Shi
//! 2015, arXiv:1506.04214, without its peepholes), over one, two or three axes.
//!
//! # Equation
//!
//! ```text
//! i = σ(W_i * x + R_i ⊛ h + b_i)
//! f = σ(W_f * x + R_f ⊛ h + b_f)
//! g = tanh(W_g * x + R_g ⊛ h + b_g)
//! o = σ(W_o * x + R_o ⊛ h + b_o)
//! c' = f ⊙ c + i ⊙ g
//! h' = o ⊙ tanh(c')
//! (W * x)[p, k] = Σ W[k, tap, channel] · x[p · stride + tap · dilation - padding, channel]
//! (R ⊛ h)[p, k] = Σ R[k, tap, channel] · h[p + tap - ⌊(kernel - 1) / 2⌋, channel]
//! ```
//!
//! p and tap have a coordinate for each axis; outside their images x and h are 0. The kernel over h has the shape of
//! that over x and visits every position of h. Importers fold a forget bias that the framework adds at run time into
//! `b_f`.
//!
//! x, h, c and the output are images `[depth, height, width, channels]`, row-major. A one-dimensional image has only a
//! height; a two-dimensional one has depth 1.
//!
//! # Tensors
//!
//! Blocks of rows in the order i, f, g, o. Columns run over the taps `[depth, height, width]`, and for each tap over
//! its channels.
//!
//! | name | shape | when |
//! |---|---|---|
//! | `input_weights` | `[4 · hidden, kernel_depth · kernel_height · kernel_width · in_channels]` | always |
//! | `recurrent_weights` | `[4 · hidden, kernel_depth · kernel_height · kernel_width · hidden]` | always |
//! | `bias` | `[4 · hidden]` | optional, otherwise 0 |
//!
//! # Options
//!
//! | name | what |
//! |---|---|
//! | `skip` | the output has the channels of h', then those of x, at every position |
//! | `channels_first` | the images are `[channels, depth, height, width]` |
//!
//! # Extents
//!
//! | name | what |
//! |---|---|
//! | `in_depth`, `in_height`, `in_width`, `in_channels` | the image x |
//! | `kernel_depth`, `kernel_height`, `kernel_width` | taps |
//! | `stride_depth`, `stride_height`, `stride_width` | from one position of the kernel over x to the next |
//! | `dilation_depth`, `dilation_height`, `dilation_width` | from one tap over x to the next |
//! | `pad_front`, `pad_top`, `pad_left`, `pad_back`, `pad_bottom`, `pad_right` | zeros around x |
//! | `out_depth`, `out_height`, `out_width` | positions of the kernels |
//!
//! `hidden_size` is the number of filters, `output_size` the number of features of all positions.
//!
//! # Activations
//!
//! | name | default | of |
//! |---|---|---|
//! | `gate_activation` | `sigmoid` | i, f, o |
//! | `cell_activation` | `tanh` | g |
//! | `output_activation` | `tanh` | c' in h' |
//!
//! # Known as
//!
//! TensorFlow 1's `tf.contrib.rnn.Conv1DLSTMCell`, `Conv2DLSTMCell` and `Conv3DLSTMCell`; Keras's `ConvLSTM1D`,
//! `ConvLSTM2D` and `ConvLSTM3D`.
//!
//! # Golden cases
//!
//! `tf1__Conv1DLSTMCell__*`, `tf1__Conv2DLSTMCell__*`, `tf1__Conv3DLSTMCell__*`, `keras2__ConvLSTM1D__*`,
//! `keras2__ConvLSTM2D__*`, `keras3__ConvLSTM1D__*`, `keras3__ConvLSTM2D__*`, `keras3__ConvLSTM3D__*`.

use super::lstm;
use super::patch::{Along, Axis, Way};
use super::prelude::*;
use crate::tensor::Matrix;

const OPTIONS: &[&str] = &["skip", "channels_first"];
const SKIP: u32 = option(OPTIONS, "skip");
const CHANNELS_FIRST: u32 = option(OPTIONS, "channels_first");

const EXTENTS: &[ExtentSpec] = &[
    ExtentSpec::one("in_depth"),
    ExtentSpec::one("in_height"),
    ExtentSpec::one("in_width"),
    ExtentSpec::one("in_channels"),
    ExtentSpec::one("kernel_depth"),
    ExtentSpec::one("kernel_height"),
    ExtentSpec::one("kernel_width"),
    ExtentSpec::one("stride_depth"),
    ExtentSpec::one("stride_height"),
    ExtentSpec::one("stride_width"),
    ExtentSpec::one("dilation_depth"),
    ExtentSpec::one("dilation_height"),
    ExtentSpec::one("dilation_width"),
    ExtentSpec::zero("pad_front"),
    ExtentSpec::zero("pad_top"),
    ExtentSpec::zero("pad_left"),
    ExtentSpec::zero("pad_back"),
    ExtentSpec::zero("pad_bottom"),
    ExtentSpec::zero("pad_right"),
    ExtentSpec::one("out_depth"),
    ExtentSpec::one("out_height"),
    ExtentSpec::one("out_width"),
];

/// Extents of the spec by name; for those with three axes, the first.
mod extent {
    use super::{EXTENTS, extent};

    pub const IN: usize = extent(EXTENTS, "in_depth");
    pub const IN_CHANNELS: usize = extent(EXTENTS, "in_channels");
    pub const KERNEL: usize = extent(EXTENTS, "kernel_depth");
    pub const STRIDE: usize = extent(EXTENTS, "stride_depth");
    pub const DILATION: usize = extent(EXTENTS, "dilation_depth");
    pub const BEFORE: usize = extent(EXTENTS, "pad_front");
    pub const AFTER: usize = extent(EXTENTS, "pad_back");
    pub const OUT: usize = extent(EXTENTS, "out_depth");
}

/// The extents of the three axes, from the first on.
const fn axes(first: usize) -> [Dim; 3] {
    [Dim::Extent(first), Dim::Extent(first + 1), Dim::Extent(first + 2)]
}

const IN: [Dim; 3] = axes(extent::IN);
const KERNEL: [Dim; 3] = axes(extent::KERNEL);
const OUT: [Dim; 3] = axes(extent::OUT);

/// Channels of x.
const IN_CHANNELS: Dim = Dim::Extent(extent::IN_CHANNELS);
/// Number of pixels of x.
const IN_PIXELS: Dim = Dim::Product(&IN);
/// Number of taps of a kernel.
const TAPS: Dim = Dim::Product(&KERNEL);
/// Number of positions of the kernels, which are the pixels of h.
const POSITIONS: Dim = Dim::Product(&OUT);
/// Operand of the kernel over x at a position.
const INPUT_COLS: Dim = Dim::Product(&[TAPS, IN_CHANNELS]);
/// Operand of the kernel over h at a position.
const RECURRENT_COLS: Dim = Dim::Product(&[TAPS, Dim::Hidden]);
/// Elements of h, and of c.
const UNITS: Dim = Dim::Product(&[POSITIONS, Dim::Hidden]);
/// Channels of the output at a position.
const OUT_CHANNELS: Dim = Dim::Sum(&[Dim::Hidden, Dim::When(SKIP, &IN_CHANNELS)]);

/// The kernel over x along this axis.
const fn along(axis: usize) -> Along {
    Along {
        input: extent::IN + axis,
        kernel: extent::KERNEL + axis,
        stride: extent::STRIDE + axis,
        dilation: extent::DILATION + axis,
        before: extent::BEFORE + axis,
        after: extent::AFTER + axis,
        output: extent::OUT + axis,
    }
}

const CANONICAL: &[CanonicalSpec; 3] = &[
    CanonicalSpec::matrix("input_weights", Dim::Hidden, INPUT_COLS).gated(),
    CanonicalSpec::matrix("recurrent_weights", Dim::Hidden, RECURRENT_COLS).gated(),
    CanonicalSpec::vector("bias", Dim::Hidden).gated().optional(),
];

pub(super) const SPEC: CellSpec = CellSpec {
    name: "conv_lstm",
    gates: &gate::LSTM,
    extents: EXTENTS,
    rules: &[
        Rule::Equal(Dim::Input, Dim::Product(&[IN_PIXELS, IN_CHANNELS])),
        Rule::Equal(Dim::Output, Dim::Product(&[POSITIONS, OUT_CHANNELS])),
        along(0).rule(),
        along(1).rule(),
        along(2).rule(),
        // With `skip`, h and x have the same pixels, channels last.
        Rule::OneOf { options: &[SKIP, CHANNELS_FIRST], least: 0 },
        Rule::Equal(Dim::When(SKIP, &IN_PIXELS), Dim::When(SKIP, &POSITIONS)),
    ],
    states: &[StateSpec { name: "hidden", len: UNITS }, StateSpec { name: "cell_state", len: UNITS }],
    work: &[INPUT_COLS, RECURRENT_COLS],
    options: OPTIONS,
    activations: lstm::ACTIVATIONS,
    canonical: CANONICAL,
    tensors: &TensorSpec::each_in_passes(CANONICAL, &gate::LSTM, &POSITIONS),
    curves: &[UNITS; 5],
    ..CellSpec::EMPTY
};

mod tensor {
    pub const INPUT_WEIGHTS: usize = super::SPEC.tensor("input_weights");
    pub const RECURRENT_WEIGHTS: usize = super::SPEC.tensor("recurrent_weights");
    pub const BIAS: usize = super::SPEC.tensor("bias");
}

pub(super) const fn entry<W: Weight, K: Kernel>() -> Entry {
    const { Entry { spec: &SPEC, float: &[&Cell::float(&SPEC, step::<W>)], ..Entry::EMPTY } }
}

/// One step. `x` is the image, `state` is h, then c, `work` is the operands of the two kernels at a position. h' is
/// written to `y` first, because other positions still read h; with the option `skip` x follows it.
pub(crate) fn step<W: Weight>(node: &Node<'_>, io: Io<'_>) {
    let Io { x, state, work, y, .. } = io;
    let Some((hidden, cell)) = state.split_at_mut_checked(node.dim(&UNITS)) else { return };
    let Some((seen, held)) = work.split_at_mut_checked(node.dim(&INPUT_COLS)) else { return };
    let (filters, channels) = (node.hidden_size, node.extent(extent::IN_CHANNELS));
    let over_x = Way { axes: [0, 1, 2].map(|axis| along(axis).of(node)), channels };
    let over_h = Way { axes: [0, 1, 2].map(|axis| recurrent_axis(node, axis)), channels: filters };
    let (of_x, of_h) = if node.has(CHANNELS_FIRST) {
        (Layout::planes(node.dim(&IN_PIXELS)), Layout::planes(node.dim(&POSITIONS)))
    } else {
        (Layout::pixels(channels), Layout::pixels(filters))
    };
    let of_y = if node.has(SKIP) { Layout::pixels(filters + channels) } else { of_h };
    let gates = Gates::<W>::new(node);
    for (index, position) in over_h.positions().enumerate() {
        of_x.gather(x, over_x.seen(position), channels, seen);
        of_h.gather(hidden, over_h.seen(position), filters, held);
        gates.update(seen, held, of_h.pixel_mut(cell, index).zip(of_y.pixel_mut(y, index)));
    }
    if node.has(SKIP) {
        let pixels = x.chunks(channels.max(1)).zip(hidden.chunks_mut(filters.max(1)));
        for (y, (x, hidden)) in y.chunks_mut((filters + channels).max(1)).zip(pixels) {
            let Some((m, beside)) = y.split_at_mut_checked(filters) else { return };
            copy(hidden, m);
            copy(beside, x);
        }
    } else {
        copy(hidden, y);
    }
}

/// An axis of the kernel over h.
fn recurrent_axis(node: &Node<'_>, axis: usize) -> Axis {
    let (length, kernel) = (node.extent(extent::OUT + axis), node.extent(extent::KERNEL + axis));
    Axis { input: length, kernel, stride: 1, dilation: 1, before: kernel.saturating_sub(1) / 2, output: length }
}

/// The position of pixels and channels in an image.
#[derive(Clone, Copy)]
struct Layout {
    /// Distance from one pixel to the next.
    pixel: usize,
    /// Distance from one channel to the next.
    channel: usize,
}

impl Layout {
    /// Channels last: the channels of a pixel are adjacent.
    fn pixels(channels: usize) -> Self {
        Self { pixel: channels, channel: 1 }
    }

    /// Channels first: the pixels of a channel are adjacent.
    fn planes(pixels: usize) -> Self {
        Self { pixel: 1, channel: pixels }
    }

    /// The channels of a pixel, followed by later elements of the image.
    fn pixel(self, image: &[f32], index: usize) -> impl Iterator<Item = &f32> {
        image.get(index * self.pixel..).unwrap_or_default().iter().step_by(self.channel.max(1))
    }

    fn pixel_mut(self, image: &mut [f32], index: usize) -> impl Iterator<Item = &mut f32> {
        image.get_mut(index * self.pixel..).unwrap_or_default().iter_mut().step_by(self.channel.max(1))
    }

    /// Copies the operand of a kernel, `[taps][channels]`.
    fn gather(self, image: &[f32], pixels: impl Iterator<Item = Option<usize>>, channels: usize, patch: &mut [f32]) {
        let mut rest = patch;
        for index in pixels {
            let Some((to, others)) = rest.split_at_mut_checked(channels) else { return };
            rest = others;
            match index {
                Some(index) => to.iter_mut().zip(self.pixel(image, index)).for_each(|(to, &from)| *to = from),
                None => to.fill(0.0),
            }
        }
    }
}

/// Computes c' and h' of a position from its sums.
struct Gates<'a, W> {
    input: Matrix<'a, W>,
    recurrent: Matrix<'a, W>,
    bias: &'a [[f32; 4]],
    activations: [Activation; 3],
}

impl<'a, W: Weight> Gates<'a, W> {
    fn new(node: &Node<'a>) -> Self {
        Self {
            input: node.matrix(tensor::INPUT_WEIGHTS),
            recurrent: node.matrix(tensor::RECURRENT_WEIGHTS),
            bias: node.vector(tensor::BIAS),
            activations: [0, 1, 2].map(|index| node.activation(index)),
        }
    }

    /// Updates every filter at one position, c to c', and writes h'. A block of four rows holds the gates i, f, g, o of
    /// one filter.
    fn update<'s>(&self, x: &[f32], h: &[f32], units: impl Iterator<Item = (&'s mut f32, &'s mut f32)>) {
        let [gate, candidate, output] = self.activations;
        let blocks = self.input.blocks().zip(self.recurrent.blocks()).zip(self.bias);
        for (((w, r), &b), (c, m)) in blocks.zip(units) {
            let [i, f, g, o] = accumulate(accumulate(b, w, x), r, h);
            *c = gate.apply(f) * *c + gate.apply(i) * candidate.apply(g);
            *m = gate.apply(o) * output.apply(*c);
        }
    }
}
