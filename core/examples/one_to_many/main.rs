//! One to many: a generator whose output is its next input. A TensorFlow GRU with an output projection starts from a
//! given state and one input.
//!
//! The image is read at run time, like one received over the air: a damaged image is an error, not a panic.
//!
//! `cargo run -p tidegate --example one_to_many`

#[rustfmt::skip]
mod golden;

use std::error::Error;

use tidegate::{Aligned, ImageBytes, Model, State};

/// The image in a flash bank, aligned to 16 bytes.
static BANK: &Aligned<[u8]> = &Aligned(*include_bytes!("gru.tgi"));
/// Memory that this firmware reserves for any model it may receive: states, scratch, and the widest input or output.
const STATE_WORDS: usize = 64;
const SCRATCH_WORDS: usize = 256;
const WIDEST: usize = 16;

fn main() -> Result<(), Box<dyn Error>> {
    let model = Model::parse(ImageBytes::new(&BANK.0)?)?;
    let (mut memory, mut scratch) = ([0; STATE_WORDS], [0; SCRATCH_WORDS]);
    let mut state = State::new(&model, &mut memory)?;
    let hidden = state.part_mut(&model, "gru", "hidden").filter(|hidden| hidden.len() == golden::CONTEXT.len());
    hidden.ok_or("the model takes no such context")?.copy_from_slice(&golden::CONTEXT);

    let mut buffer = [0.0; WIDEST];
    let y = buffer.get_mut(..model.output_size()).ok_or("the model is too wide")?;
    let mut x = golden::FIRST_INPUT;
    for (step, expected) in golden::GENERATED.iter().enumerate() {
        if model.step_f32(&mut state, &mut scratch, &x, y)?.has_output() {
            println!("{step:2}: {y:7.4?}");
            x.copy_from_slice(y);
        }
        near(&x, expected);
        if step == 0 {
            near(&x, &golden::FIRST_OUTPUT);
        }
    }
    Ok(())
}

fn near(got: &[f32], expected: &[f32]) {
    assert_eq!(got.len(), expected.len());
    for (got, expected) in got.iter().zip(expected) {
        assert!((got - expected).abs() <= golden::TOLERANCE, "{got} where {expected} is expected");
    }
}

#[test]
fn the_results_are_those_of_tensorflow_and_of_the_oracle() -> Result<(), Box<dyn Error>> {
    main()
}
