//! Shapes that a graph leaves open and that its authors' programs use.

use super::proto::{DimProto, GraphProto, ValueInfo};

/// The shape of an input, where the sample rate that the graph runs at determines it.
///
/// Silero's voice activity detector reads chunks of 32 ms. In versions 5 and 6, the last 4 ms of the previous chunk precede
/// the chunk; versions 3 and 4 read the chunk alone. One export of version 5 is for 16 kHz only; the name of its second
/// output distinguishes it from other networks with the same input names. Chunks have two dimensions, so an input with
/// features has another shape.
pub(super) fn shape(graph: &GraphProto, input: &str, rate: Option<f32>) -> Option<[usize; 2]> {
    let mut names: Vec<&str> = graph.input.iter().map(|input| input.name.as_str()).collect();
    names.sort_unstable();
    // Two layers of 64 units, or h and c of one layer of 128 units.
    let is_state = |input: &ValueInfo| match dims(input) {
        [layers, _, units] => layers.value == Some(2) && matches!(units.value, Some(64 | 128)),
        _ => false,
    };
    let is_chunk = |port: &ValueInfo| port.name == input && dims(port).len() == 2;
    if !graph.input.iter().any(is_state) || !graph.input.iter().any(is_chunk) {
        return None;
    }
    let has_state_out = graph.output.iter().any(|output| output.name == "stateN");
    let samples = match (names.as_slice(), rate) {
        _ if input != "input" => return None,
        (["input", "sr", "state"], Some(16_000.0)) => 576,
        (["input", "state"], None) if has_state_out => 576,
        (["input", "sr", "state"], Some(8_000.0)) => 288,
        (["c", "h", "input", "sr"], Some(16_000.0)) => 512,
        (["c", "h", "input", "sr"], Some(8_000.0)) => 256,
        _ => return None,
    };
    Some([1, samples])
}

fn dims(port: &ValueInfo) -> &[DimProto] {
    let shape = port.of.as_ref().and_then(|of| of.tensor.as_ref()?.shape.as_ref());
    shape.map_or(&[], |shape| &shape.dim)
}
