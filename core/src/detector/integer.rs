//! The detector for integer posteriors, without floating point.
//!
//! ```text
//! sum[l] = Σ posterior[l] over the last `mean_of` posteriors;  event where sum[l] >= threshold[l] / scale · mean_of
//! ```
//!
//! The scale is 2^-15, or 2^-8 as in TFLite's softmax and sigmoid of 8 bits.
//! Both sides are exact. The events equal those of a [`Detector`](super::Detector) that receives the posteriors as f32,
//! except where its rounded mean reaches a threshold that the exact mean does not reach.

use super::{DetectorSettings, History};
use crate::error::{BufferTooSmall, WrongLength};

/// Why an integer detector cannot be created.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum IntegerDetectorError {
    /// The scale of the model's output is neither 2^-15 nor 2^-8, the scales of softmax and sigmoid.
    Scale {
        /// The scale found.
        found: f32,
    },
    /// The memory is shorter than [`DetectorSettings::integer_memory_words`].
    Memory(BufferTooSmall),
}

impl core::fmt::Display for IntegerDetectorError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::Scale { found } => {
                write!(f, "detector: the scale of the posteriors is {found:e}, but must be 2^-15 or 2^-8")
            }
            Self::Memory(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for IntegerDetectorError {}

/// A detected label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct IntegerEvent {
    /// Index of the label.
    pub label: usize,
    /// Mean posterior of the label, in units of the scale, rounded down.
    pub score: i16,
    /// Time of the last averaged posterior, in milliseconds.
    pub at_ms: u32,
}

/// Turns a stream of integer posteriors into events.
#[derive(Debug)]
pub struct IntegerDetector<'a, 'b> {
    settings: DetectorSettings<'a>,
    /// Fraction bits of a posterior.
    bits: u32,
    history: History<'b, i16>,
}

// The bits of f32s. Nonnegative floats are ordered like their bits.
/// 2^-15
const FINE_BITS: u32 = (1.0_f32 / 32768.0).to_bits();
/// 2^-8
const COARSE_BITS: u32 = (1.0_f32 / 256.0).to_bits();
const ONE_BITS: u32 = 1.0_f32.to_bits();
const SIGN_BIT: u32 = 1 << 31;

impl<'a, 'b> IntegerDetector<'a, 'b> {
    /// Creates a detector without posteriors. `scale` is that of the posteriors:
    /// [`Model::output_scale`](crate::Model::output_scale). `memory` is borrowed until the detector is dropped.
    ///
    /// # Errors
    /// If the scale is neither 2^-15 nor 2^-8, or `memory` is shorter than [`DetectorSettings::integer_memory_words`].
    pub fn new(
        settings: &DetectorSettings<'a>,
        scale: f32,
        memory: &'b mut [u32],
    ) -> Result<Self, IntegerDetectorError> {
        let bits = match scale.to_bits() {
            FINE_BITS => 15,
            COARSE_BITS => 8,
            _ => return Err(IntegerDetectorError::Scale { found: scale }),
        };
        let too_small = BufferTooSmall { needed: settings.integer_memory_words(), given: memory.len() };
        let posteriors = bytemuck::must_cast_slice_mut(memory);
        let posteriors =
            posteriors.get_mut(..settings.memory_words()).ok_or(IntegerDetectorError::Memory(too_small))?;
        Ok(Self { settings: *settings, bits, history: History::new(settings, posteriors) })
    }

    /// Adds the posteriors of all labels at the time `now_ms`, modulo 2^32 as in
    /// [`Detector::push`](super::Detector::push), and returns the event that they trigger, if any.
    ///
    /// # Errors
    /// If the number of posteriors is not the number of labels. The detector is then unchanged.
    pub fn push(&mut self, posteriors: &[i16], now_ms: u32) -> Result<Option<IntegerEvent>, WrongLength> {
        if !self.history.push(posteriors, now_ms)? {
            return Ok(None);
        }
        let (label, sum) = self.best();
        let Some(settings) = self.settings.label(label) else { return Ok(None) };
        // The mask drops the sign: a threshold of -0.0 is valid.
        let threshold = settings.threshold.to_bits() & !SIGN_BIT;
        if threshold > ONE_BITS || i64::from(sum) < least_sum(threshold, self.settings.mean_of, self.bits) {
            return Ok(None);
        }
        self.history.event(now_ms, settings.refractory_ms);
        // `mean_of` is never 0; `max` tells the compiler so.
        let score = sum.cast_unsigned() / self.settings.mean_of.max(1);
        Ok(Some(IntegerEvent { label, score: score as i16, at_ms: now_ms }))
    }

    /// Forgets every posterior and event.
    pub fn reset(&mut self) {
        self.history.reset(&self.settings);
    }

    /// The label with the greatest sum (the first among equals), and that sum.
    fn best(&self) -> (usize, i32) {
        let mut best = (0, i32::MIN);
        for label in 0..self.settings.label_count() {
            // At most 256 posteriors of 16 bits.
            let sum = self.history.unordered(label).fold(0, |sum, posterior| sum + i32::from(posterior));
            if sum > best.1 {
                best = (label, sum);
            }
        }
        best
    }
}

/// The least integer not below `threshold` · 2^`bits` · `mean_of`. `threshold` holds the bits of an f32 from 0 to 1.
const fn least_sum(threshold: u32, mean_of: u32, bits: u32) -> i64 {
    let (exponent, fraction) = (threshold >> 23, threshold & 0x7f_ffff);
    // Numbers below 2^-126 have no implicit leading one.
    let (exponent, mantissa) = if exponent == 0 { (1, fraction) } else { (exponent, fraction | 1 << 23) };
    // At most 2^24 · 2^8, times 2^(exponent - 150 + bits).
    let product = mantissa as u64 * mean_of as u64;
    let shift = 150 - bits - exponent;
    if shift > 40 {
        return (product > 0) as i64;
    }
    ((product + (1 << shift) - 1) >> shift) as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detector::{Detector, LabelSettings};

    #[test]
    fn the_least_sum_is_that_of_the_thresholds_value() {
        let thresholds =
            [0.0, -0.0, f32::MIN_POSITIVE / 3.0, 1e-30, 1.0 / 32768.0, 0.1, 0.25, 0.5, 0.8, 0.999_999_94, 1.0];
        for threshold in thresholds {
            for mean_of in [1, 2, 3, 7, 255, 256] {
                // 24 bits, 8 bits and a power of two: exact in f64.
                for bits in [8, 15] {
                    let exact = f64::from(threshold) * f64::from(1 << bits) * f64::from(mean_of);
                    let found = least_sum(threshold.abs().to_bits(), mean_of, bits);
                    assert!(found as f64 >= exact && ((found - 1) as f64) < exact, "{threshold} {mean_of}: {found}");
                }
            }
        }
    }

    /// For random posteriors, the f32 detector has the same events and scores.
    #[test]
    fn events_are_those_of_the_detector_in_f32() {
        let labels = [
            LabelSettings { threshold: 2.0, refractory_ms: 0 },
            LabelSettings { threshold: 0.6, refractory_ms: 300 },
            LabelSettings { threshold: 0.8, refractory_ms: 0 },
        ];
        let (mut state, mut count) = (7_u32, 0);
        let mut random = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 17
        };
        for (mean_of, unit) in [1, 2, 3, 8].into_iter().flat_map(|mean_of| [(mean_of, 32_768.0), (mean_of, 256.0)]) {
            let mut bytes = [0; 64];
            let len = DetectorSettings::write(mean_of, &labels, &mut bytes).unwrap();
            let settings = DetectorSettings::parse(&bytes[..len]).unwrap();
            let (mut memory, mut words) = ([u32::MAX; 24], [u32::MAX; 12]);
            let mut float = Detector::new(&settings, &mut memory).unwrap();
            let mut integer = IntegerDetector::new(&settings, 1.0 / unit, &mut words).unwrap();
            let mut now_ms = u32::MAX - 5000;
            for _ in 0..5000 {
                now_ms = now_ms.wrapping_add(random() % 200);
                let row = [0; 3]
                    .map(|_: i16| if random() % 4 == 0 { random() as i16 } else { 32_767 - (random() % 8192) as i16 });
                let row = row.map(|value| if unit == 256.0 { value >> 7 } else { value });
                let expected = float.push(&row.map(|value| f32::from(value) / unit), now_ms).unwrap();
                let found = integer.push(&row, now_ms).unwrap();
                assert_eq!(
                    found.map(|event| (event.label, event.score, event.at_ms)),
                    expected.map(|event| (event.label, (event.score * unit) as i16, event.at_ms))
                );
                count += usize::from(found.is_some());
                if random() % 500 == 0 {
                    float.reset();
                    integer.reset();
                }
            }
        }
        assert!(count > 500, "{count}");
    }

    /// A threshold midway between two sums: the greater sum triggers an event, the smaller one, `cutoff` · n, does not.
    #[test]
    fn a_threshold_between_two_sums_of_bytes_separates_them() {
        for (cutoff, mean_of) in [(247, 5_u32), (127, 10), (1, 1), (254, 20)] {
            let threshold = (cutoff * mean_of) as f32 + 0.5;
            let labels = [LabelSettings { threshold: threshold / (256 * mean_of) as f32, refractory_ms: 0 }];
            let (mut bytes, mut memory) = ([0; 64], [0; 64]);
            let len = DetectorSettings::write(mean_of, &labels, &mut bytes).unwrap();
            let settings = DetectorSettings::parse(&bytes[..len]).unwrap();
            let mut detector = IntegerDetector::new(&settings, 1.0 / 256.0, &mut memory).unwrap();
            for more in [0, 1] {
                let events = (0..mean_of).filter(|&k| {
                    let posterior = cutoff as i16 + if k == 0 { more } else { 0 };
                    detector.push(&[posterior], k).unwrap().is_some()
                });
                assert_eq!(events.count(), more as usize, "{cutoff} of {mean_of}");
                detector.reset();
            }
        }
    }

    #[test]
    fn a_threshold_of_minus_zero_is_zero() {
        let labels = [LabelSettings { threshold: -0.0, refractory_ms: 0 }];
        let (mut bytes, mut memory) = ([0; 64], [0; 8]);
        let len = DetectorSettings::write(1, &labels, &mut bytes).unwrap();
        let settings = DetectorSettings::parse(&bytes[..len]).unwrap();
        assert!(Detector::new(&settings, &mut memory).unwrap().push(&[0.0], 0).unwrap().is_some());
        assert!(IntegerDetector::new(&settings, 1.0 / 32768.0, &mut memory).unwrap().push(&[0], 0).unwrap().is_some());
    }

    #[test]
    fn another_scale_and_short_memory_are_refused() {
        let mut bytes = [0; 64];
        let len =
            DetectorSettings::write(3, &[LabelSettings { threshold: 0.5, refractory_ms: 0 }; 3], &mut bytes).unwrap();
        let settings = DetectorSettings::parse(&bytes[..len]).unwrap();
        assert_eq!(settings.integer_memory_words(), 5);
        let error = IntegerDetector::new(&settings, 1.0 / 32768.0, &mut [0; 4]).unwrap_err();
        assert_eq!(error, IntegerDetectorError::Memory(BufferTooSmall { needed: 5, given: 4 }));
        let error = IntegerDetector::new(&settings, 0.25, &mut [0; 5]).unwrap_err();
        assert_eq!(error, IntegerDetectorError::Scale { found: 0.25 });
        let mut memory = [0; 5];
        let mut detector = IntegerDetector::new(&settings, 1.0 / 32768.0, &mut memory).unwrap();
        assert_eq!(detector.push(&[1, 2], 0), Err(WrongLength { expected: 3, given: 2 }));
    }
}
