//! The host side of Tidegate: foreign files to canonical models, canonical models to flash images, and what
//! reads, scores and draws.

pub mod c_header;
/// What images are made for; a build script names it so without making its own features those of the host.
pub use tidegate;

pub mod canonical;
pub mod compare;
pub mod data;
pub mod drift;
pub mod engine;
pub mod error;
pub mod format;
pub mod load;
pub mod output;
pub mod pack;
#[cfg(feature = "cli")]
pub mod plot;
#[cfg(feature = "cli")]
pub mod progress;
pub mod quantize;
pub mod runner;
pub mod score;
