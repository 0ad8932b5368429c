//! Arguments that several commands share, and their parsers.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, RangedU64ValueParser, TypedValueParser};
use tidegate::{Model, Numeric, Schedule};
use tidegate_model::backend::{Engine, check_memory};
use tidegate_model::budget::TooCostly;
use tidegate_model::canonical::{self, MAX_SIZE};
use tidegate_model::load::{self, ImageBuffer, Labels, LoadError, Settings};
use tidegate_model::packing;
use tidegate_model::quantize::StandIn;

use super::{Failure, check_once, print_notes, say};
use tidegate_model::sound::schedule_text;

/// Backends that run a model.
#[derive(Clone, Copy, Default, ValueEnum)]
pub enum Backend {
    /// The reference kernels of the `tidegate` crate: the bits of a microcontroller
    Scalar,
    /// Kernels for the instruction set of this machine: the bits of a microcontroller in integers; f32 and f16 differ in
    /// the last bits
    #[default]
    Fused,
}

impl Backend {
    /// Prepares a model for this backend.
    pub fn engine<'m>(self, model: &Model<'m>) -> Engine<'m> {
        match self {
            Self::Scalar => Engine::from(model),
            Self::Fused => Engine::fused(model),
        }
    }
}

/// Whether a command prints for programs.
#[derive(clap::Args)]
pub struct JsonArg {
    /// Print one JSON value on standard output (docs/json.md)
    #[arg(long)]
    pub json: bool,
}

/// The source of the labels of a model.
#[derive(clap::Args)]
pub struct LabelsArg {
    /// File with one label per line, or `none` [default: labels.txt beside the model, if it has a label for each output]
    #[arg(long, value_name = "FILE|none")]
    pub labels: Option<PathBuf>,
}

impl LabelsArg {
    /// The file, if one is given.
    pub fn file(&self) -> Option<&PathBuf> {
        self.labels.as_ref().filter(|labels| labels.as_os_str() != "none")
    }

    fn source(&self) -> Labels {
        match (&self.labels, self.file()) {
            (None, _) => Labels::Usual,
            (Some(_), Some(file)) => Labels::File(file.clone()),
            (Some(_), None) => Labels::Own,
        }
    }
}

/// Settings of an import.
#[derive(clap::Args)]
pub struct ArchArgs {
    /// JSON file with the architecture of a file that holds only weights (docs/architecture.md)
    #[arg(long, value_name = "FILE")]
    pub arch: Option<PathBuf>,
    /// Sequence length for networks that need the whole sequence, such as bidirectional ones
    #[arg(long, value_name = "N",
        value_parser = RangedU64ValueParser::<usize>::new().range(1..=MAX_SIZE as u64))]
    pub window: Option<usize>,
    /// Shape of an ONNX input with open dimensions, or of a GraphDef's placeholder, as in input=1,576; repeatable
    #[arg(long, value_name = "NAME=D,D,...", value_parser = parse_shape)]
    pub shape: Vec<(String, Vec<usize>)>,
    /// Value of an ONNX input that is a weight or a setting: a file or a number, as in sr=16000; repeatable
    #[arg(long, value_name = "NAME=FILE|NUMBER", value_parser = parse_bind)]
    pub bind: Vec<(String, PathBuf)>,
    /// Output of an ONNX or TFLite graph that is the next value of an input, as in cache=cache_out; repeatable
    #[arg(long, value_name = "INPUT=OUTPUT", value_parser = parse_state)]
    pub state: Vec<(String, String)>,
}

impl ArchArgs {
    pub fn settings(&self) -> Result<Settings, Failure> {
        check_once("--shape", self.shape.iter().map(|(name, _)| name.as_str()))?;
        check_once("--bind", self.bind.iter().map(|(name, _)| name.as_str()))?;
        check_once("--state", self.state.iter().map(|(name, _)| name.as_str()))?;
        Ok(Settings {
            arch: self.arch.clone(),
            window: self.window,
            shapes: self.shape.iter().cloned().collect(),
            binds: self.bind.clone(),
            states: self.state.iter().cloned().collect(),
            ..Settings::default()
        })
    }

    /// All files that the settings name.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.arch.iter().chain(self.bind.iter().map(|(_, file)| file)).map(PathBuf::as_path)
    }
}

/// Whether a model over windows steps row by row.
#[derive(clap::Args)]
pub struct StreamArg {
    /// Step a model over windows row by row: each layer computes only what is new. The outputs are the same, bit for bit;
    /// a model with a layer that does not treat all rows alike is refused
    #[arg(long)]
    pub stream: bool,
}

/// Whether the schedule of a model applies.
#[derive(clap::Args)]
pub struct EndlessArg {
    /// Ignore the schedule of the model: run it as one endless state, unlike a device
    #[arg(long)]
    pub endless: bool,
}

impl EndlessArg {
    /// The engine with the schedule of its model, or without it.
    pub fn of<'m>(&self, engine: Engine<'m>) -> Engine<'m> {
        if !self.endless {
            return engine;
        }
        let schedule = engine.model().schedule();
        if schedule != Schedule::Endless {
            say(&format!("warning: --endless: a device runs {}, so its results differ", schedule_text(schedule)));
        }
        engine.endless()
    }
}

/// A model to run.
#[derive(clap::Args)]
pub struct ModelArgs {
    /// A flash image, or any model that `import` reads
    pub file: PathBuf,
    #[command(flatten)]
    pub arch: ArchArgs,
    #[command(flatten)]
    pub labels: LabelsArg,
    /// Numeric of a model that is not an image [default: f32, or i8 for an integer model; `inspect`: that of `pack`]
    #[arg(long, value_parser = numeric())]
    pub numeric: Option<Numeric>,
    /// Backend that runs the model
    #[arg(long, value_enum, default_value_t)]
    pub backend: Backend,
}

impl ModelArgs {
    /// The model and all files that its settings name.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        [Some(&self.file), self.labels.file()].into_iter().flatten().map(PathBuf::as_path).chain(self.arch.files())
    }

    /// Prepares the model for the backend, if there is memory to run it.
    pub fn engine<'m>(&self, model: &Model<'m>) -> Result<Engine<'m>, Failure> {
        check_memory(model).map_err(|error| Failure::of(&self.file, format!("{error}; {}", TooCostly::ADVICE)))?;
        Ok(self.backend.engine(model))
    }

    pub fn load(&self) -> Result<ImageBuffer, Failure> {
        self.load_in(self.settings(false)?, Numeric::F32).map(|(image, _)| image)
    }

    /// The image, and the inputs of a model that is not an image.
    pub fn load_streamed(&self, stream: &StreamArg) -> Result<(ImageBuffer, Vec<canonical::Port>), Failure> {
        self.load_in(self.settings(stream.stream)?, Numeric::F32)
    }

    /// The image as `pack` makes it without `--numeric`, apart from the ranges of integers; in f32 if the model has no form
    /// in integers.
    pub fn load_as_packed(&self, stream: &StreamArg) -> Result<ImageBuffer, Failure> {
        self.load_in(self.settings(stream.stream)?, packing::USUAL).map(|(image, _)| image)
    }

    fn settings(&self, stream: bool) -> Result<Settings, Failure> {
        Ok(Settings { stream, labels: self.labels.source(), ..self.arch.settings()? })
    }

    fn load_in(&self, settings: Settings, usual: Numeric) -> Result<(ImageBuffer, Vec<canonical::Port>), Failure> {
        let file = &self.file;
        if load::is_image(file)? {
            return Ok((load::image(file, &settings, self.numeric)?, Vec::new()));
        }
        let loaded = load::canonical(file, &settings)?;
        print_notes(file, &loaded);
        let model = loaded.model;
        let numeric = self.numeric.unwrap_or_else(|| model.architecture.numeric_or(usual));
        if self.numeric.is_none() && numeric.needs_ranges() && StandIn::of(&model) == StandIn::Noise {
            let (file, name) = (file.display(), numeric.name());
            say(&format!(
                "note: {file}: shown in {name}, which pack and new give with --calibrate; --numeric f32 shows floats"
            ));
        }
        let image = match load::packed(file, &model, numeric) {
            Err(error @ (LoadError::Pack { .. } | LoadError::Ranges { .. })) if self.numeric.is_none() => {
                say(&format!("note: {error}; shown in f32"));
                load::packed(file, &model, Numeric::F32)?
            }
            packed => packed?,
        };
        if self.numeric.is_some_and(Numeric::needs_ranges) {
            let file = file.display();
            say(&format!(
                "warning: {file}: the ranges of its integers are a guess: measure them with pack --calibrate"
            ));
        }
        Ok((image, model.architecture.inputs))
    }
}

/// Settings that complete or replace those of a model file.
#[derive(clap::Args)]
pub struct SettingArgs {
    #[command(flatten)]
    pub arch: ArchArgs,
    #[command(flatten)]
    pub stream: StreamArg,
    #[command(flatten)]
    pub labels: LabelsArg,
    /// `endless`, or windows of FRAMES frames, with a new one every EVERY frames
    #[arg(long, value_name = "endless|FRAMES/EVERY")]
    pub schedule: Option<canonical::Schedule>,
    /// JSON file with the front end, or the name of one: `precise` (Mycroft Precise), `micro_wake_word` (ESPHome),
    /// `mlperf_streaming` (MLPerf Tiny) [default: the model's own]
    #[arg(long, value_name = "NAME|FILE")]
    pub front_end: Option<PathBuf>,
    /// Number of posteriors that the detector averages, 1 to 256 [default: 3, or 2 for a single label]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub mean_of: Option<u32>,
    /// Minimum mean posterior of an event [default: 0.8]
    #[arg(long, value_name = "P", value_parser = parse_probability)]
    pub threshold: Option<f32>,
    /// Milliseconds after an event in which no other event is reported [default: duration of a window, or 1000]
    #[arg(long, value_name = "MS")]
    pub refractory: Option<u32>,
}

impl SettingArgs {
    /// All files that the settings name.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        let files = [self.labels.file(), self.front_end.as_ref()].into_iter().flatten().map(PathBuf::as_path);
        files.chain(self.arch.files())
    }

    pub fn settings(&self) -> Result<Settings, Failure> {
        Ok(Settings {
            stream: self.stream.stream,
            labels: self.labels.source(),
            schedule: self.schedule,
            front_end: self.front_end.clone(),
            mean_of: self.mean_of,
            threshold: self.threshold,
            refractory_ms: self.refractory,
            ..self.arch.settings()?
        })
    }
}

/// Parser of a numeric's name.
pub fn numeric() -> impl TypedValueParser<Value = Numeric> {
    let named = |name: String| Numeric::ALL.into_iter().find(|numeric| numeric.name() == name);
    PossibleValuesParser::new(Numeric::ALL.map(Numeric::name)).map(move |name| named(name).expect("a possible value"))
}

fn parse_state(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((input, output)) if !input.is_empty() && !output.is_empty() => Ok((input.to_owned(), output.to_owned())),
        _ => Err("it must be INPUT=OUTPUT, as in cache=cache_out".to_owned()),
    }
}

fn parse_shape(text: &str) -> Result<(String, Vec<usize>), String> {
    let dim = |dim: &str| dim.trim().parse().ok().filter(|dim| (1..=MAX_SIZE).contains(dim));
    let shape = || {
        let (name, dims) = text.rsplit_once('=')?;
        Some((name.to_owned(), dims.split(',').map(dim).collect::<Option<_>>()?))
    };
    shape().ok_or_else(|| "write the name of the input and its dimensions, as in input=1,576".to_owned())
}

fn parse_bind(text: &str) -> Result<(String, PathBuf), String> {
    match text.rsplit_once('=') {
        Some((name, file)) if !name.is_empty() && !file.is_empty() => Ok((name.to_owned(), file.into())),
        _ => Err("write the name of the input and a file or a number, as in W=weights.safetensors".to_owned()),
    }
}

fn parse_probability(text: &str) -> Result<f32, String> {
    let number = text.parse().ok().filter(|number| (0.0..=1.0).contains(number));
    number.ok_or_else(|| "write a number from 0 to 1".to_owned())
}
