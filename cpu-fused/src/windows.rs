//! Sequences of a model with windows, all of a batch together. The nodes before the first window (the head) run layer
//! by layer over many steps. Then each sequence advances until its window is complete, and the nodes after the window
//! (the tail) run over the windows of all sequences that have one. This repeats until no sequence has a window left.

use tidegate::Sequence;
use tidegate::internals::{
    backend::{Crosses, Pass},
    cell::CellKind,
};

use crate::arenas::Arenas;
use crate::layer::SEQUENCES;
use crate::model::{FusedModel, Scratch};
use crate::plan::{Element, Nodes, Packed, STEPS};
use crate::sequence::{ELEMENTS, run};

/// The parts of the node list.
struct Parts<'n, 'm, E> {
    /// Nodes before the first window.
    head: &'n [Packed<'m, E>],
    window: &'n Packed<'m, E>,
    /// Nodes after the first window.
    tail: &'n [Packed<'m, E>],
    /// Elements of an arena that the head uses.
    head_elements: usize,
}

/// Sequences that run together.
struct Group {
    /// Index of the first sequence, and steps per sequence in the buffers.
    first: usize,
    time: usize,
    batch: usize,
    /// Steps of each sequence that run at once.
    most: usize,
    /// Offset of the whole arenas, which follow the arenas and gathered rows of the head.
    whole: usize,
    head_spare: usize,
    spare: usize,
}

impl FusedModel<'_> {
    /// Runs all sequences of a model with windows and an endless schedule.
    #[expect(clippy::too_many_arguments)]
    pub(crate) fn windows<E: Element>(
        &self,
        nodes: &Nodes<'_, E>,
        words: &mut [u32],
        scratch: &mut Scratch,
        inputs: &[&[f32]],
        outputs: &mut [&mut [f32]],
        how: &Sequence<'_>,
        time: usize,
    ) -> usize
    where
        f32: Crosses<E>,
    {
        let Some(at) = nodes.all.iter().position(|node| node.is_window) else { return 0 };
        let (head, tail) = nodes.all.split_at(at);
        let [window, tail @ ..] = tail else { return 0 };
        let ends = self.inputs.iter().map(|port| port.end).chain(head.iter().map(|node| node.output_end));
        let parts = Parts { head, window, tail, head_elements: ends.max().unwrap_or(0) };
        let state_words = self.model.state_words();
        let together = (ELEMENTS / self.model.slot_elements().max(1)).clamp(1, SEQUENCES);
        let mut written = 0;
        for (group, words) in words.chunks_mut(state_words * together).enumerate() {
            let batch = words.len() / state_words;
            let group = self.group(nodes, &parts, scratch, (group * together, batch), time);
            written += self.group_of_windows(nodes, &parts, words, scratch, inputs, outputs, how, &group);
        }
        written
    }

    /// Allocates memory for the sequences that run together.
    fn group<E: Element>(
        &self,
        nodes: &Nodes<'_, E>,
        parts: &Parts<'_, '_, E>,
        scratch: &mut Scratch,
        (first, batch): (usize, usize),
        time: usize,
    ) -> Group {
        let most = (ELEMENTS / (batch * parts.head_elements).max(1)).min(STEPS / batch).clamp(1, time.max(1));
        let [work, gathered, _] = nodes.most(batch, most);
        let head_spare = batch * most * parts.head_elements;
        let line = 64 / size_of::<E>();
        let whole = (head_spare + gathered).next_multiple_of(line);
        let spare = batch * self.model.slot_elements();
        let per_word = size_of::<u32>() / size_of::<E>();
        scratch.arenas.at_least((whole + spare + gathered).div_ceil(per_word));
        scratch.work.at_least(work.div_ceil(per_word));
        Group { first, time, batch, most, whole, head_spare, spare }
    }

    #[expect(clippy::too_many_arguments)]
    fn group_of_windows<E: Element>(
        &self,
        nodes: &Nodes<'_, E>,
        parts: &Parts<'_, '_, E>,
        words: &mut [u32],
        scratch: &mut Scratch,
        inputs: &[&[f32]],
        outputs: &mut [&mut [f32]],
        how: &Sequence<'_>,
        group: &Group,
    ) -> usize
    where
        f32: Crosses<E>,
    {
        let &Group { first, time, batch, most, .. } = group;
        let lens: Vec<usize> = (0..batch).map(|index| how.lens.map_or(time, |lens| lens[first + index])).collect();
        let mut written = vec![0; batch];
        let longest = lens.iter().copied().max().unwrap_or(0);
        for begin in (0..longest).step_by(most) {
            let steps = |index: usize| lens[index].clamp(begin, begin + most) - begin;
            let resets = how.resets.map_or(&[][..], |resets| &resets[first * time + begin..]);
            let chunk = Chunk { from: first * time + begin, lens: (0..batch).map(steps).collect(), resets };
            self.head(parts, words, scratch, inputs, group, &chunk);
            let mut at = vec![0; batch];
            while let Some(passes) = self.advance_windows(parts, words, scratch, group, &chunk, &mut at) {
                self.tail(parts.tail, words, scratch, outputs, (group, passes), (how.last_only, &mut written));
            }
        }
        if how.finish {
            // A node after the window may read slots before it. They hold zeros, the padding of the sequence.
            bytemuck::cast_slice_mut::<_, E>(scratch.arenas.get_mut())[group.whole..][..group.spare].fill(E::default());
            let passes = lens.iter().map(|&len| (len > 0).then_some(Pass::FINISH)).collect();
            self.tail(&nodes.all, words, scratch, outputs, (group, passes), (how.last_only, &mut written));
        }
        let rows = if how.last_only { 1 } else { time };
        for (index, written) in written.iter_mut().enumerate() {
            *written = rows.min(*written);
            self.blank(outputs, (first + index) * rows + *written, rows - *written);
            if lens[index] > 0 {
                // An endless clock stays at zero.
                words[index * self.model.state_words()] = 0;
            }
        }
        written.iter().sum()
    }

    /// Runs the head over the steps of a chunk.
    fn head<E: Element>(
        &self,
        parts: &Parts<'_, '_, E>,
        words: &mut [u32],
        scratch: &mut Scratch,
        inputs: &[&[f32]],
        group: &Group,
        chunk: &Chunk<'_>,
    ) where
        f32: Crosses<E>,
    {
        let (mut field, core_work) = self.field(words, scratch, group, Some(parts.head_elements));
        for (index, &steps) in chunk.lens.iter().enumerate() {
            for t in 0..steps {
                let arena = field.arena(index, t);
                let slots = &mut field.memory[arena..arena + parts.head_elements];
                self.enter(inputs, chunk.from + index * group.time + t, slots);
            }
        }
        for node in parts.head {
            run(node, &mut field, &chunk.lens, (chunk.resets, group.time), core_work);
        }
    }

    /// Advances each sequence until its window is complete. `None` if no sequence has a window left.
    fn advance_windows<E: Element>(
        &self,
        parts: &Parts<'_, '_, E>,
        words: &mut [u32],
        scratch: &mut Scratch,
        group: &Group,
        chunk: &Chunk<'_>,
        at: &mut [usize],
    ) -> Option<Vec<Option<Pass>>> {
        let Parts { window, tail, head_elements, .. } = *parts;
        let mut passes = vec![None; group.batch];
        // The states of window and tail follow those of the head.
        let rest = window.state.start..tail.last().map_or(window.state.end, |node| node.state.end);
        let unit = self.model.padded(1);
        let (field, core_work) = self.field::<E>(words, scratch, group, None);
        let (heads, wholes) = field.memory.split_at_mut(group.whole);
        for (index, (at, pass)) in at.iter_mut().zip(&mut passes).enumerate() {
            let slots = &mut wholes[index * field.stride..(index + 1) * field.stride];
            let base = index * field.state_stride + field.first;
            let states = &mut field.states[base..base + rest.end];
            while *at < chunk.lens[index] {
                let is_reset = |t: usize| chunk.resets.get(index * group.time + t) == Some(&true);
                if is_reset(*at) {
                    states[rest.clone()].fill(E::default());
                }
                let arena = |t: usize| (index * group.most + t) * head_elements;
                let own = &mut states[window.state.clone()];
                let together = (*at + 1..chunk.lens[index]).find(|&t| is_reset(t)).unwrap_or(chunk.lens[index]) - *at;
                // Other nodes that can end a step have a different state.
                let is_window = window.node.kind == CellKind::Window;
                let rows = if is_window { Counts { window, unit }.before_next(own).min(together) } else { 0 };
                if let (Some(input), 1..) = (&window.input, rows) {
                    let from = |row: usize| &heads[arena(*at + row) + input.start..][..window.node.input_size];
                    Counts { window, unit }.take(own, rows, from);
                    *at += rows;
                    continue;
                }
                slots[..head_elements].copy_from_slice(&heads[arena(*at)..][..head_elements]);
                *at += 1;
                let mut stepped = Pass::STEP;
                if window.step_alone(&mut stepped, own, slots, core_work) {
                    *pass = Some(stepped);
                    break;
                }
            }
        }
        passes.iter().any(Option::is_some).then_some(passes)
    }

    /// Runs `nodes` for each sequence that has a pass, and writes its outputs.
    fn tail<E: Element>(
        &self,
        nodes: &[Packed<'_, E>],
        words: &mut [u32],
        scratch: &mut Scratch,
        outputs: &mut [&mut [f32]],
        (group, mut passes): (&Group, Vec<Option<Pass>>),
        (last_only, written): (bool, &mut [usize]),
    ) where
        f32: Crosses<E>,
    {
        let (mut field, core_work) = self.field(words, scratch, group, None);
        // Skips the arenas of the head.
        field.memory = &mut field.memory[group.whole..];
        let mut rows = vec![0; group.batch];
        for node in nodes {
            match &node.layer {
                None => {
                    for (index, pass) in passes.iter_mut().enumerate() {
                        let (arena, state) = (field.arena(index, 0), field.state(node, index));
                        let slots = &mut field.memory[arena..arena + field.stride];
                        let own = &mut field.states[state..state + node.state.len()];
                        if let Some(running) = pass
                            && !node.step_alone(running, own, slots, core_work)
                        {
                            *pass = None;
                        }
                    }
                }
                Some(layer) => {
                    for (rows, pass) in rows.iter_mut().zip(&passes) {
                        let pass = pass.filter(|pass| pass.steps());
                        *rows = pass.map_or(0, |pass| pass.rows().min(node.node.steps()));
                    }
                    if node.node.unroll.is_some() {
                        field.windows(node, &**layer, 0, &mut rows);
                    } else {
                        rows.iter_mut().for_each(|rows| *rows = 1.min(*rows));
                        field.steps(node, &**layer, &rows, (&[], 0));
                    }
                }
            }
        }
        for (index, pass) in passes.iter().enumerate() {
            if !pass.is_some_and(Pass::steps) {
                continue;
            }
            let sequence = group.first + index;
            let to = if last_only { sequence } else { sequence * group.time + written[index] };
            let arena = field.arena(index, 0);
            self.leave(&field.memory[arena..arena + field.stride], outputs, to);
            written[index] += 1;
        }
    }

    /// The arenas of the head for the steps of a chunk, of `head` elements each, or the whole arenas of one step.
    fn field<'s, E: Element>(
        &self,
        words: &'s mut [u32],
        scratch: &'s mut Scratch,
        group: &Group,
        head: Option<usize>,
    ) -> (Arenas<'s, E>, &'s mut [E]) {
        let stride = self.model.slot_elements();
        let per_word = size_of::<u32>() / size_of::<E>();
        let field = Arenas {
            memory: bytemuck::cast_slice_mut(scratch.arenas.get_mut()),
            spare: if head.is_some() { group.head_spare } else { group.spare },
            stride: head.unwrap_or(stride),
            time: if head.is_some() { group.most } else { 1 },
            states: bytemuck::cast_slice_mut(words),
            state_stride: self.model.state_words() * per_word,
            // After the clock.
            first: per_word,
            work: bytemuck::cast_slice_mut(scratch.work.get_mut()),
            rows: &mut scratch.rows,
        };
        (field, &mut bytemuck::cast_slice_mut::<_, E>(scratch.words.get_mut())[stride..])
    }
}

/// Some steps of a group.
struct Chunk<'s> {
    /// Input row of the first step of the first sequence.
    from: usize,
    /// Steps of each sequence.
    lens: Vec<usize>,
    /// Reset flags from the first step of the first sequence on, one per input row.
    resets: &'s [bool],
}

/// The state of a [window](tidegate::internals::cell::window): its rows, the number of valid rows, and the steps since its
/// last output. Rows that do not complete the window are copied together.
struct Counts<'n, 'm, E> {
    window: &'n Packed<'m, E>,
    /// Elements of a count in the state.
    unit: usize,
}

impl<E: Element> Counts<'_, '_, E> {
    fn split<'s>(&self, state: &'s mut [E]) -> (&'s mut [E], &'s mut [E], &'s mut [E]) {
        let counts = state.len() - 2 * self.unit;
        let (rows, counts) = state.split_at_mut(counts);
        let (filled, since) = counts.split_at_mut(self.unit);
        (&mut rows[..self.window.node.output_size], filled, since)
    }

    fn extents(&self) -> [usize; 3] {
        [0, 1, 2].map(|index| self.window.node.extent(index))
    }

    /// Number of valid rows before the next one.
    fn filled(&self, filled: &[E]) -> usize {
        let [_, _, prefill] = self.extents();
        match filled[0].count() {
            0 => prefill,
            filled => filled,
        }
    }

    /// Number of steps before the next output.
    fn before_next(&self, state: &mut [E]) -> usize {
        let [length, hop, _] = self.extents();
        let (_, filled, since) = self.split(state);
        let filled = self.filled(filled);
        if filled < length { length - filled - 1 } else { hop.saturating_sub(since[0].count().saturating_add(1)) }
    }

    /// Takes `steps` steps without an output.
    fn take<'x>(&self, state: &mut [E], steps: usize, row: impl Fn(usize) -> &'x [E])
    where
        E: 'x,
    {
        let [length, ..] = self.extents();
        let (rows, filled, since) = self.split(state);
        if filled[0].count() == 0 {
            rows.fill(E::default());
        }
        let (size, before) = (self.window.node.input_size, self.filled(filled));
        let kept = rows.len() - steps.min(length) * size;
        rows.copy_within(rows.len() - kept.., 0);
        for (to, index) in rows[kept..].chunks_mut(size).zip(steps.saturating_sub(length)..) {
            to.copy_from_slice(row(index));
        }
        let now = before.saturating_add(steps).min(length);
        filled[0] = E::of_count(now);
        since[0] = E::of_count(if now < length { 0 } else { since[0].count().saturating_add(steps) });
    }
}
