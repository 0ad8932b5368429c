//! Convolutions in the integer numerics: each group of filters is a matrix that multiplies the patch under the window,
//! as in a [dense layer](crate::cell::dense::integer).

use super::{TAPS, Way};
use crate::cell::integer::CHUNK;
use crate::cell::prelude::*;
use crate::curve::Curve;
use crate::kernel::{Blocks, Part, Written};
use crate::quant::{RowBlock, saturate};

/// Options of every convolution.
pub const OPTIONS: u32 = 1 << OTHER | 1 << CURVE;

/// Numbers of every convolution.
pub const NUMBERS: [NumberSpec; 2] = [NumberSpec::PREACT_BITS, NumberSpec::table_shift("table_shift")];

const PREACT_BITS: usize = number(&NUMBERS, "preact_bits");
const TABLE_SHIFT: usize = number(&NUMBERS, "table_shift");

/// Tensors of every convolution.
pub const TENSORS: &[&str] = &["weights", "rows", "table"];

const WEIGHTS: usize = index(TENSORS, "weights");
const ROWS: usize = index(TENSORS, "rows");
const TABLE: usize = index(TENSORS, "table");

/// The tensors of a convolution whose weights have `cols` columns.
pub const fn tensors(cols: Dim) -> [TensorSpec; 3] {
    const TO: &[Unit] = &[Unit::Before { activation: 0, bits: PREACT_BITS, after: &Unit::Output }];
    [
        TensorSpec::matrix("weights", &["weights"], Dim::Hidden, cols).passes(&super::POSITIONS),
        TensorSpec::vector("rows", &["bias"], Dim::Hidden).stored(Storage::rows(WEIGHTS, TO)),
        TensorSpec::table("table", 0),
    ]
}

/// A convolution in `groups`, each with `channels` channels of a pixel. `work` is the patch of a group at one position.
pub(crate) fn convolve<K: Kernel>(node: &Node<'_>, io: Io<'_, i16>, groups: usize, channels: &Dim) {
    let cols = node.dim(&TAPS) * node.dim(channels);
    let Some(blocks) = node.weights::<K>(WEIGHTS, cols) else { return };
    let filters = Filters {
        blocks,
        rows: node.rows(ROWS, node.hidden_size),
        activation: node.curve(0, TABLE, TABLE_SHIFT),
        bits: node.number(PREACT_BITS).unsigned_abs(),
    };
    at_positions::<K>(node, io, (groups, channels), |first, seen, y| filters.apply::<K>(first, seen, y));
}

/// Calls `filter` for each group at each position, with the index of the group's first filter, the patch and the
/// outputs of the group's filters. `work` is that of [`convolve`].
#[inline(always)]
pub(crate) fn at_positions<K: Kernel>(
    node: &Node<'_>,
    io: Io<'_, i16>,
    (groups, channels): (usize, &Dim),
    mut filter: impl FnMut(usize, K::Operand<'_>, &mut [i16]),
) {
    let Io { x, work: patch, y, .. } = io;
    let (way, channels) = (Way::new(node), node.dim(channels));
    let seen = node.dim(&TAPS) * channels;
    let of_group = node.hidden_size.checked_div(groups).unwrap_or(0).max(1);
    patch.get_mut(seen..).unwrap_or_default().fill(0);
    let mut rest = y;
    for position in way.positions() {
        let Some((y, others)) = rest.split_at_mut_checked(node.hidden_size) else { return };
        rest = others;
        for (group, y) in y.chunks_mut(of_group).enumerate() {
            gather(way, position, (x, group), channels, patch);
            filter(group * of_group, K::operand(patch, seen), y);
        }
    }
}

/// Copies the patch of a group of `channels` channels; padding is zeros.
fn gather(way: Way, position: [usize; 3], (x, group): (&[i16], usize), channels: usize, patch: &mut [i16]) {
    let ([_, rows, cols], [_, y, position_x]) = (way.axes, position);
    if channels != way.channels || cols.dilation != 1 {
        let mut to = patch;
        for pixel in way.taps(x, position) {
            let Some((now, later)) = to.split_at_mut_checked(channels) else { return };
            match pixel.and_then(|pixel| pixel.get(group * channels..)) {
                Some(from) => copy(now, from),
                None => now.fill(0),
            }
            to = later;
        }
        return;
    }
    // The pixels under the taps of a row are contiguous, from the first tap that is not over padding.
    let start = position_x * cols.stride;
    let first = cols.before.saturating_sub(start).min(cols.kernel);
    let count = (cols.input + cols.before).saturating_sub(start).min(cols.kernel).saturating_sub(first);
    let from = (start + first).saturating_sub(cols.before);
    let of_row = (cols.kernel * channels).max(1);
    for (tap, to) in patch.chunks_mut(of_row).take(rows.kernel).enumerate() {
        let Some(row) = rows.seen(y, tap) else {
            to.fill(0);
            continue;
        };
        let seen = x.get((row * cols.input + from) * channels..).unwrap_or_default();
        let Some((before, to)) = to.split_at_mut_checked(first * channels) else { return };
        let Some((to, after)) = to.split_at_mut_checked(count * channels) else { return };
        before.fill(0);
        copy(to, seen);
        after.fill(0);
    }
}

/// The filters of all groups.
struct Filters<'a, U> {
    blocks: Blocks<'a, U>,
    rows: &'a [RowBlock],
    activation: Curve<'a>,
    bits: u32,
}

impl<U> Filters<'_, U> {
    /// The outputs of the filters from `first` on, one for each element of `y`.
    fn apply<K: Kernel<Unit = U>>(&self, first: usize, operand: K::Operand<'_>, y: &mut [i16]) {
        let mut rows = self.rows.get(first / 4..).unwrap_or_default();
        let mut part = Part::<K> { blocks: self.blocks.skip(first / 4), operand };
        // A block may hold filters of several groups.
        let (mut others, mut rest) = (first % 4, y);
        let mut sums = [[0; 4]; CHUNK];
        while !rest.is_empty() {
            let blocks = (others + rest.len()).div_ceil(4).min(CHUNK);
            let (Some((now, later)), Some(sums)) = (rows.split_at_checked(blocks), sums.get_mut(..blocks)) else {
                return;
            };
            K::sum_one(now, &part, &mut Written::over(sums));
            let sums = sums.as_flattened().get(others..).unwrap_or_default();
            let Some((y, behind)) = rest.split_at_mut_checked(sums.len().min(rest.len())) else { return };
            for (y, &sum) in y.iter_mut().zip(sums) {
                *y = saturate(self.activation.apply(sum, self.bits));
            }
            (rows, part, rest, others) = (later, part.skip(blocks), behind, 0);
        }
    }
}
