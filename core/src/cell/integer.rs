//! What cells share in the integer numerics: the sums of rows, a few blocks at a time.

use super::low_rank::RANK;
use crate::curve::{Curve, PREACT_BITS, sigmoid, tanh};
use crate::kernel::{Kernel, Part};
use crate::node::Node;
use crate::quant::{MAX, ONE, RowBlock, saturate};

/// Blocks whose sums are taken before anything is made of them: so that a kernel need not save its registers for each.
pub(super) const CHUNK: usize = 16;

/// Tensors of a spec that make rows of two parts, by their indices.
#[derive(Clone, Copy)]
pub(super) struct PairTensors {
    pub input: usize,
    pub recurrent: usize,
    pub rows: usize,
}

/// Something that is multiplied: elements filled up to whole units, and how many there are.
pub(super) type Operand<'x> = (&'x [i16], usize);

/// Rows over what comes in and what is carried.
pub(super) struct Pair<'a, 'x, K: Kernel> {
    fine: Part<'a, 'x, K>,
    coarse: Part<'a, 'x, K>,
    rows: &'a [RowBlock],
    sums: [[i32; 4]; CHUNK],
}

impl<'a, 'x, K: Kernel> Pair<'a, 'x, K> {
    /// So many rows. `first` is the index of the number that says whether the recurrent part is the finer one.
    pub fn new(
        node: &Node<'a>,
        tensors: PairTensors,
        first: usize,
        count: usize,
        (x, x_len): Operand<'x>,
        (h, h_len): Operand<'x>,
    ) -> Self {
        let input = Part { blocks: node.weights::<K>(tensors.input, x_len), operand: K::operand(x, x_len) };
        let recurrent = Part { blocks: node.weights::<K>(tensors.recurrent, h_len), operand: K::operand(h, h_len) };
        let (fine, coarse) = if node.number(first) == 0 { (input, recurrent) } else { (recurrent, input) };
        Self { fine, coarse, rows: node.rows(tensors.rows, count), sums: [[0; 4]; CHUNK] }
    }

    /// The sums of the next blocks, at most [`CHUNK`] and at most so many.
    #[inline(always)]
    pub fn next(&mut self, blocks: usize) -> &[[i32; 4]] {
        let Self { fine, coarse, rows, sums } = self;
        let Some((now, later)) = rows.split_at_checked(blocks) else { return &[] };
        let Some(sums) = sums.get_mut(..blocks) else { return &[] };
        K::sum_two(now, *fine, *coarse, sums);
        (*fine, *coarse, *rows) = (fine.skip(blocks), coarse.skip(blocks), later);
        sums
    }
}

/// Rows over one thing.
pub(super) struct Single<'a, 'x, K: Kernel> {
    part: Part<'a, 'x, K>,
    rows: &'a [RowBlock],
    sums: [[i32; 4]; CHUNK],
}

impl<'a, 'x, K: Kernel> Single<'a, 'x, K> {
    /// So many rows, of a matrix and its tensor of rows.
    pub fn new(node: &Node<'a>, matrix: usize, rows: usize, count: usize, (x, len): Operand<'x>) -> Self {
        let part = Part { blocks: node.weights::<K>(matrix, len), operand: K::operand(x, len) };
        Self { part, rows: node.rows(rows, count), sums: [[0; 4]; CHUNK] }
    }

    /// The sums of the next blocks, at most [`CHUNK`] and at most so many.
    #[inline(always)]
    pub fn next(&mut self, blocks: usize) -> &[[i32; 4]] {
        let Self { part, rows, sums } = self;
        let Some((now, later)) = rows.split_at_checked(blocks) else { return &[] };
        let Some(sums) = sums.get_mut(..blocks) else { return &[] };
        K::sum_one(now, *part, sums);
        (*part, *rows) = (part.skip(blocks), later);
        sums
    }
}

/// What recurrent weights are multiplied with: h, or where `option` is set B h, which `to` takes and which is filled up
/// as it is. `basis` is the index of B, `[rank, hidden]`, the tensor behind it that of its rows.
pub(super) fn low_rank<'w, K: Kernel>(
    node: &Node<'_>,
    option: u32,
    basis: usize,
    hidden: &'w [i16],
    to: &'w mut [i16],
) -> Operand<'w> {
    if !node.has(option) {
        return (hidden, node.hidden_size);
    }
    let rank = node.dim(&RANK);
    let Some((latent, filling)) = to.split_at_mut_checked(rank) else { return (&[], 0) };
    filling.fill(0);
    let mut sums = Single::<K>::new(node, basis, basis + 1, rank, (hidden, node.hidden_size));
    for latent in latent.chunks_mut(4 * CHUNK) {
        for (&sum, to) in sums.next(latent.len().div_ceil(4)).as_flattened().iter().zip(latent) {
            *to = saturate(sum);
        }
    }
    (to, rank)
}

/// The activations of gates and candidate.
pub(super) trait Curves {
    /// From 0 to 1 inclusive, with 15 fraction bits.
    fn gate(&self, sum: i32) -> i32;

    /// In 16 bits.
    fn candidate(&self, sum: i32) -> i32;
}

/// σ and tanh of sums with [`PREACT_BITS`] fraction bits.
pub(super) struct Usual;

impl Curves for Usual {
    #[inline(always)]
    fn gate(&self, sum: i32) -> i32 {
        sigmoid(sum, PREACT_BITS)
    }

    #[inline(always)]
    fn candidate(&self, sum: i32) -> i32 {
        tanh(sum, PREACT_BITS)
    }
}

/// What a node says.
pub(super) struct Given<'a> {
    pub gate: Curve<'a>,
    pub candidate: Curve<'a>,
    pub bits: u32,
}

impl Curves for Given<'_> {
    fn gate(&self, sum: i32) -> i32 {
        self.gate.apply(sum, self.bits).clamp(0, ONE)
    }

    fn candidate(&self, sum: i32) -> i32 {
        self.candidate.apply(sum, self.bits).clamp(-MAX, MAX)
    }
}
