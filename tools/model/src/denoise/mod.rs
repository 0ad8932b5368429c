//! Noise suppression: the sound processing around the networks of published recipes, hop by hop as on a device.
//!
//! ```text
//! blocks of samples → hops → recipe (spectrum → network → spectrum) → samples
//! ```
//!
//! A recipe is signal processing alone. It steps its networks through a function, so that tests and calibration can
//! observe their inputs and outputs.

mod calibrate;
mod dtln;
mod gtcrn;
mod network;
mod rnnoise;

use tidegate::Model;

use crate::backend::Engine;
use crate::data::Audio;

pub use calibrate::{inputs, integers};
pub use dtln::Dtln;
pub use gtcrn::Gtcrn;
pub use network::{HopError, Networks, Step};
pub use rnnoise::{BANDS, FRAME, Heard, Rnnoise};

/// A published way to suppress noise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipe {
    /// DTLN: two networks at 16 kHz.
    Dtln,
    /// GTCRN: one network at 16 kHz.
    Gtcrn,
    /// RNNoise 0.1: one network at 48 kHz.
    Rnnoise,
}

/// Sizes of the inputs and of the outputs of a network.
pub type Ports = (&'static [usize], &'static [usize]);

/// The facts of a recipe.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// The name.
    pub name: &'static str,
    /// Sample rate in Hz.
    pub sample_rate: u32,
    /// Samples from one step of the networks to the next.
    pub hop: usize,
    /// Delay of the result in samples.
    pub late: usize,
    /// Samples that are dropped at the start of the result, because they precede the first input sample.
    pub left_out: usize,
    /// The networks in order.
    pub networks: &'static [Ports],
}

const DTLN: Facts = Facts {
    name: "dtln",
    sample_rate: 16_000,
    hop: dtln::HOP,
    // The authors' reference implementation has the same delay.
    late: 384,
    left_out: 0,
    networks: &dtln::PORTS,
};
const GTCRN: Facts = Facts {
    name: "gtcrn",
    sample_rate: 16_000,
    hop: gtcrn::HOP,
    late: 0,
    left_out: gtcrn::HOP,
    networks: &gtcrn::PORTS,
};
const RNNOISE: Facts =
    Facts { name: "rnnoise", sample_rate: 48_000, hop: FRAME, late: 0, left_out: FRAME, networks: &rnnoise::PORTS };

impl Recipe {
    /// All recipes.
    pub const ALL: [Self; 3] = [Self::Dtln, Self::Gtcrn, Self::Rnnoise];

    /// The recipe of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|recipe| recipe.facts().name == name)
    }

    /// The facts of the recipe.
    pub const fn facts(self) -> &'static Facts {
        match self {
            Self::Dtln => &DTLN,
            Self::Gtcrn => &GTCRN,
            Self::Rnnoise => &RNNOISE,
        }
    }

    /// Checks the ports of network `network`, counted from 0.
    ///
    /// # Errors
    /// If they are not those of the recipe; the text states both.
    pub fn check(self, network: usize, model: &Model<'_>) -> Result<(), String> {
        let Facts { name, networks, .. } = self.facts();
        let Some((inputs, outputs)) = networks.get(network) else {
            return Err(format!("the recipe {name} has {} networks", networks.len()));
        };
        let given: Vec<usize> = model.inputs().map(|port| port.size).collect();
        let gives: Vec<usize> = model.outputs().map(|port| port.size).collect();
        if given == *inputs && gives == *outputs {
            return Ok(());
        }
        let which = network + 1;
        Err(format!(
            "takes {given:?} and gives {gives:?}; network {which} of {name} takes {inputs:?} and gives {outputs:?}"
        ))
    }
}

/// The stream of a recipe.
enum Stream<'b> {
    Dtln(Box<Dtln<'b>>),
    Gtcrn(Box<Gtcrn<'b>>),
    Rnnoise(Box<Rnnoise>),
}

impl<'b> Stream<'b> {
    const MEMORY_LEN: usize = if Dtln::MEMORY_LEN > Gtcrn::MEMORY_LEN { Dtln::MEMORY_LEN } else { Gtcrn::MEMORY_LEN };

    fn new(recipe: Recipe, memory: &'b mut [f32]) -> Self {
        const LEN: &str = "the memory has the recipe's own length";
        match recipe {
            Recipe::Dtln => Self::Dtln(Box::new(Dtln::new(memory).expect(LEN))),
            Recipe::Gtcrn => Self::Gtcrn(Box::new(Gtcrn::new(memory).expect(LEN))),
            Recipe::Rnnoise => Self::Rnnoise(Box::default()),
        }
    }

    fn push(&mut self, noisy: &[f32], clean: &mut [f32], step: Step<'_>) -> Result<(), HopError> {
        match self {
            Self::Dtln(stream) => stream.push(noisy, clean, step),
            Self::Gtcrn(stream) => stream.push(noisy, clean, step),
            Self::Rnnoise(stream) => stream.push(noisy, clean, step).map(|_| ()),
        }
    }
}

/// Suppresses the noise of a sound that arrives in blocks. The networks must have passed [`Recipe::check`]; they start from
/// zero states. `seen` is called with the index, the input and the outputs of a network after each of its steps. Returns
/// as many samples as the blocks have, from -1 to 1.
///
/// # Errors
/// If a network cannot be stepped.
pub fn denoise<'s>(
    recipe: Recipe,
    engines: &[Engine<'_>],
    blocks: impl IntoIterator<Item = &'s [i16]>,
    mut seen: impl FnMut(usize, &[f32], &[&mut [f32]]),
) -> Result<Vec<f32>, HopError> {
    let mut states = Networks::memory(engines);
    let mut networks = Networks::new(engines, &mut states);
    let mut step = |network: usize, input: &[f32], outputs: &mut [&mut [f32]]| {
        networks.step(network, input, outputs)?;
        seen(network, input, outputs);
        Ok(())
    };
    let &Facts { hop, left_out, .. } = recipe.facts();
    let mut memory = vec![0.0; Stream::MEMORY_LEN];
    let mut stream = Stream::new(recipe, &mut memory);
    let (mut clean, mut fresh, mut count) = (Vec::new(), Vec::with_capacity(hop), 0);
    let mut push = |fresh: &mut Vec<f32>, clean: &mut Vec<f32>| {
        let start = clean.len();
        clean.resize(start + hop, 0.0);
        stream.push(fresh, &mut clean[start..], &mut step)?;
        fresh.clear();
        Ok(())
    };
    for block in blocks {
        count += block.len();
        for &sample in block {
            fresh.push(f32::from(sample) / 32_768.0);
            if fresh.len() == hop {
                push(&mut fresh, &mut clean)?;
            }
        }
    }
    while clean.len() < count + left_out {
        fresh.resize(hop, 0.0);
        push(&mut fresh, &mut clean)?;
    }
    clean.truncate(count + left_out);
    clean.drain(..left_out);
    Ok(clean)
}

/// Sound of samples from -1 to 1, rounded to 16 bits.
pub fn sound(samples: &[f32], recipe: Recipe) -> Audio {
    // The cast saturates.
    let samples = samples.iter().map(|&sample| (sample * 32_768.0).round() as i16).collect();
    Audio { sample_rate: recipe.facts().sample_rate, samples }
}
