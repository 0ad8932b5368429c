//! An independent f64 oracle of every cell, and how far f32 arithmetic may stray from it.
//!
//! It reads the canonical model (tensors by name, gate order `i f g o` and `r z n`) and shares no code with `core`.
//! Every number carries a bound: [`Bounded`] is an exact value and the most that a backend that computes the same
//! expression in f32, in any order of summation, can be off. The bound is a running error analysis (Higham,
//! *Accuracy and Stability of Numerical Algorithms*, 2nd ed., sections 2.2, 3.1 and 3.3), not a tuned number.
//! [`bounded`] has the arithmetic, [`sums`] what is summed, [`activation`] the activations.
//!
//! A cell is one file, `<cell>.rs`, and one line in the table of cells: `step` computes the output and updates the
//! state, `state_len` says how long that is. [`Cell`] gives them the node's tensors, options and sizes.

use std::collections::BTreeMap;

use tidegate_tools::canonical::{Canonical, Node};

pub mod activation;
pub mod bounded;
mod cell;
pub mod sums;
mod unroll;
mod window;

mod dense;
mod elman;
mod gru;
mod lstm;
mod softmax;

pub use bounded::Bounded;
pub use cell::Cell;
pub use sums::abs_dot;

/// What a cell's file gives.
type Step = fn(&Cell<'_>, &[Bounded], &mut [Bounded]) -> Vec<Bounded>;
type StateLen = fn(&Cell<'_>) -> usize;

/// The table of cells. `window` is not in it: it alone may have no output, and [`Oracle`] calls it itself.
fn cell_named(name: &str) -> (Step, StateLen) {
    match name {
        "dense" => (dense::step, dense::state_len),
        "elman" => (elman::step, elman::state_len),
        "gru" => (gru::step, gru::state_len),
        "lstm" => (lstm::step, lstm::state_len),
        "softmax" => (softmax::step, softmax::state_len),
        other => panic!("the oracle has no cell {other:?}"),
    }
}

/// What a slot holds during a step.
#[derive(Clone, Debug)]
struct Value {
    data: Vec<Bounded>,
    /// How many of its rows are valid; `None`: all.
    valid: Option<usize>,
}

/// What goes out at one step: a vector for each output of the model.
pub type Outputs = Vec<Vec<Bounded>>;

/// One canonical model.
#[derive(Clone, Copy, Debug)]
pub struct Oracle<'m> {
    model: &'m Canonical,
}

impl<'m> Oracle<'m> {
    /// Of a model that [`Canonical::validate`] accepts.
    pub fn new(model: &'m Canonical) -> Self {
        Self { model }
    }

    /// Elements of one state: node after node, h before c.
    pub fn state_len(&self) -> usize {
        self.model.architecture.nodes.iter().map(|node| self.state_len_of(node)).sum()
    }

    fn state_len_of(&self, node: &Node) -> usize {
        let cell = Cell::new(self.model, node, None);
        if node.cell == "window" { window::state_len(&cell) } else { cell_named(&node.cell).1(&cell) }
    }

    /// One step from `state`, which it updates; one vector for each output. It ends, without an output, at the first
    /// node that has nothing to give.
    pub fn step(&self, state: &mut [Bounded], inputs: &[&[f32]]) -> Option<Outputs> {
        let ports = &self.model.architecture.inputs;
        assert_eq!(inputs.len(), ports.len(), "inputs");
        let exact = |input: &&[f32]| Value { data: input.iter().map(|&x| Bounded::exact(x)).collect(), valid: None };
        let values = ports.iter().zip(inputs).map(|(port, input)| (port.name.as_str(), exact(input))).collect();
        self.pass(state, values, false)
    }

    /// The end of a sequence: what a partial window still holds goes through the nodes behind it.
    pub fn finish(&self, state: &mut [Bounded]) -> Option<Outputs> {
        self.pass(state, BTreeMap::new(), true)
    }

    /// Through all nodes, from the values of the inputs. At the end of a sequence there are none, and what nothing
    /// flows into is passed by.
    fn pass(&self, state: &mut [Bounded], mut values: BTreeMap<&'m str, Value>, last: bool) -> Option<Outputs> {
        assert_eq!(state.len(), self.state_len(), "the state has the model's length");
        let mut rest = state;
        for node in &self.model.architecture.nodes {
            let (own, others) = rest.split_at_mut(self.state_len_of(node));
            rest = others;
            match self.node(node, own, &values, last) {
                Some(value) => drop(values.insert(&node.name, value)),
                None if last => {}
                None => return None,
            }
        }
        let outputs = self.model.architecture.outputs.iter();
        outputs.map(|output| values.get(output.from.as_str()).map(|value| value.data.clone())).collect()
    }

    fn node(&self, node: &Node, state: &mut [Bounded], values: &BTreeMap<&str, Value>, last: bool) -> Option<Value> {
        let inputs: Option<Vec<&Value>> = node.inputs.iter().map(|name| values.get(name.as_str())).collect();
        let valid = inputs.iter().flatten().filter_map(|value| value.valid).min();
        let data = inputs.map(|inputs| unroll::gather(node, &inputs));
        let cell = Cell::new(self.model, node, valid);
        if node.cell == "window" {
            return window::step(&cell, data.as_deref(), state, last);
        }
        let (step, _) = cell_named(&node.cell);
        let data = match node.unroll {
            Some(unroll) => unroll::run(&cell, unroll, step, &data?, state),
            None => step(&cell, &data?, state),
        };
        // What looks at a whole window and gives one row of it has no rows that are not valid.
        Some(Value { data, valid: valid.filter(|_| node.cell != "last") })
    }

    /// A whole sequence through a model with one input and one output: `[time, output]`, without the steps that have
    /// no output.
    pub fn run(&self, state: &mut [Bounded], input: &[f32]) -> Vec<Bounded> {
        let size = self.model.architecture.inputs[0].size;
        input
            .chunks(size)
            .filter_map(|x| self.step(state, &[x]))
            .flat_map(|mut outputs| outputs.swap_remove(0))
            .collect()
    }
}

#[cfg(test)]
mod tests;
