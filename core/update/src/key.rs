//! Public keys: the root key in the firmware, and the signing key that a signed key change introduces.

use core::ops::Range;

use crate::bytes::{array, put};
use crate::ed25519::{check, sha512, verifies};
use crate::error::{KeyError, TrustError};
use crate::key_id::KeyId;

/// An Ed25519 public key that is a canonical point of large order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublicKey([u8; Self::LEN]);

impl PublicKey {
    /// Length of an encoded key in bytes.
    pub const LEN: usize = 32;

    /// Decodes a key.
    ///
    /// # Errors
    /// If the bytes are not the canonical encoding of a point, or the point has a small order.
    pub fn new(bytes: &[u8; Self::LEN]) -> Result<Self, KeyError> {
        check(bytes).map(|()| Self(*bytes))
    }

    /// The encoded key.
    pub fn as_bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }

    /// The id by which images name the key.
    pub fn id(&self) -> KeyId {
        id_of(self.as_bytes())
    }

    /// Whether `signature` is the canonical signature of `message`. The work does not depend on a secret.
    pub fn verifies(&self, message: &[u8], signature: &[u8; 64]) -> bool {
        verifies(&self.0, message, signature)
    }
}

fn id_of(key: &[u8; PublicKey::LEN]) -> KeyId {
    KeyId(array(&sha512(key), 0..8))
}

/// Fields of a key change.
mod field {
    use super::Range;

    /// Magic, version and algorithm.
    pub const KIND: Range<usize> = 0..8;
    pub const SERIAL: Range<usize> = 8..12;
    pub const PRODUCT: Range<usize> = 12..28;
    // Bytes 28..32 are zero.
    pub const KEY: Range<usize> = 32..64;
    pub const SIGNATURE: Range<usize> = 64..128;
    pub const KIND_BYTES: [u8; 8] = *b"TGKC\x01\0\x01\0";
}

const KEY_AND_SIGNATURE_BYTES: usize = field::SIGNATURE.end - field::KEY.start;

/// A record that makes a public key the signing key of a product. The root key signs it.
///
/// | bytes | what |
/// |---|---|
/// | 0..4 | `TGKC` |
/// | 4..6 | version, u16: 1 |
/// | 6..8 | algorithm, u16: 1 Ed25519 |
/// | 8..12 | serial number, u32, from 1; a device refuses one that is not above the last |
/// | 12..28 | product id |
/// | 28..32 | zero |
/// | 32..64 | the new public key |
/// | 64..128 | signature of bytes 0..64 by the root key |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyChange([u8; Self::LEN]);

impl KeyChange {
    /// Length of a key change in bytes.
    pub const LEN: usize = field::SIGNATURE.end;

    /// A key change whose signature is missing: sign [`message`](Self::message), then call [`signed`](Self::signed).
    pub fn new(serial: u32, product: [u8; 16], key: &[u8; PublicKey::LEN]) -> Self {
        let mut signed = [0; KEY_AND_SIGNATURE_BYTES];
        put(&mut signed, 0..key.len(), key);
        Self::stored(serial, product, &signed)
    }

    /// The change with a key and the root key's signature, as a record of the journal stores them.
    pub(crate) fn stored(serial: u32, product: [u8; 16], signed: &[u8; KEY_AND_SIGNATURE_BYTES]) -> Self {
        let mut bytes = [0; Self::LEN];
        put(&mut bytes, field::KIND, &field::KIND_BYTES);
        put(&mut bytes, field::SERIAL, &serial.to_le_bytes());
        put(&mut bytes, field::PRODUCT, &product);
        put(&mut bytes, field::KEY.start..field::SIGNATURE.end, signed);
        Self(bytes)
    }

    /// Reads a key change. [`Keys::change`] verifies its signature.
    ///
    /// # Errors
    /// If the bytes are not those of a key change of this version.
    pub fn parse(bytes: &[u8]) -> Result<Self, KeyError> {
        let change = Self(bytes.try_into().map_err(|_| KeyError::NotAChange)?);
        let canonical = Self::new(change.serial(), change.product(), &change.key());
        if change.message() != canonical.message() || change.serial() == 0 {
            return Err(KeyError::NotAChange);
        }
        Ok(change)
    }

    /// The same change with its signature.
    pub fn signed(mut self, signature: &[u8; 64]) -> Self {
        put(&mut self.0, field::SIGNATURE, signature);
        self
    }

    /// The new key, then the signature.
    pub(crate) fn key_and_signature(&self) -> [u8; KEY_AND_SIGNATURE_BYTES] {
        array(&self.0, field::KEY.start..field::SIGNATURE.end)
    }

    /// The bytes that the root key signs.
    pub fn message(&self) -> &[u8] {
        self.0.split_at_checked(field::SIGNATURE.start).unwrap_or_default().0
    }

    /// The whole record.
    pub fn as_bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }

    /// The serial number.
    pub fn serial(&self) -> u32 {
        u32::from_le_bytes(array(&self.0, field::SERIAL))
    }

    /// The product id.
    pub fn product(&self) -> [u8; 16] {
        array(&self.0, field::PRODUCT)
    }

    /// The new key, encoded.
    pub fn key(&self) -> [u8; PublicKey::LEN] {
        array(&self.0, field::KEY)
    }

    /// The signature.
    pub fn signature(&self) -> [u8; 64] {
        array(&self.0, field::SIGNATURE)
    }

    /// The new key, if the root key has signed the change for this product.
    fn verified(&self, root: &PublicKey, product: &[u8; 16]) -> Result<PublicKey, KeyError> {
        if !root.verifies(self.message(), &self.signature()) {
            return Err(KeyError::BadSignature);
        }
        if self.product() != *product {
            return Err(KeyError::WrongProduct);
        }
        PublicKey::new(&self.key())
    }
}

/// The change that introduced the signing key, then that of the key that it has replaced.
pub(crate) type Changes = [Option<KeyChange>; 2];

/// Which images are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Accept {
    /// New images.
    Current,
    /// Also an image that the device has confirmed before its key was replaced.
    Replaced,
}

/// The keys that a device trusts: the root key, and two slots that key changes fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keys {
    root: PublicKey,
    product: [u8; 16],
    /// The signatures of the changes are verified whenever they are used.
    changes: Changes,
}

impl Keys {
    /// The keys of a device without a key change: the root key signs images.
    ///
    /// # Errors
    /// If `root` is not an acceptable public key.
    pub fn new(root: &[u8; PublicKey::LEN], product: [u8; 16]) -> Result<Self, KeyError> {
        Ok(Self { root: PublicKey::new(root)?, product, changes: [None; 2] })
    }

    /// These keys after a key change: the new key signs images, and the one before it is revoked. The root key may
    /// still sign images, because it could sign a key change as well.
    ///
    /// # Errors
    /// If the root key has not signed the change for this product, or its serial number is not above the last.
    pub fn change(&self, change: &KeyChange) -> Result<Self, KeyError> {
        change.verified(&self.root, &self.product)?;
        let [current, _] = self.changes;
        let (found, held) = (change.serial(), current.map_or(0, |change| change.serial()));
        if found <= held {
            return Err(KeyError::OldSerial { found, held });
        }
        Ok(Self { changes: [Some(*change), current], ..*self })
    }

    /// Takes the changes that a journal holds, which are verified when they are used.
    pub(crate) fn restore(&mut self, changes: Changes) {
        self.changes = changes;
    }

    pub(crate) fn changes(&self) -> &Changes {
        &self.changes
    }

    /// The product of the device.
    pub fn product(&self) -> [u8; 16] {
        self.product
    }

    /// The key with this id.
    pub(crate) fn find(&self, id: KeyId, accept: Accept) -> Result<PublicKey, TrustError> {
        if id == self.root.id() {
            return Ok(self.root);
        }
        for (change, is_accepted) in self.changes.iter().zip([true, accept == Accept::Replaced]) {
            let Some(change) = change.as_ref().filter(|change| id_of(&change.key()) == id) else { continue };
            if !is_accepted {
                return Err(TrustError::RevokedKey { key: id });
            }
            return change.verified(&self.root, &self.product).map_err(TrustError::Key);
        }
        Err(TrustError::UnknownKey { key: id })
    }
}
