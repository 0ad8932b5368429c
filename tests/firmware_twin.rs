//! The firmware's keyword spotters and the host agree bit for bit. The output that they printed under QEMU (`cargo
//! xtask qemu` compares that record with a run on every machine) is computed again here with the scalar kernels.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use tidegate::{IntegerDetector, IntegerFrontEnd, Layout, Mfcc, Model, Numeric, Schedule, State, StepError};
use tidegate_model::load::ImageBuffer;
use tidegate_model::pack::pack;
use tidegate_model::runner::{self, Decision};

use crate::spotter;
use tidegate_tests::tolerance::worst;

#[path = "../firmware-examples/build/hello.rs"]
mod hello;
#[path = "../firmware-examples/build/vad.rs"]
mod vad;
#[path = "../firmware-examples/build/wake_word.rs"]
mod wake_word;

/// As in `firmware-examples/src/recording.rs`.
const BLOCK_LEN: usize = 160;
const GAP_LEN: usize = 9600;
/// As in `firmware-examples/src/bin/kws_stream.rs`.
const LIT_FOR_MS: u32 = 500;

/// As in `firmware-examples/src/bin/vad.rs`.
const CONTEXT: usize = 64;

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// A line of output: the bits of floats, or integers as they are.
fn line(head: &str, model: &Model<'_>, posteriors: &[f32]) -> String {
    posteriors.iter().fold(head.to_owned(), |mut line, value| {
        let integer = model.numeric().is_integer();
        let bits = if integer { (value / model.output_scale()) as u32 } else { value.to_bits() };
        write!(line, " {bits:08x}").expect("writing to a string succeeds");
        line
    })
}

/// The lines that the firmware prints for all clips as one stream: each decision, and the LED. `of` appends to the line of
/// a decision and returns which label is detected.
fn lines_of_stream(
    model: &Model<'_>,
    mfcc: &Mfcc<'_>,
    mut stream: Vec<i16>,
    mut of: impl FnMut(String, &Decision<'_>) -> (String, Option<String>),
) -> Vec<String> {
    stream.resize(stream.len().next_multiple_of(BLOCK_LEN), 0);
    let (mut lines, mut lit_at) = (Vec::new(), None);
    let blocks = stream.chunks(BLOCK_LEN).map(Ok::<_, StepError>);
    runner::listen(model, mfcc, blocks, |decision| {
        let now_ms = (decision.sample * 1000 / u64::from(mfcc.settings().sample_rate)) as u32;
        if lit_at.is_some_and(|since| now_ms - since >= LIT_FOR_MS) {
            lit_at = None;
            lines.push("led off".to_owned());
        }
        let (line, event) = of(line(&format!("at {now_ms:08x}"), model, decision.posteriors), &decision);
        lines.push(line);
        if let Some(label) = event {
            lit_at = Some(now_ms);
            lines.push(format!("event {label}, led on"));
        }
    })
    .unwrap();
    lines
}

/// The lines that the firmware prints, computed here.
fn lines(numeric: Numeric) -> Vec<String> {
    let spotter = spotter::Spotter::read(&repository("")).unwrap();
    let image = ImageBuffer::new(&spotter.pack(numeric, Layout::Portable).unwrap());
    let model = image.model().unwrap();
    let mfcc = model.front_end().unwrap();
    let labels: Vec<&str> = model.labels().collect();
    let (mut lines, mut stream) = (Vec::new(), Vec::new());

    // Each clip is a run of its own over all its frames, from a zero state.
    let Schedule::Windows { frames, .. } = model.schedule() else { panic!("the spotter runs in windows") };
    for clip in &spotter.clips {
        let features = runner::features(mfcc, &clip.samples).unwrap();
        let window = &features[..frames as usize * model.input_size()];
        let outputs = runner::run(&model, &[window], None).unwrap().outputs;
        let posteriors = &outputs[0][outputs[0].len() - model.output_size()..];
        lines.push(line(&format!("clip {}", clip.label), &model, posteriors));
        stream.extend(&clip.samples);
        stream.extend([0; GAP_LEN]);
    }
    let said: Vec<&str> = spotter.clips.iter().map(|clip| clip.label.as_str()).collect();
    assert!(labels.iter().all(|label| said.contains(label)) && said.len() == labels.len(), "one clip of each class");

    lines.extend(lines_of_stream(&model, mfcc, stream, |line, decision| {
        (line, decision.event.map(|event| labels[event.label].to_owned()))
    }));
    lines
}

/// The probability of the gate at each of its decisions, and whether it has an event.
fn gate(samples: &[i16]) -> Vec<(i16, bool)> {
    let word = ImageBuffer::new(&wake_word::word(&repository(""), Layout::Portable).unwrap());
    let image = ImageBuffer::new(&wake_word::gate(&repository(""), Layout::Portable).unwrap());
    let (word, model) = (word.model().unwrap(), image.model().unwrap());
    let (features, detector) = (word.integer_front_end().unwrap(), model.detector().unwrap());
    let (mut sound, mut memory) = (vec![0; features.memory_words()], vec![0; model.state_words()]);
    let (mut scratch, mut means) = (vec![0; model.scratch_words()], vec![0; detector.integer_memory_words()]);
    let mut front_end = IntegerFrontEnd::new(&features, &mut sound).unwrap();
    let mut state = State::new(&model, &mut memory).unwrap();
    let mut detector = IntegerDetector::new(detector, model.output_scale(), &mut means).unwrap();
    let (mut rest, mut decisions, mut probability) = (samples, Vec::new(), [0]);
    while !rest.is_empty() {
        rest = &rest[front_end.push(rest)..];
        while let Some(frame) = front_end.next() {
            if model.step_i16(&mut state, &mut scratch, frame, &mut probability).unwrap().has_output() {
                decisions.push((probability[0], detector.push(&probability, 0).unwrap().is_some()));
            }
        }
    }
    decisions
}

/// The lines that `wake_word` prints, or `wake_word_gated`.
fn lines_of_wake_word(gated: bool) -> Vec<String> {
    let image = ImageBuffer::new(&wake_word::word(&repository(""), Layout::Portable).unwrap());
    let model = image.model().unwrap();
    let (mfcc, label) = (model.front_end().unwrap(), model.labels().next().unwrap());
    let alone = wake_word::sound(&repository("")).unwrap();
    let mut stream = alone.clone();
    stream.extend([0; GAP_LEN]);
    stream.resize(stream.len().next_multiple_of(BLOCK_LEN), 0);
    let (mut of_alone, mut of_stream) = (gate(&alone).into_iter(), gate(&stream).into_iter());
    let beside = |line: String, (probability, speech): (i16, bool)| {
        if gated { (format!("{line} {probability:08x}"), speech) } else { (line, true) }
    };
    let mut lines = Vec::new();
    runner::listen(&model, mfcc, [Ok::<_, StepError>(&alone)], |decision| {
        let line = line("clip okay_nabu", &model, decision.posteriors);
        lines.push(beside(line, of_alone.next().unwrap()).0);
    })
    .unwrap();
    lines.extend(lines_of_stream(&model, mfcc, stream, |line, decision| {
        let (line, speech) = beside(line, of_stream.next().unwrap());
        (line, decision.event.filter(|_| speech).map(|_| label.to_owned()))
    }));
    lines
}

#[test]
fn firmware_and_host_hear_the_wake_word_with_the_same_bits() {
    for (program, gated) in [("wake_word", false), ("wake_word_gated", true)] {
        let record = repository(&format!("firmware-examples/expected/{program}.run"));
        let firmware = std::fs::read_to_string(&record).unwrap_or_else(|error| panic!("{}: {error}", record.display()));
        let host = lines_of_wake_word(gated);
        assert_eq!(host.iter().filter(|line| line.starts_with("event Okay Nabu")).count(), 1, "{host:?}");
        let firmware: Vec<&str> = firmware.lines().collect();
        assert_eq!(firmware, host, "{program}: the firmware on the left, the host on the right");
    }
}

/// A model trained by `tidegate-gpu train` makes the same decisions here and in the firmware. A test of the command line
/// (`tools/cli/tests/cli/evaluated.rs`) compares the firmware with `tidegate eval`.
#[test]
fn firmware_and_host_decide_alike_with_the_trained_model() {
    let image = ImageBuffer::new(&std::fs::read(repository("assets/keywords/keywords.tgi")).unwrap());
    let model = image.model().unwrap();
    let mfcc = model.front_end().unwrap();
    let labels: Vec<&str> = model.labels().collect();
    let Schedule::Windows { frames, .. } = model.schedule() else { panic!("the spotter runs in windows") };
    let (mut host, mut right) = (String::new(), 0);
    for clip in spotter::Spotter::read(&repository("")).unwrap().clips {
        let features = runner::features(mfcc, &clip.samples).unwrap();
        let window = &features[..frames as usize * model.input_size()];
        let outputs = runner::run(&model, &[window], None).unwrap().outputs;
        let posteriors = &outputs[0][outputs[0].len() - model.output_size()..];
        let class = (0..labels.len()).max_by(|&a, &b| posteriors[a].total_cmp(&posteriors[b])).unwrap();
        right += usize::from(labels[class] == clip.label);
        let head = format!("clip {} is {}", clip.label, labels[class]);
        writeln!(host, "{}", line(&head, &model, posteriors)).unwrap();
    }
    println!("{right} of {} clips are right", host.lines().count());
    let record = repository("firmware-examples/expected/kws_trained.run");
    let firmware = std::fs::read_to_string(&record).unwrap_or_else(|error| panic!("{}: {error}", record.display()));
    assert_eq!(firmware, host, "the firmware on the left, the host on the right");
}

/// The bits of the posteriors on a line.
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

/// The inputs of `hello_step` and `hello_any`, and of `hello_integer`; `hello_gru` steps over the first two.
const INPUTS: [[f32; 4]; 4] = [[1.0, 0.0, 0.0, -1.0], [0.0, 2.0, 0.5, 0.0], [0.25, 0.0, -4.0, 0.0], [0.0; 4]];
const INTEGERS: [[i16; 4]; 4] = [[8192, 0, 0, -8192], [0, 16384, 4096, 0], [2048, 0, -32767, 0], [0; 4]];

/// The lines that a small program prints for these outputs.
fn steps(outputs: impl Iterator<Item = Vec<u32>>) -> String {
    let step = |words: Vec<u32>| words.iter().fold("step".to_owned(), |line, word| format!("{line} {word:08x}")) + "\n";
    outputs.map(step).collect()
}

/// The outputs of an integer image over `inputs`.
fn integers(image: &[u8], inputs: &[[i16; 4]]) -> String {
    let image = ImageBuffer::new(image);
    let model = image.model().unwrap();
    let (mut memory, mut scratch) = (vec![0; model.state_words()], vec![0; model.scratch_words()]);
    let mut state = State::new(&model, &mut memory).unwrap();
    steps(inputs.iter().map(|input| {
        let mut output = vec![0; model.output_size()];
        assert!(model.step_i16(&mut state, &mut scratch, input, &mut output).unwrap().has_output());
        output.iter().map(|&value| i32::from(value).cast_unsigned()).collect()
    }))
}

#[test]
fn the_small_programs_print_what_the_host_computes() {
    let image = ImageBuffer::new(&pack(&hello::hello(), Numeric::F32).unwrap());
    let model = image.model().unwrap();
    let (mut memory, mut scratch) = (vec![0; model.state_words()], vec![0; model.scratch_words()]);
    let mut state = State::new(&model, &mut memory).unwrap();
    let floats = steps(INPUTS.iter().map(|input| {
        let mut output = vec![0.0; model.output_size()];
        assert!(model.step_f32(&mut state, &mut scratch, input, &mut output).unwrap().has_output());
        output.iter().map(|value| value.to_bits()).collect()
    }));
    let in_integers = |model| hello::in_integers(model, Layout::Portable).unwrap();
    for (program, host) in [
        ("hello_step", floats.clone()),
        ("hello_any", floats),
        ("hello_integer", integers(&in_integers(hello::hello()), &INTEGERS)),
        ("hello_gru", integers(&in_integers(hello::hello_gru()), &INTEGERS[..2])),
    ] {
        let record = repository(&format!("firmware-examples/expected/{program}.run"));
        let firmware = std::fs::read_to_string(&record).unwrap_or_else(|error| panic!("{}: {error}", record.display()));
        assert_eq!(firmware, host, "{program}: the firmware on the left, the host on the right");
    }
}

#[test]
fn firmware_and_host_detect_speech_with_the_same_bits() {
    let image = ImageBuffer::new(&vad::image(&repository("")).unwrap());
    let model = image.model().unwrap();
    let (mut memory, mut scratch) = (vec![0; model.state_words()], vec![0; model.scratch_words()]);
    let mut host = String::new();
    for clip in spotter::Spotter::read(&repository("")).unwrap().clips {
        let mut state = State::new(&model, &mut memory).unwrap();
        let (mut heard, mut speech) = (vec![0.0; model.input_size()], [0.0]);
        for chunk in clip.samples.chunks_exact(heard.len() - CONTEXT) {
            heard.rotate_left(chunk.len());
            heard[CONTEXT..].iter_mut().zip(chunk).for_each(|(heard, &sample)| *heard = f32::from(sample) / 32768.0);
            assert!(model.step_f32(&mut state, &mut scratch, &heard, &mut speech).unwrap().has_output());
            writeln!(host, "{} {:08x}", clip.label, speech[0].to_bits()).unwrap();
        }
    }
    let record = repository("firmware-examples/expected/vad.run");
    let firmware = std::fs::read_to_string(&record).unwrap_or_else(|error| panic!("{}: {error}", record.display()));
    let loudest = |label: &str| {
        let of = host
            .lines()
            .filter_map(|line| line.strip_prefix(label))
            .map(|bits| f32::from_bits(u32::from_str_radix(bits.trim(), 16).unwrap()));
        worst(of)
    };
    println!(
        "{} chunks; silence up to {}, speech up to {}",
        host.lines().count(),
        loudest("_silence_"),
        loudest("down")
    );
    assert_eq!(firmware, host, "the firmware on the left, the host on the right");
    assert!(loudest("_silence_") < 0.5 && loudest("down") > 0.5);
}
