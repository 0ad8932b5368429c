//! A noisy sound, the sound after noise suppression, and the gain between them.

use std::path::Path;

use plotters::prelude::Color;
use tidegate_model::data::DataError;

use super::canvas::{Canvas, DrawError, PALETTE, save, svg, x, x_marks};
use super::wave::{Wave, peak};

/// The contents of the drawing.
#[derive(Clone, Copy, Debug)]
pub struct Noise<'a> {
    /// Title, cut to fit.
    pub title: &'a str,
    /// Sample rate in Hz.
    pub sample_rate: u32,
    /// The sound that was given.
    pub noisy: &'a [i16],
    /// The sound after noise suppression.
    pub clean: &'a [i16],
    /// Delay of `clean` in samples.
    pub late: usize,
    /// Samples of one value of the gain.
    pub hop: usize,
}

// Sizes in CSS pixels.
const TOP: f32 = 60.0;
const WAVE: f32 = 130.0;
const GAIN: f32 = 180.0;
const GAP: f32 = 22.0;

/// Least gain in dB that is drawn.
const LEAST: f32 = -60.0;
/// Power of a hop that is too quiet for a gain: less than one unit of 16 bits.
const SILENT: f64 = 1.0;

/// Draws both sounds in the same scale, and the gain of each hop in dB, as SVG. The file appears only when it is
/// complete.
///
/// # Errors
/// If the file cannot be written.
pub fn noise(path: &Path, noise: &Noise<'_>) -> Result<(), DataError> {
    save(path, draw(noise))
}

fn draw(noise: &Noise<'_>) -> Result<String, DrawError> {
    let &Noise { sample_rate, noisy, clean, .. } = noise;
    let seconds = (noisy.len() as f32 / sample_rate.max(1) as f32).max(0.01);
    let [of_noisy, of_clean, of_gain] = [0.0, 1.0, 2.0].map(|row| TOP + row * (WAVE + GAP));
    svg(of_gain + GAIN + 62.0, noise.title, |canvas| {
        let panels = [(of_noisy, of_noisy + WAVE), (of_clean, of_clean + WAVE), (of_gain, of_gain + GAIN)];
        let gain_y = |gain: f32| of_gain + GAIN * gain.clamp(LEAST, 0.0) / LEAST;
        canvas.y_axis([0.0, -15.0, -30.0, -45.0, LEAST].into_iter().map(|gain| (gain_y(gain), gain.to_string())))?;
        canvas.x_axis(x_marks(seconds), "seconds", &panels)?;
        for ((label, height), (top, _)) in
            [("noisy", WAVE), ("clean", WAVE), ("gain in dB", GAIN)].into_iter().zip(panels)
        {
            canvas.y_label(label, top + height / 2.0)?;
        }
        for (samples, top) in [(noisy, of_noisy), (clean, of_clean)] {
            Wave { samples, sample_rate, seconds, top, height: WAVE }.draw(canvas, peak(noisy))?;
        }
        curve(canvas, noise, |hop, gain| {
            (x((hop * noise.hop) as f32 / sample_rate.max(1) as f32, seconds), gain_y(gain))
        })
    })
}

/// Draws the gain of each hop; a gap where the noisy sound is silent.
fn curve(canvas: &Canvas<'_>, noise: &Noise<'_>, place: impl Fn(usize, f32) -> (f32, f32)) -> Result<(), DrawError> {
    let gains: Vec<Option<f32>> = gains(noise).collect();
    let lines = gains.iter().enumerate().collect::<Vec<_>>();
    lines.split(|(_, gain)| gain.is_none()).filter(|line| !line.is_empty()).try_for_each(|line| {
        let points: Vec<_> = line.iter().filter_map(|&(hop, gain)| Some(place(hop, (*gain)?))).collect();
        canvas.line(&points, PALETTE[0].stroke_width(6))
    })
}

/// The gain of each hop in dB, or `None` for silence.
fn gains<'a>(noise: &Noise<'a>) -> impl Iterator<Item = Option<f32>> + 'a {
    let hop = noise.hop.max(1);
    let power = |samples: &[i16]| samples.iter().map(|&sample| f64::from(sample).powi(2)).sum::<f64>();
    let clean = noise.clean.get(noise.late..).unwrap_or_default();
    noise.noisy.chunks(hop).zip(clean.chunks(hop)).map(move |(noisy, clean)| {
        let (before, after) = (power(noisy), power(clean));
        (before >= SILENT).then(|| (10.0 * (after / before).log10()) as f32)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gains_are_in_decibels_of_the_same_samples_and_silence_has_none() {
        let noisy = [1000_i16; 8].into_iter().chain([0; 4]).chain([2000; 4]).collect::<Vec<_>>();
        let clean: Vec<i16> =
            std::iter::repeat_n(0, 3).chain(noisy.iter().map(|sample| sample / 10)).take(16).collect();
        let noise = Noise { title: "", sample_rate: 16_000, noisy: &noisy, clean: &clean, late: 3, hop: 4 };
        let found: Vec<_> = gains(&noise).collect();
        assert_eq!(found[..3], [Some(-20.0), Some(-20.0), None]);
        assert!(found[3].is_some_and(|gain| gain < -20.0), "the last hop is cut off: {found:?}");
        let svg = draw(&noise).unwrap();
        assert!(svg.contains("gain in dB") && svg.matches("polyline").count() > 1, "{svg}");
    }
}
