//! A fully connected layer, or several of them side by side.
//!
//! # Equation
//!
//! ```text
//! y = act(W x + b)      W block-diagonal where there are groups
//! ```
//!
//! # Tensors
//!
//! | name | shape | when |
//! |---|---|---|
//! | `weights` | `[output, input / groups]` | always |
//! | `bias` | `[output]` | optional, otherwise 0 |
//!
//! # Extents
//!
//! | name | what |
//! |---|---|
//! | `groups` | parts of the input and of the output; each part of the output reads its own part of the input |
//!
//! # Activations
//!
//! | name | default |
//! |---|---|
//! | `activation` | `identity` |
//!
//! # Known as
//!
//! Keras's `Dense`, PyTorch's `nn.Linear`, ONNX `Gemm`; a multiplication by a block-diagonal matrix.
//!
//! # Golden cases
//!
//! `tf1__InputProjectionWrapper__*`, `tf1__OutputProjectionWrapper__*`, `edgeml__*__lowrank_*`, and layers of
//! frameworks with a product outside their cell.

pub mod i8;
pub mod integer;

use super::patch::grouped;
use super::prelude::*;

const EXTENTS: &[ExtentSpec] = &[ExtentSpec::one("groups")];

pub(super) const GROUPS: usize = extent(EXTENTS, "groups");
/// Features that a unit reads.
pub(super) const COLS: Dim = Dim::Quotient(&[Dim::Input, Dim::Extent(GROUPS)]);

const CANONICAL: &[CanonicalSpec; 2] =
    &[CanonicalSpec::matrix("weights", Dim::Output, COLS), CanonicalSpec::vector("bias", Dim::Output).optional()];

pub(super) const SPEC: CellSpec = CellSpec {
    name: "dense",
    extents: EXTENTS,
    rules: &[
        RECURRENT,
        Rule::Multiple(Dim::Input, Dim::Extent(GROUPS)),
        Rule::Multiple(Dim::Output, Dim::Extent(GROUPS)),
    ],
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
            float: &[&Cell::float(&SPEC, step::<W>)],
            integer: &[
                (&integer::SPEC, &Cell::integer_whole(&SPEC, integer::step::<K>)),
                (&integer::SPEC, &Cell::integer_whole(&SPEC, integer::step_any::<K>).when(1 << WIDE)),
            ],
            i8: &[(&i8::SPEC, &Cell::integer(&SPEC, &i8::SPEC, i8::step::<K>))],
        }
    }
}

/// One step. `x` is `[input]`, `y` is `[output]`.
pub(crate) fn step<W: Weight>(node: &Node<'_>, io: Io<'_>) {
    let groups = node.extent(GROUPS);
    let cols = if groups == 1 { node.input_size } else { node.dim(&COLS) };
    grouped::<W>(node, io.x, cols, groups, io.y);
}
