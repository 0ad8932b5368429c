//! Substitutes for calibration data: carried sounds, row indices, or noise.

use std::fmt;

use chacha20::ChaCha8Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use tidegate::internals::cell::CellKind;
use tidegate::{Numeric, front_end::Mfcc};

use super::Ranges;
use super::scales::index_rows;
use super::seen::RangesError;
use crate::canonical::{self, Architecture, Canonical, Node, Port, Schedule};
use crate::pack::PackError;
use crate::runner::{clip_features, fit};

const SEED: u64 = 0;
/// Spoken words and background noise, one after the other, each padded to a second.
static SPEECH: &[u8] = include_bytes!("../../sounds/speech.flac");
/// Sample rate of [`SPEECH`] in Hz, and the number of samples of a word.
const SPEECH_RATE: u32 = 16_000;
/// Shifts of the samples of the words: as recorded, and an eighth of it.
const LEVELS: [u32; 2] = [0, 3];
/// Seconds of noise at each loudness.
const SECONDS: usize = 1;
/// Number of amplitudes of noise; each is half the previous one, starting at full scale.
const LOUDNESSES: u32 = 12;
/// Number of sequences for a model without a front end, and the minimum number of their steps.
const SEQUENCES: (usize, usize) = (8, 100);
/// Maximum number of steps, for windows of any length.
const MOST_STEPS: usize = 1 << 14;

/// A substitute for calibration data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StandIn {
    /// Spoken words, background noise and white noise, at several levels, through the model's front end.
    Sounds,
    /// The indices of all rows of embedding tables, as far as the longest sequences hold them.
    Indices,
    /// Uniform noise between -1 and 1. The real inputs of a model may have another range.
    Noise,
}

impl fmt::Display for StandIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sounds => "the sounds that tidegate carries",
            Self::Indices => "all indices",
            Self::Noise => "noise",
        })
    }
}

impl StandIn {
    /// The substitute for the calibration data of a model.
    pub fn of(model: &Canonical) -> Self {
        let Canonical { architecture, .. } = model;
        if architecture.front_end.is_some() {
            return Self::Sounds;
        }
        let is_index = |input: &Port| index_rows(model, &input.name).is_some();
        if architecture.inputs.iter().all(is_index) { Self::Indices } else { Self::Noise }
    }

    /// The spoken words "up" and "yes" of [`Sounds`](Self::Sounds), a second each, at a sample rate.
    pub fn speech(rate: u32) -> Vec<i16> {
        words(rate).into_iter().skip(10).take(2).flatten().collect()
    }

    /// Calibration sequences, each `[steps, size]` for each input.
    ///
    /// # Errors
    /// If the front end cannot run.
    pub fn sequences(model: &Canonical) -> Result<Vec<Vec<Vec<f32>>>, RangesError> {
        match &model.architecture.front_end {
            Some(front_end) => sounds(front_end, model.architecture.schedule),
            None => Ok(noise(model)),
        }
    }
}

impl Ranges {
    /// Observes a model that runs over the [substitute](StandIn) for its calibration data. The errors are those of
    /// [`measure`](Self::measure).
    pub fn without_data(model: &Canonical) -> Result<Self, RangesError> {
        let sequences = StandIn::sequences(model)?;
        let sequences: Vec<Vec<&[f32]>> =
            sequences.iter().map(|inputs| inputs.iter().map(Vec::as_slice).collect()).collect();
        Self::measure(model, sequences.iter().map(Vec::as_slice))
    }
}

/// The features of words and noise. If the schedule is endless, all sounds are one stream.
fn sounds(front_end: &canonical::Mfcc, schedule: Schedule) -> Result<Vec<Vec<Vec<f32>>>, RangesError> {
    let section = front_end.section(Numeric::I8x16, None).map_err(PackError::from)?;
    let mfcc = Mfcc::parse(&section).map_err(|error| RangesError::Image(error.into()))?;
    let rate = front_end.sample_rate;
    let words = words(rate);
    let quieter = |by: u32| words.iter().map(move |word| word.iter().map(|sample| sample >> by).collect());
    let mut noise = ChaCha8Rng::seed_from_u64(SEED);
    let mut noise = |halvings: u32| -> Vec<i16> {
        (0..SECONDS * rate as usize).map(|_| (noise.next_u32() >> 16) as u16 as i16 >> halvings).collect()
    };
    let sounds: Vec<Vec<i16>> = LEVELS.into_iter().flat_map(quieter).chain((0..LOUDNESSES).map(&mut noise)).collect();
    let features = |sound: &[i16]| Ok(vec![clip_features(&mfcc, sound)?]);
    match schedule {
        Schedule::Endless => Ok(vec![features(&sounds.concat())?]),
        Schedule::Windows { frames, .. } => sounds.iter().map(|sound| features(&fit(&mfcc, sound, frames)?)).collect(),
    }
}

/// The words at a sample rate, interpolated linearly.
fn words(rate: u32) -> Vec<Vec<i16>> {
    let mut reader = claxon::FlacReader::new(SPEECH).expect("the carried sounds are FLAC");
    let speech: Vec<i16> =
        reader.samples().map(|sample| sample.expect("the carried sounds are whole") as i16).collect();
    let step = f64::from(SPEECH_RATE) / f64::from(rate.max(1));
    let at = |word: &[i16], k: usize| {
        let place = k as f64 * step;
        let [from, to] = [0, 1].map(|next| f64::from(word.get(place as usize + next).copied().unwrap_or(0)));
        (from + (to - from) * place.fract()) as i16
    };
    let resampled = |word: &[i16]| (0..rate as usize).map(|k| at(word, k)).collect();
    speech.chunks(SPEECH_RATE as usize).map(resampled).collect()
}

/// Number of steps after which every window has been full once, if each node reads the previous one.
fn steps_of_windows(nodes: &[Node]) -> usize {
    let windows = nodes.iter().filter(|node| node.cell == CellKind::Window.spec().name);
    let extent = |node: &Node, name: &str| node.extents.get(name).copied().unwrap_or(1);
    let (steps, _) = windows.fold((1_usize, 1_usize), |(steps, stride), node| {
        let waited = stride.saturating_mul(extent(node, "length").saturating_sub(1));
        (steps.saturating_add(waited), stride.saturating_mul(extent(node, "hop")))
    });
    steps
}

/// Uniform noise between -1 and 1, or the row indices of an embedding: each in turn, then random ones.
fn noise(model: &Canonical) -> Vec<Vec<Vec<f32>>> {
    let Architecture { inputs, nodes, .. } = &model.architecture;
    let mut noise = ChaCha8Rng::seed_from_u64(SEED);
    let tables: Vec<Option<usize>> = inputs.iter().map(|input| index_rows(model, &input.name)).collect();
    let (count, least) = SEQUENCES;
    let rows = tables.iter().flatten().max().map_or(0, |rows| rows.div_ceil(count));
    let steps = steps_of_windows(nodes).max(rows).clamp(least, MOST_STEPS);
    let mut next = vec![0; inputs.len()];
    let mut input = |at: usize| -> Vec<f32> {
        let number = |_| match tables[at] {
            Some(rows) => {
                let index = next[at];
                next[at] += 1;
                (if index < rows { index } else { noise.next_u32() as usize % rows.max(1) }) as f32
            }
            None => noise.next_u32() as f32 / (u32::MAX / 2) as f32 - 1.0,
        };
        (0..steps * inputs[at].size).map(number).collect()
    };
    (0..count).map(|_| (0..inputs.len()).map(&mut input).collect()).collect()
}
