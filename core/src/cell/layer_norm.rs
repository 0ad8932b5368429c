//! Layer normalization (Ba 2016) over all features, or over adjacent groups of them (Wu 2018).
//!
//! # Equation
//!
//! ```text
//! m = Σ x / n      v = Σ (x - m)² / n      over the n features of a group
//! y = (x - m) / √(v + ε) ⊙ gain + bias
//!
//! m = 0                                     with `rms`
//! ```
//!
//! # Tensors
//!
//! | name | shape | when |
//! |---|---|---|
//! | `gain` | `[input]` | with `gain`, otherwise 1 |
//! | `bias` | `[input]` | optional, otherwise 0 |
//!
//! # Options
//!
//! | name | what |
//! |---|---|
//! | `gain` | each feature has a gain |
//! | `rms` | normalizes by the root mean square instead of the deviation (Zhang 2019) |
//!
//! # Extents
//!
//! | name | what |
//! |---|---|
//! | `groups` | parts of the input, each with its own mean and variance |
//!
//! # Parameters
//!
//! | name | what |
//! |---|---|
//! | `epsilon` | ε, added to the variance |
//!
//! # Known as
//!
//! `LayerNormalization` of Keras and ONNX, PyTorch's `nn.LayerNorm` and `nn.GroupNorm` over one pixel. With `rms`: PyTorch's
//! `nn.RMSNorm`, `RMSNormalization` of ONNX.
//!
//! # Golden cases
//!
//! None of its own.

mod integer;

use super::prelude::*;
use crate::norm::Moments;

const OPTIONS: &[&str] = &["gain", "rms"];
const GAIN: u32 = option(OPTIONS, "gain");
/// The bit of the option `rms`.
pub const RMS: u32 = option(OPTIONS, "rms");

const EXTENTS: &[ExtentSpec] = &[ExtentSpec::one("groups")];
const GROUPS: usize = extent(EXTENTS, "groups");
/// Features of a group.
const GROUP_SIZE: Dim = Dim::Quotient(&[Dim::Input, Dim::Extent(GROUPS)]);

const CANONICAL: &[CanonicalSpec; 2] =
    &[CanonicalSpec::vector("gain", Dim::Input).with(GAIN), CanonicalSpec::vector("bias", Dim::Input).optional()];

pub(super) const SPEC: CellSpec = CellSpec {
    name: "layer_norm",
    extents: EXTENTS,
    rules: &[RECURRENT, Rule::Equal(Dim::Input, Dim::Output), Rule::Multiple(Dim::Input, Dim::Extent(GROUPS))],
    options: OPTIONS,
    params: &[ParamSpec::optional("epsilon")],
    canonical: CANONICAL,
    tensors: &TensorSpec::each(CANONICAL, &[]),
    ..CellSpec::EMPTY
};

const GAINS: usize = SPEC.tensor("gain");
const BIASES: usize = SPEC.tensor("bias");

pub(super) const fn entry<W: Weight, K: Kernel>() -> Entry {
    const {
        Entry {
            spec: &SPEC,
            float: &[&Cell::float(&SPEC, step)],
            integer: &[(&integer::SPEC, &Cell::integer(&SPEC, &integer::SPEC, integer::step))],
            ..Entry::EMPTY
        }
    }
}

/// One step. `x` and `y` have the same length.
pub(crate) fn step(node: &Node<'_>, io: Io<'_>) {
    let Io { x, y, .. } = io;
    let (size, epsilon) = (node.dim(&GROUP_SIZE), node.param(0));
    let (mut from, mut to) = (x, &mut *y);
    while let (Some((x, others)), Some((y, behind))) = (from.split_at_checked(size), to.split_at_mut_checked(size)) {
        if x.is_empty() {
            break;
        }
        let values = x.iter().copied();
        let moments =
            if node.has(RMS) { Moments::root_mean_square(values, epsilon) } else { Moments::of(values, epsilon) };
        for (y, &x) in y.iter_mut().zip(x) {
            *y = moments.apply(x);
        }
        (from, to) = (others, behind);
    }
    for (y, &gain) in y.iter_mut().zip(node.elements(GAINS)) {
        *y *= gain;
    }
    for (y, &bias) in y.iter_mut().zip(node.elements(BIASES)) {
        *y += bias;
    }
}
