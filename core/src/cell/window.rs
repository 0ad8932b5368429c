//! Collects the last inputs as the rows of one output: the windows over a stream that bidirectional layers and
//! convolutions along time read.
//!
//! # Equation
//!
//! ```text
//! y = [x(t - length + 1), …, x(t - 1), x(t)]     every `hop` steps, once `length` rows have arrived
//! ```
//!
//! The steps in between have no output, and the nodes after the window do not run. The window starts with `prefill`
//! rows of zeros, the padding of a causal convolution. With the option `partial`, the end of a sequence
//! ([`Model::finish`](crate::Model::finish)) yields the rows that no window has contained yet, followed by zeros.
//!
//! # Tensors
//!
//! None.
//!
//! # Options
//!
//! | name | what |
//! |---|---|
//! | `partial` | the end of a sequence yields a partial window; `hop` must be `length`, `prefill` 0 |
//!
//! # Extents
//!
//! | name | what |
//! |---|---|
//! | `length` | rows of the output, `output_size = length · input_size` |
//! | `hop` | steps from one output to the next |
//! | `prefill` | rows of zeros before the first step, less than `length` |
//!
//! # Known as
//!
//! The buffer before TensorFlow's `bidirectional_dynamic_rnn`, Keras's `Bidirectional` and `go_backwards`, PyTorch's
//! `bidirectional=True`; the line buffer of a streaming convolution.
//!
//! # Golden cases
//!
//! `tf1__BidirectionalRNN__*`, `tf1__StackBidirectionalRNN__*`, `tf1__TimeReversedFusedRNN__*`,
//! `keras2__Bidirectional__*`, `keras3__Bidirectional__*`, `torch__*__bi*`.

use super::prelude::*;
use crate::element::Element;

const OPTIONS: &[&str] = &["partial"];
const PARTIAL: u32 = option(OPTIONS, "partial");

/// The extents of a window. Those of a layer over a window begin with them.
pub(super) const EXTENTS: [ExtentSpec; 3] =
    [ExtentSpec::one("length"), ExtentSpec::one("hop"), ExtentSpec::zero("prefill")];

pub(super) mod extent {
    use super::{EXTENTS, extent};

    pub const LENGTH: usize = extent(&EXTENTS, "length");
    pub const HOP: usize = extent(&EXTENTS, "hop");
    pub const PREFILL: usize = extent(&EXTENTS, "prefill");
}

/// Some row of the window is not part of the prefill.
pub(super) const PREFILLED: Rule =
    Rule::AtMost(Dim::Sum(&[Dim::Extent(extent::PREFILL), Dim::Const(1)]), Dim::Extent(extent::LENGTH));

pub(super) const SPEC: CellSpec = CellSpec {
    name: "window",
    extents: &EXTENTS,
    rules: &[
        Rule::Equal(Dim::Output, Dim::Product(&[Dim::Extent(extent::LENGTH), Dim::Input])),
        Rule::Equal(Dim::Hidden, Dim::Output),
        PREFILLED,
        // Rows that belong to two windows would be output twice at the end.
        Rule::AtMost(Dim::When(PARTIAL, &Dim::Extent(extent::LENGTH)), Dim::Extent(extent::HOP)),
        Rule::AtMost(Dim::When(PARTIAL, &Dim::Extent(extent::HOP)), Dim::Extent(extent::LENGTH)),
        Rule::Equal(Dim::When(PARTIAL, &Dim::Extent(extent::PREFILL)), Dim::Const(0)),
    ],
    states: &[
        StateSpec { name: "rows", len: Dim::Output },
        StateSpec { name: "filled", len: Dim::Const(1) },
        StateSpec { name: "since", len: Dim::Const(1) },
    ],
    options: OPTIONS,
    ..CellSpec::EMPTY
};

/// The greatest count that an i16 holds.
pub(super) const MOST_STEPS: Dim = Dim::Const(i16::MAX as usize);

/// An i16 holds the counts of a window.
pub(super) const COUNTED: &[Rule] =
    &[Rule::AtMost(Dim::Extent(extent::LENGTH), MOST_STEPS), Rule::AtMost(Dim::Extent(extent::HOP), MOST_STEPS)];

/// The integer form, with the same step.
pub const INTEGER: IntegerSpec = IntegerSpec {
    options: 1 << PARTIAL,
    rules: COUNTED,
    quantization: Quantization::MOVE.on_host(),
    ..IntegerSpec::EMPTY
};

/// The form in every integer numeric.
const MOVING: &[(&IntegerSpec, &Cell)] = &[(&INTEGER, &Cell::integer_buffered(&SPEC, &INTEGER, step::<i16>))];

pub(super) const fn entry<W: Weight, K: Kernel>() -> Entry {
    const { Entry { spec: &SPEC, float: &[&Cell::float_buffered(&SPEC, step::<f32>)], integer: MOVING, i8: MOVING } }
}

/// One step. `x` is `[input]`, `state` is `[length · input]` (the oldest row first), then the number of rows, then the
/// number of steps since the last output, each aligned as a slot; `y` is `[length · input]`.
pub(crate) fn step<E: Element>(node: &Node<'_>, x: Option<&[E]>, state: &mut [E], y: &mut [E]) -> Option<usize> {
    let (rows, counts) = state.split_at_mut_checked(node.padded(&Dim::Output))?;
    let (filled, since) = counts.split_at_mut_checked(node.padded(&Dim::Const(1)))?;
    let (rows, filled, since) = (rows.get_mut(..node.output_size)?, filled.first_mut()?, since.first_mut()?);
    // A whole number below 2^20. A state restored from arbitrary bytes may hold another, which saturates.
    let before = filled.to_count();
    let Some(x) = x else {
        return if node.has(PARTIAL) { finish(node, rows, filled, before, y) } else { None };
    };
    if before == 0 {
        rows.fill(E::zeroed());
    }
    let newest = shifted(rows, node.input_size);
    copy(newest, x);
    if !is_due(node, filled, since) {
        return None;
    }
    copy(y, rows);
    if node.has(PARTIAL) {
        *filled = E::zeroed();
    }
    // All rows are valid: nodes after the window may run over other rows than those of the window.
    Some(usize::MAX)
}

/// Moves all rows of `size` elements up by one. Returns the place of the newest.
#[inline(always)]
pub(super) fn shifted<T: Copy>(rows: &mut [T], size: usize) -> &mut [T] {
    rows.copy_within(size.min(rows.len()).., 0);
    let start = rows.len().saturating_sub(size);
    rows.get_mut(start..).unwrap_or_default()
}

/// Counts a row that has arrived: `filled` is the number of rows (0 before the first), `since` the number of steps since
/// the last output. Returns whether the window has an output.
#[inline(always)]
pub(super) fn is_due<E: Element>(node: &Node<'_>, filled: &mut E, since: &mut E) -> bool {
    let (length, hop) = (node.extent(extent::LENGTH), node.extent(extent::HOP));
    let (before, waited) = (filled.to_count(), since.to_count().saturating_add(1));
    let before = if before == 0 { node.extent(extent::PREFILL) } else { before };
    let now = before.saturating_add(1).min(length);
    *filled = E::from_count(now);
    let first = before < length && now == length;
    let due = first || (now == length && waited >= hop);
    *since = E::from_count(if due || now < length { 0 } else { waited });
    due
}

/// Writes the rows that are present, then zeros.
fn finish<E: Element>(node: &Node<'_>, rows: &[E], filled: &mut E, count: usize, y: &mut [E]) -> Option<usize> {
    let count = count.min(node.extent(extent::LENGTH));
    if count == 0 {
        return None;
    }
    let elements = count.saturating_mul(node.input_size).min(rows.len());
    let start = rows.len() - elements;
    y.fill(E::zeroed());
    copy(y, rows.get(start..).unwrap_or_default());
    *filled = E::zeroed();
    Some(count)
}
