//! One step of a recurrent layer, one block of units at a time: the sums of a block stay in registers until its new
//! state has been computed. LSTM and GRU, with and without options, differ in [`Cell`].

use core::hint::black_box;
use core::ops::Range;

use super::{LATENCY_BOUND_LANES, block, copy};
use crate::panels::Panels;
use crate::simd::{Simd, Task};
use crate::sums::{self, Way};
use crate::weight::Weight;

/// A cell with `G` gates, each one vector of a block of units.
pub trait Cell<S: Simd, const G: usize> {
    /// Whether the recurrent products start from other sums than those over the input.
    const RESTARTS: bool;

    /// Restricts the slices of the cell to `units` units. If `units` is a constant, their bounds checks are removed.
    fn sized(self, units: usize) -> Self;

    /// Replaces sums between the products with the input and those with h. The result is passed to
    /// [`update`](Self::update).
    fn restart(&self, s: S, block: usize, sums: &mut [S::F32; G]) -> S::F32;

    /// The new output of a block of units, from its complete sums and its h.
    fn update(&mut self, s: S, units: Range<usize>, sums: [S::F32; G], of_input: S::F32, h: &[f32]) -> S::F32;
}

/// One step of all blocks of units. It holds no more than the loops need: everything outside registers is on cache lines
/// that the weights of every block evict from the first-level cache.
pub struct Blocks<'s, S: Simd, W: Weight, C, const G: usize> {
    pub s: S,
    pub input: &'s [[W::Lanes<S>; G]],
    pub recurrent: &'s [[W::Lanes<S>; G]],
    /// The bias; or the sums over the input, in which case `x` is empty.
    pub start: &'s [[S::Lanes; G]],
    pub x: &'s [f32],
    /// The operand of the recurrent weights; `None` if it is `h`.
    pub seen: Option<&'s [f32]>,
    /// The state, which becomes a copy of `y`; empty if the state is not the output.
    pub h: &'s mut [f32],
    pub y: &'s mut [f32],
    pub way: Way,
    /// Whether two blocks are summed at once, or four if the registers hold their sums.
    pub abreast: bool,
    pub cell: C,
}

impl<S: Simd, W: Weight, C: Cell<S, G>, const G: usize> Task for Blocks<'_, S, W, C, G> {
    type Output = ();

    #[inline(always)]
    fn run(mut self) {
        let (blocks, way) = (self.start.len(), self.way);
        let fours = if self.abreast && const { fit_four::<S>(G) } { blocks / 4 } else { 0 };
        for turn in 0..fours {
            self.blocks::<4>(4 * way.at(turn, fours));
        }
        // Blocks without a partner come last in both directions.
        let first = 4 * fours;
        let pairs = if self.abreast { (blocks - first) / 2 } else { 0 };
        for turn in 0..pairs {
            self.blocks::<2>(first + 2 * way.at(turn, pairs));
        }
        let first = first + 2 * pairs;
        for turn in 0..blocks - first {
            self.blocks::<1>(first + way.at(turn, blocks - first));
        }
        copy(self.s, self.y, self.h);
    }
}

impl<S: Simd, W: Weight, C: Cell<S, G>, const G: usize> Blocks<'_, S, W, C, G> {
    /// `M` blocks.
    #[inline(always)]
    fn blocks<const M: usize>(&mut self, first: usize) {
        let s = self.s;
        let mut sums = [[s.splat(0.0); G]; M];
        for (sums, start) in sums.iter_mut().zip(&self.start[first..first + M]) {
            for (sum, start) in sums.iter_mut().zip(start) {
                *sum = s.load(start);
            }
        }
        sums = sums::abreast::<S, W, G, M>(s, (self.input, self.x), first, sums);
        let mut of_input = [s.splat(0.0); M];
        if const { C::RESTARTS } {
            for (at, (of_input, sums)) in (first..).zip(of_input.iter_mut().zip(&mut sums)) {
                *of_input = self.cell.restart(s, at, sums);
            }
        }
        sums = sums::abreast::<S, W, G, M>(s, (self.recurrent, self.seen.unwrap_or(self.h)), first, sums);
        for (at, (of_input, sums)) in (first..).zip(of_input.into_iter().zip(sums)) {
            let units = block(s, at, self.y.len());
            let h = self.h.get(units.clone()).unwrap_or(&[]);
            let y = self.cell.update(s, units.clone(), sums, of_input, h);
            s.store_part(y, &mut self.y[units]);
        }
    }
}

/// One step of a layer with `U` units and as many inputs: loops and slices of constant length.
pub struct Small<'s, S, W, C, const G: usize, const U: usize> {
    pub s: S,
    pub input: &'s Panels<W>,
    pub recurrent: &'s Panels<W>,
    pub bias: &'s [f32],
    pub x: &'s [f32],
    pub h: &'s mut [f32],
    pub y: &'s mut [f32],
    pub way: Way,
    pub cell: C,
}

impl<S: Simd, W: Weight, C: Cell<S, G>, const G: usize, const U: usize> Task for Small<'_, S, W, C, G, U> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let blocks = const { U.div_ceil(S::LANES) };
        match const { together::<S>(G, U) } {
            4 if blocks == 4 => self.groups::<4, 1>(),
            2 if blocks == 4 => self.groups::<2, 2>(),
            2 if blocks == 2 => self.groups::<2, 1>(),
            _ => self.apart(blocks),
        }
    }
}

/// Whether the sums of four blocks fit the registers. With eight lanes, one block, or two of a GRU, has too few chains to
/// keep the multipliers busy.
const fn fit_four<S: Simd>(gates: usize) -> bool {
    S::LANES == LATENCY_BOUND_LANES && 4 * gates <= S::SUMS
}

/// Number of blocks of units that a small layer sums at once.
const fn together<S: Simd>(gates: usize, units: usize) -> usize {
    if S::LANES != LATENCY_BOUND_LANES {
        return 1;
    }
    match units / S::LANES {
        4 if fit_four::<S>(gates) => 4,
        2 | 4 => 2,
        _ => 1,
    }
}

impl<S: Simd, W: Weight, C: Cell<S, G>, const G: usize, const U: usize> Small<'_, S, W, C, G, U> {
    /// The step, one block after the other.
    #[inline(always)]
    fn apart(self, blocks: usize) {
        let Self { s, input, recurrent, bias, way, cell, .. } = self;
        let (Some(x), Some(h), Some(y)) =
            (self.x.first_chunk::<U>(), self.h.first_chunk_mut::<U>(), self.y.first_chunk_mut::<U>())
        else {
            return;
        };
        let mut cell = cell.sized(U);
        for turn in 0..blocks {
            let at = way.at(turn, blocks);
            let units = block(s, at, U);
            let mut sums = sums::load(s, &bias[at * G * S::LANES..]);
            let mut of_input = s.splat(0.0);
            if const { C::RESTARTS } {
                sums = sums::panel::<S, W, G, U>(s, [(input, &x[..])], at, sums);
                of_input = cell.restart(s, at, &mut sums);
                sums = sums::panel::<S, W, G, U>(s, [(recurrent, &h[..])], at, sums);
            } else {
                sums = sums::panel::<S, W, G, U>(s, [(input, &x[..]), (recurrent, &h[..])], at, sums);
            }
            let new = cell.update(s, units.clone(), sums, of_input, &h[units.clone()]);
            s.store_part(new, &mut y[units.clone()]);
            if blocks == 1 {
                s.store_part(new, &mut h[units]);
            }
        }
        if blocks > 1 {
            copy(s, y, h);
        }
    }

    /// The step, in `K` groups of `M` blocks. All sums come before the first update: a store of an update waits for its
    /// curves, and delays later loads of weights whose addresses end in the same bits.
    #[inline(always)]
    fn groups<const M: usize, const K: usize>(self) {
        let Self { s, input, recurrent, bias, cell, .. } = self;
        let (Some(x), Some(h), Some(y)) =
            (self.x.first_chunk::<U>(), self.h.first_chunk_mut::<U>(), self.y.first_chunk_mut::<U>())
        else {
            return;
        };
        let mut cell = cell.sized(U);
        // Loops over a constant number of columns would be unrolled, and their operations reordered chain by chain, of which
        // a CPU executes few at once.
        let columns = black_box(U);
        let (x, seen) = (&x[..columns], &h[..columns]);
        let mut all = [[[s.splat(0.0); G]; M]; K];
        let mut of_input = [[s.splat(0.0); M]; K];
        for k in 0..K {
            let mut sums = [[s.splat(0.0); G]; M];
            for m in 0..M {
                sums[m] = sums::load(s, &bias[(k * M + m) * G * S::LANES..]);
            }
            sums = sums::abreast::<S, W, G, M>(s, (input.all(), x), k * M, sums);
            if const { C::RESTARTS } {
                for m in 0..M {
                    of_input[k][m] = cell.restart(s, k * M + m, &mut sums[m]);
                }
            }
            all[k] = sums::abreast::<S, W, G, M>(s, (recurrent.all(), seen), k * M, sums);
        }
        for k in 0..K {
            for m in 0..M {
                let units = block(s, k * M + m, U);
                let new = cell.update(s, units.clone(), all[k][m], of_input[k][m], &h[units.clone()]);
                s.store_part(new, &mut y[units.clone()]);
                s.store_part(new, &mut h[units]);
            }
        }
    }
}
