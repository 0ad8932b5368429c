//! Errors as Python exceptions, with the line that the command line prints.

use std::fmt::Display;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use tidegate_model::budget::TooCostly;
use tidegate_model::data::one_line;
use tidegate_model::runner::RunError;

/// `tidegate.Error`, or `tidegate.MemoryLimitError` if a limit of memory refuses.
pub fn failed(error: impl Display) -> PyErr {
    let text = one_line(&error.to_string());
    let is_limit = text.contains(TooCostly::ADVICE);
    raised(if is_limit { "MemoryLimitError" } else { "Error" }, text)
}

/// [`failed`] for runs, whose sizes have a limit of their own.
pub fn run_failed(error: &RunError) -> PyErr {
    let is_limit = matches!(error, RunError::TooMuch { .. } | RunError::LongWindow { .. });
    if is_limit { raised("MemoryLimitError", one_line(&error.to_string())) } else { failed(error) }
}

fn raised(class: &str, text: String) -> PyErr {
    static ERROR: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    static LIMIT: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let cell = if class == "Error" { &ERROR } else { &LIMIT };
    Python::attach(|py| match cell.import(py, "tidegate._errors", class) {
        Ok(class) => PyErr::from_type(class.clone(), text),
        Err(error) => error,
    })
}
