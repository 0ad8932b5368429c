//! The identity. Several inputs are concatenated.
//!
//! # Equation
//!
//! ```text
//! y = x
//! ```
//!
//! # Tensors
//!
//! None.
//!
//! # Known as
//!
//! Keras's `Concatenate` and `Flatten`, ONNX `Concat`, PyTorch's `cat`; `Dropout` at inference.
//!
//! # Golden cases
//!
//! None of its own.

pub mod i8;
pub mod integer;

use super::prelude::*;

pub(super) const SPEC: CellSpec =
    CellSpec { name: "identity", rules: &[RECURRENT, Rule::Equal(Dim::Input, Dim::Output)], ..CellSpec::EMPTY };

pub(super) const fn entry<W: Weight, K: Kernel>() -> Entry {
    const {
        Entry {
            spec: &SPEC,
            float: &[&Cell::float(&SPEC, step::<f32>)],
            integer: &[
                (&integer::SPEC, &Cell::integer(&SPEC, &integer::SPEC, step::<i16>)),
                (&integer::SPEC, &Cell::integer(&SPEC, &integer::SPEC, integer::step).when(integer::RARE)),
            ],
            i8: &[(&i8::SPEC, &Cell::integer(&SPEC, &i8::SPEC, i8::step))],
        }
    }
}

/// One step. `x` and `y` have the same length.
pub(crate) fn step<E: Copy>(_: &Node<'_>, io: Io<'_, E>) {
    copy(io.y, io.x);
}
