//! Vector operations of the integer kernels.

use bytemuck::Pod;

use crate::simd::Instructions;

/// Vectors of [`LANES`](Self::LANES) wrapping 32-bit integers.
///
/// Weights have 8 bits. One load reads the weights of `LANES` rows and [`COLUMNS`](Self::COLUMNS) columns; the columns
/// of a row are adjacent. All operations are inlined into the [`Task`](crate::simd::Task) that runs.
pub trait Integers: Instructions {
    /// A vector in a register.
    type Vector: Copy;
    /// A vector in memory.
    type Lanes: Pod + Send + Sync;
    /// Weights of `LANES` rows, `COLUMNS` of each.
    type Weights: Pod + Send + Sync;
    /// Operand of `COLUMNS` columns, the same for all rows, in the form that [`columns`](Self::columns) writes.
    type Columns: Pod;
    /// The operand in registers.
    type Spread: Copy;
    /// Unfinished sums, one row per lane.
    type Sums: Copy;

    /// Number of lanes.
    const LANES: usize;
    /// Columns that are multiplied at once.
    const COLUMNS: usize;
    /// Added to every element of an operand; [`Panels`](super::panels::Panels) subtract the products with it.
    const EXCESS: i32;

    /// Whether the update of a block of units is interleaved with the products of the next one.
    const INTERLEAVED: bool = true;

    /// Loads a vector.
    fn load(self, lanes: &Self::Lanes) -> Self::Vector;
    /// A vector with the same number in all lanes.
    fn splat(self, value: i32) -> Self::Vector;
    /// Loads a slice of at most `LANES` values and widens them; the other lanes are 0.
    fn widen(self, values: &[i16]) -> Self::Vector;
    /// Stores the lower halves of the first lanes, at most `LANES`, to a slice.
    fn narrow(self, vector: Self::Vector, to: &mut [i16]);
    /// Stores a vector.
    fn store(self, vector: Self::Vector) -> Self::Lanes;

    /// a + b
    fn add(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// a - b
    fn sub(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// Low word of a · b
    fn mul(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// High word of a · b: [`mulh`](tidegate::internals::quant::mulh)
    fn mulh(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// The smaller of both
    fn min(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// The greater of both
    fn max(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// Bitwise and
    fn and(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// a · 2^by, by at most 31
    fn shl(self, a: Self::Vector, by: u32) -> Self::Vector;
    /// ⌊a / 2^by⌋, by at most 31
    fn shr(self, a: Self::Vector, by: u32) -> Self::Vector;
    /// ⌊a / 2^by⌋ with a shift of 0 to 31 for each lane
    fn shr_each(self, a: Self::Vector, by: Self::Vector) -> Self::Vector;
    /// The product of the lower halves of a and b, as 16-bit integers, plus the product of the upper halves
    fn mul_halves(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// The value of [`TANH_HALF`](tidegate::internals::curve::TANH_HALF) `index` steps from its middle in the lower half, and
    /// the next value in the upper half. `index` saturates at -512 and 511
    fn tanh_half(self, index: Self::Vector) -> Self::Vector;

    /// Writes `x`, padded with zeros, to `to` as operands: one element for each `COLUMNS` values.
    fn columns(self, x: &[i16], to: &mut [Self::Columns]);
    /// Loads an operand for all rows.
    fn spread(self, x: &Self::Columns) -> Self::Spread;
    /// Begins sums.
    fn begin(self, start: Self::Vector) -> Self::Sums;
    /// Adds the products of `COLUMNS` columns.
    fn accumulate(self, sums: Self::Sums, weights: &Self::Weights, x: Self::Spread) -> Self::Sums;
    /// The finished sums.
    fn total(self, sums: Self::Sums) -> Self::Vector;
}
