//! Loads a model from any supported file, ready to run. Images are used as they are; everything else is imported and
//! packed.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use tidegate::internals::image::field::MAGIC_BYTES;
use tidegate::{ImageError, Layout, Numeric};

pub use crate::buffer::ImageBuffer;
use crate::canonical::{Canonical, Detector, MAX_SIZE, Mfcc, Schedule, Tensor};
use crate::data::{DataError, one_line, read_bytes, read_tensors};
use crate::error::ImportError;
use crate::format::checkpoint::index_of;
use crate::format::wake_word::WakeWord;
use crate::format::{self, Assumption, Description, Imported, Options};
use crate::pack::{PackError, pack_kept, pack_with};
use crate::quantize::{Kept, Ranges, RangesError};
use crate::streamed::streamed;

/// Why a model cannot be loaded.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the error texts explain the variants and their fields")]
pub enum LoadError {
    #[error(transparent)]
    Data(#[from] DataError),
    #[error("{}: {source}{}", path.display(), advice(source))]
    Import { path: PathBuf, source: ImportError },
    #[error("{}: {source}: pack the model again, or fetch the image again", path.display())]
    Image { path: PathBuf, source: ImageError },
    #[error("{}: packed, {source}: make the model smaller, or its windows shorter or fewer", path.display())]
    Packed { path: PathBuf, source: ImageError },
    #[error("{}: {source}", path.display())]
    Pack { path: PathBuf, source: PackError },
    #[error("{}: {source}", path.display())]
    Ranges { path: PathBuf, source: Box<RangesError> },
    #[error("{}: {reason}", path.display())]
    Setting { path: PathBuf, reason: String },
    #[error("{reason}")]
    Option { reason: String },
}

fn setting<T>(path: &Path, reason: impl Into<String>) -> Result<T, LoadError> {
    Err(LoadError::Setting { path: path.to_owned(), reason: reason.into() })
}

fn advice(error: &ImportError) -> String {
    match error.advice() {
        "" => String::new(),
        advice => format!("; {advice}"),
    }
}

/// User settings that complete or override the model's file.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// JSON file with the architecture of a weights-only file.
    pub arch: Option<PathBuf>,
    /// Sequence length for networks that need the whole sequence.
    pub window: Option<usize>,
    /// Shapes of inputs of an ONNX graph, or of placeholders of a GraphDef, by name.
    pub shapes: BTreeMap<String, Vec<usize>>,
    /// Inputs of an ONNX graph that are weights or settings, and the files that hold them, or a number.
    pub binds: Vec<(String, PathBuf)>,
    /// Outputs of an ONNX or TFLite graph that are the next values of inputs.
    pub states: BTreeMap<String, String>,
    /// Source of the labels.
    pub labels: Labels,
    /// Whether a model over windows steps row by row.
    pub stream: bool,
    /// Division of a stream into runs.
    pub schedule: Option<Schedule>,
    /// Name of a front end for [`Mfcc::named`], or a JSON file with one in the form of canonical models. Windows with
    /// the graph's own length then start at the usual interval of this front end.
    pub front_end: Option<PathBuf>,
    /// Number of posteriors that the detector averages.
    pub mean_of: Option<u32>,
    /// Least mean posterior of an event, for every label that can cause events.
    pub threshold: Option<f32>,
    /// Minimum time between events in milliseconds.
    pub refractory_ms: Option<u32>,
}

/// The source of the labels of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Labels {
    /// The model's own labels; if it has none, those in `labels.txt` beside it, provided there is one for each class.
    #[default]
    Usual,
    /// A file with one label on each line.
    File(PathBuf),
    /// These labels.
    Given(Vec<String>),
    /// No labels beside those of the model itself.
    Own,
}

impl Settings {
    /// Whether the user has set the option that replaces an assumption.
    fn decide(&self, assumption: &Assumption) -> bool {
        let given = [("--schedule", self.schedule.is_some()), ("--front-end", self.front_end.is_some())];
        given.iter().any(|(option, given)| *given && assumption.option.starts_with(option))
    }

    /// Refuses numbers that are out of range, whatever the model.
    fn check(&self, path: &Path) -> Result<(), LoadError> {
        if let Some(window) = self.window.filter(|window| !(1..=MAX_SIZE).contains(window)) {
            return setting(path, format!("--window is {window}, but must be 1 to {MAX_SIZE}"));
        }
        if let Some(threshold) = self.threshold.filter(|threshold| !(0.0..=1.0).contains(threshold)) {
            return setting(path, format!("--threshold is {threshold}, but must be 0 to 1"));
        }
        Ok(())
    }
}

/// Loads and checks the image in `path`, or the image of the model in `path`.
///
/// # Errors
/// If the file is neither an image nor a supported model.
pub fn image(path: &Path, settings: &Settings, numeric: Option<Numeric>) -> Result<ImageBuffer, LoadError> {
    let index = index_of(path);
    let path = index.as_deref().unwrap_or(path);
    if !is_image(path)? {
        let model = canonical(path, settings)?.model;
        let numeric = numeric.unwrap_or_else(|| model.architecture.numeric_or(Numeric::F32));
        return packed(path, &model, numeric);
    }
    let Settings { arch, window, shapes, binds, states, stream, labels, .. } = settings;
    let Settings { schedule, front_end, mean_of, threshold, refractory_ms, .. } = settings;
    let has_ports = !shapes.is_empty() || !binds.is_empty() || !states.is_empty();
    if arch.is_some() || window.is_some() || has_ports || *stream {
        let holds = "is a flash image, which holds its architecture";
        return setting(path, format!("{holds}: leave --arch, --window, --shape, --bind, --state and --stream out"));
    }
    if *labels != Labels::Usual {
        return setting(path, "is a flash image, which holds its labels: leave --labels out");
    }
    let detects = mean_of.is_some() || threshold.is_some() || refractory_ms.is_some();
    if schedule.is_some() || front_end.is_some() || detects {
        let options = "--schedule, --front-end, --mean-of, --threshold and --refractory";
        return setting(path, format!("is a flash image, which holds its settings: leave {options} out"));
    }
    let buffer = ImageBuffer::new(&read_bytes(path)?);
    let model = buffer.model().map_err(|source| LoadError::Image { path: path.to_owned(), source })?;
    if numeric.is_some_and(|numeric| numeric != model.numeric()) {
        return setting(path, format!("is packed as {} already: leave --numeric out", model.numeric().name()));
    }
    Ok(buffer)
}

/// Packs and checks the image of a canonical model that was read from `path`. The ranges for integers are measured over
/// noise.
///
/// # Errors
/// If the model cannot be packed.
pub fn packed(path: &Path, model: &Canonical, numeric: Numeric) -> Result<ImageBuffer, LoadError> {
    let ranges = if numeric.needs_ranges() {
        let failed = |source| LoadError::Ranges { path: path.to_owned(), source: Box::new(source) };
        Ranges::without_data(model).map_err(failed)?
    } else {
        Ranges::default()
    };
    packed_with(path, model, numeric, &ranges, Layout::Portable)
}

/// Like [`packed`], with the ranges of the model's values, and a layout for its weights.
pub fn packed_with(
    path: &Path,
    model: &Canonical,
    numeric: Numeric,
    ranges: &Ranges,
    layout: Layout,
) -> Result<ImageBuffer, LoadError> {
    let failed = |source| LoadError::Pack { path: path.to_owned(), source };
    let buffer = ImageBuffer::new(&pack_with(model, numeric, ranges, layout).map_err(failed)?);
    buffer.model().map_err(|source| LoadError::Packed { path: path.to_owned(), source })?;
    Ok(buffer)
}

/// [`packed_with`] in the portable layout, and the weights that the image holds.
///
/// # Errors
/// If the model cannot be packed.
pub fn packed_kept(
    path: &Path,
    model: &Canonical,
    numeric: Numeric,
    ranges: &Ranges,
) -> Result<(ImageBuffer, Kept), LoadError> {
    let failed = |source| LoadError::Pack { path: path.to_owned(), source };
    let (image, kept) = pack_kept(model, numeric, ranges).map_err(failed)?;
    Ok((ImageBuffer::new(&image), kept))
}

/// Whether `path` starts like an image. A checkpoint may be given by its prefix.
///
/// # Errors
/// If the file cannot be read.
pub fn is_image(path: &Path) -> Result<bool, DataError> {
    let index = index_of(path);
    let path = index.as_deref().unwrap_or(path);
    let failed = |error| DataError::io(path, "read", error);
    let mut head = [0; MAGIC_BYTES.len()];
    match fs::File::open(path).map_err(failed)?.read_exact(&mut head) {
        Ok(()) => Ok(head == MAGIC_BYTES),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(failed(error)),
    }
}

/// A model with the settings applied.
#[derive(Debug)]
pub struct Loaded {
    /// The model.
    pub model: Canonical,
    /// Notes for the user on the import, and on labels that are not from the model itself.
    pub notes: Vec<String>,
    /// Choices that neither the file nor the settings make.
    pub assumptions: Vec<Assumption>,
}

impl Loaded {
    /// Everything a user should know, a line for each: first the assumptions, each with the option that changes it.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        let assumed = |Assumption { what, option }: &_| one_line(&format!("{what}; to change this, give {option}"));
        self.assumptions.iter().map(assumed).chain(self.notes.iter().map(|note| one_line(note)))
    }
}

/// Reads the model in `path` and applies the settings.
///
/// # Errors
/// If the file is not a supported model, or a setting does not fit it.
pub fn canonical(path: &Path, settings: &Settings) -> Result<Loaded, LoadError> {
    settings.check(path)?;
    let index = index_of(path);
    let path = index.as_deref().unwrap_or(path);
    if is_image(path)? {
        return setting(path, "is a flash image already; give the model that it was packed from");
    }
    let wake_word = WakeWord::of(path)?;
    let path = wake_word.as_ref().map_or(path, |wake_word| wake_word.model.as_path());
    let options = options(settings)?;
    let imported = format::import_with(path, &options).map_err(|source| match source {
        ImportError::Io(error) => DataError::io(path, "read", error).into(),
        source => LoadError::Import { path: path.to_owned(), source },
    })?;
    finished(path, imported, settings, wake_word.as_ref())
}

/// Like [`canonical`], from the bytes of a file; `name` stands for its path. `description` is the text of a JSON file beside
/// it: a wake word of ESPHome, or an architecture that replaces that of the settings.
///
/// # Errors
/// As [`canonical`].
pub fn canonical_bytes(
    bytes: &[u8],
    name: &str,
    description: Option<&[u8]>,
    settings: &Settings,
) -> Result<Loaded, LoadError> {
    let path = Path::new(name);
    settings.check(path)?;
    if bytes.starts_with(&MAGIC_BYTES) {
        return setting(path, "is a flash image already; give the model that it was packed from");
    }
    let mut options = options(settings)?;
    let wake_word = description.map_or(Ok(None), |text| WakeWord::parse(text, &path.with_extension("json")))?;
    if let (Some(text), None) = (description, &wake_word) {
        options.description = Some(Description::parse(text, path)?);
    }
    let imported = format::import_bytes_with(bytes, name, &options)
        .map_err(|source| LoadError::Import { path: path.to_owned(), source })?;
    finished(path, imported, settings, wake_word.as_ref())
}

/// Applies the settings to an imported model.
fn finished(
    path: &Path,
    imported: Imported,
    settings: &Settings,
    wake_word: Option<&WakeWord>,
) -> Result<Loaded, LoadError> {
    let Imported { model, mut notes, mut assumptions } = imported;
    assumptions.retain(|assumption| !settings.decide(assumption));
    let mut model = model.with_magnitudes();
    match streamed(&model.architecture) {
        Ok(architecture) if settings.stream => model.architecture = architecture,
        Err(error) if settings.stream => return setting(path, error.to_string()),
        Ok(_) => {
            notes.push("every layer treats the rows of the window alike: --stream steps row by row".to_owned());
        }
        Err(_) => {}
    }
    if let Some(wake_word) = wake_word {
        wake_word.apply(&mut model.architecture);
        notes.push(format!("wake word, front end and detector from {}", wake_word.file.display()));
    }
    notes.extend(apply_labels(path, &settings.labels, &mut model)?);
    let architecture = &mut model.architecture;
    if let Some(file) = &settings.front_end {
        let (front_end, usual) = read_front_end(file)?;
        // A graph whose input is features does not define how often windows start.
        if let Schedule::Windows { frames, every } = &mut architecture.schedule
            && frames == every
        {
            *every = usual.min(*frames);
        }
        architecture.front_end = Some(front_end);
    }
    if let Some(schedule) = settings.schedule {
        architecture.schedule = schedule;
    }
    if architecture.detector.is_none() && !architecture.labels.is_empty() {
        architecture.detector = Some(Detector::default_for(&architecture.labels, architecture.window_ms()));
    }
    if let Some(detector) = &mut architecture.detector {
        detector.mean_of = settings.mean_of.unwrap_or(detector.mean_of);
        for label in &mut detector.labels {
            label.refractory_ms = settings.refractory_ms.unwrap_or(label.refractory_ms);
            if label.threshold <= 1.0 {
                label.threshold = settings.threshold.unwrap_or(label.threshold);
            }
        }
    } else if settings.mean_of.is_some() || settings.threshold.is_some() || settings.refractory_ms.is_some() {
        return setting(path, "has no labels to detect: give them with --labels FILE");
    }
    model.validate().or_else(|error| setting(path, error.to_string()))?;
    Ok(Loaded { model, notes, assumptions })
}

/// The importer options of the user settings.
///
/// # Errors
/// If a file with a part of the settings cannot be read, or lacks it.
pub fn options(settings: &Settings) -> Result<Options, DataError> {
    let mut options = Options::new(settings.arch.as_deref(), settings.window)?;
    options.onnx.shapes.clone_from(&settings.shapes);
    options.onnx.states.clone_from(&settings.states);
    for (name, file) in &settings.binds {
        if let Some(number) = number(file) {
            options.onnx.bound.insert(name.clone(), Tensor { shape: Vec::new(), data: vec![number] });
            continue;
        }
        let mut tensors = read_tensors(file)?;
        let tensor = match tensors.len() {
            1 => tensors.pop_first().map(|(_, tensor)| tensor),
            _ => tensors.remove(name),
        };
        let missing = || DataError::new(file, format!("has no tensor {name:?}, which --bind takes from it"));
        options.onnx.bound.insert(name.clone(), tensor.ok_or_else(missing)?);
    }
    Ok(options)
}

/// A number that is given in place of a file.
fn number(file: &Path) -> Option<f32> {
    file.to_str()?.parse().ok().filter(|number: &f32| number.is_finite() && !file.exists())
}

/// Gives a model its labels. Returns a note on labels that are not its own.
fn apply_labels(path: &Path, labels: &Labels, model: &mut Canonical) -> Result<Option<String>, LoadError> {
    let architecture = &mut model.architecture;
    let beside = path.with_file_name("labels.txt");
    let (file, is_given) = match labels {
        Labels::Given(labels) => return set_labels(Path::new("labels"), labels.clone(), path, model).map(|()| None),
        Labels::File(file) => (file.as_path(), true),
        Labels::Usual if architecture.labels.is_empty() && beside.is_file() => (beside.as_path(), false),
        Labels::Usual | Labels::Own => return Ok(None),
    };
    let text = String::from_utf8(read_bytes(file)?).map_err(|_| DataError::new(file, "is not UTF-8 text"))?;
    let labels: Vec<String> =
        text.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).take(MAX_SIZE + 1).collect();
    let (found, classes, shown) = (labels.len(), classes(model), file.display());
    if found != classes && !is_given {
        return Ok(Some(format!("{shown} is not used: it has {found} labels, and the model has {classes} outputs")));
    }
    set_labels(file, labels, path, model)?;
    let advice = if is_given { "" } else { ", which is beside the model; --labels none leaves them out" };
    Ok(Some(format!("{found} labels from {shown}{advice}")))
}

fn classes(model: &Canonical) -> usize {
    model.architecture.outputs.first().map_or(0, |output| output.size)
}

/// Sets the labels from `file` of the model from `path`.
fn set_labels(file: &Path, labels: Vec<String>, path: &Path, model: &mut Canonical) -> Result<(), LoadError> {
    let (found, classes, of) = (labels.len(), classes(model), path.display());
    if found != classes {
        let reason =
            format!("has {found} labels, the model {of} has {classes} classes; give as many with --labels FILE");
        return setting(file, reason);
    }
    let architecture = &mut model.architecture;
    if architecture.labels != labels {
        architecture.detector = None;
    }
    architecture.labels = labels;
    Ok(())
}

/// The front end named by [`Mfcc::named`], or in a JSON file, and the number of frames from the start of one window to
/// the next.
///
/// # Errors
/// If neither a front end of this name nor such a file exists.
pub fn read_front_end(file: &Path) -> Result<(Mfcc, u32), LoadError> {
    if let Some(known) = file.to_str().and_then(Mfcc::named) {
        return Ok(known);
    }
    if !file.exists() {
        let known = Mfcc::NAMES.join(", ");
        return setting(file, format!("is not a file, and no front end has this name; known: {known}"));
    }
    let text = read_bytes(file)?;
    let front_end: Mfcc = serde_json::from_slice(&text).or_else(|error| {
        setting(file, format!("is not a front end: {error}; `tidegate inspect MODEL --json` shows one"))
    })?;
    let every = front_end.every();
    Ok((front_end, every))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The model has a thousand windows at once, with the greatest possible state.
    #[test]
    fn a_model_whose_image_does_not_run_is_not_to_be_packed_again() {
        let json = r#"{"version": 1, "source": "", "inputs": [{"name": "x", "size": 1}],
            "nodes": [{"name": "l", "cell": "lstm", "inputs": ["x"], "options": ["projection"],
                "input_size": 1, "hidden_size": 65535, "output_size": 1}],
            "outputs": [{"name": "y", "size": 1, "from": "l"}],
            "schedule": {"windows": {"frames": 1024, "every": 1}}}"#;
        let tensor = |name: &str, shape: &[usize]| {
            (format!("l.{name}"), Tensor { shape: shape.to_vec(), data: vec![0.5; shape.iter().product()] })
        };
        let gates = 4 * 65_535;
        let tensors = [
            tensor("input_weights", &[gates, 1]),
            tensor("recurrent_weights", &[gates, 1]),
            tensor("input_bias", &[gates]),
            tensor("projection_weights", &[1, 65_535]),
        ];
        let mut model = Canonical { architecture: serde_json::from_str(json).unwrap(), tensors: tensors.into() };
        let load = |model: &Canonical| packed(Path::new("a.safetensors"), model, Numeric::F16);
        let error = load(&model).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, LoadError::Packed { source: ImageError::TooLarge { node: 0 }, .. }), "{text}");
        assert!(text.starts_with("a.safetensors: packed, ") && !text.contains("again"), "{text}");
        model.architecture.schedule = Schedule::Windows { frames: 1024, every: 2 };
        load(&model).unwrap();
    }
}
