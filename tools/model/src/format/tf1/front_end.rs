//! TensorFlow's audio ops, which compute features from a wav file.

use tidegate::front_end::{First, MelCorners, Method, Spectrum, Window};

use super::graph::{Graph, GraphNode, Source};
use super::symbol::fail_if;
use crate::canonical::Mfcc;
use crate::format::description::Assumption;
use crate::format::graphdef::{STRING, attr_value::Value as Attr};

/// DecodeWav takes the rate from the file. TensorFlow's speech commands models are trained and fed at this rate.
const SAMPLE_RATE: u32 = 16_000;
/// `kFilterbankFloor` in tensorflow/core/kernels/mfcc.cc
const LOG_FLOOR: f32 = 1e-12;

/// The audio front end of a graph.
#[derive(Clone, Debug)]
pub struct FrontEnd {
    /// The Mfcc node.
    pub node: usize,
    pub mfcc: Mfcc,
    /// Frames per clip.
    pub frames: usize,
}

impl FrontEnd {
    /// The sample rate, which a graph leaves to the wav file.
    pub fn assumption(&self) -> Assumption {
        Assumption {
            what: format!(
                "its sounds have {SAMPLE_RATE} samples a second, since DecodeWav leaves the rate to the file"
            ),
            option: "--front-end FILE",
        }
    }

    /// Reads the settings of DecodeWav, AudioSpectrogram and Mfcc, and computes the number of frames.
    pub fn read(graph: &Graph<'_>, node: usize) -> Result<Self, String> {
        let inputs = |node: usize, op: &str, count: usize| {
            graph.check_attributes(node)?;
            let GraphNode { def, inputs, .. } = &graph.nodes[node];
            match def.op == op && inputs.len() == count {
                true => Ok(inputs.iter().map(|&input| graph.behind(input)).collect::<Vec<Source>>()),
                false => Err(format!("its features must come from {op}, not from '{}'", def.name)),
            }
        };
        let size = |node: usize, name: &str, default: Option<u32>| {
            let given = graph.maybe_int(node, name)?;
            let size = given.map_or(default, |given| u32::try_from(given).ok());
            size.filter(|&size| size > 0).ok_or_else(|| format!("{name} must be at least 1"))
        };
        let features = inputs(node, "Mfcc", 2)?;
        let spectrogram = features[0].node;
        let wav = inputs(spectrogram, "AudioSpectrogram", 1)?[0].node;
        let file = inputs(wav, "DecodeWav", 1)?[0].node;
        inputs(file, "Placeholder", 0)?;
        fail_if(features[1] != (Source { node: wav, output: 1 }), "its sample rate must come from the wav file")?;
        fail_if(graph.attr(file, "dtype") != Some(&Attr::Type(STRING)), "a wav file must be a string")?;
        fail_if(graph.maybe_int(wav, "desired_channels")? != Some(1), "desired_channels of its DecodeWav must be 1")?;
        let squared = graph.attr(spectrogram, "magnitude_squared") == Some(&Attr::Bool(true));
        fail_if(!squared, "magnitude_squared of its AudioSpectrogram must be true")?;
        let samples = size(wav, "desired_samples", None)?;
        let window_len = size(spectrogram, "window_size", None)?;
        let stride_len = size(spectrogram, "stride", None)?;
        // Defaults of the op Mfcc (tensorflow/core/ops/audio_ops.cc).
        let mel_bands = size(node, "filterbank_channel_count", Some(40))?;
        let coefficients = size(node, "dct_coefficient_count", Some(13))?;
        let (Some(after_first), Some(fft_len)) =
            (samples.checked_sub(window_len), window_len.checked_next_power_of_two())
        else {
            return Err(format!("its window of {window_len} is longer than the {samples} samples"));
        };
        let mfcc = Mfcc {
            method: Method::Mfcc,
            sample_rate: SAMPLE_RATE,
            window_len,
            stride_len,
            window: Window::Hann,
            fft_len,
            spectrum: Spectrum::Magnitude,
            mel_bands,
            lower_hz: graph.float(node, "lower_frequency_limit", 20.0)?,
            upper_hz: graph.float(node, "upper_frequency_limit", 4000.0)?,
            bins_per_rate: None,
            corners: MelCorners::Exact,
            coefficients,
            log_floor: LOG_FLOOR,
            first: First::Cepstrum,
            lead_frames: 0,
        };
        Ok(Self { node, mfcc, frames: (after_first / stride_len) as usize + 1 })
    }
}
