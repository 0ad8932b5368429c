//! The sums of a cell over its weights in floats, block by block: four rows in each.

use crate::kernel::{Weight, accumulate, copy};
use crate::node::Node;

/// b + W x. The tensors are W and b.
#[inline(always)]
pub(super) fn sums<'a, 'x, W: Weight>(
    node: &Node<'a>,
    [weights, bias]: [usize; 2],
    x: &'x [f32],
) -> impl Iterator<Item = [f32; 4]> + use<'a, 'x, W> {
    node.matrix::<W>(weights).blocks().zip(node.vector(bias)).map(move |(w, &b)| accumulate(b, w, x))
}

/// b + W x + R h. The tensors are W, R and b.
#[inline(always)]
pub(super) fn sums_of_two<'a, 'x, W: Weight>(
    node: &Node<'a>,
    [input, recurrent, bias]: [usize; 3],
    x: &'x [f32],
    h: &'x [f32],
) -> impl Iterator<Item = [f32; 4]> + use<'a, 'x, W> {
    let blocks = node.matrix::<W>(input).blocks().zip(node.matrix::<W>(recurrent).blocks());
    blocks.zip(node.vector(bias)).map(move |((w, r), &b)| accumulate(accumulate(b, w, x), r, h))
}

/// W x, written to `to`. Never inlined, so that a step that does not call it need not save the registers that it uses.
#[inline(never)]
pub(super) fn product<W: Weight>(node: &Node<'_>, weights: usize, x: &[f32], to: &mut [f32]) {
    for (w, to) in node.matrix::<W>(weights).blocks().zip(to.chunks_mut(4)) {
        copy(to, &accumulate([0.0; 4], w, x));
    }
}
