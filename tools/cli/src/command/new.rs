//! `new`: a project for a board, from a model.

mod board;
mod project;
mod template;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;
use tidegate::{DetectorSettings, Layout, Mfcc, Model, Numeric};
use tidegate_model::canonical::Canonical;
use tidegate_model::load::{self, ImageBuffer, Loaded};
use tidegate_model::packing::{Measured, Packer, Packing, Source, only_for_integers};
use tidegate_model::quantize::{Ranges, StandIn, is_poor};
use tidegate_tools::grouped;
use tidegate_tools::progress::Bars;

use self::board::{Board, Machine};
use self::project::Project;
use self::template::File;
use super::args::{JsonArg, SettingArgs, numeric};
use super::{Failure, Outcome, print_file_notes, print_notes, say};

/// Writes a project that builds and runs a model on a board
///
/// The project is complete: program, memory layout, model, and the source of the runtime. The boards `qemu-*` are
/// simulated: `cargo run` starts them, and `cargo test` checks that host and device give the same bits.
#[derive(clap::Args)]
#[command(after_help = "Examples, in the folder of `tidegate demo --keep .`:
  tidegate new kws --model gru_s.tgi --for qemu-m4
  tidegate new kws-in-c --model gru_s.tgi --for qemu-m0 --c
  tidegate new kws-nrf --model GRU_S.pb --for nrf52840 --calibrate speech_commands/index.csv")]
pub struct Args {
    /// Name of the project and of its folder, which must not exist
    name: String,
    /// The model: a flash image, or any file that `pack` reads
    #[arg(long, value_name = "FILE")]
    model: PathBuf,
    /// The board
    #[arg(long = "for", value_name = "BOARD", value_enum)]
    board: &'static Board,
    /// Write a CMake project in C with start-up code and linker script (boards qemu-*)
    #[arg(long)]
    c: bool,
    /// Write a task that awaits samples, for embassy's executor; boards with a HAL of embassy always have one
    #[arg(long = "async", conflicts_with = "c")]
    is_async: bool,
    /// Number format of weights, activations and states [default: i8x16 for a model with a front end or with --calibrate, i8
    /// for an integer model, otherwise f32]
    #[arg(long, value_parser = numeric())]
    numeric: Option<Numeric>,
    /// Calibration data for integer ranges, as for `pack`
    #[arg(long, value_name = "DATA")]
    calibrate: Option<PathBuf>,
    #[command(flatten)]
    settings: SettingArgs,
    #[command(flatten)]
    json: JsonArg,
}

/// Stack that a program is assumed to need, and flash for its code in Rust and in C. Only the linker checks the real sizes.
const STACK: usize = 8 << 10;
const CODE: usize = 56 << 10;
const CODE_IN_C: usize = 32 << 10;

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let folder = PathBuf::from(&args.name);
    check_name(&args.name)?;
    if fs::symlink_metadata(&folder).is_ok() {
        return Err(Failure::of(&folder, "exists already, and nothing is overwritten: give another name"));
    }
    let Board { name, machine, .. } = args.board;
    if args.c && !matches!(machine, Machine::Qemu { .. }) {
        let reason =
            "--c is for the boards qemu-*: their start-up code and linker script show what another board needs";
        return Err(Failure::new(format!("{name}: {reason}")));
    }
    if args.is_async && matches!(machine, Machine::Esp) {
        return Err(Failure::new(format!("{name}: its program has no tasks: leave --async out")));
    }
    let (image, loaded) = image(args)?;
    let model = image.model()?;
    check_ports(&model, &args.model)?;
    let recording = match model.front_end() {
        Some(front_end) if args.board.microphone(&model).is_none() => StandIn::speech(front_end.settings().sample_rate),
        _ => Vec::new(),
    };
    let code = if args.c { CODE_IN_C } else { CODE };
    let (flash, ram) = (image.bytes().len() + 2 * recording.len() + code, ram_bytes(&model) + STACK);
    for (what, needed, given) in [("flash", flash, args.board.flash), ("RAM", ram, args.board.ram)] {
        if needed > given {
            let (needed, given) = (grouped(needed), grouped(given));
            let reason = format!(
                "needs about {needed} bytes of {what}, and {name} has {given}: give a smaller model, or another board"
            );
            return Err(Failure::of(&args.model, reason));
        }
    }
    let project = Project {
        name: &args.name,
        board: args.board,
        model: &model,
        image: image.bytes(),
        recording: &recording,
        is_async: args.is_async,
    };
    write(&folder, &if args.c { project.c() } else { project.rust() })?;
    if let Some(loaded) = &loaded {
        print_notes(&args.model, loaded);
    }
    let start = match machine {
        Machine::Qemu { .. } if args.c => "cmake --workflow --preset run",
        Machine::Qemu { .. } => "cargo run",
        Machine::Embassy { .. } | Machine::Esp => "cargo run --release",
    };
    if args.json.json {
        let (model_bytes, numeric, layout) = (image.bytes().len(), model.numeric().name(), model.layout().name());
        let value = json!({
            "folder": args.name,
            "board": name,
            "numeric": numeric,
            "layout": layout,
            "model_bytes": model_bytes,
            "flash_bytes": flash,
            "ram_bytes": ram,
            "start": start,
        });
        writeln!(out, "{value}")?;
        return Ok(());
    }
    let (bytes, numeric) = (grouped(image.bytes().len()), model.numeric().name());
    writeln!(out, "{}: a project for {name}, {}", args.name, args.board.about)?;
    writeln!(out, "model.tgi: {bytes} bytes, {numeric}, layout {}", model.layout().name())?;
    writeln!(out, "memory: about {} bytes of flash and {} of RAM", grouped(flash), grouped(ram))?;
    let (program, stack) = (grouped(flash - image.bytes().len()), grouped(STACK));
    let recording = if recording.is_empty() { "" } else { " with its recording" };
    writeln!(out, "        of these, {program} are for the program{recording} and {stack} for its stack")?;
    if let Some((program, package)) = args.board.emulator().filter(|(program, _)| !runs(program)) {
        writeln!(out, "{program} is not installed (Debian: apt-get install {package})")?;
    }
    writeln!(out, "\n    cd {}\n    {start}", args.name)?;
    Ok(())
}

/// Whether a program can be started.
fn runs(program: &str) -> bool {
    let version = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    version.is_ok_and(|status| status.success())
}

/// Names that cargo refuses, or that belong to a package of the project.
const TAKEN: [&str; 8] = ["alloc", "build", "core", "deps", "examples", "incremental", "std", "test"];

fn check_name(name: &str) -> Outcome {
    let refuse = |reason: &str| Err(Failure::new(format!("{name:?}: {reason}")));
    let is_plain = name.chars().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_'));
    if !is_plain || !name.starts_with(|first: char| first.is_ascii_alphabetic()) || name.len() > 64 {
        return refuse("a name begins with a letter and has at most 64 letters, digits, - and _, as in kws-2");
    }
    let packages = ["cortex-m", "cortex-m-rt", "riscv", "riscv-rt", "semihosting", "tidegate", "tidegate-c", "twin"];
    let is_dependency = packages.contains(&name) || name.starts_with("embassy-") || name.starts_with("esp-");
    if TAKEN.contains(&name) || is_dependency || is_keyword(name) {
        return refuse(
            "is the name of a package of the project, or a word of Rust or cargo: give another, as in my-kws",
        );
    }
    Ok(())
}

/// Keywords of Rust, strict and reserved (The Rust Reference, Keywords).
fn is_keyword(name: &str) -> bool {
    const WORDS: &str = "abstract as async await become box break const continue crate do dyn else enum extern false \
        final fn for gen if impl in let loop macro match mod move mut override priv pub ref return self Self static \
        struct super trait true try type typeof unsafe unsized use virtual where while yield";
    WORDS.split_whitespace().any(|word| word == name)
}

/// The image of the project: a given one, or a packed one.
fn image(args: &Args) -> Result<(ImageBuffer, Option<Loaded>), Failure> {
    let (file, board) = (&args.model, args.board);
    if load::is_image(file)? {
        if args.calibrate.is_some() {
            return Err(Failure::of(file, "is a flash image, whose integers have their ranges: leave --calibrate out"));
        }
        let image = load::image(file, &args.settings.settings()?, args.numeric)?;
        let layout = image.model()?.layout();
        if !board.reads(layout) {
            let (layout, own) = (layout.name(), board.core.layout.name());
            let reason = format!(
                "has weights in the layout {layout}, which the core of {} does not read: pack it with --for {own}, or give \
                 the model that it was packed from",
                board.name
            );
            return Err(Failure::of(file, reason));
        }
        return Ok((image, None));
    }
    let loaded = load::canonical(file, &args.settings.settings()?)?;
    let model = &loaded.model;
    let usual =
        if model.architecture.front_end.is_some() || args.calibrate.is_some() { Numeric::I8x16 } else { Numeric::F32 };
    let numeric = args.numeric.unwrap_or_else(|| model.architecture.numeric_or(usual));
    let layout = if board.core.layout.is_of(numeric) { board.core.layout } else { Layout::Portable };
    if numeric.needs_ranges() {
        return Ok((integers(args, model, numeric, layout)?, Some(loaded)));
    }
    if args.numeric.is_none() && numeric == Numeric::F32 {
        let name = file.display();
        say(&format!(
            "note: {name}: in f32, because neither --calibrate nor --numeric is given; --calibrate DATA gives integers"
        ));
    }
    if args.calibrate.is_some() {
        return Err(Failure::new(only_for_integers("--calibrate", numeric)));
    }
    Ok((load::packed_with(file, model, numeric, &Ranges::default(), layout)?, Some(loaded)))
}

/// Packs in integers as `pack` does without other options.
fn integers(args: &Args, model: &Canonical, numeric: Numeric, layout: Layout) -> Result<ImageBuffer, Failure> {
    let file = &args.model;
    let packing = Packing { numeric: Some(numeric), layout, ..Packing::default() };
    let source = args.calibrate.as_deref().map_or(Source::Nothing, Source::File);
    let (image, measured) = Packer { model, file, progress: &Bars }.pack(&packing, source, None)?;
    if let (Some(measured), Some(data)) = (&measured, &args.calibrate) {
        print_file_notes(data, &measured.notes);
    }
    if let Some(Measured { comparison, .. }) = measured.filter(|measured| is_poor(&measured.comparison.output)) {
        let (name, ratio) = (file.display(), comparison.output.snr_db());
        say(&format!("warning: {name}: the output is {ratio:.1} dB from that of f32: `tidegate pack` shows why"));
    }
    Ok(image)
}

/// The templates are for one input and one output.
fn check_ports(model: &Model<'_>, file: &Path) -> Outcome {
    match (model.inputs().count(), model.outputs().count()) {
        (1, 1) => Ok(()),
        (inputs, outputs) => {
            let reason = format!(
                "has {inputs} inputs and {outputs} outputs, and a project is written for one of each: `tidegate pack` \
                 writes its image for Model::step_ports"
            );
            Err(Failure::of(file, reason))
        }
    }
}

/// Bytes of RAM that the model needs, without the stack.
fn ram_bytes(model: &Model<'_>) -> usize {
    let front_end = model.front_end().map_or(0, Mfcc::memory_words);
    let detector = model.detector().map_or(0, DetectorSettings::memory_words);
    let ports = model.input_size() + model.output_size();
    4 * (model.state_words() + model.scratch_words() + front_end + detector + ports)
}

fn failed(path: &Path) -> impl Fn(io::Error) -> Failure {
    move |error| Failure::of(path, format!("cannot be written: {error}"))
}

/// Writes the whole folder, or leaves nothing behind.
fn write(folder: &Path, files: &[File]) -> Outcome {
    fs::create_dir(folder).map_err(failed(folder))?;
    let written = files.iter().try_for_each(|(name, content)| {
        let path = folder.join(name);
        let parent = path.parent().unwrap_or(folder);
        fs::create_dir_all(parent).map_err(failed(parent))?;
        fs::write(&path, content).map_err(failed(&path))
    });
    if written.is_err() {
        // The error of the write is more useful than an error of this removal.
        let _ = fs::remove_dir_all(folder);
    }
    written
}
