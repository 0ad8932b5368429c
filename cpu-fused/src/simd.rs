//! Vector operations of the float kernels, and their portable implementation. A value of a [`Simd`] type proves that
//! the CPU has its instructions.

use core::f32::consts::{LN_2, LOG2_E};

use bytemuck::Pod;
use half::f16;

/// Code that is compiled for the instructions of a [`Simd`].
pub trait Task {
    /// Result of the task.
    type Output;
    /// Runs the task. Implementations are `#[inline(always)]`, so that the caller's instructions apply.
    fn run(self) -> Self::Output;
}

/// An instruction set. A value proves that the CPU has it.
pub trait Instructions: Copy + Send + Sync + 'static {
    /// Runs a task compiled for these instructions.
    fn vectorize<T: Task>(self, task: T) -> T::Output;
    /// Runs a task without inlining it: it has all registers to itself, and one copy serves all callers.
    fn call<T: Task>(self, task: T) -> T::Output;
}

/// Vectors of f32 and their operations, lane by lane.
pub trait Simd: Instructions {
    /// A vector in memory.
    type Lanes: Pod + Send + Sync;
    /// A vector of f16 in memory.
    type Halves: Pod + Send + Sync;
    /// A vector in a register.
    type F32: Copy;
    /// The same in registers of the width that suits [`fma_halves`](Self::fma_halves) best.
    type Parts: Copy;
    /// Number of lanes.
    const LANES: usize;
    /// Largest number of rows in a block of a batch.
    const ROWS: usize;
    /// Largest number of vectors of sums in a block, limited by the registers.
    const SUMS: usize;

    /// A vector with the same number in every lane.
    fn splat(self, value: f32) -> Self::F32;
    /// Loads a vector.
    fn load(self, from: &Self::Lanes) -> Self::F32;
    /// Stores a vector.
    fn store(self, value: Self::F32, to: &mut Self::Lanes);
    /// Loads a vector of f16.
    fn widen(self, from: &Self::Halves) -> Self::F32;
    /// Splits a vector into parts.
    fn split(self, whole: Self::F32) -> Self::Parts;
    /// Joins parts that [`split`](Self::split) made.
    fn join(self, parts: Self::Parts) -> Self::F32;
    /// [`fma`](Self::fma) with f16 from memory. All lanes of `b` are equal.
    fn fma_halves(self, a: &Self::Halves, b: Self::F32, c: Self::Parts) -> Self::Parts;
    /// Loads a slice of up to `LANES` numbers (or the first `LANES` of a longer one) and zeros in the other lanes.
    fn load_part(self, from: &[f32]) -> Self::F32;
    /// Stores the first lanes to a slice, at most `LANES` of them.
    fn store_part(self, value: Self::F32, to: &mut [f32]);
    /// a + b
    fn add(self, a: Self::F32, b: Self::F32) -> Self::F32;
    /// a - b
    fn sub(self, a: Self::F32, b: Self::F32) -> Self::F32;
    /// a · b
    fn mul(self, a: Self::F32, b: Self::F32) -> Self::F32;
    /// a / b
    fn div(self, a: Self::F32, b: Self::F32) -> Self::F32;
    /// a · b + c, rounded once if the instructions can do so.
    fn fma(self, a: Self::F32, b: Self::F32, c: Self::F32) -> Self::F32;
    /// c - a · b, rounded once if the instructions can do so.
    fn fnma(self, a: Self::F32, b: Self::F32, c: Self::F32) -> Self::F32;
    /// The smaller of both; `b` if either is NaN.
    fn min(self, a: Self::F32, b: Self::F32) -> Self::F32;
    /// |a|
    fn abs(self, a: Self::F32) -> Self::F32;
    /// `size` with the sign of `sign`; the sign bit of `size` must not be set.
    fn signed(self, size: Self::F32, sign: Self::F32) -> Self::F32;
    /// 2^n for a number whose low bits hold n.
    fn power(self, low_bits: Self::F32) -> Self::F32;
    /// The sum of all lanes: halves are added until one lane is left.
    fn sum(self, a: Self::F32) -> f32;
    /// tanh(`scale` · x) within [`TANH_MAX_ERROR`](tidegate::internals::activation::TANH_MAX_ERROR); `scale` is a power of 2.
    #[inline(always)]
    fn tanh(self, x: Self::F32, scale: f32) -> Self::F32 {
        tanh_by_exp(self, self.mul(self.splat(scale), x))
    }

    /// σ(x) = (1 + tanh(x / 2)) / 2, within [`SIGMOID_MAX_ERROR`](tidegate::internals::activation::SIGMOID_MAX_ERROR).
    #[inline(always)]
    fn sigmoid(self, x: Self::F32) -> Self::F32 {
        let half = self.splat(0.5);
        self.fma(half, self.tanh(x, 0.5), half)
    }

    /// σ(`gate`) · tanh(x), within the errors of both factors and of one product.
    #[inline(always)]
    fn gated_tanh(self, gate: Self::F32, x: Self::F32) -> Self::F32 {
        self.mul(self.sigmoid(gate), self.tanh(x, 1.0))
    }
}

/// Above this, tanh rounds to 1.
const LIMIT: f32 = 9.1;
/// Adding and subtracting 1.5 · 2^23 rounds to an integer; after the addition its bits are the low bits of the sum.
const ROUND: f32 = 12_582_912.0;
/// P of e^2r - 1 = 2r + r² P(r) for |r| ≤ ln 2 / 4, from `tests/fit/tanh.py`.
const P: [f32; 5] = [1.999_999_9, 1.333_323_7, 0.666_678_97, 0.267_720_7, 0.088_772_43];

/// E / (E + 2), E = e^2|x| - 1, with the sign of x.
#[inline(always)]
fn tanh_by_exp<S: Simd>(s: S, x: S::F32) -> S::F32 {
    let size = s.min(s.splat(LIMIT), s.abs(x));
    let shifted = s.fma(size, s.splat(2.0 * LOG2_E), s.splat(ROUND));
    let r = s.fnma(s.sub(shifted, s.splat(ROUND)), s.splat(LN_2 / 2.0), size);
    let [a, b, c, d, e] = P.map(|p| s.splat(p));
    let two = s.splat(2.0);
    let p = s.fma(s.fma(s.fma(s.fma(s.fma(e, r, d), r, c), r, b), r, a), r, two);
    let power = s.power(shifted);
    let expm1 = s.fma(s.mul(p, r), power, s.sub(power, s.splat(1.0)));
    s.signed(s.div(expm1, s.add(expm1, two)), x)
}

/// Portable Rust. Products are rounded before they are added.
#[derive(Clone, Copy, Debug)]
pub struct Scalar;

/// Lanes of [`Scalar`]: compilers turn four numbers into a vector on every common target.
const PLAIN: usize = 4;

impl Scalar {
    #[inline(always)]
    fn zip(a: [f32; PLAIN], b: [f32; PLAIN], f: impl Fn(f32, f32) -> f32) -> [f32; PLAIN] {
        let ([a, b, c, d], [e, g, h, i]) = (a, b);
        [f(a, e), f(b, g), f(c, h), f(d, i)]
    }
}

impl Instructions for Scalar {
    fn vectorize<T: Task>(self, task: T) -> T::Output {
        task.run()
    }

    #[inline(never)]
    fn call<T: Task>(self, task: T) -> T::Output {
        task.run()
    }
}

impl Simd for Scalar {
    type Lanes = [f32; PLAIN];
    type Halves = [f16; PLAIN];
    type F32 = [f32; PLAIN];
    type Parts = [f32; PLAIN];
    const LANES: usize = PLAIN;
    const ROWS: usize = 2;
    const SUMS: usize = 8;

    #[inline(always)]
    fn splat(self, value: f32) -> Self::F32 {
        [value; PLAIN]
    }

    #[inline(always)]
    fn load(self, from: &Self::Lanes) -> Self::F32 {
        *from
    }

    #[inline(always)]
    fn store(self, value: Self::F32, to: &mut Self::Lanes) {
        *to = value;
    }

    #[inline(always)]
    fn widen(self, &[a, b, c, d]: &[f16; PLAIN]) -> Self::F32 {
        // `map` is not always inlined.
        [a.to_f32(), b.to_f32(), c.to_f32(), d.to_f32()]
    }

    #[inline(always)]
    fn split(self, whole: Self::F32) -> Self::Parts {
        whole
    }

    #[inline(always)]
    fn join(self, parts: Self::Parts) -> Self::F32 {
        parts
    }

    #[inline(always)]
    fn fma_halves(self, a: &[f16; PLAIN], b: Self::F32, c: Self::Parts) -> Self::Parts {
        self.fma(self.widen(a), b, c)
    }

    #[inline(always)]
    fn load_part(self, from: &[f32]) -> Self::F32 {
        let mut lanes = [0.0; PLAIN];
        lanes.iter_mut().zip(from).for_each(|(lane, &value)| *lane = value);
        lanes
    }

    #[inline(always)]
    fn store_part(self, value: Self::F32, to: &mut [f32]) {
        to.iter_mut().zip(value).for_each(|(to, value)| *to = value);
    }

    #[inline(always)]
    fn add(self, a: Self::F32, b: Self::F32) -> Self::F32 {
        Self::zip(a, b, |a, b| a + b)
    }

    #[inline(always)]
    fn sub(self, a: Self::F32, b: Self::F32) -> Self::F32 {
        Self::zip(a, b, |a, b| a - b)
    }

    #[inline(always)]
    fn mul(self, a: Self::F32, b: Self::F32) -> Self::F32 {
        Self::zip(a, b, |a, b| a * b)
    }

    #[inline(always)]
    fn div(self, a: Self::F32, b: Self::F32) -> Self::F32 {
        Self::zip(a, b, |a, b| a / b)
    }

    #[inline(always)]
    fn fma(self, a: Self::F32, b: Self::F32, c: Self::F32) -> Self::F32 {
        self.add(self.mul(a, b), c)
    }

    #[inline(always)]
    fn fnma(self, a: Self::F32, b: Self::F32, c: Self::F32) -> Self::F32 {
        self.sub(c, self.mul(a, b))
    }

    #[inline(always)]
    fn min(self, a: Self::F32, b: Self::F32) -> Self::F32 {
        Self::zip(a, b, |a, b| if a < b { a } else { b })
    }

    #[inline(always)]
    fn abs(self, a: Self::F32) -> Self::F32 {
        a.map(f32::abs)
    }

    #[inline(always)]
    fn signed(self, size: Self::F32, sign: Self::F32) -> Self::F32 {
        Self::zip(size, sign, f32::copysign)
    }

    #[inline(always)]
    fn power(self, low_bits: Self::F32) -> Self::F32 {
        low_bits.map(|bits| f32::from_bits((bits.to_bits() << 23).wrapping_add(1.0_f32.to_bits())))
    }

    #[inline(always)]
    fn sum(self, [a, b, c, d]: Self::F32) -> f32 {
        (a + c) + (b + d)
    }
}
