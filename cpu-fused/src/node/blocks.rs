//! One step of a recurrent layer, one block of units at a time: the sums of a block stay in registers until its new
//! state has been computed. LSTM and GRU, with and without options, differ in [`Cell`].

use core::ops::Range;

use super::{block, copy};
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
    /// Whether two blocks are summed at once, if the cell allows it.
    pub abreast: bool,
    pub cell: C,
}

impl<S: Simd, W: Weight, C: Cell<S, G>, const G: usize> Task for Blocks<'_, S, W, C, G> {
    type Output = ();

    #[inline(always)]
    fn run(mut self) {
        let pairs = if self.abreast { self.start.len() / 2 } else { 0 };
        for turn in 0..pairs {
            self.blocks::<2>(2 * self.way.at(turn, pairs));
        }
        // A block without a partner comes last in both directions.
        let rest = self.start.len() - 2 * pairs;
        for turn in 0..rest {
            self.blocks::<1>(2 * pairs + self.way.at(turn, rest));
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
        let Self { s, input, recurrent, bias, way, cell, .. } = self;
        let (Some(x), Some(h), Some(y)) =
            (self.x.first_chunk::<U>(), self.h.first_chunk_mut::<U>(), self.y.first_chunk_mut::<U>())
        else {
            return;
        };
        let (mut cell, blocks) = (cell.sized(U), U.div_ceil(S::LANES));
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
}
