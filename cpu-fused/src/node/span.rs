//! Steps of several sequences of one node, wherever their rows lie: one in each of many arenas, or one behind the other in
//! the slots of a window, from either end.

use core::ops::Range;

use super::{Io, is_masked};

/// Where the rows of a slot lie: one for each step of each sequence.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// Where the first row of the first sequence begins.
    pub start: usize,
    /// From a sequence to the next.
    pub sequence: usize,
    /// From a row to the next.
    pub row: usize,
    /// Elements of a row.
    pub len: usize,
    /// The first step has the last row that counts.
    pub mirrored: bool,
}

impl Line {
    /// Where the row of a step lies, of sequences of which so many steps count.
    #[inline(always)]
    pub fn at(&self, lens: &[usize], sequence: usize, time: usize) -> Range<usize> {
        let row = if self.mirrored { lens[sequence] - 1 - time } else { time };
        let start = self.start + sequence * self.sequence + row * self.row;
        start..start + self.len
    }
}

/// Steps of several sequences of one node.
pub struct Span<'s, E> {
    /// What is read, where that is not `memory` too.
    pub source: Option<&'s [E]>,
    /// What is written.
    pub memory: &'s mut [E],
    /// Where the node reads.
    pub input: Line,
    /// Where it writes.
    pub output: Line,
    /// Steps of each sequence at most.
    pub time: usize,
    /// How many steps of each sequence count from here on; those beyond `time` are not run yet.
    pub lens: &'s [usize],
    /// Before which steps the state goes back to zero, `[sequence][resets_time]`; empty: never.
    pub resets: &'s [bool],
    /// Flags of a sequence.
    pub resets_time: usize,
    /// The states of all sequences.
    pub states: &'s mut [E],
    /// Elements from one state to the next.
    pub state_stride: usize,
    /// The node's own in a state.
    pub state: Range<usize>,
    /// Scratch of [`Kernel::work_len`](super::Kernel::work_len) of all steps.
    pub work: &'s mut [E],
    /// Where the rows of a block lie, scratch.
    pub rows: &'s mut Vec<(usize, usize)>,
}

impl<E: Copy + Default> Span<'_, E> {
    /// What is read.
    #[inline(always)]
    pub fn read(&self) -> &[E] {
        self.source.unwrap_or(self.memory)
    }

    /// Steps of a sequence.
    #[inline(always)]
    pub fn len(&self, sequence: usize) -> usize {
        self.lens[sequence].min(self.time)
    }

    /// Where what comes in lies at a step.
    #[inline(always)]
    pub fn x(&self, sequence: usize, time: usize) -> Range<usize> {
        self.input.at(self.lens, sequence, time)
    }

    /// Where what goes out lies at a step.
    #[inline(always)]
    pub fn y(&self, sequence: usize, time: usize) -> Range<usize> {
        self.output.at(self.lens, sequence, time)
    }

    /// Where the node's state begins.
    #[inline(always)]
    pub fn state_start(&self, sequence: usize) -> usize {
        sequence * self.state_stride + self.state.start
    }

    /// Which sequence has its state there.
    #[inline(always)]
    pub fn sequence_of(&self, state: usize) -> usize {
        (state - self.state.start) / self.state_stride
    }

    /// Whether the state goes back to zero before a step.
    pub fn is_reset(&self, sequence: usize, time: usize) -> bool {
        self.resets.get(sequence * self.resets_time + time) == Some(&true)
    }

    /// Zeros the state of a sequence.
    pub fn reset(&mut self, sequence: usize) {
        let start = self.state_start(sequence);
        self.states[start..start + self.state.len()].fill(E::default());
    }

    /// One step by itself.
    pub fn step(&mut self, sequence: usize, time: usize, step: impl FnOnce(Io<'_, E>)) {
        if self.is_reset(sequence, time) {
            self.reset(sequence);
        }
        let start = self.state_start(sequence);
        let (x, y) = (self.x(sequence, time), self.y(sequence, time));
        let state = &mut self.states[start..start + self.state.len()];
        let (x, y) = match self.source {
            Some(source) => (&source[x], &mut self.memory[y]),
            None => apart(self.memory, &x, &y),
        };
        step(Io { x, state, work: self.work, y, odd: time % 2 == 1 });
    }
}

impl Span<'_, f32> {
    /// Rows of all steps but the masked: of what comes in, and of sums of so many elements each, `[sequence][time]`.
    pub fn rows_of_inputs(&mut self, sums: usize, masked: bool) {
        self.rows.clear();
        for sequence in 0..self.lens.len() {
            for time in 0..self.len(sequence) {
                let x = self.x(sequence, time);
                if !is_masked(masked, &self.read()[x.clone()]) {
                    self.rows.push((x.start, (sequence * self.time + time) * sums));
                }
            }
        }
    }

    /// Rows of the sequences that step at `time`, those that go back to zero after they have: where their states lie, and
    /// which they are. What comes in masked gives what went out before.
    pub fn rows_at(&mut self, time: usize, masked: bool) {
        self.rows.clear();
        for sequence in 0..self.lens.len() {
            if time >= self.len(sequence) {
                continue;
            }
            if self.is_reset(sequence, time) {
                self.reset(sequence);
            }
            let state = self.state_start(sequence);
            if is_masked(masked, &self.read()[self.x(sequence, time)]) {
                let y = self.y(sequence, time);
                self.memory[y].copy_from_slice(&self.states[state..state + self.output.len]);
            } else {
                self.rows.push((state, sequence));
            }
        }
    }

    /// [`rows_at`](Self::rows_at), with where their sums lie instead, of so many elements.
    pub fn rows_of_states(&mut self, time: usize, sums: usize, masked: bool) {
        self.rows_at(time, masked);
        for row in self.rows.iter_mut() {
            row.1 = (row.1 * self.time + time) * sums;
        }
    }
}

/// Two slots, which do not overlap: the first to read, the second to write.
#[inline(always)]
pub fn apart<'s, E>(memory: &'s mut [E], from: &Range<usize>, to: &Range<usize>) -> (&'s [E], &'s mut [E]) {
    if from.start < to.start {
        let (before, behind) = memory.split_at_mut(to.start);
        (&before[from.clone()], &mut behind[..to.len()])
    } else {
        let (before, behind) = memory.split_at_mut(from.start);
        (&behind[..from.len()], &mut before[to.clone()])
    }
}
