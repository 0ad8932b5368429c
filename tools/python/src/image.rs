//! `Image`: a packed network, ready to run.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde_json::json;
use tidegate_model::backend::Engine;
use tidegate_model::batch::{Rows, Shape, run_batch};
use tidegate_model::c_header;
use tidegate_model::data::{DataError, read_audio_at};
use tidegate_model::export::to_onnx;
use tidegate_model::heard::hear;
use tidegate_model::inspect::to_json;
use tidegate_model::load::{self, ImageBuffer, Settings};
use tidegate_model::output::write_atomically;
use tidegate_model::runner::{RunError, clip_features, fit};
use tidegate_model::sound::front_end_of;

use crate::arrays::{Floats, array, finite};
use crate::error::{failed, run_failed};
use crate::interrupt::interruptible;
use crate::loaded::Loaded;
use crate::stream::Stream;

/// A packed network.
#[pyclass(frozen, module = "tidegate._native")]
pub struct Image {
    pub(crate) loaded: Arc<Loaded>,
    /// The file, or what stands for it in errors.
    #[pyo3(get)]
    pub(crate) name: String,
    /// The report of the integers as text and as JSON.
    #[pyo3(get)]
    report: Option<(String, String)>,
}

/// Loads an image from a file.
#[pyfunction]
pub fn load_image(path: PathBuf) -> PyResult<Image> {
    if !load::is_image(&path).map_err(failed)? {
        let reason = "is not an image: pack it first, `tidegate pack MODEL -o IMAGE`";
        return Err(failed(DataError::new(&path, reason)));
    }
    let image = load::image(&path, &Settings::default(), None).map_err(failed)?;
    Image::new(image, path.display().to_string(), None)
}

impl Image {
    pub fn new(image: ImageBuffer, name: String, report: Option<(String, String)>) -> PyResult<Self> {
        let loaded = Arc::new(Loaded::prepare(image, &name).map_err(failed)?);
        Ok(Self { loaded, name, report })
    }

    /// The stem of the name, for C.
    fn stem(&self) -> String {
        Path::new(&self.name).file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }
}

#[pymethods]
impl Image {
    /// The image of these bytes.
    #[staticmethod]
    fn of_bytes(content: &[u8], name: String) -> PyResult<Self> {
        Self::new(ImageBuffer::new(content), name, None)
    }

    /// The contents as JSON, as `tidegate inspect --json` prints them.
    fn inspect(&self) -> String {
        self.loaded.with(|engine| to_json(engine.model(), self.loaded.bytes()).to_string())
    }

    /// The bytes of the image.
    fn content<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.loaded.bytes())
    }

    /// Writes the image to a file.
    fn save(&self, path: PathBuf) -> PyResult<()> {
        write_atomically(&path, |out| out.write_all(self.loaded.bytes())).map_err(failed)
    }

    /// The header for C.
    #[pyo3(signature = (name=None))]
    fn c_header(&self, name: Option<&str>) -> String {
        let stem = self.stem();
        self.loaded.with(|engine| c_header::header(name.unwrap_or(&stem), engine.model(), self.loaded.bytes().len()))
    }

    /// The image as an array in C.
    #[pyo3(signature = (name=None))]
    fn c_array(&self, name: Option<&str>) -> String {
        let stem = self.stem();
        c_header::array(name.unwrap_or(&stem), self.loaded.bytes())
    }

    /// The network as the bytes of an ONNX file.
    fn onnx<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let file = Path::new(&self.name);
        let content = self.loaded.with(|engine| to_onnx(engine.model(), &self.stem()));
        Ok(PyBytes::new(py, &content.map_err(|error| failed(DataError::new(file, error)))?))
    }

    /// Names and sizes of the inputs and of the outputs.
    fn ports(&self) -> (Ports, Ports) {
        self.loaded.with(|engine| {
            let model = engine.model();
            let inputs = model.inputs().map(|port| (port.name.to_owned(), port.size)).collect();
            (inputs, model.outputs().map(|port| (port.name.to_owned(), port.size)).collect())
        })
    }

    /// A stream in the zero state.
    fn stream(&self) -> Stream {
        Stream::new(Arc::clone(&self.loaded))
    }

    /// Runs arrays of `[n, steps, size]`, one for each input, each sequence from a zero state. Returns an array
    /// `[n, rows, size]` for each output, and the number of rows of each sequence.
    fn run_batch<'py>(
        &self,
        py: Python<'py>,
        inputs: Vec<Bound<'py, PyAny>>,
        lengths: Option<Vec<usize>>,
    ) -> PyResult<(Vec<Bound<'py, PyAny>>, Vec<usize>)> {
        let inputs: Vec<Floats> = inputs.iter().map(Floats::new).collect::<PyResult<_>>()?;
        let (sequences, steps) = match inputs.first().map(Floats::shape) {
            Some(&[sequences, steps, _]) => (sequences, steps),
            _ => return Err(failed("an input must be [n, steps, features]")),
        };
        let shape = Shape { sequences, steps, lens: lengths.as_deref() };
        let sizes: Vec<usize> = inputs.iter().map(|input| input.shape()[2]).collect();
        let run = |engine: &Engine<'_>| {
            run_batch(engine, &shape, |input, rows, to| {
                Python::attach(|py| {
                    py.check_signals()?;
                    let (size, before) = (sizes[input], to.len());
                    inputs[input].read(py, rows.start * size..rows.end * size, to);
                    finite(&to[before..], size, rows.start, steps)
                })
                .map_err(Ended::Raised)
            })
        };
        let rows: Rows = py.detach(|| self.loaded.with(run)).map_err(Ended::raised)?;
        let outputs: Vec<usize> = self.loaded.with(|engine| engine.model().outputs().map(|port| port.size).collect());
        let make = |(index, size): (usize, &usize)| {
            let values = rows.padded(index, *size).map_err(|error| run_failed(&error))?;
            array(py, &[rows.counts.len(), rows.most(), *size], &values)
        };
        let arrays = outputs.iter().enumerate().map(make).collect::<PyResult<_>>()?;
        Ok((arrays, rows.counts))
    }

    /// The features of a sound, `[frames, size]`, as the front end of the image computes them. A window has its own frames:
    /// the sound is cut, or silence appended.
    fn features<'py>(&self, py: Python<'py>, sound: Sound) -> PyResult<Bound<'py, PyAny>> {
        let (loaded, name) = (Arc::clone(&self.loaded), self.name.clone());
        let (features, size) = py
            .detach(move || {
                loaded.with(|engine| {
                    let file = Path::new(&name);
                    let mfcc = front_end_of(engine.model(), file)?;
                    let mut samples = sound.samples(mfcc.settings().sample_rate)?;
                    if let tidegate::Schedule::Windows { frames, .. } = engine.model().schedule() {
                        samples = fit(mfcc, &samples, frames).map_err(|error| DataError::new(file, error))?;
                    }
                    let features = clip_features(mfcc, &samples).map_err(|error| DataError::new(file, error))?;
                    Ok((features, engine.model().input_size()))
                })
            })
            .map_err(|error: DataError| failed(error))?;
        array(py, &[features.len() / size.max(1), size], &features)
    }

    /// Runs a sound, and as many seconds of silence after it. Returns times and posteriors of the decisions, and the rest as
    /// JSON, with the events at each of the thresholds.
    #[pyo3(signature = (sound, silence=0.0, thresholds=Vec::new()))]
    fn listen<'py>(
        &self,
        py: Python<'py>,
        sound: Sound,
        silence: f32,
        thresholds: Vec<f32>,
    ) -> PyResult<(Vec<f32>, Bound<'py, PyAny>, String)> {
        let (loaded, name) = (Arc::clone(&self.loaded), self.name.clone());
        let is_short = sound.is_short();
        let work = move || {
            loaded.with(|engine| {
                let file = Path::new(&name);
                let rate = front_end_of(engine.model(), file)?.settings().sample_rate;
                let mut samples = sound.samples(rate)?;
                let len = samples.len();
                samples.resize(len + (silence.clamp(0.0, MOST_SILENCE) * rate as f32) as usize, 0);
                let heard = hear(engine, file, &samples)?;
                let at = |threshold: &f32| match engine.model().detector() {
                    Some(detector) => heard.events_at(detector, *threshold).map(|events| heard.json_of(&events)),
                    None => Ok(Vec::new()),
                };
                let at: Result<Vec<_>, _> = thresholds.iter().map(at).collect();
                let at = at.map_err(|error| DataError::new(file, error))?;
                Ok((heard, len, at))
            })
        };
        let heard = if is_short { py.detach(work) } else { interruptible(py, work)? };
        let (heard, samples, at) = heard.map_err(|error: DataError| failed(error))?;
        let posteriors: Vec<f32> = heard.decisions.iter().flat_map(|(_, row)| row.iter().copied()).collect();
        let posteriors = array(py, &[heard.decisions.len(), heard.labels.len()], &posteriors)?;
        let rest = json!({
            "labels": heard.labels, "events": heard.events_json(), "threshold": heard.threshold, "at": at,
            "seconds": samples as f64 / f64::from(heard.sample_rate.max(1)),
        });
        Ok((heard.decisions.iter().map(|(seconds, _)| *seconds).collect(), posteriors, rest.to_string()))
    }
}

/// Number of samples of a short sound: a few seconds, also of a compressed file.
const SHORT: u64 = 1 << 17;

/// Most seconds of silence after a sound.
const MOST_SILENCE: f32 = 60.0;

/// Names and sizes.
type Ports = Vec<(String, usize)>;

/// A sound that Python gives.
#[derive(FromPyObject)]
enum Sound {
    File(PathBuf),
    Samples(Vec<i16>),
}

impl Sound {
    /// Whether it takes so little time that nobody waits for Ctrl-C: many short sounds need no threads then.
    fn is_short(&self) -> bool {
        match self {
            Self::File(path) => path.metadata().is_ok_and(|file| file.is_file() && file.len() < 2 * SHORT),
            Self::Samples(samples) => (samples.len() as u64) < SHORT,
        }
    }

    /// The samples at this rate.
    fn samples(self, rate: u32) -> Result<Vec<i16>, DataError> {
        match self {
            Self::File(path) => Ok(read_audio_at(&path, rate)?.samples),
            Self::Samples(samples) => Ok(samples),
        }
    }
}

/// Why a run has ended early.
enum Ended {
    Run(RunError),
    Raised(PyErr),
}

impl From<RunError> for Ended {
    fn from(error: RunError) -> Self {
        Self::Run(error)
    }
}

impl Ended {
    fn raised(self) -> PyErr {
        match self {
            Self::Run(error) => run_failed(&error),
            Self::Raised(error) => error,
        }
    }
}
