//! The state of a stream, in the caller's memory.

use core::fmt;
use core::ops::Range;

use crate::error::{BufferTooSmall, StepError};
use crate::image::crc::Crc32;
use crate::image::{ModelId, Numeric};
use crate::model::Model;
use crate::schedule::Schedule;

/// Length of [`State::header`] in words.
const HEADER_WORDS: usize = 7;
/// Position of the model id in the header.
const ID: Range<usize> = 2..4;
/// Length of the checksum that follows the words of the state.
const CRC_BYTES: usize = 4;
const MAGIC: u32 = u32::from_le_bytes(*b"TGST");
const VERSION: u32 = 1;

/// The model that a state belongs to.
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

impl Model<'_> {
    /// Checks that a state of `words` words belongs to this model. The id comes from the packer: two images may have
    /// the same id and yet need states of different lengths.
    pub(crate) fn check_owner(&self, owner: Owner, words: usize) -> Result<(), StepError> {
        let own = owner == Owner::of(self) && words == self.state_words();
        if own { Ok(()) } else { Err(StepError::OtherState) }
    }
}

/// The state of one stream: a clock, and the model states that take turns under the schedule.
/// A state can be saved before deep sleep and restored after it:
///
/// ```
/// use tidegate::{Model, State};
///
/// const MODEL: Model = tidegate::include_model!("../examples/kws.tgi");
///
/// let (mut memory, mut scratch) = ([0; MODEL.state_words()], [0; MODEL.scratch_words()]);
/// let mut state = State::new(&MODEL, &mut memory)?;
/// let mut posteriors = [0.0; MODEL.output_size()];
/// let step = MODEL.step_f32(&mut state, &mut scratch, &[0.5, -1.0], &mut posteriors)?;
/// assert!(!step.has_output(), "a window has three steps");
///
/// let mut saved = [0; MODEL.saved_bytes()];
/// state.save(&mut saved)?;
/// state.reset();
/// MODEL.restore(&mut state, &saved)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct State<'b> {
    pub(crate) words: &'b mut [u32],
    pub(crate) owner: Owner,
}

impl<'b> State<'b> {
    /// Creates a zero state. `memory` is borrowed until the state is dropped.
    ///
    /// # Errors
    /// If `memory` is shorter than [`Model::state_words`].
    pub fn new(model: &Model<'_>, memory: &'b mut [u32]) -> Result<Self, BufferTooSmall> {
        let (needed, given) = (model.state_words(), memory.len());
        let words = memory.get_mut(..needed).ok_or(BufferTooSmall { needed, given })?;
        words.fill(0);
        Ok(Self { words, owner: Owner::of(model) })
    }

    /// Resumes the state that `memory` already holds: that of an earlier `State` of this model, or a copy of it. Other
    /// contents give unspecified results, but no error.
    ///
    /// # Errors
    /// If `memory` is shorter than [`Model::state_words`].
    pub fn over(model: &Model<'_>, memory: &'b mut [u32]) -> Result<Self, BufferTooSmall> {
        let (needed, given) = (model.state_words(), memory.len());
        let words = memory.get_mut(..needed).ok_or(BufferTooSmall { needed, given })?;
        Ok(Self { words, owner: Owner::of(model) })
    }

    /// The words of the state: the clock, then each state of the schedule, node by node.
    ///
    /// # Errors
    /// If this is not a state of `model`.
    #[doc(hidden)]
    pub fn words_mut(&mut self, model: &Model<'_>) -> Result<&mut [u32], StepError> {
        model.check_owner(self.owner, self.words.len())?;
        Ok(self.words)
    }

    /// Resets the state to zero.
    pub fn reset(&mut self) {
        self.words.fill(0);
    }

    /// All values that the nodes keep: state by state of the schedule, node by node, in the order of
    /// [`CellSpec::states`](crate::cell::CellSpec::states). Empty in an integer numeric.
    pub fn values(&self) -> &[f32] {
        bytemuck::must_cast_slice(self.words.get(self.first(false)..).unwrap_or_default())
    }

    /// Mutable access to [`values`](Self::values), for a nonzero initial state. A window that has not started ignores it,
    /// because it starts from zero.
    pub fn values_mut(&mut self) -> &mut [f32] {
        let first = self.first(false);
        bytemuck::must_cast_slice_mut(self.words.get_mut(first..).unwrap_or_default())
    }

    /// Index of the first value after the clock; the length if the values have the other type.
    fn first(&self, integer: bool) -> usize {
        if self.owner.numeric.is_integer() == integer { 1 } else { self.words.len() }
    }

    /// The [`values`](Self::values) of a model in an integer numeric, where each state starts on a whole word. Empty in
    /// a float numeric.
    pub fn values_i16(&self) -> &[i16] {
        bytemuck::must_cast_slice(self.words.get(self.first(true)..).unwrap_or_default())
    }

    /// Mutable access to [`values_i16`](Self::values_i16). The elements between the states are padding and must stay
    /// zero: [`Model::restore`] refuses others.
    pub fn values_i16_mut(&mut self) -> &mut [i16] {
        let first = self.first(true);
        bytemuck::must_cast_slice_mut(self.words.get_mut(first..).unwrap_or_default())
    }

    /// A named state of one node, such as `("lstm", "cell_state")`: the range [`Model::state_range`] of the values.
    /// With a windowed schedule, the range is in the first of the states that take turns. `None` if `model` has no such
    /// state, or if this is another model's state.
    pub fn part(&self, model: &Model<'_>, node: &str, name: &str) -> Option<&[f32]> {
        self.range(model, node, name).and_then(|range| self.values().get(range))
    }

    /// Mutable access to [`part`](Self::part), for the initial state of a node or to pass an encoder's state to a
    /// decoder.
    pub fn part_mut(&mut self, model: &Model<'_>, node: &str, name: &str) -> Option<&mut [f32]> {
        self.range(model, node, name).and_then(|range| self.values_mut().get_mut(range))
    }

    fn range(&self, model: &Model<'_>, node: &str, name: &str) -> Option<Range<usize>> {
        model.check_owner(self.owner, self.words.len()).ok()?;
        model.state_range(node, name)
    }

    /// Number of bytes that [`save`](Self::save) writes.
    pub fn saved_bytes(&self) -> usize {
        saved_bytes(self.words.len())
    }

    /// Writes the state to the start of `out`, for example before deep sleep or to move it to another machine, and
    /// returns its length in bytes.
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

    /// The words of a saved state of this model.
    fn words_of<'s>(&self, bytes: &'s [u8]) -> Result<&'s [[u8; 4]], RestoreError> {
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
        Ok(body.as_chunks::<4>().0.get(HEADER_WORDS..).unwrap_or_default())
    }

    /// The header of a saved state: magic, form, model id, schedule (0, 0 if endless), number of words.
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
    /// Length in bytes of a saved state of this model; equals [`State::saved_bytes`].
    pub const fn saved_bytes(&self) -> usize {
        saved_bytes(self.state_words())
    }

    /// Restores a state that [`State::save`] wrote. On an error the state is unchanged.
    ///
    /// # Errors
    /// If `state` is another model's, or if `bytes` are damaged, were saved by another image, schedule or version, or have
    /// padding that is not zero: a state has one encoding.
    pub fn restore(&self, state: &mut State<'_>, bytes: &[u8]) -> Result<(), RestoreError> {
        self.check_owner(state.owner, state.words.len()).map_err(|_| RestoreError::OtherState)?;
        let saved = state.words_of(bytes)?;
        self.check_padding(saved.get(1..).unwrap_or_default())?;
        for (word, quad) in state.words.iter_mut().zip(saved) {
            *word = u32::from_le_bytes(*quad);
        }
        Ok(())
    }

    /// Checks the padding between the values of a state. Only integer numerics have padding; the nodes know where it is.
    fn check_padding(&self, values: &[[u8; 4]]) -> Result<(), RestoreError> {
        let elements = if self.numeric().is_integer() { values.as_flattened().as_chunks::<2>().0 } else { &[] };
        let mut rest = elements;
        for node in (0..self.schedule().states()).flat_map(|_| self.nodes()) {
            for part in (0..node.cells()).flat_map(|_| node.cell.states) {
                let (own, others) = rest.split_at_checked(node.padded(&part.len)).unwrap_or_default();
                if own.iter().skip(node.dim(&part.len)).any(|element| *element != [0, 0]) {
                    return Err(RestoreError::Padding { element: elements.len() - rest.len() + node.dim(&part.len) });
                }
                rest = others;
            }
        }
        Ok(())
    }
}

/// Why bytes are not a saved state of this model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
#[expect(missing_docs, reason = "the variants say what their fields hold")]
pub enum RestoreError {
    /// The bytes do not start with the header of a saved state.
    NotAState,
    /// The state was saved by another image: by another model, or by this one in another numeric, layout or schedule.
    OtherModel,
    /// The state was saved by this image, but after [`Model::with_schedule`] or [`Model::endless`], or in another version of
    /// the format.
    OtherForm,
    /// The state to restore into belongs to another model.
    OtherState,
    /// The bytes end before a saved state of this model does. Lengths are in bytes.
    Truncated { needed: usize, given: usize },
    /// The state has been damaged since it was saved: the checksum stored with it is not that of the bytes.
    Damaged { stored: u32, computed: u32 },
    /// The padding of a state is not zero. It begins at index `element` of [`State::values_i16`].
    Padding { element: usize },
}

impl fmt::Display for RestoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NotAState => write!(f, "not a saved state"),
            Self::OtherModel => write!(f, "saved by another model, or by this one packed otherwise"),
            Self::OtherForm => write!(f, "saved with another schedule, or in another version of the format"),
            Self::OtherState => write!(f, "the state to restore into belongs to another model"),
            Self::Truncated { needed, given } => {
                write!(f, "{given} bytes given, but a state of this model has {needed}")
            }
            Self::Damaged { stored, computed } => {
                write!(f, "damaged: checksum {computed:08x}, saved as {stored:08x}")
            }
            Self::Padding { element } => write!(f, "the padding at element {element} is not zero"),
        }
    }
}

impl core::error::Error for RestoreError {}
