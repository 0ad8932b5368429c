//! A [`window`](super::window) and the [`dense`](super::dense) layer over its rows in one node: a convolution along time
//! that keeps the rows under its kernel. The window is computed in place, without a copy.
//!
//! # Equation
//!
//! ```text
//! y = act(W [x(t - length + 1), …, x(t - 1), x(t)] + b)     every `hop` steps, once `length` rows have arrived
//! ```
//!
//! The steps in between have no output, and the nodes after the layer do not run. The window starts with `prefill` rows
//! of zeros. The results are those of the two nodes, bit for bit.
//!
//! # Tensors
//!
//! | name | shape | when |
//! |---|---|---|
//! | `weights` | `[output, length · input]` | always |
//! | `bias` | `[output]` | optional, otherwise 0 |
//!
//! # Extents
//!
//! | name | what |
//! |---|---|
//! | `length` | rows of the window |
//! | `hop` | steps from one output to the next |
//! | `prefill` | rows of zeros before the first step, less than `length` |
//!
//! # Activations
//!
//! | name | default |
//! |---|---|
//! | `activation` | `identity` |
//!
//! # Known as
//!
//! A layer of a time-delay neural network (TDNN); a convolution over the ring buffer of a streaming model, such as those
//! of microWakeWord.
//!
//! # Golden cases
//!
//! None of its own.

pub mod i8;

use super::patch::grouped;
use super::prelude::*;
use super::window::{self, PREFILLED, extent, is_due, shifted};
use crate::element::Element;

/// Elements of a window.
pub(super) const WINDOW: Dim = Dim::Product(&[Dim::Extent(extent::LENGTH), Dim::Input]);
/// The counts of a window: its rows, and the steps since the last output.
pub(super) const COUNTS: StateSpec = StateSpec { name: "counts", len: Dim::Const(2) };

const CANONICAL: &[CanonicalSpec; 2] =
    &[CanonicalSpec::matrix("weights", Dim::Output, WINDOW), CanonicalSpec::vector("bias", Dim::Output).optional()];

pub(super) const SPEC: CellSpec = CellSpec {
    name: "window_dense",
    extents: &window::EXTENTS,
    rules: &[RECURRENT, PREFILLED],
    states: &[StateSpec { name: "rows", len: WINDOW }, COUNTS],
    activations: &[ActivationSpec { name: "activation", default: Activation::Identity }],
    canonical: CANONICAL,
    tensors: &TensorSpec::each(CANONICAL, &[]),
    curves: &[Dim::Output],
    ..CellSpec::EMPTY
};

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
    let rows = advanced(node, x?, state)?;
    grouped::<W>(node, rows, rows.len(), 1, y);
    Some(usize::MAX)
}

/// Adds a row to the window. Returns the window if it has an output.
pub(super) fn advanced<'s, E: Element>(node: &Node<'_>, x: &[E], state: &'s mut [E]) -> Option<&'s [E]> {
    let (rows, counts) = state.split_at_mut_checked(node.padded(&WINDOW))?;
    let [filled, since, ..] = counts else { return None };
    let rows = rows.get_mut(..node.dim(&WINDOW))?;
    copy(shifted(rows, node.input_size), x);
    is_due(node, filled, since).then_some(rows)
}
