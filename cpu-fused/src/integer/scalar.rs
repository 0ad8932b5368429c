//! Portable Rust, the reference for all instruction sets.

use core::array::from_fn;

use tidegate::internals::{curve::TANH_HALF, quant};

use super::simd::Integers;
use crate::simd::Scalar;

/// Compilers turn four numbers into a vector on every common target.
const LANES: usize = 4;

/// Applies `f` to each lane.
#[inline(always)]
fn zip(a: [i32; LANES], b: [i32; LANES], f: impl Fn(i32, i32) -> i32) -> [i32; LANES] {
    from_fn(|lane| f(a[lane], b[lane]))
}

impl Integers for Scalar {
    type Vector = [i32; LANES];
    type Lanes = [i32; LANES];
    type Weights = [[i8; 2]; LANES];
    type Columns = [i16; 2];
    type Spread = [i16; 2];
    type Sums = [i32; LANES];

    const LANES: usize = LANES;
    const COLUMNS: usize = 2;
    const EXCESS: i32 = 0;
    const INTERLEAVED: bool = false;

    #[inline(always)]
    fn load(self, lanes: &[i32; LANES]) -> [i32; LANES] {
        *lanes
    }

    #[inline(always)]
    fn splat(self, value: i32) -> [i32; LANES] {
        [value; LANES]
    }

    #[inline(always)]
    fn widen(self, values: &[i16]) -> [i32; LANES] {
        from_fn(|lane| values.get(lane).map_or(0, |&value| value.into()))
    }

    #[inline(always)]
    fn narrow(self, vector: [i32; LANES], to: &mut [i16]) {
        for (to, value) in to.iter_mut().zip(vector) {
            *to = value as i16;
        }
    }

    #[inline(always)]
    fn store(self, vector: [i32; LANES]) -> [i32; LANES] {
        vector
    }

    #[inline(always)]
    fn add(self, a: [i32; LANES], b: [i32; LANES]) -> [i32; LANES] {
        zip(a, b, i32::wrapping_add)
    }

    #[inline(always)]
    fn sub(self, a: [i32; LANES], b: [i32; LANES]) -> [i32; LANES] {
        zip(a, b, i32::wrapping_sub)
    }

    #[inline(always)]
    fn mul(self, a: [i32; LANES], b: [i32; LANES]) -> [i32; LANES] {
        zip(a, b, i32::wrapping_mul)
    }

    #[inline(always)]
    fn mulh(self, a: [i32; LANES], b: [i32; LANES]) -> [i32; LANES] {
        zip(a, b, quant::mulh)
    }

    #[inline(always)]
    fn min(self, a: [i32; LANES], b: [i32; LANES]) -> [i32; LANES] {
        zip(a, b, Ord::min)
    }

    #[inline(always)]
    fn max(self, a: [i32; LANES], b: [i32; LANES]) -> [i32; LANES] {
        zip(a, b, Ord::max)
    }

    #[inline(always)]
    fn and(self, a: [i32; LANES], b: [i32; LANES]) -> [i32; LANES] {
        zip(a, b, |a, b| a & b)
    }

    #[inline(always)]
    fn shl(self, a: [i32; LANES], by: u32) -> [i32; LANES] {
        a.map(|a| a << (by & 31))
    }

    #[inline(always)]
    fn shr(self, a: [i32; LANES], by: u32) -> [i32; LANES] {
        a.map(|a| a >> (by & 31))
    }

    #[inline(always)]
    fn shr_each(self, a: [i32; LANES], by: [i32; LANES]) -> [i32; LANES] {
        zip(a, by, |a, by| a >> (by & 31))
    }

    #[inline(always)]
    fn mul_halves(self, a: [i32; LANES], b: [i32; LANES]) -> [i32; LANES] {
        let product = |a: i32, b: i32| i32::from(a as i16) * i32::from(b as i16);
        zip(a, b, |a, b| product(a, b).wrapping_add(product(a >> 16, b >> 16)))
    }

    #[inline(always)]
    fn tanh_half(self, index: [i32; LANES]) -> [i32; LANES] {
        let middle = TANH_HALF.len() as i32 / 2;
        index.map(|index| {
            let place = (index.clamp(-middle, middle - 1) + middle) as usize;
            i32::from(TANH_HALF[place]) & 0xffff | i32::from(TANH_HALF[place + 1]) << 16
        })
    }

    #[inline(always)]
    fn columns(self, x: &[i16], to: &mut [[i16; 2]]) {
        for (to, x) in to.iter_mut().zip(x.chunks(2)) {
            *to = from_fn(|k| x.get(k).copied().unwrap_or(0));
        }
    }

    #[inline(always)]
    fn spread(self, x: &[i16; 2]) -> [i16; 2] {
        *x
    }

    #[inline(always)]
    fn begin(self, start: [i32; LANES]) -> [i32; LANES] {
        start
    }

    #[inline(always)]
    fn accumulate(self, sums: [i32; LANES], weights: &[[i8; 2]; LANES], [a, b]: [i16; 2]) -> [i32; LANES] {
        from_fn(|lane| {
            let [v, w] = weights[lane];
            // Neither product has more than 24 bits.
            sums[lane].wrapping_add(i32::from(v) * i32::from(a) + i32::from(w) * i32::from(b))
        })
    }

    #[inline(always)]
    fn total(self, sums: [i32; LANES]) -> [i32; LANES] {
        sums
    }
}
