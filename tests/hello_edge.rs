//! The published keyword spotters on real speech: clip by clip as accurate as in TensorFlow, and good enough on a
//! stream. The reference is TensorFlow 2.21 running the same frozen graphs (`hello_edge/` of the data folder).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde_json::json;
use tidegate::{Model, Numeric, Schedule};
use tidegate_model::backend::Engine;
use tidegate_model::canonical::{Canonical, Port, Tensor};
use tidegate_model::data::{read_audio_at, read_index, read_index_splits, read_tensors};
use tidegate_model::format;
use tidegate_model::load::{self, ImageBuffer, Settings};
use tidegate_model::runner::{classify, features, fit, run, score_stream};
use tidegate_model::score::{ClipLen, StreamPlan, StreamScore, best};
use tidegate_tests::data::{self, in_parallel};
use tidegate_tests::measured::{are_near, is_recorded, recorded};
use tidegate_tests::tolerance;

const MODELS: [&str; 4] = ["Basic_LSTM_S", "LSTM_S", "GRU_S", "CRNN_S"];
/// Largest allowed difference from TensorFlow's count of correct clips, in 1,680 clips. A borderline clip may fall on
/// either side.
const F32_CLIPS: usize = 3;
const F16_CLIPS: usize = 8;
/// Largest logit error in f32 from audio. TensorFlow's features differ from Tidegate's in their last bits; its cells hardly
/// differ at all.
const FROM_AUDIO: f32 = 2e-3;
const FROM_FEATURES: f32 = 1e-4;

/// The data of all tests, read once.
struct Data {
    labels: Vec<String>,
    sounds: Vec<Vec<i16>>,
    /// The label of each clip, as an index into the models' labels.
    truth: Vec<usize>,
    reference: BTreeMap<String, Tensor>,
}

/// The data, or `None` after printing why the test is skipped.
fn data(test: &str) -> Option<&'static Data> {
    static DATA: OnceLock<Data> = OnceLock::new();
    if cfg!(debug_assertions) {
        println!("SKIP {test}: an hour of sound takes too long without --release");
        return None;
    }
    Some(DATA.get_or_init(Data::read))
}

impl Data {
    fn read() -> Self {
        let text = std::fs::read_to_string(shipped("labels.txt")).unwrap();
        let labels: Vec<String> = text.lines().map(str::to_owned).collect();
        let clips = read_index(&data::file("speech_commands_v2/index.csv")).unwrap();
        let sounds = in_parallel(clips.len(), |clip| read_audio_at(&clips[clip].path, 16_000).unwrap().samples);
        let number = |label| labels.iter().position(|other| other == label).unwrap();
        let truth: Vec<usize> = clips.iter().map(|clip| number(&clip.label)).collect();
        let reference = read_tensors(&data::file("hello_edge/reference.safetensors")).unwrap();
        assert!(reference["label"].data.iter().map(|&label| label as usize).eq(truth.iter().copied()));
        Self { labels, sounds, truth, reference }
    }

    /// The number of clips whose label has the greatest of its logits or posteriors.
    fn right<'a>(&self, rows: impl Iterator<Item = &'a [f32]>) -> usize {
        rows.zip(&self.truth).filter(|(row, truth)| best(row) == **truth).count()
    }

    fn logits(&self, model: &str) -> Vec<&[f32]> {
        self.reference[&format!("logits/{model}")].data.chunks(self.labels.len()).collect()
    }

    /// TensorFlow's features of each clip, cut to the window of `model`, with the index of the clip.
    fn features(&self, model: &Model<'_>) -> Vec<(usize, &[f32])> {
        let stride = model.front_end().unwrap().settings().stride_len;
        let Tensor { shape, data } = &self.reference[&format!("mfcc/stride{stride}")];
        let clips = self.reference["mfcc_clip"].data.iter().map(|&clip| clip as usize);
        let Schedule::Windows { frames, .. } = model.schedule() else { panic!("the model has a window") };
        // A kernel with a stride of two frames never reads the 49th.
        let seen = data.chunks(shape[1] * shape[2]).map(|clip| &clip[..frames as usize * shape[2]]);
        clips.zip(seen).collect()
    }
}

fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../assets/hello_edge").join(name)
}

fn file(model: &str) -> PathBuf {
    shipped(&format!("{model}.pb"))
}

fn image(model: &str, numeric: Numeric) -> ImageBuffer {
    load::image(&file(model), &Settings::default(), Some(numeric)).unwrap()
}

/// Logits and posteriors after the last frame.
fn outcome(engine: &Engine<'_>, features: &[f32]) -> (Vec<f32>, Vec<f32>) {
    let sequence = run(engine, &[features], None).unwrap();
    let last = |rows: &[f32]| rows[rows.len() - engine.model().output_size()..].to_vec();
    let [.., logits, _softmax] = &sequence.layers[..] else { panic!("there is a layer before the softmax") };
    (last(logits), last(&sequence.outputs[0]))
}

/// The greatest difference.
fn worst<'a>(pairs: impl Iterator<Item = (&'a [f32], &'a [f32])>) -> f32 {
    let differences = pairs.flat_map(|(got, expected)| {
        assert_eq!(got.len(), expected.len());
        got.iter().zip(expected).map(|(got, expected)| (got - expected).abs())
    });
    tolerance::worst(differences)
}

#[test]
fn clips_are_classified_as_tensorflow_classifies_them() {
    let Some(data) = data("clips_are_classified_as_tensorflow_classifies_them") else { return };
    let clips = data.sounds.len();
    let mut measured = Vec::new();
    for name in MODELS {
        let full = image(name, Numeric::F32);
        let full = full.model().unwrap();
        let Schedule::Windows { frames, .. } = full.schedule() else { panic!("{name} has a window") };
        let mfcc = full.front_end().unwrap();
        let clip_features =
            in_parallel(clips, |clip| features(mfcc, &fit(mfcc, &data.sounds[clip], frames).unwrap()).unwrap());
        let reference = data.logits(name);
        assert_eq!(reference.len(), clips);
        let expected = data.right(reference.iter().copied());
        let mut row = json!({"model": name, "clips": clips, "tensorflow": expected});
        for (numeric, margin) in [(Numeric::F32, F32_CLIPS), (Numeric::F16, F16_CLIPS)] {
            let (image, margin) = (image(name, numeric), data::allowed(margin, 1680, clips));
            let model = image.model().unwrap();
            // One clip in eight runs on the engine of a microcontroller, the others on the fused kernels. These are faster, and
            // `fused.rs` compares them with that engine.
            let engines = [Engine::Scalar(model), Engine::fused(&model)];
            let engine = |clip: usize| &engines[usize::from(!clip.is_multiple_of(8))];
            let outcomes = in_parallel(clips, |clip| outcome(engine(clip), &clip_features[clip]));
            let correct = data.right(outcomes.iter().map(|(_, posteriors)| &posteriors[..]));
            let numeric = numeric.name();
            row[numeric] = correct.into();
            let from_audio = worst(outcomes.iter().zip(&reference).map(|((logits, _), row)| (&logits[..], *row)));
            let heard = data.features(&model);
            let computed = in_parallel(heard.len(), |k| outcome(engine(k), heard[k].1).0);
            let rows = computed.iter().zip(&heard).map(|(logits, (clip, _))| (&logits[..], reference[*clip]));
            let from_features = worst(rows);
            println!(
                "{name} {numeric}: {correct} of {clips} right, TensorFlow {expected}; worst logit error {from_audio:.2e} \
                 from audio, {from_features:.2e} from its features of {} clips",
                heard.len()
            );
            assert!(correct.abs_diff(expected) <= margin, "{name} {numeric}: {correct}, not {expected} ± {margin}");
            if model.numeric() == Numeric::F32 {
                assert!(from_audio <= FROM_AUDIO, "{name}: {from_audio:e} from audio");
                assert!(from_features <= FROM_FEATURES, "{name}: {from_features:e} from features");
            }
        }
        measured.push(row);
    }
    if data::is_whole() {
        are_near("hello_edge", &measured.into(), &[("f32", F32_CLIPS as u64), ("f16", F16_CLIPS as u64)]);
    }
}

/// The streaming convolution of CRNN_S and the same convolution over a whole clip are bit-identical, row by row, and so
/// are all layers behind it.
#[test]
fn a_streaming_convolution_equals_one_over_the_whole_clip() {
    let Some(data) = data("a_streaming_convolution_equals_one_over_the_whole_clip") else { return };
    let streaming = format::import(&file("CRNN_S")).unwrap();
    let Schedule::Windows { frames, .. } = image("CRNN_S", Numeric::F32).model().unwrap().schedule() else {
        panic!("the model has a window")
    };
    let (frames, rows) = (frames as usize, (frames as usize - 10) / 2 + 1);
    let mut whole = streaming.clone();
    let mut conv = whole.architecture.nodes.remove(1);
    conv.inputs = vec![whole.architecture.inputs[0].name.clone()];
    whole.architecture.inputs[0].size = frames * 10;
    (conv.input_size, conv.output_size) = (frames * 10, rows * 192);
    conv.extents.extend([("in_height".to_owned(), frames), ("out_height".to_owned(), rows)]);
    whole.architecture.outputs[0] =
        Port { name: "conv".into(), size: rows * 192, from: "conv".into(), ..Port::default() };
    (whole.architecture.nodes, whole.architecture.front_end) = (vec![conv], None);
    whole.architecture.schedule = tidegate_model::canonical::Schedule::Endless;
    whole.architecture.labels.clear();
    whole.tensors.retain(|name, _| name.starts_with("conv."));
    let image_of = |model: &Canonical| load::packed(Path::new("CRNN_S.pb"), model, Numeric::F32).unwrap();
    let (streaming, whole) = (image_of(&streaming), image_of(&whole));
    let (streaming, whole) = (streaming.model().unwrap(), whole.model().unwrap());
    for (clip, features) in data.features(&streaming) {
        let streamed = run(&streaming.endless(), &[features], None).unwrap().layers.swap_remove(1);
        let at_once = run(&whole, &[features], None).unwrap().layers.swap_remove(0);
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<u32>>();
        assert_eq!(streamed.len(), rows * 192);
        assert_eq!(bits(&streamed), bits(&at_once), "clip {clip}");
    }
}

#[test]
fn a_windowed_stream_is_recognized_and_an_endless_state_is_not() {
    let Some(data) = data("a_windowed_stream_is_recognized_and_an_endless_state_is_not") else { return };
    let image = image("GRU_S", Numeric::F32);
    let model = image.model().unwrap();
    assert_eq!(model.schedule(), Schedule::Windows { frames: 25, every: 6 });
    let clips: Vec<ClipLen> = data
        .sounds
        .iter()
        .zip(&data.truth)
        .map(|(sound, &truth)| ClipLen { label: data.labels[truth].clone(), len: sound.len() })
        .collect();
    // Hours of sound would take minutes on the engine of a microcontroller, with which `fused.rs` compares the fused kernels.
    let windows = Engine::fused(&model);
    let endless = windows.endless();
    let mut runs: Vec<(u64, &str, &Engine<'_>)> = (0..5).map(|seed| (seed, "windows", &windows)).collect();
    runs.push((0, "endless", &endless));
    let scores = in_parallel(runs.len(), |k| {
        let (seed, _, engine) = runs[k];
        let plan = StreamPlan::new(&clips, 16_000, seed);
        score_stream(engine, model.front_end().unwrap(), &data.sounds, &plan, &data.labels, &|| {}).unwrap()
    });
    let (mut measured, mut most) = (Vec::new(), 0);
    for ((seed, schedule, _), score) in runs.into_iter().zip(scores) {
        let StreamScore { keywords, right, wrong, missed, seconds, false_alarms, false_alarms_per_hour, .. } = score;
        most = data::allowed(1, 100, keywords) as u64;
        measured.push(json!({
            "schedule": schedule, "seed": seed, "minutes": (seconds / 60.0).round() as u64, "keywords": keywords,
            "right": right, "wrong": wrong, "false_alarms": false_alarms,
        }));
        let percent = |count: usize| 100.0 * count as f64 / keywords as f64;
        println!(
            "GRU_S {schedule}, seed {seed}, {:.1} minutes: {:.2} % right, {:.2} % wrong, {:.2} % missed, \
             {false_alarms_per_hour:.1} false alarms an hour",
            seconds / 60.0,
            percent(right),
            percent(wrong),
            percent(missed)
        );
        if schedule == "windows" {
            // At least 84 % right and at most 4 % wrong.
            assert!(keywords - right <= data::allowed(16, 100, keywords), "seed {seed}");
            assert!(wrong <= data::allowed(4, 100, keywords), "seed {seed}");
        } else {
            assert!(percent(right) < 60.0, "the schedule makes no difference: the windows are not used");
        }
    }
    if data::is_whole() {
        // An event near its threshold may fall on either side: at most one in a hundred.
        are_near("hello_edge_streams", &measured.into(), &[("right", most), ("wrong", most), ("false_alarms", most)]);
    }
}

/// The shipped image, which `tidegate-gpu train` trained, on the clips of speakers that it was not trained on.
#[test]
fn the_shipped_keywords_are_as_accurate_as_recorded() {
    let Some(data) = data("the_shipped_keywords_are_as_accurate_as_recorded") else { return };
    let bytes = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../assets/keywords/keywords.tgi")).unwrap();
    let image = ImageBuffer::new(&bytes);
    let model = image.model().unwrap();
    let labels: Vec<&str> = model.labels().collect();
    let index = read_index_splits(&data::file("speech_commands_v2/index.csv")).unwrap();
    let held_out: Vec<usize> = (0..index.len()).filter(|&clip| index[clip].1 == "dev").collect();
    let decided = in_parallel(held_out.len(), |k| {
        let clip = held_out[k];
        let posteriors = classify(&model, model.front_end().unwrap(), &data.sounds[clip]).unwrap();
        labels[best(&posteriors)] == data.labels[data.truth[clip]]
    });
    let right = decided.into_iter().filter(|&is_right| is_right).count();
    if data::is_whole() {
        is_recorded("keywords", &json!({"held_out": held_out.len(), "right": right, "bytes": bytes.len()}));
    } else {
        let of = |name: &str| recorded("keywords")[name].as_u64().unwrap() as usize;
        let most = data::allowed(of("held_out") - of("right"), of("held_out"), held_out.len());
        assert!(!held_out.is_empty() && held_out.len() - right <= most, "{right} of {} are right", held_out.len());
    }
}
