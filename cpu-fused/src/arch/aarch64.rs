//! AArch64: NEON, with vectors of four.

#![expect(unsafe_code, reason = "instructions that only some CPUs have: every block says why this one has them")]

use core::arch::aarch64::*;
use std::arch::is_aarch64_feature_detected;

use half::f16;

use crate::simd::{Instructions, Simd, Task};

/// Adjacent bytes are loaded as wider numbers.
const _: () = assert!(cfg!(target_endian = "little"), "there are no kernels for big-endian AArch64");

/// Proof that this CPU has NEON: only [`detect`](Self::detect) makes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neon(());

impl Neon {
    /// Checks the CPU.
    pub fn detect() -> Option<Self> {
        is_aarch64_feature_detected!("neon").then_some(Self(()))
    }
}

#[target_feature(enable = "neon")]
fn with_neon<T: Task>(task: T) -> T::Output {
    task.run()
}

#[target_feature(enable = "neon")]
#[inline(never)]
fn apart_neon<T: Task>(task: T) -> T::Output {
    task.run()
}

/// Evaluates an expression of instructions that `self` proves.
macro_rules! proven {
    ($of:expr) => {{
        // SAFETY: `self` exists, so `detect` has found NEON on this CPU; none of these instructions touches memory.
        unsafe { $of }
    }};
}

mod integers;

impl Instructions for Neon {
    #[inline(always)]
    fn vectorize<T: Task>(self, task: T) -> T::Output {
        // SAFETY: `self` exists, so `detect` has found NEON on this CPU.
        unsafe { with_neon(task) }
    }

    #[inline(always)]
    fn call<T: Task>(self, task: T) -> T::Output {
        // SAFETY: `self` exists, so `detect` has found NEON on this CPU.
        unsafe { apart_neon(task) }
    }
}

impl Simd for Neon {
    type Lanes = [f32; 4];
    type Halves = [f16; 4];
    type F32 = float32x4_t;
    type Parts = float32x4_t;
    const LANES: usize = 4;
    // 24 sums, four vectors of weights and one operand: 29 of 32 registers.
    const ROWS: usize = 6;
    const SUMS: usize = 24;

    #[inline(always)]
    fn splat(self, value: f32) -> float32x4_t {
        proven!(vdupq_n_f32(value))
    }

    #[inline(always)]
    fn load(self, from: &[f32; 4]) -> float32x4_t {
        // SAFETY: `self` proves NEON; the array has the 16 bytes that are read.
        unsafe { vld1q_f32(from.as_ptr()) }
    }

    #[inline(always)]
    fn store(self, value: float32x4_t, to: &mut [f32; 4]) {
        // SAFETY: `self` proves NEON; the array has the 16 bytes that are written.
        unsafe { vst1q_f32(to.as_mut_ptr(), value) }
    }

    #[inline(always)]
    fn widen(self, from: &[f16; 4]) -> float32x4_t {
        self.load(&from.map(f16::to_f32))
    }

    #[inline(always)]
    fn split(self, whole: float32x4_t) -> float32x4_t {
        whole
    }

    #[inline(always)]
    fn join(self, parts: float32x4_t) -> float32x4_t {
        parts
    }

    #[inline(always)]
    fn fma_halves(self, a: &[f16; 4], b: float32x4_t, c: float32x4_t) -> float32x4_t {
        self.fma(self.widen(a), b, c)
    }

    #[inline(always)]
    fn load_part(self, from: &[f32]) -> float32x4_t {
        match *from {
            [a, b, c, d, ..] => self.load(&[a, b, c, d]),
            [a, b, c] => self.load(&[a, b, c, 0.0]),
            [a, b] => self.load(&[a, b, 0.0, 0.0]),
            [a] => self.load(&[a, 0.0, 0.0, 0.0]),
            [] => self.splat(0.0),
        }
    }

    #[inline(always)]
    fn store_part(self, value: float32x4_t, to: &mut [f32]) {
        if let Some(whole) = to.first_chunk_mut() {
            return self.store(value, whole);
        }
        let mut lanes = [0.0; 4];
        self.store(value, &mut lanes);
        to.iter_mut().zip(lanes).for_each(|(to, lane)| *to = lane);
    }

    #[inline(always)]
    fn add(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        proven!(vaddq_f32(a, b))
    }

    #[inline(always)]
    fn sub(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        proven!(vsubq_f32(a, b))
    }

    #[inline(always)]
    fn mul(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        proven!(vmulq_f32(a, b))
    }

    #[inline(always)]
    fn div(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        proven!(vdivq_f32(a, b))
    }

    #[inline(always)]
    fn fma(self, a: float32x4_t, b: float32x4_t, c: float32x4_t) -> float32x4_t {
        proven!(vfmaq_f32(c, a, b))
    }

    #[inline(always)]
    fn fnma(self, a: float32x4_t, b: float32x4_t, c: float32x4_t) -> float32x4_t {
        proven!(vfmsq_f32(c, a, b))
    }

    #[inline(always)]
    fn min(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        // The NEON minimum is NaN if either operand is.
        proven!(vbslq_f32(vcltq_f32(a, b), a, b))
    }

    #[inline(always)]
    fn abs(self, a: float32x4_t) -> float32x4_t {
        proven!(vabsq_f32(a))
    }

    #[inline(always)]
    fn signed(self, size: float32x4_t, sign: float32x4_t) -> float32x4_t {
        proven!(vbslq_f32(vdupq_n_u32(1 << 31), sign, size))
    }

    #[inline(always)]
    fn power(self, low_bits: float32x4_t) -> float32x4_t {
        proven!({
            let shifted = vshlq_n_s32::<23>(vreinterpretq_s32_f32(low_bits));
            vreinterpretq_f32_s32(vaddq_s32(shifted, vreinterpretq_s32_f32(vdupq_n_f32(1.0))))
        })
    }

    #[inline(always)]
    fn sum(self, a: float32x4_t) -> f32 {
        let two = proven!(vadd_f32(vget_low_f32(a), vget_high_f32(a)));
        proven!(vget_lane_f32::<0>(two) + vget_lane_f32::<1>(two))
    }
}
