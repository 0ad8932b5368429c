//! The stream: samples in as they come, a frame of features whenever one is complete.

use core::mem;

use microfft::{Complex32, real};

use super::frames::{Due, Frame, Frames};
use super::integer;
use super::section::{FloatTables, Mfcc, Table, Tables};
use super::settings::{First, MfccSettings, Spectrum};
use crate::{error::BufferTooSmall, math};

/// A stream of samples that turns into frames of features in f32; of a section in integers, each times its scale, which
/// are those of [`IntegerFrontEnd`](super::IntegerFrontEnd).
///
/// ```
/// # fn show(front_end: &mut tidegate::front_end::FrontEnd, mut samples: &[i16]) {
/// while !samples.is_empty() {
///     let taken = front_end.push(samples);
///     samples = &samples[taken..];
///     while let Some(features) = front_end.next() {
///         // One step of the network.
/// #       let _ = features;
///     }
/// }
/// # }
/// ```
///
/// The features do not depend on how the samples are cut into pushes, not even in their last bit. In floats and with the
/// feature `libm` they are within 5e-4 of TensorFlow's for speech, and within 0.01 for a signal that is constant: there the
/// upper bands hold only the window's side lobes, which f32 resolves no better. Of sonopy's they are within 1e-5.
#[derive(Debug)]
pub struct FrontEnd<'a, 'b> {
    mfcc: Mfcc<'a>,
    frames: Frames<'b>,
    /// [fft_len + mel_bands]
    work: &'b mut [u32],
    /// [coefficients]
    features: &'b mut [f32],
}

impl<'a, 'b> FrontEnd<'a, 'b> {
    /// Starts without samples. `memory` is borrowed until the front end is dropped.
    ///
    /// # Errors
    /// If `memory` is shorter than [`Mfcc::memory_words`].
    pub fn new(mfcc: &Mfcc<'a>, memory: &'b mut [u32]) -> Result<Self, BufferTooSmall> {
        let (samples, work, features) = mfcc.settings().split(memory)?;
        let features = bytemuck::must_cast_slice_mut(features);
        Ok(Self { mfcc: *mfcc, frames: Frames::new(mfcc.settings(), samples), work, features })
    }

    /// Takes samples until a frame is complete; returns how many it took, 0 while a frame waits for
    /// [`next`](Self::next).
    pub fn push(&mut self, samples: &[i16]) -> usize {
        self.frames.push(samples)
    }

    /// The features of the next frame, once its samples are there; then moves on by the stride. With the first frame come
    /// those of zeros in front of it ([`MfccSettings::lead_frames`]).
    // Not an `Iterator`: the features are borrowed from the front end.
    #[expect(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Option<&[f32]> {
        match self.frames.due()? {
            Due::Zeros => self.features.fill(0.0),
            Due::Samples => {
                (self.mfcc.hear)(&self.mfcc, self.frames.frame(), self.work, self.features);
                self.frames.advance();
            }
        }
        Some(self.features)
    }

    /// Forgets every sample, as if new.
    pub fn reset(&mut self) {
        self.frames.reset();
    }
}

/// In integers, each times the scale.
pub(super) fn hear_integer(mfcc: &Mfcc<'_>, frame: Frame<'_>, work: &mut [u32], features: &mut [f32]) {
    let (Tables::Integer(tables), Some(scale)) = (&mfcc.tables, mfcc.scale()) else { return };
    integer::hear(mfcc.settings(), tables, frame, work, features.iter_mut(), |value| f32::from(value) * scale);
}

/// In f32.
pub(super) fn hear_float(mfcc: &Mfcc<'_>, frame: Frame<'_>, work: &mut [u32], features: &mut [f32]) {
    let Tables::Float(tables) = &mfcc.tables else { return };
    let Some((fft, bands)) = work.split_at_mut_checked(mfcc.settings().fft_len as usize) else { return };
    let (fft, bands) = (bytemuck::must_cast_slice_mut(fft), bytemuck::must_cast_slice_mut(bands));
    let mut frame_of = Floats { settings: mfcc.settings(), tables, fft, bands, features };
    frame_of.window(frame);
    frame_of.mel();
    frame_of.dct();
}

/// A frame on its way to its features.
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
    /// The samples under the window, cut or padded with zeros.
    fn window(&mut self, [straight, wrapped]: Frame<'_>) {
        let samples = straight.iter().chain(wrapped);
        self.fft.fill(0.0);
        // A rectangular window has one weight.
        for ((slot, &sample), weight) in self.fft.iter_mut().zip(samples).zip(floats(self.tables.window).cycle()) {
            *slot = f32::from(sample) * weight;
        }
    }

    /// Logarithms of the mel bands' energies, from the samples under the window; and of the energy, where it is a
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
        // The bin of half the sample rate is real and travels as the imaginary part of bin 0.
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

    /// feature[k] = Σ dct[k][b] · band[b], for the features that are coefficients
    fn dct(&mut self) {
        let mut rows = self.tables.dct;
        for feature in self.features.iter_mut().skip(usize::from(self.settings.first == First::LogEnergy)) {
            let (row, rest) = rows.split_at_checked(self.bands.len()).unwrap_or_default();
            (*feature, rows) = (dot(row, self.bands), rest);
        }
    }
}

/// In eight partial sums: the logarithms all have one sign and the first coefficient reaches -247, so that one
/// running sum is off by 7e-5 in silence; eight stay within 2e-5 (a test looks).
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

/// Bins 0 to N / 2 - 1 of the FFT of N reals, in their place; the imaginary part of bin 0 is bin N / 2.
fn rfft(signal: &mut [f32]) -> &mut [Complex32] {
    match signal.len() {
        256 => signal.first_chunk_mut().map_or(&mut [], |signal| real::rfft_256(signal)),
        512 => signal.first_chunk_mut().map_or(&mut [], |signal| real::rfft_512(signal)),
        1024 => signal.first_chunk_mut().map_or(&mut [], |signal| real::rfft_1024(signal)),
        2048 => signal.first_chunk_mut().map_or(&mut [], |signal| real::rfft_2048(signal)),
        _ => &mut [],
    }
}
