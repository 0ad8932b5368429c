//! The transcendental functions but for tanh, from the library that the features choose: `libm` (default; wins when
//! both are on) or `micromath` (smaller, coarser, other bits). No other file names either library.

#[cfg(feature = "libm")]
mod imp {
    pub fn exp(x: f32) -> f32 {
        libm::expf(x)
    }

    /// e^x - 1 within an ulp, small or not.
    pub fn exp_m1(x: f32) -> f32 {
        libm::expm1f(x)
    }

    pub fn ln(x: f32) -> f32 {
        libm::logf(x)
    }

    pub fn sqrt(x: f32) -> f32 {
        libm::sqrtf(x)
    }
}

#[cfg(not(feature = "libm"))]
mod imp {
    use micromath::F32Ext;

    /// ln of the smallest normal number and of the largest, both rounded inwards.
    const EXP_RANGE: (f32, f32) = (-87.336, 88.722_83);

    /// micromath's `exp` has no defined result where e^x leaves the normal numbers, and makes 1 of not-a-number.
    pub fn exp(x: f32) -> f32 {
        if x < EXP_RANGE.0 {
            0.0
        } else if x > EXP_RANGE.1 {
            f32::INFINITY
        } else if x.is_nan() {
            x
        } else {
            F32Ext::exp(x)
        }
    }

    pub fn exp_m1(x: f32) -> f32 {
        exp(x) - 1.0
    }

    pub fn ln(x: f32) -> f32 {
        F32Ext::ln(x)
    }

    /// micromath's is within 6.1 %: of a relative error e, a step of Newton's leaves e² / 2 or less.
    pub fn sqrt(x: f32) -> f32 {
        let newton = |root: f32| 0.5 * (root + x / root);
        if x < f32::INFINITY { newton(newton(F32Ext::sqrt(x))) } else { x }
    }
}

pub use imp::{exp, exp_m1, ln, sqrt};

#[cfg(test)]
mod tests {
    extern crate std;

    use crate::activation::EXP_MAX_RELATIVE_ERROR;

    /// Every f32 from 0 to -87, where e^x leaves the normal numbers, in release builds; else every 4099th.
    #[test]
    fn exp_of_what_is_not_positive_keeps_its_stated_error() {
        let mut worst = 0.0_f64;
        for bits in (0..=87.0_f32.to_bits()).step_by(if cfg!(debug_assertions) { 4099 } else { 1 }) {
            let x = -f32::from_bits(bits);
            let exact = f64::from(x).exp();
            worst = worst.max((f64::from(super::exp(x)) - exact).abs() / exact);
        }
        std::println!("e^x for x from -87 to 0: relative error {worst:.4e}");
        assert!(worst <= f64::from(EXP_MAX_RELATIVE_ERROR), "{worst:e}");
    }

    #[test]
    fn a_root_is_within_two_millionths() {
        for bits in (f32::MIN_POSITIVE.to_bits()..f32::INFINITY.to_bits()).step_by(99_991) {
            let x = f32::from_bits(bits);
            let exact = f64::from(x).sqrt();
            assert!((f64::from(super::sqrt(x)) - exact).abs() <= 2e-6 * exact, "{x:e}");
        }
        assert!(super::sqrt(0.0) < 1e-19 && super::sqrt(f32::INFINITY) == f32::INFINITY && super::sqrt(-1.0).is_nan());
    }
}
