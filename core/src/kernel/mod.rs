//! Inner products, and the one place that picks them. Scalar Rust is the reference.
//!
//! Kernels know slices only. Matrices lie in blocks of four rows, column by column, so that one walk over the
//! weights serves four accumulators; every row is summed over ascending columns in a single chain, which fixes
//! the result bit for bit.

mod scalar;

pub use scalar::accumulate;

use half::f16;

/// A matrix element as it lies in flash.
pub trait Weight: bytemuck::Pod {
    /// Its value, exactly.
    fn widen(self) -> f32;
}

impl Weight for f32 {
    fn widen(self) -> f32 {
        self
    }
}

impl Weight for f16 {
    /// Smaller and faster than a conversion that asks for every case: the bits moved to f32's places are 2^-112 of the value, also
    /// where it is subnormal; the product is exact. Only what is not finite needs its exponent set.
    fn widen(self) -> f32 {
        const SCALE: f32 = f32::from_bits((127 + 112) << 23);
        const NOT_FINITE: u32 = 0x7C00 << 13;
        let (sign, magnitude) = (u32::from(self.to_bits() & 0x8000) << 16, u32::from(self.to_bits() & 0x7FFF) << 13);
        let exponent = if magnitude >= NOT_FINITE { f32::INFINITY.to_bits() } else { 0 };
        let value = f32::from_bits(magnitude) * SCALE;
        f32::from_bits(value.to_bits() | exponent | sign)
    }
}

#[cfg(test)]
mod tests {
    use super::{Weight, f16};

    #[test]
    fn every_f16_is_widened_to_its_value() {
        for bits in 0..=u16::MAX {
            let (half, widened) = (f16::from_bits(bits), f16::from_bits(bits).widen());
            let expected = half.to_f32();
            let same = widened.to_bits() == expected.to_bits() || (widened.is_nan() && expected.is_nan());
            assert!(same, "{bits:04x}: {widened:e}, but is {expected:e}");
        }
    }
}
