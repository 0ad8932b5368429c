//! [`StreamPool`]: many live streams over one model, stepped together.

mod block;
mod slots;
#[cfg(feature = "threads")]
mod threads;

use core::fmt;

use bytemuck::Pod;
use tidegate::internals::backend::Crosses;
use tidegate::{BufferTooSmall, RestoreError, State, Step, StepError};

use self::block::{Lane, Ports, Slab, Turn};
use self::slots::Slots;
pub use self::slots::StreamId;
use crate::lines::Lines;
use crate::model::FusedModel;
use crate::plan::{Element, Nodes, Plan};

/// Words of a cache line.
const LINE: usize = 16;

/// Many live streams over one model. A call steps all streams that have a frame, and reads the weights once for a block
/// of them.
///
/// Streams join and leave at any time. They step in any subset and any order: each has its own clock, so schedules,
/// windows and resets are those of a stream alone, and so are the bits of its outputs and of its state.
///
/// The states are adjacent in memory. Ready streams with adjacent states are stepped in place; the states of others are
/// copied to a block and back. A join takes the lowest free slot, which keeps live streams together.
///
/// [`step`](Self::step) allocates nothing. It steps every ready stream before it returns, so a frame waits for at most
/// the rest of the running call and the next call. A server bounds this wait by the number of streams of a pool, or by
/// the number of streams that it steps in a call.
///
/// ```
/// # use tidegate::{Aligned, ImageBytes, Model};
/// # use tidegate_fused::{FusedModel, StreamPool};
/// # static IMAGE: &Aligned<[u8]> = &Aligned(*include_bytes!("../examples/lstm.tgi"));
/// # let model = Model::parse(ImageBytes::from_aligned(IMAGE))?;
/// let mut pool = StreamPool::new(&FusedModel::new(&model));
/// let [a, b, c] = [pool.join(), pool.join(), pool.join()];
/// // Two of three streams have a frame.
/// let frames = vec![0.5; 2 * model.input_size()];
/// let mut outputs = vec![0.0; 2 * model.output_size()];
/// let steps = pool.step(&[c, a], &frames, &mut outputs)?;
/// assert!(steps.iter().all(|step| step.has_output()));
/// pool.leave(b)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct StreamPool<'m> {
    model: FusedModel<'m>,
    slots: Slots,
    /// A row for each slot: a clock, and the values of the state, which start at a cache line.
    words: Lines<u32>,
    turns: Vec<Turn>,
    steps: Vec<Step>,
    lane: Lane,
    /// Working memory of the threads.
    #[cfg(feature = "threads")]
    shares: threads::Shares,
}

/// Why a pool refuses a call. Nothing has been stepped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PoolError {
    /// The stream has left, or belongs to another pool.
    Unknown(StreamId),
    /// The stream is named twice.
    Twice(StreamId),
    /// A buffer has the wrong length, or the model has no ports of this type.
    Step(StepError),
}

impl fmt::Display for PoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(id) => write!(f, "{id} is not in the pool: it has left, or belongs to another pool"),
            Self::Twice(id) => write!(f, "{id} is named twice: a call steps a stream once"),
            Self::Step(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for PoolError {}

impl From<StepError> for PoolError {
    fn from(error: StepError) -> Self {
        Self::Step(error)
    }
}

impl<'m> StreamPool<'m> {
    /// A pool without streams. It shares the packed weights of `model`.
    pub fn new(model: &FusedModel<'m>) -> Self {
        Self::with_capacity(model, 0)
    }

    /// A pool without streams, with memory for `streams` of them: up to this number, no join allocates.
    pub fn with_capacity(model: &FusedModel<'m>, streams: usize) -> Self {
        let mut pool = Self {
            lane: Lane::new(model),
            model: model.clone(),
            slots: Slots::new(),
            words: Lines::zeroed(0),
            turns: Vec::new(),
            steps: Vec::new(),
            #[cfg(feature = "threads")]
            shares: threads::Shares::default(),
        };
        pool.grow(streams);
        pool
    }

    /// The model.
    pub fn model(&self) -> &FusedModel<'m> {
        &self.model
    }

    /// Number of live streams.
    pub fn len(&self) -> usize {
        self.slots.live()
    }

    /// Whether there are no streams.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of streams that the pool has memory for.
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// Whether a stream is in the pool.
    pub fn contains(&self, id: StreamId) -> bool {
        self.slots.find(id).is_ok()
    }

    /// Adds a stream in the zero state. A full pool doubles its memory first.
    pub fn join(&mut self) -> StreamId {
        if self.slots.is_full() {
            self.grow((2 * self.slots.len()).max(LINE));
        }
        let id = self.slots.join();
        self.row(id.slot()).fill(0);
        id
    }

    /// Removes a stream. Its id stays invalid.
    ///
    /// # Errors
    /// If the stream is not in the pool.
    pub fn leave(&mut self, id: StreamId) -> Result<(), PoolError> {
        self.slots.leave(id)
    }

    /// Resets the state of a stream to zero.
    ///
    /// # Errors
    /// If the stream is not in the pool.
    pub fn reset(&mut self, id: StreamId) -> Result<(), PoolError> {
        let slot = self.slots.find(id)?;
        self.row(slot).fill(0);
        Ok(())
    }

    /// The state of a stream, to read, set or save it, or to continue it with any backend.
    ///
    /// # Errors
    /// If the stream is not in the pool.
    pub fn state(&mut self, id: StreamId) -> Result<State<'_>, PoolError> {
        let (slot, model) = (self.slots.find(id)?, self.model.model);
        let Ok(state) = State::over(&model, self.row(slot)) else { unreachable!("a row has the words of a state") };
        Ok(state)
    }

    /// Saves the state of a stream to the start of `out`, like [`State::save`].
    ///
    /// # Errors
    /// The outer error: the stream is not in the pool. The inner error: `out` is too short.
    pub fn save(&mut self, id: StreamId, out: &mut [u8]) -> Result<Result<usize, BufferTooSmall>, PoolError> {
        Ok(self.state(id)?.save(out))
    }

    /// Restores a state that any backend saved, like [`Model::restore`](tidegate::Model::restore).
    ///
    /// # Errors
    /// The outer error: the stream is not in the pool. The inner error: `bytes` are damaged, or not a state of this model.
    pub fn restore(&mut self, id: StreamId, bytes: &[u8]) -> Result<Result<(), RestoreError>, PoolError> {
        let model = self.model.model;
        Ok(model.restore(&mut self.state(id)?, bytes))
    }

    /// Steps every stream of `ready` once, for a model with one input and one output. Row `i` of `input`, `[ready,
    /// input]`, is the frame of `ready[i]`; row `i` of `output` receives its output. Returns the outcome of each stream: a row
    /// of `output` is unchanged if its step has no output. Allocates nothing.
    ///
    /// # Errors
    /// If a stream is not in the pool or is named twice, or a buffer has the wrong length. Nothing has been stepped.
    pub fn step(&mut self, ready: &[StreamId], input: &[f32], output: &mut [f32]) -> Result<&[Step], PoolError> {
        self.step_ports(ready, &[input], &mut [output])
    }

    /// [`step`](Self::step) with a slice of rows for each input and each output.
    ///
    /// # Errors
    /// As [`step`](Self::step).
    pub fn step_ports(
        &mut self,
        ready: &[StreamId],
        inputs: &[&[f32]],
        outputs: &mut [&mut [f32]],
    ) -> Result<&[Step], PoolError> {
        self.check(ready, inputs, outputs)?;
        let plan = self.model.plan.clone();
        match &*plan {
            Plan::Float(nodes) => self.all(nodes, inputs, outputs),
            Plan::Integer(nodes) => self.all(nodes, inputs, outputs),
        }
        Ok(&self.steps)
    }

    /// [`step_ports`](Self::step_ports) of an integer model without floats.
    ///
    /// # Errors
    /// As [`step`](Self::step); also if the model is a float model.
    pub fn step_ports_i16(
        &mut self,
        ready: &[StreamId],
        inputs: &[&[i16]],
        outputs: &mut [&mut [i16]],
    ) -> Result<&[Step], PoolError> {
        let plan = self.model.plan.clone();
        let Plan::Integer(nodes) = &*plan else { return Err(StepError::FloatModel.into()) };
        self.model.model.check_buffers(
            self.lane.scratch.words.get_mut(),
            (inputs, ready.len()),
            (outputs, ready.len()),
        )?;
        self.slots.turns(ready, &mut self.turns)?;
        self.all(nodes, inputs, outputs);
        Ok(&self.steps)
    }

    /// Ends the sequence of a stream of a model with windows, like [`FusedModel::finish`].
    ///
    /// # Errors
    /// If the stream is not in the pool, or a buffer has the wrong length.
    pub fn finish(&mut self, id: StreamId, outputs: &mut [&mut [f32]]) -> Result<Step, PoolError> {
        let slot = self.slots.find(id)?;
        let words = row(&self.model, &mut self.words, slot);
        Ok(self.model.finish_words(words, &mut self.lane.scratch, outputs)?)
    }

    /// Checks a call, and lists the turns in the order of the slots.
    fn check(&mut self, ready: &[StreamId], inputs: &[&[f32]], outputs: &[&mut [f32]]) -> Result<(), PoolError> {
        let (model, rows) = (self.model.model, ready.len());
        model.check_floats()?;
        model.check_buffers(self.lane.scratch.words.get_mut(), (inputs, rows), (outputs, rows))?;
        self.slots.turns(ready, &mut self.turns)
    }

    /// Steps the streams of `turns` on this thread.
    fn all<E: Element, P: Crosses<E> + Pod>(
        &mut self,
        nodes: &Nodes<'_, E>,
        inputs: &[&[P]],
        outputs: &mut [&mut [P]],
    ) {
        let Self { model, words, turns, steps, lane, .. } = self;
        steps.clear();
        steps.resize(turns.len(), Step::new(false));
        let slab = Slab::new(model, words);
        lane.run(model, nodes, slab, turns, Ports { inputs, outputs, steps });
    }

    /// Makes room for `streams` streams.
    fn grow(&mut self, streams: usize) {
        let words = self.words.len();
        if streams > self.slots.len() {
            self.slots.grow(streams);
            let mut grown = Lines::zeroed(Slab::words(&self.model, streams));
            grown.get_mut()[..words].copy_from_slice(self.words.get());
            self.words = grown;
            self.turns.reserve_exact(streams - self.turns.len());
            self.steps.reserve_exact(streams - self.steps.len());
        }
    }

    fn row(&mut self, slot: usize) -> &mut [u32] {
        row(&self.model, &mut self.words, slot)
    }
}

/// The state of a slot.
fn row<'s>(model: &FusedModel<'_>, words: &'s mut Lines<u32>, slot: usize) -> &'s mut [u32] {
    Slab::new(model, words).into_row(slot)
}
