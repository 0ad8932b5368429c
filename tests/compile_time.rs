//! Images that the compiler checks: this file compiles only if they parse in a `const`. That a damaged image is a
//! compile error is shown by the documentation tests of `support/lib.rs`.

use tidegate::{Aligned, ImageBytes, Model, Numeric, State};
use tidegate_tests::images::{AlignedBytes, whole};

static TINY: &Aligned<[u8]> = &Aligned(*include_bytes!("data/tiny.tgi"));
const MODEL: Model<'static> = match Model::parse(ImageBytes::from_aligned(TINY)) {
    Ok(model) => model,
    Err(_) => panic!("tiny.tgi is not a valid image"),
};

/// About 890 KB, from `build.rs`: near what `long_running_const_eval` lets the compiler walk.
static LARGE: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/large.tgi")));
const LARGE_MODEL: Model<'static> = match Model::parse(ImageBytes::from_aligned(LARGE)) {
    Ok(model) => model,
    Err(_) => panic!("large.tgi is not a valid image"),
};

/// The same in integers, whose rows are summed as well.
static INTEGER: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/large_integer.tgi")));
const INTEGER_MODEL: Model<'static> = match Model::parse(ImageBytes::from_aligned(INTEGER)) {
    Ok(model) => model,
    Err(_) => panic!("large_integer.tgi is not a valid image"),
};

#[test]
fn the_committed_image_is_what_the_packer_writes_today() {
    let today = AlignedBytes::pack(&whole(), Numeric::F32);
    assert!(TINY.0 == *today.get(), "run: cargo test -p tidegate-tests --test fuzz_corpus -- --ignored");
}

#[test]
fn a_model_checked_by_the_compiler_runs_in_arrays_of_its_own_sizes() {
    let (mut memory, mut scratch) = ([0_u32; MODEL.state_words()], [0_u32; MODEL.scratch_words()]);
    let mut state = State::new(&MODEL, &mut memory).expect("the array has the model's length");
    let mut y = [0.0; MODEL.output_size()];
    let mut outputs = 0;
    for t in 0..5 {
        let x = [t as f32; MODEL.input_size()];
        let step = MODEL.step_f32(&mut state, &mut scratch, &x, &mut y).expect("every length is right");
        outputs += usize::from(step.has_output());
    }
    assert_eq!(outputs, 2, "windows of 3 every 2 end at steps 3 and 5");
    assert!((y.iter().sum::<f32>() - 1.0).abs() < 1e-6, "a softmax sums to one: {y:?}");
}

#[test]
fn an_image_of_890_kb_parses_in_a_const() {
    assert!(LARGE.0.len() > 890_000);
    assert_eq!((LARGE_MODEL.input_size(), LARGE_MODEL.output_size()), (444, 500));
    let mut scratch = [0_u32; LARGE_MODEL.scratch_words()];
    let mut memory = [0_u32; LARGE_MODEL.state_words()];
    let mut state = State::new(&LARGE_MODEL, &mut memory).expect("the array has the model's length");
    let mut x = [0.0; LARGE_MODEL.input_size()];
    x[1] = 1.0;
    let mut y = [0.0; LARGE_MODEL.output_size()];
    assert!(LARGE_MODEL.step_f32(&mut state, &mut scratch, &x, &mut y).is_ok());
    // Element [block][col][row]: row 5, column 1 is in block 1. The bias follows the weights.
    assert_eq!(y[5], (4 * 444 + 4 + 1) as f32 + (444 * 500 + 5) as f32);
}

#[test]
fn an_image_of_890_kb_of_integers_parses_in_a_const() {
    assert!(INTEGER.0.len() > 890_000);
    let mut scratch = [0_u32; INTEGER_MODEL.scratch_words()];
    let mut memory = [0_u32; INTEGER_MODEL.state_words()];
    let mut state = State::new(&INTEGER_MODEL, &mut memory).expect("the array has the model's length");
    let mut x = [0; INTEGER_MODEL.input_size()];
    x[1] = 1000;
    let mut y = [0; INTEGER_MODEL.output_size()];
    assert!(INTEGER_MODEL.step_i16(&mut state, &mut scratch, &x, &mut y).is_ok());
    // Element [block][col][row]: row 5, column 1 is in block 1. The start is the row.
    assert_eq!(y[5], ((((4 * 880 + 4 + 1) % 100) - 50) * 1000 + 5) >> 2);
}
