//! The transcendental functions, from the library that the features choose: `libm` (default; wins when
//! both are on) or `micromath` (smaller, coarser, other bits). No other file names either library.

#[cfg(feature = "libm")]
mod imp {
    pub fn exp(x: f32) -> f32 {
        libm::expf(x)
    }

    pub fn ln(x: f32) -> f32 {
        libm::logf(x)
    }

    pub fn sqrt(x: f32) -> f32 {
        libm::sqrtf(x)
    }

    pub fn tanh(x: f32) -> f32 {
        libm::tanhf(x)
    }
}

#[cfg(not(feature = "libm"))]
mod imp {
    use micromath::F32Ext;

    /// micromath's `exp` has no defined result where e^x leaves the range of f32.
    const EXP_RANGE: f32 = 87.0;

    pub fn exp(x: f32) -> f32 {
        F32Ext::exp(x.clamp(-EXP_RANGE, EXP_RANGE))
    }

    pub fn ln(x: f32) -> f32 {
        F32Ext::ln(x)
    }

    pub fn sqrt(x: f32) -> f32 {
        F32Ext::sqrt(x)
    }

    /// micromath has no `tanh`; 1 - 2/(e^2x + 1), odd by construction.
    pub fn tanh(x: f32) -> f32 {
        let positive = 1.0 - 2.0 / (exp(2.0 * x.abs()) + 1.0);
        positive.copysign(x)
    }
}

pub use imp::{exp, ln, sqrt, tanh};
