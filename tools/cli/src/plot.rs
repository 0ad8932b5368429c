//! Drawings as SVG: the timeline of a stream, curves over time, and a sound with its noise suppressed, and the memory of
//! a device.

mod canvas;
mod curves;
mod memory;
mod noise;
mod timeline;
mod wave;

pub use curves::{Curves, curves};
pub use memory::{Part, memory_map};
pub use noise::{Noise, noise};
pub use timeline::{EventMark, Timeline, TruthSpan, timeline};
