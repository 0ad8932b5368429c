//! What a model remembers from step to step, in the caller's memory.

use core::fmt;
use core::ops::Range;

use crate::error::BufferTooSmall;
use crate::image::crc::Crc32;
use crate::image::{ModelId, Numeric};
use crate::model::Model;
use crate::schedule::Schedule;
use crate::step::StepError;

/// Words of [`State::header`].
const HEADER_WORDS: usize = 7;
/// The model id among them.
const ID: Range<usize> = 2..4;
/// The checksum, behind the words of the state.
const CRC_BYTES: usize = 4;
const MAGIC: u32 = u32::from_le_bytes(*b"TGST");
const VERSION: u32 = 1;

/// What a state belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    form: u32,
    numeric: Numeric,
    id: ModelId,
    schedule: Schedule,
}

impl Owner {
    pub(crate) const fn of(model: &Model<'_>) -> Self {
        let form = VERSION << 24 | (model.numeric().code() as u32) << 8 | model.layout().code() as u32;
        Self { form, numeric: model.numeric(), id: model.id(), schedule: model.schedule() }
    }
}

/// The state of one stream: a clock and the states that the schedule has take turns.
#[derive(Debug)]
pub struct State<'b> {
    pub(crate) words: &'b mut [u32],
    pub(crate) owner: Owner,
}

impl<'b> State<'b> {
    /// Starts at zero. `memory` is borrowed until the state is dropped.
    ///
    /// # Errors
    /// If `memory` is shorter than [`Model::state_words`].
    pub fn new(model: &Model<'_>, memory: &'b mut [u32]) -> Result<Self, BufferTooSmall> {
        let (needed, given) = (model.state_words(), memory.len());
        let words = memory.get_mut(..needed).ok_or(BufferTooSmall { needed, given })?;
        words.fill(0);
        Ok(Self { words, owner: Owner::of(model) })
    }

    /// Over memory that another `State` of this model has left, or a copy of it: it goes on from there. What other words
    /// mean is unspecified, but never an error.
    ///
    /// # Errors
    /// If `memory` is shorter than [`Model::state_words`].
    pub fn over(model: &Model<'_>, memory: &'b mut [u32]) -> Result<Self, BufferTooSmall> {
        let (needed, given) = (model.state_words(), memory.len());
        let words = memory.get_mut(..needed).ok_or(BufferTooSmall { needed, given })?;
        Ok(Self { words, owner: Owner::of(model) })
    }

    /// Its words, if it is a state of this model: the clock, then each state of the schedule, node after node.
    ///
    /// # Errors
    /// If it is not.
    pub fn words_mut(&mut self, model: &Model<'_>) -> Result<&mut [u32], StepError> {
        model.check_owner(self.owner, self.words.len())?;
        Ok(self.words)
    }

    /// Back to zero, as new.
    pub fn reset(&mut self) {
        self.words.fill(0);
    }

    /// Every number that the nodes keep, state after state of the schedule, node after node, in the order of their
    /// [`CellSpec::states`](crate::cell::CellSpec::states). None in an integer numeric.
    pub fn values(&self) -> &[f32] {
        bytemuck::must_cast_slice(self.float_words())
    }

    /// The same, to be set: an initial state that is not zero. Windows begin at zero whatever is set here.
    pub fn values_mut(&mut self) -> &mut [f32] {
        let from = if self.owner.numeric.is_integer() { self.words.len() } else { 1 };
        bytemuck::must_cast_slice_mut(self.words.get_mut(from..).unwrap_or_default())
    }

    fn float_words(&self) -> &[u32] {
        let from = if self.owner.numeric.is_integer() { self.words.len() } else { 1 };
        self.words.get(from..).unwrap_or_default()
    }

    /// [`values`](Self::values) of a model in an integer numeric, where each state begins on a whole word; none in a
    /// float one.
    pub fn values_i16(&self) -> &[i16] {
        let from = if self.owner.numeric.is_integer() { 1 } else { self.words.len() };
        bytemuck::must_cast_slice(self.words.get(from..).unwrap_or_default())
    }

    /// The same, to be set.
    pub fn values_i16_mut(&mut self) -> &mut [i16] {
        let from = if self.owner.numeric.is_integer() { 1 } else { self.words.len() };
        bytemuck::must_cast_slice_mut(self.words.get_mut(from..).unwrap_or_default())
    }

    /// What one node keeps under one name, `("lstm", "cell_state")`: [`Model::state_range`] of the values. None if
    /// `model` has nothing of that name, or this is another model's state.
    pub fn part(&self, model: &Model<'_>, node: &str, name: &str) -> Option<&[f32]> {
        self.range(model, node, name).and_then(|range| self.values().get(range))
    }

    /// The same, to be set: the initial state of one node, the encoder's state for a decoder.
    pub fn part_mut(&mut self, model: &Model<'_>, node: &str, name: &str) -> Option<&mut [f32]> {
        self.range(model, node, name).and_then(|range| self.values_mut().get_mut(range))
    }

    fn range(&self, model: &Model<'_>, node: &str, name: &str) -> Option<Range<usize>> {
        model.check_owner(self.owner, self.words.len()).ok()?;
        model.state_range(node, name)
    }

    /// Bytes that [`save`](Self::save) writes.
    pub fn saved_bytes(&self) -> usize {
        saved_bytes(self.words.len())
    }

    /// Writes the state to the start of `out` (flash before deep sleep, another machine), and returns its bytes.
    ///
    /// # Errors
    /// If `out` is shorter than [`saved_bytes`](Self::saved_bytes).
    pub fn save(&self, out: &mut [u8]) -> Result<usize, BufferTooSmall> {
        let (needed, given) = (self.saved_bytes(), out.len());
        let out = out.get_mut(..needed).ok_or(BufferTooSmall { needed, given })?;
        let header = self.header();
        let mut crc = Crc32::NEW;
        let (quads, _) = out.as_chunks_mut::<4>();
        let mut quads = quads.iter_mut();
        for (word, quad) in header.iter().chain(self.words.iter()).zip(quads.by_ref()) {
            *quad = word.to_le_bytes();
            crc = crc.update(quad);
        }
        if let Some(last) = quads.next() {
            *last = crc.finish().to_le_bytes();
        }
        Ok(needed)
    }

    /// Reads a state that [`save`](Self::save) wrote. On an error the state is as it was.
    ///
    /// # Errors
    /// If `bytes` are damaged, or were saved by another model, numeric, layout, schedule or version.
    pub fn restore(&mut self, bytes: &[u8]) -> Result<(), RestoreError> {
        let (needed, given) = (self.saved_bytes(), bytes.len());
        let header = self.header();
        let Some((stored, _)) = bytes.as_chunks::<4>().0.split_first_chunk::<HEADER_WORDS>() else {
            return Err(RestoreError::Truncated { needed, given });
        };
        let stored = stored.map(u32::from_le_bytes);
        if stored[0] != header[0] {
            return Err(RestoreError::NotAState);
        }
        if stored[ID] != header[ID] {
            return Err(RestoreError::OtherModel);
        }
        if stored != header {
            return Err(RestoreError::OtherForm);
        }
        let Some((body, crc)) = bytes.get(..needed).and_then(|bytes| bytes.split_last_chunk::<CRC_BYTES>()) else {
            return Err(RestoreError::Truncated { needed, given });
        };
        let computed = Crc32::NEW.update(body).finish();
        let stored = u32::from_le_bytes(*crc);
        if stored != computed {
            return Err(RestoreError::Damaged { stored, computed });
        }
        let (quads, _) = body.as_chunks::<4>();
        for (word, quad) in self.words.iter_mut().zip(quads.iter().skip(HEADER_WORDS)) {
            *word = u32::from_le_bytes(*quad);
        }
        Ok(())
    }

    /// What a saved state begins with: magic, form, model id, schedule (0, 0 when endless), words of the state.
    fn header(&self) -> [u32; HEADER_WORDS] {
        let (frames, every) = match self.owner.schedule {
            Schedule::Endless => (0, 0),
            Schedule::Windows { frames, every } => (frames, every),
        };
        let ModelId(id) = self.owner.id;
        [MAGIC, self.owner.form, id as u32, (id >> 32) as u32, frames, every, self.words.len() as u32]
    }
}

const fn saved_bytes(words: usize) -> usize {
    4 * (HEADER_WORDS + words) + CRC_BYTES
}

impl Model<'_> {
    /// Bytes of a saved state: [`State::saved_bytes`] of any state of this model.
    pub const fn saved_bytes(&self) -> usize {
        saved_bytes(self.state_words())
    }
}

/// Why bytes are not a saved state of this model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum RestoreError {
    /// They do not begin as a saved state does.
    NotAState,
    /// Another model saved it.
    OtherModel,
    /// The same model saved it in another numeric, layout or schedule, or by another version.
    OtherForm,
    /// They end too soon.
    Truncated {
        /// Bytes of a state of this model.
        needed: usize,
        /// Bytes that were given.
        given: usize,
    },
    /// A byte has changed since the state was saved.
    Damaged {
        /// The checksum that was saved.
        stored: u32,
        /// The checksum of the bytes.
        computed: u32,
    },
}

impl fmt::Display for RestoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NotAState => write!(f, "not a saved state"),
            Self::OtherModel => write!(f, "another model saved this state"),
            Self::OtherForm => write!(f, "saved in another numeric, layout, schedule or version"),
            Self::Truncated { needed, given } => write!(f, "{given} bytes, a state of this model has {needed}"),
            Self::Damaged { stored, computed } => {
                write!(f, "damaged: checksum {computed:08x}, saved as {stored:08x}")
            }
        }
    }
}

impl core::error::Error for RestoreError {}
