//! Convolutions over images in f32: [of one group](tidegate::internals::cell::conv), with filters across vectors, and
//! [depthwise](tidegate::internals::cell::depthwise_conv), with channels across vectors. Every sum covers the taps in ascending
//! order, and the channels of each tap in ascending order, including the padding.

use tidegate::Numeric;
use tidegate::internals::{activation::Activation, node::Node};

use super::tensor;
use crate::curves::{activate, apply};
use crate::layer::{Io, Layer};
use crate::lines::Lines;
use crate::panels::{Panels, Rows, per_row, per_unit, unit};
use crate::patch::{Path, has_one_group};
use crate::simd::{Simd, Task};
use crate::sums::{Way, many};

/// Positions that are summed together.
const POSITIONS: usize = 12;

/// A packed convolution of one group.
pub struct Conv<S> {
    s: S,
    path: Path,
    hidden: usize,
    weights: Panels,
    bias: Lines<f32>,
    activation: Activation,
}

impl<S: Simd> Conv<S> {
    /// Packs a node; `None` if it has several groups.
    pub fn pack(node: &Node<'_>, numeric: Numeric, s: S) -> Option<Self> {
        let (path, hidden) = (Path::of(node), node.hidden_size);
        if !has_one_group(node) {
            return None;
        }
        let matrix = Rows::of(node, numeric, tensor(node, "weights"), path.patch_len());
        Some(Self {
            s,
            path,
            hidden,
            weights: Panels::in_order(S::LANES, matrix, hidden),
            bias: per_unit(S::LANES, hidden, node.elements(tensor(node, "bias"))),
            activation: node.activation(0),
        })
    }

    /// Elements of the patches of positions that are summed together, rounded up to cache lines.
    fn patches_len(&self) -> usize {
        (POSITIONS.min(self.path.positions()) * self.weights.cols()).next_multiple_of(16)
    }
}

impl<S: Simd> Layer<f32> for Conv<S> {
    fn work_len(&self, _: usize) -> usize {
        self.patches_len() + POSITIONS.min(self.path.positions()) * self.bias.len()
    }

    fn step(&self, Io { x, work, y, odd, .. }: Io<'_, f32>) {
        let Self { s, path, hidden, ref weights, ref bias, activation } = *self;
        let (patches, sums) = work.split_at_mut(self.patches_len());
        let (cols, len) = (weights.cols(), bias.len());
        let rows: [(usize, usize); POSITIONS] = core::array::from_fn(|index| (index * cols, index * len));
        for (block, y) in y.chunks_mut(POSITIONS * hidden).enumerate() {
            let count = y.len() / hidden;
            for (index, patch) in patches.chunks_exact_mut(cols).take(count).enumerate() {
                path.patch(x, block * POSITIONS + index, patch);
            }
            many(s, weights, patches, Some(bias.get()), sums, &rows[..count], Way::of(odd));
            for (y, sums) in y.chunks_mut(hidden).zip(sums.chunks_exact(len)) {
                activate(s, activation, 0.0, sums, y);
            }
        }
    }
}

/// A packed depthwise convolution with one filter per channel.
pub struct Depthwise<S> {
    s: S,
    path: Path,
    /// `[block of channels][tap][lane]`
    weights: Lines<f32>,
    bias: Lines<f32>,
    activation: Activation,
}

impl<S: Simd> Depthwise<S> {
    /// Packs a node; `None` if it has several filters per channel.
    pub fn pack(node: &Node<'_>, numeric: Numeric, s: S) -> Option<Self> {
        let path = Path::of(node);
        if node.hidden_size != path.channels {
            return None;
        }
        let (taps, blocks) = (path.taps(), path.channels.div_ceil(S::LANES));
        let matrix = Rows::of(node, numeric, tensor(node, "weights"), taps);
        Some(Self {
            s,
            path,
            weights: per_row(S::LANES, blocks * taps, &|vector, lane| {
                let channel = unit(S::LANES, vector / taps, lane, path.channels);
                channel.map_or(0.0, |channel| matrix.at(channel, vector % taps))
            }),
            bias: per_unit(S::LANES, path.channels, node.elements(tensor(node, "bias"))),
            activation: node.activation(0),
        })
    }
}

impl<S: Simd> Layer<f32> for Depthwise<S> {
    fn work_len(&self, _: usize) -> usize {
        0
    }

    fn step(&self, Io { x, y, .. }: Io<'_, f32>) {
        self.s.vectorize(Taps { depthwise: self, x, y });
    }
}

/// All positions.
struct Taps<'s, S> {
    depthwise: &'s Depthwise<S>,
    x: &'s [f32],
    y: &'s mut [f32],
}

impl<S: Simd> Task for Taps<'_, S> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { depthwise: &Depthwise { s, path, ref weights, ref bias, activation }, x, y } = self;
        let weights: &[S::Lanes] = bytemuck::cast_slice(weights.get());
        let bias: &[S::Lanes] = bytemuck::cast_slice(bias.get());
        for (position, y) in y.chunks_exact_mut(path.channels).enumerate() {
            let blocks = weights.chunks_exact(path.taps()).zip(bias).zip(y.chunks_mut(S::LANES));
            for (block, ((weights, bias), y)) in blocks.enumerate() {
                let mut sum = s.load(bias);
                for (tap, weights) in weights.iter().enumerate() {
                    // Padding adds products with zero, like every other tap.
                    let pixel = path.pixel(x, position, tap).map_or(&[][..], |pixel| &pixel[block * S::LANES..]);
                    sum = s.fma(s.load(weights), s.load_part(&pixel[..pixel.len().min(S::LANES)]), sum);
                }
                s.store_part(apply(s, activation, 0.0, sum), y);
            }
        }
    }
}
