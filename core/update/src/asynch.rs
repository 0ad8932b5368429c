//! The types of this crate for asynchronous flash. Their operations are `async` functions, over drivers of
//! `embedded-storage-async`. The compiler adds a panic to each of them, for a future that is polled after its end.

use embedded_storage_async::nor_flash;

/// A function that operates on flash.
macro_rules! operation {
    ($(#[$attribute:meta])* fn $name:ident $arguments:tt -> $output:ty;) => {
        $(#[$attribute])*
        fn $name $arguments -> impl Future<Output = $output>;
    };
    ($(#[$attribute:meta])* $visibility:vis fn $($function:tt)*) => {
        $(#[$attribute])*
        $visibility async fn $($function)*
    };
}

/// The outcome of an operation on flash.
macro_rules! wait {
    ($operation:expr) => {
        $operation.await
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
