//! A kernel that moves over an image `[height, width, channels]`, row-major: what convolutions and pools share.
//!
//! A convolution copies what the kernel sees, zeros where that is padding, into a patch `[groups][taps][channels]`, so
//! that each group of filters finds its operand in one piece.

pub mod integer;

use super::{Dim, ExtentSpec, Io, Rule};
use crate::kernel::{Weight, accumulate, accumulate_each};
use crate::node::Node;

/// Extents of the specs by name.
pub(super) mod extent {
    pub const IN_HEIGHT: usize = 0;
    pub const IN_WIDTH: usize = 1;
    pub const IN_CHANNELS: usize = 2;
    pub const KERNEL_HEIGHT: usize = 3;
    pub const KERNEL_WIDTH: usize = 4;
    pub const STRIDE_HEIGHT: usize = 5;
    pub const STRIDE_WIDTH: usize = 6;
    pub const DILATION_HEIGHT: usize = 7;
    pub const DILATION_WIDTH: usize = 8;
    pub const PAD_TOP: usize = 9;
    pub const PAD_BOTTOM: usize = 10;
    pub const PAD_LEFT: usize = 11;
    pub const PAD_RIGHT: usize = 12;
    pub const OUT_HEIGHT: usize = 13;
    pub const OUT_WIDTH: usize = 14;
    pub const LAST: usize = 15;
}

/// The extents of every layer over images.
pub const EXTENTS: [ExtentSpec; 15] = [
    ExtentSpec::one("in_height"),
    ExtentSpec::one("in_width"),
    ExtentSpec::one("in_channels"),
    ExtentSpec::one("kernel_height"),
    ExtentSpec::one("kernel_width"),
    ExtentSpec::one("stride_height"),
    ExtentSpec::one("stride_width"),
    ExtentSpec::one("dilation_height"),
    ExtentSpec::one("dilation_width"),
    ExtentSpec::zero("pad_top"),
    ExtentSpec::zero("pad_bottom"),
    ExtentSpec::zero("pad_left"),
    ExtentSpec::zero("pad_right"),
    ExtentSpec::one("out_height"),
    ExtentSpec::one("out_width"),
];

/// The same with one more, the layer's own.
pub const fn extents(last: &'static str) -> [ExtentSpec; 16] {
    let mut all = [ExtentSpec::one(last); 16];
    let mut k = 0;
    while k < EXTENTS.len() {
        all[k] = EXTENTS[k];
        k += 1;
    }
    all
}

/// Channels of the image.
pub const IN_CHANNELS: Dim = Dim::Extent(extent::IN_CHANNELS);
/// Taps of the kernel.
pub const TAPS: Dim = Dim::Product(&[Dim::Extent(extent::KERNEL_HEIGHT), Dim::Extent(extent::KERNEL_WIDTH)]);
/// Positions of the kernel.
pub const POSITIONS: Dim = Dim::Product(&[Dim::Extent(extent::OUT_HEIGHT), Dim::Extent(extent::OUT_WIDTH)]);
/// What the kernel sees at a position.
pub const PATCH: Dim = Dim::Product(&[TAPS, IN_CHANNELS]);
/// The extent that is the layer's own.
pub const LAST: Dim = Dim::Extent(extent::LAST);

/// The input is an image.
pub const IMAGE: Rule = Rule::Equal(
    Dim::Input,
    Dim::Product(&[Dim::Extent(extent::IN_HEIGHT), Dim::Extent(extent::IN_WIDTH), IN_CHANNELS]),
);
/// The output has all units at every position.
pub const POSITIONED: Rule = Rule::Equal(Dim::Output, Dim::Product(&[POSITIONS, Dim::Hidden]));
/// The kernel fits so often along the height.
pub const ROWS: Rule = Rule::Convolved {
    input: Dim::Extent(extent::IN_HEIGHT),
    kernel: Dim::Extent(extent::KERNEL_HEIGHT),
    stride: Dim::Extent(extent::STRIDE_HEIGHT),
    dilation: Dim::Extent(extent::DILATION_HEIGHT),
    before: Dim::Extent(extent::PAD_TOP),
    after: Dim::Extent(extent::PAD_BOTTOM),
    output: Dim::Extent(extent::OUT_HEIGHT),
};
/// The kernel fits so often along the width.
pub const COLS: Rule = Rule::Convolved {
    input: Dim::Extent(extent::IN_WIDTH),
    kernel: Dim::Extent(extent::KERNEL_WIDTH),
    stride: Dim::Extent(extent::STRIDE_WIDTH),
    dilation: Dim::Extent(extent::DILATION_WIDTH),
    before: Dim::Extent(extent::PAD_LEFT),
    after: Dim::Extent(extent::PAD_RIGHT),
    output: Dim::Extent(extent::OUT_WIDTH),
};

/// One axis of the way.
#[derive(Clone, Copy)]
pub(super) struct Axis {
    pub input: usize,
    pub kernel: usize,
    pub stride: usize,
    pub dilation: usize,
    pub before: usize,
    pub output: usize,
}

impl Axis {
    /// One position of one tap over one pixel.
    const ONE: Self = Self { input: 1, kernel: 1, stride: 1, dilation: 1, before: 0, output: 1 };

    /// The coordinate that a tap sees; `None` where that is padding.
    fn seen(self, position: usize, tap: usize) -> Option<usize> {
        let at = (position * self.stride + tap * self.dilation).checked_sub(self.before)?;
        (at < self.input).then_some(at)
    }
}

/// The way of a kernel over an image of three axes, of which an image has the last two.
#[derive(Clone, Copy)]
pub(super) struct Way {
    pub axes: [Axis; 3],
    pub channels: usize,
}

impl Way {
    pub fn new(node: &Node<'_>) -> Self {
        let rows = Axis {
            input: node.extent(extent::IN_HEIGHT),
            kernel: node.extent(extent::KERNEL_HEIGHT),
            stride: node.extent(extent::STRIDE_HEIGHT),
            dilation: node.extent(extent::DILATION_HEIGHT),
            before: node.extent(extent::PAD_TOP),
            output: node.extent(extent::OUT_HEIGHT),
        };
        let cols = Axis {
            input: node.extent(extent::IN_WIDTH),
            kernel: node.extent(extent::KERNEL_WIDTH),
            stride: node.extent(extent::STRIDE_WIDTH),
            dilation: node.extent(extent::DILATION_WIDTH),
            before: node.extent(extent::PAD_LEFT),
            output: node.extent(extent::OUT_WIDTH),
        };
        Self { axes: [Axis::ONE, rows, cols], channels: node.extent(extent::IN_CHANNELS) }
    }

    /// Every position, row by row.
    pub fn positions(self) -> impl Iterator<Item = [usize; 3]> {
        let [slices, rows, cols] = self.axes.map(|axis| axis.output);
        let of_slice = move |z| (0..rows).flat_map(move |y| (0..cols).map(move |x| [z, y, x]));
        (0..slices).flat_map(of_slice)
    }

    /// The pixel that each tap sees at a position, `None` where that is padding. Pixels count row by row.
    pub fn seen(self, position: [usize; 3]) -> impl Iterator<Item = Option<usize>> {
        let ([slices, rows, cols], [z, y, x]) = (self.axes, position);
        let of_row =
            move |row: Option<usize>| (0..cols.kernel).map(move |tap| Some(row? * cols.input + cols.seen(x, tap)?));
        let of_slice = move |slice: Option<usize>| {
            (0..rows.kernel).flat_map(move |tap| of_row(slice.zip(rows.seen(y, tap)).map(|(z, y)| z * rows.input + y)))
        };
        (0..slices.kernel).flat_map(move |tap| of_slice(slices.seen(z, tap)))
    }

    /// What each tap sees at a position: the channels of a pixel, or padding.
    pub fn taps<E>(self, x: &[E], position: [usize; 3]) -> impl Iterator<Item = Option<&[E]>> {
        let pixel = move |index: usize| x.get(index * self.channels..(index + 1) * self.channels);
        self.seen(position).map(move |index| index.and_then(pixel))
    }
}

/// A convolution in `groups`, each with as many channels of a pixel: tensor 0 are the weights, tensor 1 the bias.
pub(super) fn convolve<W: Weight>(node: &Node<'_>, io: Io<'_>, groups: usize, channels: &Dim) {
    let Io { x, work: patch, y, .. } = io;
    let (way, channels) = (Way::new(node), node.dim(channels));
    let (mut rest, operand) = (y, node.dim(&TAPS) * channels);
    for position in way.positions() {
        let mut at = 0;
        for group in 0..groups {
            for pixel in way.taps(x, position) {
                let to = patch.get_mut(at..at + channels).unwrap_or_default();
                match pixel.and_then(|pixel| pixel.get(group * channels..)) {
                    Some(from) => super::copy(to, from),
                    None => to.fill(0.0),
                }
                at += channels;
            }
        }
        let Some((y, others)) = rest.split_at_mut_checked(node.hidden_size) else { return };
        rest = others;
        grouped::<W>(node, patch, operand, groups, y);
    }
}

/// `y = act(W x + b)` with a block-diagonal W of `groups` blocks with `cols` columns each: tensor 0 are the weights,
/// tensor 1 the bias.
pub(super) fn grouped<W: Weight>(node: &Node<'_>, x: &[f32], cols: usize, groups: usize, y: &mut [f32]) {
    let activation = node.activation(0);
    let rows = y.len().checked_div(groups).unwrap_or(0);
    let (mut operand, mut rest, mut left) = (&[][..], x, 0);
    // The columns that the next row is multiplied with.
    let mut next = || {
        if left == 0 {
            // The rows that fill the last block up have no group: any operand will do.
            (operand, rest) = rest.split_at_checked(cols).unwrap_or((operand, &[]));
            left = rows;
        }
        left = left.saturating_sub(1);
        operand
    };
    let blocks = node.matrix::<W>(0).blocks().zip(node.vector(1));
    for ((w, &b), y) in blocks.zip(y.chunks_mut(4)) {
        let sums = if groups == 1 { accumulate(b, w, x) } else { accumulate_each(b, w, [0; 4].map(|_| next())) };
        for (y, a) in y.iter_mut().zip(sums) {
            *y = activation.apply(a);
        }
    }
}
