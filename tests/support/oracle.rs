//! An independent f64 oracle of every cell, and how far f32 arithmetic may stray from it.
//!
//! It reads the canonical model (tensors by name, gate order `i f g o` and `r z n`) and shares no code with `core`.
//! Every number carries a bound: [`Bounded`] is an exact value and the most that a backend that computes the same
//! expression in f32, in any order of summation, can be off. The bound is a running error analysis (Higham,
//! *Accuracy and Stability of Numerical Algorithms*, 2nd ed., sections 2.2, 3.1 and 3.3), not a tuned number:
//!
//! ```text
//! fl(a op b) = (a op b)(1 + δ),  |δ| ≤ u = 2^-24;  a product may also underflow by 2^-150      (2.4, 2.8)
//! |fl(b + Σ w x) - (b + Σ w x)| ≤ γ_{n+1} (|b| + Σ |w| |x|),  γ_n = n u / (1 - n u)            (3.1)
//! |fl f(a + e) - f(a)| ≤ L |e| + E    for an activation with Lipschitz constant L, stated error E
//! ```
//!
//! Lipschitz constants: σ' = σ (1 - σ) ≤ 1/4; tanh' = 1 - tanh² ≤ 1; relu, identity, softsign ≤ 1; clipping ≤ 1.
//! The stated errors are those of `tidegate::activation`, which `activation.rs` proves over every f32.

use tidegate::activation::{SIGMOID_MAX_ERROR, SOFTSIGN_MAX_ERROR, TANH_MAX_ERROR};
use tidegate::cell::softmax::EXP_MAX_RELATIVE_ERROR;
use tidegate_tools::canonical::{Canonical, Node};

/// u of f32, with room for the oracle's own rounding in f64 (2^-53, some hundred times).
const UNIT: f64 = (1.0 + 1e-6) / (1 << 24) as f64;
/// The smallest f32: twice what a product can lose to underflow.
const TINY: f64 = 1.401298464324817e-45;

/// An exact value, and the most that f32 arithmetic can be off.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bounded {
    /// In f64.
    pub value: f64,
    /// At least `|computed - value|`.
    pub error: f64,
}

impl Bounded {
    /// A number that f32 holds exactly.
    pub fn exact(value: f32) -> Self {
        Self { value: f64::from(value), error: 0.0 }
    }

    /// The largest magnitude that the computed number can have.
    fn magnitude(self) -> f64 {
        self.value.abs() + self.error
    }

    fn plus(self, other: Self) -> Self {
        let value = self.value + other.value;
        let error = self.error + other.error;
        Self { value, error: error + UNIT * (value.abs() + error) }
    }

    fn times(self, other: Self) -> Self {
        // |ab - AB| <= |A| eb + |B| ea + ea eb, then one rounding of what was computed.
        let error = self.value.abs() * other.error + other.value.abs() * self.error + self.error * other.error;
        let rounding = UNIT * self.magnitude() * other.magnitude() + TINY;
        Self { value: self.value * other.value, error: error + rounding }
    }

    fn one_minus(self) -> Self {
        Self::exact(1.0).plus(Self { value: -self.value, ..self })
    }

    fn clipped(self, limit: f64) -> Self {
        if limit > 0.0 { Self { value: self.value.clamp(-limit, limit), ..self } } else { self }
    }
}

/// γ_n
fn gamma(n: usize) -> f64 {
    let nu = n as f64 * UNIT;
    nu / (1.0 - nu)
}

/// Σ |w| |x|, the scale of a derived bound.
pub fn abs_dot(weights: &[f32], x: &[f32]) -> f64 {
    weights.iter().zip(x).map(|(&w, &x)| (f64::from(w) * f64::from(x)).abs()).sum()
}

/// `start + Σ w x`, whatever the order of summation.
fn dot(start: Bounded, weights: &[f32], x: &[Bounded]) -> Bounded {
    assert_eq!(weights.len(), x.len(), "a row and its operand");
    let (mut value, mut inherited, mut scale) = (start.value, start.error, start.magnitude());
    for (&w, x) in weights.iter().zip(x) {
        let w = f64::from(w);
        value += w * x.value;
        inherited += w.abs() * x.error;
        scale += w.abs() * x.magnitude();
    }
    let n = weights.len();
    Bounded { value, error: inherited + gamma(n + 1) * scale + n as f64 * TINY }
}

/// An activation by its canonical name.
fn activate(name: &str, a: Bounded) -> Bounded {
    let x = a.value;
    let (value, lipschitz, stated) = match name {
        "identity" => (x, 1.0, 0.0),
        "sigmoid" => (1.0 / (1.0 + (-x).exp()), 0.25, SIGMOID_MAX_ERROR),
        "tanh" => (x.tanh(), 1.0, TANH_MAX_ERROR),
        "relu" => (if x > 0.0 { x } else { 0.0 }, 1.0, 0.0),
        "softsign" => (x / (1.0 + x.abs()), 1.0, SOFTSIGN_MAX_ERROR),
        other => panic!("the oracle has no activation {other:?}"),
    };
    Bounded { value, error: lipschitz * a.error + f64::from(stated) }
}

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
        self.model.architecture.nodes.iter().map(state_len).sum()
    }

    /// One step from `state`, which it updates; one vector for each output.
    pub fn step(&self, state: &mut [Bounded], inputs: &[&[f32]]) -> Vec<Vec<Bounded>> {
        let architecture = &self.model.architecture;
        assert_eq!(inputs.len(), architecture.inputs.len(), "inputs");
        let exact = |input: &&[f32]| input.iter().map(|&x| Bounded::exact(x)).collect();
        let mut values: Vec<(&str, Vec<Bounded>)> =
            architecture.inputs.iter().zip(inputs).map(|(port, input)| (port.name.as_str(), exact(input))).collect();
        let find = |values: &[(&str, Vec<Bounded>)], name: &str| {
            values.iter().find(|(known, _)| *known == name).expect("a validated model reads what exists").1.clone()
        };
        let mut rest = state;
        for node in &architecture.nodes {
            let (own, others) = rest.split_at_mut(state_len(node));
            let x: Vec<Bounded> = node.inputs.iter().flat_map(|name| find(&values, name)).collect();
            values.push((&node.name, Cell { model: self.model, node }.step(&x, own)));
            rest = others;
        }
        assert!(rest.is_empty(), "the state is longer than the model's");
        architecture.outputs.iter().map(|output| find(&values, &output.from)).collect()
    }

    /// A whole sequence through a model with one input and one output: `[time, output]`.
    pub fn run(&self, state: &mut [Bounded], input: &[f32]) -> Vec<Bounded> {
        let size = self.model.architecture.inputs[0].size;
        input.chunks(size).flat_map(|x| self.step(state, &[x]).swap_remove(0)).collect()
    }
}

fn state_len(node: &Node) -> usize {
    match node.cell.as_str() {
        "elman" | "gru" => node.hidden_size,
        "lstm" => node.output_size + node.hidden_size,
        "dense" | "softmax" => 0,
        other => panic!("the oracle has no cell {other:?}"),
    }
}

/// One node and where its weights are.
struct Cell<'m> {
    model: &'m Canonical,
    node: &'m Node,
}

impl Cell<'_> {
    fn step(&self, x: &[Bounded], state: &mut [Bounded]) -> Vec<Bounded> {
        match self.node.cell.as_str() {
            "elman" => self.elman(x, state),
            "lstm" => self.lstm(x, state),
            "gru" => self.gru(x, state),
            "dense" => self.dense(x),
            "softmax" => softmax(x),
            other => panic!("the oracle has no cell {other:?}"),
        }
    }

    fn tensor(&self, name: &str) -> Option<&[f32]> {
        self.model.tensors.get(&format!("{}.{name}", self.node.name)).map(|tensor| tensor.data.as_slice())
    }

    fn row(&self, name: &str, row: usize, cols: usize) -> &[f32] {
        &self.tensor(name).unwrap_or_else(|| panic!("no tensor {name:?}"))[row * cols..(row + 1) * cols]
    }

    /// An element of a vector; 0 where the model leaves it out.
    fn element(&self, name: &str, row: usize) -> Bounded {
        Bounded::exact(self.tensor(name).map_or(0.0, |data| data[row]))
    }

    /// The sum of two biases, which the packer rounds to f32.
    fn bias(&self, row: usize) -> Bounded {
        self.element("input_bias", row).plus(self.element("recurrent_bias", row))
    }

    fn activation(&self, place: &str, default: &str, a: Bounded) -> Bounded {
        activate(self.node.activations.get(place).map_or(default, String::as_str), a)
    }

    fn has(&self, option: &str) -> bool {
        self.node.options.iter().any(|known| known == option)
    }

    fn param(&self, name: &str) -> f64 {
        self.node.params.get(name).map_or(0.0, |&value| f64::from(value))
    }

    /// W x + R h + b of one row.
    fn preactivation(&self, row: usize, x: &[Bounded], h: &[Bounded]) -> Bounded {
        let from_input = dot(self.bias(row), self.row("input_weights", row, x.len()), x);
        dot(from_input, self.row("recurrent_weights", row, h.len()), h)
    }

    fn elman(&self, x: &[Bounded], h: &mut [Bounded]) -> Vec<Bounded> {
        let next: Vec<Bounded> =
            (0..h.len()).map(|k| self.activation("activation", "tanh", self.preactivation(k, x, h))).collect();
        h.copy_from_slice(&next);
        next
    }

    fn lstm(&self, x: &[Bounded], state: &mut [Bounded]) -> Vec<Bounded> {
        let units = self.node.hidden_size;
        let (h, c) = state.split_at_mut(self.node.output_size);
        let mut m = Vec::new();
        for (k, c) in c.iter_mut().enumerate() {
            let [mut i, mut f, g, mut o] = [0, 1, 2, 3].map(|gate| self.preactivation(gate * units + k, x, h));
            if self.has("peephole") {
                i = i.plus(self.element("input_peephole", k).times(*c));
                f = f.plus(self.element("forget_peephole", k).times(*c));
            }
            let i = self.activation("gate_activation", "sigmoid", i);
            let f = self.activation("gate_activation", "sigmoid", f);
            let g = self.activation("cell_activation", "tanh", g);
            *c = f.times(*c).plus(i.times(g)).clipped(self.param("cell_clip"));
            if self.has("peephole") {
                o = o.plus(self.element("output_peephole", k).times(*c));
            }
            let o = self.activation("gate_activation", "sigmoid", o);
            m.push(o.times(self.activation("output_activation", "tanh", *c)));
        }
        if self.has("projection") {
            let row = |k| dot(Bounded::default(), self.row("projection_weights", k, units), &m);
            m = (0..h.len()).map(|k| row(k).clipped(self.param("projection_clip"))).collect();
        }
        h.copy_from_slice(&m);
        m
    }

    fn gru(&self, x: &[Bounded], h: &mut [Bounded]) -> Vec<Bounded> {
        let units = self.node.hidden_size;
        let gate = |row| self.activation("gate_activation", "sigmoid", self.preactivation(row, x, h));
        let r: Vec<Bounded> = (0..units).map(gate).collect();
        let z: Vec<Bounded> = (units..2 * units).map(gate).collect();
        let reset: Vec<Bounded> = r.iter().zip(h.iter()).map(|(&r, &h)| r.times(h)).collect();
        let mut next = Vec::new();
        for k in 0..units {
            let row = 2 * units + k;
            let a = if self.has("reset_after") {
                let input = dot(self.element("input_bias", row), self.row("input_weights", row, x.len()), x);
                let hidden = dot(self.element("recurrent_bias", row), self.row("recurrent_weights", row, units), h);
                input.plus(r[k].times(hidden))
            } else {
                self.preactivation(row, x, &reset)
            };
            let n = self.activation("new_activation", "tanh", a);
            next.push(z[k].times(h[k]).plus(z[k].one_minus().times(n)));
        }
        h.copy_from_slice(&next);
        next
    }

    fn dense(&self, x: &[Bounded]) -> Vec<Bounded> {
        let row = |k| dot(self.element("bias", k), self.row("weights", k, x.len()), x);
        (0..self.node.output_size).map(|k| self.activation("activation", "identity", row(k))).collect()
    }
}

/// e^(x - M) / Σ e^(x - M). The exact value is the same for every M; let M be the maximum that was computed, which is
/// within `e` of the exact one, `e` the largest inherited error. The computed exponent x - M is off by
/// Δ ≤ ex + u (|x - M| + ...), so e^(x - M) by the factor e^Δ (1 + ε), ε the stated error of exp; below -87 it is off
/// by 2e-38 instead. The sum of n positive terms adds (1 + γ_n), the quotient (1 + u). An error in M itself, the same
/// for every element, cancels.
fn softmax(x: &[Bounded]) -> Vec<Bounded> {
    const FLUSHED: f64 = 2e-38;
    let max = x.iter().fold(f64::NEG_INFINITY, |max, x| max.max(x.value));
    let spread = x.iter().fold(0.0_f64, |spread, x| spread.max(x.error));
    let exps: Vec<f64> = x.iter().map(|x| (x.value - max).exp()).collect();
    let sum: f64 = exps.iter().sum();
    let factor = |x: &Bounded| {
        let delta = x.error + UNIT * ((x.value - max).abs() + x.error + spread);
        delta.exp() * (1.0 + f64::from(EXP_MAX_RELATIVE_ERROR))
    };
    // The sum is off by its worst term, weighted: terms far below the maximum hardly count.
    let sum_error: f64 = x.iter().zip(&exps).map(|(x, e)| e * (factor(x) - 1.0) + FLUSHED).sum();
    let sum_factor = (1.0 + sum_error / sum) * (1.0 + gamma(x.len() + 1));
    let value = |(x, e): (&Bounded, &f64)| {
        let value = e / sum;
        // 1/(1 - t) <= (1 + t)² for the small t here, hence twice the factor of the sum.
        let error = value * (factor(x) * sum_factor * sum_factor * (1.0 + UNIT) - 1.0) + 2.0 * FLUSHED;
        Bounded { value, error }
    };
    x.iter().zip(&exps).map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_is_that_of_f32() {
        assert!(UNIT >= f64::from(f32::EPSILON) / 2.0 && UNIT < f64::from(f32::EPSILON) / 1.99);
        assert_eq!(TINY, f64::from(f32::from_bits(1)));
    }

    #[test]
    fn the_bound_of_a_dot_product_is_highams() {
        let (w, x) = ([1.0_f32, -2.0, 3.0], [0.5_f32, 0.25, -4.0]);
        let bounded = dot(Bounded::exact(1.0), &w, &x.map(Bounded::exact));
        assert_eq!(bounded.value, 1.0 + 0.5 - 0.5 - 12.0);
        let bound = gamma(4) * (1.0 + abs_dot(&w, &x)) + 3.0 * TINY;
        assert!((bounded.error - bound).abs() <= 1e-12 * bound, "{} is not {bound}", bounded.error);
    }

    #[test]
    fn a_softmax_sums_to_one_and_knows_its_largest() {
        let y = softmax(&[1.0, 2.0, -200.0].map(Bounded::exact));
        assert!((y.iter().map(|y| y.value).sum::<f64>() - 1.0).abs() < 1e-15);
        assert!((y[1].value - 1.0 / (1.0 + (-1.0_f64).exp())).abs() < 1e-15);
        assert!(y[2].value < 1e-80 && y[2].error < 1e-37 && y[0].error < 1e-6);
    }
}
