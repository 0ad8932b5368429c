//! Views of the weights in flash: no arithmetic.

use crate::kernel::Weight;

/// A matrix in blocks of four rows, `[rows / 4][cols][4]`; missing rows of the last block are zero.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a, W> {
    blocks: &'a [[W; 4]],
    cols: usize,
}

impl<'a, W: Weight> Matrix<'a, W> {
    /// Of the bytes that `parse` has checked. Bytes of another length or alignment give a matrix of no rows.
    pub(crate) fn new(bytes: &'a [u8], cols: usize) -> Self {
        Self { blocks: bytemuck::try_cast_slice(bytes).unwrap_or_default(), cols }
    }

    /// Its blocks of four rows, each `[cols][4]`.
    pub(crate) fn blocks(self) -> impl Iterator<Item = &'a [[W; 4]]> {
        // A matrix has a column at least; `max` spares the optimizer the proof.
        self.blocks.chunks_exact(self.cols.max(1))
    }
}
