//! Steps of several sequences of an LSTM.
//!
//! Few sequences: what comes in is multiplied for all steps at once, then they step. Many: they step together, and nothing
//! is kept of a step but states; without options that need a whole row, sums stay in registers until they are a state.

use super::{GATES, Lstm, clip, copy};
use crate::node::{Line, Span};
use crate::panels::Panels;
use crate::sequence::SEQUENCES;
use crate::simd::{Simd, Task};
use crate::sums::{MOST_ROWS, Way, block_len, block_of, many, many_through};
use crate::weight::Weight;

/// Rows whose sums are in memory together: they stay in the first cache.
const GROUP: usize = 12;

/// Where a row of a step lies: its state, its sums and what goes out.
#[derive(Clone, Copy, Default)]
pub struct Row {
    pub state: usize,
    pub sums: usize,
    pub y: usize,
}

/// What rows of a step have besides the sums of what comes in.
pub struct Work<'w> {
    /// What the recurrent weights see, with `low_rank`.
    operand: &'w mut [f32],
    /// Sums of what is carried, where they are normalized by themselves.
    of_state: &'w mut [f32],
    /// What is projected.
    m: &'w mut [f32],
    projected: &'w mut [f32],
}

impl<'w> Work<'w> {
    /// Elements of a row of each.
    fn lens<S: Simd, W: Weight>(lstm: &Lstm<S, W>) -> [usize; 4] {
        let vectors =
            [lstm.basis.as_ref().map_or(0, Panels::vectors), lstm.projection.as_ref().map_or(0, Panels::vectors)];
        let [of_basis, of_projection] = vectors.map(|vectors| vectors * S::LANES);
        let m = if lstm.projection.is_some() { lstm.hidden.next_multiple_of(S::LANES) } else { 0 };
        [of_basis, lstm.of_state_len(), m, of_projection]
    }

    /// Elements for so many steps, of which no more than [`GROUP`] are together.
    pub fn len<S: Simd, W: Weight>(lstm: &Lstm<S, W>, steps: usize) -> usize {
        Self::lens(lstm).iter().sum::<usize>() * steps.min(GROUP)
    }

    #[inline(always)]
    fn new<S: Simd, W: Weight>(lstm: &Lstm<S, W>, rows: usize, work: &'w mut [f32]) -> Self {
        let [operand, of_state, m, projected] = Self::lens(lstm);
        let (operand, work) = work.split_at_mut(rows * operand);
        let (of_state, work) = work.split_at_mut(rows * of_state);
        let (m, work) = work.split_at_mut(rows * m);
        Self { operand, of_state, m, projected: &mut work[..rows * projected] }
    }
}

/// What `pair` says of each row.
#[inline(always)]
fn pairs(rows: &[Row], pair: impl Fn(usize, &Row) -> (usize, usize)) -> [(usize, usize); GROUP] {
    let mut pairs = [(0, 0); GROUP];
    for (index, (row, to)) in rows.iter().zip(&mut pairs).enumerate() {
        *to = pair(index, row);
    }
    pairs
}

pub struct Run<'k, 'r, 's, S, W>(pub &'k Lstm<S, W>, pub &'r mut Span<'s, f32>);

impl<S: Simd, W: Weight> Task for Run<'_, '_, '_, S, W> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self(lstm, span) = self;
        if span.lens.len() < S::ROWS {
            return lstm.ahead(span);
        }
        for t in 0..span.time {
            span.rows_at(t, lstm.masked);
            let way = Way::of(t % 2 == 1);
            match (lstm.is_plain(), lstm.usual) {
                (true, true) => lstm.in_registers::<true>(span, t, way),
                (true, false) => lstm.in_registers::<false>(span, t, way),
                _ => lstm.in_groups(span, t, way),
            }
        }
    }
}

impl<S: Simd, W: Weight> Lstm<S, W> {
    fn of_state_len(&self) -> usize {
        if self.norms.as_ref().is_some_and(super::Norms::is_joint) { self.sums_len() } else { 0 }
    }

    /// All sums of what comes in, then step after step.
    #[inline(always)]
    fn ahead(&self, span: &mut Span<'_, f32>) {
        let len = self.sums_len();
        span.rows_of_inputs(len, self.masked);
        let x = span.source.unwrap_or(span.memory);
        many(self.s, &self.input, x, Some(self.start.get()), span.work, span.rows, Way::Up);
        let steps = span.lens.len() * span.time;
        for t in 0..span.time {
            span.rows_of_states(t, len, self.masked);
            let way = Way::of(t % 2 == 1);
            if let (&[(state, sums)], true) = (&span.rows[..], self.is_plain() && self.usual) {
                let y = span.y(span.sequence_of(state), t);
                let (h, c) = span.states[state..].split_at_mut(self.output);
                let (c, y) = (&mut c[..self.hidden], &mut span.memory[y]);
                self.step_usual(&span.work[sums..][..len], &[], h, c, y, way);
                copy(self.s, y, h);
                continue;
            }
            let mut rows = [Row::default(); GROUP];
            let rows = &mut rows[..span.rows.len()];
            for (row, &(state, sums)) in rows.iter_mut().zip(span.rows.iter()) {
                *row = Row { state, sums, y: span.y(span.sequence_of(state), t).start };
            }
            let (sums, work) = span.work.split_at_mut(steps * len);
            self.finish(rows, sums, work, span.states, span.memory, way);
        }
    }

    /// One step of sequences, some at a time.
    #[inline(always)]
    fn in_groups(&self, span: &mut Span<'_, f32>, t: usize, way: Way) {
        let len = self.sums_len();
        let (sums, work) = span.work.split_at_mut(GROUP.min(span.lens.len()) * len);
        let mut left = &span.rows[..];
        while !left.is_empty() {
            let (group, others) = left.split_at(left.len().div_ceil(left.len().div_ceil(GROUP)));
            left = others;
            let (mut rows, mut inputs) = ([Row::default(); GROUP], [(0, 0); GROUP]);
            let (rows, inputs) = (&mut rows[..group.len()], &mut inputs[..group.len()]);
            for (index, &(state, sequence)) in group.iter().enumerate() {
                let at = |line: &Line| line.at(span.lens, sequence, t).start;
                rows[index] = Row { state, sums: index * len, y: at(&span.output) };
                inputs[index] = (at(&span.input), index * len);
            }
            let x = span.source.unwrap_or(span.memory);
            let start = Some(self.start.get());
            let mut work = Work::new(self, rows.len(), work);
            if self.basis.is_none() && self.of_state_len() == 0 {
                let parts = [(&self.input, x), (&self.recurrent, &*span.states)];
                let row = |n: usize| ([inputs[n].0, rows[n].state], inputs[n].1);
                many_through(self.s, parts, start, sums, (rows.len(), row), way);
            } else {
                many(self.s, &self.input, x, start, sums, inputs, way);
                self.carry(rows, sums, &mut work, span.states, way);
            }
            self.units(rows, sums, &mut work, span.states, span.memory, way);
        }
    }

    /// A step of rows, no more than [`GROUP`], whose `sums` are those of what comes in, to their states and to `y`.
    #[inline(always)]
    pub fn finish(
        &self,
        rows: &[Row],
        sums: &mut [f32],
        work: &mut [f32],
        states: &mut [f32],
        y: &mut [f32],
        way: Way,
    ) {
        let mut work = Work::new(self, rows.len(), work);
        self.carry(rows, sums, &mut work, states, way);
        self.units(rows, sums, &mut work, states, y, way);
    }

    /// The sums go on with what is carried, or those that are normalized by themselves are made.
    #[inline(always)]
    fn carry(&self, rows: &[Row], sums: &mut [f32], work: &mut Work<'_>, states: &[f32], way: Way) {
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

    /// From the sums of rows to their states and to `y`.
    #[inline(always)]
    fn units(&self, rows: &[Row], sums: &mut [f32], work: &mut Work<'_>, states: &mut [f32], y: &mut [f32], way: Way) {
        let (s, count) = (self.s, rows.len());
        let [_, of_state_len, m_len, projected_len] = Work::lens(self);
        for (index, row) in rows.iter().enumerate() {
            let c = &mut states[row.state + self.output..][..self.hidden];
            let m = match &self.projection {
                Some(_) => &mut work.m[index * m_len..][..self.hidden],
                None => &mut y[row.y..][..self.output],
            };
            let sums = &mut sums[row.sums..][..self.sums_len()];
            match &self.norms {
                Some(norms) => {
                    let of_state = &work.of_state[index * of_state_len..][..of_state_len];
                    if self.usual {
                        self.update_normalized::<true>(norms, sums, of_state, c, m);
                    } else {
                        self.update_normalized::<false>(norms, sums, of_state, c, m);
                    }
                }
                None => self.update(sums, c, m),
            }
        }
        if let Some(projection) = &self.projection {
            let projected = pairs(rows, |index, _| (index * m_len, index * projected_len));
            work.projected.fill(0.0);
            many(s, projection, work.m, None, work.projected, &projected[..count], way);
            for (row, projected) in rows.iter().zip(work.projected.chunks(projected_len)) {
                let y = y[row.y..][..self.output].chunks_mut(S::LANES);
                for (y, sums) in y.zip(projected.chunks(S::LANES)) {
                    s.store_part(clip(s, s.load_part(sums), self.projection_clip), y);
                }
            }
        }
        for row in rows {
            states[row.state..][..self.output].copy_from_slice(&y[row.y..][..self.output]);
        }
    }

    /// One step of the sequences of `span.rows`, without options that need a whole row.
    #[inline(always)]
    fn in_registers<const USUAL: bool>(&self, span: &mut Span<'_, f32>, t: usize, way: Way) {
        let (panels, len) = (self.input.len(), GATES * S::LANES);
        let Span { source, memory, states, rows, input, output, lens, .. } = span;
        let mut sums: [[S::Lanes; GATES]; MOST_ROWS] = [[bytemuck::Zeroable::zeroed(); GATES]; MOST_ROWS];
        for group in rows.chunks(SEQUENCES) {
            let mut places = [Place::default(); SEQUENCES];
            let places = &mut places[..group.len()];
            for (place, &(state, sequence)) in places.iter_mut().zip(group) {
                let [x, y] = [*input, *output].map(|line| line.at(lens, sequence, t).start);
                *place = Place { x, state, y };
            }
            for turn in 0..panels {
                let at = way.at(turn, panels);
                let units = at * S::LANES..self.hidden.min((at + 1) * S::LANES);
                let mut left = &places[..];
                while !left.is_empty() {
                    let (block, others) = left.split_at(block_len(self.s, left.len()));
                    left = others;
                    let row = |n: usize| ([block[n].x, block[n].state], n * len);
                    let parts = [(&self.input, source.unwrap_or(memory)), (&self.recurrent, &**states)];
                    let start = Some(self.start.get());
                    let all = bytemuck::cast_slice_mut(&mut sums);
                    block_of::<S, W, GATES, 2>(self.s, parts, at, start, all, block.len(), row);
                    // h stays what it was until all units have seen it.
                    for (sums, place) in sums.iter().zip(block) {
                        let c = &mut states[place.state + self.output..][units.clone()];
                        let y = &mut memory[place.y..][units.clone()];
                        if USUAL {
                            self.update_usual(sums, c, y);
                        } else {
                            self.update_any(at, sums, c, y);
                        }
                    }
                }
            }
            for place in places.iter() {
                copy(self.s, &memory[place.y..][..self.output], &mut states[place.state..][..self.output]);
            }
        }
    }
}

/// Where a sequence has what comes in, its state and what goes out.
#[derive(Clone, Copy, Default)]
struct Place {
    x: usize,
    state: usize,
    y: usize,
}
