//! The dense layer of one group ([`tidegate::internals::cell::dense`]) in floats.

use tidegate::Numeric;
use tidegate::internals::{activation::Activation, node::Node};

use super::tensor;
use crate::curves::activate;
use crate::layer::{Io, Layer, Span};
use crate::lines::Lines;
use crate::panels::{Panels, Rows, per_unit};
use crate::simd::{Simd, Task};
use crate::sums::{One, Then, Way, many};
use crate::weight::Weight;

/// A packed dense layer.
pub struct Dense<S, W> {
    s: S,
    weights: Panels<W>,
    bias: Lines<f32>,
    activation: Activation,
}

impl<S: Simd, W: Weight> Dense<S, W> {
    /// Packs a node; `None` if it has several groups.
    pub fn pack(node: &Node<'_>, numeric: Numeric, s: S) -> Option<Self> {
        if node.extent(0) != 1 {
            return None;
        }
        let matrix = Rows::of(node, numeric, tensor(node, "weights"), node.input_size);
        Some(Self {
            s,
            weights: Panels::in_order(S::LANES, matrix, node.output_size),
            bias: per_unit(S::LANES, node.output_size, node.elements(tensor(node, "bias"))),
            activation: node.activation(0),
        })
    }
}

/// One step.
struct Step<'k, 's, 'e, S, W>(&'k Dense<S, W>, &'s mut Io<'e, f32>);

impl<S: Simd, W: Weight> Task for Step<'_, '_, '_, S, W> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self(Dense { s, weights, bias, activation }, Io { x, work, y, odd, .. }) = self;
        let (sums, way) = (&mut work[..bias.len()], Way::of(*odd));
        let then = Some(Then { activation: *activation, limit: 0.0, to: y });
        One { s: *s, parts: [(weights, *x)], start: Some(bias.get()), sums, way, then }.run();
    }
}

impl<S: Simd, W: Weight> Layer<f32> for Dense<S, W> {
    fn work_len(&self, steps: usize) -> usize {
        steps * self.bias.len()
    }

    fn step(&self, mut io: Io<'_, f32>) {
        self.s.vectorize(Step(self, &mut io));
    }

    fn run(&self, span: &mut Span<'_, f32>) {
        let len = self.bias.len();
        span.rows_of_inputs(len, false);
        let x = span.source.unwrap_or(span.memory);
        many(self.s, &self.weights, x, Some(self.bias.get()), span.work, span.rows, Way::Up);
        for sequence in 0..span.lens.len() {
            for time in 0..span.len(sequence) {
                let (of, y) = ((sequence * span.time + time) * len, span.y(sequence, time));
                activate(self.s, self.activation, 0.0, &span.work[of..of + len], &mut span.memory[y]);
            }
        }
    }
}
