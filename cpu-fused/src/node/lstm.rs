//! LSTM ([`tidegate::cell::lstm`]) in f32, with every option but the normalizations and `low_rank`.
//!
//! A block of units has a vector of each gate, i, f, g, o, side by side.

use tidegate::Numeric;
use tidegate::activation::Activation;
use tidegate::cell::lstm::{
    CELL_NORM, COUPLED, GATE_NORM, JOINT_NORM, LOW_RANK, MASKED, OUTPUT_NORM, PEEPHOLE, PROJECTION,
};
use tidegate::node::Node;

use super::{Io, Kernel, Span, is_masked, tensor};
use crate::curves;
use crate::lines::Lines;
use crate::panels::{Panels, Rows, per_row, unit};
use crate::simd::{Simd, Task};
use crate::sums::{Way, many, one};

const GATES: usize = 4;
/// What has no kernel here.
const OTHERS: u32 = 1 << LOW_RANK | 1 << GATE_NORM | 1 << JOINT_NORM | 1 << CELL_NORM | 1 << OUTPUT_NORM;

pub struct Lstm<S> {
    s: S,
    hidden: usize,
    output: usize,
    masked: bool,
    input: Panels,
    recurrent: Panels,
    bias: Lines<f32>,
    projection: Option<Panels>,
    projection_clip: f32,
    /// None of the options that follow is set: sigmoid and tanh alone.
    usual: bool,
    coupled: bool,
    cell_clip: f32,
    /// Of gates, candidate and output.
    activations: [Activation; 3],
    /// Of i, f, o: empty without.
    peepholes: [Lines<f32>; 3],
}

impl<S: Simd> Lstm<S> {
    pub fn pack(node: &Node<'_>, numeric: Numeric, s: S) -> Option<Self> {
        if node.options & OTHERS != 0 {
            return None;
        }
        let hidden = node.hidden_size;
        let blocks = hidden.div_ceil(S::LANES);
        let place = |vector: usize, lane: usize| {
            unit(s, vector / GATES, lane, hidden).map(|unit| (0, GATES * unit + vector % GATES))
        };
        let panels =
            |name, cols| Panels::new(s, &[Rows::of(node, numeric, tensor(node, name), cols)], GATES * blocks, place);
        let bias = node.elements(tensor(node, "bias"));
        let by_unit = |name| {
            let elements = node.elements(tensor(node, name));
            per_row(s, if elements.is_empty() { 0 } else { blocks }, |block, lane| {
                unit(s, block, lane, hidden).and_then(|unit| elements.get(unit).copied()).unwrap_or(0.0)
            })
        };
        let projection = node.has(PROJECTION).then(|| {
            let matrix = Rows::of(node, numeric, tensor(node, "projection_weights"), hidden);
            let vectors = node.output_size.div_ceil(S::LANES);
            Panels::new(s, &[matrix], vectors, |vector, lane| {
                unit(s, vector, lane, node.output_size).map(|row| (0, row))
            })
        });
        let activations = [0, 1, 2].map(|index| node.activation(index));
        let cell_clip = node.param(0);
        let peepholes = if node.has(PEEPHOLE) {
            ["input_peephole", "forget_peephole", "output_peephole"].map(by_unit)
        } else {
            [(); 3].map(|()| Lines::zeroed(0))
        };
        Some(Self {
            s,
            hidden,
            output: node.output_size,
            masked: node.has(MASKED),
            input: panels("input_weights", node.input_size),
            recurrent: panels("recurrent_weights", node.output_size),
            bias: per_row(s, GATES * blocks, |vector, lane| {
                place(vector, lane).and_then(|(_, row)| bias.get(row).copied()).unwrap_or(0.0)
            }),
            projection,
            projection_clip: node.param(1),
            usual: activations == [Activation::Sigmoid, Activation::Tanh, Activation::Tanh]
                && cell_clip == 0.0
                && !node.has(COUPLED)
                && !node.has(PEEPHOLE),
            coupled: node.has(COUPLED),
            cell_clip,
            activations,
            peepholes,
        })
    }

    /// Elements of the sums of a step.
    fn sums_len(&self) -> usize {
        self.bias.len()
    }

    /// Elements of m and of its projected sums.
    fn projected_len(&self) -> usize {
        self.projection.as_ref().map_or(0, |matrix| (self.hidden + matrix.vectors() * S::LANES).next_multiple_of(16))
    }

    /// From the sums to y and the next state. `work` is what [`projected_len`](Self::projected_len) says.
    #[inline(always)]
    fn finish(&self, sums: &[f32], state: &mut [f32], y: &mut [f32], work: &mut [f32]) {
        let (h, c) = state.split_at_mut(self.output);
        match &self.projection {
            None => self.update(sums, c, y),
            Some(matrix) => {
                let (m, sums_of_m) = work.split_at_mut(self.hidden);
                let sums_of_m = &mut sums_of_m[..matrix.vectors() * S::LANES];
                self.update(sums, c, m);
                sums_of_m.fill(0.0);
                one(self.s, [(matrix, m)], None, sums_of_m, Way::Up);
                for (y, sums) in y.chunks_mut(S::LANES).zip(sums_of_m.chunks(S::LANES)) {
                    let sums = self.s.load_part(sums);
                    self.s.store_part(clip(self.s, sums, self.projection_clip), y);
                }
            }
        }
        h.copy_from_slice(y);
    }

    #[inline(always)]
    fn update(&self, sums: &[f32], c: &mut [f32], m: &mut [f32]) {
        if self.usual { self.update_usual(sums, c, m) } else { self.update_any(sums, c, m) }
    }

    #[inline(always)]
    fn update_usual(&self, sums: &[f32], c: &mut [f32], m: &mut [f32]) {
        let s = self.s;
        let lanes: &[S::Lanes] = bytemuck::cast_slice(sums);
        let (blocks, _) = lanes.as_chunks::<GATES>();
        for ((block, c), m) in blocks.iter().zip(c.chunks_mut(S::LANES)).zip(m.chunks_mut(S::LANES)) {
            let [i, f, g, o] = [0, 1, 2, 3].map(|gate| s.load(&block[gate]));
            let entered = s.mul(curves::sigmoid(s, i), curves::tanh(s, g));
            let kept = s.fma(curves::sigmoid(s, f), s.load_part(c), entered);
            s.store_part(kept, c);
            s.store_part(s.mul(curves::sigmoid(s, o), curves::tanh(s, kept)), m);
        }
    }

    #[inline(always)]
    fn update_any(&self, sums: &[f32], c: &mut [f32], m: &mut [f32]) {
        let s = self.s;
        let lanes: &[S::Lanes] = bytemuck::cast_slice(sums);
        let (blocks, _) = lanes.as_chunks::<GATES>();
        let [p_i, p_f, p_o] = [0, 1, 2].map(|gate| bytemuck::cast_slice::<f32, S::Lanes>(self.peepholes[gate].get()));
        let [gate, candidate, output] = self.activations;
        let units = blocks.iter().zip(c.chunks_mut(S::LANES)).zip(m.chunks_mut(S::LANES));
        for (index, ((block, c), m)) in units.enumerate() {
            let [mut i, mut f, g, mut o] = [0, 1, 2, 3].map(|gate| s.load(&block[gate]));
            let before = s.load_part(c);
            if let (Some(p_i), Some(p_f)) = (p_i.get(index), p_f.get(index)) {
                i = s.fma(s.load(p_i), before, i);
                f = s.fma(s.load(p_f), before, f);
            }
            let f = curves::apply(s, gate, f);
            let i = if self.coupled { s.sub(s.splat(1.0), f) } else { curves::apply(s, gate, i) };
            let kept = s.fma(f, before, s.mul(i, curves::apply(s, candidate, g)));
            let kept = clip(s, kept, self.cell_clip);
            s.store_part(kept, c);
            if let Some(p_o) = p_o.get(index) {
                o = s.fma(s.load(p_o), kept, o);
            }
            s.store_part(s.mul(curves::apply(s, gate, o), curves::apply(s, output, kept)), m);
        }
    }
}

/// Within ±`limit`; 0 is none. Not-a-number stays.
#[inline(always)]
fn clip<S: Simd>(s: S, x: S::F32, limit: f32) -> S::F32 {
    if limit > 0.0 { s.signed(s.min(s.splat(limit), s.abs(x)), x) } else { x }
}

impl<S: Simd> Kernel<f32> for Lstm<S> {
    fn work_len(&self, steps: usize) -> usize {
        steps * self.sums_len() + self.projected_len()
    }

    fn step(&self, io: Io<'_, f32>) {
        self.s.vectorize(Step(self, io));
    }

    fn run(&self, span: &mut Span<'_, f32>) {
        self.s.vectorize(Run(self, span));
    }
}

struct Step<'k, 's, S>(&'k Lstm<S>, Io<'s, f32>);

impl<S: Simd> Task for Step<'_, '_, S> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self(lstm, Io { x, state, work, y, odd }) = self;
        if is_masked(lstm.masked, x) {
            return y.copy_from_slice(&state[..lstm.output]);
        }
        let (sums, work) = work.split_at_mut(lstm.sums_len());
        let parts = [(&lstm.input, x), (&lstm.recurrent, &state[..lstm.output])];
        one(lstm.s, parts, Some(lstm.bias.get()), sums, Way::of(odd));
        lstm.finish(sums, state, y, work);
    }
}

struct Run<'k, 'r, 's, S>(&'k Lstm<S>, &'r mut Span<'s, f32>);

impl<S: Simd> Task for Run<'_, '_, '_, S> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self(lstm, span) = self;
        let len = lstm.sums_len();
        span.rows_of_inputs(len);
        let steps = span.lens.len() * span.time;
        many(lstm.s, &lstm.input, span.memory, Some(lstm.bias.get()), span.work, span.rows, Way::Up);
        for t in 0..span.time {
            span.rows_of_states(t, len, lstm.masked);
            many(lstm.s, &lstm.recurrent, span.states, None, span.work, span.rows, Way::of(t % 2 == 1));
            for &(state, of) in span.rows.iter() {
                let y = span.y(span.sequence_of(state), t);
                let (sums, work) = span.work.split_at_mut(steps * len);
                let state = &mut span.states[state..state + span.state.len()];
                let y = &mut span.memory[y];
                lstm.finish(&sums[of..of + len], state, y, work);
            }
        }
    }
}
