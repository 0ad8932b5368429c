//! The test that AIDA-X stores beside the layers: samples, and the outputs that the model must have for them.

use super::{malformed, malformed_if};
use crate::backend::Engine;
use crate::buffer::ImageBuffer;
use crate::canonical::Canonical;
use crate::error::{ImportError, Result};
use crate::format::array::Array;
use crate::{pack::pack, runner};

/// Maximum difference, for outputs up to 1; relative to the greatest output if that is more.
const TOLERANCE: f32 = 1e-4;
/// Maximum number of products with weights in a test. Further samples are not run.
const MOST_PRODUCTS: usize = 1 << 28;

pub(super) struct SelfTest {
    input: Vec<f32>,
    output: Vec<f32>,
}

impl SelfTest {
    /// The test of a file, if it has one.
    pub fn new(input: Option<Array>, output: Option<Array>) -> Result<Option<Self>> {
        let (input, output) = match (input, output) {
            (None, None) => return Ok(None),
            (Some(Array(input)), Some(Array(output))) => (input.data, output.data),
            _ => return malformed("it has one of input_batch and output_batch without the other"),
        };
        let (samples, outputs) = (input.len(), output.len());
        let differ = samples != outputs || samples == 0;
        malformed_if(differ, format_args!("input_batch has {samples} samples, output_batch {outputs}"))?;
        Ok(Some(Self { input, output }))
    }

    /// Runs the test; features after the first are 0. Returns a note with the greatest difference.
    ///
    /// # Errors
    /// If it is more than [`TOLERANCE`].
    pub fn passed(&self, model: &Canonical) -> Result<String> {
        let sizes = (&model.architecture.inputs[..], &model.architecture.outputs[..]);
        let ([input], [output]) = sizes else { return malformed("its test needs one input and one output") };
        let (features, outputs) = (input.size, output.size);
        malformed_if(outputs != 1, format_args!("its test has one number for each sample, the model {outputs}"))?;
        let weights: usize = model.tensors.values().map(|tensor| tensor.data.len()).sum();
        let samples = self.input.len().min(MOST_PRODUCTS / weights.max(features).max(1)).max(1);
        let mut rows = vec![0.0; samples * features];
        for (row, &sample) in rows.chunks_mut(features).zip(&self.input) {
            row[0] = sample;
        }
        let failed = |reason: String| ImportError::Refused {
            found: format!("its test (input_batch) does not run: {reason}"),
            advice: "open an issue with the model",
        };
        let image = ImageBuffer::new(&pack(model, tidegate::Numeric::F32).map_err(|error| failed(error.to_string()))?);
        let packed = image.model().map_err(|error| failed(error.to_string()))?;
        let sequence = runner::run(Engine::from(&packed), &[&rows], None).map_err(|error| failed(error.to_string()))?;
        let [got] = &sequence.outputs[..] else { return Err(failed("it has no output".into())) };
        let wanted = &self.output[..samples];
        let late = got.len() != wanted.len();
        malformed_if(late, format_args!("its test has {samples} outputs, the model {}", got.len()))?;
        // Not-a-number is the greatest.
        let greatest = |numbers: &mut dyn Iterator<Item = f32>| numbers.map(f32::abs).max_by(f32::total_cmp);
        let worst = greatest(&mut got.iter().zip(wanted).map(|(got, wanted)| got - wanted)).unwrap_or(0.0);
        let level = greatest(&mut wanted.iter().copied()).unwrap_or(0.0);
        if worst <= TOLERANCE * level.max(1.0) {
            return Ok(format!("its own test passes: {samples} samples, off by {worst:.1e} at most"));
        }
        Err(ImportError::Refused {
            found: format!("its own test fails: {samples} samples (input_batch, output_batch), off by {worst:.1e}"),
            advice: "the weights, or fields beside the layers, are not those of the test: export the model again",
        })
    }
}
