//! Signed images for `update`: the keyword spotter with two counters.

use std::error::Error;

use tidegate_model::self_test::with_self_test;
use tidegate_model::sign::SecretKey;

/// Product of the example.
const PRODUCT: [u8; 16] = *b"tidegate example";

/// A key for examples: everybody knows it.
fn key() -> SecretKey {
    SecretKey::from_seed(&[7; 32])
}

/// The image with a self-test, signed with the counters 1 and 2.
pub fn signed(image: &[u8]) -> Result<[Vec<u8>; 2], Box<dyn Error>> {
    let image = with_self_test(image)?;
    Ok([key().sign(&image, &PRODUCT, 1)?, key().sign(&image, &PRODUCT, 2)?])
}
