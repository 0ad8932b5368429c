//! Activations in fixed point: from a sum with some fraction bits to 15 of them. `tests/integer.rs` holds every input to
//! the stated errors.

use crate::activation::Activation;
use crate::quant::ONE;

/// The least fraction bits of what [`sigmoid`] and [`tanh`] take, and the most.
pub const BITS: core::ops::RangeInclusive<i32> = 6..=15;

/// Greatest error of [`tanh`], in units of 2^-15.
pub const TANH_MAX_ERROR: f64 = 1.6;
/// Greatest error of [`sigmoid`], in units of 2^-15.
pub const SIGMOID_MAX_ERROR: f64 = 1.3;

/// Steps of [`TANH_HALF`] to 1: 2^5.
const STEP_BITS: u32 = 5;

/// tanh(k / 64) · 2^15, rounded to nearest, k from 0 on until it is 1.
#[rustfmt::skip]
pub static TANH_HALF: [u16; 379] = [
    0, 512, 1_024, 1_535, 2_045, 2_555, 3_063, 3_570, 4_075, 4_578, 5_079, 5_577, 6_073, 6_566, 7_056, 7_542,
    8_025, 8_505, 8_980, 9_452, 9_919, 10_382, 10_840, 11_294, 11_743, 12_186, 12_625, 13_058, 13_486, 13_909,
    14_326, 14_737, 15_143, 15_542, 15_936, 16_324, 16_706, 17_082, 17_452, 17_816, 18_173, 18_525, 18_870, 19_209,
    19_542, 19_869, 20_189, 20_504, 20_813, 21_115, 21_411, 21_702, 21_986, 22_265, 22_538, 22_804, 23_066, 23_321,
    23_571, 23_815, 24_054, 24_287, 24_516, 24_738, 24_956, 25_168, 25_376, 25_578, 25_776, 25_969, 26_157, 26_340,
    26_519, 26_694, 26_864, 27_029, 27_191, 27_348, 27_502, 27_651, 27_797, 27_938, 28_076, 28_211, 28_341, 28_469,
    28_592, 28_713, 28_830, 28_944, 29_055, 29_163, 29_268, 29_370, 29_470, 29_566, 29_660, 29_751, 29_840, 29_926,
    30_010, 30_091, 30_170, 30_247, 30_322, 30_394, 30_465, 30_533, 30_600, 30_664, 30_727, 30_788, 30_847, 30_904,
    30_960, 31_014, 31_067, 31_118, 31_167, 31_215, 31_262, 31_307, 31_351, 31_394, 31_435, 31_476, 31_515, 31_553,
    31_589, 31_625, 31_659, 31_693, 31_726, 31_757, 31_788, 31_817, 31_846, 31_874, 31_901, 31_928, 31_953, 31_978,
    32_002, 32_025, 32_048, 32_070, 32_091, 32_112, 32_132, 32_151, 32_170, 32_188, 32_206, 32_223, 32_240, 32_256,
    32_271, 32_287, 32_301, 32_316, 32_329, 32_343, 32_356, 32_368, 32_381, 32_392, 32_404, 32_415, 32_426, 32_436,
    32_447, 32_456, 32_466, 32_475, 32_484, 32_493, 32_501, 32_509, 32_517, 32_525, 32_532, 32_540, 32_547, 32_553,
    32_560, 32_566, 32_573, 32_579, 32_584, 32_590, 32_596, 32_601, 32_606, 32_611, 32_616, 32_620, 32_625, 32_629,
    32_634, 32_638, 32_642, 32_646, 32_649, 32_653, 32_657, 32_660, 32_663, 32_667, 32_670, 32_673, 32_676, 32_678,
    32_681, 32_684, 32_686, 32_689, 32_691, 32_694, 32_696, 32_698, 32_700, 32_702, 32_704, 32_706, 32_708, 32_710,
    32_712, 32_714, 32_715, 32_717, 32_718, 32_720, 32_721, 32_723, 32_724, 32_726, 32_727, 32_728, 32_729, 32_731,
    32_732, 32_733, 32_734, 32_735, 32_736, 32_737, 32_738, 32_739, 32_740, 32_741, 32_741, 32_742, 32_743, 32_744,
    32_745, 32_745, 32_746, 32_747, 32_747, 32_748, 32_749, 32_749, 32_750, 32_750, 32_751, 32_751, 32_752, 32_752,
    32_753, 32_753, 32_754, 32_754, 32_755, 32_755, 32_755, 32_756, 32_756, 32_757, 32_757, 32_757, 32_758, 32_758,
    32_758, 32_759, 32_759, 32_759, 32_759, 32_760, 32_760, 32_760, 32_760, 32_761, 32_761, 32_761, 32_761, 32_762,
    32_762, 32_762, 32_762, 32_762, 32_762, 32_763, 32_763, 32_763, 32_763, 32_763, 32_763, 32_764, 32_764, 32_764,
    32_764, 32_764, 32_764, 32_764, 32_764, 32_765, 32_765, 32_765, 32_765, 32_765, 32_765, 32_765, 32_765, 32_765,
    32_765, 32_765, 32_766, 32_766, 32_766, 32_766, 32_766, 32_766, 32_766, 32_766, 32_766, 32_766, 32_766, 32_766,
    32_766, 32_766, 32_766, 32_766, 32_767, 32_767, 32_767, 32_767, 32_767, 32_767, 32_767, 32_767, 32_767, 32_767,
    32_767, 32_767, 32_767, 32_767, 32_767, 32_767, 32_767, 32_767, 32_767, 32_767, 32_767, 32_767, 32_767, 32_767,
    32_767, 32_767, 32_767, 32_767, 32_767, 32_767, 32_767, 32_767, 32_767, 32_767, 32_767, 32_767, 32_768,
];

/// tanh(x / 2) where x has `bits` fraction bits, at least 5: linear between the values of the table, odd, and exactly
/// plus or minus 1 beyond them.
fn tanh_half(x: i32, bits: u32) -> i32 {
    let (size, shift) = (x.unsigned_abs(), bits.saturating_sub(STEP_BITS) & 31);
    let index = size >> shift;
    let value = match TANH_HALF.get(index as usize..) {
        Some(&[from, to, ..]) => {
            let (part, half) = (size - (index << shift), (1 << shift) >> 1);
            u32::from(from) + ((u32::from(to - from) * part + half) >> shift)
        }
        _ => ONE.unsigned_abs(),
    };
    let value = value.cast_signed();
    if x < 0 { -value } else { value }
}

/// 1 / (1 + e^-x), from 0 to 1 inclusive, where x has `bits` fraction bits.
pub fn sigmoid(x: i32, bits: u32) -> i32 {
    (ONE + 1 + tanh_half(x, bits)) >> 1
}

/// tanh(x), from -1 to 1 inclusive, where x has `bits` fraction bits.
pub fn tanh(x: i32, bits: u32) -> i32 {
    tanh_half(x, bits.saturating_sub(1))
}

/// Half the steps of a tabulated activation.
const HALF_STEPS: i32 = 256;
/// Values of a tabulated activation: it is given from -256 to 256 steps.
pub const TABLE_LEN: usize = 2 * HALF_STEPS as usize + 1;
/// The most that the step of a table may be shifted left.
pub const MAX_TABLE_SHIFT: i32 = 14;

/// An activation as a node applies it.
#[derive(Clone, Copy, Debug)]
pub enum Curve<'a> {
    /// What the sum is brought to is what comes out.
    Identity,
    /// The same, and 0 below.
    Relu,
    /// [`sigmoid`]
    Sigmoid,
    /// [`tanh`]
    Tanh,
    /// Linear between tabulated values, constant beyond them.
    Table {
        /// `[TABLE_LEN]`
        values: &'a [i16],
        /// A step of the table is 2 to this of the sum's.
        shift: u32,
    },
}

impl<'a> Curve<'a> {
    /// The activation itself, where it needs no table.
    pub const fn of(activation: Activation) -> Option<Self> {
        match activation {
            Activation::Identity => Some(Self::Identity),
            Activation::Relu => Some(Self::Relu),
            Activation::Sigmoid => Some(Self::Sigmoid),
            Activation::Tanh => Some(Self::Tanh),
            _ => None,
        }
    }

    /// Whether what comes out counts 2^-15, whatever it is asked for.
    pub const fn is_bounded(self) -> bool {
        matches!(self, Self::Sigmoid | Self::Tanh)
    }

    /// Of a sum with `bits` fraction bits; [`Identity`](Self::Identity) and [`Relu`](Self::Relu) keep its unit.
    pub fn apply(self, x: i32, bits: u32) -> i32 {
        match self {
            Self::Identity => x,
            Self::Relu => x.max(0),
            Self::Sigmoid => sigmoid(x, bits),
            Self::Tanh => tanh(x, bits),
            Self::Table { values, shift } => table(values, x, shift),
        }
    }
}

/// Linear between the values of a table, constant beyond them.
fn table(values: &[i16], x: i32, shift: u32) -> i32 {
    let shift = shift & 15;
    let end = HALF_STEPS << shift;
    // From 0 to 512 steps.
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
