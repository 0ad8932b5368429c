//! With the crates `ed25519-dalek` and `sha2`.
#![cfg_attr(all(feature = "small", target_os = "none"), expect(dead_code, reason = "`small` verifies"))]

use ed25519_dalek::{Signature, VerifyingKey};
use sha2::Digest;

use crate::error::KeyError;

/// Whether a key is the canonical encoding of a point of large order.
pub fn check(key: &[u8; 32]) -> Result<(), KeyError> {
    let point = VerifyingKey::from_bytes(key).map_err(|_| KeyError::NotAPoint)?;
    if point.is_weak() {
        return Err(KeyError::SmallOrder);
    }
    // `from_bytes` reduces the coordinate, so that a point could have two encodings and therefore two key ids.
    if point.to_edwards().compress().as_bytes() == key { Ok(()) } else { Err(KeyError::NotAPoint) }
}

/// Whether `signature` is the canonical signature of `message` by a key that [`check`] accepts.
pub fn verifies(key: &[u8; 32], message: &[u8], signature: &[u8; 64]) -> bool {
    let key = VerifyingKey::from_bytes(key);
    key.is_ok_and(|key| key.verify_strict(message, &Signature::from_bytes(signature)).is_ok())
}

/// A SHA-512 in progress. Its functions are not inlined, because each is called in many places.
pub struct Sha512(sha2::Sha512);

impl Sha512 {
    #[inline(never)]
    pub fn new() -> Self {
        Self(sha2::Sha512::new())
    }

    #[inline(never)]
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    #[inline(never)]
    pub fn finalize(self) -> [u8; 64] {
        self.0.finalize().into()
    }
}
