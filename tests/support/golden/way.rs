//! The modes in which a model is run: a backend step by step, a backend over a whole batch, and the f64 oracle.

use tidegate::{Batch, Sequence, State};
use tidegate_model::canonical::Canonical;

use super::sequence::Rows;
use crate::backend::Backend;
use crate::oracle::{Bounded, Oracle};
use crate::tolerance::same_bits;

/// The steps of one sequence.
pub struct Steps {
    /// The rows of each input.
    pub inputs: Vec<Rows>,
    /// The steps before which the state is reset to zero.
    pub resets: Vec<bool>,
}

impl Steps {
    fn len(&self) -> usize {
        self.resets.len()
    }
}

/// Runs a model over a sequence and keeps its state for the next one.
pub trait Way {
    /// Name in reports.
    fn name(&self) -> &'static str;
    /// The states, one node after the other.
    fn state(&self) -> Vec<f32>;
    /// Sets the whole state.
    fn begin(&mut self, state: &[f32]);
    /// Returns one row of each output for each step. A model over a window returns its rows at the end. `seen` receives
    /// the state after each step.
    fn run(&mut self, steps: &Steps, seen: &mut dyn FnMut(&[f32])) -> Vec<Rows>;
}

/// The outputs of one port as rows. Each step's output is one row, or the rows of a window of this length, the last of
/// which may be shorter.
fn rows(outputs: &[Vec<f32>], window: Option<usize>, steps: usize) -> Rows {
    let chunks = outputs.iter().flat_map(|output| output.chunks(output.len() / window.unwrap_or(1)));
    let rows: Rows = chunks.take(steps).map(<[f32]>::to_vec).collect();
    assert_eq!(rows.len(), steps, "one row for every step");
    rows
}

/// A backend that runs one step after the other, and its state between runs.
pub struct Stepwise<'m> {
    backend: &'m dyn Backend,
    window: Option<usize>,
    values: Vec<f32>,
}

impl<'m> Stepwise<'m> {
    /// Starts from a state of zeros.
    pub fn new(backend: &'m dyn Backend, window: Option<usize>) -> Self {
        Self { backend, window, values: vec![0.0; backend.model().state_elements()] }
    }
}

impl Way for Stepwise<'_> {
    fn name(&self) -> &'static str {
        self.backend.name()
    }

    fn state(&self) -> Vec<f32> {
        self.values.clone()
    }

    fn begin(&mut self, state: &[f32]) {
        self.values.copy_from_slice(state);
    }

    fn run(&mut self, steps: &Steps, seen: &mut dyn FnMut(&[f32])) -> Vec<Rows> {
        // The memory starts filled with ones, because its contents must not matter.
        let model = self.backend.model();
        let mut memory = vec![u32::MAX; model.state_words()];
        let mut state = State::new(model, &mut memory).expect("the memory has the model's own length");
        state.values_mut().copy_from_slice(&self.values);
        let mut outputs: Vec<Vec<Vec<f32>>> = vec![Vec::new(); model.outputs().count()];
        for t in 0..=steps.len() {
            if steps.resets.get(t) == Some(&true) {
                state.reset();
            }
            let mut y: Vec<Vec<f32>> = model.outputs().map(|port| vec![0.0; port.size]).collect();
            let mut slices: Vec<&mut [f32]> = y.iter_mut().map(Vec::as_mut_slice).collect();
            let step = if t < steps.len() {
                let x: Vec<&[f32]> = steps.inputs.iter().map(|rows| rows[t].as_slice()).collect();
                self.backend.step(&mut state, &x, &mut slices)
            } else {
                self.backend.finish(&mut state, &mut slices)
            };
            if step.expect("every length is right").has_output() {
                outputs.iter_mut().zip(y).for_each(|(outputs, y)| outputs.push(y));
            }
            if t < steps.len() {
                seen(state.values());
            }
        }
        self.values.copy_from_slice(state.values());
        outputs.iter().map(|outputs| rows(outputs, self.window, steps.len())).collect()
    }
}

/// Runs a backend over a batch of sequences in a buffer of `time` steps each. Returns the rows of each output for each
/// sequence. Elements after the end of a sequence are NaN, which would appear in the results if they were read. Each
/// sequence is also run alone for its last output, which must be the same.
pub fn at_once(
    backend: &dyn Backend,
    window: Option<usize>,
    batch: &mut Batch<'_>,
    sequences: &[Steps],
    time: usize,
) -> Vec<Vec<Rows>> {
    let model = backend.model();
    let lens: Vec<usize> = sequences.iter().map(Steps::len).collect();
    let mut resets = Vec::new();
    for steps in sequences {
        resets.extend(&steps.resets);
        resets.resize(resets.len() + time - steps.len(), false);
    }
    let inputs: Vec<Vec<f32>> = model
        .inputs()
        .enumerate()
        .map(|(port, of)| {
            let mut input = Vec::new();
            for steps in sequences {
                input.extend(steps.inputs[port].concat());
                input.resize(input.len() + (time - steps.len()) * of.size, f32::NAN);
            }
            input
        })
        .collect();
    let outputs =
        |rows: usize| -> Vec<Vec<f32>> { model.outputs().map(|port| vec![f32::NAN; rows * port.size]).collect() };
    let (mut all, mut last) = (outputs(time * sequences.len()), outputs(sequences.len()));
    for (entry, mut state) in batch.states().enumerate() {
        let own: Vec<&[f32]> = inputs
            .iter()
            .zip(model.inputs())
            .map(|(input, port)| &input[entry * time * port.size..][..time * port.size])
            .collect();
        let mut own_last: Vec<&mut [f32]> = last
            .iter_mut()
            .zip(model.outputs())
            .map(|(last, port)| &mut last[entry * port.size..][..port.size])
            .collect();
        let sequence = Sequence {
            lens: Some(&lens[entry..=entry]),
            resets: Some(&resets[entry * time..][..time]),
            last_only: true,
            finish: true,
        };
        let before = state.values().to_vec();
        backend.run(&mut state, &own, &mut own_last, &sequence).expect("every length is right");
        state.values_mut().copy_from_slice(&before);
    }

    let inputs: Vec<&[f32]> = inputs.iter().map(Vec::as_slice).collect();
    let mut slices: Vec<&mut [f32]> = all.iter_mut().map(Vec::as_mut_slice).collect();
    let sequence = Sequence { lens: Some(&lens), resets: Some(&resets), last_only: false, finish: true };
    let written = backend.run_batch(batch, &inputs, &mut slices, &sequence).expect("every length is right");
    let counts: Vec<usize> = lens.iter().map(|len| len.div_ceil(window.unwrap_or(1))).collect();
    assert_eq!(written, counts.iter().sum::<usize>(), "a row for each step or window");
    let of = |entry: usize| {
        model
            .outputs()
            .zip(&all)
            .zip(&last)
            .map(|((port, all), last)| {
                let own = &all[entry * time * port.size..][..time * port.size];
                let (own, behind) = own.split_at(counts[entry] * port.size);
                assert!(behind.iter().all(|value| value.to_bits() == 0), "elements behind the last output are zero");
                let last = &last[entry * port.size..][..port.size];
                let expected = own.rchunks(port.size).next().map_or_else(|| vec![0.0; port.size], <[f32]>::to_vec);
                same_bits(last, &expected).expect("the last output is the same when run alone");
                let outputs: Vec<Vec<f32>> = own.chunks(port.size).map(<[f32]>::to_vec).collect();
                rows(&outputs, window, lens[entry])
            })
            .collect()
    };
    (0..sequences.len()).map(of).collect()
}

/// The f64 oracle.
pub struct Exact<'m> {
    model: &'m Canonical,
    window: Option<usize>,
    state: Vec<Bounded>,
}

impl<'m> Exact<'m> {
    /// Starts from a state of zeros.
    pub fn new(model: &'m Canonical, window: Option<usize>) -> Self {
        Self { model, window, state: vec![Bounded::default(); Oracle::new(model).state_len()] }
    }
}

fn narrow(values: &[Bounded]) -> Vec<f32> {
    values.iter().map(|bounded| bounded.value as f32).collect()
}

impl Way for Exact<'_> {
    fn name(&self) -> &'static str {
        "the f64 oracle"
    }

    fn state(&self) -> Vec<f32> {
        narrow(&self.state)
    }

    fn begin(&mut self, state: &[f32]) {
        self.state = state.iter().map(|&value| Bounded::exact(value)).collect();
    }

    fn run(&mut self, steps: &Steps, seen: &mut dyn FnMut(&[f32])) -> Vec<Rows> {
        let oracle = Oracle::new(self.model);
        let mut outputs: Vec<Vec<Vec<f32>>> = vec![Vec::new(); self.model.architecture.outputs.len()];
        for t in 0..=steps.len() {
            if steps.resets.get(t) == Some(&true) {
                self.state.fill(Bounded::default());
            }
            let y = if t < steps.len() {
                let x: Vec<&[f32]> = steps.inputs.iter().map(|rows| rows[t].as_slice()).collect();
                oracle.step(&mut self.state, &x)
            } else {
                oracle.finish(&mut self.state)
            };
            let y = y.into_iter().flatten();
            outputs.iter_mut().zip(y).for_each(|(outputs, y)| outputs.push(narrow(&y)));
            if t < steps.len() {
                seen(&narrow(&self.state));
            }
        }
        outputs.iter().map(|outputs| rows(outputs, self.window, steps.len())).collect()
    }
}
