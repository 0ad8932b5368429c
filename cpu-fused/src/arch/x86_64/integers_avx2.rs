//! Vectors of eight 32-bit integers. Weights are widened to 16 bits as they are loaded.

use core::arch::x86_64::*;

use tidegate::internals::curve::TANH_HALF;

use super::Avx2;
use crate::integer::simd::Integers;

/// Entries of the table on either side of its middle.
const REACH: i32 = (TANH_HALF.len() / 2) as i32;
const _: () = assert!(TANH_HALF.len() == 2 * REACH as usize + 1);

/// Moves the lower half of each 32-bit lane to the first eight bytes of each 16.
#[rustfmt::skip]
const LOWER_HALVES: [i8; 32] = [
    0, 1, 4, 5, 8, 9, 12, 13, -1, -1, -1, -1, -1, -1, -1, -1, 0, 1, 4, 5, 8, 9, 12, 13, -1, -1, -1, -1, -1, -1, -1, -1,
];

impl Integers for Avx2 {
    type Vector = __m256i;
    type Lanes = [i32; 8];
    type Weights = [i8; 16];
    type Columns = [i16; 2];
    type Spread = __m256i;
    type Sums = __m256i;

    const LANES: usize = 8;
    const COLUMNS: usize = 2;
    const EXCESS: i32 = 0;

    #[inline(always)]
    fn load(self, lanes: &[i32; 8]) -> __m256i {
        // SAFETY: `self` proves AVX2; the array has the 32 bytes that are read.
        unsafe { _mm256_loadu_si256(lanes.as_ptr().cast()) }
    }

    #[inline(always)]
    fn store(self, vector: __m256i) -> [i32; 8] {
        let mut lanes = [0; 8];
        // SAFETY: `self` proves AVX2; the array has the 32 bytes that are written.
        unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), vector) };
        lanes
    }

    #[inline(always)]
    fn splat(self, value: i32) -> __m256i {
        proven!(_mm256_set1_epi32(value))
    }

    #[inline(always)]
    fn widen(self, values: &[i16]) -> __m256i {
        let lanes: [i16; 8] = match values.first_chunk() {
            Some(whole) => *whole,
            None => core::array::from_fn(|lane| values.get(lane).copied().unwrap_or(0)),
        };
        // SAFETY: `self` proves AVX2; the array has the 16 bytes that are read.
        unsafe { _mm256_cvtepi16_epi32(_mm_loadu_si128(lanes.as_ptr().cast())) }
    }

    #[inline(always)]
    fn narrow(self, vector: __m256i, to: &mut [i16]) {
        let mut lanes = [0_i16; 8];
        // SAFETY: `self` proves AVX2; the arrays have the 32 and 16 bytes that are read and written.
        unsafe {
            let halves = _mm256_shuffle_epi8(vector, _mm256_loadu_si256(LOWER_HALVES.as_ptr().cast()));
            let together = _mm256_castsi256_si128(_mm256_permute4x64_epi64::<0b1000>(halves));
            _mm_storeu_si128(lanes.as_mut_ptr().cast(), together);
        }
        match to.first_chunk_mut() {
            Some(whole) => *whole = lanes,
            None => to.iter_mut().zip(lanes).for_each(|(to, lane)| *to = lane),
        }
    }

    #[inline(always)]
    fn add(self, a: __m256i, b: __m256i) -> __m256i {
        proven!(_mm256_add_epi32(a, b))
    }

    #[inline(always)]
    fn sub(self, a: __m256i, b: __m256i) -> __m256i {
        proven!(_mm256_sub_epi32(a, b))
    }

    #[inline(always)]
    fn mul(self, a: __m256i, b: __m256i) -> __m256i {
        proven!(_mm256_mullo_epi32(a, b))
    }

    #[inline(always)]
    fn mulh(self, a: __m256i, b: __m256i) -> __m256i {
        proven!({
            let even = _mm256_srli_epi64::<32>(_mm256_mul_epi32(a, b));
            let odd = _mm256_mul_epi32(_mm256_srli_epi64::<32>(a), _mm256_srli_epi64::<32>(b));
            _mm256_blend_epi32::<0b1010_1010>(even, odd)
        })
    }

    #[inline(always)]
    fn min(self, a: __m256i, b: __m256i) -> __m256i {
        proven!(_mm256_min_epi32(a, b))
    }

    #[inline(always)]
    fn max(self, a: __m256i, b: __m256i) -> __m256i {
        proven!(_mm256_max_epi32(a, b))
    }

    #[inline(always)]
    fn and(self, a: __m256i, b: __m256i) -> __m256i {
        proven!(_mm256_and_si256(a, b))
    }

    #[inline(always)]
    fn shl(self, a: __m256i, by: u32) -> __m256i {
        proven!(_mm256_sll_epi32(a, _mm_cvtsi32_si128(by.cast_signed())))
    }

    #[inline(always)]
    fn shr(self, a: __m256i, by: u32) -> __m256i {
        proven!(_mm256_sra_epi32(a, _mm_cvtsi32_si128(by.cast_signed())))
    }

    #[inline(always)]
    fn shr_each(self, a: __m256i, by: __m256i) -> __m256i {
        proven!(_mm256_srav_epi32(a, by))
    }

    #[inline(always)]
    fn mul_halves(self, a: __m256i, b: __m256i) -> __m256i {
        proven!(_mm256_madd_epi16(a, b))
    }

    #[inline(always)]
    fn tanh_half(self, index: __m256i) -> __m256i {
        let index = self.add(self.max(self.min(index, self.splat(REACH - 1)), self.splat(-REACH)), self.splat(REACH));
        // SAFETY: `self` proves AVX2. Every index is 0 to 2 REACH - 1 and counts values of 2 bytes. The table has 2
        // REACH + 1 values, so the four bytes that are read are that value and the next one.
        unsafe { _mm256_i32gather_epi32::<2>(TANH_HALF.as_ptr().cast(), index) }
    }

    #[inline(always)]
    fn columns(self, x: &[i16], to: &mut [[i16; 2]]) {
        let to = to.as_flattened_mut();
        let (now, rest) = to.split_at_mut(x.len().min(to.len()));
        now.copy_from_slice(&x[..now.len()]);
        rest.fill(0);
    }

    #[inline(always)]
    fn spread(self, x: &[i16; 2]) -> __m256i {
        self.splat(bytemuck::must_cast(*x))
    }

    #[inline(always)]
    fn begin(self, start: __m256i) -> __m256i {
        start
    }

    #[inline(always)]
    fn accumulate(self, sums: __m256i, weights: &[i8; 16], x: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2; the array has the 16 bytes that are read.
        unsafe {
            let weights = _mm256_cvtepi8_epi16(_mm_loadu_si128(weights.as_ptr().cast()));
            _mm256_add_epi32(sums, _mm256_madd_epi16(weights, x))
        }
    }

    #[inline(always)]
    fn total(self, sums: __m256i) -> __m256i {
        sums
    }
}
