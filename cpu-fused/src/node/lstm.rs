//! LSTM ([`tidegate::cell::lstm`]) in f32, with every option but the normalizations and `low_rank`.
//!
//! A block of units has a vector of each gate, i, f, g, o, side by side.

use tidegate::activation::Activation;
use tidegate::cell::lstm::{
    CELL_NORM, COUPLED, GATE_NORM, JOINT_NORM, LOW_RANK, MASKED, OUTPUT_NORM, PEEPHOLE, PROJECTION,
};
use tidegate::node::Node;

use super::{Io, Kernel, Span, block, copy, is_masked, tensor};
use crate::curves;
use crate::lines::Lines;
use crate::panels::{Panels, Rows, WIDTH, per_row, unit};
use crate::simd::{Simd, Task};
use crate::sums::{self, Way, many, one};
use crate::weight::Weight;

const GATES: usize = 4;
/// What has no kernel here.
const OTHERS: u32 = 1 << LOW_RANK | 1 << GATE_NORM | 1 << JOINT_NORM | 1 << CELL_NORM | 1 << OUTPUT_NORM;

pub struct Lstm<S, W> {
    s: S,
    hidden: usize,
    output: usize,
    /// Of a layer that has no option set and as many features as units: how many. Else 0.
    size: usize,
    masked: bool,
    input: Panels<W>,
    recurrent: Panels<W>,
    bias: Lines<f32>,
    projection: Option<Panels<W>>,
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

impl<S: Simd, W: Weight> Lstm<S, W> {
    pub fn pack(node: &Node<'_>, s: S) -> Option<Self> {
        if node.options & OTHERS != 0 {
            return None;
        }
        let hidden = node.hidden_size;
        let blocks = hidden.div_ceil(S::LANES);
        let place = |vector: usize, lane: usize| {
            unit(s, vector / GATES, lane, hidden).map(|unit| (0, GATES * unit + vector % GATES))
        };
        let panels =
            |name, cols| Panels::new(s, &[Rows::of(node, tensor(node, name), cols)], (GATES, GATES * blocks), place);
        let bias = node.elements(tensor(node, "bias"));
        let by_unit = |name| {
            let elements = node.elements(tensor(node, name));
            per_row(s, if elements.is_empty() { 0 } else { blocks }, |block, lane| {
                unit(s, block, lane, hidden).and_then(|unit| elements.get(unit).copied()).unwrap_or(0.0)
            })
        };
        let projection = node.has(PROJECTION).then(|| {
            let matrix = Rows::of(node, tensor(node, "projection_weights"), hidden);
            let vectors = node.output_size.div_ceil(S::LANES);
            Panels::new(s, &[matrix], (WIDTH, vectors), |vector, lane| {
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
        let usual = activations == [Activation::Sigmoid, Activation::Tanh, Activation::Tanh]
            && cell_clip == 0.0
            && !node.has(COUPLED)
            && !node.has(PEEPHOLE);
        let is_plain = usual && projection.is_none() && !node.has(MASKED);
        Some(Self {
            s,
            hidden,
            output: node.output_size,
            size: if is_plain && node.input_size == hidden { hidden } else { 0 },
            masked: node.has(MASKED),
            input: panels("input_weights", node.input_size),
            recurrent: panels("recurrent_weights", node.output_size),
            bias: per_row(s, GATES * blocks, |vector, lane| {
                place(vector, lane).and_then(|(_, row)| bias.get(row).copied()).unwrap_or(0.0)
            }),
            projection,
            projection_clip: node.param(1),
            usual,
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

    /// From the sums of all units to y and the next state. `work` is what [`projected_len`](Self::projected_len) says.
    #[inline(always)]
    fn finish(&self, sums: &[f32], state: &mut [f32], y: &mut [f32], work: &mut [f32]) {
        let (h, c) = state.split_at_mut(self.output);
        match &self.projection {
            None => self.update_all(sums, c, y),
            Some(matrix) => {
                let (m, work) = work.split_at_mut(self.hidden);
                self.update_all(sums, c, m);
                self.project(matrix, m, y, work);
            }
        }
        copy(self.s, y, h);
    }

    #[inline(always)]
    fn update_all(&self, sums: &[f32], c: &mut [f32], m: &mut [f32]) {
        let units = sums.chunks_exact(GATES * S::LANES).zip(c.chunks_mut(S::LANES)).zip(m.chunks_mut(S::LANES));
        for (at, ((sums, c), m)) in units.enumerate() {
            let updated = self.update(at, sums::load(self.s, sums), c);
            self.s.store_part(updated, m);
        }
    }

    #[inline(always)]
    fn project(&self, matrix: &Panels<W>, m: &[f32], y: &mut [f32], sums: &mut [f32]) {
        let s = self.s;
        let sums = &mut sums[..matrix.vectors() * S::LANES];
        sums.fill(0.0);
        one(s, (matrix, m), None, sums, Way::Up);
        for (y, sums) in y.chunks_mut(S::LANES).zip(sums.chunks(S::LANES)) {
            s.store_part(clip(s, s.load_part(sums), self.projection_clip), y);
        }
    }

    /// All units, block after block: sums stay in registers until m is there.
    #[inline(always)]
    fn step_units(&self, x: &[f32], h: &[f32], c: &mut [f32], m: &mut [f32], way: Way) {
        let (s, blocks) = (self.s, self.input.len());
        for turn in 0..blocks {
            let at = way.at(turn, blocks);
            let units = block(s, at, self.hidden);
            let bias = sums::load(s, &self.bias.get()[at * GATES * S::LANES..]);
            let sums = sums::panel::<S, W, GATES, 2, 0>(s, [(&self.input, x), (&self.recurrent, h)], at, bias);
            let updated = self.update(at, sums, &mut c[units.clone()]);
            s.store_part(updated, &mut m[units]);
        }
    }

    /// The step of the units of a block: c', and m, which is returned.
    #[inline(always)]
    fn update(&self, at: usize, sums: [S::F32; GATES], c: &mut [f32]) -> S::F32 {
        if self.usual { self.update_usual(sums, c) } else { self.update_any(at, sums, c) }
    }

    #[inline(always)]
    fn update_usual(&self, [i, f, g, o]: [S::F32; GATES], c: &mut [f32]) -> S::F32 {
        let s = self.s;
        let entered = s.mul(curves::sigmoid(s, i), curves::tanh(s, g));
        let kept = s.fma(curves::sigmoid(s, f), s.load_part(c), entered);
        s.store_part(kept, c);
        s.mul(curves::sigmoid(s, o), curves::tanh(s, kept))
    }

    #[inline(always)]
    fn update_any(&self, at: usize, [mut i, mut f, g, mut o]: [S::F32; GATES], c: &mut [f32]) -> S::F32 {
        let s = self.s;
        let of = |gate: usize| bytemuck::cast_slice::<f32, S::Lanes>(self.peepholes[gate].get()).get(at);
        let [p_i, p_f, p_o] = [of(0), of(1), of(2)];
        let [gate, candidate, output] = self.activations;
        let before = s.load_part(c);
        if let (Some(p_i), Some(p_f)) = (p_i, p_f) {
            i = s.fma(s.load(p_i), before, i);
            f = s.fma(s.load(p_f), before, f);
        }
        let f = curves::apply(s, gate, f);
        let i = if self.coupled { s.sub(s.splat(1.0), f) } else { curves::apply(s, gate, i) };
        let kept = s.fma(f, before, s.mul(i, curves::apply(s, candidate, g)));
        let kept = clip(s, kept, self.cell_clip);
        s.store_part(kept, c);
        if let Some(p_o) = p_o {
            o = s.fma(s.load(p_o), kept, o);
        }
        s.mul(curves::apply(s, gate, o), curves::apply(s, output, kept))
    }
}

/// Within ±`limit`; 0 is none. Not-a-number stays.
#[inline(always)]
fn clip<S: Simd>(s: S, x: S::F32, limit: f32) -> S::F32 {
    if limit > 0.0 { s.signed(s.min(s.splat(limit), s.abs(x)), x) } else { x }
}

impl<S: Simd, W: Weight> Kernel<f32> for Lstm<S, W> {
    fn work_len(&self, steps: usize) -> usize {
        steps * self.sums_len() + self.projected_len()
    }

    fn step(&self, mut io: Io<'_, f32>) {
        match self.size {
            8 => self.s.vectorize(Small::<S, W, 8>(self, &mut io)),
            16 => self.s.vectorize(Small::<S, W, 16>(self, &mut io)),
            32 => self.s.vectorize(Small::<S, W, 32>(self, &mut io)),
            _ => self.s.vectorize(Step(self, &mut io)),
        }
    }

    fn run(&self, span: &mut Span<'_, f32>) {
        self.s.vectorize(Run(self, span));
    }
}

struct Step<'k, 's, 'e, S, W>(&'k Lstm<S, W>, &'s mut Io<'e, f32>);

impl<S: Simd, W: Weight> Task for Step<'_, '_, '_, S, W> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self(lstm, Io { x, state, work, y, odd }) = self;
        let (h, c) = state.split_at_mut(lstm.output);
        if is_masked(lstm.masked, x) {
            return y.copy_from_slice(h);
        }
        match &lstm.projection {
            None => lstm.step_units(x, h, c, y, Way::of(*odd)),
            Some(matrix) => {
                let (m, work) = work.split_at_mut(lstm.hidden);
                lstm.step_units(x, h, c, m, Way::of(*odd));
                lstm.project(matrix, m, y, work);
            }
        }
        copy(lstm.s, y, h);
    }
}

/// [`Step`] of a layer without options that has `C` units and as many features: what it needs of them is known.
struct Small<'k, 's, 'e, S, W, const C: usize>(&'k Lstm<S, W>, &'s mut Io<'e, f32>);

impl<S: Simd, W: Weight, const C: usize> Task for Small<'_, '_, '_, S, W, C> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self(lstm, Io { x, state, y, odd, .. }) = self;
        let Some((h, c)) = state.split_first_chunk_mut::<C>() else { return };
        let (Some(x), Some(c), Some(y)) = (x.first_chunk::<C>(), c.first_chunk_mut::<C>(), y.first_chunk_mut::<C>())
        else {
            return;
        };
        let (s, way, blocks) = (lstm.s, Way::of(*odd), C.div_ceil(S::LANES));
        for turn in 0..blocks {
            let at = way.at(turn, blocks);
            let units = block(s, at, C);
            let bias = sums::load(s, &lstm.bias.get()[at * GATES * S::LANES..]);
            let parts = [(&lstm.input, &x[..]), (&lstm.recurrent, &h[..])];
            let sums = sums::panel::<S, W, GATES, 2, C>(s, parts, at, bias);
            let m = lstm.update_usual(sums, &mut c[units.clone()]);
            s.store_part(m, &mut y[units.clone()]);
            if blocks == 1 {
                s.store_part(m, &mut h[units]);
            }
        }
        if blocks > 1 {
            copy(s, y, h);
        }
    }
}

struct Run<'k, 'r, 's, S, W>(&'k Lstm<S, W>, &'r mut Span<'s, f32>);

impl<S: Simd, W: Weight> Task for Run<'_, '_, '_, S, W> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self(lstm, span) = self;
        let len = lstm.sums_len();
        span.rows_of_inputs(len);
        let steps = span.lens.len() * span.time;
        many(lstm.s, &lstm.input, span.arenas, Some(lstm.bias.get()), span.work, span.rows, Way::Up);
        for t in 0..span.time {
            span.rows_of_states(t, len, lstm.masked);
            many(lstm.s, &lstm.recurrent, span.states, None, span.work, span.rows, Way::of(t % 2 == 1));
            for &(state, of) in span.rows.iter() {
                let y = span.arena(span.sequence_of(state), t) + span.output.start;
                let (sums, work) = span.work.split_at_mut(steps * len);
                let state = &mut span.states[state..state + span.state.len()];
                let y = &mut span.arenas[y..y + lstm.output];
                lstm.finish(&sums[of..of + len], state, y, work);
            }
        }
    }
}
