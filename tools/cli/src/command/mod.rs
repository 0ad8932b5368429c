//! One command a file. A command reads its arguments, calls the library, and says what came out.

pub mod bench;
mod calibrate;
pub mod demo;
pub mod eval;
pub mod graph;
pub mod import;
pub mod inspect;
pub mod listen;
pub mod pack;
pub mod run;
pub mod verify;

use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use tidegate::front_end::Mfcc;
use tidegate::{Model, Numeric, Schedule};
use tidegate_tools::canonical::{self, MAX_SIZE};
use tidegate_tools::data::one_line;
use tidegate_tools::engine::Engine;
use tidegate_tools::format::checkpoint::index_of;
use tidegate_tools::load::Settings;
use tidegate_tools::pack::core_schedule;

/// What a command gives back.
pub type Outcome = Result<(), Failure>;

/// Why a command failed: one line for a person.
pub struct Failure {
    message: String,
    broken_pipe: bool,
}

impl Failure {
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), broken_pipe: false }
    }

    /// `file: reason`
    pub fn of(path: &Path, reason: impl fmt::Display) -> Self {
        Self::new(format!("{}: {reason}", path.display()))
    }

    pub fn is_broken_pipe(&self) -> bool {
        self.broken_pipe
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&one_line(&self.message))
    }
}

impl<E: Error + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        let io = (&error as &(dyn Error + 'static)).downcast_ref::<io::Error>();
        let broken_pipe = io.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
        // Files are named by their own errors: what is left is where the answer goes.
        let of = if io.is_some() { "standard output: " } else { "" };
        Self { message: format!("{of}{error}"), broken_pipe }
    }
}

/// Numerics by name.
#[derive(Clone, Copy, ValueEnum)]
pub enum NumericArg {
    F32,
    F16,
    I8x16,
    I4x16,
    I8,
}

impl From<NumericArg> for Numeric {
    fn from(arg: NumericArg) -> Self {
        match arg {
            NumericArg::F32 => Self::F32,
            NumericArg::F16 => Self::F16,
            NumericArg::I8x16 => Self::I8x16,
            NumericArg::I4x16 => Self::I4x16,
            NumericArg::I8 => Self::I8,
        }
    }
}

/// What computes.
#[derive(Clone, Copy, Default, ValueEnum)]
pub enum Backend {
    /// The reference kernels of the `tidegate` crate, as on a microcontroller
    Scalar,
    /// Kernels for this machine's instruction set
    #[default]
    Fused,
}

impl Backend {
    /// A model, to be computed by it.
    pub fn engine<'m>(self, model: &Model<'m>) -> Engine<'m> {
        match self {
            Self::Scalar => Engine::from(model),
            Self::Fused => Engine::fused(model),
        }
    }
}

/// The architecture of a file that holds only weights: a state dict, a checkpoint.
#[derive(clap::Args)]
pub struct ArchArgs {
    /// JSON file with the architecture of a file that holds only weights (docs/architecture.md)
    #[arg(long, value_name = "FILE")]
    pub arch: Option<PathBuf>,
    /// Steps of the sequences that a network looks at as a whole, as bidirectional ones do
    #[arg(long, value_name = "N", value_parser = parse_steps)]
    pub window: Option<usize>,
    /// Shape of an input of an ONNX graph that leaves it open, as in input=1,576; may be given several times
    #[arg(long, value_name = "NAME=D,D,...", value_parser = parse_shape)]
    pub shape: Vec<(String, Vec<usize>)>,
    /// File that holds an input of an ONNX graph that is a weight; may be given several times
    #[arg(long, value_name = "NAME=FILE", value_parser = parse_bind)]
    pub bind: Vec<(String, PathBuf)>,
}

impl ArchArgs {
    pub fn settings(&self) -> Settings {
        Settings {
            arch: self.arch.clone(),
            window: self.window,
            shapes: self.shape.iter().cloned().collect(),
            binds: self.bind.clone(),
            ..Settings::default()
        }
    }
}

/// A model to run.
#[derive(clap::Args)]
pub struct ModelArgs {
    /// A flash image, or any model that `import` reads
    pub file: PathBuf,
    #[command(flatten)]
    pub arch: ArchArgs,
    /// Numeric to pack a model in that is not an image [default: f32, or i8 for one in integers]
    #[arg(long)]
    pub numeric: Option<NumericArg>,
    /// What computes
    #[arg(long, value_enum, default_value_t)]
    pub backend: Backend,
}

impl ModelArgs {
    pub fn load(&self) -> Result<tidegate_tools::load::ImageBuffer, Failure> {
        Ok(tidegate_tools::load::image(&self.file, &self.arch.settings(), self.numeric.map(Numeric::from))?)
    }
}

/// What a model's file does not say, or otherwise.
#[derive(clap::Args)]
pub struct SettingArgs {
    #[command(flatten)]
    pub arch: ArchArgs,
    /// File with a label a line [default: labels.txt beside the model]
    #[arg(long, value_name = "FILE")]
    pub labels: Option<PathBuf>,
    /// `endless`, or windows of FRAMES frames, one starting every EVERY frames
    #[arg(long, value_name = "endless|FRAMES/EVERY", value_parser = parse_schedule)]
    pub schedule: Option<canonical::Schedule>,
    /// `precise` for Mycroft Precise's, or a JSON file with the front end [default: the model's own]
    #[arg(long, value_name = "precise|FILE")]
    pub front_end: Option<PathBuf>,
    /// Posteriors that the detector averages, 1 to 256 [default: 3, or 2 where there is one label]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub mean_of: Option<u32>,
    /// Least mean posterior of an event [default: 0.8]
    #[arg(long, value_name = "P", value_parser = parse_probability)]
    pub threshold: Option<f32>,
    /// No further event for so many milliseconds [default: the sound of a window, or 1000]
    #[arg(long, value_name = "MS")]
    pub refractory: Option<u32>,
}

impl SettingArgs {
    /// The files that are read beside the model.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        let files = [&self.labels, &self.front_end, &self.arch.arch].into_iter().flatten();
        files.chain(self.arch.bind.iter().map(|(_, file)| file)).map(PathBuf::as_path)
    }

    pub fn settings(&self) -> Settings {
        Settings {
            labels: self.labels.clone(),
            schedule: self.schedule,
            front_end: self.front_end.clone(),
            mean_of: self.mean_of,
            threshold: self.threshold,
            refractory_ms: self.refractory,
            ..self.arch.settings()
        }
    }
}

/// `endless` or `25/6`.
pub fn parse_schedule(text: &str) -> Result<canonical::Schedule, String> {
    if text == "endless" {
        return Ok(canonical::Schedule::Endless);
    }
    let numbers = text.split_once('/').and_then(|(frames, every)| Some((frames.parse().ok()?, every.parse().ok()?)));
    match numbers {
        Some((frames @ 1.., every @ 1..)) if frames.max(every) <= MAX_SIZE as u32 => {
            Ok(canonical::Schedule::Windows { frames, every })
        }
        _ => Err(format!("write `endless`, or two numbers from 1 to {MAX_SIZE} as in 25/6")),
    }
}

fn parse_shape(text: &str) -> Result<(String, Vec<usize>), String> {
    let dim = |dim: &str| dim.trim().parse().ok().filter(|dim| (1..=MAX_SIZE).contains(dim));
    let shape = text.rsplit_once('=').and_then(|(name, dims)| {
        let dims: Option<Vec<usize>> = dims.split(',').map(dim).collect();
        Some((name.to_owned(), dims?))
    });
    shape.ok_or_else(|| "write the input's name and its dimensions, as in input=1,576".to_owned())
}

fn parse_bind(text: &str) -> Result<(String, PathBuf), String> {
    let named = text.rsplit_once('=').filter(|(name, file)| !name.is_empty() && !file.is_empty());
    let named = named.map(|(name, file)| (name.to_owned(), PathBuf::from(file)));
    named.ok_or_else(|| "write the input's name and a file, as in W=weights.safetensors".to_owned())
}

fn parse_steps(text: &str) -> Result<usize, String> {
    let steps = text.parse().ok().filter(|steps| (1..=MAX_SIZE).contains(steps));
    steps.ok_or_else(|| format!("write a number from 1 to {MAX_SIZE}"))
}

fn parse_probability(text: &str) -> Result<f32, String> {
    let number = text.parse().ok().filter(|number| (0.0..=1.0).contains(number));
    number.ok_or_else(|| "write a number from 0 to 1".to_owned())
}

/// The model under the schedule that a command's `--schedule` names, or its own.
pub fn scheduled<'a>(
    model: Model<'a>,
    schedule: Option<canonical::Schedule>,
    file: &Path,
) -> Result<Model<'a>, Failure> {
    let Some(schedule) = schedule.map(core_schedule) else { return Ok(model) };
    model.with_schedule(schedule).map_err(|_| {
        let states = schedule.states();
        Failure::of(file, format!("{states} states in turn are too many: give --schedule with fewer frames"))
    })
}

/// `25 frames every 6 (5 states)`
pub fn schedule_text(schedule: Schedule) -> String {
    match schedule {
        Schedule::Endless => "endless".to_owned(),
        Schedule::Windows { frames, every } => {
            format!("windows of {frames} frames every {every}, {} states in turn", schedule.states())
        }
    }
}

/// The front end of a model that is to hear something.
pub fn front_end_of<'m>(model: &'m Model<'_>, file: &Path) -> Result<&'m Mfcc<'m>, Failure> {
    let Some(front_end) = model.front_end() else {
        let reason = "has no front end, so it cannot hear sound: pack it with --front-end, or give features";
        return Err(Failure::of(file, reason));
    };
    let (gives, takes) = (front_end.settings().coefficients as usize, model.input_size());
    if gives != takes {
        let reason = format!("its front end gives {gives} coefficients, the network takes {takes} features");
        return Err(Failure::of(file, reason));
    }
    Ok(front_end)
}

/// The labels of a model that is to name what it hears.
pub fn labels_of(model: &Model<'_>, file: &Path) -> Result<Vec<String>, Failure> {
    let labels: Vec<String> = model.labels().map(str::to_owned).collect();
    if labels.len() != model.output_size() {
        let reason = "has no labels for its classes: pack it with --labels FILE";
        return Err(Failure::of(file, reason));
    }
    Ok(labels)
}

/// Refuses to write over what was read: the mistake that loses a model.
pub fn keep_inputs(output: &Path, inputs: &[&Path]) -> Outcome {
    // Of a checkpoint's files each stands for all.
    let file = |path: &Path| index_of(path).as_deref().unwrap_or(path).canonicalize();
    let Ok(output_file) = file(output) else { return Ok(()) };
    let same = |input: &&&Path| file(input).is_ok_and(|input| input == output_file && input.is_file());
    match inputs.iter().find(same) {
        Some(_) => Err(Failure::of(output, "is what is read: give the output another name")),
        None => Ok(()),
    }
}

/// Refuses to write two files under one name, of which the later would take the place of the other.
pub fn keep_apart(outputs: &[&Path]) -> Outcome {
    let place = |path: &Path| {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let new = |folder: PathBuf| folder.join(path.file_name().unwrap_or_default());
        path.canonicalize().or_else(|_| folder.canonicalize().map(new))
    };
    // Devices and pipes take what comes.
    let file = |path: &&&Path| !path.exists() || path.is_file();
    let places: Vec<(&Path, PathBuf)> =
        outputs.iter().filter(file).filter_map(|path| Some((*path, place(path).ok()?))).collect();
    let taken = |at: usize| places.iter().take(at).any(|(_, place)| *place == places[at].1);
    match (0..places.len()).find(|&at| taken(at)) {
        Some(at) => Err(Failure::of(places[at].0, "is to hold two things: give each output a name of its own")),
        None => Ok(()),
    }
}

/// 1234567 as `1,234,567`.
pub fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> = digits.as_bytes().rchunks(3).rev().filter_map(|group| str::from_utf8(group).ok()).collect();
    groups.join(",")
}
