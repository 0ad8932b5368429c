//! The table of kernels: which nodes have one, for each instruction set. `tidegate` steps the nodes that have none.

use half::f16;
use tidegate::Numeric;
use tidegate::internals::{
    cell::{CellKind, is_wide},
    node::Node,
};

use crate::integer::{self, Integers};
use crate::isa::Isa;
use crate::layer::{Layer, Windowed};
use crate::node::{conv, dense, elman, gru, layer_norm, lstm};
use crate::simd::{Scalar, Simd};
use crate::weight::Weight;

/// Packs a node of a float numeric; `None` if it has no kernel.
pub fn float(node: &Node<'_>, numeric: Numeric, isa: Isa) -> Option<Box<dyn Layer<f32>>> {
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

fn stored<S: Simd>(node: &Node<'_>, numeric: Numeric, s: S) -> Option<Box<dyn Layer<f32>>> {
    match node.kind {
        CellKind::LayerNorm => Some(Box::new(layer_norm::LayerNorm::pack(node, s))),
        CellKind::Conv => Some(Box::new(conv::Conv::pack(node, numeric, s)?)),
        CellKind::DepthwiseConv => Some(Box::new(conv::Depthwise::pack(node, numeric, s)?)),
        _ if numeric == Numeric::F16 => weighted::<S, f16>(node, numeric, s),
        _ => weighted::<S, f32>(node, numeric, s),
    }
}

fn weighted<S: Simd, W: Weight>(node: &Node<'_>, numeric: Numeric, s: S) -> Option<Box<dyn Layer<f32>>> {
    match node.kind {
        CellKind::Lstm => Some(Box::new(lstm::Lstm::<S, W>::pack(node, numeric, s)?)),
        CellKind::Gru => Some(Box::new(gru::Gru::<S, W>::pack(node, numeric, s))),
        CellKind::Elman => Some(Box::new(elman::Elman::<S, W>::pack(node, numeric, s))),
        CellKind::Dense => Some(Box::new(dense::Dense::<S, W>::pack(node, numeric, s)?)),
        _ => None,
    }
}

/// Packs a node of an integer numeric; `None` if it has no kernel, or none with its options.
pub fn integer<'m>(node: &Node<'m>, isa: Isa) -> Option<Box<dyn Layer<i16> + 'm>> {
    match isa {
        Isa::Scalar => integer_for(node, Scalar),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2(simd) => integer_for(node, simd),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512(simd) => integer_for(node, simd),
        #[cfg(target_arch = "aarch64")]
        Isa::Neon(simd) => integer_for(node, simd),
    }
}

fn integer_for<'m, S: Integers>(node: &Node<'m>, simd: S) -> Option<Box<dyn Layer<i16> + 'm>> {
    if is_wide(node.options) {
        return None;
    }
    let in_bytes = node.numeric() == Numeric::I8;
    match node.kind {
        CellKind::Lstm if in_bytes => Some(Box::new(integer::i8::lstm::Lstm::new(node, simd)?)),
        CellKind::Conv if in_bytes => Some(Box::new(integer::conv::Conv::in_bytes(node, simd)?)),
        CellKind::Dense if in_bytes => Some(Box::new(integer::dense::Dense::in_bytes(node, simd)?)),
        _ if in_bytes => None,
        CellKind::Lstm => Some(Box::new(integer::lstm::Lstm::new(node, simd)?)),
        CellKind::Gru => Some(Box::new(integer::gru::Gru::new(node, simd)?)),
        CellKind::Conv => Some(Box::new(integer::conv::Conv::new(node, simd)?)),
        CellKind::Elman => Some(Box::new(integer::elman::Elman::new(node, simd)?)),
        CellKind::Dense => Some(Box::new(integer::dense::Dense::new(node, simd)?)),
        _ => None,
    }
}

/// Packs a node with a window of an integer numeric; `None` if it has no kernel.
pub fn integer_window<'m>(node: &Node<'m>, isa: Isa) -> Option<Box<dyn Windowed<i16> + 'm>> {
    match isa {
        Isa::Scalar => integer_window_for(node, Scalar),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2(simd) => integer_window_for(node, simd),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512(simd) => integer_window_for(node, simd),
        #[cfg(target_arch = "aarch64")]
        Isa::Neon(simd) => integer_window_for(node, simd),
    }
}

fn integer_window_for<'m, S: Integers>(node: &Node<'m>, simd: S) -> Option<Box<dyn Windowed<i16> + 'm>> {
    match node.kind {
        CellKind::WindowDense if node.numeric() == Numeric::I8 => integer::i8::window_dense::pack(node, simd),
        CellKind::WindowDepthwise if node.numeric() == Numeric::I8 => {
            Some(Box::new(integer::i8::window_depthwise::Depthwise::new(node, simd)?))
        }
        _ => None,
    }
}
