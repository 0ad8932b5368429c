//! Activations on vectors. Sigmoid and tanh are those of `tidegate` with fused multiply-adds, or specific to an
//! instruction set, within the same bounds, [`SIGMOID_MAX_ERROR`](tidegate::internals::activation::SIGMOID_MAX_ERROR) and
//! [`TANH_MAX_ERROR`](tidegate::internals::activation::TANH_MAX_ERROR). All other activations call `tidegate` for each lane.

use tidegate::internals::activation::Activation;

use crate::simd::{Simd, Task};

/// tanh(x). Propagates NaN.
#[inline(always)]
pub fn tanh<S: Simd>(s: S, x: S::F32) -> S::F32 {
    s.tanh(x, 1.0)
}

/// σ(x). Propagates NaN.
#[inline(always)]
pub fn sigmoid<S: Simd>(s: S, x: S::F32) -> S::F32 {
    s.sigmoid(x)
}

/// σ(`gate`) · tanh(x). Propagates NaN.
#[inline(always)]
pub fn gated_tanh<S: Simd>(s: S, gate: S::F32, x: S::F32) -> S::F32 {
    s.gated_tanh(gate, x)
}

/// Clips `x` to ±`limit`; 0 means no limit. Propagates NaN.
#[inline(always)]
pub fn clip<S: Simd>(s: S, x: S::F32, limit: f32) -> S::F32 {
    if limit > 0.0 { s.signed(s.min(s.splat(limit), s.abs(x)), x) } else { x }
}

/// Any activation of `x`, clipped to ±`limit` as [`clip`] does.
#[inline(always)]
pub fn apply<S: Simd>(s: S, activation: Activation, limit: f32, x: S::F32) -> S::F32 {
    let x = clip(s, x, limit);
    match activation {
        Activation::Sigmoid => sigmoid(s, x),
        Activation::Tanh => tanh(s, x),
        Activation::Identity => x,
        Activation::Relu => {
            let zero = s.splat(0.0);
            // Propagates NaN.
            s.sub(zero, s.min(zero, s.sub(zero, x)))
        }
        other => {
            let mut memory: S::Lanes = bytemuck::Zeroable::zeroed();
            s.store(x, &mut memory);
            lanes(other, bytemuck::cast_slice_mut(core::slice::from_mut(&mut memory)));
            s.load(&memory)
        }
    }
}

/// [`apply`] from `from` to `to`, for every number of `to`.
pub fn activate<S: Simd>(s: S, activation: Activation, limit: f32, from: &[f32], to: &mut [f32]) {
    if activation == Activation::Identity && limit == 0.0 {
        return to.copy_from_slice(&from[..to.len()]);
    }
    s.call(Activate { s, activation, limit, from, to });
}

/// The task of [`activate`].
pub struct Activate<'s, S> {
    pub s: S,
    pub activation: Activation,
    pub limit: f32,
    pub from: &'s [f32],
    pub to: &'s mut [f32],
}

impl<S: Simd> Task for Activate<'_, S> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { s, activation, limit, from, to } = self;
        for (from, to) in from.chunks(S::LANES).zip(to.chunks_mut(S::LANES)) {
            s.store_part(apply(s, activation, limit, s.load_part(from)), to);
        }
    }
}

/// Not inlined, so that it is compiled without the instruction set of its caller.
#[inline(never)]
fn lanes(activation: Activation, lanes: &mut [f32]) {
    for lane in lanes {
        *lane = activation.apply(*lane);
    }
}

#[cfg(test)]
mod tests {
    use tidegate::internals::activation::{SIGMOID_MAX_ERROR, TANH_MAX_ERROR};

    use super::{gated_tanh, sigmoid, tanh};
    use crate::isa::Isa;
    use crate::simd::{Instructions, Scalar, Simd, Task};

    /// Number of values that are tested together.
    const AT_ONCE: usize = 64;

    struct Both<'a, S>(S, &'a mut [f32; AT_ONCE], &'a mut [f32; AT_ONCE]);

    struct Gated<'a, S>(S, f32, &'a mut [f32; AT_ONCE]);

    impl<S: Simd> Task for Gated<'_, S> {
        type Output = ();

        #[inline(always)]
        fn run(self) {
            let Self(s, gate, x) = self;
            for x in x.chunks_mut(S::LANES) {
                s.store_part(gated_tanh(s, s.splat(gate), s.load_part(x)), x);
            }
        }
    }

    impl<S: Simd> Task for Both<'_, S> {
        type Output = ();

        #[inline(always)]
        fn run(self) {
            let Self(s, x, y) = self;
            for (x, y) in x.chunks_mut(S::LANES).zip(y.chunks_mut(S::LANES)) {
                let of = s.load_part(x);
                s.store_part(tanh(s, of), x);
                s.store_part(sigmoid(s, of), y);
            }
        }
    }

    /// Runs a task of an instruction set.
    macro_rules! run {
        ($isa:expr, $task:ident, $($of:expr),+) => {
            match $isa {
                Isa::Scalar => Scalar.vectorize($task(Scalar, $($of),+)),
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2(s) => s.vectorize($task(s, $($of),+)),
                #[cfg(target_arch = "x86_64")]
                Isa::Avx512(s) => s.vectorize($task(s, $($of),+)),
                #[cfg(target_arch = "aarch64")]
                Isa::Neon(s) => s.vectorize($task(s, $($of),+)),
            }
        };
    }

    /// tanh and sigmoid of each value.
    fn both(isa: Isa, mut x: [f32; AT_ONCE]) -> [[f32; AT_ONCE]; 2] {
        let mut y = [0.0; AT_ONCE];
        run!(isa, Both, &mut x, &mut y);
        [x, y]
    }

    /// σ(`gate`) · tanh of each value.
    fn gated(isa: Isa, gate: f32, mut x: [f32; AT_ONCE]) -> [f32; AT_ONCE] {
        run!(isa, Gated, gate, &mut x);
        x
    }

    /// tanh of neighboring f32 that are not negative, within 1e-13. The argument of each is divided by `divisor`.
    fn exact(x: [f32; AT_ONCE], divisor: f64) -> [f64; AT_ONCE] {
        let x = x.map(|x| f64::from(x) / divisor);
        if x[AT_ONCE - 1] < 1e-4 {
            // The next term is below 2/15 x^5.
            x.map(|x| x - x * x * x / 3.0)
        } else if x[0] > 20.0 {
            [1.0; AT_ONCE]
        } else {
            x.map(f64::tanh)
        }
    }

    /// The largest difference of each lane so far. NaN is left out here.
    fn merge(worst: &mut [f64; AT_ONCE], values: &[f32; AT_ONCE], exact: impl Fn(usize) -> f64) {
        for (k, (worst, &value)) in worst.iter_mut().zip(values).enumerate() {
            let error = (f64::from(value) - exact(k)).abs();
            *worst = if error > *worst { error } else { *worst };
        }
    }

    /// Whether all values are within the range. NaN is not.
    fn within(values: &[f32; AT_ONCE], least: f32, most: f32) -> bool {
        values.iter().fold(true, |within, &value| within & (value >= least) & (value <= most))
    }

    /// The largest errors of tanh and sigmoid in each instruction set, over every `threads`th block from `thread` on, or
    /// over fewer blocks unless `TIDEGATE_EVERY_F32` is set.
    fn worst_of(isas: &[Isa], (thread, threads): (u32, u32)) -> Vec<[[f64; AT_ONCE]; 2]> {
        let mut worst = vec![[[0.0_f64; AT_ONCE]; 2]; isas.len()];
        let every = if std::env::var_os("TIDEGATE_EVERY_F32").is_some() {
            1
        } else if cfg!(miri) {
            524_287
        } else if cfg!(debug_assertions) {
            4099
        } else {
            7
        };
        let blocks = threads as usize * every;
        for block in (thread * AT_ONCE as u32..f32::INFINITY.to_bits()).step_by(AT_ONCE * blocks) {
            let x: [f32; AT_ONCE] = core::array::from_fn(|k| f32::from_bits(block + k as u32));
            // σ(x) = (1 + tanh(x / 2)) / 2
            let (tanhs, halves) = (exact(x, 1.0), exact(x, 2.0));
            for (&isa, [of_tanh, of_sigmoid]) in isas.iter().zip(&mut worst) {
                let ([up, rising], [down, falling]) = (both(isa, x), both(isa, x.map(|x| -x)));
                merge(of_tanh, &up, |k| tanhs[k]);
                merge(of_tanh, &down, |k| -tanhs[k]);
                merge(of_sigmoid, &rising, |k| 0.5 + 0.5 * halves[k]);
                merge(of_sigmoid, &falling, |k| 0.5 - 0.5 * halves[k]);
                assert!(within(&up, -1.0, 1.0) && within(&down, -1.0, 1.0), "{isa}: tanh at {:e}", x[0]);
                assert!(within(&rising, 0.0, 1.0) && within(&falling, 0.0, 1.0), "{isa}: sigmoid at {:e}", x[0]);
            }
        }
        worst
    }

    /// Tests every f32 if `TIDEGATE_EVERY_F32` is set. Otherwise it tests one block in 7 in release builds, one in 4,099
    /// in debug builds, and 64 blocks under Miri.
    #[test]
    fn tanh_and_sigmoid_keep_their_stated_errors_in_every_instruction_set() {
        const THREADS: u32 = 2;
        let isas: Vec<Isa> = Isa::available().collect();
        let parts: Vec<_> = std::thread::scope(|scope| {
            let isas = &isas;
            let parts: Vec<_> =
                (0..THREADS).map(|thread| scope.spawn(move || worst_of(isas, (thread, THREADS)))).collect();
            parts.into_iter().map(|part| part.join().expect("a part failed")).collect()
        });
        for (at, isa) in isas.iter().enumerate() {
            let of = |curve: usize| parts.iter().flat_map(|part| part[at][curve]).fold(0.0, f64::max);
            let [of_tanh, of_sigmoid] = [0, 1].map(of);
            println!("{isa}: tanh within {of_tanh:.3e}, sigmoid within {of_sigmoid:.3e}");
            assert!(of_tanh <= f64::from(TANH_MAX_ERROR) && of_sigmoid <= f64::from(SIGMOID_MAX_ERROR));
        }
    }

    /// The error of a product of two factors up to 1 is at most the sum of their errors and half a unit in the last place.
    #[test]
    fn a_gated_tanh_keeps_the_errors_of_its_factors() {
        let bound = f64::from(TANH_MAX_ERROR) + f64::from(SIGMOID_MAX_ERROR) + f64::from(f32::EPSILON) / 2.0;
        // Under QEMU, testing every gate takes minutes.
        let every = if cfg!(debug_assertions) { 25 } else { 1 };
        let gates = (-200..=200).step_by(every).map(|k| k as f32 / 8.0);
        let gates = gates.chain([f32::NEG_INFINITY, -1e30, -1e-30, 0.0, 1e30, f32::INFINITY]);
        let step = if cfg!(miri) { 1 << 29 } else { 1 << 20 };
        for (gate, isa) in gates.flat_map(|gate| Isa::available().map(move |isa| (gate, isa))) {
            let open = 0.5 + 0.5 * (f64::from(gate) / 2.0).tanh();
            for block in (0..f32::INFINITY.to_bits()).step_by(step) {
                let x: [f32; AT_ONCE] = core::array::from_fn(|k| f32::from_bits(block + k as u32));
                let (up, down) = (gated(isa, gate, x), gated(isa, gate, x.map(|x| -x)));
                for (k, &x) in x.iter().enumerate() {
                    let exact = open * f64::from(x).tanh();
                    let errors = [f64::from(up[k]) - exact, f64::from(down[k]) + exact];
                    assert!(errors.iter().all(|error| error.abs() <= bound), "{isa}: {gate} {x:e} {errors:?}");
                    assert!(up[k] >= 0.0 && up[k] <= 1.0, "{isa}: {gate} {x:e}");
                }
            }
        }
        for isa in Isa::available() {
            let nan = [gated(isa, f32::NAN, [1.0; AT_ONCE]), gated(isa, 1.0, [f32::NAN; AT_ONCE])];
            assert!(nan.as_flattened().iter().all(|y| y.is_nan()), "{isa}");
            assert_eq!(gated(isa, f32::INFINITY, [f32::INFINITY; AT_ONCE]), [1.0; AT_ONCE], "{isa}");
        }
    }

    #[test]
    fn nan_propagates_and_infinity_gives_the_limit() {
        let mut x = [f32::NAN; AT_ONCE];
        x[1] = f32::INFINITY;
        x[2] = f32::NEG_INFINITY;
        for isa in Isa::available() {
            let [of_tanh, of_sigmoid] = both(isa, x);
            assert!(of_tanh[0].is_nan() && of_sigmoid[0].is_nan(), "{isa}");
            assert_eq!((of_tanh[1], of_tanh[2], of_sigmoid[1], of_sigmoid[2]), (1.0, -1.0, 1.0, 0.0), "{isa}");
        }
    }
}
