//! The rows of an integer layer, in the order in which the kernels read them.
//!
//! Each unit has one row for each gate. A block has as many units as a vector has lanes, and contiguous weights:
//! `[block][part][columns][gate][lane][column]`. A row has up to two parts, over the input and over h; the part with
//! the finer scale comes first. The numbers that [scale the sums to 16 bits](tidegate::internals::quant) are
//! `[block][gate][number][lane]`.

use tidegate::internals::{node::Node, quant::RowBlock};

use super::{Integers, Names};
use crate::lines::Lines;

/// Numbers per row. For a sum over both parts: initial value of the finer part, addend after its shift, its shift, and
/// multiplier. For separate parts: initial values of both, and multipliers of both.
pub(super) const NUMBERS: usize = 4;

/// Rows of a node.
#[derive(Debug)]
pub(super) struct Panels {
    pub gates: usize,
    /// Number of units.
    pub units: usize,
    /// Columns over the input and over h.
    pub columns: [usize; 2],
    /// Whether the finer part, which comes first, is the one over h.
    pub swapped: bool,
    pub weights: Lines<i8>,
    pub numbers: Lines<i32>,
}

/// The tensors of the rows of a gate.
#[derive(Clone, Copy)]
pub(super) struct Gate {
    /// Names of the weights over the input and over h.
    pub parts: &'static [&'static str],
    /// Name of the tensor of row numbers; two names if the parts have separate sums.
    pub rows: &'static [&'static str],
    /// Row of the gate among the rows of a unit, and rows per unit.
    pub row: (usize, usize),
}

impl Gate {
    /// The gates of a tensor with `GATES` rows per unit.
    pub fn all<const GATES: usize>(parts: &'static [&'static str], rows: &'static [&'static str]) -> [Self; GATES] {
        core::array::from_fn(|gate| Self { parts, rows, row: (gate, GATES) })
    }
}

impl Panels {
    /// Packs the rows of `gates`. `columns` are the columns of each part; `first` names the number that is nonzero if
    /// the second part is the finer one. `None` if a tensor is missing.
    pub fn new<S: Integers>(
        node: &Node<'_>,
        simd: S,
        gates: &[Gate],
        units: usize,
        columns: [usize; 2],
        first: Option<&str>,
    ) -> Option<Self> {
        let names = Names::of(node)?;
        let swapped = match first {
            Some(first) => node.number(names.number(first)?) != 0,
            None => false,
        };
        let order = order(swapped);
        let rows = gates.iter().map(|gate| {
            let rows_of = |part: usize| {
                let tensor = gate.rows.get(part).or(gate.rows.first())?;
                Some(node.rows(names.tensor(tensor)?, gate.row.1 * units))
            };
            Some([rows_of(order[0])?, rows_of(order[1])?])
        });
        let rows: Vec<[&[RowBlock]; 2]> = rows.collect::<Option<_>>()?;
        Self::packed(node, simd, gates, units, (columns, swapped), |index, row, excess| {
            let numbers_of = |rows: &[RowBlock]| {
                let (start, multiplier, shift) = of_row(rows, row)?;
                Some((start, i32::from(shift & 31), multiplier))
            };
            let [fine, coarse] = rows[index];
            let (start, shift, multiplier) = numbers_of(fine)?;
            let start = start.wrapping_sub(excess[0]);
            Some(match gates[index] {
                Gate { rows: [_, _], .. } => {
                    let (behind, _, second) = numbers_of(coarse)?;
                    [start, behind.wrapping_sub(excess[1]), multiplier, second]
                }
                // Rows with one part are not shifted.
                Gate { parts, .. } => {
                    [start, excess[1].wrapping_neg(), if parts.len() == 2 { shift } else { 0 }, multiplier]
                }
            })
        })
    }

    /// Packs the weights of `gates`, with the numbers that `numbers(gate, row, excess)` returns. `excess` are the sums over
    /// each part, the finer one first, that the operand's [excess](Integers::EXCESS) adds.
    pub fn packed<S: Integers>(
        node: &Node<'_>,
        _: S,
        gates: &[Gate],
        units: usize,
        (columns, swapped): ([usize; 2], bool),
        numbers_of: impl Fn(usize, usize, [i32; 2]) -> Option<[i32; NUMBERS]>,
    ) -> Option<Self> {
        let (names, order) = (Names::of(node)?, order(swapped));
        let groups = order.map(|part| columns[part].div_ceil(S::COLUMNS));
        let (blocks, group) = (units.div_ceil(S::LANES), gates.len() * S::LANES * S::COLUMNS);
        let block_len = (groups[0] + groups[1]) * group;
        let mut weights = Lines::zeroed(blocks * block_len);
        let mut numbers = Lines::zeroed(blocks * gates.len() * NUMBERS * S::LANES);
        for (index, gate) in gates.iter().enumerate() {
            let (which, of_unit) = gate.row;
            let matrices = order.map(|part| gate.parts.get(part).and_then(|name| names.tensor(name)));
            for unit in 0..units {
                let (block, lane, row) = (unit / S::LANES, unit % S::LANES, unit * of_unit + which);
                let mut excess = [0_i32; 2];
                let mut start = block * block_len + (index * S::LANES + lane) * S::COLUMNS;
                for ((matrix, excess), groups) in matrices.iter().zip(&mut excess).zip(groups) {
                    let Some(matrix) = *matrix else { continue };
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
                let at = (block * gates.len() + index) * NUMBERS * S::LANES + lane;
                let to = numbers.get_mut().get_mut(at..)?.iter_mut().step_by(S::LANES);
                to.zip(numbers_of(index, row, excess)?).for_each(|(to, value)| *to = value);
            }
        }
        Some(Self { gates: gates.len(), units, columns, swapped, weights, numbers })
    }

    /// Elements that [`operand`] writes for `values` values.
    pub const fn operand_len<S: Integers>(values: usize) -> usize {
        values.div_ceil(S::COLUMNS) * S::COLUMNS
    }

    /// Elements that [`operands`](Self::operands) writes.
    pub const fn operands_len<S: Integers>(&self) -> usize {
        let [input, carried] = self.columns;
        Self::operand_len::<S>(input) + Self::operand_len::<S>(carried)
    }

    /// Writes the input and h to `to`, of [`operands_len`](Self::operands_len) elements, as the operand of whole rows.
    #[inline(always)]
    pub fn operands<'w, S: Integers>(&self, simd: S, x: &[i16], h: &[i16], to: &'w mut [i16]) -> &'w [S::Columns] {
        let to = &mut to[..self.operands_len::<S>()];
        let (fine, coarse) = if self.swapped { (h, x) } else { (x, h) };
        let (to_fine, to_coarse) = to.split_at_mut(Self::operand_len::<S>(fine.len()));
        simd.columns(fine, bytemuck::cast_slice_mut(to_fine));
        simd.columns(coarse, bytemuck::cast_slice_mut(to_coarse));
        bytemuck::cast_slice(to)
    }

    /// Number of blocks of units.
    pub const fn blocks<S: Integers>(&self) -> usize {
        self.units.div_ceil(S::LANES)
    }
}

/// The parts, the finer one first.
const fn order(swapped: bool) -> [usize; 2] {
    if swapped { [1, 0] } else { [0, 1] }
}

/// The initial value of a row's sum, its multiplier and its byte of shifts.
pub(super) fn of_row(rows: &[RowBlock], row: usize) -> Option<(i32, i32, u8)> {
    let &[a, b, c, d, m, n, o, p, shifts] = rows.get(row / 4)?;
    let at = row % 4;
    Some(([a, b, c, d][at], [m, n, o, p][at], shifts.to_le_bytes()[at]))
}

/// Writes `x` to `to`, of [`operand_len`](Panels::operand_len) elements, as an operand.
#[inline(always)]
pub(super) fn operand<'w, S: Integers>(simd: S, x: &[i16], to: &'w mut [i16]) -> &'w [S::Columns] {
    let to = bytemuck::cast_slice_mut(&mut to[..Panels::operand_len::<S>(x.len())]);
    simd.columns(x, to);
    to
}

/// The units of a block.
#[inline(always)]
pub(super) fn units<S: Integers>(block: usize, units: usize) -> core::ops::Range<usize> {
    block * S::LANES..units.min((block + 1) * S::LANES)
}

/// The blocks in the order of a step. Every other step walks the weights from the end, because the weights that the
/// previous step read last are still in the cache.
#[inline(always)]
pub(super) fn turn(blocks: usize, odd: bool) -> impl Iterator<Item = usize> + Clone {
    (0..blocks).map(move |block| if odd { blocks - 1 - block } else { block })
}
