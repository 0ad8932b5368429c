//! GRU ([`tidegate::cell::gru`]) in f32, the reset before the product or after it, with every option.
//!
//! A block of units has a vector of each gate, r, z, n, side by side. What the input gives them is summed first. After the
//! product, the recurrent weights go on with r and z, and begin n anew from its bias; before, they go on with r and z, and
//! then with n.

use tidegate::Numeric;
use tidegate::activation::Activation;
use tidegate::cell::gru::{CLIPPED, LOW_RANK, MASKED, RESET_AFTER};
use tidegate::node::Node;

use super::lstm::clip;
use super::{CACHE, Io, Kernel, Span, block, copy, is_masked, low_rank, tensor};
use crate::curves;
use crate::lines::Lines;
use crate::panels::{Panels, Place, Rows, WIDTH, per_row, unit};
use crate::simd::{Simd, Task};
use crate::sums::{self, Way, many, one};
use crate::weight::Weight;

const GATES: usize = 3;
/// r and z
const FIRST: usize = 2;

pub struct Gru<S, W> {
    s: S,
    hidden: usize,
    blocks: usize,
    /// Of a layer that has no option set but the place of its reset, after the product, and as many features as units: how
    /// many. Else 0.
    size: usize,
    masked: bool,
    /// Whether a step sums two blocks of units at once: three gates alone are too few chains. Not where one block of f32 stays
    /// in the first cache until the next step, which turns round there, and two do not; what is widened is no faster there.
    abreast: bool,
    input: Panels<W>,
    bias: Lines<f32>,
    recurrent: Recurrent<W>,
    /// What makes of h what the recurrent weights see, with `low_rank`.
    basis: Option<Panels>,
    /// No option is set but the mask and the place of the reset: sigmoid and tanh alone.
    usual: bool,
    gate: Activation,
    new: Activation,
    /// 0: none.
    preact_clip: f32,
}

enum Recurrent<W> {
    /// r, z, n, and the bias of n.
    After(Panels<W>, Lines<f32>),
    /// r, z; then n.
    Before(Panels<W>, Panels<W>),
}

impl<S: Simd, W: Weight> Gru<S, W> {
    pub fn pack(node: &Node<'_>, numeric: Numeric, s: S) -> Self {
        let hidden = node.hidden_size;
        let blocks = hidden.div_ceil(S::LANES);
        // Of two matrices, the first of r and z, the second of n.
        let place = move |gates: usize, vector: usize, lane: usize| -> Place {
            let unit = unit(s, vector / gates, lane, hidden)?;
            Some(if vector % gates < FIRST { (0, FIRST * unit + vector % gates) } else { (1, unit) })
        };
        let both = |names: [&str; 2], cols| names.map(|name| Rows::of(node, numeric, tensor(node, name), cols));
        let input = both(["gate_input_weights", "new_input_weights"], node.input_size);
        let recurrent =
            both(["gate_recurrent_weights", "new_recurrent_weights"], low_rank::rank(node, LOW_RANK).unwrap_or(hidden));
        let after = node.has(RESET_AFTER);
        let biases = ["gate_bias", if after { "new_input_bias" } else { "new_bias" }]
            .map(|name| node.elements(tensor(node, name)));
        let new_bias = node.elements(tensor(node, "new_recurrent_bias"));
        let alone = |vector, lane| unit(s, vector, lane, hidden);
        let recurrent = if after {
            let panels = Panels::new(s, &recurrent, (GATES, GATES * blocks), |vector, lane| place(GATES, vector, lane));
            let bias = per_row(s, blocks, |vector, lane| {
                alone(vector, lane).and_then(|unit| new_bias.get(unit).copied()).unwrap_or(0.0)
            });
            Recurrent::After(panels, bias)
        } else {
            let [of_gates, of_new] = recurrent;
            Recurrent::Before(
                Panels::new(s, &[of_gates], (WIDTH, FIRST * blocks), |vector, lane| place(FIRST, vector, lane)),
                Panels::new(s, &[of_new], (WIDTH, blocks), |vector, lane| alone(vector, lane).map(|unit| (0, unit))),
            )
        };
        let activations = [node.activation(0), node.activation(1)];
        let basis = low_rank::basis(node, numeric, s, LOW_RANK, hidden);
        let usual = activations == [Activation::Sigmoid, Activation::Tanh] && !node.has(CLIPPED) && basis.is_none();
        let of_block = (node.input_size + hidden) * GATES * S::LANES * size_of::<W>();
        let is_small = after && usual && !node.has(MASKED) && node.input_size == hidden;
        Self {
            s,
            hidden,
            blocks,
            size: if is_small { hidden } else { 0 },
            masked: node.has(MASKED),
            abreast: size_of::<W>() < size_of::<f32>() || of_block > CACHE || 2 * of_block <= CACHE,
            input: Panels::new(s, &input, (GATES, GATES * blocks), |vector, lane| place(GATES, vector, lane)),
            bias: per_row(s, GATES * blocks, |vector, lane| {
                let row = place(GATES, vector, lane).and_then(|(of, row)| biases[of].get(row).copied());
                row.unwrap_or(0.0)
            }),
            recurrent,
            basis,
            usual,
            gate: activations[0],
            new: activations[1],
            preact_clip: node.param(0),
        }
    }

    /// Elements of the sums of what comes in.
    fn sums_len(&self) -> usize {
        self.bias.len()
    }

    /// Elements of the sums of what is carried: r, z, n. Before the product, r ⊙ h lies behind them.
    fn recurrent_len(&self) -> usize {
        let product = if matches!(self.recurrent, Recurrent::Before(..)) { self.blocks * S::LANES } else { 0 };
        self.sums_len() + product
    }

    /// Elements of what the recurrent weights see with `low_rank`.
    fn seen_len(&self) -> usize {
        low_rank::seen_len(self.s, self.basis.as_ref())
    }

    /// What they see of h, or of r ⊙ h.
    #[inline(always)]
    fn seen<'a>(&self, h: &'a [f32], to: &'a mut [f32], way: Way) -> &'a [f32] {
        low_rank::seen(self.s, self.basis.as_ref(), h, to, way)
    }

    /// Goes on with the sums of rows, by what the recurrent weights see of `h` there.
    #[inline(always)]
    fn sum(
        &self,
        matrix: &Panels<W>,
        h: &[f32],
        sums: &mut [f32],
        rows: &[(usize, usize)],
        seen: &mut [f32],
        way: Way,
    ) {
        if self.basis.is_none() {
            return many(self.s, matrix, h, None, sums, rows, way);
        }
        for &(from, to) in rows {
            let seen = self.seen(&h[from..from + self.hidden], seen, way);
            one(self.s, [(matrix, seen)], None, &mut sums[to..], way);
        }
    }

    /// What the recurrent sums start from: those of what comes in, and for n its own bias, or nothing yet.
    #[inline(always)]
    fn begin(&self, sums: &[f32], of_state: &mut [f32]) {
        let lanes = S::LANES;
        match &self.recurrent {
            Recurrent::After(_, bias) => {
                let blocks = sums.chunks_exact(GATES * lanes).zip(of_state.chunks_exact_mut(GATES * lanes));
                for ((sums, of_state), bias) in blocks.zip(bias.get().chunks_exact(lanes)) {
                    of_state[..FIRST * lanes].copy_from_slice(&sums[..FIRST * lanes]);
                    of_state[FIRST * lanes..].copy_from_slice(bias);
                }
            }
            Recurrent::Before(..) => {
                let (gates, new) = of_state.split_at_mut(FIRST * self.blocks * lanes);
                let blocks = gates.chunks_exact_mut(FIRST * lanes).zip(new.chunks_exact_mut(lanes));
                for (sums, (gates, new)) in sums.chunks_exact(GATES * lanes).zip(blocks) {
                    gates.copy_from_slice(&sums[..FIRST * lanes]);
                    new.copy_from_slice(&sums[FIRST * lanes..]);
                }
            }
        }
    }

    /// After the product: h' and y.
    #[inline(always)]
    fn finish_after(&self, sums: &[f32], of_state: &[f32], h: &mut [f32], y: &mut [f32]) {
        let s = self.s;
        let blocks = sums.chunks_exact(GATES * S::LANES).zip(of_state.chunks_exact(GATES * S::LANES));
        for ((sums, of_state), (h, y)) in blocks.zip(h.chunks_mut(S::LANES).zip(y.chunks_mut(S::LANES))) {
            let [_, _, n]: [S::F32; GATES] = sums::load(s, sums);
            let mixed = self.update_after(n, sums::load(s, of_state), s.load_part(h));
            s.store_part(mixed, h);
            s.store_part(mixed, y);
        }
    }

    /// After the product, of the units of a block: what the input gives n, and the sums that the state completes.
    #[inline(always)]
    fn sums_after<const C: usize>(
        &self,
        (matrix, new_bias): (&Panels<W>, &Lines<f32>),
        at: usize,
        x: &[f32],
        h: &[f32],
    ) -> (S::F32, [S::F32; GATES]) {
        let s = self.s;
        let bias = sums::load(s, &self.bias.get()[at * GATES * S::LANES..]);
        let [r, z, n] = sums::panel::<S, W, GATES, 1, C>(s, [(&self.input, x)], at, bias);
        let [of_new] = sums::load(s, &new_bias.get()[at * S::LANES..]);
        (n, sums::panel::<S, W, GATES, 1, C>(s, [(matrix, h)], at, [r, z, of_new]))
    }

    /// And from them h'.
    #[inline(always)]
    fn update_after(&self, n: S::F32, [r, z, hn]: [S::F32; GATES], h: S::F32) -> S::F32 {
        let s = self.s;
        let r = curves::apply(s, self.gate, clip(s, r, self.preact_clip));
        let z = curves::apply(s, self.gate, clip(s, z, self.preact_clip));
        mix(s, z, curves::apply(s, self.new, clip(s, s.fma(r, hn, n), self.preact_clip)), h)
    }

    /// After the product, all blocks of a layer without options, on from `start`: h', which is y.
    #[inline(always)]
    fn step_usual(
        &self,
        (matrix, new_bias): (&Panels<W>, &Lines<f32>),
        start: &[f32],
        x: &[f32],
        h: &[f32],
        y: &mut [f32],
        way: Way,
    ) {
        let (start, new_start): (&[S::Lanes], _) = (bytemuck::cast_slice(start), bytemuck::cast_slice(new_bias.get()));
        let (s, input, recurrent, start) = (self.s, self.input.all(), matrix.all(), start.as_chunks().0);
        if self.abreast {
            s.call(Usual::<S, W, 2> { s, input, recurrent, start, new_start, x, h, y, way });
        } else {
            s.call(Usual::<S, W, 1> { s, input, recurrent, start, new_start, x, h, y, way });
        }
    }

    /// Before the product: z in the place of its sums, and r ⊙ h.
    #[inline(always)]
    fn reset_before(&self, gates: &mut [f32], h: &[f32], product: &mut [f32]) {
        let s = self.s;
        let (gates, _) = bytemuck::cast_slice_mut::<f32, S::Lanes>(gates).as_chunks_mut::<FIRST>();
        for (([r, z], h), product) in gates.iter_mut().zip(h.chunks(S::LANES)).zip(product.chunks_mut(S::LANES)) {
            let reset = curves::apply(s, self.gate, clip(s, s.load(r), self.preact_clip));
            s.store_part(s.mul(reset, s.load_part(h)), product);
            s.store(curves::apply(s, self.gate, clip(s, s.load(z), self.preact_clip)), z);
        }
    }

    /// Before the product: h' and y.
    #[inline(always)]
    fn finish_before(&self, of_state: &[f32], h: &mut [f32], y: &mut [f32]) {
        let s = self.s;
        let (gates, new) = of_state.split_at(FIRST * self.blocks * S::LANES);
        let (gates, _) = bytemuck::cast_slice::<f32, S::Lanes>(gates).as_chunks::<FIRST>();
        let units = h.chunks_mut(S::LANES).zip(y.chunks_mut(S::LANES));
        for (([_, z], n), (h, y)) in gates.iter().zip(new.chunks_exact(S::LANES)).zip(units) {
            let new = curves::apply(s, self.new, clip(s, s.load_part(n), self.preact_clip));
            let mixed = mix(s, s.load(z), new, s.load_part(h));
            s.store_part(mixed, h);
            s.store_part(mixed, y);
        }
    }
}

/// After the product, without options: h' of what the input gives n, and of the sums that the state completes.
#[inline(always)]
fn usual<S: Simd>(s: S, n: S::F32, [r, z, hn]: [S::F32; GATES], h: S::F32) -> S::F32 {
    mix(s, curves::sigmoid(s, z), curves::tanh(s, s.fma(curves::sigmoid(s, r), hn, n)), h)
}

/// h' = z ⊙ h + (1 - z) ⊙ n
#[inline(always)]
fn mix<S: Simd>(s: S, z: S::F32, n: S::F32, h: S::F32) -> S::F32 {
    s.fma(z, h, s.mul(s.sub(s.splat(1.0), z), n))
}

impl<S: Simd, W: Weight> Kernel<f32> for Gru<S, W> {
    fn work_len(&self, steps: usize) -> usize {
        steps * (self.sums_len() + self.recurrent_len() + self.seen_len())
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

struct Step<'k, 's, 'e, S, W>(&'k Gru<S, W>, &'s mut Io<'e, f32>);

impl<S: Simd, W: Weight> Task for Step<'_, '_, '_, S, W> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self(gru, Io { x, state: h, work, y, odd }) = self;
        if is_masked(gru.masked, x) {
            return y.copy_from_slice(h);
        }
        let (s, way) = (gru.s, Way::of(*odd));
        if let (Recurrent::After(matrix, new_bias), true) = (&gru.recurrent, gru.usual) {
            gru.step_usual((matrix, new_bias), gru.bias.get(), &x[..gru.input.cols()], &h[..gru.hidden], y, way);
            return copy(s, y, h);
        }
        let (sums, work) = work.split_at_mut(gru.sums_len());
        let (of_state, work) = work.split_at_mut(gru.sums_len());
        let (product, seen) = work.split_at_mut(gru.recurrent_len() - gru.sums_len());
        one(gru.s, [(&gru.input, x)], Some(gru.bias.get()), sums, way);
        gru.begin(sums, of_state);
        match &gru.recurrent {
            Recurrent::After(matrix, _) => {
                one(gru.s, [(matrix, gru.seen(h, seen, way))], None, of_state, way);
                gru.finish_after(sums, of_state, h, y);
            }
            Recurrent::Before(of_gates, of_new) => {
                let (gates, new) = of_state.split_at_mut(FIRST * gru.blocks * S::LANES);
                one(gru.s, [(of_gates, gru.seen(h, seen, way))], None, gates, way);
                let product = &mut product[..gru.hidden];
                gru.reset_before(gates, h, product);
                one(gru.s, [(of_new, gru.seen(product, seen, way))], None, new, way);
                gru.finish_before(of_state, h, y);
            }
        }
    }
}

/// After the product, all blocks of units of a layer without options, `N` at once. It has what the loop needs and no more, as
/// an LSTM's.
struct Usual<'s, S: Simd, W: Weight, const N: usize> {
    s: S,
    input: &'s [[W::Lanes<S>; GATES]],
    recurrent: &'s [[W::Lanes<S>; GATES]],
    /// The bias; or the sums of what comes in, and then `x` has no columns.
    start: &'s [[S::Lanes; GATES]],
    new_start: &'s [S::Lanes],
    x: &'s [f32],
    h: &'s [f32],
    y: &'s mut [f32],
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
        let mut new = [s.splat(0.0); M];
        for ((new, sums), start) in new.iter_mut().zip(&mut sums).zip(&self.new_start[first..first + M]) {
            *new = core::mem::replace(&mut sums[FIRST], s.load(start));
        }
        sums = sums::abreast::<S, W, GATES, M>(s, (self.recurrent, self.h), first, sums);
        for (at, (new, sums)) in (first..).zip(new.into_iter().zip(sums)) {
            let units = block(s, at, self.h.len());
            let mixed = usual(s, new, sums, s.load_part(&self.h[units.clone()]));
            s.store_part(mixed, &mut self.y[units]);
        }
    }
}

/// [`Step`] after the product, of a layer without options that has `C` units and as many features: what it needs of them is
/// known.
struct Small<'k, 's, 'e, S, W, const C: usize>(&'k Gru<S, W>, &'s mut Io<'e, f32>);

impl<S: Simd, W: Weight, const C: usize> Task for Small<'_, '_, '_, S, W, C> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self(gru, Io { x, state, y, odd, .. }) = self;
        let Recurrent::After(matrix, new_bias) = &gru.recurrent else { return };
        let (Some(x), Some(h), Some(y)) =
            (x.first_chunk::<C>(), state.first_chunk_mut::<C>(), y.first_chunk_mut::<C>())
        else {
            return;
        };
        let (s, way, blocks) = (gru.s, Way::of(*odd), C.div_ceil(S::LANES));
        for turn in 0..blocks {
            let at = way.at(turn, blocks);
            let units = block(s, at, C);
            let (n, of_state) = gru.sums_after::<C>((matrix, new_bias), at, x, h);
            let mixed = usual(s, n, of_state, s.load_part(&h[units.clone()]));
            s.store_part(mixed, &mut y[units.clone()]);
            if blocks == 1 {
                s.store_part(mixed, &mut h[units]);
            }
        }
        if blocks > 1 {
            copy(s, y, h);
        }
    }
}

struct Run<'k, 'r, 's, S, W>(&'k Gru<S, W>, &'r mut Span<'s, f32>);

impl<S: Simd, W: Weight> Task for Run<'_, '_, '_, S, W> {
    type Output = ();

    /// Sums of what comes in lie `[sequence][time]`, those of what is carried behind them, `[sequence]`, and behind those
    /// r ⊙ h, `[sequence]`. With `low_rank` rows go by themselves.
    #[inline(always)]
    fn run(self) {
        let Self(gru, span) = self;
        let (len, batch) = (gru.sums_len(), span.lens.len());
        let product_len = gru.recurrent_len() - len;
        span.rows_of_inputs(len, gru.masked);
        let x = span.source.unwrap_or(span.memory);
        many(gru.s, &gru.input, x, Some(gru.bias.get()), span.work, span.rows, Way::Up);
        for t in 0..span.time {
            let way = Way::of(t % 2 == 1);
            span.rows_of_states(t, len, gru.masked);
            if let (&[(state, sums)], Recurrent::After(matrix, new_bias), true) =
                (&span.rows[..], &gru.recurrent, gru.usual)
            {
                let y = span.y(span.sequence_of(state), t);
                let (h, y) = (&mut span.states[state..][..gru.hidden], &mut span.memory[y]);
                gru.step_usual((matrix, new_bias), &span.work[sums..][..len], &[], h, y, way);
                copy(gru.s, y, h);
                continue;
            }
            let (sums, work) = span.work.split_at_mut(batch * span.time * len);
            let (of_states, work) = work.split_at_mut(batch * len);
            let (products, seen) = work.split_at_mut(batch * product_len);
            for row in span.rows.iter_mut() {
                let own = (row.0 - span.state.start) / span.state_stride * len;
                gru.begin(&sums[row.1..row.1 + len], &mut of_states[own..own + len]);
                row.1 = own;
            }
            let (output, lens) = (span.output, span.lens);
            let outputs = |state: usize| {
                let sequence = (state - span.state.start) / span.state_stride;
                (sequence * span.time + t, sequence)
            };
            match &gru.recurrent {
                Recurrent::After(matrix, _) => {
                    gru.sum(matrix, span.states, of_states, span.rows, seen, way);
                    for &(state, own) in span.rows.iter() {
                        let (index, sequence) = outputs(state);
                        let y = output.at(lens, sequence, t);
                        let (h, y) = (&mut span.states[state..state + gru.hidden], &mut span.memory[y]);
                        gru.finish_after(&sums[index * len..(index + 1) * len], &of_states[own..own + len], h, y);
                    }
                }
                Recurrent::Before(of_gates, of_new) => {
                    let gates_len = FIRST * gru.blocks * S::LANES;
                    gru.sum(of_gates, span.states, of_states, span.rows, seen, way);
                    for row in span.rows.iter_mut() {
                        let (_, sequence) = outputs(row.0);
                        let (state, product) = (row.0, sequence * product_len);
                        let gates = &mut of_states[row.1..row.1 + gates_len];
                        let h = &span.states[state..state + gru.hidden];
                        gru.reset_before(gates, h, &mut products[product..product + gru.hidden]);
                        *row = (product, row.1 + gates_len);
                    }
                    gru.sum(of_new, products, of_states, span.rows, seen, way);
                    for &(product, new) in span.rows.iter() {
                        let sequence = product / product_len;
                        let (state, own) = (sequence * span.state_stride + span.state.start, new - gates_len);
                        let y = output.at(lens, sequence, t);
                        let (h, y) = (&mut span.states[state..state + gru.hidden], &mut span.memory[y]);
                        gru.finish_before(&of_states[own..own + len], h, y);
                    }
                }
            }
        }
    }
}
