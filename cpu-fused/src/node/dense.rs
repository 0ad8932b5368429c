//! A dense layer of one group ([`tidegate::cell::dense`]) in f32.

use tidegate::Numeric;
use tidegate::activation::Activation;
use tidegate::node::Node;

use super::{Io, Kernel, Span, tensor};
use crate::curves;
use crate::lines::Lines;
use crate::panels::{Panels, Rows, WIDTH, per_row, unit};
use crate::simd::{Simd, Task};
use crate::sums::{Way, many, one};
use crate::weight::Weight;

pub struct Dense<S, W> {
    s: S,
    weights: Panels<W>,
    bias: Lines<f32>,
    activation: Activation,
}

impl<S: Simd, W: Weight> Dense<S, W> {
    pub fn pack(node: &Node<'_>, numeric: Numeric, s: S) -> Option<Self> {
        if node.extent(0) != 1 {
            return None;
        }
        let vectors = node.output_size.div_ceil(S::LANES);
        let matrix = Rows::of(node, numeric, tensor(node, "weights"), node.input_size);
        let bias = node.elements(tensor(node, "bias"));
        let row = |vector, lane| unit(s, vector, lane, node.output_size);
        Some(Self {
            s,
            weights: Panels::new(s, &[matrix], (WIDTH, vectors), |vector, lane| row(vector, lane).map(|row| (0, row))),
            bias: per_row(s, vectors, |vector, lane| {
                row(vector, lane).and_then(|row| bias.get(row).copied()).unwrap_or(0.0)
            }),
            activation: node.activation(0),
        })
    }

    #[inline(always)]
    fn finish(&self, sums: &[f32], y: &mut [f32]) {
        for (sums, y) in sums.chunks(S::LANES).zip(y.chunks_mut(S::LANES)) {
            self.s.store_part(curves::apply(self.s, self.activation, self.s.load_part(sums)), y);
        }
    }
}

impl<S: Simd, W: Weight> Kernel<f32> for Dense<S, W> {
    fn work_len(&self, steps: usize) -> usize {
        steps * self.bias.len()
    }

    fn step(&self, mut io: Io<'_, f32>) {
        self.s.vectorize(Step(self, &mut io));
    }

    fn run(&self, span: &mut Span<'_, f32>) {
        self.s.vectorize(Run(self, span));
    }
}

struct Step<'k, 's, 'e, S, W>(&'k Dense<S, W>, &'s mut Io<'e, f32>);

impl<S: Simd, W: Weight> Task for Step<'_, '_, '_, S, W> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self(dense, Io { x, work, y, odd, .. }) = self;
        let sums = &mut work[..dense.bias.len()];
        one(dense.s, [(&dense.weights, x)], Some(dense.bias.get()), sums, Way::of(*odd));
        dense.finish(sums, y);
    }
}

struct Run<'k, 'r, 's, S, W>(&'k Dense<S, W>, &'r mut Span<'s, f32>);

impl<S: Simd, W: Weight> Task for Run<'_, '_, '_, S, W> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self(dense, span) = self;
        let len = dense.bias.len();
        span.rows_of_inputs(len, false);
        let x = span.source.unwrap_or(span.memory);
        many(dense.s, &dense.weights, x, Some(dense.bias.get()), span.work, span.rows, Way::Up);
        for sequence in 0..span.lens.len() {
            for time in 0..span.len(sequence) {
                let (of, y) = ((sequence * span.time + time) * len, span.y(sequence, time));
                dense.finish(&span.work[of..of + len], &mut span.memory[y]);
            }
        }
    }
}
