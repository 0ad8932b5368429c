//! Ed25519 and SHA-512. Two crates verify the same signatures: `dalek` is faster, `salty` is smaller.

mod fast;
#[cfg(feature = "small")]
pub mod small;

// `sha2` is small with `sha2_backend_soft="compact"` only; otherwise `small` takes the hash of `salty`.
#[cfg(not(all(feature = "small", target_os = "none", not(sha2_backend_soft = "compact"))))]
pub use fast::Sha512;
#[cfg(not(all(feature = "small", target_os = "none")))]
pub use fast::{check, verifies};
#[cfg(all(feature = "small", target_os = "none", not(sha2_backend_soft = "compact")))]
pub use small::Sha512;
#[cfg(all(feature = "small", target_os = "none"))]
pub use small::{check, verifies};

/// The SHA-512 over some bytes.
pub fn sha512(bytes: &[u8]) -> [u8; 64] {
    let mut hash = Sha512::new();
    hash.update(bytes);
    hash.finalize()
}
