//! A row of a timeline: a stretch of the stream with its sound, true labels, posteriors and events.

use plotters::prelude::{Color, RGBColor};
use plotters::style::text_anchor::HPos;
use tidegate_model::data::one_line;

use super::canvas::{Canvas, DrawError, INK, LEFT, Look, QUIET, RIGHT, marks, text_width, tick, x};
use super::contents::{EventMark, Timeline, TruthSpan, name};
use super::wave::Wave;

// Sizes in CSS pixels.
const STRIP: f32 = 22.0;
const LANE: f32 = 19.0;
const MAX_LANES: usize = 8;
/// Space below the posteriors for the marks of the x axis, and for its label.
const MARKS: f32 = 34.0;
const LABEL: f32 = 28.0;

const TRUTH: RGBColor = RGBColor(0xec, 0xee, 0xf1);

/// Heights of the panels.
#[derive(Clone, Copy)]
pub struct Panels {
    pub wave: f32,
    pub posterior: f32,
}

/// The layout of a row.
pub struct Row<'a> {
    timeline: &'a Timeline<'a>,
    /// The first and the last second.
    range: [f32; 2],
    panels: Panels,
    /// The classes that are drawn, with their colors.
    shown: &'a [(usize, RGBColor)],
    events: Vec<Placed>,
    lanes_top: f32,
    wave_top: f32,
    posterior_top: f32,
    /// Whether the row is one of several.
    in_page: bool,
}

/// An event with its text.
struct Placed {
    event: EventMark,
    text: String,
    /// The lane of the text, or `None` if no lane has room.
    lane: Option<usize>,
}

/// Draws a diamond with its center at a point.
pub fn diamond(canvas: &Canvas<'_>, (x, y): (f32, f32), color: RGBColor) -> Result<(), DrawError> {
    canvas.area(&[(x - 5.0, y), (x, y - 5.0), (x + 5.0, y), (x, y + 5.0)], color)
}

/// `2:05`
fn clock(seconds: f32) -> String {
    format!("{}:{:02}", (seconds / 60.0) as u64, (seconds % 60.0) as u64)
}

impl<'a> Row<'a> {
    pub fn new(
        timeline: &'a Timeline<'a>,
        range: [f32; 2],
        shown: &'a [(usize, RGBColor)],
        panels: Panels,
        top: f32,
        in_page: bool,
    ) -> Self {
        let mut row = Self {
            timeline,
            range,
            panels,
            shown,
            events: Vec::new(),
            lanes_top: top,
            wave_top: 0.0,
            posterior_top: 0.0,
            in_page,
        };
        row.events = row.place(true);
        if row.left_out() > 0 {
            row.events = row.place(false);
        }
        let lanes = row.events.iter().filter_map(|event| event.lane).max().map_or(0, |lane| lane + 1);
        let strip = if timeline.truth.is_empty() { 0.0 } else { STRIP + 4.0 };
        row.wave_top = top + lanes as f32 * LANE + 6.0;
        row.posterior_top = row.wave_top + panels.wave + strip + 18.0;
        row
    }

    /// The end of the row, with the label of its x axis if it is the last one.
    pub fn bottom(&self, is_last: bool) -> f32 {
        self.posterior_top + self.panels.posterior + MARKS + if is_last { LABEL } else { 0.0 }
    }

    /// Number of events whose text has no room.
    pub fn left_out(&self) -> usize {
        self.events.iter().filter(|event| event.lane.is_none()).count()
    }

    /// Places the text of each event in a lane below every text that its line would cross, in the order of time. If there
    /// is no such lane, the line crosses texts.
    fn place(&self, with_scores: bool) -> Vec<Placed> {
        let within = |event: &EventMark| event.seconds >= self.range[0] && event.seconds <= self.range[1];
        let mut events: Vec<_> = self.timeline.events.iter().copied().filter(within).collect();
        events.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        let mut ends = [f32::NEG_INFINITY; MAX_LANES];
        let place = |event: EventMark| {
            let (x, name) = (self.x(event.seconds), name(self.timeline, event.label));
            let text = if with_scores { format!("{name} {:.2}", event.score) } else { name };
            let free = ends.iter().rposition(|&end| end > x - 4.0).map_or(0, |lane| lane + 1);
            let lane = if free < MAX_LANES { Some(free) } else { ends.iter().rposition(|&end| end <= x - 4.0) };
            if let Some(lane) = lane {
                ends[lane] = x + 8.0 + text_width(&text);
            }
            Placed { event, text, lane }
        };
        events.into_iter().map(place).collect()
    }

    /// Draws the row. `loudest` is the magnitude at the edge of the sound.
    pub fn draw(&self, canvas: &Canvas<'_>, loudest: u16, is_last: bool) -> Result<(), DrawError> {
        self.axes(canvas, is_last)?;
        self.sound(canvas, loudest)?;
        self.truth(canvas)?;
        self.posteriors(canvas)?;
        self.events(canvas)
    }

    fn color(&self, label: usize) -> RGBColor {
        self.shown.iter().find(|(shown, _)| *shown == label).map_or(INK, |&(_, color)| color)
    }

    fn x(&self, seconds: f32) -> f32 {
        let [from, to] = self.range;
        x(seconds - from, to - from)
    }

    fn posterior_y(&self, posterior: f32) -> f32 {
        let posterior = if posterior.is_nan() { 0.0 } else { posterior.clamp(0.0, 1.0) };
        self.posterior_top + self.panels.posterior * (1.0 - posterior)
    }

    fn axes(&self, canvas: &Canvas<'_>, is_last: bool) -> Result<(), DrawError> {
        let quarters = [0.0, 0.25, 0.5, 0.75, 1.0].into_iter().filter(|value| !self.in_page || value % 0.5 == 0.0);
        canvas.y_axis(quarters.map(|value| (self.posterior_y(value), value.to_string())))?;
        let (wave, posterior, Panels { wave: high, posterior: tall }) =
            (self.wave_top, self.posterior_top, self.panels);
        let [from, to] = self.range;
        let in_page = self.in_page;
        let text = |(value, text): (f32, String)| (self.x(value), if in_page { clock(value) } else { text });
        let label = match (in_page, is_last) {
            (false, _) => "seconds",
            (true, true) => "minutes:seconds",
            (true, false) => "",
        };
        let panels = [(wave, wave + high), (posterior, posterior + tall)];
        canvas.x_axis(marks(from, to, tick(to - from)).map(text), label, &panels)?;
        canvas.y_label("sound", wave + high / 2.0)?;
        canvas.y_label("posterior", posterior + tall / 2.0)
    }

    fn sound(&self, canvas: &Canvas<'_>, loudest: u16) -> Result<(), DrawError> {
        let &Timeline { samples, sample_rate, .. } = self.timeline;
        let at = |seconds: f32| ((f64::from(seconds) * f64::from(sample_rate)) as usize).min(samples.len());
        let [from, to] = self.range;
        let samples = if self.in_page { &samples[at(from)..at(to)] } else { samples };
        let wave = Wave { samples, sample_rate, seconds: to - from, top: self.wave_top, height: self.panels.wave };
        wave.draw(canvas, loudest)
    }

    fn truth(&self, canvas: &Canvas<'_>) -> Result<(), DrawError> {
        let top = self.wave_top + self.panels.wave + 4.0;
        if !self.timeline.truth.is_empty() {
            let right = Look::anchored(HPos::Right);
            canvas.text("truth", (LEFT - 10.0, top + STRIP / 2.0), &QUIET, right)?;
        }
        // A name may be wider than its span, but must not overlap the name before it.
        let mut free = LEFT;
        let within = |span: &&TruthSpan<'_>| span.end > self.range[0] && span.start < self.range[1];
        for span in self.timeline.truth.iter().filter(within) {
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
        let within = |(seconds, _): &&(f32, Vec<f32>)| *seconds >= self.range[0] && *seconds <= self.range[1];
        let points: Vec<_> = self.timeline.decisions.iter().filter(within).map(point).collect();
        let mut curve = Vec::new();
        for pixel in points.chunk_by(|a, b| a.0 as i32 == b.0 as i32) {
            push(&mut curve, pixel[0]);
            if let [first, .., last] = pixel {
                let (least, most) = pixel.iter().fold((first.1, first.1), |(a, b), p| (a.min(p.1), b.max(p.1)));
                [first.1, least, most, last.1].into_iter().for_each(|y| push(&mut curve, (first.0.trunc(), y)));
            }
        }
        curve
    }

    fn events(&self, canvas: &Canvas<'_>) -> Result<(), DrawError> {
        let bottom = self.posterior_top + self.panels.posterior;
        for Placed { event, text, lane } in &self.events {
            let (x, color) = (self.x(event.seconds), self.color(event.label));
            let top = lane.map_or(self.wave_top, |lane| self.lanes_top + lane as f32 * LANE);
            // The line skips the strip of true labels, which has text.
            for (from, to) in [(top + 2.0, self.wave_top + self.panels.wave), (self.posterior_top, bottom)] {
                canvas.line(&[(x, from), (x, to)], color.mix(0.75).stroke_width(5))?;
            }
            diamond(canvas, (x, self.posterior_y(event.score)), color)?;
            if lane.is_some() {
                canvas.text(text, (x + 5.0, top + LANE / 2.0), &INK, Look::default())?;
            }
        }
        Ok(())
    }
}

/// Adds a point to a curve. On a horizontal stretch only the first and the last point are kept.
fn push(curve: &mut Vec<(f32, f32)>, point: (f32, f32)) {
    /// Less than a unit of the canvas, in pixels.
    const SAME: f32 = 0.1;
    if let [.., before, last] = curve.as_slice()
        && (before.1 - last.1).abs() < SAME
        && (last.1 - point.1).abs() < SAME
        && (before.1 - point.1).abs() < SAME
    {
        curve.pop();
    }
    curve.push(point);
}
