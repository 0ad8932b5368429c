//! The files of `both` for flash whose operations block. rustfmt does not format the functions in `operation`.

use embedded_storage::nor_flash;

/// A function that operates on flash.
macro_rules! operation {
    ($($function:tt)*) => { $($function)* };
}

/// The outcome of an operation on flash.
macro_rules! wait {
    ($operation:expr) => {
        $operation
    };
}

#[path = "both/endpoint.rs"]
mod endpoint;
#[path = "both/flash.rs"]
mod flash;
#[path = "both/journal.rs"]
mod journal;
#[path = "both/paused.rs"]
mod paused;
#[path = "both/receiver.rs"]
mod receiver;
#[path = "both/session.rs"]
mod session;
#[path = "both/slots.rs"]
mod slots;
#[path = "both/updater.rs"]
mod updater;

pub use endpoint::Endpoint;
pub use flash::Flash;
pub use receiver::Receiver;
pub use session::Session;
pub use slots::Slots;
pub use updater::Updater;
