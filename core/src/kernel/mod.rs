//! Inner products, and the one place that picks them. Scalar Rust is the reference.
//!
//! Kernels know slices only. Matrices lie in blocks of four rows, column by column, so that one walk over the
//! weights serves four accumulators; every row is summed over ascending columns in a single chain, which fixes
//! the result bit for bit. Sums of integers wrap, so that their order means nothing: each layout has its kernel.

mod dsp;
#[cfg(all(target_arch = "arm", feature = "dsp"))]
#[expect(unsafe_code)]
mod dsp_nibbles;
#[cfg(all(target_arch = "arm", target_os = "none", target_abi = "eabihf", feature = "dsp"))]
#[expect(unsafe_code)]
mod fpu;
#[cfg(all(target_arch = "arm", any(feature = "thumb2", not(target_has_atomic = "32"))))]
mod frame;
pub(crate) mod gates;
mod integer;
mod mve;
#[cfg(all(target_arch = "arm", feature = "mve"))]
#[expect(unsafe_code)]
mod mve_gates;
mod nibbles;
mod scalar;
/// Armv6-M: that it has no atomics is how it differs from Armv7-M.
#[cfg(all(target_arch = "arm", not(target_has_atomic = "32")))]
#[expect(unsafe_code)]
mod thumb1;
#[cfg(all(target_arch = "arm", not(target_has_atomic = "32")))]
#[expect(unsafe_code)]
mod thumb1_gates;
#[cfg(all(target_arch = "arm", not(target_has_atomic = "32")))]
#[expect(unsafe_code)]
mod thumb1_nibbles;
#[cfg(all(target_arch = "arm", feature = "thumb2"))]
#[expect(unsafe_code)]
mod thumb2;
#[cfg(all(target_arch = "arm", feature = "thumb2", not(feature = "mve")))]
#[expect(unsafe_code)]
mod thumb2_gates;
#[cfg(all(target_arch = "arm", feature = "thumb2"))]
#[expect(unsafe_code)]
mod thumb2_nibbles;
#[expect(unsafe_code)]
mod written;

#[cfg(all(target_arch = "arm", feature = "mve"))]
pub(crate) use mve_gates::copy;
pub use scalar::accumulate_each;
pub(crate) use written::Written;

use half::f16;

use crate::cell::{Cell, CellKind, Need};
use crate::image::{Layout, Numeric};
use crate::quant::{RowBlock, scaled, shifted, start};

/// A matrix element as it lies in flash.
pub trait Weight: bytemuck::Pod {
    /// Its value, exactly.
    fn widen(self) -> f32;

    /// [`accumulate`]
    #[inline(always)]
    fn accumulate(acc: [f32; 4], block: &[[Self; 4]], x: &[f32]) -> [f32; 4] {
        scalar::accumulate(acc, block, x)
    }

    /// Sums over two parts, a matrix and what it is multiplied with each, of a block of four rows for each of `sums`:
    /// from its bias on.
    #[inline(always)]
    fn sum_two(
        bias: &[[f32; 4]],
        (input, x): (&[[Self; 4]], &[f32]),
        (recurrent, h): (&[[Self; 4]], &[f32]),
        sums: &mut [[f32; 4]],
    ) {
        let (mut input, mut recurrent) = (input, recurrent);
        for (sum, &bias) in sums.iter_mut().zip(bias) {
            let Some((w, rest)) = input.split_at_checked(x.len()) else { return };
            let Some((r, others)) = recurrent.split_at_checked(h.len()) else { return };
            *sum = Self::accumulate(Self::accumulate(bias, w, x), r, h);
            (input, recurrent) = (rest, others);
        }
    }
}

impl Weight for f32 {
    fn widen(self) -> f32 {
        self
    }

    #[cfg(all(target_arch = "arm", target_os = "none", target_abi = "eabihf", feature = "dsp"))]
    #[inline(always)]
    fn accumulate(acc: [f32; 4], block: &[[Self; 4]], x: &[f32]) -> [f32; 4] {
        fpu::accumulate(acc, block, x)
    }

    #[cfg(all(target_arch = "arm", target_os = "none", target_abi = "eabihf", feature = "dsp"))]
    #[inline(always)]
    fn sum_two(
        bias: &[[f32; 4]],
        input: (&[[f32; 4]], &[f32]),
        recurrent: (&[[f32; 4]], &[f32]),
        sums: &mut [[f32; 4]],
    ) {
        fpu::sum_two(bias, input, recurrent, sums);
    }
}

impl Weight for f16 {
    fn widen(self) -> f32 {
        self.to_f32()
    }

    #[cfg(all(target_arch = "arm", target_os = "none", target_abi = "eabihf", feature = "dsp"))]
    #[inline(always)]
    fn accumulate(acc: [f32; 4], block: &[[Self; 4]], x: &[f32]) -> [f32; 4] {
        fpu::accumulate_half(acc, block, x)
    }
}

/// `acc[row] += Σ_k block[k][row] · x[k]`, k ascending, each product rounded before it is added.
pub fn accumulate<W: Weight>(acc: [f32; 4], block: &[[W; 4]], x: &[f32]) -> [f32; 4] {
    W::accumulate(acc, block, x)
}

/// Blocks of four rows of two matrices, and the biases of their sums; what lies behind them may follow.
pub struct Rows<'a, W> {
    pub bias: &'a [[f32; 4]],
    pub input: &'a [[W; 4]],
    pub recurrent: &'a [[W; 4]],
}

impl<W: Weight> Rows<'_, W> {
    /// W x + R h + b of the next blocks: so many, and at most as many as go into `sums`. By itself: there is much code in it.
    #[inline(never)]
    pub fn next<'s>(&mut self, x: &[f32], h: &[f32], blocks: usize, sums: &'s mut [[f32; 4]]) -> &'s [[f32; 4]] {
        let Some(sums) = sums.get_mut(..blocks) else { return &[] };
        W::sum_two(self.bias, (self.input, x), (self.recurrent, h), sums);
        self.bias = self.bias.get(blocks..).unwrap_or_default();
        self.input = self.input.get(blocks * x.len()..).unwrap_or_default();
        self.recurrent = self.recurrent.get(blocks * h.len()..).unwrap_or_default();
        sums
    }

    /// The same of as many rows as `sums` has.
    #[inline(always)]
    pub fn all(mut self, x: &[f32], h: &[f32], sums: &mut [f32]) {
        let (blocks, rest) = sums.as_chunks_mut();
        self.next(x, h, blocks.len(), blocks);
        if !rest.is_empty() {
            let mut last = [[0.0; 4]];
            crate::cell::copy(rest, self.next(x, h, 1, &mut last).as_flattened());
        }
    }
}

/// Inner products of the weights of a numeric with i16 in one layout.
pub(crate) trait Kernel {
    /// A piece of a block.
    type Unit: bytemuck::Pod;
    /// What blocks are multiplied with, in the form that the kernel reads.
    type Operand<'x>: Copy;

    /// Whether sums are so fast that what lies between them is to be saved even for more code.
    const FAST: bool = false;

    /// Units of a block of so many columns.
    fn block_len(cols: usize) -> usize;

    /// Of `x`, `len` elements filled up to whole units: what fills them up is multiplied with zeros. It begins where a
    /// slot or a state may begin.
    fn operand(x: &[i16], len: usize) -> Self::Operand<'_>;

    /// The sums over the columns of a block, of each of its four rows, from `start` on. They wrap.
    fn dot(start: [i32; 4], block: &[Self::Unit], x: Self::Operand<'_>) -> [i32; 4];

    /// [Requantized](crate::quant) sums of two parts, the finer first: a block of each for each of `rows`. Those that there is
    /// something to make of are written.
    #[inline(never)]
    fn sum_two(rows: &[RowBlock], fine: &Part<'_, '_, Self>, coarse: &Part<'_, '_, Self>, sums: &mut Written<'_>) {
        for ((rows, w), r) in rows.iter().zip(fine.blocks).zip(coarse.blocks) {
            let finer = Self::dot(start(rows), w, fine.operand);
            sums.push(scaled(rows, Self::dot(shifted(rows, finer), r, coarse.operand)));
        }
    }

    /// [Requantized](crate::quant) sums of one part.
    #[inline(never)]
    fn sum_one(rows: &[RowBlock], part: &Part<'_, '_, Self>, sums: &mut Written<'_>) {
        for (rows, w) in rows.iter().zip(part.blocks) {
            sums.push(scaled(rows, Self::dot(start(rows), w, part.operand)));
        }
    }
}

/// Blocks of a matrix and what they are multiplied with.
pub(crate) struct Part<'a, 'x, K: Kernel + ?Sized> {
    pub blocks: Blocks<'a, K::Unit>,
    pub operand: K::Operand<'x>,
}

impl<K: Kernel + ?Sized> Part<'_, '_, K> {
    /// The same without the first blocks.
    pub fn skip(self, blocks: usize) -> Self {
        Self { blocks: self.blocks.skip(blocks), ..self }
    }
}

impl<K: Kernel + ?Sized> Clone for Part<'_, '_, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: Kernel + ?Sized> Copy for Part<'_, '_, K> {}

/// Blocks of four rows, one behind the other.
#[derive(Debug)]
pub(crate) struct Blocks<'a, U> {
    /// From the first block on; there may be more behind the last.
    pub units: &'a [U],
    /// Units of a block.
    pub block_len: usize,
}

impl<U> Clone for Blocks<'_, U> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<U> Copy for Blocks<'_, U> {}

impl<U> Blocks<'_, U> {
    /// The same without the first blocks.
    pub fn skip(self, blocks: usize) -> Self {
        Self { units: self.units.get(blocks * self.block_len..).unwrap_or_default(), ..self }
    }
}

impl<'a, U> Iterator for Blocks<'a, U> {
    type Item = &'a [U];

    fn next(&mut self) -> Option<&'a [U]> {
        let (block, rest) = self.units.split_at_checked(self.block_len)?;
        self.units = rest;
        Some(block)
    }
}

/// [`Layout::Portable`]
pub(crate) struct Portable;
/// [`Layout::CortexM0`]
pub(crate) struct CortexM0;
/// [`Layout::CortexM4`]
pub(crate) struct CortexM4;
/// [`Layout::CortexM55`]
pub(crate) struct CortexM55;

/// [`Layout::Portable`] of [`Numeric::I4x16`]
pub(crate) struct PortableNibbles;
/// [`Layout::CortexM4`] of [`Numeric::I4x16`]
pub(crate) struct CortexM4Nibbles;

/// What a kind does in an integer numeric with weights in this layout; none if it has no integer form.
pub(crate) const fn integer_cell(
    kind: CellKind,
    need: Need,
    numeric: Numeric,
    layout: Layout,
) -> Option<&'static Cell> {
    let (nibbles, bytes) = (matches!(numeric, Numeric::I4x16), matches!(numeric, Numeric::I8));
    match layout {
        Layout::Portable if nibbles => kind.integer_cell::<PortableNibbles>(need),
        Layout::Portable if bytes => kind.byte_cell::<Portable>(),
        Layout::Portable => kind.integer_cell::<Portable>(need),
        _ if !layout.is_read() || !layout.is_of(numeric) => None,
        Layout::CortexM0 if bytes => kind.byte_cell::<CortexM0>(),
        Layout::CortexM0 => kind.integer_cell::<CortexM0>(need),
        Layout::CortexM4 if nibbles => kind.integer_cell::<CortexM4Nibbles>(need),
        Layout::CortexM4 if bytes => kind.byte_cell::<CortexM4>(),
        Layout::CortexM4 => kind.integer_cell::<CortexM4>(need),
        Layout::CortexM55 if bytes => kind.byte_cell::<CortexM55>(),
        Layout::CortexM55 => kind.integer_cell::<CortexM55>(need),
    }
}
