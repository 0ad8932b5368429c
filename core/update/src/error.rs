//! Why an image, or a key, is not trusted.

use core::fmt;

use tidegate::{ImageError, Misaligned};

use crate::key_id::KeyId;

/// Why an image is not trusted.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the variants say what their fields hold")]
pub enum TrustError {
    /// The image has `needed` bytes, but only `given` are there.
    Truncated { needed: usize, given: usize },
    /// The bytes do not begin as an image of this format version.
    NotAnImage,
    /// The image has no signature, or the signature was stripped: the last section is not a signature that ends the image.
    Unsigned,
    /// The image is prepared for a signature, but the signature is not attached yet: its bytes are zero.
    NotAttached,
    /// This build does not know the version or the algorithm of the signature.
    UnsupportedSignature { version: u16, algorithm: u16 },
    /// The image names a key that the device does not hold.
    UnknownKey { key: KeyId },
    /// The image names a key that a key change has replaced.
    RevokedKey { key: KeyId },
    /// The key change that introduces the key of the image is not valid.
    Key(KeyError),
    /// The signature is not that of these bytes by this key.
    BadSignature,
    /// The image is for another product.
    WrongProduct { found: [u8; 16] },
    /// The security counter of the image is below that of the device.
    OldCounter { found: u32, needed: u32 },
    /// The image is not in aligned memory.
    Misaligned(Misaligned),
    /// No image has been confirmed yet.
    Empty,
    /// The signature is valid, but this build cannot run the image.
    Image(ImageError),
}

impl fmt::Display for TrustError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Truncated { needed, given } => {
                write!(f, "the image is truncated: it has {needed} bytes, but only {given} are there")
            }
            Self::NotAnImage => write!(f, "this is not a flash image of this format version"),
            Self::Unsigned => write!(f, "the image is not signed"),
            Self::NotAttached => write!(f, "the image is prepared for a signature, but has none yet"),
            Self::UnsupportedSignature { version, algorithm } => {
                write!(f, "this build does not know signatures of version {version} and algorithm {algorithm}")
            }
            Self::UnknownKey { key } => write!(f, "the image is signed by the unknown key {key}"),
            Self::RevokedKey { key } => write!(f, "the image is signed by the key {key}, which has been replaced"),
            Self::Key(error) => write!(f, "the key of the image is not valid: {error}"),
            Self::BadSignature => write!(f, "the signature is not that of this image: it is damaged or forged"),
            Self::WrongProduct { found } => {
                write!(f, "the image is for another product: ")?;
                found.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            Self::OldCounter { found, needed } => {
                write!(f, "the image has security counter {found}, but at least {needed} is required")
            }
            Self::Empty => write!(f, "no image has been confirmed yet"),
            Self::Misaligned(error) => error.fmt(f),
            Self::Image(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for TrustError {}

/// Why a public key or a key change is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the variants say what their fields hold")]
pub enum KeyError {
    /// The bytes are not the canonical encoding of a point of the curve.
    NotAPoint,
    /// The point has a small order: anybody could forge signatures for it.
    SmallOrder,
    /// The bytes are not those of a key change that this build knows.
    NotAChange,
    /// The key change is not signed by the root key.
    BadSignature,
    /// The key change is for another product.
    WrongProduct,
    /// The serial number of the key change is not above `held`, which the device has applied.
    OldSerial { found: u32, held: u32 },
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NotAPoint => write!(f, "the bytes are not an Ed25519 public key"),
            Self::SmallOrder => write!(f, "the public key has a small order, so that anybody could forge signatures"),
            Self::NotAChange => write!(f, "the bytes are not a key change that this build knows"),
            Self::BadSignature => write!(f, "the key change is not signed by the root key"),
            Self::WrongProduct => write!(f, "the key change is for another product"),
            Self::OldSerial { found, held } => {
                write!(f, "the key change has serial number {found}, but {held} has been applied")
            }
        }
    }
}

impl core::error::Error for KeyError {}
