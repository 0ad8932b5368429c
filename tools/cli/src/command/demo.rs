//! `demo`: all steps from import to firmware with the models and sounds of the repository.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use tidegate::{Layout, Model, Numeric};
use tidegate_model::compare::Comparison;
use tidegate_model::data::read_index;
use tidegate_model::load::{self, Settings};
use tidegate_model::output::write_atomically;
use tidegate_model::quantize::{RangeRules, Seen};
use tidegate_model::runner::{classify, features};
use tidegate_model::score::{Event, Piece, StreamScore, best, score};
use tidegate_tools::grouped;
use tidegate_tools::plot::TruthSpan;

use super::calibrate::Calibration;
use super::listen::run_stream;
use super::sound::{front_end_of, joined, labels_of};
use super::{Failure, Outcome, layers};

/// Shows import, pack, verify, listen and firmware with a shipped model and sounds
///
/// Imports a keyword spotter of Hello Edge (Zhang et al. 2017) from its TensorFlow file, packs it into flash images, runs
/// it on the 24 shipped clips as one stream, and runs it as firmware in QEMU if that is installed. Needs a clone of the
/// repository.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  tidegate demo --output /tmp/demo")]
pub struct Args {
    /// Folder to write models, images and the picture to [default: target/demo in the repository]
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
        return Err(Failure::of(&model_file, "there is no such file: run the demo in a clone of the repository"));
    }
    let dir = args.output.clone().unwrap_or_else(|| root.join("target/demo"));
    fs::create_dir_all(&dir).map_err(|error| Failure::of(&dir, format!("cannot be created: {error}")))?;

    let step = Instant::now();
    let canonical = load::canonical(&model_file, &Settings::default())?.model;
    let canonical_file = dir.join("gru_s.safetensors");
    canonical.save(&canonical_file)?;
    let imported = format!("GRU_S.pb (TensorFlow 1) is {}: {}", layers(&canonical), canonical_file.display());
    print(out, "import", step, &imported)?;

    let mut images = Vec::new();
    let index = root.join("assets/speech_commands/index.csv");
    for numeric in [Numeric::F32, Numeric::F16, Numeric::I8x16] {
        let step = Instant::now();
        let ranges = if numeric.is_integer() {
            Calibration::read(&index, &canonical, &canonical_file)?.seen(&canonical, &canonical_file)?
        } else {
            Seen::default()
        };
        let ranges = ranges.ranges(&RangeRules::default(), &canonical);
        let image = load::packed_with(&canonical_file, &canonical, numeric, &ranges, Layout::Portable)?;
        let file = dir.join(format!("gru_s_{}.tgi", numeric.name()));
        write_atomically(&file, |to| to.write_all(image.bytes()))?;
        let packed = format!("{} bytes in {}: {}", grouped(image.bytes().len()), numeric.name(), file.display());
        print(out, "pack", step, &packed)?;
        images.push(image);
    }
    let (model, others) = (images[0].model()?, [images[1].model()?, images[2].model()?]);

    let step = Instant::now();
    let mfcc = front_end_of(&model, &model_file)?;
    let labels = labels_of(&model, &model_file)?;
    let clips = read_index(&index)?;
    let sample_rate = mfcc.settings().sample_rate;
    let (sounds, plan) = joined(clips.iter().map(|clip| (&clip.path, clip.label.as_str())), sample_rate, SEED)?;
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
        let verified = format!("{numeric} against f32: {difference}; same class on {agreed} of {count} clips");
        print(out, "verify", step, &verified)?;
    }
    let right = clips.iter().zip(&heard).filter(|(clip, class)| labels[**class] == clip.label).count();
    print(out, "eval", step, &format!("{right} of {count} clips right, one by one"))?;

    let step = Instant::now();
    let mut stream = Vec::new();
    for piece in plan.pieces() {
        match piece {
            Piece::Gap(noise) => stream.extend(noise),
            Piece::Clip(clip) => stream.extend_from_slice(&sounds[clip]),
        }
    }
    let heard = run_stream(&model, &model_file, &stream)?;
    let rate = sample_rate as f32;
    let truth: Vec<TruthSpan<'_>> = plan
        .placed()
        .iter()
        .map(|clip| TruthSpan { start: clip.start as f32 / rate, end: clip.end as f32 / rate, label: &clip.label })
        .collect();
    let picture = dir.join("listen.svg");
    heard.plot(&picture, "Tidegate hears the 24 shipped clips", &stream, &truth)?;
    let events = heard.events.iter();
    let events: Vec<Event> =
        events.map(|event| Event { label: event.label, at_sample: (event.seconds * rate).round() as u64 }).collect();
    let StreamScore { keywords, right, wrong, false_alarms, seconds, .. } = score(&events, &plan, &labels);
    heard.print(out)?;
    let scored =
        format!("{seconds:.0} s: {right} of {keywords} keywords right, {wrong} wrong, {false_alarms} false alarms");
    print(out, "listen", step, &format!("{scored}; drawn in {}", picture.display()))?;

    let step = Instant::now();
    let heard = firmware(&root, out)?;
    print(out, "firmware", step, &heard)
}

fn print(out: &mut dyn Write, what: &str, since: Instant, text: &str) -> Outcome {
    writeln!(out, "{what:<9} {:6.2} s  {text}", since.elapsed().as_secs_f64())?;
    Ok(out.flush()?)
}

/// Builds and runs the firmware under QEMU. Returns the events it detected, or how to install what is missing.
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
    writeln!(out, "firmware           building for a Cortex-M4F, then QEMU: some minutes the first time")?;
    out.flush()?;
    let folder = root.join("firmware-examples");
    let record = folder.join("expected").join("kws_stream.run");
    let expected = fs::read_to_string(&record).map_err(|error| Failure::of(&record, error))?;
    let mut cargo = Command::new("cargo");
    cargo.args(["run", "--release", "--locked", "--features", "dsp", "--bin", "kws_stream"]).current_dir(&folder);
    // The same build folder as that of `cargo xtask test`. Cargo prints its own progress.
    cargo.env("CARGO_TARGET_DIR", root.join("target/firmware")).stdin(Stdio::null()).stderr(Stdio::inherit());
    let run = cargo.output().map_err(|error| Failure::new(format!("cargo could not be started: {error}")))?;
    if !run.status.success() {
        return Err(Failure::of(&folder, format!("kws_stream failed ({}); see the messages above", run.status)));
    }
    let printed = String::from_utf8_lossy(&run.stdout);
    // The record has no stack use, because it depends on the compiler.
    if !printed.lines().filter(|line| !line.starts_with("stack ")).eq(expected.lines()) {
        return Err(Failure::of(&record, "the output of kws_stream differs; `cargo xtask qemu` shows where"));
    }
    let heard: Vec<&str> = printed.lines().filter_map(|line| line.strip_prefix("event ")?.split(',').next()).collect();
    let lines = expected.lines().count();
    Ok(format!("a Cortex-M4F in QEMU heard {}; all {lines} lines have the recorded bits", heard.join(" ")))
}
