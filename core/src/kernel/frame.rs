//! What the kernels in assembly share: what they keep in memory, all registers being in use within a block, and the loop over
//! the blocks of those for Thumb-2.

use super::Blocks;
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
    /// None if it would go past a slice in so many blocks, or has nothing to do.
    fn new(part: Blocks<'_, U>, x: &[X], blocks: usize) -> Option<Self> {
        let len = part.block_len;
        let whole = len > 0 && len <= x.len() && part.units.len() >= len * blocks;
        whole.then_some(Self { len, units: part.units.as_ptr(), x: x.as_ptr() })
    }
}

impl<U, X> Frame<U, X> {
    /// Of as many blocks as `rows` and `sums` have, at least one; both parts have these, and their operands as many elements
    /// as a block has units. Else none. Without a coarse part its length is 0.
    pub fn new<'a, 'x>(
        rows: &[RowBlock],
        fine: (Blocks<'a, U>, &'x [X]),
        coarse: Option<(Blocks<'a, U>, &'x [X])>,
        sums: &mut [[i32; 4]],
    ) -> Option<Self> {
        let blocks = sums.len().min(rows.len());
        let fine = Walk::new(fine.0, fine.1, blocks)?;
        let coarse = match coarse {
            Some((units, x)) => Walk::new(units, x, blocks)?,
            None => Walk { len: 0, ..fine },
        };
        let frame = Self { fine, coarse, rows: rows.as_ptr(), sums: sums.as_mut_ptr(), blocks };
        (blocks > 0).then_some(frame)
    }
}
