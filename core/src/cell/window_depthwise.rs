//! A [`window`](super::window) and the [`depthwise_conv`](super::depthwise_conv) over its rows in one node: a filter along
//! time for each channel, which keeps the rows that it reads. The window is computed in place, without a copy.
//!
//! # Equation
//!
//! ```text
//! y[f] = act(bias[f] + Σ weights[f, k] · x(t - length + 1 + k)[c])     every `hop` steps, once `length` rows have arrived
//! f = c · multiplier + m
//! ```
//!
//! The steps in between have no output, and the nodes after the layer do not run. The window starts with `prefill` rows
//! of zeros. The results are those of the two nodes, bit for bit.
//!
//! # Tensors
//!
//! | name | shape | when |
//! |---|---|---|
//! | `weights` | `[output, length]` | always |
//! | `bias` | `[output]` | optional, otherwise 0 |
//!
//! # Extents
//!
//! | name | what |
//! |---|---|
//! | `length` | rows of the window |
//! | `hop` | steps from one output to the next |
//! | `prefill` | rows of zeros before the first step, less than `length` |
//! | `multiplier` | filters of a channel, `output_size = multiplier · input_size` |
//!
//! # Activations
//!
//! | name | default |
//! |---|---|
//! | `activation` | `identity` |
//!
//! # Known as
//!
//! The memory block of an FSMN; the depthwise convolution of a streaming model, such as those of microWakeWord.
//!
//! # Golden cases
//!
//! None of its own.

pub mod i8;

use super::prelude::*;
use super::window::{self, PREFILLED, extent};
use super::window_dense::{COUNTS, WINDOW, advanced};

const EXTENTS: [ExtentSpec; 4] = {
    let [length, hop, prefill] = window::EXTENTS;
    [length, hop, prefill, ExtentSpec::one("multiplier")]
};
const MULTIPLIER: usize = window::EXTENTS.len();
const LENGTH: Dim = Dim::Extent(extent::LENGTH);

const CANONICAL: &[CanonicalSpec; 2] =
    &[CanonicalSpec::matrix("weights", Dim::Output, LENGTH), CanonicalSpec::vector("bias", Dim::Output).optional()];

pub(super) const SPEC: CellSpec = CellSpec {
    name: "window_depthwise",
    extents: &EXTENTS,
    rules: &[RECURRENT, Rule::Equal(Dim::Output, Dim::Product(&[Dim::Input, Dim::Extent(MULTIPLIER)])), PREFILLED],
    states: &[StateSpec { name: "rows", len: WINDOW }, COUNTS],
    activations: &[ActivationSpec { name: "activation", default: Activation::Identity }],
    canonical: CANONICAL,
    tensors: &TensorSpec::each(CANONICAL, &[]),
    curves: &[Dim::Output],
    ..CellSpec::EMPTY
};

const WEIGHTS: usize = SPEC.tensor("weights");
const BIAS: usize = SPEC.tensor("bias");

pub(super) const fn entry<W: Weight, K: Kernel>() -> Entry {
    const {
        Entry {
            spec: &SPEC,
            float: &[&Cell::float_buffered(&SPEC, step::<W>)],
            i8: &[(&i8::SPEC, &Cell::integer_buffered(&SPEC, &i8::SPEC, i8::step::<K>))],
            ..Entry::EMPTY
        }
    }
}

/// One step. `x` is `[input]`, `state` is `[length, input]` (the oldest row first), then the counts; `y` is `[output]`.
pub(crate) fn step<W: Weight>(node: &Node<'_>, x: Option<&[f32]>, state: &mut [f32], y: &mut [f32]) -> Option<usize> {
    let (seen, activation) = (advanced(node, x?, state)?, node.activation(0));
    for (block, (&bias, y)) in node.vector(BIAS).iter().zip(y.chunks_mut(4)).enumerate() {
        let sums = filtered::<W>(node, WEIGHTS, (seen, node.input_size), (block, node.extent(MULTIPLIER)), bias);
        for (y, sum) in y.iter_mut().zip(sums) {
            *y = activation.apply(sum);
        }
    }
    Some(usize::MAX)
}

/// Adds to `sums` the products over time of the four filters of a block. A row has `size` channels, and each channel
/// `multiplier` filters.
#[inline(never)]
pub(super) fn filtered<W: Weight>(
    node: &Node<'_>,
    weights: usize,
    (rows, size): (&[f32], usize),
    (block, multiplier): (usize, usize),
    mut sums: [f32; 4],
) -> [f32; 4] {
    let steps = rows.len().checked_div(size).unwrap_or(0);
    let taps = node.columns::<W>(weights).get(block.saturating_mul(steps)..).unwrap_or_default();
    for (weights, row) in taps.iter().zip(rows.chunks(size.max(1))) {
        for ((sum, weight), filter) in sums.iter_mut().zip(weights).zip(4 * block..) {
            let channel = filter.checked_div(multiplier).unwrap_or(0);
            *sum += weight.widen() * row.get(channel).copied().unwrap_or(0.0);
        }
    }
    sums
}
