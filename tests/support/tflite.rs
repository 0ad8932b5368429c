//! Runs of integer models from TFLite, in TFLite's integers.

use tidegate::{Model, Port, State};
use tidegate_fused::FusedModel;

/// The only input and the only output of a model.
///
/// # Panics
/// If it has none.
pub fn ends<'a>(model: &Model<'a>) -> [Port<'a>; 2] {
    [model.inputs().next().expect("an input"), model.outputs().next().expect("an output")]
}

/// The values of a slot for TFLite's integers.
fn values(integers: &[i8], port: &Port<'_>) -> Vec<i16> {
    integers.iter().map(|&integer| i16::from(integer) - port.zero_point as i16).collect()
}

/// TFLite's integers for the values of a slot.
fn integers<'v>(values: &'v [i16], port: &Port<'_>) -> impl Iterator<Item = i8> + use<'v> {
    let zero_point = port.zero_point;
    values.iter().map(move |&value| (i32::from(value) + zero_point) as i8)
}

/// The outputs for a sequence of TFLite's integers, step by step.
///
/// # Panics
/// If the model does not run.
pub fn stepped(model: &Model<'_>, input: &[i8]) -> Vec<i8> {
    let (mut memory, mut scratch) = (vec![0; model.state_words()], vec![0; model.scratch_words()]);
    let mut state = State::new(model, &mut memory).expect("the memory is large enough");
    continued(model, &mut state, &mut scratch, input)
}

/// [`stepped`] from a state.
///
/// # Panics
/// If the model does not run.
pub fn continued(model: &Model<'_>, state: &mut State<'_>, scratch: &mut [u32], input: &[i8]) -> Vec<i8> {
    let [from, to] = ends(model);
    let mut output = vec![0; to.size];
    let mut given = Vec::new();
    for row in input.chunks(from.size) {
        let stepped = model.step_i16(state, scratch, &values(row, &from), &mut output);
        if stepped.expect("the buffers fit").has_output() {
            given.extend(integers(&output, &to));
        }
    }
    given
}

/// The same on `tidegate-fused`.
///
/// # Panics
/// If the model does not run.
pub fn fused(model: &FusedModel<'_>, input: &[i8]) -> Vec<i8> {
    let [from, to] = ends(model.model());
    let mut stream = model.stream();
    let mut output = vec![0; to.size];
    let mut given = Vec::new();
    for row in input.chunks(from.size) {
        if stream.step_i16(&values(row, &from), &mut output).expect("the buffers fit").has_output() {
            given.extend(integers(&output, &to));
        }
    }
    given
}
