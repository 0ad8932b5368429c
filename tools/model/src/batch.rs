//! Many sequences through one model, as a device runs them: each from a zero state, with the schedule of the image. The
//! results are bit-identical to those of [`run`](crate::runner::run) for each sequence alone.

use std::ops::Range;

use tidegate::{Batch, Schedule, Sequence};

use crate::backend::{Engine, Scratch};
use crate::runner::{RunError, check_room};

/// Maximum work between two calls of the caller's function, a few milliseconds: multiply-accumulates, and numbers.
const WORK: usize = 1 << 26;
const NUMBERS: usize = 1 << 20;

/// An array `[sequences, steps, size]` for each input.
#[derive(Clone, Copy, Debug)]
pub struct Shape<'s> {
    /// Number of sequences.
    pub sequences: usize,
    /// Number of steps of each, and of rows in the arrays.
    pub steps: usize,
    /// Number of steps of each sequence that count; all if `None`.
    pub lens: Option<&'s [usize]>,
}

impl Shape<'_> {
    fn len(&self, sequence: usize) -> usize {
        self.lens.map_or(self.steps, |lens| lens[sequence].min(self.steps))
    }
}

/// The rows of all sequences.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    /// For each output, the rows of the first sequence, of the second, ...: `[rows, size]`.
    pub outputs: Vec<Vec<f32>>,
    /// Number of rows of each sequence.
    pub counts: Vec<usize>,
}

/// Runs the sequences of a batch. `read` appends rows of an input to a list: its arguments are the number of the input,
/// the range of rows, counted over all sequences, and the list. It is called every few milliseconds; if it returns an
/// error, the run ends with this error.
///
/// # Errors
/// Those of `read`; also if the outputs have more than [`MOST_NUMBERS`](crate::runner::MOST_NUMBERS) numbers.
pub fn run_batch<E: From<RunError>>(
    engine: &Engine<'_>,
    shape: &Shape<'_>,
    mut read: impl FnMut(usize, Range<usize>, &mut Vec<f32>) -> Result<(), E>,
) -> Result<Rows, E> {
    let model = engine.model();
    let lens = (0..shape.sequences).map(|sequence| shape.len(sequence));
    match model.schedule() {
        Schedule::Windows { frames, every } if !model.has_buffer() => {
            let (frames, every) = (frames as usize, every as usize);
            let counts: Vec<usize> =
                lens.map(|len| len.checked_sub(frames).map_or(0, |rest| rest / every + 1)).collect();
            let starts = counts
                .iter()
                .enumerate()
                .flat_map(|(sequence, count)| (0..*count).map(move |window| sequence * shape.steps + window * every));
            let spans: Vec<Range<usize>> = starts.map(|start| start..start + frames).collect();
            // A window starts at zero, so it is a sequence of its own.
            let outputs = Spans { engine: &engine.endless(), last_only: true }.run(&spans, &mut read)?.outputs;
            Ok(Rows { outputs, counts })
        }
        _ => {
            let span = |(sequence, len)| sequence * shape.steps..sequence * shape.steps + len;
            let spans: Vec<Range<usize>> = lens.enumerate().map(span).collect();
            Spans { engine, last_only: false }.run(&spans, &mut read)
        }
    }
}

/// Runs a list of sequences, `[steps, size]` for each input.
///
/// # Errors
/// If the outputs have more than [`MOST_NUMBERS`](crate::runner::MOST_NUMBERS) numbers.
pub fn run_list(engine: &Engine<'_>, sequences: &[Vec<Vec<f32>>]) -> Result<Rows, RunError> {
    let sizes: Vec<usize> = engine.model().inputs().map(|port| port.size.max(1)).collect();
    let len = |inputs: &Vec<Vec<f32>>| inputs.first().map_or(0, |values| values.len() / sizes[0]);
    let lens: Vec<usize> = sequences.iter().map(len).collect();
    let steps = lens.iter().copied().max().unwrap_or(0);
    let shape = Shape { sequences: sequences.len(), steps, lens: Some(&lens) };
    run_batch(engine, &shape, |input, rows, to| {
        let (sequence, size) = (rows.start / steps.max(1), sizes[input]);
        let first = rows.start - sequence * steps;
        to.extend_from_slice(&sequences[sequence][input][first * size..(first + rows.len()) * size]);
        Ok(())
    })
}

/// Reads rows of an input, as in [`run_batch`].
type Read<'r, E> = dyn FnMut(usize, Range<usize>, &mut Vec<f32>) -> Result<(), E> + 'r;

/// Sequences that each take a range of rows.
struct Spans<'e, 'm> {
    engine: &'e Engine<'m>,
    last_only: bool,
}

impl Spans<'_, '_> {
    fn run<E: From<RunError>>(&self, spans: &[Range<usize>], read: &mut Read<'_, E>) -> Result<Rows, E> {
        let model = self.engine.model();
        let sizes: Vec<usize> = model.outputs().map(|port| port.size).collect();
        let rows: usize = if self.last_only { spans.len() } else { spans.iter().map(Range::len).sum() };
        check_room(rows, sizes.iter().sum())?;
        let mut all = Rows { outputs: vec![Vec::new(); sizes.len()], counts: Vec::with_capacity(spans.len()) };
        let mut scratch = self.engine.scratch();
        let mut rest = spans;
        while let [first, ..] = rest {
            let most = self.most_steps();
            let together = if model.has_buffer() { 1 } else { (most / first.len().max(1)).max(1) };
            let count = rest.iter().take(together).take_while(|span| span.len() == first.len()).count();
            let (group, behind) = rest.split_at(count);
            self.group(group, most, &mut scratch, read, &mut all)?;
            rest = behind;
        }
        Ok(all)
    }

    /// Number of steps between two calls of the caller's function.
    fn most_steps(&self) -> usize {
        let model = self.engine.model();
        let macs = model.nodes().map(|node| node.macs()).sum::<usize>().max(1);
        let numbers = model.input_size().max(model.output_size()).max(1);
        (WORK / macs).min(NUMBERS / numbers).max(1)
    }

    /// Runs spans of the same length. A single span is run `most` steps at a time, several spans in one piece.
    fn group<E: From<RunError>>(
        &self,
        group: &[Range<usize>],
        most: usize,
        scratch: &mut Scratch,
        read: &mut Read<'_, E>,
        all: &mut Rows,
    ) -> Result<(), E> {
        let model = self.engine.model();
        let len = group.first().map_or(0, Range::len);
        let mut memory = vec![0; model.state_words() * group.len()];
        let mut states = Batch::new(model, group.len(), &mut memory).expect("as many words as its states have");
        let sizes: Vec<usize> = model.outputs().map(|port| port.size).collect();
        let at_once = if group.len() == 1 && !self.last_only { most.min(len).max(1) } else { len.max(1) };
        let mut written = 0;
        for begin in (0..len).step_by(at_once) {
            let steps = at_once.min(len - begin);
            let mut inputs = vec![Vec::new(); model.inputs().count()];
            for (input, values) in inputs.iter_mut().enumerate() {
                for span in group {
                    read(input, span.start + begin..span.start + begin + steps, values)?;
                }
            }
            let rows = group.len() * if self.last_only { 1 } else { steps };
            let mut outputs: Vec<Vec<f32>> = sizes.iter().map(|size| vec![0.0; rows * size]).collect();
            let inputs: Vec<&[f32]> = inputs.iter().map(Vec::as_slice).collect();
            let mut slices: Vec<&mut [f32]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
            let finish = begin + steps == len;
            let how = Sequence { last_only: self.last_only, finish, ..Sequence::ALL };
            let count =
                self.engine.run_batch(&mut states, scratch, &inputs, &mut slices, &how).map_err(RunError::from)?;
            for ((all, output), size) in all.outputs.iter_mut().zip(&outputs).zip(&sizes) {
                all.extend_from_slice(&output[..count * size]);
            }
            written += count;
        }
        all.counts.extend(group.iter().map(|_| written / group.len().max(1)));
        Ok(())
    }
}

impl Rows {
    /// Number of rows of the longest sequence.
    pub fn most(&self) -> usize {
        self.counts.iter().copied().max().unwrap_or(0)
    }

    /// An output as `[sequences, most, size]`. Sequences with fewer rows than `most` are padded with zeros at the end.
    ///
    /// # Errors
    /// If the padded output has more than [`MOST_NUMBERS`](crate::runner::MOST_NUMBERS) numbers.
    pub fn padded(&self, output: usize, size: usize) -> Result<Vec<f32>, RunError> {
        let (most, all) = (self.most(), self.outputs.get(output).map_or(&[][..], Vec::as_slice));
        check_room(self.counts.len().saturating_mul(most), size)?;
        let mut padded = Vec::with_capacity(self.counts.len() * most * size);
        let mut rest = all;
        for count in &self.counts {
            let (rows, behind) = rest.split_at(count * size);
            padded.extend_from_slice(rows);
            padded.resize(padded.len() + (most - count) * size, 0.0);
            rest = behind;
        }
        Ok(padded)
    }
}
