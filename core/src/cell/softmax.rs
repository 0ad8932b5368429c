//! `y = e^(x - max x) / Σ e^(x - max x)`.

use super::{CellSpec, Sizes};

/// See the [module](self).
pub const SPEC: CellSpec = CellSpec {
    name: "softmax",
    code: 33,
    gates: &[],
    sizes: Sizes::Elementwise,
    states: &[],
    work: &[],
    options: &[],
    params: &[],
    activations: &[],
    canonical: &[],
    tensors: &[],
};
