//! The networks of a recipe, stepped one after the other.

use tidegate::{Model, State, StepError};

use crate::backend::{Engine, Scratch};

/// Why a hop was not processed.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the error texts explain the variants and their fields")]
pub enum HopError {
    #[error("{source}")]
    Step { network: usize, source: StepError },
    #[error("has no output for each step: give a network that steps, without windows")]
    NoOutput { network: usize },
}

impl HopError {
    /// Index of the network.
    pub const fn network(&self) -> usize {
        match *self {
            Self::Step { network, .. } | Self::NoOutput { network } => network,
        }
    }
}

/// Steps a network, by its index, with an input; writes its outputs.
pub type Step<'s> = &'s mut dyn FnMut(usize, &[f32], &mut [&mut [f32]]) -> Result<(), HopError>;

/// The networks of a stream, from zero states.
pub struct Networks<'e, 's> {
    networks: Vec<(&'e Engine<'e>, State<'s>, Scratch)>,
}

impl<'e, 's> Networks<'e, 's> {
    /// Memory for the states, one piece for each network.
    pub fn memory(engines: &[Engine<'_>]) -> Vec<Vec<u32>> {
        engines.iter().map(|engine| vec![0; engine.model().state_words()]).collect()
    }

    /// Starts from zero states in `memory`, which [`memory`](Self::memory) returns.
    pub fn new(engines: &'e [Engine<'e>], memory: &'s mut [Vec<u32>]) -> Self {
        let started = |(engine, memory): (&'e Engine<'e>, &'s mut Vec<u32>)| {
            let model: &Model<'_> = engine.model();
            let state = State::new(model, memory).expect("the memory has the model's own length");
            (engine, state, engine.scratch())
        };
        Self { networks: engines.iter().zip(memory).map(started).collect() }
    }

    /// Steps network `network`.
    ///
    /// # Errors
    /// If input and outputs do not fit its ports, or the step has no output.
    pub fn step(&mut self, network: usize, input: &[f32], outputs: &mut [&mut [f32]]) -> Result<(), HopError> {
        let (engine, state, scratch) = &mut self.networks[network];
        let step = engine.step_observed(state, scratch, &[input], outputs, |_, _| ());
        match step.map_err(|source| HopError::Step { network, source })?.has_output() {
            true => Ok(()),
            false => Err(HopError::NoOutput { network }),
        }
    }
}
