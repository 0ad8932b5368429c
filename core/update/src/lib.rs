#![doc = include_str!("../README.md")]
#![no_std]
#![deny(missing_docs)]

mod bytes;
mod ed25519;
mod error;
mod fault;
mod flash;
mod journal;
mod key;
mod key_id;
mod receiver;
mod record;
mod signature;
mod slots;
mod tested;
mod trusted;
mod updater;

/// The verifier of the feature `small`, for tests on a host.
#[cfg(feature = "small")]
#[doc(hidden)]
pub mod internals {
    pub use crate::ed25519::small;
}

pub use error::{KeyError, TrustError};
pub use fault::UpdateError;
pub use flash::{Blocking, Mapped, block_on};
pub use key::{KeyChange, Keys, PublicKey};
pub use key_id::KeyId;
pub use receiver::Receiver;
pub use record::{Bank, Phase, Wear};
pub use signature::Signed;
pub use slots::{Active, Boot, Slots};
pub use tested::{TestError, Tested};
pub use trusted::{Parse, Policy, Trusted};
pub use updater::Updater;
