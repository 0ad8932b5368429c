//! The waveform of a sound.

use plotters::prelude::{Color, RGBColor};

use super::canvas::{Canvas, DrawError, LEFT, RIGHT, x};

const SOUND: RGBColor = RGBColor(0xa9, 0xb4, 0xc0);

/// A waveform in a panel.
#[derive(Clone, Copy)]
pub struct Wave<'a> {
    pub samples: &'a [i16],
    /// Sample rate in Hz.
    pub sample_rate: u32,
    /// End of the x axis.
    pub seconds: f32,
    pub top: f32,
    pub height: f32,
}

/// The magnitude at the edge of the panel: that of the loudest sample. At most 20 times magnified, so that silence stays
/// a line.
pub fn peak(samples: &[i16]) -> u16 {
    samples.iter().map(|sample| sample.unsigned_abs()).max().unwrap_or(0).max(1638)
}

impl Wave<'_> {
    /// Draws the minimum and maximum sample of each pixel.
    pub fn draw(&self, canvas: &Canvas<'_>, peak: u16) -> Result<(), DrawError> {
        let middle = self.top + self.height / 2.0;
        let y = |sample: i16| middle - f32::from(sample) / f32::from(peak) * self.height / 2.0;
        let per_column = self.samples.len().div_ceil((RIGHT - LEFT) as usize).max(1);
        let rate = self.sample_rate.max(1) as f32;
        let column = |(i, part): (usize, &[i16])| {
            let (least, most) = part.iter().fold((i16::MAX, i16::MIN), |(a, b), &s| (a.min(s), b.max(s)));
            let x = x((i * per_column) as f32 / rate, self.seconds);
            ((x, y(most) - 0.25), (x, y(least) + 0.25))
        };
        let columns = self.samples.chunks(per_column).enumerate().map(column);
        let (mut outline, mut below): (Vec<_>, Vec<_>) = columns.unzip();
        below.reverse();
        outline.append(&mut below);
        canvas.line(&[(LEFT, middle), (RIGHT, middle)], SOUND.stroke_width(2))?;
        canvas.area(&outline, SOUND)
    }
}
