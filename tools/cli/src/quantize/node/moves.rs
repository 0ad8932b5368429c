//! What brings values to other units.

use tidegate::cell::{CellKind, OTHER, TensorSpec};

use super::Quantizer;
use crate::pack::{dim, image_rows};
use crate::quantize::scales::{Q15, product_unit};

/// A multiplier that keeps the unit.
const MULTIPLIER_ONE: f64 = (1 << 24) as f64;
/// That of a product whose unit is that of the output.
const PRODUCT_ONE: f64 = (1_u64 << 39) as f64;

impl Quantizer<'_> {
    pub(super) fn set_identity(&mut self) {
        let multiplier = multiplier(self.input / self.output);
        self.set("multiplier", multiplier);
        if multiplier != MULTIPLIER_ONE as i32 {
            self.options |= 1 << OTHER;
        }
    }

    /// What brings each part of a merge, or each channel of a scale, to the unit of the output.
    pub(super) fn multipliers(&self, tensor: &TensorSpec) -> Vec<i32> {
        if self.node.cell == CellKind::Scale.spec().name {
            let channels = dim(self.node, self.spec, &tensor.rows);
            let gains = if self.node.options.iter().any(|option| option == "gain") {
                image_rows(self.node, self.spec, tensor, &self.model.tensors)
            } else {
                vec![1.0; channels]
            };
            let multiplier = |gain: f32| (f64::from(gain) * self.input / self.output * MULTIPLIER_ONE).round() as i32;
            return gains.into_iter().map(multiplier).collect();
        }
        let has = |option: &str| self.node.options.iter().any(|has| has == option);
        let to_output = |part: &f64| multiplier(part / self.output);
        match self.parts.as_slice() {
            [_, _, ..] if has("multiply") => {
                let product = product_unit(&self.parts) / self.output * PRODUCT_ONE;
                let rest = self.parts.iter().skip(1).map(|_| 0);
                [product.round() as i32].into_iter().chain(rest).collect()
            }
            [first, second, share] if has("blend") => {
                vec![to_output(first), to_output(second), multiplier(share / Q15)]
            }
            parts => {
                let share = if has("average") { parts.len() as f64 } else { 1.0 };
                parts.iter().map(|part| multiplier(part / self.output / share)).collect()
            }
        }
    }
}

/// What brings a unit to another that is worth so much of it.
pub fn multiplier(ratio: f64) -> i32 {
    (ratio * MULTIPLIER_ONE).round().clamp(1.0, f64::from(i32::MAX)) as i32
}
