//! Drawings as SVG: the timeline of a stream, curves over time, and a sound with its noise suppressed.

mod canvas;
mod curves;
mod noise;
mod timeline;
mod wave;

pub use curves::{Curves, curves};
pub use noise::{Noise, noise};
pub use timeline::{EventMark, Timeline, TruthSpan, timeline};
