//! The same part of every row of the input, such as some channels of every pixel.
//!
//! # Equation
//!
//! ```text
//! y[r] = x[r · row + first …]      output / rows elements of each row
//! ```
//!
//! # Tensors
//!
//! None.
//!
//! # Extents
//!
//! | name | what |
//! |---|---|
//! | `rows` | number of rows |
//! | `row` | elements of a row, `input_size = rows · row` |
//! | `first` | the first element of the part |
//!
//! # Known as
//!
//! `STRIDED_SLICE`, `SPLIT` and `SPLIT_V` of TFLite, ONNX `Slice` and `Split`, PyTorch's `narrow` and `chunk`.
//!
//! # Golden cases
//!
//! None of its own.

use super::prelude::*;

const EXTENTS: &[ExtentSpec] = &[ExtentSpec::one("rows"), ExtentSpec::one("row"), ExtentSpec::zero("first")];

mod extent {
    use super::{EXTENTS, extent};

    pub const ROWS: usize = extent(EXTENTS, "rows");
    pub const ROW: usize = extent(EXTENTS, "row");
    pub const FIRST: usize = extent(EXTENTS, "first");
}

const ROWS: Dim = Dim::Extent(extent::ROWS);
const ROW: Dim = Dim::Extent(extent::ROW);
/// Elements of a row of the output.
const PART: Dim = Dim::Quotient(&[Dim::Output, ROWS]);

pub(super) const SPEC: CellSpec = CellSpec {
    name: "slice",
    extents: EXTENTS,
    rules: &[
        RECURRENT,
        Rule::Equal(Dim::Input, Dim::Product(&[ROWS, ROW])),
        Rule::Multiple(Dim::Output, ROWS),
        Rule::AtMost(Dim::Sum(&[Dim::Extent(extent::FIRST), PART]), ROW),
    ],
    ..CellSpec::EMPTY
};

/// The integer form, with the same step.
pub const INTEGER: IntegerSpec = IntegerSpec { quantization: Quantization::MOVE.on_host(), ..IntegerSpec::EMPTY };

/// The form in every integer numeric.
const MOVING: &[(&IntegerSpec, &Cell)] = &[(&INTEGER, &Cell::integer(&SPEC, &INTEGER, step::<i16>))];

pub(super) const fn entry<W: Weight, K: Kernel>() -> Entry {
    const { Entry { spec: &SPEC, float: &[&Cell::float(&SPEC, step::<f32>)], integer: MOVING, i8: MOVING } }
}

/// One step. `x` is `[rows, row]`, `y` is `[rows, part]`.
pub(crate) fn step<E: Copy>(node: &Node<'_>, io: Io<'_, E>) {
    let (row, part, first) = (node.dim(&ROW), node.dim(&PART), node.extent(extent::FIRST));
    for (y, x) in io.y.chunks_mut(part.max(1)).zip(io.x.chunks(row.max(1))) {
        copy(y, x.get(first..).unwrap_or_default());
    }
}
