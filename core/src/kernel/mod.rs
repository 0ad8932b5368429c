//! Inner products, and the one place that picks them. Scalar Rust is the reference.
//!
//! Kernels know slices only. Matrices lie in blocks of four rows, column by column, so that one walk over the
//! weights serves four accumulators; every row is summed over ascending columns in a single chain, which fixes
//! the result bit for bit. Sums of integers wrap, so that their order means nothing: each layout has its kernel.

mod integer;
mod scalar;

pub use scalar::{accumulate, accumulate_each};

use half::f16;

use crate::cell::{Cell, CellKind};
use crate::image::Layout;

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
    /// Of the four rows of a block with `x`; what fills the block's columns up counts as zero. Sums wrap.
    fn dot(block: &[u8], x: &[i16]) -> [i32; 4];
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
