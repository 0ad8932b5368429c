//! The kernels of the numeric `i4x16`, in plain Rust. A byte holds two weights. 32 columns form a group; its sum is
//! multiplied by one factor per row, which turns its weights into those of `i8x16`. Sums wrap, so the bits equal those
//! of `i8x16`.

use super::{Blocked, CortexM4I4, PortableI4};
use crate::image::layout::{GROUP, GROUP_WORDS};

/// Adds the sums over each group. `group` computes one of them, starting from 0.
#[inline(always)]
fn groups<X>(
    start: [i32; 4],
    block: &[u32],
    x: &[X],
    units: usize,
    group: impl Fn(&[u32], &[X]) -> [i32; 4],
) -> [i32; 4] {
    let mut sums = start;
    for (words, x) in block.chunks(GROUP_WORDS).zip(x.chunks(units)) {
        let Some((factors, words)) = words.split_last() else { break };
        let parts = group(words, x).into_iter().zip(factors.to_le_bytes());
        for (sum, (part, factor)) in sums.iter_mut().zip(parts) {
            *sum = sum.wrapping_add(part.wrapping_mul(factor.into()));
        }
    }
    sums
}

impl Blocked for PortableI4 {
    /// Two columns of four rows, or the factors of a group.
    type Unit = u32;
    /// Two columns.
    type Operand<'x> = &'x [[i16; 2]];

    fn block_len(cols: usize) -> usize {
        cols.div_ceil(2) + cols.div_ceil(GROUP)
    }

    fn operand(x: &[i16], _: usize) -> &[[i16; 2]] {
        x.as_chunks().0
    }

    fn dot(start: [i32; 4], block: &[u32], x: &[[i16; 2]]) -> [i32; 4] {
        groups(start, block, x, GROUP / 2, |words, x| {
            let [mut a, mut b, mut c, mut d] = [0_i32; 4];
            for (&word, &[even, odd]) in words.iter().zip(x) {
                let (even, odd) = (i32::from(even), i32::from(odd));
                // The sum of a group fits 32 bits: it is at most 32 · 8 · 2^15 = 2^23.
                a = a.wrapping_add(nibble::<0>(word) * even).wrapping_add(nibble::<4>(word) * odd);
                b = b.wrapping_add(nibble::<1>(word) * even).wrapping_add(nibble::<5>(word) * odd);
                c = c.wrapping_add(nibble::<2>(word) * even).wrapping_add(nibble::<6>(word) * odd);
                d = d.wrapping_add(nibble::<3>(word) * even).wrapping_add(nibble::<7>(word) * odd);
            }
            [a, b, c, d]
        })
    }
}

/// A weight, from -8 to 7.
#[inline(always)]
fn nibble<const AT: u32>(word: u32) -> i32 {
    (word << (28 - 4 * AT)).cast_signed() >> 28
}

impl Blocked for CortexM4I4 {
    /// Eight columns of a row, in the order 0, 2, 4, 6, 1, 3, 5, 7, plus 8 each; four such words are a unit of four
    /// rows. Or the factors of a group.
    type Unit = u32;
    /// Eight columns, two per word.
    type Operand<'x> = &'x [[u32; 4]];

    fn block_len(cols: usize) -> usize {
        4 * cols.div_ceil(8) + cols.div_ceil(GROUP)
    }

    fn operand(x: &[i16], len: usize) -> &[[u32; 4]] {
        // Slots and states begin on whole words.
        let x = bytemuck::try_cast_slice(x.as_chunks::<8>().0).unwrap_or_default();
        x.get(..len.div_ceil(8)).unwrap_or_default()
    }

    fn dot(start: [i32; 4], block: &[u32], x: &[[u32; 4]]) -> [i32; 4] {
        groups(start, block, x, GROUP / 8, |words, x| {
            let mut sums = [0_i32; 4];
            for (rows, &x) in words.as_chunks::<4>().0.iter().zip(x) {
                let x: [[i16; 2]; 4] = bytemuck::must_cast(x);
                for (sum, &row) in sums.iter_mut().zip(rows) {
                    let mut row = row;
                    for [even, odd] in x {
                        let (w_even, w_odd) = ((row & 15).cast_signed() - 8, (row >> 16 & 15).cast_signed() - 8);
                        *sum += w_even * i32::from(even) + w_odd * i32::from(odd);
                        row >>= 4;
                    }
                }
            }
            sums
        })
    }
}
