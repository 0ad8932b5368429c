//! LSTM ([`tidegate::internals::cell::lstm`]) in floats, with every option except `initial`.
//!
//! A block of units has one vector of each gate, i, f, g, o, side by side.

mod batch;
mod update;

use core::ops::Range;

use tidegate::Numeric;
use tidegate::internals::{
    activation::Activation,
    cell::lstm::{INITIAL, LOW_RANK, MASKED, PROJECTION},
    node::Node,
};

use self::batch::{Row, Work};
use self::update::{Norms, Update};
use super::blocks::{Blocks, Cell, Small};
use super::{CACHE, LATENCY_BOUND_LANES, low_rank, tensor};
use crate::curves::{gated_tanh, sigmoid};
use crate::layer::{FEW, Io, Layer, Span, is_masked};
use crate::lines::Lines;
use crate::panels::{Panels, Rows, per_row, unit};
use crate::simd::{Simd, Task};
use crate::sums::{One, Then, Way, one};
use crate::weight::Weight;

const GATES: usize = 4;
/// Index of o among the gates.
const OUTPUT: usize = 3;
/// Least number of blocks of units for which two blocks are summed at once. With fewer, the update of the last block,
/// which no products overlap, costs more than the additional chains save.
const BLOCKS_ABREAST: usize = 4;

/// A packed LSTM.
pub struct Lstm<S, W> {
    s: S,
    hidden: usize,
    output: usize,
    /// Number of units if the layer has no options and as many inputs as units; otherwise 0.
    size: usize,
    masked: bool,
    input: Panels<W>,
    recurrent: Panels<W>,
    /// Initial sums: the bias, or zeros if it is added after a normalization.
    start: Lines<f32>,
    /// With `low_rank`, the basis that is multiplied by h first.
    basis: Option<Panels>,
    projection: Option<Panels<W>>,
    projection_clip: f32,
    /// Whether a step sums two blocks of units at once. With vectors of more than [`LATENCY_BOUND_LANES`] lanes, blocks of
    /// f32 weights that fit the first-level cache are summed one at a time: the next step walks the blocks in the other
    /// direction and finds the last one in the cache.
    abreast: bool,
    update: Update<S>,
}

impl<S: Simd, W: Weight> Lstm<S, W> {
    /// Packs a node; `None` if it starts from an initial state.
    pub fn pack(node: &Node<'_>, numeric: Numeric, s: S) -> Option<Self> {
        if node.has(INITIAL) {
            return None;
        }
        let hidden = node.hidden_size;
        let blocks = hidden.div_ceil(S::LANES);
        let place = |vector: usize, lane: usize| {
            unit(S::LANES, vector / GATES, lane, hidden).map(|unit| (0, GATES * unit + vector % GATES))
        };
        let rows = |name, cols| Rows::of(node, numeric, tensor(node, name), cols);
        let panels = |name, cols| Panels::new(S::LANES, &[rows(name, cols)], (GATES, GATES * blocks), &place);
        let by_row = |name: &str| {
            let elements = node.elements(tensor(node, name));
            per_row(S::LANES, GATES * blocks, &|vector, lane| {
                place(vector, lane).and_then(|(_, row)| elements.get(row).copied()).unwrap_or(0.0)
            })
        };
        let update = Update::pack(node, s, &by_row);
        let starts_at_zero = update.norms.as_ref().is_some_and(Norms::of_gates);
        let of_block = (node.input_size + node.output_size) * GATES * S::LANES * size_of::<W>();
        let projection = || Panels::in_order(S::LANES, rows("projection_weights", hidden), node.output_size);
        let lstm = Self {
            s,
            hidden,
            output: node.output_size,
            size: 0,
            masked: node.has(MASKED),
            input: panels("input_weights", node.input_size),
            recurrent: panels("recurrent_weights", low_rank::rank(node, LOW_RANK).unwrap_or(node.output_size)),
            start: if starts_at_zero { Lines::zeroed(GATES * blocks * S::LANES) } else { by_row("bias") },
            basis: low_rank::basis(node, numeric, S::LANES, LOW_RANK, node.output_size),
            projection: node.has(PROJECTION).then(projection),
            projection_clip: node.param(1),
            abreast: false,
            update,
        };
        let is_small = lstm.is_usual() && !lstm.masked && node.input_size == hidden;
        let streams = size_of::<W>() < size_of::<f32>() || of_block > CACHE;
        let abreast = if lstm.is_usual() || lstm.update.usual && S::LANES > LATENCY_BOUND_LANES {
            blocks >= BLOCKS_ABREAST && (streams || S::LANES == LATENCY_BOUND_LANES)
        } else {
            // An update with options has branches, which prevent it from overlapping the next block's sums.
            S::LANES <= LATENCY_BOUND_LANES || streams
        };
        Some(Self { size: if is_small { hidden } else { 0 }, abreast, ..lstm })
    }

    /// Elements of the sums of a step.
    fn sums_len(&self) -> usize {
        self.start.len()
    }

    /// Whether the layer has no options except a mask.
    fn is_usual(&self) -> bool {
        self.update.usual && self.basis.is_none() && self.projection.is_none() && self.update.norms.is_none()
    }

    /// One step of a layer without normalizations. `start` is the bias; or the sums over the input, in which case `x`
    /// is empty.
    fn step_blocks(&self, start: &[f32], x: &[f32], state: &mut [f32], work: &mut [f32], y: &mut [f32], way: Way) {
        let s = self.s;
        let (h, c) = state.split_at_mut(self.output);
        let (c, work) = (&mut c[..self.hidden], Work::new(self, 1, work));
        let seen = low_rank::seen(s, self.basis.as_ref(), h, work.operand, way);
        match &self.projection {
            None => self.call_blocks(start, x, seen, (h, c), y, way),
            Some(projection) => {
                let m = &mut work.m[..self.hidden];
                self.call_blocks(start, x, seen.or(Some(h)), (&mut [], c), m, way);
                work.projected.fill(0.0);
                let then = Some(Then { activation: Activation::Identity, limit: self.projection_clip, to: &mut *y });
                s.call(One { s, parts: [(projection, &*m)], start: None, sums: work.projected, way, then });
                h.copy_from_slice(y);
            }
        }
    }

    /// The blocks of a step, from `start` to m in `y`. Without a projection, `h` becomes m; otherwise it is empty.
    fn call_blocks(
        &self,
        start: &[f32],
        x: &[f32],
        seen: Option<&[f32]>,
        (h, c): (&mut [f32], &mut [f32]),
        y: &mut [f32],
        way: Way,
    ) {
        let start: &[S::Lanes] = bytemuck::cast_slice(start);
        let (s, start, abreast) = (self.s, start.as_chunks().0, self.abreast);
        let (input, recurrent) = (self.input.all(), self.recurrent.all());
        let seen = seen.map(|seen| &seen[..self.recurrent.cols()]);
        if self.update.usual {
            let cell = Memory(c);
            s.call(Blocks::<S, W, _, GATES> { s, input, recurrent, start, x, seen, h, y, way, abreast, cell });
        } else {
            let cell = Options { update: &self.update, c };
            s.call(Blocks::<S, W, _, GATES> { s, input, recurrent, start, x, seen, h, y, way, abreast, cell });
        }
    }
}

/// A step of a layer of `U` units without options. The slices are unpacked inside the task, so that they need not pass
/// through memory.
struct SmallStep<'k, 's, 'e, S, W, const U: usize>(&'k Lstm<S, W>, &'s mut Io<'e, f32>);

impl<S: Simd, W: Weight, const U: usize> Task for SmallStep<'_, '_, '_, S, W, U> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self(Lstm { s, input, recurrent, start, .. }, Io { x, state, y, odd, .. }) = self;
        let (s, way, (h, c)) = (*s, Way::of(*odd), state.split_at_mut(U));
        Small::<S, W, _, GATES, U> { s, input, recurrent, bias: start.get(), x, h, y, way, cell: Memory(c) }.run();
    }
}

/// c of a layer without options.
struct Memory<'s>(&'s mut [f32]);

impl<S: Simd> Cell<S, GATES> for Memory<'_> {
    const RESTARTS: bool = false;

    #[inline(always)]
    fn sized(self, units: usize) -> Self {
        Self(&mut self.0[..units])
    }

    #[inline(always)]
    fn restart(&self, s: S, _: usize, _: &mut [S::F32; GATES]) -> S::F32 {
        s.splat(0.0)
    }

    #[inline(always)]
    fn update(&mut self, s: S, units: Range<usize>, sums: [S::F32; GATES], _: S::F32, _: &[f32]) -> S::F32 {
        usual(s, sums, &mut self.0[units])
    }
}

/// The options and c of a layer without normalizations.
struct Options<'s, S> {
    update: &'s Update<S>,
    c: &'s mut [f32],
}

impl<S: Simd> Cell<S, GATES> for Options<'_, S> {
    const RESTARTS: bool = false;

    #[inline(always)]
    fn sized(self, _: usize) -> Self {
        self
    }

    #[inline(always)]
    fn restart(&self, s: S, _: usize, _: &mut [S::F32; GATES]) -> S::F32 {
        s.splat(0.0)
    }

    #[inline(always)]
    fn update(&mut self, _: S, units: Range<usize>, sums: [S::F32; GATES], _: S::F32, _: &[f32]) -> S::F32 {
        let block = units.start / S::LANES;
        self.update.unit_block(block, sums, &mut self.c[units])
    }
}

/// Updates c of a block of units without options from its sums, and returns m.
#[inline(always)]
fn usual<S: Simd>(s: S, [i, f, g, o]: [S::F32; GATES], c: &mut [f32]) -> S::F32 {
    let kept = kept(s, [i, f, g], c);
    s.store_part(kept, c);
    gated_tanh(s, o, kept)
}

/// f ⊙ c + i ⊙ g of a block of units without options from its sums.
#[inline(always)]
fn kept<S: Simd>(s: S, [i, f, g]: [S::F32; GATES - 1], c: &[f32]) -> S::F32 {
    s.fma(sigmoid(s, f), s.load_part(c), gated_tanh(s, i, g))
}

impl<S: Simd, W: Weight> Layer<f32> for Lstm<S, W> {
    fn work_len(&self, steps: usize) -> usize {
        steps * self.sums_len() + Work::len(self, steps)
    }

    fn step(&self, mut io: Io<'_, f32>) {
        match self.size {
            8 => return self.s.vectorize(SmallStep::<S, W, 8>(self, &mut io)),
            16 => return self.s.vectorize(SmallStep::<S, W, 16>(self, &mut io)),
            32 => return self.s.vectorize(SmallStep::<S, W, 32>(self, &mut io)),
            _ => {}
        }
        let Io { x, state, work, y, odd } = io;
        if is_masked(self.masked, x) {
            return y.copy_from_slice(&state[..self.output]);
        }
        let (way, start) = (Way::of(odd), self.start.get());
        if self.update.norms.is_none() {
            return self.step_blocks(start, &x[..self.input.cols()], state, work, y, way);
        }
        let (sums, work) = work.split_at_mut(self.sums_len());
        let mut work = Work::new(self, 1, work);
        let h = &state[..self.output];
        let seen = low_rank::seen(self.s, self.basis.as_ref(), h, work.operand, way).unwrap_or(h);
        one(self.s, (&self.input, x), Some(start), sums, way);
        if work.of_state.is_empty() {
            one(self.s, (&self.recurrent, seen), None, sums, way);
        } else {
            one(self.s, (&self.recurrent, seen), Some(start), work.of_state, way);
        }
        if self.projection.is_some() {
            return self.update_units(&[Row::default()], sums, &mut work, state, y, way);
        }
        let (h, c) = state.split_at_mut(self.output);
        self.update.run(sums, work.of_state, &mut c[..self.hidden], y);
        h.copy_from_slice(y);
    }

    /// A small layer has all its weights in the first-level cache, so that steps together save nothing.
    fn few(&self) -> usize {
        if matches!(self.size, 8 | 16) { usize::MAX } else { FEW }
    }

    fn run(&self, span: &mut Span<'_, f32>) {
        self.run_batch(span);
    }
}
