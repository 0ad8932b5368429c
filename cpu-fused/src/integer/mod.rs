//! Kernels of the integer numerics, bit-identical to `core/src/cell/*/integer.rs`, and for `i8` to
//! `core/src/cell/*/i8.rs`: 32-bit sums wrap, so that their order does not matter, and all rounding follows
//! [`tidegate::internals::quant`] and [`tidegate::internals::curve`], or [`tidegate::internals::fixed`].
//!
//! Kernels are generic over [`Integers`], vectors of units. [`Panels`](panels::Panels) hold weights in the order of the
//! kernels, and [`Blocks`](sums::Blocks) compute their sums. The weights of `i4x16` are widened to 8 bits when a model
//! is loaded.

pub mod conv;
mod curve;
pub mod dense;
pub mod elman;
mod finish;
pub mod gru;
pub mod i8;
pub mod lstm;
mod panels;
mod scalar;
mod sequence;
pub mod simd;
mod sums;

use tidegate::internals::{cell::IntegerSpec, node::Node};

use curve::Activation;
pub use simd::Integers;

/// Looks up tensors and numbers of an integer node by name.
struct Names(&'static IntegerSpec);

impl Names {
    fn of(node: &Node<'_>) -> Option<Self> {
        node.integer_spec().map(Self)
    }

    fn tensor(&self, name: &str) -> Option<usize> {
        self.0.tensors.iter().position(|tensor| tensor.name == name)
    }

    fn number(&self, name: &str) -> Option<usize> {
        self.0.numbers.iter().position(|number| number.name == name)
    }

    /// The activation of a node that has only one, whose argument has `preact_bits` fraction bits. `table` and `shift`
    /// name its table and the number for the table's step.
    fn activation<'m>(&self, node: &Node<'m>, table: &str, shift: &str) -> Option<Activation<'m>> {
        let curve = node.curve(0, self.tensor(table)?, self.number(shift)?);
        Some(Activation { curve, bits: node.number(self.number("preact_bits")?).unsigned_abs() })
    }
}

/// Whether an option is set.
fn has(node: &Node<'_>, option: &str) -> bool {
    node.spec().options.iter().position(|&name| name == option).is_some_and(|index| node.has(index as u32))
}
