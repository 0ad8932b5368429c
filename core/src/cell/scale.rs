//! A gain and a bias for each channel, such as a batch normalization that could not be folded into the layer before it.
//!
//! # Equation
//!
//! ```text
//! y = gain ⊙ x + bias      the channels repeat
//! ```
//!
//! # Tensors
//!
//! | name | shape | when |
//! |---|---|---|
//! | `gain` | `[channels]` | with `gain`, otherwise 1 |
//! | `bias` | `[channels]` | optional, otherwise 0 |
//!
//! # Options
//!
//! | name | what |
//! |---|---|
//! | `gain` | each channel has a gain |
//!
//! # Extents
//!
//! | name | what |
//! |---|---|
//! | `channels` | number of channels; divides the input |
//!
//! # Known as
//!
//! `BatchNormalization` at inference, Keras's `Rescaling` and `Normalization`.
//!
//! # Golden cases
//!
//! None of its own.

pub mod i8;
pub mod integer;

use super::prelude::*;

const OPTIONS: &[&str] = &["gain"];
const GAIN: u32 = option(OPTIONS, "gain");

const EXTENTS: &[ExtentSpec] = &[ExtentSpec::one("channels")];
const CHANNELS: usize = extent(EXTENTS, "channels");

const CANONICAL: &[CanonicalSpec; 2] = &[
    CanonicalSpec::vector("gain", Dim::Extent(CHANNELS)).with(GAIN),
    CanonicalSpec::vector("bias", Dim::Extent(CHANNELS)).optional(),
];

pub(super) const SPEC: CellSpec = CellSpec {
    name: "scale",
    extents: EXTENTS,
    rules: &[RECURRENT, Rule::Equal(Dim::Input, Dim::Output), Rule::Multiple(Dim::Input, Dim::Extent(CHANNELS))],
    options: OPTIONS,
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
            i8: &[(&i8::SPEC, &Cell::integer(&SPEC, &i8::SPEC, i8::step))],
        }
    }
}

/// One step. `x` and `y` have the same length.
pub(crate) fn step(node: &Node<'_>, io: Io<'_>) {
    let (gains, biases) = (node.elements(GAINS), node.elements(BIASES));
    copy(io.y, io.x);
    let (mut rest, channels) = (io.y, node.extent(CHANNELS));
    while let Some((y, others)) = rest.split_at_mut_checked(channels).filter(|(y, _)| !y.is_empty()) {
        for (y, &gain) in y.iter_mut().zip(gains) {
            *y *= gain;
        }
        for (y, &bias) in y.iter_mut().zip(biases) {
            *y += bias;
        }
        rest = others;
    }
}
