#![doc = include_str!("../README.md")]
#![no_std]
#![deny(missing_docs)]

mod bytes;
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
mod trusted;
mod updater;

pub use error::{KeyError, TrustError};
pub use fault::UpdateError;
pub use flash::{Blocking, Mapped, block_on};
pub use key::{KeyChange, Keys, PublicKey};
pub use key_id::KeyId;
pub use receiver::Receiver;
pub use record::{Bank, Phase, Wear};
pub use signature::Signed;
pub use slots::{Active, Boot, Slots};
pub use trusted::{Policy, Trusted};
pub use updater::Updater;
