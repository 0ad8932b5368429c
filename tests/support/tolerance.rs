//! Comparison of vectors within a tolerance. NaN and vectors of different lengths are never within any tolerance. An
//! infinity equals only itself.

use std::fmt;

/// Why two vectors differ.
#[derive(Clone, Debug, PartialEq)]
pub enum Miss {
    /// The lengths differ.
    Length {
        /// Length of the computed vector.
        got: usize,
        /// Length of the expected vector.
        expected: usize,
    },
    /// The element that is furthest from its bound.
    Element {
        /// Index of the element.
        index: usize,
        /// Computed value.
        got: f64,
        /// Expected value.
        expected: f64,
        /// Largest allowed difference.
        bound: f64,
    },
}

impl fmt::Display for Miss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length { got, expected } => write!(f, "{got} elements, expected {expected}"),
            Self::Element { index, got, expected, bound } => {
                write!(f, "element {index} is {got:e}, expected {expected:e}, off by {:e}", (got - expected).abs())?;
                write!(f, " where {bound:e} is allowed")
            }
        }
    }
}

/// The greater of two errors.
///
/// # Panics
/// If one of them is not a number: `f32::max` would drop it, and the test would pass.
#[track_caller]
pub fn worse<T: PartialOrd>(a: T, b: T) -> T {
    match a.partial_cmp(&b) {
        Some(std::cmp::Ordering::Less) => b,
        Some(_) => a,
        None => panic!("an error is not a number"),
    }
}

/// The greatest of some errors, at least 0.
///
/// # Panics
/// If one of them is not a number.
#[track_caller]
pub fn worst<T: PartialOrd + Default>(errors: impl IntoIterator<Item = T>) -> T {
    let mut most = T::default();
    for error in errors {
        most = worse(most, error);
    }
    most
}

/// Whether a value is within `bound` of the expected value.
pub fn is_within(got: f64, expected: f64, bound: f64) -> bool {
    // Equal infinities have no difference. Every comparison with NaN is false.
    (got == expected && bound >= 0.0) || (bound.is_finite() && (got - expected).abs() <= bound)
}

/// Checks every element against its own bound. Returns the largest fraction of its bound that an element used, 0 to 1.
///
/// # Errors
/// The worst element, or that the lengths differ.
pub fn each_within(got: &[f32], expected: &[f64], bounds: &[f64]) -> Result<f64, Miss> {
    if got.len() != expected.len() || got.len() != bounds.len() {
        return Err(Miss::Length { got: got.len(), expected: expected.len().max(bounds.len()) });
    }
    let (mut used, mut worst) = (0.0_f64, None);
    for (index, ((&got, &expected), &bound)) in got.iter().zip(expected).zip(bounds).enumerate() {
        let got = f64::from(got);
        if is_within(got, expected, bound) {
            let part = (got - expected).abs() / bound;
            used = used.max(if part.is_finite() { part } else { 0.0 });
            continue;
        }
        let excess = (got - expected).abs() - bound;
        let excess = if excess.is_nan() { f64::INFINITY } else { excess };
        if worst.as_ref().is_none_or(|&(most, _)| excess > most) {
            worst = Some((excess, Miss::Element { index, got, expected, bound }));
        }
    }
    worst.map_or(Ok(used), |(_, miss)| Err(miss))
}

/// The rule of the golden cases: `|got - expected| <= tolerance * max(1, max |expected|)`.
///
/// # Errors
/// The worst element, or that the lengths differ.
pub fn all_within(got: &[f32], expected: &[f64], tolerance: f64) -> Result<f64, Miss> {
    let scale = expected.iter().fold(1.0_f64, |scale, value| scale.max(value.abs()));
    each_within(got, expected, &vec![tolerance * scale; expected.len()])
}

/// Checks that all bits are the same: 0.0 is not -0.0, and a NaN equals only its own bit pattern.
///
/// # Errors
/// The first element that differs (with a bound of 0), or that the lengths differ.
pub fn same_bits(got: &[f32], expected: &[f32]) -> Result<(), Miss> {
    if got.len() != expected.len() {
        return Err(Miss::Length { got: got.len(), expected: expected.len() });
    }
    let differs = |(got, expected): (&f32, &f32)| got.to_bits() != expected.to_bits();
    match got.iter().zip(expected).position(differs) {
        None => Ok(()),
        Some(index) => {
            let (got, expected) = (f64::from(got[index]), f64::from(expected[index]));
            Err(Miss::Element { index, got, expected, bound: 0.0 })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_within_the_bound_pass_and_the_used_fraction_is_returned() {
        assert_eq!(each_within(&[1.0, 2.0], &[1.0, 2.5], &[0.0, 1.0]), Ok(0.5));
        assert!(each_within(&[1.0, 2.0], &[1.0, 2.5], &[0.0, 0.25]).is_err());
        assert_eq!(each_within(&[], &[], &[]), Ok(0.0));
    }

    #[test]
    fn a_difference_equal_to_the_bound_passes() {
        assert!(is_within(1.5, 1.0, 0.5));
        assert!(!is_within(1.5, 1.0, 0.499_999_999));
        assert!(!is_within(1.0, 1.0, -1.0));
    }

    #[test]
    fn zero_gets_no_special_treatment() {
        assert!(!is_within(1e-30, 0.0, 0.0));
        assert!(is_within(0.0, 0.0, 0.0) && is_within(-0.0, 0.0, 0.0));
        assert!(all_within(&[1.1e-6], &[0.0], 1e-6).is_err());
        assert!(all_within(&[0.9e-6], &[0.0], 1e-6).is_ok());
    }

    #[test]
    fn nan_is_never_within_a_tolerance() {
        for (got, expected, bound) in [
            (f64::NAN, 0.0, 1.0),
            (0.0, f64::NAN, 1.0),
            (f64::NAN, f64::NAN, 1.0),
            (0.0, 1.0, f64::NAN),
            (1.0, 1.0, f64::NAN),
            (f64::NAN, 0.0, f64::INFINITY),
        ] {
            assert!(!is_within(got, expected, bound), "{got} {expected} {bound}");
        }
        assert!(each_within(&[f32::NAN, 0.0], &[0.0, 0.0], &[1.0, 1.0]).is_err());
        assert!(all_within(&[0.0], &[f64::NAN], 1.0).is_err());
    }

    #[test]
    fn infinities_equal_only_themselves() {
        assert!(is_within(f64::INFINITY, f64::INFINITY, 0.0));
        for (got, expected, bound) in [
            (f64::INFINITY, 1.0, 1e300),
            (1.0, f64::INFINITY, 1e300),
            (f64::NEG_INFINITY, f64::INFINITY, 1e300),
            (0.0, 1.0, f64::INFINITY),
        ] {
            assert!(!is_within(got, expected, bound), "{got} {expected} {bound}");
        }
        // An infinite expectation must not widen the tolerance of the others.
        assert!(all_within(&[f32::INFINITY, 5.0], &[f64::INFINITY, 1.0], 1e-6).is_err());
    }

    #[test]
    fn vectors_of_different_lengths_differ() {
        let short = Err(Miss::Length { got: 1, expected: 2 });
        assert_eq!(each_within(&[1.0], &[1.0, 1.0], &[1.0, 1.0]), short);
        assert_eq!(each_within(&[1.0], &[1.0], &[1.0, 1.0]), short);
        assert_eq!(all_within(&[1.0], &[1.0, 1.0], 1.0), short);
        assert!(same_bits(&[1.0], &[1.0, 1.0]).is_err());
        assert!(same_bits(&[1.0, 1.0], &[1.0]).is_err());
    }

    #[test]
    fn the_golden_rule_scales_with_the_largest_expected_value_but_at_least_one() {
        assert!(all_within(&[100.0, 0.0], &[100.0, 0.9e-4], 1e-6).is_ok());
        assert!(all_within(&[100.0, 0.0], &[100.0, 1.1e-4], 1e-6).is_err());
        assert!(all_within(&[0.1, 0.0], &[0.1, 0.9e-6], 1e-6).is_ok());
    }

    #[test]
    fn the_worst_element_is_reported() {
        let miss = each_within(&[0.0, 3.0, 2.0], &[0.0; 3], &[1.0; 3]).expect_err("two elements are too far off");
        assert_eq!(miss, Miss::Element { index: 1, got: 3.0, expected: 0.0, bound: 1.0 });
        assert!(matches!(each_within(&[9.0, f32::NAN], &[0.0; 2], &[1.0; 2]), Err(Miss::Element { index: 1, .. })));
    }

    #[test]
    fn comparing_bits_distinguishes_zeros_and_nan_patterns() {
        assert!(same_bits(&[0.0], &[-0.0]).is_err());
        assert_eq!(same_bits(&[f32::NAN, 1.0], &[f32::NAN, 1.0]), Ok(()));
        assert!(same_bits(&[1.0], &[1.0 + f32::EPSILON]).is_err());
    }
}
