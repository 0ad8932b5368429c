//! Ed25519 and SHA-512. Two crates verify the same signatures: `dalek` is faster, `salty` is smaller.

mod fast;
#[cfg(feature = "small")]
pub mod small;

#[cfg(not(all(feature = "small", target_os = "none")))]
pub use fast::{Sha512, check, verifies};
#[cfg(all(feature = "small", target_os = "none"))]
pub use small::{Sha512, check, verifies};

/// The SHA-512 over some bytes.
pub fn sha512(bytes: &[u8]) -> [u8; 64] {
    let mut hash = Sha512::new();
    hash.update(bytes);
    hash.finalize()
}
