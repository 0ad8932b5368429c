//! Signatures of images, and the files of keys. The crate `tidegate-update` verifies signatures.

use ed25519_dalek::pkcs8::spki::der::pem::LineEnding;
use ed25519_dalek::pkcs8::{DecodePrivateKey, DecodePublicKey, EncodePrivateKey, EncodePublicKey, KeypairBytes};
use ed25519_dalek::{Signer, SigningKey, VerifyingKey};
use tidegate::SectionKind;
use tidegate::internals::image::field::{MAX_SECTIONS, header, section, signature};
use tidegate::internals::write::seal;
use tidegate_update::{KeyChange, KeyError, PublicKey, Signed, TrustError};

/// Why an image cannot be signed, or a key cannot be read.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the error texts explain the variants")]
pub enum SignError {
    #[error("the image cannot have another section: it has {MAX_SECTIONS}")]
    TooManySections,
    #[error("the image has a signature of an unknown form: pack the model again")]
    UnknownSignature,
    #[error("the image would have more than 4 GiB")]
    TooLarge,
    #[error("the signature is not that of this image by this key: give --key, --counter and --product as for --digest")]
    NotTheSignature,
    #[error("it is not an Ed25519 private key in PKCS#8 PEM: make one with `tidegate keygen KEY.pem`")]
    NotASecretKey,
    #[error("it is not an Ed25519 public key in PEM: `tidegate keygen KEY.pem` writes KEY.pub.pem")]
    NotAPublicKey,
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error("the system has no random numbers: {0}")]
    Random(String),
}

/// A private key.
#[derive(Debug)]
pub struct SecretKey(SigningKey);

impl SecretKey {
    /// A new key from the random numbers of the system.
    ///
    /// # Errors
    /// If the system has none.
    pub fn generate() -> Result<Self, SignError> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|error| SignError::Random(error.to_string()))?;
        Ok(Self::from_seed(&seed))
    }

    /// The key of a seed, RFC 8032's private key.
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        Self(SigningKey::from_bytes(seed))
    }

    /// Reads PKCS#8 in PEM.
    ///
    /// # Errors
    /// If the text is not a private key for Ed25519.
    pub fn from_pem(pem: &str) -> Result<Self, SignError> {
        SigningKey::from_pkcs8_pem(pem).map(Self).map_err(|_| SignError::NotASecretKey)
    }

    /// PKCS#8 in PEM, version 1, which every version of OpenSSL reads.
    pub fn to_pem(&self) -> String {
        let key = KeypairBytes { secret_key: self.0.to_bytes(), public_key: None };
        key.to_pkcs8_pem(LineEnding::LF).expect("the lengths are fixed").as_str().to_owned()
    }

    /// The public key.
    pub fn public(&self) -> PublicKey {
        PublicKey::new(self.0.verifying_key().as_bytes()).expect("a generated key is a point of large order")
    }

    /// Signs an image; an earlier signature is replaced.
    ///
    /// # Errors
    /// If the image cannot have a signature.
    pub fn sign(&self, image: &[u8], product: &[u8; 16], counter: u32) -> Result<Vec<u8>, SignError> {
        let prepared = prepare(image, &self.public(), product, counter)?;
        let signature = self.0.sign(&message(&prepared)?).to_bytes();
        attach(&prepared, &self.public(), &signature)
    }

    /// Signs a key change. This key is the root key.
    ///
    /// # Errors
    /// If the serial number is 0.
    pub fn sign_change(&self, change: &KeyChange) -> Result<KeyChange, SignError> {
        let signed = change.signed(&self.0.sign(change.message()).to_bytes());
        Ok(KeyChange::parse(signed.as_bytes())?)
    }
}

/// Reads a public key in PEM.
///
/// # Errors
/// If the text is not a public key for Ed25519, or the key is not acceptable.
pub fn public_from_pem(pem: &str) -> Result<PublicKey, SignError> {
    let key = VerifyingKey::from_public_key_pem(pem).map_err(|_| SignError::NotAPublicKey)?;
    Ok(PublicKey::new(key.as_bytes())?)
}

/// A public key in PEM.
pub fn public_to_pem(key: &PublicKey) -> String {
    let key = VerifyingKey::from_bytes(key.as_bytes()).expect("a public key is a point");
    key.to_public_key_pem(LineEnding::LF).expect("the lengths are fixed")
}

/// The message that a key signs for a prepared image: for keys in a hardware security module.
///
/// # Errors
/// If the image is not prepared.
pub fn message(prepared: &[u8]) -> Result<[u8; 80], SignError> {
    Ok(Signed::find(prepared).map_err(|_| SignError::UnknownSignature)?.message())
}

/// The image with a section for the signature, whose bytes are zero. `image` is a checked image.
///
/// # Errors
/// If the image cannot have another section.
pub fn prepare(image: &[u8], key: &PublicKey, product: &[u8; 16], counter: u32) -> Result<Vec<u8>, SignError> {
    let image = unsigned(image)?;
    let (head, table, payloads) = parts(&image);
    let sections = u16_of(head, header::SECTION_COUNT);
    if sections >= MAX_SECTIONS {
        return Err(SignError::TooManySections);
    }
    let len = image.len() + section::LEN + signature::LEN;
    let offset = u32::try_from(len - signature::LEN).map_err(|_| SignError::TooLarge)?;
    let mut entry = [0; section::LEN];
    entry[section::KIND].copy_from_slice(&SectionKind::Signature.code().to_le_bytes());
    entry[section::OFFSET].copy_from_slice(&offset.to_le_bytes());
    entry[section::PAYLOAD_LEN].copy_from_slice(&(signature::LEN as u32).to_le_bytes());
    let mut signed = [head, table, &entry, payloads, &Signed::payload(key.id(), product, counter)].concat();
    // The other payloads move by the length of the new entry.
    relocate(&mut signed, sections, |offset| offset + section::LEN as u32);
    finish(&mut signed, sections + 1)?;
    Ok(signed)
}

/// A prepared image with its signature.
///
/// # Errors
/// If `key` has not signed the image.
pub fn attach(prepared: &[u8], key: &PublicKey, signature: &[u8; 64]) -> Result<Vec<u8>, SignError> {
    if !key.verifies(&message(prepared)?, signature) {
        return Err(SignError::NotTheSignature);
    }
    let mut signed = prepared.to_vec();
    let start = signed.len() - signature.len();
    signed[start..].copy_from_slice(signature);
    seal(&mut signed);
    Ok(signed)
}

/// A checked image without its signature.
///
/// # Errors
/// If its signature has an unknown form.
pub fn unsigned(image: &[u8]) -> Result<Vec<u8>, SignError> {
    let len = u32_of(image, header::IMAGE_LEN) as usize;
    let image = &image[..len];
    match Signed::find(image) {
        Ok(_) => {}
        Err(TrustError::Unsigned) if !has_signature(image) => return Ok(image.to_vec()),
        Err(_) => return Err(SignError::UnknownSignature),
    }
    let (head, table, payloads) = parts(image);
    let sections = u16_of(head, header::SECTION_COUNT) - 1;
    let (table, _) = table.split_at(table.len() - section::LEN);
    let (payloads, _) = payloads.split_at(payloads.len() - signature::LEN);
    let mut bare = [head, table, payloads].concat();
    relocate(&mut bare, sections, |offset| offset - section::LEN as u32);
    finish(&mut bare, sections)?;
    Ok(bare)
}

fn has_signature(image: &[u8]) -> bool {
    let (_, table, _) = parts(image);
    table.chunks(section::LEN).any(|entry| u16_of(entry, section::KIND) == SectionKind::Signature.code())
}

/// Header, section table and payloads.
fn parts(image: &[u8]) -> (&[u8], &[u8], &[u8]) {
    let (head, rest) = image.split_at(header::LEN);
    let (table, payloads) = rest.split_at(usize::from(u16_of(head, header::SECTION_COUNT)) * section::LEN);
    (head, table, payloads)
}

/// Changes the offsets of the first `sections` sections.
fn relocate(image: &mut [u8], sections: u16, to: impl Fn(u32) -> u32) {
    let table = &mut image[header::LEN..][..usize::from(sections) * section::LEN];
    for entry in table.chunks_mut(section::LEN) {
        let offset = to(u32_of(entry, section::OFFSET));
        entry[section::OFFSET].copy_from_slice(&offset.to_le_bytes());
    }
}

/// Writes lengths and checksum.
fn finish(image: &mut [u8], sections: u16) -> Result<(), SignError> {
    let len = u32::try_from(image.len()).map_err(|_| SignError::TooLarge)?;
    image[header::SECTION_COUNT].copy_from_slice(&sections.to_le_bytes());
    image[header::IMAGE_LEN].copy_from_slice(&len.to_le_bytes());
    seal(image);
    Ok(())
}

fn u16_of(bytes: &[u8], field: std::ops::Range<usize>) -> u16 {
    u16::from_le_bytes(bytes[field].try_into().expect("the field has two bytes"))
}

fn u32_of(bytes: &[u8], field: std::ops::Range<usize>) -> u32 {
    u32::from_le_bytes(bytes[field].try_into().expect("the field has four bytes"))
}

/// Hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
