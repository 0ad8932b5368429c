//! Recurrent weights of low rank, which several cells have as their option `low_rank`: R = U B, where B is the tensor
//! `recurrent_basis` [rank, hidden] and `recurrent_weights` hold U, with `rank` columns. Each step computes B h once.

use super::{Dim, ExtentSpec, Rule};
use crate::kernel::{Weight, accumulate};
use crate::tensor::Matrix;

/// The rank. It is the first extent of every cell that has the option.
pub const RANK: Dim = Dim::Extent(0);

/// Of [`RANK`].
pub const EXTENT: ExtentSpec = ExtentSpec::one("rank");

/// The rank is 1 unless `option` is set.
pub const fn unused_unless(option: u32) -> Rule {
    Rule::EqualUnless(option, RANK, Dim::Const(1))
}

/// B h, in the first elements of `to`. `basis` is `[rank, hidden]`.
pub(super) fn project<'w, W: Weight>(basis: Matrix<'_, W>, hidden: &[f32], to: &'w mut [f32]) -> &'w [f32] {
    for (b, to) in basis.blocks().zip(to.chunks_mut(4)) {
        for (to, sum) in to.iter_mut().zip(accumulate([0.0; 4], b, hidden)) {
            *to = sum;
        }
    }
    to
}
