//! The features of one frame by the formulas of their frameworks: a plain DFT, and triangles band by band.
//!
//! ```text
//! ‖X̂ - X‖₂ ≤ log₂ N · η / (1 - log₂ N · η) ‖X‖₂,  η = u + γ₄ (√2 + u)                          Higham, 24.1
//! ```
//!
//! for an FFT of N points whose twiddles are rounded once. The error of a single bin is at most the norm of all errors.

use std::f64::consts::PI;

use tidegate::front_end::{First, MelCorners, MfccSettings, Spectrum, Window};

use super::Bounded;
use super::bounded::{TINY, UNIT, gamma};
use super::sums::{dot_of, sum};

/// The features of a frame of samples; the settings must be within their limits.
pub fn features(settings: &MfccSettings, samples: &[i16]) -> Vec<Bounded> {
    let (magnitudes, error) = spectrum(settings, samples);
    let scale = match settings.spectrum {
        Spectrum::Magnitude => 1.0,
        Spectrum::Power => f64::from(settings.fft_len).recip(),
    };
    // Two products, a sum, and the error of the bin.
    let square = |&m: &f64| {
        let computed = (m + error) * (m + error);
        Bounded::new(scale * m * m, scale * (computed - m * m + gamma(3) * computed) + 3.0 * TINY)
    };
    let squares: Vec<Bounded> = magnitudes.iter().map(square).collect();
    let sizes: Vec<Bounded> = match settings.spectrum {
        Spectrum::Power => squares.clone(),
        Spectrum::Magnitude => {
            magnitudes.iter().map(|&m| Bounded::new(m, error + gamma(4) * (m + error) + TINY.sqrt())).collect()
        }
    };
    let bands = triangles(settings).into_iter().map(|triangle| {
        // A share is a product, or the remainder of the whole after a product; its weight is rounded.
        let share = |(&size, share): (&Bounded, f64)| {
            Bounded::new(size.value * share, size.error * share + gamma(3) * size.magnitude() + TINY)
        };
        log(settings, sum(&sizes.iter().zip(triangle).filter(|&(_, share)| share > 0.0).map(share).collect::<Vec<_>>()))
    });
    let bands: Vec<Bounded> = bands.collect();
    let count = f64::from(settings.mel_bands);
    let coefficient = |k: u32| {
        let weight = |band: usize| (2.0 / count).sqrt() * (f64::from(k) * PI / count * (band as f64 + 0.5)).cos();
        dot_of(Bounded::default(), bands.iter().enumerate().map(|(band, &log)| (Bounded::new(weight(band), UNIT), log)))
    };
    let mut features: Vec<Bounded> = (0..settings.coefficients).map(coefficient).collect();
    if settings.first == First::LogEnergy {
        features[0] = log(settings, sum(&squares));
    }
    features
}

/// ln(max(x, floor)), by an `ln` with an error of less than two units in the last place.
fn log(settings: &MfccSettings, x: Bounded) -> Bounded {
    let floored = |x: f64| x.max(f64::from(settings.log_floor)).ln();
    let (value, low, high) = (floored(x.value), floored(x.value - x.error), floored(x.value + x.error));
    let inherited = (high - value).max(value - low);
    Bounded::new(value, inherited + 4.0 * UNIT * (value.abs() + inherited))
}

/// The magnitude of every bin, and the maximum error of any.
fn spectrum(settings: &MfccSettings, samples: &[i16]) -> (Vec<f64>, f64) {
    let points = settings.fft_len as usize;
    let weight = |n: usize| match settings.window {
        Window::Hann => 0.5 - 0.5 * (2.0 * PI * n as f64 / f64::from(settings.window_len)).cos(),
        Window::Rectangular => 1.0,
        Window::Hamming => 0.54 - 0.46 * (2.0 * PI * n as f64 / f64::from(settings.window_len - 1)).cos(),
    };
    let x: Vec<f64> =
        samples.iter().take(points).enumerate().map(|(n, &s)| f64::from(s) / 32768.0 * weight(n)).collect();
    let turn: Vec<(f64, f64)> = (0..points).map(|k| (2.0 * PI * k as f64 / points as f64).sin_cos()).collect();
    let bin = |k: usize| {
        let terms = x.iter().enumerate().map(|(n, x)| (x, turn[k * n % points]));
        let (re, im) = terms.fold((0.0, 0.0), |(re, im), (x, (sin, cos))| (re + x * cos, im - x * sin));
        re.hypot(im)
    };
    let norm = (points as f64 * x.iter().map(|x| x * x).sum::<f64>()).sqrt();
    let level = UNIT + gamma(4) * (2.0_f64.sqrt() + UNIT);
    let levels = f64::from(settings.fft_len.ilog2()) * level;
    // The window weights are rounded, and so are their products with the samples.
    let error = (levels / (1.0 - levels) + gamma(2)) * norm;
    ((0..=points / 2).map(bin).collect(), error)
}

/// The share of every bin in every band.
fn triangles(settings: &MfccSettings) -> Vec<Vec<f64>> {
    let mel = |hz: f64| 1127.0 * (1.0 + hz / 700.0).ln();
    let (low, high) = (mel(f64::from(settings.lower_hz)), mel(f64::from(settings.upper_hz)));
    let corner = |k: u32| low + (high - low) * f64::from(k) / f64::from(settings.mel_bands + 1);
    let per_hz = f64::from(settings.bins_per_rate) / f64::from(settings.sample_rate);
    let place = |bin: usize| match settings.corners {
        MelCorners::Exact => mel(bin as f64 / per_hz),
        MelCorners::WholeBins => bin as f64,
    };
    let mut corners: Vec<f64> = (0..settings.mel_bands + 2).map(corner).collect();
    if settings.corners == MelCorners::WholeBins {
        let bins = corners.iter().map(|mel| (700.0 * ((mel / 1127.0).exp() - 1.0) * per_hz).floor());
        corners = bins
            .scan(-1.0, |last: &mut f64, bin| {
                *last = bin.max(*last + 1.0);
                Some(*last)
            })
            .collect();
        // The outer corners come from the settings directly, without the rounding of exp and ln.
        corners[0] = (f64::from(settings.lower_hz) * per_hz).floor();
        *corners.last_mut().expect("two bands have four corners") = (f64::from(settings.upper_hz) * per_hz).floor();
    }
    let share = |corners: &[f64], at: f64| match corners {
        &[left, middle, right] if left <= at && at <= right => {
            if at < middle {
                (at - left) / (middle - left)
            } else {
                (right - at) / (right - middle)
            }
        }
        _ => 0.0,
    };
    let bins = || 0..=settings.fft_len as usize / 2;
    // TensorFlow's `start_index_` leaves out a bin less than half a bin above the lower edge.
    let first = (1.5 + f64::from(settings.lower_hz) * per_hz).floor() as usize;
    let seen = |bin: usize| settings.corners == MelCorners::WholeBins || bin >= first;
    corners
        .windows(3)
        .map(|three| bins().map(|bin| if seen(bin) { share(three, place(bin)) } else { 0.0 }).collect())
        .collect()
}
