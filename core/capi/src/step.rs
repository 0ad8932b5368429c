//! Steps: rows in, rows out.

use tidegate::{Model, State, Step, StepError};

use crate::done;
use crate::memory::{Answer, Lent, Place, disjoint};
use crate::status::tidegate_status::{self, *};
use crate::types::{
    TIDEGATE_MOST_PORTS, tidegate_input_f32, tidegate_input_i16, tidegate_model, tidegate_output_f32,
    tidegate_output_i16, tidegate_state,
};

/// One time step of a model with one input and one output. `input` has `input_size` elements, `output` room for
/// `output_size`; `scratch` has at least `scratch_words`, holds nothing between steps, and may serve all states of all
/// models in turn. `*has_output` says whether the step wrote `output`: a step within a window does not. After an error
/// state and output are as they were.
///
/// An integer model takes and gives floats too: they are converted at its ports.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_step_f32(
    model: *const tidegate_model,
    state: *mut tidegate_state,
    scratch: *mut u32,
    scratch_len: usize,
    input: *const f32,
    input_len: usize,
    output: *mut f32,
    output_len: usize,
    has_output: *mut bool,
) -> tidegate_status {
    done(|| {
        let (input, output) = ([Lent::new(input, input_len)?], [Lent::new(output, output_len)?]);
        // SAFETY: the caller's word: the header says what the pointers point to.
        unsafe { step(model, state, (scratch, scratch_len), &input, &output, has_output, Model::step_ports) }
    })
}

/// tidegate_step_f32 of an integer model without a float. What the integers are worth is in tidegate_port.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_step_i16(
    model: *const tidegate_model,
    state: *mut tidegate_state,
    scratch: *mut u32,
    scratch_len: usize,
    input: *const i16,
    input_len: usize,
    output: *mut i16,
    output_len: usize,
    has_output: *mut bool,
) -> tidegate_status {
    done(|| {
        let (input, output) = ([Lent::new(input, input_len)?], [Lent::new(output, output_len)?]);
        // SAFETY: the caller's word: the header says what the pointers point to.
        unsafe { step(model, state, (scratch, scratch_len), &input, &output, has_output, Model::step_ports_i16) }
    })
}

/// tidegate_step_f32 of a model with several inputs or outputs, up to TIDEGATE_MOST_PORTS of each, in the order of
/// tidegate_model_input and tidegate_model_output. No output may overlap another buffer; inputs may overlap each other.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_step_ports_f32(
    model: *const tidegate_model,
    state: *mut tidegate_state,
    scratch: *mut u32,
    scratch_len: usize,
    inputs: *const tidegate_input_f32,
    input_count: usize,
    outputs: *const tidegate_output_f32,
    output_count: usize,
    has_output: *mut bool,
) -> tidegate_status {
    done(|| {
        // SAFETY: the caller's word: the header says what the pointers point to.
        unsafe {
            let inputs = rows(inputs, input_count, |row| Lent::new(row.values, row.values_len))?;
            let outputs = rows(outputs, output_count, |row| Lent::new(row.values, row.values_len))?;
            let (inputs, outputs) = (some(&inputs, input_count), some(&outputs, output_count));
            step(model, state, (scratch, scratch_len), inputs, outputs, has_output, Model::step_ports)
        }
    })
}

/// tidegate_step_i16 of a model with several inputs or outputs, as tidegate_step_ports_f32.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_step_ports_i16(
    model: *const tidegate_model,
    state: *mut tidegate_state,
    scratch: *mut u32,
    scratch_len: usize,
    inputs: *const tidegate_input_i16,
    input_count: usize,
    outputs: *const tidegate_output_i16,
    output_count: usize,
    has_output: *mut bool,
) -> tidegate_status {
    done(|| {
        // SAFETY: the caller's word: the header says what the pointers point to.
        unsafe {
            let inputs = rows(inputs, input_count, |row| Lent::new(row.values, row.values_len))?;
            let outputs = rows(outputs, output_count, |row| Lent::new(row.values, row.values_len))?;
            let (inputs, outputs) = (some(&inputs, input_count), some(&outputs, output_count));
            step(model, state, (scratch, scratch_len), inputs, outputs, has_output, Model::step_ports_i16)
        }
    })
}

/// Ends a sequence of a model that looks at windows of rows (a bidirectional layer): the steps since the last full window
/// give an output as a window of their own, whose missing rows are zero. Other models have nothing to give at the end.
/// Buffers and answers are those of tidegate_step_f32.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_finish_f32(
    model: *const tidegate_model,
    state: *mut tidegate_state,
    scratch: *mut u32,
    scratch_len: usize,
    output: *mut f32,
    output_len: usize,
    has_output: *mut bool,
) -> tidegate_status {
    done(|| {
        let output = [Lent::new(output, output_len)?];
        // SAFETY: the caller's word: the header says what the pointers point to.
        unsafe { step(model, state, (scratch, scratch_len), &[], &output, has_output, finish) }
    })
}

/// tidegate_finish_f32 of a model with several outputs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_finish_ports_f32(
    model: *const tidegate_model,
    state: *mut tidegate_state,
    scratch: *mut u32,
    scratch_len: usize,
    outputs: *const tidegate_output_f32,
    output_count: usize,
    has_output: *mut bool,
) -> tidegate_status {
    done(|| {
        // SAFETY: the caller's word: the header says what the pointers point to.
        unsafe {
            let outputs = rows(outputs, output_count, |row| Lent::new(row.values, row.values_len))?;
            let outputs = some(&outputs, output_count);
            step(model, state, (scratch, scratch_len), &[], outputs, has_output, finish)
        }
    })
}

fn finish(
    model: &Model<'static>,
    state: &mut State<'_>,
    scratch: &mut [u32],
    _: &[&[f32]],
    outputs: &mut [&mut [f32]],
) -> Result<Step, StepError> {
    model.finish(state, scratch, outputs)
}

/// The buffers of several ports.
type Rows<P> = [Lent<P>; TIDEGATE_MOST_PORTS];

/// # Safety
/// So many rows are there, which nothing writes meanwhile.
unsafe fn rows<R, P>(
    rows: *const R,
    count: usize,
    lent: impl Fn(&R) -> Result<Lent<P>, tidegate_status>,
) -> Result<Rows<P>, tidegate_status> {
    if count > TIDEGATE_MOST_PORTS {
        return Err(TIDEGATE_PORTS);
    }
    let mut all = [Lent::EMPTY; TIDEGATE_MOST_PORTS];
    // SAFETY: the caller's word.
    for (to, row) in all.iter_mut().zip(unsafe { Lent::new(rows, count)?.get() }) {
        *to = lent(row)?;
    }
    Ok(all)
}

fn some<P>(rows: &Rows<P>, count: usize) -> &[Lent<P>] {
    rows.get(..count).unwrap_or_default()
}

/// A step of the crate.
type Run<P> = fn(&Model<'static>, &mut State<'_>, &mut [u32], &[&[P]], &mut [&mut [P]]) -> Result<Step, StepError>;

/// # Safety
/// What the header says of the pointers is so.
unsafe fn step<P>(
    model: *const tidegate_model,
    state: *mut tidegate_state,
    (scratch, scratch_len): (*mut u32, usize),
    inputs: &[Lent<P>],
    outputs: &[Lent<P>],
    has_output: *mut bool,
    run: Run<P>,
) -> Result<(), tidegate_status> {
    let (model, state, has_output) = (Place::new(model)?, Place::new(state)?, Answer::new(has_output)?);
    let scratch = Lent::new(scratch, scratch_len)?;
    // SAFETY: the caller's word: the header says what the pointers point to; they overlap nowhere.
    unsafe {
        let memory = state.get()?.memory.clone();
        let written = [state.region(), memory, scratch.region(), has_output.region()];
        let written = written.into_iter().chain(outputs.iter().map(Lent::region));
        disjoint(written, [model.region()].into_iter().chain(inputs.iter().map(Lent::region)))?;
        let mut x: [&[P]; TIDEGATE_MOST_PORTS] = Default::default();
        for (x, input) in x.iter_mut().zip(inputs) {
            *x = input.get();
        }
        let mut y: [&mut [P]; TIDEGATE_MOST_PORTS] = Default::default();
        for (y, output) in y.iter_mut().zip(outputs) {
            *y = output.get_mut();
        }
        let (x, y) = (x.get(..inputs.len()).unwrap_or_default(), y.get_mut(..outputs.len()).unwrap_or_default());
        let step = run(model.get()?, &mut state.get_mut()?.value, scratch.get_mut(), x, y)?;
        has_output.give(step.has_output());
    }
    Ok(())
}
