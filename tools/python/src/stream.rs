//! `Stream`: a network that runs step by step.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyBytes;
use tidegate::{State, Step, StepError};
use tidegate_model::backend::{Engine, Scratch};

use crate::arrays::{Floats, array, finite};
use crate::error::failed;
use crate::loaded::Loaded;

/// Multiply-accumulates of a step from which on other threads run meanwhile. The GIL comes back only after some
/// microseconds, or milliseconds if another thread computes, so short steps keep it.
const LONG_STEP: usize = 1 << 21;

/// A stream of an image. It starts at zero, and each step continues from the state of the last. Only one thread may step it
/// at a time.
///
/// >>> import tidegate
/// >>> stream = tidegate.example().pack("f32").stream()
/// >>> stream.input_size, stream.output_size
/// (10, 16)
#[pyclass(module = "tidegate")]
pub struct Stream {
    loaded: Arc<Loaded>,
    words: Vec<u32>,
    scratch: Scratch,
    inputs: Vec<Vec<f32>>,
    outputs: Vec<Vec<f32>>,
    is_long: bool,
}

impl Stream {
    pub fn new(loaded: Arc<Loaded>) -> Self {
        let (words, scratch, inputs, outputs, macs) = loaded.with(|engine| {
            let model = engine.model();
            let inputs = model.inputs().map(|port| Vec::with_capacity(port.size)).collect();
            let outputs = model.outputs().map(|port| vec![0.0; port.size]).collect();
            let macs: usize = model.nodes().map(|node| node.macs()).sum();
            (vec![0; model.state_words()], engine.scratch(), inputs, outputs, macs)
        });
        Self { loaded, words, scratch, inputs, outputs, is_long: macs >= LONG_STEP }
    }

    /// Reads an input of the step.
    fn read(&mut self, py: Python<'_>, index: usize, array: &Bound<'_, PyAny>) -> PyResult<()> {
        let floats = match Floats::new(array) {
            Ok(floats) => floats,
            Err(_) => Floats::new(&converted(py, array)?)?,
        };
        let (name, size) = self.loaded.with(|engine| {
            engine.model().inputs().nth(index).map_or((String::new(), 0), |port| match port.size == floats.len() {
                true => (String::new(), port.size),
                false => (port.name.to_owned(), port.size),
            })
        });
        let is_step = matches!(floats.shape(), [only] | [1, only] if *only == size);
        if !is_step {
            let reason = format!("tensor of shape {:?}; a step of the input {name:?} takes [{size}]", floats.shape());
            return Err(failed(reason));
        }
        let input = &mut self.inputs[index];
        input.clear();
        floats.read(py, 0..size, input);
        finite(input, size, 0, 1)
    }

    fn run(&mut self, py: Python<'_>) -> PyResult<bool> {
        let Self { loaded, words, scratch, inputs, outputs, is_long } = self;
        let mut run = || loaded.with(|engine| step(engine, words, scratch, inputs, outputs));
        let step = if *is_long { py.detach(run) } else { run() };
        Ok(step.map_err(failed)?.has_output())
    }

    /// The outputs of the last step, if it had any.
    fn given<'py>(&self, py: Python<'py>, has_output: bool) -> PyResult<Option<Bound<'py, PyAny>>> {
        if !has_output {
            return Ok(None);
        }
        if let [output] = self.outputs.as_slice() {
            return array(py, &[output.len()], output).map(Some);
        }
        let given = pyo3::types::PyDict::new(py);
        let names: Vec<String> =
            self.loaded.with(|engine| engine.model().outputs().map(|port| port.name.to_owned()).collect());
        for (name, output) in names.into_iter().zip(&self.outputs) {
            given.set_item(name, array(py, &[output.len()], output)?)?;
        }
        Ok(Some(given.into_any()))
    }
}

fn step(
    engine: &Engine<'_>,
    words: &mut [u32],
    scratch: &mut Scratch,
    inputs: &[Vec<f32>],
    outputs: &mut [Vec<f32>],
) -> Result<Step, StepError> {
    let mut state = State::over(engine.model(), words).map_err(|_| StepError::OtherState)?;
    if let ([input], [output]) = (inputs, &mut *outputs) {
        return engine.step_f32(&mut state, scratch, input, output);
    }
    let inputs: Vec<&[f32]> = inputs.iter().map(Vec::as_slice).collect();
    let mut outputs: Vec<&mut [f32]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
    engine.step_observed(&mut state, scratch, &inputs, &mut outputs, |_, _| ())
}

/// Any array as `float32` in C order.
fn converted<'py>(py: Python<'py>, array: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    static FLOATS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let floats =
        FLOATS.get_or_try_init(py, || Ok::<_, PyErr>(py.import("tidegate._arrays")?.getattr("floats")?.unbind()))?;
    floats.bind(py).call1((array,))
}

#[pymethods]
impl Stream {
    /// Runs one step. `x` is `[features]`, or a dict of these for a model with several inputs. Returns the output, or
    /// `None` while a window is not full.
    ///
    /// >>> import numpy as np, tidegate
    /// >>> stream = tidegate.example().pack("f32").stream()
    /// >>> stream.step(np.zeros(stream.input_size, "f4")).shape
    /// (16,)
    fn step<'py>(&mut self, py: Python<'py>, x: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        if self.inputs.len() == 1 && !x.is_instance_of::<pyo3::types::PyDict>() {
            self.read(py, 0, x)?;
        } else {
            let names: Vec<String> =
                self.loaded.with(|engine| engine.model().inputs().map(|port| port.name.to_owned()).collect());
            for (index, name) in names.iter().enumerate() {
                let missing = |_| failed(format!("has no tensor {name:?}, which is an input of the model"));
                self.read(py, index, &x.get_item(name).map_err(missing)?)?;
            }
        }
        let has_output = self.run(py)?;
        self.given(py, has_output)
    }

    /// Ends the sequence: evaluates an incomplete window of a model that looks at windows of its own. Returns its output,
    /// or `None`.
    ///
    /// >>> import tidegate
    /// >>> tidegate.example().pack("f32").stream().finish() is None
    /// True
    fn finish<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Self { loaded, words, scratch, outputs, .. } = self;
        let finished = loaded.with(|engine| {
            let mut state = State::over(engine.model(), words).map_err(|_| StepError::OtherState)?;
            let mut outputs: Vec<&mut [f32]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
            engine.finish(&mut state, scratch, &mut outputs)
        });
        let has_output = finished.map_err(failed)?.has_output();
        self.given(py, has_output)
    }

    /// Resets the state to zero.
    ///
    /// >>> import tidegate
    /// >>> tidegate.example().pack("f32").stream().reset()
    fn reset(&mut self) {
        self.words.fill(0);
    }

    /// The state as bytes, which any backend restores, a device among them.
    ///
    /// >>> import tidegate
    /// >>> len(tidegate.example().pack("f32").stream().save()) > 128
    /// True
    fn save<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let Self { loaded, words, .. } = self;
        let saved = loaded.with(|engine| {
            let state = State::over(engine.model(), words).ok()?;
            let mut bytes = vec![0; state.saved_bytes()];
            state.save(&mut bytes).ok().map(|_| bytes)
        });
        Ok(PyBytes::new(py, &saved.ok_or_else(|| failed("the state cannot be saved"))?))
    }

    /// Continues from a saved state.
    ///
    /// >>> import numpy as np, tidegate
    /// >>> image = tidegate.example().pack("f32")
    /// >>> stream, later = image.stream(), image.stream()
    /// >>> _ = stream.step(np.ones(10, "f4"))
    /// >>> later.restore(stream.save())
    fn restore(&mut self, saved: &[u8]) -> PyResult<()> {
        let Self { loaded, words, .. } = self;
        loaded.with(|engine| {
            let model = *engine.model();
            let mut state = State::over(&model, words).map_err(failed)?;
            model.restore(&mut state, saved).map_err(failed)
        })
    }

    /// Number of features of a step.
    #[getter]
    fn input_size(&self) -> usize {
        self.loaded.with(|engine| engine.model().input_size())
    }

    /// Number of values of an output.
    #[getter]
    fn output_size(&self) -> usize {
        self.loaded.with(|engine| engine.model().output_size())
    }
}
