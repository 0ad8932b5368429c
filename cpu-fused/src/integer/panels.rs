//! The rows of an integer layer, as vectors read them.
//!
//! Rows belong to units: one for each gate. A block has as many units as a vector has lanes, and one stream of weights:
//! `[block][part][columns][gate][lane][column of these]`, the finer part of a row first. Beside them lies what the sums of a
//! row [are brought to 16 bits with](tidegate::quant): `[block][gate][what][lane]`.

use tidegate::node::Node;

use super::{Integers, Names};
use crate::lines::Lines;

/// What belongs to the sums of a row: what those over the finer part start from, what is added to them when they have been
/// shifted, their shift, and what all is multiplied with.
const NUMBERS: usize = 4;

/// Rows of a node.
#[derive(Debug)]
pub(super) struct Panels {
    gates: usize,
    /// Columns of the parts, finer and coarser.
    columns: [usize; 2],
    /// Whether the finer part is the one over what is carried.
    swapped: bool,
    weights: Lines<i8>,
    numbers: Lines<i32>,
}

/// Which tensors make rows.
#[derive(Clone, Copy)]
pub(super) struct Source {
    /// Of each part its tensor of weights, by name: what comes in, and what is carried.
    pub parts: &'static [&'static str],
    /// The tensor of rows.
    pub rows: &'static str,
    /// The number that says whether the second part is the finer one, if there are two.
    pub first: &'static str,
    /// Rows of a unit.
    pub gates: usize,
}

impl Panels {
    /// Packs them. `columns` are those of the parts. None if the node has no such tensors.
    pub fn new<S: Integers>(node: &Node<'_>, _: S, source: Source, units: usize, columns: &[usize]) -> Option<Self> {
        let names = Names::of(node)?;
        let gates = source.gates;
        let mut parts = [None; 2];
        for ((to, name), &columns) in parts.iter_mut().zip(source.parts).zip(columns) {
            *to = Some((names.tensor(name)?, columns));
        }
        let swapped = source.parts.len() == 2 && node.number(names.number(source.first)?) != 0;
        if swapped {
            parts.reverse();
        }
        let columns = parts.map(|part| part.map_or(0, |(_, columns)| columns));
        let groups = columns.map(|columns| columns.div_ceil(S::COLUMNS));
        let (blocks, group) = (units.div_ceil(S::LANES), gates * S::LANES * S::COLUMNS);
        let block_len = (groups[0] + groups[1]) * group;
        let mut weights = Lines::zeroed(blocks * block_len);
        let mut numbers = Lines::zeroed(blocks * gates * NUMBERS * S::LANES);
        let rows = node.rows(names.tensor(source.rows)?, gates * units);
        for unit in 0..units {
            let (block, lane) = (unit / S::LANES, unit % S::LANES);
            for gate in 0..gates {
                let row = unit * gates + gate;
                let mut excess = [0_i32; 2];
                let mut start = block * block_len + (gate * S::LANES + lane) * S::COLUMNS;
                for (part, (excess, groups)) in parts.iter().zip(excess.iter_mut().zip(groups)) {
                    let Some((matrix, _)) = *part else { continue };
                    let to = weights.get_mut().get_mut(start..)?.chunks_mut(group);
                    let mut row = node.integer_row(matrix, row);
                    let mut sum = 0_i32;
                    for to in to.take(groups) {
                        for (to, weight) in to.iter_mut().take(S::COLUMNS).zip(&mut row) {
                            *to = weight;
                            sum = sum.wrapping_add(weight.into());
                        }
                    }
                    *excess = sum.wrapping_mul(S::EXCESS);
                    start += groups * group;
                }
                let &[a, b, c, d, m, n, o, p, shifts] = rows.get(row / 4)?;
                let (starts, multipliers, shifts) = ([a, b, c, d], [m, n, o, p], shifts.to_le_bytes());
                // Rows with one part are not shifted.
                let shift = if parts[1].is_some() { i32::from(shifts[row % 4] & 31) } else { 0 };
                let values =
                    [starts[row % 4].wrapping_sub(excess[0]), excess[1].wrapping_neg(), shift, multipliers[row % 4]];
                let at = (block * gates + gate) * NUMBERS * S::LANES + lane;
                let to = numbers.get_mut().get_mut(at..)?.iter_mut().step_by(S::LANES);
                to.zip(values).for_each(|(to, value)| *to = value);
            }
        }
        Some(Self { gates, columns, swapped, weights, numbers })
    }

    /// Elements of scratch that [`operands`](Self::operands) have for so many values.
    pub const fn operand_len<S: Integers>(values: usize) -> usize {
        values.div_ceil(S::COLUMNS) * S::COLUMNS
    }

    /// What weights are multiplied with, in the form that they are: written to `to`, which is
    /// [`operand_len`](Self::operand_len).
    #[inline(always)]
    pub fn operand<'w, S: Integers>(simd: S, x: &[i16], to: &'w mut [i16]) -> &'w [S::Columns] {
        let to = bytemuck::cast_slice_mut(to);
        simd.columns(x, to);
        to
    }

    /// The blocks of units, over what comes in and what is carried.
    #[inline(always)]
    pub fn blocks<'x, S: Integers, const GATES: usize>(
        &'x self,
        simd: S,
        x: &'x [S::Columns],
        h: &'x [S::Columns],
    ) -> Blocks<'x, S, GATES> {
        debug_assert_eq!(GATES, self.gates, "a layer has as many gates as its cell");
        let (fine, coarse) = if self.swapped { (h, x) } else { (x, h) };
        debug_assert_eq!(self.columns.map(|columns| columns.div_ceil(S::COLUMNS)), [fine.len(), coarse.len()]);
        let weights: &[S::Weights] = bytemuck::cast_slice(self.weights.get());
        let numbers: &[S::Lanes] = bytemuck::cast_slice(self.numbers.get());
        Blocks { simd, fine, coarse, weights: weights.as_chunks().0, numbers: numbers.as_chunks().0.as_chunks().0 }
    }
}

/// The blocks of units of a layer that has so many gates.
pub(super) struct Blocks<'x, S: Integers, const GATES: usize> {
    simd: S,
    fine: &'x [S::Columns],
    coarse: &'x [S::Columns],
    weights: &'x [[S::Weights; GATES]],
    numbers: &'x [[[S::Lanes; NUMBERS]; GATES]],
}

impl<S: Integers, const GATES: usize> Blocks<'_, S, GATES> {
    /// The sums of the gates of a block of units, brought to 16 bits; zeros where there is none. Chains of sums are kept
    /// apart, `CHAINS` of each gate, so that one need not wait for the other.
    #[inline(always)]
    pub fn sums<const CHAINS: usize>(&self, block: usize) -> [S::Vector; GATES] {
        let simd = self.simd;
        let (fine, all) = (self.fine.len(), self.fine.len() + self.coarse.len());
        let (Some(numbers), Some(weights)) =
            (self.numbers.get(block), self.weights.get(block * all..(block + 1) * all))
        else {
            return [simd.splat(0); GATES];
        };
        let (fine_weights, coarse_weights) = weights.split_at(fine);
        // Loops, here and below: closures that are not inlined would be compiled without the instructions.
        let mut sums = [simd.splat(0); GATES];
        for (sum, [start, ..]) in sums.iter_mut().zip(numbers) {
            *sum = simd.load(start);
        }
        sums = products::<S, GATES, CHAINS>(simd, sums, fine_weights, self.fine);
        if !self.coarse.is_empty() {
            for (sum, [_, behind, shift, _]) in sums.iter_mut().zip(numbers) {
                *sum = simd.add(simd.shr_each(*sum, simd.load(shift)), simd.load(behind));
            }
            sums = products::<S, GATES, CHAINS>(simd, sums, coarse_weights, self.coarse);
        }
        for (sum, [.., multiplier]) in sums.iter_mut().zip(numbers) {
            *sum = simd.mulh(*sum, simd.load(multiplier));
        }
        sums
    }
}

/// The sums over columns of a vector of rows for each gate, from `start` on.
#[inline(always)]
fn products<S: Integers, const GATES: usize, const CHAINS: usize>(
    simd: S,
    start: [S::Vector; GATES],
    weights: &[[S::Weights; GATES]],
    x: &[S::Columns],
) -> [S::Vector; GATES] {
    let zero = simd.splat(0);
    let mut chains = [[simd.begin(zero); GATES]; CHAINS];
    for (sum, start) in chains[0].iter_mut().zip(start) {
        *sum = simd.begin(start);
    }
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
    let mut totals = [zero; GATES];
    for sums in chains {
        for (total, sum) in totals.iter_mut().zip(sums) {
            *total = simd.add(*total, simd.total(sum));
        }
    }
    totals
}

/// The blocks in the order of a step: every other one goes through the weights from the end, so that of those that do not
/// fit a cache the last ones are still there.
#[inline(always)]
pub(super) fn turn(blocks: usize, odd: bool) -> impl Iterator<Item = usize> + Clone {
    (0..blocks).map(move |block| if odd { blocks - 1 - block } else { block })
}
