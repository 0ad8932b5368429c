#![doc = include_str!("../README.md")]
#![no_std]
#![deny(missing_docs)]
// The files of `both` are compiled twice: for blocking and for asynchronous flash.
#![expect(clippy::duplicate_mod)]

mod active;
pub mod asynch;
mod blocking;
mod bytes;
mod ed25519;
mod error;
mod fault;
mod frame;
mod key;
mod key_id;
mod mapped;
mod record;
mod refusal;
mod save_point;
mod signature;
mod tested;
mod trusted;
pub mod wire;

/// The verifier of the feature `small`, for tests on a host.
#[cfg(feature = "small")]
#[doc(hidden)]
pub mod internals {
    pub use crate::ed25519::small;
}

pub use active::{Active, Boot};
pub use blocking::{Endpoint, Flash, Receiver, Session, Slots, Updater};
pub use ed25519::sha512;
pub use error::{KeyError, TrustError};
pub use fault::UpdateError;
pub use frame::{FRAME_BYTES, Frames};
pub use key::{KeyChange, Keys, PublicKey};
pub use key_id::KeyId;
pub use mapped::Mapped;
pub use record::{Bank, Phase, Wear};
pub use refusal::Refusal;
pub use save_point::SavePointError;
pub use signature::Signed;
pub use tested::{TestError, Tested};
pub use trusted::{Parse, Policy, Trusted};
