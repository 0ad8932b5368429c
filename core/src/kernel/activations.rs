//! Sigmoid and tanh of many values in place, four at a time, with the bits of [`crate::tanh`]. The cells call it where
//! [`VECTORS`] says that it is faster than one value after the other.

/// Whether the build has a kernel of the curves: vectors of four f32, or `fpu_curves`. Other builds are for
/// microcontrollers, where two loops over the units would take more instructions than one.
pub const VECTORS: bool = cfg!(any(
    target_arch = "aarch64",
    target_arch = "x86_64",
    all(target_arch = "wasm32", target_feature = "simd128"),
    all(target_arch = "arm", target_os = "none", target_abi = "eabihf", feature = "dsp")
));

/// The kernels on a Cortex-M with a floating-point unit.
#[cfg(all(target_arch = "arm", target_os = "none", target_abi = "eabihf", feature = "dsp"))]
mod fours {
    pub use super::super::fpu_curves::{lstm_gates, sigmoid_all, tanh_all};
}

#[cfg(not(all(target_arch = "arm", target_os = "none", target_abi = "eabihf", feature = "dsp")))]
mod fours {
    /// Four functions, `scale` tanh(`scale` x) + `offset`, one for each lane.
    #[derive(Clone, Copy)]
    struct Four {
        scale: [f32; 4],
        offset: [f32; 4],
    }

    impl Four {
        /// Applies each function to its lane.
        #[inline(always)]
        fn apply(self, values: &mut [f32; 4]) {
            let Self { scale, offset } = self;
            #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
            super::super::simd128::of_four(values, scale, offset);
            // A form that compilers turn into vectors.
            #[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
            for (value, (scale, offset)) in values.iter_mut().zip(scale.iter().zip(offset)) {
                *value = scale * crate::tanh::tanh(scale * *value) + offset;
            }
        }
    }

    const SIGMOID: Four = Four { scale: [0.5; 4], offset: [0.5; 4] };
    /// Adding -0 changes no bit.
    const TANH: Four = Four { scale: [1.0; 4], offset: [-0.0; 4] };
    /// i, f, g, o
    const LSTM: Four = Four { scale: [0.5, 0.5, 1.0, 0.5], offset: [0.5, 0.5, -0.0, 0.5] };

    #[inline(always)]
    fn apply(values: &mut [[f32; 4]], functions: Four) {
        for values in values {
            functions.apply(values);
        }
    }

    pub fn lstm_gates(sums: &mut [[f32; 4]]) {
        apply(sums, LSTM);
    }

    #[inline(always)]
    pub fn sigmoid_all(values: &mut [[f32; 4]]) {
        apply(values, SIGMOID);
    }

    #[inline(always)]
    pub fn tanh_all(values: &mut [[f32; 4]]) {
        apply(values, TANH);
    }
}

/// The gates of the units of an LSTM from their sums i, f, g, o: tanh for g, σ for the others.
pub use fours::lstm_gates;

/// σ of each value.
pub fn sigmoid_all(values: &mut [f32]) {
    all(values, fours::sigmoid_all);
}

/// tanh of each value.
pub fn tanh_all(values: &mut [f32]) {
    all(values, fours::tanh_all);
}

#[inline(always)]
fn all(values: &mut [f32], function: impl Fn(&mut [[f32; 4]])) {
    let (fours, rest) = values.as_chunks_mut();
    function(fours);
    if !rest.is_empty() {
        let mut last = [[0.0; 4]];
        last.as_flattened_mut().iter_mut().zip(rest.iter()).for_each(|(to, &value)| *to = value);
        function(&mut last);
        rest.iter_mut().zip(last.as_flattened()).for_each(|(to, &value)| *to = value);
    }
}

#[cfg(test)]
mod tests {
    use super::{lstm_gates, sigmoid_all, tanh_all};
    use crate::tanh::{sigmoid, tanh};

    #[test]
    fn vectors_have_the_bits_of_single_values() {
        let special = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, f32::MIN_POSITIVE / 2.0, 9.1, -9.11];
        let values = (0..u32::MAX).step_by(if cfg!(miri) { 1 << 28 } else { 65_521 }).map(f32::from_bits);
        let mut values = special.into_iter().chain(values);
        let bits = |values: &[f32], one: fn(f32) -> f32, of: &[f32]| {
            for (&value, &x) in values.iter().zip(of) {
                assert!(value.to_bits() == one(x).to_bits() || value.is_nan() && x.is_nan(), "{x:e}");
            }
        };
        // Seven values: a vector, and a part of one.
        while let Some(x) = values.next() {
            let x: [f32; 7] = core::array::from_fn(|k| if k == 0 { x } else { values.next().unwrap_or(0.5) });
            let [mut of_sigmoid, mut of_tanh] = [x; 2];
            sigmoid_all(&mut of_sigmoid);
            tanh_all(&mut of_tanh);
            bits(&of_sigmoid, sigmoid, &x);
            bits(&of_tanh, tanh, &x);
            let [i, f, g, o, ..] = x;
            let mut gates = [[i, f, g, o]];
            lstm_gates(&mut gates);
            let [[of_i, of_f, of_g, of_o]] = gates;
            bits(&[of_i, of_f, of_o], sigmoid, &[i, f, o]);
            bits(&[of_g], tanh, &[g]);
        }
    }
}
