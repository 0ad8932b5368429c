//! TFLite: outputs of its interpreter, bit for bit for integer models, and damaged and malicious files.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use tidegate::{Layout, Model, Numeric, Port, State};
use tidegate_fused::FusedModel;
use tidegate_model::backend::Engine;
use tidegate_model::canonical::{Canonical, Tensor};
use tidegate_model::data::read_tensors;
use tidegate_model::error::ImportError;
use tidegate_model::format::import_bytes_with;
use tidegate_model::pack::pack_with;
use tidegate_model::quantize::Ranges;
use tidegate_model::runner;
use tidegate_tests::corpus::Corpus;
use tidegate_tests::data;
use tidegate_tests::fuzz_import::import_tflite;
use tidegate_tests::images::AlignedBytes;
use tidegate_tests::import::{self, ALONE, damaged, sample};
use tidegate_tests::memory::{peak_bytes, ran_alone};
use tidegate_tests::tflite::{Places, by_input, ends, fused, stepped};
use tidegate_tests::tolerance::{worse, worst};
use tidegate_tests::zoo;

const PIXELS: usize = 28 * 28;
const CLASSES: usize = 10;

fn file(name: &str) -> Vec<u8> {
    sample(&format!("tflite/{name}.tflite"))
}

fn import(bytes: &[u8]) -> Result<Canonical, ImportError> {
    import_bytes_with(bytes, "x.tflite", &ALONE).map(|imported| imported.model)
}

fn image(name: &str, numeric: Numeric) -> AlignedBytes {
    AlignedBytes::pack(&import(&file(name)).unwrap_or_else(|error| panic!("{name}: {error}")), numeric)
}

/// The outputs for a whole sequence of real values, in one call.
fn sequence(model: &Model<'_>, fused: Option<&FusedModel<'_>>, input: &[f32]) -> Vec<f32> {
    let [from, to] = ends(model);
    let mut memory = vec![0; model.state_words()];
    let mut state = State::new(model, &mut memory).unwrap();
    let mut output = vec![0.0; input.len() / from.size * to.size];
    let rows = match fused {
        Some(fused) => fused.run(&mut state, &mut fused.scratch(), input, &mut output).unwrap(),
        None => model.run_f32(&mut state, &mut vec![0; model.scratch_words()], input, &mut output).unwrap(),
    };
    output.truncate(rows * to.size);
    output
}

/// A byte of a pixel as a TFLite integer.
fn pixel(value: u8) -> i8 {
    (i16::from(value) - 128) as i8
}

/// Compares the number of digits that are recognized correctly with the zoo's. `outputs` has the scores of each image.
fn digits_are_those_of_the_zoo<T: PartialOrd + Copy>(name: &str, outputs: &[T]) {
    let labels = fs::read(data::file("mnist/labels_2000_u8.bin")).unwrap();
    let told =
        outputs.chunks(CLASSES).map(|of| (1..CLASSES).fold(0, |most, k| if of[k] > of[most] { k } else { most }));
    assert_eq!(told.len(), labels.len());
    let right = told.zip(&labels).filter(|&(told, &label)| told == usize::from(label)).count();
    println!("{name}: {right} of {} digits are right", labels.len());
    if data::is_whole() {
        let thousands = |count: usize| format!("{},{:03}", count / 1000, count % 1000);
        let expected = format!("{} of {} digits", thousands(right), thousands(labels.len()));
        assert_eq!(zoo::entry(name)["accuracy"], expected.as_str());
    }
}

#[test]
fn all_digits_match_the_interpreter_bit_for_bit_in_integers() {
    let digits = fs::read(data::file("mnist/digits_2000x28x28_u8.bin")).unwrap();
    let expected = fs::read(data::file("mnist/ref_trained_lstm_int8_i8.bin")).unwrap();
    let image = image("trained_lstm_int8", Numeric::I8);
    let model = image.model();
    let packed = FusedModel::new(&model);
    let count = digits.len() / PIXELS;
    assert_eq!(expected.len(), count * CLASSES);
    let wrong = data::in_parallel(count, |digit| {
        let input: Vec<i8> = digits[digit * PIXELS..][..PIXELS].iter().map(|&value| pixel(value)).collect();
        let expected: Vec<i8> = expected[digit * CLASSES..][..CLASSES].iter().map(|byte| byte.cast_signed()).collect();
        [stepped(&model, &input) != expected, fused(&packed, &input) != expected].map(usize::from)
    });
    let wrong = wrong.into_iter().fold([0; 2], |[a, b], [c, d]| [a + c, b + d]);
    println!("of {count} digits differ: core {}, tidegate-fused {}", wrong[0], wrong[1]);
    assert_eq!(wrong, [0; 2]);
    let outputs: Vec<i8> = expected.iter().map(|byte| byte.cast_signed()).collect();
    digits_are_those_of_the_zoo("MNIST rows, int8", &outputs);
}

#[test]
fn all_digits_are_within_1e_5_of_the_interpreter_in_floats() {
    let digits = fs::read(data::file("mnist/digits_2000x28x28_u8.bin")).unwrap();
    let expected = fs::read(data::file("mnist/ref_trained_lstm_f32.bin")).unwrap();
    let expected: Vec<f32> = expected.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    assert_eq!(expected.len(), digits.len() / PIXELS * CLASSES);
    let image = image("trained_lstm", Numeric::F32);
    let model = image.model();
    let outputs = data::in_parallel(digits.len() / PIXELS, |digit| {
        let (mut memory, mut scratch) = (vec![0; model.state_words()], vec![0; model.scratch_words()]);
        let mut state = State::new(&model, &mut memory).unwrap();
        let mut output = [0.0; CLASSES];
        let mut has_output = false;
        for row in digits[digit * PIXELS..][..PIXELS].chunks(28) {
            let row: Vec<f32> = row.iter().map(|&value| f32::from(value) / 255.0).collect();
            has_output = model.step_f32(&mut state, &mut scratch, &row, &mut output).unwrap().has_output();
        }
        assert!(has_output, "digit {digit}");
        output
    });
    let outputs = outputs.as_flattened();
    let worst = worst(outputs.iter().zip(&expected).map(|(a, b)| (a - b).abs()));
    println!("worst error over all digits: {worst:.2e}");
    assert!(worst <= 1e-5, "{worst:e}");
    digits_are_those_of_the_zoo("MNIST rows, float", outputs);
}

/// The cases that the script recorded, either the integer or the float ones.
fn cases(integer: bool) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("frameworks/tflite");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let names = files.filter_map(|name| name.strip_suffix(".in.safetensors").map(str::to_owned));
    // Cases with other names have tests of their own in `import_tflite_cells.rs`.
    let kind = |name: &String| !name.starts_with("hybrid") && !name.starts_with("states");
    let mut names: Vec<String> = names.filter(kind).filter(|name| name.starts_with("float") != integer).collect();
    names.sort();
    names
}

/// Sequences with the interpreter's outputs.
fn recorded(name: &str) -> Vec<(Vec<f32>, Vec<f32>)> {
    let read = |end: &str| {
        let path =
            PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("frameworks/tflite/{name}.{end}.safetensors"));
        let Tensor { shape, data } = read_tensors(&path).unwrap().pop_first().unwrap().1;
        data.chunks(data.len() / shape[0]).map(<[f32]>::to_vec).collect::<Vec<_>>()
    };
    read("in").into_iter().zip(read("out")).collect()
}

/// The same in TFLite integers, quantized by the port if the file takes floats.
fn in_integers(name: &str, [from, to]: [Port<'_>; 2]) -> Vec<(Vec<i8>, Vec<i8>)> {
    let quantized = |values: &[f32], port: &Port<'_>| {
        let integer = |value: &f32| ((value / port.scale).round() + port.zero_point as f32).clamp(-128.0, 127.0) as i8;
        values.iter().map(integer).collect()
    };
    let has_floats = name.ends_with("float_ports");
    let as_is = |values: &[f32]| values.iter().map(|&value| value as i8).collect();
    let one = |values: &[f32], port: &Port<'_>| if has_floats { quantized(values, port) } else { as_is(values) };
    recorded(name).iter().map(|(input, output)| (one(input, &from), one(output, &to))).collect()
}

#[test]
fn integers_match_the_interpreter_step_by_step_as_a_sequence_and_in_every_layout() {
    let (mut sequences, mut wrong) = (0, BTreeSet::new());
    for name in cases(true) {
        let canonical = import(&file(&name)).unwrap();
        for layout in Layout::ALL {
            let bytes = pack_with(&canonical, Numeric::I8, &Ranges::default(), layout).unwrap();
            let image = AlignedBytes::new(&bytes);
            let model = image.model();
            let (packed, [from, to]) = (FusedModel::new(&model), ends(&model));
            for (input, expected) in in_integers(&name, [from, to]) {
                let rows = expected.len() / to.size;
                let last = |given: Vec<i8>| given[given.len() - rows * to.size..].to_vec();
                let mut check = |how: &str, given: Vec<i8>| {
                    if last(given) != expected {
                        wrong.insert(format!("{name} in {}, {how}", layout.name()));
                    }
                };
                check("step by step", stepped(&model, &input));
                check("step by step on fused", fused(&packed, &input));
                let real = |value: &i8| f32::from(i16::from(*value) - from.zero_point as i16) * from.scale;
                let input: Vec<f32> = input.iter().map(real).collect();
                let integer = |value: &f32| ((value / to.scale).round() as i32 + to.zero_point) as i8;
                for (how, fused) in [("as a sequence", None), ("as a sequence on fused", Some(&packed))] {
                    check(how, sequence(&model, fused, &input).iter().map(integer).collect());
                }
                sequences += 1;
            }
        }
    }
    println!("{sequences} sequences of {} models in {} layouts", cases(true).len(), Layout::ALL.len());
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(sequences >= 4 * (20 + 12 * 3), "{sequences}");
}

#[test]
fn floats_are_within_1e_5_of_the_interpreter() {
    let mut most = 0.0_f32;
    for name in cases(false) {
        let image = image(&name, Numeric::F32);
        let model = image.model();
        for (input, expected) in recorded(&name) {
            let inputs = by_input(&model, &input);
            let inputs: Vec<&[f32]> = inputs.iter().map(Vec::as_slice).collect();
            let given = runner::run(Engine::from(&model), &inputs, None).unwrap().outputs.remove(0);
            let given = &given[given.len() - expected.len()..];
            let off = worst(given.iter().zip(&expected).map(|(a, b)| (a - b).abs()));
            assert!(off <= 1e-5 * worse(1.0, worst(expected.iter().map(|value| value.abs()))), "{name}: {off:e}");
            most = worse(most, off);
        }
    }
    println!("worst error of {} models: {most:.2e}", cases(false).len());
}

/// The real values of the integers differ from the interpreter's output by no more than their roundings.
#[test]
fn integer_models_run_as_the_floats_that_they_represent() {
    let image = image("trained_lstm_int8", Numeric::F32);
    let model = image.model();
    let reference = self::image("trained_lstm", Numeric::F32);
    let input: Vec<f32> = (0..PIXELS).map(|k| ((k * 37) % 255) as f32 / 255.0).collect();
    let of = |model: &Model<'_>| runner::run(Engine::from(model), &[&input], None).unwrap().outputs.remove(0);
    let (integers, floats) = (of(&model), of(&reference.model()));
    let far = worst(integers.iter().zip(&floats).map(|(a, b)| (a - b).abs()));
    assert!(far < 0.1, "{far}: {integers:?} {floats:?}");
}

#[test]
fn a_canonical_model_keeps_its_integers() {
    for name in cases(true) {
        let model = import(&file(&name)).unwrap();
        let again = Canonical::from_bytes(&model.to_bytes().unwrap()).unwrap();
        assert_eq!(again, model, "{name}");
        let pack = |model: &Canonical| pack_with(model, Numeric::I8, &Ranges::default(), Layout::Portable).unwrap();
        assert_eq!(pack(&again), pack(&model), "{name}");
    }
}

#[test]
fn every_prefix_of_a_file_is_refused() {
    for name in
        ["integer_last", "integer_conv", "integer_rings", "float_per_step", "float_while_lstm", "float_ports_mask"]
    {
        let whole = file(name);
        for end in (0..whole.len()).filter(|end| end % 13 == 0 || *end < 512) {
            // The part that is cut off may be unused.
            if let Err(error) = import(&whole[..end]) {
                import::line(&error, 2048);
            } else {
                assert!(end > whole.len() / 2, "{name} {end}");
            }
        }
    }
}

#[test]
fn a_damaged_byte_is_refused_or_gives_a_model() {
    for name in ["integer_last", "integer_conv", "integer_add", "integer_rings", "float_half"] {
        damaged(name, 5, &file(name), import);
    }
    for name in ["float_while_gru", "float_ports_mask", "float_gated_causal"] {
        damaged(name, 41, &file(name), import);
    }
}

#[test]
fn images_whose_bytes_are_damaged_are_refused_or_run() {
    for image in ["integer_last", "integer_conv_groups"].map(|name| image(name, Numeric::I8)) {
        let whole = image.get();
        for at in 32..whole.len() {
            for bits in [0x01, 0x80, 0xff] {
                let mut bytes = whole.to_vec();
                bytes[at] ^= bits;
                let bytes = AlignedBytes::new(&bytes);
                if let Ok(model) = Model::parse_structure(bytes.image()) {
                    let [from, to] = ends(&model);
                    let (mut memory, mut scratch) = (vec![0; model.state_words()], vec![0; model.scratch_words()]);
                    let mut state = State::new(&model, &mut memory).unwrap();
                    for value in [0, 127, i16::MIN, i16::MAX] {
                        let input = vec![value; from.size];
                        model.step_i16(&mut state, &mut scratch, &input, &mut vec![0; to.size]).map(drop).unwrap();
                    }
                }
            }
        }
    }
}

/// The integer model of the digits with bytes overwritten at the position that `place` returns.
fn changed(place: impl FnOnce(&Places) -> usize, to: &[u8]) -> Vec<u8> {
    changed_in("trained_lstm_int8", place, to)
}

/// The same for another model.
fn changed_in(name: &str, place: impl FnOnce(&Places) -> usize, to: &[u8]) -> Vec<u8> {
    let mut places = Places { bytes: file(name), graph: 0 };
    let at = place(&places);
    places.bytes[at..at + to.len()].copy_from_slice(to);
    places.bytes
}

#[test]
fn unsupported_features_are_refused_with_node_operator_and_attribute() {
    // Tensor 23 is the output of the LSTM, 25 that of the dense layer.
    const LSTM: &str = "node 'tfl.unidirectional_sequence_lstm' (op UNIDIRECTIONAL_SEQUENCE_LSTM): ";
    const SOFTMAX: &str = "node 'StatefulPartitionedCall:0' (op SOFTMAX): ";
    let code = |operator: usize| move |at: &Places| at.field(at.table(at.target(0), 1, operator), 0);
    let list = |operator: usize, index: usize| {
        move |at: &Places| at.target(at.field(at.operator(operator), 1)) + 4 + 4 * index
    };
    let scale = |tensor: usize| move |at: &Places| at.counts(tensor, 2);
    let zero_point = |tensor: usize| move |at: &Places| at.counts(tensor, 3);
    let kind = |tensor: usize| move |at: &Places| at.field(at.tensor(tensor), 1);
    let float = |value: f32| value.to_le_bytes();
    for (bytes, reason) in [
        (changed(code(3), &[26]), "node 'StatefulPartitionedCall:0' has op SPACE_TO_DEPTH".to_owned()),
        (changed(|at| at.field(at.target(0), 0), &[9]), "version 9 of the schema".into()),
        (changed(|at| at.field(at.options(0), 0), &[1]), format!("{LSTM}attribute fused_activation_function is 1")),
        (changed(|at| at.field(at.options(0), 1), &float(f32::NAN)), format!("{LSTM}attribute cell_clip is NaN")),
        (changed(list(0, 10), &12_i32.to_le_bytes()), format!("{LSTM}it has peephole weights")),
        (changed(list(0, 16), &12_i32.to_le_bytes()), format!("{LSTM}it has projection_weights")),
        (changed(list(0, 21), &4_i32.to_le_bytes()), format!("{LSTM}it has layer_norm_coefficients")),
        (changed(list(0, 1), &(-1_i32).to_le_bytes()), format!("{LSTM}it has no input_to_input_weights")),
        (changed(list(0, 12), &(-1_i32).to_le_bytes()), format!("{LSTM}its input_gate_bias is missing")),
        (changed(list(0, 18), &4_i32.to_le_bytes()), format!("{LSTM}its output_state is not a variable")),
        (changed(scale(17), &float(0.001)), format!("{LSTM}its cell_state has scale 0.001")),
        (
            changed(zero_point(16), &5_i64.to_le_bytes()),
            format!("{LSTM}the zero points of its output and of its output_state"),
        ),
        (changed(scale(15), &float(0.0)), "has invalid scales or zero points".into()),
        (
            changed(zero_point(12), &1_i64.to_le_bytes()),
            format!("{LSTM}its input_to_output_weights have a zero point other than 0"),
        ),
        (changed(kind(0), &[5]), "input \"serving_default_fixed_input:0\" of type 5".into()),
        (changed(kind(15), &[0]), format!("{LSTM}its input 1")),
        (changed(scale(26), &float(0.5)), format!("{SOFTMAX}its output has scale 0.5")),
        (changed(|at| at.field(at.options(3), 0), &float(-2.0)), format!("{SOFTMAX}attribute beta is -2")),
        // Fields of a newer schema, and options of another operator.
        (changed(code(3), &[114]), "(op QUANTIZE): attribute number 0 is not known".into()),
        (changed(|at| at.field(at.operator(3), 3), &[8]), format!("{SOFTMAX}its options are of type 8, not 9")),
        (changed(list(2, 0), &26_i32.to_le_bytes()), "is not computed by an earlier operator".into()),
        (changed(list(2, 0), &99_i32.to_le_bytes()), "it has no tensor 99".into()),
    ]
    .into_iter()
    .chain(convolutions_that_are_refused())
    .chain(filters_that_are_refused())
    {
        let error = import(&bytes).map(drop).expect_err(&reason);
        let line = import::line(&error, 2048);
        assert!(line.contains(&reason), "{reason:?} is not in: {line}");
    }
}

/// Operator 1 is an integer convolution, operator 3 a ReLU6, and tensor 10 is between them.
fn convolutions_that_are_refused() -> impl Iterator<Item = (Vec<u8>, String)> {
    let changed = |place: &dyn Fn(&Places) -> usize, to: &[u8]| changed_in("integer_conv", place, to);
    let kind = |input: usize| move |at: &Places| at.field(at.tensor(at.input(1, input)), 1);
    let option = |index: usize| move |at: &Places| at.field(at.options(1), index);
    [
        (changed(&option(3), &[4]), "(op CONV_2D): attribute fused_activation_function is 4, which integers do not"),
        (changed(&option(2), &0_i32.to_le_bytes()), "(op CONV_2D): attribute stride_h is 0"),
        (changed(&kind(1), &[7]), "(op CONV_2D): its input 1"),
        (changed(&kind(2), &[9]), "(op CONV_2D): its input 2"),
        (changed(&|at| at.field(at.tensor(10), 1), &[0]), "(op CONV_2D): its input is of int8, but its output is not"),
        (changed(&|at| at.counts(at.input(1, 1), 3), &[1]), "(op CONV_2D): its weights have a zero point other than 0"),
        (changed(&|at| at.field(at.table(at.target(0), 1, 1), 0), &[12]), "has op L2_POOL_2D"),
    ]
    .map(|(bytes, reason)| (bytes, reason.to_owned()))
    .into_iter()
}

/// Operator 0 has the filters, whose rank is 1.
fn filters_that_are_refused() -> impl Iterator<Item = (Vec<u8>, String)> {
    let changed = |place: &dyn Fn(&Places) -> usize, to: &[u8]| changed_in("integer_filters", place, to);
    let input = |input: usize, field: usize| move |at: &Places| at.field(at.tensor(at.input(0, input)), field);
    let zero_point = |input: usize| move |at: &Places| at.counts(at.input(0, input), 3);
    let output = |at: &Places| at.u32(at.target(at.field(at.operator(0), 2)) + 4);
    [
        (changed(&|at| at.field(at.options(0), 0), &0_i32.to_le_bytes()), "do not fit rank 0"),
        (changed(&|at| at.field(at.options(0), 0), &64_i32.to_le_bytes()), "do not fit rank 64"),
        (changed(&|at| at.field(at.options(0), 1), &[3]), "attribute fused_activation_function is 3, not RELU"),
        (
            changed(&|at| at.counts(output(at), 3), &(-127_i64).to_le_bytes()),
            "its output has the zero point -127, not -128",
        ),
        (changed(&input(4, 1), &[9]), "its state is of int8, not int16"),
        (changed(&input(4, 5), &[0]), "its state is not a variable that starts at zero"),
        (changed(&zero_point(4), &[1]), "its state has no scale, or a zero point other than 0"),
        (changed(&zero_point(2), &[1]), "its weights over time do not have a single scale with the zero point 0"),
        (changed(&input(2, 1), &[9]), "is of int8, not int16"),
    ]
    .map(|(bytes, reason)| (bytes, reason.to_owned()))
    .into_iter()
}

/// The files are those of `tests/frameworks/tflite_graphs.py`.
#[test]
fn other_variables_factors_and_states_are_refused_by_name() {
    const ASSIGN: &str = "(op ASSIGN_VARIABLE): variable";
    const CALL: &str = "(op CALL_ONCE): it calls";
    const CONV: &str = "(op CONV_2D): its input";
    const READ: &str = "(op READ_VARIABLE): ";
    for (name, place, reason) in [
        ("unassigned", "variable \"v1\"", "is read, but no operator assigns to it"),
        ("oldest_rows", "variable \"v1\"", "its next value is not its last rows and the new ones"),
        ("assigned_twice", ASSIGN, "is assigned twice"),
        ("calls_itself", CALL, "the graph that it is in"),
        ("calls_nothing", "", "it has no element 9 in a vector of 2"),
        ("computed_initial_value", CALL, "a graph with RELU"),
        ("uninitialized", READ, "is not initialized"),
        ("initial_value", READ, "the initial value of variable \"v1\" is not zero"),
        ("state_of_a_cell", CONV, "does not end with the newest row"),
        ("gap", CONV, "has rows that do not follow each other"),
        ("doubled", "", "it would take more than 64 MiB of memory"),
        ("outer_product", "(op MUL): ", "its inputs are [1, 4, 1] and [1, 1, 4]"),
        ("filters_of_one_state", "(op SVDF): ", "its state is an input of the graph, or that of another operator"),
    ] {
        let text = import::line(&import(&file(&format!("refused_{name}"))).expect_err(name), 2048);
        assert!(text.contains(place) && text.contains(reason), "{name}: {text}");
    }
}

#[test]
fn malicious_files_are_refused_quickly_in_little_memory() {
    if ran_alone(concat!(module_path!(), "::malicious_files_are_refused_quickly_in_little_memory")) {
        return;
    }
    let started = std::time::Instant::now();
    // A vector with as many elements as the file has bytes, and with as many as 32 bits count.
    let tensors = |at: &Places| at.target(at.field(at.graph(), 0));
    for count in [40_000_u32, 3_000_000, u32::MAX] {
        let mut bytes = changed(tensors, &count.to_le_bytes());
        bytes.resize(16 << 20, 4);
        import::line(&import(&bytes).expect_err("it has too many tensors"), 2048);
    }
    // Dimensions whose product overflows 64 bits.
    let shape = |at: &Places| at.target(at.field(at.tensor(12), 0)) + 4;
    import::line(&import(&changed(shape, &[0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff, 0x7f])).unwrap_err(), 2048);
    assert!(started.elapsed().as_secs() < 60);
    let peak = peak_bytes();
    assert!(peak < 4 << 30, "{peak} bytes of address space");
}

fn corpus() -> Corpus {
    let mut names = cases(true);
    names.retain(|name| name != "micro_speech_lstm");
    names.extend(cases(false));
    names.extend(["hybrid_while_lstm", "hybrid_ports_mask"].map(str::to_owned));
    names.push("trained_lstm_int8".to_owned());
    Corpus { target: "import_tflite", seeds: names.iter().map(|name| (format!("{name}_tflite"), file(name))).collect() }
}

#[test]
fn the_corpus_of_import_tflite_passes() {
    corpus().passes(0, import_tflite);
}

#[test]
#[ignore = "records the digests of the seeds and writes the seeds to target/fuzz"]
fn regenerate() {
    corpus().regenerate();
}
