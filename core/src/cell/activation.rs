//! An activation by itself.
//!
//! # Equation
//!
//! ```text
//! y = act(x)
//! ```
//!
//! # Tensors
//!
//! None.
//!
//! # Activations
//!
//! | name | default |
//! |---|---|
//! | `activation` | `identity` |
//!
//! # Known as
//!
//! Keras's `Activation` and `ReLU`, PyTorch's `nn.Tanh` and its like.
//!
//! # Golden cases
//!
//! None of its own.

mod i8;
pub mod integer;

use super::identity;
use super::prelude::*;

pub(super) const SPEC: CellSpec = CellSpec {
    name: "activation",
    rules: &[RECURRENT, Rule::Equal(Dim::Input, Dim::Output)],
    activations: &[ActivationSpec { name: "activation", default: Activation::Identity }],
    curves: &[Dim::Output],
    ..CellSpec::EMPTY
};

pub(super) const fn entry<W: Weight, K: Kernel>() -> Entry {
    const {
        Entry {
            spec: &SPEC,
            float: &[&Cell::float(&SPEC, step)],
            integer: &[(&integer::SPEC, &Cell::integer(&SPEC, &integer::SPEC, integer::step))],
            i8: &[
                (&i8::SPEC, &Cell::integer(&SPEC, &i8::SPEC, identity::i8::step)),
                (&i8::SPEC, &Cell::integer(&SPEC, &i8::SPEC, i8::step).when(i8::TABULATED)),
            ],
        }
    }
}

/// One step. `x` and `y` have the same length.
pub(crate) fn step(node: &Node<'_>, io: Io<'_>) {
    let activation = node.activation(0);
    for (y, &x) in io.y.iter_mut().zip(io.x) {
        *y = activation.apply(x);
    }
}
