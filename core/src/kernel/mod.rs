//! Inner products, and the one place that picks them. Scalar Rust is the reference.
//!
//! Kernels know slices only. Matrices lie in blocks of four rows, column by column, so that one walk over the
//! weights serves four accumulators; every row is summed over ascending columns in a single chain, which fixes
//! the result bit for bit.

mod scalar;

pub use scalar::{accumulate, accumulate_each};

use half::f16;

/// A matrix element as it lies in flash.
pub trait Weight: bytemuck::Pod {
    /// Its value, exactly.
    fn widen(self) -> f32;
}

impl Weight for f32 {
    fn widen(self) -> f32 {
        self
    }
}

impl Weight for f16 {
    fn widen(self) -> f32 {
        self.to_f32()
    }
}
