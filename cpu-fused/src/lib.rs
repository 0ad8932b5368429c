//! Runs the images of [`tidegate`] on hosts, fast: the instruction set is asked for once, when a model is loaded, and each
//! layer is packed once for it.
//!
//! Integer numerics give the bits of `tidegate`; f32 differs from it in rounding only (each sum is one chain of fused
//! multiply-adds, over ascending columns), and is the same bits whether a sequence is stepped, run as a whole or in a batch.

#![deny(missing_docs)]

pub mod arch;
mod curves;
mod integer;
pub mod isa;
mod lines;
mod model;
mod node;
mod panels;
mod sequence;
pub mod simd;
mod step;
mod stream;
mod sums;

pub use isa::Isa;
pub use model::{FusedModel, Scratch};
pub use stream::Stream;
