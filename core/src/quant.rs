//! Every rounding of the integer numerics, defined bit by bit; FORMAT.md has the same in words.
//!
//! Sums are 32 bits wide and wrap; the packer makes scales coarser until no input can make one do so.

/// 1.0 in what gates and activations between 0 and 1, or -1 and 1, give.
pub const ONE: i32 = 1 << 15;

/// The greatest value of a slot, and minus the least: -32768 is none. Only the cell state of an LSTM may have it.
pub const MAX: i32 = 32767;

/// What four rows need beside their weights: what their sums start from, what they are multiplied with over 2^32, and the
/// right shifts of the sums over the finer part, a byte a row, the first row in the low one.
pub type RowBlock = [i32; 9];

/// The high word of the product: rounded down.
pub const fn mulh(a: i32, b: i32) -> i32 {
    if NO_LONG_MULTIPLY { mulh_of_halves(a, b) } else { ((a as i64 * b as i64) >> 32) as i32 }
}

/// Armv6-M multiplies to 32 bits, and 64 would be a call. That it has no atomics is how it differs from Armv7-M.
pub(crate) const NO_LONG_MULTIPLY: bool = cfg!(all(target_arch = "arm", not(target_has_atomic = "32")));

/// [`mulh`], where only 32 bits of a product are to be had. No sum below leaves its 32.
const fn mulh_of_halves(a: i32, b: i32) -> i32 {
    let (a_high, a_low) = (a >> 16, a & 0xffff);
    let (b_high, b_low) = (b >> 16, b & 0xffff);
    let low = (a_low as u32).wrapping_mul(b_low as u32) >> 16;
    let middle = a_high.wrapping_mul(b_low).wrapping_add(low as i32);
    let other = a_low.wrapping_mul(b_high).wrapping_add(middle & 0xffff);
    a_high.wrapping_mul(b_high).wrapping_add(middle >> 16).wrapping_add(other >> 16)
}

/// Clamped to what a slot or state holds.
pub fn saturate(value: i32) -> i16 {
    value.clamp(-MAX, MAX) as i16
}

/// A product of something with 15 fraction bits, without these: rounded to nearest, halves up.
pub const fn from_q15(product: i32) -> i32 {
    product.wrapping_add(ONE / 2) >> 15
}

/// A value times `multiplier` / 2^24: in another unit, with [`RESCALED_BITS`] fraction bits of it.
pub const fn rescaled(value: i16, multiplier: i32) -> i32 {
    mulh((value as i32) << 16, multiplier)
}

/// A product of two values times `multiplier` / 2^39: in a unit, with [`RESCALED_BITS`] fraction bits of it.
pub const fn rescaled_product(product: i32, multiplier: i32) -> i32 {
    mulh(product << 1, multiplier)
}

/// Fraction bits of what has been rescaled.
pub const RESCALED_BITS: u32 = 8;

/// Without the fraction bits of what has been rescaled: rounded to nearest, halves up.
pub const fn whole(rescaled: i32) -> i32 {
    rescaled.wrapping_add(1 << (RESCALED_BITS - 1)) >> RESCALED_BITS
}

/// The most values whose [`Mean`] can be taken.
pub const MOST_OF_MEAN: usize = 1 << 13;

/// The mean of so many values.
#[derive(Clone, Copy, Debug)]
pub struct Mean {
    lift: u32,
    share: i32,
}

impl Mean {
    /// Of `count` values, at most [`MOST_OF_MEAN`].
    pub const fn of(count: usize) -> Self {
        let count = count as u32;
        let bits = u32::BITS - count.saturating_sub(1).leading_zeros();
        // A sum shifted left by this has 32 bits.
        let lift = if bits < 13 { 16 - bits } else { 3 };
        let share = match (1_i32 << 30).checked_div(count.cast_signed()) {
            Some(share) => share,
            None => 0,
        };
        Self { lift, share }
    }

    /// From their sum: rounded to nearest, halves up.
    pub fn from(self, sum: i32) -> i16 {
        let mean = mulh(sum << self.lift, self.share);
        saturate(mean.wrapping_add(1 << (self.lift - 3)) >> (self.lift - 2))
    }
}

// Of four rows, `⌊(((start + fine) >> shift) + coarse) · multiplier / 2^32⌋`, where a shift rounds down. What rounding down
// takes away on average is in `start`, and so is the bias. Rows with one part are not shifted.

/// What the sums of four rows start from.
pub const fn start(rows: &RowBlock) -> [i32; 4] {
    let &[a, b, c, d, ..] = rows;
    [a, b, c, d]
}

/// The sums with the finer part, as the coarse one is added to them.
pub fn shifted(rows: &RowBlock, [a, b, c, d]: [i32; 4]) -> [i32; 4] {
    let &[.., shifts] = rows;
    let [s, t, u, v] = shifts.to_le_bytes();
    let shift = |sum: i32, by: u8| sum >> (by & 31);
    [shift(a, s), shift(b, t), shift(c, u), shift(d, v)]
}

/// The sums with all parts, as they come out.
pub const fn scaled(rows: &RowBlock, [a, b, c, d]: [i32; 4]) -> [i32; 4] {
    let &[_, _, _, _, m, n, o, p, _] = rows;
    [mulh(a, m), mulh(b, n), mulh(c, o), mulh(d, p)]
}

/// Whether no input makes a row wrap. `fine` and `coarse` are the sums of the magnitudes of its weights.
pub const fn cannot_wrap(start: i32, shift: u8, fine: u64, coarse: u64) -> bool {
    const MOST: u64 = i32::MAX as u64;
    let (finer, shift) = (start.unsigned_abs() as u64 + MAX as u64 * fine, shift & 31);
    // What is negative is rounded to the greater magnitude.
    let shifted = (finer + ((1 << shift) - 1)) >> shift;
    finer <= MOST && shifted + MAX as u64 * coarse <= MOST
}

#[cfg(test)]
mod tests {
    use super::{MAX, MOST_OF_MEAN, Mean, ONE, cannot_wrap, from_q15, mulh, mulh_of_halves, rescaled, whole};

    #[test]
    fn means_and_other_units_are_rounded_to_nearest() {
        for count in 1..=MOST_OF_MEAN {
            let mean = Mean::of(count);
            let most = MAX * count as i32;
            for sum in [most, -most, most / 2, most / 3 + 1, -most / 7, count as i32, 1, -1, 0] {
                let far = f64::from(sum) / count as f64 - f64::from(mean.from(sum));
                // Half a unit, and what the reciprocal and the product lose.
                assert!(far.abs() <= 0.5 + 0.25 + 0.25, "{sum} of {count}: {far}");
                assert!(count > 64 || far.abs() <= 0.5 + 1.0 / 128.0, "{sum} of {count}: {far}");
            }
        }
        // What is rounded away sums up to nothing but the halves: a state that is carried on does not drift by it.
        for from in [0, -7, 1 << 15] {
            let lost = |product: i32| i64::from(product) - (i64::from(from_q15(product)) << 15);
            let (from, to) = (from << 15, (from + 1) << 15);
            assert!((from..to).all(|product| lost(product).abs() <= i64::from(ONE / 2)));
            assert_eq!((from..to).map(lost).sum::<i64>(), i64::from(-ONE / 2));
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
                // The least and the greatest that the row comes to, in 64 bits.
                let most = |weights: u64| i64::from(MAX) * weights as i64;
                let fits = |sum: i64| i32::try_from(sum).is_ok() && sum > i64::from(i32::MIN);
                let ends = [-1, 1].map(|sign: i64| {
                    let finer = i64::from(start) + sign * most(fine);
                    (finer, (finer >> shift) + sign * most(coarse))
                });
                let all_fit = ends.iter().all(|&(finer, sum)| fits(finer) && fits(sum));
                let may = cannot_wrap(start, shift, fine, coarse);
                assert!(!may || all_fit, "{start} {shift} {fine} {coarse}");
                // It looks at the magnitude of the start only: a row may fit that is called too great by twice the start.
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
