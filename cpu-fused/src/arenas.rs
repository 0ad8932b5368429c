//! The arenas of several sequences, and how a packed node runs over them: over the steps of each sequence, or over the
//! rows of a window of each.

use crate::layer::{Layer, Line, Span};
use crate::plan::{Packed, rows_at_once};

/// Arenas and states of several sequences.
pub(crate) struct Arenas<'s, E> {
    /// Arenas, `[sequence][time][stride]`, followed at `spare` by memory for gathered rows.
    pub memory: &'s mut [E],
    pub spare: usize,
    /// Elements of an arena.
    pub stride: usize,
    /// Arenas per sequence.
    pub time: usize,
    /// The states of all sequences.
    pub states: &'s mut [E],
    /// Elements from one state to the next.
    pub state_stride: usize,
    /// Offset of the first node in a state: after the clock, if there is one.
    pub first: usize,
    /// Scratch of the kernels.
    pub work: &'s mut [E],
    /// Scratch for offsets of rows.
    pub rows: &'s mut Vec<(usize, usize)>,
}

impl<E: Copy + Default> Arenas<'_, E> {
    /// Offset of the arena of a step.
    pub fn arena(&self, sequence: usize, time: usize) -> usize {
        (sequence * self.time + time) * self.stride
    }

    /// Offset of a node's state in the states of all sequences.
    pub fn state(&self, node: &Packed<'_, E>, sequence: usize) -> usize {
        sequence * self.state_stride + self.first + node.state.start
    }

    /// Runs a node that is not unrolled over the first `lens` steps of each sequence. `resets` holds `flags` flags per
    /// sequence: whether the state is reset before a step.
    pub fn steps(
        &mut self,
        node: &Packed<'_, E>,
        layer: &dyn Layer<E>,
        lens: &[usize],
        (resets, flags): (&[bool], usize),
    ) {
        for (sequence, &len) in lens.iter().enumerate() {
            for time in 0..len {
                let arena = self.arena(sequence, time);
                self.memory[arena + node.output.end..arena + node.output_end].fill(E::default());
                if node.input.is_none() {
                    self.gather(node, arena, 0, sequence * self.time + time);
                }
            }
        }
        let line = |start, row: usize, len| Line { start, sequence: self.time * row, row, len, mirrored: false };
        let input = match &node.input {
            Some(input) => line(input.start, self.stride, input.len()),
            None => line(self.spare, node.node.padded_input(), node.node.padded_input()),
        };
        let output = line(node.output.start, self.stride, node.output.len());
        self.run(node, layer, (input, output), (self.time, lens), (resets, flags));
    }

    /// Runs an unrolled node over the windows in the arenas of one step. `lens` holds the valid rows of each window, 0
    /// for a sequence without one, and is consumed.
    pub fn windows(&mut self, node: &Packed<'_, E>, layer: &dyn Layer<E>, time: usize, lens: &mut [usize]) {
        let Some(unroll) = node.node.unroll else { return };
        let size = node.node.output_size;
        for (sequence, &len) in lens.iter().enumerate().filter(|&(_, &len)| len > 0) {
            let (arena, state) = (self.arena(sequence, time), self.state(node, sequence));
            self.memory[arena + node.output.start + len * size..arena + node.output_end].fill(E::default());
            if !unroll.stateful {
                self.states[state..state + node.state.len()].fill(E::default());
            }
        }
        let most = rows_at_once(lens.len());
        let (mut first, left) = (0, |lens: &[usize]| lens.iter().copied().max().unwrap_or(0));
        while left(lens) > 0 {
            let rows = left(lens).min(most);
            let start = self.arena(0, time);
            // A forward line skips the rows of earlier blocks.
            let line = |start, row: usize, len, mirrored| {
                let start = start + if mirrored { 0 } else { first * row };
                Line { start, sequence: self.time * self.stride, row, len, mirrored }
            };
            let padded = node.node.padded_input();
            let output = line(start + node.output.start, size, size, unroll.write_backwards);
            let input = match &node.input {
                Some(input) => line(start + input.start, node.node.input_size, input.len(), unroll.read_backwards),
                None => Line { start: self.spare, sequence: rows * padded, row: padded, len: padded, mirrored: false },
            };
            if node.input.is_none() {
                for (sequence, &len) in lens.iter().enumerate() {
                    for row in 0..len.min(rows) {
                        let from = if unroll.read_backwards { len - 1 - row } else { first + row };
                        self.gather(node, self.arena(sequence, time), from, sequence * rows + row);
                    }
                }
            }
            self.run(node, layer, (input, output), (rows, lens), (&[], 0));
            lens.iter_mut().for_each(|len| *len = len.saturating_sub(rows));
            first += rows;
        }
    }

    /// Gathers row `row` of all slots that a node reads into gathered row `to`.
    fn gather(&mut self, node: &Packed<'_, E>, arena: usize, row: usize, to: usize) {
        let padded = node.node.padded_input();
        let (mut at, end) = (self.spare + to * padded, self.spare + (to + 1) * padded);
        for (start, elements) in (0..).map_while(|slot| node.node.slot(slot)) {
            let from = arena + start + row * elements;
            self.memory.copy_within(from..from + elements, at);
            at += elements;
        }
        self.memory[at..end].fill(E::default());
    }

    fn run(
        &mut self,
        node: &Packed<'_, E>,
        layer: &dyn Layer<E>,
        (input, output): (Line, Line),
        (time, lens): (usize, &[usize]),
        (resets, resets_time): (&[bool], usize),
    ) {
        layer.run(&mut Span {
            source: None,
            memory: self.memory,
            input,
            output,
            time,
            lens,
            resets,
            resets_time,
            states: self.states,
            state_stride: self.state_stride,
            state: node.state.start + self.first..node.state.end + self.first,
            work: self.work,
            rows: self.rows,
        });
    }
}
