//! The checks of what the tensors of an integer node contain: shifts, factors and padding. A tensor that a node shares
//! with the node before it is checked once.

use super::Node;
use crate::fixed::Multiplier;
use crate::image::layout::factors_are_known;
use crate::image::{ImageError, Numeric};
use crate::quant::RowBlock;
use crate::spec::{Specs, Storage, TensorSpec};

impl Node<'_> {
    /// Checks the contents of every tensor. The node has been [checked](Self::check) before.
    pub(crate) const fn check_contents(&self, specs: Specs, node: u32) -> Result<(), ImageError> {
        let (mut rest, mut tensor) = (specs.tensors(), 0);
        while let [spec, others @ ..] = rest {
            let bytes = self.bytes_of(specs, tensor as usize);
            match spec.storage {
                Storage::Rows { .. } if !shifts_fit(bytes) => return Err(ImageError::BadShift { node, tensor }),
                Storage::Requantized { .. } if !requantizations_fit(bytes) => {
                    return Err(ImageError::BadShift { node, tensor });
                }
                Storage::Weights(_) if !self.factors_are_known(spec, bytes) => {
                    return Err(ImageError::BadFactor { node, tensor });
                }
                Storage::Weights(_) if !self.filler_is_zero(spec, bytes) => {
                    return Err(ImageError::BadFiller { node, tensor });
                }
                _ => {}
            }
            rest = others;
            tensor += 1;
        }
        Ok(())
    }

    /// Bytes of the tensors that [`check_contents`](Self::check_contents) and [`check_sums`](Self::check_sums) read.
    pub(crate) const fn content_bytes(&self, specs: Specs) -> u64 {
        let (mut rest, mut index, mut total) = (specs.tensors(), 0, 0);
        while let [_, others @ ..] = rest {
            total += self.bytes_of(specs, index).len() as u64;
            index += 1;
            rest = others;
        }
        total
    }

    /// Whether the tensors of both nodes are the same and are read in the same way.
    pub(crate) const fn has_tensors_of(&self, other: &Self) -> bool {
        equal(self.tensors, other.tensors)
            && self.kind as u16 == other.kind as u16
            && self.options == other.options
            && self.input_size == other.input_size
            && self.hidden_size == other.hidden_size
            && self.output_size == other.output_size
            && equal(self.extents.as_flattened(), other.extents.as_flattened())
            && equal(self.params, other.params)
    }

    /// Whether a backend packs the same layer for both nodes: they have the same tensors and activations, and differ only
    /// in their slots.
    pub const fn has_layer_of(&self, other: &Self) -> bool {
        self.has_tensors_of(other) && equal(self.activations, other.activations)
    }

    /// Whether the groups of a matrix, if the numeric has groups, have only factors that the format defines.
    const fn factors_are_known(&self, spec: &TensorSpec, matrix: &[u8]) -> bool {
        match (self.numeric, self.block_bytes(spec)) {
            (Numeric::I4x16, Some(block_bytes)) => factors_are_known(matrix, block_bytes),
            _ => true,
        }
    }

    const fn filler_is_zero(&self, spec: &TensorSpec, matrix: &[u8]) -> bool {
        match &spec.cols {
            Some(cols) => self.layout.filler_is_zero(self.numeric, matrix, self.dim(cols)),
            None => true,
        }
    }
}

const fn equal(a: &[u8], b: &[u8]) -> bool {
    let (mut a, mut b) = (a, b);
    while let ([byte, rest @ ..], [other, others @ ..]) = (a, b) {
        if *byte != *other {
            return false;
        }
        (a, b) = (rest, others);
    }
    a.is_empty() && b.is_empty()
}

/// Whether these blocks of rows have no negative factor and no shift out of range.
const fn requantizations_fit(rows: &[u8]) -> bool {
    let mut rest = rows;
    while let Some((block, others)) = rest.split_first_chunk::<{ size_of::<RowBlock>() }>() {
        let (words, _) = block.as_chunks::<4>();
        let mut row = 0;
        while row < 4 {
            let (factor, shift) = (i32::from_le_bytes(words[4 + row]), words[8][row].cast_signed() as i32);
            if factor < 0 || shift < Multiplier::LEAST_SHIFT || shift > Multiplier::MOST_SHIFT {
                return false;
            }
            row += 1;
        }
        rest = others;
    }
    true
}

/// Whether no shift of these blocks of rows exceeds 31. Kernels would differ in larger shifts.
const fn shifts_fit(rows: &[u8]) -> bool {
    let mut rest = rows;
    while let Some((block, others)) = rest.split_first_chunk::<{ size_of::<RowBlock>() }>() {
        let [.., a, b, c, d] = *block;
        if a > 31 || b > 31 || c > 31 || d > 31 {
            return false;
        }
        rest = others;
    }
    true
}
