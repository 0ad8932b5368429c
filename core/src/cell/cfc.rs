//! Closed-form continuous-time cell (Hasani et al. 2022, arXiv:2106.13898): its state is a function of the time since
//! the last step, so that steps need not be equally far apart.
//!
//! # Equation
//!
//! ```text
//! z = [x, h]                                   without a backbone
//! z = act(B [x, h] + b_B)                      with one; and deep: z = act(D_k z + b_Dk) for each further layer k
//! a = W_a z + b_a    e = W_e z + b_e           where the state comes from, and where it goes to
//! s = σ((W_r z + b_r) t + W_s z + b_s)         how far it has come after the time t
//! h' = (1 - s) ⊙ tanh(a) + s ⊙ tanh(e)
//! h' = tanh(a) + s ⊙ tanh(e)                   no_gate
//! h' = A - A ⊙ exp(-t (|w| + |a|)) ⊙ a         pure
//! ```
//!
//! With the option `elapsed` t is the last feature that comes in, and x the others; a t below 0 counts as 0. Without it
//! the steps are equally far apart: t is 1, and s is σ(W_s z + b_s), where W_s and b_s hold what is W_r T + W_s and
//! b_r T + b_s of a network trained with steps of the length T. h' goes out.
//!
//! # Tensors
//!
//! `z` is `backbone_units` with a backbone, else `features + hidden`.
//!
//! | name | shape | when |
//! |---|---|---|
//! | `backbone_weights` | `[backbone_units, features + hidden]` | with `backbone` |
//! | `backbone_bias` | `[backbone_units]` | with `backbone` |
//! | `deep_weights` | `[further_layers · backbone_units, backbone_units]`: D_1, D_2, ... | with `deep` |
//! | `deep_bias` | `[further_layers · backbone_units]` | with `deep` |
//! | `start_weights` | `[hidden, z]`: W_a | always |
//! | `start_bias` | `[hidden]`: b_a | optional |
//! | `end_weights` | `[hidden, z]`: W_e | without `pure` |
//! | `end_bias` | `[hidden]`: b_e | without `pure` |
//! | `shift_weights` | `[hidden, z]`: W_s | without `pure` |
//! | `shift_bias` | `[hidden]`: b_s | without `pure` |
//! | `rate_weights` | `[hidden, z]`: W_r | with `elapsed`, without `pure` |
//! | `rate_bias` | `[hidden]`: b_r | with `elapsed`, without `pure` |
//! | `time_constant` | `[hidden]`: w | with `pure` |
//! | `asymptote` | `[hidden]`: A | with `pure` |
//! | `memory_input_weights` | `[4 · hidden, features]` | with `mixed_memory` |
//! | `memory_recurrent_weights` | `[4 · hidden, hidden]` | with `mixed_memory` |
//! | `memory_bias` | `[4 · hidden]` | with `mixed_memory` |
//!
//! # Options
//!
//! | name | what |
//! |---|---|
//! | `elapsed` | the last feature that comes in is the time since the last step |
//! | `backbone` | a layer in front of the others |
//! | `deep` | `further_layers` behind it |
//! | `no_gate` | h' by the second of its equations |
//! | `pure` | h' by the third of its equations |
//! | `mixed_memory` | an [LSTM](super::mixed_memory) before each step makes another h of h |
//!
//! # Extents
//!
//! | name | what |
//! |---|---|
//! | `features` | of x, what comes in without the time |
//! | `backbone_units` | of each layer of the backbone; 0 without one |
//! | `further_layers` | of the backbone, behind its first; 0 without `deep` |
//!
//! # Activations
//!
//! | name | default | of |
//! |---|---|---|
//! | `backbone_activation` | `tanh` | layers of the backbone |
//!
//! # Known as
//!
//! ncps's `ncps.torch.CfC` (a wiring with layers is a chain of cells); `Cfc` of raminmh/CfC (`minimal` is `pure`).
//!
//! # Deviations
//!
//! Both of them compute with a time below 0 as it is. Here it counts as 0: time does not run backwards.
//!
//! # Golden cases
//!
//! `ncps__CfC__*`, `cfc__Cfc__*`.

use super::{
    ActivationSpec, CanonicalSpec, CellSpec, Dim, ExtentSpec, Io, Presence, RECURRENT, Rule, StateSpec, TensorSpec,
    copy, mixed_memory,
};
use crate::activation::{Activation, relu, sigmoid, tanh};
use crate::gate;
use crate::kernel::{Weight, accumulate};
use crate::math;
use crate::node::Node;
use crate::tensor::Matrix;

/// Index of the option `elapsed`.
pub const ELAPSED: u32 = 0;
/// Index of the option `backbone`.
pub const BACKBONE: u32 = 1;
/// Index of the option `deep`.
pub const DEEP: u32 = 2;
/// Index of the option `no_gate`.
pub const NO_GATE: u32 = 3;
/// Index of the option `pure`.
pub const PURE: u32 = 4;
/// Index of the option `mixed_memory`.
pub const MIXED_MEMORY: u32 = 5;

/// Features of x.
const FEATURES: Dim = Dim::Extent(0);
/// Units of each layer of the backbone.
const UNITS: Dim = Dim::Extent(1);
/// Index of the extent `further_layers`.
const FURTHER_LAYERS: usize = 2;
/// Rows of the matrices of all further layers.
const DEEP_ROWS: Dim = Dim::Product(&[Dim::Extent(FURTHER_LAYERS), UNITS]);
/// Elements of x and h.
const OPERAND: Dim = Dim::Sum(&[FEATURES, Dim::Hidden]);
/// Elements of z.
const Z: Dim = Dim::Sum(&[Dim::When(BACKBONE, &UNITS), Dim::Unless(BACKBONE, &OPERAND)]);

const GATED: Presence = Presence::Without(PURE);
const RATED: Presence = Presence::WithWithout(ELAPSED, PURE);

const MEMORY: [CanonicalSpec; 3] = mixed_memory::canonical(FEATURES, MIXED_MEMORY);
const MEMORY_TENSORS: [TensorSpec; 3] = mixed_memory::tensors(FEATURES, MIXED_MEMORY);

/// See the [module](self).
pub const SPEC: CellSpec = CellSpec {
    name: "cfc",
    gates: &gate::LSTM,
    extents: &[ExtentSpec::zero("features"), ExtentSpec::zero("backbone_units"), ExtentSpec::zero("further_layers")],
    rules: &[
        RECURRENT,
        Rule::Equal(Dim::Input, Dim::Sum(&[FEATURES, Dim::When(ELAPSED, &Dim::Const(1))])),
        Rule::OneOf { options: &[NO_GATE, PURE], least: 0 },
        Rule::AtMost(Dim::When(BACKBONE, &Dim::Const(1)), UNITS),
        Rule::EqualUnless(BACKBONE, UNITS, Dim::Const(0)),
        Rule::AtMost(Dim::When(DEEP, &Dim::Const(1)), Dim::When(BACKBONE, &Dim::Extent(FURTHER_LAYERS))),
        Rule::EqualUnless(DEEP, Dim::Extent(FURTHER_LAYERS), Dim::Const(0)),
        Rule::AtMost(Dim::When(MIXED_MEMORY, &Dim::Const(1)), FEATURES),
    ],
    states: &[StateSpec { name: "hidden", len: Dim::Hidden }, mixed_memory::state(&Dim::Hidden, MIXED_MEMORY)],
    work: &[OPERAND, UNITS, Dim::When(DEEP, &UNITS)],
    options: &["elapsed", "backbone", "deep", "no_gate", "pure", "mixed_memory"],
    params: &[],
    activations: &[ActivationSpec { name: "backbone_activation", default: Activation::Tanh }],
    canonical: &[
        CanonicalSpec::matrix("backbone_weights", UNITS, OPERAND).when(Presence::With(BACKBONE)),
        CanonicalSpec::vector("backbone_bias", UNITS).when(Presence::With(BACKBONE)),
        CanonicalSpec::matrix("deep_weights", DEEP_ROWS, UNITS).when(Presence::With(DEEP)),
        CanonicalSpec::vector("deep_bias", DEEP_ROWS).when(Presence::With(DEEP)),
        CanonicalSpec::matrix("start_weights", Dim::Hidden, Z),
        CanonicalSpec::vector("start_bias", Dim::Hidden).when(Presence::Optional),
        CanonicalSpec::matrix("end_weights", Dim::Hidden, Z).when(GATED),
        CanonicalSpec::vector("end_bias", Dim::Hidden).when(GATED),
        CanonicalSpec::matrix("shift_weights", Dim::Hidden, Z).when(GATED),
        CanonicalSpec::vector("shift_bias", Dim::Hidden).when(GATED),
        CanonicalSpec::matrix("rate_weights", Dim::Hidden, Z).when(RATED),
        CanonicalSpec::vector("rate_bias", Dim::Hidden).when(RATED),
        CanonicalSpec::vector("time_constant", Dim::Hidden).when(Presence::With(PURE)),
        CanonicalSpec::vector("asymptote", Dim::Hidden).when(Presence::With(PURE)),
        MEMORY[0],
        MEMORY[1],
        MEMORY[2],
    ],
    tensors: &[
        TensorSpec::matrix("backbone_weights", &["backbone_weights"], UNITS, OPERAND).when(Presence::With(BACKBONE)),
        TensorSpec::vector("backbone_bias", &["backbone_bias"], UNITS).when(Presence::With(BACKBONE)),
        TensorSpec::matrix("deep_weights", &["deep_weights"], DEEP_ROWS, UNITS).when(Presence::With(DEEP)),
        TensorSpec::vector("deep_bias", &["deep_bias"], DEEP_ROWS).when(Presence::With(DEEP)),
        TensorSpec::matrix("start_weights", &["start_weights"], Dim::Hidden, Z),
        TensorSpec::vector("start_bias", &["start_bias"], Dim::Hidden),
        TensorSpec::matrix("end_weights", &["end_weights"], Dim::Hidden, Z).when(GATED),
        TensorSpec::vector("end_bias", &["end_bias"], Dim::Hidden).when(GATED),
        TensorSpec::matrix("shift_weights", &["shift_weights"], Dim::Hidden, Z).when(GATED),
        TensorSpec::vector("shift_bias", &["shift_bias"], Dim::Hidden).when(GATED),
        TensorSpec::matrix("rate_weights", &["rate_weights"], Dim::Hidden, Z).when(RATED),
        TensorSpec::vector("rate_bias", &["rate_bias"], Dim::Hidden).when(RATED),
        TensorSpec::vector("time_constant", &["time_constant"], Dim::Hidden).when(Presence::With(PURE)),
        TensorSpec::vector("asymptote", &["asymptote"], Dim::Hidden).when(Presence::With(PURE)),
        MEMORY_TENSORS[0],
        MEMORY_TENSORS[1],
        MEMORY_TENSORS[2],
    ],
};

/// Tensors of the spec by name: a bias is behind its matrix.
mod tensor {
    pub const BACKBONE: usize = 0;
    pub const DEEP: usize = 2;
    pub const START: usize = 4;
    pub const END: usize = 6;
    pub const SHIFT: usize = 8;
    pub const RATE: usize = 10;
    pub const TIME_CONSTANT: usize = 12;
    pub const ASYMPTOTE: usize = 13;
    pub const MEMORY: usize = 14;
}

/// One step. What comes in is `[input]`, `state` is `[hidden]` (h) and with mixed memory `[hidden]` (c), `work` is
/// `[features + hidden]` (x, h), `[backbone_units]` and, where it is deep, as many again, `y` is `[hidden]`.
pub(crate) fn step<W: Weight>(node: &Node<'_>, io: Io<'_>) {
    let Io { x: incoming, state, work, y, .. } = io;
    let Some((x, time)) = incoming.split_at_checked(node.dim(&FEATURES)) else { return };
    let Some((hidden, cell)) = state.split_at_mut_checked(node.hidden_size) else { return };
    if node.has(MIXED_MEMORY) {
        mixed_memory::step::<W>(node, tensor::MEMORY, x, hidden, cell, y);
    }
    let z = features::<W>(node, x, hidden, work);
    let t = relu(time.first().copied().unwrap_or(1.0));
    if node.has(PURE) {
        pure::<W>(node, z, t, y);
    } else {
        gated::<W>(node, z, t, y);
    }
    copy(hidden, y);
}

/// z of x and h, in `work`.
fn features<'w, W: Weight>(node: &Node<'_>, x: &[f32], hidden: &[f32], work: &'w mut [f32]) -> &'w [f32] {
    let Some((operand, layers)) = work.split_at_mut_checked(x.len() + hidden.len()) else { return &[] };
    for (operand, &value) in operand.iter_mut().zip(x.iter().chain(hidden)) {
        *operand = value;
    }
    if !node.has(BACKBONE) {
        return operand;
    }
    let units = node.dim(&UNITS);
    let Some((mut z, mut next)) = layers.split_at_mut_checked(units) else { return &[] };
    let activation = node.activation(0);
    layer(node.matrix::<W>(tensor::BACKBONE), node.vector(tensor::BACKBONE + 1), 0, activation, operand, z);
    for index in 0..node.extent(FURTHER_LAYERS) {
        let (weights, bias) = (node.matrix::<W>(tensor::DEEP), node.vector(tensor::DEEP + 1));
        layer(weights, bias, index * units, activation, z, next);
        core::mem::swap(&mut z, &mut next);
    }
    z
}

/// The rows of a matrix from `first` on, as many as `z` has. Blocks of four rows need not begin where a layer does.
fn layer<W: Weight>(
    weights: Matrix<'_, W>,
    bias: &[[f32; 4]],
    first: usize,
    activation: Activation,
    from: &[f32],
    z: &mut [f32],
) {
    let blocks = weights.blocks().zip(bias).skip(first / 4);
    let rows = blocks.flat_map(|(w, &b)| accumulate(b, w, from)).skip(first % 4);
    for (z, row) in z.iter_mut().zip(rows) {
        *z = activation.apply(row);
    }
}

/// h' by the time `t` through the gate.
fn gated<W: Weight>(node: &Node<'_>, z: &[f32], t: f32, y: &mut [f32]) {
    let rows = |index: usize| {
        let blocks = node.matrix::<W>(index).blocks().zip(node.vector(index + 1));
        blocks.map(|(w, &b)| accumulate(b, w, z))
    };
    let mut rates = rows(tensor::RATE);
    let (is_gated, blocks) = (!node.has(NO_GATE), rows(tensor::START).zip(rows(tensor::END)).zip(rows(tensor::SHIFT)));
    for (((starts, ends), shifts), y) in blocks.zip(y.chunks_mut(4)) {
        let rates = rates.next().unwrap_or_default();
        let units = starts.into_iter().zip(ends).zip(shifts.into_iter().zip(rates));
        for (((a, e), (shift, rate)), y) in units.zip(y) {
            let s = sigmoid(rate * t + shift);
            *y = if is_gated { tanh(a) * (1.0 - s) + s * tanh(e) } else { tanh(a) + s * tanh(e) };
        }
    }
}

/// h' by the closed form.
fn pure<W: Weight>(node: &Node<'_>, z: &[f32], t: f32, y: &mut [f32]) {
    let blocks = node.matrix::<W>(tensor::START).blocks().zip(node.vector(tensor::START + 1));
    let vectors = node.vector(tensor::TIME_CONSTANT).iter().zip(node.vector(tensor::ASYMPTOTE));
    for (((weights, &bias), (constants, asymptotes)), y) in blocks.zip(vectors).zip(y.chunks_mut(4)) {
        let units = accumulate(bias, weights, z).into_iter().zip(constants.iter().zip(asymptotes));
        for ((a, (w, asymptote)), y) in units.zip(y) {
            *y = asymptote - asymptote * math::exp(-t * (w.abs() + a.abs())) * a;
        }
    }
}
