//! Elements of every row of the input in any order: reversals, transposes, interleaved channels, padding with zeros.
//!
//! # Equation
//!
//! ```text
//! y[r, k] = x[r, index[k]]      0 where index[k] ≥ row, with row = input / rows
//! ```
//!
//! # Tensors
//!
//! | name | shape | when |
//! |---|---|---|
//! | `index` | `[output / rows]`, whole numbers from 0 to 65,535 | always |
//!
//! An image stores each index in 16 bits, in every numeric.
//!
//! # Extents
//!
//! | name | what |
//! |---|---|
//! | `rows` | number of rows of the input and of the output |
//!
//! # Known as
//!
//! ONNX `Gather`, `Pad`, `Transpose` and `ScatterND` with constant indices, PyTorch's `index_select`.
//!
//! # Golden cases
//!
//! None of its own.

use super::prelude::*;

/// The greatest index.
const MOST: usize = u16::MAX as usize;

const EXTENTS: &[ExtentSpec] = &[ExtentSpec::one("rows")];
const ROWS: Dim = Dim::Extent(extent(EXTENTS, "rows"));
/// Elements of a row of the input.
const ROW: Dim = Dim::Quotient(&[Dim::Input, ROWS]);
/// Elements of a row of the output.
const PART: Dim = Dim::Quotient(&[Dim::Output, ROWS]);

const TENSORS: &[TensorSpec] =
    &[TensorSpec::vector("index", &["index"], PART).passes(&Dim::Const(0)).stored(Storage::Index)];
const INDEX: usize = 0;

pub(super) const SPEC: CellSpec = CellSpec {
    name: "gather",
    extents: EXTENTS,
    rules: &[
        RECURRENT,
        Rule::Multiple(Dim::Input, ROWS),
        Rule::Multiple(Dim::Output, ROWS),
        Rule::AtMost(ROW, Dim::Const(MOST)),
    ],
    canonical: &[CanonicalSpec::vector("index", PART)],
    tensors: TENSORS,
    ..CellSpec::EMPTY
};

/// The integer form, with the same step.
pub const INTEGER: IntegerSpec =
    IntegerSpec { tensors: TENSORS, quantization: Quantization::MOVE.on_host(), ..IntegerSpec::EMPTY };

/// The form in every integer numeric.
const MOVING: &[(&IntegerSpec, &Cell)] = &[(&INTEGER, &Cell::integer(&SPEC, &INTEGER, step::<i16>))];

pub(super) const fn entry<W: Weight, K: Kernel>() -> Entry {
    const { Entry { spec: &SPEC, float: &[&Cell::float(&SPEC, step::<f32>)], integer: MOVING, i8: MOVING } }
}

/// One step. `x` is `[rows, row]`, `y` is `[rows, part]`.
pub(crate) fn step<E: Copy + Default>(node: &Node<'_>, io: Io<'_, E>) {
    let (row, part, index) = (node.dim(&ROW), node.dim(&PART), node.indices(INDEX));
    for (y, x) in io.y.chunks_mut(part.max(1)).zip(io.x.chunks(row.max(1))) {
        for (y, &index) in y.iter_mut().zip(index) {
            *y = x.get(usize::from(index)).copied().unwrap_or_default();
        }
    }
}
