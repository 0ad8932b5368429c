//! How far the values of a model reach when it runs.

use std::collections::BTreeMap;

use tidegate::step::Values;
use tidegate::{Model, Numeric, State};

use crate::canonical::Canonical;
use crate::load::ImageBuffer;
use crate::pack::{PackError, pack};
use crate::runner;

/// The greatest magnitude of every value and state, by `<value>` or `<node>.<state>`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ranges(BTreeMap<String, f32>);

impl Ranges {
    /// Those of a value, or of a state of a node: `lstm.cell_state`. 0 where nothing is known.
    pub fn of(&self, name: &str) -> f32 {
        self.0.get(name).copied().unwrap_or(0.0)
    }

    fn see(&mut self, name: &str, values: &[f32]) {
        let range = self.0.entry(name.to_owned()).or_insert(0.0);
        *range = values.iter().fold(*range, |range, value| range.max(value.abs()));
    }

    /// Of a model that runs over sequences, each `[steps, size]` for each input, in f32.
    ///
    /// # Errors
    /// If the model cannot be packed, or a sequence is not one of its inputs.
    pub fn measure<'s>(
        model: &Canonical,
        sequences: impl IntoIterator<Item = &'s [&'s [f32]]>,
    ) -> Result<Self, RangesError> {
        let image = ImageBuffer::new(&pack(model, Numeric::F32)?);
        let loaded = image.model().map_err(RangesError::Image)?;
        let mut ranges = Self::default();
        for sequence in sequences {
            ranges.run(&loaded.endless(), model, sequence)?;
        }
        Ok(ranges)
    }

    fn run(&mut self, model: &Model<'_>, canonical: &Canonical, inputs: &[&[f32]]) -> Result<(), RangesError> {
        let architecture = &canonical.architecture;
        let (mut memory, mut scratch) = (vec![0; model.state_words()], vec![0; model.scratch_words()]);
        let mut state = State::new(model, &mut memory).expect("the memory has the model's own length");
        let sizes: Vec<usize> = architecture.inputs.iter().map(|input| input.size).collect();
        let steps = inputs.iter().zip(&sizes).map(|(input, size)| input.len() / size).min().unwrap_or(0);
        let mut outputs: Vec<Vec<f32>> = architecture.outputs.iter().map(|output| vec![0.0; output.size]).collect();
        for step in 0..steps {
            let rows: Vec<&[f32]> =
                inputs.iter().zip(&sizes).map(|(input, size)| &input[step * size..][..*size]).collect();
            for (input, row) in architecture.inputs.iter().zip(&rows) {
                self.see(&input.name, row);
            }
            let mut out: Vec<&mut [f32]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
            let seen = model.step_observed(&mut state, &mut scratch, &rows, &mut out, |node, values| {
                if let Values::F32(values) = values {
                    self.see(&architecture.nodes[node].name, values);
                }
            });
            let _ = seen.map_err(runner::RunError::from)?;
            for (node, name) in model.nodes().zip(&architecture.nodes) {
                for part in node.spec().states {
                    if let Some(values) = state.part(model, &name.name, part.name) {
                        self.see(&format!("{}.{}", name.name, part.name), values);
                    }
                }
            }
        }
        Ok(())
    }
}

/// Why ranges could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum RangesError {
    /// The model cannot be packed.
    #[error(transparent)]
    Pack(#[from] PackError),
    /// Its image does not run.
    #[error(transparent)]
    Image(tidegate::ImageError),
    /// The input does not fit.
    #[error(transparent)]
    Run(#[from] runner::RunError),
}
