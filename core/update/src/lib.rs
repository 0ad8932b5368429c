#![doc = include_str!("../README.md")]
#![no_std]
#![deny(missing_docs)]

mod bytes;
mod ed25519;
mod endpoint;
mod error;
mod fault;
mod flash;
mod frame;
mod journal;
mod key;
mod key_id;
mod paused;
mod receiver;
mod record;
mod refusal;
mod save_point;
mod session;
mod signature;
mod slots;
mod tested;
mod trusted;
mod updater;
pub mod wire;

/// The verifier of the feature `small`, for tests on a host.
#[cfg(feature = "small")]
#[doc(hidden)]
pub mod internals {
    pub use crate::ed25519::small;
}

pub use ed25519::sha512;
pub use endpoint::Endpoint;
pub use error::{KeyError, TrustError};
pub use fault::UpdateError;
pub use flash::{Blocking, Flash, Mapped, block_on};
pub use frame::{FRAME_BYTES, Frames};
pub use key::{KeyChange, Keys, PublicKey};
pub use key_id::KeyId;
pub use receiver::Receiver;
pub use record::{Bank, Phase, Wear};
pub use refusal::Refusal;
pub use save_point::SavePointError;
pub use session::Session;
pub use signature::Signed;
pub use slots::{Active, Boot, Slots};
pub use tested::{TestError, Tested};
pub use trusted::{Parse, Policy, Trusted};
pub use updater::Updater;
