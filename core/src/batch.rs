//! Several states of one model side by side, in one piece of the caller's memory.

use crate::error::BufferTooSmall;
use crate::model::Model;
use crate::state::{Owner, State};
use crate::step::StepError;

/// The states of several streams or sequences, `[batch, state_words]`: apart from each other, each as [`State`] has it.
#[derive(Debug)]
pub struct Batch<'b> {
    words: &'b mut [u32],
    /// Words of one state, at least 1.
    state_words: usize,
    owner: Owner,
}

impl<'b> Batch<'b> {
    /// `batch` states that start at zero. `memory` is borrowed until the batch is dropped.
    ///
    /// # Errors
    /// If `memory` is shorter than `batch` times [`Model::state_words`].
    pub fn new(model: &Model<'_>, batch: usize, memory: &'b mut [u32]) -> Result<Self, BufferTooSmall> {
        let state_words = model.state_words();
        let (needed, given) = (batch.saturating_mul(state_words), memory.len());
        let words = memory.get_mut(..needed).ok_or(BufferTooSmall { needed, given })?;
        words.fill(0);
        Ok(Self { words, state_words, owner: Owner::of(model) })
    }

    /// How many states there are.
    pub const fn len(&self) -> usize {
        match self.words.len().checked_div(self.state_words) {
            Some(len) => len,
            None => 0,
        }
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Every state, to be stepped, set, read, saved or reset by itself.
    pub fn states(&mut self) -> impl ExactSizeIterator<Item = State<'_>> {
        // No state is without words; `max` spares the optimizer the proof.
        let owner = self.owner;
        self.words.chunks_exact_mut(self.state_words.max(1)).map(move |words| State { words, owner })
    }

    /// State `index`, from 0.
    pub fn state(&mut self, index: usize) -> Option<State<'_>> {
        self.states().nth(index)
    }

    /// Every state back to zero, as new.
    pub fn reset(&mut self) {
        self.words.fill(0);
    }

    /// The words of all states, `[batch, state_words]`, if they are states of this model.
    ///
    /// # Errors
    /// If they are not.
    pub fn words_mut(&mut self, model: &Model<'_>) -> Result<&mut [u32], StepError> {
        model.check_owner(self.owner, self.state_words)?;
        Ok(self.words)
    }

    pub(crate) const fn owner(&self) -> Owner {
        self.owner
    }

    pub(crate) const fn state_words(&self) -> usize {
        self.state_words
    }
}
