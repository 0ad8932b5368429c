//! What a node costs: elements of state and of scratch, filled up as kernels read them, and the work of a step.

use super::Node;
use crate::cell::patch::TAPS;
use crate::cell::{CellKind, Dim};
use crate::image::field::slot;

/// Work of a row beside its elements: finding the tensors of its node.
const ROW_WORK: u64 = 64;

impl Node<'_> {
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

    /// So many elements, of which there are few, filled up as slots are. The unit is a power of two.
    const fn filled(&self, elements: usize) -> usize {
        elements.wrapping_add(self.unit - 1) & !(self.unit - 1)
    }

    /// Elements of what it reads at one step, filled up as slots are.
    pub const fn padded_input(&self) -> usize {
        self.filled(self.input_size)
    }

    /// Elements of the slot that it writes, filled up.
    pub const fn padded_output(&self) -> usize {
        self.filled(self.output_size * self.steps())
    }

    /// A dimension, filled up as states and scratch are.
    pub(crate) const fn padded(&self, dim: &Dim) -> usize {
        self.filled(self.dim(dim))
    }

    /// Elements of the input that are gathered: from several slots, or from rows that do not begin where kernels can read them.
    pub const fn gathered_elements(&self) -> usize {
        let apart = self.steps() > 1 && !self.is_aligned(self.input_size);
        if self.slots.len() > slot::LEN || apart { self.padded_input() } else { 0 }
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
}
