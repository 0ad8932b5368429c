//! Simple recurrent unit (Lei et al. 2018, arXiv:1709.02755): no product with the last state, and a highway of the
//! input around the cell.
//!
//! # Equation
//!
//! ```text
//! g = W_g x + b_g
//! f = σ(W_f x + b_f + v_f ⊙ c)
//! r = σ(W_r x + b_r + v_r ⊙ c)
//! c' = f ⊙ c + (1 - f) ⊙ g
//! y = r ⊙ act(c') + (1 - r) ⊙ s
//! s = W_s x                      with the option highway
//! s = highway_scale · x          without it: as many units as features come in
//! ```
//!
//! Without the option `cell_gates` there is no v ⊙ c. Both gates read the old c.
//!
//! # Tensors
//!
//! A block for each of g, f, r, in this order.
//!
//! | name | shape | when |
//! |---|---|---|
//! | `input_weights` | `[3 · hidden, input]` | always |
//! | `bias` | `[3 · hidden]` | optional |
//! | `forget_peephole` | \[hidden\]: v_f | `cell_gates` |
//! | `reset_peephole` | \[hidden\]: v_r | `cell_gates` |
//! | `highway_weights` | [hidden, input]: W_s | `highway` |
//!
//! # Options
//!
//! * `cell_gates`: the gates read the cell state.
//! * `highway`: the highway has a projection of its own.
//!
//! # Parameters
//!
//! `highway_scale`: of the highway, where it has no projection.
//!
//! # Activations
//!
//! | name | of | default |
//! |---|---|---|
//! | `gate_activation` | f, r | `sigmoid` |
//! | `output_activation` | c' | `tanh` |
//!
//! # Known as
//!
//! `tf.contrib.rnn.SRUCell` (`highway`); asappresearch's `sru.SRU` (`cell_gates`, and `highway` where the sizes differ;
//! its activation is the identity unless it has `use_tanh`).
//!
//! # Golden cases
//!
//! `tf1__SRUCell__*`, `sru__SRU__*`

use super::{ActivationSpec, CanonicalSpec, CellSpec, Dim, Io, ParamSpec, Presence, RECURRENT, Rule, StateSpec};
use super::{TensorSpec, copy};
use crate::activation::Activation;
use crate::gate::Gate;
use crate::kernel::{Weight, accumulate};
use crate::node::Node;

/// Index of the option `cell_gates`.
pub const CELL_GATES: u32 = 0;
/// Index of the option `highway`.
pub const HIGHWAY: u32 = 1;

/// g, f, r
const GATES: &[Gate] = &[Gate::Cell, Gate::Forget, Gate::Reset];

/// See the [module](self).
pub const SPEC: CellSpec = CellSpec {
    name: "sru",
    gates: GATES,
    extents: &[],
    rules: &[RECURRENT, Rule::EqualUnless(HIGHWAY, Dim::Input, Dim::Hidden)],
    states: &[StateSpec { name: "cell_state", len: Dim::Hidden }],
    work: &[Dim::Hidden, Dim::Hidden, Dim::Hidden],
    options: &["cell_gates", "highway"],
    params: &[ParamSpec { name: "highway_scale", presence: Presence::Without(HIGHWAY) }],
    activations: &[
        ActivationSpec { name: "gate_activation", default: Activation::Sigmoid },
        ActivationSpec { name: "output_activation", default: Activation::Tanh },
    ],
    canonical: &[
        CanonicalSpec::matrix("input_weights", Dim::Hidden, Dim::Input).gated(),
        CanonicalSpec::vector("bias", Dim::Hidden).gated().when(Presence::Optional),
        CanonicalSpec::vector("forget_peephole", Dim::Hidden).when(Presence::With(CELL_GATES)),
        CanonicalSpec::vector("reset_peephole", Dim::Hidden).when(Presence::With(CELL_GATES)),
        CanonicalSpec::matrix("highway_weights", Dim::Hidden, Dim::Input).when(Presence::With(HIGHWAY)),
    ],
    tensors: &[
        TensorSpec::matrix("input_weights", &["input_weights"], Dim::Hidden, Dim::Input).gates(GATES),
        TensorSpec::vector("bias", &["bias"], Dim::Hidden).gates(GATES),
        TensorSpec::vector("forget_peephole", &["forget_peephole"], Dim::Hidden).when(Presence::With(CELL_GATES)),
        TensorSpec::vector("reset_peephole", &["reset_peephole"], Dim::Hidden).when(Presence::With(CELL_GATES)),
        TensorSpec::matrix("highway_weights", &["highway_weights"], Dim::Hidden, Dim::Input)
            .when(Presence::With(HIGHWAY)),
    ],
};

/// Tensors of the spec by name.
mod tensor {
    pub const INPUT_WEIGHTS: usize = 0;
    pub const BIAS: usize = 1;
    pub const FORGET_PEEPHOLE: usize = 2;
    pub const RESET_PEEPHOLE: usize = 3;
    pub const HIGHWAY_WEIGHTS: usize = 4;
}

/// One step. `x` is `[input]`, `cell` and `y` are `[hidden]`, `preacts` is `[hidden]` times g, f, r.
pub(crate) fn step<W: Weight>(node: &Node<'_>, io: Io<'_>) {
    let Io { x, state: cell, work: preacts, y, .. } = io;
    let (gate, output) = (node.activation(0), node.activation(1));
    let blocks = node.matrix::<W>(tensor::INPUT_WEIGHTS).blocks().zip(node.vector(tensor::BIAS));
    for ((w, &b), preacts) in blocks.zip(preacts.chunks_mut(4)) {
        copy(preacts, &accumulate(b, w, x));
    }
    highway::<W>(node, x, y);
    let peephole = |index| node.vector(index).as_flattened().iter();
    let mut peepholes = peephole(tensor::FORGET_PEEPHOLE).zip(peephole(tensor::RESET_PEEPHOLE));
    let (preacts, _) = preacts.as_chunks::<3>();
    for (&[g, mut f, mut r], (c, y)) in preacts.iter().zip(cell.iter_mut().zip(y)) {
        if let Some((v_f, v_r)) = peepholes.next() {
            f += v_f * *c;
            r += v_r * *c;
        }
        let [f, r] = [gate.apply(f), gate.apply(r)];
        *c = f * *c + (1.0 - f) * g;
        *y = r * output.apply(*c) + (1.0 - r) * *y;
    }
}

/// s of every unit.
fn highway<W: Weight>(node: &Node<'_>, x: &[f32], y: &mut [f32]) {
    if node.has(HIGHWAY) {
        for (w, y) in node.matrix::<W>(tensor::HIGHWAY_WEIGHTS).blocks().zip(y.chunks_mut(4)) {
            copy(y, &accumulate([0.0; 4], w, x));
        }
    } else {
        let scale = node.param(0);
        for (y, x) in y.iter_mut().zip(x) {
            *y = x * scale;
        }
    }
}
