//! The features of a frame in f32.

use core::{iter, mem};

use microfft::Complex32;

use super::frames::Frame;
use super::section::{FloatTables, Table};
use super::settings::{First, LogMel, Method, MfccSettings, Spectrum};
use crate::math;
use crate::rfft::rfft;

/// The features of a frame. `work` is `[fft_len + mel_bands]`.
pub(super) fn extract(
    settings: &MfccSettings,
    tables: &FloatTables<'_>,
    frame: Frame<'_>,
    work: &mut [u32],
    features: &mut [f32],
) {
    let Some((fft, bands)) = work.split_at_mut_checked(settings.fft_len as usize) else { return };
    let (fft, bands) = (bytemuck::must_cast_slice_mut(fft), bytemuck::must_cast_slice_mut(bands));
    let mut frame_of = Floats { settings, tables, fft, bands, features };
    frame_of.window(frame);
    frame_of.mel();
    match settings.method {
        Method::LogMel(log_mel) => frame_of.decibels(log_mel),
        _ => frame_of.dct(),
    }
}

/// The buffers of a frame.
struct Floats<'s, 'a> {
    settings: &'s MfccSettings,
    tables: &'s FloatTables<'a>,
    /// [fft_len]
    fft: &'s mut [f32],
    /// [mel_bands]
    bands: &'s mut [f32],
    /// [coefficients]
    features: &'s mut [f32],
}

impl Floats<'_, '_> {
    /// Multiplies the samples by the window, cut or padded with zeros to the length of the FFT.
    fn window(&mut self, Frame { before, pieces: [straight, wrapped] }: Frame<'_>) {
        let samples = straight.iter().chain(wrapped).copied();
        self.fft.fill(0.0);
        // A rectangular window has one weight.
        let slots = self.fft.iter_mut().zip(samples.clone()).zip(floats(self.tables.window).cycle());
        if let Method::LogMel(LogMel { emphasis, .. }) = self.settings.method {
            for (((slot, sample), weight), previous) in slots.zip(iter::once(before).chain(samples)) {
                *slot = (f32::from(sample) - emphasis * f32::from(previous)) * weight;
            }
            return;
        }
        for ((slot, sample), weight) in slots {
            *slot = f32::from(sample) * weight;
        }
    }

    /// Computes the logarithms of the mel bands' energies from the windowed samples, and of the total energy if it is a
    /// feature.
    ///
    /// ```text
    /// band[b] = Σ S[k] · (1 - weight[k])  for k in edge[b]..edge[b+1],  S[k] = |X[k]| or |X[k]|²
    ///         + Σ S[k] · weight[k]        for k in edge[b+1]..edge[b+2]
    /// ```
    fn mel(&mut self) {
        let &MfccSettings { spectrum: of_bin, log_floor: floor, first, .. } = self.settings;
        let edges = self.tables.edges.iter().map(|&edge| u32::from_le_bytes(edge) as usize);
        let spectrum = rfft(self.fft);
        let squares = spectrum.iter().map(square);
        if let (First::LogEnergy, Some(feature)) = (first, self.features.first_mut()) {
            *feature = math::ln(squares.sum::<f32>().max(floor));
        }
        // The bin of half the sample rate is real; it is stored as the imaginary part of bin 0.
        let nyquist = spectrum.first_mut().map(|bin| mem::take(&mut bin.im));
        let nyquist = nyquist.map(|im| im * im);
        let squares = spectrum.iter().map(square).chain(nyquist);
        let sizes = squares.map(|square| if of_bin == Spectrum::Power { square } else { math::sqrt(square) });
        let first_bin = edges.clone().next().unwrap_or(0);
        let mut bins = sizes.skip(first_bin).zip(floats(self.tables.weights));
        let mut widths = edges.clone().zip(edges.skip(1)).map(|(from, to)| to.saturating_sub(from));
        let mut share = |bins_wide: usize| {
            bins.by_ref().take(bins_wide).fold((0.0, 0.0), |(falling, rising), (size, weight)| {
                let weighted = size * weight;
                (falling + weighted, rising + (size - weighted))
            })
        };
        let (_, mut below) = share(widths.next().unwrap_or(0));
        for (band, width) in self.bands.iter_mut().zip(widths) {
            let (falling, rising) = share(width);
            *band = math::ln((below + falling).max(floor));
            below = rising;
        }
    }

    /// feature[b] = (10 log₁₀ e · band[b] - lowest_db) / (highest_db - lowest_db), limited to 0 to 1
    fn decibels(&mut self, LogMel { lowest_db, highest_db, .. }: LogMel) {
        const DECIBELS: f32 = 10.0 / core::f32::consts::LN_10;
        for (feature, &band) in self.features.iter_mut().zip(&*self.bands) {
            *feature = ((DECIBELS * band - lowest_db) / (highest_db - lowest_db)).clamp(0.0, 1.0);
        }
    }

    /// feature[k] = Σ dct[k][b] · band[b], for the features that are coefficients
    fn dct(&mut self) {
        let mut rows = self.tables.dct;
        for feature in self.features.iter_mut().skip(usize::from(self.settings.first == First::LogEnergy)) {
            let (row, rest) = rows.split_at_checked(self.bands.len()).unwrap_or_default();
            (*feature, rows) = (dot(row, self.bands), rest);
        }
    }
}

/// Inner product in eight partial sums. The logarithms all have one sign and the first coefficient falls to -247, so
/// that a single running sum has an error of 7e-5 for silence; with eight it is within 2e-5 (covered by a test).
fn dot(row: Table<'_>, bands: &[f32]) -> f32 {
    let mut sums = [0.0; 8];
    let mut add = |row: Table<'_>, bands: &[f32]| {
        for ((sum, weight), band) in sums.iter_mut().zip(floats(row)).zip(bands) {
            *sum += weight * band;
        }
    };
    let ((row_blocks, row), (band_blocks, bands)) = (row.as_chunks::<8>(), bands.as_chunks::<8>());
    for (row, bands) in row_blocks.iter().zip(band_blocks) {
        add(row, bands);
    }
    add(row, bands);
    let [a, b, c, d, e, f, g, h] = sums;
    ((a + b) + (c + d)) + ((e + f) + (g + h))
}

fn floats(table: Table<'_>) -> impl Iterator<Item = f32> + Clone {
    table.iter().map(|&word| f32::from_le_bytes(word))
}

fn square(bin: &Complex32) -> f32 {
    bin.re * bin.re + bin.im * bin.im
}
