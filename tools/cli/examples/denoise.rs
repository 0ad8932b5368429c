//! Takes the noise out of speech, frame by frame: RNNoise (Valin 2018), its network stepped from an image.
//!
//! ```text
//! cargo run --release -p tidegate-tools --example denoise -- weights.rnn noisy.wav clean.wav
//! ```
//!
//! The model is RNNoise's weights file, or what `tidegate pack` made of it. Sound is 48 kHz mono of 16 bits: `.wav`, else
//! samples alone, little-endian. What goes in 480 samples at a time comes out 480 samples later; the first frame, which
//! has nothing before it, and what does not fill a frame at the end are left out, as RNNoise's own program does.
//!
//! Features and the pitch filter are those of the crate `nnnoiseless`, a port of RNNoise; gains, synthesis and the network are
//! below.

use std::error::Error;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::Path;
use std::process::ExitCode;

use easyfft::prelude::*;
use hound::{SampleFormat, WavReader, WavSpec, WavWriter};
use nnnoiseless::DenoiseFeatures;
use tidegate::step::StepError;
use tidegate::{Model, State};
use tidegate_tools::load::{Settings, image};
use tidegate_tools::output::prepare_file;

/// Samples of a frame: 10 ms.
pub const FRAME: usize = 480;
/// Bands that have a gain.
pub const BANDS: usize = 22;
/// What a frame and the one before it are in frequency: bins of 50 Hz.
const BINS: usize = FRAME + 1;
/// Bins at the middle of each band. Above the last, 20 kHz, nothing comes out.
const MIDDLES: [usize; BANDS] =
    [0, 4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 136, 160, 192, 240, 312, 400];
/// What is left of a gain a frame later, at least.
const DECAY: f32 = 0.6;
const SOUND: WavSpec =
    WavSpec { channels: 1, sample_rate: 48_000, bits_per_sample: 16, sample_format: SampleFormat::Int };

/// What the network says about a frame.
#[derive(Clone, Copy, Debug)]
pub struct Heard {
    /// How much of each band is speech, 0 to 1.
    pub gains: [f32; BANDS],
    /// The probability that somebody speaks.
    pub voice: f32,
}

/// A stream of sound on its way.
pub struct Denoiser<'m, 'b> {
    model: &'m Model<'m>,
    state: State<'b>,
    scratch: Vec<u32>,
    features: Box<DenoiseFeatures>,
    gains: [f32; BANDS],
    window: [f32; 2 * FRAME],
    /// The second half of the frames before.
    tail: [f32; FRAME],
}

impl<'m, 'b> Denoiser<'m, 'b> {
    /// A stream at its beginning, whose state of the network is `memory`.
    pub fn new(model: &'m Model<'m>, memory: &'b mut [u32]) -> Result<Self, Box<dyn Error>> {
        let ports = |sizes: &mut dyn Iterator<Item = usize>| sizes.collect::<Vec<_>>();
        let inputs = ports(&mut model.inputs().map(|port| port.size));
        let outputs = ports(&mut model.outputs().map(|port| port.size));
        if inputs != [42] || outputs != [BANDS, 1] {
            return Err(
                format!("it takes {inputs:?} and gives {outputs:?}; RNNoise takes [42] and gives [22, 1]").into()
            );
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

    /// Takes a frame of samples, which count from -32768 to 32767, and gives the one before it. The network hears nothing
    /// of silence.
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
        // The crate's spectrum is scaled by 1 / 480, and a transform of 960 back is not.
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

/// Vorbis's window over two frames: with the one a frame later, its squares add up to 1.
fn window(at: usize) -> f32 {
    use std::f64::consts::FRAC_PI_2;
    let rise = (FRAC_PI_2 * (at.min(2 * FRAME - 1 - at) as f64 + 0.5) / FRAME as f64).sin();
    (FRAC_PI_2 * rise * rise).sin() as f32
}

/// Straight lines between the middles of bands.
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

/// Where samples come from: a frame at a time.
enum Source {
    Wav(WavReader<BufReader<File>>),
    Raw(BufReader<File>),
}

impl Source {
    fn open(path: &Path) -> Result<Self, Box<dyn Error>> {
        if !is_wav(path) {
            return Ok(Self::Raw(BufReader::new(File::open(path)?)));
        }
        let reader = WavReader::open(path)?;
        match reader.spec() {
            SOUND => Ok(Self::Wav(reader)),
            other => Err(format!("it must be 48 kHz mono of 16 bits, and is {other:?}").into()),
        }
    }

    /// The next frame, if a whole one is left.
    fn frame(&mut self) -> Result<Option<[f32; FRAME]>, Box<dyn Error>> {
        let mut frame = [0.0; FRAME];
        for sample in &mut frame {
            let next = match self {
                Self::Wav(reader) => reader.samples::<i16>().next().transpose()?,
                Self::Raw(reader) => {
                    let mut bytes = Vec::with_capacity(2);
                    reader.take(2).read_to_end(&mut bytes)?;
                    bytes.first_chunk().map(|&bytes| i16::from_le_bytes(bytes))
                }
            };
            let Some(next) = next else { return Ok(None) };
            *sample = next.into();
        }
        Ok(Some(frame))
    }
}

/// Where they go.
enum Sink<'f> {
    Wav(WavWriter<BufWriter<&'f mut File>>),
    Raw(BufWriter<&'f mut File>),
}

impl<'f> Sink<'f> {
    /// Into a file that will be called so.
    fn new(path: &Path, file: &'f mut File) -> Result<Self, Box<dyn Error>> {
        let file = BufWriter::new(file);
        Ok(if is_wav(path) { Self::Wav(WavWriter::new(file, SOUND)?) } else { Self::Raw(file) })
    }

    fn write(&mut self, frame: &[f32; FRAME]) -> Result<(), Box<dyn Error>> {
        // A cast saturates.
        let mut samples = frame.iter().map(|sample| sample.round() as i16);
        match self {
            Self::Wav(writer) => samples.try_for_each(|sample| writer.write_sample(sample))?,
            Self::Raw(writer) => samples.try_for_each(|sample| writer.write_all(&sample.to_le_bytes()))?,
        }
        Ok(())
    }

    fn finish(self) -> Result<(), Box<dyn Error>> {
        match self {
            Self::Wav(writer) => writer.finalize()?,
            Self::Raw(mut writer) => writer.flush()?,
        }
        Ok(())
    }
}

fn is_wav(path: &Path) -> bool {
    path.extension().is_some_and(|end| end.eq_ignore_ascii_case("wav"))
}

/// An error with the file that it is about.
fn blame(path: &Path) -> impl Fn(Box<dyn Error>) -> String {
    move |error| format!("{}: {error}", path.display())
}

/// Denoises a file with a model. Gives how many frames came out, and in how many of them somebody speaks. The output has its
/// name only when all of it is there.
pub fn denoise(model: &Path, input: &Path, output: &Path) -> Result<(usize, usize), Box<dyn Error>> {
    let buffer = image(model, &Settings::default(), None)?;
    let network = buffer.model()?;
    let mut memory = vec![0; network.state_words()];
    let mut stream = Denoiser::new(&network, &mut memory).map_err(blame(model))?;
    let mut source = Source::open(input).map_err(blame(input))?;
    let (mut frames, mut voiced) = (0_usize, 0);
    let whole = prepare_file::<Box<dyn Error>>(output, |file| {
        let mut sink = Sink::new(output, file).map_err(blame(output))?;
        let mut clean = [0.0; FRAME];
        while let Some(frame) = source.frame().map_err(blame(input))? {
            let heard = stream.push(&frame, &mut clean)?;
            if frames > 0 {
                sink.write(&clean).map_err(blame(output))?;
            }
            frames += 1;
            voiced += usize::from(heard.is_some_and(|heard| heard.voice > 0.5));
        }
        Ok(sink.finish().map_err(blame(output))?)
    })?;
    whole.keep()?;
    Ok((frames.saturating_sub(1), voiced))
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [model, input, output] = args.as_slice() else {
        eprintln!("use: denoise WEIGHTS.rnn NOISY.wav CLEAN.wav");
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
