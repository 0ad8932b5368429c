//! What a step does once its buffers have been checked: the states that take turns, the values that go in and out.

use crate::cell::{Element, copy, fill_up};
use crate::image::Numeric;
use crate::model::Model;
use crate::quant::MAX;
use crate::run::{Pass, run};
use crate::schedule::{Schedule, Turn};
use crate::state::State;

/// What a node gave, as it lies in the arena.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Values<'s> {
    /// In a float numeric.
    F32(&'s [f32]),
    /// In an integer numeric: times the node's scale.
    I16(&'s [i16]),
}

/// Who observes: `observe(node, values)`.
pub(crate) type Observe<'s> = &'s mut dyn FnMut(usize, Values<'_>);

/// Who does not.
pub(crate) fn unseen(_: usize, _: Values<'_>) {}

/// The buffers of a step: scratch, the inputs and which row of them it reads, the outputs and which row it writes.
pub(crate) struct Buffers<'s, 'i, 'o, P> {
    pub scratch: &'s mut [u32],
    pub inputs: &'s [&'i [P]],
    pub from: usize,
    pub outputs: &'s mut [&'o mut [P]],
    pub to: usize,
    /// Whether the output is asked for: else it is not computed where only nodes without a state lie before it.
    pub wanted: bool,
}

/// [`advance`] with f32 at the ports.
pub(crate) type Engine = fn(&Model<'_>, &mut State<'_>, Buffers<'_, '_, '_, f32>, Pass, Observe<'_>) -> bool;

/// What runs the models of one kind of numeric with f32 at their ports. A model names the one that it needs, so that a
/// firmware whose model is a constant does not contain the other.
pub(crate) const fn engine(numeric: Numeric) -> Engine {
    if numeric.is_integer() { advance::<i16, f32> } else { advance::<f32, f32> }
}

/// What comes through a port of a model whose arena holds `E`.
pub trait Crosses<E>: Copy {
    /// An input's row, behind which others may lie, into its slot; `scale` is the port's.
    fn enter(row: &[Self], slot: &mut [E], scale: f32);
    /// A slot into an output's row, behind which others may lie.
    fn leave(slot: &[E], row: &mut [Self], scale: f32);
}

impl<E: Copy> Crosses<E> for E {
    fn enter(row: &[E], slot: &mut [E], _: f32) {
        copy(slot, row);
    }

    fn leave(slot: &[E], row: &mut [E], _: f32) {
        copy(row, slot);
    }
}

impl Crosses<i16> for f32 {
    /// To the nearest, halves away from zero, what is too large to the largest; not-a-number to 0.
    fn enter(row: &[f32], slot: &mut [i16], scale: f32) {
        let max = MAX as f32;
        for (slot, &value) in slot.iter_mut().zip(row) {
            let value = (value / scale).clamp(-max, max);
            // Exact, where a half more would round up what is just below one.
            let whole = value as i16;
            let rest = value - f32::from(whole);
            *slot = whole.wrapping_add((rest >= 0.5).into()).wrapping_sub((rest <= -0.5).into());
        }
    }

    #[inline]
    fn leave(slot: &[i16], row: &mut [f32], scale: f32) {
        for (value, &slot) in row.iter_mut().zip(slot) {
            *value = f32::from(slot) * scale;
        }
    }
}

/// One time step of every state that has its turn, or the end of a sequence, see [`Model::finish`], which reads no inputs;
/// returns whether there is an output.
pub(crate) fn advance<E: Element, P: Crosses<E>>(
    model: &Model<'_>,
    state: &mut State<'_>,
    buffers: Buffers<'_, '_, '_, P>,
    pass: Pass,
    observe: Observe<'_>,
) -> bool {
    let Buffers { scratch, inputs, from, outputs, to, wanted } = buffers;
    let scratch: &mut [E] = bytemuck::cast_slice_mut(scratch);
    let (slots, work) = scratch.split_at_mut_checked(model.slot_elements()).unwrap_or_default();
    let Some((clock, values)) = state.words.split_first_mut() else { return false };
    if !pass.steps() {
        if model.schedule() != Schedule::Endless {
            return false;
        }
        // A node behind the window may read what lies before it: there it finds zeros, the padding of its sequence.
        slots.fill(E::zeroed());
    }
    let (mut output, mut index) = (false, 0);
    let mut rest: &mut [E] = bytemuck::cast_slice_mut(values);
    // The end is asked for behind the first turn: of an endless constant model the compiler then knows that there is one.
    while let Some((own, others)) = rest.split_at_mut_checked(model.state_elements()) {
        rest = others;
        if let Turn::Step { first, last } = model.schedule().turn(index, *clock) {
            let last = last && wanted;
            if first {
                own.fill(E::zeroed());
            }
            for (((start, size), scale), input) in model.inputs().slots().zip(inputs) {
                let row = input.get(from * size..).unwrap_or_default();
                let slot = slots.get_mut(start..).and_then(|slots| slots.get_mut(..model.padded(size)));
                let Some((slot, filling)) = slot.and_then(|slot| slot.split_at_mut_checked(size)) else { break };
                P::enter(row, slot, scale);
                fill_up(filling);
            }
            let nodes = if last { model.nodes() } else { model.stateful_nodes() };
            if run(nodes, pass, own, slots, work, observe) && last {
                give(model, slots, outputs, to);
                output = true;
            }
        }
        index += 1;
        if index >= model.schedule().states() {
            break;
        }
    }
    *clock = model.schedule().tick(*clock);
    output
}

/// Copies the outputs out of the arena, each to a row.
fn give<E: Element, P: Crosses<E>>(model: &Model<'_>, slots: &[E], outputs: &mut [&mut [P]], to: usize) {
    for (((start, size), scale), output) in model.outputs().slots().zip(outputs.iter_mut()) {
        let row = output.get_mut(to * size..).unwrap_or_default();
        let slot = slots.get(start..).and_then(|slots| slots.get(..size)).unwrap_or_default();
        P::leave(slot, row, scale);
    }
}
