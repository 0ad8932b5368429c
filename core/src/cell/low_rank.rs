//! Low-rank recurrent weights, the option `low_rank` of several cells: R = U B, where B is the tensor `recurrent_basis`
//! [rank, hidden] and `recurrent_weights` hold U, with `rank` columns. Each step computes B h once.

use super::prelude::*;

/// The rank. It is the first extent of every cell that has the option.
pub const RANK: Dim = Dim::Extent(0);

/// The extent of [`RANK`].
pub const EXTENT: ExtentSpec = ExtentSpec::one("rank");

/// The rank is 1 unless `option` is set.
pub const fn unused_unless(option: u32) -> Rule {
    Rule::EqualUnless(option, RANK, Dim::Const(1))
}

/// The operand of the recurrent weights: h, or if `option` is set B h, which is written to `to`. `basis` is the index
/// of B, `[rank, hidden]`.
#[inline(always)]
pub(super) fn operand<'w, W: Weight>(
    node: &Node<'_>,
    option: u32,
    basis: usize,
    hidden: &'w [f32],
    to: &'w mut [f32],
) -> &'w [f32] {
    if !node.has(option) {
        return hidden;
    }
    product::<W>(node, basis, hidden, to);
    to
}
