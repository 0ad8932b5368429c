//! ESPHome's descriptions of wake words: label, front end and detector, and the models of microWakeWord from samples to
//! events.

use std::fs;

use tempfile::TempDir;
use tidegate::{Numeric, StepError};
use tidegate_model::canonical::{Mfcc, Schedule};
use tidegate_model::data::{read_audio_at, read_tensors};
use tidegate_model::load::{self, Settings};
use tidegate_model::runner::listen;
use tidegate_tests::data;

const FOLDER: &str = "deployed/micro_wake_word";
/// The models, the first two in the repository too: file, label, cutoff as a byte, number of averaged probabilities.
const MODELS: [(&str, &str, i32, u32); 12] = [
    ("okay_nabu", "Okay Nabu", 127, 10),
    ("v2/okay_nabu", "Okay Nabu", 247, 5),
    ("alexa", "Alexa", 168, 10),
    ("hey_jarvis", "Hey Jarvis", 127, 10),
    ("v2/alexa", "Alexa", 229, 5),
    ("v2/hey_jarvis", "Hey Jarvis", 247, 5),
    ("v2/hey_mycroft", "Hey Mycroft", 242, 5),
    ("v2/vad", "vad", 127, 5),
    ("v2/experiments/choo_choo_homie", "Choo Choo Homie", 247, 5),
    ("v2/experiments/hey_home_assistant", "Hey Home Assistant", 247, 5),
    ("v2/experiments/hey_peppa_pig", "Hey Peppa Pig", 247, 5),
    ("v2/experiments/okay_computer", "Okay Computer", 247, 5),
];

fn models() -> &'static [(&'static str, &'static str, i32, u32)] {
    if data::is_whole() { &MODELS } else { &MODELS[..2] }
}

/// The description completes its model, and is found from the model too.
#[test]
fn every_description_gives_its_label_front_end_and_detector() {
    for &(name, label, cutoff, mean_of) in models() {
        let file = |kind: &str| data::file(&format!("{FOLDER}/{name}.{kind}"));
        let loaded = load::canonical(&file("json"), &Settings::default()).unwrap();
        let architecture = &loaded.model.architecture;
        assert_eq!(architecture.labels, [label], "{name}");
        let step = if name.starts_with("v2") { 10 } else { 20 };
        assert_eq!(architecture.front_end, Some(Mfcc::micro_wake_word(step)), "{name}");
        assert_eq!(architecture.schedule, Schedule::Endless, "{name}");
        let detector = architecture.detector.as_ref().unwrap();
        assert_eq!((detector.mean_of, detector.labels[0].refractory_ms), (mean_of, 1500), "{name}");
        // In the middle between the last sum without an event and the next.
        let sum = detector.labels[0].threshold * 256.0 * mean_of as f32;
        assert!((sum - (cutoff * mean_of as i32) as f32 - 0.5).abs() < 0.01, "{name}: {sum}");
        let beside = load::canonical(&file("tflite"), &Settings::default()).unwrap();
        assert_eq!(beside.model.architecture, *architecture, "{name}");
        assert!(beside.notes.iter().any(|note| note.contains(".json")), "{name}: {:?}", beside.notes);
    }
}

/// From samples to probabilities and events, with the features of the front end in the integers of the model.
#[test]
fn wake_words_are_heard_from_samples_as_in_the_recording() {
    let file = |name: &str| data::file(&format!("{FOLDER}/{name}"));
    let sound = read_audio_at(&file(if data::is_whole() { "stream.flac" } else { "start.flac" }), 16_000).unwrap();
    let settings = Settings { front_end: Some("micro_wake_word".into()), ..Settings::default() };
    let recorded = read_tensors(&file("reference.safetensors")).unwrap();
    for &(name, _, cutoff, mean_of) in models() {
        let image = load::image(&file(&format!("{name}.json")), &settings, Some(Numeric::I8)).unwrap();
        let model = image.model().unwrap();
        assert!(model.integer_front_end().is_some() && model.output_scale() == 1.0 / 256.0, "{name}");
        let (mut heard, mut events) = (Vec::new(), Vec::new());
        listen::<_, StepError>(&model, model.front_end().unwrap(), [Ok(&sound.samples)], |decision| {
            events.extend(decision.event.map(|_| heard.len()));
            heard.push((decision.posteriors[0] * 256.0) as i32);
        })
        .unwrap();
        // An event occurs where ESPHome's sum exceeds its cutoff, unless another event was less than 1,500 ms before.
        let hop_ms = if name.starts_with("v2") { 30 } else { 10 };
        let mut expected: Vec<usize> = Vec::new();
        for end in mean_of as usize..=heard.len() {
            let sum: i32 = heard[end - mean_of as usize..end].iter().sum();
            if sum > cutoff * mean_of as i32 && expected.last().is_none_or(|last| (end - 1 - last) * hop_ms >= 1500) {
                expected.push(end - 1);
            }
        }
        assert_eq!(events, expected, "{name}");
        if data::is_whole() {
            let recorded = &recorded[&format!("prob/{name}")].data;
            let differ = heard.iter().zip(recorded).filter(|(a, b)| **a as f32 != **b).count();
            assert_eq!((heard.len(), differ), (recorded.len(), 0), "{name}");
        } else {
            assert_eq!(heard.len(), 663 * 10 / hop_ms, "{name}");
        }
        println!("{name}: {} probabilities, {} events", heard.len(), events.len());
    }
}

/// Everything that a wake word needs from samples to events, apart from the stack.
#[test]
fn a_wake_word_of_version_2_needs_at_most_8_kib() {
    for &(name, ..) in models() {
        let file = data::file(&format!("{FOLDER}/{name}.json"));
        let image = load::image(&file, &Settings::default(), Some(Numeric::I8)).unwrap();
        let model = image.model().unwrap();
        let front_end = model.integer_front_end().unwrap().memory_words();
        let detector = model.detector().unwrap().integer_memory_words();
        let words = [model.state_words(), model.scratch_words(), front_end, detector];
        let bytes = 4 * words.iter().sum::<usize>();
        println!(
            "{name}: {bytes} bytes: state, scratch, front end and detector have {:?}",
            words.map(|words| 4 * words)
        );
        let most = if name.starts_with("v2") { 8 << 10 } else { 12 << 10 };
        assert!(bytes <= most, "{name}: {bytes} bytes");
    }
}

#[test]
fn a_wrong_description_is_refused_by_name() {
    let folder = TempDir::new().unwrap();
    let model = data::file(&format!("{FOLDER}/v2/okay_nabu.tflite"));
    fs::copy(&model, folder.path().join("okay_nabu.tflite")).unwrap();
    let text = fs::read_to_string(model.with_extension("json")).unwrap();
    let refused = |from: &str, to: &str, file: &str| -> String {
        assert!(text.contains(from), "{from}");
        fs::write(folder.path().join("okay_nabu.json"), text.replace(from, to)).unwrap();
        load::canonical(&folder.path().join(file), &Settings::default()).map(|_| ()).unwrap_err().to_string()
    };
    for (from, to, reason) in [
        ("0.97", "2", "okay_nabu.json: has a probability_cutoff of 2; 0 to 1 are supported"),
        (
            "\"micro\",",
            "\"openwakeword\",",
            "okay_nabu.json: has the type \"openwakeword\"; only \"micro\" is supported",
        ),
        ("\"version\": 2", "\"version\": 3", "okay_nabu.json: has version 3; 1 and 2 are supported"),
        ("size\": 5", "size\": 0", "okay_nabu.json: averages 0 probabilities; 1 to 255 are supported"),
        ("size\": 10", "size\": 0", "okay_nabu.json: needs a feature_step_size of 1 to 30 milliseconds"),
        ("\"micro\": {", "\"macro\": {", "okay_nabu.json: has no \"micro\" with the settings of the detector"),
        (
            "probability_cutoff",
            "cutoff",
            "okay_nabu.json: is not a wake word of ESPHome: missing field `probability_cutoff`",
        ),
    ] {
        for file in ["okay_nabu.json", "okay_nabu.tflite"] {
            let error = refused(from, to, file);
            assert!(error.ends_with(reason), "{error}");
        }
    }
    let error = refused("okay_nabu.tflite", "other.tflite", "okay_nabu.json");
    assert!(
        error.ends_with("names the model \"other.tflite\", which is not there: put it beside this file"),
        "{error}"
    );
    // The description of another model, and a JSON file that is not a description, have no effect on a model beside them.
    fs::copy(&model, folder.path().join("other.tflite")).unwrap();
    for text in [text.replace("okay_nabu.tflite", "other.tflite"), "{}".to_owned(), "no JSON".to_owned()] {
        fs::write(folder.path().join("okay_nabu.json"), text).unwrap();
        let loaded = load::canonical(&folder.path().join("okay_nabu.tflite"), &Settings::default()).unwrap();
        assert!(loaded.model.architecture.labels.is_empty());
    }
}
