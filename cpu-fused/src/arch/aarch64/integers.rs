//! Vectors of four 32-bit integers. Weights are widened to 16 bits as they are loaded; each row has four lanes for the
//! products of its columns.

use core::arch::aarch64::*;

use tidegate::internals::curve::TANH_HALF;

use super::Neon;
use crate::integer::simd::Integers;

/// Entries of the table on either side of its middle.
const REACH: i32 = (TANH_HALF.len() / 2) as i32;
const _: () = assert!(TANH_HALF.len() == 2 * REACH as usize + 1);

impl Integers for Neon {
    type Vector = int32x4_t;
    type Lanes = [i32; 4];
    type Weights = [i8; 16];
    type Columns = [i16; 4];
    /// The four columns, twice.
    type Spread = int16x8_t;
    /// For each row, the sums of its four columns.
    type Sums = [int32x4_t; 4];

    const LANES: usize = 4;
    const COLUMNS: usize = 4;
    const EXCESS: i32 = 0;

    #[inline(always)]
    fn load(self, lanes: &[i32; 4]) -> int32x4_t {
        // SAFETY: `self` proves NEON; the array has the 16 bytes that are read.
        unsafe { vld1q_s32(lanes.as_ptr()) }
    }

    #[inline(always)]
    fn store(self, vector: int32x4_t) -> [i32; 4] {
        let mut lanes = [0; 4];
        // SAFETY: `self` proves NEON; the array has the 16 bytes that are written.
        unsafe { vst1q_s32(lanes.as_mut_ptr(), vector) };
        lanes
    }

    #[inline(always)]
    fn splat(self, value: i32) -> int32x4_t {
        proven!(vdupq_n_s32(value))
    }

    #[inline(always)]
    fn widen(self, values: &[i16]) -> int32x4_t {
        let lanes: [i16; 4] = match values.first_chunk() {
            Some(whole) => *whole,
            None => core::array::from_fn(|lane| values.get(lane).copied().unwrap_or(0)),
        };
        // SAFETY: `self` proves NEON; the array has the 8 bytes that are read.
        unsafe { vmovl_s16(vld1_s16(lanes.as_ptr())) }
    }

    #[inline(always)]
    fn narrow(self, vector: int32x4_t, to: &mut [i16]) {
        let mut lanes = [0_i16; 4];
        // SAFETY: `self` proves NEON; the array has the 8 bytes that are written.
        unsafe { vst1_s16(lanes.as_mut_ptr(), vmovn_s32(vector)) };
        match to.first_chunk_mut() {
            Some(whole) => *whole = lanes,
            None => to.iter_mut().zip(lanes).for_each(|(to, lane)| *to = lane),
        }
    }

    #[inline(always)]
    fn add(self, a: int32x4_t, b: int32x4_t) -> int32x4_t {
        proven!(vaddq_s32(a, b))
    }

    #[inline(always)]
    fn sub(self, a: int32x4_t, b: int32x4_t) -> int32x4_t {
        proven!(vsubq_s32(a, b))
    }

    #[inline(always)]
    fn mul(self, a: int32x4_t, b: int32x4_t) -> int32x4_t {
        proven!(vmulq_s32(a, b))
    }

    #[inline(always)]
    fn mulh(self, a: int32x4_t, b: int32x4_t) -> int32x4_t {
        proven!({
            let low = vmull_s32(vget_low_s32(a), vget_low_s32(b));
            let high = vmull_high_s32(a, b);
            vuzp2q_s32(vreinterpretq_s32_s64(low), vreinterpretq_s32_s64(high))
        })
    }

    #[inline(always)]
    fn min(self, a: int32x4_t, b: int32x4_t) -> int32x4_t {
        proven!(vminq_s32(a, b))
    }

    #[inline(always)]
    fn max(self, a: int32x4_t, b: int32x4_t) -> int32x4_t {
        proven!(vmaxq_s32(a, b))
    }

    #[inline(always)]
    fn and(self, a: int32x4_t, b: int32x4_t) -> int32x4_t {
        proven!(vandq_s32(a, b))
    }

    #[inline(always)]
    fn shl(self, a: int32x4_t, by: u32) -> int32x4_t {
        proven!(vshlq_s32(a, vdupq_n_s32(by.cast_signed())))
    }

    #[inline(always)]
    fn shr(self, a: int32x4_t, by: u32) -> int32x4_t {
        // A left shift by a negative amount is a right shift.
        proven!(vshlq_s32(a, vdupq_n_s32(-by.cast_signed())))
    }

    #[inline(always)]
    fn shr_each(self, a: int32x4_t, by: int32x4_t) -> int32x4_t {
        proven!(vshlq_s32(a, vnegq_s32(by)))
    }

    #[inline(always)]
    fn mul_halves(self, a: int32x4_t, b: int32x4_t) -> int32x4_t {
        proven!({
            let (a, b) = (vreinterpretq_s16_s32(a), vreinterpretq_s16_s32(b));
            vpaddq_s32(vmull_s16(vget_low_s16(a), vget_low_s16(b)), vmull_high_s16(a, b))
        })
    }

    #[inline(always)]
    fn tanh_half(self, index: int32x4_t) -> int32x4_t {
        let index = self.add(self.max(self.min(index, self.splat(REACH - 1)), self.splat(-REACH)), self.splat(REACH));
        let mut lanes = self.store(index);
        for lane in &mut lanes {
            // SAFETY: every index is 0 to 2 REACH - 1, and the table has 2 REACH + 1 values, so the four bytes that are
            // read are that value and the next one. They need not be aligned.
            *lane = unsafe { TANH_HALF.as_ptr().add(*lane as usize).cast::<i32>().read_unaligned() };
        }
        self.load(&lanes)
    }

    #[inline(always)]
    fn columns(self, x: &[i16], to: &mut [[i16; 4]]) {
        let to = to.as_flattened_mut();
        let (now, rest) = to.split_at_mut(x.len().min(to.len()));
        now.copy_from_slice(&x[..now.len()]);
        rest.fill(0);
    }

    #[inline(always)]
    fn spread(self, x: &[i16; 4]) -> int16x8_t {
        // SAFETY: `self` proves NEON; the array has the 8 bytes that are read.
        unsafe {
            let x = vld1_s16(x.as_ptr());
            vcombine_s16(x, x)
        }
    }

    #[inline(always)]
    fn begin(self, start: int32x4_t) -> [int32x4_t; 4] {
        proven!({
            let zero = vdupq_n_s32(0);
            let [a, b] = [vzip1q_s32(start, zero), vzip2q_s32(start, zero)].map(|pair| vreinterpretq_s64_s32(pair));
            let zero = vreinterpretq_s64_s32(zero);
            [vzip1q_s64(a, zero), vzip2q_s64(a, zero), vzip1q_s64(b, zero), vzip2q_s64(b, zero)]
                .map(|sums| vreinterpretq_s32_s64(sums))
        })
    }

    #[inline(always)]
    fn accumulate(self, [a, b, c, d]: [int32x4_t; 4], weights: &[i8; 16], x: int16x8_t) -> [int32x4_t; 4] {
        // SAFETY: `self` proves NEON; the array has the 16 bytes that are read.
        unsafe {
            let weights = vld1q_s8(weights.as_ptr());
            let (first, last) = (vmovl_s8(vget_low_s8(weights)), vmovl_high_s8(weights));
            let half = vget_low_s16(x);
            [
                vmlal_s16(a, vget_low_s16(first), half),
                vmlal_high_s16(b, first, x),
                vmlal_s16(c, vget_low_s16(last), half),
                vmlal_high_s16(d, last, x),
            ]
        }
    }

    #[inline(always)]
    fn total(self, [a, b, c, d]: [int32x4_t; 4]) -> int32x4_t {
        proven!(vpaddq_s32(vpaddq_s32(a, b), vpaddq_s32(c, d)))
    }
}
