//! Steps of several sequences: the products with the inputs of all steps are computed first, and the sequences share
//! each pass over the recurrent weights.

use super::Integers;
use super::panels::{Panels, operand};
use super::sums::Blocks;
use crate::layer::Span;
use crate::simd::Task;

/// Number of steps or sequences that are multiplied with the same weights at once. Their sums fit the registers.
pub(super) const ROWS: usize = 2;

/// A recurrent cell with weights over the input and over h.
pub(super) trait Cell<S: Integers> {
    /// Instruction set of the cell.
    fn simd(&self) -> S;
    /// Columns over the input and over h.
    fn columns(&self) -> [usize; 2];
    /// Vectors of sums over the input, per step.
    fn vectors(&self) -> usize;
    /// Elements of scratch per sequence.
    fn scratch(&self) -> usize;
    /// Whether steps whose last feature is 0 are skipped.
    fn is_masked(&self) -> bool;
    /// Computes the sums over the input for all steps. `x` has `stride` operands per step.
    fn of_input(&self, x: &[S::Columns], stride: usize, before: &mut [S::Lanes]);
    /// Runs a step of several sequences.
    fn step_all(&self, rest: Rest<'_, S>);
}

/// A step of several sequences.
pub(super) struct Rest<'s, S: Integers> {
    /// For each sequence, the offset of its state and the index of its sums over the input.
    pub active: &'s [(usize, usize)],
    pub states: &'s mut [i16],
    /// Memory for h of every sequence as an operand.
    pub carried: &'s mut [i16],
    /// [`Cell::scratch`] elements for every sequence.
    pub scratch: &'s mut [i16],
    /// The sums over the input, of all steps.
    pub before: &'s [S::Lanes],
    /// Whether the step walks the blocks from the end.
    pub odd: bool,
}

impl<'s, S: Integers> Rest<'s, S> {
    /// Writes h of every sequence, the first `len` elements of its state, as operands.
    #[inline(always)]
    pub fn operands<'w>(
        simd: S,
        active: &[(usize, usize)],
        states: &[i16],
        len: usize,
        to: &'w mut [i16],
    ) -> &'w [i16] {
        let stride = Panels::operand_len::<S>(len);
        for (&(state, _), to) in active.iter().zip(to.chunks_exact_mut(stride)) {
            operand(simd, &states[state..state + len], to);
        }
        to
    }
}

/// Loads the sums of a block over the input.
#[inline(always)]
pub(super) fn before<S: Integers, const GATES: usize>(simd: S, sums: &[S::Lanes], at: usize) -> [S::Vector; GATES] {
    let mut all = [simd.splat(0); GATES];
    for (to, sum) in all.iter_mut().zip(&sums[at..at + GATES]) {
        *to = simd.load(sum);
    }
    all
}

/// Computes the sums over the input for all steps. Each step has `vectors` vectors in `before`; those of `panels` start
/// at `first`.
#[inline(always)]
pub(super) fn of_input<S: Integers, const GATES: usize, const CHAINS: usize, const APART: bool>(
    simd: S,
    panels: &Panels,
    (x, stride): (&[S::Columns], usize),
    before: &mut [S::Lanes],
    (vectors, first): (usize, usize),
) {
    let blocks = Blocks::<S, GATES, CHAINS, APART>::new(simd, panels);
    for block in 0..panels.blocks::<S>() {
        let at = first + block * GATES;
        let (mut x, mut before) = (x.chunks_exact(ROWS * stride), before.chunks_exact_mut(ROWS * vectors));
        for (x, before) in x.by_ref().zip(before.by_ref()) {
            let (a, b) = x.split_at(stride);
            let rows = blocks.of_input::<ROWS>(block, [a, b]);
            for (before, sums) in before.chunks_exact_mut(vectors).zip(rows) {
                for (to, sum) in before[at..at + GATES].iter_mut().zip(sums) {
                    *to = simd.store(sum);
                }
            }
        }
        if let ([_, ..], before) = (x.remainder(), before.into_remainder()) {
            let [sums] = blocks.of_input::<1>(block, [x.remainder()]);
            for (to, sum) in before[at..at + GATES].iter_mut().zip(sums) {
                *to = simd.store(sum);
            }
        }
    }
}

/// Steps of several sequences of a cell.
pub(super) struct Run<'s, 'a, S, C> {
    simd: S,
    cell: &'s C,
    span: &'s mut Span<'a, i16>,
}

impl<'s, 'a, S: Integers, C: Cell<S>> Run<'s, 'a, S, C> {
    /// Runs all steps of a span.
    pub fn new(cell: &'s C, span: &'s mut Span<'a, i16>) -> Self {
        Self { simd: cell.simd(), cell, span }
    }

    /// Elements of scratch for `steps` steps.
    pub fn work_len(cell: &C, steps: usize) -> usize {
        let sums = cell.vectors() * size_of::<S::Lanes>() / size_of::<i16>();
        let operands: usize = cell.columns().map(Panels::operand_len::<S>).iter().sum();
        steps * (sums + operands + cell.scratch())
    }
}

impl<S: Integers, C: Cell<S>> Task for Run<'_, '_, S, C> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { simd, cell, span } = self;
        let [input, output] = cell.columns();
        let [x_len, h_len] = cell.columns().map(Panels::operand_len::<S>);
        let sequences = span.lens.len();
        let steps = (0..sequences).map(|sequence| span.len(sequence)).sum::<usize>();
        let sums = steps * cell.vectors() * size_of::<S::Lanes>() / size_of::<i16>();
        let mut rows = core::mem::take(span.rows);
        let work = core::mem::take(&mut span.work);
        let (before, rest) = work.split_at_mut(sums);
        let before: &mut [S::Lanes] = bytemuck::cast_slice_mut(before);
        let (xs, rest) = rest.split_at_mut(steps * x_len);
        // Only sequences that have at least one step.
        let most = sequences.min(steps);
        let (carried, rest) = rest.split_at_mut(most * h_len);
        let scratch = &mut rest[..most * cell.scratch()];
        let mut to = xs.chunks_exact_mut(x_len);
        for sequence in 0..sequences {
            for (time, to) in (0..span.len(sequence)).zip(&mut to) {
                operand(simd, &span.read()[span.x(sequence, time)][..input], to);
            }
        }
        cell.of_input(bytemuck::cast_slice(xs), x_len / S::COLUMNS, before);
        for time in 0..(0..sequences).map(|sequence| span.len(sequence)).max().unwrap_or(0) {
            rows.clear();
            let mut first = 0;
            for sequence in 0..sequences {
                let row = first + time;
                first += span.len(sequence);
                if time >= span.len(sequence) {
                    continue;
                }
                if span.is_reset(sequence, time) {
                    span.reset(sequence);
                }
                let x = span.x(sequence, time);
                if !(cell.is_masked() && span.read()[x.start + input - 1] == 0) {
                    rows.push((span.state_start(sequence), row));
                }
            }
            let odd = time % 2 == 1;
            cell.step_all(Rest { active: &rows, states: span.states, carried, scratch, before, odd });
            // Skipped steps repeat the previous output.
            for sequence in 0..sequences {
                if time < span.len(sequence) {
                    let (y, state) = (span.y(sequence, time), span.state_start(sequence));
                    span.memory[y].copy_from_slice(&span.states[state..state + output]);
                }
            }
        }
        span.work = work;
        *span.rows = rows;
    }
}
