//! TFLite models that are in devices, from their authors' files: LiteRT's recorded integers at every step.

use std::fs;

use tidegate::{Layout, Numeric};
use tidegate_fused::FusedModel;
use tidegate_model::canonical::{Canonical, Tensor};
use tidegate_model::data::read_tensors;
use tidegate_model::format::import_bytes_with;
use tidegate_model::pack::pack_with;
use tidegate_model::quantize::Ranges;
use tidegate_tests::data;
use tidegate_tests::images::AlignedBytes;
use tidegate_tests::import::ALONE;
use tidegate_tests::tflite::{fused, stepped};

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
