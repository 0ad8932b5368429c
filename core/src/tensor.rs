//! Views of the weights in flash, without arithmetic.

use crate::kernel::Weight;

/// A matrix in blocks of four rows, `[rows / 4][cols][4]`; missing rows of the last block are zero.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a, W> {
    blocks: &'a [[W; 4]],
    cols: usize,
}

impl<'a, W: Weight> Matrix<'a, W> {
    /// A view of bytes that `parse` has checked. Bytes of another length or alignment give a matrix without rows.
    pub(crate) fn new(bytes: &'a [u8], cols: usize) -> Self {
        Self { blocks: bytemuck::try_cast_slice(bytes).unwrap_or_default(), cols }
    }

    /// A view of the blocks from the first one on. The slice may extend beyond the last block.
    pub(crate) fn from_start(blocks: &'a [[W; 4]], cols: usize) -> Self {
        Self { blocks, cols }
    }

    /// The blocks of four rows, each `[cols][4]`. Blocks are split off one at a time, because counting them would take
    /// a division and a check for zero.
    pub(crate) fn blocks(self) -> impl Iterator<Item = &'a [[W; 4]]> {
        let mut rest = self.blocks;
        core::iter::from_fn(move || {
            let (block, others) = rest.split_at_checked(self.cols)?;
            rest = others;
            Some(block)
        })
    }
}
