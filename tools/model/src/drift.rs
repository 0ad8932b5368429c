//! Drift of an image from its model over a long run: whether the errors of one step are carried to the next.

use crate::backend::Engine;
use crate::compare::{Comparison, Difference, between};
use crate::runner::{RunError, step_count};

/// Number of parts of a run.
const PARTS: usize = 120;

/// One run, divided into parts of equal length.
#[derive(Clone, Debug)]
pub struct Drift {
    /// Comparison over the whole run.
    pub whole: Comparison,
    /// The last step of each part, and the differences within the part: layers, states, then the output.
    pub parts: Vec<(u64, Vec<Difference>)>,
}

fn all(comparison: &Comparison) -> impl Iterator<Item = &Difference> {
    let Comparison { layers, states, output, .. } = comparison;
    layers.iter().chain(states).chain([output])
}

impl Drift {
    /// Runs an image and its model over sequences, `[steps, size]` for each input, each from a zero state, with the
    /// schedules of the engines.
    ///
    /// # Errors
    /// If the inputs do not fit the model.
    pub fn run<'m>(
        image: impl Into<Engine<'m>>,
        reference: impl Into<Engine<'m>>,
        sequences: &[Vec<Vec<f32>>],
    ) -> Result<Self, RunError> {
        let (image, reference) = (image.into(), reference.into());
        let sizes: Vec<usize> = image.model().inputs().map(|port| port.size.max(1)).collect();
        let sequences: Vec<Vec<&[f32]>> =
            sequences.iter().map(|inputs| inputs.iter().map(Vec::as_slice).collect()).collect();
        let steps: usize = sequences.iter().map(|inputs| step_count(inputs, &sizes)).sum();
        let part = steps.div_ceil(PARTS).max(1) as u64;
        let mut whole = Comparison::new(image.model(), reference.model());
        let (mut before, mut parts): (Vec<Difference>, _) = (all(&whole).cloned().collect(), Vec::new());
        for inputs in &sequences {
            whole.run(&image, &reference, inputs, |now| {
                if now.steps.is_multiple_of(part) || now.steps == steps as u64 {
                    parts.push((now.steps, all(now).zip(&before).map(|(now, before)| between(now, before)).collect()));
                    before = all(now).cloned().collect();
                }
            })?;
        }
        Ok(Self { whole, parts })
    }

    /// The names of layers and states, and `output`, in their order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        all(&self.whole).map(|difference| difference.name.as_str())
    }

    /// The root mean square error of number `index` of [`names`](Self::names) over the whole parts from step `from` to
    /// step `to`, and the root mean square of the expected values.
    pub fn distance(&self, index: usize, from: u64, to: u64) -> (f64, f64) {
        let mut start = 0;
        let mut sums = (0.0, 0.0, 0);
        for (end, differences) in &self.parts {
            if start >= from && *end <= to {
                let difference = &differences[index];
                sums = (sums.0 + difference.noise, sums.1 + difference.signal, sums.2 + difference.values);
            }
            start = *end;
        }
        let mean = |sum: f64| (sum / sums.2.max(1) as f64).sqrt();
        (mean(sums.0), mean(sums.1))
    }

    /// A curve for each of [`names`](Self::names): the signal-to-noise ratio of each part in which it has values. `step`
    /// is the duration of a step.
    pub fn curves(&self, step: f64) -> Vec<(String, Vec<(f32, f32)>)> {
        let curve = |index: usize| {
            let point = |(end, differences): &(u64, Vec<Difference>)| {
                let difference = &differences[index];
                (difference.values > 0).then(|| ((*end as f64 * step) as f32, difference.snr_db() as f32))
            };
            self.parts.iter().filter_map(point).collect()
        };
        self.names().enumerate().map(|(index, name)| (name.to_owned(), curve(index))).collect()
    }
}
