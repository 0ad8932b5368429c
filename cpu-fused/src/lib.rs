#![doc = include_str!("../README.md")]
#![deny(missing_docs)]

mod arch;
mod arenas;
mod curves;
mod error;
mod front_end;
mod integer;
mod isa;
mod kernels;
mod layer;
mod lines;
mod model;
mod node;
mod panels;
mod patch;
mod plan;
mod pool;
mod sequence;
#[cfg(feature = "tokio")]
mod served;
mod simd;
mod step;
mod stream;
mod sums;
#[cfg(feature = "threads")]
mod threads;
mod weight;
mod windows;

pub use error::PackError;
pub use front_end::host_front_end;
pub use isa::Isa;
pub use model::{FusedModel, Scratch};
pub use pool::{PoolError, StreamId, StreamPool};
#[cfg(feature = "tokio")]
pub use served::{Limits, PoolServer, ServeError, Served, ServedStream};
pub use stream::Stream;
#[cfg(feature = "threads")]
pub use threads::ParScratch;
