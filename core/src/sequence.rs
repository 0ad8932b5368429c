//! Whole sequences, one or a batch of them: a loop over the step, so that both give the same bits.

use crate::batch::Batch;
use crate::engine::{Buffers, unseen};
use crate::error::WrongLength;
use crate::model::Model;
use crate::run::Pass;
use crate::schedule::Schedule;
use crate::state::State;
use crate::step::{ShapeError, StepError};

/// How sequences are run. [`ALL`](Self::ALL): every step of each, on from the state that it has, with every output.
///
/// A step in the middle that does not count (Keras's masks) is left out of the sequence: the state stays as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sequence<'s> {
    /// How many steps of each sequence count, `[batch]`; none: all. The others do not run, so that the state is the one
    /// after the last that counts.
    pub lens: Option<&'s [usize]>,
    /// Before which steps the state goes back to zero, `[batch, time]`; none: never.
    pub resets: Option<&'s [bool]>,
    /// Only the last output of each sequence is given (Keras's `return_sequences=False`).
    pub last_only: bool,
    /// Each sequence that has steps ends behind the last that counts, as by [`Model::finish`].
    pub finish: bool,
}

impl Sequence<'_> {
    /// Every step with every output: the default.
    pub const ALL: Self = Self { lens: None, resets: None, last_only: false, finish: false };
}

impl Model<'_> {
    /// A whole sequence of a model with one input and one output: as many steps as `input`, `[time, input_size]`,
    /// holds. Each step that has an output writes the next row of `output`, `[time, output_size]`; rows that are left
    /// are zero. Returns how many rows were written.
    ///
    /// # Errors
    /// If a buffer has the wrong length, or the state is not this model's. Nothing has run then.
    pub fn run_f32(
        &self,
        state: &mut State<'_>,
        scratch: &mut [u32],
        input: &[f32],
        output: &mut [f32],
    ) -> Result<usize, StepError> {
        self.run_ports(state, scratch, &[input], &mut [output], &Sequence::ALL)
    }

    /// A whole sequence, with a slice for each input, `[time, size]`, and for each output, `[time, size]`, or `[size]`
    /// for the last one only. Rows of outputs that were not written are zero; returns how many were.
    ///
    /// # Errors
    /// As [`run_f32`](Self::run_f32); also for a length beyond the sequence, and flags that are not one for each step.
    pub fn run_ports(
        &self,
        state: &mut State<'_>,
        scratch: &mut [u32],
        inputs: &[&[f32]],
        outputs: &mut [&mut [f32]],
        sequence: &Sequence<'_>,
    ) -> Result<usize, StepError> {
        self.check_owner(state.owner, state.words.len())?;
        let (scratch, time) = self.check_sequences(1, scratch, inputs, outputs, sequence)?;
        Ok(self.sequence(state, scratch, inputs, outputs, sequence, Place { index: 0, time }))
    }

    /// A sequence for each state of a batch, all of as many steps: inputs are `[batch, time, size]`, outputs too, or
    /// `[batch, size]` for the last ones only. Each sequence gives the bits that it gives alone. Rows of outputs that
    /// were not written are zero; returns how many were, of all sequences together.
    ///
    /// Inputs that lie time-major, `[time, batch, size]`, are run one time step after the other: each is a batch of
    /// sequences of one step.
    ///
    /// # Errors
    /// As [`run_ports`](Self::run_ports); also if there are not as many lengths as sequences.
    pub fn run_batch(
        &self,
        batch: &mut Batch<'_>,
        scratch: &mut [u32],
        inputs: &[&[f32]],
        outputs: &mut [&mut [f32]],
        sequence: &Sequence<'_>,
    ) -> Result<usize, StepError> {
        self.check_owner(batch.owner(), batch.state_words())?;
        let (scratch, time) = self.check_sequences(batch.len(), scratch, inputs, outputs, sequence)?;
        let mut written = 0;
        for (index, mut state) in batch.states().enumerate() {
            written += self.sequence(&mut state, scratch, inputs, outputs, sequence, Place { index, time });
        }
        Ok(written)
    }

    /// One sequence of a batch, whose buffers have been checked.
    fn sequence(
        &self,
        state: &mut State<'_>,
        scratch: &mut [u32],
        inputs: &[&[f32]],
        outputs: &mut [&mut [f32]],
        sequence: &Sequence<'_>,
        Place { index, time }: Place,
    ) -> usize {
        // Checked before.
        let Ok(engine) = self.engine() else { return 0 };
        let from = index * time;
        let (to, rows) = if sequence.last_only { (index, 1) } else { (from, time) };
        let len = sequence.lens.and_then(|lens| lens.get(index)).map_or(time, |&len| len);
        let resets = sequence.resets.and_then(|resets| resets.get(from..)).unwrap_or_default();
        // Where every step gives an output, only the last step's is the last.
        let all = !sequence.last_only || self.schedule() != Schedule::Endless || self.has_buffer();
        let mut written = 0;
        for t in 0..len {
            if resets.get(t) == Some(&true) {
                state.reset();
            }
            let row = to + if sequence.last_only { 0 } else { written };
            let wanted = all || t + 1 == len;
            let buffers = Buffers { scratch, inputs, from: from + t, outputs, to: row, wanted };
            let output = engine(self, state, buffers, Pass::STEP, &mut unseen);
            written += usize::from(output);
        }
        if sequence.finish && len > 0 {
            let row = to + if sequence.last_only { 0 } else { written };
            let buffers = Buffers { scratch, inputs, from: 0, outputs, to: row, wanted: true };
            written += usize::from(engine(self, state, buffers, Pass::FINISH, &mut unseen));
        }
        let written = written.min(rows);
        for (((_, size), _), output) in self.outputs().slots().zip(outputs) {
            let left = (to + written) * size..(to + rows) * size;
            output.get_mut(left).unwrap_or_default().fill(0.0);
        }
        written
    }

    /// Everything that can be wrong with the buffers and the numbers of a run, before it changes anything. Returns the
    /// scratch, and the steps of each sequence.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check_sequences<'s>(
        &self,
        batch: usize,
        scratch: &'s mut [u32],
        inputs: &[&[f32]],
        outputs: &[&mut [f32]],
        sequence: &Sequence<'_>,
    ) -> Result<(&'s mut [u32], usize), StepError> {
        self.engine()?;
        // The first input says how many steps there are.
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

/// Where the rows of a sequence lie: it is sequence `index` of a batch, all of which have `time` steps.
#[derive(Clone, Copy)]
struct Place {
    index: usize,
    time: usize,
}
