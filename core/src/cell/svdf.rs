//! Recurrent layer of rank-limited filters (Nakkiran et al. 2015, "Compressing deep neural networks using a rank-constrained
//! topology"): each filter weights the features of a step, and then its own results of the last steps.
//!
//! # Equation
//!
//! ```text
//! s_M = F x
//! y_u = act(b_u + Σ_f Σ_k T_fk s_kf)      f: the filters of unit u
//! ```
//!
//! s_1 to s_M are the results of the last M steps, the oldest first; those from before the first step are 0. A unit has
//! `hidden / output` filters, which are rows of F and T side by side. TFLite calls this number `rank`.
//!
//! # Tensors
//!
//! | name | shape | when |
//! |---|---|---|
//! | `feature_weights` | `[hidden, input]`: F | always |
//! | `time_weights` | `[hidden, memory]`: T, of the oldest result first | always |
//! | `bias` | `[output]`: b | optional, otherwise 0 |
//!
//! # Extents
//!
//! | name | what |
//! |---|---|
//! | `memory` | M, the results that a filter weights |
//!
//! # Activations
//!
//! | name | default |
//! |---|---|
//! | `activation` | `identity` |
//!
//! # Known as
//!
//! TFLite's `SVDF`, as in the keyword benchmark of TensorFlow Lite Micro.
//!
//! # Golden cases
//!
//! None of its own. The files of filters in tests/frameworks/tflite have outputs of TFLite's interpreter.

pub mod i8;

use super::prelude::*;
use super::window::shifted;
use super::window_depthwise::filtered;

const EXTENTS: &[ExtentSpec] = &[ExtentSpec::one("memory")];
const STEPS: usize = extent(EXTENTS, "memory");
const MEMORY: Dim = Dim::Extent(STEPS);
/// The results of all filters.
const RESULTS: Dim = Dim::Product(&[Dim::Hidden, MEMORY]);

const CANONICAL: &[CanonicalSpec; 3] = &[
    CanonicalSpec::matrix("feature_weights", Dim::Hidden, Dim::Input),
    CanonicalSpec::matrix("time_weights", Dim::Hidden, MEMORY),
    CanonicalSpec::vector("bias", Dim::Output).optional(),
];

pub(super) const SPEC: CellSpec = CellSpec {
    name: "svdf",
    extents: EXTENTS,
    rules: &[Rule::Multiple(Dim::Hidden, Dim::Output)],
    states: &[StateSpec { name: "results", len: RESULTS }],
    activations: &[ActivationSpec { name: "activation", default: Activation::Identity }],
    canonical: CANONICAL,
    tensors: &TensorSpec::each(CANONICAL, &[]),
    curves: &[Dim::Output],
    ..CellSpec::EMPTY
};

const FEATURE_WEIGHTS: usize = SPEC.tensor("feature_weights");
const TIME_WEIGHTS: usize = SPEC.tensor("time_weights");
const BIAS: usize = SPEC.tensor("bias");

pub(super) const fn entry<W: Weight, K: Kernel>() -> Entry {
    const {
        Entry {
            spec: &SPEC,
            float: &[&Cell::float(&SPEC, step::<W>)],
            i8: &[(&i8::SPEC, &Cell::integer(&SPEC, &i8::SPEC, i8::step::<K>))],
            ..Entry::EMPTY
        }
    }
}

/// One step. `x` is `[input]`, `state` is `[memory, hidden]` (the oldest results first), `y` is `[output]`.
pub(crate) fn step<W: Weight>(node: &Node<'_>, io: Io<'_>) {
    let Io { x, state, y, .. } = io;
    let results = state.get_mut(..node.dim(&RESULTS)).unwrap_or_default();
    product::<W>(node, FEATURE_WEIGHTS, x, shifted(results, node.hidden_size));
    summed(node, results, y, &|results, block| {
        filtered::<W>(node, TIME_WEIGHTS, (results, node.hidden_size), (block, 1), [0.0; 4])
    });
}

/// Adds up the filters of each unit. `filtered` returns the sums of four filters. One copy serves all weights.
fn summed(node: &Node<'_>, results: &[f32], y: &mut [f32], filtered: &dyn Fn(&[f32], usize) -> [f32; 4]) {
    let rank = node.hidden_size.checked_div(node.output_size).unwrap_or(0);
    let activation = node.activation(0);
    for (y, bias) in y.chunks_mut(4).zip(node.vector(BIAS)) {
        copy(y, bias);
    }
    for block in 0..node.hidden_size.div_ceil(4) {
        for (sum, filter) in filtered(results, block).into_iter().zip(4 * block..) {
            if let Some(y) = filter.checked_div(rank).and_then(|unit| y.get_mut(unit)) {
                *y += sum;
            }
        }
    }
    for y in y {
        *y = activation.apply(*y);
    }
}
