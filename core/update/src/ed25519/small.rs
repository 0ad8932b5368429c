//! With the crate `salty`. It accepts scalars and coordinates that are not reduced, and points of small order; this file
//! refuses them.

use salty::{PublicKey, Signature};

use crate::error::KeyError;

/// The field's prime p and the group's order L, with the least byte first.
const PRIME: [u8; 32] = ends(0xED, 0xFF, 0x7F);
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
/// The reduced coordinates y of the points of small order: 0, 1, -1, and two of order 8.
const SMALL_ORDER: [[u8; 32]; 5] = [
    ends(0, 0, 0),
    ends(1, 0, 0),
    ends(0xEC, 0xFF, 0x7F),
    [
        0x26, 0xE8, 0x95, 0x8F, 0xC2, 0xB2, 0x27, 0xB0, 0x45, 0xC3, 0xF4, 0x89, 0xF2, 0xEF, 0x98, 0xF0, 0xD5, 0xDF,
        0xAC, 0x05, 0xD3, 0xC6, 0x33, 0x39, 0xB1, 0x38, 0x02, 0x88, 0x6D, 0x53, 0xFC, 0x05,
    ],
    [
        0xC7, 0x17, 0x6A, 0x70, 0x3D, 0x4D, 0xD8, 0x4F, 0xBA, 0x3C, 0x0B, 0x76, 0x0D, 0x10, 0x67, 0x0F, 0x2A, 0x20,
        0x53, 0xFA, 0x2C, 0x39, 0xCC, 0xC6, 0x4E, 0xC7, 0xFD, 0x77, 0x92, 0xAC, 0x03, 0x7A,
    ],
];

const fn ends(first: u8, middle: u8, last: u8) -> [u8; 32] {
    let mut bytes = [middle; 32];
    (bytes[0], bytes[31]) = (first, last);
    bytes
}

/// Whether a key is the canonical encoding of a point of large order.
pub fn check(key: &[u8; 32]) -> Result<(), KeyError> {
    if is_of_small_order(key) {
        return Err(KeyError::SmallOrder);
    }
    if !is_below(&y_of(key), &PRIME) || PublicKey::try_from(key).is_err() {
        return Err(KeyError::NotAPoint);
    }
    Ok(())
}

/// Whether `signature` is the canonical signature of `message` by a key that [`check`] accepts.
pub fn verifies(key: &[u8; 32], message: &[u8], signature: &[u8; 64]) -> bool {
    let Some((r, s)) = signature.split_first_chunk() else { return false };
    // R is compared with the encoding of a point, which is reduced.
    let canonical = s.first_chunk().is_some_and(|s| is_below(s, &ORDER)) && !is_of_small_order(r);
    canonical && PublicKey::try_from(key).is_ok_and(|key| key.verify(message, &Signature::from(signature)).is_ok())
}

/// Whether a reduced encoding is that of a point of small order.
fn is_of_small_order(point: &[u8; 32]) -> bool {
    SMALL_ORDER.contains(&y_of(point))
}

/// The coordinate y of an encoded point.
fn y_of(point: &[u8; 32]) -> [u8; 32] {
    let mut y = *point;
    y[31] &= 0x7F;
    y
}

/// Whether a number is below another one; both have the least byte first.
fn is_below(number: &[u8; 32], bound: &[u8; 32]) -> bool {
    number.iter().rev().lt(bound.iter().rev())
}

/// A SHA-512 in progress.
#[derive(Default)]
pub struct Sha512(salty::Sha512);

impl Sha512 {
    /// Begins a hash.
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
