//! The firmware's keyword spotters and the host agree bit for bit: what they printed under QEMU (`cargo xtask qemu` compares
//! that record with a run on every machine) is computed again here, with the scalar kernels.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use tidegate::image::Layout;
use tidegate::{Numeric, Schedule, StepError};
use tidegate_tools::load::ImageBuffer;
use tidegate_tools::runner;

#[path = "../firmware-examples/build/spotter.rs"]
mod spotter;

/// As in `firmware-examples/src/recording.rs`.
const BLOCK_LEN: usize = 160;
const GAP_LEN: usize = 9600;
/// As in `firmware-examples/src/bin/kws_stream.rs`.
const LIT_FOR_MS: u32 = 500;

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

fn line(head: &str, posteriors: &[f32]) -> String {
    posteriors.iter().fold(head.to_owned(), |mut line, value| {
        write!(line, " {:08x}", value.to_bits()).expect("a String takes all");
        line
    })
}

/// The lines of the firmware, computed here.
fn lines(numeric: Numeric) -> Vec<String> {
    let spotter = spotter::Spotter::read(&repository("")).unwrap();
    let image = ImageBuffer::new(&spotter.pack(numeric, Layout::Portable).unwrap());
    let model = image.model().unwrap();
    let mfcc = model.front_end().unwrap();
    let labels: Vec<&str> = model.labels().collect();
    let (mut lines, mut stream) = (Vec::new(), Vec::new());

    // Each clip alone: all its frames as one run from a zero state.
    let Schedule::Windows { frames, .. } = model.schedule() else { panic!("the spotter runs in windows") };
    for clip in &spotter.clips {
        let features = runner::features(mfcc, &clip.samples).unwrap();
        let window = &features[..frames as usize * model.input_size()];
        let outputs = runner::run(&model, &[window], None).unwrap().outputs;
        let posteriors = &outputs[0][outputs[0].len() - model.output_size()..];
        lines.push(line(&format!("clip {}", clip.label), posteriors));
        stream.extend(&clip.samples);
        stream.extend([0; GAP_LEN]);
    }
    let said: Vec<&str> = spotter.clips.iter().map(|clip| clip.label.as_str()).collect();
    assert!(labels.iter().all(|label| said.contains(label)) && said.len() == labels.len(), "one clip of each class");

    // All of them as one stream.
    stream.resize(stream.len().next_multiple_of(BLOCK_LEN), 0);
    let mut lit_at = None;
    let blocks = stream.chunks(BLOCK_LEN).map(Ok::<_, StepError>);
    runner::listen(&model, mfcc, blocks, |decision| {
        let now_ms = (decision.sample * 1000 / u64::from(mfcc.settings().sample_rate)) as u32;
        if lit_at.is_some_and(|since| now_ms - since >= LIT_FOR_MS) {
            lit_at = None;
            lines.push("led off".to_owned());
        }
        lines.push(line(&format!("at {now_ms:08x}"), decision.posteriors));
        if let Some(event) = decision.event {
            lit_at = Some(now_ms);
            lines.push(format!("event {}, led on", labels[event.label]));
        }
    })
    .unwrap();
    lines
}

/// The posteriors on a line, as bits.
fn words(line: &str) -> Vec<u32> {
    let (Some(first), true) = (line.find(' '), line.starts_with("clip ") || line.starts_with("at ")) else {
        return Vec::new();
    };
    line[first + 1..].split(' ').skip(1).map(|word| u32::from_str_radix(word, 16).unwrap()).collect()
}

#[test]
fn firmware_and_host_print_the_same_bits() {
    for (program, numeric) in [("kws_stream", Numeric::I8x16), ("kws_stream_f32", Numeric::F32)] {
        let record = repository(&format!("firmware-examples/expected/{program}.run"));
        let firmware = std::fs::read_to_string(&record).unwrap_or_else(|error| panic!("{}: {error}", record.display()));
        let firmware: Vec<&str> = firmware.lines().collect();
        let host = lines(numeric);
        let of = |kind: &str| {
            let pairs = firmware.iter().zip(&host).filter(|(line, _)| line.starts_with(kind));
            let (mut lines, mut equal, mut all) = (0, 0, 0);
            for (firmware, host) in pairs {
                let (firmware, host) = (words(firmware), words(host));
                equal += firmware.iter().zip(&host).filter(|(a, b)| a == b).count();
                (lines, all) = (lines + 1, all + host.len());
            }
            (lines, equal, all)
        };
        let ((clips, clip_equal, clip_words), (decisions, equal, all)) = (of("clip "), of("at "));
        println!(
            "{program}: {clip_equal} of {clip_words} posterior words equal on {clips} clips, one of each class, alone"
        );
        println!(
            "{program}: {equal} of {all} posterior words equal in {decisions} decisions on the stream of these clips"
        );
        assert_eq!((clips, clip_words, all), (12, 144, 12 * decisions));
        assert!(decisions > 0);
        assert_eq!(firmware, host, "{program}: the firmware on the left, the host on the right");
    }
}
