//! How the distance of an image from its model goes on while both run: whether errors of one step are carried to the next.

use crate::compare::{Comparison, Difference, between};
use crate::engine::Engine;
use crate::runner::RunError;

/// Parts that a run is cut into.
const PARTS: usize = 120;

/// One run, in parts of equal length.
#[derive(Clone, Debug)]
pub struct Drift {
    /// All of it.
    pub whole: Comparison,
    /// The last step of each part, and what lies between it and the part before: layers, states, then the output.
    pub parts: Vec<(u64, Vec<Difference>)>,
}

fn all(comparison: &Comparison) -> impl Iterator<Item = &Difference> {
    let Comparison { layers, states, output, .. } = comparison;
    layers.iter().chain(states).chain([output])
}

impl Drift {
    /// Of an image and its model over a sequence, `[steps, size]` for each input, as one endless run from a zero state.
    ///
    /// # Errors
    /// If the inputs are not the model's.
    pub fn run<'m>(
        image: impl Into<Engine<'m>>,
        reference: impl Into<Engine<'m>>,
        inputs: &[&[f32]],
    ) -> Result<Self, RunError> {
        let (image, reference) = (image.into(), reference.into());
        let steps =
            image.model().inputs().zip(inputs).map(|(port, input)| input.len() / port.size.max(1)).min().unwrap_or(0);
        let part = steps.div_ceil(PARTS).max(1) as u64;
        let mut whole = Comparison::new(image.model(), reference.model());
        let (mut before, mut parts): (Vec<Difference>, _) = (all(&whole).cloned().collect(), Vec::new());
        whole.run(&image, &reference, inputs, |now| {
            if now.steps.is_multiple_of(part) || now.steps == steps as u64 {
                parts.push((now.steps, all(now).zip(&before).map(|(now, before)| between(now, before)).collect()));
                before = all(now).cloned().collect();
            }
        })?;
        Ok(Self { whole, parts })
    }

    /// The names of layers and states, and `output`, in their order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        all(&self.whole).map(|difference| difference.name.as_str())
    }

    /// The root of the mean squared distance of number `index` of [`names`](Self::names) over steps `from` to `to`, as far
    /// as whole parts lie there, and the same of what it should be.
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

    /// A curve for each of [`names`](Self::names): the signal-to-noise ratio of each part. A step takes so long.
    pub fn curves(&self, step: f64) -> Vec<(String, Vec<(f32, f32)>)> {
        let curve = |index: usize| {
            let point = |(end, differences): &(u64, Vec<Difference>)| {
                ((*end as f64 * step) as f32, differences[index].snr_db() as f32)
            };
            self.parts.iter().map(point).collect()
        };
        self.names().enumerate().map(|(index, name)| (name.to_owned(), curve(index))).collect()
    }
}
