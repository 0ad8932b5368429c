//! A row of a table: the vector of a word, a symbol or a speaker.
//!
//! # Equation
//!
//! ```text
//! y = weights[min(max(round(x), 0), vocabulary - 1)]      halves away from zero
//! ```
//!
//! NaN selects row 0.
//!
//! # Tensors
//!
//! | name | shape | when |
//! |---|---|---|
//! | `weights` | `[vocabulary, output]` | always |
//!
//! # Extents
//!
//! | name | what |
//! |---|---|
//! | `vocabulary` | rows of the table |
//!
//! # Known as
//!
//! Keras's `Embedding`, PyTorch's `nn.Embedding`, TensorFlow's `embedding_lookup`.
//!
//! # Golden cases
//!
//! None of its own.

pub mod integer;

use super::prelude::*;

const EXTENTS: &[ExtentSpec] = &[ExtentSpec::one("vocabulary")];
const VOCABULARY: usize = extent(EXTENTS, "vocabulary");

pub(super) const SPEC: CellSpec = CellSpec {
    name: "embedding",
    extents: EXTENTS,
    rules: &[RECURRENT, Rule::Equal(Dim::Input, Dim::Const(1))],
    canonical: &[CanonicalSpec::matrix("weights", Dim::Extent(VOCABULARY), Dim::Output)],
    // A step multiplies nothing.
    tensors: &[TensorSpec::matrix("weights", &["weights"], Dim::Extent(VOCABULARY), Dim::Output).passes(&Dim::Const(0))],
    ..CellSpec::EMPTY
};

pub(super) const fn entry<W: Weight, K: Kernel>() -> Entry {
    const {
        Entry {
            spec: &SPEC,
            float: &[&Cell::float(&SPEC, step::<W>)],
            integer: &[(&integer::SPEC, &Cell::integer(&SPEC, &integer::SPEC, integer::step))],
            ..Entry::EMPTY
        }
    }
}

/// One step. `x` is `[1]`, `y` is `[output]`.
pub(crate) fn step<W: Weight>(node: &Node<'_>, io: Io<'_>) {
    let &[x] = io.x else { return };
    let row = nearest(x).min(node.extent(VOCABULARY).saturating_sub(1));
    let block = node.matrix::<W>(0).blocks().nth(row / 4).unwrap_or_default();
    for (y, weights) in io.y.iter_mut().zip(block) {
        *y = weights.get(row % 4).map_or(0.0, |weight| weight.widen());
    }
}

/// The nearest whole number, halves up; 0 below 0.
fn nearest(x: f32) -> usize {
    // A cast saturates. x + 0.5 would round 0.49999997 up.
    let whole = x as usize;
    if x - whole as f32 >= 0.5 { whole.saturating_add(1) } else { whole }
}
