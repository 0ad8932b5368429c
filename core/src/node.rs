//! A node: a cell with its sizes, options, slots and tensors, decoded from its record.

mod check;
mod contents;
mod form;
mod memory;
mod run;
mod sums;
mod tensors;
#[cfg(test)]
mod tests;

pub(crate) use form::{Cell, Cells, Entry, Io, Number, is_masked};
pub use run::Pass;
pub(crate) use run::run;

use core::ops::Range;

use crate::activation::Activation;
use crate::curve::{Curve, ODD_OCTAVES, OVER_OCTAVES, TABLE_LEN};
use crate::image::field::{activation, node as field, slot, unroll};
use crate::image::read::{f32_at, slice, u16_at, u32_at};
use crate::image::{ImageError, Layout, Numeric, SectionKind};
use crate::spec::{CURVE, CellKind, Dim, Sizes};

/// One cell of a model.
#[derive(Clone, Copy, Debug)]
pub struct Node<'a> {
    /// The kind of the cell.
    pub kind: CellKind,
    /// Bit `k`: option `k` of the spec.
    pub options: u32,
    /// Number of input features.
    pub input_size: usize,
    /// Number of units.
    pub hidden_size: usize,
    /// Number of output features.
    pub output_size: usize,
    /// The time steps over which the node is unrolled; `None` if it makes a single step.
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
    /// [`Numeric::unit`]
    unit: usize,
    weights: &'a [u8],
}

/// A node that runs over the rows of a window in one step of the model, one time step per row. Its input and output
/// slots have one row per time step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unroll {
    /// Number of rows, at least 1.
    pub steps: u32,
    /// Whether the last valid row is read first.
    pub read_backwards: bool,
    /// Whether the first result is written to the last valid row. With `read_backwards`, each result is then written to
    /// the row of its input.
    pub write_backwards: bool,
    /// Whether the state is carried from one window to the next. Otherwise each window starts from zero.
    pub stateful: bool,
    /// Whether each row has a state of its own, carried from one step of the model to the next, like the sequences of a
    /// batch. Such a node is stateful and not backwards.
    pub apart: bool,
}

impl Unroll {
    pub(crate) const fn flags(self) -> u16 {
        (if self.read_backwards { unroll::READ_BACKWARDS } else { 0 })
            | (if self.write_backwards { unroll::WRITE_BACKWARDS } else { 0 })
            | (if self.stateful { unroll::STATEFUL } else { 0 })
            | (if self.apart { unroll::APART } else { 0 })
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
            apart: flags & unroll::APART != 0,
        })
    }
}

/// The position of a node record, for errors.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub node: u32,
    /// Offset from the start of the section's payload.
    pub offset: usize,
}

/// The values that the nodes of a model share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shared<'a> {
    pub weights: &'a [u8],
    pub numeric: Numeric,
    pub layout: Layout,
    /// [`Numeric::unit`]
    pub unit: usize,
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
    /// records after it.
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
        // The parts that may be malformed come first, so that few values are kept on the stack until then.
        let (Some(words), Some(steps), Some(flags)) =
            (u16_at(head, field::RECORD_WORDS), u32_at(head, field::UNROLL_STEPS), u16_at(head, field::UNROLL_FLAGS))
        else {
            return Err(malformed);
        };
        let is_apart = flags & unroll::APART != 0;
        if flags > unroll::ALL || (steps == 0 && flags != 0) || (is_apart && flags != unroll::APART | unroll::STATEFUL)
        {
            return Err(malformed);
        }
        let (Some(extent_count), Some(activation_count), Some(param_count), Some(slot_count), Some(tensor_count)) = (
            u16_at(head, field::EXTENT_COUNT),
            u16_at(head, field::ACTIVATION_COUNT),
            u16_at(head, field::PARAM_COUNT),
            u16_at(head, field::SLOT_COUNT),
            u16_at(head, field::TENSOR_COUNT),
        ) else {
            return Err(malformed);
        };
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
        let (Some(options), Some(input), Some(hidden), Some(output), Some(output_slot)) = (
            u32_at(head, field::OPTIONS),
            u32_at(head, field::INPUT_SIZE),
            u32_at(head, field::HIDDEN_SIZE),
            u32_at(head, field::OUTPUT_SIZE),
            u32_at(head, field::OUTPUT_SLOT),
        ) else {
            return Err(malformed);
        };
        let (Some(state_elements), Some(work_elements)) =
            (u32_at(head, field::STATE_ELEMENTS), u32_at(head, field::WORK_ELEMENTS))
        else {
            return Err(malformed);
        };
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
            unit: shared.unit,
            weights: shared.weights,
        };
        Ok((node, rest))
    }

    /// Whether a slot that begins at `start` is aligned for kernels.
    const fn is_aligned(&self, start: usize) -> bool {
        start & (self.unit - 1) == 0
    }

    /// The numeric of the model.
    pub const fn numeric(&self) -> Numeric {
        self.numeric
    }

    /// The sizes of the node, for evaluating dimensions.
    pub const fn sizes(&self) -> Sizes<'a> {
        let (input, hidden, output) = (self.input_size, self.hidden_size, self.output_size);
        Sizes { input, hidden, output, options: self.options, extents: self.extents }
    }

    /// Number of rows of the slots: 1 unless the node is unrolled.
    pub const fn steps(&self) -> usize {
        match self.unroll {
            Some(unroll) => unroll.steps as usize,
            None => 1,
        }
    }

    /// Number of states of the cell: one for each row if they are [`apart`](Unroll::apart).
    pub const fn cells(&self) -> usize {
        match self.unroll {
            Some(unroll) if unroll.apart => unroll.steps as usize,
            _ => 1,
        }
    }

    /// An input slot of [`slots`](Self::slots).
    pub(crate) const fn read_slot([a, b, c, d, e, f, g, h]: [u8; slot::LEN]) -> (usize, usize) {
        (u32::from_le_bytes([a, b, c, d]) as usize, u32::from_le_bytes([e, f, g, h]) as usize)
    }

    /// The first element of input slot `index`, and the number of elements of a row.
    pub const fn slot(&self, index: usize) -> Option<(usize, usize)> {
        let at = index * slot::LEN;
        let (Some(start), Some(elements)) =
            (u32_at(self.slots, at..at + 4), u32_at(self.slots, at + slot::ELEMENTS.start..at + slot::LEN))
        else {
            return None;
        };
        Some((start as usize, elements as usize))
    }

    /// The first element of each input slot, and the number of elements of a row, little-endian.
    pub(crate) const fn slots(&self) -> &'a [[u8; slot::LEN]] {
        self.slots.as_chunks().0
    }

    /// The range of the output slot in the arena.
    pub const fn output(&self) -> Range<usize> {
        self.output_slot..self.output_slot + self.output_size * self.steps()
    }

    /// Activation `index` of an integer node. `table` is the index of its table in the spec, `shift` the index of the
    /// number that holds the width of the table's steps.
    pub fn curve(&self, index: usize, table: usize, shift: usize) -> Curve<'a> {
        if self.has(CURVE + index as u32) {
            let shift = self.number(shift).unsigned_abs();
            let values = self.whole(table).get(..TABLE_LEN).unwrap_or_default();
            let is_odd = shift == OVER_OCTAVES && matches!(self.activation(index), Activation::Softsign);
            return Curve::Table { values, shift: if is_odd { ODD_OCTAVES } else { shift } };
        }
        Curve::of(self.activation(index)).unwrap_or(Curve::Identity)
    }

    /// Number `index` of an integer node; 0 if there is none.
    pub const fn number(&self, index: usize) -> i32 {
        match u32_at(self.params, 4 * index..4 * index + 4) {
            Some(number) => number.cast_signed(),
            None => 0,
        }
    }

    /// The value of a dimension; 0 if it has none, because it overflows or divides by zero.
    pub const fn dim(&self, dim: &Dim) -> usize {
        match self.sizes().dim(dim) {
            Some(value) => value,
            None => 0,
        }
    }

    /// Extent `index` of the spec; 0 if there is none.
    pub const fn extent(&self, index: usize) -> usize {
        self.sizes().extent(index)
    }

    /// Parameter `index` of the spec; 0.0 if there is none.
    pub const fn param(&self, index: usize) -> f32 {
        match f32_at(self.params, 4 * index..4 * index + 4) {
            Some(param) => param,
            None => 0.0,
        }
    }

    /// Activation `index` of the spec; the identity if there is none.
    pub const fn activation(&self, index: usize) -> Activation {
        match self.activation_at(index) {
            Some(activation) => activation,
            None => Activation::Identity,
        }
    }

    /// Whether the node's activations are `usual`, in this order. None of these may have parameters.
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

    /// The address of the code of a step. Programs that measure code print it.
    pub fn code_address(&self) -> usize {
        self.cell.address()
    }

    /// Whether option `option` of the spec is set.
    pub const fn has(&self, option: u32) -> bool {
        self.options >> option & 1 == 1
    }
}
