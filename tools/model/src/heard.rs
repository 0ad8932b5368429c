//! The decisions and events of a model over a sound.

use std::path::Path;

use serde_json::{Value, json};
use tidegate::{Detector, DetectorError, DetectorSettings, LabelSettings};

use crate::backend::Engine;
use crate::data::DataError;
use crate::runner::{check_room, frame_count, listen};
use crate::sound::{front_end_of, labels_of};

/// An event of the detector.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeardEvent {
    /// Time from the start of the sound.
    pub seconds: f32,
    /// Position of the label.
    pub label: usize,
    /// Mean posterior.
    pub score: f32,
}

/// Decisions and detected events.
#[derive(Clone, Debug)]
pub struct Heard {
    /// Labels of the model.
    pub labels: Vec<String>,
    /// Time of each decision in seconds, and its posteriors.
    pub decisions: Vec<(f32, Vec<f32>)>,
    /// The events, in order.
    pub events: Vec<HeardEvent>,
    /// Sample rate of the front end in Hz.
    pub sample_rate: u32,
    /// Threshold of the first label that can cause events.
    pub threshold: Option<f32>,
}

/// Runs a model from `file` on `samples`, from a zero state.
///
/// # Errors
/// If the model has no front end or no labels, or the posteriors are too many.
pub fn hear<'m>(engine: impl Into<Engine<'m>>, file: &Path, samples: &[i16]) -> Result<Heard, DataError> {
    let engine = engine.into();
    let model = engine.model();
    let mfcc = front_end_of(model, file)?;
    let sample_rate = mfcc.settings().sample_rate;
    let threshold = model.detector().and_then(|detector| {
        (0..detector.label_count())
            .filter_map(|label| detector.label(label))
            .map(|label| label.threshold)
            .find(|t| *t <= 1.0)
    });
    check_room(frame_count(mfcc, samples.len()), model.output_size()).map_err(|error| DataError::new(file, error))?;
    let mut heard =
        Heard { labels: labels_of(model, file)?, decisions: vec![], events: vec![], sample_rate, threshold };
    listen(&engine, mfcc, [Ok::<_, tidegate::StepError>(samples)], |decision| {
        let seconds = decision.sample as f32 / sample_rate as f32;
        heard.decisions.push((seconds, decision.posteriors.to_vec()));
        if let Some(event) = decision.event {
            heard.events.push(HeardEvent { seconds, label: event.label, score: event.score });
        }
    })
    .map_err(|error| DataError::new(file, error))?;
    Ok(heard)
}

impl Heard {
    /// The events with another threshold for every label that can cause events, from the same posteriors. The detector runs
    /// in floats.
    ///
    /// # Errors
    /// If the threshold is negative or not finite.
    pub fn events_at(&self, settings: &DetectorSettings<'_>, threshold: f32) -> Result<Vec<HeardEvent>, DetectorError> {
        let changed = |label: LabelSettings| match label.threshold <= 1.0 {
            true => LabelSettings { threshold, ..label },
            false => label,
        };
        let labels: Vec<_> = (0..settings.label_count()).filter_map(|at| settings.label(at)).map(changed).collect();
        let mut section = vec![0; DetectorSettings::section_len(labels.len())];
        DetectorSettings::write(settings.mean_of(), &labels, &mut section)?;
        let settings = DetectorSettings::parse(&section)?;
        let mut memory = vec![0; settings.memory_words()];
        let mut detector = Detector::new(&settings, &mut memory).expect("the memory has the detector's own length");
        let event = |(seconds, posteriors): &(f32, Vec<f32>)| {
            let event = detector.push(posteriors, (seconds * 1000.0).round() as u32).ok()??;
            Some(HeardEvent { seconds: *seconds, label: event.label, score: event.score })
        };
        Ok(self.decisions.iter().filter_map(event).collect())
    }

    /// The events for programs.
    pub fn json_of(&self, events: &[HeardEvent]) -> Vec<Value> {
        let event = |event: &HeardEvent| json!({ "seconds": event.seconds, "label": self.labels.get(event.label), "score": event.score });
        events.iter().map(event).collect()
    }

    /// The events of the detector for programs.
    pub fn events_json(&self) -> Vec<Value> {
        self.json_of(&self.events)
    }
}
