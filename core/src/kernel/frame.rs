//! What the kernels in assembly share: what they keep in memory, all registers being in use within a block, and the loop over
//! the blocks of those for Thumb-2.

use super::{Blocks, Written};
use crate::quant::RowBlock;

/// What is left to do. The offsets in words: 0 and 3 are the parts, then rows, sums, blocks.
#[repr(C)]
pub struct Frame<U, X> {
    pub fine: Walk<U, X>,
    pub coarse: Walk<U, X>,
    pub rows: *const RowBlock,
    pub sums: *mut [i32; 4],
    pub blocks: usize,
}

/// A part, in the order of the registers that LDM fills.
#[repr(C)]
pub struct Walk<U, X> {
    /// Of a block, in units.
    pub len: usize,
    pub units: *const U,
    pub x: *const X,
}

impl<U, X> Walk<U, X> {
    /// Over `len` elements of `x` in each block. None if it would go past a slice in so many blocks, or has nothing to do.
    fn new(part: Blocks<'_, U>, x: &[X], len: usize, blocks: usize) -> Option<Self> {
        let whole = len > 0 && len <= x.len() && part.units.len() >= part.block_len * blocks;
        whole.then_some(Self { len, units: part.units.as_ptr(), x: x.as_ptr() })
    }
}

impl<U, X> Frame<U, X> {
    /// Of as many blocks as there are `rows` and room for `sums`, at least one; both parts have these, and their operands as many elements
    /// as a block has units. Else none. Without a coarse part its length is 0.
    pub fn new<'a, 'x>(
        rows: &[RowBlock],
        fine: (Blocks<'a, U>, &'x [X]),
        coarse: Option<(Blocks<'a, U>, &'x [X])>,
        sums: &mut Written<'_>,
    ) -> Option<Self> {
        Self::of(rows, fine, coarse, sums, |block_len| block_len)
    }

    /// The same, where a block of so many units takes as many elements as `elements` says.
    fn of<'a, 'x>(
        rows: &[RowBlock],
        fine: (Blocks<'a, U>, &'x [X]),
        coarse: Option<(Blocks<'a, U>, &'x [X])>,
        sums: &mut Written<'_>,
        elements: fn(usize) -> usize,
    ) -> Option<Self> {
        let blocks = sums.room().min(rows.len());
        let walk = |(units, x): (Blocks<'a, U>, &'x [X])| Walk::new(units, x, elements(units.block_len), blocks);
        let fine = walk(fine)?;
        let coarse = match coarse {
            Some(coarse) => walk(coarse)?,
            None => Walk { len: 0, ..fine },
        };
        let frame = Self { fine, coarse, rows: rows.as_ptr(), sums: sums.as_mut_ptr(), blocks };
        (blocks > 0).then_some(frame)
    }
}

impl Frame<u32, [i16; 2]> {
    /// The same of `i4x16`, whose blocks have a word of factors behind each group.
    pub fn of_nibbles<'a, 'x>(
        rows: &[RowBlock],
        fine: (Blocks<'a, u32>, &'x [[i16; 2]]),
        coarse: Option<(Blocks<'a, u32>, &'x [[i16; 2]])>,
        sums: &mut Written<'_>,
    ) -> Option<Self> {
        Self::of(rows, fine, coarse, sums, |words| words - words.div_ceil(super::nibbles::GROUP_WORDS))
    }
}
