//! The input of some steps ago: a tap of a convolution along time whose taps lie far apart.
//!
//! # Equation
//!
//! ```text
//! y(t) = x(t - steps)      0 before the first step
//! ```
//!
//! A step reads and writes one row, however many rows the delay has. A [`dense`](super::dense) layer over the input and
//! its delays is a dilated causal convolution.
//!
//! # Tensors
//!
//! None.
//!
//! # Extents
//!
//! | name | what |
//! |---|---|
//! | `steps` | from an input to its output |
//!
//! # Known as
//!
//! The ring buffer of a dilated convolution, as in WaveNet (van den Oord et al. 2016, "WaveNet: a generative model for raw
//! audio") and in Neural Amp Modeler; z to the power of -steps in filters.
//!
//! # Golden cases
//!
//! None of its own.

use super::prelude::*;
use super::window::MOST_STEPS;
use crate::element::Element;

const EXTENTS: &[ExtentSpec] = &[ExtentSpec::one("steps")];
const STEPS: usize = extent(EXTENTS, "steps");

/// Elements of the rows that wait.
const ROWS: Dim = Dim::Product(&[Dim::Extent(STEPS), Dim::Input]);

pub(super) const SPEC: CellSpec = CellSpec {
    name: "delay",
    extents: EXTENTS,
    rules: &[RECURRENT, Rule::Equal(Dim::Output, Dim::Input)],
    states: &[StateSpec { name: "rows", len: ROWS }, StateSpec { name: "next", len: Dim::Const(1) }],
    ..CellSpec::EMPTY
};

/// The integer form, with the same step.
pub const INTEGER: IntegerSpec = IntegerSpec {
    rules: &[Rule::AtMost(Dim::Extent(STEPS), MOST_STEPS)],
    quantization: Quantization::MOVE.on_host(),
    ..IntegerSpec::EMPTY
};

/// The form in every integer numeric.
const MOVING: &[(&IntegerSpec, &Cell)] = &[(&INTEGER, &Cell::integer(&SPEC, &INTEGER, step::<i16>))];

pub(super) const fn entry<W: Weight, K: Kernel>() -> Entry {
    const { Entry { spec: &SPEC, float: &[&Cell::float(&SPEC, step::<f32>)], integer: MOVING, i8: MOVING } }
}

/// One step. `x` is `[input]`, `state` is `[steps, input]` and the index of the oldest row, each aligned as a slot; `y` is
/// `[input]`.
pub(crate) fn step<E: Element>(node: &Node<'_>, io: Io<'_, E>) {
    let Io { x, state, y, .. } = io;
    let (rows, next) = state.split_at_mut(node.padded(&ROWS).min(state.len()));
    let Some(next) = next.first_mut() else { return };
    let steps = node.extent(STEPS);
    // A state restored from arbitrary bytes may hold another number.
    let index = if next.to_count() < steps { next.to_count() } else { 0 };
    // In integers x and y are longer than a row.
    let rest = rows.get_mut(index.saturating_mul(node.input_size)..).unwrap_or_default();
    let row = rest.get_mut(..node.input_size).unwrap_or_default();
    copy(y, row);
    copy(row, x);
    *next = E::from_count(if index + 1 < steps { index + 1 } else { 0 });
}
