//! Shapes that a graph leaves open and that its authors' programs use.

use super::proto::{GraphProto, ShapeProto, ValueInfo};

/// The shape of an input, where the sample rate that the graph runs at determines it.
///
/// Silero's voice activity detector reads chunks of 32 ms: those of versions 5 and 6 behind the last 4 ms of the previous
/// chunk, those of versions 3 and 4 alone. One export of version 5 is for 16 kHz only.
pub(super) fn shape(graph: &GraphProto, input: &str, rate: Option<f32>) -> Option<[usize; 2]> {
    let mut names: Vec<&str> = graph.input.iter().map(|input| input.name.as_str()).collect();
    names.sort_unstable();
    // Two layers of 64 units, or h and c of one of 128.
    let is_state = |input: &ValueInfo| match input.of.as_ref().and_then(|of| of.tensor.as_ref()?.shape.as_ref()) {
        Some(ShapeProto { dim }) => match dim.as_slice() {
            [layers, _, units] => layers.value == Some(2) && matches!(units.value, Some(64 | 128)),
            _ => false,
        },
        None => false,
    };
    if !graph.input.iter().any(is_state) {
        return None;
    }
    let samples = match (names.as_slice(), rate) {
        _ if input != "input" => return None,
        (["input", "sr", "state"], Some(16_000.0)) | (["input", "state"], None) => 576,
        (["input", "sr", "state"], Some(8_000.0)) => 288,
        (["c", "h", "input", "sr"], Some(16_000.0)) => 512,
        (["c", "h", "input", "sr"], Some(8_000.0)) => 256,
        _ => return None,
    };
    Some([1, samples])
}
