//! The activations over the whole range of f32: error, range, symmetry, order, and what is not finite.
//!
//! In release builds every one of the 2^32 bit patterns is tried (a minute or two on two cores); in debug builds
//! every 4099th, and the test says so. The file belongs to the package `tidegate`, so that it meets either library
//! of transcendental functions: `cargo test --release -p tidegate --test activation`, and the same with
//! `--no-default-features --features micromath`.

use std::thread;

use tidegate::activation::{self, Activation};

/// Distance between the patterns that a debug build tries: a prime, so that every exponent and sign is met.
const STRIDE: usize = if cfg!(debug_assertions) { 4099 } else { 1 };
const POSITIVE_PATTERNS: u32 = 0x7F80_0000;
const THREADS: u32 = 2;

/// What was seen, and where.
#[derive(Clone, Copy, Debug, Default)]
struct Worst {
    absolute: f64,
    absolute_at: f32,
    ulp: f64,
    ulp_at: f32,
    /// Largest step down from one finite input to the next greater one tried.
    drop: f64,
    drop_at: f32,
}

impl Worst {
    fn see(&mut self, x: f32, got: f32, expected: f64) {
        let absolute = (f64::from(got) - expected).abs();
        // Written so that not-a-number fails.
        if !(absolute <= self.absolute) {
            (self.absolute, self.absolute_at) = (absolute, x);
        }
        // Below the normal numbers σ flushes to 0, where an ulp says nothing.
        let ulp = absolute / ulp_of(expected);
        if expected.abs() >= f64::from(f32::MIN_POSITIVE) && !(ulp <= self.ulp) {
            (self.ulp, self.ulp_at) = (ulp, x);
        }
    }

    fn see_order(&mut self, x: f32, lower: f32, upper: f32) {
        let drop = f64::from(lower) - f64::from(upper);
        if !(drop <= self.drop) {
            (self.drop, self.drop_at) = (drop, x);
        }
    }

    fn merge(mut self, other: Self) -> Self {
        if !(other.absolute <= self.absolute) {
            (self.absolute, self.absolute_at) = (other.absolute, other.absolute_at);
        }
        if !(other.ulp <= self.ulp) {
            (self.ulp, self.ulp_at) = (other.ulp, other.ulp_at);
        }
        if !(other.drop <= self.drop) {
            (self.drop, self.drop_at) = (other.drop, other.drop_at);
        }
        self
    }
}

/// Distance of neighbouring f32 in the binade of `x`; below the normal numbers it stays what it is there.
fn ulp_of(x: f64) -> f64 {
    let exponent = (x.abs().to_bits() >> 52) as i32 - 1023;
    f64::from_bits(((exponent.max(-126) - 23 + 1023) as u64) << 52)
}

/// What the other sign has to do with this one.
#[derive(Clone, Copy, PartialEq)]
enum Symmetry {
    /// f(-x) = -f(x), bit for bit.
    Odd,
    None,
}

/// Every `stride`th finite f32 of this sign, in ascending order of magnitude, on two threads.
fn sweep(
    sign: f32,
    function: impl Fn(f32) -> f32 + Copy + Send,
    reference: impl Fn(f64) -> f64 + Copy + Send,
    range: (f32, f32),
    symmetry: Symmetry,
    stride: usize,
) -> Worst {
    let part = move |from: u32, to: u32| {
        let mut worst = Worst::default();
        let mut before = function(f32::from_bits(from).copysign(sign));
        for bits in (from..to).step_by(stride) {
            let x = f32::from_bits(bits).copysign(sign);
            let y = function(x);
            assert!(range.0 <= y && y <= range.1, "{x:e} gives {y:e}, outside {range:?}");
            assert!(symmetry == Symmetry::None || function(-x).to_bits() == (-y).to_bits(), "not odd at {x:e}");
            worst.see(x, y, reference(f64::from(x)));
            if sign > 0.0 {
                worst.see_order(x, before, y);
            } else {
                worst.see_order(x, y, before);
            }
            before = y;
        }
        worst
    };
    // Parts overlap by one pattern, so that order is seen across their border too.
    let border = |k: u32| POSITIVE_PATTERNS / THREADS * k;
    thread::scope(|scope| {
        let parts: Vec<_> =
            (0..THREADS).map(|k| scope.spawn(move || part(border(k).saturating_sub(1), border(k + 1)))).collect();
        parts.into_iter().map(|part| part.join().expect("a part failed")).fold(Worst::default(), Worst::merge)
    })
}

fn whole(
    name: &str,
    function: impl Fn(f32) -> f32 + Copy + Send,
    reference: impl Fn(f64) -> f64 + Copy + Send,
    range: (f32, f32),
    symmetry: Symmetry,
    stride: usize,
) -> Worst {
    let mut worst = sweep(1.0, function, reference, range, symmetry, stride);
    if symmetry == Symmetry::None {
        worst = worst.merge(sweep(-1.0, function, reference, range, symmetry, stride));
    }
    let how = if stride == 1 { "every pattern".to_owned() } else { format!("every {stride}th pattern") };
    println!(
        "{name}, {how}: absolute error {:.4e} at {:e}, {:.4} ulp at {:e}; largest step down {:.4e} at {:e}",
        worst.absolute, worst.absolute_at, worst.ulp, worst.ulp_at, worst.drop, worst.drop_at
    );
    worst
}

/// σ in f64. Where e^-x is beyond what f64 tells apart, or a short series is exact in f64, it is not called: that
/// spares most of 2^32 calls.
fn sigmoid(x: f64) -> f64 {
    if x > 40.0 {
        1.0 // 1 - 4e-18
    } else if x < -120.0 {
        0.0 // 8e-53, where the smallest f32 is 1e-45
    } else if x.abs() < 1e-3 {
        let square = x * x;
        0.5 + x * (0.25 - square * (1.0 / 48.0 - square / 480.0)) // next term 17 x^7 / 80640 < 3e-25
    } else {
        1.0 / (1.0 + (-x).exp())
    }
}

/// tanh in f64, as [`sigmoid`].
fn tanh(x: f64) -> f64 {
    if x.abs() > 20.0 {
        1.0_f64.copysign(x) // 1 - 8e-18
    } else if x.abs() < 1e-3 {
        let square = x * x;
        x * (1.0 - square * (1.0 / 3.0 - square * (2.0 / 15.0 - square * (17.0 / 315.0)))) // next term 62 x^9 / 2835
    } else {
        x.tanh()
    }
}

#[test]
fn sigmoid_keeps_its_stated_error_range_and_order() {
    let worst = whole("sigmoid", activation::sigmoid, sigmoid, (0.0, 1.0), Symmetry::None, STRIDE);
    assert!(worst.absolute <= f64::from(activation::SIGMOID_MAX_ERROR), "{worst:?}");
    assert!(worst.drop <= f64::from(activation::SIGMOID_MAX_DROP), "{worst:?}");
}

#[test]
fn tanh_is_odd_and_keeps_its_stated_error_range_and_order() {
    let worst = whole("tanh", activation::tanh, tanh, (-1.0, 1.0), Symmetry::Odd, STRIDE);
    assert!(worst.absolute <= f64::from(activation::TANH_MAX_ERROR), "{worst:?}");
    assert!(worst.drop <= f64::from(activation::TANH_MAX_DROP), "{worst:?}");
}

#[test]
fn softsign_is_odd_and_keeps_its_stated_error_range_and_order() {
    let exact = |x: f64| x / (1.0 + x.abs());
    let worst = whole("softsign", activation::softsign, exact, (-1.0, 1.0), Symmetry::Odd, STRIDE);
    assert!(worst.absolute <= f64::from(activation::SOFTSIGN_MAX_ERROR), "{worst:?}");
    assert!(worst.drop <= f64::from(activation::SOFTSIGN_MAX_DROP), "{worst:?}");
}

#[test]
fn relu_and_the_identity_are_exact() {
    // A comparison and nothing: a prime's worth of patterns will do in every build.
    let stride = STRIDE.max(61);
    let worst = whole("relu", activation::relu, |x: f64| x.max(0.0), (0.0, f32::MAX), Symmetry::None, stride);
    assert!(worst.absolute == 0.0 && worst.drop <= 0.0, "{worst:?}");
    let identity = |x| Activation::Identity.apply(x);
    let worst = whole("identity", identity, |x: f64| x, (f32::MIN, f32::MAX), Symmetry::Odd, stride);
    assert!(worst.absolute == 0.0 && worst.drop <= 0.0, "{worst:?}");
}

#[test]
fn not_a_number_stays_what_it_is() {
    // Both signs, quiet and signalling, small and large payloads.
    for bits in [0x7F80_0001, 0x7FC0_0000, 0x7FFF_FFFF, 0xFF80_0001, 0xFFC0_0000, 0xFFFF_FFFF] {
        for activation in Activation::ALL {
            let y = activation.apply(f32::from_bits(bits));
            assert!(y.is_nan(), "{} of {bits:08x} is {y}", activation.name());
        }
    }
}

#[test]
fn the_infinities_give_the_limits() {
    let limits = [
        (Activation::Identity, f32::NEG_INFINITY, f32::INFINITY),
        (Activation::Sigmoid, 0.0, 1.0),
        (Activation::Tanh, -1.0, 1.0),
        (Activation::Relu, 0.0, f32::INFINITY),
        (Activation::Softsign, -1.0, 1.0),
    ];
    assert_eq!(limits.map(|(activation, ..)| activation), Activation::ALL);
    for (activation, low, high) in limits {
        let (at_low, at_high) = (activation.apply(f32::NEG_INFINITY), activation.apply(f32::INFINITY));
        let error = if activation == Activation::Sigmoid { activation::SIGMOID_MAX_ERROR } else { 0.0 };
        assert!(at_low == low || (at_low - low).abs() <= error, "{}: {at_low:e}", activation.name());
        assert!(at_high == high || (at_high - high).abs() <= error, "{}: {at_high:e}", activation.name());
    }
}

#[test]
fn the_ulp_of_this_test_is_that_of_f32() {
    for x in [1.0_f32, 1.5, 0.1, 3e-39, f32::MIN_POSITIVE, 1e30] {
        let next = f32::from_bits(x.to_bits() + 1);
        assert_eq!(ulp_of(f64::from(x)), f64::from(next) - f64::from(x), "{x:e}");
    }
    assert_eq!(ulp_of(0.0), f64::from(f32::from_bits(1)));
}
