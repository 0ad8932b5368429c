//! Whole sequences, one or a batch. Models in which every step has an output run layer by layer: the products of a
//! layer with its input are computed for many steps at once, and all sequences share each pass over the recurrent
//! weights. Models with windows run in [`windows`](crate::windows). Models with another schedule run step by step.

use tidegate::internals::backend::{Crosses, Pass};
use tidegate::{Batch, Sequence, State, StepError};

use crate::arenas::Arenas;
use crate::layer::{Line, SEQUENCES, Span};
use crate::model::{FusedModel, Scratch};
use crate::plan::{Element, Nodes, Packed, Plan, STEPS};
use crate::step::{Rows, unseen};

/// Small layers run more than [`STEPS`] steps at once, as long as all arenas together have at most this many elements,
/// which fit the second-level cache.
const CACHED_ELEMENTS: usize = 3 << 14;
/// Largest number of elements of all arenas, unless one step needs more.
pub(crate) const ELEMENTS: usize = 1 << 22;

impl FusedModel<'_> {
    /// Runs a whole sequence of a model with one input and one output, like
    /// [`Model::run_f32`](tidegate::Model::run_f32).
    ///
    /// # Errors
    /// If a buffer has the wrong length, or the state belongs to another model. Nothing runs in that case.
    pub fn run(
        &self,
        state: &mut State<'_>,
        scratch: &mut Scratch,
        input: &[f32],
        output: &mut [f32],
    ) -> Result<usize, StepError> {
        self.run_ports(state, scratch, &[input], &mut [output], &Sequence::ALL)
    }

    /// Runs a whole sequence with a slice for each input and output, like
    /// [`Model::run_ports`](tidegate::Model::run_ports).
    ///
    /// # Errors
    /// As [`run`](Self::run); also if a length exceeds the sequence, or there is not one reset flag per step.
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

    /// Runs one sequence for each state of a batch, like [`Model::run_batch`](tidegate::Model::run_batch).
    ///
    /// # Errors
    /// As [`run_ports`](Self::run_ports); also if the number of lengths differs from the number of sequences.
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
        self.check_scratch(scratch)?;
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

    /// Runs sequence `index` of a batch, of `time` steps each, step by step.
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

    /// Runs all sequences of a plain model, layer by layer.
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
        // Groups of about equal size.
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
                    // An endless clock stays at zero.
                    words[index * state_words] = 0;
                }
            }
        }
        written
    }

    /// [`chunk`](Self::chunk) of a model that is a single float layer, which reads and writes the caller's slices.
    /// Returns false for any other model.
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
        let (Some(layer), true) = (&node.layer, size_of::<E>() == size_of::<f32>()) else { return false };
        let [work, ..] = nodes.most(range.batch, range.chunk);
        scratch.work.at_least(work);
        let line = |len| Line { start: first * len, sequence: time * len, row: len, len, mirrored: false };
        layer.run(&mut Span {
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
            // After the clock.
            state: node.state.start + 1..node.state.end + 1,
            work: bytemuck::cast_slice_mut(scratch.work.get_mut()),
            rows: &mut scratch.rows,
        });
        true
    }

    /// Runs some steps of some sequences. Their inputs start with row `first`, and each sequence has `time` rows.
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
        let mut field = Arenas {
            memory,
            spare,
            stride,
            time: chunk,
            states: bytemuck::cast_slice_mut(words),
            state_stride: self.model.state_words() * per_word,
            // After the clock.
            first: per_word,
            work: bytemuck::cast_slice_mut(scratch.work.get_mut()),
            rows: &mut scratch.rows,
        };
        for node in &nodes.all {
            run(node, &mut field, lens, (range.resets, range.time), core_work);
        }
    }

    /// Fills `rows` rows of every output with zeros.
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
    /// Largest number of steps of a sequence.
    chunk: usize,
    /// Steps of each sequence.
    lens: &'s [usize],
    /// Reset flags from the first step of the first sequence on.
    resets: &'s [bool],
    /// Reset flags per sequence.
    time: usize,
}

/// Runs a node over the first `lens` steps of each sequence.
pub(crate) fn run<E: Element>(
    node: &Packed<'_, E>,
    field: &mut Arenas<'_, E>,
    lens: &[usize],
    (resets, flags): (&[bool], usize),
    core_work: &mut [E],
) {
    if let (Some(layer), None) = (&node.layer, node.node.unroll) {
        return field.steps(node, &**layer, lens, (resets, flags));
    }
    let longest = lens.iter().copied().max().unwrap_or(0);
    let mut rows = vec![0; lens.len()];
    for t in 0..longest {
        for (sequence, rows) in rows.iter_mut().enumerate() {
            // The input has all rows.
            *rows = if t < lens[sequence] { node.node.steps() } else { 0 };
            let (arena, state) = (field.arena(sequence, t), field.state(node, sequence));
            let state = &mut field.states[state..state + node.state.len()];
            if *rows > 0 && resets.get(sequence * flags + t) == Some(&true) {
                state.fill(E::default());
            }
            if *rows > 0 && node.layer.is_none() {
                let slots = &mut field.memory[arena..arena + field.stride];
                // No node of such a model ends the pass.
                node.step_alone(&mut Pass::STEP.clone(), state, slots, core_work);
            }
        }
        if let Some(layer) = &node.layer {
            field.windows(node, &**layer, t, &mut rows);
        }
    }
}
