//! Nodes that have a kernel of their own, one file a cell. What has none here runs by `tidegate`'s step.

mod conv;
mod dense;
mod elman;
mod gru;
mod layer_norm;
mod low_rank;
mod lstm;
mod norm;
mod span;

use half::f16;
use tidegate::Numeric;
use tidegate::cell::CellKind;
use tidegate::node::Node;

use crate::isa::Isa;
use crate::simd::{Scalar, Simd};
use crate::weight::Weight;
pub use conv::{Path, has_one_group};
pub use span::{Line, Span, apart};

/// Bytes of the first cache.
const CACHE: usize = 32 << 10;

/// A node, packed for an instruction set.
///
/// A kernel gives the same bits whichever of the two runs it.
pub trait Kernel<E: Copy + Default>: Send + Sync {
    /// Elements of scratch for so many steps at once.
    fn work_len(&self, steps: usize) -> usize;

    /// One step: `x` is `[input]`, `state` as `tidegate` has it, `y` `[output]`; `turn` counts steps.
    fn step(&self, io: Io<'_, E>);

    /// Steps of several sequences.
    fn run(&self, span: &mut Span<'_, E>) {
        for sequence in 0..span.lens.len() {
            for time in 0..span.len(sequence) {
                span.step(sequence, time, |io| self.step(io));
            }
        }
    }
}

/// The slices of one step.
pub struct Io<'s, E> {
    /// What comes in.
    pub x: &'s [E],
    /// What is carried from step to step.
    pub state: &'s mut [E],
    /// Scratch of [`Kernel::work_len`].
    pub work: &'s mut [E],
    /// What goes out.
    pub y: &'s mut [E],
    /// Whether the step before went through the weights the other way.
    pub odd: bool,
}

/// The kernel of a node in a float numeric; none if it has none.
pub fn float(node: &Node<'_>, numeric: Numeric, isa: Isa) -> Option<Box<dyn Kernel<f32>>> {
    match isa {
        Isa::Scalar => stored(node, numeric, Scalar),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2(simd) => stored(node, numeric, simd),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512(simd) => stored(node, numeric, simd),
        #[cfg(target_arch = "aarch64")]
        Isa::Neon(simd) => stored(node, numeric, simd),
    }
}

fn stored<S: Simd>(node: &Node<'_>, numeric: Numeric, s: S) -> Option<Box<dyn Kernel<f32>>> {
    if numeric == Numeric::F16 { packed::<S, f16>(node, numeric, s) } else { packed::<S, f32>(node, numeric, s) }
}

fn packed<S: Simd, W: Weight>(node: &Node<'_>, numeric: Numeric, s: S) -> Option<Box<dyn Kernel<f32>>> {
    match node.kind {
        CellKind::Lstm => Some(boxed(lstm::Lstm::<S, W>::pack(node, numeric, s))),
        CellKind::Gru => Some(boxed(gru::Gru::<S, W>::pack(node, numeric, s))),
        CellKind::Elman => Some(boxed(elman::Elman::<S, W>::pack(node, numeric, s))),
        CellKind::LayerNorm => Some(boxed(layer_norm::LayerNorm::pack(node, s))),
        CellKind::Dense => dense::Dense::<S, W>::pack(node, numeric, s).map(boxed),
        CellKind::Conv => conv::Conv::pack(node, numeric, s).map(boxed),
        CellKind::DepthwiseConv => conv::Depthwise::pack(node, numeric, s).map(boxed),
        _ => None,
    }
}

fn boxed<K: Kernel<f32> + 'static>(kernel: K) -> Box<dyn Kernel<f32>> {
    Box::new(kernel)
}

/// The index of a tensor of the node's spec; none has `usize::MAX`.
fn tensor(node: &Node<'_>, name: &str) -> usize {
    node.spec().tensors.iter().position(|tensor| tensor.name == name).unwrap_or(usize::MAX)
}

/// Whether a step does not count: the last feature says so. State and output stay.
#[inline(always)]
fn is_masked(masked: bool, x: &[f32]) -> bool {
    masked && x.last() == Some(&0.0)
}

/// The units of a block, of so many.
#[inline(always)]
fn block<S: Simd>(_: S, at: usize, units: usize) -> core::ops::Range<usize> {
    at * S::LANES..units.min((at + 1) * S::LANES)
}

/// By whole vectors: quicker than a call where there are few.
#[inline(always)]
fn copy<S: Simd>(s: S, from: &[f32], to: &mut [f32]) {
    for (from, to) in from.chunks(S::LANES).zip(to.chunks_mut(S::LANES)) {
        s.store_part(s.load_part(from), to);
    }
}
