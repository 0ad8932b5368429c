//! Import of a whole frozen graph: the nodes are evaluated to expressions, and the expressions are lowered to layers.

use super::graph::{Graph, Source, malformed};
use super::{cells::unsupported_if, evaluate::Evaluator, front_end::FrontEnd, lower::Lowering};
use crate::format::{Options, description::Imported, graphdef::NodeDef, onnx::Given, refuse::check_window};
use crate::{canonical::Schedule, data::one_line, error::ImportError, error::Result};

/// Maximum number of outputs.
const MAX_OUTPUTS: usize = 16;

/// Imports the network of a frozen graph. The input is named after the node that produces the features, and the outputs
/// are named after the nodes that no other node uses. Labels and the detector are left to the caller.
///
/// # Errors
/// If a node that an output needs is not supported; the error names the node. If the number of steps of an input
/// differs from the number that the user gave.
pub fn import_graph(nodes: &[NodeDef], name: &str, options: &Options) -> Result<Imported> {
    let Options { window, onnx: Given { shapes, .. }, .. } = options;
    let graph = Graph::new(nodes)?;
    let ends = ends(&graph)?;
    let is_input = |name: &str| nodes.iter().any(|node| node.name == name && node.op.starts_with("Placeholder"));
    if let Some(unknown) = shapes.keys().find(|name| !is_input(name)) {
        return Err(ImportError::Refused {
            found: one_line(&format!("--shape of {unknown:?}: the graph has no such placeholder")),
            advice: "name a placeholder of the graph",
        });
    }
    let mut evaluator = Evaluator::new(&graph, *window, shapes)?;
    let outputs: Result<Vec<_>> = ends.iter().map(|&node| evaluator.read(Source { node, output: 0 })).collect();
    let outputs = outputs?;
    if let Some((input, steps)) = &evaluator.other_window {
        check_window(input, Some(*steps), *window)?;
    }
    unsupported_if(window.is_some() && !evaluator.window_used, "--window with a graph whose input has no steps")?;
    if let Some(unused) = shapes.keys().find(|name| !evaluator.shapes_used.contains(*name)) {
        return Err(ImportError::Refused {
            found: one_line(&format!("--shape of {unused:?}: no output depends on the shape of this placeholder")),
            advice: "leave the option out",
        });
    }
    let front_end = evaluator.front_end.clone();
    let (latest, notes) = (evaluator.latest, std::mem::take(&mut evaluator.notes));
    let mut lowering = Lowering::new(&mut evaluator, &outputs)?;
    let mut per_clip = true;
    for (&end, &output) in ends.iter().zip(&outputs) {
        per_clip &= lowering.output(output, &graph.nodes[end].def.name)?;
    }
    let front_end = front_end.filter(|front_end| Some(front_end.node) == lowering.input_node());
    let assumptions = front_end.iter().map(FrontEnd::assumption).collect();
    let steps = lowering.steps.and_then(|steps| u32::try_from(steps).ok());
    let beyond = latest.is_some_and(|latest| lowering.steps.is_none_or(|steps| latest >= steps as i64));
    unsupported_if(beyond, "a sequence_length with more steps than the graph's input has")?;
    let schedule = match (steps, &front_end) {
        (Some(frames), Some(front_end)) if per_clip => Schedule::Windows { frames, every: front_end.mfcc.every() },
        // The graph processes windows of a fixed length; it does not specify an overlap.
        (Some(frames), None) if per_clip && frames > 1 => Schedule::Windows { frames, every: frames },
        _ => Schedule::Endless,
    };
    let mut model = lowering.network.model(format!("{name}, a TensorFlow 1 graph"))?;
    model.architecture.front_end = front_end.map(|front_end| front_end.mfcc);
    model.architecture.schedule = schedule;
    model.validate()?;
    Ok(Imported { model, notes, assumptions })
}

/// The nodes that no other node uses.
fn ends(graph: &Graph<'_>) -> Result<Vec<usize>> {
    let idle = |op: &str| matches!(op, "Const" | "NoOp" | "Placeholder" | "Assert");
    let ends: Vec<usize> =
        (0..graph.nodes.len()).filter(|&node| !graph.used[node] && !idle(&graph.nodes[node].def.op)).collect();
    match ends.len() {
        0 => malformed("it has no output".into()),
        1..=MAX_OUTPUTS => Ok(ends),
        _ => Err(ImportError::Limit { most: MAX_OUTPUTS, what: "outputs" }),
    }
}
