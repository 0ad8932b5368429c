//! The names that nearly every cell uses: its description, its step, and the sums over its weights.

pub(super) use super::sums::{product, sums, sums_of_two};
pub(super) use crate::activation::Activation;
pub(super) use crate::gate::{self, Gate};
pub(super) use crate::kernel::{Kernel, Weight, accumulate, copy};
pub(super) use crate::node::{Cell, Entry, Io, Node, is_masked};
pub(super) use crate::spec::{
    ActivationSpec, Alone, CURVE, Candidate, CanonicalSpec, CellSpec, Dim, ExtentSpec, IntegerSpec, LeastScale,
    NumberSpec, Numbers, OTHER, OutputScale, ParamSpec, Presence, Quantization, RECURRENT, Reads, Role, Rule,
    StateSpec, Storage, TensorSpec, UNIT_SCALES, Unit, WIDE, extent, index, number, option,
};
