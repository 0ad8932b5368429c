//! Vectors of sixteen 32-bit integers. 2^15 is added to every operand, so that both of its bytes are unsigned: VNNI
//! multiplies unsigned bytes with signed ones, four of a row at once.

use core::arch::x86_64::*;

use tidegate::internals::curve::TANH_HALF;

use super::Avx512;
use crate::integer::simd::Integers;

/// Entries of the table on either side of its middle.
const REACH: i32 = (TANH_HALF.len() / 2) as i32;
const _: () = assert!(TANH_HALF.len() == 2 * REACH as usize + 1);

/// Groups the lower bytes of four 16-bit numbers, followed by the upper bytes.
#[rustfmt::skip]
const APART: [i8; 64] = [
    0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15, 0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15,
    0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15, 0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15,
];

/// Mask of the first `len` of 32 elements.
const fn first(len: usize) -> __mmask32 {
    if len < 32 { (1 << len) - 1 } else { !0 }
}

impl Integers for Avx512 {
    type Vector = __m512i;
    type Lanes = [i32; 16];
    type Weights = [i8; 64];
    type Columns = [i16; 4];
    /// Lower bytes and upper bytes.
    type Spread = [__m512i; 2];
    /// Sums of products with the lower bytes, and with the upper bytes.
    type Sums = [__m512i; 2];

    const LANES: usize = 16;
    const COLUMNS: usize = 4;
    const EXCESS: i32 = 1 << 15;

    #[inline(always)]
    fn load(self, lanes: &[i32; 16]) -> __m512i {
        // SAFETY: `self` proves AVX-512; the array has the 64 bytes that are read.
        unsafe { _mm512_loadu_si512(lanes.as_ptr().cast()) }
    }

    #[inline(always)]
    fn store(self, vector: __m512i) -> [i32; 16] {
        let mut lanes = [0; 16];
        // SAFETY: `self` proves AVX-512; the array has the 64 bytes that are written.
        unsafe { _mm512_storeu_si512(lanes.as_mut_ptr().cast(), vector) };
        lanes
    }

    #[inline(always)]
    fn splat(self, value: i32) -> __m512i {
        proven!(_mm512_set1_epi32(value))
    }

    #[inline(always)]
    fn widen(self, values: &[i16]) -> __m512i {
        // SAFETY: `self` proves AVX-512 BW and VL; only lanes that the slice has are read.
        unsafe { _mm512_cvtepi16_epi32(_mm256_maskz_loadu_epi16(first(values.len()) as u16, values.as_ptr())) }
    }

    #[inline(always)]
    fn narrow(self, vector: __m512i, to: &mut [i16]) {
        let mask = first(to.len()) as u16;
        // SAFETY: `self` proves AVX-512 BW and VL; only lanes that the slice has are written.
        unsafe { _mm256_mask_storeu_epi16(to.as_mut_ptr(), mask, _mm512_cvtepi32_epi16(vector)) }
    }

    #[inline(always)]
    fn add(self, a: __m512i, b: __m512i) -> __m512i {
        proven!(_mm512_add_epi32(a, b))
    }

    #[inline(always)]
    fn sub(self, a: __m512i, b: __m512i) -> __m512i {
        proven!(_mm512_sub_epi32(a, b))
    }

    #[inline(always)]
    fn mul(self, a: __m512i, b: __m512i) -> __m512i {
        proven!(_mm512_mullo_epi32(a, b))
    }

    #[inline(always)]
    fn mulh(self, a: __m512i, b: __m512i) -> __m512i {
        proven!({
            let even = _mm512_srli_epi64::<32>(_mm512_mul_epi32(a, b));
            let odd = _mm512_mul_epi32(_mm512_srli_epi64::<32>(a), _mm512_srli_epi64::<32>(b));
            _mm512_mask_blend_epi32(0xaaaa, even, odd)
        })
    }

    #[inline(always)]
    fn min(self, a: __m512i, b: __m512i) -> __m512i {
        proven!(_mm512_min_epi32(a, b))
    }

    #[inline(always)]
    fn max(self, a: __m512i, b: __m512i) -> __m512i {
        proven!(_mm512_max_epi32(a, b))
    }

    #[inline(always)]
    fn and(self, a: __m512i, b: __m512i) -> __m512i {
        proven!(_mm512_and_si512(a, b))
    }

    #[inline(always)]
    fn shl(self, a: __m512i, by: u32) -> __m512i {
        proven!(_mm512_sll_epi32(a, _mm_cvtsi32_si128(by.cast_signed())))
    }

    #[inline(always)]
    fn shr(self, a: __m512i, by: u32) -> __m512i {
        proven!(_mm512_sra_epi32(a, _mm_cvtsi32_si128(by.cast_signed())))
    }

    #[inline(always)]
    fn shr_each(self, a: __m512i, by: __m512i) -> __m512i {
        proven!(_mm512_srav_epi32(a, by))
    }

    #[inline(always)]
    fn mul_halves(self, a: __m512i, b: __m512i) -> __m512i {
        proven!(_mm512_madd_epi16(a, b))
    }

    #[inline(always)]
    fn tanh_half(self, index: __m512i) -> __m512i {
        let index = self.add(self.max(self.min(index, self.splat(REACH - 1)), self.splat(-REACH)), self.splat(REACH));
        // SAFETY: `self` proves AVX-512. Every index is 0 to 2 REACH - 1 and counts values of 2 bytes. The table has 2
        // REACH + 1 values, so the four bytes that are read are that value and the next one.
        unsafe { _mm512_i32gather_epi32::<2>(index, TANH_HALF.as_ptr().cast()) }
    }

    #[inline(always)]
    fn columns(self, x: &[i16], to: &mut [[i16; 4]]) {
        for (x, to) in x.chunks(32).zip(to.chunks_mut(8)) {
            let (read, written) = (first(x.len()), first(4 * to.len()));
            // SAFETY: `self` proves AVX-512 BW; only numbers that both slices have are read or written.
            unsafe {
                let x = _mm512_maskz_loadu_epi16(read, x.as_ptr());
                let unsigned = _mm512_xor_si512(x, _mm512_set1_epi16(i16::MIN));
                let apart = _mm512_shuffle_epi8(unsigned, _mm512_loadu_si512(APART.as_ptr().cast()));
                _mm512_mask_storeu_epi16(to.as_mut_ptr().cast(), written, apart);
            }
        }
    }

    #[inline(always)]
    fn spread(self, x: &[i16; 4]) -> [__m512i; 2] {
        // Both halves are broadcast from memory; a single 64-bit number would pass through general registers.
        let [low, high]: &[[u8; 4]; 2] = bytemuck::must_cast_ref(x);
        [self.splat(i32::from_ne_bytes(*low)), self.splat(i32::from_ne_bytes(*high))]
    }

    #[inline(always)]
    fn begin(self, start: __m512i) -> [__m512i; 2] {
        [start, self.splat(0)]
    }

    #[inline(always)]
    fn accumulate(self, [low, high]: [__m512i; 2], weights: &[i8; 64], [x, x_high]: [__m512i; 2]) -> [__m512i; 2] {
        // SAFETY: `self` proves AVX-512 and VNNI; the array has the 64 bytes that are read.
        unsafe {
            let weights = _mm512_loadu_si512(weights.as_ptr().cast());
            [_mm512_dpbusd_epi32(low, x, weights), _mm512_dpbusd_epi32(high, x_high, weights)]
        }
    }

    #[inline(always)]
    fn total(self, [low, high]: [__m512i; 2]) -> __m512i {
        self.add(low, self.shl(high, 8))
    }
}
