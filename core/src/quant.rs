//! Every rounding rule of the integer numerics, defined bit by bit. FORMAT.md defines the same rules in words.
//!
//! Sums have 32 bits and wrap. The packer enlarges scales until no input can make a sum wrap.

/// 1.0 in 15 fraction bits, the unit of gates and of activations bounded by 1.
pub const ONE: i32 = 1 << 15;

/// The greatest value of a slot; the least is `-MAX`. Only the cell state of an LSTM may be -32768.
pub const MAX: i32 = 32767;

/// The constants of four rows: the initial values of their sums, their multipliers in units of 2^-32, and the right shifts
/// of their finer sums, one byte per row with the first row in the low byte.
pub type RowBlock = [i32; 9];

/// The high word of the 64-bit product, rounded down.
// Firmware is small only if this stays a function; hosts are fast only if other crates can inline it.
#[cfg_attr(not(target_os = "none"), inline)]
pub const fn mulh(a: i32, b: i32) -> i32 {
    if NO_LONG_MULTIPLY { mulh_of_halves(a, b) } else { ((a as i64 * b as i64) >> 32) as i32 }
}

/// Whether the target multiplies to 32 bits only, as Armv6-M does, where a 64-bit product would be a call. Armv6-M is
/// recognized by its lack of 32-bit atomics.
pub(crate) const NO_LONG_MULTIPLY: bool = cfg!(all(target_arch = "arm", not(target_has_atomic = "32")));

/// [`mulh`] by 32-bit products only. No intermediate sum overflows 32 bits.
const fn mulh_of_halves(a: i32, b: i32) -> i32 {
    let (a_high, a_low) = (a >> 16, a & 0xffff);
    let (b_high, b_low) = (b >> 16, b & 0xffff);
    let low = (a_low as u32).wrapping_mul(b_low as u32) >> 16;
    let middle = a_high.wrapping_mul(b_low).wrapping_add(low as i32);
    let other = a_low.wrapping_mul(b_high).wrapping_add(middle & 0xffff);
    a_high.wrapping_mul(b_high).wrapping_add(middle >> 16).wrapping_add(other >> 16)
}

/// Saturates a value to the range of a slot or state.
pub fn saturate(value: i32) -> i16 {
    value.clamp(-MAX, MAX) as i16
}

/// Drops the 15 fraction bits of a product: rounded to nearest, halves up.
pub const fn from_q15(product: i32) -> i32 {
    product.wrapping_add(ONE / 2) >> 15
}

/// A value times `multiplier` / 2^24: converts it to another unit with [`RESCALED_BITS`] fraction bits.
pub const fn rescaled(value: i16, multiplier: i32) -> i32 {
    mulh((value as i32) << 16, multiplier)
}

/// A product of two values times `multiplier` / 2^39: converts it to a unit with [`RESCALED_BITS`] fraction bits.
pub const fn rescaled_product(product: i32, multiplier: i32) -> i32 {
    mulh(product << 1, multiplier)
}

/// Fraction bits of a rescaled value.
pub const RESCALED_BITS: u32 = 8;

/// Drops the fraction bits of a rescaled value: rounded to nearest, halves up.
pub const fn whole(rescaled: i32) -> i32 {
    rescaled.wrapping_add(1 << (RESCALED_BITS - 1)) >> RESCALED_BITS
}

/// Bits of the magnitude of a sum before it is multiplied by a gate, so that the product fits 32 bits.
pub const CARRIED_BITS: u32 = 16;

/// Largest number of values of a [`Mean`].
pub const MOST_OF_MEAN: usize = 1 << 13;

/// Divides a sum by a fixed number of values.
#[derive(Clone, Copy, Debug)]
pub struct Mean {
    lift: u32,
    share: i32,
}

impl Mean {
    /// The mean of `count` values, at most [`MOST_OF_MEAN`].
    pub const fn of(count: usize) -> Self {
        let count = count as u32;
        let bits = u32::BITS - count.saturating_sub(1).leading_zeros();
        // Shifted left by this, a sum still fits 32 bits.
        let lift = if bits < 13 { 16 - bits } else { 3 };
        let share = match (1_i32 << 30).checked_div(count.cast_signed()) {
            Some(share) => share,
            None => 0,
        };
        Self { lift, share }
    }

    /// The mean for a sum of the values: rounded to nearest, halves up.
    pub fn from(self, sum: i32) -> i16 {
        let mean = mulh(sum << self.lift, self.share);
        saturate(mean.wrapping_add(1 << (self.lift - 3)) >> (self.lift - 2))
    }
}

// Four rows compute `⌊(((start + fine) >> shift) + coarse) · multiplier / 2^32⌋`, where the shift rounds down. `start`
// contains the bias and compensates the average loss of rounding down. Rows with one part are not shifted.

/// The values that the sums of four rows start from.
pub const fn start(rows: &RowBlock) -> [i32; 4] {
    let &[a, b, c, d, ..] = rows;
    [a, b, c, d]
}

/// Shifts the finer sums to the unit of the coarser ones.
pub fn shifted(rows: &RowBlock, [a, b, c, d]: [i32; 4]) -> [i32; 4] {
    let &[.., shifts] = rows;
    let [s, t, u, v] = shifts.to_le_bytes();
    let shift = |sum: i32, by: u8| sum >> (by & 31);
    [shift(a, s), shift(b, t), shift(c, u), shift(d, v)]
}

/// Requantizes the complete sums.
pub const fn scaled(rows: &RowBlock, [a, b, c, d]: [i32; 4]) -> [i32; 4] {
    let &[_, _, _, _, m, n, o, p, _] = rows;
    [mulh(a, m), mulh(b, n), mulh(c, o), mulh(d, p)]
}

/// Whether no input can make a row wrap. `fine` and `coarse` are the sums of the magnitudes of the row's weights.
pub const fn cannot_wrap(start: i32, shift: u8, fine: u64, coarse: u64) -> bool {
    const MOST: u64 = i32::MAX as u64;
    let (finer, shift) = (start.unsigned_abs() as u64 + MAX as u64 * fine, shift & 31);
    // Rounding down increases the magnitude of a negative sum.
    let shifted = (finer + ((1 << shift) - 1)) >> shift;
    finer <= MOST && shifted + MAX as u64 * coarse <= MOST
}

#[cfg(test)]
mod tests {
    use super::{MAX, MOST_OF_MEAN, Mean, cannot_wrap, mulh, mulh_of_halves, rescaled, whole};

    #[test]
    fn means_and_other_units_are_rounded_to_nearest() {
        for count in 1..=MOST_OF_MEAN {
            let mean = Mean::of(count);
            let most = MAX * count as i32;
            for sum in [most, -most, most / 2, most / 3 + 1, -most / 7, count as i32, 1, -1, 0] {
                let far = f64::from(sum) / count as f64 - f64::from(mean.from(sum));
                // Half a unit, plus the errors of the reciprocal and the product.
                assert!(far.abs() <= 0.5 + 0.25 + 0.25, "{sum} of {count}: {far}");
                assert!(count > 64 || far.abs() <= 0.5 + 1.0 / 128.0, "{sum} of {count}: {far}");
            }
        }
        for x in i16::MIN..=i16::MAX {
            assert_eq!(whole(rescaled(x, 1 << 24)), x.into());
            assert_eq!(whole(rescaled(x, 1 << 22)), (i32::from(x) + 2) >> 2);
        }
    }

    #[test]
    fn a_row_that_just_fits_has_no_sum_outside_of_32_bits() {
        for (fine, coarse, shift) in
            [(0, 0, 0), (65_537, 0, 0), (1000, 64_000, 3), (65_000, 65_000, 7), (3, 65_535, 31)]
        {
            let starts = [i32::MIN, i32::MIN + 1, -1 << 30, -1_000_000, -8, -1, 0, 1, 7, 16_383, 1 << 30, i32::MAX];
            for start in starts.into_iter().chain((0..200).map(|k| k * 9_999_991 - 999_999_999)) {
                // The range of the row's sum, in 64 bits.
                let most = |weights: u64| i64::from(MAX) * weights as i64;
                let fits = |sum: i64| i32::try_from(sum).is_ok() && sum > i64::from(i32::MIN);
                let ends = [-1, 1].map(|sign: i64| {
                    let finer = i64::from(start) + sign * most(fine);
                    (finer, (finer >> shift) + sign * most(coarse))
                });
                let all_fit = ends.iter().all(|&(finer, sum)| fits(finer) && fits(sum));
                let may = cannot_wrap(start, shift, fine, coarse);
                assert!(!may || all_fit, "{start} {shift} {fine} {coarse}");
                // `cannot_wrap` uses the magnitude of the start only, so it may refuse a row that fits by up to twice
                // the start.
                assert!(may || start != 0 || !all_fit, "{start} {shift} {fine} {coarse}");
            }
        }
    }

    #[test]
    fn the_high_word_is_the_same_by_halves() {
        let ends = [0, 1, 2, 0x7fff, 0x8000, 0xffff, 0x1_0000, 0x1_8000, 0x7fff_0000, 0x7fff_8000, 0x7fff_ffff];
        let mut state = 1_u32;
        let mut random = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.cast_signed()
        };
        let some: [i32; 100] = core::array::from_fn(|_| random());
        let both = || ends.iter().flat_map(|&end| [end, !end, -end]).chain(some);
        for (a, b) in both().flat_map(|a| both().map(move |b| (a, b))) {
            assert_eq!(mulh_of_halves(a, b), mulh(a, b), "{a} {b}");
        }
    }
}
