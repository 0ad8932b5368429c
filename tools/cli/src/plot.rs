//! Drawings as SVG: the timeline of a stream, and curves over time.

mod canvas;
mod curves;
mod timeline;

pub use curves::{Curves, curves};
pub use timeline::{EventMark, Timeline, TruthSpan, timeline};
