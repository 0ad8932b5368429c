//! A row of a table: the vector of a word, a symbol or a speaker.
//!
//! # Equation
//!
//! ```text
//! y = weights[min(max(round(x), 0), vocabulary - 1)]      halves away from zero
//! ```
//!
//! What is not a number is index 0.
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

use super::{CanonicalSpec, CellSpec, Dim, ExtentSpec, Io, RECURRENT, Rule, TensorSpec};
use crate::kernel::Weight;
use crate::node::Node;

/// Index of the extent `vocabulary`.
const VOCABULARY: usize = 0;

/// See the [module](self).
pub const SPEC: CellSpec = CellSpec {
    name: "embedding",
    gates: &[],
    extents: &[ExtentSpec::one("vocabulary")],
    rules: &[RECURRENT, Rule::Equal(Dim::Input, Dim::Const(1))],
    states: &[],
    work: &[],
    options: &[],
    params: &[],
    activations: &[],
    canonical: &[CanonicalSpec::matrix("weights", Dim::Extent(VOCABULARY), Dim::Output)],
    // Nothing is multiplied.
    tensors: &[TensorSpec::matrix("weights", &["weights"], Dim::Extent(VOCABULARY), Dim::Output).passes(Dim::Const(0))],
};

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
