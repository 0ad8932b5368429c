//! TFLite models that are in devices, from their authors' files: LiteRT's recorded integers at every step.

use std::fs;

use tidegate::{Layout, Numeric, State};
use tidegate_fused::FusedModel;
use tidegate_model::canonical::{Canonical, Tensor};
use tidegate_model::data::read_tensors;
use tidegate_model::format::import_bytes_with;
use tidegate_model::pack::pack_with;
use tidegate_model::quantize::Ranges;
use tidegate_model::streamed::streamed;
use tidegate_tests::data;
use tidegate_tests::images::AlignedBytes;
use tidegate_tests::import::ALONE;
use tidegate_tests::tflite::{continued, fused, stepped};
use tidegate_tests::zoo;

/// The model in a file of the data.
fn model(path: &str) -> Canonical {
    let bytes = fs::read(data::file(path)).unwrap();
    import_bytes_with(&bytes, path, &ALONE).unwrap_or_else(|error| panic!("{path}: {error}")).model
}

/// TFLite's integers in a tensor of a file of the data. Those of a uint8 tensor are less by 128.
fn integers(path: &str, name: &str) -> Vec<i8> {
    let Tensor { data, .. } = read_tensors(&data::file(path)).unwrap().remove(name).expect("the file has the tensor");
    let middle = if name.starts_with("prob/") { 128.0 } else { 0.0 };
    data.into_iter().map(|value| (value - middle) as i8).collect()
}

/// Compares the outputs of the engine, in every layout, and of `tidegate-fused` with recorded ones.
fn matches(name: &str, model: &Canonical, input: &[i8], expected: &[i8]) {
    matches_in(name, &Layout::ALL, model, input, expected);
}

/// [`matches`] in these layouts.
fn matches_in(name: &str, layouts: &[Layout], model: &Canonical, input: &[i8], expected: &[i8]) {
    let differ = |given: &[i8]| given.iter().zip(expected).filter(|(a, b)| a != b).count();
    for &layout in layouts {
        let bytes = pack_with(model, Numeric::I8, &Ranges::default(), layout).unwrap();
        let image = AlignedBytes::new(&bytes);
        let model = image.model();
        for (on, given) in [("core", stepped(&model, input)), ("fused", fused(&FusedModel::new(&model), input))] {
            let (differ, of) = (differ(&given), expected.len());
            assert_eq!(given.len(), of, "{name} in {} on {on}", layout.name());
            assert_eq!(differ, 0, "{name} in {} on {on}: of {of} values", layout.name());
        }
    }
    println!("{name}: all {} values are equal in {} layouts", expected.len(), layouts.len());
}

#[test]
fn dtln_in_integers_matches_litert_at_every_value() {
    if !data::is_whole() {
        println!("SKIP the integer form of DTLN, which is in the whole data only: TIDEGATE_DATA_DIR is not set");
        return;
    }
    let model = model("deployed/dtln/dtln_noise_suppression.tflite");
    let of = |name: &str| integers("deployed/dtln/tflm_dtln.safetensors", name);
    matches("DTLN, stream", &model, &of("input"), &of("litert_stream"));
    matches("DTLN, golden frame", &model, &of("golden_input"), &of("litert_golden"));
}

/// Overlapping windows of `length` frames of `size` values, a frame apart.
fn windows(frames: &[i8], length: usize, size: usize) -> Vec<i8> {
    frames.windows(length * size).step_by(size).flatten().copied().collect()
}

#[test]
fn mlperf_streaming_wake_word_matches_litert_at_every_window() {
    let model = model("deployed/mlperf_streaming/str_ww_ref_model.tflite");
    let of = |name: &str| integers("deployed/mlperf_streaming/reference.safetensors", name);
    matches("MLPerf, short", &model, &windows(&of("short/input"), 30, 40), &of("short/output"));
    if data::is_whole() {
        let input = windows(&of("stream/input"), 30, 40);
        matches_in("MLPerf, stream", &[Layout::Portable], &model, &input, &of("stream/output"));
        matches("MLPerf, calibration", &model, &of("calibration/input"), &of("calibration/output"));
    }
}

/// The image of a frame has an output from the 30th frame on.
#[test]
fn mlperf_streaming_wake_word_steps_frame_by_frame_with_the_bits_of_its_windows() {
    let windowed = model("deployed/mlperf_streaming/str_ww_ref_model.tflite");
    let architecture = streamed(&windowed.architecture).unwrap();
    let model = Canonical { architecture, tensors: windowed.tensors.clone() };
    let macs = [&windowed, &model].map(|model| {
        let image = AlignedBytes::pack(model, Numeric::I8);
        image.model().nodes().map(|node| node.macs()).sum::<usize>()
    });
    assert_eq!(macs, [826_368, 46_040]);
    let of = |name: &str| integers("deployed/mlperf_streaming/reference.safetensors", name);
    let expected = of("short/output");
    matches("MLPerf, short, frame by frame", &model, &of("short/input"), &expected);
    // The word is at 1, 4 and 7 s; as published, the last one is missed.
    let is_heard = |classes: &[i8]| (f32::from(classes[0]) + 128.0) / 256.0 > 0.95;
    let heard: Vec<bool> = expected.chunks(3).map(is_heard).collect();
    let starts = (0..heard.len()).filter(|&at| heard[at] && !(at > 0 && heard[at - 1]));
    let seconds: Vec<f32> = starts.map(|at| (at + 29) as f32 * 0.032).collect();
    assert!(matches!(seconds.as_slice(), [1.0..2.5, 4.0..5.5]), "{seconds:?}");
    let entry = zoo::entry("MLPerf Tiny streaming wake word");
    assert_eq!(entry["accuracy"], "2 hits and 1 miss on its recording, as published");
    if data::is_whole() {
        matches_in("MLPerf, stream", &[Layout::Portable], &model, &of("stream/input"), &of("stream/output"));
    }
}

const WAKE_WORDS: &str = "deployed/micro_wake_word";
/// The models, of which the first ones are in the repository too, and the number of frames for each output.
const MODELS: [(&str, usize); 12] = [
    ("okay_nabu", 1),
    ("v2/okay_nabu", 3),
    ("alexa", 1),
    ("hey_jarvis", 1),
    ("v2/alexa", 3),
    ("v2/hey_jarvis", 3),
    ("v2/hey_mycroft", 3),
    ("v2/vad", 3),
    ("v2/experiments/choo_choo_homie", 3),
    ("v2/experiments/hey_home_assistant", 3),
    ("v2/experiments/hey_peppa_pig", 3),
    ("v2/experiments/okay_computer", 3),
];
/// Features of a frame.
const FEATURES: usize = 40;
/// Real value of 1 in the features of the front end.
const RAW: f32 = 0.039_062_5;

/// The features of the stream as TFLite's integers, quantized by the input of the model as the recording did: halves to
/// even. `QUANTIZE` and the ports of an image round them away from zero.
fn frames(model: &Canonical) -> Vec<i8> {
    let features = &read_tensors(&data::file(&format!("{WAKE_WORDS}/reference.safetensors"))).unwrap()["features_raw"];
    let input = &model.architecture.integers[&model.architecture.inputs[0].name];
    let integer = |raw: &f32| (raw * RAW / input.scale).round_ties_even() as i32 + input.zero_point;
    features.data.iter().map(|raw| integer(raw).clamp(-128, 127) as i8).collect()
}

/// Each step is a frame. The models of version 2 have an output at every third step.
#[test]
fn micro_wake_word_models_match_litert_at_every_step() {
    // In the repository the stream begins later, so its first outputs depend on frames that are missing there.
    let (models, unknown) = if data::is_whole() { (&MODELS[..], 0) } else { (&MODELS[..2], 210) };
    for &(name, hop) in models {
        let model = model(&format!("{WAKE_WORDS}/{name}.tflite"));
        let reference = format!("{WAKE_WORDS}/reference.safetensors");
        let (input, expected) = (frames(&model), integers(&reference, &format!("prob/{name}")));
        assert_eq!(input.len() / FEATURES / hop, expected.len(), "{name}");
        if data::is_whole() && ["v2/okay_nabu", "v2/vad"].contains(&name) {
            assert_eq!(input, integers(&reference, &format!("input/{name}")), "{name}");
        }
        for layout in Layout::ALL {
            // The whole stream in one layout, its beginning in the others.
            let steps = if layout == Layout::Portable { expected.len() } else { expected.len().min(1620 / hop) };
            let input = &input[..steps * hop * FEATURES];
            let bytes = pack_with(&model, Numeric::I8, &Ranges::default(), layout).unwrap();
            let image = AlignedBytes::new(&bytes);
            let model = image.model();
            for (on, given) in [("core", stepped(&model, input)), ("fused", fused(&FusedModel::new(&model), input))] {
                assert_eq!(given.len(), steps, "{name} in {} on {on}", layout.name());
                let differ = (unknown / hop..steps).filter(|&step| given[step] != expected[step]).count();
                assert_eq!(differ, 0, "{name} in {} on {on}: of {steps} outputs", layout.name());
            }
        }
        println!("{name}: all {} outputs are equal", expected.len());
    }
}

/// A state that is saved in the middle of a group of three frames continues at the same place.
#[test]
fn a_wake_word_goes_on_from_a_saved_state() {
    let model = model(&format!("{WAKE_WORDS}/v2/okay_nabu.tflite"));
    let input = &frames(&model)[..1501 * FEATURES];
    let image = AlignedBytes::pack(&model, Numeric::I8);
    let model = image.model();
    let whole = stepped(&model, input);
    let (first, second) = input.split_at(700 * FEATURES);
    let mut scratch = vec![0; model.scratch_words()];
    let [mut memory, mut others] = [vec![0; model.state_words()], vec![0; model.state_words()]];
    let mut state = State::new(&model, &mut memory).unwrap();
    let mut given = continued(&model, &mut state, &mut scratch, first);
    let mut saved = vec![0; state.saved_bytes()];
    state.save(&mut saved).unwrap();
    let mut state = State::new(&model, &mut others).unwrap();
    model.restore(&mut state, &saved).unwrap();
    given.extend(continued(&model, &mut state, &mut scratch, second));
    assert_eq!(given, whole);
    assert_eq!(given.len(), 500);
}
