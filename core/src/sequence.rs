//! Whole sequences, one or a batch of them. They loop over the step, so their results are bit-identical to stepping.

use crate::batch::Batch;
use crate::element::unseen;
use crate::error::{ShapeError, StepError, WrongLength};
use crate::model::Model;
use crate::node::Pass;
use crate::port::Buffers;
use crate::schedule::Schedule;
use crate::state::State;
use crate::step::PortValue;

/// Options for running sequences. [`ALL`](Self::ALL) runs every step of each sequence, continues from the given state,
/// and returns every output.
///
/// Masked steps in the middle of a sequence (Keras's masks) must be left out of the input, so that the state does not
/// change.
/// ```
/// use tidegate::{Model, Sequence, State};
///
/// const MODEL: Model = tidegate::include_model!("../examples/kws.tgi").endless();
///
/// let (mut memory, mut scratch) = ([0; MODEL.state_words()], [0; MODEL.scratch_words()]);
/// let mut state = State::new(&MODEL, &mut memory)?;
/// let (input, mut last) = ([0.5; 10 * MODEL.input_size()], [0.0; MODEL.output_size()]);
/// let how = Sequence { last_only: true, ..Sequence::ALL };
/// let rows = MODEL.run_ports(&mut state, &mut scratch, &[&input], &mut [&mut last], &how)?;
/// assert_eq!(rows, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sequence<'s> {
    /// Number of valid steps of each sequence, `[batch]`; `None` for all. The other steps do not run, so that the final
    /// state is that after the last valid step.
    pub lens: Option<&'s [usize]>,
    /// The steps before which the state is reset to zero, `[batch, time]`; `None` for none.
    pub resets: Option<&'s [bool]>,
    /// Whether only the last output of each sequence is returned (Keras's `return_sequences=False`).
    pub last_only: bool,
    /// Whether each sequence that has steps is ended after its last valid step, as by [`Model::finish`].
    pub finish: bool,
}

impl Sequence<'_> {
    /// Every step with every output: the default.
    pub const ALL: Self = Self { lens: None, resets: None, last_only: false, finish: false };
}

impl Model<'_> {
    /// Runs a whole sequence of a model with one input and one output. `input` is `[time, input_size]`. Each step that has
    /// an output writes the next row of `output`, `[time, output_size]`; the remaining rows are set to zero. Returns the
    /// number of rows written.
    ///
    /// # Errors
    /// If a buffer has the wrong length, or the state belongs to another model. In that case no step has run.
    pub fn run_f32(
        &self,
        state: &mut State<'_>,
        scratch: &mut [u32],
        input: &[f32],
        output: &mut [f32],
    ) -> Result<usize, StepError> {
        self.run_ports(state, scratch, &[input], &mut [output], &Sequence::ALL)
    }

    /// [`run_f32`](Self::run_f32) of a model in an integer numeric, without a float.
    ///
    /// # Errors
    /// As [`run_f32`](Self::run_f32); also if the numeric is a float one.
    pub fn run_i16(
        &self,
        state: &mut State<'_>,
        scratch: &mut [u32],
        input: &[i16],
        output: &mut [i16],
    ) -> Result<usize, StepError> {
        self.run_ports_i16(state, scratch, &[input], &mut [output], &Sequence::ALL)
    }

    /// Runs a whole sequence, with a slice for each input, `[time, size]`, and for each output, `[time, size]`, or
    /// `[size]` if only the last one is wanted. Rows of outputs that no step wrote are set to zero. Returns the number
    /// of rows written.
    ///
    /// # Errors
    /// As [`run_f32`](Self::run_f32); also if a given length exceeds the number of steps, or if there is not one reset
    /// flag per step.
    pub fn run_ports(
        &self,
        state: &mut State<'_>,
        scratch: &mut [u32],
        inputs: &[&[f32]],
        outputs: &mut [&mut [f32]],
        sequence: &Sequence<'_>,
    ) -> Result<usize, StepError> {
        self.run_one(state, scratch, inputs, outputs, sequence)
    }

    /// [`run_ports`](Self::run_ports) of a model in an integer numeric, without a float.
    ///
    /// # Errors
    /// As [`run_ports`](Self::run_ports); also if the numeric is a float one.
    pub fn run_ports_i16(
        &self,
        state: &mut State<'_>,
        scratch: &mut [u32],
        inputs: &[&[i16]],
        outputs: &mut [&mut [i16]],
        sequence: &Sequence<'_>,
    ) -> Result<usize, StepError> {
        self.run_one(state, scratch, inputs, outputs, sequence)
    }

    fn run_one<P: PortValue>(
        &self,
        state: &mut State<'_>,
        scratch: &mut [u32],
        inputs: &[&[P]],
        outputs: &mut [&mut [P]],
        sequence: &Sequence<'_>,
    ) -> Result<usize, StepError> {
        self.check_owner(state.owner, state.words.len())?;
        let (scratch, time) = self.check_sequences(1, scratch, inputs, outputs, sequence)?;
        self.sequence(state, scratch, inputs, outputs, sequence, Place { index: 0, time })
    }

    /// Runs one sequence for each state of a batch, all with the same number of steps. Inputs are `[batch, time, size]`.
    /// Outputs are `[batch, time, size]` as well, or `[batch, size]` if only the last ones are wanted. The results of each
    /// sequence are bit-identical to those of running it alone. Rows of outputs that no step wrote are set to zero.
    /// Returns the total number of rows written.
    ///
    /// To run time-major inputs, `[time, batch, size]`, call this function once per time step, with a batch of sequences
    /// of one step.
    ///
    /// # Errors
    /// As [`run_ports`](Self::run_ports); also if there is not one length per sequence.
    pub fn run_batch(
        &self,
        batch: &mut Batch<'_>,
        scratch: &mut [u32],
        inputs: &[&[f32]],
        outputs: &mut [&mut [f32]],
        sequence: &Sequence<'_>,
    ) -> Result<usize, StepError> {
        self.run_each(batch, scratch, inputs, outputs, sequence)
    }

    /// [`run_batch`](Self::run_batch) of a model in an integer numeric, without a float.
    ///
    /// # Errors
    /// As [`run_batch`](Self::run_batch); also if the numeric is a float one.
    pub fn run_batch_i16(
        &self,
        batch: &mut Batch<'_>,
        scratch: &mut [u32],
        inputs: &[&[i16]],
        outputs: &mut [&mut [i16]],
        sequence: &Sequence<'_>,
    ) -> Result<usize, StepError> {
        self.run_each(batch, scratch, inputs, outputs, sequence)
    }

    fn run_each<P: PortValue>(
        &self,
        batch: &mut Batch<'_>,
        scratch: &mut [u32],
        inputs: &[&[P]],
        outputs: &mut [&mut [P]],
        sequence: &Sequence<'_>,
    ) -> Result<usize, StepError> {
        self.check_owner(batch.owner(), batch.state_words())?;
        let (scratch, time) = self.check_sequences(batch.len(), scratch, inputs, outputs, sequence)?;
        let mut written = 0;
        for (index, mut state) in batch.states().enumerate() {
            written += self.sequence(&mut state, scratch, inputs, outputs, sequence, Place { index, time })?;
        }
        Ok(written)
    }

    /// Runs one sequence of a batch, whose buffers have been checked.
    fn sequence<P: PortValue>(
        &self,
        state: &mut State<'_>,
        scratch: &mut [u32],
        inputs: &[&[P]],
        outputs: &mut [&mut [P]],
        sequence: &Sequence<'_>,
        Place { index, time }: Place,
    ) -> Result<usize, StepError> {
        let from = index * time;
        let (to, rows) = if sequence.last_only { (index, 1) } else { (from, time) };
        let len = sequence.lens.and_then(|lens| lens.get(index)).map_or(time, |&len| len);
        let resets = sequence.resets.and_then(|resets| resets.get(from..)).unwrap_or_default();
        // If every step has an output, only the last step needs to write it.
        let all = !sequence.last_only || self.schedule() != Schedule::Endless || self.has_buffer();
        let (mut written, mut begin) = (0, 0);
        if !sequence.last_only && resets.is_empty() {
            let buffers = Buffers { scratch, inputs, from, outputs, to, wanted: true };
            if P::advance_rows(self, state.words, buffers, len).ok_or(StepError::ImageChanged)? {
                (written, begin) = (len, len);
            }
        }
        for t in begin..len {
            if resets.get(t) == Some(&true) {
                state.reset();
            }
            let row = to + if sequence.last_only { 0 } else { written };
            let wanted = all || t + 1 == len;
            let buffers = Buffers { scratch, inputs, from: from + t, outputs, to: row, wanted };
            written += usize::from(self.advance(state, buffers, Pass::STEP)?);
        }
        if sequence.finish && len > 0 {
            let row = to + if sequence.last_only { 0 } else { written };
            let buffers = Buffers { scratch, inputs, from: 0, outputs, to: row, wanted: true };
            written += usize::from(self.advance(state, buffers, Pass::FINISH)?);
        }
        let written = written.min(rows);
        for (((_, size), _), output) in self.outputs().slots().zip(outputs) {
            let left = (to + written) * size..(to + rows) * size;
            output.get_mut(left).unwrap_or_default().fill(P::zeroed());
        }
        Ok(written)
    }

    /// One pass of a sequence. Never inlined, so that all callers share the code.
    #[inline(never)]
    fn advance<P: PortValue>(
        &self,
        state: &mut State<'_>,
        buffers: Buffers<'_, '_, '_, P>,
        pass: Pass,
    ) -> Result<bool, StepError> {
        P::advance(self, state.words, buffers, pass, &mut unseen).ok_or(StepError::ImageChanged)
    }

    /// Checks all buffers, lengths and flags of a run before it changes anything. Returns the scratch and the number of
    /// steps of each sequence.
    ///
    /// # Errors
    /// The first error found.
    #[doc(hidden)]
    pub fn check_sequences<'s, P: PortValue>(
        &self,
        batch: usize,
        scratch: &'s mut [u32],
        inputs: &[&[P]],
        outputs: &[&mut [P]],
        sequence: &Sequence<'_>,
    ) -> Result<(&'s mut [u32], usize), StepError> {
        P::check(self)?;
        // The length of the first input determines the number of steps.
        let (row, given) = (self.input_size().saturating_mul(batch), inputs.first().map_or(0, |input| input.len()));
        let (time, ragged) = (given.checked_div(row).unwrap_or(0), given.checked_rem(row).unwrap_or(given));
        if ragged > 0 {
            return Err(StepError::Input(ShapeError { port: 0, needed: row, given: ragged }));
        }
        let steps = time * batch;
        let scratch =
            self.check_buffers(scratch, (inputs, steps), (outputs, if sequence.last_only { batch } else { steps }))?;
        if let Some(lens) = sequence.lens {
            if lens.len() != batch {
                return Err(StepError::Lens(WrongLength { expected: batch, given: lens.len() }));
            }
            if let Some((sequence, &given)) = lens.iter().enumerate().find(|&(_, &len)| len > time) {
                return Err(StepError::Len { sequence, steps: time, given });
            }
        }
        match sequence.resets {
            Some(resets) if resets.len() != steps => {
                Err(StepError::Resets(WrongLength { expected: steps, given: resets.len() }))
            }
            _ => Ok((scratch, time)),
        }
    }
}

/// The position of the rows of sequence `index` of a batch, whose sequences all have `time` steps.
#[derive(Clone, Copy)]
struct Place {
    index: usize,
    time: usize,
}
