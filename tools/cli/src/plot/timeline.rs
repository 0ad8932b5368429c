//! The timeline of a stream: sound, true labels, posteriors and events. A long stream is drawn in several rows.

use std::path::Path;

use plotters::prelude::RGBColor;
use plotters::style::text_anchor::HPos;
use tidegate_model::data::DataError;

use super::canvas::{Canvas, DrawError, INK, LEFT, Legend, Look, PALETTE, QUIET, RIGHT, save, svg};
use super::contents::{Timeline, name};
use super::row::{Panels, Row, diamond};
use super::wave::peak;

/// Minimum posterior of a class that is drawn.
const SHOWN: f32 = 0.1;
/// Maximum number of seconds that are drawn in one row.
const ROW: f32 = 90.0;
/// Maximum number of rows: an hour has rows of a minute and a half.
const MOST_ROWS: f32 = 40.0;
/// The length of rows is a multiple of this number of seconds, unless there is only one row.
const ROUND: f32 = 30.0;
/// Height of the line that explains the marks.
const KEY: f32 = 20.0;

const GRAYS: [RGBColor; 2] = [RGBColor(0xb8, 0xb8, 0xb8), RGBColor(0x8c, 0x8c, 0x8c)];

/// Draws a timeline as SVG. The file appears only when it is complete.
///
/// # Errors
/// If the file cannot be written.
pub fn timeline(path: &Path, timeline: &Timeline<'_>) -> Result<(), DataError> {
    save(path, draw(timeline))
}

fn draw(timeline: &Timeline<'_>) -> Result<String, DrawError> {
    let shown = colored(timeline);
    let legend = Legend::new(shown.iter().map(|&(label, color)| (name(timeline, label), color)));
    let key = if timeline.events.is_empty() { 0.0 } else { KEY };
    let ranges = ranges(seconds(timeline));
    let in_page = ranges.len() > 1;
    let panels =
        if in_page { Panels { wave: 60.0, posterior: 130.0 } } else { Panels { wave: 110.0, posterior: 280.0 } };
    let (mut rows, mut top) = (Vec::new(), legend.bottom + 22.0 + key);
    for range in ranges {
        let row = Row::new(timeline, range, &shown, panels, top, in_page);
        top = row.bottom(false);
        rows.push(row);
    }
    let Some((last, before)) = rows.split_last() else { return svg(top, timeline.title, |_| Ok(())) };
    svg(last.bottom(true), timeline.title, |canvas| {
        canvas.legend(&legend)?;
        if key > 0.0 {
            let y = legend.bottom + KEY;
            diamond(canvas, (LEFT + 9.0, y), INK)?;
            canvas.text("event, at its mean posterior", (LEFT + 26.0, y), &INK, Look::default())?;
        }
        let loudest = peak(timeline.samples);
        before.iter().try_for_each(|row| row.draw(canvas, loudest, false))?;
        last.draw(canvas, loudest, true)?;
        left_out(canvas, rows.iter().map(Row::left_out).sum())
    })
}

/// Says how many events have no text.
fn left_out(canvas: &Canvas<'_>, count: usize) -> Result<(), DrawError> {
    if count == 0 {
        return Ok(());
    }
    let text = format!("{count} events have no room for their text");
    canvas.text(&text, (RIGHT, 30.0), &QUIET, Look::anchored(HPos::Right))
}

/// The length of the stream.
fn seconds(timeline: &Timeline<'_>) -> f32 {
    let sound = timeline.samples.len() as f64 / f64::from(timeline.sample_rate.max(1));
    let times = timeline.decisions.iter().map(|&(at, _)| at);
    let times = times.chain(timeline.events.iter().map(|e| e.seconds)).chain(timeline.truth.iter().map(|t| t.end));
    times.filter(|t| t.is_finite()).fold(sound as f32, f32::max).max(0.01)
}

/// The first and last second of each row. All rows have the same length.
fn ranges(seconds: f32) -> Vec<[f32; 2]> {
    if seconds <= ROW {
        return vec![[0.0, seconds]];
    }
    let rows = (seconds / ROW).ceil().min(MOST_ROWS);
    let len = (seconds / rows / ROUND).ceil() * ROUND;
    let count = (seconds / len).ceil() as usize;
    (0..count).map(|row| [row as f32 * len, (row + 1) as f32 * len]).collect()
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
