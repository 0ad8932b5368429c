//! The micro:bit and the host agree bit for bit: what is sent to it, and what it answered under QEMU (`cargo xtask
//! qemu` compares that record with a run), are computed again here, from weights in another order.
//!
//! After a change of the packer or the front end, first `TIDEGATE_OVERWRITE_EXPECTED=1 cargo test --release -p
//! tidegate-tests --test firmware_microbit` records what is sent, then `cargo xtask qemu --overwrite-expected` the
//! answers.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use tidegate::image::Layout;
use tidegate::{Numeric, Schedule, State};
use tidegate_tools::load::ImageBuffer;
use tidegate_tools::runner::{clip_features, fit};

#[path = "../firmware-examples/build/spotter.rs"]
#[allow(dead_code, reason = "the firmware's build needs more of it")]
mod spotter;

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
        write!(line, "{word:04x}").expect("a String takes all");
        line
    })
}

/// The lines that are sent, and the answers.
fn dialogue() -> [String; 2] {
    let spotter = spotter::Spotter::read(&repository()).unwrap();
    let image = ImageBuffer::new(&spotter.pack(Numeric::I8x16, Layout::Portable).unwrap());
    let model = image.model().unwrap();
    let (mut memory, mut scratch) = (vec![0; model.state_words()], vec![0; model.scratch_words()]);
    let mut state = State::new(&model, &mut memory).unwrap();
    let Schedule::Windows { frames, .. } = model.schedule() else { panic!("the spotter runs in windows") };
    let (mfcc, scale) = (model.front_end().unwrap(), model.inputs().next().unwrap().scale);
    let (mut sent, mut answers) = (String::new(), "\nready\n".to_owned());
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
                let word = heard.map_or(String::new(), |(_, label)| format!(" {label}"));
                answer = format!("{}{word}, led {}", hex(&posteriors), if heard.is_some() { "on" } else { "off" });
            }
            said(&hex(&frame), &answer);
        }
    }
    said("+001", "what?");
    said("restart", "bye");
    [sent, answers]
}

#[test]
fn microbit_and_host_say_the_same_bits() {
    let [sent, answers] = dialogue();
    if std::env::var_os("TIDEGATE_OVERWRITE_EXPECTED").is_some() {
        fs::write(record("in"), &sent).unwrap();
    }
    let read = |extension: &str| {
        let path = record(extension);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    assert_eq!(read("in"), sent, "record it anew: TIDEGATE_OVERWRITE_EXPECTED=1");
    let microbit = read("run");
    let decisions = answers.lines().filter(|line| line.contains("led")).count();
    let keywords = answers.lines().filter(|line| line.contains("led on")).count();
    println!("{decisions} decisions of the micro:bit, {keywords} keywords, as on the host");
    assert_eq!(decisions, 12, "one of each class");
    assert!(keywords >= 8, "{keywords} of 10 keywords are heard");
    assert_eq!(microbit, answers, "the micro:bit on the left, the host on the right");
}
