//! Signatures of images, and the files of keys. The crate `tidegate-update` verifies signatures.

use ed25519_dalek::pkcs8::spki::der::pem::LineEnding;
use ed25519_dalek::pkcs8::{DecodePrivateKey, DecodePublicKey, EncodePrivateKey, EncodePublicKey, KeypairBytes};
use ed25519_dalek::{Signer, SigningKey, VerifyingKey};
use tidegate::SectionKind;
use tidegate::internals::image::field::header;
use tidegate::internals::write::seal;
use tidegate_update::{KeyChange, KeyError, PublicKey, Signed, TrustError};

use crate::sections::{SectionsError, append, has, u32_of, without_last};

/// Why an image cannot be signed, or a key cannot be read.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the error texts explain the variants")]
pub enum SignError {
    #[error(transparent)]
    Sections(#[from] SectionsError),
    #[error("the image has a signature of an unknown form: pack the model again")]
    UnknownSignature,
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
    let payload = Signed::payload(key.id(), product, counter);
    Ok(append(&unsigned(image)?, SectionKind::Signature, &payload)?)
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
        Err(TrustError::Unsigned) if !has(image, SectionKind::Signature) => return Ok(image.to_vec()),
        Err(_) => return Err(SignError::UnknownSignature),
    }
    Ok(without_last(image)?)
}

/// Hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
