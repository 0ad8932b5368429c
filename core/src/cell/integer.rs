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

/// Rows over one operand. `ANY` is whether the weights may have 16 bits; otherwise no code for them is linked.
pub(super) struct Single<'a, 'x, K: Kernel, const ANY: bool> {
    part: Part<'a, 'x, K>,
    rows: &'a [RowBlock],
    /// The number of blocks of the coarse plane, if the weights have 16 bits: the fine plane follows it.
    plane: Option<usize>,
}

impl<'a, 'x, K: Kernel, const ANY: bool> Single<'a, 'x, K, ANY> {
    /// The first `count` rows of a matrix and its tensor of rows. `None` if the node does not have the tensors.
    #[inline(always)]
    pub fn new(node: &Node<'a>, matrix: usize, rows: usize, count: usize, x: Operand<'x>) -> Option<Self> {
        Self::of_ready(node, matrix, rows, count, &Ready::new(x))
    }

    /// [`new`](Self::new) from an operand in the kernel's form.
    #[inline(always)]
    pub fn of_ready(node: &Node<'a>, matrix: usize, rows: usize, count: usize, x: &Ready<'x, K>) -> Option<Self> {
        let (part, rows) = (x.part(node, matrix)?, node.row_blocks(rows, count)?);
        Some(Self { part, rows, plane: (ANY && is_wide(node.options)).then_some(rows.len()) })
    }

    /// The sums of all blocks, at most `sums.len()`.
    #[inline(always)]
    pub fn all<'s>(&self, sums: &'s mut [MaybeUninit<[i32; 4]>]) -> &'s mut [[i32; 4]] {
        let mut sums = Written::new(sums);
        self.write(self.rows, &mut sums);
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
        let Some((now, later)) = self.rows.split_at_checked(blocks) else { return &mut [] };
        self.write(now, &mut sums);
        if !later.is_empty() {
            self.part = self.part.skip(blocks);
        }
        self.rows = later;
        sums.finish()
    }

    /// Writes the sums of `rows`, which are the next rows.
    #[inline(always)]
    fn write(&self, rows: &[RowBlock], sums: &mut Written<'_>) {
        match self.plane {
            Some(plane) if ANY => K::sum_two(rows, &self.part.skip(plane), &self.part, sums),
            _ => K::sum_one(rows, &self.part, sums),
        }
    }
}

/// Rows over the input and the state. `ANY` is as in [`Single`].
pub(super) struct Pair<'a, 'x, K: Kernel, const ANY: bool> {
    /// The part with the finer unit, whose sums are shifted before they are added. With weights of 16 bits, the part over
    /// the input.
    fine: Part<'a, 'x, K>,
    coarse: Part<'a, 'x, K>,
    rows: &'a [RowBlock],
    /// With weights of 16 bits, the rows over the state, and the number of blocks of a coarse plane.
    wide: Option<(&'a [RowBlock], usize)>,
}

impl<'a, 'x, K: Kernel, const ANY: bool> Pair<'a, 'x, K, ANY> {
    /// The first `count` rows. Number `first` is nonzero if the recurrent part has the finer unit. `None` if the node
    /// does not have the tensors.
    #[inline(always)]
    pub fn new(
        node: &Node<'a>,
        tensors: PairTensors,
        first: usize,
        count: usize,
        x: Operand<'x>,
        h: Operand<'x>,
    ) -> Option<Self> {
        Self::of_ready(node, tensors, first, count, &Ready::new(x), &Ready::new(h))
    }

    /// [`new`](Self::new) from operands in the kernel's form.
    #[inline(always)]
    pub fn of_ready(
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
            let (rows, of_state) = rows.split_at_checked(rows.len() / 2)?;
            return Some(Self { fine: input, coarse: recurrent, rows, wide: Some((of_state, rows.len())) });
        }
        let (fine, coarse) = if node.number(first) == 0 { (input, recurrent) } else { (recurrent, input) };
        Some(Self { fine, coarse, rows: node.row_blocks(tensors.rows, count)?, wide: None })
    }

    /// The sums of all blocks, at most `sums.len()`.
    #[inline(always)]
    pub fn all<'s>(&mut self, sums: &'s mut [MaybeUninit<[i32; 4]>]) -> &'s [[i32; 4]] {
        self.write(self.rows, Written::new(sums))
    }

    /// The sums of the next `blocks` blocks, at most `sums.len()`; empty if fewer are left.
    #[inline(always)]
    pub fn next<'s>(&mut self, blocks: usize, sums: &'s mut [MaybeUninit<[i32; 4]>]) -> &'s [[i32; 4]] {
        self.sum(blocks, Written::new(sums))
    }

    /// [`next`](Self::next) into `sums`.
    #[inline(always)]
    pub fn sum<'s>(&mut self, blocks: usize, sums: Written<'s>) -> &'s [[i32; 4]] {
        let Some((now, later)) = self.rows.split_at_checked(blocks) else { return &[] };
        let sums = self.write(now, sums);
        if !later.is_empty() {
            (self.fine, self.coarse) = (self.fine.skip(blocks), self.coarse.skip(blocks));
        }
        self.rows = later;
        sums
    }

    /// Writes the sums of `rows`, which are the next rows.
    #[inline(always)]
    fn write<'s>(&mut self, rows: &[RowBlock], mut sums: Written<'s>) -> &'s [[i32; 4]] {
        match &mut self.wide {
            Some((of_state, plane)) if ANY => {
                K::sum_two(rows, &self.fine.skip(*plane), &self.fine, &mut sums);
                let sums = sums.finish();
                if let Some((now, later)) = of_state.split_at_checked(sums.len()) {
                    add(now, &self.coarse.skip(*plane), &self.coarse, sums);
                    *of_state = later;
                }
                sums
            }
            _ => {
                K::sum_two(rows, &self.fine, &self.coarse, &mut sums);
                sums.finish()
            }
        }
    }
}

/// Adds the sums of rows over two planes to `sums`, a few blocks at a time.
#[inline(never)]
fn add<K: Kernel>(rows: &[RowBlock], fine: &Part<'_, '_, K>, coarse: &Part<'_, '_, K>, sums: &mut [[i32; 4]]) {
    const CHUNK_OF_STATE: usize = 4;
    let mut memory = [const { MaybeUninit::uninit() }; CHUNK_OF_STATE];
    for (at, (rows, sums)) in rows.chunks(CHUNK_OF_STATE).zip(sums.chunks_mut(CHUNK_OF_STATE)).enumerate() {
        let (before, mut others) = (at * CHUNK_OF_STATE, Written::new(&mut memory));
        K::sum_two(rows, &fine.skip(before), &coarse.skip(before), &mut others);
        for (sum, other) in sums.as_flattened_mut().iter_mut().zip(others.finish().as_flattened()) {
            *sum = sum.wrapping_add(*other);
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
    let Some(mut rows) = Single::<K, true>::new(node, basis, basis + 1, rank, (hidden, node.hidden_size)) else {
        return (&[], 0);
    };
    for latent in latent.chunks_mut(4 * CHUNK) {
        for (&sum, to) in rows.next(latent.len().div_ceil(4), &mut sums).as_flattened().iter().zip(latent) {
            *to = saturate(sum);
        }
    }
    (to, rank)
}
