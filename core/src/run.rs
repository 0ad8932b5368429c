//! Runs the nodes of a model once, in their order: each reads its slots, updates its state and writes its slot.

use crate::cell::{Element, Io, Run, copy};
use crate::engine::Observe;
use crate::model::Nodes;
use crate::node::Node;

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

/// What came of a node in a pass.
enum Ran<'s, E> {
    /// It has nothing to give: the pass ends.
    Stopped,
    /// It was passed over.
    Passed,
    /// It wrote this.
    Gave(&'s [E]),
}

/// Runs nodes until one has nothing to give; returns whether the last was reached.
pub(crate) fn run<E: Element>(
    nodes: Nodes<'_, '_>,
    pass: Pass,
    state: &mut [E],
    slots: &mut [E],
    work: &mut [E],
    observe: Observe<'_>,
) -> bool {
    let (mut rest, mut pass) = (state, pass);
    for (index, node) in nodes.enumerate() {
        let Some((own, others)) = rest.split_at_mut_checked(node.state_elements()) else { return false };
        rest = others;
        match run_one(&node, &mut pass, own, slots, work) {
            Ran::Stopped => return false,
            Ran::Passed => {}
            Ran::Gave(y) => observe(index, E::values(y)),
        }
    }
    pass.steps()
}

/// One node in a pass.
#[inline(always)]
fn run_one<'s, E: Element>(
    node: &Node<'_>,
    pass: &mut Pass,
    own: &mut [E],
    slots: &'s mut [E],
    work: &mut [E],
) -> Ran<'s, E> {
    let output = node.output();
    let Some((before, behind)) = slots.split_at_mut_checked(output.start) else { return Ran::Stopped };
    let Some((slot, after)) = behind.split_at_mut_checked(node.padded_output()) else { return Ran::Stopped };
    // What fills a slot up is read by kernels.
    let Some((y, filling)) = slot.split_at_mut_checked(output.len()) else { return Ran::Stopped };
    filling.fill(E::zeroed());
    // The scratch is as long as the neediest node's.
    let Some(work) = work.get_mut(..node.work_elements()) else { return Ran::Stopped };
    let Some((gathered, work)) = work.split_at_mut_checked(node.gathered_elements()) else { return Ran::Stopped };
    let mut inputs = Inputs { node, before, after, after_start: output.start + node.padded_output(), gathered };
    match E::run(&node.cell.form) {
        None => return Ran::Stopped,
        Some(Run::Each(_)) if pass.ended => return Ran::Passed,
        Some(Run::Each(step)) => each(node, step, &mut inputs, own, work, y, pass.rows),
        Some(Run::Buffered(step)) => match step(node, if pass.ended { None } else { Some(inputs.row(0)) }, own, y) {
            Some(valid) => (pass.rows, pass.ended) = (valid, false),
            None if pass.ended => return Ran::Passed,
            None => return Ran::Stopped,
        },
    }
    Ran::Gave(y)
}

impl Node<'_> {
    /// Runs this node of a model in a float numeric: its `state`, the arena `slots` and the scratch `work` of the whole
    /// model. Returns whether the pass goes on. What is shorter than the model says ends it.
    pub fn run_f32(&self, pass: &mut Pass, state: &mut [f32], slots: &mut [f32], work: &mut [f32]) -> bool {
        !matches!(run_one(self, pass, state, slots, work), Ran::Stopped)
    }

    /// The same of a model in an integer numeric.
    pub fn run_i16(&self, pass: &mut Pass, state: &mut [i16], slots: &mut [i16], work: &mut [i16]) -> bool {
        !matches!(run_one(self, pass, state, slots, work), Ran::Stopped)
    }
}

/// One step, or one for each valid row of an unrolled node; rows that are not valid are zero.
fn each<E: Element>(
    node: &Node<'_>,
    step: fn(&Node<'_>, Io<'_, E>),
    inputs: &mut Inputs<'_, '_, E>,
    state: &mut [E],
    work: &mut [E],
    y: &mut [E],
    rows: usize,
) {
    let Some(unroll) = node.unroll else {
        return step(node, Io { x: inputs.row(0), state, work, y, rows });
    };
    let (valid, size) = (rows.min(node.steps()), node.output_size);
    if !unroll.stateful {
        state.fill(E::zeroed());
    }
    for k in 0..valid {
        let mirrored = valid - 1 - k;
        let x = inputs.row(if unroll.read_backwards { mirrored } else { k });
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

impl<E: Element> Inputs<'_, '_, E> {
    /// Row `row` of every slot, one behind the other, and in an integer numeric the zeros that fill it up.
    fn row(&mut self, row: usize) -> &[E] {
        let mut at = 0;
        let mut index = 0;
        while let Some((start, elements)) = self.node.slot(index) {
            let start = start + row * elements;
            let (side, start) = match start.checked_sub(self.after_start) {
                Some(start) => (self.after, start),
                None => (self.before, start),
            };
            if self.gathered.is_empty() {
                return side.get(start..start + self.node.padded_input()).unwrap_or_default();
            }
            let from = side.get(start..start + elements).unwrap_or_default();
            copy(self.gathered.get_mut(at..).unwrap_or_default(), from);
            at += elements;
            index += 1;
        }
        self.gathered.get_mut(at..).unwrap_or_default().fill(E::zeroed());
        self.gathered
    }
}
