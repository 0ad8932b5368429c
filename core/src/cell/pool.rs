//! The maximum or the mean of each channel over a window that moves over an image. Padding does not take part.
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
//! | `average` | the mean over the part inside the image |
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

pub mod i8;
pub mod integer;

use super::patch::{COLS, EXTENTS, HEIGHT, IMAGE, IN_CHANNELS, POSITIONED, ROWS, TAPS, WIDTH, Way};
use super::prelude::*;
use crate::element::greater;

const OPTIONS: &[&str] = &["max", "average"];
const MAX: u32 = option(OPTIONS, "max");
const AVERAGE: u32 = option(OPTIONS, "average");

pub(super) const SPEC: CellSpec = CellSpec {
    name: "pool",
    extents: &EXTENTS,
    // The last six rules ensure that the kernel covers a pixel at every position.
    rules: &[
        IMAGE,
        POSITIONED,
        ROWS,
        COLS,
        Rule::Equal(Dim::Hidden, IN_CHANNELS),
        Rule::OneOf { options: &[MAX, AVERAGE], least: 1 },
        Rule::AtMost(Dim::Sum(&[Dim::Extent(HEIGHT.before), Dim::Const(1)]), Dim::Extent(HEIGHT.kernel)),
        Rule::AtMost(Dim::Sum(&[Dim::Extent(HEIGHT.after), Dim::Const(1)]), Dim::Extent(HEIGHT.kernel)),
        Rule::AtMost(Dim::Sum(&[Dim::Extent(WIDTH.before), Dim::Const(1)]), Dim::Extent(WIDTH.kernel)),
        Rule::AtMost(Dim::Sum(&[Dim::Extent(WIDTH.after), Dim::Const(1)]), Dim::Extent(WIDTH.kernel)),
        Rule::AtMost(Dim::Extent(HEIGHT.dilation), Dim::Extent(HEIGHT.input)),
        Rule::AtMost(Dim::Extent(WIDTH.dilation), Dim::Extent(WIDTH.input)),
    ],
    options: OPTIONS,
    reads: &TAPS,
    ..CellSpec::EMPTY
};

pub(super) const fn entry<W: Weight, K: Kernel>() -> Entry {
    const {
        Entry {
            spec: &SPEC,
            float: &[&Cell::float(&SPEC, step)],
            integer: &[(&integer::SPEC, &Cell::integer(&SPEC, &integer::SPEC, integer::step))],
            i8: &[(&i8::SPEC, &Cell::integer(&SPEC, &i8::SPEC, i8::step))],
        }
    }
}

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
