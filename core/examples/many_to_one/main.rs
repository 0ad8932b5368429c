//! Many to one: only the last output of each sequence is used. A TensorFlow LSTM runs a batch of three sequences of
//! different lengths, one of them empty, each with its own state.
//!
//! `cargo run -p tidegate --example many_to_one`

#[rustfmt::skip]
mod golden;

use std::error::Error;

use tidegate::{Aligned, Batch, ImageBytes, Model, Sequence};

static IMAGE: &Aligned<[u8]> = &Aligned(*include_bytes!("lstm.tgi"));
const MODEL: Model<'static> = match Model::parse(ImageBytes::from_aligned(IMAGE)) {
    Ok(model) => model,
    Err(_) => panic!("lstm.tgi is not a valid image"),
};
const BATCH: usize = golden::INPUT.len();

fn main() -> Result<(), Box<dyn Error>> {
    let (mut memory, mut scratch) = ([0; BATCH * MODEL.state_words()], [0; MODEL.scratch_words()]);
    let mut batch = Batch::new(&MODEL, BATCH, &mut memory)?;
    let initial = golden::INITIAL_HIDDEN.iter().zip(&golden::INITIAL_CELL_STATE);
    for (mut state, (hidden, cell_state)) in batch.states().zip(initial) {
        state.part_mut(&MODEL, "lstm", "hidden").ok_or("no hidden state")?.copy_from_slice(hidden);
        state.part_mut(&MODEL, "lstm", "cell_state").ok_or("no cell state")?.copy_from_slice(cell_state);
    }

    let sequence = Sequence { lens: Some(&golden::LENS), last_only: true, ..Sequence::ALL };
    let inputs = [golden::INPUT.as_flattened().as_flattened()];
    let mut last = [[0.0; MODEL.output_size()]; BATCH];
    MODEL.run_batch(&mut batch, &mut scratch, &inputs, &mut [last.as_flattened_mut()], &sequence)?;

    for (row, len) in last.iter().zip(&golden::LENS) {
        println!("after {len} steps: {row:7.4?}");
    }
    near(last.as_flattened(), golden::LAST.as_flattened());
    for (state, cell_state) in batch.states().zip(&golden::FINAL_CELL_STATE) {
        near(state.part(&MODEL, "lstm", "cell_state").ok_or("no cell state")?, cell_state);
    }
    Ok(())
}

fn near(got: &[f32], expected: &[f32]) {
    assert_eq!(got.len(), expected.len());
    for (got, expected) in got.iter().zip(expected) {
        assert!((got - expected).abs() <= golden::TOLERANCE, "{got}, TensorFlow gave {expected}");
    }
}

#[test]
fn the_outputs_are_those_of_tensorflow() -> Result<(), Box<dyn Error>> {
    main()
}
