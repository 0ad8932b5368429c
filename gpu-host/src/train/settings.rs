//! Settings of a training, as the command line sets them.

use std::path::PathBuf;

use clap::{ArgAction, Args};
use tidegate::Numeric;

#[derive(Args, Clone, Debug)]
#[expect(missing_docs, reason = "clap would print the text as that of the command")]
pub struct Settings {
    /// Training data: sequences, or an index of sounds
    #[arg(long, value_name = "FILE")]
    pub data: PathBuf,
    /// Held-out data [default: the held-out part of --data]
    #[arg(long, value_name = "FILE")]
    pub test: Option<PathBuf>,
    /// JSON file with the architecture, in PyTorch's terms
    #[arg(long, value_name = "FILE")]
    pub arch: PathBuf,
    /// Initial weights under PyTorch's names [default: random]
    #[arg(long, value_name = "FILE")]
    pub init: Option<PathBuf>,
    /// Train with weights and values rounded as `tidegate pack --numeric` rounds them; the held-out accuracy is
    /// measured with them too
    #[arg(long, value_name = "i8x16|i4x16", value_parser = integers)]
    pub quantize_aware: Option<Numeric>,
    /// File to write the scaled training and held-out features to, as tensors that --data reads; copies follow the
    /// sequence that they were made from
    #[arg(long, value_name = "FILE.safetensors|FILE.npz")]
    pub features: Option<PathBuf>,
    /// File to write a line to after each epoch: loss and accuracy on the batches and on the held-out data, under the
    /// names of Keras's CSVLogger
    #[arg(long, value_name = "FILE.csv")]
    pub log: Option<PathBuf>,
    /// Front end for sounds: `precise`, or a JSON file
    #[arg(long, value_name = "precise|FILE")]
    pub front_end: Option<PathBuf>,
    /// Number of augmented copies of each sound: changed in speed, position and volume, with added noise
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = number::<0, 1000>, requires = "front_end")]
    pub copies: usize,
    /// Label of the clips used as noise for the copies [default: white noise]
    #[arg(long, value_name = "LABEL", requires = "copies")]
    pub background: Option<String>,
    /// Number of passes over the training set (epochs)
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = number::<1, 1_000_000>)]
    pub epochs: usize,
    /// Stop after this many epochs without improvement on the held-out data, and write the weights of the best epoch
    /// [default: train all epochs and write the last weights]
    #[arg(long, value_name = "N", value_parser = number::<1, 1_000_000>)]
    pub patience: Option<usize>,
    /// Sequences per training step (batch size)
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = number::<1, 65_536>)]
    pub batch: usize,
    /// Learning rate of Adam
    #[arg(long = "lr", value_name = "RATE", default_value_t = 0.002, value_parser = positive)]
    pub learning_rate: f64,
    /// Final learning rate as a fraction of --lr, reached along a half cosine
    #[arg(long = "lr-end", value_name = "FRACTION", default_value_t = 1.0, value_parser = not_negative)]
    pub end_rate: f64,
    /// Weight decay (AdamW)
    #[arg(long, value_name = "RATE", default_value_t = 0.0, value_parser = not_negative)]
    pub weight_decay: f64,
    /// Maximum gradient norm (clipping threshold)
    #[arg(long, value_name = "NORM", default_value_t = 1.0, value_parser = positive)]
    pub clip: f64,
    /// Standard deviation of the noise added to the scaled features
    #[arg(long, value_name = "DEVIATION", default_value_t = 0.0, value_parser = deviation)]
    pub noise: f32,
    /// Train on unscaled features [default: scale them to mean 0 and standard deviation 1, and fold the scaling into
    /// the weights of the first layer]
    #[arg(long = "no-scale", action = ArgAction::SetFalse)]
    pub scale: bool,
    /// Start each sequence from the final state of the previous one in its batch row, as in a stream, for a model with
    /// an endless state
    #[arg(long)]
    pub carry: bool,
    /// Seed for all random numbers
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
}

fn integers(text: &str) -> Result<Numeric, String> {
    let known = [Numeric::I8x16, Numeric::I4x16].into_iter().find(|numeric| numeric.name() == text);
    known.ok_or_else(|| "expected i8x16 or i4x16".to_owned())
}

fn number<const LEAST: usize, const MOST: usize>(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (LEAST..=MOST).contains(number));
    number.ok_or_else(|| format!("expected a number from {LEAST} to {MOST}"))
}

fn positive(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| *number > 0.0);
    number.ok_or_else(|| "expected a number above 0".to_owned())
}

fn not_negative(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
    number.ok_or_else(|| "expected a number of at least 0".to_owned())
}

fn deviation(text: &str) -> Result<f32, String> {
    not_negative(text).map(|deviation| deviation as f32)
}
