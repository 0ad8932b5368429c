//! `Model`: an imported network.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use tidegate::{Layout, Numeric};
use tidegate_model::canonical::{Canonical, Schedule, Tensor};
use tidegate_model::data::{DataError, Stored};
use tidegate_model::inputs::{Inputs, Part, Reader};
use tidegate_model::load::{self, LoadError, Loaded as Imported};
use tidegate_model::packing::{Packer, Packing, Source};
use tidegate_model::progress::Silent;

use crate::arrays::{Floats, array, tensors};
use crate::error::failed;
use crate::image::Image;
use crate::interrupt::interruptible;
use crate::settings::settings;

/// An imported network.
#[pyclass(frozen, module = "tidegate._native")]
pub struct Model {
    pub(crate) canonical: Arc<Canonical>,
    /// The file, or what stands for it in errors.
    #[pyo3(get)]
    pub(crate) name: String,
    /// Notes on the import.
    #[pyo3(get)]
    notes: Vec<String>,
}

/// Imports a model from a file.
#[pyfunction]
#[pyo3(signature = (path, **given))]
pub fn import_file(py: Python<'_>, path: PathBuf, given: Option<&Bound<'_, PyDict>>) -> PyResult<Model> {
    let settings = settings(given.unwrap_or(&PyDict::new(py)))?;
    let name = path.display().to_string();
    let imported = interruptible(py, move || load::canonical(&path, &settings))?;
    Ok(Model::new(imported.map_err(failed)?, name))
}

/// Imports a model from the bytes of a file. `architecture` is the JSON of a description.
#[pyfunction]
#[pyo3(signature = (content, name, architecture=None, **given))]
pub fn import_bytes(
    py: Python<'_>,
    content: Vec<u8>,
    name: String,
    architecture: Option<String>,
    given: Option<&Bound<'_, PyDict>>,
) -> PyResult<Model> {
    let settings = settings(given.unwrap_or(&PyDict::new(py)))?;
    let of = name.clone();
    let imported = interruptible(py, move || {
        load::canonical_bytes(&content, &of, architecture.as_ref().map(String::as_bytes), &settings)
    })?;
    Ok(Model::new(imported.map_err(failed)?, name))
}

impl Model {
    fn new(imported: Imported, name: String) -> Self {
        let notes = imported.lines().collect();
        Self { canonical: Arc::new(imported.model), name, notes }
    }

    /// The model with another schedule, if one is given.
    pub fn scheduled(&self, schedule: Option<String>) -> PyResult<Arc<Canonical>> {
        let mut canonical = Arc::clone(&self.canonical);
        if let Some(text) = schedule {
            let schedule: Schedule = text.parse().map_err(|error| failed(format!("schedule {text:?}: {error}")))?;
            Arc::make_mut(&mut canonical).architecture.schedule = schedule;
            canonical.validate().map_err(failed)?;
        }
        Ok(canonical)
    }
}

#[pymethods]
impl Model {
    /// The architecture as JSON.
    fn architecture(&self) -> PyResult<String> {
        serde_json::to_string(&self.canonical.architecture).map_err(failed)
    }

    /// The matrices and vectors by their canonical names, flat.
    fn tensors<'py>(&self, py: Python<'py>) -> PyResult<Vec<(String, Bound<'py, PyAny>)>> {
        let make =
            |(name, tensor): (&String, &Tensor)| Ok((name.clone(), array(py, &[tensor.data.len()], &tensor.data)?));
        self.canonical.tensors.iter().map(make).collect()
    }

    /// The model with other numbers in its matrices and vectors.
    fn replaced(&self, py: Python<'_>, tensors: Vec<(String, Bound<'_, PyAny>)>) -> PyResult<Self> {
        let mut canonical = Canonical::clone(&self.canonical);
        for (name, given) in tensors {
            let given = Floats::new(&given)?;
            let Some(tensor) = canonical.tensors.get_mut(&name).filter(|tensor| tensor.data.len() == given.len())
            else {
                return Err(failed(format!("{}: has no tensor {name:?} of {} numbers", self.name, given.len())));
            };
            tensor.data.clear();
            given.read(py, 0..given.len(), &mut tensor.data);
        }
        canonical.validate().map_err(failed)?;
        Ok(Self { canonical: Arc::new(canonical), name: self.name.clone(), notes: self.notes.clone() })
    }

    /// The canonical model as the bytes of a safetensors file.
    fn content<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.canonical.to_bytes().map_err(failed)?))
    }

    /// Writes the canonical model to a file.
    fn save(&self, path: PathBuf) -> PyResult<()> {
        self.canonical.save(&path).map_err(failed)
    }

    /// Packs an image. `calibrate` is a path, `noise`, or tensors.
    #[pyo3(signature = (numeric, layout, schedule, calibrate, range, keep, at_least, budget, evaluate))]
    #[expect(clippy::too_many_arguments, reason = "the keyword arguments of `Model.pack`")]
    fn pack(
        &self,
        py: Python<'_>,
        numeric: Option<String>,
        layout: &str,
        schedule: Option<String>,
        calibrate: Option<Calibrate<'_>>,
        range: Vec<String>,
        keep: Vec<(String, u8)>,
        at_least: Option<f64>,
        budget: Option<usize>,
        evaluate: Option<PathBuf>,
    ) -> PyResult<Image> {
        let named = |name: String| named(&name, &Numeric::ALL, Numeric::name, "numeric");
        let packing = Packing {
            numeric: numeric.map(named).transpose()?,
            layout: self::named(layout, &Layout::ALL, Layout::name, "layout")?,
            range: range.iter().map(|text| text.parse()).collect::<Result<_, String>>().map_err(failed)?,
            keep,
            at_least,
            budget,
        };
        let canonical = self.scheduled(schedule)?;
        let given = match calibrate {
            None => Given::Nothing,
            Some(Calibrate::Path(path)) => Given::File(path),
            Some(Calibrate::Tensors(given)) => Given::Tensors(tensors(py, given)?),
        };
        let (name, of) = (format!("{}.tgi", self.name), self.name.clone());
        let packed = interruptible(py, move || pack(&canonical, &of, &packing, given, evaluate.as_deref()))?;
        let Packed { image, report } = packed.map_err(failed)?;
        Image::new(image, name, report)
    }
}

/// The calibration data that Python gives.
#[derive(FromPyObject)]
enum Calibrate<'py> {
    Path(PathBuf),
    Tensors(Vec<(String, Bound<'py, PyAny>, bool)>),
}

enum Given {
    Nothing,
    File(PathBuf),
    Tensors(std::collections::BTreeMap<String, Stored>),
}

struct Packed {
    image: load::ImageBuffer,
    /// The report as text and as JSON.
    report: Option<(String, String)>,
}

fn pack(
    canonical: &Canonical,
    name: &str,
    packing: &Packing,
    given: Given,
    evaluate: Option<&Path>,
) -> Result<Packed, LoadError> {
    let file = Path::new(name);
    let source = match &given {
        Given::Nothing => Source::Nothing,
        Given::File(path) => Source::File(path),
        Given::Tensors(tensors) => Source::Memory(inputs(canonical, file, tensors.clone())?, "calibrate"),
    };
    let packer = Packer { model: canonical, file, progress: &Silent };
    let (image, measured) = packer.pack(packing, source, evaluate)?;
    let report = measured.map(|measured| {
        let report = measured.report(canonical, [name, "an image in memory", ""]);
        (report.text(), report.json().to_string())
    });
    Ok(Packed { image, report })
}

/// The calibration sequences in tensors.
fn inputs(
    canonical: &Canonical,
    file: &Path,
    tensors: std::collections::BTreeMap<String, Stored>,
) -> Result<Inputs, LoadError> {
    let image = load::packed(file, canonical, Numeric::F32)?;
    let model = image.model().map_err(|error| DataError::new(file, error))?;
    let reader = Reader { model: &model, ports: &canonical.architecture.inputs, file };
    Ok(reader.tensors(tensors, Path::new("calibrate"), Part::Train)?)
}

/// The item of this name.
pub fn named<T: Copy>(name: &str, all: &[T], of: impl Fn(T) -> &'static str, what: &str) -> PyResult<T> {
    let found = all.iter().copied().find(|each| of(*each) == name);
    let known = || all.iter().map(|each| of(*each)).collect::<Vec<_>>().join(", ");
    found.ok_or_else(|| failed(format!("{what} {name:?} is unknown: give one of {}", known())))
}
