//! A window that moves over an image `[height, width, channels]`, row-major. Shared by convolutions and pools.
//!
//! A convolution copies the pixels under the window, with zeros for padding, into a patch `[groups][taps][channels]`,
//! so that the operand of each group of filters is contiguous.

pub mod integer;

use super::prelude::*;
use crate::kernel::accumulate_each;
use crate::tensor::Matrix;

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

/// [`EXTENTS`] and the layer's own extent `last`.
pub const fn extents(last: &'static str) -> [ExtentSpec; 16] {
    let mut all = [ExtentSpec::one(last); 16];
    let mut k = 0;
    while k < EXTENTS.len() {
        all[k] = EXTENTS[k];
        k += 1;
    }
    all
}

/// The extents of a kernel along one axis, by their indices.
#[derive(Clone, Copy)]
pub(super) struct Along {
    pub input: usize,
    pub kernel: usize,
    pub stride: usize,
    pub dilation: usize,
    pub before: usize,
    pub after: usize,
    pub output: usize,
}

impl Along {
    /// Requires the number of positions that follows from the kernel, its stride and the padding.
    pub const fn rule(self) -> Rule {
        Rule::Convolved {
            input: Dim::Extent(self.input),
            kernel: Dim::Extent(self.kernel),
            stride: Dim::Extent(self.stride),
            dilation: Dim::Extent(self.dilation),
            before: Dim::Extent(self.before),
            after: Dim::Extent(self.after),
            output: Dim::Extent(self.output),
        }
    }

    /// The axis of a node.
    pub fn of(self, node: &Node<'_>) -> Axis {
        Axis {
            input: node.extent(self.input),
            kernel: node.extent(self.kernel),
            stride: node.extent(self.stride),
            dilation: node.extent(self.dilation),
            before: node.extent(self.before),
            output: node.extent(self.output),
        }
    }
}

pub(super) const HEIGHT: Along = Along {
    input: extent(&EXTENTS, "in_height"),
    kernel: extent(&EXTENTS, "kernel_height"),
    stride: extent(&EXTENTS, "stride_height"),
    dilation: extent(&EXTENTS, "dilation_height"),
    before: extent(&EXTENTS, "pad_top"),
    after: extent(&EXTENTS, "pad_bottom"),
    output: extent(&EXTENTS, "out_height"),
};
pub(super) const WIDTH: Along = Along {
    input: extent(&EXTENTS, "in_width"),
    kernel: extent(&EXTENTS, "kernel_width"),
    stride: extent(&EXTENTS, "stride_width"),
    dilation: extent(&EXTENTS, "dilation_width"),
    before: extent(&EXTENTS, "pad_left"),
    after: extent(&EXTENTS, "pad_right"),
    output: extent(&EXTENTS, "out_width"),
};

const CHANNELS: usize = extent(&EXTENTS, "in_channels");
/// Channels of the image.
pub const IN_CHANNELS: Dim = Dim::Extent(CHANNELS);
/// Taps of the kernel.
pub const TAPS: Dim = Dim::Product(&[Dim::Extent(HEIGHT.kernel), Dim::Extent(WIDTH.kernel)]);
/// Positions of the kernel.
pub const POSITIONS: Dim = Dim::Product(&[Dim::Extent(HEIGHT.output), Dim::Extent(WIDTH.output)]);
/// Elements under the kernel at a position.
pub const PATCH: Dim = Dim::Product(&[TAPS, IN_CHANNELS]);
/// The layer's own extent.
pub const LAST: Dim = Dim::Extent(EXTENTS.len());
/// The input is an image.
pub const IMAGE: Rule =
    Rule::Equal(Dim::Input, Dim::Product(&[Dim::Extent(HEIGHT.input), Dim::Extent(WIDTH.input), IN_CHANNELS]));
/// The output has all units at every position.
pub const POSITIONED: Rule = Rule::Equal(Dim::Output, Dim::Product(&[POSITIONS, Dim::Hidden]));
/// The number of positions along the height.
pub const ROWS: Rule = HEIGHT.rule();
/// The number of positions along the width.
pub const COLS: Rule = WIDTH.rule();

/// A kernel along one axis.
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

    /// The coordinate under a tap; `None` for padding.
    fn seen(self, position: usize, tap: usize) -> Option<usize> {
        let at = (position * self.stride + tap * self.dilation).checked_sub(self.before)?;
        (at < self.input).then_some(at)
    }
}

/// A kernel that moves over an image of three axes. An image of two axes uses the last two.
#[derive(Clone, Copy)]
pub(super) struct Way {
    pub axes: [Axis; 3],
    pub channels: usize,
}

impl Way {
    pub fn new(node: &Node<'_>) -> Self {
        Self { axes: [Axis::ONE, HEIGHT.of(node), WIDTH.of(node)], channels: node.extent(CHANNELS) }
    }

    /// Every position, row by row.
    pub fn positions(self) -> impl Iterator<Item = [usize; 3]> {
        let [slices, rows, cols] = self.axes.map(|axis| axis.output);
        let of_slice = move |z| (0..rows).flat_map(move |y| (0..cols).map(move |x| [z, y, x]));
        (0..slices).flat_map(of_slice)
    }

    /// The pixel under each tap at a position, `None` for padding. Pixels are numbered row by row.
    pub fn seen(self, position: [usize; 3]) -> impl Iterator<Item = Option<usize>> {
        let ([slices, rows, cols], [z, y, x]) = (self.axes, position);
        let of_row =
            move |row: Option<usize>| (0..cols.kernel).map(move |tap| Some(row? * cols.input + cols.seen(x, tap)?));
        let of_slice = move |slice: Option<usize>| {
            (0..rows.kernel).flat_map(move |tap| of_row(slice.zip(rows.seen(y, tap)).map(|(z, y)| z * rows.input + y)))
        };
        (0..slices.kernel).flat_map(move |tap| of_slice(slices.seen(z, tap)))
    }

    /// The channels of the pixel under each tap at a position, `None` for padding.
    pub fn taps<E>(self, x: &[E], position: [usize; 3]) -> impl Iterator<Item = Option<&[E]>> {
        let pixel = move |index: usize| x.get(index * self.channels..(index + 1) * self.channels);
        self.seen(position).map(move |index| index.and_then(pixel))
    }
}

/// A convolution in `groups`, each with `channels` channels of a pixel. Tensor 0 is the weights, tensor 1 the bias.
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
                    Some(from) => copy(to, from),
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

/// `y = act(W x + b)` with a block-diagonal W of `groups` blocks with `cols` columns each. Tensor 0 is the weights,
/// tensor 1 the bias.
pub(super) fn grouped<W: Weight>(node: &Node<'_>, x: &[f32], cols: usize, groups: usize, y: &mut [f32]) {
    let activation = node.activation(0);
    let rows = y.len().checked_div(groups).unwrap_or(0);
    let (mut operand, mut rest, mut left) = (&[][..], x, 0);
    // The operand of the next row.
    let mut next = || {
        if left == 0 {
            // The padding rows of the last block have no group; their operand is arbitrary.
            (operand, rest) = rest.split_at_checked(cols).unwrap_or((operand, &[]));
            left = rows;
        }
        left = left.saturating_sub(1);
        operand
    };
    // `y` ends before the tensors do, whose lengths would take as long as a few sums.
    let blocks = Matrix::from_start(node.columns::<W>(0), cols).blocks().zip(node.columns::<f32>(1));
    for ((w, &b), y) in blocks.zip(y.chunks_mut(4)) {
        let sums = if groups == 1 { accumulate(b, w, x) } else { accumulate_each(b, w, [0; 4].map(|_| next())) };
        for (y, a) in y.iter_mut().zip(sums) {
            *y = activation.apply(a);
        }
    }
}
