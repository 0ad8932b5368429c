//! The cells of the numeric `i8`, which compute the same bits as the integer reference kernels of LiteRT 2.3. Values are
//! TFLite's minus their zero points, from -255 to 255. Therefore no sum needs a zero point, and cells that only move
//! values are shared with the other integer numerics.

use super::prelude::*;
use crate::fixed::Multiplier;
use crate::quant::RowBlock;

/// Maximum distance of a value from its zero point.
pub(super) const MOST: i32 = 255;

/// Entries of a table: one for each of TFLite's integers.
pub(super) const ENTRIES: usize = 256;

/// The factor of a requantization.
pub(super) const fn factor(name: &'static str) -> NumberSpec {
    NumberSpec { name, least: 0, most: i32::MAX, usual: None }
}

/// The power of two of a requantization.
pub(super) const fn shift(name: &'static str) -> NumberSpec {
    NumberSpec { name, least: Multiplier::LEAST_SHIFT, most: Multiplier::MOST_SHIFT, usual: None }
}

/// The least or the greatest value of an output.
pub(super) const fn limit(name: &'static str) -> NumberSpec {
    NumberSpec { name, least: -MOST, most: MOST, usual: None }
}

/// The requantization whose factor is number `index`; its power of two is the next number.
pub(super) fn multiplier(node: &Node<'_>, index: usize) -> Multiplier {
    Multiplier { factor: node.number(index), shift: node.number(index + 1) }
}

/// Fraction bits of the terms of a sum of two values beyond those of the coarser one.
const LIFT: u32 = 20;

/// A value in the unit of a sum of two values.
pub(super) fn lifted(by: Multiplier, x: i16) -> i32 {
    by.of(i32::from(x).wrapping_shl(LIFT))
}

/// Saturates to 16 bits.
pub(super) fn saturated(value: i32) -> i16 {
    value.clamp(i16::MIN.into(), i16::MAX.into()) as i16
}

/// Requantizes the sums of a block with the factors and powers of two of its rows. `by` rounds once or twice.
#[inline(always)]
pub(super) fn requantized(rows: &RowBlock, [a, b, c, d]: [i32; 4], by: impl Fn(Multiplier, i32) -> i32) -> [i32; 4] {
    let &[.., e, f, g, h, shifts] = rows;
    let [s, t, u, v] = shifts.to_le_bytes();
    let of = |sum: i32, factor: i32, shift: u8| by(Multiplier { factor, shift: shift.cast_signed().into() }, sum);
    [of(a, e, s), of(b, f, t), of(c, g, u), of(d, h, v)]
}

/// A range of values: number `index` is the least, the next number the greatest.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    least: i32,
    most: i32,
}

impl Limits {
    pub fn of(node: &Node<'_>, index: usize) -> Self {
        Self { least: node.number(index), most: node.number(index + 1) }
    }

    /// Clips a value to the range. The limits may be in either order.
    pub fn hold(self, value: i32) -> i16 {
        value.max(self.least).min(self.most) as i16
    }
}
