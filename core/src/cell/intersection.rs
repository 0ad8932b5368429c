//! Intersection RNN (Collins, Sohl-Dickstein and Sussillo 2017, arXiv:1611.09913, "+RNN"): a gate over time for the
//! state, and a gate over depth for the output, which is not the state.
//!
//! # Equation
//!
//! ```text
//! z = σ(W_z x + R_z h + b_z)
//! n = tanh(W_n x + R_n h + b_n)
//! g = σ(W_g x + R_g h + b_g)
//! m = relu(W_m x + R_m h + b_m)
//! h' = z ⊙ h + (1 - z) ⊙ n
//! y = g ⊙ x + (1 - g) ⊙ m
//! ```
//!
//! The number of units equals the number of input features. A projection of the input becomes a `dense` node. Importers
//! fold a forget bias that the framework adds at run time into `b_z` and `b_g`.
//!
//! # Tensors
//!
//! Blocks of rows in the order z, n, g, m.
//!
//! | name | shape | when |
//! |---|---|---|
//! | `input_weights` | `[4 · hidden, input]` | always |
//! | `recurrent_weights` | `[4 · hidden, hidden]` | always |
//! | `bias` | `[4 · hidden]` | optional |
//!
//! # Activations
//!
//! | name | default | of |
//! |---|---|---|
//! | `gate_activation` | `sigmoid` | z, g |
//! | `new_activation` | `tanh` | n |
//! | `output_activation` | `relu` | m |
//!
//! # Known as
//!
//! TensorFlow 1's `tf.contrib.rnn.IntersectionRNNCell`.
//!
//! # Golden cases
//!
//! `tf1__IntersectionRNNCell__*`.

use super::prelude::*;

pub(super) const CANONICAL: &[CanonicalSpec; 3] = &[
    CanonicalSpec::matrix("input_weights", Dim::Hidden, Dim::Input).gated(),
    CanonicalSpec::matrix("recurrent_weights", Dim::Hidden, Dim::Hidden).gated(),
    CanonicalSpec::vector("bias", Dim::Hidden).gated().optional(),
];

pub(super) const SPEC: CellSpec = CellSpec {
    name: "intersection",
    gates: &gate::INTERSECTION,
    rules: &[RECURRENT, Rule::Equal(Dim::Input, Dim::Hidden)],
    states: &[StateSpec { name: "hidden", len: Dim::Hidden }],
    work: &[Dim::Hidden],
    activations: &[
        ActivationSpec::sigmoid("gate_activation"),
        ActivationSpec::tanh("new_activation"),
        ActivationSpec { name: "output_activation", default: Activation::Relu },
    ],
    canonical: CANONICAL,
    tensors: &TensorSpec::each(CANONICAL, &gate::INTERSECTION),
    curves: &[Dim::Hidden; 4],
    ..CellSpec::EMPTY
};

/// W, R and b.
const SUMS: [usize; 3] = SPEC.tensors(["input_weights", "recurrent_weights", "bias"]);

pub(super) const fn entry<W: Weight, K: Kernel>() -> Entry {
    const { Entry { spec: &SPEC, float: &[&Cell::float(&SPEC, step::<W>)], ..Entry::EMPTY } }
}

/// One step. `x`, `hidden`, `next` and `y` are `[hidden]`. A block of four rows holds z, n, g, m of one unit.
pub(crate) fn step<W: Weight>(node: &Node<'_>, io: Io<'_>) {
    let Io { x, state: hidden, work: next, y, .. } = io;
    let (gate, new, output) = (node.activation(0), node.activation(1), node.activation(2));
    let units = x.iter().zip(hidden.iter()).zip(next.iter_mut().zip(y));
    for ([z, n, g, m], ((&x_k, &h), (next, y))) in sums_of_two::<W>(node, SUMS, x, hidden).zip(units) {
        let (z, g) = (gate.apply(z), gate.apply(g));
        *next = z * h + (1.0 - z) * new.apply(n);
        *y = g * x_k + (1.0 - g) * output.apply(m);
    }
    copy(hidden, next);
}
