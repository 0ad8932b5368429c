//! The published keyword spotters, in integers from the samples on, on real speech: calibrated on 96 clips, measured on
//! the others.

use std::path::{Path, PathBuf};

use serde_json::json;
use tidegate::internals::cell::CellKind;
use tidegate::{Layout, Model, Numeric, Schedule, State};
use tidegate_model::backend::Engine;
use tidegate_model::canonical::{self, Canonical};
use tidegate_model::compare::Comparison;
use tidegate_model::data::{Clip, read_audio_at, read_index};
use tidegate_model::drift::Drift;
use tidegate_model::load::{self, ImageBuffer, Settings};
use tidegate_model::quantize::Ranges;
use tidegate_model::runner::{features, fit, run, score_stream, stream_features};
use tidegate_model::score::{ClipLen, StreamPlan, StreamScore, best};
use tidegate_tests::data::{self, in_parallel};
use tidegate_tests::exact::Exact;
use tidegate_tests::measured::are_near;
use tidegate_tests::tolerance::worst;

/// The models whose cells all have an integer form.
const MODELS: [&str; 4] = ["Basic_LSTM_S", "LSTM_S", "GRU_S", "CRNN_S"];
/// The calibration clips: eight training clips of each class. A part of the data has some of them.
const CALIBRATION: &str = include_str!("data/calibration.txt");
/// The other clips of the whole data. The bars count them.
const COUNTED: usize = 1584;
/// Number of clips by which floats may differ from the record: a borderline clip may fall on either side.
const F32_CLIPS: u64 = 3;
/// Number of clips by which an image that was calibrated without data may be worse than f32.
const WITHOUT_DATA: usize = 20;
/// For each numeric, the number of clips by which it may be worse than f32, and the percentage of decisions that may differ
/// from those of f32.
const BARS: [(Numeric, usize, usize); 2] = [(Numeric::I8x16, 6, 3), (Numeric::I4x16, 30, 100)];

struct Data {
    clips: Vec<Clip>,
    sounds: Vec<Vec<i16>>,
    labels: Vec<String>,
    truth: Vec<usize>,
    calibration: Vec<usize>,
}

/// The data, or `None` after printing why the test is skipped.
fn data(test: &str) -> Option<Data> {
    if cfg!(debug_assertions) {
        println!("SKIP {test}: an hour of sound takes too long without --release");
        return None;
    }
    let text = std::fs::read_to_string(shipped("labels.txt")).unwrap();
    let labels: Vec<String> = text.lines().map(str::to_owned).collect();
    let clips = read_index(&data::file("speech_commands_v2/index.csv")).unwrap();
    let sounds = in_parallel(clips.len(), |clip| read_audio_at(&clips[clip].path, 16_000).unwrap().samples);
    let truth = clips.iter().map(|clip| labels.iter().position(|label| *label == clip.label).unwrap()).collect();
    let place = |file: &str| clips.iter().position(|clip| clip.path.ends_with(file));
    let calibration: Vec<usize> = CALIBRATION.lines().filter_map(place).collect();
    assert!(calibration.len() == 96 || !data::is_whole() && calibration.len() >= 36, "{} clips", calibration.len());
    Some(Data { clips, sounds, labels, truth, calibration })
}

fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../assets/hello_edge").join(name)
}

impl Data {
    fn model(&self, name: &str) -> Canonical {
        load::canonical(&shipped(&format!("{name}.pb")), &Settings::default()).unwrap().model
    }

    /// The features of every clip, cut to the window of a model.
    fn features(&self, model: &Model<'_>) -> Vec<Vec<f32>> {
        let Schedule::Windows { frames, .. } = model.schedule() else { panic!("the model has a window") };
        let mfcc = model.front_end().unwrap();
        in_parallel(self.sounds.len(), |clip| features(mfcc, &fit(mfcc, &self.sounds[clip], frames).unwrap()).unwrap())
    }

    /// The ranges of the values in `model` on the calibration clips, of which `heard` has the features.
    fn ranges(&self, model: &Canonical, heard: &[Vec<f32>]) -> Ranges {
        let inputs: Vec<[&[f32]; 1]> = self.calibration.iter().map(|&clip| [heard[clip].as_slice()]).collect();
        Ranges::measure(model, inputs.iter().map(<[_; 1]>::as_slice)).unwrap()
    }
}

/// The decision after the last frame.
fn decide(engine: &Engine<'_>, features: &[f32]) -> usize {
    let outputs = run(engine, &[features], None).unwrap().outputs;
    best(&outputs[0][outputs[0].len() - engine.model().output_size()..])
}

#[test]
fn integer_decisions_match_those_of_floats() {
    let Some(data) = data("integer_decisions_match_those_of_floats") else { return };
    let mut measured = Vec::new();
    for name in MODELS {
        let canonical = data.model(name);
        let float = load::packed(Path::new(name), &canonical, Numeric::F32).unwrap();
        let float = float.model().unwrap();
        let heard_in_f32 = data.features(&float);
        // As on a device: the front end is in integers both for calibration and afterwards.
        let bare = load::packed(Path::new(name), &canonical, Numeric::I8x16).unwrap();
        let bare = bare.model().unwrap();
        let heard = data.features(&bare);
        // The fused kernels are faster and have the bits of the integer engine; the comparison is below.
        let decisions = |model: &Model<'_>, heard: &[Vec<f32>]| {
            let engine = Engine::fused(model);
            in_parallel(data.clips.len(), |clip| decide(&engine, &heard[clip]))
        };
        let expected = decisions(&float, &heard_in_f32);
        let counted: Vec<usize> = (0..data.clips.len()).filter(|clip| !data.calibration.contains(clip)).collect();
        let right = |got: &[usize]| counted.iter().filter(|&&clip| got[clip] == data.truth[clip]).count();
        // Calibrated on the sounds that the program carries.
        let got = decisions(&bare, &heard);
        println!("{name}: f32 has {} right, i8x16 without calibration data {}", right(&expected), right(&got));
        let lost = data::allowed(WITHOUT_DATA, COUNTED, counted.len());
        assert!(right(&got) + lost >= right(&expected), "{name}");
        let mut row = json!({"model": name, "clips": counted.len(), "f32": right(&expected)});
        // Images whose front ends are in integers too.
        let ranges = data.ranges(&canonical, &heard);
        let packed =
            |numeric, layout| load::packed_with(Path::new(name), &canonical, numeric, &ranges, layout).unwrap();
        for (numeric, lost, other_percent) in BARS {
            let image = packed(numeric, Layout::Portable);
            let integer = image.model().unwrap();
            assert_eq!(integer.front_end().unwrap().scale(), Some(integer.input_scale()));
            let got = decisions(&integer, &heard);
            let same = counted.iter().filter(|&&clip| got[clip] == expected[clip]).count();
            let percent = 100.0 * same as f64 / counted.len() as f64;
            println!(
                "{name}: of {} clips f32 has {} right, {} {}; {percent:.2} % of the decisions are the same; image {} bytes, \
                 states {} bytes, scratch {} bytes",
                counted.len(),
                right(&expected),
                numeric.name(),
                right(&got),
                image.bytes().len(),
                4 * integer.state_words(),
                4 * integer.scratch_words(),
            );
            row[numeric.name()] = right(&got).into();
            row[format!("{} as f32", numeric.name())] = same.into();
            let lost = data::allowed(lost, COUNTED, counted.len());
            assert!(right(&got) + lost >= right(&expected), "{name}");
            assert!(counted.len() - same <= data::allowed(other_percent, 100, counted.len()), "{name}");
            if name == "LSTM_S" {
                assert!(
                    4 * (integer.state_words() + integer.scratch_words()) <= 3072,
                    "five states and the scratch in 3 KiB"
                );
            }
            // The same bits with weights in another layout.
            for layout in Layout::ALL.into_iter().filter(|layout| layout.is_of(numeric)) {
                let image = packed(numeric, layout);
                let other = image.model().unwrap();
                for clip in (0..data.clips.len()).step_by(data.clips.len() / 10) {
                    let outputs = [Engine::Scalar(integer), Engine::Scalar(other), Engine::fused(&integer)]
                        .map(|engine| run(&engine, &[&heard[clip]], None).unwrap().outputs);
                    assert_eq!(outputs[0], outputs[1], "{name}, clip {clip}, {}", layout.name());
                    assert_eq!(outputs[0], outputs[2], "{name}, clip {clip}, fused");
                }
            }
        }
        measured.push(row);
    }
    if data::is_whole() {
        // Calibration runs in floats, so another CPU may choose other scales.
        let mut allowed = vec![("f32".to_owned(), F32_CLIPS)];
        for (numeric, lost, _) in BARS {
            allowed.extend([
                (numeric.name().to_owned(), lost as u64),
                (format!("{} as f32", numeric.name()), lost as u64),
            ]);
        }
        let allowed: Vec<(&str, u64)> = allowed.iter().map(|(name, most)| (name.as_str(), *most)).collect();
        are_near("hello_edge_integer", &measured.into(), &allowed);
    }
}

/// Largest share of saturated values in a layer's outputs over an hour: one in 2,000. Cell states must not saturate at
/// all. This is a requirement that was set after the first figures.
const MOST_SATURATED: f64 = 5e-4;
/// The limit with a part of the data. The share of values beyond the greatest of `n` calibration values is about `1 / n` on
/// average, with the same standard deviation; the limit allows for three of these.
const MOST_SATURATED_IN_PART: f64 = 4.0 * 96.0 * MOST_SATURATED;
/// Name and cell clip. LSTM_S and Basic_LSTM_S were trained on single seconds, and their cells accumulate: in f32 the
/// cell state of LSTM_S grows to 60,000 in an hour. The clip keeps it to the range of its windows.
const ENDLESS: [(&str, Option<f32>); 3] = [("GRU_S", None), ("LSTM_S", Some(30.0)), ("Basic_LSTM_S", Some(30.0))];
/// Largest ratio of the integers' error to the error of f32 with weights rounded to eight bits. It is a requirement, not
/// a bound: 16-bit arithmetic must not add more error than 8-bit weights alone. Two independent errors of the same size
/// give the square root of 2. If errors accumulated in a state, the ratio would grow over the hour, so the requirement
/// holds for all of it and for each ten minutes. The test of every step below finds even smaller biases.
const MOST_OF_ROUNDING: f64 = std::f64::consts::SQRT_2;

/// Minimum number of clips in the stream of an endless state. A part of the data has fewer, so its clips pass repeatedly.
const STREAMED: usize = 400;
/// Each pass starts this many samples later in each clip than the previous pass, so that frames and roundings differ.
const LATER: usize = 101;

/// A model with one endless state, and an hour of sound for it, or a quarter of it with a part of the data.
struct Endless {
    canonical: Canonical,
    float: ImageBuffer,
    /// The image in `i8x16`, calibrated on the calibration clips.
    image: ImageBuffer,
    /// The features of the hour.
    hour: Vec<f32>,
}

impl Endless {
    fn new(data: &Data, (name, clip): (&str, Option<f32>)) -> Self {
        let mut canonical = data.model(name);
        canonical.architecture.schedule = canonical::Schedule::Endless;
        if let Some(clip) = clip {
            canonical.architecture.nodes[0].params.insert("cell_clip".to_owned(), clip);
        }
        let float = load::packed(Path::new(name), &canonical, Numeric::F32).unwrap();
        let model = float.model().unwrap();
        let stream = |clips: &[usize], passes: usize| {
            let pass = |pass: usize| clips.iter().map(move |&clip| data.sounds[clip][LATER * pass..].to_vec());
            let sounds: Vec<Vec<i16>> = (0..passes).flat_map(pass).collect();
            let lengths = sounds.iter().map(|sound| ClipLen { label: String::new(), len: sound.len() });
            let plan = StreamPlan::new(&lengths.collect::<Vec<_>>(), 16_000, 0);
            stream_features(model.front_end().unwrap(), &sounds, &plan).unwrap()
        };
        let calibration = stream(&data.calibration, 1);
        let ranges = Ranges::measure(&canonical, [[calibration.as_slice()].as_slice()]).unwrap();
        let image = load::packed_with(Path::new(name), &canonical, Numeric::I8x16, &ranges, Layout::Portable).unwrap();
        let clips = data.clips.len();
        let hour = stream(&(0..clips).collect::<Vec<_>>(), STREAMED.div_ceil(clips));
        Self { canonical, float, image, hour }
    }
}

/// The model with every matrix row rounded to multiples of 1/127 of its greatest weight.
fn with_rounded_weights(model: &Canonical) -> Canonical {
    let mut model = model.clone();
    for tensor in model.tensors.values_mut().filter(|tensor| tensor.shape.len() > 1) {
        let cols = tensor.shape.last().copied().unwrap_or(1);
        for row in tensor.data.chunks_mut(cols) {
            let step = worst(row.iter().map(|weight| weight.abs())) / 127.0;
            row.iter_mut().filter(|_| step > 0.0).for_each(|weight| *weight = (*weight / step).round() * step);
        }
    }
    model
}

/// A measure over an hour: over all of it, for each ten minutes, and for the last ten, which overlap those before.
struct Hour {
    whole: f64,
    parts: Vec<f64>,
}

impl Hour {
    /// Evaluates `of` over ranges of steps, `from` to `to`.
    fn new(steps: u64, part: u64, of: impl Fn(u64, u64) -> f64) -> Self {
        let ends = (1..=steps / part).map(|index| index * part).chain([steps]);
        Self { whole: of(0, steps), parts: ends.map(|end| of(end - part, end)).collect() }
    }

    /// The whole, then the parts.
    fn all(&self) -> impl Iterator<Item = f64> {
        [self.whole].into_iter().chain(self.parts.iter().copied())
    }

    fn text(&self) -> String {
        let percent = |part: &f64| format!("{:.2}", 100.0 * part);
        let parts: Vec<String> = self.parts.iter().map(percent).collect();
        format!(
            "{} % in all, {} % ten minutes by ten minutes and in the last ten",
            percent(&self.whole),
            parts.join(" ")
        )
    }
}

#[test]
fn an_hour_of_one_state_neither_drifts_nor_saturates() {
    let Some(data) = data("an_hour_of_one_state_neither_drifts_nor_saturates") else { return };
    let in_part = MOST_SATURATED_IN_PART / data.calibration.len() as f64;
    let most_saturated = if data::is_whole() { MOST_SATURATED } else { in_part };
    let done = in_parallel(ENDLESS.len(), |model| {
        let name = ENDLESS[model].0;
        let Endless { canonical, float, image, hour } = Endless::new(&data, ENDLESS[model]);
        let rounded = load::packed(Path::new(name), &with_rounded_weights(&canonical), Numeric::F32).unwrap();
        let (float, rounded, image) = (float.model().unwrap(), rounded.model().unwrap(), image.model().unwrap());
        let mfcc = float.front_end().unwrap();
        let settings = mfcc.settings();
        let ten_minutes = 600 * u64::from(settings.sample_rate) / u64::from(settings.stride_len);
        let decided = |model: &Model<'_>| {
            let outputs = run(Engine::fused(model), &[&hour], None).unwrap().outputs;
            outputs[0].chunks(model.output_size()).map(best).collect::<Vec<usize>>()
        };
        let expected = decided(&float);
        // The relative error of each layer and state against floats, and the share of decisions that differ.
        let measured = |model: &Model<'_>| {
            let drift = Drift::run(Engine::fused(model), Engine::fused(&float), &[vec![hour.clone()]]).unwrap();
            let steps = drift.whole.steps;
            assert!(steps > ten_minutes * if data::is_whole() { 5 } else { 1 }, "{steps} steps are too few");
            let mut hours: Vec<(String, Hour)> = drift
                .names()
                .enumerate()
                .map(|(index, of)| {
                    let relative = |from: u64, to: u64| {
                        let (distance, signal) = drift.distance(index, from, to);
                        distance / signal
                    };
                    (of.to_owned(), Hour::new(steps, ten_minutes, relative))
                })
                .collect();
            let got = decided(model);
            let other = |from: u64, to: u64| {
                let (from, to) = (from as usize, to as usize);
                let other = got[from..to].iter().zip(&expected[from..to]).filter(|(got, expected)| got != expected);
                other.count() as f64 / (to - from) as f64
            };
            hours.push(("decisions".to_owned(), Hour::new(steps, ten_minutes, other)));
            (hours, drift.whole)
        };
        let (integers, Comparison { inputs, layers, states, .. }) = measured(&image);
        let counters =
            inputs.iter().chain(&layers).map(|of| (of, most_saturated)).chain(states.iter().map(|of| (of, 0.0)));
        let counters = counters.map(|(of, most)| (of.name.clone(), of.saturated, of.values, most)).collect::<Vec<_>>();
        (name, counters, integers, measured(&rounded).0)
    });
    for (name, _, integers, rounded) in &done {
        for ((of, integers), (_, rounded)) in integers.iter().zip(rounded) {
            println!("{name} {of}: {} from f32; with rounded weights alone {}", integers.text(), rounded.text());
        }
    }
    for (name, counters, integers, rounded) in done {
        for (of, saturated, values, most) in counters {
            println!("{name} {of}: {saturated} of {values} at an end of 16 bits");
            assert!(saturated as f64 <= most * values as f64, "{name} {of}");
        }
        for ((of, integers), (_, rounded)) in integers.iter().zip(&rounded) {
            for (integers, rounded) in integers.all().zip(rounded.all()) {
                assert!(integers <= MOST_OF_ROUNDING * rounded, "{name} {of}: {integers}, rounded weights {rounded}");
            }
        }
    }
}

/// Probability that unbiased roundings make a test below fail.
const CHANCE: f64 = 1e-6;
/// The signed errors of one unit over many steps, and their possible size.
#[derive(Clone, Debug, Default)]
struct Errors {
    steps: usize,
    sum: f64,
    /// The largest possible sum of errors in the current part, and the sum of its squares over all previous parts.
    part: f64,
    squares: f64,
}

impl Errors {
    fn add(&mut self, error: f64, far: f64) {
        self.steps += 1;
        self.sum += error;
        self.part += far;
    }

    fn end_part(&mut self) {
        self.squares += self.part * self.part;
        self.part = 0.0;
    }

    fn mean(&self) -> f64 {
        self.sum / self.steps as f64
    }

    /// The bound that the mean of unbiased errors exceeds with probability `CHANCE` in `tests` tests: Hoeffding's
    /// inequality for the sums of independent parts.
    fn most(&self, tests: usize) -> f64 {
        (2.0 * (2.0 * tests as f64 / CHANCE).ln() * self.squares).sqrt() / self.steps as f64
    }
}

/// Computes each step of an hour twice from the integers' state: in integers, and without roundings. If the mean
/// difference were not zero, it would accumulate in the state. Parts of two seconds, a clip and the noise behind it,
/// have independent roundings; within a part all errors may have the same sign.
#[test]
fn no_rounding_is_biased_over_an_hour_of_one_state() {
    let Some(data) = data("no_rounding_is_biased_over_an_hour_of_one_state") else { return };
    let done = in_parallel(ENDLESS.len(), |model| {
        let Endless { image, hour, .. } = Endless::new(&data, ENDLESS[model]);
        let model = image.model().unwrap();
        let node = model.nodes().next().unwrap();
        let (exact, scale) = (Exact::new(&node), model.input_scale());
        let settings = model.front_end().unwrap().settings();
        let part = 2 * settings.sample_rate as usize / settings.stride_len as usize;
        let (mut memory, mut scratch) = (vec![0; model.state_words()], vec![0; model.scratch_words()]);
        let mut state = State::new(&model, &mut memory).unwrap();
        let mut output = vec![0; model.output_size()];
        let mut errors = vec![Errors::default(); exact.units()];
        // The same errors if the exact update were rounded down.
        let mut planted = errors.clone();
        let carried = if node.kind == CellKind::Lstm { node.padded_output() } else { 0 };
        for (index, frame) in hour.chunks(model.input_size()).enumerate() {
            let x: Vec<i16> = frame.iter().map(|&x| (x / scale).round().clamp(-32767.0, 32767.0) as i16).collect();
            let before = state.values_i16().to_vec();
            let expected = exact.step(&x, &before[..node.output_size], &before[carried..][..exact.units()]);
            assert!(model.step_i16(&mut state, &mut scratch, &x, &mut output).unwrap().has_output());
            let after = &state.values_i16()[carried..];
            for (((errors, planted), expected), &got) in errors.iter_mut().zip(&mut planted).zip(expected).zip(after) {
                // Clipping is not rounding, so clipped values are left out.
                if expected.value.abs() + 1.0 < exact.clip.min(32767.0) {
                    errors.add(f64::from(got) - expected.value, expected.far);
                    planted.add(expected.value.floor() - expected.value, expected.far);
                }
            }
            if (index + 1) % part == 0 {
                errors.iter_mut().chain(&mut planted).for_each(Errors::end_part);
            }
        }
        errors.iter_mut().chain(&mut planted).for_each(Errors::end_part);
        (errors, planted)
    });
    let tests = done.iter().map(|(errors, _)| errors.len()).sum();
    for ((name, _), (errors, planted)) in ENDLESS.iter().zip(done) {
        let most = |of: &dyn Fn(&Errors) -> f64| worst(errors.iter().map(of));
        let shown = planted.iter().filter(|planted| planted.mean().abs() > planted.most(tests)).count();
        println!(
            "{name}: the mean error of a step is {:.4} of a unit at most, roundings without a bias allow {:.4} to {:.4}; rounding \
             down shows in {shown} of {} units",
            most(&|errors| errors.mean().abs()),
            errors.iter().map(|errors| errors.most(tests)).fold(f64::MAX, f64::min),
            most(&|errors| errors.most(tests)),
            errors.len(),
        );
        for (unit, errors) in errors.iter().enumerate() {
            let (mean, most) = (errors.mean(), errors.most(tests));
            assert!(mean.abs() <= most, "{name}, unit {unit}: the mean error is {mean}, at most {most}");
        }
        // A single unit would suffice.
        assert!(2 * shown > errors.len(), "{name}: rounding down does not show");
    }
}

#[test]
fn an_integer_stream_is_recognized() {
    let Some(data) = data("an_integer_stream_is_recognized") else { return };
    let canonical = data.model("GRU_S");
    let bare = load::packed(Path::new("GRU_S"), &canonical, Numeric::I8x16).unwrap();
    let heard = data.features(&bare.model().unwrap());
    let ranges = data.ranges(&canonical, &heard);
    let image = load::packed_with(Path::new("GRU_S"), &canonical, Numeric::I8x16, &ranges, Layout::Portable).unwrap();
    let model = image.model().unwrap();
    let clips: Vec<ClipLen> = data
        .clips
        .iter()
        .zip(&data.sounds)
        .map(|(clip, sound)| ClipLen { label: clip.label.clone(), len: sound.len() })
        .collect();
    let scores = in_parallel(3, |seed| {
        let plan = StreamPlan::new(&clips, 16_000, seed as u64);
        score_stream(&Engine::fused(&model), model.front_end().unwrap(), &data.sounds, &plan, &data.labels, &|| {})
            .unwrap()
    });
    for (seed, score) in scores.into_iter().enumerate() {
        let StreamScore { keywords, right, wrong, false_alarms_per_hour, .. } = score;
        let percent = |count: usize| 100.0 * count as f64 / keywords as f64;
        println!(
            "GRU_S i8x16, seed {seed}: {:.2} % right, {:.2} % wrong, {false_alarms_per_hour:.1} false alarms an hour",
            percent(right),
            percent(wrong)
        );
        // At least 83 % right and at most 4 % wrong.
        assert!(keywords - right <= data::allowed(17, 100, keywords), "seed {seed}");
        assert!(wrong <= data::allowed(4, 100, keywords), "seed {seed}");
    }
}
