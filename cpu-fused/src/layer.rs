//! The interface between a packed layer and the code that runs it: [`Layer`] and [`Windowed`], the slices of one step
//! ([`Io`]), and the steps of several sequences ([`Span`]).

use core::ops::Range;

/// Largest number of sequences that run together: enough rows to amortize loading weights that do not fit the
/// third-level cache, and few enough to run many steps at once.
pub const SEQUENCES: usize = 24;

/// Number of sequences up to which stepping them one after the other is at least as fast as together, as measured for
/// layers of all sizes.
pub const FEW: usize = 2;

/// A node, packed for one instruction set.
///
/// [`step`](Self::step) and [`run`](Self::run) give the same bits.
pub trait Layer<E: Copy + Default>: Send + Sync {
    /// Elements of scratch for `steps` steps at once.
    fn work_len(&self, steps: usize) -> usize;

    /// Runs one step.
    fn step(&self, io: Io<'_, E>);

    /// Largest number of sequences for which single steps are faster, one sequence after the other.
    fn few(&self) -> usize {
        FEW
    }

    /// Runs the steps of several sequences.
    fn run(&self, span: &mut Span<'_, E>) {
        for sequence in 0..span.lens.len() {
            for time in 0..span.len(sequence) {
                span.step(sequence, time, |io| self.step(io));
            }
        }
    }
}

/// A node with a window, packed for one instruction set.
pub trait Windowed<E>: Send + Sync {
    /// Elements of scratch of a step.
    fn work_len(&self) -> usize;

    /// Runs one step of a sequence. Returns whether it has an output.
    fn step(&self, io: Io<'_, E>) -> bool;
}

/// The slices of one step.
pub struct Io<'s, E> {
    /// Input, `[input]`.
    pub x: &'s [E],
    /// The node's state, laid out as in `tidegate`.
    pub state: &'s mut [E],
    /// Scratch of [`Layer::work_len`] elements.
    pub work: &'s mut [E],
    /// Output, `[output]`.
    pub y: &'s mut [E],
    /// Whether this step reads the weights from the end, as every other step does.
    pub odd: bool,
}

/// Whether a step is skipped, because the last feature of a masked node is 0. State and output are then unchanged.
#[inline(always)]
pub fn is_masked(masked: bool, x: &[f32]) -> bool {
    masked && x.last() == Some(&0.0)
}

/// The rows of a slot: one for each step of each sequence.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// Offset of the first row of the first sequence.
    pub start: usize,
    /// Elements from one sequence to the next.
    pub sequence: usize,
    /// Elements from one row to the next.
    pub row: usize,
    /// Elements in a row.
    pub len: usize,
    /// Whether the steps run backwards, from the last valid row.
    pub mirrored: bool,
}

impl Line {
    /// The row of a step. `lens` holds the number of valid steps of each sequence.
    #[inline(always)]
    pub fn at(&self, lens: &[usize], sequence: usize, time: usize) -> Range<usize> {
        let row = if self.mirrored { lens[sequence] - 1 - time } else { time };
        let start = self.start + sequence * self.sequence + row * self.row;
        start..start + self.len
    }
}

/// Steps of several sequences of one node.
pub struct Span<'s, E> {
    /// Memory that the node reads, if it is not `memory`.
    pub source: Option<&'s [E]>,
    /// Memory that the node writes.
    pub memory: &'s mut [E],
    /// Input rows.
    pub input: Line,
    /// Output rows.
    pub output: Line,
    /// Largest number of steps of each sequence in this run.
    pub time: usize,
    /// Valid steps of each sequence from here on; steps beyond `time` are left for a later run.
    pub lens: &'s [usize],
    /// Whether the state is reset before a step, `[sequence][resets_time]`; empty for never.
    pub resets: &'s [bool],
    /// Flags per sequence in `resets`.
    pub resets_time: usize,
    /// The states of all sequences.
    pub states: &'s mut [E],
    /// Elements from one state to the next.
    pub state_stride: usize,
    /// The node's part of a state.
    pub state: Range<usize>,
    /// Scratch of [`Layer::work_len`] elements for all steps.
    pub work: &'s mut [E],
    /// Scratch for the offsets of the rows of a block.
    pub rows: &'s mut Vec<(usize, usize)>,
}

impl<E: Copy + Default> Span<'_, E> {
    /// The memory that the node reads.
    #[inline(always)]
    pub fn read(&self) -> &[E] {
        self.source.unwrap_or(self.memory)
    }

    /// Number of steps of a sequence in this run.
    #[inline(always)]
    pub fn len(&self, sequence: usize) -> usize {
        self.lens[sequence].min(self.time)
    }

    /// Input row of a step.
    #[inline(always)]
    pub fn x(&self, sequence: usize, time: usize) -> Range<usize> {
        self.input.at(self.lens, sequence, time)
    }

    /// Output row of a step.
    #[inline(always)]
    pub fn y(&self, sequence: usize, time: usize) -> Range<usize> {
        self.output.at(self.lens, sequence, time)
    }

    /// Offset of the node's state.
    #[inline(always)]
    pub fn state_start(&self, sequence: usize) -> usize {
        sequence * self.state_stride + self.state.start
    }

    /// The sequence whose state has this offset.
    #[inline(always)]
    pub fn sequence_of(&self, state: usize) -> usize {
        (state - self.state.start) / self.state_stride
    }

    /// Whether the state is reset before a step.
    pub fn is_reset(&self, sequence: usize, time: usize) -> bool {
        self.resets.get(sequence * self.resets_time + time) == Some(&true)
    }

    /// Resets the state of a sequence.
    pub fn reset(&mut self, sequence: usize) {
        let start = self.state_start(sequence);
        self.states[start..start + self.state.len()].fill(E::default());
    }

    /// Runs one step of one sequence.
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
    /// Collects the rows of all steps except masked ones: offset of the input, and offset of its `sums` sums in
    /// `[sequence][time]` order.
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

    /// Collects the sequences that step at `time`, after the resets that are due: offset of the state, and index of the
    /// sequence. A masked step repeats the previous output.
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

    /// [`rows_at`](Self::rows_at) with the offset of the `sums` sums of the step instead of the sequence.
    pub fn rows_of_states(&mut self, time: usize, sums: usize, masked: bool) {
        self.rows_at(time, masked);
        for row in self.rows.iter_mut() {
            row.1 = (row.1 * self.time + time) * sums;
        }
    }
}

/// Borrows two slots that do not overlap, the first to read and the second to write.
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
