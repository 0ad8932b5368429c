//! The files that the examples of `core` include: images of golden cases, and the outputs of the frameworks.
//!
//! `cargo test -p tidegate-tests --test repository examples -- --ignored` writes them again after the format or the
//! packer has changed.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use tidegate::Numeric;
use tidegate_model::canonical::Tensor;
use tidegate_tests::golden::Case;
use tidegate_tests::images::AlignedBytes;
use tidegate_tests::oracle::{Bounded, Oracle};

/// Number of steps of the generator in `one_to_many`.
const GENERATED: usize = 12;

fn case(name: &str) -> Case {
    Case::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("golden").join(name).with_extension("safetensors"))
}

/// A `golden.rs` file: constants of a case.
struct Numbers(String);

impl Numbers {
    fn of(name: &str, case: &Case) -> Self {
        let mut text = format!("//! Values of the golden case `{name}`, written by `tests/examples.rs`.\n\n");
        let tolerance = case.tolerance();
        write!(text, "/// Tolerance for the outputs of a runtime.\npub const TOLERANCE: f32 = {tolerance:?};\n")
            .expect("writing to a string succeeds");
        Self(text)
    }

    /// Adds a constant with these dimensions.
    fn add(mut self, name: &str, docs: &str, shape: &[usize], data: &[f32]) -> Self {
        let of = shape.iter().rev().fold("f32".to_owned(), |of, len| format!("[{of}; {len}]"));
        let numbers = numbers(shape, data, 0);
        write!(self.0, "/// {docs}\npub const {name}: {of} = {numbers};\n").expect("writing to a string succeeds");
        self
    }

    fn tensor(self, name: &str, docs: &str, tensor: &Tensor) -> Self {
        self.add(name, docs, &tensor.shape, &tensor.data)
    }

    /// Adds entry 0 of `[batch, ...]`.
    fn first(self, name: &str, docs: &str, tensor: &Tensor) -> Self {
        let shape = &tensor.shape[1..];
        self.add(name, docs, shape, &tensor.data[..shape.iter().product()])
    }
}

/// An array literal with one row per line.
fn numbers(shape: &[usize], data: &[f32], depth: usize) -> String {
    let Some((_, inner)) = shape.split_first() else { return format!("{:?}", data[0]) };
    let parts: Vec<String> = data.chunks(inner.iter().product()).map(|part| numbers(inner, part, depth + 1)).collect();
    if inner.is_empty() {
        return format!("[{}]", parts.join(", "));
    }
    let indent = "    ".repeat(depth);
    let lines: String = parts.iter().map(|part| format!("{indent}    {part},\n")).collect();
    format!("[\n{lines}{indent}]")
}

/// The oracle's outputs when each output is the next input, from a first input and a state.
fn generated(case: &Case) -> Vec<f32> {
    let model = case.model();
    let oracle = Oracle::new(&model);
    let mut state: Vec<Bounded> = case.get("initial_state").data.iter().map(|&h| Bounded::exact(h)).collect();
    let mut x = case.get("input").data[..3].to_vec();
    let mut all = Vec::new();
    for _ in 0..GENERATED {
        let y = oracle.step(&mut state, &[&x]).expect("every step has an output");
        x = y[0].iter().map(|y| y.value as f32).collect();
        all.extend_from_slice(&x);
    }
    all
}

/// Every file: its path in `core/examples` and its contents.
fn files() -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    let mut add = |folder: &str, image: &str, case: &Case, Numbers(numbers): Numbers| {
        let packed = AlignedBytes::pack(&case.model(), Numeric::F32);
        files.push((Path::new(folder).join(image), packed.get().to_vec()));
        files.push((Path::new(folder).join("golden.rs"), numbers.into_bytes()));
    };

    let name = "keras2__LSTM__default_i8h4t5b3s";
    let of = case(name);
    let numbers = Numbers::of(name, &of)
        .first("INPUT", "`[time, input]`", of.get("input"))
        .first("INITIAL_HIDDEN", "h before the first step.", of.get("initial_h"))
        .first("INITIAL_CELL_STATE", "c before the first step.", of.get("initial_c"))
        .first("OUTPUT", "`[time, output]`, with `return_sequences=True`.", of.get("output"))
        .first("FINAL_CELL_STATE", "c after the last step.", of.get("final_c"));
    add("many_to_many", "lstm.tgi", &of, numbers);

    let name = "tf1__SequenceLength__dynamic_rnn_lstm_i5h7t9b3";
    let of = case(name);
    let lens: Vec<usize> = of.get("sequence_length").data.iter().map(|&len| len as usize).collect();
    let output = of.get("output");
    let &[batch, time, units] = output.shape.as_slice() else { panic!("outputs are [batch, time, units]") };
    let row = |(index, &len): (usize, &usize)| match len.checked_sub(1) {
        Some(last) => output.data[(index * time + last) * units..][..units].to_vec(),
        None => vec![0.0; units],
    };
    let last: Vec<f32> = lens.iter().enumerate().flat_map(row).collect();
    let mut numbers = Numbers::of(name, &of)
        .tensor("INPUT", "`[batch, time, input]`", of.get("input"))
        .tensor("INITIAL_HIDDEN", "h before the first step, `[batch, units]`.", of.get("initial_h"))
        .tensor("INITIAL_CELL_STATE", "c before the first step.", of.get("initial_c"))
        .add("LAST", "The output of the last step that counts, or zeros if none does.", &[batch, units], &last)
        .tensor("FINAL_CELL_STATE", "c after the last step that counts.", of.get("final_c"));
    write!(numbers.0, "/// `sequence_length`\npub const LENS: [usize; {}] = {lens:?};\n", lens.len())
        .expect("writing to a string succeeds");
    add("many_to_one", "lstm.tgi", &of, numbers);

    let name = "tf1__OutputProjectionWrapper__gru_i3h8t12b1";
    let of = case(name);
    let numbers = Numbers::of(name, &of)
        .first("CONTEXT", "Initial state of the generator: h.", of.get("initial_state"))
        .add("FIRST_INPUT", "First input of the generator.", &[3], &of.get("input").data[..3])
        .add("FIRST_OUTPUT", "First output of the generator.", &[3], &of.get("output").data[..3])
        .add(
            "GENERATED",
            "Outputs of the generator when each output is the next input, in f64.",
            &[GENERATED, 3],
            &generated(&of),
        );
    add("one_to_many", "gru.tgi", &of, numbers);

    let name = "keras2__LSTM__stateful2_i7h5t8b3";
    let of = case(name);
    let numbers = Numbers::of(name, &of)
        .first("HEARD", "Input of the encoder, `[time, input]`.", of.get("input_0"))
        .first("HIDDEN", "h after the encoder.", of.get("state_after_0_h"))
        .first("CELL_STATE", "c after the encoder.", of.get("state_after_0_c"))
        .first("TOLD", "Input of the decoder.", of.get("input_1"))
        .first("OUTPUT", "Output of the decoder, `[time, output]`.", of.get("output_1"));
    add("encoder_decoder", "lstm.tgi", &of, numbers);
    files
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/examples")
}

#[test]
fn the_examples_include_the_current_images_and_numbers_of_the_golden_cases() {
    for (path, bytes) in files() {
        let path = folder().join(path);
        assert!(
            fs::read(&path).is_ok_and(|found| found == bytes),
            "{} is stale: see the top of this file",
            path.display()
        );
    }
}

#[test]
#[ignore = "writes images and numbers into core/examples"]
fn regenerate() {
    for (path, bytes) in files() {
        let path = folder().join(path);
        fs::create_dir_all(path.parent().expect("the file is in a folder")).expect("the folder can be made");
        fs::write(path, bytes).expect("the file can be written");
    }
}
