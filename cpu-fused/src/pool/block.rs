//! A block of streams, stepped together: layer by layer, like the windows of several sequences. Each state of a
//! schedule that has its turn is a run of its own.

use core::ops::Range;

use bytemuck::Pod;
use tidegate::Step;
use tidegate::internals::backend::{self, Crosses, Pass};

use super::LINE;
use crate::arenas::Arenas;
use crate::layer::{Io, Layer, Line, SEQUENCES, Span};
use crate::lines::Lines;
use crate::model::{FusedModel, Scratch};
use crate::plan::{Element, Nodes, Packed, Plan};
use crate::sequence::ELEMENTS;
use crate::step::{self, unseen};

/// Runs that are stepped together.
const BLOCK: usize = SEQUENCES;

/// The turn of a stream in a call: its slot, and its rows of the inputs and outputs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    pub slot: usize,
    pub from: usize,
    pub to: usize,
}

/// Inputs and outputs of a call, and the outcome of each row of the outputs.
pub(super) struct Ports<'s, 'i, 'o, P> {
    pub inputs: &'s [&'i [P]],
    pub outputs: &'s mut [&'o mut [P]],
    pub steps: &'s mut [Step],
}

/// The states of consecutive slots. The values that follow a clock start at a cache line.
pub(super) struct Slab<'s> {
    words: &'s mut [u32],
    /// The first slot.
    first: usize,
    /// Words from one state to the next.
    stride: usize,
    /// Words of a state.
    len: usize,
}

impl<'s> Slab<'s> {
    /// Words of `slots` states.
    pub fn words(model: &FusedModel<'_>, slots: usize) -> usize {
        LINE - 1 + slots * model.model.state_words().next_multiple_of(LINE)
    }

    /// All states of a pool.
    pub fn new(model: &FusedModel<'_>, words: &'s mut Lines<u32>) -> Self {
        let len = model.model.state_words();
        let words = words.get_mut().get_mut(LINE - 1..).unwrap_or_default();
        Self { words, first: 0, stride: len.next_multiple_of(LINE), len }
    }

    fn place(&self, slot: usize) -> Range<usize> {
        let start = (slot - self.first) * self.stride;
        start..start + self.len
    }

    fn row(&mut self, slot: usize) -> &mut [u32] {
        let place = self.place(slot);
        &mut self.words[place]
    }

    pub fn into_row(self, slot: usize) -> &'s mut [u32] {
        let place = self.place(slot);
        &mut self.words[place]
    }

    /// Splits these states into those before `slot` and those from `slot` on.
    #[cfg(feature = "threads")]
    pub fn split(self, slot: usize) -> [Self; 2] {
        let (before, behind) = self.words.split_at_mut((slot - self.first) * self.stride);
        [Self { words: before, ..self }, Self { words: behind, first: slot, ..self }]
    }
}

/// A state that has its turn.
#[derive(Clone, Copy, Debug)]
struct Run {
    turn: Turn,
    /// Index in the schedule.
    state: usize,
    /// Whether the state is zeroed before the step.
    first: bool,
    /// Whether the step yields the output.
    last: bool,
    /// `None` once a window has ended the step.
    pass: Option<Pass>,
}

/// Working memory of one thread.
#[derive(Debug)]
pub(super) struct Lane {
    pub scratch: Scratch,
    /// Copies of states that are not adjacent.
    copies: Lines<u32>,
    runs: Vec<Run>,
    /// Runs that are stepped together: fewer than [`BLOCK`] if the arenas of that many would be too large.
    most: usize,
    /// Up to this number, runs are faster one after the other.
    few: usize,
}

impl Lane {
    pub fn new(model: &FusedModel<'_>) -> Self {
        let elements = model.model.slot_elements().max(1);
        let most = (ELEMENTS / elements).clamp(1, BLOCK);
        let ([work, gathered, rows], per_word) = model.plan.most(most);
        let mut scratch = model.scratch();
        scratch.work.at_least(work.div_ceil(per_word));
        scratch.arenas.at_least((most * elements + gathered).div_ceil(per_word));
        scratch.rows.reserve(rows);
        let copy = model.model.state_elements().div_ceil(per_word).next_multiple_of(LINE);
        Self { scratch, copies: Lines::zeroed(most * copy), runs: Vec::with_capacity(most), most, few: model.few() }
    }

    /// Steps the streams of `turns`, which are in the order of their slots.
    pub fn run<E: Element, P: Crosses<E> + Pod>(
        &mut self,
        model: &FusedModel<'_>,
        nodes: &Nodes<'_, E>,
        mut slab: Slab<'_>,
        turns: &[Turn],
        mut ports: Ports<'_, '_, '_, P>,
    ) {
        let schedule = model.model.schedule();
        // Blocks of about equal size.
        let blocks = turns.len().div_ceil(self.most).max(1);
        let most = if model.is_endless() { turns.len().div_ceil(blocks) } else { self.most };
        for &turn in turns {
            let clock = slab.row(turn.slot)[0];
            for state in 0..schedule.states() {
                let backend::Turn::Step { first, last } = schedule.turn(state, clock) else { continue };
                self.runs.push(Run { turn, state: state as usize, first, last, pass: Some(Pass::STEP) });
                if self.runs.len() == most {
                    self.block(model, nodes, &mut slab, &mut ports);
                }
            }
            slab.row(turn.slot)[0] = schedule.tick(clock);
        }
        if !self.runs.is_empty() {
            self.block(model, nodes, &mut slab, &mut ports);
        }
    }

    /// Steps the collected runs one after the other, in place.
    fn each<E: Element, P: Crosses<E> + Pod>(
        &mut self,
        model: &FusedModel<'_>,
        nodes: &Nodes<'_, E>,
        slab: &mut Slab<'_>,
        ports: &mut Ports<'_, '_, '_, P>,
    ) {
        let (len, elements, scratch) = (model.model.state_elements(), model.model.slot_elements(), &mut self.scratch);
        for Run { turn, state, first, last, .. } in self.runs.drain(..) {
            let state = &mut values::<E>(slab.row(turn.slot))[state * len..][..len];
            if first {
                state.fill(E::default());
            }
            scratch.odd = !scratch.odd;
            if let Some((layer, [x, y])) = single::<E, P>(model, nodes) {
                let x: &[E] = bytemuck::cast_slice(&ports.inputs[0][turn.from * x..][..x]);
                let y: &mut [E] = bytemuck::cast_slice_mut(&mut ports.outputs[0][turn.to * y..][..y]);
                let work = bytemuck::cast_slice_mut(scratch.work.get_mut());
                layer.step(Io { x, state, work, y, odd: scratch.odd });
                ports.steps[turn.to] = Step::new(true);
                continue;
            }
            model.enter(ports.inputs, turn.from, &mut slots::<E>(scratch)[..elements]);
            let of = if last { nodes.all.len() } else { nodes.stateful };
            if step::run(&nodes.all[..of], elements, Pass::STEP, state, scratch, &mut unseen) && last {
                model.leave(&slots::<E>(scratch)[..elements], ports.outputs, turn.to);
                ports.steps[turn.to] = Step::new(true);
            }
        }
    }

    /// Steps the collected runs.
    fn block<E: Element, P: Crosses<E> + Pod>(
        &mut self,
        model: &FusedModel<'_>,
        nodes: &Nodes<'_, E>,
        slab: &mut Slab<'_>,
        ports: &mut Ports<'_, '_, '_, P>,
    ) {
        if self.runs.len() <= self.few {
            return self.each(model, nodes, slab, ports);
        }
        let per_word = size_of::<u32>() / size_of::<E>();
        let (first, last) = (self.runs[0].turn.slot, self.runs[self.runs.len() - 1].turn.slot);
        // Each stream has one state, and no state of another stream lies between them.
        let beside = model.is_endless() && last - first + 1 == self.runs.len();
        let len = model.model.state_elements();
        if beside {
            let start = slab.place(first).start;
            let states = States { values: &mut slab.words[start..], stride: slab.stride * per_word, first: per_word };
            stepped(&mut self.scratch, &mut self.runs, model, nodes, states, ports);
        } else {
            let stride = len.next_multiple_of(LINE * per_word);
            let copies: &mut [E] = bytemuck::cast_slice_mut(self.copies.get_mut());
            for (run, copy) in self.runs.iter().zip(copies.chunks_exact_mut(stride.max(1))) {
                copy[..len].copy_from_slice(&values::<E>(slab.row(run.turn.slot))[run.state * len..][..len]);
            }
            let states = States { values: self.copies.get_mut(), stride, first: 0 };
            stepped(&mut self.scratch, &mut self.runs, model, nodes, states, ports);
            let copies: &[E] = bytemuck::cast_slice(self.copies.get());
            for (run, copy) in self.runs.iter().zip(copies.chunks_exact(stride.max(1))) {
                values::<E>(slab.row(run.turn.slot))[run.state * len..][..len].copy_from_slice(&copy[..len]);
            }
        }
        self.runs.clear();
    }
}

/// The values of a state, which follow its clock.
fn values<E: Element>(row: &mut [u32]) -> &mut [E] {
    bytemuck::cast_slice_mut(&mut row[1..])
}

/// The arena of a single step.
fn slots<E: Element>(scratch: &mut Scratch) -> &mut [E] {
    bytemuck::cast_slice_mut(scratch.words.get_mut())
}

/// The states of a block.
struct States<'s> {
    values: &'s mut [u32],
    /// Elements from one state to the next.
    stride: usize,
    /// Offset of the first value.
    first: usize,
}

/// Steps the runs of a block, and writes their outputs.
fn stepped<E: Element, P: Crosses<E> + Pod>(
    scratch: &mut Scratch,
    runs: &mut [Run],
    model: &FusedModel<'_>,
    nodes: &Nodes<'_, E>,
    states: States<'_>,
    ports: &mut Ports<'_, '_, '_, P>,
) {
    let values: &mut [E] = bytemuck::cast_slice_mut(states.values);
    for (index, _) in runs.iter().enumerate().filter(|(_, run)| run.first) {
        values[index * states.stride + states.first..][..model.model.state_elements()].fill(E::default());
    }
    if direct(scratch, runs, model, nodes, values, (states.stride, states.first), ports) {
        return;
    }
    let (elements, batch) = (model.model.slot_elements(), runs.len());
    let memory: &mut [E] = bytemuck::cast_slice_mut(scratch.arenas.get_mut());
    for (index, run) in runs.iter().enumerate() {
        model.enter(ports.inputs, run.turn.from, &mut memory[index * elements..][..elements]);
    }
    let mut field = Arenas {
        memory,
        spare: batch * elements,
        stride: elements,
        time: 1,
        states: values,
        state_stride: states.stride,
        first: states.first,
        work: bytemuck::cast_slice_mut(scratch.work.get_mut()),
        rows: &mut scratch.rows,
    };
    let core_work = &mut bytemuck::cast_slice_mut::<_, E>(scratch.words.get_mut())[elements..];
    for (index, node) in nodes.all.iter().enumerate() {
        if index == nodes.stateful {
            // Only runs that end have an output.
            runs.iter_mut().filter(|run| !run.last).for_each(|run| run.pass = None);
        }
        visit(node, &mut field, runs, core_work);
    }
    for (index, run) in runs.iter().enumerate() {
        if run.last && run.pass.is_some_and(Pass::steps) {
            model.leave(&field.memory[index * elements..][..elements], ports.outputs, run.turn.to);
            ports.steps[run.turn.to] = Step::new(true);
        }
    }
}

/// Runs a node for every run that has not ended.
fn visit<E: Element>(node: &Packed<'_, E>, field: &mut Arenas<'_, E>, runs: &mut [Run], core_work: &mut [E]) {
    let Some(layer) = &node.layer else {
        for (index, run) in runs.iter_mut().enumerate() {
            let Some(pass) = &mut run.pass else { continue };
            let (arena, state) = (field.arena(index, 0), field.state(node, index));
            let slots = &mut field.memory[arena..arena + field.stride];
            let own = &mut field.states[state..state + node.state.len()];
            if !node.step_alone(pass, own, slots, core_work) {
                run.pass = None;
            }
        }
        return;
    };
    let (mut lens, unrolled) = ([0; BLOCK], node.node.unroll.is_some());
    let lens = &mut lens[..runs.len()];
    for (len, run) in lens.iter_mut().zip(runs) {
        let rows = run.pass.filter(|pass| pass.steps()).map_or(0, |pass| pass.rows().min(node.node.steps()));
        *len = if unrolled { rows } else { rows.min(1) };
    }
    if lens.iter().all(|&len| len == 0) {
        return;
    }
    if unrolled {
        field.windows(node, &**layer, 0, lens);
    } else {
        field.steps(node, &**layer, lens, (&[], 0));
    }
}

/// Steps the runs of a model that is a single float layer, which reads and writes the caller's rows. Returns false for any
/// other model, or if the rows are not adjacent.
fn direct<E: Element, P: Crosses<E> + Pod>(
    scratch: &mut Scratch,
    runs: &[Run],
    model: &FusedModel<'_>,
    nodes: &Nodes<'_, E>,
    states: &mut [E],
    (state_stride, first): (usize, usize),
    ports: &mut Ports<'_, '_, '_, P>,
) -> bool {
    let (Some((layer, [x, y])), [input], [output], [node]) =
        (single::<E, P>(model, nodes), ports.inputs, &mut *ports.outputs, &nodes.all[..])
    else {
        return false;
    };
    let Turn { from, to, .. } = runs[0].turn;
    if runs.iter().enumerate().any(|(index, run)| run.turn.from != from + index || run.turn.to != to + index) {
        return false;
    }
    let line = |first: usize, len| Line { start: first * len, sequence: len, row: len, len, mirrored: false };
    layer.run(&mut Span {
        source: Some(bytemuck::cast_slice(input)),
        memory: bytemuck::cast_slice_mut(output),
        input: line(from, x),
        output: line(to, y),
        time: 1,
        lens: &[1; BLOCK][..runs.len()],
        resets: &[],
        resets_time: 0,
        states,
        state_stride,
        state: node.state.start + first..node.state.end + first,
        work: bytemuck::cast_slice_mut(scratch.work.get_mut()),
        rows: &mut scratch.rows,
    });
    ports.steps[to..to + runs.len()].fill(Step::new(true));
    true
}

/// The layer of a model that is a single float layer, and the lengths of its input and output.
fn single<'n, E: Element, P: Pod>(
    model: &FusedModel<'_>,
    nodes: &'n Nodes<'_, E>,
) -> Option<(&'n dyn Layer<E>, [usize; 2])> {
    let is_float = size_of::<E>() == size_of::<f32>() && size_of::<P>() == size_of::<f32>();
    let layer = nodes.all.first()?.layer.as_deref()?;
    Some((layer, model.single.filter(|_| is_float && model.is_plain)?))
}

impl FusedModel<'_> {
    /// Number of runs up to which they are faster one after the other.
    fn few(&self) -> usize {
        match &*self.plan {
            Plan::Float(nodes) => nodes.few(),
            Plan::Integer(nodes) => nodes.few(),
        }
    }
}
