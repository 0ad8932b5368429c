//! One time step: inference on one page.
//!
//! 1. check: the state belongs to the model, and every buffer has the required length ([`check`]);
//! 2. enter: each input is copied into its slot of the arena (`enter`, [`Crosses::enter`]);
//! 3. nodes: each reads its slots, updates its state and writes its slot (`run`, [`node::run`](crate::node::run));
//! 4. leave: each output is copied from its slot (`leave`, [`Crosses::leave`]).

mod check;
mod value;

pub use crate::element::Values;
use crate::element::{Observe, fill_up, unseen};
pub use crate::error::{PortCount, ShapeError, StepError};
use crate::image::Numeric;
use crate::model::{Engine, Model, Nodes};
use crate::node::{self, Number, Pass};
use crate::port::{Buffers, Crosses};
use crate::schedule::{Schedule, Turn};
use crate::state::State;
pub use value::PortValue;

/// The outcome of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[must_use]
pub struct Step {
    output: bool,
}

impl Step {
    /// Creates the outcome of a step that another backend ran.
    #[doc(hidden)]
    pub const fn new(output: bool) -> Self {
        Self { output }
    }

    /// Whether the step wrote its outputs. Otherwise they are unchanged: a window is not full yet.
    pub const fn has_output(self) -> bool {
        self.output
    }
}

impl Model<'_> {
    /// Runs one time step of a model with one input and one output, both f32.
    ///
    /// `input` is `[input_size]`, `output` `[output_size]`. `scratch` may be shared by all states of a model.
    ///
    /// # Errors
    /// If a buffer has the wrong length, or the state is not this model's.
    pub fn step_f32(
        &self,
        state: &mut State<'_>,
        scratch: &mut [u32],
        input: &[f32],
        output: &mut [f32],
    ) -> Result<Step, StepError> {
        self.step_ports(state, scratch, &[input], &mut [output])
    }

    /// Runs one time step, with a slice for each input and each output.
    ///
    /// # Errors
    /// As [`step_f32`](Self::step_f32).
    pub fn step_ports(
        &self,
        state: &mut State<'_>,
        scratch: &mut [u32],
        inputs: &[&[f32]],
        outputs: &mut [&mut [f32]],
    ) -> Result<Step, StepError> {
        self.step_observed(state, scratch, inputs, outputs, unseen)
    }

    /// [`step_ports`](Self::step_ports) that calls `observe(node, values)` with the output of every node as it is
    /// computed. If several states take turns, `observe` is called for each state that steps, in order; an
    /// [`endless`](Self::endless) model has one state.
    ///
    /// # Errors
    /// As [`step_f32`](Self::step_f32).
    pub fn step_observed(
        &self,
        state: &mut State<'_>,
        scratch: &mut [u32],
        inputs: &[&[f32]],
        outputs: &mut [&mut [f32]],
        mut observe: impl FnMut(usize, Values<'_>),
    ) -> Result<Step, StepError> {
        self.pass(Pass::STEP, state, scratch, inputs, outputs, &mut observe)
    }

    /// Runs one time step of a model in an integer numeric with one input and one output, as
    /// [`step_f32`](Self::step_f32) but without floating point. [`Port::scale`](crate::port::Port::scale) is the unit
    /// of the integers. The least valid input is -32767: with -32768 a sum may wrap or a product change its sign, and
    /// the output is unspecified.
    ///
    /// # Errors
    /// As [`step_f32`](Self::step_f32); also if the numeric is a float one.
    pub fn step_i16(
        &self,
        state: &mut State<'_>,
        scratch: &mut [u32],
        input: &[i16],
        output: &mut [i16],
    ) -> Result<Step, StepError> {
        self.step_ports_i16(state, scratch, &[input], &mut [output])
    }

    /// [`step_i16`](Self::step_i16) with a slice for each input and each output.
    ///
    /// # Errors
    /// As [`step_i16`](Self::step_i16).
    pub fn step_ports_i16(
        &self,
        state: &mut State<'_>,
        scratch: &mut [u32],
        inputs: &[&[i16]],
        outputs: &mut [&mut [i16]],
    ) -> Result<Step, StepError> {
        self.pass(Pass::STEP, state, scratch, inputs, outputs, &mut unseen)
    }

    /// Ends a sequence of a model with window nodes. If steps have arrived since the last full window, they are output as
    /// a final window, whose missing rows are zero. Other models have no output at the end. Models with a
    /// [windowed schedule](crate::Schedule::Windows) have none either: their windows are complete or dropped.
    ///
    /// # Errors
    /// As [`step_ports`](Self::step_ports).
    pub fn finish(
        &self,
        state: &mut State<'_>,
        scratch: &mut [u32],
        outputs: &mut [&mut [f32]],
    ) -> Result<Step, StepError> {
        self.pass(Pass::FINISH, state, scratch, &[], outputs, &mut unseen)
    }

    /// [`finish`](Self::finish) of a model in an integer numeric, without a float.
    ///
    /// # Errors
    /// As [`step_ports_i16`](Self::step_ports_i16).
    pub fn finish_i16(
        &self,
        state: &mut State<'_>,
        scratch: &mut [u32],
        outputs: &mut [&mut [i16]],
    ) -> Result<Step, StepError> {
        self.pass(Pass::FINISH, state, scratch, &[], outputs, &mut unseen)
    }

    /// A step, or the end of a sequence, which has no inputs.
    #[inline(always)]
    fn pass<P: PortValue>(
        &self,
        pass: Pass,
        state: &mut State<'_>,
        scratch: &mut [u32],
        inputs: &[&[P]],
        outputs: &mut [&mut [P]],
        observe: Observe<'_>,
    ) -> Result<Step, StepError> {
        self.check_owner(state.owner, state.words.len())?;
        P::check(self)?;
        let scratch = if pass.steps() {
            self.check_buffers(scratch, (inputs, 1), (outputs, 1))?
        } else {
            self.check_outputs(scratch, (outputs, 1))?
        };
        let buffers = Buffers { scratch, inputs, from: 0, outputs, to: 0, wanted: true };
        match P::advance(self, state.words, buffers, pass, observe) {
            Some(output) => Ok(Step { output }),
            None => Err(StepError::ImageChanged),
        }
    }
}

/// The function that steps models of one numeric through f32 ports. A model refers to the engine that it needs, so that a
/// firmware whose model is a constant does not contain the other.
pub(crate) const fn engine(numeric: Numeric) -> Engine {
    if numeric.is_integer() { advance_f32::<i16> } else { advance_f32::<f32> }
}

/// [`advance`] with f32 at the ports. All callers share this copy.
fn advance_f32<E: Number>(
    model: &Model<'_>,
    words: &mut [u32],
    buffers: Buffers<'_, '_, '_, f32>,
    pass: Pass,
    observe: Observe<'_>,
) -> Option<bool>
where
    f32: Crosses<E>,
{
    advance::<E, f32>(model, words, buffers, pass, observe)
}

/// Runs one time step of every state whose turn it is, or the end of a sequence, which reads no inputs (see
/// [`Model::finish`]). The buffers have been checked; `words` are those of the state. Returns whether there is an
/// output; `None` if the step is impossible, because the image has changed since it was parsed.
#[inline(always)]
pub(crate) fn advance<E: Number, P: Crosses<E>>(
    model: &Model<'_>,
    words: &mut [u32],
    buffers: Buffers<'_, '_, '_, P>,
    pass: Pass,
    observe: Observe<'_>,
) -> Option<bool> {
    let Buffers { scratch, inputs, from, outputs, to, wanted } = buffers;
    let scratch: &mut [E] = bytemuck::cast_slice_mut(scratch);
    let (slots, work) = scratch.split_at_mut_checked(model.slot_elements()).unwrap_or_default();
    let (clock, values) = words.split_first_mut()?;
    if !pass.steps() {
        if model.schedule() != Schedule::Endless {
            return Some(false);
        }
        // A node after the window may read slots before it. They must hold zeros, the padding of its sequence.
        slots.fill(E::zeroed());
    }
    let (mut output, mut index) = (false, 0);
    let mut rest: &mut [E] = bytemuck::cast_slice_mut(values);
    // The end is tested after the first turn, so that the compiler knows when a constant model has one state.
    while let Some((own, others)) = rest.split_at_mut_checked(model.state_elements()) {
        rest = others;
        if let Turn::Step { first, last } = model.schedule().turn(index, *clock) {
            let last = last && wanted;
            if first {
                own.fill(E::zeroed());
            }
            enter(model, inputs, from, slots)?;
            let nodes = if last { model.nodes() } else { model.stateful_nodes() };
            if run(nodes, pass, own, slots, work, observe)? && last {
                leave(model, slots, outputs, to)?;
                output = true;
            }
        }
        index += 1;
        if index >= model.schedule().states() {
            break;
        }
    }
    *clock = model.schedule().tick(*clock);
    Some(output)
}

/// Number of nodes that [`advance_rows`] keeps.
const KEPT: usize = 4;

/// Runs `rows` steps of an endless model with few nodes, none of which buffers its steps. The nodes are decoded once for all
/// rows. Every step has an output. Otherwise as [`advance`]. Returns `false` if this is not such a model; no step has run
/// then.
#[inline(never)]
pub(crate) fn advance_rows<E: Number>(
    model: &Model<'_>,
    words: &mut [u32],
    buffers: Buffers<'_, '_, '_, E>,
    rows: usize,
) -> Option<bool> {
    let mut nodes = model.nodes();
    let kept: [_; KEPT] = core::array::from_fn(|_| nodes.next());
    let is_kept = nodes.is_empty() && kept.iter().flatten().count() == model.node_count();
    let buffers_steps = kept.iter().flatten().any(|node| node.cell.is_buffered());
    if model.schedule() != Schedule::Endless || !is_kept || buffers_steps {
        return Some(false);
    }
    let Buffers { scratch, inputs, from, outputs, to, .. } = buffers;
    let scratch: &mut [E] = bytemuck::cast_slice_mut(scratch);
    let (slots, work) = scratch.split_at_mut_checked(model.slot_elements()).unwrap_or_default();
    // The first word is the clock, which an endless schedule does not use.
    let (_, values) = words.split_first_mut()?;
    let state: &mut [E] = bytemuck::cast_slice_mut(values);
    for row in 0..rows {
        enter(model, inputs, from + row, slots)?;
        let (mut rest, mut pass) = (&mut *state, Pass::STEP);
        for node in &kept {
            let Some(node) = node else { break };
            let (own, others) = rest.split_at_mut_checked(node.state_elements())?;
            rest = others;
            node::run(node, &mut pass, own, slots, work)??;
        }
        leave(model, slots, outputs, to + row)?;
    }
    Some(true)
}

/// Copies a row of each input into its slot, and pads the slot with zeros. `None` if there is no such slot.
#[inline(always)]
fn enter<E: Number, P: Crosses<E>>(model: &Model<'_>, inputs: &[&[P]], from: usize, slots: &mut [E]) -> Option<()> {
    for (((start, size), scale), input) in model.inputs().slots().zip(inputs) {
        let row = input.get(from * size..).unwrap_or_default();
        let slot = slots.get_mut(start..).and_then(|slots| slots.get_mut(..model.padded(size)));
        let (slot, padding) = slot.and_then(|slot| slot.split_at_mut_checked(size))?;
        P::enter(row, slot, scale);
        fill_up(padding);
    }
    Some(())
}

/// Runs nodes until one has no output; returns whether the last one was reached. `None` if a node does not fit the model.
/// Inlined into its only caller, so that the records of a constant model are constants. A WebAssembly module, which is
/// downloaded, has no constant model, and the engines share a copy.
#[cfg_attr(not(target_family = "wasm"), inline(always))]
#[cfg_attr(target_family = "wasm", inline(never))]
fn run<E: Number>(
    mut nodes: Nodes<'_, '_>,
    mut pass: Pass,
    state: &mut [E],
    slots: &mut [E],
    work: &mut [E],
    observe: Observe<'_>,
) -> Option<bool> {
    let (mut rest, mut index) = (state, 0);
    while !nodes.is_empty() {
        let node = nodes.next()?;
        let (own, others) = rest.split_at_mut_checked(node.state_elements())?;
        rest = others;
        let Some(y) = node::run(&node, &mut pass, own, slots, work)? else { return Some(false) };
        if pass.steps() {
            observe(index, E::values(y));
        }
        index += 1;
    }
    Some(pass.steps())
}

/// Copies each output out of its slot into a row. `None` if there is no such slot.
fn leave<E: Number, P: Crosses<E>>(model: &Model<'_>, slots: &[E], outputs: &mut [&mut [P]], to: usize) -> Option<()> {
    for (((start, size), scale), output) in model.outputs().slots().zip(outputs.iter_mut()) {
        let row = output.get_mut(to * size..).unwrap_or_default();
        let slot = slots.get(start..).and_then(|slots| slots.get(..size))?;
        P::leave(slot, row, scale);
    }
    Some(())
}
