//! Neural Amp Modeler's files (<https://github.com/sdatkinson/NeuralAmpModelerCore>): an LSTM over samples, whose
//! initial states were trained with it, and a linear layer.

use serde::Deserialize;
use tidegate::internals::{activation::Activation, cell::CellKind};

use super::fields::{Fields, parsed};
use super::{Imported, Layer, Network, Options, array::Array, refuse::unsupported_if};
use crate::budget::Budget;
use crate::canonical::{MAX_NODES, MAX_SIZE, Tensor};
use crate::{data::one_line, error::ImportError, error::Result};

const FORMAT: &str = "Neural Amp Modeler file";

const FIELDS: [&str; 5] = ["architecture", "config", "sample_rate", "version", "weights"];

/// The architecture, which says what the rest of the file means.
#[derive(Deserialize)]
struct Head {
    architecture: String,
}

#[derive(Deserialize)]
struct File {
    config: Config,
    weights: Array,
    sample_rate: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    input_size: usize,
    hidden_size: usize,
    num_layers: usize,
}

fn malformed<T>(reason: String) -> Result<T> {
    Err(ImportError::Malformed { format: FORMAT, reason })
}

pub(super) fn import(bytes: &[u8], fields: &Fields, name: &str, options: &Options) -> Result<Imported> {
    unsupported_if(options.description.is_some(), "--arch with a file that holds its architecture")?;
    unsupported_if(options.window.is_some(), "--window with a model that runs sample by sample")?;
    let Head { architecture } = parsed(bytes, FORMAT)?;
    let other = architecture != "LSTM";
    unsupported_if(other, format_args!("architecture {:?}, other than LSTM,", one_line(&architecture)))?;
    fields.only(&FIELDS, "the weights")?;
    let File { config, weights, sample_rate } = parsed(bytes, FORMAT)?;
    let Config { input_size, hidden_size, num_layers } = config;
    let mut weights = Weights::new(weights.0.data, &config)?;
    let mut network = Network::new();
    network.limit(Budget::of_network(weights.all.len()));
    let mut last = network.input("input", input_size);
    for _ in 0..num_layers {
        let layer = weights.lstm(last.size(), hidden_size);
        last = network.add(layer, &[&last]);
    }
    let (head, bias) = (weights.tensor(&[1, hidden_size]), weights.tensor(&[1]));
    last = network.add(Layer::dense(head, Some(bias), Activation::Identity), &[&last]);
    network.output("output", &last);
    let model = network.model(format!("{name}, Neural Amp Modeler"))?;
    let notes = sample_rate.map(|rate| format!("it was trained for {rate} samples a second"));
    Ok(Imported { model, notes: notes.into_iter().collect(), assumptions: Vec::new() })
}

/// The weights of all layers in one list: those of each LSTM, `[4 · hidden, input + hidden]` and `[4 · hidden]` with the
/// gates i, f, g, o, its initial h and c, then the linear layer.
struct Weights {
    all: Vec<f32>,
    /// Number of weights that are read.
    read: usize,
}

impl Weights {
    fn new(all: Vec<f32>, &Config { input_size, hidden_size, num_layers }: &Config) -> Result<Self> {
        let size = 1..=MAX_SIZE;
        if !(size.contains(&input_size) && size.contains(&hidden_size) && (1..=MAX_NODES).contains(&num_layers)) {
            return malformed(format!("its sizes must be from 1 to {MAX_SIZE}, and its layers to {MAX_NODES}"));
        }
        let (input, hidden, layers) = (input_size as u128, hidden_size as u128, num_layers as u128);
        let inputs = input + (layers - 1) * hidden;
        let needed = 4 * hidden * (inputs + layers * hidden) + layers * 6 * hidden + hidden + 1;
        if all.len() as u128 != needed {
            return malformed(format!("it has {} weights, but its config needs {needed}", all.len()));
        }
        Ok(Self { all, read: 0 })
    }

    fn tensor(&mut self, shape: &[usize]) -> Tensor {
        let data = self.all[self.read..][..shape.iter().product()].to_vec();
        self.read += data.len();
        Tensor { shape: shape.to_vec(), data }
    }

    fn lstm(&mut self, input: usize, hidden: usize) -> Layer {
        let (gates, bias) = (self.tensor(&[4 * hidden, input + hidden]), self.tensor(&[4 * hidden]));
        let (initial_hidden, initial_cell) = (self.tensor(&[hidden]), self.tensor(&[hidden]));
        let part = |from: usize, cols: usize| {
            let rows = gates.data.chunks(input + hidden);
            let data = rows.flat_map(|row| row[from..from + cols].to_vec()).collect();
            Tensor { shape: vec![4 * hidden, cols], data }
        };
        let layer = Layer::new(CellKind::Lstm, input, hidden)
            .tensor("input_weights", part(0, input))
            .tensor("recurrent_weights", part(input, hidden))
            .tensor("input_bias", bias);
        if [&initial_hidden, &initial_cell].iter().all(|state| state.data.iter().all(|&value| value == 0.0)) {
            return layer;
        }
        let layer = layer.option("initial").tensor("initial_hidden", initial_hidden);
        layer.tensor("initial_cell_state", initial_cell)
    }
}
