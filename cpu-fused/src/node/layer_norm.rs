//! Layer normalization ([`tidegate::internals::cell::layer_norm`]) in f32, over all features or over groups.

use tidegate::internals::{cell::layer_norm::RMS, node::Node};

use super::norm::{Affine, Rows};
use super::tensor;
use crate::layer::{Io, Layer};
use crate::simd::{Simd, Task};

/// A packed layer normalization.
pub struct LayerNorm<S> {
    s: S,
    size: usize,
    rows: Rows,
    is_rms: bool,
    /// One for each group.
    affines: Vec<Affine>,
}

impl<S: Simd> LayerNorm<S> {
    /// Packs a node.
    pub fn pack(node: &Node<'_>, s: S) -> Self {
        let groups = node.extent(0);
        let size = node.input_size / groups;
        let [gain, bias] = ["gain", "bias"].map(|name| node.elements(tensor(node, name)));
        let of = |elements: &[f32], group: usize| {
            elements.get(group * size..(group + 1) * size).unwrap_or_default().to_vec()
        };
        Self {
            s,
            size,
            rows: Rows::new(size, node.param(0)),
            is_rms: node.has(RMS),
            affines: (0..groups).map(|group| Affine::new(S::LANES, size, &of(gain, group), &of(bias, group))).collect(),
        }
    }
}

impl<S: Simd> Layer<f32> for LayerNorm<S> {
    fn work_len(&self, _: usize) -> usize {
        0
    }

    fn step(&self, Io { x, y, .. }: Io<'_, f32>) {
        self.s.vectorize(Step(self, x, y));
    }
}

struct Step<'k, 's, S>(&'k LayerNorm<S>, &'s [f32], &'s mut [f32]);

impl<S: Simd> Task for Step<'_, '_, S> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self(LayerNorm { s, size, rows, is_rms, affines }, x, y) = self;
        for (affine, (x, y)) in affines.iter().zip(x.chunks(*size).zip(y.chunks_mut(*size))) {
            let moments = if *is_rms { rows.root_mean_square(*s, x) } else { rows.of(*s, x) };
            for (block, (x, y)) in x.chunks(S::LANES).zip(y.chunks_mut(S::LANES)).enumerate() {
                let normalized = moments.apply(*s, s.load_part(x));
                s.store_part(affine.apply(*s, block, normalized), y);
            }
        }
    }
}
