//! Several states of one model side by side, in one piece of the caller's memory.

use crate::error::{BufferTooSmall, StepError};
use crate::model::Model;
use crate::state::{Owner, State};

/// The independent states of several streams or sequences, `[batch, state_words]`, each in the layout of [`State`].
///
/// ```
/// use tidegate::{Batch, Model, Sequence};
///
/// const MODEL: Model = tidegate::include_model!("../examples/kws.tgi").endless();
/// const STREAMS: usize = 3;
/// const TIME: usize = 10;
///
/// let (mut memory, mut scratch) = ([0; STREAMS * MODEL.state_words()], [0; MODEL.scratch_words()]);
/// let mut batch = Batch::new(&MODEL, STREAMS, &mut memory)?;
/// let input = [0.5; STREAMS * TIME * MODEL.input_size()];
/// let mut output = [0.0; STREAMS * TIME * MODEL.output_size()];
/// let rows = MODEL.run_batch(&mut batch, &mut scratch, &[&input], &mut [&mut output], &Sequence::ALL)?;
/// assert_eq!(rows, STREAMS * TIME);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Batch<'b> {
    words: &'b mut [u32],
    /// Words of one state, at least 1.
    state_words: usize,
    owner: Owner,
}

impl<'b> Batch<'b> {
    /// Creates `batch` states that start at zero. `memory` is borrowed until the batch is dropped.
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

    /// Number of states.
    pub const fn len(&self) -> usize {
        match self.words.len().checked_div(self.state_words) {
            Some(len) => len,
            None => 0,
        }
    }

    /// Whether there are no states.
    pub const fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Every state, to be stepped, set, read, saved or reset separately.
    pub fn states(&mut self) -> impl ExactSizeIterator<Item = State<'_>> {
        // A state always has words; with `max` the compiler need not prove it.
        let owner = self.owner;
        self.words.chunks_exact_mut(self.state_words.max(1)).map(move |words| State { words, owner })
    }

    /// State `index`, from 0.
    pub fn state(&mut self, index: usize) -> Option<State<'_>> {
        self.states().nth(index)
    }

    /// Resets every state to zero.
    pub fn reset(&mut self) {
        self.words.fill(0);
    }

    /// The words of all states, `[batch, state_words]`.
    ///
    /// # Errors
    /// If they are not states of this model.
    #[doc(hidden)]
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
