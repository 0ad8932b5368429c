//! LSTM ([`tidegate::cell::lstm`]) in f32, with every option.
//!
//! A block of units has a vector of each gate, i, f, g, o, side by side.

mod batch;
mod normalized;

use tidegate::Numeric;
use tidegate::activation::Activation;
use tidegate::cell::lstm::{CLIPPED, COUPLED, INPUT_FORGET, LOW_RANK, MASKED, PEEPHOLE, PROJECTION};
use tidegate::node::Node;

use self::batch::{Row, Work};
use self::normalized::Norms;
use super::{CACHE, Io, Kernel, Span, block, copy, is_masked, low_rank, tensor};
use crate::curves;
use crate::lines::Lines;
use crate::panels::{Panels, Rows, WIDTH, per_row, unit};
use crate::simd::{Simd, Task};
use crate::sums::{self, Way, one};
use crate::weight::Weight;

const GATES: usize = 4;
/// From so many blocks of units on, two are summed at once, unless one of f32 stays in the first cache until the next step, which
/// turns round there. With fewer it costs more that what is made of the last sums has no sums beside it.
const BLOCKS_ABREAST: usize = 4;

pub struct Lstm<S, W> {
    s: S,
    hidden: usize,
    output: usize,
    /// Of a layer that has no option set and as many features as units: how many. Else 0.
    size: usize,
    masked: bool,
    input: Panels<W>,
    recurrent: Panels<W>,
    /// What the sums start from: the bias, or zeros where it comes after a normalization.
    start: Lines<f32>,
    /// What makes of h what the recurrent weights see, with `low_rank`.
    basis: Option<Panels>,
    projection: Option<Panels<W>>,
    projection_clip: f32,
    norms: Option<Norms>,
    /// Whether a step sums two blocks of units at once.
    abreast: bool,
    /// None of the options that follow is set: sigmoid and tanh alone.
    usual: bool,
    coupled: bool,
    input_forget: bool,
    cell_clip: f32,
    /// 0: none.
    preact_clip: f32,
    /// Of gates, candidate and output.
    activations: [Activation; 3],
    /// Of i, f, o: empty without.
    peepholes: [Lines<f32>; 3],
}

impl<S: Simd, W: Weight> Lstm<S, W> {
    pub fn pack(node: &Node<'_>, numeric: Numeric, s: S) -> Self {
        let hidden = node.hidden_size;
        let blocks = hidden.div_ceil(S::LANES);
        let place = |vector: usize, lane: usize| {
            unit(s, vector / GATES, lane, hidden).map(|unit| (0, GATES * unit + vector % GATES))
        };
        let panels = |name, cols| {
            Panels::new(s, &[Rows::of(node, numeric, tensor(node, name), cols)], (GATES, GATES * blocks), place)
        };
        let by_row = |name: &str| {
            let elements = node.elements(tensor(node, name));
            per_row(s, GATES * blocks, |vector, lane| {
                place(vector, lane).and_then(|(_, row)| elements.get(row).copied()).unwrap_or(0.0)
            })
        };
        let by_unit = |name| {
            let elements = node.elements(tensor(node, name));
            per_row(s, if elements.is_empty() { 0 } else { blocks }, |block, lane| {
                unit(s, block, lane, hidden).and_then(|unit| elements.get(unit).copied()).unwrap_or(0.0)
            })
        };
        let rows = |name, rows, cols| {
            let matrix = Rows::of(node, numeric, tensor(node, name), cols);
            Panels::new(s, &[matrix], (WIDTH, usize::div_ceil(rows, S::LANES)), |vector, lane| {
                unit(s, vector, lane, rows).map(|row| (0, row))
            })
        };
        let basis = low_rank::basis(node, numeric, s, LOW_RANK, node.output_size);
        let norms = Norms::pack(node, s, by_row);
        let starts_at_zero = norms.as_ref().is_some_and(Norms::of_gates);
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
            && !node.has(INPUT_FORGET)
            && !node.has(CLIPPED)
            && !node.has(PEEPHOLE);
        let of_block = (node.input_size + node.output_size) * GATES * S::LANES * size_of::<W>();
        let lstm = Self {
            s,
            hidden,
            output: node.output_size,
            size: 0,
            masked: node.has(MASKED),
            input: panels("input_weights", node.input_size),
            recurrent: panels("recurrent_weights", low_rank::rank(node, LOW_RANK).unwrap_or(node.output_size)),
            start: if starts_at_zero { Lines::zeroed(GATES * blocks * S::LANES) } else { by_row("bias") },
            basis,
            projection: node.has(PROJECTION).then(|| rows("projection_weights", node.output_size, hidden)),
            projection_clip: node.param(1),
            norms,
            usual,
            abreast: blocks >= BLOCKS_ABREAST && (size_of::<W>() < size_of::<f32>() || of_block > CACHE),
            coupled: node.has(COUPLED),
            input_forget: node.has(INPUT_FORGET),
            cell_clip,
            preact_clip: node.param(3),
            activations,
            peepholes,
        };
        let is_small = lstm.is_plain() && usual && !lstm.masked && node.input_size == hidden;
        Self { size: if is_small { hidden } else { 0 }, ..lstm }
    }

    /// Elements of the sums of a step.
    fn sums_len(&self) -> usize {
        self.start.len()
    }

    /// Whether a step is no more than the sums of one chain each, and then the update of each unit by itself.
    fn is_plain(&self) -> bool {
        self.basis.is_none() && self.projection.is_none() && self.norms.is_none()
    }

    /// From the sums to c' and m, unit by unit.
    #[inline(always)]
    fn update(&self, sums: &[f32], c: &mut [f32], m: &mut [f32]) {
        let lanes: &[S::Lanes] = bytemuck::cast_slice(sums);
        let (blocks, _) = lanes.as_chunks::<GATES>();
        let units = blocks.iter().zip(c.chunks_mut(S::LANES)).zip(m.chunks_mut(S::LANES));
        if self.usual {
            for ((block, c), m) in units {
                self.update_usual(block, c, m);
            }
        } else {
            for (index, ((block, c), m)) in units.enumerate() {
                self.update_any(index, block, c, m);
            }
        }
    }

    /// A block of units of an LSTM without options.
    #[inline(always)]
    fn update_usual(&self, block: &[S::Lanes; GATES], c: &mut [f32], m: &mut [f32]) {
        let s = self.s;
        let sums = [s.load(&block[0]), s.load(&block[1]), s.load(&block[2]), s.load(&block[3])];
        s.store_part(usual(s, sums, c), m);
    }

    /// Block `at` of units, from the sums of its panel, which stay in registers, to m.
    #[inline(always)]
    fn step_block<const C: usize>(&self, at: usize, x: &[f32], h: &[f32], c: &mut [f32]) -> S::F32 {
        let start = sums::load(self.s, &self.start.get()[at * GATES * S::LANES..]);
        let parts = [(&self.input, x), (&self.recurrent, h)];
        usual(self.s, sums::panel::<S, W, GATES, 2, C>(self.s, parts, at, start), c)
    }

    /// All blocks of a layer without options, on from `start`: c', and m.
    #[inline(always)]
    fn step_usual(&self, start: &[f32], x: &[f32], h: &[f32], c: &mut [f32], m: &mut [f32], way: Way) {
        let start: &[S::Lanes] = bytemuck::cast_slice(start);
        let (s, start) = (self.s, start.as_chunks().0);
        let (input, recurrent) = (self.input.all(), self.recurrent.all());
        if self.abreast {
            s.call(Usual::<S, W, 2> { s, input, recurrent, start, x, h, c, m, way });
        } else {
            s.call(Usual::<S, W, 1> { s, input, recurrent, start, x, h, c, m, way });
        }
    }

    /// Block `index` of units, with any options but normalizations.
    #[inline(always)]
    fn update_any(&self, index: usize, block: &[S::Lanes; GATES], c: &mut [f32], m: &mut [f32]) {
        let s = self.s;
        let [i, f, g, o] = [s.load(&block[0]), s.load(&block[1]), s.load(&block[2]), s.load(&block[3])];
        let kept = clip(s, self.kept(index, [i, f, g], s.load_part(c)), self.cell_clip);
        s.store_part(kept, c);
        s.store_part(s.mul(self.opened(index, o, kept), curves::apply(s, self.activations[2], kept)), m);
    }

    /// f ⊙ c + i ⊙ g of a block of units, from their sums.
    #[inline(always)]
    fn kept(&self, index: usize, [mut i, mut f, g]: [S::F32; 3], before: S::F32) -> S::F32 {
        let s = self.s;
        let [gate, candidate, _] = self.activations;
        if let [Some(p_i), Some(p_f)] = [0, 1].map(|gate| self.peephole(gate, index)) {
            i = s.fma(p_i, before, i);
            f = s.fma(p_f, before, f);
        }
        let limit = self.preact_clip;
        if self.coupled {
            f = curves::apply(s, gate, clip(s, f, limit));
            i = s.sub(s.splat(1.0), f);
        } else {
            i = curves::apply(s, gate, clip(s, i, limit));
            f = if self.input_forget { s.sub(s.splat(1.0), i) } else { curves::apply(s, gate, clip(s, f, limit)) };
        }
        s.fma(f, before, s.mul(i, curves::apply(s, candidate, clip(s, g, limit))))
    }

    /// The output gate of a block of units, from its sums and what the peephole sees.
    #[inline(always)]
    fn opened(&self, index: usize, sums: S::F32, c: S::F32) -> S::F32 {
        let s = self.s;
        let o = self.peephole(2, index).map_or(sums, |p_o| s.fma(p_o, c, sums));
        curves::apply(s, self.activations[0], clip(s, o, self.preact_clip))
    }

    /// Of a block of units, where there are any.
    #[inline(always)]
    fn peephole(&self, gate: usize, index: usize) -> Option<S::F32> {
        let peepholes: &[S::Lanes] = bytemuck::cast_slice(self.peepholes[gate].get());
        peepholes.get(index).map(|peephole| self.s.load(peephole))
    }
}

/// Without options, of a block's sums in registers: c', and m, which is returned.
#[inline(always)]
fn usual<S: Simd>(s: S, [i, f, g, o]: [S::F32; GATES], c: &mut [f32]) -> S::F32 {
    let entered = s.mul(curves::sigmoid(s, i), curves::tanh(s, g));
    let kept = s.fma(curves::sigmoid(s, f), s.load_part(c), entered);
    s.store_part(kept, c);
    s.mul(curves::sigmoid(s, o), curves::tanh(s, kept))
}

/// Within ±`limit`; 0 is none. Not-a-number stays.
#[inline(always)]
pub(super) fn clip<S: Simd>(s: S, x: S::F32, limit: f32) -> S::F32 {
    if limit > 0.0 { s.signed(s.min(s.splat(limit), s.abs(x)), x) } else { x }
}

impl<S: Simd, W: Weight> Kernel<f32> for Lstm<S, W> {
    fn work_len(&self, steps: usize) -> usize {
        steps * self.sums_len() + Work::len(self, steps)
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
        self.s.vectorize(batch::Run(self, span));
    }
}

struct Step<'k, 's, 'e, S, W>(&'k Lstm<S, W>, &'s mut Io<'e, f32>);

impl<S: Simd, W: Weight> Task for Step<'_, '_, '_, S, W> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self(lstm, Io { x, state, work, y, odd }) = self;
        if is_masked(lstm.masked, x) {
            return y.copy_from_slice(&state[..lstm.output]);
        }
        let (s, way, start) = (lstm.s, Way::of(*odd), Some(lstm.start.get()));
        let (sums, work) = work.split_at_mut(lstm.sums_len());
        if !lstm.is_plain() {
            one(s, [(&lstm.input, x)], start, sums, way);
            return lstm.finish(&[Row { state: 0, sums: 0, y: 0 }], sums, work, state, y, way);
        }
        let (h, c) = state.split_at_mut(lstm.output);
        if lstm.usual {
            lstm.step_usual(lstm.start.get(), &x[..lstm.input.cols()], h, &mut c[..lstm.hidden], y, way);
        } else {
            one(s, [(&lstm.input, *x), (&lstm.recurrent, &*h)], start, sums, way);
            lstm.update(sums, c, y);
        }
        copy(s, y, h);
    }
}

/// All blocks of units of a layer without options, `N` at once. It has what the loop needs and no more: what does not stay in
/// registers lies on cache lines that the weights of every block drive out of the first cache.
struct Usual<'s, S: Simd, W: Weight, const N: usize> {
    s: S,
    input: &'s [[W::Lanes<S>; GATES]],
    recurrent: &'s [[W::Lanes<S>; GATES]],
    /// The bias; or the sums of what comes in, and then `x` has no columns.
    start: &'s [[S::Lanes; GATES]],
    x: &'s [f32],
    h: &'s [f32],
    c: &'s mut [f32],
    m: &'s mut [f32],
    way: Way,
}

impl<S: Simd, W: Weight, const N: usize> Task for Usual<'_, S, W, N> {
    type Output = ();

    #[inline(always)]
    fn run(mut self) {
        let turns = self.start.len() / N;
        for turn in 0..turns {
            self.blocks::<N>(N * self.way.at(turn, turns));
        }
        // The odd one comes last, whichever way.
        for rest in N * turns..self.start.len() {
            self.blocks::<1>(rest);
        }
    }
}

impl<S: Simd, W: Weight, const N: usize> Usual<'_, S, W, N> {
    /// `M` blocks.
    #[inline(always)]
    fn blocks<const M: usize>(&mut self, first: usize) {
        let s = self.s;
        let mut sums = [[s.splat(0.0); GATES]; M];
        for (sums, start) in sums.iter_mut().zip(&self.start[first..first + M]) {
            for (sum, start) in sums.iter_mut().zip(start) {
                *sum = s.load(start);
            }
        }
        sums = sums::abreast::<S, W, GATES, M>(s, (self.input, self.x), first, sums);
        sums = sums::abreast::<S, W, GATES, M>(s, (self.recurrent, self.h), first, sums);
        for (at, sums) in (first..).zip(sums) {
            let units = block(s, at, self.c.len());
            let m = usual(s, sums, &mut self.c[units.clone()]);
            s.store_part(m, &mut self.m[units]);
        }
    }
}

/// [`Step`] of a layer without options that has `C` units and as many features: how many is known when it is compiled.
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
            let m = lstm.step_block::<C>(at, x, h, &mut c[units.clone()]);
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
