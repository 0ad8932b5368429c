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
    /// One sequence for each input in; one for each output out, a row for each step. `seen` is shown the state after
    /// each step, by ways that go step by step.
    fn run(&mut self, inputs: &[Rows], seen: &mut dyn FnMut(&[f32])) -> Vec<Rows>;
}

/// `core`, and the state between its runs.
struct Core<'m> {
    model: &'m Model<'m>,
    values: Vec<f32>,
}

impl<'m> Core<'m> {
    fn new(model: &'m Model<'m>) -> Self {
        Self { model, values: vec![0.0; model.state_elements()] }
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
    pub fn new(model: &'m Model<'m>) -> Self {
        Self(Core::new(model))
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
        self.0.with_state(|model, state, scratch| {
            let mut outputs: Vec<Rows> = model.outputs().map(|_| Rows::new()).collect();
            for t in 0..inputs[0].len() {
                let x: Vec<&[f32]> = inputs.iter().map(|rows| rows[t].as_slice()).collect();
                let mut y: Vec<Vec<f32>> = model.outputs().map(|port| vec![0.0; port.size]).collect();
                let mut rows: Vec<&mut [f32]> = y.iter_mut().map(Vec::as_mut_slice).collect();
                let step = model.step_ports(state, scratch, &x, &mut rows).expect("every length is right");
                assert!(step.has_output(), "an endless schedule has an output at every step");
                outputs.iter_mut().zip(y).for_each(|(rows, row)| rows.push(row));
                seen(state.values());
            }
            outputs
        })
    }
}

/// `core` over a whole sequence at once; a model of one input and one output.
pub struct AtOnce<'m>(Core<'m>);

impl<'m> AtOnce<'m> {
    /// With a state of zeros, if the model has one input and one output.
    pub fn new(model: &'m Model<'m>) -> Option<Self> {
        (model.inputs().count() == 1 && model.outputs().count() == 1).then(|| Self(Core::new(model)))
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
        self.0.with_state(|model, state, scratch| {
            let x = inputs[0].concat();
            let mut y = vec![0.0; inputs[0].len() * model.output_size()];
            let written = model.run_f32(state, scratch, &x, &mut y).expect("every length is right");
            assert_eq!(written, inputs[0].len(), "a row for every step");
            vec![y.chunks(model.output_size()).map(<[f32]>::to_vec).collect()]
        })
    }
}

/// The f64 oracle.
pub struct Exact<'m> {
    oracle: Oracle<'m>,
    state: Vec<Bounded>,
}

impl<'m> Exact<'m> {
    /// With a state of zeros.
    pub fn new(model: &'m Canonical) -> Self {
        let oracle = Oracle::new(model);
        Self { oracle, state: vec![Bounded::default(); oracle.state_len()] }
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
        let mut outputs: Vec<Rows> = Vec::new();
        for t in 0..inputs[0].len() {
            let x: Vec<&[f32]> = inputs.iter().map(|rows| rows[t].as_slice()).collect();
            let y = self.oracle.step(&mut self.state, &x);
            outputs.resize(y.len(), Rows::new());
            outputs.iter_mut().zip(y).for_each(|(rows, row)| rows.push(narrow(&row)));
            seen(&narrow(&self.state));
        }
        outputs
    }
}
