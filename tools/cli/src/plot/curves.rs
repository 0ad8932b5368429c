//! Curves over time, such as the error of integers or the progress of training.

use std::path::Path;

use plotters::prelude::Color;
use tidegate_model::data::{DataError, one_line};

use super::canvas::{DrawError, LEFT, Legend, Look, PALETTE, QUIET, RIGHT, marks, save, svg, tick, x, x_marks};

/// The contents of a drawing of curves.
#[derive(Clone, Copy, Debug, Default)]
pub struct Curves<'a> {
    /// Title, cut to fit.
    pub title: &'a str,
    /// Label of the x axis.
    pub x_label: &'a str,
    /// Label of the y axis.
    pub y_label: &'a str,
    /// Names, and points in the order of x. Points at positive infinity are drawn at the upper edge; other points that
    /// are not finite are skipped.
    pub curves: &'a [(String, Vec<(f32, f32)>)],
    /// Values of y with a name, drawn as dashed lines.
    pub levels: &'a [(f32, &'a str)],
    /// The meaning of positive infinity.
    pub infinity: &'a str,
}

// Sizes in CSS pixels.
const AREA: f32 = 420.0;
const INFINITY: f32 = 24.0;

/// Draws curves as SVG. The file appears only when it is complete.
///
/// # Errors
/// If the file cannot be written.
pub fn curves(path: &Path, curves: &Curves<'_>) -> Result<(), DataError> {
    save(path, draw(curves))
}

fn draw(curves: &Curves<'_>) -> Result<String, DrawError> {
    let shown = |(x, y): &&(f32, f32)| x.is_finite() && (y.is_finite() || *y == f32::INFINITY);
    let points = || curves.curves.iter().flat_map(|(_, points)| points).filter(shown);
    let end = points().map(|point| point.0).fold(0.01, f32::max);
    let levels = curves.levels.iter().map(|(level, _)| *level);
    let values = points().map(|point| point.1).filter(|y| y.is_finite()).chain(levels);
    let (low, high) = values.fold((0.0_f32, 1.0_f32), |(a, b), y| (a.min(y), b.max(y)));
    let step = tick(high - low);
    let (low, high) = ((low / step).floor() * step, (high / step).ceil() * step);
    let colors = || PALETTE.into_iter().cycle();
    let merged = merged(curves.curves);
    let legend = Legend::new(merged.iter().map(|(names, _)| names_text(names)).zip(colors()));
    let top = legend.bottom + 28.0;
    let bottom = top + AREA;
    let has_infinity = points().any(|point| point.1 == f32::INFINITY);
    // Infinity has a row of its own above all values.
    let least = if has_infinity { top + INFINITY } else { top };
    let y = |value: f32| {
        if value == f32::INFINITY { top } else { bottom - (value - low) / (high - low) * (bottom - least) }
    };
    svg(bottom + 62.0, curves.title, |canvas| {
        let infinite = has_infinity.then(|| (top, "\u{221e}".to_owned()));
        canvas.y_axis(marks(low, high, step).map(|(value, text)| (y(value), text)).chain(infinite))?;
        canvas.x_axis(x_marks(end), curves.x_label, &[(top, bottom)])?;
        canvas.y_label(curves.y_label, top + AREA / 2.0)?;
        canvas.legend(&legend)?;
        let names = curves.levels.iter().map(|&(level, name)| (y(level), name));
        names.clone().try_for_each(|(y, _)| canvas.dashes(&[(LEFT, y), (RIGHT, y)], QUIET.stroke_width(5)))?;
        for (y, name) in names.chain(has_infinity.then_some((top, curves.infinity))) {
            canvas.text(name, (RIGHT + 8.0, y), &QUIET, Look::default())?;
        }
        for ((_, points), color) in merged.iter().zip(colors()) {
            let line: Vec<_> = points.iter().filter(shown).map(|point| (x(point.0, end), y(point.1))).collect();
            canvas.line(&line, color.stroke_width(6))?;
            // A line of one point has no length.
            if let [(x, y)] = line[..] {
                canvas
                    .area(&[(x - 3.0, y - 3.0), (x + 3.0, y - 3.0), (x + 3.0, y + 3.0), (x - 3.0, y + 3.0)], color)?;
            }
        }
        Ok(())
    })
}

/// The points of a curve, with the names of all curves that have them.
type Merged<'a> = (Vec<&'a str>, &'a [(f32, f32)]);

/// Merges curves that would hide each other.
fn merged(curves: &[(String, Vec<(f32, f32)>)]) -> Vec<Merged<'_>> {
    let bits = |points: &[(f32, f32)]| points.iter().map(|(x, y)| (x.to_bits(), y.to_bits())).collect::<Vec<_>>();
    let mut merged: Vec<Merged<'_>> = Vec::new();
    for (name, points) in curves {
        match merged.iter_mut().find(|(_, of)| bits(of) == bits(points)) {
            Some((names, _)) => names.push(name),
            None => merged.push((vec![name], points)),
        }
    }
    merged
}

/// `softmax, output`, or `gru, dense and 7 more`
fn names_text(names: &[&str]) -> String {
    /// Maximum number of names in a legend's entry.
    const MOST: usize = 4;
    let text = |names: &[&str]| one_line(&names.join(", "));
    if names.len() <= MOST {
        return text(names);
    }
    format!("{} and {} more", text(&names[..MOST - 1]), names.len() - MOST + 1)
}
