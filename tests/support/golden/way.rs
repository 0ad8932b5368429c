//! The ways a model is run: `core` step by step, `core` over the whole sequence, and the f64 oracle.

use tidegate::{Model, State};
use tidegate_tools::canonical::Canonical;

use super::sequence::Rows;
use crate::oracle::{Bounded, Oracle};

/// Runs a model over a sequence, carrying its state on.
pub trait Way {
    /// Its name in reports.
    fn name(&self) -> &'static str;
    /// The states, node after node.
    fn state(&self) -> Vec<f32>;
    /// Every state becomes this.
    fn begin(&mut self, state: &[f32]);
    /// Every state is multiplied.
    fn scale(&mut self, factor: f32);
    /// One sequence for each input in; one for each output out, a row for each step. A model that looks at a window
    /// gives its rows at the end. `seen` is shown the state after each step, by ways that go step by step.
    fn run(&mut self, inputs: &[Rows], seen: &mut dyn FnMut(&[f32])) -> Vec<Rows>;
}

/// The outputs of one port, as they come, as rows: each step's is a row, or the rows of a window of so many, of which
/// the last may hold fewer.
fn rows(outputs: &[Vec<f32>], window: Option<usize>, steps: usize) -> Rows {
    let chunks = outputs.iter().flat_map(|output| output.chunks(output.len() / window.unwrap_or(1)));
    let rows: Rows = chunks.take(steps).map(<[f32]>::to_vec).collect();
    assert_eq!(rows.len(), steps, "a row for every step");
    rows
}

/// `core`, and the state between its runs.
struct Core<'m> {
    model: &'m Model<'m>,
    window: Option<usize>,
    values: Vec<f32>,
}

impl<'m> Core<'m> {
    fn new(model: &'m Model<'m>, window: Option<usize>) -> Self {
        Self { model, window, values: vec![0.0; model.state_elements()] }
    }

    /// Memory begins at zero and scratch with what must not matter, whatever ran before.
    fn with_state<T>(&mut self, act: impl FnOnce(&Model<'_>, &mut State<'_>, &mut [u32]) -> T) -> T {
        let mut memory = vec![0; self.model.state_words()];
        let mut scratch = vec![u32::MAX; self.model.scratch_words()];
        let mut state = State::new(self.model, &mut memory).expect("the memory has the model's own length");
        state.values_mut().copy_from_slice(&self.values);
        let result = act(self.model, &mut state, &mut scratch);
        self.values.copy_from_slice(state.values());
        result
    }

    fn scale(&mut self, factor: f32) {
        self.values.iter_mut().for_each(|value| *value *= factor);
    }
}

/// `core`, one step after the other.
pub struct Stepwise<'m>(Core<'m>);

impl<'m> Stepwise<'m> {
    /// With a state of zeros.
    pub fn new(model: &'m Model<'m>, window: Option<usize>) -> Self {
        Self(Core::new(model, window))
    }
}

impl Way for Stepwise<'_> {
    fn name(&self) -> &'static str {
        "core"
    }

    fn state(&self) -> Vec<f32> {
        self.0.values.clone()
    }

    fn begin(&mut self, state: &[f32]) {
        self.0.values.copy_from_slice(state);
    }

    fn scale(&mut self, factor: f32) {
        self.0.scale(factor);
    }

    fn run(&mut self, inputs: &[Rows], seen: &mut dyn FnMut(&[f32])) -> Vec<Rows> {
        let (window, steps) = (self.0.window, inputs[0].len());
        self.0.with_state(|model, state, scratch| {
            let mut outputs: Vec<Vec<Vec<f32>>> = vec![Vec::new(); model.outputs().count()];
            for t in 0..=steps {
                let mut y: Vec<Vec<f32>> = model.outputs().map(|port| vec![0.0; port.size]).collect();
                let mut slices: Vec<&mut [f32]> = y.iter_mut().map(Vec::as_mut_slice).collect();
                let step = if t < steps {
                    let x: Vec<&[f32]> = inputs.iter().map(|rows| rows[t].as_slice()).collect();
                    model.step_ports(state, scratch, &x, &mut slices)
                } else {
                    model.finish(state, scratch, &mut slices)
                };
                if step.expect("every length is right").has_output() {
                    outputs.iter_mut().zip(y).for_each(|(outputs, y)| outputs.push(y));
                }
                if t < steps {
                    seen(state.values());
                }
            }
            outputs.iter().map(|outputs| rows(outputs, window, steps)).collect()
        })
    }
}

/// `core` over a whole sequence at once; a model of one input and one output.
pub struct AtOnce<'m>(Core<'m>);

impl<'m> AtOnce<'m> {
    /// With a state of zeros, if the model has one input and one output.
    pub fn new(model: &'m Model<'m>, window: Option<usize>) -> Option<Self> {
        (model.inputs().count() == 1 && model.outputs().count() == 1).then(|| Self(Core::new(model, window)))
    }
}

impl Way for AtOnce<'_> {
    fn name(&self) -> &'static str {
        "core at once"
    }

    fn state(&self) -> Vec<f32> {
        self.0.values.clone()
    }

    fn begin(&mut self, state: &[f32]) {
        self.0.values.copy_from_slice(state);
    }

    fn scale(&mut self, factor: f32) {
        self.0.scale(factor);
    }

    fn run(&mut self, inputs: &[Rows], _: &mut dyn FnMut(&[f32])) -> Vec<Rows> {
        let (window, steps) = (self.0.window, inputs[0].len());
        self.0.with_state(|model, state, scratch| {
            let size = model.output_size();
            let mut y = vec![0.0; steps * size];
            let written = model.run_f32(state, scratch, &inputs[0].concat(), &mut y).expect("every length is right");
            let mut outputs: Vec<Vec<f32>> = y.chunks(size).take(written).map(<[f32]>::to_vec).collect();
            let mut last = vec![0.0; size];
            if model.finish(state, scratch, &mut [&mut last]).expect("every length is right").has_output() {
                outputs.push(last);
            }
            vec![rows(&outputs, window, steps)]
        })
    }
}

/// The f64 oracle.
pub struct Exact<'m> {
    model: &'m Canonical,
    window: Option<usize>,
    state: Vec<Bounded>,
}

impl<'m> Exact<'m> {
    /// With a state of zeros.
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

    fn scale(&mut self, factor: f32) {
        for bounded in &mut self.state {
            bounded.value *= f64::from(factor);
        }
    }

    fn run(&mut self, inputs: &[Rows], seen: &mut dyn FnMut(&[f32])) -> Vec<Rows> {
        let (oracle, steps) = (Oracle::new(self.model), inputs[0].len());
        let mut outputs: Vec<Vec<Vec<f32>>> = vec![Vec::new(); self.model.architecture.outputs.len()];
        for t in 0..=steps {
            let y = if t < steps {
                let x: Vec<&[f32]> = inputs.iter().map(|rows| rows[t].as_slice()).collect();
                oracle.step(&mut self.state, &x)
            } else {
                oracle.finish(&mut self.state)
            };
            let y = y.into_iter().flatten();
            outputs.iter_mut().zip(y).for_each(|(outputs, y)| outputs.push(narrow(&y)));
            if t < steps {
                seen(&narrow(&self.state));
            }
        }
        outputs.iter().map(|outputs| rows(outputs, self.window, steps)).collect()
    }
}
