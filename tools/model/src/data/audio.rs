//! `.wav` and `.flac` files: mono, 16 bits, as the front end expects them. Nothing is resampled, mixed or rounded.

use std::io::BufWriter;
use std::path::Path;

use super::{DataError, Reason, guarded, read_bytes};
use crate::budget::Budget;
use crate::output::{Pending, prepare_file};

/// Mono audio.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audio {
    /// Sample rate in Hz.
    pub sample_rate: u32,
    /// Samples in order.
    pub samples: Vec<i16>,
}

impl Audio {
    /// Duration in seconds.
    pub fn seconds(&self) -> f64 {
        self.samples.len() as f64 / f64::from(self.sample_rate.max(1))
    }
}

/// Properties from a file's header.
#[derive(Clone, Copy)]
struct Format {
    sample_rate: u32,
    channels: u32,
    bits: u32,
    float: bool,
}

impl Format {
    /// Rejects anything but 16-bit mono at `wanted` Hz (`None`: any rate), and explains how to convert it.
    fn check(self, path: &Path, wanted: Option<u32>) -> Result<(), Reason> {
        let Self { sample_rate, channels, bits, float } = self;
        if channels == 1 && bits == 16 && !float && wanted.is_none_or(|rate| rate == sample_rate) {
            return Ok(());
        }
        let kind = if float { "float" } else { "PCM" };
        let channels = match channels {
            1 => "mono".to_owned(),
            2 => "stereo".to_owned(),
            n => format!("of {n} channels"),
        };
        let (listens, rate) = match wanted {
            Some(rate) => (format!("this model needs {rate} Hz mono"), format!("-r {rate} ")),
            None => ("mono is read".to_owned(), String::new()),
        };
        let file = path.display();
        Err(format!(
            "is {sample_rate} Hz {channels}, {bits}-bit {kind}; {listens}, 16-bit PCM: \
             convert with `sox {file} -b 16 -e signed-integer {rate}-c 1 OUT.wav`"
        )
        .into())
    }
}

/// Reads audio at any sample rate.
///
/// # Errors
/// If the file cannot be read, is not a complete `.wav` or `.flac`, or is not 16-bit mono.
pub fn read_audio(path: &Path) -> Result<Audio, DataError> {
    read(path, None)
}

/// Reads audio at `sample_rate`, the sample rate of a model.
///
/// # Errors
/// The errors of [`read_audio`], and a different sample rate. The message states the properties of the audio and how to
/// convert it.
pub fn read_audio_at(path: &Path, sample_rate: u32) -> Result<Audio, DataError> {
    read(path, Some(sample_rate))
}

/// Writes a `.wav` of 16 bits, but leaves the file [`Pending`].
///
/// # Errors
/// If the path does not end with `.wav`, or the file cannot be written.
pub fn prepare_wav(path: &Path, audio: &Audio) -> Result<Pending, DataError> {
    if !path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("wav")) {
        return Err(DataError::new(path, "is not named .wav, the only format of sound that is written: rename it"));
    }
    let failed = |error: hound::Error| match error {
        hound::Error::IoError(error) => DataError::io(path, "written", error),
        error => DataError::new(path, format!("cannot be written: {error}")),
    };
    let spec = hound::WavSpec {
        channels: 1,
        sample_rate: audio.sample_rate,
        bits_per_sample: 16,
        sample_format: hound::SampleFormat::Int,
    };
    prepare_file(path, |file| {
        let mut writer = hound::WavWriter::new(BufWriter::new(file), spec).map_err(failed)?;
        audio.samples.iter().try_for_each(|&sample| writer.write_sample(sample)).map_err(failed)?;
        writer.finalize().map_err(failed)
    })
}

fn read(path: &Path, wanted: Option<u32>) -> Result<Audio, DataError> {
    let bytes = read_bytes(path)?;
    // The format follows from the first bytes: many files named `.wav` are in another format.
    let audio = match bytes.get(..4) {
        Some(b"RIFF") => guarded(|| wav(&bytes, |format| format.check(path, wanted))),
        Some(b"fLaC") => guarded(|| flac(&bytes, |format| format.check(path, wanted))),
        _ => Ok(Err("is neither .wav nor .flac: convert the sound to one of them".into())),
    };
    audio.and_then(|audio| audio).map_err(|e| e.of(path))
}

fn wav(bytes: &[u8], check: impl Fn(Format) -> Result<(), Reason>) -> Result<Audio, Reason> {
    let mut reader = hound::WavReader::new(bytes).map_err(|e| format!("is not a readable WAV file ({e})"))?;
    let spec = reader.spec();
    check(Format {
        sample_rate: spec.sample_rate,
        channels: spec.channels.into(),
        bits: spec.bits_per_sample.into(),
        float: spec.sample_format == hound::SampleFormat::Float,
    })?;
    let declared = reader.len() as usize;
    let ends = |found: usize| format!("ends after {found} of {declared} samples");
    let mut samples = Vec::with_capacity(declared.min(bytes.len() / size_of::<i16>()));
    // The first sample shows whether samples take two bytes. Reading all of them singly takes longer than a small network.
    for sample in reader.samples::<i16>().take(1) {
        samples.push(sample.map_err(|_| ends(0))?);
    }
    let (rest, _) = reader.into_inner().as_chunks::<2>();
    samples.extend(rest.iter().take(declared.saturating_sub(1)).map(|sample| i16::from_le_bytes(*sample)));
    if samples.len() < declared {
        return Err(ends(samples.len()).into());
    }
    Ok(Audio { sample_rate: spec.sample_rate, samples })
}

fn flac(bytes: &[u8], check: impl Fn(Format) -> Result<(), Reason>) -> Result<Audio, Reason> {
    let damaged = |e: claxon::Error| Reason::from(format!("is not a whole FLAC ({e})"));
    // Comments are skipped: thousands of empty comments take more memory than their bytes in the file.
    let options = claxon::FlacReaderOptions { metadata_only: false, read_vorbis_comment: false };
    let mut reader = claxon::FlacReader::new_ext(bytes, options).map_err(damaged)?;
    let info = reader.streaminfo();
    check(Format { sample_rate: info.sample_rate, channels: info.channels, bits: info.bits_per_sample, float: false })?;
    // A few bytes of FLAC can expand to thousands of samples.
    let mut budget = Budget::of_file(bytes.len());
    let declared = info.samples.map_or(0, |samples| usize::try_from(samples).unwrap_or(usize::MAX));
    budget.take(declared, size_of::<i16>())?;
    let (mut samples, mut memory, mut blocks) = (Vec::with_capacity(declared), Vec::new(), reader.blocks());
    while let Some(block) = blocks.read_next_or_eof(memory).map_err(damaged)? {
        if block.channels() != 1 {
            return Err("changes its channels midway".into());
        }
        if samples.len() + block.duration() as usize > declared {
            // The list grows by doubling.
            budget.take(block.duration() as usize, 2 * size_of::<i16>())?;
        }
        for &sample in block.channel(0) {
            samples.push(i16::try_from(sample).map_err(|_| "has samples beyond 16 bits")?);
        }
        memory = block.into_buffer();
    }
    match info.samples {
        Some(declared) if declared != samples.len() as u64 => {
            Err(format!("ends after {} of {declared} samples", samples.len()).into())
        }
        _ => Ok(Audio { sample_rate: info.sample_rate, samples }),
    }
}
