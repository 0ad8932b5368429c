//! `demo`: all steps from import to firmware, with a model and sounds that the program carries.

use std::env;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};
use tidegate::{Layout, Model, Numeric};
use tidegate_model::calibrate::Calibration;
use tidegate_model::compare::Comparison;
use tidegate_model::data::{Audio, Clip, prepare_wav, read_index};
use tidegate_model::heard::{Heard, hear as hear_stream};
use tidegate_model::load::{self, ImageBuffer, Settings};
use tidegate_model::output::write_atomically;
use tidegate_model::quantize::{RangeRules, Seen};
use tidegate_model::runner::{classify, features};
use tidegate_model::score::{Event, Piece, StreamScore, best, score};
use tidegate_model::sound::{front_end_of, joined, labels_of};
use tidegate_tools::grouped;
use tidegate_tools::plot::TruthSpan;
use tidegate_tools::progress::Bars;

use super::args::JsonArg;
use super::listen::{draw, print};
use super::{Failure, Outcome, layers, make_folder, shown};
use crate::carried;

/// Shows import, pack, verify, listen and firmware with a model and sounds that tidegate carries
///
/// Imports a keyword spotter of Hello Edge (Zhang et al. 2017) from its TensorFlow file, packs it into flash images, and
/// runs it on 24 clips as one stream. In a clone of the repository, it also runs the spotter as firmware in QEMU, if that
/// is installed. With --keep, the folder has the files for the examples of all commands.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  tidegate demo
  tidegate demo --keep demo")]
pub struct Args {
    /// Folder to keep models, images, sounds and the picture in
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    #[command(flatten)]
    json: JsonArg,
}

const FIRMWARE_TARGET: &str = "thumbv7em-none-eabihf";
const SEED: u64 = 0;
/// The numerics of the images, and the names of their files. The first one is the reference.
const IMAGES: [(Numeric, &str); 3] =
    [(Numeric::F32, "gru_s_f32.tgi"), (Numeric::F16, "gru_s_f16.tgi"), (Numeric::I8x16, "gru_s.tgi")];

/// The model of the demo.
const MODEL: &str = "GRU_S.pb";
/// The model as `import` writes it, the stream of all clips, and the picture of what is heard.
const CANONICAL: &str = "gru_s.safetensors";
const STREAM: &str = "stream.wav";
const PICTURE: &str = "listen.svg";
/// All files that the demo makes.
const MADE: [&str; 6] = [CANONICAL, IMAGES[0].1, IMAGES[1].1, IMAGES[2].1, STREAM, PICTURE];

/// The log of the demo: the steps that are done.
struct Log<'a> {
    out: &'a mut dyn Write,
    /// For programs, everything is printed at the end.
    is_json: bool,
    steps: Vec<Value>,
    since: Instant,
}

impl Log<'_> {
    /// Reports a step and the time since the one before it.
    fn step(&mut self, what: &str, text: &str) -> Outcome {
        let seconds = self.since.elapsed().as_secs_f64();
        self.since = Instant::now();
        if self.is_json {
            self.steps.push(json!({ "step": what, "seconds": seconds, "text": text }));
            return Ok(());
        }
        writeln!(self.out, "{what:<9} {seconds:6.2} s  {text}")?;
        Ok(self.out.flush()?)
    }
}

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let dir = Folder::new(args.keep.as_deref())?;
    let mut log = Log { out, is_json: args.json.json, steps: Vec::new(), since: Instant::now() };
    let (images, clips) = pack(dir.path(), &mut log)?;
    let heard = hear(dir.path(), &images, &clips, &mut log)?;
    let kept = match &args.keep {
        Some(dir) => format!("all files in {}: `cd {0} && tidegate inspect gru_s.tgi`", dir.display()),
        None => "nothing: `tidegate demo --keep demo` keeps models, images, sounds and the picture".to_owned(),
    };
    log.step("keep", &kept)?;
    let firmware = firmware(&mut log)?;
    log.step("firmware", &firmware)?;
    if log.is_json {
        let value =
            json!({ "kept": args.keep.as_deref().map(shown), "steps": log.steps, "events": heard.events_json() });
        writeln!(log.out, "{value}")?;
    }
    Ok(())
}

/// The folder of the demo's files, with those that the program carries.
enum Folder {
    Kept(PathBuf),
    Temporary(tempfile::TempDir),
}

impl Folder {
    fn new(keep: Option<&Path>) -> Result<Self, Failure> {
        let folder = match keep {
            Some(dir) => {
                make_folder(dir)?;
                // The demo may run again in its own folder.
                let made = MADE.map(|name| dir.join(name)).into_iter().find(|file| file.exists());
                if let Some(file) = made.filter(|_| !dir.join(MODEL).is_file()) {
                    let reason = "is there already, and is not overwritten: give --keep another folder";
                    return Err(Failure::of(&file, reason));
                }
                Self::Kept(dir.to_owned())
            }
            None => Self::Temporary(tempfile::tempdir().map_err(|error| Failure::of(&env::temp_dir(), error))?),
        };
        carried::write(folder.path())?;
        Ok(folder)
    }

    fn path(&self) -> &Path {
        match self {
            Self::Kept(path) => path,
            Self::Temporary(folder) => folder.path(),
        }
    }
}

/// Imports the model and packs it. Returns the [`IMAGES`] and the clips.
fn pack(dir: &Path, log: &mut Log<'_>) -> Result<(Vec<ImageBuffer>, Vec<Clip>), Failure> {
    let canonical = load::canonical(&dir.join(MODEL), &Settings::default())?.model;
    let file = dir.join(CANONICAL);
    canonical.save(&file)?;
    log.step("import", &format!("{MODEL} (TensorFlow 1) is {}: {CANONICAL}", layers(&canonical)))?;
    let mut images = Vec::new();
    let index = dir.join("speech_commands/index.csv");
    for (numeric, name) in IMAGES {
        let ranges = if numeric.is_integer() {
            Calibration::read(&index, &canonical, &file, &Bars)?.seen(&canonical, &file, &Bars)?
        } else {
            Seen::default()
        };
        let ranges = ranges.ranges(&RangeRules::default(), &canonical);
        let image = load::packed_with(&file, &canonical, numeric, &ranges, Layout::Portable)?;
        write_atomically(&dir.join(name), |to| to.write_all(image.bytes()))?;
        log.step("pack", &format!("{} bytes in {}: {name}", grouped(image.bytes().len()), numeric.name()))?;
        images.push(image);
    }
    Ok((images, read_index(&index)?))
}

/// Compares the images on the clips, one by one and as one stream, and draws what is heard.
fn hear(dir: &Path, images: &[ImageBuffer], clips: &[Clip], log: &mut Log<'_>) -> Result<Heard, Failure> {
    let file = dir.join(IMAGES[0].1);
    let models = images.iter().map(ImageBuffer::model).collect::<Result<Vec<_>, _>>()?;
    let [model, others @ ..] = models.as_slice() else { return Err(Failure::new("the demo has no images")) };
    let mfcc = front_end_of(model, &file)?;
    let labels = labels_of(model, &file)?;
    let sample_rate = mfcc.settings().sample_rate;
    let (sounds, plan) = joined(clips.iter().map(|clip| (&clip.path, clip.label.as_str())), sample_rate, SEED, &Bars)?;
    let heard_features = features(mfcc, &sounds.concat())?;
    let count = clips.len();
    let classes = |model: &Model<'_>| -> Result<Vec<usize>, Failure> {
        let mfcc = front_end_of(model, &file)?;
        sounds.iter().map(|sound| Ok(best(&classify(model, mfcc, sound)?))).collect()
    };
    let heard = classes(model)?;
    for other in others {
        let mut comparison = Comparison::new(other, model);
        comparison.run(other, model, &[&heard_features], |_| ())?;
        let agreed = classes(other)?.iter().zip(&heard).filter(|(other, full)| other == full).count();
        let (numeric, difference) = (other.numeric().name(), comparison.output.text());
        let verified = format!("{numeric} against f32: {difference}; same class on {agreed} of {count} clips");
        log.step("verify", &verified)?;
    }
    let right = clips.iter().zip(&heard).filter(|(clip, class)| labels[**class] == clip.label).count();
    log.step("eval", &format!("{right} of {count} clips right, one by one"))?;

    let mut stream = Vec::new();
    for piece in plan.pieces() {
        match piece {
            Piece::Gap(noise) => stream.extend(noise),
            Piece::Clip(clip) => stream.extend_from_slice(&sounds[clip]),
        }
    }
    let heard = hear_stream(model, &file, &stream)?;
    let rate = sample_rate as f32;
    let truth: Vec<TruthSpan<'_>> = plan
        .placed()
        .iter()
        .map(|clip| TruthSpan { start: clip.start as f32 / rate, end: clip.end as f32 / rate, label: &clip.label })
        .collect();
    draw(&heard, &dir.join(PICTURE), "Tidegate hears 24 clips", &stream, &truth)?;
    let events = heard.events.iter();
    let events: Vec<Event> =
        events.map(|event| Event { label: event.label, at_sample: (event.seconds * rate).round() as u64 }).collect();
    let StreamScore { keywords, right, wrong, false_alarms, seconds, .. } = score(&events, &plan, &labels);
    prepare_wav(&dir.join(STREAM), &Audio { sample_rate, samples: stream })?.keep()?;
    if !log.is_json {
        print(&heard, log.out)?;
    }
    let scored =
        format!("{seconds:.0} s: {right} of {keywords} keywords right, {wrong} wrong, {false_alarms} false alarms");
    log.step("listen", &format!("{scored}; {STREAM}, drawn in {PICTURE}"))?;
    Ok(heard)
}

/// The clone of the repository that contains the current folder.
fn clone() -> Option<PathBuf> {
    let here = env::current_dir().ok()?;
    here.ancestors().find(|folder| folder.join(RECORD).is_file()).map(Path::to_owned)
}

/// The record of the firmware's output.
const RECORD: &str = "firmware-examples/expected/kws_stream.run";

/// Builds and runs the firmware under QEMU. Returns the events it detected, or how to install what is missing.
fn firmware(log: &mut Log<'_>) -> Result<String, Failure> {
    let Some(root) = clone() else {
        let how = "left out: its source is in the repository; in a clone of that, the demo runs it in QEMU";
        return Ok(how.to_owned());
    };
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
    if !log.is_json {
        writeln!(log.out, "firmware           building for a Cortex-M4F, then QEMU: some minutes the first time")?;
        log.out.flush()?;
    }
    let (folder, record) = (root.join("firmware-examples"), root.join(RECORD));
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
