//! Inner products, and the one place that picks them. Scalar Rust is the reference.
//!
//! Kernels know slices only. Matrices lie in blocks of four rows, column by column, so that one walk over the
//! weights serves four accumulators; every row is summed over ascending columns in a single chain, which fixes
//! the result bit for bit. Sums of integers wrap, so that their order means nothing: each layout has its kernel.

mod dsp;
mod integer;
mod scalar;

pub use scalar::{accumulate, accumulate_each};

use half::f16;

use crate::cell::{Cell, CellKind};
use crate::image::Layout;
use crate::quant::{RowBlock, requantize, requantize_one};

/// A matrix element as it lies in flash.
pub trait Weight: bytemuck::Pod {
    /// Its value, exactly.
    fn widen(self) -> f32;
}

impl Weight for f32 {
    fn widen(self) -> f32 {
        self
    }
}

impl Weight for f16 {
    fn widen(self) -> f32 {
        self.to_f32()
    }
}

/// Inner products of i8 with i16 in one layout.
pub(crate) trait Kernel {
    /// Columns of a unit.
    const COLUMNS: usize;
    /// A piece of a block: some columns of its four rows.
    type Unit: bytemuck::Pod;
    /// What blocks are multiplied with, in the form that the kernel reads.
    type Operand<'x>: Copy;

    /// Of `x`, `len` elements filled up to whole units: what fills them up is multiplied with zeros. It begins where a
    /// slot or a state may begin.
    fn operand(x: &[i16], len: usize) -> Self::Operand<'_>;

    /// The sums over the columns of a block, of each of its four rows. They wrap.
    fn dot(block: &[Self::Unit], x: Self::Operand<'_>) -> [i32; 4];

    /// [`requantize`] of the sums of two parts, the finer first.
    #[inline(always)]
    fn sum_two(
        rows: &RowBlock,
        (fine, p): (&[Self::Unit], Self::Operand<'_>),
        (coarse, q): (&[Self::Unit], Self::Operand<'_>),
    ) -> [i32; 4] {
        requantize(rows, Self::dot(fine, p), Self::dot(coarse, q))
    }

    /// [`requantize_one`] of the sums.
    #[inline(always)]
    fn sum_one(rows: &RowBlock, block: &[Self::Unit], x: Self::Operand<'_>) -> [i32; 4] {
        requantize_one(rows, Self::dot(block, x))
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

/// What a kind does in the numeric `i8x16` with weights in this layout; none if it has no integer form.
pub(crate) const fn integer_cell(kind: CellKind, rare: bool, layout: Layout) -> Option<&'static Cell> {
    match layout {
        Layout::Portable => kind.integer_cell::<Portable>(rare),
        Layout::CortexM0 => kind.integer_cell::<CortexM0>(rare),
        Layout::CortexM4 => kind.integer_cell::<CortexM4>(rare),
        Layout::CortexM55 => kind.integer_cell::<CortexM55>(rare),
    }
}
