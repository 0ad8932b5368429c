//! Storage types of weights. f16 is widened when it is loaded, so every sum has the same bits as with f32 weights.

use bytemuck::Pod;
use half::f16;
use tidegate::Numeric;

use crate::simd::Simd;

/// Storage type of a weight.
pub trait Weight: Pod + Send + Sync {
    /// A vector of weights.
    type Lanes<S: Simd>: Pod;
    /// A vector of unfinished sums.
    type Sums<S: Simd>: Copy;

    /// Element `index` of a tensor of a float image; 0 beyond its end.
    fn at(tensor: &[u8], numeric: Numeric, index: usize) -> Self;
    /// Loads a vector as f32.
    fn load<S: Simd>(s: S, from: &Self::Lanes<S>) -> S::F32;
    /// Begins chains from these sums.
    fn begin<S: Simd>(s: S, sums: S::F32) -> Self::Sums<S>;
    /// sums + weights · x. All lanes of `x` are equal.
    fn add<S: Simd>(s: S, weights: &Self::Lanes<S>, x: S::F32, sums: Self::Sums<S>) -> Self::Sums<S>;
    /// The finished sums.
    fn end<S: Simd>(s: S, sums: Self::Sums<S>) -> S::F32;
}

impl Weight for f32 {
    type Lanes<S: Simd> = S::Lanes;
    type Sums<S: Simd> = S::F32;

    #[inline]
    fn at(tensor: &[u8], numeric: Numeric, index: usize) -> Self {
        if numeric == Numeric::F16 {
            return f16::at(tensor, numeric, index).to_f32();
        }
        let bytes = tensor.get(4 * index..).and_then(|bytes| bytes.first_chunk());
        bytes.map_or(0.0, |bytes| Self::from_le_bytes(*bytes))
    }

    #[inline(always)]
    fn load<S: Simd>(s: S, from: &S::Lanes) -> S::F32 {
        s.load(from)
    }

    #[inline(always)]
    fn begin<S: Simd>(_: S, sums: S::F32) -> S::F32 {
        sums
    }

    #[inline(always)]
    fn add<S: Simd>(s: S, weights: &S::Lanes, x: S::F32, sums: S::F32) -> S::F32 {
        s.fma(s.load(weights), x, sums)
    }

    #[inline(always)]
    fn end<S: Simd>(_: S, sums: S::F32) -> S::F32 {
        sums
    }
}

impl Weight for f16 {
    type Lanes<S: Simd> = S::Halves;
    type Sums<S: Simd> = S::Parts;

    /// Reads an image in f16.
    #[inline]
    fn at(tensor: &[u8], _: Numeric, index: usize) -> Self {
        let bytes = tensor.get(2 * index..).and_then(|bytes| bytes.first_chunk());
        bytes.map_or(Self::ZERO, |bytes| Self::from_le_bytes(*bytes))
    }

    #[inline(always)]
    fn load<S: Simd>(s: S, from: &S::Halves) -> S::F32 {
        s.widen(from)
    }

    #[inline(always)]
    fn begin<S: Simd>(s: S, sums: S::F32) -> S::Parts {
        s.split(sums)
    }

    #[inline(always)]
    fn add<S: Simd>(s: S, weights: &S::Halves, x: S::F32, sums: S::Parts) -> S::Parts {
        s.fma_halves(weights, x, sums)
    }

    #[inline(always)]
    fn end<S: Simd>(s: S, sums: S::Parts) -> S::F32 {
        s.join(sums)
    }
}
