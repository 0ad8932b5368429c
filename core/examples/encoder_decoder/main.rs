//! Encoder and decoder: one network reads a whole sequence, and its final state is the initial state of another
//! network. Here both are the same Keras LSTM; in general only their states must have the same length. The compiler
//! checks the encoder's image; the decoder's is checked when it is read.
//!
//! `cargo run -p tidegate --example encoder_decoder`

#[rustfmt::skip]
mod golden;

use std::error::Error;

use tidegate::{Aligned, ImageBytes, Model, Sequence, State};

static IMAGE: &Aligned<[u8]> = &Aligned(*include_bytes!("lstm.tgi"));
const ENCODER: Model<'static> = match Model::parse(ImageBytes::from_aligned(IMAGE)) {
    Ok(model) => model,
    Err(_) => panic!("lstm.tgi is not a valid image"),
};

fn main() -> Result<(), Box<dyn Error>> {
    let (mut memory, mut scratch) = ([0; ENCODER.state_words()], [0; ENCODER.scratch_words()]);
    let mut encoder = State::new(&ENCODER, &mut memory)?;
    // The encoder's outputs are not used; the last one still needs a buffer.
    let (inputs, mut last) = ([golden::HEARD.as_flattened()], [0.0; ENCODER.output_size()]);
    let sequence = Sequence { last_only: true, ..Sequence::ALL };
    ENCODER.run_ports(&mut encoder, &mut scratch, &inputs, &mut [&mut last], &sequence)?;
    near(encoder.part(&ENCODER, "lstm", "hidden").ok_or("no hidden state")?, &golden::HIDDEN);
    near(encoder.part(&ENCODER, "lstm", "cell_state").ok_or("no cell state")?, &golden::CELL_STATE);

    let decoder = Model::parse(ImageBytes::new(&IMAGE.0)?)?;
    let (mut memory, mut scratch) = (vec![0; decoder.state_words()], vec![0; decoder.scratch_words()]);
    let mut state = State::new(&decoder, &mut memory)?;
    for name in ["hidden", "cell_state"] {
        let from = encoder.part(&ENCODER, "lstm", name).ok_or("the encoder lacks a state")?;
        let to = state.part_mut(&decoder, "lstm", name).filter(|to| to.len() == from.len());
        to.ok_or("the decoder has no matching state")?.copy_from_slice(from);
    }
    let mut outputs = vec![0.0; golden::TOLD.len() * decoder.output_size()];
    decoder.run_f32(&mut state, &mut scratch, golden::TOLD.as_flattened(), &mut outputs)?;
    for (t, row) in outputs.chunks(decoder.output_size()).enumerate() {
        println!("step {t}: {row:7.4?}");
    }
    near(&outputs, golden::OUTPUT.as_flattened());
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
