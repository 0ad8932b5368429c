//! The integer numerics, `i8x16` and `i4x16`, bit for bit as [`tidegate`] computes them: sums of 32 bits wrap, so that
//! their order means nothing, and every rounding is that of [`tidegate::quant`] and [`tidegate::curve`].
//!
//! Kernels are written once over [`Integers`], vectors of so many units; [`Panels`] hold weights as vectors read them. The
//! weights of `i4x16` are widened when a model is loaded: each is one of `i8x16`.

mod buffer;
mod curve;
mod dense;
mod gru;
mod lstm;
mod panels;
mod scalar;
mod simd;

pub use dense::Dense;
pub use gru::Gru;
pub use lstm::Lstm;
pub use panels::Panels;
pub use scalar::Scalar;
pub use simd::{Integers, Kernel, run};
