//! What comes before the recurrent layers: a placeholder for features, or TensorFlow's audio ops from a wav file.

use super::graph::Value;
use super::matcher::Matcher;
use crate::canonical::{MAX_SIZE, Mfcc, Schedule};
use crate::error::ImportError;
use crate::format::graphdef::attr_value::Value as Attr;
use crate::format::graphdef::{FLOAT, STRING};

/// DecodeWav takes the rate from the file; TensorFlow's speech commands models are trained and fed at this one.
const SAMPLE_RATE: u32 = 16_000;
/// A new window starts every 240 ms (DESIGN.md, The command line).
const WINDOW_EVERY_SECONDS: f64 = 0.24;
/// `kFilterbankFloor` in tensorflow/core/kernels/mfcc.cc
const LOG_FLOOR: f32 = 1e-12;

/// The input of the recurrent layers.
pub struct Features {
    /// The graph's name for it.
    pub name: String,
    /// Features of a step.
    pub size: usize,
    pub front_end: Option<Mfcc>,
    pub schedule: Schedule,
}

impl Features {
    /// Reads `value`, a [batch, steps, features] tensor, back to the graph's input.
    pub fn read(m: &mut Matcher<'_>, value: Value, steps: usize) -> Result<Self, ImportError> {
        let (mut value, mut op) = m.op(value)?;
        let mut shape: Option<[usize; 2]> = None;
        while op == "Reshape" {
            let [inner, dims] = m.expect(value, op)?;
            let dims = m.vector(dims)?;
            shape = Some(match (shape, &*dims) {
                (None, &[-1 | 1, time, size]) if (1..=MAX_SIZE as i64).contains(&size) && time == steps as i64 => {
                    [steps, size as usize]
                }
                // Features flattened on the way: the same values in the same order.
                (Some([steps, size]), [-1 | 1, inner @ ..]) if product(inner) == Some(steps * size) => [steps, size],
                _ => return m.fail(value, format!("it must shape the input as [-1, {steps}, features]")),
            });
            (value, op) = m.op(inner)?;
        }
        let name = m.node(value).def.name.clone();
        let frames = u32::try_from(steps).unwrap_or(u32::MAX);
        if op == "Placeholder" {
            let size = placeholder_size(m, value, shape, steps)?;
            // The graph looks at windows of its own length and says nothing of overlap.
            return Ok(Self { name, size, front_end: None, schedule: Schedule::Windows { frames, every: frames } });
        }
        let (mfcc, found) = read_mfcc(m, value)?;
        let coefficients = mfcc.coefficients as usize;
        if shape.is_some_and(|shape| shape != [found, coefficients]) || found != steps {
            return m.fail(value, format!("it gives {found} x {coefficients}, but the loop takes {steps} steps"));
        }
        let every = WINDOW_EVERY_SECONDS * f64::from(SAMPLE_RATE) / f64::from(mfcc.stride_len);
        let schedule = Schedule::Windows { frames, every: (every.round() as u32).max(1) };
        Ok(Self { name, size: coefficients, front_end: Some(mfcc), schedule })
    }
}

fn product(dims: &[i64]) -> Option<usize> {
    dims.iter().try_fold(1_usize, |product, &dim| product.checked_mul(usize::try_from(dim).ok()?))
}

fn placeholder_size(
    m: &mut Matcher<'_>,
    value: Value,
    shape: Option<[usize; 2]>,
    steps: usize,
) -> Result<usize, ImportError> {
    let [] = m.expect(value, "Placeholder")?;
    if m.attr(value, "dtype") != Some(&Attr::Type(FLOAT)) {
        return m.fail(value, "features must be floats");
    }
    let dims: Vec<i64> = match m.attr(value, "shape") {
        Some(Attr::Shape(shape)) => shape.dim.iter().map(|dim| dim.size).collect(),
        _ => Vec::new(),
    };
    match (shape, &*dims) {
        (Some([_, size]), _) => Ok(size),
        (None, &[-1 | 1, time, size]) if time == steps as i64 && size > 0 => Ok(size as usize),
        _ => m.fail(value, format!("its shape must be [-1, {steps}, features]")),
    }
}

/// The settings of DecodeWav, AudioSpectrogram and Mfcc, and how many frames they give.
fn read_mfcc(m: &mut Matcher<'_>, mfcc: Value) -> Result<(Mfcc, usize), ImportError> {
    let [spectrogram, rate] = m.expect(mfcc, "Mfcc")?;
    let spectrogram = m.source(spectrogram)?;
    let [samples] = m.expect(spectrogram, "AudioSpectrogram")?;
    let wav = m.source(samples)?;
    let [file] = m.expect(wav, "DecodeWav")?;
    if m.source(rate)? != (Value { output: 1, ..wav }) {
        return m.fail(mfcc, "its sample rate must come from the wav file");
    }
    let file = m.source(file)?;
    let [] = m.expect(file, "Placeholder")?;
    if m.attr(file, "dtype") != Some(&Attr::Type(STRING)) {
        return m.fail(file, "a wav file must be a string");
    }
    if m.int(wav, "desired_channels")? != Some(1) {
        return m.fail(wav, "its desired_channels must be 1");
    }
    if !m.flag(spectrogram, "magnitude_squared", false)? {
        return m.fail(spectrogram, "its magnitude_squared must be true");
    }
    let size = |value, name: &str, default: Option<u32>| {
        let given = m.int(value, name)?;
        let size = given.map_or(default, |given| u32::try_from(given).ok());
        match size.filter(|&size| size > 0) {
            Some(size) => Ok(size),
            None => m.fail(value, format!("its {name} must be at least 1")),
        }
    };
    let samples = size(wav, "desired_samples", None)?;
    let window_len = size(spectrogram, "window_size", None)?;
    let stride_len = size(spectrogram, "stride", None)?;
    // Defaults of the op Mfcc (tensorflow/core/ops/audio_ops.cc).
    let mel_bands = size(mfcc, "filterbank_channel_count", Some(40))?;
    let coefficients = size(mfcc, "dct_coefficient_count", Some(13))?;
    let (Some(after_first), Some(fft_len)) = (samples.checked_sub(window_len), window_len.checked_next_power_of_two())
    else {
        return m.fail(spectrogram, format!("its window of {window_len} is longer than the {samples} samples"));
    };
    let settings = Mfcc {
        sample_rate: SAMPLE_RATE,
        window_len,
        stride_len,
        fft_len,
        mel_bands,
        lower_hz: m.float(mfcc, "lower_frequency_limit")?.unwrap_or(20.0),
        upper_hz: m.float(mfcc, "upper_frequency_limit")?.unwrap_or(4000.0),
        coefficients,
        log_floor: LOG_FLOOR,
    };
    Ok((settings, (after_first / stride_len) as usize + 1))
}
