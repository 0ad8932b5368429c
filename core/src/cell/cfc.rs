//! Closed-form continuous-time cell (Hasani et al. 2022, arXiv:2106.13898): its state is a function of the time since
//! the last step, so that steps may be irregular.
//!
//! # Equation
//!
//! ```text
//! z = [x, h]                                   without a backbone
//! z = act(B [x, h] + b_B)                      with one; and deep: z = act(D_k z + b_Dk) for each further layer k
//! a = W_a z + b_a    e = W_e z + b_e           start and end of the state
//! s = σ((W_r z + b_r) t + W_s z + b_s)         position between them after the time t
//! h' = (1 - s) ⊙ tanh(a) + s ⊙ tanh(e)
//! h' = tanh(a) + s ⊙ tanh(e)                   no_gate
//! h' = A - A ⊙ exp(-t (|w| + |a|)) ⊙ a         pure
//! ```
//!
//! With the option `elapsed`, t is the last input feature and x the others; a negative t is treated as 0. Without it
//! the steps are regular: t is 1 and s is σ(W_s z + b_s), where W_s and b_s hold W_r T + W_s and b_r T + b_s of a
//! network trained with steps of length T. The output is h'.
//!
//! # Tensors
//!
//! `z` in a shape is the length of z: `backbone_units` with a backbone, otherwise `features + hidden`.
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
//! | `elapsed` | the last input feature is the time since the last step |
//! | `backbone` | a layer before the others |
//! | `deep` | `further_layers` follow the first backbone layer |
//! | `no_gate` | h' by the second equation |
//! | `pure` | h' by the third equation |
//! | `mixed_memory` | an [LSTM](super::mixed_memory) updates h before each step |
//!
//! # Extents
//!
//! | name | what |
//! |---|---|
//! | `features` | number of features of x, without the time |
//! | `backbone_units` | units of each backbone layer; 0 without `backbone` |
//! | `further_layers` | number of backbone layers after the first; 0 without `deep` |
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
//! Both implementations use a negative time unchanged. This cell treats it as 0.
//!
//! # Golden cases
//!
//! `ncps__CfC__*`, `cfc__Cfc__*`.

use super::mixed_memory;
use super::prelude::*;
use crate::activation::{relu, sigmoid, tanh};
use crate::math;
use crate::tensor::Matrix;

const OPTIONS: &[&str] = &["elapsed", "backbone", "deep", "no_gate", "pure", "mixed_memory"];
const ELAPSED: u32 = option(OPTIONS, "elapsed");
const BACKBONE: u32 = option(OPTIONS, "backbone");
const DEEP: u32 = option(OPTIONS, "deep");
const NO_GATE: u32 = option(OPTIONS, "no_gate");
const PURE: u32 = option(OPTIONS, "pure");
const MIXED_MEMORY: u32 = option(OPTIONS, "mixed_memory");

const EXTENTS: &[ExtentSpec] =
    &[ExtentSpec::zero("features"), ExtentSpec::zero("backbone_units"), ExtentSpec::zero("further_layers")];

/// Features of x.
const FEATURES: Dim = Dim::Extent(extent(EXTENTS, "features"));
/// Units of each layer of the backbone.
const UNITS: Dim = Dim::Extent(extent(EXTENTS, "backbone_units"));
const FURTHER_LAYERS: usize = extent(EXTENTS, "further_layers");
/// Rows of the matrices of all further layers.
const DEEP_ROWS: Dim = Dim::Product(&[Dim::Extent(FURTHER_LAYERS), UNITS]);
/// Elements of x and h.
const OPERAND: Dim = Dim::Sum(&[FEATURES, Dim::Hidden]);
/// Elements of z.
const Z: Dim = Dim::Sum(&[Dim::When(BACKBONE, &UNITS), Dim::Unless(BACKBONE, &OPERAND)]);

const GATED: Presence = Presence::Without(PURE);
const RATED: Presence = Presence::WithWithout(ELAPSED, PURE);

const MEMORY: [CanonicalSpec; 3] = mixed_memory::canonical(FEATURES, MIXED_MEMORY);

const CANONICAL: &[CanonicalSpec; 17] = &[
    CanonicalSpec::matrix("backbone_weights", UNITS, OPERAND).with(BACKBONE),
    CanonicalSpec::vector("backbone_bias", UNITS).with(BACKBONE),
    CanonicalSpec::matrix("deep_weights", DEEP_ROWS, UNITS).with(DEEP),
    CanonicalSpec::vector("deep_bias", DEEP_ROWS).with(DEEP),
    CanonicalSpec::matrix("start_weights", Dim::Hidden, Z),
    CanonicalSpec::vector("start_bias", Dim::Hidden).optional(),
    CanonicalSpec::matrix("end_weights", Dim::Hidden, Z).when(GATED),
    CanonicalSpec::vector("end_bias", Dim::Hidden).when(GATED),
    CanonicalSpec::matrix("shift_weights", Dim::Hidden, Z).when(GATED),
    CanonicalSpec::vector("shift_bias", Dim::Hidden).when(GATED),
    CanonicalSpec::matrix("rate_weights", Dim::Hidden, Z).when(RATED),
    CanonicalSpec::vector("rate_bias", Dim::Hidden).when(RATED),
    CanonicalSpec::vector("time_constant", Dim::Hidden).with(PURE),
    CanonicalSpec::vector("asymptote", Dim::Hidden).with(PURE),
    MEMORY[0],
    MEMORY[1],
    MEMORY[2],
];

pub(super) const SPEC: CellSpec = CellSpec {
    name: "cfc",
    gates: &gate::LSTM,
    extents: EXTENTS,
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
    options: OPTIONS,
    activations: &[ActivationSpec::tanh("backbone_activation")],
    canonical: CANONICAL,
    tensors: &TensorSpec::each(CANONICAL, &gate::LSTM),
    curves: &[
        UNITS,
        Dim::Product(&[UNITS, Dim::Extent(FURTHER_LAYERS)]),
        Dim::When(PURE, &Dim::Hidden),
        Dim::Unless(PURE, &Dim::Product(&[Dim::Const(3), Dim::Hidden])),
        Dim::When(MIXED_MEMORY, &mixed_memory::CURVES),
    ],
    ..CellSpec::EMPTY
};

// Each bias directly follows its matrix.
const BACKBONE_WEIGHTS: usize = SPEC.tensor("backbone_weights");
const DEEP_WEIGHTS: usize = SPEC.tensor("deep_weights");
const START_WEIGHTS: usize = SPEC.tensor("start_weights");
const END_WEIGHTS: usize = SPEC.tensor("end_weights");
const SHIFT_WEIGHTS: usize = SPEC.tensor("shift_weights");
const RATE_WEIGHTS: usize = SPEC.tensor("rate_weights");
const TIME_CONSTANT: usize = SPEC.tensor("time_constant");
const ASYMPTOTE: usize = SPEC.tensor("asymptote");
const MEMORY_WEIGHTS: usize = SPEC.tensor("memory_input_weights");

pub(super) const fn entry<W: Weight, K: Kernel>() -> Entry {
    const { Entry { spec: &SPEC, float: &[&Cell::float(&SPEC, step::<W>)], ..Entry::EMPTY } }
}

/// One step. The input is `[input]`, `state` is `[hidden]` (h) and with mixed memory `[hidden]` (c), `work` is
/// `[features + hidden]` (x, h), `[backbone_units]` and, with `deep`, `[backbone_units]` again, `y` is `[hidden]`.
pub(crate) fn step<W: Weight>(node: &Node<'_>, io: Io<'_>) {
    let Io { x: incoming, state, work, y, .. } = io;
    let Some((x, time)) = incoming.split_at_checked(node.dim(&FEATURES)) else { return };
    let Some((hidden, cell)) = state.split_at_mut_checked(node.hidden_size) else { return };
    if node.has(MIXED_MEMORY) {
        mixed_memory::step::<W>(node, MEMORY_WEIGHTS, x, hidden, cell, y);
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

/// Computes z of x and h in `work`.
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
    layer(node.matrix::<W>(BACKBONE_WEIGHTS), node.vector(BACKBONE_WEIGHTS + 1), 0, activation, operand, z);
    for index in 0..node.extent(FURTHER_LAYERS) {
        let (weights, bias) = (node.matrix::<W>(DEEP_WEIGHTS), node.vector(DEEP_WEIGHTS + 1));
        layer(weights, bias, index * units, activation, z, next);
        core::mem::swap(&mut z, &mut next);
    }
    z
}

/// Computes each element of `z` from one row of a matrix, starting with row `first`. A layer may begin within a block of
/// four rows.
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

/// h' after the time `t`, with the gate.
fn gated<W: Weight>(node: &Node<'_>, z: &[f32], t: f32, y: &mut [f32]) {
    let rows = |index: usize| sums::<W>(node, [index, index + 1], z);
    let mut rates = rows(RATE_WEIGHTS);
    let (is_gated, blocks) = (!node.has(NO_GATE), rows(START_WEIGHTS).zip(rows(END_WEIGHTS)).zip(rows(SHIFT_WEIGHTS)));
    for (((starts, ends), shifts), y) in blocks.zip(y.chunks_mut(4)) {
        let rates = rates.next().unwrap_or_default();
        let units = starts.into_iter().zip(ends).zip(shifts.into_iter().zip(rates));
        for (((a, e), (shift, rate)), y) in units.zip(y) {
            let s = sigmoid(rate * t + shift);
            *y = if is_gated { tanh(a) * (1.0 - s) + s * tanh(e) } else { tanh(a) + s * tanh(e) };
        }
    }
}

/// h' in the closed form.
fn pure<W: Weight>(node: &Node<'_>, z: &[f32], t: f32, y: &mut [f32]) {
    let sums = sums::<W>(node, [START_WEIGHTS, START_WEIGHTS + 1], z);
    let vectors = node.vector(TIME_CONSTANT).iter().zip(node.vector(ASYMPTOTE));
    for ((sums, (constants, asymptotes)), y) in sums.zip(vectors).zip(y.chunks_mut(4)) {
        let units = sums.into_iter().zip(constants.iter().zip(asymptotes));
        for ((a, (w, asymptote)), y) in units.zip(y) {
            *y = asymptote - asymptote * math::exp(-t * (w.abs() + a.abs())) * a;
        }
    }
}
