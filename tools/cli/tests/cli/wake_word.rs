//! Mycroft Precise's wake words with the built binary, as described in docs/tf1_graph.md. Reference:
//! `precise/` of the data folder.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tidegate_model::canonical::Tensor;
use tidegate_model::data::{read_audio_at, read_tensors};
use tidegate_model::score::{ClipLen, Event, Piece, StreamPlan, StreamScore, score};
use tidegate_tests::data;

use super::{Workplace, gru_pb};

const RATE: u32 = 16_000;
/// The greatest number of clips of the other words in the stream.
const OTHERS: usize = 210;

#[test]
fn a_front_end_is_a_name_or_a_file() {
    let here = Workplace::new();
    let pack =
        |front_end: &'static str| ["pack", &gru_pb(), "-o", "x.tgi", "--front-end", front_end].map(str::to_owned);
    let refuse = |front_end, file: &str, parts: &[&str]| {
        let args = pack(front_end);
        here.refuse(&args.each_ref().map(String::as_str), file, parts);
    };
    refuse("precise", &gru_pb(), &["it gives 13 features, but input \"Mfcc\" has 10"]);
    refuse("exact", "exact", &["is not a file, and no front end has this name; known: precise"]);
    here.write("words.json", r#"{"window": "blackman"}"#);
    refuse(
        "words.json",
        "words.json",
        &["unknown variant `blackman`, expected one of `hann`, `rectangular`, `hamming`"],
    );
}

/// File and word of every clip, in the order of the index.
fn words() -> Vec<(PathBuf, String)> {
    let file = data::file("speech_commands_v2/index.csv");
    let index = fs::read_to_string(&file).unwrap();
    let row = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        (file.with_file_name(fields[0]), fields[2].to_owned())
    };
    index.lines().skip(1).map(row).collect()
}

/// Writes the clips as an index, and returns the stream that `eval --stream` makes of it. Only `word` is a keyword.
fn stream(here: &Workplace, clips: &[(PathBuf, String)], word: &str) -> StreamPlan {
    let mut index = "file,label\n".to_owned();
    let (mut lens, mut sounds) = (Vec::new(), Vec::new());
    for (file, other) in clips {
        index += &format!("{},{other}\n", file.display());
        let sound = read_audio_at(file, RATE).unwrap().samples;
        let label = if other == word { word } else { "_other_" };
        lens.push(ClipLen { label: label.to_owned(), len: sound.len() });
        sounds.push(sound);
    }
    here.write("clips.csv", index);
    let plan = StreamPlan::new(&lens, RATE, 0);
    let format =
        hound::WavSpec { channels: 1, sample_rate: RATE, bits_per_sample: 16, sample_format: hound::SampleFormat::Int };
    let mut wav = hound::WavWriter::create(here.path("stream.wav"), format).unwrap();
    for piece in plan.pieces() {
        let piece = match piece {
            Piece::Gap(noise) => noise,
            Piece::Clip(clip) => sounds[clip].clone(),
        };
        piece.iter().for_each(|&sample| wav.write_sample(sample).unwrap());
    }
    wav.finalize().unwrap();
    plan
}

/// The commands of the section, each with its words.
fn commands() -> Vec<Vec<String>> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tf1_graph.md");
    let page = fs::read_to_string(page).unwrap();
    let (_, section) = page.split_once("## From audio: Mycroft Precise\n").unwrap();
    let block = section.split_once("```bash\n").unwrap().1.split_once("```").unwrap().0;
    let words = |line: &str| line.split('#').next().unwrap().split_whitespace().map(str::to_owned).collect();
    block.lines().map(words).collect()
}

#[test]
fn a_stream_of_clips_is_listened_to_as_the_page_says() {
    if cfg!(debug_assertions) {
        println!(
            "SKIP a_stream_of_clips_is_listened_to_as_the_page_says: minutes of sound take too long without --release"
        );
        return;
    }
    let reference: BTreeMap<String, Tensor> = read_tensors(&data::file("precise/reference.safetensors")).unwrap();
    let all = words();
    let wake = |word: &str| ["marvin", "sheila"].contains(&word);
    let others = all.len().div_ceil(OTHERS);
    let kept = all.iter().enumerate().filter(|(clip, (_, word))| clip % others == 0 || wake(word));
    let clips: Vec<(PathBuf, String)> = kept.map(|(_, clip)| clip.clone()).collect();
    for (word, least_right) in [("marvin", 2), ("sheila", 7)] {
        let here = Workplace::new();
        fs::copy(data::file(&format!("precise/{word}.pb")), here.path("marvin.pb")).unwrap();
        here.write("marvin.txt", format!("{word}\n"));
        let plan = stream(&here, &clips, word);
        let mut said = Vec::new();
        for command in commands() {
            let [program, args @ ..] = command.as_slice() else { panic!("a line without a command") };
            assert_eq!(program, "tidegate");
            said.push(here.succeed(&args.iter().map(String::as_str).collect::<Vec<_>>()));
        }
        let [_, inspected, by_clip, by_stream, listened, _] = said.as_slice() else {
            panic!("{} commands", said.len())
        };
        for part in [
            "1600 samples (the first 512 heard) every 800",
            "29 states in turn",
            "mean of 2 posteriors at least 0.8 (1500 ms)",
        ] {
            assert!(inspected.contains(part), "no {part:?} in {inspected}");
        }
        let count = clips.len();
        assert!(by_clip.contains(&format!("{count} of {count} clips right: 100.00 %")), "{by_clip}");

        // The output of `listen`, scored as in `eval`.
        let events = listened.lines().skip(1).map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let [seconds, "s", label, _] = fields[..] else { panic!("{line:?} is no event") };
            assert_eq!(label, word);
            let seconds: f64 = seconds.parse().unwrap();
            Event { label: 0, at_sample: (seconds * f64::from(RATE)).round() as u64 }
        });
        let events: Vec<Event> = events.collect();
        let StreamScore { keywords, right, missed, false_alarms, seconds, .. } =
            score(&events, &plan, &[word.to_owned()]);
        println!(
            "{word}: {count} clips in {:.1} minutes: {right} of {keywords} right, {missed} missed, {false_alarms} false alarms",
            seconds / 60.0
        );
        assert!(right >= least_right && false_alarms <= 1, "{listened}");
        assert!(by_stream.contains("windows of 29 frames every 1, 29 states in turn"), "{by_stream}");
        let scored = here.json(&["eval", "marvin.tgi", "--index", "clips.csv", "--stream", "--json"]);
        let found = ["keywords", "right", "missed", "false_alarms"].map(|field| scored[field].clone());
        assert_eq!(found, [keywords, right, missed, false_alarms].map(Value::from));

        // A single clip, padded with zeros at its start.
        let (clip, (file, _)) = all.iter().enumerate().find(|(_, (_, other))| other == word).unwrap();
        here.succeed(&["run", "marvin.tgi", "--input", &file.display().to_string(), "--output", "p.npy"]);
        let (_, output) = read_tensors(&here.path("p.npy")).unwrap().pop_first().unwrap();
        let expected = reference[&format!("prob/{word}")].data[clip];
        assert_eq!(output.shape, [1, 1]);
        assert!((output.data[0] - expected).abs() <= 1e-4, "{} is not {expected}", output.data[0]);
    }
}
