//! The GRU, with the reset before or after the product, in integers.

use tidegate::internals::{
    node::Node,
    quant::{MAX, ONE},
};

use super::curve::{Activation, clamp, from_q15, sigmoid, tanh};
use super::panels::{Gate, Panels, turn, units};
use super::sequence::{Cell, ROWS, Rest, Run, before, of_input};
use super::sums::{Beside, Blocks, Nothing, Sums, at_once, here};
use super::{Integers, Names, has};
use crate::layer::{FEW, Io, Layer, Span};
use crate::simd::Task;

/// Tensors of r and z: weights, and the numbers of their rows.
const GATE_PARTS: &[&str] = &["gate_input_weights", "gate_recurrent_weights"];
const GATE_ROWS: &[&str] = &["gate_rows"];
/// Tensors of n: weights, and the numbers of its rows with the reset before and after the product.
const NEW_PARTS: &[&str] = &["new_input_weights", "new_recurrent_weights"];
const NEW_ROWS: &[&str] = &["new_rows"];
const NEW_ROWS_APART: &[&str] = &["new_input_rows", "new_recurrent_rows"];

/// Rows per unit: r, z and n with the reset after the product; r and z, then n with the reset before it.
const AFTER: usize = 3;
const GATES: usize = 2;
const NEW: usize = 1;

/// Independent chains of sums for r and z, and for n, enough to hide the latency of a product.
const GATE_CHAINS: usize = 2;
const NEW_CHAINS: usize = 4;

/// A packed GRU.
pub struct Gru<'m, S> {
    simd: S,
    /// r and z; also n with the reset after the product.
    gates: Panels,
    /// n with the reset before the product.
    new: Option<Panels>,
    masked: bool,
    /// Whether the activations are σ and tanh.
    is_plain: bool,
    gate: Activation<'m>,
    candidate: Activation<'m>,
}

impl<'m, S: Integers> Gru<'m, S> {
    /// Packs a node.
    pub fn new(node: &Node<'m>, simd: S) -> Option<Self> {
        let (hidden, columns, names) = (node.hidden_size, [node.input_size, node.hidden_size], Names::of(node)?);
        let [r, z] = Gate::all(GATE_PARTS, GATE_ROWS);
        let panels = |gates: &[Gate], first| Panels::new(node, simd, gates, hidden, columns, Some(first));
        let (gates, new) = if has(node, "reset_after") {
            let [n] = Gate::all(NEW_PARTS, NEW_ROWS_APART);
            (panels(&[r, z, n], "gate_recurrent_first")?, None)
        } else {
            let new = panels(&Gate::all::<NEW>(NEW_PARTS, NEW_ROWS), "new_recurrent_first")?;
            (panels(&[r, z], "gate_recurrent_first")?, Some(new))
        };
        let bits = node.number(names.number("preact_bits")?).unsigned_abs();
        let curve = |index: usize, table: &str, shift: &str| {
            Some(Activation { curve: node.curve(index, names.tensor(table)?, names.number(shift)?), bits })
        };
        let gate = curve(0, "gate_table", "gate_table_shift")?;
        let candidate = curve(1, "new_table", "new_table_shift")?;
        let is_plain = gate.is_sigmoid() && candidate.is_tanh();
        Some(Self { simd, gates, new, masked: has(node, "masked"), is_plain, gate, candidate })
    }

    /// A gate from its sums, from 0 to 1.
    #[inline(always)]
    fn gate_of<const PLAIN: bool>(&self, sum: S::Vector) -> S::Vector {
        if PLAIN { sigmoid(self.simd, sum) } else { clamp(self.simd, self.gate.apply(self.simd, sum), 0, ONE) }
    }

    /// n from its sums.
    #[inline(always)]
    fn suggested<const PLAIN: bool>(&self, sum: S::Vector) -> S::Vector {
        if PLAIN { tanh(self.simd, sum) } else { clamp(self.simd, self.candidate.apply(self.simd, sum), -MAX, MAX) }
    }

    /// Elements of scratch with the reset before the product: r ⊙ h, z, and r ⊙ h as an operand.
    fn before_len(&self) -> usize {
        let hidden = self.gates.units;
        if self.new.is_some() { 2 * hidden + Panels::operand_len::<S>(hidden) } else { 0 }
    }
}

impl<S: Integers> Layer<i16> for Gru<'_, S> {
    fn work_len(&self, steps: usize) -> usize {
        let one = 2 * self.gates.operands_len::<S>() + self.before_len();
        one.max(Run::<S, Self>::work_len(self, steps))
    }

    fn step(&self, io: Io<'_, i16>) {
        if const { S::INTERLEAVED } && self.is_plain {
            return self.simd.vectorize(Step::<S, true> { gru: self, io });
        }
        self.simd.vectorize(Step::<S, false> { gru: self, io });
    }

    /// With the reset before the product, single steps are always faster: only they interleave the products with the updates.
    fn few(&self) -> usize {
        if self.new.is_some() { usize::MAX } else { FEW }
    }

    fn run(&self, span: &mut Span<'_, i16>) {
        self.simd.vectorize(Run::new(self, span));
    }
}

/// The update of a block with the reset after the product: replaces h by h'.
struct After<'s, 'm, S: Integers, const PLAIN: bool> {
    gru: &'s Gru<'m, S>,
    sums: Sums<S::Vector, AFTER>,
    n: S::Vector,
    z: S::Vector,
    h: S::Vector,
}

impl<'s, 'm, S: Integers, const PLAIN: bool> After<'s, 'm, S, PLAIN> {
    #[inline(always)]
    fn new(gru: &'s Gru<'m, S>, sums: Sums<S::Vector, AFTER>, h: S::Vector) -> Self {
        let zero = gru.simd.splat(0);
        Self { gru, sums, n: zero, z: zero, h }
    }
}

impl<S: Integers, const PLAIN: bool> Beside for After<'_, '_, S, PLAIN> {
    #[inline(always)]
    fn part<const PART: usize>(&mut self) {
        let (gru, simd) = (self.gru, self.gru.simd);
        let [r, z, of_hidden] = self.sums.gates;
        match PART {
            0 => {
                // 17 bits, so that the product does not overflow.
                const MOST: i32 = (1 << 16) - 1;
                let carried = clamp(simd, of_hidden, !MOST, MOST);
                let carried = from_q15(simd, simd.mul(gru.gate_of::<PLAIN>(r), carried));
                self.n = here(simd.add(self.sums.of_input, carried));
            }
            1 => self.n = here(gru.suggested::<PLAIN>(self.n)),
            2 => self.z = here(gru.gate_of::<PLAIN>(z)),
            3 => self.h = between(simd, self.z, self.h, self.n),
            _ => {}
        }
    }
}

/// z h + (1 - z) n
#[inline(always)]
fn between<S: Integers>(simd: S, z: S::Vector, h: S::Vector, n: S::Vector) -> S::Vector {
    from_q15(simd, simd.add(simd.mul(z, h), simd.mul(simd.sub(simd.splat(ONE), z), n)))
}

/// The gates of a block with the reset before the product: replaces r by r ⊙ h.
struct Open<'s, 'm, S: Integers, const PLAIN: bool> {
    gru: &'s Gru<'m, S>,
    r: S::Vector,
    z: S::Vector,
    h: S::Vector,
}

impl<S: Integers, const PLAIN: bool> Beside for Open<'_, '_, S, PLAIN> {
    #[inline(always)]
    fn part<const PART: usize>(&mut self) {
        let (gru, simd) = (self.gru, self.gru.simd);
        match PART {
            0 => self.r = here(gru.gate_of::<PLAIN>(self.r)),
            2 => self.r = from_q15(simd, simd.mul(self.r, self.h)),
            3 => self.z = here(gru.gate_of::<PLAIN>(self.z)),
            _ => {}
        }
    }
}

/// The update of a block with the reset before the product: replaces h by h'.
struct Close<'s, 'm, S: Integers, const PLAIN: bool> {
    gru: &'s Gru<'m, S>,
    n: S::Vector,
    z: S::Vector,
    h: S::Vector,
}

impl<S: Integers, const PLAIN: bool> Beside for Close<'_, '_, S, PLAIN> {
    #[inline(always)]
    fn part<const PART: usize>(&mut self) {
        let simd = self.gru.simd;
        match PART {
            0 => self.n = here(self.gru.suggested::<PLAIN>(self.n)),
            // z is unsigned: 1 needs 16 bits.
            1 => self.z = simd.and(self.z, simd.splat(0xffff)),
            2 => self.h = between(simd, self.z, self.h, self.n),
            _ => {}
        }
    }
}

/// One step.
struct Step<'s, 'm, S, const PLAIN: bool> {
    gru: &'s Gru<'m, S>,
    io: Io<'s, i16>,
}

impl<S: Integers, const PLAIN: bool> Task for Step<'_, '_, S, PLAIN> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { gru, io: Io { x, state, work, y, odd } } = self;
        let [input, hidden] = gru.gates.columns;
        let (x, h, y) = (&x[..input], &mut state[..hidden], &mut y[..hidden]);
        if !(gru.masked && x.last() == Some(&0)) {
            let (columns, work) = work.split_at_mut(gru.gates.operands_len::<S>());
            let columns = gru.gates.operands(gru.simd, x, h, columns);
            match &gru.new {
                None => gru.after::<PLAIN>(columns, h, odd),
                Some(new) => gru.before::<PLAIN>(new, x, columns, h, work, odd),
            }
        }
        y.copy_from_slice(h);
    }
}

impl<S: Integers> Gru<'_, S> {
    /// Replaces h by h', with the reset after the product.
    #[inline(always)]
    fn after<const PLAIN: bool>(&self, columns: &[S::Columns], h: &mut [i16], odd: bool) {
        let (simd, hidden) = (self.simd, self.gates.units);
        let blocks = Blocks::<S, AFTER, 1, true>::new(simd, &self.gates);
        let mut turn = turn(self.gates.blocks::<S>(), odd);
        if const { !PLAIN } {
            for block in turn {
                let sums = blocks.sums(block, columns, &mut Nothing);
                self.after_block::<PLAIN>(sums, &mut h[units::<S>(block, hidden)]);
            }
            return;
        }
        let Some(mut at) = turn.next() else { return };
        let mut sums = blocks.sums(at, columns, &mut Nothing);
        for block in turn {
            let now = units::<S>(at, hidden);
            let mut update = After::<S, PLAIN>::new(self, sums, simd.widen(&h[now.clone()]));
            sums = blocks.sums(block, columns, &mut update);
            simd.narrow(update.h, &mut h[now]);
            at = block;
        }
        self.after_block::<PLAIN>(sums, &mut h[units::<S>(at, hidden)]);
    }

    /// Updates the units of a block.
    #[inline(always)]
    fn after_block<const PLAIN: bool>(&self, sums: Sums<S::Vector, AFTER>, h: &mut [i16]) {
        let update = After::<S, PLAIN>::new(self, sums, self.simd.widen(h));
        let update = at_once::<S, _, PLAIN>(self.simd, update);
        self.simd.narrow(update.h, h);
    }

    /// Replaces h by h', with the reset before the product.
    #[inline(always)]
    fn before<const PLAIN: bool>(
        &self,
        new: &Panels,
        x: &[i16],
        columns: &[S::Columns],
        h: &mut [i16],
        work: &mut [i16],
        odd: bool,
    ) {
        let (simd, hidden) = (self.simd, self.gates.units);
        let (reset, work) = work.split_at_mut(hidden);
        let (update, work) = work.split_at_mut(hidden);
        let blocks = Blocks::<S, GATES, GATE_CHAINS, false>::new(simd, &self.gates);
        let all = turn(self.gates.blocks::<S>(), odd);
        if const { PLAIN } {
            let mut turn = all.clone();
            let Some(mut at) = turn.next() else { return };
            let mut sums = blocks.sums(at, columns, &mut Nothing);
            for block in turn {
                let now = units::<S>(at, hidden);
                let [r, z] = sums.gates;
                let mut open = Open::<S, PLAIN> { gru: self, r, z, h: simd.widen(&h[now.clone()]) };
                sums = blocks.sums(block, columns, &mut open);
                simd.narrow(open.r, &mut reset[now.clone()]);
                simd.narrow(open.z, &mut update[now]);
                at = block;
            }
            let now = units::<S>(at, hidden);
            self.open_block::<PLAIN>(sums, &h[now.clone()], &mut reset[now.clone()], &mut update[now]);
        } else {
            for block in all.clone() {
                let (now, sums) = (units::<S>(block, hidden), blocks.sums(block, columns, &mut Nothing));
                self.open_block::<PLAIN>(sums, &h[now.clone()], &mut reset[now.clone()], &mut update[now]);
            }
        }
        let columns = new.operands(simd, x, reset, work);
        let blocks = Blocks::<S, NEW, NEW_CHAINS, false>::new(simd, new);
        let mut turn = all;
        if const { !PLAIN } {
            for block in turn {
                let (now, sums) = (units::<S>(block, hidden), blocks.sums(block, columns, &mut Nothing));
                self.close_block::<PLAIN>(sums, &update[now.clone()], &mut h[now]);
            }
            return;
        }
        let Some(mut at) = turn.next() else { return };
        let mut sums = blocks.sums(at, columns, &mut Nothing);
        for block in turn {
            let now = units::<S>(at, hidden);
            let ([n], z) = (sums.gates, simd.widen(&update[now.clone()]));
            let mut close = Close::<S, PLAIN> { gru: self, n, z, h: simd.widen(&h[now.clone()]) };
            sums = blocks.sums(block, columns, &mut close);
            simd.narrow(close.h, &mut h[now]);
            at = block;
        }
        let now = units::<S>(at, hidden);
        self.close_block::<PLAIN>(sums, &update[now.clone()], &mut h[now]);
    }

    /// Writes r ⊙ h and z of a block of units.
    #[inline(always)]
    fn open_block<const PLAIN: bool>(
        &self,
        sums: Sums<S::Vector, GATES>,
        h: &[i16],
        reset: &mut [i16],
        update: &mut [i16],
    ) {
        let [r, z] = sums.gates;
        let open = Open::<S, PLAIN> { gru: self, r, z, h: self.simd.widen(h) };
        let open = at_once::<S, _, PLAIN>(self.simd, open);
        self.simd.narrow(open.r, reset);
        self.simd.narrow(open.z, update);
    }

    /// Writes h' of a block of units.
    #[inline(always)]
    fn close_block<const PLAIN: bool>(&self, sums: Sums<S::Vector, NEW>, update: &[i16], h: &mut [i16]) {
        let ([n], z) = (sums.gates, self.simd.widen(update));
        let close = Close::<S, PLAIN> { gru: self, n, z, h: self.simd.widen(h) };
        let close = at_once::<S, _, PLAIN>(self.simd, close);
        self.simd.narrow(close.h, h);
    }
}

impl<S: Integers> Cell<S> for Gru<'_, S> {
    fn simd(&self) -> S {
        self.simd
    }

    fn columns(&self) -> [usize; 2] {
        self.gates.columns
    }

    fn vectors(&self) -> usize {
        AFTER * self.gates.blocks::<S>()
    }

    fn scratch(&self) -> usize {
        self.before_len()
    }

    fn is_masked(&self) -> bool {
        self.masked
    }

    #[inline(always)]
    fn of_input(&self, x: &[S::Columns], stride: usize, before: &mut [S::Lanes]) {
        let vectors = self.vectors();
        match &self.new {
            None => of_input::<S, AFTER, 1, true>(self.simd, &self.gates, (x, stride), before, (vectors, 0)),
            Some(new) => {
                let first = GATES * self.gates.blocks::<S>();
                of_input::<S, GATES, 1, false>(self.simd, &self.gates, (x, stride), before, (vectors, 0));
                of_input::<S, NEW, 1, false>(self.simd, new, (x, stride), before, (vectors, first));
            }
        }
    }

    #[inline(always)]
    fn step_all(&self, rest: Rest<'_, S>) {
        if const { S::INTERLEAVED } && self.is_plain {
            return match &self.new {
                None => self.all_after::<true>(rest),
                Some(new) => self.all_before::<true>(new, rest),
            };
        }
        match &self.new {
            None => self.all_after::<false>(rest),
            Some(new) => self.all_before::<false>(new, rest),
        }
    }
}

impl<S: Integers> Gru<'_, S> {
    #[inline(always)]
    fn all_after<const PLAIN: bool>(&self, rest: Rest<'_, S>) {
        let Rest { active, states, carried, before: sums, odd, .. } = rest;
        let (simd, hidden, vectors) = (self.simd, self.gates.units, self.vectors());
        let blocks = Blocks::<S, AFTER, 1, true>::new(simd, &self.gates);
        let carried = Rest::<S>::operands(simd, active, states, hidden, carried);
        for block in turn(self.gates.blocks::<S>(), odd) {
            let (at, now) = (block * AFTER, units::<S>(block, hidden));
            for (rows, columns) in active.chunks(ROWS).zip(carried.chunks(ROWS * Panels::operand_len::<S>(hidden))) {
                let columns: &[S::Columns] = bytemuck::cast_slice(columns);
                if let &[(state_a, a), (state_b, b)] = rows {
                    let both = [before(simd, sums, a * vectors + at), before(simd, sums, b * vectors + at)];
                    let (x, y) = columns.split_at(columns.len() / 2);
                    let [a, b] = blocks.of_carried::<ROWS>(block, [x, y], both);
                    self.after_block::<PLAIN>(a, &mut states[state_a + now.start..state_a + now.end]);
                    self.after_block::<PLAIN>(b, &mut states[state_b + now.start..state_b + now.end]);
                } else if let &[(state, row)] = rows {
                    let one = [before(simd, sums, row * vectors + at)];
                    let columns = &columns[..hidden.div_ceil(S::COLUMNS)];
                    let [sums] = blocks.of_carried::<1>(block, [columns], one);
                    self.after_block::<PLAIN>(sums, &mut states[state + now.start..state + now.end]);
                }
            }
        }
    }

    #[inline(always)]
    fn all_before<const PLAIN: bool>(&self, new: &Panels, rest: Rest<'_, S>) {
        let Rest { active, states, carried, scratch, before: sums, odd } = rest;
        let (simd, hidden, vectors) = (self.simd, self.gates.units, self.vectors());
        let columns_len = Panels::operand_len::<S>(hidden);
        let gates = Blocks::<S, GATES, 1, false>::new(simd, &self.gates);
        let first = GATES * self.gates.blocks::<S>();
        let carried = Rest::<S>::operands(simd, active, states, hidden, carried);
        let of_each = self.before_len();
        for block in turn(self.gates.blocks::<S>(), odd) {
            let (at, now) = (block * GATES, units::<S>(block, hidden));
            let each = active.iter().zip(carried.chunks_exact(columns_len)).zip(scratch.chunks_exact_mut(of_each));
            for ((&(state, row), columns), scratch) in each {
                let columns: &[S::Columns] = bytemuck::cast_slice(columns);
                let [sums] = gates.of_carried::<1>(block, [columns], [before(simd, sums, row * vectors + at)]);
                let (reset, update) = scratch.split_at_mut(hidden);
                let h = &states[state + now.start..state + now.end];
                self.open_block::<PLAIN>(sums, h, &mut reset[now.clone()], &mut update[now.clone()]);
            }
        }
        for scratch in scratch.chunks_exact_mut(of_each).take(active.len()) {
            let (reset, rest) = scratch.split_at_mut(hidden);
            super::panels::operand(simd, reset, &mut rest[hidden..]);
        }
        let new = Blocks::<S, NEW, 1, false>::new(simd, new);
        for block in turn(self.gates.blocks::<S>(), odd) {
            let (at, now) = (first + block * NEW, units::<S>(block, hidden));
            for (&(state, row), scratch) in active.iter().zip(scratch.chunks_exact(of_each)) {
                let columns: &[S::Columns] = bytemuck::cast_slice(&scratch[2 * hidden..]);
                let [sums] = new.of_carried::<1>(block, [columns], [before(simd, sums, row * vectors + at)]);
                let h = &mut states[state + now.start..state + now.end];
                self.close_block::<PLAIN>(sums, &scratch[hidden + now.start..hidden + now.end], h);
            }
        }
    }
}
