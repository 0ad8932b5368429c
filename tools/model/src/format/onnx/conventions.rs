//! Shapes that a graph leaves open and that its authors' programs use.

use super::proto::GraphProto;

/// The shape of an input, where the sample rate that the graph runs at determines it.
///
/// Silero's voice activity detector (versions 5 and 6) reads chunks of 32 ms behind the last 4 ms of the previous chunk.
pub(super) fn shape(graph: &GraphProto, input: &str, rate: Option<f32>) -> Option<[usize; 2]> {
    let mut names: Vec<&str> = graph.input.iter().map(|input| input.name.as_str()).collect();
    names.sort_unstable();
    match (names == ["input", "sr", "state"] && input == "input", rate) {
        (true, Some(16_000.0)) => Some([1, 576]),
        (true, Some(8_000.0)) => Some([1, 288]),
        _ => None,
    }
}
