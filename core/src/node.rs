//! A node: a cell with its sizes, options, slots and tensors, decoded from its record.

use core::ops::Range;

use crate::activation::Activation;
use crate::cell::{CellKind, Dim, MAX_ACTIVATIONS, MAX_PARAMS, Sizes};
use crate::image::field::{ALIGNMENT, MAX_SIZE, node as field, slot};
use crate::image::read::{array, slice, u16_at, u32_at};
use crate::image::{ImageError, Numeric, SectionKind};
use crate::kernel::Weight;
use crate::tensor::Matrix;

/// One cell of a model.
#[derive(Clone, Copy, Debug)]
pub struct Node<'a> {
    /// What it computes.
    pub kind: CellKind,
    /// Bit `k`: option `k` of the spec.
    pub options: u32,
    /// Features in.
    pub input_size: usize,
    /// Units.
    pub hidden_size: usize,
    /// Features out.
    pub output_size: usize,
    /// As the spec lists them.
    pub activations: [Activation; MAX_ACTIVATIONS],
    /// As the spec lists them.
    pub params: [f32; MAX_PARAMS],
    output_slot: usize,
    slots: &'a [u8],
    tensors: &'a [u8],
    numeric: Numeric,
    weights: &'a [u8],
}

/// Where a node record stands, for errors.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub node: u32,
    /// From the start of the section's payload.
    pub offset: usize,
}

impl<'a> Node<'a> {
    /// Decodes the record at the start of `records`, and returns it with the records behind it.
    pub(crate) const fn decode(
        records: &'a [u8],
        weights: &'a [u8],
        numeric: Numeric,
        place: Place,
    ) -> Result<(Self, &'a [u8]), ImageError> {
        let malformed = ImageError::BadSection { kind: SectionKind::Nodes, offset: place.offset };
        let Some(head) = records.first_chunk::<{ field::LEN }>() else { return Err(malformed) };
        let (Some(code), Some(words), Some(options), Some(slot_count), Some(tensor_count)) = (
            u16_at(head, field::CELL),
            u16_at(head, field::RECORD_WORDS),
            u32_at(head, field::OPTIONS),
            u16_at(head, field::SLOT_COUNT),
            u16_at(head, field::TENSOR_COUNT),
        ) else {
            return Err(malformed);
        };
        let (Some(input), Some(hidden), Some(output), Some(output_slot), Some(codes), Some(params)) = (
            u32_at(head, field::INPUT_SIZE),
            u32_at(head, field::HIDDEN_SIZE),
            u32_at(head, field::OUTPUT_SIZE),
            u32_at(head, field::OUTPUT_SLOT),
            array::<MAX_ACTIVATIONS>(head, field::ACTIVATIONS.start),
            array::<{ 4 * MAX_PARAMS }>(head, field::PARAMS.start),
        ) else {
            return Err(malformed);
        };
        let Some(kind) = CellKind::from_code(code) else {
            return Err(ImageError::UnknownCell { node: place.node, code });
        };
        let mut activations = [Activation::Identity; MAX_ACTIVATIONS];
        let mut k = 0;
        while k < MAX_ACTIVATIONS {
            let Some(activation) = Activation::from_code(codes[k]) else {
                return Err(ImageError::BadOption { node: place.node });
            };
            activations[k] = activation;
            k += 1;
        }
        let (quads, _) = params.as_chunks::<4>();
        let mut params = [0.0; MAX_PARAMS];
        let mut k = 0;
        while k < MAX_PARAMS {
            params[k] = f32::from_le_bytes(quads[k]);
            k += 1;
        }
        let Some((record, rest)) = records.split_at_checked(words as usize * 4) else { return Err(malformed) };
        let Some((_, lists)) = record.split_at_checked(field::LEN) else { return Err(malformed) };
        let Some((slots, tensors)) = lists.split_at_checked(slot_count as usize * slot::LEN) else {
            return Err(malformed);
        };
        if tensors.len() != tensor_count as usize * 4 {
            return Err(malformed);
        }
        let (input_size, hidden_size, output_size) = (input as usize, hidden as usize, output as usize);
        let output_slot = output_slot as usize;
        let node = Self {
            kind,
            options,
            input_size,
            hidden_size,
            output_size,
            activations,
            params,
            output_slot,
            slots,
            tensors,
            numeric,
            weights,
        };
        Ok((node, rest))
    }

    /// Checks what [`decode`](Self::decode) does not: that the cell has these options, that sizes fit each other,
    /// that slots lie within an arena of `slot_elements` and tensors within the weights.
    pub(crate) const fn check(&self, place: Place, slot_elements: usize) -> Result<(), ImageError> {
        let node = place.node;
        if !self.options_are_known() {
            return Err(ImageError::BadOption { node });
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

    /// Option bits, numbers and activations beyond the spec's are zero; numbers are finite and not negative.
    const fn options_are_known(&self) -> bool {
        let spec = self.kind.spec();
        let mut known = self.options >> spec.options.len() == 0;
        let mut k = 0;
        while k < MAX_PARAMS {
            let value = self.params[k];
            let used = k < spec.params.len() && spec.params[k].presence.allowed(self.options);
            known &= if used { value >= 0.0 && value < f32::INFINITY } else { value.to_bits() == 0 };
            k += 1;
        }
        let mut k = spec.activations.len();
        while k < MAX_ACTIVATIONS {
            known &= self.activations[k].code() == 0;
            k += 1;
        }
        known
    }

    const fn sizes_fit(&self) -> bool {
        let (input, hidden, output) = (self.input_size, self.hidden_size, self.output_size);
        let max = MAX_SIZE as usize;
        let in_range = input >= 1 && input <= max && hidden >= 1 && hidden <= max && output >= 1 && output <= max;
        let related = match self.kind.spec().sizes {
            Sizes::Recurrent | Sizes::Feedforward => hidden == output,
            Sizes::Projected { option } => self.has(option) || hidden == output,
            Sizes::Elementwise => input == hidden && hidden == output,
        };
        in_range && related
    }

    /// Every slot lies within the arena, apart from the one it writes; together they are as long as the input.
    /// The cells of this build read one.
    const fn check_slots(&self, node: u32, slot_elements: usize) -> Result<(), ImageError> {
        let (Some(start), Some(elements), slot::LEN) =
            (u32_at(self.slots, slot::START), u32_at(self.slots, slot::ELEMENTS), self.slots.len())
        else {
            return Err(ImageError::BadSlot { node, start: 0, elements: 0 });
        };
        let bad_input = ImageError::BadSlot { node, start, elements };
        let bad_output =
            ImageError::BadSlot { node, start: self.output_slot as u32, elements: self.output_size as u32 };
        let start = start as usize;
        if elements as usize != self.input_size {
            return Err(bad_input);
        }
        let (Some(end), Some(output_end)) =
            (start.checked_add(self.input_size), self.output_slot.checked_add(self.output_size))
        else {
            return Err(bad_input);
        };
        if end > slot_elements {
            return Err(bad_input);
        }
        if output_end > slot_elements || (start < output_end && self.output_slot < end) {
            return Err(bad_output);
        }
        Ok(())
    }

    /// Every tensor that the cell has with these options is there, aligned, within the weights; no other is.
    const fn check_tensors(&self, node: u32) -> Result<(), ImageError> {
        let specs = self.kind.spec().tensors;
        if self.tensors.len() != specs.len() * 4 {
            let (needed, given) = (specs.len(), self.tensors.len() / 4);
            return Err(ImageError::BadTensor { node, tensor: 0, needed, given });
        }
        let mut index = 0;
        while index < specs.len() {
            let Some(offset) = u32_at(self.tensors, 4 * index..4 * index + 4) else {
                return Err(ImageError::BadTensor { node, tensor: index as u32, needed: 0, given: 0 });
            };
            let Some(needed) = self.tensor_bytes(index) else { return Err(ImageError::TooLarge { node }) };
            let given = self.weights.len().saturating_sub(offset as usize);
            let present = offset != field::ABSENT;
            if present != specs[index].presence.required(self.options) || (present && needed > given) {
                return Err(ImageError::BadTensor { node, tensor: index as u32, needed, given });
            }
            if present && !(offset as usize).is_multiple_of(ALIGNMENT) {
                return Err(ImageError::Misaligned { offset: offset as usize });
            }
            index += 1;
        }
        Ok(())
    }

    /// Bytes of tensor `index` of the spec: its rows rounded up to four, f32 unless it is a matrix.
    pub const fn tensor_bytes(&self, index: usize) -> Option<usize> {
        let Some((_, [spec, ..])) = self.kind.spec().tensors.split_at_checked(index) else { return None };
        let blocks = if spec.gates.is_empty() { 1 } else { spec.gates.len() };
        let Some(rows) = (self.dim(spec.rows) * blocks).checked_next_multiple_of(4) else { return None };
        match spec.cols {
            None => rows.checked_mul(4),
            Some(cols) => {
                let Some(elements) = rows.checked_mul(self.dim(cols)) else { return None };
                elements.checked_mul(self.numeric.matrix_element_bytes())
            }
        }
    }

    /// Elements of the state that it keeps from step to step.
    pub const fn state_elements(&self) -> usize {
        let mut total = 0;
        let mut states = self.kind.spec().states;
        while let [state, rest @ ..] = states {
            total += self.dim(state.len);
            states = rest;
        }
        total
    }

    /// Elements of scratch that it needs for itself during a step.
    pub const fn work_elements(&self) -> usize {
        let mut total = 0;
        let mut work = self.kind.spec().work;
        while let [dim, rest @ ..] = work {
            total += self.dim(*dim);
            work = rest;
        }
        total
    }

    /// Multiply-accumulates of one step: the elements of its matrices.
    pub fn macs(&self) -> usize {
        let of = |tensor: &crate::cell::TensorSpec| match tensor.cols {
            Some(cols) if tensor.presence.required(self.options) => {
                tensor.gates.len().max(1) * self.dim(tensor.rows) * self.dim(cols)
            }
            _ => 0,
        };
        self.kind.spec().tensors.iter().map(of).sum()
    }

    pub(crate) const fn numeric(&self) -> Numeric {
        self.numeric
    }

    /// Where it reads in the arena.
    pub(crate) const fn input(&self) -> Range<usize> {
        let start = match u32_at(self.slots, slot::START) {
            Some(start) => start as usize,
            None => 0,
        };
        start..start + self.input_size
    }

    /// Where it writes in the arena.
    pub(crate) const fn output(&self) -> Range<usize> {
        self.output_slot..self.output_slot + self.output_size
    }

    /// The bytes of tensor `index` of the spec; none where the node does not have it.
    fn tensor(&self, index: usize) -> &'a [u8] {
        let offset = u32_at(self.tensors, 4 * index..4 * index + 4).unwrap_or(field::ABSENT);
        let bytes = self.tensor_bytes(index).unwrap_or(0);
        slice(self.weights, offset as usize, bytes).unwrap_or_default()
    }

    /// Matrix `index` of the spec.
    pub(crate) fn matrix<W: Weight>(&self, index: usize) -> Matrix<'a, W> {
        let cols = self.kind.spec().tensors.get(index).and_then(|spec| spec.cols).map_or(0, |cols| self.dim(cols));
        Matrix::new(self.tensor(index), cols)
    }

    /// Vector `index` of the spec, in blocks of four rows; the last is filled up with zeros.
    pub(crate) fn vector(&self, index: usize) -> &'a [[f32; 4]] {
        bytemuck::try_cast_slice(self.tensor(index)).unwrap_or_default()
    }

    /// The value of one of its sizes.
    pub const fn dim(&self, dim: Dim) -> usize {
        match dim {
            Dim::Input => self.input_size,
            Dim::Hidden => self.hidden_size,
            Dim::Output => self.output_size,
        }
    }

    /// Whether option `option` of the spec is set.
    pub const fn has(&self, option: u32) -> bool {
        self.options >> option & 1 == 1
    }
}
