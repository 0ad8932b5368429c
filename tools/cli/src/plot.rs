//! Drawings as SVG: the timeline of a stream, curves over time, a sound with its noise suppressed, and the memory of a
//! device.

mod canvas;
mod contents;
mod curves;
mod memory;
mod noise;
mod row;
mod timeline;
mod wave;

pub use contents::{EventMark, Timeline, TruthSpan};
pub use curves::{Curves, curves};
pub use memory::{Part, memory_map};
pub use noise::{Noise, noise};
pub use timeline::timeline;
