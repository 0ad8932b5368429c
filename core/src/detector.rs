//! Converts posteriors to events: smoothing, threshold, refractory time.
//!
//! ```text
//! mean[l] = Σ posterior[l] / mean_of   over the last `mean_of` posteriors, once that many have arrived
//! event   = the label of the greatest mean, if mean >= threshold[label], which is at most 1,
//!           and the last event, of any label, is at least its refractory time old
//! ```
//!
//! After Zhang et al., Hello Edge (arXiv:1711.07128), section 3, and TensorFlow's `RecognizeCommands`, which also waits
//! for its first results and suppresses every label after an event.

mod integer;

pub use integer::{IntegerDetector, IntegerDetectorError, IntegerEvent};

use core::num::NonZero;

use crate::error::{BufferTooSmall, WrongLength};
use crate::image::read::u32_at;
use crate::text::{Text, error_of_text};

/// Byte offsets in the section. The two counts are followed by a threshold (f32) and a refractory time (u32, ms) for
/// each label.
mod field {
    use core::ops::Range;

    pub const MEAN_OF: Range<usize> = 0..4;
    pub const LABELS: Range<usize> = 4..8;
    pub const FIRST_LABEL: usize = 8;
    pub const LABEL_BYTES: usize = 8;
}

const LABELS_LIMIT: u32 = 65_536;

/// The settings of one label.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct LabelSettings {
    /// Smallest mean posterior that triggers an event. A threshold above 1 disables the label.
    pub threshold: f32,
    /// Time after an event of this label, in milliseconds, during which no label triggers an event.
    pub refractory_ms: u32,
}

/// Why a section or settings are not valid for a detector.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
#[expect(missing_docs, reason = "the variants say what their fields hold")]
pub enum DetectorError {
    /// The section, or the buffer for it, is not as long as its number of labels requires. Lengths are in bytes;
    /// `needed` is the length of the two counts if the section ends within them.
    SectionLen { needed: usize, given: usize },
    /// The number of averaged posteriors is not between 1 and 256.
    MeanOf { found: u32 },
    /// The number of labels is not between 1 and 65,536.
    Labels { found: u32 },
    /// The threshold of the label with this index is negative or not finite.
    Threshold { label: usize, found: f32 },
}

impl DetectorError {
    pub(crate) const fn text(&self) -> Text {
        let text = Text::NEW.text("detector: ");
        match *self {
            Self::SectionLen { needed, given } => text.with("the section has {} bytes, but needs {}", &[given, needed]),
            Self::MeanOf { found } => text.with("the mean of {} posteriors; 1 to 256 are supported", &[found as usize]),
            Self::Labels { found } => text.with("{} labels; 1 to 65536 are supported", &[found as usize]),
            Self::Threshold { label, found } => text.with("label {} has the threshold ", &[label]).float(found),
        }
    }
}

error_of_text!(DetectorError);

/// Detector settings in a section of an image, checked and read in place.
#[derive(Clone, Copy, Debug)]
pub struct DetectorSettings<'a> {
    mean_of: u32,
    labels: &'a [[u8; field::LABEL_BYTES]],
}

impl<'a> DetectorSettings<'a> {
    /// Largest number of averaged posteriors.
    pub const MEAN_OF_LIMIT: u32 = 256;

    /// Parses the payload of a detector section.
    ///
    /// # Errors
    /// If a count or a threshold is out of range, or the length of the payload does not match the number of labels.
    pub const fn parse(payload: &'a [u8]) -> Result<Self, DetectorError> {
        let given = payload.len();
        let cut_off = Err(DetectorError::SectionLen { needed: field::FIRST_LABEL, given });
        let Some(mean_of) = u32_at(payload, field::MEAN_OF) else { return cut_off };
        let Some(count) = u32_at(payload, field::LABELS) else { return cut_off };
        let Some((_, rest)) = payload.split_at_checked(field::FIRST_LABEL) else { return cut_off };
        ok!(check_counts(mean_of, count));
        let (labels, odd) = rest.as_chunks();
        if labels.len() != count as usize || !odd.is_empty() {
            return Err(DetectorError::SectionLen { needed: Self::section_len(count as usize), given });
        }
        let settings = Self { mean_of, labels };
        let mut label = 0;
        while let Some(LabelSettings { threshold, .. }) = settings.label(label) {
            if !(0.0 <= threshold && threshold <= f32::MAX) {
                return Err(DetectorError::Threshold { label, found: threshold });
            }
            label += 1;
        }
        Ok(settings)
    }

    /// Writes the section that [`parse`](Self::parse) reads to the start of `section` and returns its length in bytes.
    ///
    /// # Errors
    /// As `parse`; also if `section` is shorter than [`section_len`](Self::section_len).
    pub fn write(mean_of: u32, labels: &[LabelSettings], section: &mut [u8]) -> Result<usize, DetectorError> {
        let count = u32::try_from(labels.len()).unwrap_or(u32::MAX);
        check_counts(mean_of, count)?;
        let (needed, given) = (Self::section_len(labels.len()), section.len());
        let section = section.get_mut(..needed).ok_or(DetectorError::SectionLen { needed, given })?;
        let words = labels.iter().flat_map(|label| [label.threshold.to_bits(), label.refractory_ms]);
        for (bytes, word) in section.as_chunks_mut().0.iter_mut().zip([mean_of, count].into_iter().chain(words)) {
            *bytes = u32::to_le_bytes(word);
        }
        DetectorSettings::parse(section).map(|_| needed)
    }

    /// Length in bytes of the section for `labels` labels.
    pub const fn section_len(labels: usize) -> usize {
        field::FIRST_LABEL.saturating_add(labels.saturating_mul(field::LABEL_BYTES))
    }

    /// Number of averaged posteriors.
    pub const fn mean_of(&self) -> u32 {
        self.mean_of
    }

    /// Number of labels.
    pub const fn label_count(&self) -> usize {
        self.labels.len()
    }

    /// The settings of `label`, or `None` past the last label.
    pub const fn label(&self, label: usize) -> Option<LabelSettings> {
        let Some((_, rest)) = self.labels.split_at_checked(label) else { return None };
        let [[a, b, c, d, e, f, g, h], ..] = *rest else { return None };
        let threshold = f32::from_le_bytes([a, b, c, d]);
        Some(LabelSettings { threshold, refractory_ms: u32::from_le_bytes([e, f, g, h]) })
    }

    /// Words of memory that a [`Detector`] needs for the averaged posteriors.
    pub const fn memory_words(&self) -> usize {
        self.mean_of as usize * self.labels.len()
    }

    /// Words of memory that an [`IntegerDetector`] needs: two posteriors per word.
    pub const fn integer_memory_words(&self) -> usize {
        self.memory_words().div_ceil(2)
    }
}

const fn check_counts(mean_of: u32, labels: u32) -> Result<(), DetectorError> {
    if mean_of == 0 || mean_of > DetectorSettings::MEAN_OF_LIMIT {
        return Err(DetectorError::MeanOf { found: mean_of });
    }
    if labels == 0 || labels > LABELS_LIMIT {
        return Err(DetectorError::Labels { found: labels });
    }
    Ok(())
}

/// A detected label.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Event {
    /// Index of the label.
    pub label: usize,
    /// Mean posterior of the label.
    pub score: f32,
    /// Time of the last averaged posterior, in milliseconds.
    pub at_ms: u32,
}

/// Turns a stream of posteriors into events.
/// The whole chain from samples to events:
///
/// ```
/// use tidegate::{Detector, FrontEnd, Model, Runner};
///
/// const MODEL: Model = tidegate::include_model!("../examples/kws.tgi");
///
/// let mfcc = MODEL.front_end().expect("the image has a front end");
/// let settings = MODEL.detector().expect("the image has a detector");
/// let (mut sound, mut means) = (vec![0; mfcc.memory_words()], vec![0; settings.memory_words()]);
/// let mut front_end = FrontEnd::new(mfcc, &mut sound)?;
/// let mut detector = Detector::new(settings, &mut means)?;
/// let mut runner = Runner::new(&MODEL, [0; MODEL.runner_words()])?;
///
/// let recording = [0; 800];
/// let (mut samples, mut frames) = (&recording[..], 0);
/// while !samples.is_empty() {
///     samples = &samples[front_end.push(samples)..];
///     while let Some(features) = front_end.next() {
///         frames += 1;
///         let Some(posteriors) = runner.step(features)? else { continue };
///         let now_ms = frames * mfcc.settings().stride_len * 1000 / mfcc.settings().sample_rate;
///         if let Some(event) = detector.push(posteriors, now_ms)? {
///             println!("{:?} at {} ms", MODEL.labels().nth(event.label), event.at_ms);
///         }
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Detector<'a, 'b> {
    settings: DetectorSettings<'a>,
    history: History<'b, f32>,
}

impl<'a, 'b> Detector<'a, 'b> {
    /// Creates a detector without posteriors. `memory` is borrowed until the detector is dropped.
    ///
    /// # Errors
    /// If `memory` is shorter than [`DetectorSettings::memory_words`].
    pub fn new(settings: &DetectorSettings<'a>, memory: &'b mut [u32]) -> Result<Self, BufferTooSmall> {
        let (needed, given) = (settings.memory_words(), memory.len());
        let posteriors = memory.get_mut(..needed).ok_or(BufferTooSmall { needed, given })?;
        let history = History::new(settings, bytemuck::must_cast_slice_mut(posteriors));
        Ok(Self { settings: *settings, history })
    }

    /// Adds the posteriors of all labels at the time `now_ms` and returns the event that they trigger, if any. A NaN
    /// posterior prevents events of its label as long as it is among the averaged posteriors.
    ///
    /// Time counts modulo 2^32: after 49.7 days it wraps from [`u32::MAX`] to 0. A clock that wraps elsewhere, such as
    /// a sample count divided by a rate, may end a refractory time too early. If nothing is pushed after an event until
    /// the time has wrapped around to it, the refractory time appears to run again.
    ///
    /// # Errors
    /// If the number of posteriors is not the number of labels. The detector is then unchanged.
    pub fn push(&mut self, posteriors: &[f32], now_ms: u32) -> Result<Option<Event>, WrongLength> {
        if !self.history.push(posteriors, now_ms)? {
            return Ok(None);
        }
        let (label, score) = self.best();
        let Some(LabelSettings { threshold, refractory_ms }) = self.settings.label(label) else { return Ok(None) };
        // A model's output need not be a probability: it may exceed 1, and thus a threshold above 1.
        if threshold <= 1.0 && score >= threshold {
            self.history.event(now_ms, refractory_ms);
            return Ok(Some(Event { label, score, at_ms: now_ms }));
        }
        Ok(None)
    }

    /// Forgets every posterior and event.
    pub fn reset(&mut self) {
        self.history.reset(&self.settings);
    }

    /// The label with the greatest mean (the first among equals), and that mean.
    fn best(&self) -> (usize, f32) {
        let mut best = (0, f32::NEG_INFINITY);
        for label in 0..self.settings.label_count() {
            let mean = self.history.of(label).sum::<f32>() / self.settings.mean_of as f32;
            if mean > best.1 {
                best = (label, mean);
            }
        }
        best
    }
}

/// The averaged posteriors and the last event.
#[derive(Debug)]
struct History<'b, P> {
    /// `[mean_of × labels]`, a ring of rows.
    posteriors: &'b mut [P],
    labels: usize,
    /// Start of the row of the oldest posteriors.
    oldest: usize,
    /// Number of posteriors missing until there are `mean_of`.
    missing: u32,
    /// Time and refractory time of the last event; `None` once the refractory time has passed.
    quiet: Option<(u32, NonZero<u32>)>,
}

impl<'b, P: Copy> History<'b, P> {
    fn new(settings: &DetectorSettings<'_>, posteriors: &'b mut [P]) -> Self {
        Self { posteriors, labels: settings.label_count(), oldest: 0, missing: settings.mean_of, quiet: None }
    }

    /// Adds a row and returns whether an event is possible now.
    fn push(&mut self, row: &[P], now_ms: u32) -> Result<bool, WrongLength> {
        let (expected, given) = (self.labels, row.len());
        if given != expected {
            return Err(WrongLength { expected, given });
        }
        for (slot, &posterior) in self.posteriors.iter_mut().skip(self.oldest).zip(row) {
            *slot = posterior;
        }
        self.oldest += expected;
        if self.oldest >= self.posteriors.len() {
            self.oldest = 0;
        }
        self.missing = self.missing.saturating_sub(1);
        self.quiet = self.quiet.filter(|&(since, refractory)| now_ms.wrapping_sub(since) < refractory.get());
        Ok(self.missing == 0 && self.quiet.is_none())
    }

    fn event(&mut self, now_ms: u32, refractory_ms: u32) {
        self.quiet = NonZero::new(refractory_ms).map(|refractory| (now_ms, refractory));
    }

    fn reset(&mut self, settings: &DetectorSettings<'_>) {
        (self.oldest, self.missing, self.quiet) = (0, settings.mean_of, None);
    }

    /// The posteriors of a label, in any order.
    fn unordered(&self, label: usize) -> impl Iterator<Item = P> {
        self.posteriors.iter().skip(label).step_by(self.labels.max(1)).copied()
    }

    /// The posteriors of a label from the oldest to the newest, wherever the ring starts, so that equal posteriors have
    /// equal means.
    fn of(&self, label: usize) -> impl Iterator<Item = P> {
        let (newer, older) = self.posteriors.split_at_checked(self.oldest).unwrap_or_default();
        let labels = self.labels.max(1);
        [older, newer].into_iter().flat_map(move |rows| rows.iter().skip(label).step_by(labels).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LABEL: LabelSettings = LabelSettings { threshold: 0.75, refractory_ms: 1000 };
    const NEVER: LabelSettings = LabelSettings { threshold: 2.0, refractory_ms: 0 };

    fn section(mean_of: u32, labels: &[LabelSettings]) -> ([u8; 64], usize) {
        let mut bytes = [0; 64];
        let len = DetectorSettings::write(mean_of, labels, &mut bytes).unwrap();
        (bytes, len)
    }

    /// Labels of the events, for one posterior of the given label every 250 ms from `start_ms` on and 0 for the others.
    fn events<const N: usize>(mean_of: u32, start_ms: u32, scores: [(usize, f32); N]) -> [Option<usize>; N] {
        let (bytes, len) = section(mean_of, &[NEVER, LABEL, LABEL]);
        let settings = DetectorSettings::parse(&bytes[..len]).unwrap();
        let mut memory = [f32::NAN.to_bits(); 12];
        let mut detector = Detector::new(&settings, &mut memory).unwrap();
        let mut now_ms = start_ms;
        scores.map(|(label, score)| {
            let mut posteriors = [0.0; 3];
            posteriors[label] = score;
            let event = detector.push(&posteriors, now_ms).unwrap();
            assert!(event.is_none_or(|event| event.at_ms == now_ms && event.score >= 0.75));
            now_ms = now_ms.wrapping_add(250);
            event.map(|event| event.label)
        })
    }

    #[test]
    fn no_event_before_the_minimum_number_of_posteriors() {
        assert_eq!(events(3, 0, [(1, 1.0); 4]), [None, None, Some(1), None]);
        assert_eq!(events(3, 0, [(1, 0.5), (1, 0.75), (1, 0.75), (1, 0.75)]), [None, None, None, Some(1)]);
    }

    #[test]
    fn an_event_silences_every_label_for_its_refractory_time_even_where_the_clock_wraps() {
        for start_ms in [0, 5, u32::MAX - 600, u32::MAX] {
            let scores = [(1, 1.0), (2, 1.0), (1, 1.0), (2, 1.0), (2, 1.0), (1, 1.0)];
            assert_eq!(events(1, start_ms, scores), [Some(1), None, None, None, Some(2), None]);
        }
    }

    #[test]
    fn a_threshold_above_one_is_never_reached_and_nan_makes_no_event() {
        assert_eq!(events(1, 0, [(0, 1.0), (1, f32::NAN), (1, 0.7), (1, 0.8)]), [None, None, None, Some(1)]);
        assert_eq!(events(1, 0, [(0, 17.0), (1, 17.0)]), [None, Some(1)], "logits");
    }

    #[test]
    fn reset_forgets_posteriors_and_the_refractory_time() {
        let (bytes, len) = section(2, &[LABEL]);
        let settings = DetectorSettings::parse(&bytes[..len]).unwrap();
        let mut memory = [0; 2];
        let mut detector = Detector::new(&settings, &mut memory).unwrap();
        for _ in 0..2 {
            assert_eq!(detector.push(&[1.0], 7), Ok(None));
            assert_eq!(detector.push(&[1.0], 8), Ok(Some(Event { label: 0, score: 1.0, at_ms: 8 })));
            assert_eq!(detector.push(&[], 9), Err(WrongLength { expected: 1, given: 0 }));
            detector.reset();
        }
        let short = Detector::new(&settings, &mut memory[..1]).unwrap_err();
        assert_eq!(short, BufferTooSmall { needed: 2, given: 1 });
    }

    #[test]
    fn a_written_section_is_read_back_and_a_damaged_one_refused() {
        let (bytes, len) = section(3, &[NEVER, LABEL]);
        let settings = DetectorSettings::parse(&bytes[..len]).unwrap();
        assert_eq!((settings.mean_of(), settings.label_count(), settings.memory_words()), (3, 2, 6));
        assert_eq!((settings.label(0), settings.label(1), settings.label(2)), (Some(NEVER), Some(LABEL), None));
        for given in (0..len).chain([len + 1]) {
            let error = DetectorSettings::parse(&bytes[..given]).unwrap_err();
            assert!(matches!(error, DetectorError::SectionLen { given: found, .. } if found == given));
        }
        let write = |mean_of, labels: &[_]| DetectorSettings::write(mean_of, labels, &mut [0; 64]);
        assert_eq!(write(0, &[LABEL]), Err(DetectorError::MeanOf { found: 0 }));
        assert_eq!(write(257, &[LABEL]), Err(DetectorError::MeanOf { found: 257 }));
        assert_eq!(write(1, &[]), Err(DetectorError::Labels { found: 0 }));
        assert_eq!(write(1, &[LABEL; 8]), Err(DetectorError::SectionLen { needed: 72, given: 64 }));
        for threshold in [-0.1, f32::NAN, f32::INFINITY] {
            let error = write(1, &[LABEL, LabelSettings { threshold, ..LABEL }]).unwrap_err();
            assert!(matches!(error, DetectorError::Threshold { label: 1, .. }));
        }
    }
}
