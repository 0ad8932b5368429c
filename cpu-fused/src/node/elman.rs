//! The simple recurrent cell ([`tidegate::cell::elman`]) in f32, with every option.

use tidegate::Numeric;
use tidegate::activation::Activation;
use tidegate::cell::elman::{LOW_RANK, MASKED};
use tidegate::node::Node;

use super::lstm::clip;
use super::{Io, Kernel, Span, is_masked, low_rank, tensor};
use crate::curves;
use crate::lines::Lines;
use crate::panels::{Panels, Rows, WIDTH, per_row, unit};
use crate::simd::{Simd, Task};
use crate::sums::{Way, many, one};
use crate::weight::Weight;

pub struct Elman<S, W> {
    s: S,
    masked: bool,
    input: Panels<W>,
    recurrent: Panels<W>,
    basis: Option<Panels>,
    bias: Lines<f32>,
    activation: Activation,
    /// 0: none.
    preact_clip: f32,
}

impl<S: Simd, W: Weight> Elman<S, W> {
    pub fn pack(node: &Node<'_>, numeric: Numeric, s: S) -> Self {
        let hidden = node.hidden_size;
        let vectors = hidden.div_ceil(S::LANES);
        let place = |vector, lane| unit(s, vector, lane, hidden).map(|unit| (0, unit));
        let panels =
            |name, cols| Panels::new(s, &[Rows::of(node, numeric, tensor(node, name), cols)], (WIDTH, vectors), place);
        let bias = node.elements(tensor(node, "bias"));
        Self {
            s,
            masked: node.has(MASKED),
            input: panels("input_weights", node.input_size),
            recurrent: panels("recurrent_weights", low_rank::rank(node, LOW_RANK).unwrap_or(hidden)),
            basis: low_rank::basis(node, numeric, s, LOW_RANK, hidden),
            bias: per_row(s, vectors, |vector, lane| {
                unit(s, vector, lane, hidden).and_then(|unit| bias.get(unit).copied()).unwrap_or(0.0)
            }),
            activation: node.activation(0),
            preact_clip: node.param(0),
        }
    }

    #[inline(always)]
    fn finish(&self, sums: &[f32], h: &mut [f32], y: &mut [f32]) {
        for (sums, y) in sums.chunks(S::LANES).zip(y.chunks_mut(S::LANES)) {
            let seen = clip(self.s, self.s.load_part(sums), self.preact_clip);
            self.s.store_part(curves::apply(self.s, self.activation, seen), y);
        }
        h.copy_from_slice(y);
    }
}

impl<S: Simd, W: Weight> Kernel<f32> for Elman<S, W> {
    fn work_len(&self, steps: usize) -> usize {
        steps * (self.bias.len() + low_rank::seen_len(self.s, self.basis.as_ref()))
    }

    fn step(&self, mut io: Io<'_, f32>) {
        self.s.vectorize(Step(self, &mut io));
    }

    fn run(&self, span: &mut Span<'_, f32>) {
        self.s.vectorize(Run(self, span));
    }
}

struct Step<'k, 's, 'e, S, W>(&'k Elman<S, W>, &'s mut Io<'e, f32>);

impl<S: Simd, W: Weight> Task for Step<'_, '_, '_, S, W> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self(elman, Io { x, state: h, work, y, odd }) = self;
        if is_masked(elman.masked, x) {
            return y.copy_from_slice(h);
        }
        let (sums, work) = work.split_at_mut(elman.bias.len());
        let seen = low_rank::seen(elman.s, elman.basis.as_ref(), h, work, Way::of(*odd));
        one(elman.s, [(&elman.input, x), (&elman.recurrent, seen)], Some(elman.bias.get()), sums, Way::of(*odd));
        elman.finish(sums, h, y);
    }
}

struct Run<'k, 'r, 's, S, W>(&'k Elman<S, W>, &'r mut Span<'s, f32>);

impl<S: Simd, W: Weight> Task for Run<'_, '_, '_, S, W> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self(elman, span) = self;
        let len = elman.bias.len();
        span.rows_of_inputs(len, elman.masked);
        let x = span.source.unwrap_or(span.memory);
        many(elman.s, &elman.input, x, Some(elman.bias.get()), span.work, span.rows, Way::Up);
        let steps = span.lens.len() * span.time;
        for t in 0..span.time {
            let way = Way::of(t % 2 == 1);
            span.rows_of_states(t, len, elman.masked);
            let (sums, work) = span.work.split_at_mut(steps * len);
            if let Some(basis) = &elman.basis {
                for &(state, of) in span.rows.iter() {
                    let h = &span.states[state..state + span.state.len()];
                    let seen = low_rank::seen(elman.s, Some(basis), h, work, way);
                    one(elman.s, [(&elman.recurrent, seen)], None, &mut sums[of..of + len], way);
                }
            } else {
                many(elman.s, &elman.recurrent, span.states, None, sums, span.rows, way);
            }
            for &(state, of) in span.rows.iter() {
                let y = span.y(span.sequence_of(state), t);
                let h = &mut span.states[state..state + span.state.len()];
                elman.finish(&span.work[of..of + len], h, &mut span.memory[y]);
            }
        }
    }
}
