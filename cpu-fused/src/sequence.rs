//! Whole sequences, one or a batch of them. Where every step of a model gives an output, layer after layer: all that a layer
//! sees of its input is multiplied at once, and sequences go through the recurrent weights together. Models that look at
//! windows have a [page](crate::windows) of their own, those in another schedule step.

use tidegate::backend::{Crosses, Pass};
use tidegate::step::StepError;
use tidegate::{Batch, Sequence, State};

use crate::field::{Field, STEPS};
use crate::model::{Element, FusedModel, Nodes, Packed, Plan, Scratch};
use crate::node::{Line, Span};
use crate::step::{Rows, unseen};

/// Sequences that are run together, at most: rows enough for weights out of the third cache, and few enough for many steps.
pub(crate) const SEQUENCES: usize = 24;
/// More steps than [`STEPS`] of small layers, as long as all arenas have no more elements than this: the second cache holds
/// them.
const CACHED_ELEMENTS: usize = 3 << 14;
/// Elements of all arenas, unless one step needs more.
pub(crate) const ELEMENTS: usize = 1 << 22;

impl FusedModel<'_> {
    /// A whole sequence of a model with one input and one output: [`Model::run_f32`](tidegate::Model::run_f32).
    ///
    /// # Errors
    /// If a buffer has the wrong length, or the state is not this model's. Nothing has run then.
    pub fn run(
        &self,
        state: &mut State<'_>,
        scratch: &mut Scratch,
        input: &[f32],
        output: &mut [f32],
    ) -> Result<usize, StepError> {
        self.run_ports(state, scratch, &[input], &mut [output], &Sequence::ALL)
    }

    /// A whole sequence: [`Model::run_ports`](tidegate::Model::run_ports).
    ///
    /// # Errors
    /// As [`run`](Self::run); also for a length beyond the sequence, and flags that are not one for each step.
    pub fn run_ports(
        &self,
        state: &mut State<'_>,
        scratch: &mut Scratch,
        inputs: &[&[f32]],
        outputs: &mut [&mut [f32]],
        sequence: &Sequence<'_>,
    ) -> Result<usize, StepError> {
        let words = state.words_mut(&self.model)?;
        self.sequences(1, words, scratch, inputs, outputs, sequence)
    }

    /// A sequence for each state of a batch: [`Model::run_batch`](tidegate::Model::run_batch).
    ///
    /// # Errors
    /// As [`run_ports`](Self::run_ports); also if there are not as many lengths as sequences.
    pub fn run_batch(
        &self,
        batch: &mut Batch<'_>,
        scratch: &mut Scratch,
        inputs: &[&[f32]],
        outputs: &mut [&mut [f32]],
        sequence: &Sequence<'_>,
    ) -> Result<usize, StepError> {
        let len = batch.len();
        let words = batch.words_mut(&self.model)?;
        self.sequences(len, words, scratch, inputs, outputs, sequence)
    }

    pub(crate) fn sequences(
        &self,
        batch: usize,
        words: &mut [u32],
        scratch: &mut Scratch,
        inputs: &[&[f32]],
        outputs: &mut [&mut [f32]],
        how: &Sequence<'_>,
    ) -> Result<usize, StepError> {
        let (_, time) = self.model.check_sequences(batch, scratch.words.get_mut(), inputs, outputs, how)?;
        Ok(match &*self.plan {
            Plan::Float(nodes) if self.is_plain => self.layers(nodes, words, scratch, inputs, outputs, how, time),
            Plan::Integer(nodes) if self.is_plain => self.layers(nodes, words, scratch, inputs, outputs, how, time),
            Plan::Float(nodes) if self.is_endless() => self.windows(nodes, words, scratch, inputs, outputs, how, time),
            Plan::Integer(nodes) if self.is_endless() => {
                self.windows(nodes, words, scratch, inputs, outputs, how, time)
            }
            _ => {
                let states = words.chunks_mut(self.model.state_words());
                let steps = states
                    .enumerate()
                    .map(|(index, words)| self.one_by_one(words, scratch, inputs, outputs, how, (index, time)));
                steps.sum()
            }
        })
    }

    /// Sequence `index` of a batch of `time` steps each, step by step.
    fn one_by_one(
        &self,
        words: &mut [u32],
        scratch: &mut Scratch,
        inputs: &[&[f32]],
        outputs: &mut [&mut [f32]],
        how: &Sequence<'_>,
        (index, time): (usize, usize),
    ) -> usize {
        let from = index * time;
        let (to, rows) = if how.last_only { (index, 1) } else { (from, time) };
        let len = how.lens.map_or(time, |lens| lens[index]);
        let mut written = 0;
        for t in 0..len {
            if how.resets.is_some_and(|resets| resets[from + t]) {
                words.fill(0);
            }
            let to = to + if how.last_only { 0 } else { written };
            let rows = Rows { inputs, from: from + t, outputs, to, wanted: true };
            written += usize::from(self.advance(words, scratch, rows, &mut unseen));
        }
        if how.finish && len > 0 {
            let to = to + if how.last_only { 0 } else { written };
            written += usize::from(self.end(words, scratch, outputs, to));
        }
        let written = written.min(rows);
        self.blank(outputs, to + written, rows - written);
        written
    }

    /// All sequences of a plain model, layer after layer.
    #[expect(clippy::too_many_arguments)]
    fn layers<E: Element>(
        &self,
        nodes: &Nodes<'_, E>,
        words: &mut [u32],
        scratch: &mut Scratch,
        inputs: &[&[f32]],
        outputs: &mut [&mut [f32]],
        how: &Sequence<'_>,
        time: usize,
    ) -> usize
    where
        f32: Crosses<E>,
    {
        let state_words = self.model.state_words();
        let mut written = 0;
        // All groups about as large.
        let sequences = words.len() / state_words;
        let together = sequences.div_ceil(sequences.div_ceil(SEQUENCES).max(1)).max(1);
        for (group, words) in words.chunks_mut(state_words * together).enumerate() {
            let first = group * together;
            let batch = words.len() / state_words;
            let len = |index: usize| how.lens.map_or(time, |lens| lens[first + index]);
            let elements = self.model.slot_elements().max(1);
            let most = (STEPS.max(CACHED_ELEMENTS / elements).min(ELEMENTS / elements) / batch).max(1);
            let longest = (0..batch).map(len).max().unwrap_or(0);
            for begin in (0..longest).step_by(most) {
                let chunk = most.min(longest - begin);
                let lens: Vec<usize> = (0..batch).map(|index| len(index).clamp(begin, begin + chunk) - begin).collect();
                let resets = how.resets.map_or(&[][..], |resets| &resets[first * time + begin..]);
                let range = Range { batch, chunk, lens: &lens, resets, time };
                let rows = (first * time + begin, time);
                if !how.last_only && self.direct(nodes, words, scratch, (inputs, outputs), rows, &range) {
                    continue;
                }
                self.chunk(nodes, words, scratch, inputs, rows, &range);
                let arenas: &[E] = bytemuck::cast_slice(scratch.arenas.get());
                for (index, &steps) in lens.iter().enumerate() {
                    let from = if how.last_only { len(index).saturating_sub(begin + 1).min(steps) } else { 0 };
                    for t in from..steps {
                        let to = if how.last_only { first + index } else { (first + index) * time + begin + t };
                        self.leave(&arenas[(index * chunk + t) * self.model.slot_elements()..], outputs, to);
                    }
                }
            }
            for index in 0..batch {
                let (rows, count) = if how.last_only { (1, len(index).min(1)) } else { (time, len(index)) };
                self.blank(outputs, (first + index) * rows + count, rows - count);
                written += count;
                if len(index) > 0 {
                    // What an endless clock ticks to.
                    words[index * state_words] = 0;
                }
            }
        }
        written
    }

    /// [`chunk`](Self::chunk) of a model that is but one layer of floats, which reads and writes the caller's slices; whether
    /// it is one.
    fn direct<E: Element>(
        &self,
        nodes: &Nodes<'_, E>,
        words: &mut [u32],
        scratch: &mut Scratch,
        (inputs, outputs): (&[&[f32]], &mut [&mut [f32]]),
        (first, time): (usize, usize),
        range: &Range<'_>,
    ) -> bool {
        let (Some([x, y]), [input], [output], [node]) = (self.single, inputs, outputs, nodes.all.as_slice()) else {
            return false;
        };
        let (Some(kernel), true) = (&node.kernel, size_of::<E>() == size_of::<f32>()) else { return false };
        let [work, ..] = nodes.most(range.batch, range.chunk);
        scratch.work.at_least(work);
        let line = |len| Line { start: first * len, sequence: time * len, row: len, len, mirrored: false };
        kernel.run(&mut Span {
            source: Some(bytemuck::cast_slice(input)),
            memory: bytemuck::cast_slice_mut(output),
            input: line(x),
            output: line(y),
            time: range.chunk,
            lens: range.lens,
            resets: range.resets,
            resets_time: range.time,
            states: bytemuck::cast_slice_mut(words),
            state_stride: self.model.state_words(),
            // Behind the clock.
            state: node.state.start + 1..node.state.end + 1,
            work: bytemuck::cast_slice_mut(scratch.work.get_mut()),
            rows: &mut scratch.rows,
        });
        true
    }

    /// Some steps of some sequences, whose inputs begin with row `first`, `time` rows to a sequence.
    fn chunk<E: Element>(
        &self,
        nodes: &Nodes<'_, E>,
        words: &mut [u32],
        scratch: &mut Scratch,
        inputs: &[&[f32]],
        (first, time): (usize, usize),
        range: &Range<'_>,
    ) where
        f32: Crosses<E>,
    {
        let &Range { batch, chunk, lens, .. } = range;
        let stride = self.model.slot_elements();
        let per_word = size_of::<u32>() / size_of::<E>();
        let [work, gathered, _] = nodes.most(batch, chunk);
        let spare = batch * chunk * stride;
        scratch.arenas.at_least((spare + gathered).div_ceil(per_word));
        scratch.work.at_least(work.div_ceil(per_word));
        let memory: &mut [E] = bytemuck::cast_slice_mut(scratch.arenas.get_mut());
        for (index, &steps) in lens.iter().enumerate() {
            for t in 0..steps {
                self.enter(inputs, first + index * time + t, &mut memory[(index * chunk + t) * stride..][..stride]);
            }
        }
        let core_work = &mut bytemuck::cast_slice_mut::<_, E>(scratch.words.get_mut())[stride..];
        let mut field = Field {
            memory,
            spare,
            stride,
            time: chunk,
            states: bytemuck::cast_slice_mut(words),
            state_stride: self.model.state_words() * per_word,
            // Behind the clock.
            first: per_word,
            work: bytemuck::cast_slice_mut(scratch.work.get_mut()),
            rows: &mut scratch.rows,
        };
        for node in &nodes.all {
            run(node, &mut field, lens, (range.resets, range.time), core_work);
        }
    }

    /// Zeros in so many rows of every output.
    pub(crate) fn blank(&self, outputs: &mut [&mut [f32]], from: usize, rows: usize) {
        for (port, output) in self.outputs.iter().zip(outputs.iter_mut()) {
            let len = port.place.len();
            output[from * len..(from + rows) * len].fill(0.0);
        }
    }
}

/// Some steps of some sequences.
struct Range<'s> {
    batch: usize,
    /// Steps of each at most.
    chunk: usize,
    /// Steps of each.
    lens: &'s [usize],
    /// From the first step of the first sequence on.
    resets: &'s [bool],
    /// Flags of a sequence.
    time: usize,
}

/// A node over all steps, of which so many of each sequence count.
pub(crate) fn run<E: Element>(
    node: &Packed<'_, E>,
    field: &mut Field<'_, E>,
    lens: &[usize],
    (resets, flags): (&[bool], usize),
    core_work: &mut [E],
) {
    if let (Some(kernel), None) = (&node.kernel, node.node.unroll) {
        return field.steps(node, &**kernel, lens, (resets, flags));
    }
    let longest = lens.iter().copied().max().unwrap_or(0);
    let mut rows = vec![0; lens.len()];
    for t in 0..longest {
        for (sequence, rows) in rows.iter_mut().enumerate() {
            // The input holds all rows.
            *rows = if t < lens[sequence] { node.node.steps() } else { 0 };
            let (arena, state) = (field.arena(sequence, t), field.state(node, sequence));
            let state = &mut field.states[state..state + node.state.len()];
            if *rows > 0 && resets.get(sequence * flags + t) == Some(&true) {
                state.fill(E::default());
            }
            if *rows > 0 && node.kernel.is_none() {
                let slots = &mut field.memory[arena..arena + field.stride];
                // None of these nodes ends the pass.
                E::step_by_core(&node.node, &mut Pass::STEP.clone(), state, slots, core_work);
            }
        }
        if let Some(kernel) = &node.kernel {
            field.windows(node, &**kernel, t, &mut rows);
        }
    }
}
