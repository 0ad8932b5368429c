//! Mycroft Precise's wake-word models from their own files, compared with sonopy and TensorFlow (`precise/` of the data
//! folder): from features, from sound, and as a stream.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tidegate::front_end::MfccSettings;
use tidegate::{Numeric, Schedule, StepError};
use tidegate_model::backend::Engine;
use tidegate_model::canonical::{Mfcc, Tensor};
use tidegate_model::data::{read_audio_at, read_index, read_tensors};
use tidegate_model::load::{self, ImageBuffer, Labels, Settings};
use tidegate_model::runner::{classify, clip_features, features, listen, run, score_stream};
use tidegate_model::score::{ClipLen, StreamPlan, StreamScore};
use tidegate_tests::tolerance::worse;
use tidegate_tests::{data, oracle};

const MODELS: [&str; 2] = ["marvin", "sheila"];
/// Largest allowed difference from TensorFlow's output, from its features and from sound.
const FROM_FEATURES: f32 = 1e-5;
const FROM_AUDIO: f32 = 1e-4;
/// Frames in a window, and features in a frame.
const FRAMES: usize = 29;
const FEATURES: usize = 13;

/// Prints why a test of an hour of sound is skipped, if it is.
fn is_too_long(test: &str) -> bool {
    if cfg!(debug_assertions) {
        println!("SKIP {test}: an hour of sound takes too long without --release");
    }
    cfg!(debug_assertions)
}

/// Row k of each tensor belongs to clip k, even where the tensor `clip` states another index: the first coefficients of
/// the features are the energies of clip k.
fn reference() -> BTreeMap<String, Tensor> {
    read_tensors(&data::file("precise/reference.safetensors")).unwrap()
}

/// The clips of the index with their words.
fn clips() -> Vec<(Vec<i16>, String)> {
    let index = data::file("speech_commands_v2/index.csv");
    let words = std::fs::read_to_string(&index).unwrap();
    let words = words.lines().skip(1).map(|line| line.split(',').nth(2).unwrap().to_owned());
    let sound = |path: &Path| read_audio_at(path, 16_000).unwrap().samples;
    read_index(&index).unwrap().iter().map(|clip| sound(&clip.path)).zip(words).collect()
}

fn file(name: &str) -> PathBuf {
    data::file(&format!("precise/{name}.pb"))
}

/// A model with a front end and its word as the only label.
fn image(name: &str) -> ImageBuffer {
    let labels = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(labels.path(), name).unwrap();
    let (labels, front_end) = (Labels::File(labels.path().to_owned()), Some("precise".into()));
    let settings = Settings { labels, front_end, ..Settings::default() };
    load::image(&file(name), &settings, Some(Numeric::F32)).unwrap()
}

#[test]
fn wake_words_are_recognized_in_features_as_by_tensorflow() {
    let reference = reference();
    for name in MODELS {
        let image = load::image(&file(name), &Settings::default(), Some(Numeric::F32)).unwrap();
        let model = image.model().unwrap();
        let features = &reference["features"];
        let windows = features.shape[0];
        assert_eq!(features.shape, [windows, FRAMES, FEATURES]);
        let expected = &reference[&format!("prob/{name}")].data;
        let mut worst = 0.0_f32;
        for (window, expected) in features.data.chunks(FRAMES * FEATURES).zip(expected) {
            let outputs = run(&model.endless(), &[window], None).unwrap().outputs.swap_remove(0);
            worst = worse(worst, (outputs[FRAMES - 1] - expected).abs());
        }
        println!("{name}: worst error {worst:.2e} over {windows} windows");
        assert!(worst <= FROM_FEATURES, "{name}: {worst:e}");
    }
}

/// Every feature and the reference are within the f32 error bound of the formulas (`oracle::front_end`), computed for
/// each frame, and within 1e-5 of each other.
#[test]
fn features_match_those_of_sonopy() {
    let (front_end, _) = Mfcc::named("precise").unwrap();
    let settings = MfccSettings::from(&front_end);
    let image = image(MODELS[0]);
    let model = image.model().unwrap();
    let mfcc = model.front_end().unwrap();
    assert_eq!(mfcc.settings(), &settings);
    let (mut worst, mut nearest, mut loosest) = (0.0_f32, 0.0_f64, 0.0_f64);
    let reference = &reference()["features"];
    for ((sound, _), expected) in clips().iter().zip(reference.data.chunks(FRAMES * FEATURES)) {
        let got = clip_features(mfcc, sound).unwrap();
        let (got, expected) = (got.as_chunks::<FEATURES>().0, expected.as_chunks::<FEATURES>().0);
        let missing = FRAMES - sound.len().saturating_sub(800) / 800;
        assert_eq!((got.len(), &got[..missing]), (FRAMES, &expected[..missing]));
        assert_eq!(got[..missing].as_flattened(), vec![0.0; missing * FEATURES]);
        for (frame, (got, expected)) in got.iter().zip(expected).skip(missing).enumerate() {
            let exact = oracle::front_end::features(&settings, &sound[800 * frame..][..1600]);
            for ((&got, &expected), exact) in got.iter().zip(expected).zip(&exact) {
                let off = |computed: f32| (f64::from(computed) - exact.value).abs();
                assert!(off(expected) <= exact.error, "sonopy's {expected} is not {exact:?}");
                assert!(off(got) <= exact.error, "frame {frame}: {got} is not {exact:?}");
                worst = worse(worst, (got - expected).abs());
                (nearest, loosest) = (worse(nearest, off(got) / exact.error), worse(loosest, exact.error));
            }
        }
    }
    println!(
        "{} clips: worst error of a feature {worst:.2e}; at most {:.1} % of its bound, bounds up to {loosest:.1e}",
        reference.shape[0],
        100.0 * nearest
    );
    assert!(worst <= 1e-5, "{worst:e}");
}

#[test]
fn wake_words_are_recognized_in_sound_as_by_tensorflow() {
    if is_too_long("wake_words_are_recognized_in_sound_as_by_tensorflow") {
        return;
    }
    let (clips, reference) = (clips(), reference());
    for name in MODELS {
        let image = image(name);
        let model = image.model().unwrap();
        assert_eq!(model.schedule(), Schedule::Windows { frames: FRAMES as u32, every: 1 });
        let expected = &reference[&format!("prob/{name}")].data;
        assert_eq!(expected.len(), clips.len());
        let (mut worst, mut told_apart) = (0.0_f32, 0);
        for ((sound, word), expected) in clips.iter().zip(expected) {
            let [output] = classify(&model, model.front_end().unwrap(), sound).unwrap()[..] else {
                panic!("the model has one output")
            };
            worst = worse(worst, (output - expected).abs());
            told_apart += usize::from((output > 0.5) == (word == name));
        }
        println!(
            "{name}: worst error {worst:.2e} from the sound of {} clips, {told_apart} of them classified correctly",
            clips.len()
        );
        assert!(worst <= FROM_AUDIO, "{name}: {worst:e}");
        assert_eq!(told_apart, clips.len());
    }
}

/// A stream that is pushed in blocks of any length makes every decision bit for bit as the window alone does, with
/// leading zeros if the stream is shorter than the window. Windows that start less often make the same decisions where
/// they end.
#[test]
fn a_stream_decides_as_each_window_alone_does() {
    let sound: Vec<i16> = clips().iter().take(6).flat_map(|(sound, _)| sound.clone()).collect();
    for name in MODELS {
        let image = image(name);
        let model = image.model().unwrap();
        let mfcc = model.front_end().unwrap();
        let rows = features(mfcc, &sound).unwrap();
        let windows: Vec<&[f32]> = rows.windows(FRAMES * FEATURES).step_by(FEATURES).collect();
        let alone = windows
            .iter()
            .map(|window| run(&model.endless(), &[window], None).unwrap().outputs[0][FRAMES - 1].to_bits());
        let alone: Vec<u32> = alone.collect();
        assert_eq!(alone.len(), (sound.len() - 1600) / 800 + 1);
        for (every, block) in [(1, sound.len()), (1, 37), (1, 1024), (2, 1600), (3, 800), (29, 5000)] {
            let schedule = Schedule::Windows { frames: FRAMES as u32, every };
            let model = model.with_schedule(schedule).unwrap();
            let (mut decisions, mut nth) = (Vec::new(), 0..);
            listen(&model, mfcc, sound.chunks(block).map(Ok::<_, StepError>), |decision| {
                let heard = 1600 + 800 * u64::from(every) * nth.next().unwrap();
                assert_eq!(decision.sample, heard, "every {every}");
                decisions.push(decision.posteriors[0].to_bits());
            })
            .unwrap();
            assert!(
                decisions.iter().eq(alone.iter().step_by(every as usize)),
                "{name}: every {every}, blocks of {block}"
            );
        }
    }
}

/// All clips as one stream, in three different orders: 11 wake words among the others, 1,669 in the whole data.
#[test]
fn wake_words_are_recognized_in_an_hour_of_other_words() {
    if is_too_long("wake_words_are_recognized_in_an_hour_of_other_words") {
        return;
    }
    let clips = clips();
    let sounds: Vec<Vec<i16>> = clips.iter().map(|(sound, _)| sound.clone()).collect();
    // The least number of words found, of 4 and 7 in the index, and the most false alarms in all three streams. No published
    // figures exist: these numbers were measured first, and the test fails if a change makes them worse. Precise's own outputs
    // are compared in the tests above.
    for (name, least_right, most_alarms) in [("marvin", 2, 1), ("sheila", 7, 0)] {
        let image = image(name);
        let model = image.model().unwrap();
        let lens = clips.iter().map(|(sound, word)| {
            let label = if word == name { name } else { "_other_" };
            ClipLen { label: label.to_owned(), len: sound.len() }
        });
        let lens: Vec<ClipLen> = lens.collect();
        let mut alarms = 0;
        for seed in 0..3 {
            let plan = StreamPlan::new(&lens, 16_000, seed);
            let labels = [name.to_owned()];
            let score =
                score_stream(&Engine::fused(&model), model.front_end().unwrap(), &sounds, &plan, &labels, &|| {})
                    .unwrap();
            let StreamScore { keywords, right, missed, false_alarms, seconds, .. } = score;
            println!(
                "{name}, seed {seed}, {:.1} minutes: {right} of {keywords} right, {missed} missed, {false_alarms} false alarms",
                seconds / 60.0
            );
            assert!(right >= least_right, "{name}, seed {seed}");
            alarms += false_alarms;
        }
        assert!(alarms <= most_alarms, "{name}: {alarms} false alarms");
    }
}
