//! Shared parts of the kernels in assembly: the values that they keep in memory, because a block uses all registers,
//! and the loop over blocks of the Thumb-2 kernels.

use super::{Blocks, Written};
use crate::quant::RowBlock;

/// The remaining work. Offsets in words: the parts are at 0 and 3, followed by rows, sums and blocks.
#[repr(C)]
pub struct Frame<U, X> {
    pub fine: Walk<U, X>,
    pub coarse: Walk<U, X>,
    pub rows: *const RowBlock,
    pub sums: *mut [i32; 4],
    pub blocks: usize,
}

/// A part. The fields are in the order of the registers that LDM loads.
#[repr(C)]
pub struct Walk<U, X> {
    /// Units of a block.
    pub len: usize,
    pub units: *const U,
    pub x: *const X,
}

impl<U, X> Walk<U, X> {
    /// Creates the walk over blocks with `len` elements of `x` each. `None` if `blocks` blocks exceed a slice, or `len` is 0.
    fn new(part: Blocks<'_, U>, x: &[X], len: usize, blocks: usize) -> Option<Self> {
        let whole = len > 0 && len <= x.len() && part.units.len() >= part.block_len * blocks;
        whole.then_some(Self { len, units: part.units.as_ptr(), x: x.as_ptr() })
    }
}

impl<U, X> Frame<U, X> {
    /// The frame for one block per element of `rows`, limited by the places in `sums`. `None` if there is no block, if
    /// a part has fewer blocks, or if an operand has fewer elements than a block has units. Without a coarse part, the
    /// coarse length is 0.
    pub fn new<'a, 'x>(
        rows: &[RowBlock],
        fine: (Blocks<'a, U>, &'x [X]),
        coarse: Option<(Blocks<'a, U>, &'x [X])>,
        sums: &mut Written<'_>,
    ) -> Option<Self> {
        Self::of(rows, fine, coarse, sums, |block_len| block_len)
    }

    /// [`new`](Self::new) for blocks that read `elements(block_len)` elements of the operand.
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

#[cfg(target_arch = "arm")]
impl Frame<u32, [i16; 2]> {
    /// [`new`](Self::new) for `i4x16`, whose blocks have a word of factors after each group.
    pub fn of_i4<'a, 'x>(
        rows: &[RowBlock],
        fine: (Blocks<'a, u32>, &'x [[i16; 2]]),
        coarse: Option<(Blocks<'a, u32>, &'x [[i16; 2]])>,
        sums: &mut Written<'_>,
    ) -> Option<Self> {
        Self::of(rows, fine, coarse, sums, |words| words - words.div_ceil(crate::image::layout::GROUP_WORDS))
    }
}
