//! The last inputs as the rows of one output: what turns a stream into the windows that bidirectional layers, and
//! convolutions along time, look at.
//!
//! # Equation
//!
//! ```text
//! y = [x(t - length + 1), …, x(t - 1), x(t)]     every `hop` steps, once `length` rows are there
//! ```
//!
//! A step in between has no output, and the nodes behind it do not run. `prefill` rows of zeros are there from the
//! start: the padding of a causal convolution. With the option `partial` the end of a sequence
//! ([`Model::finish`](crate::Model::finish)) gives the rows that no window has held yet, and zeros behind them.
//!
//! # Tensors
//!
//! None.
//!
//! # Options
//!
//! | name | what |
//! |---|---|
//! | `partial` | the end of a sequence gives a window that is not full; `hop` is `length`, `prefill` 0 |
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
//! The buffer in front of TensorFlow's `bidirectional_dynamic_rnn`, Keras's `Bidirectional` and `go_backwards`,
//! PyTorch's `bidirectional=True`; the line buffer of a streaming convolution.
//!
//! # Golden cases
//!
//! `tf1__BidirectionalRNN__*`, `tf1__StackBidirectionalRNN__*`, `tf1__TimeReversedFusedRNN__*`,
//! `keras2__Bidirectional__*`, `keras3__Bidirectional__*`, `torch__*__bi*`.

use super::{CellSpec, Dim, Element, ExtentSpec, IntegerSpec, Rule, StateSpec, copy};
use crate::node::Node;

/// Index of the option `partial`.
pub const PARTIAL: u32 = 0;

/// Extents of the spec by name.
mod extent {
    pub const LENGTH: usize = 0;
    pub const HOP: usize = 1;
    pub const PREFILL: usize = 2;
}

/// See the [module](self).
pub const SPEC: CellSpec = CellSpec {
    name: "window",
    gates: &[],
    extents: &[ExtentSpec::one("length"), ExtentSpec::one("hop"), ExtentSpec::zero("prefill")],
    rules: &[
        Rule::Equal(Dim::Output, Dim::Product(&[Dim::Extent(extent::LENGTH), Dim::Input])),
        Rule::Equal(Dim::Hidden, Dim::Output),
        Rule::AtMost(Dim::Sum(&[Dim::Extent(extent::PREFILL), Dim::Const(1)]), Dim::Extent(extent::LENGTH)),
        // Rows that two windows hold would be given twice at the end.
        Rule::AtMost(Dim::When(PARTIAL, &Dim::Extent(extent::LENGTH)), Dim::Extent(extent::HOP)),
        Rule::AtMost(Dim::When(PARTIAL, &Dim::Extent(extent::HOP)), Dim::Extent(extent::LENGTH)),
        Rule::Equal(Dim::When(PARTIAL, &Dim::Extent(extent::PREFILL)), Dim::Const(0)),
    ],
    states: &[
        StateSpec { name: "rows", len: Dim::Output },
        StateSpec { name: "filled", len: Dim::Const(1) },
        StateSpec { name: "since", len: Dim::Const(1) },
    ],
    work: &[],
    options: &["partial"],
    params: &[],
    activations: &[],
    canonical: &[],
    tensors: &[],
};

/// The greatest count of an i16.
const MOST_STEPS: Dim = Dim::Const(i16::MAX as usize);

/// In the integer numerics, the same.
pub const INTEGER: IntegerSpec = IntegerSpec::moving(
    1 << PARTIAL,
    &[Rule::AtMost(Dim::Extent(extent::LENGTH), MOST_STEPS), Rule::AtMost(Dim::Extent(extent::HOP), MOST_STEPS)],
);

/// One step. `x` is `[input]`, `state` is `[length · input]` (the oldest row first), then the rows that are there, then
/// the steps since the last output, each from where a slot may begin; `y` is `[length · input]`.
pub(crate) fn step<E: Element>(node: &Node<'_>, x: Option<&[E]>, state: &mut [E], y: &mut [E]) -> Option<usize> {
    let (length, hop) = (node.extent(extent::LENGTH), node.extent(extent::HOP));
    let (rows, counts) = state.split_at_mut_checked(node.padded(&Dim::Output))?;
    let (filled, since) = counts.split_at_mut_checked(node.padded(&Dim::Const(1)))?;
    let (rows, filled, since) = (rows.get_mut(..node.output_size)?, filled.first_mut()?, since.first_mut()?);
    // Whole numbers below 2^20, unless bytes that were never saved were restored: then they saturate.
    let (before, waited) = (filled.to_count(), since.to_count());
    let Some(x) = x else {
        return if node.has(PARTIAL) { finish(node, rows, filled, before, y) } else { None };
    };
    if before == 0 {
        rows.fill(E::zeroed());
    }
    let before = if before == 0 { node.extent(extent::PREFILL) } else { before };
    rows.copy_within(node.input_size.min(rows.len()).., 0);
    let start = rows.len().saturating_sub(node.input_size);
    copy(rows.get_mut(start..).unwrap_or_default(), x);
    let now = before.saturating_add(1).min(length);
    *filled = E::from_count(now);
    let first = before < length && now == length;
    let waited = waited.saturating_add(1);
    let due = first || (now == length && waited >= hop);
    *since = E::from_count(if due || now < length { 0 } else { waited });
    if !due {
        return None;
    }
    copy(y, rows);
    if node.has(PARTIAL) {
        *filled = E::zeroed();
    }
    Some(length)
}

/// The rows that are there, first row first, and zeros behind them.
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
