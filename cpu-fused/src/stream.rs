//! One stream of a shared model.

use tidegate::{BufferTooSmall, RestoreError, State, Step, StepError};

use crate::model::{FusedModel, Scratch};
use crate::step::unseen;

/// One stream: its state, and the scratch of its steps. A stream can move between threads; the model is shared.
#[derive(Debug)]
pub struct Stream<'f, 'm> {
    model: &'f FusedModel<'m>,
    words: Vec<u32>,
    scratch: Scratch,
}

impl<'m> FusedModel<'m> {
    /// A stream in the zero state.
    pub fn stream(&self) -> Stream<'_, 'm> {
        Stream { model: self, words: vec![0; self.model.state_words()], scratch: self.scratch() }
    }
}

impl Stream<'_, '_> {
    /// Runs one time step of a model with one input and one output. Allocates nothing.
    ///
    /// # Errors
    /// If a buffer has the wrong length.
    #[inline]
    pub fn step(&mut self, input: &[f32], output: &mut [f32]) -> Result<Step, StepError> {
        self.model.step_of_one(&mut self.words, &mut self.scratch, input, output)
    }

    /// Runs one time step with a slice for each input and each output.
    ///
    /// # Errors
    /// As [`step`](Self::step).
    #[inline]
    pub fn step_ports(&mut self, inputs: &[&[f32]], outputs: &mut [&mut [f32]]) -> Result<Step, StepError> {
        self.model.step_words(&mut self.words, &mut self.scratch, inputs, outputs, &mut unseen)
    }

    /// Runs one time step of an integer model without floats.
    ///
    /// # Errors
    /// As [`step`](Self::step); also if the model is a float model.
    #[inline]
    pub fn step_i16(&mut self, input: &[i16], output: &mut [i16]) -> Result<Step, StepError> {
        self.model.step_words_i16(&mut self.words, &mut self.scratch, &[input], &mut [output])
    }

    /// Ends a sequence of a model with windows, like [`FusedModel::finish`].
    ///
    /// # Errors
    /// As [`step`](Self::step).
    pub fn finish(&mut self, outputs: &mut [&mut [f32]]) -> Result<Step, StepError> {
        self.model.finish_words(&mut self.words, &mut self.scratch, outputs)
    }

    /// Resets the state to zero.
    pub fn reset(&mut self) {
        self.words.fill(0);
    }

    /// The state, to read, set, save or continue it with any backend.
    pub fn state(&mut self) -> State<'_> {
        let Ok(state) = State::over(&self.model.model, &mut self.words) else {
            unreachable!("the length is that of the model's state")
        };
        state
    }

    /// Number of bytes that [`save`](Self::save) writes.
    pub fn saved_bytes(&self) -> usize {
        self.model.model.saved_bytes()
    }

    /// Saves the state to the start of `out`, like [`State::save`].
    ///
    /// # Errors
    /// If `out` is too short.
    pub fn save(&mut self, out: &mut [u8]) -> Result<usize, BufferTooSmall> {
        self.state().save(out)
    }

    /// Restores a state that any backend saved, like [`Model::restore`](tidegate::Model::restore).
    ///
    /// # Errors
    /// If `bytes` are damaged, or are not a state of this model.
    pub fn restore(&mut self, bytes: &[u8]) -> Result<(), RestoreError> {
        let model = self.model.model;
        model.restore(&mut self.state(), bytes)
    }
}
