//! The micro:bit and the host agree bit for bit. The lines that are sent to it, and its answers under QEMU (`cargo
//! xtask qemu` compares that record with a run), are computed again here, from weights in another layout.
//!
//! After a change to the packer or the front end, first record the lines that are sent with
//! `TIDEGATE_OVERWRITE_EXPECTED=1 cargo test --release -p tidegate-tests --test repository firmware_microbit`, then the
//! answers with `cargo xtask qemu --overwrite-expected`.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use tidegate::{Layout, Numeric, Schedule, State};
use tidegate_model::load::ImageBuffer;
use tidegate_model::runner::{clip_features, fit};

use crate::spotter;

/// As in `firmware-examples/microbit/src/terminal.rs`.
const THRESHOLD: i16 = 26_214;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn record(extension: &str) -> PathBuf {
    repository().join(format!("firmware-examples/expected/microbit.{extension}"))
}

fn hex(words: &[i16]) -> String {
    words.iter().fold(String::new(), |mut line, word| {
        write!(line, "{word:04x}").expect("writing to a string succeeds");
        line
    })
}

/// The lines that are sent, the answers, and the number of keywords that are recognized.
fn dialogue() -> (String, String, usize) {
    let spotter = spotter::Spotter::read(&repository()).unwrap();
    let image = ImageBuffer::new(&spotter.pack(Numeric::I8x16, Layout::Portable).unwrap());
    let model = image.model().unwrap();
    let (mut memory, mut scratch) = (vec![0; model.state_words()], vec![0; model.scratch_words()]);
    let mut state = State::new(&model, &mut memory).unwrap();
    let Schedule::Windows { frames, .. } = model.schedule() else { panic!("the spotter runs in windows") };
    let (mfcc, scale) = (model.front_end().unwrap(), model.inputs().next().unwrap().scale);
    let (mut sent, mut answers, mut right) = (String::new(), "\nready\n".to_owned(), 0);
    let mut said = |line: &str, answer: &str| {
        sent += &format!("{line}\n");
        answers += &format!("{answer}\n");
    };
    for clip in &spotter.clips {
        said("reset", "ok");
        state.reset();
        let features = clip_features(mfcc, &fit(mfcc, &clip.samples, frames).unwrap()).unwrap();
        for frame in features.chunks(model.input_size()) {
            let frame: Vec<i16> = frame.iter().map(|x| (x / scale).round().clamp(-32767.0, 32767.0) as i16).collect();
            let mut posteriors = vec![0; model.output_size()];
            let step = model.step_i16(&mut state, &mut scratch, &frame, &mut posteriors).unwrap();
            let mut answer = "ok".to_owned();
            if step.has_output() {
                let best = posteriors.iter().zip(model.labels()).max_by_key(|(posterior, _)| **posterior);
                let heard = best.filter(|(posterior, label)| **posterior > THRESHOLD && !label.starts_with('_'));
                right += usize::from(heard.is_some_and(|(_, label)| label == clip.label));
                let word = heard.map_or(String::new(), |(_, label)| format!(" {label}"));
                answer = format!("{}{word}, led {}", hex(&posteriors), if heard.is_some() { "on" } else { "off" });
            }
            said(&hex(&frame), &answer);
        }
    }
    said("+001", "what?");
    said("restart", "bye");
    (sent, answers, right)
}

#[test]
fn microbit_and_host_compute_the_same_bits() {
    let (sent, answers, right) = dialogue();
    if std::env::var_os("TIDEGATE_OVERWRITE_EXPECTED").is_some() {
        fs::write(record("in"), &sent).unwrap();
    }
    let read = |extension: &str| {
        let path = record(extension);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    assert_eq!(read("in"), sent, "record it again with TIDEGATE_OVERWRITE_EXPECTED=1");
    let microbit = read("run");
    let decisions = answers.lines().filter(|line| line.contains("led")).count();
    println!("{decisions} decisions of the micro:bit, {right} of 10 keywords right");
    assert_eq!(decisions, 12, "one of each class");
    assert!(right >= 8, "{right} of 10 keywords are right");
    assert_eq!(microbit, answers, "the micro:bit on the left, the host on the right");
}
