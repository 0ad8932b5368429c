//! Multipliers that convert values from one scale to another.

use tidegate::internals::cell::{Numbers, OTHER, Reads, TensorSpec};
use tidegate::internals::integer_norm::FRACTION_BITS;

use super::Quantizer;
use crate::canonical::dim;
use crate::quantize::scales::product_unit;
use crate::quantize::terms::{Q15, has};

/// The multiplier that keeps the scale.
const MULTIPLIER_ONE: f64 = (1 << 24) as f64;
/// The multiplier of a product whose scale is that of the output.
const PRODUCT_ONE: f64 = (1_u64 << 39) as f64;

/// The unit of a normalized value's high half, which is multiplied like a value of 16 bits.
pub const NORMALIZED: f64 = 1.0 / (1_u32 << (FRACTION_BITS - 16)) as f64;

impl Quantizer<'_> {
    pub(super) fn set_identity(&mut self) {
        let multiplier = multiplier(self.input / self.output);
        self.set("multiplier", multiplier);
        if multiplier != MULTIPLIER_ONE as i32 {
            self.options |= 1 << OTHER;
        }
    }

    /// The multiplier that converts each part of a merge, each channel of a scale layer or each normalized value to the
    /// scale of the output.
    pub(super) fn multipliers(&self, tensor: &TensorSpec) -> Vec<i32> {
        if self.rules.reads != Reads::Parts {
            let gains = match has(self.node, "gain") {
                true => self.image_rows(tensor),
                false => vec![1.0; dim(self.node, self.spec, &tensor.rows)],
            };
            let input = if self.rules.numbers == Numbers::Normalized { NORMALIZED } else { self.input };
            let multiplier = |gain: f32| (f64::from(gain) * input / self.output * MULTIPLIER_ONE).round() as i32;
            return gains.into_iter().map(multiplier).collect();
        }
        let has = |option: &str| has(self.node, option);
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

/// The multiplier that converts a value to another scale; `ratio` is the old scale divided by the new one.
pub fn multiplier(ratio: f64) -> i32 {
    (ratio * MULTIPLIER_ONE).round().clamp(1.0, f64::from(i32::MAX)) as i32
}
