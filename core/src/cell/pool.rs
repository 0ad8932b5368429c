//! What a kernel sees of every channel of an image, at every position: its greatest, or its mean. Padding is not seen.
//!
//! # Equation
//!
//! ```text
//! y[row, col, c] = max  x[row · stride + tap · dilation - padding, …, c]      over the taps inside the image
//! y[row, col, c] = mean x[row · stride + tap · dilation - padding, …, c]      average
//! ```
//!
//! # Tensors
//!
//! None.
//!
//! # Options
//!
//! One of them.
//!
//! | name | what |
//! |---|---|
//! | `max` | the greatest |
//! | `average` | the mean of what is inside the image |
//!
//! # Extents
//!
//! | name | what |
//! |---|---|
//! | `in_height`, `in_width`, `in_channels` | the image, `[height, width, channels]` |
//! | `kernel_height`, `kernel_width` | taps |
//! | `stride_height`, `stride_width` | from one position of the kernel to the next |
//! | `dilation_height`, `dilation_width` | from one tap to the next, within the image |
//! | `pad_top`, `pad_bottom`, `pad_left`, `pad_right` | around the image, less than the kernel |
//! | `out_height`, `out_width` | positions of the kernel |
//!
//! # Known as
//!
//! Keras's `MaxPooling1D`, `AveragePooling2D` and the global ones, PyTorch's `nn.MaxPool2d`; `nn.AvgPool2d` with
//! `count_include_pad=False`.
//!
//! # Golden cases
//!
//! None of its own.

pub mod integer;

use super::patch::{COLS, EXTENTS, IMAGE, IN_CHANNELS, POSITIONED, ROWS, Way, extent};
use super::{CellSpec, Dim, Io, Rule, copy, greater};
use crate::node::Node;

/// Index of the option `max`.
pub const MAX: u32 = 0;
/// Index of the option `average`.
pub const AVERAGE: u32 = 1;

/// See the [module](self).
pub const SPEC: CellSpec = CellSpec {
    name: "pool",
    gates: &[],
    extents: &EXTENTS,
    // With the last six a kernel sees a pixel wherever it is.
    rules: &[
        IMAGE,
        POSITIONED,
        ROWS,
        COLS,
        Rule::Equal(Dim::Hidden, IN_CHANNELS),
        Rule::OneOf { options: &[MAX, AVERAGE], least: 1 },
        Rule::AtMost(Dim::Sum(&[Dim::Extent(extent::PAD_TOP), Dim::Const(1)]), Dim::Extent(extent::KERNEL_HEIGHT)),
        Rule::AtMost(Dim::Sum(&[Dim::Extent(extent::PAD_BOTTOM), Dim::Const(1)]), Dim::Extent(extent::KERNEL_HEIGHT)),
        Rule::AtMost(Dim::Sum(&[Dim::Extent(extent::PAD_LEFT), Dim::Const(1)]), Dim::Extent(extent::KERNEL_WIDTH)),
        Rule::AtMost(Dim::Sum(&[Dim::Extent(extent::PAD_RIGHT), Dim::Const(1)]), Dim::Extent(extent::KERNEL_WIDTH)),
        Rule::AtMost(Dim::Extent(extent::DILATION_HEIGHT), Dim::Extent(extent::IN_HEIGHT)),
        Rule::AtMost(Dim::Extent(extent::DILATION_WIDTH), Dim::Extent(extent::IN_WIDTH)),
    ],
    states: &[],
    work: &[],
    options: &["max", "average"],
    params: &[],
    activations: &[],
    canonical: &[],
    tensors: &[],
};

/// One step. `x` is the image, `y` is `[out_height, out_width, channels]`.
pub(crate) fn step(node: &Node<'_>, io: Io<'_>) {
    let Io { x, y, .. } = io;
    let (way, average) = (Way::new(node), node.has(AVERAGE));
    let mut rest = y;
    for position in way.positions() {
        let Some((y, others)) = rest.split_at_mut_checked(node.hidden_size) else { return };
        rest = others;
        let mut seen = 0.0;
        for pixel in way.taps(x, position).flatten() {
            if seen == 0.0 {
                copy(y, pixel);
            } else {
                for (y, &x) in y.iter_mut().zip(pixel) {
                    *y = if average { *y + x } else { greater(*y, x) };
                }
            }
            seen += 1.0;
        }
        if average {
            for y in y {
                *y /= seen;
            }
        }
    }
}
