//! A node: a cell with its sizes, options, slots and tensors, decoded from its record.

mod sums;

use core::ops::Range;

use crate::activation::Activation;
use crate::cell::patch::TAPS;
use crate::cell::{CURVE, Cell, CellKind, CellSpec, Cells, Dim, IntegerSpec, OTHER, Sizes, Storage, TensorSpec};
use crate::curve::{Curve, TABLE_LEN};
use crate::image::field::{ALIGNMENT, MAX_SIZE, activation, node as field, slot, unroll};
use crate::image::layout::factors_are_known;
use crate::image::read::{f32_at, slice, u16_at, u32_at};
use crate::image::{ImageError, Layout, Numeric, SectionKind};
use crate::kernel::{Blocks, Kernel, Weight};
use crate::quant::RowBlock;
use crate::tensor::Matrix;

/// Work of a row beside its elements: finding the tensors of its node.
const ROW_WORK: u64 = 64;

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
    /// Over how many time steps at once; `None`: it steps once.
    pub unroll: Option<Unroll>,
    pub(crate) cell: &'static Cell,
    output_slot: usize,
    state_elements: usize,
    work_elements: usize,
    extents: &'a [[u8; 4]],
    activations: &'a [u8],
    params: &'a [u8],
    slots: &'a [u8],
    tensors: &'a [u8],
    numeric: Numeric,
    layout: Layout,
    weights: &'a [u8],
}

/// A node that runs over the rows of a window, one time step a row, in one step of the model. Its slots, what it reads
/// and what it writes, have a row for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unroll {
    /// Rows, at least 1.
    pub steps: u32,
    /// The last valid row is read first.
    pub read_backwards: bool,
    /// The first result goes to the last valid row: with `read_backwards`, results stand beside their inputs.
    pub write_backwards: bool,
    /// The state is carried from one window to the next; else each begins at zero.
    pub stateful: bool,
}

impl Unroll {
    pub(crate) const fn flags(self) -> u16 {
        (if self.read_backwards { unroll::READ_BACKWARDS } else { 0 })
            | (if self.write_backwards { unroll::WRITE_BACKWARDS } else { 0 })
            | (if self.stateful { unroll::STATEFUL } else { 0 })
    }

    const fn decode(steps: u32, flags: u16) -> Option<Self> {
        if steps == 0 {
            return None;
        }
        Some(Self {
            steps,
            read_backwards: flags & unroll::READ_BACKWARDS != 0,
            write_backwards: flags & unroll::WRITE_BACKWARDS != 0,
            stateful: flags & unroll::STATEFUL != 0,
        })
    }
}

/// Where a node record stands, for errors.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub node: u32,
    /// From the start of the section's payload.
    pub offset: usize,
}

/// What the nodes of a model share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shared<'a> {
    pub weights: &'a [u8],
    pub numeric: Numeric,
    pub layout: Layout,
    pub cells: Cells,
}

impl<'a> Node<'a> {
    /// The kind of the record at the start of `records`, and its options.
    pub(crate) const fn kind_of(records: &[u8], place: Place) -> Result<(CellKind, u32), ImageError> {
        match (u16_at(records, field::CELL), u32_at(records, field::OPTIONS)) {
            (Some(code), Some(options)) => match CellKind::from_code(code) {
                None => Err(ImageError::UnknownCell { node: place.node, code }),
                Some(kind) => Ok((kind, options)),
            },
            _ => Err(ImageError::BadSection { kind: SectionKind::Nodes, offset: place.offset }),
        }
    }

    /// Decodes the record at the start of `records`, whose kind is among `shared.cells`, and returns it with the
    /// records behind it.
    #[inline(always)]
    pub(crate) const fn decode(
        records: &'a [u8],
        shared: &Shared<'a>,
        place: Place,
    ) -> Result<(Self, &'a [u8]), ImageError> {
        let malformed = ImageError::BadSection { kind: SectionKind::Nodes, offset: place.offset };
        let kind = match Self::kind_of(records, place) {
            Ok((kind, _)) => kind,
            Err(error) => return Err(error),
        };
        let Some(cell) = shared.cells.get(kind) else { return Err(malformed) };
        let Some(head) = records.first_chunk::<{ field::LEN }>() else { return Err(malformed) };
        let (Some(words), Some(options), Some(slot_count), Some(tensor_count)) = (
            u16_at(head, field::RECORD_WORDS),
            u32_at(head, field::OPTIONS),
            u16_at(head, field::SLOT_COUNT),
            u16_at(head, field::TENSOR_COUNT),
        ) else {
            return Err(malformed);
        };
        let (Some(input), Some(hidden), Some(output), Some(output_slot), Some(steps), Some(flags)) = (
            u32_at(head, field::INPUT_SIZE),
            u32_at(head, field::HIDDEN_SIZE),
            u32_at(head, field::OUTPUT_SIZE),
            u32_at(head, field::OUTPUT_SLOT),
            u32_at(head, field::UNROLL_STEPS),
            u16_at(head, field::UNROLL_FLAGS),
        ) else {
            return Err(malformed);
        };
        let (Some(extent_count), Some(activation_count), Some(param_count)) = (
            u16_at(head, field::EXTENT_COUNT),
            u16_at(head, field::ACTIVATION_COUNT),
            u16_at(head, field::PARAM_COUNT),
        ) else {
            return Err(malformed);
        };
        let (Some(state_elements), Some(work_elements)) =
            (u32_at(head, field::STATE_ELEMENTS), u32_at(head, field::WORK_ELEMENTS))
        else {
            return Err(malformed);
        };
        if flags > unroll::ALL || (steps == 0 && flags != 0) {
            return Err(malformed);
        }
        let Some((record, rest)) = records.split_at_checked(words as usize * 4) else { return Err(malformed) };
        let Some((_, lists)) = record.split_at_checked(field::LEN) else { return Err(malformed) };
        let Some((extents, lists)) = lists.split_at_checked(extent_count as usize * 4) else { return Err(malformed) };
        let Some((activations, lists)) = lists.split_at_checked(activation_count as usize * activation::LEN) else {
            return Err(malformed);
        };
        let Some((params, lists)) = lists.split_at_checked(param_count as usize * 4) else { return Err(malformed) };
        let Some((slots, tensors)) = lists.split_at_checked(slot_count as usize * slot::LEN) else {
            return Err(malformed);
        };
        if tensors.len() != tensor_count as usize * 4 {
            return Err(malformed);
        }
        let (extents, _) = extents.as_chunks::<4>();
        let node = Self {
            kind,
            options,
            input_size: input as usize,
            hidden_size: hidden as usize,
            output_size: output as usize,
            unroll: Unroll::decode(steps, flags),
            cell,
            output_slot: output_slot as usize,
            state_elements: state_elements as usize,
            work_elements: work_elements as usize,
            extents,
            activations,
            params,
            slots,
            tensors,
            numeric: shared.numeric,
            layout: shared.layout,
            weights: shared.weights,
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

    /// Whether a slot that begins there begins where kernels can read it.
    const fn is_aligned(&self, start: usize) -> bool {
        start.is_multiple_of(self.numeric.unit(self.layout))
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

    /// Tensor `index` of the image.
    const fn tensor_spec(&self, index: usize) -> Option<&'static TensorSpec> {
        match self.tensor_specs().split_at_checked(index) {
            Some((_, [spec, ..])) => Some(spec),
            _ => None,
        }
    }

    /// Bytes of tensor `index` of the spec: its rows rounded up to four, its columns as the layout has them.
    pub const fn tensor_bytes(&self, index: usize) -> Option<usize> {
        match self.tensor_spec(index) {
            Some(spec) => self.spec_bytes(spec),
            None => None,
        }
    }

    const fn spec_bytes(&self, spec: &TensorSpec) -> Option<usize> {
        let blocks = if spec.gates.is_empty() { 1 } else { spec.gates.len() };
        let Some(units) = self.sizes().dim(&spec.rows) else { return None };
        let Some(rows) = units.checked_mul(blocks) else { return None };
        let Some(rows) = rows.checked_next_multiple_of(4) else { return None };
        match spec.storage {
            Storage::Weights(_) => {
                let Some(block) = self.block_bytes(spec) else { return None };
                (rows / 4).checked_mul(block)
            }
            Storage::F32 | Storage::Terms(_) | Storage::Gains(_) => rows.checked_mul(4),
            Storage::Rows { .. } => (rows / 4).checked_mul(size_of::<RowBlock>()),
            Storage::Factors { .. } => rows.checked_mul(2),
            Storage::Curve => Some(2 * TABLE_LEN.next_multiple_of(2)),
            Storage::Multipliers | Storage::Addends => rows.checked_mul(4),
        }
    }

    /// Bytes of a block of four rows of a matrix.
    const fn block_bytes(&self, spec: &TensorSpec) -> Option<usize> {
        let Some(cols) = &spec.cols else { return Some(0) };
        match self.sizes().dim(cols) {
            Some(cols) => self.layout.block_bytes(self.numeric, cols),
            None => None,
        }
    }

    /// The elements of its state, by its spec; `None` if they are too many to count.
    pub(crate) const fn needed_state_elements(&self) -> Option<usize> {
        let mut total = 0_usize;
        let mut states = self.spec().states;
        while let [state, rest @ ..] = states {
            let Some(len) = self.sizes().dim(&state.len) else { return None };
            let Some(len) = self.numeric.padded(self.layout, len) else { return None };
            let Some(sum) = total.checked_add(len) else { return None };
            total = sum;
            states = rest;
        }
        Some(total)
    }

    /// Elements of the state that it keeps from step to step.
    pub const fn state_elements(&self) -> usize {
        self.state_elements
    }

    /// Elements of scratch that it needs for itself during a step.
    pub(crate) const fn work_elements(&self) -> usize {
        self.work_elements
    }

    /// The same by its spec: its own, and its input if that lies in several slots; `None` if they are too many to count.
    pub(crate) const fn needed_work_elements(&self) -> Option<usize> {
        let work = match self.integer_spec() {
            None => self.spec().work,
            Some(integer) => integer.work,
        };
        let (mut rest, mut total) = (work, self.gathered_elements());
        while let [dim, others @ ..] = rest {
            let Some(len) = self.sizes().dim(dim) else { return None };
            let Some(len) = self.numeric.padded(self.layout, len) else { return None };
            let Some(sum) = total.checked_add(len) else { return None };
            total = sum;
            rest = others;
        }
        Some(total)
    }

    /// Elements of what it reads at one step, filled up as slots are.
    pub const fn padded_input(&self) -> usize {
        match self.numeric.padded(self.layout, self.input_size) {
            Some(elements) => elements,
            None => 0,
        }
    }

    /// Elements of the slot that it writes, filled up.
    pub const fn padded_output(&self) -> usize {
        let output = self.output();
        match self.numeric.padded(self.layout, output.end - output.start) {
            Some(elements) => elements,
            None => 0,
        }
    }

    /// A dimension, filled up as states and scratch are.
    pub(crate) const fn padded(&self, dim: &Dim) -> usize {
        match self.numeric.padded(self.layout, self.dim(dim)) {
            Some(elements) => elements,
            None => 0,
        }
    }

    /// Elements of the input that are gathered: from several slots, or from rows that do not begin where kernels can read them.
    pub const fn gathered_elements(&self) -> usize {
        let apart = self.steps() > 1 && !self.is_aligned(self.input_size);
        if self.slots.len() > slot::LEN || apart {
            match self.numeric.padded(self.layout, self.input_size) {
                Some(elements) => elements,
                None => 0,
            }
        } else {
            0
        }
    }

    /// Multiply-accumulates of one step with its weights.
    pub const fn macs(&self) -> usize {
        let macs = self.row_macs().saturating_mul(self.steps() as u64);
        if macs > usize::MAX as u64 { usize::MAX } else { macs as usize }
    }

    /// What a step does at most, in units that take a desktop computer about a nanosecond: multiply-accumulates,
    /// elements that are moved, and [`ROW_WORK`] for each row.
    pub(crate) const fn work(&self) -> u64 {
        // A pool has no weights, and looks at the image once for each tap.
        let taps = if matches!(self.kind, CellKind::Pool) { self.dim(&TAPS) } else { 1 };
        let moved = (taps as u64).saturating_mul(self.output_size as u64).saturating_add(self.input_size as u64);
        let row = self.row_macs().saturating_add(moved).saturating_add(self.state_elements() as u64);
        row.saturating_add(ROW_WORK).saturating_mul(self.steps() as u64)
    }

    /// Multiply-accumulates of one row.
    const fn row_macs(&self) -> u64 {
        let (mut rest, mut total) = (self.tensor_specs(), 0_u64);
        while let [tensor, others @ ..] = rest {
            if let Some(cols) = &tensor.cols
                && tensor.presence.required(self.options)
            {
                let gates = if tensor.gates.is_empty() { 1 } else { tensor.gates.len() as u64 };
                let rows = gates.saturating_mul(self.dim(&tensor.rows) as u64);
                let macs = rows.saturating_mul(self.dim(cols) as u64).saturating_mul(self.dim(&tensor.passes) as u64);
                total = total.saturating_add(macs);
            }
            rest = others;
        }
        total
    }

    /// All that is known about its cell.
    pub const fn spec(&self) -> &'static CellSpec {
        self.kind.spec()
    }

    /// What is other in the integer numerics; none in a float numeric.
    const fn integer_spec(&self) -> Option<&'static IntegerSpec> {
        self.kind.integer_spec_of(self.options, self.numeric)
    }

    /// The tensors of the image. A step, which knows its cell, asks [`Cell::tensors`].
    const fn tensor_specs(&self) -> &'static [TensorSpec] {
        match self.integer_spec() {
            None => self.spec().tensors,
            Some(integer) => integer.tensors,
        }
    }

    /// Its sizes, as dimensions need them.
    pub const fn sizes(&self) -> Sizes<'a> {
        let (input, hidden, output) = (self.input_size, self.hidden_size, self.output_size);
        Sizes { input, hidden, output, options: self.options, extents: self.extents }
    }

    /// Rows of its slots: 1 unless it is unrolled.
    pub const fn steps(&self) -> usize {
        match self.unroll {
            Some(unroll) => unroll.steps as usize,
            None => 1,
        }
    }

    /// First element and elements of a row of slot `index` that it reads.
    pub const fn slot(&self, index: usize) -> Option<(usize, usize)> {
        let at = index * slot::LEN;
        let (Some(start), Some(elements)) =
            (u32_at(self.slots, at..at + 4), u32_at(self.slots, at + slot::ELEMENTS.start..at + slot::LEN))
        else {
            return None;
        };
        Some((start as usize, elements as usize))
    }

    /// Where it writes in the arena.
    pub const fn output(&self) -> Range<usize> {
        self.output_slot..self.output_slot + self.output_size * self.steps()
    }

    /// The bytes of tensor `index` of the spec, as the layout has them; none where the node does not have it.
    pub fn tensor(&self, index: usize) -> &'a [u8] {
        let offset = u32_at(self.tensors, 4 * index..4 * index + 4).unwrap_or(field::ABSENT);
        if offset == field::ABSENT {
            return &[];
        }
        let bytes = self.cell.tensors.get(index).and_then(|spec| self.spec_bytes(spec)).unwrap_or(0);
        slice(self.weights, offset as usize, bytes).unwrap_or_default()
    }

    /// Matrix `index` of the spec.
    pub(crate) fn matrix<W: Weight>(&self, index: usize) -> Matrix<'a, W> {
        let cols = self.cell.tensors.get(index).and_then(|spec| spec.cols.as_ref()).map_or(0, |cols| self.dim(cols));
        Matrix::new(self.tensor(index), cols)
    }

    /// The columns of the blocks of matrix `index` of a float node, and what is behind the matrix.
    pub(crate) fn columns<W: Weight>(&self, index: usize) -> &'a [[W; 4]] {
        self.whole(index)
    }

    /// The blocks of matrix `index` of an integer node, four rows of `cols` columns each, and what is behind the matrix.
    pub(crate) fn weights<K: Kernel>(&self, index: usize, cols: usize) -> Blocks<'a, K::Unit> {
        Blocks { units: self.whole(index), block_len: K::block_len(cols) }
    }

    /// As many of something as a tensor and what is behind it hold.
    fn whole<T: bytemuck::Pod>(&self, index: usize) -> &'a [T] {
        let bytes = self.tensor_start(index);
        let whole = bytes.len() - bytes.len() % size_of::<T>();
        bytes.get(..whole).and_then(|bytes| bytemuck::try_cast_slice(bytes).ok()).unwrap_or_default()
    }

    /// The weights of a row of matrix `index` of an integer node.
    pub(crate) fn weights_of_row(&self, index: usize, row: usize) -> impl Iterator<Item = i32> + use<'a> {
        let (layout, numeric) = (self.layout, self.numeric);
        let cols = self.cell.tensors.get(index).and_then(|spec| spec.cols.as_ref()).map_or(0, |cols| self.dim(cols));
        let bytes = layout.block_bytes(numeric, cols).unwrap_or(0);
        let block = self.tensor(index).get((row / 4).saturating_mul(bytes)..).unwrap_or_default();
        (0..cols).map_while(move |col| layout.weight(numeric, block.get(..bytes)?, row % 4, col))
    }

    /// What the sums of `rows` rows of an integer node start from and are multiplied with: tensor `index` of the spec.
    pub fn rows(&self, index: usize, rows: usize) -> &'a [RowBlock] {
        // What is behind the tensor may end within a word.
        let words = self.tensor_start(index).as_chunks::<4>().0.as_flattened();
        let words: &[[i32; 1]] = bytemuck::try_cast_slice(words).unwrap_or_default();
        words.as_flattened().as_chunks().0.get(..rows.div_ceil(4)).unwrap_or_default()
    }

    /// A tensor and what is behind it: to say where it ends would take its dimensions.
    fn tensor_start(&self, index: usize) -> &'a [u8] {
        let offset = u32_at(self.tensors, 4 * index..4 * index + 4).unwrap_or(field::ABSENT);
        self.weights.get(offset as usize..).unwrap_or_default()
    }

    /// The factors or the table at `index` of an integer node's spec.
    pub(crate) fn integers(&self, index: usize) -> &'a [i16] {
        bytemuck::try_cast_slice(self.tensor(index)).unwrap_or_default()
    }

    /// The multipliers, the terms or the gains at `index` of an integer node's spec, with the zeros that fill the last block of four up.
    pub(crate) fn words(&self, index: usize) -> &'a [i32] {
        bytemuck::try_cast_slice(self.tensor(index)).unwrap_or_default()
    }

    /// Activation `index` of an integer node. `table` is the index of its table in the spec, `shift` that of the number
    /// that says how wide its steps are.
    pub fn curve(&self, index: usize, table: usize, shift: usize) -> Curve<'a> {
        if self.has(CURVE + index as u32) {
            let shift = self.number(shift).unsigned_abs();
            let values = self.whole(table).get(..TABLE_LEN).unwrap_or_default();
            return Curve::Table { values, shift };
        }
        Curve::of(self.activation(index)).unwrap_or(Curve::Identity)
    }

    /// Number `index` of an integer node.
    pub const fn number(&self, index: usize) -> i32 {
        match u32_at(self.params, 4 * index..4 * index + 4) {
            Some(number) => number.cast_signed(),
            None => 0,
        }
    }

    /// Vector `index` of the spec, in blocks of four rows; the last is filled up with zeros.
    pub(crate) fn vector(&self, index: usize) -> &'a [[f32; 4]] {
        bytemuck::try_cast_slice(self.tensor(index)).unwrap_or_default()
    }

    /// Vector `index` of the spec, element by element, with the zeros that fill its last block up.
    pub fn elements(&self, index: usize) -> &'a [f32] {
        self.vector(index).as_flattened()
    }

    /// What one of its dimensions is worth.
    pub const fn dim(&self, dim: &Dim) -> usize {
        match self.sizes().dim(dim) {
            Some(value) => value,
            None => 0,
        }
    }

    /// Extent `index` of the spec.
    pub const fn extent(&self, index: usize) -> usize {
        self.sizes().extent(index)
    }

    /// Number `index` of the spec.
    pub const fn param(&self, index: usize) -> f32 {
        match f32_at(self.params, 4 * index..4 * index + 4) {
            Some(param) => param,
            None => 0.0,
        }
    }

    /// Activation `index` of the spec.
    pub const fn activation(&self, index: usize) -> Activation {
        match self.activation_at(index) {
            Some(activation) => activation,
            None => Activation::Identity,
        }
    }

    /// Whether its activations are these, which have no parameters.
    pub(crate) fn activations_are<const N: usize>(&self, usual: [Activation; N]) -> bool {
        let (entries, _) = self.activations.as_chunks::<{ activation::LEN }>();
        let codes = entries.iter().map(|entry| u32_at(entry, activation::CODE));
        codes.eq(usual.iter().map(|activation| Some(u32::from(activation.code()))))
    }

    const fn activation_at(&self, index: usize) -> Option<Activation> {
        let Some(entry) = slice(self.activations, index * activation::LEN, activation::LEN) else { return None };
        let (Some(code), Some(alpha), Some(beta)) =
            (u32_at(entry, activation::CODE), f32_at(entry, activation::ALPHA), f32_at(entry, activation::BETA))
        else {
            return None;
        };
        if code > u8::MAX as u32 { None } else { Activation::from_parts(code as u8, [alpha, beta]) }
    }

    /// Whether option `option` of the spec is set.
    pub const fn has(&self, option: u32) -> bool {
        self.options >> option & 1 == 1
    }
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
