//! Sums of rows in the integer numerics, a few blocks at a time; shared by the integer cells.

use core::mem::MaybeUninit;

use super::low_rank::RANK;
use crate::kernel::{Kernel, Part, Written};
use crate::node::Node;
use crate::quant::{RowBlock, saturate};
use crate::spec::{index, is_wide};

/// Number of blocks whose sums are computed before they are used, so that a kernel saves its registers once per chunk.
pub(super) const CHUNK: usize = 16;

/// Memory for the sums of a chunk.
pub(super) type Sums = [MaybeUninit<[i32; 4]>; CHUNK];

/// Memory without sums yet.
pub(super) const NO_SUMS: Sums = [MaybeUninit::uninit(); CHUNK];

/// The tensors of rows with two parts, by their indices in the spec.
#[derive(Clone, Copy)]
pub(super) struct PairTensors {
    pub input: usize,
    pub recurrent: usize,
    pub rows: usize,
}

impl PairTensors {
    /// The tensors with these names: input, recurrent, rows.
    pub const fn named(tensors: &[&str], [input, recurrent, rows]: [&str; 3]) -> Self {
        Self { input: index(tensors, input), recurrent: index(tensors, recurrent), rows: index(tensors, rows) }
    }
}

/// The operand of a product: elements padded to whole kernel units, and their number without the padding.
pub(super) type Operand<'x> = (&'x [i16], usize);

/// An [`Operand`] in the form that the kernel reads, for rows of several matrices.
pub(super) struct Ready<'x, K: Kernel> {
    operand: K::Operand<'x>,
    len: usize,
}

impl<'x, K: Kernel> Ready<'x, K> {
    #[inline(always)]
    pub fn new((x, len): Operand<'x>) -> Self {
        Self { operand: K::operand(x, len), len }
    }

    /// The operand together with matrix `index` of a node.
    #[inline(always)]
    fn part<'a>(&self, node: &Node<'a>, index: usize) -> Option<Part<'a, 'x, K>> {
        Some(Part { blocks: node.weights::<K>(index, self.len)?, operand: self.operand })
    }
}

/// Rows over one operand.
pub(super) struct Single<'a, 'x, K: Kernel> {
    part: Part<'a, 'x, K>,
    /// The part with the finer unit, whose sums are shifted before they are added: the other operand of a [`Pair`], or
    /// the fine plane of weights of 16 bits.
    fine: Option<Part<'a, 'x, K>>,
    rows: &'a [RowBlock],
}

impl<'a, 'x, K: Kernel> Single<'a, 'x, K> {
    /// The first `count` rows of a matrix and its tensor of rows. `ANY` is whether the node may have weights of 16 bits.
    /// `None` if the node does not have the tensors.
    #[inline(always)]
    pub fn new<const ANY: bool>(
        node: &Node<'a>,
        matrix: usize,
        rows: usize,
        count: usize,
        x: Operand<'x>,
    ) -> Option<Self> {
        Self::of_ready::<ANY>(node, matrix, rows, count, &Ready::new(x))
    }

    /// [`new`](Self::new) from an operand in the kernel's form.
    #[inline(always)]
    pub fn of_ready<const ANY: bool>(
        node: &Node<'a>,
        matrix: usize,
        rows: usize,
        count: usize,
        x: &Ready<'x, K>,
    ) -> Option<Self> {
        Some(Self::of::<ANY>(node, x.part(node, matrix)?, node.row_blocks(rows, count)?))
    }

    #[inline(always)]
    fn of<const ANY: bool>(node: &Node<'a>, part: Part<'a, 'x, K>, rows: &'a [RowBlock]) -> Self {
        let fine = if ANY && is_wide(node.options) { Some(part.skip(rows.len())) } else { None };
        Self { part, fine, rows }
    }

    /// The sums of all blocks, at most `sums.len()`.
    #[inline(always)]
    pub fn all<'s>(&self, sums: &'s mut [MaybeUninit<[i32; 4]>]) -> &'s mut [[i32; 4]] {
        let mut sums = Written::new(sums);
        match &self.fine {
            None => K::sum_one(self.rows, &self.part, &mut sums),
            Some(fine) => K::sum_two(self.rows, fine, &self.part, &mut sums),
        }
        sums.finish()
    }

    /// The sums of the next `blocks` blocks, at most `sums.len()`; empty if fewer are left.
    #[inline(always)]
    pub fn next<'s>(&mut self, blocks: usize, sums: &'s mut [MaybeUninit<[i32; 4]>]) -> &'s mut [[i32; 4]] {
        self.sum(blocks, Written::new(sums))
    }

    /// [`next`](Self::next) into `sums`.
    #[inline(always)]
    pub fn sum<'s>(&mut self, blocks: usize, mut sums: Written<'s>) -> &'s mut [[i32; 4]] {
        let Self { part, fine, rows } = self;
        let Some((now, later)) = rows.split_at_checked(blocks) else { return &mut [] };
        match fine {
            None => K::sum_one(now, part, &mut sums),
            Some(fine) => K::sum_two(now, fine, part, &mut sums),
        }
        if !later.is_empty() {
            *part = part.skip(blocks);
            *fine = fine.map(|fine| fine.skip(blocks));
        }
        *rows = later;
        sums.finish()
    }
}

/// Rows over the input and the state.
pub(super) struct Pair<'a, 'x, K: Kernel> {
    first: Single<'a, 'x, K>,
    /// The rows over the state with weights of [16 bits](is_wide).
    second: Option<Single<'a, 'x, K>>,
}

impl<'a, 'x, K: Kernel> Pair<'a, 'x, K> {
    /// The first `count` rows. Number `first` is nonzero if the recurrent part has the finer unit. `ANY` is whether the
    /// node may have weights of 16 bits. `None` if the node does not have the tensors.
    #[inline(always)]
    pub fn new<const ANY: bool>(
        node: &Node<'a>,
        tensors: PairTensors,
        first: usize,
        count: usize,
        x: Operand<'x>,
        h: Operand<'x>,
    ) -> Option<Self> {
        Self::of_ready::<ANY>(node, tensors, first, count, &Ready::new(x), &Ready::new(h))
    }

    /// [`new`](Self::new) from operands in the kernel's form.
    #[inline(always)]
    pub fn of_ready<const ANY: bool>(
        node: &Node<'a>,
        tensors: PairTensors,
        first: usize,
        count: usize,
        x: &Ready<'x, K>,
        h: &Ready<'x, K>,
    ) -> Option<Self> {
        let (input, recurrent) = (x.part(node, tensors.input)?, h.part(node, tensors.recurrent)?);
        if ANY && is_wide(node.options) {
            let rows = node.row_blocks(tensors.rows, 2 * count.next_multiple_of(4))?;
            let (of_input, of_state) = rows.split_at_checked(rows.len() / 2)?;
            let second = Some(Single::of::<ANY>(node, recurrent, of_state));
            return Some(Self { first: Single::of::<ANY>(node, input, of_input), second });
        }
        let (fine, coarse) = if node.number(first) == 0 { (input, recurrent) } else { (recurrent, input) };
        let rows = node.row_blocks(tensors.rows, count)?;
        Some(Self { first: Single { part: coarse, fine: Some(fine), rows }, second: None })
    }

    /// The sums of all blocks, at most `sums.len()`.
    #[inline(always)]
    pub fn all<'s>(&mut self, sums: &'s mut [MaybeUninit<[i32; 4]>]) -> &'s [[i32; 4]] {
        let sums = self.first.all(sums);
        if let Some(second) = &mut self.second {
            add(second, sums);
        }
        sums
    }

    /// The sums of the next `blocks` blocks, at most `sums.len()`; empty if fewer are left.
    #[inline(always)]
    pub fn next<'s>(&mut self, blocks: usize, sums: &'s mut [MaybeUninit<[i32; 4]>]) -> &'s [[i32; 4]] {
        self.sum(blocks, Written::new(sums))
    }

    /// [`next`](Self::next) into `sums`.
    #[inline(always)]
    pub fn sum<'s>(&mut self, blocks: usize, sums: Written<'s>) -> &'s [[i32; 4]] {
        let sums = self.first.sum(blocks, sums);
        if let Some(second) = &mut self.second {
            add(second, sums);
        }
        sums
    }
}

/// Adds the next sums of rows to `sums`.
#[inline(never)]
fn add<K: Kernel>(rows: &mut Single<'_, '_, K>, sums: &mut [[i32; 4]]) {
    let mut others = [const { MaybeUninit::uninit() }; 4];
    for sums in sums.chunks_mut(others.len()) {
        let blocks = sums.len();
        for (sum, other) in sums.iter_mut().zip(rows.next(blocks, &mut others)) {
            for (sum, &other) in sum.iter_mut().zip(other.iter()) {
                *sum = sum.wrapping_add(other);
            }
        }
    }
}

/// The operand of the recurrent weights: h, or if `option` is set B h, which is written to `to` and padded. `basis` is
/// the index of B, `[rank, hidden]`; the next tensor is that of its rows.
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
    let mut sums = NO_SUMS;
    let Some(mut rows) = Single::<K>::new::<true>(node, basis, basis + 1, rank, (hidden, node.hidden_size)) else {
        return (&[], 0);
    };
    for latent in latent.chunks_mut(4 * CHUNK) {
        for (&sum, to) in rows.next(latent.len().div_ceil(4), &mut sums).as_flattened().iter().zip(latent) {
            *to = saturate(sum);
        }
    }
    (to, rank)
}
