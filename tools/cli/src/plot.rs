//! The timeline of a stream as an SVG: the sound, what is truly in it, the posteriors, the events.

mod curves;

use std::path::Path;

use plotters::{
    coord::Shift,
    element::DashedPathElement,
    prelude::*,
    style::{
        FontStyle, FontTransform,
        text_anchor::{HPos, Pos, VPos},
    },
};

use crate::{
    data::{DataError, one_line},
    output::write_atomically,
};

pub use curves::{Curves, curves};

/// An event at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EventMark {
    /// When it was reported.
    pub seconds: f32,
    /// Its label's number.
    pub label: usize,
    /// The mean posterior that made it.
    pub score: f32,
}

/// What is truly in a part of the stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TruthSpan<'a> {
    /// In seconds.
    pub start: f32,
    /// In seconds.
    pub end: f32,
    /// What it is.
    pub label: &'a str,
}

/// What is drawn.
#[derive(Clone, Copy, Debug)]
pub struct Timeline<'a> {
    /// Headline; as much of it as fits.
    pub title: &'a str,
    /// Hz
    pub sample_rate: u32,
    /// The whole stream.
    pub samples: &'a [i16],
    /// Seconds and a posterior for each label, in the order of time.
    pub decisions: &'a [(f32, Vec<f32>)],
    /// Names of the classes.
    pub labels: &'a [String],
    /// Drawn as a dashed line.
    pub threshold: Option<f32>,
    /// In any order.
    pub events: &'a [EventMark],
    /// Empty where it is not known.
    pub truth: &'a [TruthSpan<'a>],
}

// Sizes in CSS pixels.
const WIDTH: f32 = 1200.0;
const LEFT: f32 = 84.0;
/// Room for the text of an event at the very end.
const RIGHT: f32 = 1080.0;
const WAVE: f32 = 110.0;
const POSTERIOR: f32 = 280.0;
const STRIP: f32 = 22.0;
const LANE: f32 = 19.0;
const MOST_LANES: usize = 6;
const TEXT: f32 = 13.0;

/// plotters draws on whole numbers; a quarter of a pixel is fine enough for smooth lines.
const UNITS: f32 = 4.0;

/// A class whose posterior stays below this is not drawn.
const MATTERS: f32 = 0.1;

/// Okabe and Ito's colors for the color-blind (jfly.uni-koeln.de/color) without yellow, which white drowns; before
/// the black, three of Paul Tol's "muted" set (personal.sron.nl/~pault).
const PALETTE: [RGBColor; 10] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0x88, 0x22, 0x55),
    RGBColor(0x33, 0x22, 0x88),
    RGBColor(0x99, 0x99, 0x33),
    RGBColor(0x00, 0x00, 0x00),
];
const GRAYS: [RGBColor; 2] = [RGBColor(0xb8, 0xb8, 0xb8), RGBColor(0x8c, 0x8c, 0x8c)];
const INK: RGBColor = RGBColor(0x22, 0x26, 0x2b);
const QUIET: RGBColor = RGBColor(0x5f, 0x66, 0x6e);
const GRID: RGBColor = RGBColor(0xe4, 0xe7, 0xea);
const SOUND: RGBColor = RGBColor(0xa9, 0xb4, 0xc0);
const TRUE: RGBColor = RGBColor(0xec, 0xee, 0xf1);

/// Draws a timeline, whole or not at all.
///
/// # Errors
/// If the file cannot be written.
pub fn timeline(path: &Path, timeline: &Timeline<'_>) -> Result<(), DataError> {
    let svg = draw(timeline).map_err(|e| DataError::new(path, format!("cannot be drawn: {e}")))?;
    write_atomically(path, |out| out.write_all(svg.as_bytes()))
}

type DrawError = DrawingAreaErrorKind<std::io::Error>;

fn draw(timeline: &Timeline<'_>) -> Result<String, DrawError> {
    let scene = Scene::new(timeline);
    let [width, height] = [WIDTH, scene.height].map(|px| (px * UNITS) as u32);
    let mut svg = String::new();
    {
        let canvas = Canvas(SVGBackend::with_string(&mut svg, (width, height)).into_drawing_area());
        canvas.0.fill(&WHITE)?;
        let title: String = timeline.title.chars().take(70).collect();
        canvas.text(&title, (LEFT, 30.0), &INK, Look { size: 18.0, bold: true, ..Look::default() })?;
        scene.legend(&canvas)?;
        scene.axes(&canvas)?;
        scene.sound(&canvas)?;
        scene.truth(&canvas)?;
        scene.posteriors(&canvas)?;
        scene.events(&canvas)?;
        canvas.0.present()?;
    }
    // The drawing's own units stay in its viewBox; people get pixels.
    let size = |unit: f32| format!("width=\"{}\" height=\"{}\"", WIDTH * unit, scene.height * unit);
    Ok(svg.replacen(&size(UNITS), &size(1.0), 1))
}

/// What goes where.
struct Scene<'a> {
    timeline: &'a Timeline<'a>,
    seconds: f32,
    /// The classes that matter, with their colors.
    shown: Vec<(usize, RGBColor)>,
    /// Items of the legend: where, which of `shown`.
    legend: Vec<(f32, f32, usize)>,
    /// In the order of time, with the lane of the text; `None` where there is no room.
    events: Vec<(EventMark, Option<usize>)>,
    /// Whether there is room for the events' scores.
    scores: bool,
    lanes_top: f32,
    wave_top: f32,
    posterior_top: f32,
    height: f32,
}

impl<'a> Scene<'a> {
    fn new(timeline: &'a Timeline<'a>) -> Self {
        let sound = timeline.samples.len() as f64 / f64::from(timeline.sample_rate.max(1));
        let times = timeline.decisions.iter().map(|&(at, _)| at);
        let times = times.chain(timeline.events.iter().map(|e| e.seconds)).chain(timeline.truth.iter().map(|t| t.end));
        let seconds = times.filter(|t| t.is_finite()).fold(sound as f32, f32::max).max(0.01);
        let mut scene = Self {
            timeline,
            seconds,
            shown: colored(timeline),
            legend: Vec::new(),
            events: Vec::new(),
            scores: true,
            lanes_top: 0.0,
            wave_top: 0.0,
            posterior_top: 0.0,
            height: 0.0,
        };
        let (mut x, mut y) = (LEFT, 58.0);
        for (item, &(label, _)) in scene.shown.iter().enumerate() {
            let width = 26.0 + text_width(&scene.name(label), TEXT) + 18.0;
            if x + width > RIGHT && x > LEFT {
                (x, y) = (LEFT, y + 20.0);
            }
            scene.legend.push((x, y, item));
            x += width;
        }
        let mut lanes = scene.place_events();
        if scene.events.iter().any(|(_, lane)| lane.is_none()) {
            scene.scores = false;
            lanes = scene.place_events();
        }
        scene.lanes_top = y + 22.0;
        scene.wave_top = scene.lanes_top + lanes as f32 * LANE + 6.0;
        let strip = if timeline.truth.is_empty() { 0.0 } else { STRIP + 4.0 };
        scene.posterior_top = scene.wave_top + WAVE + strip + 18.0;
        scene.height = scene.posterior_top + POSTERIOR + 62.0;
        scene
    }

    /// Gives each event's text a lane below every text that its line would cross. Returns the number of lanes.
    fn place_events(&mut self) -> usize {
        let mut events: Vec<_> = self.timeline.events.iter().copied().filter(|e| e.seconds.is_finite()).collect();
        events.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        self.events.clear();
        let (mut ends, mut used) = ([f32::NEG_INFINITY; MOST_LANES], 0);
        for event in events {
            let x = self.x(event.seconds);
            let lane = ends.iter().rposition(|&end| end > x - 4.0).map_or(0, |i| i + 1);
            let lane = ends.get_mut(lane).map(|end| {
                *end = x + 8.0 + text_width(&self.event_text(event), TEXT);
                lane
            });
            used = used.max(lane.map_or(0, |lane| lane + 1));
            self.events.push((event, lane));
        }
        used
    }

    fn name(&self, label: usize) -> String {
        let name = one_line(self.timeline.labels.get(label).map_or("?", String::as_str));
        if name.chars().count() > 12 { name.chars().take(11).chain(['…']).collect() } else { name }
    }

    fn event_text(&self, event: EventMark) -> String {
        let name = self.name(event.label);
        if self.scores { format!("{name} {:.2}", event.score) } else { name }
    }

    fn color(&self, label: usize) -> RGBColor {
        self.shown.iter().find(|(shown, _)| *shown == label).map_or(INK, |&(_, color)| color)
    }

    fn x(&self, seconds: f32) -> f32 {
        LEFT + (seconds / self.seconds).clamp(0.0, 1.0) * (RIGHT - LEFT)
    }

    fn posterior_y(&self, posterior: f32) -> f32 {
        let posterior = if posterior.is_nan() { 0.0 } else { posterior.clamp(0.0, 1.0) };
        self.posterior_top + POSTERIOR * (1.0 - posterior)
    }

    fn legend(&self, canvas: &Canvas<'_>) -> Result<(), DrawError> {
        for &(x, y, item) in &self.legend {
            let (label, color) = self.shown[item];
            canvas.line(&[(x, y), (x + 18.0, y)], color.stroke_width(12))?;
            canvas.text(&self.name(label), (x + 26.0, y), &INK, Look::default())?;
        }
        Ok(())
    }

    fn axes(&self, canvas: &Canvas<'_>) -> Result<(), DrawError> {
        let bottom = self.posterior_top + POSTERIOR;
        let hair = GRID.stroke_width(4);
        let right = Look { anchor: HPos::Right, ..Look::default() };
        let center = Look { anchor: HPos::Center, ..Look::default() };
        for tenth in [0.0, 0.25, 0.5, 0.75, 1.0] {
            let y = self.posterior_y(tenth);
            canvas.line(&[(LEFT, y), (RIGHT, y)], hair)?;
            canvas.text(&tenth.to_string(), (LEFT - 10.0, y), &QUIET, right)?;
        }
        let step = tick(self.seconds);
        for i in 0.. {
            let seconds = i as f32 * step;
            if seconds > self.seconds * 1.0001 {
                break;
            }
            let x = self.x(seconds);
            canvas.line(&[(x, self.wave_top), (x, self.wave_top + WAVE)], hair)?;
            canvas.line(&[(x, self.posterior_top), (x, bottom + 5.0)], hair)?;
            let decimals = if step < 0.1 { 2 } else { usize::from(step < 1.0) };
            canvas.text(&format!("{seconds:.decimals$}"), (x, bottom + 17.0), &QUIET, center)?;
        }
        canvas.text("seconds", ((LEFT + RIGHT) / 2.0, bottom + 40.0), &QUIET, center)?;
        let turned = Look { turned: true, ..center };
        canvas.text("sound", (26.0, self.wave_top + WAVE / 2.0), &QUIET, turned)?;
        canvas.text("posterior", (26.0, self.posterior_top + POSTERIOR / 2.0), &QUIET, turned)
    }

    /// The least and the greatest sample of each pixel.
    fn sound(&self, canvas: &Canvas<'_>) -> Result<(), DrawError> {
        let samples = self.timeline.samples;
        let middle = self.wave_top + WAVE / 2.0;
        // Silence stays a line: nothing is magnified more than 20 times.
        let peak = samples.iter().map(|s| s.unsigned_abs()).max().unwrap_or(0).max(1638);
        let y = |sample: i16| middle - f32::from(sample) / f32::from(peak) * WAVE / 2.0;
        let per_column = samples.len().div_ceil((RIGHT - LEFT) as usize).max(1);
        let rate = self.timeline.sample_rate.max(1) as f32;
        let column = |(i, part): (usize, &[i16])| {
            let (least, most) = part.iter().fold((i16::MAX, i16::MIN), |(a, b), &s| (a.min(s), b.max(s)));
            let x = self.x((i * per_column) as f32 / rate);
            ((x, y(most) - 0.25), (x, y(least) + 0.25))
        };
        let (mut outline, mut below): (Vec<_>, Vec<_>) = samples.chunks(per_column).enumerate().map(column).unzip();
        below.reverse();
        outline.append(&mut below);
        canvas.line(&[(LEFT, middle), (RIGHT, middle)], SOUND.stroke_width(2))?;
        canvas.area(&outline, SOUND)
    }

    fn truth(&self, canvas: &Canvas<'_>) -> Result<(), DrawError> {
        let top = self.wave_top + WAVE + 4.0;
        if !self.timeline.truth.is_empty() {
            let right = Look { anchor: HPos::Right, ..Look::default() };
            canvas.text("truth", (LEFT - 10.0, top + STRIP / 2.0), &QUIET, right)?;
        }
        // A name may be wider than its span, but not reach into the name before it.
        let mut free = LEFT;
        for span in self.timeline.truth {
            let [left, right] = [span.start, span.end].map(|s| self.x(s));
            canvas.area(&[(left, top), (right, top), (right, top + STRIP), (left, top + STRIP)], TRUE)?;
            let text = one_line(span.label);
            let half = text_width(&text, TEXT) / 2.0;
            if (left + right) / 2.0 - half >= free && !text.starts_with('_') {
                free = (left + right) / 2.0 + half + 4.0;
                let center = Look { anchor: HPos::Center, ..Look::default() };
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
        // Gray first, so that it lies below.
        let gray = |label: &usize| self.timeline.labels[*label].starts_with('_');
        let (below, above): (Vec<_>, Vec<_>) = self.shown.iter().partition(|(label, _)| gray(label));
        for (label, color) in below.into_iter().chain(above) {
            let width = if gray(&label) { 5 } else { 8 };
            canvas.line(&self.curve(label), color.stroke_width(width))?;
        }
        Ok(())
    }

    /// A class's posteriors; where several fall on one pixel, the least and the greatest.
    fn curve(&self, label: usize) -> Vec<(f32, f32)> {
        let mut points: Vec<(f32, f32)> = Vec::new();
        let mut in_pixel: Vec<f32> = Vec::new();
        let mut pixel = None;
        let flush = |x: Option<i32>, ys: &mut Vec<f32>, points: &mut Vec<(f32, f32)>| {
            let (Some(x), [first, .., last]) = (x, ys.as_slice()) else { return };
            let (least, most) = ys.iter().fold((*first, *first), |(a, b), &y| (a.min(y), b.max(y)));
            points.extend([*first, least, most, *last].map(|y| (x as f32, y)));
        };
        for (seconds, posteriors) in self.timeline.decisions {
            let (x, y) = (self.x(*seconds), self.posterior_y(posteriors.get(label).copied().unwrap_or(0.0)));
            if pixel != Some(x as i32) {
                flush(pixel, &mut in_pixel, &mut points);
                in_pixel.clear();
                points.push((x, y));
                pixel = Some(x as i32);
            }
            in_pixel.push(y);
        }
        flush(pixel, &mut in_pixel, &mut points);
        points
    }

    fn events(&self, canvas: &Canvas<'_>) -> Result<(), DrawError> {
        let bottom = self.posterior_top + POSTERIOR;
        for &(event, lane) in &self.events {
            let (x, color) = (self.x(event.seconds), self.color(event.label));
            let top = lane.map_or(self.wave_top, |lane| self.lanes_top + lane as f32 * LANE);
            // Not through the strip of truth: its text is there.
            for (from, to) in [(top + 2.0, self.wave_top + WAVE), (self.posterior_top, bottom)] {
                canvas.line(&[(x, from), (x, to)], color.mix(0.75).stroke_width(5))?;
            }
            let y = self.posterior_y(event.score);
            canvas.area(&[(x - 5.0, y), (x, y - 5.0), (x + 5.0, y), (x, y + 5.0)], color)?;
            if lane.is_some() {
                canvas.text(&self.event_text(event), (x + 5.0, top + LANE / 2.0), &INK, Look::default())?;
            }
        }
        let left_out = self.events.iter().filter(|(_, lane)| lane.is_none()).count();
        if left_out > 0 {
            let look = Look { anchor: HPos::Right, ..Look::default() };
            let text = format!("{left_out} events have no room for their text");
            canvas.text(&text, (RIGHT, 30.0), &QUIET, look)?;
        }
        Ok(())
    }
}

/// The classes that matter: those that ever exceed [`MATTERS`] and those with an event.
fn colored(timeline: &Timeline<'_>) -> Vec<(usize, RGBColor)> {
    let exceeds = |label: usize| timeline.decisions.iter().any(|(_, p)| p.get(label).is_some_and(|&p| p > MATTERS));
    let (mut colors, mut grays) = (PALETTE.iter().cycle(), GRAYS.iter().cycle());
    (0..timeline.labels.len())
        .filter(|&label| exceeds(label) || timeline.events.iter().any(|e| e.label == label))
        .filter_map(|label| {
            let colors = if timeline.labels[label].starts_with('_') { &mut grays } else { &mut colors };
            Some((label, *colors.next()?))
        })
        .collect()
}

/// Time between ticks: at most 12 of them.
fn tick(seconds: f32) -> f32 {
    const STEPS: [f32; 13] = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0];
    let minutes = || (seconds / 12.0 / 60.0).ceil() * 60.0;
    STEPS.into_iter().find(|step| seconds / step <= 12.0).unwrap_or_else(minutes)
}

/// About how wide a text is: sans-serif letters are at most 0.62 of their size wide on average, others up to 1.
fn text_width(text: &str, size: f32) -> f32 {
    text.chars().map(|c| if c.is_ascii() { 0.62 } else { 1.0 }).sum::<f32>() * size
}

#[derive(Clone, Copy)]
struct Look {
    size: f32,
    anchor: HPos,
    bold: bool,
    turned: bool,
}

impl Default for Look {
    fn default() -> Self {
        Self { size: TEXT, anchor: HPos::Left, bold: false, turned: false }
    }
}

/// A drawing area in pixels.
struct Canvas<'a>(DrawingArea<SVGBackend<'a>, Shift>);

impl Canvas<'_> {
    fn line(&self, points: &[(f32, f32)], style: ShapeStyle) -> Result<(), DrawError> {
        self.0.draw(&PathElement::new(units(points), style))
    }

    fn dashes(&self, points: &[(f32, f32)], style: ShapeStyle) -> Result<(), DrawError> {
        self.0.draw(&DashedPathElement::new(units(points), 24, 20, style))
    }

    fn area(&self, points: &[(f32, f32)], color: RGBColor) -> Result<(), DrawError> {
        if points.is_empty() { Ok(()) } else { self.0.draw(&Polygon::new(units(points), color.filled())) }
    }

    /// Text whose middle height is at the point.
    fn text(&self, text: &str, at: (f32, f32), color: &RGBColor, look: Look) -> Result<(), DrawError> {
        let style = if look.bold { FontStyle::Bold } else { FontStyle::Normal };
        // plotters writes sizes divided by 1.24.
        let font = FontDesc::new(FontFamily::SansSerif, f64::from(look.size * UNITS * 1.24), style);
        let font = if look.turned { font.transform(FontTransform::Rotate270) } else { font };
        let style = font.color(color).pos(Pos::new(look.anchor, VPos::Center));
        self.0.draw(&Text::new(one_line(text), units(&[at])[0], style))
    }
}

fn units(points: &[(f32, f32)]) -> Vec<(i32, i32)> {
    points.iter().map(|&(x, y)| ((x * UNITS).round() as i32, (y * UNITS).round() as i32)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream with a bump of one class every two seconds, and an event on each.
    fn drawn(seconds: u32, labels: &[&str], decisions_per_second: u32) -> String {
        let labels: Vec<String> = labels.iter().map(ToString::to_string).collect();
        let samples: Vec<i16> = (0..seconds * 16_000)
            .map(|i| {
                let loud = (f64::from(i) / 16_000.0 * std::f64::consts::PI / 2.0).sin().powi(6);
                ((f64::from(i.wrapping_mul(2_654_435_761)) / 4e9 - 0.5) * 20_000.0 * (0.02 + loud)) as i16
            })
            .collect();
        let keyword = |i: u32| 1 + i as usize % (labels.len() - 1);
        let decisions: Vec<_> = (0..seconds * decisions_per_second)
            .map(|i| {
                let at = i as f32 / decisions_per_second as f32;
                let mut posteriors = vec![0.01; labels.len()];
                let bump = (-(at % 2.0 - 1.2).powi(2) * 12.0).exp() * 0.97;
                (posteriors[0], posteriors[keyword(at as u32 / 2)]) = (0.95 - bump, bump);
                (at, posteriors)
            })
            .collect();
        let events: Vec<_> = (0..seconds.div_ceil(2))
            .map(|i| EventMark { seconds: (i * 2) as f32 + 0.95, label: keyword(i), score: 0.84 })
            .collect();
        let truth: Vec<_> = events
            .iter()
            .map(|e| TruthSpan { start: e.seconds - 0.45, end: e.seconds + 0.55, label: &labels[e.label] })
            .collect();
        draw(&Timeline {
            title: "kws.tgi on stream.wav",
            sample_rate: 16_000,
            samples: &samples,
            decisions: &decisions,
            labels: &labels,
            threshold: Some(0.8),
            events: &events,
            truth: &truth,
        })
        .unwrap()
    }

    #[test]
    fn whatever_the_labels_the_markup_is_whole() {
        let svg = drawn(4, &["_", "<b> & \"'\u{1}", "a label that is long"], 25);
        assert!(svg.starts_with("<svg width=\"1200\" height=\"") && svg.ends_with("</svg>\n"));
        assert!(svg.contains("&lt;b&gt; &amp; &quot;&apos;\u{fffd}") && !svg.contains("<b>") && !svg.contains('\u{1}'));
        assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
        assert!(!svg.contains("NaN"));
    }

    #[test]
    fn a_long_stream_is_thinned_out_and_an_empty_one_is_drawn() {
        assert!(drawn(300, &["_silence_", "yes", "no"], 100).len() < 1 << 20);
        let nothing = Timeline {
            title: "",
            sample_rate: 0,
            samples: &[],
            decisions: &[(f32::NAN, vec![f32::NAN])],
            labels: &["yes".to_owned()],
            threshold: Some(f32::NAN),
            events: &[EventMark { seconds: 0.0, label: 9, score: f32::NAN }],
            truth: &[],
        };
        assert!(!draw(&nothing).unwrap().contains("NaN "));
    }
}
