//! The sums of a block of units: over all columns at once, or first over the input and later over h.

use super::Integers;
use super::panels::{NUMBERS, Panels};
use crate::simd::Task;

/// Work in five parts that is interleaved with the products of a block. The products mostly wait for weights, and the
/// few operations of the previous block's update wait for each other, so that both proceed at once.
pub(super) trait Beside {
    /// Whether there is any work.
    const IS_NEEDED: bool = true;

    /// Runs one part, 0 to 4.
    fn part<const PART: usize>(&mut self);
}

/// Marks the end of a part. Without the mark, compilers move operations whose results only a later part needs to a place
/// after all products.
#[inline(always)]
pub(super) fn here<V>(value: V) -> V {
    core::hint::black_box(value)
}

/// No work to interleave.
pub(super) struct Nothing;

impl Beside for Nothing {
    const IS_NEEDED: bool = false;

    #[inline(always)]
    fn part<const PART: usize>(&mut self) {}
}

/// Runs all parts: inlined if `INLINED`, otherwise in a function that all callers share.
#[inline(always)]
pub(super) fn at_once<S: Integers, B: Beside, const INLINED: bool>(simd: S, mut beside: B) -> B {
    if const { INLINED && S::INTERLEAVED } {
        all_parts(&mut beside);
        beside
    } else {
        simd.call(AtOnce(beside))
    }
}

#[inline(always)]
fn all_parts(beside: &mut impl Beside) {
    beside.part::<0>();
    beside.part::<1>();
    beside.part::<2>();
    beside.part::<3>();
    beside.part::<4>();
}

struct AtOnce<B>(B);

impl<B: Beside> Task for AtOnce<B> {
    type Output = B;

    #[inline(always)]
    fn run(mut self) -> B {
        all_parts(&mut self.0);
        self.0
    }
}

/// The sums of the gates of a block, scaled to 16 bits. With separate parts, the last gate holds the sums over h.
#[derive(Clone, Copy)]
pub(super) struct Sums<V, const GATES: usize> {
    pub gates: [V; GATES],
    /// Sums of the last gate over the input, with separate parts.
    pub of_input: V,
}

/// The blocks of units of a layer with `GATES` gates. Each gate has `CHAINS` independent chains of sums. `APART` gives
/// the last gate separate sums for its two parts.
pub(super) struct Blocks<'x, S: Integers, const GATES: usize, const CHAINS: usize, const APART: bool> {
    simd: S,
    /// Operands of the finer and of the coarser part.
    fine: usize,
    coarse: usize,
    swapped: bool,
    weights: &'x [[S::Weights; GATES]],
    numbers: &'x [[[S::Lanes; NUMBERS]; GATES]],
}

/// Weights of one part of a block, a vector of rows for each gate.
type Weights<'x, S, const GATES: usize> = &'x [[<S as Integers>::Weights; GATES]];

/// Unfinished sums.
type Chains<S, const GATES: usize, const CHAINS: usize> = [[<S as Integers>::Sums; GATES]; CHAINS];

impl<'x, S: Integers, const GATES: usize, const CHAINS: usize, const APART: bool> Blocks<'x, S, GATES, CHAINS, APART> {
    /// The blocks of `panels`.
    #[inline(always)]
    pub fn new(simd: S, panels: &'x Panels) -> Self {
        debug_assert_eq!(GATES, panels.gates, "a layer has as many gates as its cell");
        let [input, carried] = panels.columns.map(|columns| columns.div_ceil(S::COLUMNS));
        let (fine, coarse) = if panels.swapped { (carried, input) } else { (input, carried) };
        let weights: &[S::Weights] = bytemuck::cast_slice(panels.weights.get());
        let numbers: &[S::Lanes] = bytemuck::cast_slice(panels.numbers.get());
        let (weights, numbers) = (weights.as_chunks().0, numbers.as_chunks().0.as_chunks().0);
        Self { simd, fine, coarse, swapped: panels.swapped, weights, numbers }
    }

    /// The numbers of the rows of a block.
    #[inline(always)]
    pub fn numbers(&self, block: usize) -> &'x [[S::Lanes; NUMBERS]; GATES] {
        &self.numbers[block]
    }

    /// The sums of a block of a layer with one part, before they are scaled.
    #[inline(always)]
    pub fn raw(&self, block: usize, x: &[S::Columns]) -> [S::Vector; GATES] {
        let chains = begin::<S, GATES, CHAINS>(self.simd, self.starts(block));
        total::<S, GATES, CHAINS>(self.simd, products(self.simd, chains, self.weights(block).0, x))
    }

    /// [`raw`](Self::raw) for several steps.
    #[inline(always)]
    pub fn raw_of_rows<const ROWS: usize>(&self, block: usize, x: [&[S::Columns]; ROWS]) -> [[S::Vector; GATES]; ROWS] {
        products_of_rows(self.simd, self.weights(block).0, x, [self.starts(block); ROWS])
    }

    /// The weights of a block over the finer and the coarser part.
    #[inline(always)]
    fn weights(&self, block: usize) -> (Weights<'x, S, GATES>, Weights<'x, S, GATES>) {
        let all = self.fine + self.coarse;
        self.weights[block * all..(block + 1) * all].split_at(self.fine)
    }

    /// Initial sums of the finer part.
    #[inline(always)]
    fn starts(&self, block: usize) -> [S::Vector; GATES] {
        self.numbers_of::<0>(block)
    }

    /// Addend after the finer part, or initial sums of the coarser part.
    #[inline(always)]
    fn behind(&self, block: usize) -> [S::Vector; GATES] {
        self.numbers_of::<1>(block)
    }

    // Loops are used here and below, because a closure that is not inlined would be compiled without the instruction
    // set.
    #[inline(always)]
    fn numbers_of<const WHICH: usize>(&self, block: usize) -> [S::Vector; GATES] {
        let mut all = [self.simd.splat(0); GATES];
        for (to, numbers) in all.iter_mut().zip(&self.numbers[block]) {
            *to = self.simd.load(&numbers[WHICH]);
        }
        all
    }

    /// Shifts the sums of the finer part to the scale of the coarser one; scales them to 16 bits for separate parts.
    #[inline(always)]
    fn shifted(&self, block: usize, sums: [S::Vector; GATES]) -> [S::Vector; GATES] {
        let simd = self.simd;
        let mut all = sums;
        for (gate, (sum, numbers)) in all.iter_mut().zip(&self.numbers[block]).enumerate() {
            let number = simd.load(&numbers[2]);
            *sum = if APART && gate == GATES - 1 { simd.mulh(*sum, number) } else { simd.shr_each(*sum, number) };
        }
        all
    }

    /// Scales sums to 16 bits.
    #[inline(always)]
    fn scaled(&self, block: usize, sums: [S::Vector; GATES]) -> [S::Vector; GATES] {
        let mut all = sums;
        for (sum, numbers) in all.iter_mut().zip(&self.numbers[block]) {
            *sum = self.simd.mulh(*sum, self.simd.load(&numbers[3]));
        }
        all
    }

    /// a + b, except that the last gate is `b` with separate parts.
    #[inline(always)]
    fn joined(&self, a: [S::Vector; GATES], b: [S::Vector; GATES]) -> [S::Vector; GATES] {
        let mut all = b;
        for (gate, (to, a)) in all.iter_mut().zip(a).enumerate() {
            if !(APART && gate == GATES - 1) {
                *to = self.simd.add(a, *to);
            }
        }
        all
    }

    /// The sums of a block over all columns of `x`, which [`operands`](Panels::operands) wrote.
    #[inline(always)]
    pub fn sums<B: Beside>(&self, block: usize, x: &[S::Columns], beside: &mut B) -> Sums<S::Vector, GATES> {
        let simd = self.simd;
        let (fine, coarse) = self.weights(block);
        let (x_fine, x_coarse) = x.split_at(self.fine);
        let mut chains = begin::<S, GATES, CHAINS>(simd, self.starts(block));
        if const { B::IS_NEEDED } {
            let half = self.fine / 2;
            chains = products(simd, chains, &fine[..half], &x_fine[..half]);
            beside.part::<0>();
            chains = products(simd, chains, &fine[half..], &x_fine[half..]);
        } else {
            chains = products(simd, chains, fine, x_fine);
        }
        let first = self.shifted(block, total::<S, GATES, CHAINS>(simd, chains));
        chains = begin::<S, GATES, CHAINS>(simd, self.joined(first, self.behind(block)));
        beside.part::<1>();
        chains = self.in_parts(chains, coarse, x_coarse, beside);
        let mut gates = self.scaled(block, total::<S, GATES, CHAINS>(simd, chains));
        let mut of_input = first[GATES - 1];
        if APART && self.swapped {
            (of_input, gates[GATES - 1]) = (gates[GATES - 1], of_input);
        }
        Sums { gates, of_input }
    }

    /// The products of a part, interleaved with the last three parts of `beside`.
    #[inline(always)]
    fn in_parts<B: Beside>(
        &self,
        mut chains: Chains<S, GATES, CHAINS>,
        weights: &[[S::Weights; GATES]],
        x: &[S::Columns],
        beside: &mut B,
    ) -> Chains<S, GATES, CHAINS> {
        let simd = self.simd;
        if const { !B::IS_NEEDED } {
            return products(simd, chains, weights, x);
        }
        let (third, thirds) = (x.len() / 3, x.len() / 3 * 2);
        chains = products(simd, chains, &weights[..third], &x[..third]);
        beside.part::<2>();
        chains = products(simd, chains, &weights[third..thirds], &x[third..thirds]);
        beside.part::<3>();
        chains = products(simd, chains, &weights[thirds..], &x[thirds..]);
        beside.part::<4>();
        chains
    }

    /// The sums over the input for several steps, which [`of_carried`](Self::of_carried) continues.
    #[inline(always)]
    pub fn of_input<const ROWS: usize>(&self, block: usize, x: [&[S::Columns]; ROWS]) -> [[S::Vector; GATES]; ROWS] {
        let (fine, coarse) = self.weights(block);
        let (weights, start) = if self.swapped { (coarse, self.behind(block)) } else { (fine, self.starts(block)) };
        let mut rows = products_of_rows(self.simd, weights, x, [start; ROWS]);
        for sums in &mut rows {
            if !self.swapped {
                let first = self.shifted(block, *sums);
                *sums = first;
                if self.coarse > 0 {
                    let mut joined = self.joined(first, self.behind(block));
                    if APART {
                        joined[GATES - 1] = first[GATES - 1];
                    }
                    *sums = joined;
                }
            } else if APART {
                sums[GATES - 1] = self.scaled(block, *sums)[GATES - 1];
            }
        }
        rows
    }

    /// Continues sums over the input with h, for several sequences.
    #[inline(always)]
    pub fn of_carried<const ROWS: usize>(
        &self,
        block: usize,
        h: [&[S::Columns]; ROWS],
        before: [[S::Vector; GATES]; ROWS],
    ) -> [Sums<S::Vector, GATES>; ROWS] {
        let (fine, coarse) = self.weights(block);
        let mut starts = before;
        for start in &mut starts {
            *start = self.carried_start(block, *start);
        }
        let sums = products_of_rows(self.simd, if self.swapped { fine } else { coarse }, h, starts);
        let mut ended = [Sums { gates: [self.simd.splat(0); GATES], of_input: self.simd.splat(0) }; ROWS];
        for (to, (sums, before)) in ended.iter_mut().zip(sums.into_iter().zip(before)) {
            *to = self.carried_end(block, sums, before);
        }
        ended
    }

    /// [`of_carried`](Self::of_carried) for one sequence, interleaved with `beside`.
    #[inline(always)]
    pub fn of_carried_beside<B: Beside>(
        &self,
        block: usize,
        h: &[S::Columns],
        before: [S::Vector; GATES],
        beside: &mut B,
    ) -> Sums<S::Vector, GATES> {
        let simd = self.simd;
        let (fine, coarse) = self.weights(block);
        let weights = if self.swapped { fine } else { coarse };
        let mut chains = begin::<S, GATES, CHAINS>(simd, self.carried_start(block, before));
        let fifths = if const { B::IS_NEEDED } {
            let (fifth, fifths) = (h.len() / 5, h.len() / 5 * 2);
            chains = products(simd, chains, &weights[..fifth], &h[..fifth]);
            beside.part::<0>();
            chains = products(simd, chains, &weights[fifth..fifths], &h[fifth..fifths]);
            beside.part::<1>();
            fifths
        } else {
            0
        };
        chains = self.in_parts(chains, &weights[fifths..], &h[fifths..], beside);
        self.carried_end(block, total::<S, GATES, CHAINS>(simd, chains), before)
    }

    /// Initial sums over h.
    #[inline(always)]
    fn carried_start(&self, block: usize, before: [S::Vector; GATES]) -> [S::Vector; GATES] {
        if self.swapped {
            return self.starts(block);
        }
        let mut start = before;
        if APART {
            start[GATES - 1] = self.behind(block)[GATES - 1];
        }
        start
    }

    /// The complete sums.
    #[inline(always)]
    fn carried_end(
        &self,
        block: usize,
        sums: [S::Vector; GATES],
        before: [S::Vector; GATES],
    ) -> Sums<S::Vector, GATES> {
        let of_input = before[GATES - 1];
        if !self.swapped {
            return Sums { gates: self.scaled(block, sums), of_input };
        }
        let first = self.shifted(block, sums);
        let mut gates = self.scaled(block, self.joined(first, before));
        if APART {
            gates[GATES - 1] = first[GATES - 1];
        }
        Sums { gates, of_input }
    }
}

/// Begins chains of sums; the first starts from `start`.
#[inline(always)]
fn begin<S: Integers, const GATES: usize, const CHAINS: usize>(
    simd: S,
    start: [S::Vector; GATES],
) -> Chains<S, GATES, CHAINS> {
    let mut chains = [[simd.begin(simd.splat(0)); GATES]; CHAINS];
    for (sum, start) in chains[0].iter_mut().zip(start) {
        *sum = simd.begin(start);
    }
    chains
}

/// The total of all chains.
#[inline(always)]
fn total<S: Integers, const GATES: usize, const CHAINS: usize>(
    simd: S,
    chains: Chains<S, GATES, CHAINS>,
) -> [S::Vector; GATES] {
    let mut totals = [simd.splat(0); GATES];
    for (index, sums) in chains.into_iter().enumerate() {
        for (total, sum) in totals.iter_mut().zip(sums) {
            let sum = simd.total(sum);
            *total = if index == 0 { sum } else { simd.add(*total, sum) };
        }
    }
    totals
}

/// Adds the products of some columns, with a vector of rows for each gate.
#[inline(always)]
fn products<S: Integers, const GATES: usize, const CHAINS: usize>(
    simd: S,
    mut chains: Chains<S, GATES, CHAINS>,
    weights: &[[S::Weights; GATES]],
    x: &[S::Columns],
) -> Chains<S, GATES, CHAINS> {
    let (whole, rest) = weights.as_chunks::<CHAINS>();
    let (x, x_rest) = x.as_chunks::<CHAINS>();
    for (weights, x) in whole.iter().zip(x) {
        for ((sums, weights), x) in chains.iter_mut().zip(weights).zip(x) {
            let x = simd.spread(x);
            for (sum, weights) in sums.iter_mut().zip(weights) {
                *sum = simd.accumulate(*sum, weights, x);
            }
        }
    }
    for ((sums, weights), x) in chains.iter_mut().zip(rest).zip(x_rest) {
        let x = simd.spread(x);
        for (sum, weights) in sums.iter_mut().zip(weights) {
            *sum = simd.accumulate(*sum, weights, x);
        }
    }
    chains
}

/// The sums of several operands, each with its own start.
#[inline(always)]
fn products_of_rows<S: Integers, const GATES: usize, const ROWS: usize>(
    simd: S,
    weights: &[[S::Weights; GATES]],
    x: [&[S::Columns]; ROWS],
    start: [[S::Vector; GATES]; ROWS],
) -> [[S::Vector; GATES]; ROWS] {
    let mut rows = [[simd.begin(simd.splat(0)); GATES]; ROWS];
    for (sums, start) in rows.iter_mut().zip(start) {
        for (sum, start) in sums.iter_mut().zip(start) {
            *sum = simd.begin(start);
        }
    }
    let mut x = x;
    for x in &mut x {
        *x = &x[..weights.len()];
    }
    for (column, weights) in weights.iter().enumerate() {
        for (sums, x) in rows.iter_mut().zip(x) {
            let x = simd.spread(&x[column]);
            for (sum, weights) in sums.iter_mut().zip(weights) {
                *sum = simd.accumulate(*sum, weights, x);
            }
        }
    }
    let mut totals = [[simd.splat(0); GATES]; ROWS];
    for (totals, sums) in totals.iter_mut().zip(rows) {
        for (total, sum) in totals.iter_mut().zip(sums) {
            *total = simd.total(sum);
        }
    }
    totals
}
