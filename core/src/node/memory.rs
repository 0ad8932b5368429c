//! The costs of a node: elements of state and of scratch, padded as kernels read them, and the work of a step.

use super::Node;
use crate::image::field::slot;
use crate::spec::{Dim, Specs, is_wide};
use crate::work::Work;

/// Work of a row apart from its elements: finding the tensors of its node.
const ROW_WORK: u64 = 64;

impl Node<'_> {
    /// Elements of the state according to the spec; `None` if they overflow `usize`.
    pub(crate) const fn needed_state_elements(&self) -> Option<usize> {
        let mut total = 0_usize;
        let mut states = self.cell.states;
        while let [state, rest @ ..] = states {
            let Some(len) = self.sizes().dim(&state.len) else { return None };
            let Some(len) = self.numeric.padded(self.layout, len) else { return None };
            let Some(sum) = total.checked_add(len) else { return None };
            total = sum;
            states = rest;
        }
        total.checked_mul(self.cells())
    }

    /// Elements of the state that is carried from step to step.
    pub const fn state_elements(&self) -> usize {
        self.state_elements
    }

    /// Elements of scratch that the node needs during a step.
    pub(crate) const fn work_elements(&self) -> usize {
        self.work_elements
    }

    /// Elements of scratch according to the spec: the cell's own, and the input if it is gathered. `None` if they
    /// overflow `usize`.
    pub(crate) const fn needed_work_elements(&self, specs: Specs) -> Option<usize> {
        let (mut rest, mut total) = (specs.work(), self.gathered_elements());
        while let [dim, others @ ..] = rest {
            let Some(len) = self.sizes().dim(dim) else { return None };
            let Some(len) = self.numeric.padded(self.layout, len) else { return None };
            let Some(sum) = total.checked_add(len) else { return None };
            total = sum;
            rest = others;
        }
        Some(total)
    }

    /// Rounds `elements` up as slots are padded. The unit is a power of two, and the count is far below `usize::MAX`.
    const fn filled(&self, elements: usize) -> usize {
        elements.wrapping_add(self.unit - 1) & !(self.unit - 1)
    }

    /// Elements of the input of one step, padded.
    pub const fn padded_input(&self) -> usize {
        self.filled(self.input_size)
    }

    /// Elements of the output slot, padded.
    pub const fn padded_output(&self) -> usize {
        self.filled(self.output_size * self.steps())
    }

    /// A dimension, padded as states and scratch are.
    pub(crate) const fn padded(&self, dim: &Dim) -> usize {
        self.filled(self.dim(dim))
    }

    /// Elements of a gathered input: one that consists of several slots, or whose rows are not aligned for kernels.
    pub const fn gathered_elements(&self) -> usize {
        let apart = self.steps() > 1 && !self.is_aligned(self.input_size);
        if self.slots.len() > slot::LEN || apart { self.padded_input() } else { 0 }
    }

    /// Upper bound of the time of a step, in units of about a nanosecond on a desktop computer: multiply-accumulates,
    /// moved elements, and [`ROW_WORK`] for each row.
    pub(crate) const fn work(&self, specs: Specs) -> u64 {
        let row = self.row_macs(specs).saturating_add(self.row_moves(specs));
        row.saturating_add(ROW_WORK).saturating_mul(self.steps() as u64)
    }

    /// Whether the weights have two planes, which hold 16 bits.
    pub const fn is_wide(&self) -> bool {
        is_wide(self.options)
    }

    /// Upper bound of the work of a step. In firmware, call it in a `const`, or the firmware contains the descriptions of
    /// all cells.
    pub const fn step_work(&self) -> Work {
        self.work_of_row(self.specs()).times(self.steps() as u64)
    }

    /// Upper bound of the work of one row.
    pub(crate) const fn work_of_row(&self, specs: Specs) -> Work {
        let curves = match self.sizes().sum(specs.cell.curves) {
            Some(curves) => curves as u64,
            None => u64::MAX,
        };
        Work { macs: self.row_macs(specs), curves, moves: self.row_moves(specs), bytes: self.row_bytes(specs) }
    }

    /// Elements that one row reads or moves apart from products with weights.
    const fn row_moves(&self, specs: Specs) -> u64 {
        let reads = (self.dim(specs.cell.reads) as u64).saturating_mul(self.output_size as u64);
        reads.saturating_add(self.input_size as u64).saturating_add(self.state_elements() as u64)
    }

    /// Bytes of tensors that one row reads.
    const fn row_bytes(&self, specs: Specs) -> u64 {
        let (mut rest, mut index, mut total) = (specs.tensors(), 0, 0_u64);
        while let [tensor, others @ ..] = rest {
            let (bytes, passes) = (self.bytes_of(specs, index).len() as u64, self.dim(tensor.passes) as u64);
            // A tensor that no product reads is read one row at a time.
            let bytes = match self.block_bytes(tensor) {
                Some(block) if passes == 0 && bytes > 0 => block as u64,
                _ => bytes.saturating_mul(passes),
            };
            total = total.saturating_add(bytes);
            rest = others;
            index += 1;
        }
        total
    }

    /// Multiply-accumulates of one row.
    pub(crate) const fn row_macs(&self, specs: Specs) -> u64 {
        let (mut rest, mut total) = (specs.tensors(), 0_u64);
        while let [tensor, others @ ..] = rest {
            // A vector counts if it is multiplied as a row.
            let cols = match (&tensor.cols, tensor.passes) {
                (None, Dim::Const(_)) => None,
                (None, _) => Some(&Dim::Const(1)),
                (cols, _) => cols.as_ref(),
            };
            if let Some(cols) = cols
                && tensor.presence.required(self.options)
            {
                let gates = if tensor.gates.is_empty() { 1 } else { tensor.gates.len() as u64 };
                let rows = gates.saturating_mul(self.dim(&tensor.rows) as u64);
                let macs = rows.saturating_mul(self.dim(cols) as u64).saturating_mul(self.dim(tensor.passes) as u64);
                total = total.saturating_add(macs);
            }
            rest = others;
        }
        total
    }
}
