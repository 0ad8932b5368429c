//! The whole journey on the shipped model and sounds.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use tidegate::image::Layout;
use tidegate::{Model, Numeric};
use tidegate_tools::compare::Comparison;
use tidegate_tools::data::{read_audio_at, read_index};
use tidegate_tools::load::{self, Settings};
use tidegate_tools::output::write_atomically;
use tidegate_tools::plot::TruthSpan;
use tidegate_tools::quantize::{RangeRules, Seen};
use tidegate_tools::runner::{classify, features};
use tidegate_tools::score::{ClipLen, Piece, StreamPlan, StreamScore, best, score};

use super::calibrate::Calibration;
use super::listen::hear;
use super::{Failure, Outcome, front_end_of, grouped, labels_of};

/// The whole journey on the shipped model and sounds: import, pack, verify, listen, firmware
///
/// A keyword spotter of Hello Edge (Zhang et al. 2017) goes from its TensorFlow file to a flash image, hears the 24
/// shipped clips as one stream, and runs as firmware in QEMU where that is installed.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  tidegate demo --output /tmp/demo")]
pub struct Args {
    /// Where models, images and the picture go [default: target/demo in the repository]
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
}

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
const FIRMWARE_TARGET: &str = "thumbv7em-none-eabihf";
const SEED: u64 = 0;

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let root = fs::canonicalize(ROOT).unwrap_or_else(|_| PathBuf::from(ROOT));
    let model_file = root.join("assets/hello_edge/GRU_S.pb");
    if !model_file.is_file() {
        return Err(Failure::of(&model_file, "is not there: run the demo in a clone of the repository"));
    }
    let dir = args.output.clone().unwrap_or_else(|| root.join("target/demo"));
    fs::create_dir_all(&dir).map_err(|error| Failure::of(&dir, format!("cannot be created: {error}")))?;

    let step = Instant::now();
    let canonical = load::canonical(&model_file, &Settings::default())?.model;
    let canonical_file = dir.join("gru_s.safetensors");
    canonical.save(&canonical_file)?;
    let nodes: Vec<String> =
        canonical.architecture.nodes.iter().map(|node| format!("{} {}", node.cell, node.output_size)).collect();
    tell(
        out,
        "import",
        step,
        &format!("GRU_S.pb (TensorFlow 1) is {}: {}", nodes.join(", "), canonical_file.display()),
    )?;

    let mut images = Vec::new();
    let index = root.join("assets/speech_commands/index.csv");
    for numeric in [Numeric::F32, Numeric::F16, Numeric::I8x16] {
        let step = Instant::now();
        let ranges = if numeric.is_integer() {
            Calibration::read(&index, &canonical, &canonical_file)?.seen(&canonical, &canonical_file)?
        } else {
            Seen::default()
        };
        let ranges = ranges.ranges(&RangeRules::default());
        let image = load::packed_with(&canonical_file, &canonical, numeric, &ranges, Layout::Portable)?;
        let file = dir.join(format!("gru_s_{}.tgi", numeric.name()));
        write_atomically(&file, |to| to.write_all(image.bytes()))?;
        tell(
            out,
            "pack",
            step,
            &format!("{} bytes in {}: {}", grouped(image.bytes().len()), numeric.name(), file.display()),
        )?;
        images.push(image);
    }
    let (model, others) = (images[0].model()?, [images[1].model()?, images[2].model()?]);

    let step = Instant::now();
    let mfcc = front_end_of(&model, &model_file)?;
    let labels = labels_of(&model, &model_file)?;
    let clips = read_index(&index)?;
    let sounds: Vec<Vec<i16>> = clips
        .iter()
        .map(|clip| Ok(read_audio_at(&clip.path, mfcc.settings().sample_rate)?.samples))
        .collect::<Result<_, Failure>>()?;
    let heard_features = features(mfcc, &sounds.concat())?;
    let count = clips.len();
    let classes = |model: &Model<'_>| -> Result<Vec<usize>, Failure> {
        let mfcc = front_end_of(model, &model_file)?;
        sounds.iter().map(|sound| Ok(best(&classify(model, mfcc, sound)?))).collect()
    };
    let heard = classes(&model)?;
    for other in &others {
        let mut comparison = Comparison::new(other, &model);
        comparison.run(other, &model, &[&heard_features], |_| ())?;
        let agreed = classes(other)?.iter().zip(&heard).filter(|(other, full)| other == full).count();
        let (numeric, difference) = (other.numeric().name(), comparison.output.text());
        tell(
            out,
            "verify",
            step,
            &format!("{numeric} against f32: {difference}; same class on {agreed} of {count} clips"),
        )?;
    }
    let right = clips.iter().zip(&heard).filter(|(clip, class)| labels[**class] == clip.label).count();
    tell(out, "eval", step, &format!("{right} of {count} clips right, one by one"))?;

    let step = Instant::now();
    let lengths: Vec<ClipLen> = clips
        .iter()
        .zip(&sounds)
        .map(|(clip, sound)| ClipLen { label: clip.label.clone(), len: sound.len() })
        .collect();
    let plan = StreamPlan::new(&lengths, mfcc.settings().sample_rate, SEED);
    let mut stream = Vec::new();
    for piece in plan.pieces() {
        match piece {
            Piece::Gap(noise) => stream.extend(noise),
            Piece::Clip(clip) => stream.extend_from_slice(&sounds[clip]),
        }
    }
    let heard = hear(&model, &model_file, &stream)?;
    let rate = mfcc.settings().sample_rate as f32;
    let truth: Vec<TruthSpan<'_>> = plan
        .placed()
        .iter()
        .map(|clip| TruthSpan { start: clip.start as f32 / rate, end: clip.end as f32 / rate, label: &clip.label })
        .collect();
    let picture = dir.join("listen.svg");
    heard.plot(&picture, "Tidegate hears the 24 shipped clips", &stream, &truth)?;
    let events: Vec<_> = heard
        .events
        .iter()
        .map(|event| tidegate_tools::score::Event {
            label: event.label,
            at_sample: (event.seconds * rate).round() as u64,
        })
        .collect();
    let StreamScore { keywords, right, wrong, false_alarms, seconds, .. } = score(&events, &plan, &labels);
    heard.print(out)?;
    let scored =
        format!("{seconds:.0} s: {right} of {keywords} keywords right, {wrong} wrong, {false_alarms} false alarms");
    tell(out, "listen", step, &format!("{scored}; drawn in {}", picture.display()))?;

    let step = Instant::now();
    let heard = firmware(&root, out)?;
    tell(out, "firmware", step, &heard)
}

fn tell(out: &mut dyn Write, what: &str, since: Instant, text: &str) -> Outcome {
    writeln!(out, "{what:<9} {:6.2} s  {text}", since.elapsed().as_secs_f64())?;
    Ok(out.flush()?)
}

/// Builds and runs the firmware under QEMU; says what it heard, or how to get what is missing.
fn firmware(root: &Path, out: &mut dyn Write) -> Result<String, Failure> {
    let runs = |program: &str, args: &[&str]| {
        Command::new(program).args(args).output().is_ok_and(|done| done.status.success())
    };
    if !runs("qemu-system-arm", &["--version"]) {
        let how = "left out: QEMU is missing (Debian: apt-get install --no-install-recommends qemu-system-arm)";
        return Ok(how.to_owned());
    }
    let libraries = Command::new("rustc").args(["--print", "target-libdir", "--target", FIRMWARE_TARGET]).output();
    let installed = libraries.is_ok_and(|done| Path::new(String::from_utf8_lossy(&done.stdout).trim()).is_dir());
    if !installed {
        return Ok(format!("left out: the Rust target is missing (rustup target add {FIRMWARE_TARGET})"));
    }
    writeln!(out, "firmware           building for a Cortex-M4F, then QEMU: a minute or two the first time")?;
    out.flush()?;
    let folder = root.join("firmware-examples");
    let record = folder.join("expected").join("kws_stream.run");
    let expected = fs::read_to_string(&record).map_err(|error| Failure::of(&record, error))?;
    let mut cargo = Command::new("cargo");
    cargo.args(["run", "--release", "--locked", "--features", "dsp", "--bin", "kws_stream"]).current_dir(&folder);
    // Where `cargo xtask test` builds it too. Cargo shows its progress itself.
    cargo.env("CARGO_TARGET_DIR", root.join("target/firmware")).stdin(Stdio::null()).stderr(Stdio::inherit());
    let run = cargo.output().map_err(|error| Failure::new(format!("cargo could not be started: {error}")))?;
    if !run.status.success() {
        return Err(Failure::of(&folder, format!("kws_stream did not run to its end ({}); see above", run.status)));
    }
    let printed = String::from_utf8_lossy(&run.stdout);
    // The stack that was used is no part of the record: it depends on the compiler.
    if !printed.lines().filter(|line| !line.starts_with("stack ")).eq(expected.lines()) {
        return Err(Failure::of(&record, "kws_stream printed something else; `cargo xtask qemu` shows what"));
    }
    let heard: Vec<&str> = printed.lines().filter_map(|line| line.strip_prefix("event ")?.split(',').next()).collect();
    let lines = expected.lines().count();
    Ok(format!("a Cortex-M4F in QEMU heard {}; all {lines} lines have the recorded bits", heard.join(" ")))
}
