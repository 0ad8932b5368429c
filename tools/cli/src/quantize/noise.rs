//! Input for a model of which nothing else is known: seeded noise.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use tidegate::Numeric;
use tidegate::front_end::Mfcc;

use super::Ranges;
use super::ranges::RangesError;
use crate::canonical::Canonical;
use crate::pack::{PackError, front_end_section};
use crate::runner::clip_features;

const SEED: u64 = 0;
/// Seconds of sound at each loudness.
const SECONDS: usize = 1;
/// Amplitudes of sound, each half the one before, from full scale on.
const LOUDNESSES: u32 = 12;
/// Sequences of a model without a front end, and their steps.
const SEQUENCES: (usize, usize) = (8, 100);

impl Ranges {
    /// Of noise: through the front end at every loudness from full scale down, or else uniform between -1 and 1.
    ///
    /// # Errors
    /// As [`measure`](Self::measure).
    pub fn from_noise(model: &Canonical) -> Result<Self, RangesError> {
        let mut noise = ChaCha8Rng::seed_from_u64(SEED);
        let sequences = match &model.architecture.front_end {
            Some(front_end) => {
                let section = front_end_section(front_end, Numeric::I8x16).map_err(PackError::from)?;
                let mfcc = Mfcc::parse(&section).map_err(|error| RangesError::Image(error.into()))?;
                let len = SECONDS * front_end.sample_rate as usize;
                let sound = |halvings: u32| -> Vec<i16> {
                    (0..len).map(|_| (noise.next_u32() >> 16) as u16 as i16 >> halvings).collect()
                };
                let sounds: Vec<Vec<i16>> = (0..LOUDNESSES).map(sound).collect();
                sounds
                    .iter()
                    .map(|sound| Ok(vec![clip_features(&mfcc, sound)?]))
                    .collect::<Result<Vec<_>, RangesError>>()?
            }
            None => {
                let mut number = || noise.next_u32() as f32 / (u32::MAX / 2) as f32 - 1.0;
                let (count, steps) = SEQUENCES;
                let mut input = |size: usize| -> Vec<f32> { (0..steps * size).map(|_| number()).collect() };
                let inputs = &model.architecture.inputs;
                (0..count).map(|_| inputs.iter().map(|port| input(port.size)).collect()).collect()
            }
        };
        let sequences: Vec<Vec<&[f32]>> =
            sequences.iter().map(|inputs| inputs.iter().map(Vec::as_slice).collect()).collect();
        Self::measure(model, sequences.iter().map(Vec::as_slice))
    }
}
