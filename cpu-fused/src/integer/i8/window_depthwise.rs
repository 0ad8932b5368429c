//! Filters along time over a window of bytes.

use tidegate::internals::node::Node;

use super::super::finish::Finish;
use super::super::panels::{NUMBERS, units};
use super::super::{Integers, Names};
use super::{Rounded, take_row};
use crate::layer::{Io, Windowed};
use crate::lines::Lines;
use crate::simd::Task;

/// Packed filters, one for each channel.
pub struct Depthwise<'m, S> {
    simd: S,
    node: Node<'m>,
    /// The least value of the input.
    first: i32,
    /// Steps of a window.
    length: usize,
    /// `[block][tap][lane]`
    weights: Lines<i32>,
    /// `[block][number][lane]`
    numbers: Lines<i32>,
    finish: Rounded<false>,
}

impl<'m, S: Integers> Depthwise<'m, S> {
    /// Packs a node; `None` if a channel has several filters.
    pub fn new(node: &Node<'m>, simd: S) -> Option<Self> {
        let (channels, length) = (node.input_size, node.extent(0));
        if node.output_size != channels {
            return None;
        }
        let names = Names::of(node)?;
        // `[block of four filters][tap][filter]`
        let taps = node.tensor_bytes_at(names.tensor("weights")?);
        let blocks = channels.div_ceil(S::LANES);
        let mut weights = Lines::zeroed(blocks * length * S::LANES);
        for (channel, tap) in (0..channels).flat_map(|channel| (0..length).map(move |tap| (channel, tap))) {
            let weight = taps.get((channel / 4 * length + tap) * 4 + channel % 4)?.cast_signed();
            let (block, lane) = (channel / S::LANES, channel % S::LANES);
            *weights.get_mut().get_mut((block * length + tap) * S::LANES + lane)? = weight.into();
        }
        let (all, finish) = Rounded::rows(node, channels)?;
        let mut numbers = Lines::zeroed(blocks * NUMBERS * S::LANES);
        for (channel, values) in all.into_iter().enumerate() {
            let at = channel / S::LANES * NUMBERS * S::LANES + channel % S::LANES;
            let to = numbers.get_mut().get_mut(at..)?.iter_mut().step_by(S::LANES);
            to.zip(values).for_each(|(to, value)| *to = value);
        }
        let first = node.number(names.number("first")?);
        Some(Self { simd, node: *node, first, length, weights, numbers, finish })
    }
}

impl<S: Integers> Windowed<i16> for Depthwise<'_, S> {
    fn work_len(&self) -> usize {
        self.length * self.node.input_size
    }

    fn step(&self, io: Io<'_, i16>) -> bool {
        self.simd.vectorize(Step { filters: self, io })
    }
}

/// One step.
struct Step<'s, 'm, S> {
    filters: &'s Depthwise<'m, S>,
    io: Io<'s, i16>,
}

impl<S: Integers> Task for Step<'_, '_, S> {
    type Output = bool;

    #[inline(always)]
    fn run(self) -> bool {
        let Self { filters, io: Io { x, state, work, y, .. } } = self;
        let Depthwise { simd, ref node, first, length, .. } = *filters;
        let (channels, values) = (node.input_size, &mut work[..filters.work_len()]);
        if !take_row(node, x, state, first, values) {
            return false;
        }
        let weights: &[S::Lanes] = bytemuck::cast_slice(filters.weights.get());
        let numbers: &[S::Lanes] = bytemuck::cast_slice(filters.numbers.get());
        let blocks = weights.chunks_exact(length.max(1)).zip(numbers.as_chunks::<NUMBERS>().0);
        for (block, (weights, numbers)) in blocks.enumerate() {
            let now = units::<S>(block, channels);
            let mut sum = simd.load(&numbers[0]);
            for (weights, row) in weights.iter().zip(values.chunks_exact(channels.max(1))) {
                sum = simd.add(sum, simd.mul(simd.load(weights), simd.widen(&row[now.clone()])));
            }
            simd.narrow(filters.finish.finish(simd, numbers, sum), &mut y[now]);
        }
        true
    }
}
