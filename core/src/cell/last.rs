//! One row of several: the last that is valid, or the first. What a recurrent layer over a window gives when only its
//! last output counts.
//!
//! # Equation
//!
//! ```text
//! x = [x_1, x_2, …, x_steps]
//! y = x_L      L the rows that are valid: `steps`, or fewer at the end of a sequence
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
//! | `first` | the first row: the last output of a layer that runs backwards, beside its inputs |
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
//! None of its own: it is what `return_sequences=False` leaves of a window.

use super::{CellSpec, Dim, ExtentSpec, IntegerSpec, Io, RECURRENT, Rule, copy};
use crate::node::Node;

/// Index of the option `first`.
pub const FIRST: u32 = 0;

/// Index of the extent `steps`.
const STEPS: usize = 0;

/// See the [module](self).
pub const SPEC: CellSpec = CellSpec {
    name: "last",
    gates: &[],
    extents: &[ExtentSpec::one("steps")],
    rules: &[RECURRENT, Rule::Equal(Dim::Input, Dim::Product(&[Dim::Extent(STEPS), Dim::Output]))],
    states: &[],
    work: &[],
    options: &["first"],
    params: &[],
    activations: &[],
    canonical: &[],
    tensors: &[],
};

/// In the integer numerics, the same.
pub const INTEGER: IntegerSpec = IntegerSpec::moving(1 << FIRST, &[]);

/// One step. `x` is `[steps · output]`, `y` is `[output]`.
pub(crate) fn step<E: Copy>(node: &Node<'_>, io: Io<'_, E>) {
    let Io { x, y, rows, .. } = io;
    let row = if node.has(FIRST) { 0 } else { rows.min(node.extent(STEPS)).saturating_sub(1) };
    let start = row.saturating_mul(node.output_size);
    copy(y, x.get(start..).unwrap_or_default());
}
