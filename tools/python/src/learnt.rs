//! `Learnt`: the ranges that a training learns, and the image and the weights that follow from them.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tidegate::{Layout, Numeric};
use tidegate_model::data::DataError;
use tidegate_model::load;
use tidegate_model::quantize::{self, Kept};

use crate::arrays::{Floats, array, finite};
use crate::error::failed;
use crate::image::Image;
use crate::model::{Model, named};

/// Most sequences of a batch that ranges are learnt from. They are taken evenly spaced.
const SEQUENCES: usize = 32;

/// The ranges of a network's values.
#[pyclass(frozen, module = "tidegate._native")]
pub struct Learnt(Mutex<quantize::Learnt>);

/// A matrix: its canonical name, the values of its weights in the image, and 1 where a weight is clipped.
type Weights<'py> = (String, Bound<'py, PyAny>, Bound<'py, PyAny>);

impl Learnt {
    fn lock(&self) -> MutexGuard<'_, quantize::Learnt> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The ranges, if there are some.
    fn known(&self, model: &Model) -> PyResult<quantize::Learnt> {
        let learnt = self.lock().clone();
        if learnt.is_empty() {
            let reason = "has learnt no ranges yet: run it in training mode first";
            return Err(failed(DataError::new(Path::new(&model.name), reason)));
        }
        Ok(learnt)
    }
}

#[pymethods]
impl Learnt {
    /// Without ranges, or with those of [`content`](Self::content).
    #[new]
    #[pyo3(signature = (numeric, content=None))]
    fn new(numeric: &str, content: Option<&[u8]>) -> PyResult<Self> {
        let numeric = named(numeric, &[Numeric::I8x16, Numeric::I4x16], Numeric::name, "numeric")?;
        let learnt = match content {
            Some(content) => quantize::Learnt::from_bytes(numeric, content).map_err(failed)?,
            None => quantize::Learnt::new(numeric),
        };
        Ok(Self(Mutex::new(learnt)))
    }

    /// The ranges as bytes; empty if there are none.
    fn content<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let learnt = self.lock();
        PyBytes::new(py, &if learnt.is_empty() { Vec::new() } else { learnt.to_bytes() })
    }

    /// Learns from a batch, `[n, steps, size]` for each input.
    fn learn(&self, py: Python<'_>, model: &Model, inputs: Vec<Bound<'_, PyAny>>) -> PyResult<()> {
        let inputs: Vec<Floats> = inputs.iter().map(Floats::new).collect::<PyResult<_>>()?;
        let count = inputs.first().and_then(|input| input.shape().first()).copied().unwrap_or(0);
        let mut sequences = Vec::new();
        for sequence in (0..count).step_by(count.div_ceil(SEQUENCES).max(1)) {
            let read = |input: &Floats| {
                let (len, size) = (input.len() / count, input.shape().last().copied().unwrap_or(1));
                let mut values = Vec::with_capacity(len);
                input.read(py, sequence * len..(sequence + 1) * len, &mut values);
                let steps = len / size.max(1);
                finite(&values, size, sequence * steps, steps).map(|()| values)
            };
            sequences.push(inputs.iter().map(read).collect::<PyResult<Vec<_>>>()?);
        }
        let canonical = Arc::clone(&model.canonical);
        let learnt = py.detach(|| {
            let slices: Vec<Vec<&[f32]>> =
                sequences.iter().map(|inputs| inputs.iter().map(Vec::as_slice).collect()).collect();
            self.lock().learn(&canonical, slices.iter().map(Vec::as_slice))
        });
        learnt.map_err(|error| failed(DataError::new(Path::new(&model.name), error)))
    }

    /// Packs an image.
    fn pack(&self, py: Python<'_>, model: &Model, layout: &str, schedule: Option<String>) -> PyResult<Image> {
        let canonical = model.scheduled(schedule)?;
        let layout = named(layout, &Layout::ALL, Layout::name, "layout")?;
        let (learnt, of) = (self.known(model)?, Path::new(&model.name));
        let image = py.detach(|| load::packed_with(of, &canonical, learnt.numeric(), learnt.ranges(), layout));
        Image::new(image.map_err(failed)?, format!("{}.tgi", model.name), None)
    }

    /// Packs an image, and returns it with the weights that it holds.
    fn round<'py>(&self, py: Python<'py>, model: &Model) -> PyResult<(Image, Vec<Weights<'py>>)> {
        let (learnt, of) = (self.known(model)?, Path::new(&model.name));
        let kept = py.detach(|| load::packed_kept(of, &model.canonical, learnt.numeric(), learnt.ranges()));
        let (image, Kept { weights, .. }) = kept.map_err(failed)?;
        let make = |(name, weights): (String, Vec<quantize::KeptWeight>)| {
            let values: Vec<f32> = weights.iter().map(|weight| weight.value).collect();
            let cut: Vec<f32> = weights.iter().map(|weight| f32::from(u8::from(weight.cut))).collect();
            Ok((name, array(py, &[values.len()], &values)?, array(py, &[cut.len()], &cut)?))
        };
        let weights = weights.into_iter().map(make).collect::<PyResult<_>>()?;
        Ok((Image::new(image, model.name.clone(), None)?, weights))
    }
}
