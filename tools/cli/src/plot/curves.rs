//! Curves over time, such as the error of integers or the progress of training.

use std::path::Path;

use plotters::prelude::Color;
use tidegate_model::data::{DataError, one_line};

use super::canvas::{DrawError, Legend, PALETTE, marks, save, svg, tick, x};

/// The contents of a drawing of curves.
#[derive(Clone, Copy, Debug)]
pub struct Curves<'a> {
    /// Title, cut to fit.
    pub title: &'a str,
    /// Label of the x axis.
    pub x_label: &'a str,
    /// Label of the y axis.
    pub y_label: &'a str,
    /// Names, and points in the order of x. Points that are not finite are skipped.
    pub curves: &'a [(String, Vec<(f32, f32)>)],
}

const AREA: f32 = 420.0;

/// Draws curves as SVG. The file appears only when it is complete.
///
/// # Errors
/// If the file cannot be written.
pub fn curves(path: &Path, curves: &Curves<'_>) -> Result<(), DataError> {
    save(path, draw(curves))
}

fn draw(curves: &Curves<'_>) -> Result<String, DrawError> {
    let finite = |(x, y): &&(f32, f32)| x.is_finite() && y.is_finite();
    let points = || curves.curves.iter().flat_map(|(_, points)| points).filter(finite);
    let end = points().map(|point| point.0).fold(0.01, f32::max);
    let (low, high) = points().map(|point| point.1).fold((0.0_f32, 1.0_f32), |(a, b), y| (a.min(y), b.max(y)));
    let step = tick(high - low);
    let (low, high) = ((low / step).floor() * step, (high / step).ceil() * step);
    let colors = || PALETTE.into_iter().cycle();
    let legend = Legend::new(curves.curves.iter().map(|(name, _)| one_line(name)).zip(colors()));
    let top = legend.bottom + 28.0;
    let bottom = top + AREA;
    let y = |value: f32| bottom - (value - low) / (high - low) * AREA;
    svg(bottom + 62.0, curves.title, |canvas| {
        canvas.y_axis(marks(low, high, step).map(|(value, text)| (y(value), text)))?;
        canvas.x_axis(end, curves.x_label, &[(top, bottom)])?;
        canvas.y_label(curves.y_label, top + AREA / 2.0)?;
        canvas.legend(&legend)?;
        for ((_, points), color) in curves.curves.iter().zip(colors()) {
            let line: Vec<_> = points.iter().filter(finite).map(|point| (x(point.0, end), y(point.1))).collect();
            canvas.line(&line, color.stroke_width(6))?;
        }
        Ok(())
    })
}
