//! An independent f64 oracle of every cell, with bounds on the error of f32 arithmetic.
//!
//! It reads the canonical model (tensors by name, gate order `i f g o` and `r z n`) and shares no code with `core`.
//! Every number carries a bound: [`Bounded`] is an exact value and the maximum error of a backend that computes the
//! same expression in f32, in any order of summation. The bound is a running error analysis (Higham, *Accuracy and
//! Stability of Numerical Algorithms*, 2nd ed., sections 2.2, 3.1 and 3.3), not a tuned number. [`bounded`] has the
//! arithmetic, [`sums`] the sums, and [`activation`] the activations.
//!
//! A cell is one file, `<cell>.rs`, and one line in the table of cells. Its `step` computes the output and updates the
//! state; `state_len`, if the cell has a state, returns its length. [`Cell`] provides the node's tensors, options and
//! sizes.

use std::collections::BTreeMap;

use tidegate_model::canonical::{Canonical, Node};

pub mod activation;
mod bands;
pub mod bounded;
mod cell;
pub mod count;
mod image;
pub mod sums;
mod unroll;
mod window;
mod window_layer;

mod activation_layer;
mod attention_lstm;
mod cfc;
mod cfn;
mod conv;
mod conv_lstm;
mod delay;
mod dense;
mod depthwise_conv;
mod elman;
mod embedding;
mod fast_grnn;
mod fast_rnn;
pub mod front_end;
mod gather;
mod glstm;
mod grid_lstm;
mod gru;
mod identity;
mod indrnn;
mod indy_gru;
mod indy_lstm;
mod intersection;
mod last;
mod layer_norm;
mod lstm;
mod ltc;
mod merge;
mod mgu;
mod min_gru;
mod min_lstm;
mod minimal_rnn;
mod mixed_memory;
mod nas;
mod phased_lstm;
mod pool;
mod repeat;
mod scale;
mod slice;
mod slstm;
mod softmax;
mod sru;
mod svdf;
mod time_freq_lstm;
mod ugrnn;

pub use bounded::Bounded;
pub use cell::Cell;
pub use sums::abs_dot;

/// The step function of a cell.
type Step = fn(&Cell<'_>, &[Bounded], &mut [Bounded]) -> Vec<Bounded>;
type StateLen = fn(&Cell<'_>) -> usize;

/// The table of cells. Those that may have no output are in [`buffered`].
fn cell_named(name: &str) -> (Step, StateLen) {
    match name {
        "activation" => (activation_layer::step, stateless),
        "attention_lstm" => (attention_lstm::step, attention_lstm::state_len),
        "cfc" => (cfc::step, mixed_memory::state_len),
        "cfn" => (cfn::step, cfn::state_len),
        "conv" => (conv::step, stateless),
        "conv_lstm" => (conv_lstm::step, conv_lstm::state_len),
        "delay" => (delay::step, delay::state_len),
        "dense" => (dense::step, stateless),
        "depthwise_conv" => (depthwise_conv::step, stateless),
        "elman" => (elman::step, elman::state_len),
        "embedding" => (embedding::step, stateless),
        "fast_grnn" => (fast_grnn::step, fast_grnn::state_len),
        "fast_rnn" => (fast_rnn::step, fast_rnn::state_len),
        "glstm" => (glstm::step, glstm::state_len),
        "grid_lstm" => (grid_lstm::step, bands::state_len),
        "gather" => (gather::step, stateless),
        "gru" => (gru::step, gru::state_len),
        "identity" => (identity::step, stateless),
        "indrnn" => (indrnn::step, indrnn::state_len),
        "indy_gru" => (indy_gru::step, indy_gru::state_len),
        "indy_lstm" => (indy_lstm::step, indy_lstm::state_len),
        "intersection" => (intersection::step, intersection::state_len),
        "last" => (last::step, stateless),
        "layer_norm" => (layer_norm::step, stateless),
        "lstm" => (lstm::step, lstm::state_len),
        "ltc" => (ltc::step, mixed_memory::state_len),
        "merge" => (merge::step, stateless),
        "mgu" => (mgu::step, mgu::state_len),
        "min_gru" => (min_gru::step, min_gru::state_len),
        "min_lstm" => (min_lstm::step, min_lstm::state_len),
        "minimal_rnn" => (minimal_rnn::step, minimal_rnn::state_len),
        "nas" => (nas::step, nas::state_len),
        "phased_lstm" => (phased_lstm::step, phased_lstm::state_len),
        "pool" => (pool::step, stateless),
        "repeat" => (repeat::step, stateless),
        "scale" => (scale::step, stateless),
        "slice" => (slice::step, stateless),
        "slstm" => (slstm::step, slstm::state_len),
        "softmax" => (softmax::step, stateless),
        "sru" => (sru::step, sru::state_len),
        "svdf" => (svdf::step, svdf::state_len),
        "time_freq_lstm" => (time_freq_lstm::step, bands::state_len),
        "ugrnn" => (ugrnn::step, ugrnn::state_len),
        other => panic!("the oracle has no cell {other:?}"),
    }
}

fn stateless(_: &Cell<'_>) -> usize {
    0
}

/// The step function of a cell that may have no output, without an input at the end of a sequence.
type BufferedStep = fn(&Cell<'_>, Option<&[Bounded]>, &mut [Bounded]) -> Option<Value>;

/// The table of cells that may have no output.
fn buffered(name: &str) -> Option<(BufferedStep, StateLen)> {
    match name {
        "window" => Some((window::step, window::state_len)),
        "window_dense" => Some((window_layer::dense, window::state_len)),
        "window_depthwise" => Some((window_layer::depthwise, window::state_len)),
        _ => None,
    }
}

/// Contents of a slot during a step.
#[derive(Clone, Debug)]
struct Value {
    data: Vec<Bounded>,
    /// Number of valid rows, or `None` if all are valid.
    valid: Option<usize>,
}

impl Value {
    fn whole(data: Vec<Bounded>) -> Self {
        Self { data, valid: None }
    }

    fn zeros(len: usize) -> Self {
        Self::whole(vec![Bounded::default(); len])
    }
}

/// Runs a node that always has an output.
fn run(cell: &Cell<'_>, node: &Node, x: &[Bounded], state: &mut [Bounded]) -> Value {
    let (step, _) = cell_named(&node.cell);
    let data = match node.unroll {
        Some(unroll) => unroll::run(cell, unroll, step, x, state),
        None => step(cell, x, state),
    };
    // These read a window row or repeat one, so all rows of their output are valid.
    let counts = !matches!(node.cell.as_str(), "last" | "repeat");
    Value { data, valid: cell.valid().filter(|_| counts) }
}

/// The outputs of one step: a vector for each output port.
pub type Outputs = Vec<Vec<Bounded>>;

/// The oracle of a canonical model.
#[derive(Clone, Copy, Debug)]
pub struct Oracle<'m> {
    model: &'m Canonical,
}

impl<'m> Oracle<'m> {
    /// For a model that [`Canonical::validate`] accepts.
    pub fn new(model: &'m Canonical) -> Self {
        Self { model }
    }

    /// Number of state elements, node after node, h before c.
    pub fn state_len(&self) -> usize {
        self.model.architecture.nodes.iter().map(|node| self.state_len_of(node)).sum()
    }

    fn state_len_of(&self, node: &Node) -> usize {
        let cell = Cell::new(self.model, node, None);
        let state_len = buffered(&node.cell).map_or_else(|| cell_named(&node.cell).1, |(_, state_len)| state_len);
        let cells = node.unroll.filter(|unroll| unroll.apart).map_or(1, |unroll| unroll.steps);
        cells * state_len(&cell)
    }

    /// One step, which updates `state`. Returns a vector for each output port, or `None` if a node has no output yet.
    pub fn step(&self, state: &mut [Bounded], inputs: &[&[f32]]) -> Option<Outputs> {
        let exact = |input: &&[f32]| input.iter().map(|&x| Bounded::exact(x)).collect();
        self.step_within(state, inputs.iter().map(exact).collect())
    }

    /// [`step`](Self::step) for inputs that are known to a bound.
    pub fn step_within(&self, state: &mut [Bounded], inputs: Vec<Vec<Bounded>>) -> Option<Outputs> {
        let ports = &self.model.architecture.inputs;
        assert_eq!(inputs.len(), ports.len(), "inputs");
        let values = ports.iter().zip(inputs).map(|(port, input)| (port.name.as_str(), Value::whole(input))).collect();
        self.pass(state, values, false)
    }

    /// The end of a sequence: the first window that is partly filled yields its rows, and the nodes after it run.
    /// Inputs of those nodes from before the window are 0.
    pub fn finish(&self, state: &mut [Bounded]) -> Option<Outputs> {
        let ports = self.model.architecture.inputs.iter();
        self.pass(state, ports.map(|port| (port.name.as_str(), Value::zeros(port.size))).collect(), true)
    }

    /// Runs all nodes, given the values of the inputs.
    fn pass(&self, state: &mut [Bounded], mut values: BTreeMap<&'m str, Value>, mut ended: bool) -> Option<Outputs> {
        assert_eq!(state.len(), self.state_len(), "the state has the model's length");
        let mut rest = state;
        for node in &self.model.architecture.nodes {
            let (own, others) = rest.split_at_mut(self.state_len_of(node));
            rest = others;
            let inputs: Vec<&Value> = node.inputs.iter().map(|name| &values[name.as_str()]).collect();
            let valid = inputs.iter().filter_map(|value| value.valid).min();
            let x = unroll::gather(node, &inputs);
            let cell = Cell::new(self.model, node, valid);
            let given = if let Some((step, _)) = buffered(&node.cell) {
                step(&cell, Some(x.as_slice()).filter(|_| !ended), own)
            } else if ended {
                None
            } else {
                Some(run(&cell, node, &x, own))
            };
            let value = match given {
                Some(value) => {
                    ended = false;
                    value
                }
                None if ended => Value::zeros(node.output_size * node.unroll.map_or(1, |unroll| unroll.steps)),
                None => return None,
            };
            values.insert(&node.name, value);
        }
        let outputs = self.model.architecture.outputs.iter();
        (!ended).then(|| outputs.map(|output| values[output.from.as_str()].data.clone()).collect())
    }

    /// Runs a whole sequence through a model with one input and one output. Returns `[time, output]` without the steps
    /// that have no output.
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
