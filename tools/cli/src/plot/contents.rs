//! The contents of a timeline.

use tidegate_model::data::one_line;

/// A detected event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EventMark {
    /// Time of the report.
    pub seconds: f32,
    /// Index of its label.
    pub label: usize,
    /// Mean posterior that caused the event.
    pub score: f32,
}

/// The true label of a part of the stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TruthSpan<'a> {
    /// Start in seconds.
    pub start: f32,
    /// End in seconds.
    pub end: f32,
    /// The name beside the span.
    pub label: &'a str,
}

/// The contents of a timeline.
#[derive(Clone, Copy, Debug)]
pub struct Timeline<'a> {
    /// Title, cut to fit.
    pub title: &'a str,
    /// Sample rate in Hz.
    pub sample_rate: u32,
    /// Samples of the whole stream.
    pub samples: &'a [i16],
    /// Seconds, and a posterior for each label, in the order of time.
    pub decisions: &'a [(f32, Vec<f32>)],
    /// Names of the classes.
    pub labels: &'a [String],
    /// Threshold of the detector, drawn as a dashed line.
    pub threshold: Option<f32>,
    /// Events in any order.
    pub events: &'a [EventMark],
    /// True labels, or an empty slice if they are unknown.
    pub truth: &'a [TruthSpan<'a>],
}

/// The name of a class, cut to twelve characters.
pub fn name(timeline: &Timeline<'_>, label: usize) -> String {
    let name = one_line(timeline.labels.get(label).map_or("?", String::as_str));
    if name.chars().count() > 12 { name.chars().take(11).chain(['…']).collect() } else { name }
}
