//! NumPy arrays: read through the buffer protocol, and made by `numpy.empty`.
//!
//! Numbers are copied row by row or group by group while the GIL is held, so that a thread that writes to an array during a
//! run can change numbers, but nothing else. No array is copied as a whole.

#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::ops::Range;

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyString;
use tidegate_model::canonical::Tensor;
use tidegate_model::data::Stored;

use crate::error::failed;

/// An array of `float32` in C order.
pub struct Floats(PyBuffer<f32>);

impl Floats {
    /// Borrows the memory of an object with the buffer protocol.
    ///
    /// # Errors
    /// If it holds other numbers, or has another order.
    pub fn new(array: &Bound<'_, PyAny>) -> PyResult<Self> {
        let buffer = PyBuffer::get(array)?;
        if !buffer.is_c_contiguous() {
            return Err(PyTypeError::new_err("the array is not contiguous"));
        }
        Ok(Self(buffer))
    }

    /// The dimensions.
    pub fn shape(&self) -> &[usize] {
        self.0.shape()
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.0.item_count()
    }

    /// Appends a range of elements to a list.
    pub fn read(&self, _: Python<'_>, elements: Range<usize>, to: &mut Vec<f32>) {
        debug_assert!(elements.end <= self.len());
        let Some(all) = self.0.as_slice_ptr().filter(|_| elements.end <= self.len()) else { return };
        // SAFETY: the buffer is in C order and has `len()` numbers, which stay where they are while it is borrowed. The
        // GIL is held, so that no Python code changes them here.
        let values = unsafe { std::slice::from_raw_parts(all.as_ptr().cast::<f32>(), self.len()) };
        to.extend_from_slice(&values[elements]);
    }

    /// Writes the numbers of a new array.
    fn write(&self, py: Python<'_>, values: &[f32]) -> PyResult<()> {
        self.0.copy_from_slice(py, values)
    }
}

/// A new array of these values.
pub fn array<'py>(py: Python<'py>, shape: &[usize], values: &[f32]) -> PyResult<Bound<'py, PyAny>> {
    static EMPTY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    static FLOAT: PyOnceLock<Py<PyString>> = PyOnceLock::new();
    let empty = EMPTY.get_or_try_init(py, || Ok::<_, PyErr>(py.import("numpy")?.getattr("empty")?.unbind()))?;
    let float = FLOAT.get_or_init(py, || PyString::new(py, "f4").unbind());
    let array = match shape {
        [len] => empty.bind(py).call1((*len, float.bind(py)))?,
        shape => empty.bind(py).call1((pyo3::types::PyTuple::new(py, shape)?, float.bind(py)))?,
    };
    if !values.is_empty() {
        Floats::new(&array)?.write(py, values)?;
    }
    Ok(array)
}

/// Tensors by name, each an array and whether its numbers were 8-bit integers.
pub fn tensors(py: Python<'_>, given: Vec<(String, Bound<'_, PyAny>, bool)>) -> PyResult<BTreeMap<String, Stored>> {
    let stored = |(name, array, is_int8): (String, Bound<'_, PyAny>, bool)| {
        let floats = Floats::new(&array)?;
        let mut data = Vec::with_capacity(floats.len());
        floats.read(py, 0..floats.len(), &mut data);
        Ok((name, Stored { tensor: Tensor { shape: floats.shape().to_vec(), data }, is_int8 }))
    };
    given.into_iter().map(stored).collect()
}

/// Refuses numbers that no device is given. The values are rows of `size`, from row `first` on of sequences of `steps` rows.
pub fn finite(values: &[f32], size: usize, first: usize, steps: usize) -> PyResult<()> {
    let Some(at) = values.iter().position(|value| !value.is_finite()) else { return Ok(()) };
    let (value, row) = (values[at], first + at / size.max(1));
    let (sequence, step, feature) = (row / steps.max(1), row % steps.max(1), at % size.max(1));
    let place = format!("sequence {sequence}, step {step}, feature {feature}");
    Err(failed(format!("the input has {value} in {place} (from 0); only finite numbers are allowed")))
}
