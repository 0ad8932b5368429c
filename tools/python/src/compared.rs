//! An image beside the model that it was packed from.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pyo3::prelude::*;
use tidegate_model::backend::Engine;
use tidegate_model::canonical::Canonical;
use tidegate_model::data::DataError;
use tidegate_model::drift::Drift;
use tidegate_model::inputs::{Part, Reader};
use tidegate_model::load::LoadError;
use tidegate_model::verify as verified;

use crate::arrays::tensors;
use crate::error::failed;
use crate::image::Image;
use crate::interrupt::interruptible;
use crate::model::Model;

/// Compares the image with its model in f32. Returns JSON as `tidegate verify --json` prints it, and a curve of the
/// signal-to-noise ratio over the steps for each value.
#[pyfunction]
pub fn verify(py: Python<'_>, image: &Image, model: &Model, data: Data<'_>) -> PyResult<(String, Vec<Curve>)> {
    let (loaded, name, canonical) = (Arc::clone(&image.loaded), image.name.clone(), Arc::clone(&model.canonical));
    let given = match data {
        Data::File(path) => Ok(path),
        Data::Tensors(given) => Err(tensors(py, given)?),
    };
    let compared = interruptible(py, move || {
        loaded.with(|engine| {
            let (file, image) = (Path::new(&name), engine.model());
            let reader = Reader { model: image, ports: &canonical.architecture.inputs, file };
            let (inputs, what) = match given {
                Ok(path) => (reader.read(&path, Part::Test)?, path),
                Err(tensors) => (reader.tensors(tensors, Path::new("data"), Part::Test)?, PathBuf::from("data")),
            };
            compare(engine, file, &canonical, &inputs.sequences, &what)
        })
    })?;
    let drift = compared.map_err(failed)?;
    Ok((verified::to_json(&drift.whole).to_string(), drift.curves(1.0)))
}

/// A name, and points of a step and a signal-to-noise ratio.
type Curve = (String, Vec<(f32, f32)>);

/// Sequences that Python gives.
#[derive(FromPyObject)]
pub enum Data<'py> {
    File(PathBuf),
    Tensors(Vec<(String, Bound<'py, PyAny>, bool)>),
}

fn compare(
    engine: &Engine<'_>,
    file: &Path,
    canonical: &Canonical,
    sequences: &[Vec<Vec<f32>>],
    what: &Path,
) -> Result<Drift, LoadError> {
    let (image, of) = (engine.model(), Path::new("model"));
    let reference = verified::reference(image, file, canonical, of, sequences)?;
    let parsed = reference.model().map_err(|error| DataError::new(of, error))?;
    let parsed = parsed.with_schedule(image.schedule()).map_err(|error| DataError::new(of, error))?;
    // The reference kernels, as in `tidegate verify`.
    let drift = Drift::run(image, &parsed, sequences).map_err(|error| DataError::new(what, error))?;
    if drift.whole.output.values == 0 {
        return Err(DataError::new(what, verified::too_short(image, false)).into());
    }
    Ok(drift)
}
