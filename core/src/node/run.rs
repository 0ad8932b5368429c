//! One node in one pass through a model: it reads its slots, updates its state and writes its slot.

use super::form::{Io, Number, Run};
use super::{Node, Unroll};
use crate::element::{Element, fill_up};
use crate::kernel::copy;

/// The progress of one pass through the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// Number of valid rows of a window.
    rows: usize,
    /// Whether the sequence has ended and no window has output its rows yet.
    ended: bool,
}

impl Pass {
    /// A time step: the inputs are present.
    pub const STEP: Self = Self { rows: usize::MAX, ended: false };
    /// The end of a sequence: the first window that holds rows outputs them, and the nodes after it run.
    pub const FINISH: Self = Self { rows: usize::MAX, ended: true };

    /// Number of valid rows of a window; `usize::MAX` if there is no window.
    pub const fn rows(self) -> usize {
        self.rows
    }

    /// Whether the next node steps. Otherwise it is skipped unless it is a window.
    pub const fn steps(self) -> bool {
        !self.ended
    }
}

/// Runs or skips one node in a pass. Returns its output slot; `Some(None)` if the node has no output, which ends the
/// pass; `None` if the node does not fit the model, because the image has changed since it was parsed.
#[inline(always)]
pub(crate) fn run<'s, E: Number>(
    node: &Node<'_>,
    pass: &mut Pass,
    own: &mut [E],
    slots: &'s mut [E],
    work: &mut [E],
) -> Option<Option<&'s [E]>> {
    let (start, padded) = (node.output().start, node.padded_output());
    let (before, behind) = slots.split_at_mut_checked(start)?;
    let (slot, after) = behind.split_at_mut_checked(padded)?;
    // Kernels also read the padding of a slot.
    let (y, filling) = slot.split_at_mut_checked(node.output_size * node.steps())?;
    fill_up(filling);
    // The scratch is shared by all nodes and may be longer than this node needs.
    let work = work.get_mut(..node.work_elements())?;
    let (gathered, work) = work.split_at_mut_checked(node.gathered_elements())?;
    let inputs = Inputs { node, before, after, after_start: start + padded, gathered };
    match E::run(&node.cell.form)? {
        Run::Each(_) if pass.ended => {}
        Run::Each(step) => match node.unroll {
            None => step(node, Io { x: inputs.row(0), state: own, work, y, rows: pass.rows }),
            Some(unroll) => each(node, unroll, step, inputs, own, work, y, pass.rows),
        },
        Run::Buffered(step) => match step(node, if pass.ended { None } else { Some(inputs.row(0)) }, own, y) {
            Some(valid) => (pass.rows, pass.ended) = (valid, false),
            None if pass.ended => {}
            None => return Some(None),
        },
    }
    Some(Some(y))
}

impl Node<'_> {
    /// Runs this node of a model in a float numeric, with its `state`, and the arena `slots` and the scratch `work` of
    /// the whole model. Returns whether the pass continues. A slice that is too short ends it.
    pub fn run_f32(&self, pass: &mut Pass, state: &mut [f32], slots: &mut [f32], work: &mut [f32]) -> bool {
        run(self, pass, state, slots, work).flatten().is_some()
    }

    /// Runs this node of a model in an integer numeric; otherwise as [`run_f32`](Self::run_f32).
    pub fn run_i16(&self, pass: &mut Pass, state: &mut [i16], slots: &mut [i16], work: &mut [i16]) -> bool {
        run(self, pass, state, slots, work).flatten().is_some()
    }
}

/// One step for each valid row of an unrolled node. The other rows of the output are zeroed.
#[expect(clippy::too_many_arguments)]
#[inline(never)]
fn each<E: Number>(
    node: &Node<'_>,
    unroll: Unroll,
    step: fn(&Node<'_>, Io<'_, E>),
    mut inputs: Inputs<'_, '_, E>,
    state: &mut [E],
    work: &mut [E],
    y: &mut [E],
    rows: usize,
) {
    let (valid, size) = (rows.min(node.steps()), node.output_size);
    if !unroll.stateful {
        state.fill(E::zeroed());
    }
    let own = state.len() / node.cells().max(1);
    for k in 0..valid {
        let state = if unroll.apart { state.get_mut(k * own..).unwrap_or_default() } else { &mut *state };
        let state = state.get_mut(..own).unwrap_or_default();
        let mirrored = valid - 1 - k;
        let x = inputs.reborrow().row(if unroll.read_backwards { mirrored } else { k });
        let to = size * if unroll.write_backwards { mirrored } else { k };
        let y = y.get_mut(to..to + size).unwrap_or_default();
        step(node, Io { x, state, work, y, rows });
    }
    y.get_mut(valid * size..).unwrap_or_default().fill(E::zeroed());
}

/// The inputs of a node: the slots before and after its output slot.
struct Inputs<'s, 'n, E> {
    node: &'s Node<'n>,
    before: &'s [E],
    after: &'s [E],
    /// The position of `after` in the arena.
    after_start: usize,
    /// Memory for rows that are gathered from several slots.
    gathered: &'s mut [E],
}

impl<'s, 'n, E: Element> Inputs<'s, 'n, E> {
    /// A reborrow, for one of several rows.
    fn reborrow(&mut self) -> Inputs<'_, 'n, E> {
        Inputs { gathered: self.gathered, ..*self }
    }

    /// Row `row` of every slot, concatenated, and in an integer numeric padded with zeros.
    #[inline(always)]
    fn row(self, row: usize) -> &'s [E] {
        if !self.gathered.is_empty() {
            return self.gather(row);
        }
        let Some((start, elements)) = self.node.slot(0) else { return &[] };
        let (side, start) = self.side(start + row * elements);
        side.get(start..start + self.node.padded_input()).unwrap_or_default()
    }

    /// [`row`](Self::row) if there are several slots, or rows that are not aligned for kernels.
    fn gather(self, row: usize) -> &'s [E] {
        let mut at = 0;
        for &slot in self.node.slots() {
            let (start, elements) = Node::read_slot(slot);
            let (side, start) = self.side(start + row * elements);
            let from = side.get(start..start + elements).unwrap_or_default();
            match (from, self.gathered.get_mut(at..).unwrap_or_default()) {
                // Single values, such as those of an amplifier, take no loop.
                (&[value], [to, ..]) => *to = value,
                (from, to) => copy(to, from),
            }
            at += elements;
        }
        fill_up(self.gathered.get_mut(at..).unwrap_or_default());
        self.gathered
    }
}

impl<'s, E> Inputs<'s, '_, E> {
    /// The side that contains position `start` of the arena, and the position within it.
    #[inline(always)]
    fn side(&self, start: usize) -> (&'s [E], usize) {
        match start.checked_sub(self.after_start) {
            Some(start) => (self.after, start),
            None => (self.before, start),
        }
    }
}
