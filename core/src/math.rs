//! The transcendental functions other than tanh, from the library chosen by the features: `libm` (the default, used if
//! both are enabled) or `micromath` (smaller and less accurate, with different results). No other file names either
//! library.
//!
//! Integer models need neither. Without both features, models and front ends in floats are refused when they are parsed.

#[cfg(feature = "libm")]
mod imp {
    pub fn exp(x: f32) -> f32 {
        libm::expf(x)
    }

    /// e^x - 1 within one ulp, also for small x.
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

#[cfg(all(feature = "micromath", not(feature = "libm")))]
mod imp {
    use micromath::F32Ext;

    /// ln of the smallest normal number and of the largest, both rounded toward zero.
    const EXP_RANGE: (f32, f32) = (-87.336, 88.722_83);

    /// micromath's `exp` is undefined where e^x is not a normal number, and returns 1 for NaN.
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

    /// micromath's root is within 6.1 %; a Newton step reduces a relative error e to at most e² / 2.
    pub fn sqrt(x: f32) -> f32 {
        let newton = |root: f32| 0.5 * (root + x / root);
        if x < f32::INFINITY { newton(newton(F32Ext::sqrt(x))) } else { x }
    }
}

/// Never called for a model or a front end that was parsed.
#[cfg(not(any(feature = "libm", feature = "micromath")))]
mod imp {
    pub fn exp(_: f32) -> f32 {
        f32::NAN
    }

    pub fn exp_m1(_: f32) -> f32 {
        f32::NAN
    }

    pub fn ln(_: f32) -> f32 {
        f32::NAN
    }

    pub fn sqrt(_: f32) -> f32 {
        f32::NAN
    }
}

/// Largest relative error of e^x where the result is normal: one ulp with `libm`. `micromath` sums four terms of a
/// series; its bound is measured (2.42e-3).
pub const EXP_MAX_RELATIVE_ERROR: f32 = if cfg!(feature = "libm") { f32::EPSILON } else { 2.5e-3 };

/// Whether this build has a library for the functions of float models.
pub const HAS_FLOATS: bool = cfg!(any(feature = "libm", feature = "micromath"));

pub use imp::{exp, exp_m1, ln, sqrt};

#[cfg(all(test, any(feature = "libm", feature = "micromath")))]
mod tests {
    extern crate std;

    use super::EXP_MAX_RELATIVE_ERROR;

    /// Tests f32 from 0 to -87, where e^x becomes subnormal: each of them if `TIDEGATE_EVERY_F32` is set, every 61st in
    /// release builds, every 4099th in debug builds.
    #[test]
    fn exp_of_zero_and_negative_numbers_keeps_its_stated_error() {
        let every = if std::env::var_os("TIDEGATE_EVERY_F32").is_some() {
            1
        } else if cfg!(debug_assertions) {
            4099
        } else {
            61
        };
        let mut worst = 0.0_f64;
        for bits in (0..=87.0_f32.to_bits()).step_by(every) {
            let x = -f32::from_bits(bits);
            let exact = f64::from(x).exp();
            let error = (f64::from(super::exp(x)) - exact).abs() / exact;
            // NaN fails.
            assert!(error <= f64::from(EXP_MAX_RELATIVE_ERROR), "{x:e}: {error:e}");
            worst = worst.max(error);
        }
        std::println!("e^x for x from -87 to 0: relative error {worst:.4e}");
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
