//! `y = e^(x - max x) / Σ e^(x - max x)`.

use super::{CellSpec, Sizes};
use crate::math;

/// See the [module](self).
pub const SPEC: CellSpec = CellSpec {
    name: "softmax",
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

pub use crate::activation::EXP_MAX_RELATIVE_ERROR;

/// One step. `x` and `y` have the same length.
pub(crate) fn step(x: &[f32], y: &mut [f32]) {
    let max = x.iter().fold(f32::NEG_INFINITY, |max, &x| max.max(x));
    let mut sum = 0.0;
    for (y, &x) in y.iter_mut().zip(x) {
        *y = math::exp(x - max);
        sum += *y;
    }
    for y in y {
        *y /= sum;
    }
}
