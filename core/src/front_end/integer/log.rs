//! The magnitude of a bin and the logarithm of a sum, with their stated errors. The tests below cover every input.

/// Fraction bits of a logarithm.
pub const LN_BITS: u32 = 24;
/// Largest error of `ln`, without that of the exponent, which is 2^-25 per power of two.
pub const LN_MAX_ERROR: f64 = 1.8e-5;
/// ln 2
const LN_2: i32 = 11_629_080;

/// Number of CORDIC rotations of a magnitude.
pub const TURNS: u32 = 7;
/// The natural logarithm of the gain of [`magnitude`]: Σ ln(1 + 2^-2k) / 2 for k from 1 to [`TURNS`].
pub const LN_GAIN: i32 = 2_553_930;
/// Largest error of `magnitude`, relative and in units; the latter comes from shifts that round down.
pub const MAGNITUDE_MAX_ERROR: (f64, f64) = (3.1e-5, 8.0);

/// Number of [`LN`] steps per octave.
const STEPS: u32 = 64;
const STEP_BITS: u32 = STEPS.ilog2();
/// Bits of the position between two steps.
const PART_BITS: u32 = 13;

/// ln(1 + k / 64), raised by half the error of the chord to the next value.
static LN: [u32; STEPS as usize + 1] = steps();

/// ln(1 + k / 64) = 2 artanh(k / (128 + k)), computed in integers so that it is the same on every host.
const fn steps() -> [u32; STEPS as usize + 1] {
    const ONE: u128 = 1 << 60;
    let mut steps = [0; STEPS as usize + 1];
    let mut k = 0;
    while k < steps.len() {
        let x = ONE * k as u128 / (2 * STEPS as u128 + k as u128);
        let (mut power, mut sum, mut odd) = (x, 0, 1);
        while power > 0 {
            sum += power / odd;
            power = power * x / ONE * x / ONE;
            odd += 2;
        }
        // A chord of width h is too low by at most h² / 8 f².
        let from = STEPS as u128 + k as u128;
        let low = ONE / 8 / (from * from);
        let unit = ONE >> LN_BITS;
        steps[k] = ((2 * sum + low / 2 + unit / 2) / unit) as u32;
        k += 1;
    }
    steps
}

/// ln(`value` · 2^`exponent`) for a nonzero `value`.
pub fn ln(value: u64, exponent: i32) -> i32 {
    let zeros = value.leading_zeros();
    let mantissa = (value << (zeros & 63) >> (63 - STEP_BITS - PART_BITS)) as u32;
    let (step, part) = (mantissa >> PART_BITS & (STEPS - 1), mantissa & ((1 << PART_BITS) - 1));
    let between = match LN.get(step as usize..) {
        Some(&[from, to, ..]) => from + (((to - from) * part) >> PART_BITS),
        // The step is always in the table.
        _ => 0,
    };
    let octaves = exponent.wrapping_add(63 - zeros as i32);
    octaves.wrapping_mul(LN_2).wrapping_add(between as i32)
}

/// |re + i im| times a gain whose logarithm is [`LN_GAIN`]. Rotates the vector onto the axis by decreasing angles
/// (Volder, The CORDIC Trigonometric Computing Technique, 1959) and mirrors it where a rotation overshoots.
#[inline]
pub fn magnitude([re, im]: [i32; 2]) -> u32 {
    let (re, im) = (re.wrapping_abs(), im.wrapping_abs());
    let (mut x, mut y) = (re.max(im), re.min(im));
    for turn in 1..=TURNS {
        (x, y) = (x.wrapping_add(y >> turn), y.wrapping_sub(x >> turn).wrapping_abs());
    }
    x.cast_unsigned()
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;

    const UNIT: f64 = (1_u32 << LN_BITS) as f64;

    /// Only the first 19 bits after the leading one matter: the test takes both ends of the range that they stand for,
    /// in every octave.
    #[test]
    fn every_logarithm_keeps_its_stated_error() {
        let bits = STEP_BITS + PART_BITS;
        let (mut worst, mut previous) = (0.0_f64, i32::MIN);
        for mantissa in 1_u64 << bits..2 << bits {
            let found = ln(mantissa << (63 - bits), 0);
            assert!(found >= previous, "it never falls");
            previous = found;
            for octave in [0, 1, 19, 20, 21, 33, 43, 44, 63 - bits] {
                let (low, next) = (mantissa << octave, (mantissa + 1) << octave);
                for value in [low, next.wrapping_sub(1)] {
                    let exponent = -(octave as i32) - bits as i32;
                    let error = f64::from(ln(value, exponent)) / UNIT - (value as f64 * 2_f64.powi(exponent)).ln();
                    worst = worst.max(error.abs());
                }
            }
        }
        std::println!("ln: {worst:.3e}");
        assert!(worst <= LN_MAX_ERROR);
        for exponent in -100..100 {
            let exact = f64::from(exponent) * core::f64::consts::LN_2;
            let error = f64::from(ln(1, exponent)) / UNIT - exact;
            assert!(error.abs() <= LN_MAX_ERROR + f64::from(exponent).abs() / (2.0 * UNIT), "{exponent}");
        }
        // Below 2^19 every value is tested.
        for value in 1..1 << bits {
            let error = f64::from(ln(value, 0)) / UNIT - (value as f64).ln();
            assert!(error.abs() <= LN_MAX_ERROR + 1e-6, "{value}");
        }
    }

    #[test]
    fn every_magnitude_keeps_its_stated_error() {
        let gain = (f64::from(LN_GAIN) / UNIT).exp();
        let exact: f64 = (1..=TURNS).map(|k| (2.0_f64.powi(-2 * k as i32)).ln_1p() / 2.0).sum();
        assert!((exact * UNIT - f64::from(LN_GAIN)).abs() <= 0.5, "{}", exact * UNIT);
        let mut worst = 0.0_f64;
        let mut look = |re: i32, im: i32| {
            let exact = f64::from(re).hypot(f64::from(im));
            let error = (f64::from(magnitude([re, im])) / gain - exact).abs();
            worst = worst.max((error - MAGNITUDE_MAX_ERROR.0 * exact) / MAGNITUDE_MAX_ERROR.1);
        };
        // All small values, and every angle that 20 bits can resolve at lengths up to the greatest.
        (0..1 << 10).for_each(|re| (0..1 << 10).for_each(|im| look(re, -im)));
        for k in 0..1 << 20 {
            let angle = f64::from(k) * core::f64::consts::TAU / f64::from(1 << 20);
            for length in [1 << 12, 1 << 20, (1 << 30) + 64] {
                let part = |x: f64| (x * f64::from(length)) as i32;
                look(part(angle.cos()), part(angle.sin()));
            }
        }
        std::println!("magnitude: {worst:.3} of its bound");
        assert!(worst <= 1.0);
    }
}
