//! Activations in fixed point. The input is a sum with a given number of fraction bits, the output has 15.
//! `tests/integer.rs` checks every input against the stated errors.

use crate::activation::Activation;
use crate::quant::{MAX, ONE};

/// Range of fraction bits that [`sigmoid`] and [`tanh`] accept.
pub const BITS: core::ops::RangeInclusive<i32> = 6..=15;
/// Smallest number of fraction bits of a node's sums.
pub const LEAST_BITS: i32 = 0;

/// Default number of fraction bits of a sum before an activation.
pub const PREACT_BITS: u32 = 12;

/// Largest error of [`tanh`], in units of 2^-15.
pub const TANH_MAX_ERROR: f64 = 1.8;
/// Largest error of [`sigmoid`], in units of 2^-15.
pub const SIGMOID_MAX_ERROR: f64 = 1.4;

/// Number of [`TANH_HALF`] steps per unit, as a power of two: 2^5.
const STEP_BITS: u32 = 5;
/// Number of [`TANH_HALF`] steps on either side: 2^9, so that saturation to ten bits is one instruction.
const REACH: i32 = 512;

/// tanh(k / 64) · 2^15 for k from -REACH to REACH, limited to ±32767. Rounded up, because the interpolation rounds
/// down.
pub static TANH_HALF: [i16; 2 * REACH as usize + 1] = {
    let (mut table, mut k) = ([0; 2 * REACH as usize + 1], 1);
    while k <= REACH as usize {
        let above = if k <= TANH_ABOVE.len() { TANH_ABOVE[k - 1] } else { ONE as u16 };
        table[REACH as usize + k] = if above > i16::MAX as u16 { i16::MAX } else { above as i16 };
        // The negated value at k, rounded up. No value is an integer, so this is 1 minus the rounded-up value.
        table[REACH as usize - k] = (1 - above as i32) as i16;
        k += 1;
    }
    table
};

/// tanh(k / 64) · 2^15 for k from 1, rounded up; 2^15 beyond.
#[rustfmt::skip]
const TANH_ABOVE: [u16; 354] = [
    512, 1_024, 1_535, 2_046, 2_555, 3_064, 3_570, 4_075, 4_578, 5_079, 5_578, 6_073, 6_566, 7_056, 7_543, 8_026, 8_505,
    8_981, 9_452, 9_920, 10_383, 10_841, 11_294, 11_743, 12_187, 12_625, 13_059, 13_487, 13_909, 14_326, 14_738, 15_143,
    15_543, 15_937, 16_325, 16_707, 17_083, 17_452, 17_816, 18_174, 18_525, 18_870, 19_209, 19_542, 19_869, 20_190,
    20_505, 20_813, 21_115, 21_412, 21_702, 21_987, 22_265, 22_538, 22_805, 23_066, 23_322, 23_571, 23_816, 24_055,
    24_288, 24_516, 24_739, 24_956, 25_169, 25_376, 25_579, 25_776, 25_969, 26_157, 26_341, 26_520, 26_694, 26_864,
    27_030, 27_191, 27_349, 27_502, 27_652, 27_797, 27_939, 28_077, 28_211, 28_342, 28_469, 28_593, 28_713, 28_831,
    28_945, 29_056, 29_164, 29_269, 29_371, 29_470, 29_567, 29_660, 29_752, 29_840, 29_926, 30_010, 30_092, 30_171,
    30_248, 30_322, 30_395, 30_465, 30_534, 30_600, 30_665, 30_727, 30_788, 30_847, 30_905, 30_961, 31_015, 31_067,
    31_118, 31_168, 31_216, 31_263, 31_308, 31_352, 31_395, 31_436, 31_476, 31_515, 31_553, 31_590, 31_625, 31_660,
    31_694, 31_726, 31_758, 31_788, 31_818, 31_847, 31_875, 31_902, 31_928, 31_954, 31_979, 32_003, 32_026, 32_048,
    32_070, 32_092, 32_112, 32_132, 32_152, 32_170, 32_189, 32_206, 32_224, 32_240, 32_256, 32_272, 32_287, 32_302,
    32_316, 32_330, 32_343, 32_356, 32_369, 32_381, 32_393, 32_404, 32_416, 32_426, 32_437, 32_447, 32_457, 32_466,
    32_476, 32_485, 32_493, 32_502, 32_510, 32_518, 32_526, 32_533, 32_540, 32_547, 32_554, 32_561, 32_567, 32_573,
    32_579, 32_585, 32_591, 32_596, 32_601, 32_606, 32_611, 32_616, 32_621, 32_625, 32_630, 32_634, 32_638, 32_642,
    32_646, 32_650, 32_654, 32_657, 32_660, 32_664, 32_667, 32_670, 32_673, 32_676, 32_679, 32_682, 32_684, 32_687,
    32_689, 32_692, 32_694, 32_696, 32_699, 32_701, 32_703, 32_705, 32_707, 32_709, 32_711, 32_712, 32_714, 32_716,
    32_717, 32_719, 32_721, 32_722, 32_723, 32_725, 32_726, 32_727, 32_729, 32_730, 32_731, 32_732, 32_733, 32_734,
    32_736, 32_737, 32_738, 32_738, 32_739, 32_740, 32_741, 32_742, 32_743, 32_744, 32_744, 32_745, 32_746, 32_747,
    32_747, 32_748, 32_748, 32_749, 32_750, 32_750, 32_751, 32_751, 32_752, 32_752, 32_753, 32_753, 32_754, 32_754,
    32_755, 32_755, 32_756, 32_756, 32_756, 32_757, 32_757, 32_757, 32_758, 32_758, 32_758, 32_759, 32_759, 32_759,
    32_760, 32_760, 32_760, 32_760, 32_761, 32_761, 32_761, 32_761, 32_762, 32_762, 32_762, 32_762, 32_762, 32_763,
    32_763, 32_763, 32_763, 32_763, 32_763, 32_764, 32_764, 32_764, 32_764, 32_764, 32_764, 32_764, 32_765, 32_765,
    32_765, 32_765, 32_765, 32_765, 32_765, 32_765, 32_765, 32_766, 32_766, 32_766, 32_766, 32_766, 32_766, 32_766,
    32_766, 32_766, 32_766, 32_766, 32_766, 32_766, 32_767, 32_767, 32_767, 32_767, 32_767, 32_767, 32_767, 32_767,
    32_767, 32_767, 32_767, 32_767, 32_767, 32_767, 32_767, 32_767, 32_767, 32_767, 32_767, 32_767, 32_767, 32_767,
];

/// tanh(x / 2), where x has `bits` fraction bits, at least 5. Interpolates linearly in the table.
#[inline(always)]
fn tanh_half(x: i32, bits: u32) -> i32 {
    let shift = bits.wrapping_sub(STEP_BITS) & 15;
    let index = (x >> shift).clamp(-REACH, REACH - 1) + REACH;
    let part = x & ((1 << shift) - 1);
    // The compiler can prove that both indices are in range, so there is neither a check nor a panic; `get` would leave
    // a check.
    let (from, to) = (i32::from(TANH_HALF[index as usize]), i32::from(TANH_HALF[index as usize + 1]));
    // Beyond the table both values are equal.
    from + (((to - from) * part) >> shift)
}

/// 1 / (1 + e^-x), from 0 to 1 inclusive, where x has `bits` fraction bits.
#[inline(always)]
pub fn sigmoid(x: i32, bits: u32) -> i32 {
    (ONE + 1 + tanh_half(x, bits)) >> 1
}

/// tanh(x), between -1 and 1, where x has `bits` fraction bits.
#[inline(always)]
pub fn tanh(x: i32, bits: u32) -> i32 {
    tanh_half(x, bits.saturating_sub(1))
}

/// Half the number of steps of a tabulated activation.
const HALF_STEPS: i32 = 256;
/// Number of values of a tabulated activation, from step -256 to step 256.
pub const TABLE_LEN: usize = 2 * HALF_STEPS as usize + 1;
/// Largest left shift of a table's step.
pub const MAX_TABLE_SHIFT: i32 = 14;
/// The shift that stands for a table over octaves: 2^[`OCTAVE_BITS`] intervals in each octave of the sum, so that the relative
/// precision is the same near zero as far from it. The first `(OCTAVES << OCTAVE_BITS) + 1` values belong to positive sums.
/// The last value belongs to 0 and to all negative sums.
pub const OVER_OCTAVES: u32 = 15;
/// As [`OVER_OCTAVES`], for an odd activation, f(-x) = -f(x): only 0 uses the last value.
pub const ODD_OCTAVES: u32 = 16;

/// Number of intervals of each octave of a table over octaves, as a power of two.
pub const OCTAVE_BITS: u32 = 4;
/// Number of octaves of such a table: those of the positive i32.
pub const OCTAVES: usize = 31;

/// An activation as an integer node applies it.
#[derive(Clone, Copy, Debug)]
pub enum Curve<'a> {
    /// The requantized sum itself.
    Identity,
    /// The requantized sum, or 0 if it is negative.
    Relu,
    /// [`sigmoid`]
    Sigmoid,
    /// [`tanh`]
    Tanh,
    /// Linear interpolation between tabulated values, constant beyond the table; or [over octaves](OVER_OCTAVES).
    Table {
        /// `[TABLE_LEN]`
        values: &'a [i16],
        /// The binary logarithm of the table's step, in units of the sum; or [`OVER_OCTAVES`] or [`ODD_OCTAVES`].
        shift: u32,
    },
}

impl<'a> Curve<'a> {
    /// The form of an activation that needs no table; `None` if it needs one.
    pub const fn of(activation: Activation) -> Option<Self> {
        match activation {
            Activation::Identity => Some(Self::Identity),
            Activation::Relu => Some(Self::Relu),
            Activation::Sigmoid => Some(Self::Sigmoid),
            Activation::Tanh => Some(Self::Tanh),
            _ => None,
        }
    }

    /// Whether the output has the unit of the input.
    pub const fn keeps_unit(self) -> bool {
        matches!(self, Self::Identity | Self::Relu)
    }

    /// Whether the output has 15 fraction bits for any input.
    pub const fn is_bounded(self) -> bool {
        matches!(self, Self::Sigmoid | Self::Tanh)
    }

    /// Applies the activation to a sum with `bits` fraction bits. [`Identity`](Self::Identity) and [`Relu`](Self::Relu)
    /// keep the unit of the sum.
    pub fn apply(self, x: i32, bits: u32) -> i32 {
        match self {
            Self::Identity => x,
            Self::Relu => x.max(0),
            Self::Sigmoid => {
                let (x, bits) = finer(x, bits);
                sigmoid(x, bits)
            }
            Self::Tanh => {
                let (x, bits) = finer(x, bits);
                tanh(x, bits)
            }
            Self::Table { values, shift } => table(values, x, shift),
        }
    }
}

/// Raises the number of fraction bits to the start of [`BITS`] if it is smaller.
fn finer(x: i32, bits: u32) -> (i32, u32) {
    const FAR: i32 = 1 << 20;
    let least = BITS.start().unsigned_abs();
    match least.checked_sub(bits) {
        Some(missing) => (x.clamp(-FAR, FAR) << (missing & 15), least),
        None => (x, bits),
    }
}

/// Interpolates linearly in a table; constant beyond it.
fn table(values: &[i16], x: i32, shift: u32) -> i32 {
    if shift >= OVER_OCTAVES {
        return octaves(values, shift == ODD_OCTAVES, x);
    }
    let end = HALF_STEPS << shift;
    // Between 0 and 512 steps.
    let from_start = x.clamp(-end, end - 1).wrapping_add(end);
    let (index, part) = (from_start >> shift, from_start & ((1 << shift) - 1));
    match values.get(index as usize..) {
        Some(&[from, to, ..]) => {
            let (from, to) = (i32::from(from), i32::from(to));
            from + (((to - from).wrapping_mul(part).wrapping_add((1 << shift) >> 1)) >> shift)
        }
        _ => 0,
    }
}

/// Interpolates linearly in a table over octaves. The last interval of an octave ends where the next octave begins.
///
/// Never inlined, so that the loops of cells with other activations stay small.
#[cold]
#[inline(never)]
fn octaves(values: &[i16], is_odd: bool, x: i32) -> i32 {
    if x == 0 || (x < 0 && !is_odd) {
        return values.last().map_or(0, |&value| value.into());
    }
    let (is_negative, x) = (x < 0, x.saturating_abs().unsigned_abs());
    let octave = x.ilog2();
    // The bits below the leading one: 4 select the interval, the next 15 are the position in the interval.
    let bits = x << (31 - octave) << 1;
    let (interval, part) = (bits >> (32 - OCTAVE_BITS), (bits << OCTAVE_BITS) >> 17);
    let index = octave << OCTAVE_BITS | interval;
    let value = match values.get(index as usize..) {
        Some(&[from, to, ..]) => {
            let (from, to) = (i32::from(from), i32::from(to));
            from + (((to - from).wrapping_mul(part.cast_signed()).wrapping_add(1 << 14)) >> 15)
        }
        _ => 0,
    };
    if is_negative { -value } else { value }
}

/// The activations of a cell's gates and candidate.
pub(crate) trait Curves {
    /// Whether the activations are sigmoid and tanh of sums with [`PREACT_BITS`] fraction bits, for which there are kernels.
    const USUAL: bool;

    /// The gate's activation: between 0 and 1 inclusive, with 15 fraction bits.
    fn gate(&self, sum: i32) -> i32;

    /// The candidate's activation: fits 16 bits.
    fn candidate(&self, sum: i32) -> i32;
}

/// Sigmoid and tanh of sums with [`PREACT_BITS`] fraction bits.
pub(crate) struct Usual;

impl Curves for Usual {
    const USUAL: bool = true;

    #[inline(always)]
    fn gate(&self, sum: i32) -> i32 {
        sigmoid(sum, PREACT_BITS)
    }

    #[inline(always)]
    fn candidate(&self, sum: i32) -> i32 {
        tanh(sum, PREACT_BITS)
    }
}

/// The activations that a node names.
pub(crate) struct Given<'a> {
    pub gate: Curve<'a>,
    pub candidate: Curve<'a>,
    pub bits: u32,
}

impl Curves for Given<'_> {
    const USUAL: bool = false;

    fn gate(&self, sum: i32) -> i32 {
        self.gate.apply(sum, self.bits).clamp(0, ONE)
    }

    fn candidate(&self, sum: i32) -> i32 {
        self.candidate.apply(sum, self.bits).clamp(-MAX, MAX)
    }
}
