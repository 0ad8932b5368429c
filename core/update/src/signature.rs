//! The signature of an image: its position, the bytes that it covers, and the key that it names.

use tidegate::SectionKind;
use tidegate::internals::image::field::{FORMAT_VERSION, MAGIC_BYTES, header, section, signature};

use crate::bytes::{array, put};
use crate::ed25519::Sha512;
use crate::error::TrustError;
use crate::key_id::KeyId;

const VERSION: u16 = 1;
/// Ed25519.
const ALGORITHM: u16 = 1;
/// The first bytes of the message that is signed, so that no signature of another kind of document is valid for an image.
const DOMAIN: [u8; 16] = *b"Tidegate image 1";

/// Length of the message that is signed: the domain, then a SHA-512.
const MESSAGE_LEN: usize = DOMAIN.len() + 64;

/// An image with a signature that is not verified: [`Trusted::parse`](crate::Trusted::parse) verifies it.
#[derive(Clone, Copy, Debug)]
pub struct Signed<'a> {
    image: &'a [u8],
    payload: &'a [u8; signature::LEN],
}

impl<'a> Signed<'a> {
    /// Finds the signature of an image. Bytes after the end of the image are ignored.
    ///
    /// # Errors
    /// If the bytes are not an image, end before the image does, or have no signature of a known kind.
    pub fn find(bytes: &'a [u8]) -> Result<Self, TrustError> {
        let given = bytes.len();
        let Some(head) = bytes.first_chunk::<{ header::LEN }>() else {
            return Err(TrustError::Truncated { needed: header::LEN, given });
        };
        let version = u16::from_le_bytes(array(head, header::VERSION));
        if array(head, header::MAGIC) != MAGIC_BYTES || version != FORMAT_VERSION {
            return Err(TrustError::NotAnImage);
        }
        let needed = u32::from_le_bytes(array(head, header::IMAGE_LEN)) as usize;
        let image = bytes.get(..needed).ok_or(TrustError::Truncated { needed, given })?;
        let sections = u16::from_le_bytes(array(head, header::SECTION_COUNT));
        if !is_last(image, usize::from(sections)) {
            return Err(TrustError::Unsigned);
        }
        let signed = Self { image, payload: image.last_chunk().ok_or(TrustError::Unsigned)? };
        let version = u16::from_le_bytes(array(signed.payload, signature::VERSION));
        let algorithm = u16::from_le_bytes(array(signed.payload, signature::ALGORITHM));
        if (version, algorithm) != (VERSION, ALGORITHM) {
            return Err(TrustError::UnsupportedSignature { version, algorithm });
        }
        Ok(signed)
    }

    /// Creates the payload of the signature section of an image that is to be signed. The bytes of the signature are zero.
    pub fn payload(key: KeyId, product: &[u8; 16], counter: u32) -> [u8; signature::LEN] {
        let mut payload = [0; signature::LEN];
        put(&mut payload, signature::VERSION, &VERSION.to_le_bytes());
        put(&mut payload, signature::ALGORITHM, &ALGORITHM.to_le_bytes());
        put(&mut payload, signature::COUNTER, &counter.to_le_bytes());
        put(&mut payload, signature::KEY_ID, &key.0);
        put(&mut payload, signature::PRODUCT, product);
        payload
    }

    /// The id of the key that the image names as its signer. This is not verified.
    pub fn key(&self) -> KeyId {
        KeyId(array(self.payload, signature::KEY_ID))
    }

    /// The product that the image is for.
    pub fn product(&self) -> [u8; 16] {
        array(self.payload, signature::PRODUCT)
    }

    /// The security counter.
    pub fn counter(&self) -> u32 {
        u32::from_le_bytes(array(self.payload, signature::COUNTER))
    }

    /// The signature; zeros if it is not attached yet.
    pub fn signature(&self) -> [u8; 64] {
        array(self.payload, signature::SIGNATURE)
    }

    /// The first bytes of the signature, by which images that are verified are told apart.
    pub(crate) fn mark(&self) -> u64 {
        u64::from_le_bytes(array(self.payload, signature::SIGNATURE.start..signature::SIGNATURE.start + 8))
    }

    /// Length of the image in bytes.
    pub fn image_bytes(&self) -> usize {
        self.image.len()
    }

    /// The message that is signed: 16 characters, then the SHA-512 over all bytes of the image except the checksum and the
    /// signature.
    pub fn message(&self) -> [u8; MESSAGE_LEN] {
        let end = self.image.len().saturating_sub(signature::SIGNATURE.len());
        let mut hash = Sha512::new();
        hash.update(self.image.get(..header::CRC.start).unwrap_or_default());
        hash.update(self.image.get(header::CRC.end..end).unwrap_or_default());
        let mut message = [0; MESSAGE_LEN];
        let (domain, digest) = message.split_at_mut(DOMAIN.len());
        domain.copy_from_slice(&DOMAIN);
        digest.copy_from_slice(&hash.finalize());
        message
    }
}

/// Whether the last of the `sections` of an image is a signature that ends the image.
fn is_last(image: &[u8], sections: usize) -> bool {
    let Some(last) = sections.checked_sub(1) else { return false };
    let Some(entry) = image.get(header::LEN + last * section::LEN..).and_then(|rest| rest.first_chunk()) else {
        return false;
    };
    let entry: &[u8; section::LEN] = entry;
    let kind = u16::from_le_bytes(array(entry, section::KIND));
    let offset = u32::from_le_bytes(array(entry, section::OFFSET)) as usize;
    let len = u32::from_le_bytes(array(entry, section::PAYLOAD_LEN)) as usize;
    let start = image.len().checked_sub(signature::LEN);
    kind == SectionKind::Signature.code() && len == signature::LEN && Some(offset) == start
}
