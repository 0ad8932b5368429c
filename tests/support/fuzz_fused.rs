//! Body of the fuzz target that compares `tidegate-fused` with `tidegate`.

use tidegate::{Model, Sequence, State};
use tidegate_fused::{FusedModel, Isa};

use super::{Outcome, STEPS, bits, slices, slices_mut, with_model};

/// A byte of flags, then an image. Integers are bit-identical to `tidegate` on every instruction set of this machine. Floats
/// are summed in another order, so their sequences are compared bit for bit with their own steps.
pub fn fused(data: &[u8]) -> Outcome {
    with_model(data, |model, data| {
        for isa in Isa::available() {
            let fused = FusedModel::with_isa(model, isa);
            if model.numeric().is_integer() {
                integers(model, &fused, data);
            }
            floats(model, &fused, data);
        }
        Outcome::Ran
    })
}

fn integers(model: &Model<'_>, fused: &FusedModel<'_>, data: &[u8]) {
    let value = |k: usize| i16::from_le_bytes([data[k % data.len()], data[(k + 1) % data.len()]]).max(-i16::MAX);
    let (mut memory, mut of_fused) = (vec![0; model.state_words()], vec![0; model.state_words()]);
    let mut state = State::new(model, &mut memory).expect("the memory has the model's own length");
    let mut other = State::new(model, &mut of_fused).expect("the memory has the model's own length");
    let (mut scratch, mut scratch_of_fused) = (vec![0; model.scratch_words()], fused.scratch());
    for t in 0..STEPS {
        let x: Vec<Vec<i16>> =
            model.inputs().map(|port| (0..port.size).map(|k| value(2 * (k + t))).collect()).collect();
        let mut y: Vec<Vec<i16>> = model.outputs().map(|port| vec![0; port.size]).collect();
        let mut y_of_fused = y.clone();
        let step = model.step_ports_i16(&mut state, &mut scratch, &slices(&x, 0, 1), &mut slices_mut(&mut y));
        let step_of_fused = fused.step_ports_i16(
            &mut other,
            &mut scratch_of_fused,
            &slices(&x, 0, 1),
            &mut slices_mut(&mut y_of_fused),
        );
        assert!(step == step_of_fused && step.is_ok(), "{step:?}, {step_of_fused:?} on {}", fused.isa());
        assert!(y == y_of_fused, "step {t} on {}: {y:?}, {y_of_fused:?}", fused.isa());
        assert!(state.values_i16() == other.values_i16(), "the state after step {t} on {}", fused.isa());
    }
}

fn floats(model: &Model<'_>, fused: &FusedModel<'_>, data: &[u8]) {
    let value = |k: usize| f32::from(data[k % data.len()]) / 64.0 - 2.0;
    let x: Vec<Vec<f32>> = model.inputs().map(|port| (0..STEPS * port.size).map(value).collect()).collect();
    let (mut memory, mut of_steps) = (vec![0; model.state_words()], vec![0; model.state_words()]);
    let mut state = State::new(model, &mut memory).expect("the memory has the model's own length");
    let mut stepped = State::new(model, &mut of_steps).expect("the memory has the model's own length");
    let mut scratch = fused.scratch();
    let mut y: Vec<Vec<f32>> = model.outputs().map(|port| vec![0.0; STEPS * port.size]).collect();
    let count = fused
        .run_ports(&mut state, &mut scratch, &slices(&x, 0, 1), &mut slices_mut(&mut y), &Sequence::ALL)
        .expect("every length is right");
    let mut outputs = 0;
    for t in 0..STEPS {
        let mut row: Vec<Vec<f32>> = model.outputs().map(|port| vec![0.0; port.size]).collect();
        let step = fused.step_ports(&mut stepped, &mut scratch, &slices(&x, t, STEPS), &mut slices_mut(&mut row));
        if step.expect("every length is right").has_output() {
            for (row, y) in row.iter().zip(slices(&y, outputs, STEPS)) {
                assert!(bits(row) == bits(y), "step {t} on {}: {row:?}, {y:?}", fused.isa());
            }
            outputs += 1;
        }
    }
    assert_eq!(outputs, count, "on {}", fused.isa());
    assert!(bits(state.values()) == bits(stepped.values()), "the state on {}", fused.isa());
}
