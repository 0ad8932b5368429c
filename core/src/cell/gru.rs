//! Gated recurrent unit (Cho 2014), in both variants that frameworks have: the reset gate before the recurrent
//! product (TensorFlow's `GRUCell`, Keras with `reset_after=False`, ONNX with `linear_before_reset=0`) or after it
//! (cuDNN, PyTorch, Keras's default).
//!
//! ```text
//! r = σ(W_r x + R_r h + b_r)
//! z = σ(W_z x + R_z h + b_z)
//! n = tanh(W_n x + b_n + R_n (r ⊙ h))            reset before
//! n = tanh(W_n x + b_n + r ⊙ (R_n h + b_rn))     reset after
//! h' = z ⊙ h + (1 - z) ⊙ n
//! ```

use super::{ActivationSpec, CanonicalSpec, CellSpec, Dim, Presence, Sizes, StateSpec, TensorSpec};
use crate::activation::Activation;
use crate::gate::{self, Gate};

/// Index of the option `reset_after`.
pub const RESET_AFTER: u32 = 0;

const RESET_UPDATE: &[Gate] = &[Gate::Reset, Gate::Update];
const NEW: &[Gate] = &[Gate::New];

/// See the [module](self).
pub const SPEC: CellSpec = CellSpec {
    name: "gru",
    code: 3,
    gates: &gate::GRU,
    sizes: Sizes::Recurrent,
    states: &[StateSpec { name: "hidden", len: Dim::Hidden }],
    work: &[Dim::Hidden, Dim::Hidden],
    options: &["reset_after"],
    params: &[],
    activations: &[
        ActivationSpec { name: "gate_activation", default: Activation::Sigmoid },
        ActivationSpec { name: "new_activation", default: Activation::Tanh },
    ],
    canonical: &[
        CanonicalSpec::matrix("input_weights", Dim::Hidden, Dim::Input).gated(),
        CanonicalSpec::matrix("recurrent_weights", Dim::Hidden, Dim::Hidden).gated(),
        CanonicalSpec::vector("input_bias", Dim::Hidden).gated().when(Presence::Optional),
        CanonicalSpec::vector("recurrent_bias", Dim::Hidden).gated().when(Presence::Optional),
    ],
    tensors: &[
        TensorSpec::matrix("gate_input_weights", &["input_weights"], Dim::Hidden, Dim::Input).gates(RESET_UPDATE),
        TensorSpec::matrix("gate_recurrent_weights", &["recurrent_weights"], Dim::Hidden, Dim::Hidden)
            .gates(RESET_UPDATE),
        TensorSpec::vector("gate_bias", &["input_bias", "recurrent_bias"], Dim::Hidden).gates(RESET_UPDATE),
        TensorSpec::matrix("new_input_weights", &["input_weights"], Dim::Hidden, Dim::Input).gates(NEW),
        TensorSpec::matrix("new_recurrent_weights", &["recurrent_weights"], Dim::Hidden, Dim::Hidden).gates(NEW),
        TensorSpec::vector("new_bias", &["input_bias", "recurrent_bias"], Dim::Hidden)
            .gates(NEW)
            .when(Presence::Without(RESET_AFTER)),
        TensorSpec::vector("new_input_bias", &["input_bias"], Dim::Hidden).gates(NEW).when(Presence::With(RESET_AFTER)),
        TensorSpec::vector("new_recurrent_bias", &["recurrent_bias"], Dim::Hidden)
            .gates(NEW)
            .when(Presence::With(RESET_AFTER)),
    ],
};
