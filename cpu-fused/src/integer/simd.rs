//! What the integer kernels need of an instruction set.

use bytemuck::Pod;

use crate::simd::Task;

/// Vectors of [`LANES`](Self::LANES) numbers of 32 bits, which wrap. A value of it proves that the CPU has them.
///
/// Weights are 8 bits wide: those of `LANES` rows and [`COLUMNS`](Self::COLUMNS) columns are read at once, a row's side by
/// side. Everything is inlined into the [`Task`] that is run.
pub trait Integers: Copy + Send + Sync + 'static {
    /// `LANES` numbers.
    type Vector: Copy;
    /// The same in memory.
    type Lanes: Pod + Send + Sync;
    /// Weights of as many rows, `COLUMNS` of each.
    type Weights: Pod + Send + Sync;
    /// What they are multiplied with, one for all rows, in the form that [`columns`](Self::columns) writes.
    type Columns: Pod;
    /// The same in registers.
    type Spread: Copy;
    /// Sums that have begun, a row a lane.
    type Sums: Copy;

    /// Numbers of a vector.
    const LANES: usize;
    /// Columns that are multiplied at once.
    const COLUMNS: usize;
    /// What is added to everything that weights are multiplied with: [`Panels`](super::panels::Panels) subtract its products.
    const EXCESS: i32;

    /// Runs a task, compiled for these instructions.
    fn vectorize<T: Task>(self, task: T) -> T::Output;

    /// A vector as it lies in memory.
    fn load(self, lanes: &Self::Lanes) -> Self::Vector;
    /// The same number in all lanes.
    fn splat(self, value: i32) -> Self::Vector;
    /// As many as there are, at most `LANES`, and zeros behind them.
    fn widen(self, values: &[i16]) -> Self::Vector;
    /// The lower halves, as many as there is room for, at most `LANES`.
    fn narrow(self, vector: Self::Vector, to: &mut [i16]);
    /// To memory.
    fn store(self, vector: Self::Vector) -> Self::Lanes;

    /// a + b
    fn add(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// a - b
    fn sub(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// The low word of a · b
    fn mul(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// The high word of a · b: [`mulh`](tidegate::quant::mulh)
    fn mulh(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// The lower of both
    fn min(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// The greater of both
    fn max(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// Bits that both have
    fn and(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// a · 2^by, by at most 31
    fn shl(self, a: Self::Vector, by: u32) -> Self::Vector;
    /// ⌊a / 2^by⌋, by at most 31
    fn shr(self, a: Self::Vector, by: u32) -> Self::Vector;
    /// ⌊a / 2^by⌋, each lane by its own, 0 to 31
    fn shr_each(self, a: Self::Vector, by: Self::Vector) -> Self::Vector;
    /// The product of the lower halves of a and b, as numbers of 16 bits, plus that of the upper ones
    fn mul_halves(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// The value of [`TANH_HALF`](tidegate::curve::TANH_HALF) `index` steps from its middle, -512 to 511 (beyond, the
    /// nearest of these), in the lower half and the next one in the upper
    fn tanh_half(self, index: Self::Vector) -> Self::Vector;

    /// Writes what is multiplied, `x` and zeros behind it, to `to`: an element for each `COLUMNS` of `x`.
    fn columns(self, x: &[i16], to: &mut [Self::Columns]);
    /// Brings columns to where all rows find them.
    fn spread(self, x: &Self::Columns) -> Self::Spread;
    /// No products yet.
    fn begin(self, start: Self::Vector) -> Self::Sums;
    /// Adds the products of a few columns.
    fn accumulate(self, sums: Self::Sums, weights: &Self::Weights, x: Self::Spread) -> Self::Sums;
    /// What has been summed.
    fn total(self, sums: Self::Sums) -> Self::Vector;
}
