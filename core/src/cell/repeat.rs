//! The input as several rows that are all the same: what a decoder is unrolled over.
//!
//! # Equation
//!
//! ```text
//! y = [x, x, …, x]      `times` rows
//! ```
//!
//! All of its rows are valid, however many of those in front of it were.
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

use super::{CellSpec, Dim, ExtentSpec, IntegerSpec, RECURRENT, Rule, copy};
use crate::node::Node;

/// Index of the extent `times`.
const TIMES: usize = 0;

/// See the [module](self).
pub const SPEC: CellSpec = CellSpec {
    name: "repeat",
    gates: &[],
    extents: &[ExtentSpec::one("times")],
    rules: &[RECURRENT, Rule::Equal(Dim::Output, Dim::Product(&[Dim::Extent(TIMES), Dim::Input]))],
    states: &[],
    work: &[],
    options: &[],
    params: &[],
    activations: &[],
    canonical: &[],
    tensors: &[],
};

/// In the integer numerics, the same.
pub const INTEGER: IntegerSpec = IntegerSpec::moving(0, &[]);

/// One step. `x` is `[input]`, `y` is `[times · input]`. At the end of a sequence it has nothing of its own to give.
pub(crate) fn step<E: Copy>(node: &Node<'_>, x: Option<&[E]>, _: &mut [E], y: &mut [E]) -> Option<usize> {
    let x = x?.get(..node.input_size)?;
    let mut rest = y;
    while let Some((row, others)) = rest.split_at_mut_checked(x.len()).filter(|(row, _)| !row.is_empty()) {
        copy(row, x);
        rest = others;
    }
    Some(node.extent(TIMES))
}
