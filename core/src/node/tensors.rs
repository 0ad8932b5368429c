//! The tensors of a node: their position, length and contents. After the checks these functions cannot fail.

use super::Node;
use crate::curve::TABLE_LEN;
use crate::image::field::MAX_SIZE;
use crate::image::field::node as field;
use crate::image::read::{slice, u32_at};
use crate::kernel::{Blocks, Kernel, Weight};
use crate::quant::RowBlock;
use crate::spec::{IntegerSpec, Storage, TensorSpec, is_wide};
use crate::tensor::Matrix;

impl<'a> Node<'a> {
    /// Bytes of a tensor: its rows are rounded up to four, its columns as the layout requires.
    pub(super) const fn spec_bytes(&self, spec: &TensorSpec) -> Option<usize> {
        let blocks = if spec.gates.is_empty() { 1 } else { spec.gates.len() };
        let Some(units) = self.sizes().dim(&spec.rows) else { return None };
        let Some(rows) = units.checked_mul(blocks) else { return None };
        let Some(rows) = rows.checked_next_multiple_of(4) else { return None };
        match spec.storage {
            Storage::Weights(_) => {
                let Some(block) = self.block_bytes(spec) else { return None };
                (rows / 4 * if is_wide(self.options) { 2 } else { 1 }).checked_mul(block)
            }
            Storage::Taps => match &spec.cols {
                Some(cols) => match self.sizes().dim(cols) {
                    Some(cols) => rows.checked_mul(cols),
                    None => None,
                },
                None => Some(rows),
            },
            Storage::F32 | Storage::Terms(_) | Storage::Gains(_) => rows.checked_mul(4),
            Storage::Rows { recurrent, .. } => {
                let sets = if recurrent.is_some() && is_wide(self.options) { 2 } else { 1 };
                (rows / 4).checked_mul(sets * size_of::<RowBlock>())
            }
            Storage::Requantized { .. } => (rows / 4).checked_mul(size_of::<RowBlock>()),
            Storage::Factors { .. } | Storage::Shifts | Storage::Values | Storage::Index => rows.checked_mul(2),
            Storage::Curve => Some(2 * TABLE_LEN.next_multiple_of(2)),
            Storage::Multipliers | Storage::Addends | Storage::Starts { .. } => rows.checked_mul(4),
        }
    }

    /// Bytes of a block of four rows of a matrix.
    pub(super) const fn block_bytes(&self, spec: &TensorSpec) -> Option<usize> {
        let Some(cols) = &spec.cols else { return Some(0) };
        match self.sizes().dim(cols) {
            Some(cols) => self.layout.block_bytes(self.numeric, cols),
            None => None,
        }
    }

    /// The bytes of tensor `index` of the spec, in the layout; empty if neither the node nor the spec has it.
    pub fn tensor(&self, index: usize) -> &'a [u8] {
        let Some(spec) = self.cell.tensors.get(index) else { return &[] };
        let offset = u32_at(self.tensors, 4 * index..4 * index + 4).unwrap_or(field::ABSENT);
        if offset == field::ABSENT {
            return &[];
        }
        slice(self.weights, offset as usize, self.spec_bytes(spec).unwrap_or(0)).unwrap_or_default()
    }

    /// Whether the record has all tensors and numbers of the spec. It always does; after this test the compiler can
    /// drop the later tests.
    #[inline(always)]
    pub(crate) fn is_whole(&self, spec: &IntegerSpec) -> bool {
        self.tensors.len() >= 4 * spec.tensors.len() && self.params.len() >= 4 * spec.numbers.len()
    }

    /// Matrix `index` of the spec.
    pub(crate) fn matrix<W: Weight>(&self, index: usize) -> Matrix<'a, W> {
        let cols = self.cell.tensors.get(index).and_then(|spec| spec.cols.as_ref()).map_or(0, |cols| self.dim(cols));
        Matrix::new(self.tensor(index), cols)
    }

    /// The columns of the blocks of matrix `index` of a float node, and everything after the matrix.
    pub(crate) fn columns<W: Weight>(&self, index: usize) -> &'a [[W; 4]] {
        self.whole(index)
    }

    /// The blocks of matrix `index` of an integer node, four rows of `cols` columns each, and everything after the
    /// matrix.
    #[inline(always)]
    pub(crate) fn weights<K: Kernel>(&self, index: usize, cols: usize) -> Option<Blocks<'a, K::Unit>> {
        Some(Blocks { units: self.start_of(index)?, block_len: K::block_len(cols) })
    }

    /// Tensor `index` and everything after it, as a slice of whole elements.
    pub(crate) fn whole<T: bytemuck::Pod>(&self, index: usize) -> &'a [T] {
        self.start_of(index).unwrap_or_default()
    }

    /// [`whole`](Self::whole) for a tensor that the node has; otherwise `None`.
    #[inline(always)]
    fn start_of<T: bytemuck::Pod>(&self, index: usize) -> Option<&'a [T]> {
        let bytes = self.tensor_start(index)?;
        let whole = bytes.len() - bytes.len() % size_of::<T>();
        bytemuck::try_cast_slice(bytes.get(..whole)?).ok()
    }

    /// The weights of a row of matrix `index` of an integer node.
    pub(crate) fn weights_of_row(&self, index: usize, row: usize) -> impl Iterator<Item = i32> + use<'a> {
        let (layout, numeric) = (self.layout, self.numeric);
        let cols = self.cell.tensors.get(index).and_then(|spec| spec.cols.as_ref()).map_or(0, |cols| self.dim(cols));
        let bytes = layout.block_bytes(numeric, cols).unwrap_or(0);
        let block = self.tensor(index).get((row / 4).saturating_mul(bytes)..).unwrap_or_default();
        (0..cols).map_while(move |col| layout.weight(numeric, block.get(..bytes)?, row % 4, col))
    }

    /// The bytes of a tensor with this spec, at `index` of the record. Unlike [`tensor`](Self::tensor) it does not depend on
    /// the tensors that a step knows by itself.
    pub fn tensor_of(&self, spec: &TensorSpec, index: usize) -> &'a [u8] {
        let offset = u32_at(self.tensors, 4 * index..4 * index + 4).unwrap_or(field::ABSENT);
        if offset == field::ABSENT {
            return &[];
        }
        slice(self.weights, offset as usize, self.spec_bytes(spec).unwrap_or(0)).unwrap_or_default()
    }

    /// The weights of a row of a plane of the matrix with this spec, at `index` of an integer node. Wide weights have a
    /// coarse plane and a fine one, others only the first.
    pub fn weights_of_plane(
        &self,
        spec: &TensorSpec,
        index: usize,
        plane: usize,
        row: usize,
    ) -> impl Iterator<Item = i32> + use<'a> {
        let (layout, numeric) = (self.layout, self.numeric);
        let cols = spec.cols.as_ref().map_or(0, |cols| self.dim(cols));
        let (all, bytes) = (self.tensor_of(spec, index), layout.block_bytes(numeric, cols).unwrap_or(0));
        let len = if is_wide(self.options) { all.len() / 2 } else { all.len() };
        let start = plane.saturating_mul(len).saturating_add((row / 4).saturating_mul(bytes));
        let block = slice(all, start, bytes).unwrap_or_default();
        (0..cols).map_while(move |col| layout.weight(numeric, block, row % 4, col))
    }

    /// The starts and multipliers of the sums of `rows` rows of an integer node: tensor `index` of the spec.
    pub fn rows(&self, index: usize, rows: usize) -> &'a [RowBlock] {
        self.row_blocks(index, rows).unwrap_or_default()
    }

    /// [`rows`](Self::rows) for a tensor that the node has; otherwise `None`.
    #[inline(always)]
    pub(crate) fn row_blocks(&self, index: usize, rows: usize) -> Option<&'a [RowBlock]> {
        // No size is greater. With this bound the compiler needs no division for the number of blocks.
        let blocks = rows.div_ceil(4).min(MAX_SIZE as usize);
        let bytes = self.tensor_start(index)?.get(..blocks * size_of::<RowBlock>())?;
        bytemuck::try_cast_slice(bytes).ok()
    }

    /// A tensor and everything after it. Computing its end would need its dimensions.
    #[inline(always)]
    fn tensor_start(&self, index: usize) -> Option<&'a [u8]> {
        let offset = u32_at(self.tensors, 4 * index..4 * index + 4)?;
        self.weights.get(offset as usize..)
    }

    /// The factors or the table at `index` of an integer node's spec.
    pub(crate) fn integers(&self, index: usize) -> &'a [i16] {
        bytemuck::try_cast_slice(self.tensor(index)).unwrap_or_default()
    }

    /// The positions at `index` of the spec, padded with zeros to blocks of four.
    pub(crate) fn indices(&self, index: usize) -> &'a [u16] {
        bytemuck::try_cast_slice(self.tensor(index)).unwrap_or_default()
    }

    /// The multipliers, the terms, the gains or the starts at `index` of an integer node's spec, padded with zeros to
    /// blocks of four.
    pub(crate) fn words(&self, index: usize) -> &'a [i32] {
        bytemuck::try_cast_slice(self.tensor(index)).unwrap_or_default()
    }

    /// Vector `index` of the spec, in blocks of four rows, padded with zeros.
    pub(crate) fn vector(&self, index: usize) -> &'a [[f32; 4]] {
        bytemuck::try_cast_slice(self.tensor(index)).unwrap_or_default()
    }

    /// Vector `index` of the spec, element by element, including the zeros that pad its last block.
    pub fn elements(&self, index: usize) -> &'a [f32] {
        self.vector(index).as_flattened()
    }
}
