//! The Elman cell ([`tidegate::internals::cell::elman`]) in floats, with every option.

use tidegate::Numeric;
use tidegate::internals::{
    activation::Activation,
    cell::elman::{LOW_RANK, MASKED},
    node::Node,
};

use super::{copy, low_rank, tensor};
use crate::curves::activate;
use crate::layer::{Io, Layer, Span, is_masked};
use crate::lines::Lines;
use crate::panels::{Panels, Rows, per_unit};
use crate::simd::{Simd, Task};
use crate::sums::{One, Then, Way, many, one};
use crate::weight::Weight;

/// A packed Elman cell.
pub struct Elman<S, W> {
    s: S,
    masked: bool,
    input: Panels<W>,
    recurrent: Panels<W>,
    basis: Option<Panels>,
    bias: Lines<f32>,
    activation: Activation,
    /// 0 for none.
    preact_clip: f32,
}

impl<S: Simd, W: Weight> Elman<S, W> {
    /// Packs a node.
    pub fn pack(node: &Node<'_>, numeric: Numeric, s: S) -> Self {
        let hidden = node.hidden_size;
        let panels = |name, cols| Panels::in_order(S::LANES, Rows::of(node, numeric, tensor(node, name), cols), hidden);
        Self {
            s,
            masked: node.has(MASKED),
            input: panels("input_weights", node.input_size),
            recurrent: panels("recurrent_weights", low_rank::rank(node, LOW_RANK).unwrap_or(hidden)),
            basis: low_rank::basis(node, numeric, S::LANES, LOW_RANK, hidden),
            bias: per_unit(S::LANES, hidden, node.elements(tensor(node, "bias"))),
            activation: node.activation(0),
            preact_clip: node.param(0),
        }
    }
}

/// One step.
struct Step<'k, 's, 'e, S, W>(&'k Elman<S, W>, &'s mut Io<'e, f32>);

impl<S: Simd, W: Weight> Task for Step<'_, '_, '_, S, W> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self(elman, Io { x, state: h, work, y, odd }) = self;
        if is_masked(elman.masked, x) {
            return y.copy_from_slice(h);
        }
        let (s, start, way) = (elman.s, Some(elman.bias.get()), Way::of(*odd));
        let (sums, work) = work.split_at_mut(elman.bias.len());
        let seen = low_rank::seen(s, elman.basis.as_ref(), h, work, way).unwrap_or(h);
        let then = Some(Then { activation: elman.activation, limit: elman.preact_clip, to: y });
        One { s, parts: [(&elman.input, *x), (&elman.recurrent, seen)], start, sums, way, then }.run();
        copy(s, y, h);
    }
}

impl<S: Simd, W: Weight> Layer<f32> for Elman<S, W> {
    fn work_len(&self, steps: usize) -> usize {
        steps * (self.bias.len() + low_rank::seen_len(self.s, self.basis.as_ref()))
    }

    fn step(&self, mut io: Io<'_, f32>) {
        self.s.vectorize(Step(self, &mut io));
    }

    fn run(&self, span: &mut Span<'_, f32>) {
        let len = self.bias.len();
        span.rows_of_inputs(len, self.masked);
        let x = span.source.unwrap_or(span.memory);
        many(self.s, &self.input, x, Some(self.bias.get()), span.work, span.rows, Way::Up);
        let steps = span.lens.len() * span.time;
        for t in 0..span.time {
            let way = Way::of(t % 2 == 1);
            span.rows_of_states(t, len, self.masked);
            let (sums, work) = span.work.split_at_mut(steps * len);
            if let Some(basis) = &self.basis {
                for &(state, of) in span.rows.iter() {
                    let h = &span.states[state..state + span.state.len()];
                    let seen = low_rank::seen(self.s, Some(basis), h, work, way).unwrap_or(h);
                    one(self.s, (&self.recurrent, seen), None, &mut sums[of..of + len], way);
                }
            } else {
                many(self.s, &self.recurrent, span.states, None, sums, span.rows, way);
            }
            for &(state, of) in span.rows.iter() {
                let y = span.y(span.sequence_of(state), t);
                let h = &mut span.states[state..state + span.state.len()];
                let y = &mut span.memory[y];
                activate(self.s, self.activation, self.preact_clip, &span.work[of..of + len], y);
                h.copy_from_slice(y);
            }
        }
    }
}
