//! The timeline of a stream: sound, true labels, posteriors and events.

use std::path::Path;

use plotters::prelude::{Color, RGBColor};
use plotters::style::text_anchor::HPos;
use tidegate_model::data::{DataError, one_line};

use super::canvas::{Canvas, DrawError, INK, LEFT, Legend, Look, PALETTE, QUIET, RIGHT, save, svg, text_width, x};
use super::wave::{Wave, peak};

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

// Sizes in CSS pixels.
const WAVE: f32 = 110.0;
const POSTERIOR: f32 = 280.0;
const STRIP: f32 = 22.0;
const LANE: f32 = 19.0;
const MAX_LANES: usize = 6;

/// Minimum posterior of a class that is drawn.
const SHOWN: f32 = 0.1;

const GRAYS: [RGBColor; 2] = [RGBColor(0xb8, 0xb8, 0xb8), RGBColor(0x8c, 0x8c, 0x8c)];
const TRUTH: RGBColor = RGBColor(0xec, 0xee, 0xf1);

/// Draws a timeline as SVG. The file appears only when it is complete.
///
/// # Errors
/// If the file cannot be written.
pub fn timeline(path: &Path, timeline: &Timeline<'_>) -> Result<(), DataError> {
    save(path, draw(timeline))
}

fn draw(timeline: &Timeline<'_>) -> Result<String, DrawError> {
    let scene = Scene::new(timeline);
    svg(scene.posterior_top + POSTERIOR + 62.0, timeline.title, |canvas| {
        canvas.legend(&scene.legend)?;
        scene.axes(canvas)?;
        scene.sound(canvas)?;
        scene.truth(canvas)?;
        scene.posteriors(canvas)?;
        scene.events(canvas)
    })
}

/// The layout of a timeline.
struct Scene<'a> {
    timeline: &'a Timeline<'a>,
    seconds: f32,
    /// The classes that are drawn, with their colors.
    shown: Vec<(usize, RGBColor)>,
    legend: Legend,
    events: Vec<Placed>,
    lanes_top: f32,
    wave_top: f32,
    posterior_top: f32,
}

/// An event with its text.
struct Placed {
    event: EventMark,
    text: String,
    /// The lane of the text, or `None` if no lane has room.
    lane: Option<usize>,
}

/// Places the text of each event in a lane below every text that its line would cross. The events are returned in the
/// order of time.
fn place(timeline: &Timeline<'_>, end: f32, with_scores: bool) -> Vec<Placed> {
    let mut events: Vec<_> = timeline.events.iter().copied().filter(|event| event.seconds.is_finite()).collect();
    events.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    let mut ends = [f32::NEG_INFINITY; MAX_LANES];
    let place = |event: EventMark| {
        let (x, name) = (x(event.seconds, end), name(timeline, event.label));
        let text = if with_scores { format!("{name} {:.2}", event.score) } else { name };
        let free = ends.iter().rposition(|&end| end > x - 4.0).map_or(0, |lane| lane + 1);
        let lane = ends.get_mut(free).map(|end| {
            *end = x + 8.0 + text_width(&text);
            free
        });
        Placed { event, text, lane }
    };
    events.into_iter().map(place).collect()
}

impl<'a> Scene<'a> {
    fn new(timeline: &'a Timeline<'a>) -> Self {
        let sound = timeline.samples.len() as f64 / f64::from(timeline.sample_rate.max(1));
        let times = timeline.decisions.iter().map(|&(at, _)| at);
        let times = times.chain(timeline.events.iter().map(|e| e.seconds)).chain(timeline.truth.iter().map(|t| t.end));
        let seconds = times.filter(|t| t.is_finite()).fold(sound as f32, f32::max).max(0.01);
        let shown = colored(timeline);
        let legend = Legend::new(shown.iter().map(|&(label, color)| (name(timeline, label), color)));
        let mut events = place(timeline, seconds, true);
        if events.iter().any(|event| event.lane.is_none()) {
            events = place(timeline, seconds, false);
        }
        let lanes = events.iter().filter_map(|event| event.lane).max().map_or(0, |lane| lane + 1);
        let strip = if timeline.truth.is_empty() { 0.0 } else { STRIP + 4.0 };
        let lanes_top = legend.bottom + 22.0;
        let wave_top = lanes_top + lanes as f32 * LANE + 6.0;
        let posterior_top = wave_top + WAVE + strip + 18.0;
        Self { timeline, seconds, shown, legend, events, lanes_top, wave_top, posterior_top }
    }

    fn color(&self, label: usize) -> RGBColor {
        self.shown.iter().find(|(shown, _)| *shown == label).map_or(INK, |&(_, color)| color)
    }

    fn x(&self, seconds: f32) -> f32 {
        x(seconds, self.seconds)
    }

    fn posterior_y(&self, posterior: f32) -> f32 {
        let posterior = if posterior.is_nan() { 0.0 } else { posterior.clamp(0.0, 1.0) };
        self.posterior_top + POSTERIOR * (1.0 - posterior)
    }

    fn axes(&self, canvas: &Canvas<'_>) -> Result<(), DrawError> {
        let quarters = [0.0, 0.25, 0.5, 0.75, 1.0];
        canvas.y_axis(quarters.into_iter().map(|value| (self.posterior_y(value), value.to_string())))?;
        let (wave, posterior) = (self.wave_top, self.posterior_top);
        canvas.x_axis(self.seconds, "seconds", &[(wave, wave + WAVE), (posterior, posterior + POSTERIOR)])?;
        canvas.y_label("sound", wave + WAVE / 2.0)?;
        canvas.y_label("posterior", posterior + POSTERIOR / 2.0)
    }

    fn sound(&self, canvas: &Canvas<'_>) -> Result<(), DrawError> {
        let &Timeline { samples, sample_rate, .. } = self.timeline;
        let wave = Wave { samples, sample_rate, seconds: self.seconds, top: self.wave_top, height: WAVE };
        wave.draw(canvas, peak(samples))
    }

    fn truth(&self, canvas: &Canvas<'_>) -> Result<(), DrawError> {
        let top = self.wave_top + WAVE + 4.0;
        if !self.timeline.truth.is_empty() {
            let right = Look::anchored(HPos::Right);
            canvas.text("truth", (LEFT - 10.0, top + STRIP / 2.0), &QUIET, right)?;
        }
        // A name may be wider than its span, but must not overlap the name before it.
        let mut free = LEFT;
        for span in self.timeline.truth {
            let [left, right] = [span.start, span.end].map(|s| self.x(s));
            canvas.area(&[(left, top), (right, top), (right, top + STRIP), (left, top + STRIP)], TRUTH)?;
            let text = one_line(span.label);
            let half = text_width(&text) / 2.0;
            if (left + right) / 2.0 - half >= free && !text.starts_with('_') {
                free = (left + right) / 2.0 + half + 4.0;
                let center = Look::anchored(HPos::Center);
                canvas.text(&text, ((left + right) / 2.0, top + STRIP / 2.0), &INK, center)?;
            }
        }
        Ok(())
    }

    fn posteriors(&self, canvas: &Canvas<'_>) -> Result<(), DrawError> {
        if let Some(threshold) = self.timeline.threshold.filter(|t| (0.0..=1.0).contains(t)) {
            let y = self.posterior_y(threshold);
            canvas.dashes(&[(LEFT, y), (RIGHT, y)], QUIET.stroke_width(5))?;
            canvas.text(&format!("threshold {threshold}"), (RIGHT + 8.0, y), &QUIET, Look::default())?;
        }
        // Gray curves first, below the others.
        let gray = |label: &usize| self.timeline.labels[*label].starts_with('_');
        let (below, above): (Vec<_>, Vec<_>) = self.shown.iter().partition(|(label, _)| gray(label));
        for (label, color) in below.into_iter().chain(above) {
            let width = if gray(&label) { 5 } else { 8 };
            canvas.line(&self.curve(label), color.stroke_width(width))?;
        }
        Ok(())
    }

    /// The curve of a class. Several posteriors on one pixel are reduced to the first, minimum, maximum and last.
    fn curve(&self, label: usize) -> Vec<(f32, f32)> {
        let point = |(seconds, posteriors): &(f32, Vec<f32>)| {
            (self.x(*seconds), self.posterior_y(posteriors.get(label).copied().unwrap_or(0.0)))
        };
        let points: Vec<_> = self.timeline.decisions.iter().map(point).collect();
        let mut curve = Vec::new();
        for pixel in points.chunk_by(|a, b| a.0 as i32 == b.0 as i32) {
            curve.push(pixel[0]);
            if let [first, .., last] = pixel {
                let (least, most) = pixel.iter().fold((first.1, first.1), |(a, b), p| (a.min(p.1), b.max(p.1)));
                curve.extend([first.1, least, most, last.1].map(|y| (first.0.trunc(), y)));
            }
        }
        curve
    }

    fn events(&self, canvas: &Canvas<'_>) -> Result<(), DrawError> {
        let bottom = self.posterior_top + POSTERIOR;
        for Placed { event, text, lane } in &self.events {
            let (x, color) = (self.x(event.seconds), self.color(event.label));
            let top = lane.map_or(self.wave_top, |lane| self.lanes_top + lane as f32 * LANE);
            // The line skips the strip of true labels, which has text.
            for (from, to) in [(top + 2.0, self.wave_top + WAVE), (self.posterior_top, bottom)] {
                canvas.line(&[(x, from), (x, to)], color.mix(0.75).stroke_width(5))?;
            }
            let y = self.posterior_y(event.score);
            canvas.area(&[(x - 5.0, y), (x, y - 5.0), (x + 5.0, y), (x, y + 5.0)], color)?;
            if lane.is_some() {
                canvas.text(text, (x + 5.0, top + LANE / 2.0), &INK, Look::default())?;
            }
        }
        let left_out = self.events.iter().filter(|event| event.lane.is_none()).count();
        if left_out > 0 {
            let look = Look::anchored(HPos::Right);
            let text = format!("{left_out} events have no room for their text");
            canvas.text(&text, (RIGHT, 30.0), &QUIET, look)?;
        }
        Ok(())
    }
}

/// The classes that are drawn, because a posterior exceeds [`SHOWN`] or they have an event.
fn colored(timeline: &Timeline<'_>) -> Vec<(usize, RGBColor)> {
    let exceeds = |label: usize| timeline.decisions.iter().any(|(_, p)| p.get(label).is_some_and(|&p| p > SHOWN));
    let (mut colors, mut grays) = (PALETTE.iter().cycle(), GRAYS.iter().cycle());
    (0..timeline.labels.len())
        .filter(|&label| exceeds(label) || timeline.events.iter().any(|e| e.label == label))
        .filter_map(|label| {
            let colors = if timeline.labels[label].starts_with('_') { &mut grays } else { &mut colors };
            Some((label, *colors.next()?))
        })
        .collect()
}

/// The name of a class, cut to twelve characters.
fn name(timeline: &Timeline<'_>, label: usize) -> String {
    let name = one_line(timeline.labels.get(label).map_or("?", String::as_str));
    if name.chars().count() > 12 { name.chars().take(11).chain(['…']).collect() } else { name }
}
