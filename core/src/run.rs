//! Runs the nodes of a model once, in their order: each reads its slots, updates its state and writes its slot.

use crate::cell::{Element, Io, Run, copy, fill_up};
use crate::engine::Observe;
use crate::model::Nodes;
use crate::node::{Node, Unroll};

/// How far the nodes have come in one pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// How many rows of a window are valid.
    rows: usize,
    /// The sequence has ended, and no window has given its rows yet.
    ended: bool,
}

impl Pass {
    /// The inputs hold a time step.
    pub const STEP: Self = Self { rows: usize::MAX, ended: false };
    /// The sequence has ended: the first window that holds rows gives them, and what is behind it runs.
    pub const FINISH: Self = Self { rows: usize::MAX, ended: true };

    /// How many rows of a window are valid; `usize::MAX` where there is none.
    pub const fn rows(self) -> usize {
        self.rows
    }

    /// Whether the next node steps; else it is passed over, unless it is a window.
    pub const fn steps(self) -> bool {
        !self.ended
    }
}

/// Runs nodes until one has nothing to give; returns whether the last was reached. There is one call, and it is part of its
/// caller: where a model is a constant, so is what its records say.
#[inline(always)]
pub(crate) fn run<E: Element>(
    mut nodes: Nodes<'_, '_>,
    mut pass: Pass,
    state: &mut [E],
    slots: &mut [E],
    work: &mut [E],
    observe: Observe<'_>,
) -> bool {
    let (mut rest, mut index) = (state, 0);
    while let Some(node) = nodes.next() {
        let Some((own, others)) = rest.split_at_mut_checked(node.state_elements()) else { return false };
        rest = others;
        let Some(y) = run_one(&node, &mut pass, own, slots, work) else { return false };
        if pass.steps() {
            observe(index, E::values(y));
        }
        index += 1;
        // Asked here too: of a constant model with one node the compiler then knows that there is one.
        if nodes.is_empty() {
            break;
        }
    }
    pass.steps()
}

/// One node in a pass. Returns what it wrote, if it was not passed over; none where it has nothing to give: the pass ends.
#[inline(always)]
fn run_one<'s, E: Element>(
    node: &Node<'_>,
    pass: &mut Pass,
    own: &mut [E],
    slots: &'s mut [E],
    work: &mut [E],
) -> Option<&'s [E]> {
    let (start, padded) = (node.output().start, node.padded_output());
    let (before, behind) = slots.split_at_mut_checked(start)?;
    let (slot, after) = behind.split_at_mut_checked(padded)?;
    // What fills a slot up is read by kernels.
    let (y, filling) = slot.split_at_mut_checked(node.output_size * node.steps())?;
    fill_up(filling);
    // The scratch is as long as the neediest node's.
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
            None => return None,
        },
    }
    Some(y)
}

impl Node<'_> {
    /// Runs this node of a model in a float numeric: its `state`, the arena `slots` and the scratch `work` of the whole
    /// model. Returns whether the pass goes on. What is shorter than the model says ends it.
    pub fn run_f32(&self, pass: &mut Pass, state: &mut [f32], slots: &mut [f32], work: &mut [f32]) -> bool {
        run_one(self, pass, state, slots, work).is_some()
    }

    /// The same of a model in an integer numeric.
    pub fn run_i16(&self, pass: &mut Pass, state: &mut [i16], slots: &mut [i16], work: &mut [i16]) -> bool {
        run_one(self, pass, state, slots, work).is_some()
    }
}

/// A step for each valid row of an unrolled node; rows that are not valid are zero.
#[expect(clippy::too_many_arguments)]
#[inline(never)]
fn each<E: Element>(
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
    for k in 0..valid {
        let mirrored = valid - 1 - k;
        let x = inputs.reborrow().row(if unroll.read_backwards { mirrored } else { k });
        let to = size * if unroll.write_backwards { mirrored } else { k };
        let y = y.get_mut(to..to + size).unwrap_or_default();
        step(node, Io { x, state, work, y, rows });
    }
    y.get_mut(valid * size..).unwrap_or_default().fill(E::zeroed());
}

/// What a node reads: slots on both sides of the one that it writes.
struct Inputs<'s, 'n, E> {
    node: &'s Node<'n>,
    before: &'s [E],
    after: &'s [E],
    /// The place of `after` in the arena.
    after_start: usize,
    /// Where rows of several slots are put together.
    gathered: &'s mut [E],
}

impl<'s, 'n, E: Element> Inputs<'s, 'n, E> {
    /// The same, for one row of several.
    fn reborrow(&mut self) -> Inputs<'_, 'n, E> {
        Inputs { gathered: self.gathered, ..*self }
    }

    /// Row `row` of every slot, one behind the other, and in an integer numeric the zeros that fill it up.
    #[inline(always)]
    fn row(self, row: usize) -> &'s [E] {
        if !self.gathered.is_empty() {
            return self.gather(row);
        }
        let Some((start, elements)) = self.node.slot(0) else { return &[] };
        let (side, start) = self.side(start + row * elements);
        side.get(start..start + self.node.padded_input()).unwrap_or_default()
    }

    /// The same of several slots, or of rows that do not begin where kernels can read them.
    fn gather(self, row: usize) -> &'s [E] {
        let (mut at, mut index) = (0, 0);
        while let Some((start, elements)) = self.node.slot(index) {
            let (side, start) = self.side(start + row * elements);
            let from = side.get(start..start + elements).unwrap_or_default();
            copy(self.gathered.get_mut(at..).unwrap_or_default(), from);
            at += elements;
            index += 1;
        }
        self.gathered.get_mut(at..).unwrap_or_default().fill(E::zeroed());
        self.gathered
    }
}

impl<'s, E> Inputs<'s, '_, E> {
    /// The slots that place `start` of the arena is among, and where.
    #[inline(always)]
    fn side(&self, start: usize) -> (&'s [E], usize) {
        match start.checked_sub(self.after_start) {
            Some(start) => (self.after, start),
            None => (self.before, start),
        }
    }
}
