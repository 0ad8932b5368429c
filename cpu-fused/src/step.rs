//! One time step: inputs enter the arena, the nodes run in order, outputs leave it.

use bytemuck::Pod;
use tidegate::internals::backend::{Crosses, Pass, Turn};
use tidegate::{Schedule, State, Step, StepError, Values};

use crate::arenas::Arenas;
use crate::isa::Isa;
use crate::layer::{Io, apart};
use crate::model::{FusedModel, Scratch};
use crate::plan::{Element, Nodes, Packed, Plan};
use crate::simd::Task;

/// Observer of node outputs: `observe(node, values)`.
pub(crate) type Observe<'s> = &'s mut dyn FnMut(usize, Values<'_>);

/// An observer that ignores all values.
pub(crate) fn unseen(_: usize, _: Values<'_>) {}

/// Inputs with the row that a step reads, and outputs with the row that it writes.
pub(crate) struct Rows<'s, 'i, 'o, P> {
    pub inputs: &'s [&'i [P]],
    pub from: usize,
    pub outputs: &'s mut [&'o mut [P]],
    pub to: usize,
    /// Whether the output is needed.
    pub wanted: bool,
}

impl FusedModel<'_> {
    /// Runs one time step of a model with one input and one output, like
    /// [`Model::step_f32`](tidegate::Model::step_f32).
    ///
    /// # Errors
    /// If a buffer has the wrong length, or the state belongs to another model.
    pub fn step(
        &self,
        state: &mut State<'_>,
        scratch: &mut Scratch,
        input: &[f32],
        output: &mut [f32],
    ) -> Result<Step, StepError> {
        let words = state.words_mut(&self.model)?;
        self.step_of_one(words, scratch, input, output)
    }

    /// Runs a step of a model with one input and one output. A model that is a single layer runs directly; a float
    /// layer reads and writes the caller's slices.
    #[inline]
    pub(crate) fn step_of_one(
        &self,
        words: &mut [u32],
        scratch: &mut Scratch,
        input: &[f32],
        output: &mut [f32],
    ) -> Result<Step, StepError> {
        self.check_scratch(scratch)?;
        if let (Some(layer), [_, values @ ..]) = (self.single(input, output), &mut *words) {
            scratch.odd = !scratch.odd;
            let (state, work) =
                (bytemuck::must_cast_slice_mut(values), bytemuck::must_cast_slice_mut(scratch.work.get_mut()));
            layer.step(Io { x: input, state, work, y: output, odd: scratch.odd });
            return Ok(Step::new(true));
        }
        if let (Some(node), [_, values @ ..]) = (self.single_integer(input, output), &mut *words) {
            self.model.check_floats()?;
            scratch.odd = !scratch.odd;
            let slots = bytemuck::must_cast_slice_mut(scratch.words.get_mut());
            let (state, work) =
                (bytemuck::must_cast_slice_mut(values), bytemuck::must_cast_slice_mut(scratch.work.get_mut()));
            self.enter(&[input], 0, slots);
            step(node, state, slots, work, scratch.odd);
            self.leave(slots, &mut [output], 0);
            return Ok(Step::new(true));
        }
        self.step_words(words, scratch, &[input], &mut [output], &mut unseen)
    }

    /// Runs one time step with a slice for each input and each output.
    ///
    /// # Errors
    /// As [`step`](Self::step).
    pub fn step_ports(
        &self,
        state: &mut State<'_>,
        scratch: &mut Scratch,
        inputs: &[&[f32]],
        outputs: &mut [&mut [f32]],
    ) -> Result<Step, StepError> {
        self.step_observed(state, scratch, inputs, outputs, unseen)
    }

    /// [`step_ports`](Self::step_ports) with an observer of the output of every node: `observe(node, values)`.
    ///
    /// # Errors
    /// As [`step`](Self::step).
    pub fn step_observed(
        &self,
        state: &mut State<'_>,
        scratch: &mut Scratch,
        inputs: &[&[f32]],
        outputs: &mut [&mut [f32]],
        mut observe: impl FnMut(usize, Values<'_>),
    ) -> Result<Step, StepError> {
        let words = state.words_mut(&self.model)?;
        self.step_words(words, scratch, inputs, outputs, &mut observe)
    }

    /// Runs one time step of an integer model without floats, like
    /// [`Model::step_ports_i16`](tidegate::Model::step_ports_i16).
    ///
    /// # Errors
    /// As [`step`](Self::step); also if the model is a float model.
    pub fn step_ports_i16(
        &self,
        state: &mut State<'_>,
        scratch: &mut Scratch,
        inputs: &[&[i16]],
        outputs: &mut [&mut [i16]],
    ) -> Result<Step, StepError> {
        let words = state.words_mut(&self.model)?;
        self.step_words_i16(words, scratch, inputs, outputs)
    }

    /// Ends a sequence of a model with windows, like [`Model::finish`](tidegate::Model::finish).
    ///
    /// # Errors
    /// As [`step`](Self::step).
    pub fn finish(
        &self,
        state: &mut State<'_>,
        scratch: &mut Scratch,
        outputs: &mut [&mut [f32]],
    ) -> Result<Step, StepError> {
        let words = state.words_mut(&self.model)?;
        self.finish_words(words, scratch, outputs)
    }

    pub(crate) fn step_words(
        &self,
        words: &mut [u32],
        scratch: &mut Scratch,
        inputs: &[&[f32]],
        outputs: &mut [&mut [f32]],
        observe: Observe<'_>,
    ) -> Result<Step, StepError> {
        self.model.check_floats()?;
        self.check_scratch(scratch)?;
        self.model.check_buffers(scratch.words.get_mut(), (inputs, 1), (outputs, 1))?;
        Ok(Step::new(self.advance(words, scratch, Rows { inputs, from: 0, outputs, to: 0, wanted: true }, observe)))
    }

    pub(crate) fn step_words_i16(
        &self,
        words: &mut [u32],
        scratch: &mut Scratch,
        inputs: &[&[i16]],
        outputs: &mut [&mut [i16]],
    ) -> Result<Step, StepError> {
        let Plan::Integer(nodes) = &*self.plan else { return Err(StepError::FloatModel) };
        self.check_scratch(scratch)?;
        self.model.check_buffers(scratch.words.get_mut(), (inputs, 1), (outputs, 1))?;
        let rows = Rows { inputs, from: 0, outputs, to: 0, wanted: true };
        Ok(Step::new(self.turns(nodes, words, scratch, rows, &mut unseen)))
    }

    pub(crate) fn finish_words(
        &self,
        words: &mut [u32],
        scratch: &mut Scratch,
        outputs: &mut [&mut [f32]],
    ) -> Result<Step, StepError> {
        self.model.check_floats()?;
        self.check_scratch(scratch)?;
        self.model.check_outputs(scratch.words.get_mut(), (outputs, 1))?;
        Ok(Step::new(self.end(words, scratch, outputs, 0)))
    }

    /// Runs a step with f32 ports. The buffers have been checked.
    pub(crate) fn advance(
        &self,
        words: &mut [u32],
        scratch: &mut Scratch,
        rows: Rows<'_, '_, '_, f32>,
        observe: Observe<'_>,
    ) -> bool {
        match &*self.plan {
            Plan::Float(nodes) => self.turns(nodes, words, scratch, rows, observe),
            Plan::Integer(nodes) => self.turns(nodes, words, scratch, rows, observe),
        }
    }

    /// Runs one time step of every state that is due in the schedule.
    fn turns<E: Element, P: Crosses<E> + Pod>(
        &self,
        nodes: &Nodes<'_, E>,
        words: &mut [u32],
        scratch: &mut Scratch,
        rows: Rows<'_, '_, '_, P>,
        observe: Observe<'_>,
    ) -> bool {
        let Rows { inputs, from, outputs, to, wanted } = rows;
        let Some((clock, values)) = words.split_first_mut() else { return false };
        let schedule = self.model.schedule();
        let mut rest: &mut [E] = bytemuck::cast_slice_mut(values);
        let mut output = false;
        scratch.odd = !scratch.odd;
        for index in 0..schedule.states() {
            let (own, others) = rest.split_at_mut(self.model.state_elements());
            rest = others;
            let Turn::Step { first, last } = schedule.turn(index, *clock) else { continue };
            let last = last && wanted;
            if first {
                own.fill(E::default());
            }
            let memory: &mut [E] = bytemuck::cast_slice_mut(scratch.words.get_mut());
            let (slots, _) = memory.split_at_mut(self.model.slot_elements());
            self.enter(inputs, from, slots);
            let of = if last { nodes.all.len() } else { nodes.stateful };
            if run(&nodes.all[..of], self.model.slot_elements(), Pass::STEP, own, scratch, observe) && last {
                let memory: &[E] = bytemuck::cast_slice(scratch.words.get());
                self.leave(&memory[..self.model.slot_elements()], outputs, to);
                output = true;
            }
        }
        *clock = schedule.tick(*clock);
        output
    }

    /// Ends a sequence. The buffers have been checked.
    pub(crate) fn end(&self, words: &mut [u32], scratch: &mut Scratch, outputs: &mut [&mut [f32]], to: usize) -> bool {
        match &*self.plan {
            Plan::Float(nodes) => self.end_of(nodes, words, scratch, outputs, to),
            Plan::Integer(nodes) => self.end_of(nodes, words, scratch, outputs, to),
        }
    }

    fn end_of<E: Element>(
        &self,
        nodes: &Nodes<'_, E>,
        words: &mut [u32],
        scratch: &mut Scratch,
        outputs: &mut [&mut [f32]],
        to: usize,
    ) -> bool
    where
        f32: Crosses<E>,
    {
        let slot_elements = self.model.slot_elements();
        let Some((_, values)) = words.split_first_mut() else { return false };
        if self.model.schedule() != Schedule::Endless {
            return false;
        }
        // A node after the window may read slots before it. They hold zeros, the padding of the sequence.
        bytemuck::cast_slice_mut::<_, E>(scratch.words.get_mut())[..slot_elements].fill(E::default());
        let own = bytemuck::cast_slice_mut(values);
        if !run(&nodes.all, slot_elements, Pass::FINISH, own, scratch, &mut unseen) {
            return false;
        }
        self.leave(&bytemuck::cast_slice::<_, E>(scratch.words.get())[..slot_elements], outputs, to);
        true
    }

    /// Copies row `from` of every input into an arena.
    pub(crate) fn enter<E: Element, P: Crosses<E> + Pod>(&self, inputs: &[&[P]], from: usize, slots: &mut [E]) {
        for (port, input) in self.inputs.iter().zip(inputs) {
            let len = port.place.len();
            slots[port.place.end..port.end].fill(E::default());
            let (row, slot) = (&input[from * len..(from + 1) * len], &mut slots[port.place.clone()]);
            if size_of::<E>() == size_of::<P>() {
                // Both have the same type: the bytes are copied.
                bytemuck::cast_slice_mut::<E, u8>(slot).copy_from_slice(bytemuck::cast_slice(row));
            } else if self.isa == Isa::Scalar {
                // Without vector instructions, rounding is a call either way.
                P::enter(row, slot, port.scale);
            } else {
                let (row, slot) = (bytemuck::cast_slice(row), bytemuck::cast_slice_mut(slot));
                self.isa.vectorize(Enter(row, slot, port.scale));
            }
        }
    }

    /// Copies the outputs from an arena to row `to` of each slice.
    pub(crate) fn leave<E: Element, P: Crosses<E> + Pod>(&self, slots: &[E], outputs: &mut [&mut [P]], to: usize) {
        for (port, output) in self.outputs.iter().zip(outputs.iter_mut()) {
            let len = port.place.len();
            let (slot, row) = (&slots[port.place.clone()], &mut output[to * len..(to + 1) * len]);
            if size_of::<E>() == size_of::<P>() {
                bytemuck::cast_slice_mut::<P, u8>(row).copy_from_slice(bytemuck::cast_slice(slot));
            } else {
                self.isa.vectorize(Leave(slot, row, port.scale));
            }
        }
    }
}

/// Quantizes a row of f32 into its slot. The result is that of [`Crosses::enter`], computed by operations that have
/// vector instructions.
struct Enter<'s>(&'s [f32], &'s mut [i16], f32);

impl Task for Enter<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self(row, slot, scale) = self;
        let max = f32::from(i16::MAX);
        // Adding an integer to this number puts its bits into the low bits of the sum.
        const WHOLE: f32 = 12_582_912.0;
        for (slot, &value) in slot.iter_mut().zip(row) {
            let value = value / scale;
            let value = if value.is_nan() { 0.0 } else { value.clamp(-max, max) };
            let whole = value.trunc();
            // Exact; adding a half would round up a fraction just below one half.
            let up = if (value - whole).abs() >= 0.5 { 1.0_f32.copysign(value) } else { 0.0 };
            *slot = (whole + up + WHOLE).to_bits() as i16;
        }
    }
}

/// Copies a slot to its row with vector instructions.
struct Leave<'s, E, P>(&'s [E], &'s mut [P], f32);

impl<E: Element, P: Crosses<E>> Task for Leave<'_, E, P> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        P::leave(self.0, self.1, self.2);
    }
}

/// Runs nodes until one ends the step. Returns whether the last node ran.
pub(crate) fn run<E: Element>(
    nodes: &[Packed<'_, E>],
    slot_elements: usize,
    mut pass: Pass,
    state: &mut [E],
    scratch: &mut Scratch,
    observe: Observe<'_>,
) -> bool {
    let memory: &mut [E] = bytemuck::cast_slice_mut(scratch.words.get_mut());
    let work: &mut [E] = bytemuck::cast_slice_mut(scratch.work.get_mut());
    for (index, node) in nodes.iter().enumerate() {
        if let (Some(layer), Some(_)) = (&node.layer, node.node.unroll) {
            if pass.steps() {
                let (spare, elements) = (scratch.spare, state.len());
                let mut field = Arenas {
                    memory,
                    spare,
                    stride: slot_elements,
                    time: 1,
                    states: state,
                    state_stride: elements,
                    first: 0,
                    work,
                    rows: &mut scratch.rows,
                };
                field.windows(node, &**layer, 0, &mut [pass.rows().min(node.node.steps())]);
                observe(index, E::values(&memory[node.output.clone()]));
            }
            continue;
        }
        let (slots, core_work) = memory.split_at_mut(slot_elements);
        let own = &mut state[node.state.clone()];
        match &node.layer {
            Some(_) if !pass.steps() => continue,
            Some(_) => step(node, own, slots, work, scratch.odd),
            None if !node.step_alone(&mut pass, own, slots, core_work) => return false,
            None => {}
        }
        if pass.steps() {
            observe(index, E::values(&slots[node.output.clone()]));
        }
    }
    pass.steps()
}

/// Runs one step of a node that has a kernel.
#[inline(always)]
pub(crate) fn step<E: Element>(node: &Packed<'_, E>, state: &mut [E], slots: &mut [E], work: &mut [E], odd: bool) {
    let Some(layer) = &node.layer else { return };
    slots[node.output.end..node.output_end].fill(E::default());
    if let Some(input) = &node.input {
        let (x, y) = apart(slots, input, &node.output);
        return layer.step(Io { x, state, work, y, odd });
    }
    let (gathered, work) = work.split_at_mut(node.node.gathered_elements());
    let mut at = 0;
    for (start, elements) in (0..).map_while(|slot| node.node.slot(slot)) {
        gathered[at..at + elements].copy_from_slice(&slots[start..start + elements]);
        at += elements;
    }
    gathered[at..].fill(E::default());
    layer.step(Io { x: gathered, state, work, y: &mut slots[node.output.clone()], odd });
}
