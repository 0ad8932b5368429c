//! Inner products, and the one place that selects their implementation. Scalar Rust is the reference.
//!
//! Kernels see only slices. Matrices are stored in blocks of four rows, column by column, so that one pass over the
//! weights serves four accumulators. In floats, every row is summed over ascending columns in a single chain, which
//! fixes the result bit for bit. Integer sums wrap, so their order does not matter, and each layout has its own kernel.

pub(crate) mod activations;
mod copy;
mod dsp;
#[cfg(all(target_arch = "arm", target_os = "none", target_abi = "eabihf", feature = "dsp"))]
#[expect(unsafe_code)]
mod fpu;
#[cfg(all(target_arch = "arm", target_os = "none", target_abi = "eabihf", feature = "dsp"))]
#[expect(unsafe_code)]
mod fpu_curves;
#[cfg(any(target_arch = "riscv32", all(target_arch = "arm", any(feature = "thumb2", not(target_has_atomic = "32")))))]
mod frame;
pub(crate) mod gates;
mod i4;
mod integer;
mod mve;
mod scalar;
pub(crate) mod taps;
#[expect(unsafe_code)]
mod written;

// The kernels in assembly, selected by the target of the build. Each implements `Kernel`; on the other targets its layout
// runs in plain Rust, by the defaults of `Kernel`. Armv6-M is the target without 32-bit atomics. `neon`, `simd128` and
// `sse2` have the products of `Portable` only.
#[cfg(all(target_arch = "arm", feature = "dsp"))]
#[expect(unsafe_code)]
mod dsp_asm;
#[cfg(all(target_arch = "arm", feature = "dsp"))]
#[expect(unsafe_code)]
mod dsp_half;
#[cfg(all(target_arch = "arm", feature = "dsp"))]
#[expect(unsafe_code)]
mod dsp_i4;
#[cfg(all(target_arch = "arm", feature = "dsp"))]
#[expect(unsafe_code)]
mod dsp_taps;
#[cfg(all(target_arch = "arm", feature = "mve"))]
#[expect(unsafe_code)]
mod mve_asm;
#[cfg(all(target_arch = "arm", feature = "mve"))]
#[expect(unsafe_code)]
mod mve_gates;
#[cfg(target_arch = "aarch64")]
#[expect(unsafe_code)]
mod neon;
#[cfg(target_arch = "riscv32")]
#[expect(unsafe_code)]
mod rv32;
#[cfg(target_arch = "riscv32")]
#[expect(unsafe_code)]
mod rv32_gates;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
#[expect(unsafe_code)]
mod simd128;
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code)]
mod sse2;
#[cfg(all(target_arch = "arm", not(target_has_atomic = "32")))]
#[expect(unsafe_code)]
mod thumb1;
#[cfg(all(target_arch = "arm", not(target_has_atomic = "32")))]
#[expect(unsafe_code)]
mod thumb1_gates;
#[cfg(all(target_arch = "arm", not(target_has_atomic = "32")))]
#[expect(unsafe_code)]
mod thumb1_i4;
#[cfg(all(target_arch = "arm", feature = "thumb2"))]
#[expect(unsafe_code)]
mod thumb2;
#[cfg(all(target_arch = "arm", feature = "thumb2", not(feature = "mve")))]
#[expect(unsafe_code)]
mod thumb2_gates;
#[cfg(all(target_arch = "arm", feature = "thumb2"))]
#[expect(unsafe_code)]
mod thumb2_i4;

#[cfg(all(target_arch = "arm", feature = "dsp"))]
pub(crate) use dsp_half::of_halves;

#[cfg(not(any(target_arch = "riscv32", all(target_arch = "arm", feature = "thumb2"))))]
impl Kernel for Portable {}
#[cfg(not(all(target_arch = "arm", any(feature = "thumb2", not(target_has_atomic = "32")))))]
impl Kernel for PortableI4 {}
#[cfg(not(all(target_arch = "arm", not(target_has_atomic = "32"))))]
impl Kernel for CortexM0 {}
#[cfg(not(all(target_arch = "arm", feature = "dsp")))]
impl Kernel for CortexM4 {}
#[cfg(not(all(target_arch = "arm", feature = "dsp")))]
impl Kernel for CortexM4I4 {}
#[cfg(not(all(target_arch = "arm", feature = "mve")))]
impl Kernel for CortexM55 {}

pub(crate) use copy::copy;
pub use scalar::accumulate_each;
pub(crate) use written::Written;

use half::f16;

use crate::quant::{RowBlock, scaled, shifted, start};

/// A matrix element as stored in flash.
pub trait Weight: bytemuck::Pod {
    /// The exact value as `f32`.
    fn widen(self) -> f32;

    /// [`accumulate`]
    #[inline(always)]
    fn accumulate(acc: [f32; 4], block: &[[Self; 4]], x: &[f32]) -> [f32; 4] {
        scalar::accumulate(acc, block, x)
    }

    /// Computes the sums over two parts, each a matrix and its operand, starting from the bias: one block of four rows
    /// for each of `sums`.
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

    #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
    fn accumulate(acc: [f32; 4], block: &[[Self; 4]], x: &[f32]) -> [f32; 4] {
        simd128::accumulate(acc, block, x)
    }

    #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
    fn sum_two(
        bias: &[[f32; 4]],
        input: (&[[f32; 4]], &[f32]),
        recurrent: (&[[f32; 4]], &[f32]),
        sums: &mut [[f32; 4]],
    ) {
        simd128::sum_two(bias, input, recurrent, sums);
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

/// Blocks of four rows of two matrices, and the biases of their sums. The slices may extend beyond the last block.
pub struct Rows<'a, W> {
    pub bias: &'a [[f32; 4]],
    pub input: &'a [[W; 4]],
    pub recurrent: &'a [[W; 4]],
}

impl<W: Weight> Rows<'_, W> {
    /// W x + R h + b of the next `blocks` blocks, at most `sums.len()`. Never inlined, because of its code size.
    #[inline(never)]
    pub fn next<'s>(&mut self, x: &[f32], h: &[f32], blocks: usize, sums: &'s mut [[f32; 4]]) -> &'s mut [[f32; 4]] {
        let Some(sums) = sums.get_mut(..blocks) else { return &mut [] };
        W::sum_two(self.bias, (self.input, x), (self.recurrent, h), sums);
        self.bias = self.bias.get(blocks..).unwrap_or_default();
        self.input = self.input.get(blocks * x.len()..).unwrap_or_default();
        self.recurrent = self.recurrent.get(blocks * h.len()..).unwrap_or_default();
        sums
    }

    /// W x + R h + b of as many rows as `sums` has elements.
    #[inline(always)]
    pub fn all(mut self, x: &[f32], h: &[f32], sums: &mut [f32]) {
        let (blocks, rest) = sums.as_chunks_mut();
        self.next(x, h, blocks.len(), blocks);
        if !rest.is_empty() {
            let mut last = [[0.0; 4]];
            copy(rest, self.next(x, h, 1, &mut last).as_flattened());
        }
    }
}

/// The weights of one numeric in one layout, and their inner product with i16 operands in plain Rust.
pub(crate) trait Blocked {
    /// The element type of a block.
    type Unit: bytemuck::Pod;
    /// An operand in the form that the kernel reads.
    type Operand<'x>: Copy;

    /// Units of a block of `cols` columns.
    fn block_len(cols: usize) -> usize;

    /// The operand for the `len` elements of `x`, which are padded to whole units. The padding is multiplied by zeros.
    /// `x` is aligned as a slot or a state.
    fn operand(x: &[i16], len: usize) -> Self::Operand<'_>;

    /// Adds the sums over the columns of a block to `start`, one per row. They wrap.
    fn dot(start: [i32; 4], block: &[Self::Unit], x: Self::Operand<'_>) -> [i32; 4];
}

/// The sums over the blocks of a matrix.
pub(crate) trait Kernel: Blocked {
    /// Whether sums are so fast that more code is worthwhile to save overhead between them.
    const FAST: bool = false;

    /// [Requantized](crate::quant) sums of two parts, the finer first, with one block of each part for each of `rows`.
    /// Stops at the end of the shortest of rows, parts and `sums`.
    #[inline(never)]
    fn sum_two(rows: &[RowBlock], fine: &Part<'_, '_, Self>, coarse: &Part<'_, '_, Self>, sums: &mut Written<'_>) {
        for ((rows, w), r) in rows.iter().zip(fine.blocks).zip(coarse.blocks) {
            let finer = Self::dot(start(rows), w, fine.operand);
            sums.push(scaled(rows, Self::dot(shifted(rows, finer), r, coarse.operand)));
        }
    }

    /// Adds to `sums` the products of four filters along time, in the numeric `i8`: tap k of filter j times byte j of row k.
    /// `channels` begins with the first of these bytes, and its rows are `row_len` bytes apart. A byte holds the low eight bits
    /// of a [value](taps::value) from `first`, which is -255 to 0, up to 255 more.
    #[inline(never)]
    fn taps(sums: [i32; 4], taps: &[[u8; 4]], channels: &[u8], row_len: usize, first: i32) -> [i32; 4] {
        taps::along(sums, taps, channels, row_len, first)
    }

    /// [Requantized](crate::quant) sums of one part.
    #[inline(never)]
    fn sum_one(rows: &[RowBlock], part: &Part<'_, '_, Self>, sums: &mut Written<'_>) {
        for (rows, w) in rows.iter().zip(part.blocks) {
            sums.push(scaled(rows, Self::dot(start(rows), w, part.operand)));
        }
    }
}

/// The blocks of a matrix and their operand.
pub(crate) struct Part<'a, 'x, K: Kernel + ?Sized> {
    pub blocks: Blocks<'a, K::Unit>,
    pub operand: K::Operand<'x>,
}

impl<K: Kernel + ?Sized> Part<'_, '_, K> {
    /// This part without its first `blocks` blocks.
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

/// Consecutive blocks of four rows.
#[derive(Debug)]
pub(crate) struct Blocks<'a, U> {
    /// From the first block on; the slice may extend beyond the last.
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
    /// These blocks without the first `blocks`.
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

/// [`Layout::Portable`](crate::image::Layout::Portable)
pub(crate) struct Portable;
/// [`Layout::CortexM0`](crate::image::Layout::CortexM0)
pub(crate) struct CortexM0;
/// [`Layout::CortexM4`](crate::image::Layout::CortexM4)
pub(crate) struct CortexM4;
/// [`Layout::CortexM55`](crate::image::Layout::CortexM55)
pub(crate) struct CortexM55;

/// [`Layout::Portable`](crate::image::Layout::Portable) of [`Numeric::I4x16`](crate::image::Numeric::I4x16)
pub(crate) struct PortableI4;
/// [`Layout::CortexM4`](crate::image::Layout::CortexM4) of [`Numeric::I4x16`](crate::image::Numeric::I4x16)
pub(crate) struct CortexM4I4;
