//! Long short-term memory (Hochreiter and Schmidhuber 1997; Gers 2000 for the forget gate and the peepholes;
//! Sak 2014 for the projection), as in TensorFlow's `LSTMCell`, Keras, PyTorch and cuDNN.
//!
//! ```text
//! i = σ(W_i x + R_i h + b_i + p_i ⊙ c)
//! f = σ(W_f x + R_f h + b_f + p_f ⊙ c)
//! g = tanh(W_g x + R_g h + b_g)
//! c' = clip(f ⊙ c + i ⊙ g, cell_clip)
//! o = σ(W_o x + R_o h + b_o + p_o ⊙ c')
//! m = o ⊙ tanh(c')
//! h' = clip(P m, projection_clip)   with a projection, else m
//! ```
//!
//! A forget bias that a framework adds at run time is folded into `b_f` by the importer. A clip of 0 is none.

use super::{ActivationSpec, CanonicalSpec, CellSpec, Dim, Presence, Sizes, StateSpec, TensorSpec};
use crate::activation::Activation;
use crate::gate;

/// Index of the option `peephole`.
pub const PEEPHOLE: u32 = 0;
/// Index of the option `projection`.
pub const PROJECTION: u32 = 1;

/// See the [module](self).
pub const SPEC: CellSpec = CellSpec {
    name: "lstm",
    code: 2,
    gates: &gate::LSTM,
    sizes: Sizes::Projected { option: PROJECTION },
    states: &[StateSpec { name: "hidden", len: Dim::Output }, StateSpec { name: "cell_state", len: Dim::Hidden }],
    work: &[Dim::Hidden],
    options: &["peephole", "projection"],
    params: &["cell_clip", "projection_clip"],
    activations: &[
        ActivationSpec { name: "gate_activation", default: Activation::Sigmoid },
        ActivationSpec { name: "cell_activation", default: Activation::Tanh },
        ActivationSpec { name: "output_activation", default: Activation::Tanh },
    ],
    canonical: &[
        CanonicalSpec::matrix("input_weights", Dim::Hidden, Dim::Input).gated(),
        CanonicalSpec::matrix("recurrent_weights", Dim::Hidden, Dim::Output).gated(),
        CanonicalSpec::vector("input_bias", Dim::Hidden).gated().when(Presence::Optional),
        CanonicalSpec::vector("recurrent_bias", Dim::Hidden).gated().when(Presence::Optional),
        CanonicalSpec::vector("input_peephole", Dim::Hidden).when(Presence::With(PEEPHOLE)),
        CanonicalSpec::vector("forget_peephole", Dim::Hidden).when(Presence::With(PEEPHOLE)),
        CanonicalSpec::vector("output_peephole", Dim::Hidden).when(Presence::With(PEEPHOLE)),
        CanonicalSpec::matrix("projection_weights", Dim::Output, Dim::Hidden).when(Presence::With(PROJECTION)),
    ],
    tensors: &[
        TensorSpec::matrix("input_weights", &["input_weights"], Dim::Hidden, Dim::Input).gates(&gate::LSTM),
        TensorSpec::matrix("recurrent_weights", &["recurrent_weights"], Dim::Hidden, Dim::Output).gates(&gate::LSTM),
        TensorSpec::vector("bias", &["input_bias", "recurrent_bias"], Dim::Hidden).gates(&gate::LSTM),
        TensorSpec::vector("input_peephole", &["input_peephole"], Dim::Hidden).when(Presence::With(PEEPHOLE)),
        TensorSpec::vector("forget_peephole", &["forget_peephole"], Dim::Hidden).when(Presence::With(PEEPHOLE)),
        TensorSpec::vector("output_peephole", &["output_peephole"], Dim::Hidden).when(Presence::With(PEEPHOLE)),
        TensorSpec::matrix("projection_weights", &["projection_weights"], Dim::Output, Dim::Hidden)
            .when(Presence::With(PROJECTION)),
    ],
};
