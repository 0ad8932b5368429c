//! The kernel of [`Portable`](super::Portable) on x86-64, every one of which has SSE2: four rows by two columns at once.

use core::arch::x86_64::{
    __m128i, _mm_add_epi32, _mm_cmpgt_epi8, _mm_madd_epi16, _mm_set1_epi32, _mm_setr_epi32, _mm_setzero_si128,
    _mm_unpackhi_epi8, _mm_unpackhi_epi64, _mm_unpacklo_epi8, _mm_unpacklo_epi16,
};

/// Columns of a turn.
const COLUMNS: usize = 4;

/// Adds the products column by column to `start`. The sums wrap, so their order does not matter.
#[inline]
pub fn dot(start: [i32; 4], block: &[[i8; 4]], x: &[i16]) -> [i32; 4] {
    // SAFETY: the CPU has SSE2, as every x86-64 does.
    unsafe { dot_of_vectors(start, block, x) }
}

#[inline]
#[target_feature(enable = "sse2")]
fn dot_of_vectors(start: [i32; 4], block: &[[i8; 4]], x: &[i16]) -> [i32; 4] {
    let block = block.get(..x.len()).unwrap_or(block);
    let [a, b, c, d] = start;
    let mut sums = _mm_setr_epi32(a, b, c, d);
    let (whole, rest) = block.as_chunks::<COLUMNS>();
    let (operands, x_rest) = x.as_chunks::<COLUMNS>();
    for (weights, x) in whole.iter().zip(operands) {
        sums = turn(sums, weights, x);
    }
    if !rest.is_empty() {
        // The padding of `x` may complete a turn.
        let last = operands.get(whole.len()).map_or(x_rest, |x| x.as_slice());
        let (mut weights, mut x) = ([[0; 4]; COLUMNS], [0; COLUMNS]);
        weights.iter_mut().zip(rest).for_each(|(to, &from)| *to = from);
        x.iter_mut().zip(last).for_each(|(to, &from)| *to = from);
        sums = turn(sums, &weights, &x);
    }
    bytemuck::must_cast(sums)
}

/// Adds the products of four columns.
#[inline]
#[target_feature(enable = "sse2")]
fn turn(sums: __m128i, weights: &[[i8; 4]; COLUMNS], &[a, b, c, d]: &[i16; COLUMNS]) -> __m128i {
    let weights: __m128i = bytemuck::must_cast(*weights);
    let signs = _mm_cmpgt_epi8(_mm_setzero_si128(), weights);
    // Two columns of 16 bits, first all rows of one.
    let (first, second) = (_mm_unpacklo_epi8(weights, signs), _mm_unpackhi_epi8(weights, signs));
    let sums = _mm_add_epi32(sums, of_two(first, a, b));
    _mm_add_epi32(sums, of_two(second, c, d))
}

/// The products of two columns, which are added row by row.
#[inline]
#[target_feature(enable = "sse2")]
fn of_two(columns: __m128i, a: i16, b: i16) -> __m128i {
    let rows = _mm_unpacklo_epi16(columns, _mm_unpackhi_epi64(columns, columns));
    _mm_madd_epi16(rows, _mm_set1_epi32(bytemuck::must_cast([a, b])))
}
