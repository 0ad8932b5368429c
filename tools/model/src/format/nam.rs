//! Neural Amp Modeler's files (<https://github.com/sdatkinson/NeuralAmpModelerCore>): networks over samples.

mod config;
mod lists;
mod lstm;
mod wavenet;

use serde::Deserialize;

use self::config::Model;
use super::fields::{Fields, parsed};
use super::{Imported, Network, Options, refuse::unsupported_if};
use crate::budget::Budget;
use crate::canonical::Tensor;
use crate::{data::one_line, error::ImportError, error::Result};

const FORMAT: &str = "Neural Amp Modeler file";

const FIELDS: [&str; 5] = ["architecture", "config", "sample_rate", "version", "weights"];

/// The architecture, which says what the rest of the file means.
#[derive(Deserialize)]
struct Head {
    architecture: String,
}

fn malformed<T>(reason: String) -> Result<T> {
    Err(ImportError::Malformed { format: FORMAT, reason })
}

pub(super) fn import(bytes: &[u8], fields: &Fields, name: &str, options: &Options) -> Result<Imported> {
    unsupported_if(options.description.is_some(), "--arch with a file that holds its architecture")?;
    unsupported_if(options.window.is_some(), "--window with a model that runs sample by sample")?;
    let Head { architecture } = parsed(bytes, FORMAT)?;
    known(&architecture)?;
    fields.only(&FIELDS, "the weights")?;
    let mut notes = Vec::new();
    let mut model: Model = parsed(bytes, FORMAT)?;
    while model.architecture == config::CONTAINER {
        let submodels = model.config.submodels()?;
        let count = submodels.len();
        let Some(last) = submodels.into_iter().next_back() else { return malformed("it contains no network".into()) };
        notes.push(format!("the last of its {count} networks, which is the default; the others are left out"));
        model = *last.model;
        known(&model.architecture)?;
    }
    let Model { architecture, config, weights, sample_rate } = model;
    let mut weights = Weights::new(weights.map_or_else(Vec::new, |weights| weights.0.data));
    let mut network = Network::new();
    network.limit(Budget::of_network(weights.all.len()));
    match architecture.as_str() {
        config::LSTM => lstm::add(&mut network, config.lstm()?, &mut weights)?,
        _ => wavenet::add(&mut network, config.wavenet()?, &mut weights)?,
    }
    weights.finish()?;
    let model = network.model(format!("{name}, Neural Amp Modeler"))?;
    notes.extend(sample_rate.map(|rate| format!("it was trained for {rate} samples a second")));
    Ok(Imported { model, notes, assumptions: Vec::new() })
}

/// Refuses architectures that are not read.
fn known(architecture: &str) -> Result<()> {
    let other = ![config::LSTM, config::WAVENET, config::CONTAINER].contains(&architecture);
    unsupported_if(other, format_args!("architecture {:?}, other than LSTM and WaveNet,", one_line(architecture)))
}

/// The weights of all layers in one list, in the order in which the layers take them.
struct Weights {
    all: Vec<f32>,
    /// Number of weights that the layers have asked for.
    read: usize,
}

impl Weights {
    fn new(all: Vec<f32>) -> Self {
        Self { all, read: 0 }
    }

    /// The next weights of this shape.
    fn tensor(&mut self, shape: &[usize]) -> Result<Tensor> {
        let size = shape.iter().try_fold(1_usize, |size, &dimension| size.checked_mul(dimension));
        let end = size.and_then(|size| self.read.checked_add(size));
        let Some(data) = end.and_then(|end| self.all.get(self.read..end)) else {
            let shape: Vec<String> = shape.iter().map(ToString::to_string).collect();
            let needed = format!("[{}] after the first {}", shape.join(", "), self.read);
            return malformed(format!("it has {} weights, but its config needs {needed}", self.all.len()));
        };
        let data = data.to_vec();
        self.read += data.len();
        Ok(Tensor { shape: shape.to_vec(), data })
    }

    /// Refuses weights that no layer has taken.
    fn finish(self) -> Result<()> {
        if self.read < self.all.len() {
            return malformed(format!("it has {} weights, but its config needs {}", self.all.len(), self.read));
        }
        Ok(())
    }
}
