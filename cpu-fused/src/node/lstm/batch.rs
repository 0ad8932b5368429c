//! Steps of several sequences of an LSTM.
//!
//! With few sequences, the products with the input are computed for all steps first, and then the sequences step. With
//! many, the sequences step together, and a step stores only states: without options that need a whole row, the sums
//! stay in registers until the new state has been computed.

use tidegate::internals::activation::Activation;

use super::update::gates;
use super::{GATES, LATENCY_BOUND_LANES, Lstm, Norms, OUTPUT, kept};
use crate::curves::{activate, gated_tanh};
use crate::layer::{Line, SEQUENCES, Span};
use crate::node::copy;
use crate::panels::Panels;
use crate::simd::{Simd, Task};
use crate::sums::{self, MOST_ROWS, Way, block_len, block_of, many, many_of_two};
use crate::weight::Weight;

/// With fewer sequences, the products with the input are computed ahead.
const fn ahead_below<S: Simd>() -> usize {
    if S::LANES == LATENCY_BOUND_LANES { GROUP } else { S::ROWS }
}

/// Rows whose sums are in memory at the same time: they fit the first-level cache.
const GROUP: usize = 12;

/// Offsets of a row of a step: its state, its sums and its output.
#[derive(Clone, Copy, Default)]
pub struct Row {
    pub state: usize,
    pub sums: usize,
    pub y: usize,
}

/// Scratch of the rows of a step, besides the sums over the input.
pub struct Work<'w> {
    /// Operand of the recurrent weights with `low_rank`.
    pub operand: &'w mut [f32],
    /// Sums over h if they are normalized separately.
    pub of_state: &'w mut [f32],
    /// Operand of the projection.
    pub m: &'w mut [f32],
    /// Sums of the projection.
    pub projected: &'w mut [f32],
}

impl<'w> Work<'w> {
    /// Elements of each slice per row.
    fn lens<S: Simd, W: Weight>(lstm: &Lstm<S, W>) -> [usize; 4] {
        let vectors =
            [lstm.basis.as_ref().map_or(0, Panels::vectors), lstm.projection.as_ref().map_or(0, Panels::vectors)];
        let [of_basis, of_projection] = vectors.map(|vectors| vectors * S::LANES);
        let m = if lstm.projection.is_some() { lstm.hidden.next_multiple_of(S::LANES) } else { 0 };
        [of_basis, lstm.of_state_len(), m, of_projection]
    }

    /// Elements for `steps` steps, of which at most [`GROUP`] are processed together.
    pub fn len<S: Simd, W: Weight>(lstm: &Lstm<S, W>, steps: usize) -> usize {
        Self::lens(lstm).iter().sum::<usize>() * steps.min(GROUP)
    }

    pub fn new<S: Simd, W: Weight>(lstm: &Lstm<S, W>, rows: usize, work: &'w mut [f32]) -> Self {
        let [operand, of_state, m, projected] = Self::lens(lstm);
        let (operand, work) = work.split_at_mut(rows * operand);
        let (of_state, work) = work.split_at_mut(rows * of_state);
        let (m, work) = work.split_at_mut(rows * m);
        Self { operand, of_state, m, projected: &mut work[..rows * projected] }
    }
}

/// A pair of offsets for each row.
fn pairs(rows: &[Row], pair: impl Fn(usize, &Row) -> (usize, usize)) -> [(usize, usize); GROUP] {
    let mut pairs = [(0, 0); GROUP];
    for (index, (row, to)) in rows.iter().zip(&mut pairs).enumerate() {
        *to = pair(index, row);
    }
    pairs
}

impl<S: Simd, W: Weight> Lstm<S, W> {
    /// The steps of a span.
    pub fn run_batch(&self, span: &mut Span<'_, f32>) {
        if span.lens.len() < ahead_below::<S>() {
            return self.ahead(span);
        }
        for t in 0..span.time {
            span.rows_at(t, self.masked);
            let way = Way::of(t % 2 == 1);
            if self.is_usual() {
                self.s.call(InRegisters { lstm: self, span, t, way });
            } else {
                self.in_groups(span, t, way);
            }
        }
    }

    /// Elements of the sums over h if they are normalized separately; otherwise 0.
    pub fn of_state_len(&self) -> usize {
        if self.update.norms.as_ref().is_some_and(Norms::is_joint) { self.sums_len() } else { 0 }
    }

    /// Computes all products with the input, then one step after the other.
    fn ahead(&self, span: &mut Span<'_, f32>) {
        let len = self.sums_len();
        span.rows_of_inputs(len, self.masked);
        let x = span.source.unwrap_or(span.memory);
        many(self.s, &self.input, x, Some(self.start.get()), span.work, span.rows, Way::Up);
        let steps = span.lens.len() * span.time;
        for t in 0..span.time {
            span.rows_of_states(t, len, self.masked);
            let way = Way::of(t % 2 == 1);
            if let (&[(state, sums)], None) = (&span.rows[..], &self.update.norms) {
                let y = span.y(span.sequence_of(state), t);
                let (of_input, work) = span.work.split_at_mut(steps * len);
                let (state, y) = (&mut span.states[state..], &mut span.memory[y]);
                self.step_blocks(&of_input[sums..][..len], &[], state, work, y, way);
                continue;
            }
            let mut rows = [Row::default(); GROUP];
            let rows = &mut rows[..span.rows.len()];
            for (row, &(state, sums)) in rows.iter_mut().zip(span.rows.iter()) {
                *row = Row { state, sums, y: span.y(span.sequence_of(state), t).start };
            }
            let (sums, work) = span.work.split_at_mut(steps * len);
            let mut work = Work::new(self, rows.len(), work);
            self.add_recurrent(rows, sums, &mut work, span.states, way);
            self.update_units(rows, sums, &mut work, span.states, span.memory, way);
        }
    }

    /// One step of all sequences, a group at a time.
    fn in_groups(&self, span: &mut Span<'_, f32>, t: usize, way: Way) {
        let len = self.sums_len();
        let (sums, work) = span.work.split_at_mut(GROUP.min(span.lens.len()) * len);
        let mut left = &span.rows[..];
        while !left.is_empty() {
            let (group, others) = left.split_at(left.len().div_ceil(left.len().div_ceil(GROUP)));
            left = others;
            let (mut rows, mut inputs) = ([Row::default(); GROUP], [sums::Place::default(); GROUP]);
            let (rows, inputs) = (&mut rows[..group.len()], &mut inputs[..group.len()]);
            for (index, &(state, sequence)) in group.iter().enumerate() {
                let at = |line: &Line| line.at(span.lens, sequence, t).start;
                rows[index] = Row { state, sums: index * len, y: at(&span.output) };
                inputs[index] = ([at(&span.input), state], index * len);
            }
            let (x, start) = (span.source.unwrap_or(span.memory), Some(self.start.get()));
            let mut work = Work::new(self, rows.len(), work);
            if self.basis.is_none() && self.of_state_len() == 0 {
                let parts = [(&self.input, x), (&self.recurrent, &*span.states)];
                many_of_two(self.s, parts, start, sums, inputs, way);
            } else {
                let mut of_input = [(0, 0); GROUP];
                for (to, &([x, _], sums)) in of_input.iter_mut().zip(inputs.iter()) {
                    *to = (x, sums);
                }
                many(self.s, &self.input, x, start, sums, &of_input[..rows.len()], way);
                self.add_recurrent(rows, sums, &mut work, span.states, way);
            }
            self.update_units(rows, sums, &mut work, span.states, span.memory, way);
        }
    }

    /// Computes the products with h. They are added to `sums`, or kept separate if they are normalized separately.
    fn add_recurrent(&self, rows: &[Row], sums: &mut [f32], work: &mut Work<'_>, states: &[f32], way: Way) {
        let (s, count) = (self.s, rows.len());
        let [operand_len, of_state_len, ..] = Work::lens(self);
        if let Some(basis) = &self.basis {
            let from_state = pairs(rows, |index, row| (row.state, index * operand_len));
            work.operand.fill(0.0);
            many(s, basis, states, None, work.operand, &from_state[..count], way);
        }
        let at = pairs(rows, |index, row| {
            let operand = if self.basis.is_some() { index * operand_len } else { row.state };
            (operand, if of_state_len > 0 { index * of_state_len } else { row.sums })
        });
        let operands = if self.basis.is_some() { &*work.operand } else { states };
        if of_state_len > 0 {
            // Sums that are normalized start at zero.
            many(s, &self.recurrent, operands, Some(self.start.get()), work.of_state, &at[..count], way);
        } else {
            many(s, &self.recurrent, operands, None, sums, &at[..count], way);
        }
    }

    /// New states and outputs from complete sums.
    pub fn update_units(
        &self,
        rows: &[Row],
        sums: &mut [f32],
        work: &mut Work<'_>,
        states: &mut [f32],
        y: &mut [f32],
        way: Way,
    ) {
        let (s, count) = (self.s, rows.len());
        let [_, of_state_len, m_len, projected_len] = Work::lens(self);
        for (index, row) in rows.iter().enumerate() {
            let c = &mut states[row.state + self.output..][..self.hidden];
            let m = match &self.projection {
                Some(_) => &mut work.m[index * m_len..][..self.hidden],
                None => &mut y[row.y..][..self.output],
            };
            let sums = &mut sums[row.sums..][..self.sums_len()];
            self.update.run(sums, &work.of_state[index * of_state_len..][..of_state_len], c, m);
        }
        if let Some(projection) = &self.projection {
            let projected = pairs(rows, |index, _| (index * m_len, index * projected_len));
            work.projected.fill(0.0);
            many(s, projection, work.m, None, work.projected, &projected[..count], way);
            for (row, projected) in rows.iter().zip(work.projected.chunks(projected_len)) {
                activate(s, Activation::Identity, self.projection_clip, projected, &mut y[row.y..][..self.output]);
            }
        }
        for row in rows {
            states[row.state..][..self.output].copy_from_slice(&y[row.y..][..self.output]);
        }
    }
}

/// One step of the sequences of `span.rows`, of a layer without options.
struct InRegisters<'k, 'r, 's, S, W> {
    lstm: &'k Lstm<S, W>,
    span: &'r mut Span<'s, f32>,
    t: usize,
    way: Way,
}

impl<S: Simd, W: Weight> Task for InRegisters<'_, '_, '_, S, W> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { lstm, span, t, way } = self;
        let (s, panels, len) = (lstm.s, lstm.input.len(), GATES * S::LANES);
        let Span { source, memory, states, rows, input, output, lens, .. } = span;
        let mut sums: [[S::Lanes; GATES]; MOST_ROWS] = [[bytemuck::Zeroable::zeroed(); GATES]; MOST_ROWS];
        for group in rows.chunks(SEQUENCES) {
            let mut places = [Place::default(); SEQUENCES];
            let places = &mut places[..group.len()];
            for (n, &(state, sequence)) in group.iter().enumerate() {
                let (x, y) = (input.at(lens, sequence, t).start, output.at(lens, sequence, t).start);
                places[n] = Place { x, state, y };
            }
            for turn in 0..panels {
                let at = way.at(turn, panels);
                let units = at * S::LANES..lstm.hidden.min((at + 1) * S::LANES);
                // With one pass over the panel, the sums of a block are used at once.
                let mut left = &places[..];
                while !left.is_empty() {
                    let (block, others) = left.split_at(block_len::<S, GATES>(s, left.len()));
                    left = others;
                    let row = |n: usize| ([block[n].x, block[n].state], n * len);
                    let parts = [(&lstm.input, source.unwrap_or(memory)), (&lstm.recurrent, &**states)];
                    let start = Some(lstm.start.get());
                    let all = bytemuck::cast_slice_mut(&mut sums);
                    block_of::<S, W, GATES, 2>(s, parts, at, start, all, block.len(), row);
                    // Two short loops, whose turns overlap more than those of one long one.
                    for n in 0..block.len() {
                        let [i, f, g, _] = gates(s, &sums[n]);
                        let c = &mut states[block[n].state + lstm.output..][units.clone()];
                        s.store_part(kept(s, [i, f, g], c), c);
                    }
                    // h keeps its old value until all units have been summed.
                    for n in 0..block.len() {
                        let c = s.load_part(&states[block[n].state + lstm.output..][units.clone()]);
                        let m = gated_tanh(s, s.load(&sums[n][OUTPUT]), c);
                        s.store_part(m, &mut memory[block[n].y..][units.clone()]);
                    }
                }
            }
            for place in places.iter() {
                copy(s, &memory[place.y..][..lstm.output], &mut states[place.state..][..lstm.output]);
            }
        }
    }
}

/// Offsets of a sequence's input, state and output.
#[derive(Clone, Copy, Default)]
struct Place {
    x: usize,
    state: usize,
    y: usize,
}
