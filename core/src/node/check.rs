//! What is checked of a node at the door: options, extents, sizes, slots and tensors; the [sums](super::sums) of its rows
//! have a page of their own.

use super::{Node, Place};
use crate::cell::{CURVE, CellSpec, IntegerSpec, OTHER, Storage, TensorSpec};
use crate::curve::Curve;
use crate::fixed::Multiplier;
use crate::image::field::{ALIGNMENT, MAX_SIZE, activation, node as field};
use crate::image::layout::factors_are_known;
use crate::image::read::{slice, u32_at};
use crate::image::{ImageError, Numeric};
use crate::quant::RowBlock;

impl Node<'_> {
    /// Checks what [`decode`](Self::decode) does not: that the cell has these options, that sizes fit each other,
    /// that slots lie within an arena of `slot_elements` and tensors within the weights.
    pub(crate) const fn check(&self, place: Place, slot_elements: usize) -> Result<(), ImageError> {
        let node = place.node;
        if !self.options_are_known() {
            return Err(ImageError::BadOption { node });
        }
        if let Err(error) = self.check_extents(node) {
            return Err(error);
        }
        if !self.sizes_fit() {
            let (input, hidden, output) = (self.input_size as u32, self.hidden_size as u32, self.output_size as u32);
            return Err(ImageError::BadSize { node, input, hidden, output });
        }
        if let Err(error) = self.check_slots(node, slot_elements) {
            return Err(error);
        }
        self.check_tensors(node)
    }

    /// No option bits beyond the spec's; as many numbers and activations as it has, known, finite, not negative.
    const fn options_are_known(&self) -> bool {
        let spec = self.spec();
        let mut known = self.activations.len() == spec.activations.len() * activation::LEN;
        let mut k = 0;
        while k < spec.activations.len() {
            known &= self.activation_at(k).is_some();
            k += 1;
        }
        known &= match self.integer_spec() {
            None => self.float_numbers_are_known(spec),
            Some(integer) => self.integer_numbers_are_known(spec, integer),
        };
        // Windows are what others are unrolled over.
        known && !(self.unroll.is_some() && self.cell.is_buffered())
    }

    const fn float_numbers_are_known(&self, spec: &CellSpec) -> bool {
        // A spec has at most 31 options, so that the shift is in range.
        let mut known = self.options >> spec.options.len() == 0 && self.params.len() == spec.params.len() * 4;
        let mut params = spec.params;
        let mut k = 0;
        while let [param, rest @ ..] = params {
            let value = self.param(k);
            let allowed = param.presence.allowed(self.options);
            known &= if allowed { value >= 0.0 && value < f32::INFINITY } else { value.to_bits() == 0 };
            params = rest;
            k += 1;
        }
        known
    }

    const fn integer_numbers_are_known(&self, spec: &CellSpec, integer: &IntegerSpec) -> bool {
        let mut known = self.options & !integer.options == 0 && self.params.len() == integer.numbers.len() * 4;
        let mut numbers = integer.numbers;
        let mut k = 0;
        while let [number, rest @ ..] = numbers {
            let value = self.number(k);
            known &= number.least <= value && value <= number.most;
            known &= match number.usual {
                Some(usual) => value == usual || self.has(OTHER),
                None => true,
            };
            numbers = rest;
            k += 1;
        }
        let mut activations = spec.activations;
        let mut k = 0;
        while let [default, rest @ ..] = activations {
            let (given, tabulated) = (self.activation(k), self.has(CURVE + k as u32));
            known &= tabulated || Curve::of(given).is_some();
            known &= self.has(OTHER) || (!tabulated && given.code() == default.default.code());
            activations = rest;
            k += 1;
        }
        known
    }

    const fn check_extents(&self, node: u32) -> Result<(), ImageError> {
        let mut specs = self.spec().extents;
        if self.extents.len() != specs.len() {
            return Err(ImageError::BadExtent { node, extent: self.extents.len() as u32, found: 0 });
        }
        let mut extent = 0;
        while let [spec, rest @ ..] = specs {
            let found = self.extent(extent) as u32;
            if found < spec.least || found > MAX_SIZE {
                return Err(ImageError::BadExtent { node, extent: extent as u32, found });
            }
            specs = rest;
            extent += 1;
        }
        Ok(())
    }

    const fn sizes_fit(&self) -> bool {
        let (input, hidden, output) = (self.input_size, self.hidden_size, self.output_size);
        let max = MAX_SIZE as usize;
        let in_range = input >= 1 && input <= max && hidden >= 1 && hidden <= max && output >= 1 && output <= max;
        in_range && self.steps() <= max && self.sizes().broken(self.spec().rules).is_none() && self.integer_rules_hold()
    }

    const fn integer_rules_hold(&self) -> bool {
        match self.integer_spec() {
            None => true,
            Some(integer) => self.sizes().broken(integer.rules).is_none(),
        }
    }

    /// Every slot lies within the arena, apart from the one it writes; together their rows are as long as the input.
    const fn check_slots(&self, node: u32, slot_elements: usize) -> Result<(), ImageError> {
        let (Some(elements), output_start) = (self.output_size.checked_mul(self.steps()), self.output_slot) else {
            return Err(ImageError::TooLarge { node });
        };
        let bad_output = ImageError::BadSlot { node, start: output_start as u32, elements: elements as u32 };
        let Some(output_end) = output_start.checked_add(elements) else { return Err(bad_output) };
        let (mut total, mut index) = (0, 0);
        while let Some((start, row)) = self.slot(index) {
            let Some(elements) = row.checked_mul(self.steps()) else { return Err(ImageError::TooLarge { node }) };
            let bad_input = ImageError::BadSlot { node, start: start as u32, elements: elements as u32 };
            let Some(end) = start.checked_add(elements) else { return Err(bad_input) };
            if row == 0 || end > slot_elements || row > self.input_size - total || !self.is_aligned(start) {
                return Err(bad_input);
            }
            if start < output_end && output_start < end {
                return Err(bad_output);
            }
            total += row;
            index += 1;
        }
        if output_end > slot_elements || !self.is_aligned(output_start) {
            return Err(bad_output);
        }
        if total != self.input_size {
            return Err(ImageError::BadSlot { node, start: 0, elements: total as u32 });
        }
        Ok(())
    }

    /// Every tensor that the cell has with these options is there, aligned, within the weights; no other is.
    const fn check_tensors(&self, node: u32) -> Result<(), ImageError> {
        let specs = self.tensor_specs();
        if self.tensors.len() != specs.len() * 4 {
            let (needed, given) = (specs.len(), self.tensors.len() / 4);
            return Err(ImageError::BadTensor { node, tensor: 0, needed, given });
        }
        let mut index = 0;
        while index < specs.len() {
            let Some(offset) = u32_at(self.tensors, 4 * index..4 * index + 4) else {
                return Err(ImageError::BadTensor { node, tensor: index as u32, needed: 0, given: 0 });
            };
            let given = self.weights.len().saturating_sub(offset as usize);
            let present = offset != field::ABSENT;
            let required = specs[index].presence.required(self.options);
            let needed = match self.tensor_bytes(index) {
                Some(needed) => needed,
                None if !required => 0,
                None => return Err(ImageError::TooLarge { node }),
            };
            // A tensor without elements would have no end.
            if present != required || (present && (needed > given || needed == 0)) {
                return Err(ImageError::BadTensor { node, tensor: index as u32, needed, given });
            }
            if present && !(offset as usize).is_multiple_of(ALIGNMENT) {
                return Err(ImageError::Misaligned { offset: offset as usize });
            }
            if present {
                let Some(bytes) = slice(self.weights, offset as usize, needed) else {
                    return Err(ImageError::BadTensor { node, tensor: index as u32, needed, given });
                };
                match specs[index].storage {
                    Storage::Rows { .. } if !shifts_fit(bytes) => {
                        return Err(ImageError::BadShift { node, tensor: index as u32 });
                    }
                    Storage::Requantized { .. } if !requantizations_fit(bytes) => {
                        return Err(ImageError::BadShift { node, tensor: index as u32 });
                    }
                    Storage::Weights(_) if !self.factors_are_known(&specs[index], bytes) => {
                        return Err(ImageError::BadFactor { node, tensor: index as u32 });
                    }
                    _ => {}
                }
            }
            index += 1;
        }
        Ok(())
    }

    /// Whether the groups of a matrix, where the numeric has such, are multiplied with nothing but what the format knows.
    const fn factors_are_known(&self, spec: &TensorSpec, matrix: &[u8]) -> bool {
        match (self.numeric, self.block_bytes(spec)) {
            (Numeric::I4x16, Some(block_bytes)) => factors_are_known(matrix, block_bytes),
            _ => true,
        }
    }
}

/// Whether no factor of these blocks of rows is below 0, and no shift out of its range.
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

/// Whether no shift of these blocks of rows is beyond 31, where kernels would differ.
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
