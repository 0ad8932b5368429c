//! A model from any file that we read, ready to run: images as they are, everything else imported and packed.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use tidegate::image::Layout;
use tidegate::image::field::{ALIGNMENT, MAGIC_BYTES};
use tidegate::{ImageBytes, ImageError, Model, Numeric};

use crate::canonical::{Canonical, Detector, Mfcc, Schedule};
use crate::data::{DataError, read_tensors};
use crate::error::ImportError;
use crate::format::checkpoint::index_of;
use crate::format::{self, Imported, Options};
use crate::pack::{PackError, pack_with};
use crate::quantize::{Ranges, RangesError};

/// Why a file does not become a model that runs.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file could not be read.
    #[error(transparent)]
    Data(#[from] DataError),
    /// It is no model that we read.
    #[error("{}: {source}{}", path.display(), advice(source))]
    Import {
        /// The model's file.
        path: PathBuf,
        /// What is wrong with it.
        source: ImportError,
    },
    /// It is no image that we run.
    #[error("{}: {source}: pack the model again, or fetch the image again", path.display())]
    Image {
        /// The image's file.
        path: PathBuf,
        /// What is wrong with it.
        source: ImageError,
    },
    /// Its image is none that we run, though it could be packed.
    #[error("{}: packed, {source}: make the model smaller, or its windows shorter or fewer", path.display())]
    Packed {
        /// The model's file.
        path: PathBuf,
        /// What is wrong with the image.
        source: ImageError,
    },
    /// It cannot be packed.
    #[error("{}: {source}", path.display())]
    Pack {
        /// The model's file.
        path: PathBuf,
        /// What stands against it.
        source: PackError,
    },
    /// How far its values reach could not be measured.
    #[error("{}: {source}", path.display())]
    Ranges {
        /// The model's file.
        path: PathBuf,
        /// What stands against it.
        source: Box<RangesError>,
    },
    /// A setting does not fit the model.
    #[error("{}: {reason}", path.display())]
    Setting {
        /// The model's or the setting's file.
        path: PathBuf,
        /// With numbers.
        reason: String,
    },
}

fn advice(error: &ImportError) -> String {
    match error.advice() {
        "" => String::new(),
        advice => format!("; {advice}"),
    }
}

/// What a user says about a model that its file does not, or otherwise.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// A JSON file with the architecture of a file that holds only weights.
    pub arch: Option<PathBuf>,
    /// Steps of the sequences that the network looks at as a whole.
    pub window: Option<usize>,
    /// Shapes of inputs of an ONNX graph, by name.
    pub shapes: BTreeMap<String, Vec<usize>>,
    /// Inputs of an ONNX graph that are weights, and the files that hold them.
    pub binds: Vec<(String, PathBuf)>,
    /// A file with a label a line; else `labels.txt` beside the model is read, if the model has no labels of its own.
    pub labels: Option<PathBuf>,
    /// How a stream is cut into runs.
    pub schedule: Option<Schedule>,
    /// A front end that [`Mfcc::named`] knows, or a JSON file with one, as canonical models have it. Windows of the graph's
    /// own length then start as often as is usual with it.
    pub front_end: Option<PathBuf>,
    /// How many posteriors the detector averages.
    pub mean_of: Option<u32>,
    /// Least mean posterior of an event, for every label that can have one.
    pub threshold: Option<f32>,
    /// No further event for so long, milliseconds.
    pub refractory_ms: Option<u32>,
}

/// A model in memory: an image on a 16-byte boundary.
#[derive(Debug)]
pub struct ImageBuffer {
    bytes: Vec<u8>,
    start: usize,
}

impl ImageBuffer {
    /// A copy of `image`, which `parse` has not seen yet.
    pub fn new(image: &[u8]) -> Self {
        let mut bytes = vec![0; image.len() + ALIGNMENT];
        let start = bytes.as_ptr().addr().next_multiple_of(ALIGNMENT) - bytes.as_ptr().addr();
        bytes[start..start + image.len()].copy_from_slice(image);
        bytes.truncate(start + image.len());
        Self { bytes, start }
    }

    /// The image.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// The image as a model.
    ///
    /// # Errors
    /// If it is none.
    pub fn model(&self) -> Result<Model<'_>, ImageError> {
        Model::parse(ImageBytes::new(self.bytes()).expect("the buffer starts on a multiple of 16"))
    }
}

/// The image in `path`, or the image of the model in `path`, checked.
///
/// # Errors
/// If the file is neither an image nor a model that we read.
pub fn image(path: &Path, settings: &Settings, numeric: Option<Numeric>) -> Result<ImageBuffer, LoadError> {
    let index = index_of(path);
    let path = index.as_deref().unwrap_or(path);
    if is_image(path)? {
        if settings.arch.is_some()
            || settings.window.is_some()
            || !settings.shapes.is_empty()
            || !settings.binds.is_empty()
        {
            let reason =
                "is a flash image, which holds its architecture: leave --arch, --window, --shape and --bind out"
                    .to_owned();
            return Err(LoadError::Setting { path: path.to_owned(), reason });
        }
        let bytes = fs::read(path).map_err(|error| DataError::io(path, "read", error))?;
        let buffer = ImageBuffer::new(&bytes);
        let model = buffer.model().map_err(|source| LoadError::Image { path: path.to_owned(), source })?;
        if numeric.is_some_and(|numeric| numeric != model.numeric()) {
            let reason = format!("is packed as {} already: leave --numeric out", model.numeric().name());
            return Err(LoadError::Setting { path: path.to_owned(), reason });
        }
        return Ok(buffer);
    }
    let model = canonical(path, settings)?.model;
    packed(path, &model, numeric.unwrap_or_else(|| model.architecture.numeric_or(Numeric::F32)))
}

/// The image of a canonical model that was read from `path`, checked; ranges of integers come from noise.
///
/// # Errors
/// If it cannot be packed.
pub fn packed(path: &Path, model: &Canonical, numeric: Numeric) -> Result<ImageBuffer, LoadError> {
    let ranges = if numeric.needs_ranges() {
        let failed = |source| LoadError::Ranges { path: path.to_owned(), source: Box::new(source) };
        Ranges::from_noise(model).map_err(failed)?
    } else {
        Ranges::default()
    };
    packed_with(path, model, numeric, &ranges, Layout::Portable)
}

/// [`packed`] with ranges of its values, and weights in the order of a layout.
///
/// # Errors
/// As [`packed`].
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

/// Whether `path` begins as an image does; a checkpoint may be called by its prefix.
///
/// # Errors
/// If it cannot be read.
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
    /// The file its labels come from, if not from the model itself.
    pub labels_from: Option<PathBuf>,
    /// What a person should know about how it was read.
    pub notes: Vec<String>,
}

/// The model in `path` with the settings applied.
///
/// # Errors
/// If the file is no model that we read, or a setting does not fit it.
pub fn canonical(path: &Path, settings: &Settings) -> Result<Loaded, LoadError> {
    let index = index_of(path);
    let path = index.as_deref().unwrap_or(path);
    if is_image(path)? {
        let reason = "is a flash image already; give the model that it was packed from".to_owned();
        return Err(LoadError::Setting { path: path.to_owned(), reason });
    }
    let options = options(settings)?;
    let imported = format::import_with(path, &options).map_err(|source| match source {
        ImportError::Io(error) => DataError::io(path, "read", error).into(),
        source => LoadError::Import { path: path.to_owned(), source },
    })?;
    let Imported { mut model, notes } = imported;
    let labels_from = apply_labels(path, settings, &mut model)?;
    let architecture = &mut model.architecture;
    if let Some(file) = &settings.front_end {
        let (front_end, usual) = read_front_end(file)?;
        // A graph that begins with features says nothing of how often.
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
        let reason = "has no labels to detect: give them with --labels FILE".to_owned();
        return Err(LoadError::Setting { path: path.to_owned(), reason });
    }
    model.validate().map_err(|error| LoadError::Setting { path: path.to_owned(), reason: error.to_string() })?;
    Ok(Loaded { model, labels_from, notes })
}

/// What a user says about a file, for its importer.
///
/// # Errors
/// If a file that holds a part of it cannot be read, or does not hold it.
pub fn options(settings: &Settings) -> Result<Options, DataError> {
    let mut options = Options::new(settings.arch.as_deref(), settings.window)?;
    options.onnx.shapes.clone_from(&settings.shapes);
    for (name, file) in &settings.binds {
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

fn apply_labels(path: &Path, settings: &Settings, model: &mut Canonical) -> Result<Option<PathBuf>, LoadError> {
    let architecture = &mut model.architecture;
    let beside = path.with_file_name("labels.txt");
    let file = match &settings.labels {
        Some(file) => file.clone(),
        None if architecture.labels.is_empty() && beside.is_file() => beside,
        None => return Ok(None),
    };
    let text = fs::read_to_string(&file).map_err(|error| DataError::io(&file, "read", error))?;
    let labels: Vec<String> = text.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect();
    let classes = architecture.outputs.first().map_or(0, |output| output.size);
    if labels.len() != classes {
        let reason = format!(
            "has {} labels, the model {} has {classes} classes; give as many with --labels FILE",
            labels.len(),
            path.display()
        );
        return Err(LoadError::Setting { path: file, reason });
    }
    if architecture.labels != labels {
        architecture.detector = None;
    }
    architecture.labels = labels;
    Ok(Some(file))
}

/// The front end that [`Mfcc::named`] knows or that is in a JSON file, and how many frames after one window the next
/// begins.
///
/// # Errors
/// If there is none of this name, and no such file with one.
pub fn read_front_end(file: &Path) -> Result<(Mfcc, u32), LoadError> {
    if let Some(known) = file.to_str().and_then(Mfcc::named) {
        return Ok(known);
    }
    if !file.exists() {
        let reason = format!("is no file, and no front end has this name; known: {}", Mfcc::NAMES.join(", "));
        return Err(LoadError::Setting { path: file.to_owned(), reason });
    }
    let text = fs::read(file).map_err(|error| DataError::io(file, "read", error))?;
    let front_end: Mfcc = serde_json::from_slice(&text).map_err(|error| {
        let reason = format!("is not a front end: {error}; `tidegate inspect MODEL --json` shows one");
        LoadError::Setting { path: file.to_owned(), reason }
    })?;
    let every = front_end.every();
    Ok((front_end, every))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canonical::Tensor;

    /// A thousand windows at once of a state as large as it may be.
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
