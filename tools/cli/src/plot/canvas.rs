//! An SVG drawing with the elements that timelines and curves share: title, legend, axes, lines and text.

use std::path::Path;

use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontStyle, FontTransform};
use tidegate_model::data::{DataError, one_line};
use tidegate_model::output::write_atomically;

// Sizes in CSS pixels.
pub const WIDTH: f32 = 1200.0;
pub const LEFT: f32 = 84.0;
/// Leaves room for the text of an event at the end.
pub const RIGHT: f32 = 1080.0;
pub const TEXT: f32 = 13.0;
/// Top of the legend.
const LEGEND: f32 = 58.0;

/// plotters draws on integer coordinates. A quarter of a pixel gives smooth lines.
const UNITS: f32 = 4.0;

/// Okabe and Ito's colors for the color-blind (jfly.uni-koeln.de/color), without yellow, which is hard to see on white.
/// Before the black, three colors of Paul Tol's "muted" set (personal.sron.nl/~pault).
pub const PALETTE: [RGBColor; 10] = [
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
pub const INK: RGBColor = RGBColor(0x22, 0x26, 0x2b);
pub const QUIET: RGBColor = RGBColor(0x5f, 0x66, 0x6e);
const GRID: RGBColor = RGBColor(0xe4, 0xe7, 0xea);

pub type DrawError = DrawingAreaErrorKind<std::io::Error>;

/// Draws a picture with a title.
pub fn svg(
    height: f32,
    title: &str,
    draw: impl FnOnce(&Canvas<'_>) -> Result<(), DrawError>,
) -> Result<String, DrawError> {
    let [width_units, height_units] = [WIDTH, height].map(|px| (px * UNITS) as u32);
    let mut svg = String::new();
    {
        let canvas = Canvas(SVGBackend::with_string(&mut svg, (width_units, height_units)).into_drawing_area());
        canvas.0.fill(&WHITE)?;
        let title: String = title.chars().take(70).collect();
        canvas.text(&title, (LEFT, 30.0), &INK, Look { size: 18.0, bold: true, ..Look::default() })?;
        draw(&canvas)?;
        canvas.0.present()?;
    }
    // The viewBox keeps the drawing's units. The size of the picture is in pixels.
    let size = |unit: f32| format!("width=\"{}\" height=\"{}\"", WIDTH * unit, height * unit);
    Ok(svg.replacen(&size(UNITS), &size(1.0), 1))
}

/// Writes a drawing atomically.
pub fn save(path: &Path, svg: Result<String, DrawError>) -> Result<(), DataError> {
    let svg = svg.map_err(|error| DataError::new(path, format!("cannot be drawn: {error}")))?;
    write_atomically(path, |out| out.write_all(svg.as_bytes()))
}

/// Names of curves with their colors, in rows.
pub struct Legend {
    items: Vec<(String, RGBColor, (f32, f32))>,
    pub bottom: f32,
}

impl Legend {
    pub fn new(items: impl Iterator<Item = (String, RGBColor)>) -> Self {
        let (mut x, mut y) = (LEFT, LEGEND);
        let place = |(name, color): (String, RGBColor)| {
            let width = 26.0 + text_width(&name) + 18.0;
            if x + width > RIGHT && x > LEFT {
                (x, y) = (LEFT, y + 20.0);
            }
            x += width;
            (name, color, (x - width, y))
        };
        Self { items: items.map(place).collect(), bottom: y }
    }
}

/// Font and position of a text.
#[derive(Clone, Copy)]
pub struct Look {
    pub size: f32,
    pub anchor: HPos,
    pub bold: bool,
    pub turned: bool,
}

impl Default for Look {
    fn default() -> Self {
        Self { size: TEXT, anchor: HPos::Left, bold: false, turned: false }
    }
}

impl Look {
    pub fn anchored(anchor: HPos) -> Self {
        Self { anchor, ..Self::default() }
    }
}

/// A drawing area in pixels.
pub struct Canvas<'a>(DrawingArea<SVGBackend<'a>, Shift>);

impl Canvas<'_> {
    pub fn line(&self, points: &[(f32, f32)], style: ShapeStyle) -> Result<(), DrawError> {
        self.0.draw(&PathElement::new(units(points), style))
    }

    pub fn dashes(&self, points: &[(f32, f32)], style: ShapeStyle) -> Result<(), DrawError> {
        self.0.draw(&DashedPathElement::new(units(points), 24, 20, style))
    }

    pub fn area(&self, points: &[(f32, f32)], color: RGBColor) -> Result<(), DrawError> {
        if points.is_empty() { Ok(()) } else { self.0.draw(&Polygon::new(units(points), color.filled())) }
    }

    /// Draws a text, vertically centered at a point.
    pub fn text(&self, text: &str, at: (f32, f32), color: &RGBColor, look: Look) -> Result<(), DrawError> {
        let style = if look.bold { FontStyle::Bold } else { FontStyle::Normal };
        // plotters divides font sizes by 1.24.
        let font = FontDesc::new(FontFamily::SansSerif, f64::from(look.size * UNITS * 1.24), style);
        let font = if look.turned { font.transform(FontTransform::Rotate270) } else { font };
        let style = font.color(color).pos(Pos::new(look.anchor, VPos::Center));
        self.0.draw(&Text::new(one_line(text), units(&[at])[0], style))
    }

    pub fn legend(&self, legend: &Legend) -> Result<(), DrawError> {
        legend.items.iter().try_for_each(|(name, color, (x, y))| {
            self.line(&[(*x, *y), (x + 18.0, *y)], color.stroke_width(12))?;
            self.text(name, (x + 26.0, *y), &INK, Look::default())
        })
    }

    /// Draws horizontal lines with their values.
    pub fn y_axis(&self, marks: impl Iterator<Item = (f32, String)>) -> Result<(), DrawError> {
        let right = Look::anchored(HPos::Right);
        marks.into_iter().try_for_each(|(y, text)| {
            self.line(&[(LEFT, y), (RIGHT, y)], GRID.stroke_width(4))?;
            self.text(&text, (LEFT - 10.0, y), &QUIET, right)
        })
    }

    /// Draws vertical lines through panels (top and bottom) at these pixels, with their text below the last panel.
    pub fn x_axis(
        &self,
        mut marks: impl Iterator<Item = (f32, String)>,
        label: &str,
        panels: &[(f32, f32)],
    ) -> Result<(), DrawError> {
        let center = Look::anchored(HPos::Center);
        let bottom = panels.last().map_or(0.0, |panel| panel.1);
        marks.try_for_each(|(x, text)| {
            for &(top, end) in panels {
                self.line(&[(x, top), (x, if end == bottom { end + 5.0 } else { end })], GRID.stroke_width(4))?;
            }
            self.text(&text, (x, bottom + 17.0), &QUIET, center)
        })?;
        self.text(label, ((LEFT + RIGHT) / 2.0, bottom + 40.0), &QUIET, center)
    }

    /// Draws the label of a panel.
    pub fn y_label(&self, label: &str, middle: f32) -> Result<(), DrawError> {
        self.text(label, (26.0, middle), &QUIET, Look { turned: true, ..Look::anchored(HPos::Center) })
    }
}

/// The pixel of a value on the x axis, which ends at `end`.
pub fn x(value: f32, end: f32) -> f32 {
    LEFT + (value / end).clamp(0.0, 1.0) * (RIGHT - LEFT)
}

/// The pixels of the marks of an x axis from 0 to `end`, with their text.
pub fn x_marks(end: f32) -> impl Iterator<Item = (f32, String)> {
    marks(0.0, end, tick(end)).map(move |(value, text)| (x(value, end), text))
}

/// The distance between marks for a range: at most 12 of them.
pub fn tick(range: f32) -> f32 {
    const STEPS: [f32; 13] = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0];
    let minutes = || (range / 12.0 / 60.0).ceil() * 60.0;
    STEPS.into_iter().find(|step| range / step <= 12.0).unwrap_or_else(minutes)
}

/// Values for marks at a distance of `step`, with their text.
pub fn marks(from: f32, to: f32, step: f32) -> impl Iterator<Item = (f32, String)> {
    let decimals = if step < 0.1 { 2 } else { usize::from(step < 1.0) };
    let count = ((to - from) / step * 1.0001) as usize;
    (0..=count).map(move |k| from + k as f32 * step).map(move |value| (value, format!("{value:.decimals$}")))
}

/// Approximate width of a text: sans-serif letters are at most 0.62 of their size wide on average, other signs up to 1.
pub fn text_width(text: &str) -> f32 {
    text.chars().map(|c| if c.is_ascii() { 0.62 } else { 1.0 }).sum::<f32>() * TEXT
}

fn units(points: &[(f32, f32)]) -> Vec<(i32, i32)> {
    points.iter().map(|&(x, y)| ((x * UNITS).round() as i32, (y * UNITS).round() as i32)).collect()
}
