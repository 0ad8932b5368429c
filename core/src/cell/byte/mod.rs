//! The cells of the numeric `i8`, which compute what TFLite's integer kernels compute, bit for bit. Values are TFLite's less
//! their zero points, from -255 to 255: so no sum needs a zero point, and what only moves values is as in the other
//! integer numerics.

pub mod conv;
pub mod dense;
pub mod identity;
pub mod lstm;
pub mod softmax;

use super::NumberSpec;
use crate::fixed::Multiplier;
use crate::node::Node;
use crate::quant::RowBlock;

/// The farthest that a value can be from its zero point.
const MOST: i32 = 255;

/// The factor of a requantization.
const fn factor(name: &'static str) -> NumberSpec {
    NumberSpec { name, least: 0, most: i32::MAX, usual: None }
}

/// Its power of two.
const fn shift(name: &'static str) -> NumberSpec {
    NumberSpec { name, least: Multiplier::LEAST_SHIFT, most: Multiplier::MOST_SHIFT, usual: None }
}

/// The least or the greatest value.
const fn limit(name: &'static str) -> NumberSpec {
    NumberSpec { name, least: -MOST, most: MOST, usual: None }
}

/// The requantization whose factor is number `index`; its power of two follows.
fn multiplier(node: &Node<'_>, index: usize) -> Multiplier {
    Multiplier { factor: node.number(index), shift: node.number(index + 1) }
}

/// The sums of a block, with the factors and powers of two of its rows.
fn requantized(rows: &RowBlock, [a, b, c, d]: [i32; 4]) -> [i32; 4] {
    let &[.., e, f, g, h, shifts] = rows;
    let [s, t, u, v] = shifts.to_le_bytes();
    let of = |sum: i32, factor: i32, shift: u8| Multiplier { factor, shift: shift.cast_signed().into() }.of(sum);
    [of(a, e, s), of(b, f, t), of(c, g, u), of(d, h, v)]
}

/// The limits of which number `index` is the least value; the greatest follows.
#[derive(Clone, Copy)]
struct Limits {
    least: i32,
    most: i32,
}

impl Limits {
    fn of(node: &Node<'_>, index: usize) -> Self {
        Self { least: node.number(index), most: node.number(index + 1) }
    }

    /// The limits may be in any order.
    fn hold(self, value: i32) -> i16 {
        value.max(self.least).min(self.most) as i16
    }
}
