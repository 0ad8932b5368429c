//! GRU ([`tidegate::internals::cell::gru`]) in floats, with the reset before or after the recurrent product, and every option.
//!
//! The products with the input are summed first. With the reset after the product, a block of units has one vector of
//! each gate, r, z, n, side by side. The recurrent weights continue the sums of r and z, and start n anew from its bias.
//! With the reset before the product, the vectors r, z of all blocks come first, and then those of n. The recurrent
//! weights continue r and z, and then n.

mod batch;

use core::ops::Range;

use tidegate::Numeric;
use tidegate::internals::{
    activation::Activation,
    cell::gru::{CLIPPED, LOW_RANK, MASKED, RESET_AFTER},
    node::Node,
};

use self::batch::Together;
use super::blocks::{Blocks, Cell, Small};
use super::{CACHE, LATENCY_BOUND_LANES, low_rank, tensor};
use crate::curves::{apply, sigmoid, tanh};
use crate::layer::{Io, Layer, Span, is_masked};
use crate::lines::Lines;
use crate::panels::{Panels, Place, Rows, WIDTH, per_row, per_unit, unit};
use crate::simd::{Simd, Task};
use crate::sums::{self, One, Way, many, one};
use crate::weight::Weight;

const GATES: usize = 3;
/// r and z
const FIRST: usize = 2;

/// A packed GRU.
pub struct Gru<S, W> {
    s: S,
    hidden: usize,
    blocks: usize,
    /// Number of units if the reset is after the product, there are no other options, and as many inputs as units;
    /// otherwise 0.
    size: usize,
    masked: bool,
    /// Whether a step sums two blocks of units at once, because the three gates of one block are too few chains. With
    /// vectors of more than [`LATENCY_BOUND_LANES`] lanes it is false if one block of f32 weights, but not two, stays in the
    /// first-level cache until the next step, which walks the blocks in the other direction.
    abreast: bool,
    input: Panels<W>,
    bias: Lines<f32>,
    recurrent: Recurrent<W>,
    /// With `low_rank`, the basis that is multiplied by h first.
    basis: Option<Panels>,
    /// Whether the activations are sigmoid and tanh, and sums are not clipped.
    usual: bool,
    update: Update<S>,
}

enum Recurrent<W> {
    /// Reset after the product: r, z, n, and the recurrent bias of n.
    After(Panels<W>, Lines<f32>),
    /// Reset before the product: r, z; then n.
    Before(Panels<W>, Panels<W>),
}

impl<S: Simd, W: Weight> Gru<S, W> {
    /// Packs a node.
    pub fn pack(node: &Node<'_>, numeric: Numeric, s: S) -> Self {
        let (hidden, lanes) = (node.hidden_size, S::LANES);
        let blocks = hidden.div_ceil(lanes);
        // The first of two matrices has r and z, the second n.
        let place = move |gates: usize, vector: usize, lane: usize| -> Place {
            let unit = unit(lanes, vector / gates, lane, hidden)?;
            Some(if vector % gates < FIRST { (0, FIRST * unit + vector % gates) } else { (1, unit) })
        };
        let after = node.has(RESET_AFTER);
        let all_gates = |vector: usize, lane: usize| {
            if after {
                place(GATES, vector, lane)
            } else if vector < FIRST * blocks {
                place(FIRST, vector, lane)
            } else {
                unit(lanes, vector - FIRST * blocks, lane, hidden).map(|unit| (1, unit))
            }
        };
        let both = |names: [&str; 2], cols| names.map(|name| Rows::of(node, numeric, tensor(node, name), cols));
        let input = both(["gate_input_weights", "new_input_weights"], node.input_size);
        let recurrent =
            both(["gate_recurrent_weights", "new_recurrent_weights"], low_rank::rank(node, LOW_RANK).unwrap_or(hidden));
        let biases = ["gate_bias", if after { "new_input_bias" } else { "new_bias" }]
            .map(|name| node.elements(tensor(node, name)));
        let recurrent = if after {
            let bias = per_unit(lanes, hidden, node.elements(tensor(node, "new_recurrent_bias")));
            Recurrent::After(Panels::new(lanes, &recurrent, (GATES, GATES * blocks), &all_gates), bias)
        } else {
            let [of_gates, of_new] = recurrent;
            let first = |vector, lane| place(FIRST, vector, lane);
            let of_gates = Panels::new(lanes, &[of_gates], (WIDTH, FIRST * blocks), &first);
            Recurrent::Before(of_gates, Panels::in_order(lanes, of_new, hidden))
        };
        let basis = low_rank::basis(node, numeric, lanes, LOW_RANK, hidden);
        let (gate, new) = (node.activation(0), node.activation(1));
        let usual = [gate, new] == [Activation::Sigmoid, Activation::Tanh] && !node.has(CLIPPED);
        let of_block = (node.input_size + hidden) * GATES * lanes * size_of::<W>();
        let is_small = after && usual && basis.is_none() && !node.has(MASKED) && node.input_size == hidden;
        Self {
            s,
            hidden,
            blocks,
            size: if is_small { hidden } else { 0 },
            masked: node.has(MASKED),
            abreast: S::LANES <= LATENCY_BOUND_LANES
                || size_of::<W>() < size_of::<f32>()
                || of_block > CACHE
                || 2 * of_block <= CACHE,
            input: Panels::new(lanes, &input, (if after { GATES } else { WIDTH }, GATES * blocks), &all_gates),
            bias: per_row(lanes, GATES * blocks, &|vector, lane| {
                let row = all_gates(vector, lane).and_then(|(of, row)| biases[of].get(row).copied());
                row.unwrap_or(0.0)
            }),
            recurrent,
            basis,
            usual,
            update: Update { s, gate, new, preact_clip: node.param(0) },
        }
    }

    /// Elements of the sums over the input.
    fn sums_len(&self) -> usize {
        self.bias.len()
    }

    /// Elements of the sums over h: r, z, n; with the reset before the product, also of r ⊙ h, which follows them.
    fn recurrent_len(&self) -> usize {
        let product = if matches!(self.recurrent, Recurrent::Before(..)) { self.blocks * S::LANES } else { 0 };
        self.sums_len() + product
    }

    /// Whether a span is one step of enough sequences that their sums need not be stored.
    fn is_together(&self, span: &Span<'_, f32>) -> bool {
        span.time == 1 && span.lens.len() >= S::ROWS && self.usual && self.basis.is_none()
    }

    /// Elements of the operand of the recurrent weights with `low_rank`.
    fn seen_len(&self) -> usize {
        low_rank::seen_len(self.s, self.basis.as_ref())
    }

    /// The operand of the recurrent weights for h or r ⊙ h.
    fn seen<'a>(&self, h: &'a [f32], to: &'a mut [f32], way: Way) -> &'a [f32] {
        low_rank::seen(self.s, self.basis.as_ref(), h, to, way).unwrap_or(h)
    }

    /// Adds the recurrent products of `rows` of `h` to their sums.
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
            one(self.s, (matrix, seen), None, &mut sums[to..], way);
        }
    }

    /// Initial recurrent sums: those over the input, and the recurrent bias of n with the reset after the product.
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
            Recurrent::Before(..) => of_state.copy_from_slice(sums),
        }
    }

    /// One step with the reset after the product, from `start`. Writes h' to `h` and `y`.
    fn step_blocks(
        &self,
        (matrix, new_bias): (&Panels<W>, &Lines<f32>),
        start: &[f32],
        x: &[f32],
        (h, seen): (&mut [f32], &mut [f32]),
        y: &mut [f32],
        way: Way,
    ) {
        let start: &[S::Lanes] = bytemuck::cast_slice(start);
        let (s, input, recurrent, start) = (self.s, self.input.all(), matrix.all(), start.as_chunks().0);
        let seen = low_rank::seen(s, self.basis.as_ref(), h, seen, way).map(|seen| &seen[..matrix.cols()]);
        let bias = bytemuck::cast_slice(new_bias.get());
        let (update, abreast) = (&self.update, self.abreast);
        if self.usual {
            let cell = Reset::<S, true> { bias, update };
            s.call(Blocks::<S, W, _, GATES> { s, input, recurrent, start, x, seen, h, y, way, abreast, cell });
        } else {
            let cell = Reset::<S, false> { bias, update };
            s.call(Blocks::<S, W, _, GATES> { s, input, recurrent, start, x, seen, h, y, way, abreast, cell });
        }
    }
}

/// A step of a layer of `U` units without options, with the reset after the product. The slices are unpacked inside the
/// task, so that they need not pass through memory.
struct SmallStep<'k, 's, 'e, S, W, const U: usize>(&'k Gru<S, W>, &'s mut Io<'e, f32>);

impl<S: Simd, W: Weight, const U: usize> Task for SmallStep<'_, '_, '_, S, W, U> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self(Gru { s, input, bias, recurrent, update, .. }, Io { x, state: h, y, odd, .. }) = self;
        let Recurrent::After(recurrent, new_bias) = recurrent else { return };
        let (s, way) = (*s, Way::of(*odd));
        let cell = Reset::<S, true> { bias: bytemuck::cast_slice(new_bias.get()), update };
        Small::<S, W, _, GATES, U> { s, input, recurrent, bias: bias.get(), x, h, y, way, cell }.run();
    }
}

/// The cell with the reset after the product. Without options (`USUAL`), the activations are constants.
struct Reset<'s, S: Simd, const USUAL: bool> {
    /// The recurrent bias of n.
    bias: &'s [S::Lanes],
    update: &'s Update<S>,
}

impl<S: Simd, const USUAL: bool> Cell<S, GATES> for Reset<'_, S, USUAL> {
    const RESTARTS: bool = true;

    #[inline(always)]
    fn sized(self, _: usize) -> Self {
        self
    }

    #[inline(always)]
    fn restart(&self, s: S, block: usize, sums: &mut [S::F32; GATES]) -> S::F32 {
        core::mem::replace(&mut sums[FIRST], s.load(&self.bias[block]))
    }

    #[inline(always)]
    fn update(&mut self, s: S, _: Range<usize>, sums: [S::F32; GATES], n: S::F32, h: &[f32]) -> S::F32 {
        let h = s.load_part(h);
        if USUAL { usual(s, n, sums, h) } else { self.update.after(n, sums, h) }
    }
}

/// h' without options, with the reset after the product, from n's sums over the input and all sums over h.
#[inline(always)]
fn usual<S: Simd>(s: S, n: S::F32, [r, z, hn]: [S::F32; GATES], h: S::F32) -> S::F32 {
    mix(s, sigmoid(s, z), tanh(s, s.fma(sigmoid(s, r), hn, n)), h)
}

/// h' = z ⊙ h + (1 - z) ⊙ n
#[inline(always)]
fn mix<S: Simd>(s: S, z: S::F32, n: S::F32, h: S::F32) -> S::F32 {
    s.fma(z, h, s.mul(s.sub(s.splat(1.0), z), n))
}

/// The update from sums to h', with any options.
struct Update<S> {
    s: S,
    gate: Activation,
    new: Activation,
    /// 0 for none.
    preact_clip: f32,
}

impl<S: Simd> Update<S> {
    /// r and z from their sums.
    #[inline(always)]
    fn gates(&self, [r, z]: [S::F32; FIRST]) -> [S::F32; FIRST] {
        let &Self { s, gate, preact_clip, .. } = self;
        [apply(s, gate, preact_clip, r), apply(s, gate, preact_clip, z)]
    }

    /// h' with the reset after the product, from n's sums over the input and all sums over h.
    #[inline(always)]
    fn after(&self, n: S::F32, [r, z, hn]: [S::F32; GATES], h: S::F32) -> S::F32 {
        let [r, z] = self.gates([r, z]);
        self.mixed(z, self.s.fma(r, hn, n), h)
    }

    /// h' from z, the sums of n, and h.
    #[inline(always)]
    fn mixed(&self, z: S::F32, n: S::F32, h: S::F32) -> S::F32 {
        mix(self.s, z, apply(self.s, self.new, self.preact_clip, n), h)
    }
}

/// The cell with the reset after the product: writes h' to `h` and `y`.
struct After<'s, S> {
    update: &'s Update<S>,
    sums: &'s [f32],
    of_state: &'s [f32],
    h: &'s mut [f32],
    y: &'s mut [f32],
}

impl<S: Simd> Task for After<'_, S> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { update, sums, of_state, h, y } = self;
        let s = update.s;
        let blocks = sums.chunks_exact(GATES * S::LANES).zip(of_state.chunks_exact(GATES * S::LANES));
        for ((sums, of_state), (h, y)) in blocks.zip(h.chunks_mut(S::LANES).zip(y.chunks_mut(S::LANES))) {
            let [_, _, n]: [_; GATES] = sums::load(s, sums);
            let mixed = update.after(n, sums::load(s, of_state), s.load_part(h));
            s.store_part(mixed, h);
            s.store_part(mixed, y);
        }
    }
}

/// One step with the reset before the product.
struct StepBefore<'k, 's, S, W> {
    gru: &'k Gru<S, W>,
    of_gates: &'k Panels<W>,
    of_new: &'k Panels<W>,
    x: &'s [f32],
    h: &'s mut [f32],
    of_state: &'s mut [f32],
    product: &'s mut [f32],
    seen: &'s mut [f32],
    y: &'s mut [f32],
    way: Way,
}

impl<S: Simd, W: Weight> Task for StepBefore<'_, '_, S, W> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { gru, of_gates, of_new, x, h, of_state, product, seen, y, way } = self;
        let (s, update, start) = (gru.s, &gru.update, Some(gru.bias.get()));
        One { s, parts: [(&gru.input, x)], start, sums: &mut *of_state, way, then: None }.run();
        let (gates, sums) = of_state.split_at_mut(FIRST * gru.blocks * S::LANES);
        let parts = [(of_gates, gru.seen(h, seen, way))];
        One { s, parts, start: None, sums: &mut *gates, way, then: None }.run();
        ResetBefore { update, gates, h, product: &mut *product }.run();
        let parts = [(of_new, gru.seen(product, seen, way))];
        One { s, parts, start: None, sums, way, then: None }.run();
        FinishBefore { update, of_state, h, y }.run();
    }
}

/// The first half of the cell with the reset before the product: replaces the sums of z by z, and writes r ⊙ h.
struct ResetBefore<'s, S> {
    update: &'s Update<S>,
    gates: &'s mut [f32],
    h: &'s [f32],
    product: &'s mut [f32],
}

impl<S: Simd> Task for ResetBefore<'_, S> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { update, gates, h, product } = self;
        let s = update.s;
        let blocks = gates.chunks_exact_mut(FIRST * S::LANES);
        for (gates, (h, product)) in blocks.zip(h.chunks(S::LANES).zip(product.chunks_mut(S::LANES))) {
            let [r, z] = update.gates(sums::load(s, gates));
            s.store_part(z, &mut gates[S::LANES..]);
            s.store_part(s.mul(r, s.load_part(h)), product);
        }
    }
}

/// The second half of the cell with the reset before the product: writes h' to `h` and `y`. It reads r and z of all
/// units, followed by the sums of n.
struct FinishBefore<'s, S> {
    update: &'s Update<S>,
    of_state: &'s [f32],
    h: &'s mut [f32],
    y: &'s mut [f32],
}

impl<S: Simd> Task for FinishBefore<'_, S> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { update, of_state, h, y } = self;
        let s = update.s;
        let (gates, new) = of_state.split_at(of_state.len() / GATES * FIRST);
        let blocks = gates.chunks_exact(FIRST * S::LANES).zip(new.chunks_exact(S::LANES));
        for ((gates, new), (h, y)) in blocks.zip(h.chunks_mut(S::LANES).zip(y.chunks_mut(S::LANES))) {
            let ([_, z], [n]) = (sums::load(s, gates), sums::load(s, new));
            let mixed = update.mixed(z, n, s.load_part(h));
            s.store_part(mixed, h);
            s.store_part(mixed, y);
        }
    }
}

impl<S: Simd, W: Weight> Layer<f32> for Gru<S, W> {
    fn work_len(&self, steps: usize) -> usize {
        steps * (self.sums_len() + self.recurrent_len() + self.seen_len())
    }

    fn step(&self, mut io: Io<'_, f32>) {
        match self.size {
            8 => return self.s.vectorize(SmallStep::<S, W, 8>(self, &mut io)),
            16 => return self.s.vectorize(SmallStep::<S, W, 16>(self, &mut io)),
            32 => return self.s.vectorize(SmallStep::<S, W, 32>(self, &mut io)),
            _ => {}
        }
        let Io { x, state: h, work, y, odd } = io;
        if is_masked(self.masked, x) {
            return y.copy_from_slice(h);
        }
        let (s, way) = (self.s, Way::of(odd));
        let (of_state, work) = work.split_at_mut(self.sums_len());
        let (product, seen) = work.split_at_mut(self.recurrent_len() - self.sums_len());
        match &self.recurrent {
            Recurrent::After(matrix, new_bias) => {
                let x = &x[..self.input.cols()];
                self.step_blocks((matrix, new_bias), self.bias.get(), x, (&mut h[..self.hidden], seen), y, way);
            }
            Recurrent::Before(of_gates, of_new) => {
                let product = &mut product[..self.hidden];
                s.call(StepBefore { gru: self, of_gates, of_new, x, h, of_state, product, seen, y, way });
            }
        }
    }

    /// One step of many sequences runs in [`batch`]. Otherwise the scratch holds the sums over the input, `[sequence][time]`,
    /// the sums over h, `[sequence]`, and r ⊙ h, `[sequence]`. With `low_rank`, rows are processed one at a time.
    fn run(&self, span: &mut Span<'_, f32>) {
        let (s, len, batch) = (self.s, self.sums_len(), span.lens.len());
        let product_len = self.recurrent_len() - len;
        if let (Recurrent::After(recurrent, new_bias), true) = (&self.recurrent, self.is_together(span)) {
            span.rows_at(0, self.masked);
            return s.call(Together { gru: self, recurrent, new_bias, span });
        }
        span.rows_of_inputs(len, self.masked);
        let x = span.source.unwrap_or(span.memory);
        many(self.s, &self.input, x, Some(self.bias.get()), span.work, span.rows, Way::Up);
        for t in 0..span.time {
            let way = Way::of(t % 2 == 1);
            span.rows_of_states(t, len, self.masked);
            if let (&[(state, sums)], Recurrent::After(matrix, new_bias)) = (&span.rows[..], &self.recurrent) {
                let y = span.y(span.sequence_of(state), t);
                let (of_input, work) = span.work.split_at_mut(batch * span.time * len);
                let (h, y) = (&mut span.states[state..][..self.hidden], &mut span.memory[y]);
                self.step_blocks((matrix, new_bias), &of_input[sums..][..len], &[], (h, work), y, way);
                continue;
            }
            let (sums, work) = span.work.split_at_mut(batch * span.time * len);
            let (of_states, work) = work.split_at_mut(batch * len);
            let (products, seen) = work.split_at_mut(batch * product_len);
            for row in span.rows.iter_mut() {
                let own = (row.0 - span.state.start) / span.state_stride * len;
                self.begin(&sums[row.1..row.1 + len], &mut of_states[own..own + len]);
                row.1 = own;
            }
            let (output, lens) = (span.output, span.lens);
            let outputs = |state: usize| {
                let sequence = (state - span.state.start) / span.state_stride;
                (sequence * span.time + t, sequence)
            };
            match &self.recurrent {
                Recurrent::After(matrix, _) => {
                    self.sum(matrix, span.states, of_states, span.rows, seen, way);
                    for &(state, own) in span.rows.iter() {
                        let (index, sequence) = outputs(state);
                        let y = output.at(lens, sequence, t);
                        let (h, y) = (&mut span.states[state..state + self.hidden], &mut span.memory[y]);
                        let (sums, of_state) = (&sums[index * len..(index + 1) * len], &mut of_states[own..own + len]);
                        s.call(After { update: &self.update, sums, of_state, h, y });
                    }
                }
                Recurrent::Before(of_gates, of_new) => {
                    let gates_len = FIRST * self.blocks * S::LANES;
                    self.sum(of_gates, span.states, of_states, span.rows, seen, way);
                    for row in span.rows.iter_mut() {
                        let (_, sequence) = outputs(row.0);
                        let (state, at) = (row.0, sequence * product_len);
                        let gates = &mut of_states[row.1..row.1 + gates_len];
                        let h = &span.states[state..state + self.hidden];
                        let product = &mut products[at..at + self.hidden];
                        s.call(ResetBefore { update: &self.update, gates, h, product });
                        *row = (at, row.1 + gates_len);
                    }
                    self.sum(of_new, products, of_states, span.rows, seen, way);
                    for &(product, new) in span.rows.iter() {
                        let sequence = product / product_len;
                        let (state, own) = (sequence * span.state_stride + span.state.start, new - gates_len);
                        let y = output.at(lens, sequence, t);
                        let (h, y) = (&mut span.states[state..state + self.hidden], &mut span.memory[y]);
                        s.call(FinishBefore { update: &self.update, of_state: &of_states[own..own + len], h, y });
                    }
                }
            }
        }
    }
}
