//! Repeats the input as several equal rows, over which a decoder is unrolled.
//!
//! # Equation
//!
//! ```text
//! y = [x, x, …, x]      `times` rows
//! ```
//!
//! All rows are valid, even if the layer before had fewer valid rows.
//!
//! # Tensors
//!
//! None.
//!
//! # Extents
//!
//! | name | what |
//! |---|---|
//! | `times` | rows of the output, `output_size = times · input_size` |
//!
//! # Known as
//!
//! Keras's `RepeatVector`.
//!
//! # Golden cases
//!
//! None of its own.

use super::prelude::*;

const EXTENTS: &[ExtentSpec] = &[ExtentSpec::one("times")];
const TIMES: usize = extent(EXTENTS, "times");

pub(super) const SPEC: CellSpec = CellSpec {
    name: "repeat",
    extents: EXTENTS,
    rules: &[RECURRENT, Rule::Equal(Dim::Output, Dim::Product(&[Dim::Extent(TIMES), Dim::Input]))],
    ..CellSpec::EMPTY
};

/// The integer form, with the same step.
pub const INTEGER: IntegerSpec = IntegerSpec { quantization: Quantization::MOVE.on_host(), ..IntegerSpec::EMPTY };

/// The form in every integer numeric.
const MOVING: &[(&IntegerSpec, &Cell)] = &[(&INTEGER, &Cell::integer_buffered(&SPEC, &INTEGER, step::<i16>))];

pub(super) const fn entry<W: Weight, K: Kernel>() -> Entry {
    const { Entry { spec: &SPEC, float: &[&Cell::float_buffered(&SPEC, step::<f32>)], integer: MOVING, i8: MOVING } }
}

/// One step. `x` is `[input]`, `y` is `[times · input]`. The end of a sequence has no output.
pub(crate) fn step<E: Copy>(node: &Node<'_>, x: Option<&[E]>, _: &mut [E], y: &mut [E]) -> Option<usize> {
    let x = x?.get(..node.input_size)?;
    let mut rest = y;
    while let Some((row, others)) = rest.split_at_mut_checked(x.len()).filter(|(row, _)| !row.is_empty()) {
        copy(row, x);
        rest = others;
    }
    Some(usize::MAX)
}
