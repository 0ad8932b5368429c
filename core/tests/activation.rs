//! The activations over the whole range of f32: error, range, symmetry, order, slope, infinities and NaN; their codes.
//!
//! With the environment variable `TIDEGATE_EVERY_F32`, which `cargo xtask soak` sets, every f32 is checked (some minutes).
//! Otherwise release builds check one block of 16 in 61 from 2^-24 to 2^10 in magnitude, of both signs. Beyond this range
//! each function is a line or a constant up to rounding, in a single branch of its code, so only one block in 521 is
//! checked. Debug builds check one block in 1,021, and one in 4,099 beyond. The file belongs to the package `tidegate`, so
//! that it runs with either library of transcendental functions: `cargo test --release -p tidegate --test activation`, and
//! the same with `--no-default-features --features micromath`.

use std::ops::Range;
use std::panic::{RefUnwindSafe, catch_unwind};
use std::{array, env, thread};

use tidegate::internals::activation::{self, Activation};

/// Neighboring f32 that are checked together. They are equally far apart.
const BLOCK: usize = 16;
/// One block in this many is checked. The stride is prime, so every exponent occurs.
const STRIDE: usize = if cfg!(debug_assertions) { 1021 } else { 61 };
/// The stride beyond [`CURVED`].
const STRAIGHT_STRIDE: usize = if cfg!(debug_assertions) { 4099 } else { 521 };
/// The stride for further parameters, beside those that are checked in full.
const SAMPLED: usize = if cfg!(debug_assertions) { 40_009 } else { 1021 };
/// The magnitudes at which the functions bend: 2^-24 to 2^10.
const CURVED: (f32, f32) = (1.0 / 16_777_216.0, 1024.0);
const THREADS: usize = 2;

/// The claims about an activation, and how they are checked.
#[derive(Clone, Copy)]
struct Claim<F, E> {
    activation: Activation,
    /// The activation's `apply`, as a closure that the compiler can inline.
    function: F,
    /// The same function in f64.
    exact: E,
    /// Whether [`exact`](Self::exact) is called for every f32, for functions that may have a kink within a block.
    /// Otherwise it is called only for the ends of a block, and values between are taken from the chord. f32 at x are
    /// at most 2^-23 |x| apart, so the chord is off by at most (2^-19 x)² / 8 · |f''| = 4.5e-13 x² |f''|: 5e-13 for
    /// functions that bend where |x| is about 1, and 3.5e-9 |f| for e^x and functions that decay like it down to -88.
    kinks: bool,
    /// The least and the greatest value.
    range: (f32, f32),
    /// The inputs that are checked.
    domain: (f32, f32),
    /// Maximum decrease of the function from one input to the next greater one: absolute and relative.
    fall: (f32, f32),
    /// Whether f(-x) = -f(x), bit for bit.
    odd: bool,
    /// One block in this many is checked.
    stride: usize,
}

impl<F: Fn(f32) -> f32 + Copy + Send, E: Fn(f64) -> f64 + Copy + Send> Claim<F, E> {
    /// A smooth function that rises (to within its stated error) over every finite f32.
    fn new(activation: Activation, range: (f32, f32), function: F, exact: E) -> Self {
        let domain = (f32::MIN, f32::MAX);
        let fall = activation.max_error();
        Self { activation, function, exact, kinks: false, range, domain, fall, odd: false, stride: STRIDE }
    }

    fn check(self) {
        let (low, high) = self.domain;
        let mut worst = self.sweep(1.0, high);
        if !self.odd {
            worst = worst.merge(self.sweep(-1.0, -low));
        }
        println!(
            "{}, one block in {}: error {:.3} of the bound, at {:e}; falls by {:.3e}, at {:e}",
            self.activation, self.stride, worst.share, worst.share_at, worst.fall, worst.fall_at
        );
    }

    /// Checks blocks of this sign, up to `end` in magnitude.
    fn sweep(self, sign: f32, end: f32) -> Worst {
        let [low, high, end] = [CURVED.0, CURVED.1, end].map(|x| x.min(end).to_bits() as usize / BLOCK);
        let (curved, straight) = if self.stride == STRIDE && env::var_os("TIDEGATE_EVERY_F32").is_some() {
            (1, 1)
        } else {
            (self.stride, self.stride.max(STRAIGHT_STRIDE))
        };
        let zones = [(0..low, straight), (low..high, curved), (high..end + 1, straight)];
        zones.into_iter().map(|(blocks, stride)| self.zone(sign, blocks, stride)).fold(Worst::default(), Worst::merge)
    }

    /// Checks one block in `stride` of a range, on two threads.
    fn zone(self, sign: f32, blocks: Range<usize>, stride: usize) -> Worst {
        let border = |k| blocks.start + blocks.len() * k / THREADS;
        thread::scope(|scope| {
            let part = |k| scope.spawn(move || self.part(sign, border(k)..border(k + 1), stride));
            let parts: Vec<_> = (0..THREADS).map(part).collect();
            parts.into_iter().map(|part| part.join().expect("a part failed")).fold(Worst::default(), Worst::merge)
        })
    }

    fn part(self, sign: f32, blocks: Range<usize>, stride: usize) -> Worst {
        let mut worst = Worst::default();
        // The last value of the previous part, so that the order is checked across the border too.
        let mut before = (self.function)(at(sign, (blocks.start * BLOCK).saturating_sub(1)));
        for block in blocks.step_by(stride) {
            before = self.block(sign, block * BLOCK, before, &mut worst);
        }
        worst
    }

    /// Checks a block, in detail if it has a new extreme. Returns its last value.
    fn block(self, sign: f32, first: usize, before: f32, worst: &mut Worst) -> f32 {
        let x: [f32; BLOCK] = array::from_fn(|k| at(sign, first + k));
        let y = x.map(self.function);
        let exact = if self.kinks {
            x.map(|x| (self.exact)(f64::from(x)))
        } else {
            let start = f64::from(x[0]);
            let width = (f64::from(x[1]) - start) * BLOCK as f64;
            let (from, to) = ((self.exact)(start), (self.exact)(start + width));
            array::from_fn(|k| from + (to - from) * (k as f64 / BLOCK as f64))
        };
        let before: [f32; BLOCK] = array::from_fn(|k| if k == 0 { before } else { y[k - 1] });
        let Worst { share, fall, .. } = *worst;
        let (absolute, relative) = self.activation.max_error();
        let (absolute, relative) = (f64::from(absolute) * share, f64::from(relative) * share);
        // Written so that NaN fails.
        let mut known = true;
        for ((&y, &before), &exact) in y.iter().zip(&before).zip(&exact) {
            known &= (f64::from(y) - exact).abs() <= absolute + relative * exact.abs();
            known &= self.range.0 <= y && y <= self.range.1;
            known &= (before - y) * sign <= fall;
        }
        if self.odd {
            let mirrored = x.map(|x| (self.function)(-x));
            known &= mirrored.iter().zip(&y).fold(true, |odd, (m, y)| odd & (m.to_bits() == (-y).to_bits()));
        }
        if !known {
            for (((&x, &y), &before), &exact) in x.iter().zip(&y).zip(&before).zip(&exact) {
                self.look(x, y, before, exact, worst);
            }
        }
        y[BLOCK - 1]
    }

    #[cold]
    #[inline(never)]
    fn look(self, x: f32, y: f32, before: f32, exact: f64, worst: &mut Worst) {
        let name = self.activation;
        assert!(self.range.0 <= y && y <= self.range.1, "{name} of {x:e} is {y:e}, outside {:?}", self.range);
        assert!(!self.odd || (self.function)(-x).to_bits() == (-y).to_bits(), "{name} is not odd at {x:e}");
        let (absolute, relative) = self.activation.max_error();
        let error = (f64::from(y) - exact).abs();
        if error > 0.0 {
            let share = error / (f64::from(absolute) + f64::from(relative) * exact.abs());
            assert!(share <= 1.0, "{name} of {x:e} is {y:e}, not {exact:e}: {error:e} is {share} of the bound");
            if share > worst.share {
                (worst.share, worst.share_at) = (share, x);
            }
        }
        let fall = (before - y) * 1.0_f32.copysign(x);
        let most = self.fall.0 + self.fall.1 * y.abs();
        assert!(fall <= most, "{name} falls by {fall:e} at {x:e}, by more than {most:e}");
        if fall > worst.fall {
            (worst.fall, worst.fall_at) = (fall, x);
        }
    }
}

/// The f32 with this sign and bit pattern.
fn at(sign: f32, pattern: usize) -> f32 {
    f32::from_bits(pattern as u32).copysign(sign)
}

/// The worst values found, and their inputs.
#[derive(Clone, Copy, Debug, Default)]
struct Worst {
    /// Largest fraction of the error bound.
    share: f64,
    share_at: f32,
    /// Largest fall from one checked input to the next greater.
    fall: f32,
    fall_at: f32,
}

impl Worst {
    fn merge(mut self, other: Self) -> Self {
        if other.share > self.share {
            (self.share, self.share_at) = (other.share, other.share_at);
        }
        if other.fall > self.fall {
            (self.fall, self.fall_at) = (other.fall, other.fall_at);
        }
        self
    }
}

/// [`Claim::new`], with a closure that the compiler can inline.
macro_rules! claim {
    ($activation:expr, $range:expr, $exact:expr) => {
        Claim::new($activation, $range, |x| $activation.apply(x), $exact)
    };
}

/// No order is claimed.
const ANY: (f32, f32) = (f32::INFINITY, 0.0);

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// [`Activation::Affine`] and [`Activation::HardSigmoid`] in f64, exact but for 2^-53.
fn affine(activation: Activation) -> impl Fn(f64) -> f64 + Copy + Send {
    let [alpha, beta] = activation.parameters().map(f64::from);
    move |x| alpha * x + beta
}

fn elu(alpha: f64) -> impl Fn(f64) -> f64 + Copy + Send {
    move |x| if x < 0.0 { alpha * x.exp_m1() } else { x }
}

#[test]
fn the_sigmoid_keeps_its_stated_error_range_and_order() {
    let fall = (activation::SIGMOID_MAX_DROP, 0.0);
    Claim { fall, ..claim!(Activation::Sigmoid, (0.0, 1.0), sigmoid) }.check();
}

#[test]
fn tanh_and_softsign_are_odd_and_keep_their_stated_error_range_and_order() {
    let fall = (activation::TANH_MAX_DROP, 0.0);
    Claim { fall, odd: true, ..claim!(Activation::Tanh, (-1.0, 1.0), f64::tanh) }.check();
    let fall = (activation::SOFTSIGN_MAX_DROP, 0.0);
    let exact = |x: f64| x / (1.0 + x.abs());
    Claim { fall, odd: true, ..claim!(Activation::Softsign, (-1.0, 1.0), exact) }.check();
}

#[test]
fn a_scaled_tanh_is_odd_and_keeps_its_stated_error_range_and_order() {
    let lecun = Activation::ScaledTanh { alpha: 1.7159, beta: 0.666 };
    let exact = |[alpha, beta]: [f32; 2]| move |x: f64| f64::from(alpha) * (f64::from(beta) * x).tanh();
    Claim { odd: true, ..claim!(lecun, (-1.7159, 1.7159), exact(lecun.parameters())) }.check();
    for [alpha, beta] in [[1.5, -2.0], [-0.25, 0.75], [1e-3, 30.0], [3.0, 0.0], [0.0, 3.0], [1e-40, 1.0], [1e30, 1e-3]]
    {
        let activation = Activation::ScaledTanh { alpha, beta };
        let fall = if alpha * beta < 0.0 { ANY } else { activation.max_error() };
        let range = (-alpha.abs(), alpha.abs());
        Claim { fall, odd: true, stride: SAMPLED, ..claim!(activation, range, exact([alpha, beta])) }.check();
    }
}

#[test]
fn straight_pieces_keep_their_stated_error_range_and_order() {
    // One rounding or two. The chord would do for these, but not for the kinks of the hard sigmoid.
    let keras2 = Activation::HardSigmoid { alpha: 0.2, beta: 0.5 };
    let exact = affine(keras2);
    Claim { kinks: true, ..claim!(keras2, (0.0, 1.0), move |x| exact(x).clamp(0.0, 1.0)) }.check();
    let line = Activation::Affine { alpha: 0.7, beta: 0.3 };
    claim!(line, (f32::MIN, f32::MAX), affine(line)).check();
    let leaky = Activation::LeakyRelu { alpha: 0.01 };
    let exact = |x: f64| if x < 0.0 { f64::from(0.01_f32) * x } else { x };
    claim!(leaky, (f32::MIN, f32::MAX), exact).check();
    for [alpha, beta] in
        [[1.0 / 6.0, 0.5], [0.5, 0.5], [0.25, -3.0], [-0.3, 0.6], [0.0, 0.4], [1e-30, 1e3], [1e30, 0.1]]
    {
        let activation = Activation::HardSigmoid { alpha, beta };
        let exact = affine(activation);
        let fall = if alpha < 0.0 { ANY } else { (0.0, 0.0) };
        let claim = claim!(activation, (0.0, 1.0), move |x| exact(x).clamp(0.0, 1.0));
        Claim { kinks: true, fall, stride: SAMPLED, ..claim }.check();
    }
    for [alpha, beta] in [[1.0, 0.0], [0.5, 1e9], [-0.9, 0.1], [0.0, -7.0], [1e-3, 1e-42]] {
        let activation = Activation::Affine { alpha, beta };
        let fall = if alpha < 0.0 { ANY } else { (0.0, 0.0) };
        Claim { fall, stride: SAMPLED, ..claim!(activation, (f32::MIN, f32::MAX), affine(activation)) }.check();
    }
    for alpha in [0.3, 0.0, 1.0, -0.5] {
        let exact = move |x: f64| if x < 0.0 { f64::from(alpha) * x } else { x };
        let fall = if alpha < 0.0 { ANY } else { (0.0, 0.0) };
        let claim = claim!(Activation::LeakyRelu { alpha }, (f32::MIN, f32::MAX), exact);
        Claim { fall, stride: SAMPLED, ..claim }.check();
    }
}

#[test]
fn comparisons_are_exact() {
    // These are one or two comparisons, so the wide stride suffices in every build.
    let stride = STRAIGHT_STRIDE;
    let all = (f32::MIN, f32::MAX);
    Claim { stride, ..claim!(Activation::Identity, all, |x| x) }.check();
    Claim { stride, ..claim!(Activation::Relu, (0.0, f32::MAX), |x: f64| x.max(0.0)) }.check();
    Claim { stride, odd: true, ..claim!(Activation::HardTanh, (-1.0, 1.0), |x: f64| x.clamp(-1.0, 1.0)) }.check();
    Claim { stride, ..claim!(Activation::Relu6, (0.0, 6.0), |x: f64| x.clamp(0.0, 6.0)) }.check();
    for alpha in [1.0, 0.3, 0.0, -2.0] {
        let exact = move |x: f64| if x > f64::from(alpha) { x } else { 0.0 };
        let fall = if alpha < 0.0 { ANY } else { (0.0, 0.0) };
        let claim = claim!(Activation::ThresholdedRelu { alpha }, (alpha.min(0.0), f32::MAX), exact);
        Claim { kinks: true, fall, stride, ..claim }.check();
    }
}

#[test]
fn exp_keeps_its_stated_error_range_and_order() {
    Claim { domain: (f32::MIN, 88.7), ..claim!(Activation::Exp, (0.0, f32::MAX), f64::exp) }.check();
    // Above this the exact value leaves the range of f32 and the result is infinite.
    let last = 88.722_83_f32;
    assert!(f64::from(last).exp() < f64::from(f32::MAX) && f64::from(last.next_up()).exp() > f64::from(f32::MAX));
    for bits in 88.7_f32.to_bits()..=last.to_bits() {
        let (x, y) = (f32::from_bits(bits), Activation::Exp.apply(f32::from_bits(bits)));
        let exact = f64::from(x).exp();
        let error = (f64::from(y) - exact).abs() / exact;
        assert!(error <= f64::from(activation::EXP_MAX_RELATIVE_ERROR), "{x} gives {y:e}: {error:e}");
    }
    assert_eq!([last.next_up(), 89.0, 1e3, f32::MAX].map(|x| Activation::Exp.apply(x)), [f32::INFINITY; 4]);
}

#[test]
fn the_root_keeps_its_stated_error_range_and_order() {
    let claim = claim!(Activation::Sqrt, (0.0, 1.844_674_3e19), |x: f64| x.max(0.0).sqrt());
    Claim { kinks: true, ..claim }.check();
}

#[test]
fn logarithms_keep_their_stated_error_range_and_order() {
    let argument = |alpha: f64, beta: f64| move |x: f64| (alpha * x.max(0.0) + beta).max(2.0_f64.powi(-126)).ln();
    let claim = claim!(Activation::Log { alpha: 1.0, beta: 0.0 }, (-87.34, 88.73), argument(1.0, 0.0));
    Claim { kinks: true, stride: STRAIGHT_STRIDE, ..claim }.check();
    for (alpha, beta, domain) in
        [(1_048_576.0, 1.0, 3e32), (0.5, 1e-5, f32::MAX), (0.0, 0.0, f32::MAX), (1e-30, 1e-38, f32::MAX)]
    {
        let activation = Activation::Log { alpha, beta };
        let claim = claim!(activation, (-87.34, 88.73), argument(alpha.into(), beta.into()));
        Claim { kinks: true, domain: (f32::MIN, domain), stride: SAMPLED, ..claim }.check();
    }
}

#[test]
fn elu_and_selu_keep_their_stated_error_range_and_order() {
    claim!(Activation::Elu { alpha: 1.0 }, (-1.0, f32::MAX), elu(1.0)).check();
    // Klambauer et al. give these digits.
    let exact = |x: f64| 1.050_700_987_355_480_5 * elu(1.673_263_242_354_377_2)(x);
    Claim { domain: (f32::MIN, 3e38), ..claim!(Activation::Selu, (-1.758_099_4, f32::MAX), exact) }.check();
    for alpha in [0.5_f32, 2.0, -0.75, 0.0, 1e-39, 1e20] {
        let fall = if alpha < 0.0 { ANY } else { Activation::Elu { alpha }.max_error() };
        let claim = claim!(Activation::Elu { alpha }, (-alpha.max(0.0), f32::MAX), elu(f64::from(alpha)));
        Claim { fall, stride: SAMPLED, ..claim }.check();
    }
}

#[test]
fn softplus_keeps_its_stated_error_range_and_order() {
    let exact = |x: f64| x.max(0.0) + (-x.abs()).exp().ln_1p();
    claim!(Activation::Softplus, (0.0, f32::MAX), exact).check();
}

#[test]
fn silu_keeps_its_stated_error_and_range() {
    let claim = claim!(Activation::Silu, (-0.279, f32::MAX), |x: f64| x / (1.0 + (-x).exp()));
    Claim { fall: ANY, ..claim }.check();
}

#[test]
fn gelu_keeps_its_stated_error_and_range() {
    let exact = |x: f64| 0.5 * x * libm::erfc(-x / std::f64::consts::SQRT_2);
    Claim { fall: ANY, ..claim!(Activation::Gelu, (-0.1703, f32::MAX), exact) }.check();
}

#[test]
fn gelu_by_tanh_keeps_its_stated_error_and_range() {
    // 0.5 x (1 + tanh u) = x / (1 + e^-2u), which keeps its precision where tanh u is near -1.
    let exact = |x: f64| {
        let twice_u = (8.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x);
        x / (1.0 + (-twice_u).exp())
    };
    Claim { fall: ANY, ..claim!(Activation::GeluTanh, (-0.1703, f32::MAX), exact) }.check();
}

#[test]
fn hard_swish_keeps_its_stated_error_and_range() {
    let exact = |x: f64| x * ((x + 3.0) / 6.0).clamp(0.0, 1.0);
    Claim { kinks: true, fall: ANY, ..claim!(Activation::HardSwish, (-0.375_001, f32::MAX), exact) }.check();
}

#[test]
fn mish_keeps_its_stated_error_and_range() {
    // tanh(ln y) = (y² - 1) / (y² + 1) with y = 1 + e^x.
    let exact = |x: f64| {
        let w = x.min(50.0).exp() * (x.min(50.0).exp() + 2.0);
        x * (w / (w + 2.0))
    };
    Claim { fall: ANY, ..claim!(Activation::Mish, (-0.3097, f32::MAX), exact) }.check();
}

/// Activations with unusual parameters.
const UNUSUAL: [Activation; 11] = [
    Activation::HardSigmoid { alpha: -0.0, beta: 0.4 },
    Activation::HardSigmoid { alpha: 1e30, beta: -1e30 },
    Activation::LeakyRelu { alpha: 0.0 },
    Activation::ThresholdedRelu { alpha: -2.5 },
    Activation::ScaledTanh { alpha: 0.0, beta: 2.0 },
    Activation::ScaledTanh { alpha: -0.5, beta: 0.0 },
    Activation::Affine { alpha: 0.0, beta: -7.0 },
    Activation::Elu { alpha: 0.0 },
    Activation::Elu { alpha: -2.0 },
    Activation::Log { alpha: 1.0, beta: 4.0 },
    Activation::Log { alpha: 0.0, beta: 0.25 },
];

#[test]
fn nan_stays_nan() {
    // Both signs, quiet and signaling, small and large payloads.
    for bits in [0x7F80_0001, 0x7FC0_0000, 0x7FFF_FFFF, 0xFF80_0001, 0xFFC0_0000, 0xFFFF_FFFF] {
        for activation in Activation::ALL.into_iter().chain(UNUSUAL) {
            let y = activation.apply(f32::from_bits(bits));
            assert!(y.is_nan(), "{activation} of {bits:08x} is {y}");
        }
    }
}

#[test]
fn the_infinities_give_the_limits() {
    let infinity = f32::INFINITY;
    let limits = [
        (-infinity, infinity), // identity
        (0.0, 1.0),
        (-1.0, 1.0),
        (0.0, infinity),
        (-1.0, 1.0),
        (0.0, 1.0), // hard sigmoid
        (-1.0, 1.0),
        (-infinity, infinity),
        (0.0, infinity),
        (-1.7159, 1.7159),
        (-infinity, infinity), // affine
        (-1.0, infinity),
        (-1.758_099_3, infinity),
        (0.0, infinity),
        (0.0, infinity),
        (0.0, infinity), // GELU
        (0.0, infinity),
        (0.0, 6.0),
        (0.0, infinity),
        (0.0, infinity),
        (-87.336_55, infinity), // log
        (0.0, infinity),
        (0.0, infinity),
    ];
    let unusual_limits = [
        (0.4, 0.4),
        (0.0, 1.0),
        (0.0, infinity),
        (0.0, infinity),
        (0.0, 0.0),
        (0.0, 0.0),
        (-7.0, -7.0),
        (0.0, infinity),
        (2.0, infinity),
        (1.386_294_4, infinity),
        (-1.386_294_4, -1.386_294_4),
    ];
    let all = Activation::ALL.into_iter().zip(limits).chain(UNUSUAL.into_iter().zip(unusual_limits));
    for (activation, (low, high)) in all {
        let (absolute, relative) = activation.max_error();
        for (x, limit) in [(-infinity, low), (infinity, high)] {
            let y = activation.apply(x);
            let near = (y - limit).abs() <= absolute + relative * limit.abs();
            assert!(y == limit || (near && limit.is_finite()), "{activation} of {x} is {y:e}, not {limit:e}");
        }
    }
}

#[test]
fn slopes_stay_within_the_lipschitz_constant_and_come_near_it() {
    const STEP: f32 = 1.0 / 64.0;
    for activation in Activation::ALL.into_iter().chain(UNUSUAL) {
        let lipschitz = activation.lipschitz();
        let (absolute, relative) = activation.max_error();
        let mut steepest = 0.0_f32;
        let mut slack = 0.0_f32;
        for k in -64 * 30..64 * 30 {
            let x = k as f32 * STEP;
            let (from, to) = (activation.apply(x), activation.apply(x + STEP));
            let errors = 2.0 * (absolute + relative * from.abs().max(to.abs()));
            assert!((to - from).abs() <= lipschitz * STEP + errors, "{activation} from {x}: {from} to {to}");
            let slope = (to - from).abs() / STEP;
            if slope > steepest {
                steepest = slope;
            }
            slack = slack.max(errors / STEP);
        }
        let huge = !lipschitz.is_finite() || lipschitz > 1e20;
        assert!(huge || steepest + slack >= 0.98 * lipschitz, "{activation}: {steepest}, not {lipschitz}");
    }
}

#[test]
fn codes_match_the_format_and_round_trip_as_texts_do() {
    for (index, activation) in Activation::ALL.into_iter().enumerate() {
        assert_eq!(usize::from(activation.code()), index);
    }
    for activation in Activation::ALL.into_iter().chain(UNUSUAL) {
        assert_eq!(activation.to_string().parse(), Ok(activation));
        let parameters = activation.parameters();
        let back = Activation::from_parts(activation.code(), parameters)
            .expect("the code is known and the parameters are finite");
        assert_eq!(back, activation);
        assert_eq!(back.parameters().map(f32::to_bits), parameters.map(f32::to_bits));
    }
    for code in Activation::ALL.len() as u8..=u8::MAX {
        assert_eq!(Activation::from_parts(code, [0.0; 2]), None);
    }
}

#[test]
fn parameters_that_do_not_belong_are_refused() {
    for activation in Activation::ALL {
        for [alpha, beta] in [[1.0_f32, 0.0_f32], [0.0, 1.0], [1.0, 1.0], [-0.0, 0.0], [0.0, -0.0]] {
            let [has_alpha, has_beta] = match activation {
                Activation::HardSigmoid { .. }
                | Activation::ScaledTanh { .. }
                | Activation::Affine { .. }
                | Activation::Log { .. } => [true; 2],
                Activation::LeakyRelu { .. } | Activation::ThresholdedRelu { .. } | Activation::Elu { .. } => {
                    [true, false]
                }
                _ => [false; 2],
            };
            let fits = (has_alpha || alpha.to_bits() == 0) && (has_beta || beta.to_bits() == 0);
            assert_eq!(Activation::from_parts(activation.code(), [alpha, beta]).is_some(), fits, "{activation}");
        }
        for wrong in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            assert_eq!(Activation::from_parts(activation.code(), [wrong, 0.0]), None, "{activation}");
            assert_eq!(Activation::from_parts(activation.code(), [0.0, wrong]), None, "{activation}");
        }
        if let Activation::Log { .. } = activation {
            assert_eq!(Activation::from_parts(activation.code(), [-1.0, 0.0]), None);
            assert_eq!(Activation::from_parts(activation.code(), [1.0, -1e-9]), None);
        }
    }
}

/// Whether the block that begins at `first` passes as the identity.
fn passes_as_identity(first: f32, function: impl Fn(f32) -> f32 + Copy + Send + RefUnwindSafe) -> bool {
    let claim = Claim::new(Activation::Identity, (-1e30, 1e30), function, |x| x);
    let claim = Claim { odd: true, ..claim };
    let look = || claim.block(1.0, first.to_bits() as usize, first.next_down(), &mut Worst::default());
    catch_unwind(look).is_ok()
}

#[test]
fn the_check_finds_an_error_at_a_single_f32() {
    // 1 + 5 ulp.
    let place = f32::from_bits(0x3F80_0005);
    assert!(passes_as_identity(1.0, |x| x));
    assert!(!passes_as_identity(1.0, |x| if x.abs() == place { x * (1.0 + f32::EPSILON) } else { x }), "an error");
    assert!(!passes_as_identity(1.0, |x| if x == place { f32::NAN } else { x }), "not a number");
    assert!(!passes_as_identity(1.0, |x| if x == -place { x.next_up() } else { x }), "not odd");
    assert!(!passes_as_identity(2e30, |x| x), "beyond the range");
    let falls = |x: f32| if x == place { 1.0 - f32::EPSILON / 2.0 } else { 1.0 };
    let claim = Claim::new(Activation::Sigmoid, (0.0, 2.0), falls, |_| 1.0);
    let look = |fall| catch_unwind(|| Claim { fall, ..claim }.block(1.0, 0x3F80_0000, 1.0, &mut Worst::default()));
    assert!(look((0.6 * f32::EPSILON, 0.0)).is_ok() && look((0.4 * f32::EPSILON, 0.0)).is_err(), "a fall");
}
