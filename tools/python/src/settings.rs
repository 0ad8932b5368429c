//! Settings of an import, from keyword arguments of Python.

use std::collections::BTreeMap;
use std::path::PathBuf;

use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tidegate_model::load::{Labels, Settings};

use crate::error::failed;

/// The settings in `given`, whose names are those of `import_model`.
pub fn settings(given: &Bound<'_, PyDict>) -> PyResult<Settings> {
    let mut settings = Settings::default();
    for (name, value) in given {
        let name: String = name.extract()?;
        set(&mut settings, &name, &value).map_err(|error| {
            if error.is_instance_of::<PyOverflowError>(given.py()) {
                return failed(format!("{name} is {value}, but must be a number that is not negative, of 32 bits"));
            }
            error
        })?;
    }
    Ok(settings)
}

fn set(settings: &mut Settings, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
    match name {
        "arch" => settings.arch = Some(value.extract()?),
        "window" => settings.window = Some(value.extract()?),
        "shape" => settings.shapes = value.extract::<BTreeMap<String, Vec<usize>>>()?,
        "bind" => settings.binds = value.extract::<BTreeMap<String, PathBuf>>()?.into_iter().collect(),
        "state" => settings.states = value.extract()?,
        "labels" => settings.labels = labels(value)?,
        "stream" => settings.stream = value.extract()?,
        "schedule" => {
            let text: String = value.extract()?;
            settings.schedule = Some(text.parse().map_err(|error| failed(format!("schedule {text:?}: {error}")))?);
        }
        "front_end" => settings.front_end = Some(value.extract()?),
        "mean_of" => settings.mean_of = Some(value.extract()?),
        "threshold" => settings.threshold = Some(value.extract()?),
        "refractory_ms" => settings.refractory_ms = Some(value.extract()?),
        _ => return Err(PyTypeError::new_err(format!("unknown setting {name:?}"))),
    }
    Ok(())
}

/// A list of labels, a file of them, or `none`.
fn labels(given: &Bound<'_, PyAny>) -> PyResult<Labels> {
    if let Ok(labels) = given.extract::<Vec<String>>() {
        return Ok(Labels::Given(labels));
    }
    let file: PathBuf = given.extract()?;
    Ok(if file.as_os_str() == "none" { Labels::Own } else { Labels::File(file) })
}
