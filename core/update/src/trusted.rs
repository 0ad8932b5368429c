//! Images whose signature is verified before their contents are used.

use tidegate::{ImageBytes, ImageError, Model};

use crate::error::TrustError;
use crate::key::{Accept, Keys};
use crate::signature::Signed;

/// Reads a verified image: [`Model::parse`], or [`Model::parse_in`] with the family of the firmware's own model.
pub type Parse = for<'a> fn(ImageBytes<'a>) -> Result<Model<'a>, ImageError>;

/// Which signed images a device accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// The product id that an image must have.
    pub product: [u8; 16],
    /// The lowest security counter: that of the device.
    pub counter: u32,
}

/// A model whose image is signed by a trusted key.
///
/// ```
/// use tidegate_update::{Keys, Policy, TrustError, Trusted};
///
/// # fn main() -> Result<(), tidegate_update::KeyError> {
/// # let root = *ed25519_dalek::SigningKey::from_bytes(&[7; 32]).verifying_key().as_bytes();
/// # let image = tidegate::Aligned(*include_bytes!("../../examples/kws.tgi"));
/// # let image = &image.0;
/// let policy = Policy::default();
/// let keys = Keys::new(&root, policy.product)?;
/// // This image is not signed.
/// assert!(matches!(Trusted::parse(image, &keys, &policy), Err(TrustError::Unsigned)));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Trusted<'a> {
    model: Model<'a>,
    signed: Signed<'a>,
}

impl<'a> Trusted<'a> {
    /// Verifies an image, then checks it as [`Model::parse`] does. Bytes after its end are ignored.
    ///
    /// # Errors
    /// The first reason not to trust the image.
    pub fn parse(image: &'a [u8], keys: &Keys, policy: &Policy) -> Result<Self, TrustError> {
        Self::parse_by(|bytes| Model::parse(bytes), image, keys, policy)
    }

    /// [`parse`](Self::parse) with `parse` in place of [`Model::parse`], which links the code of every cell into the firmware.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn parse_by(parse: Parse, image: &'a [u8], keys: &Keys, policy: &Policy) -> Result<Self, TrustError> {
        Self::accept(parse, image, keys, &policy.product, policy.counter, Accept::Current)
    }

    /// Accepts an image for `product` whose security counter is at least `counter`.
    #[inline(never)]
    pub(crate) fn accept(
        parse: Parse,
        image: &'a [u8],
        keys: &Keys,
        product: &[u8; 16],
        counter: u32,
        accept: Accept,
    ) -> Result<Self, TrustError> {
        let signed = verified(image, keys, product, counter, accept)?;
        let bytes = ImageBytes::new(image).map_err(TrustError::Misaligned)?;
        Ok(Self { model: parse(bytes).map_err(TrustError::Image)?, signed })
    }

    /// The model.
    pub fn model(&self) -> &Model<'a> {
        &self.model
    }

    /// Signer, product and counter of the image.
    pub fn signed(&self) -> &Signed<'a> {
        &self.signed
    }
}

/// Checks an image as an update for the product of the keys: the signature, then the contents.
#[inline(never)]
pub(crate) fn vet<'a>(parse: Parse, image: &'a [u8], keys: &Keys, counter: u32) -> Result<Signed<'a>, TrustError> {
    Trusted::accept(parse, image, keys, &keys.product(), counter, Accept::Current).map(|image| image.signed)
}

/// Verifies the signature of an image, its product and its security counter.
// Not inlined: its memory is free again when the contents are read.
#[inline(never)]
fn verified<'a>(
    image: &'a [u8],
    keys: &Keys,
    product: &[u8; 16],
    needed: u32,
    accept: Accept,
) -> Result<Signed<'a>, TrustError> {
    let signed = Signed::find(image)?;
    let key = keys.find(signed.key(), accept)?;
    let signature = signed.signature();
    if signature.iter().all(|byte| *byte == 0) {
        return Err(TrustError::NotAttached);
    }
    if !key.verifies(&signed.message(), &signature) {
        return Err(TrustError::BadSignature);
    }
    let (found, counter) = (signed.product(), signed.counter());
    if found != *product {
        return Err(TrustError::WrongProduct { found });
    }
    if counter < needed {
        return Err(TrustError::OldCounter { found: counter, needed });
    }
    Ok(signed)
}
