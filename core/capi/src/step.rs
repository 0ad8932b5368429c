//! Time steps.

use tidegate::{Model, State, Step, StepError};

use crate::memory::{Answer, Lent, Place, Region, Word, disjoint};
use crate::object::image_of;
use crate::status::tidegate_status::{self, *};
use crate::types::{TIDEGATE_MOST_PORTS, tidegate_model, tidegate_state};

/// The arguments of a step other than its rows.
pub(crate) struct At {
    pub model: *const tidegate_model,
    pub state: *mut tidegate_state,
    pub scratch: (*mut u32, usize),
    pub has_output: *mut bool,
}

/// A step function of the crate `tidegate`.
type Run<P> = fn(&Model<'static>, &mut State<'_>, &mut [u32], &[&[P]], &mut [&mut [P]]) -> Result<Step, StepError>;

/// [`Model::finish`], which has no inputs.
pub(crate) fn finish(
    model: &Model<'static>,
    state: &mut State<'_>,
    scratch: &mut [u32],
    _: &[&[f32]],
    outputs: &mut [&mut [f32]],
) -> Result<Step, StepError> {
    model.finish(state, scratch, outputs)
}

/// A step with one input and one output.
pub(crate) fn one<P>(
    word: Word,
    at: At,
    (input, input_len): (*const P, usize),
    (output, output_len): (*mut P, usize),
    run: Run<P>,
) -> Result<(), tidegate_status> {
    let (input, output) = (Lent::new(word, input, input_len)?, Lent::new(word, output, output_len)?);
    step(word, at, ([input], 1), ([output], 1), run)
}

/// The buffers of several ports, in an array of the maximum length.
pub(crate) fn rows<R, P>(
    word: Word,
    rows: *const R,
    count: usize,
    lent: impl Fn(&R) -> (*const P, usize),
) -> Result<[Lent<P>; TIDEGATE_MOST_PORTS], tidegate_status> {
    if count > TIDEGATE_MOST_PORTS {
        return Err(TIDEGATE_PORTS);
    }
    let mut all = [const { Lent::EMPTY }; TIDEGATE_MOST_PORTS];
    for (to, row) in all.iter_mut().zip(Lent::new(word, rows, count)?.get()) {
        let (values, len) = lent(row);
        *to = Lent::new(word, values, len)?;
    }
    Ok(all)
}

/// A step with the first inputs and outputs of these arrays.
pub(crate) fn step<P, const I: usize, const O: usize>(
    word: Word,
    at: At,
    (inputs, input_count): ([Lent<P>; I], usize),
    (outputs, output_count): ([Lent<P>; O], usize),
    run: Run<P>,
) -> Result<(), tidegate_status> {
    let (model, state) = (Place::new(word, at.model)?, Place::new(word, at.state)?);
    let has_output = Answer::new(word, at.has_output)?;
    let scratch = Lent::new(word, at.scratch.0, at.scratch.1)?;
    let mut held = state.hold()?;
    let [object, memory] = held.regions();
    let own = [object, memory, scratch.region(), has_output.region()];
    let mut written = [Region::default(); 4 + TIDEGATE_MOST_PORTS];
    for (to, region) in written.iter_mut().zip(own.into_iter().chain(outputs.iter().map(Lent::region))) {
        *to = region;
    }
    let model_regions = [model.region(), image_of(model.get()?)];
    let mut read = [Region::default(); 2 + TIDEGATE_MOST_PORTS];
    for (to, region) in read.iter_mut().zip(model_regions.into_iter().chain(inputs.iter().map(Lent::region))) {
        *to = region;
    }
    let (written_len, read_len) = (own.len() + output_count, model_regions.len() + input_count);
    let apart = disjoint(written.get(..written_len).unwrap_or(&written), read.get(..read_len).unwrap_or(&read))?;
    let (x, mut y) = (inputs.map(Lent::get), outputs.map(|output| output.get_mut(apart)));
    let (x, y) = (x.get(..input_count).unwrap_or_default(), y.get_mut(..output_count).unwrap_or_default());
    let step = run(model.get()?, held.value(apart), scratch.get_mut(apart), x, y)?;
    has_output.give(apart, step.has_output());
    Ok(())
}
