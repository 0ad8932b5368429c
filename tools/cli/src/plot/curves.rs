//! Curves over time as an SVG: how far integers are from floats while they run.

use std::path::Path;

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::{Canvas, DrawError, GRID, INK, LEFT, Look, PALETTE, QUIET, RIGHT, TEXT, UNITS, WIDTH, text_width, tick};
use crate::data::{DataError, one_line};
use crate::output::write_atomically;

/// What is drawn.
#[derive(Clone, Copy, Debug)]
pub struct Curves<'a> {
    /// Headline; as much of it as fits.
    pub title: &'a str,
    /// What x counts.
    pub x_label: &'a str,
    /// What y counts.
    pub y_label: &'a str,
    /// Names, and points in the order of x. What is not finite is left out.
    pub curves: &'a [(String, Vec<(f32, f32)>)],
}

const AREA: f32 = 420.0;

/// Draws curves, whole or not at all.
///
/// # Errors
/// If the file cannot be written.
pub fn curves(path: &Path, curves: &Curves<'_>) -> Result<(), DataError> {
    let svg = draw(curves).map_err(|e| DataError::new(path, format!("cannot be drawn: {e}")))?;
    write_atomically(path, |out| out.write_all(svg.as_bytes()))
}

fn draw(curves: &Curves<'_>) -> Result<String, DrawError> {
    let finite = |(x, y): &&(f32, f32)| x.is_finite() && y.is_finite();
    let points = || curves.curves.iter().flat_map(|(_, points)| points).filter(finite);
    let end = points().map(|point| point.0).fold(0.01, f32::max);
    let (low, high) = points().map(|point| point.1).fold((0.0_f32, 1.0_f32), |(a, b), y| (a.min(y), b.max(y)));
    let step = tick(high - low);
    let (low, high) = ((low / step).floor() * step, (high / step).ceil() * step);
    let mut legend = Vec::new();
    let (mut left, mut top) = (LEFT, 58.0);
    for (name, _) in curves.curves {
        let width = 26.0 + text_width(&one_line(name), TEXT) + 18.0;
        if left + width > RIGHT && left > LEFT {
            (left, top) = (LEFT, top + 20.0);
        }
        legend.push((left, top));
        left += width;
    }
    top += 28.0;
    let (bottom, height) = (top + AREA, top + AREA + 62.0);
    let x = |value: f32| LEFT + (value / end).clamp(0.0, 1.0) * (RIGHT - LEFT);
    let y = |value: f32| bottom - (value - low) / (high - low) * AREA;
    let mut svg = String::new();
    {
        let size = [WIDTH, height].map(|px| (px * UNITS) as u32);
        let canvas = Canvas(SVGBackend::with_string(&mut svg, (size[0], size[1])).into_drawing_area());
        canvas.0.fill(&WHITE)?;
        let title: String = curves.title.chars().take(70).collect();
        canvas.text(&title, (LEFT, 30.0), &INK, Look { size: 18.0, bold: true, ..Look::default() })?;
        let (hair, center) = (GRID.stroke_width(4), Look { anchor: HPos::Center, ..Look::default() });
        let right = Look { anchor: HPos::Right, ..Look::default() };
        for mark in marks(low, high, step) {
            canvas.line(&[(LEFT, y(mark)), (RIGHT, y(mark))], hair)?;
            canvas.text(&number(mark, step), (LEFT - 10.0, y(mark)), &QUIET, right)?;
        }
        let step = tick(end);
        for mark in marks(0.0, end, step) {
            canvas.line(&[(x(mark), top), (x(mark), bottom + 5.0)], hair)?;
            canvas.text(&number(mark, step), (x(mark), bottom + 17.0), &QUIET, center)?;
        }
        canvas.text(curves.x_label, ((LEFT + RIGHT) / 2.0, bottom + 40.0), &QUIET, center)?;
        canvas.text(curves.y_label, (26.0, top + AREA / 2.0), &QUIET, Look { turned: true, ..center })?;
        for (((name, points), &(left, top)), color) in curves.curves.iter().zip(&legend).zip(PALETTE.iter().cycle()) {
            canvas.line(&[(left, top), (left + 18.0, top)], color.stroke_width(12))?;
            canvas.text(&one_line(name), (left + 26.0, top), &INK, Look::default())?;
            let line: Vec<_> = points.iter().filter(finite).map(|point| (x(point.0), y(point.1))).collect();
            canvas.line(&line, color.stroke_width(6))?;
        }
        canvas.0.present()?;
    }
    // The drawing's own units stay in its viewBox; people get pixels.
    let size = |unit: f32| format!("width=\"{}\" height=\"{}\"", WIDTH * unit, height * unit);
    Ok(svg.replacen(&size(UNITS), &size(1.0), 1))
}

fn marks(from: f32, to: f32, step: f32) -> impl Iterator<Item = f32> {
    let count = ((to - from) / step * 1.0001) as usize;
    (0..=count).map(move |k| from + k as f32 * step)
}

fn number(value: f32, step: f32) -> String {
    let decimals = if step < 0.1 { 2 } else { usize::from(step < 1.0) };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_are_drawn_whatever_they_are() {
        let hour = (0..120).map(|k| (k as f32 / 2.0, 55.0 + (k as f32).sin())).collect();
        let odd = vec![(0.0, f32::INFINITY), (1.0, f32::NAN), (2.0, -12.5)];
        let curves =
            [("lstm.cell_state".to_owned(), hour), ("<o> & \u{1}".to_owned(), odd), ("none".to_owned(), vec![])];
        let svg = draw(&Curves { title: "t", x_label: "minutes", y_label: "dB", curves: &curves }).unwrap();
        assert!(svg.starts_with("<svg width=\"1200\" height=\"") && svg.ends_with("</svg>\n"));
        assert!(svg.contains("&lt;o&gt; &amp; \u{fffd}") && !svg.contains("NaN") && svg.contains("lstm.cell_state"));
        let nothing = draw(&Curves { title: "", x_label: "", y_label: "", curves: &[] }).unwrap();
        assert!(!nothing.contains("NaN"));
    }
}
