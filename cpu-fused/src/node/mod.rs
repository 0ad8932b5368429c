//! Float kernels, one file per cell. `tidegate` steps the nodes that have no kernel.

mod blocks;
pub mod conv;
pub mod dense;
pub mod elman;
pub mod gru;
pub mod layer_norm;
mod low_rank;
pub mod lstm;
mod norm;

use tidegate::internals::node::Node;

use crate::simd::Simd;

/// Bytes of the first-level cache.
const CACHE: usize = 32 << 10;
/// Up to this many lanes, steps are limited by the latency of their chains of multiply-adds. With more, they are limited
/// by the loads of weights.
const LATENCY_BOUND_LANES: usize = 8;

/// Index of a tensor in the node's spec; `usize::MAX` if there is none of this name.
fn tensor(node: &Node<'_>, name: &str) -> usize {
    node.spec().tensors.iter().position(|tensor| tensor.name == name).unwrap_or(usize::MAX)
}

/// The units of a block.
#[inline(always)]
fn block<S: Simd>(_: S, at: usize, units: usize) -> core::ops::Range<usize> {
    at * S::LANES..units.min((at + 1) * S::LANES)
}

/// Copies whole vectors, which is faster than a call for short slices. Iterators over chunks are not always inlined.
#[inline(always)]
fn copy<S: Simd>(s: S, from: &[f32], to: &mut [f32]) {
    let mut at = 0;
    while at < to.len() {
        let end = to.len().min(at + S::LANES);
        s.store_part(s.load_part(&from[at..end]), &mut to[at..end]);
        at = end;
    }
}
