//! Noise suppression for speech, frame by frame: RNNoise (Valin 2018), with its network stepped from an image.
//!
//! ```text
//! cargo run --release -p tidegate-tools --example denoise -- weights.rnn noisy.wav clean.wav
//! ```
//!
//! The model is RNNoise's weights file, or an image that `tidegate pack` made from it. Sound is 48 kHz mono with 16 bits:
//! `.wav`, or raw little-endian samples. The output is one frame of 480 samples behind the input. As in RNNoise's own
//! program, the first output frame and an incomplete frame at the end are left out.
//!
//! Features and pitch filter are those of the crate `nnnoiseless`, a port of RNNoise. Gains, synthesis and network are
//! below.

use std::error::Error;
use std::fs;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

use easyfft::prelude::*;
use hound::{SampleFormat, WavReader, WavSpec, WavWriter};
use nnnoiseless::DenoiseFeatures;
use tidegate::{Model, State, StepError};
use tidegate_model::load::{Settings, image};
use tidegate_model::output::prepare_file;

/// Samples per frame: 10 ms.
pub const FRAME: usize = 480;
/// Frequency bands, each with a gain.
pub const BANDS: usize = 22;
/// Frequency bins of 50 Hz, for a frame and the one before it.
const BINS: usize = FRAME + 1;
/// The center bin of each band. Above the last one, 20 kHz, the output is zero.
const MIDDLES: [usize; BANDS] =
    [0, 4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 136, 160, 192, 240, 312, 400];
/// Minimum ratio between the gains of consecutive frames.
const DECAY: f32 = 0.6;
const SOUND: WavSpec =
    WavSpec { channels: 1, sample_rate: 48_000, bits_per_sample: 16, sample_format: SampleFormat::Int };

/// The network's output for a frame.
#[derive(Clone, Copy, Debug)]
pub struct Heard {
    /// Share of speech in each band, 0 to 1.
    pub gains: [f32; BANDS],
    /// Probability of speech.
    pub voice: f32,
}

/// The state of a stream.
pub struct Denoiser<'m, 'b> {
    model: &'m Model<'m>,
    state: State<'b>,
    scratch: Vec<u32>,
    features: Box<DenoiseFeatures>,
    gains: [f32; BANDS],
    window: [f32; 2 * FRAME],
    /// The second half of the last synthesis window.
    tail: [f32; FRAME],
}

impl<'m, 'b> Denoiser<'m, 'b> {
    /// Starts a stream. `memory` holds the state of the network.
    pub fn new(model: &'m Model<'m>, memory: &'b mut [u32]) -> Result<Self, Box<dyn Error>> {
        let ports = |sizes: &mut dyn Iterator<Item = usize>| sizes.collect::<Vec<_>>();
        let inputs = ports(&mut model.inputs().map(|port| port.size));
        let outputs = ports(&mut model.outputs().map(|port| port.size));
        if inputs != [42] || outputs != [BANDS, 1] {
            return Err(format!(
                "its inputs are {inputs:?} and its outputs {outputs:?}; those of RNNoise are [42] and [22, 1]"
            )
            .into());
        }
        Ok(Self {
            model,
            state: State::new(model, memory)?,
            scratch: vec![0; model.scratch_words()],
            features: Box::new(DenoiseFeatures::new()),
            gains: [0.0; BANDS],
            window: std::array::from_fn(window),
            tail: [0.0; FRAME],
        })
    }

    /// Processes a frame of samples from -32768 to 32767 and writes the frame before it to `output`. Returns `None` for
    /// silence, for which the network is not stepped.
    pub fn push(&mut self, frame: &[f32; FRAME], output: &mut [f32; FRAME]) -> Result<Option<Heard>, StepError> {
        self.features.shift_and_filter_input(frame);
        let is_silent = self.features.compute_frame_features();
        let mut heard = None;
        if !is_silent {
            let (mut gains, mut voice) = ([0.0; BANDS], [0.0]);
            let mut outputs = [gains.as_mut_slice(), &mut voice];
            let _ =
                self.model.step_ports(&mut self.state, &mut self.scratch, &[self.features.features()], &mut outputs)?;
            heard = Some(Heard { gains, voice: voice[0] });
            self.features.pitch_filter(&gains);
            for (last, gain) in self.gains.iter_mut().zip(gains) {
                *last = gain.max(DECAY * *last);
            }
            self.features.x *= gains_of_bins(&self.gains).as_slice();
        }
        // The spectrum of `nnnoiseless` is scaled by 1 / 480; this inverse transform of 960 bins is not scaled.
        let sound = self.features.x.real_ifft();
        let (first, second) = sound.split_at(FRAME);
        let (rising, falling) = self.window.split_at(FRAME);
        for (((y, tail), &x), w) in output.iter_mut().zip(&self.tail).zip(first).zip(rising) {
            *y = x / 2.0 * w + tail;
        }
        for ((tail, &x), w) in self.tail.iter_mut().zip(second).zip(falling) {
            *tail = x / 2.0 * w;
        }
        Ok(heard)
    }
}

/// The Vorbis window over two frames. The squares of overlapping windows add up to 1.
fn window(at: usize) -> f32 {
    use std::f64::consts::FRAC_PI_2;
    let rise = (FRAC_PI_2 * (at.min(2 * FRAME - 1 - at) as f64 + 0.5) / FRAME as f64).sin();
    (FRAC_PI_2 * rise * rise).sin() as f32
}

/// Interpolates linearly between the centers of bands.
fn gains_of_bins(bands: &[f32; BANDS]) -> [f32; BINS] {
    let mut bins = [0.0; BINS];
    for (&[from, to], &[low, high]) in MIDDLES.array_windows().zip(bands.array_windows()) {
        let width = (to - from) as f32;
        for (bin, j) in bins[from..to].iter_mut().zip(0_u16..) {
            let share = f32::from(j) / width;
            *bin = (1.0 - share) * low + share * high;
        }
    }
    bins
}

/// Reads all samples of a file.
fn read(path: &Path) -> Result<Vec<i16>, Box<dyn Error>> {
    if !is_wav(path) {
        let bytes = fs::read(path)?;
        return Ok(bytes.as_chunks().0.iter().map(|&sample| i16::from_le_bytes(sample)).collect());
    }
    let mut reader = WavReader::open(path)?;
    match reader.spec() {
        SOUND => Ok(reader.samples().collect::<Result<_, _>>()?),
        other => Err(format!("it must be 48 kHz mono with 16 bits, but is {other:?}").into()),
    }
}

/// Writes samples to `file`, in the format of the extension in `path`.
fn write(path: &Path, file: &mut fs::File, samples: &[i16]) -> Result<(), Box<dyn Error>> {
    let mut file = BufWriter::new(file);
    if is_wav(path) {
        let mut writer = WavWriter::new(file, SOUND)?;
        samples.iter().try_for_each(|&sample| writer.write_sample(sample))?;
        return Ok(writer.finalize()?);
    }
    samples.iter().try_for_each(|sample| file.write_all(&sample.to_le_bytes()))?;
    Ok(file.flush()?)
}

fn is_wav(path: &Path) -> bool {
    path.extension().is_some_and(|end| end.eq_ignore_ascii_case("wav"))
}

/// Adds the name of a file to an error.
fn blame(path: &Path) -> impl Fn(Box<dyn Error>) -> String {
    move |error| format!("{}: {error}", path.display())
}

/// Denoises a file with a model. Returns the number of output frames, and the number of frames with speech. The output
/// file appears only when it is complete.
pub fn denoise(model: &Path, input: &Path, output: &Path) -> Result<(usize, usize), Box<dyn Error>> {
    let buffer = image(model, &Settings::default(), None)?;
    let network = buffer.model()?;
    let mut memory = vec![0; network.state_words()];
    let mut stream = Denoiser::new(&network, &mut memory).map_err(blame(model))?;
    let (mut samples, mut voiced) = (Vec::new(), 0);
    for frame in read(input).map_err(blame(input))?.as_chunks::<FRAME>().0 {
        let mut clean = [0.0; FRAME];
        let heard = stream.push(&frame.map(f32::from), &mut clean)?;
        voiced += usize::from(heard.is_some_and(|heard| heard.voice > 0.5));
        // The cast saturates.
        samples.extend(clean.map(|sample| sample.round() as i16));
    }
    let clean = samples.get(FRAME..).unwrap_or_default();
    let pending =
        prepare_file::<Box<dyn Error>>(output, |file| Ok(write(output, file, clean).map_err(blame(output))?))?;
    pending.keep()?;
    Ok((clean.len() / FRAME, voiced))
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [model, input, output] = args.as_slice() else {
        eprintln!("usage: denoise WEIGHTS.rnn NOISY.wav CLEAN.wav");
        return ExitCode::from(2);
    };
    match denoise(model.as_ref(), input.as_ref(), output.as_ref()) {
        Ok((frames, voiced)) => {
            println!("{output}: {frames} frames of 10 ms, speech in {voiced}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
