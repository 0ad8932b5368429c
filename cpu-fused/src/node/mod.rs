//! Nodes that have a kernel of their own, one file a cell. What has none here runs by `tidegate`'s step.

mod dense;
mod elman;
mod gru;
mod lstm;

use half::f16;
use tidegate::Numeric;
use tidegate::cell::CellKind;
use tidegate::node::Node;

use crate::isa::Isa;
use crate::simd::{Scalar, Simd};
use crate::weight::Weight;

/// A node, packed for an instruction set.
///
/// A kernel gives the same bits whichever of the two runs it.
pub trait Kernel<E: Copy + Default>: Send + Sync {
    /// Elements of scratch for so many steps at once.
    fn work_len(&self, steps: usize) -> usize;

    /// One step: `x` is `[input]`, `state` as `tidegate` has it, `y` `[output]`; `turn` counts steps.
    fn step(&self, io: Io<'_, E>);

    /// Steps of several sequences.
    fn run(&self, span: &mut Span<'_, E>) {
        for sequence in 0..span.lens.len() {
            for time in 0..span.lens[sequence] {
                span.step(sequence, time, |io| self.step(io));
            }
        }
    }
}

/// The slices of one step.
pub struct Io<'s, E> {
    /// What comes in.
    pub x: &'s [E],
    /// What is carried from step to step.
    pub state: &'s mut [E],
    /// Scratch of [`Kernel::work_len`].
    pub work: &'s mut [E],
    /// What goes out.
    pub y: &'s mut [E],
    /// Whether the step before went through the weights the other way.
    pub odd: bool,
}

/// Steps of several sequences of one node. Each step of each sequence has an arena of slots, `[sequence][time][slots]`.
pub struct Span<'s, E> {
    /// The arenas.
    pub arenas: &'s mut [E],
    /// Elements of an arena.
    pub stride: usize,
    /// Arenas of a sequence.
    pub time: usize,
    /// Where the node reads in an arena.
    pub input: core::ops::Range<usize>,
    /// Where it writes.
    pub output: core::ops::Range<usize>,
    /// How many steps of each sequence count.
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
    pub state: core::ops::Range<usize>,
    /// Scratch of [`Kernel::work_len`] of all steps.
    pub work: &'s mut [E],
    /// Where the rows of a block lie, scratch.
    pub rows: &'s mut Vec<(usize, usize)>,
}

impl<E: Copy + Default> Span<'_, E> {
    /// Where the arena of a step begins.
    pub fn arena(&self, sequence: usize, time: usize) -> usize {
        (sequence * self.time + time) * self.stride
    }

    /// Where the node's state begins.
    pub fn state_start(&self, sequence: usize) -> usize {
        sequence * self.state_stride + self.state.start
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
        let (arena, start) = (self.arena(sequence, time), self.state_start(sequence));
        let state = &mut self.states[start..start + self.state.len()];
        let (x, y) = apart(&mut self.arenas[arena..arena + self.stride], &self.input, &self.output);
        step(Io { x, state, work: self.work, y, odd: time % 2 == 1 });
    }
}

/// Two slots of one arena, which do not overlap: the first to read, the second to write.
#[inline(always)]
pub fn apart<'s, E>(
    arena: &'s mut [E],
    from: &core::ops::Range<usize>,
    to: &core::ops::Range<usize>,
) -> (&'s [E], &'s mut [E]) {
    if from.start < to.start {
        let (before, behind) = arena.split_at_mut(to.start);
        (&before[from.clone()], &mut behind[..to.len()])
    } else {
        let (before, behind) = arena.split_at_mut(from.start);
        (&behind[..from.len()], &mut before[to.clone()])
    }
}

/// The kernel of a node in a float numeric; none if it has none.
pub fn float(node: &Node<'_>, numeric: Numeric, isa: Isa) -> Option<Box<dyn Kernel<f32>>> {
    match isa {
        Isa::Scalar => stored(node, numeric, Scalar),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2(simd) => stored(node, numeric, simd),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512(simd) => stored(node, numeric, simd),
    }
}

fn stored<S: Simd>(node: &Node<'_>, numeric: Numeric, s: S) -> Option<Box<dyn Kernel<f32>>> {
    if numeric == Numeric::F16 { packed::<S, f16>(node, s) } else { packed::<S, f32>(node, s) }
}

fn packed<S: Simd, W: Weight>(node: &Node<'_>, s: S) -> Option<Box<dyn Kernel<f32>>> {
    match node.kind {
        CellKind::Lstm => lstm::Lstm::<S, W>::pack(node, s).map(boxed),
        CellKind::Gru => gru::Gru::<S, W>::pack(node, s).map(boxed),
        CellKind::Elman => elman::Elman::<S, W>::pack(node, s).map(boxed),
        CellKind::Dense => dense::Dense::<S, W>::pack(node, s).map(boxed),
        _ => None,
    }
}

fn boxed<K: Kernel<f32> + 'static>(kernel: K) -> Box<dyn Kernel<f32>> {
    Box::new(kernel)
}

/// The index of a tensor of the node's spec; none has `usize::MAX`.
fn tensor(node: &Node<'_>, name: &str) -> usize {
    node.spec().tensors.iter().position(|tensor| tensor.name == name).unwrap_or(usize::MAX)
}

/// Whether a step does not count: the last feature says so. State and output stay.
#[inline(always)]
fn is_masked(masked: bool, x: &[f32]) -> bool {
    masked && x.last() == Some(&0.0)
}

/// The units of a block, of so many.
#[inline(always)]
fn block<S: Simd>(_: S, at: usize, units: usize) -> core::ops::Range<usize> {
    at * S::LANES..units.min((at + 1) * S::LANES)
}

/// By whole vectors: quicker than a call where there are few.
#[inline(always)]
fn copy<S: Simd>(s: S, from: &[f32], to: &mut [f32]) {
    for (from, to) in from.chunks(S::LANES).zip(to.chunks_mut(S::LANES)) {
        s.store_part(s.load_part(from), to);
    }
}

impl Span<'_, f32> {
    /// Rows of all steps: of what comes in, and of sums of so many elements each, `[sequence][time]`.
    fn rows_of_inputs(&mut self, sums: usize) {
        self.rows.clear();
        for (sequence, &len) in self.lens.iter().enumerate() {
            for index in sequence * self.time..sequence * self.time + len {
                self.rows.push((index * self.stride + self.input.start, index * sums));
            }
        }
    }

    /// Rows of the sequences that step at `time`: of their states, after those that go back to zero have, and of their sums.
    /// What comes in masked gives what went out before.
    fn rows_of_states(&mut self, time: usize, sums: usize, masked: bool) {
        self.rows.clear();
        for sequence in 0..self.lens.len() {
            if time >= self.lens[sequence] {
                continue;
            }
            if self.is_reset(sequence, time) {
                self.reset(sequence);
            }
            let (arena, state) = (self.arena(sequence, time), self.state_start(sequence));
            if is_masked(masked, &self.arenas[arena + self.input.start..arena + self.input.end]) {
                let y = &mut self.arenas[arena + self.output.start..arena + self.output.end];
                y.copy_from_slice(&self.states[state..state + self.output.len()]);
            } else {
                self.rows.push((state, (sequence * self.time + time) * sums));
            }
        }
    }

    /// Which sequence has its state there.
    fn sequence_of(&self, state: usize) -> usize {
        (state - self.state.start) / self.state_stride
    }
}
