//! Selects one row of several: the last valid row, or the first. Follows a recurrent layer over a window of which only
//! the last output is used.
//!
//! # Equation
//!
//! ```text
//! x = [x_1, x_2, …, x_steps]
//! y = x_L      L valid rows: `steps`, or fewer at the end of a sequence
//! y = x_1      first
//! ```
//!
//! # Tensors
//!
//! None.
//!
//! # Options
//!
//! | name | what |
//! |---|---|
//! | `first` | the first row, which is the last output of a layer that runs backwards |
//!
//! # Extents
//!
//! | name | what |
//! |---|---|
//! | `steps` | rows of the input, `input_size = steps · output_size` |
//!
//! # Known as
//!
//! Keras's `return_sequences=False` behind a `Bidirectional`; `outputs[:, -1]`.
//!
//! # Golden cases
//!
//! None of its own.

use super::prelude::*;

const OPTIONS: &[&str] = &["first"];
const FIRST: u32 = option(OPTIONS, "first");

const EXTENTS: &[ExtentSpec] = &[ExtentSpec::one("steps")];
const STEPS: usize = extent(EXTENTS, "steps");

pub(super) const SPEC: CellSpec = CellSpec {
    name: "last",
    extents: EXTENTS,
    rules: &[RECURRENT, Rule::Equal(Dim::Input, Dim::Product(&[Dim::Extent(STEPS), Dim::Output]))],
    options: OPTIONS,
    ..CellSpec::EMPTY
};

/// The integer form, with the same step.
pub const INTEGER: IntegerSpec =
    IntegerSpec { options: 1 << FIRST, quantization: Quantization::MOVE.on_host(), ..IntegerSpec::EMPTY };

/// The form in every integer numeric.
const MOVING: &[(&IntegerSpec, &Cell)] = &[(&INTEGER, &Cell::integer(&SPEC, &INTEGER, step::<i16>))];

pub(super) const fn entry<W: Weight, K: Kernel>() -> Entry {
    const { Entry { spec: &SPEC, float: &[&Cell::float(&SPEC, step::<f32>)], integer: MOVING, i8: MOVING } }
}

/// One step. `x` is `[steps · output]`, `y` is `[output]`.
pub(crate) fn step<E: Copy>(node: &Node<'_>, io: Io<'_, E>) {
    let Io { x, y, rows, .. } = io;
    let row = if node.has(FIRST) { 0 } else { rows.min(node.extent(STEPS)).saturating_sub(1) };
    let start = row.saturating_mul(node.output_size);
    copy(y, x.get(start..).unwrap_or_default());
}
