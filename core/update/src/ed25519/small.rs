//! With points and fields of the crate `salty`, which accepts coordinates that are not reduced, and points of small order;
//! this file refuses them. Keys and signatures are public, so the work may depend on their values.

use salty::{CompressedY, EdwardsPoint};

use super::Sha512 as Hash;
use crate::error::KeyError;

/// The order L of the group, with the least byte first.
const ORDER: [u8; 32] = {
    let mut order = [0; 32];
    let low = 0x14DE_F9DE_A2F7_9CD6_5812_631A_5CF5_D3ED_u128.to_le_bytes();
    let mut index = 0;
    while index < low.len() {
        order[index] = low[index];
        index += 1;
    }
    order[31] = 0x10;
    order
};

/// Whether a key is the canonical encoding of a point of large order.
pub fn check(key: &[u8; 32]) -> Result<(), KeyError> {
    let point = CompressedY(*key).decompressed().map_err(|_| KeyError::NotAPoint)?;
    if is_of_small_order(&point) {
        return Err(KeyError::SmallOrder);
    }
    if point.compressed() == CompressedY(*key) { Ok(()) } else { Err(KeyError::NotAPoint) }
}

/// Whether `signature` is the canonical signature of `message` by a key that [`check`] accepts: whether R is S times the
/// base point minus k times the key, with the hash k (RFC 8032, section 5.1.7, without the cofactor).
pub fn verifies(key: &[u8; 32], message: &[u8], signature: &[u8; 64]) -> bool {
    let (Some((r, s)), Ok(point)) = (signature.split_first_chunk::<32>(), CompressedY(*key).decompressed()) else {
        return false;
    };
    let Some(s) = s.first_chunk::<32>().filter(|s| minus_order(s).is_none()) else { return false };
    let mut hash = Hash::new();
    [r, &key[..], message].into_iter().for_each(|bytes| hash.update(bytes));
    let k = modulo_order(&hash.finalize());
    let sum = combination(s, &k, &-&point);
    // R is compared with the encoding of a point, which is reduced.
    sum.compressed() == CompressedY(*r) && !is_of_small_order(&sum)
}

/// The point `s` B + `k` A with the base point B. Both multiples share their doublings (Shamir's method).
fn combination(s: &[u8; 32], k: &[u8; 32], a: &EdwardsPoint) -> EdwardsPoint {
    let b = EdwardsPoint::basepoint();
    let both = a + &b;
    let mut sum = EdwardsPoint::neutral_element();
    for (s, k) in s.iter().zip(k).rev() {
        for bit in (0..8).rev() {
            sum = &sum + &sum;
            let point = match (s >> bit & 1, k >> bit & 1) {
                (0, 0) => continue,
                (_, 0) => &b,
                (0, _) => a,
                _ => &both,
            };
            sum = &sum + point;
        }
    }
    sum
}

/// The remainder of a number modulo the group's order, by long division: bit by bit, from the highest one.
fn modulo_order(number: &[u8; 64]) -> [u8; 32] {
    let mut rest = [0; 32];
    for digit in number.iter().rev() {
        for bit in (0..8).rev() {
            // The rest is below the order, so its double has 254 bits.
            let mut carry = digit >> bit & 1;
            for byte in &mut rest {
                (*byte, carry) = (*byte << 1 | carry, *byte >> 7);
            }
            if let Some(difference) = minus_order(&rest) {
                rest = difference;
            }
        }
    }
    rest
}

/// A number minus the group's order; `None` if the number is below the order.
fn minus_order(number: &[u8; 32]) -> Option<[u8; 32]> {
    let (mut difference, mut borrow) = (*number, 0);
    for (byte, order) in difference.iter_mut().zip(&ORDER) {
        let digit = i16::from(*byte) - i16::from(*order) - borrow;
        (*byte, borrow) = (digit as u8, i16::from(digit < 0));
    }
    (borrow == 0).then_some(difference)
}

/// Whether eight times a point is the neutral element, whose y is 1 and whose x is 0.
fn is_of_small_order(point: &EdwardsPoint) -> bool {
    let mut multiple = *point;
    for _ in 0..3 {
        multiple = &multiple + &multiple;
    }
    let mut neutral = [0; 32];
    neutral[0] = 1;
    multiple.compressed() == CompressedY(neutral)
}

/// A SHA-512 in progress.
#[derive(Default)]
pub struct Sha512(salty::Sha512);

impl Sha512 {
    /// Begins a hash.
    #[inline(never)]
    pub fn new() -> Self {
        Self(salty::Sha512::new())
    }

    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The hash.
    pub fn finalize(self) -> [u8; 64] {
        self.0.finalize()
    }
}
