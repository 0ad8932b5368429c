//! A whole frozen graph: what it computes, then the layers that compute the same.

use super::evaluate::Evaluator;
use super::graph::{Graph, Source};
use super::lower::Lowering;
use crate::canonical::Schedule;
use crate::error::ImportError;
use crate::format::description::Imported;
use crate::format::graphdef::NodeDef;

/// Most outputs.
const MAX_OUTPUTS: usize = 16;

/// The network of a frozen graph. Its input is named after the node that gives the features, its outputs after the
/// nodes that no other uses; labels and detector are left to the caller.
///
/// # Errors
/// If a node that an output needs computes what is not known; the error names it. If an input has other steps than
/// `window`, which a person says.
pub fn import_graph(nodes: &[NodeDef], name: &str, window: Option<usize>) -> Result<Imported, ImportError> {
    let graph = Graph::new(nodes)?;
    let ends = ends(&graph)?;
    let mut evaluator = Evaluator::new(&graph, window)?;
    let mut outputs = Vec::new();
    for &end in &ends {
        outputs.push(evaluator.read(Source { node: end, output: 0 })?);
    }
    if window.is_some() && !evaluator.window_used {
        return Err(ImportError::Unsupported("--window with a graph whose input has no steps".into()));
    }
    let front_end = evaluator.front_end.clone();
    let (latest, notes) = (evaluator.latest, std::mem::take(&mut evaluator.notes));
    let mut lowering = Lowering::new(&mut evaluator, &outputs)?;
    let mut per_clip = true;
    for (&end, &output) in ends.iter().zip(&outputs) {
        per_clip &= lowering.output(output, &graph.nodes[end].def.name)?;
    }
    let front_end = front_end.filter(|front_end| Some(front_end.node) == lowering.input_node());
    let steps = lowering.steps.and_then(|steps| u32::try_from(steps).ok());
    if latest.is_some_and(|latest| lowering.steps.is_none_or(|steps| latest >= steps as i64)) {
        return Err(ImportError::Unsupported("a sequence_length with more steps than the graph's input has".into()));
    }
    let schedule = match (steps, &front_end) {
        (Some(frames), Some(front_end)) if per_clip => Schedule::Windows { frames, every: front_end.mfcc.every() },
        // The graph looks at windows of its own length and says nothing of overlap.
        (Some(frames), None) if per_clip && frames > 1 => Schedule::Windows { frames, every: frames },
        _ => Schedule::Endless,
    };
    let mut model = lowering.network.model(format!("{name}, a TensorFlow 1 graph"))?;
    model.architecture.front_end = front_end.map(|front_end| front_end.mfcc);
    model.architecture.schedule = schedule;
    model.validate()?;
    Ok(Imported { model, notes })
}

/// The nodes that no other uses.
fn ends(graph: &Graph<'_>) -> Result<Vec<usize>, ImportError> {
    let idle = |op: &str| matches!(op, "Const" | "NoOp" | "Placeholder" | "Assert");
    let ends: Vec<usize> =
        (0..graph.nodes.len()).filter(|&node| !graph.used[node] && !idle(&graph.nodes[node].def.op)).collect();
    let malformed = |reason: String| Err(ImportError::Malformed { format: "TensorFlow graph", reason });
    match ends.len() {
        0 => malformed("it has no output".into()),
        1..=MAX_OUTPUTS => Ok(ends),
        found => malformed(format!("it has {found} outputs, more than {MAX_OUTPUTS}")),
    }
}
