//! Many to many, aligned: every step of a sequence has an output. A Keras LSTM starts from a given state; the compiler
//! checks its image. Running it step by step, as inputs arrive, gives the same bits.
//!
//! `cargo run -p tidegate --example many_to_many`

#[rustfmt::skip]
mod golden;

use std::error::Error;

use tidegate::{Aligned, ImageBytes, Model, State};

static IMAGE: &Aligned<[u8]> = &Aligned(*include_bytes!("lstm.tgi"));
const MODEL: Model<'static> = match Model::parse(ImageBytes::from_aligned(IMAGE)) {
    Ok(model) => model,
    Err(_) => panic!("lstm.tgi is not a valid image"),
};

fn main() -> Result<(), Box<dyn Error>> {
    let (mut memory, mut scratch) = ([0; MODEL.state_words()], [0; MODEL.scratch_words()]);
    let mut state = State::new(&MODEL, &mut memory)?;
    begin(&mut state)?;
    let mut whole = [[0.0; MODEL.output_size()]; golden::INPUT.len()];
    MODEL.run_f32(&mut state, &mut scratch, golden::INPUT.as_flattened(), whole.as_flattened_mut())?;
    for (t, row) in whole.iter().enumerate() {
        println!("step {t}: {row:7.4?}");
    }
    near(whole.as_flattened(), golden::OUTPUT.as_flattened());
    near(state.part(&MODEL, "lstm", "cell_state").ok_or("no cell state")?, &golden::FINAL_CELL_STATE);

    state.reset();
    begin(&mut state)?;
    for (x, row) in golden::INPUT.iter().zip(&whole) {
        let mut y = [0.0; MODEL.output_size()];
        let step = MODEL.step_f32(&mut state, &mut scratch, x, &mut y)?;
        assert!(step.has_output() && y.map(f32::to_bits) == row.map(f32::to_bits), "steps are the sequence");
    }
    Ok(())
}

/// Sets the initial state, which is zero by default.
fn begin(state: &mut State<'_>) -> Result<(), Box<dyn Error>> {
    let hidden = state.part_mut(&MODEL, "lstm", "hidden").ok_or("no hidden state")?;
    hidden.copy_from_slice(&golden::INITIAL_HIDDEN);
    let cell_state = state.part_mut(&MODEL, "lstm", "cell_state").ok_or("no cell state")?;
    cell_state.copy_from_slice(&golden::INITIAL_CELL_STATE);
    Ok(())
}

fn near(got: &[f32], expected: &[f32]) {
    assert_eq!(got.len(), expected.len());
    for (got, expected) in got.iter().zip(expected) {
        assert!((got - expected).abs() <= golden::TOLERANCE, "{got}, Keras gave {expected}");
    }
}

#[test]
fn the_outputs_are_those_of_keras() -> Result<(), Box<dyn Error>> {
    main()
}
