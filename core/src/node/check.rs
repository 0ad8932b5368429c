//! The checks of a node when its image is parsed: options, extents, sizes, slots and tensors. The
//! [contents](super::contents) of its tensors and the [sums](super::sums) of its rows have pages of their own.

use super::{Node, Place};
use crate::curve::Curve;
use crate::image::ImageError;
use crate::image::field::{ALIGNMENT, MAX_SIZE, activation, node as field};
use crate::image::read::u32_at;
use crate::spec::{CURVE, CellSpec, IntegerSpec, OTHER, Specs};

impl Node<'_> {
    /// Makes the checks that [`decode`](Self::decode) does not: that the cell has these options, that the sizes fit
    /// each other, that slots are within an arena of `slot_elements`, and that tensors are within the weights, whose
    /// [contents](Self::check_contents) it does not read.
    pub(crate) const fn check(&self, specs: Specs, place: Place, slot_elements: usize) -> Result<(), ImageError> {
        let node = place.node;
        if !self.options_are_known(specs) {
            return Err(ImageError::BadOption { node });
        }
        ok!(self.check_extents(specs, node));
        if !self.sizes_fit(specs) {
            let (input, hidden, output) = (self.input_size as u32, self.hidden_size as u32, self.output_size as u32);
            return Err(ImageError::BadSize { node, input, hidden, output });
        }
        ok!(self.check_slots(node, slot_elements));
        self.check_tensors(specs, node)
    }

    /// Checks that there are no option bits beyond the spec's, and as many numbers and activations as the spec has:
    /// known, finite, not negative.
    const fn options_are_known(&self, specs: Specs) -> bool {
        let spec = specs.cell;
        let mut known = self.activations.len() == spec.activations.len() * activation::LEN;
        let mut k = 0;
        while k < spec.activations.len() {
            known &= self.activation_at(k).is_some();
            k += 1;
        }
        known &= match specs.integer {
            None => self.float_numbers_are_known(spec),
            Some(integer) => self.integer_numbers_are_known(spec, integer),
        };
        // Windows themselves are never unrolled.
        known && !(self.unroll.is_some() && self.cell.is_buffered())
    }

    const fn float_numbers_are_known(&self, spec: &CellSpec) -> bool {
        // A spec has at most 31 options, so the shift is in range.
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

    const fn check_extents(&self, specs: Specs, node: u32) -> Result<(), ImageError> {
        let mut extents = specs.cell.extents;
        if self.extents.len() != extents.len() {
            return Err(ImageError::BadExtent { node, extent: self.extents.len() as u32, found: 0 });
        }
        let mut extent = 0;
        while let [spec, rest @ ..] = extents {
            let found = self.extent(extent) as u32;
            if found < spec.least || found > MAX_SIZE {
                return Err(ImageError::BadExtent { node, extent: extent as u32, found });
            }
            extents = rest;
            extent += 1;
        }
        Ok(())
    }

    const fn sizes_fit(&self, specs: Specs) -> bool {
        let (input, hidden, output) = (self.input_size, self.hidden_size, self.output_size);
        let max = MAX_SIZE as usize;
        let in_range = input >= 1 && input <= max && hidden >= 1 && hidden <= max && output >= 1 && output <= max;
        in_range
            && self.steps() <= max
            && self.sizes().broken(specs.cell.rules).is_none()
            && self.integer_rules_hold(specs)
    }

    const fn integer_rules_hold(&self, specs: Specs) -> bool {
        match specs.integer {
            None => true,
            Some(integer) => self.sizes().broken(integer.rules).is_none(),
        }
    }

    /// Checks that every slot is within the arena and disjoint from the output slot, and that their rows add up to the
    /// input.
    const fn check_slots(&self, node: u32, slot_elements: usize) -> Result<(), ImageError> {
        let (Some(elements), output_start) = (self.output_size.checked_mul(self.steps()), self.output_slot) else {
            return Err(ImageError::TooLarge { node });
        };
        let bad_output = ImageError::BadSlot { node, start: output_start as u32, elements: elements as u32 };
        let Some(output_end) = output_start.checked_add(elements) else { return Err(bad_output) };
        let (mut total, mut slots) = (0, self.slots());
        while let [slot, others @ ..] = slots {
            let (start, row) = Self::read_slot(*slot);
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
            slots = others;
        }
        if output_end > slot_elements || !self.is_aligned(output_start) {
            return Err(bad_output);
        }
        if total != self.input_size {
            return Err(ImageError::BadSlot { node, start: 0, elements: total as u32 });
        }
        Ok(())
    }

    /// Checks that every tensor that the cell has with these options is present, aligned and within the weights, and
    /// that no other is present.
    const fn check_tensors(&self, specs: Specs, node: u32) -> Result<(), ImageError> {
        let mut specs = specs.tensors();
        while let [listed @ .., last] = specs
            && !last.presence.listed(self.options)
        {
            specs = listed;
        }
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
            let needed = match self.spec_bytes(&specs[index]) {
                Some(needed) => needed,
                None if !required => 0,
                None => return Err(ImageError::TooLarge { node }),
            };
            // A tensor without elements has no defined end.
            if present != required || (present && (needed > given || needed == 0)) {
                return Err(ImageError::BadTensor { node, tensor: index as u32, needed, given });
            }
            if present && !(offset as usize).is_multiple_of(ALIGNMENT) {
                return Err(ImageError::Misaligned { offset: offset as usize });
            }
            index += 1;
        }
        Ok(())
    }
}
