//! A node: a cell with its sizes, options, slots and tensors, decoded from its record.

mod check;
mod memory;
mod sums;
mod tensors;

use core::ops::Range;

use crate::activation::Activation;
use crate::cell::{CURVE, Cell, CellKind, CellSpec, Cells, Dim, IntegerSpec, Sizes, TensorSpec};
use crate::curve::{Curve, TABLE_LEN};
use crate::image::field::{activation, node as field, slot, unroll};
use crate::image::read::{f32_at, slice, u16_at, u32_at};
use crate::image::{ImageError, Layout, Numeric, SectionKind};

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
    /// [`Numeric::unit`]
    unit: usize,
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
        // First what may be malformed, so that few values wait for that on the stack.
        let (Some(words), Some(steps), Some(flags)) =
            (u16_at(head, field::RECORD_WORDS), u32_at(head, field::UNROLL_STEPS), u16_at(head, field::UNROLL_FLAGS))
        else {
            return Err(malformed);
        };
        if flags > unroll::ALL || (steps == 0 && flags != 0) {
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

    /// Whether a slot that begins there begins where kernels can read it.
    const fn is_aligned(&self, start: usize) -> bool {
        start & (self.unit - 1) == 0
    }

    /// All that is known about its cell.
    pub const fn spec(&self) -> &'static CellSpec {
        self.kind.spec()
    }

    /// What is other in the integer numerics; none in a float numeric.
    pub const fn integer_spec(&self) -> Option<&'static IntegerSpec> {
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
