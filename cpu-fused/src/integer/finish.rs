//! [`Finish`]: the last operations on the sums of a layer without recurrent weights.

use tidegate::internals::quant::MAX;

use super::Integers;
use super::curve::{Activation, clamp};
use super::panels::NUMBERS;

/// The last operations of a row.
pub trait Finish<S: Integers>: Send + Sync {
    /// The outputs of a block of rows, from their numbers and sums.
    fn finish(&self, simd: S, numbers: &[S::Lanes; NUMBERS], sum: S::Vector) -> S::Vector;
}

impl<S: Integers> Finish<S> for Activation<'_> {
    #[inline(always)]
    fn finish(&self, simd: S, numbers: &[S::Lanes; NUMBERS], sum: S::Vector) -> S::Vector {
        clamp(simd, self.apply(simd, simd.mulh(sum, simd.load(&numbers[3]))), -MAX, MAX)
    }
}
