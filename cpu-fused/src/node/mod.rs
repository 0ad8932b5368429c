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

use tidegate::Numeric;
use tidegate::cell::CellKind;
use tidegate::node::Node;

use crate::isa::Isa;
use crate::simd::{Scalar, Simd};
pub use conv::{Path, has_one_group};
pub use span::{Line, Span, apart};

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
        Isa::Scalar => packed(node, numeric, Scalar),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2(simd) => packed(node, numeric, simd),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512(simd) => packed(node, numeric, simd),
        #[cfg(target_arch = "aarch64")]
        Isa::Neon(simd) => packed(node, numeric, simd),
    }
}

fn packed<S: Simd>(node: &Node<'_>, numeric: Numeric, s: S) -> Option<Box<dyn Kernel<f32>>> {
    match node.kind {
        CellKind::Lstm => Some(boxed(lstm::Lstm::pack(node, numeric, s))),
        CellKind::Gru => Some(boxed(gru::Gru::pack(node, numeric, s))),
        CellKind::Elman => Some(boxed(elman::Elman::pack(node, numeric, s))),
        CellKind::LayerNorm => Some(boxed(layer_norm::LayerNorm::pack(node, s))),
        CellKind::Dense => dense::Dense::pack(node, numeric, s).map(boxed),
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
