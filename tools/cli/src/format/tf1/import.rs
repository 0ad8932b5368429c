//! A whole frozen graph: softmax, dense layers, recurrent layers, features, front end, from the end to the start.

use tidegate::activation::Activation;
use tidegate::cell::CellKind;

use super::front_end::Features;
use super::graph::{Graph, Value};
use super::matcher::Matcher;
use super::while_loop::Loop;
use super::{gru, lstm};
use crate::canonical::Canonical;
use crate::error::ImportError;
use crate::format::graphdef::NodeDef;
use crate::format::layer::{Layer, chain};
use crate::format::weights::Named;

/// Most layers; a keyword spotter has two to five.
const MAX_LAYERS: usize = 64;

/// The network of a frozen graph. Its input is named after the node that gives the features, its output after the
/// Softmax; labels and detector are left to the caller.
///
/// # Errors
/// If a node of the graph is part of no pattern that is known; the error names it.
pub fn import_graph(nodes: &[NodeDef], name: &str) -> Result<Canonical, ImportError> {
    let graph = Graph::new(nodes)?;
    let mut m = Matcher::new(&graph);
    let output = output(&m)?;
    let [mut value] = m.expect(output, "Softmax")?;

    // From the last layer to the first.
    let mut layers = Vec::new();
    while m.op(value)?.1 != "Exit" {
        let (layer, input) = dense(&mut m, value)?;
        push(&m, &mut layers, layer, value)?;
        value = input;
    }
    let (body, mut hidden) = Loop::read(&mut m, value)?;
    let sequence = loop {
        let (layer, x) = match m.op(body.next(hidden))?.1 {
            "Add" | "AddV2" => gru::read(&mut m, &body, hidden),
            "Mul" | "MatMul" | "Maximum" | "ClipByValue" => lstm::read(&mut m, &body, hidden),
            _ => m.fail(body.next(hidden), "no cell that this importer knows ends so"),
        }?;
        push(&m, &mut layers, layer, x)?;
        match body.becomes(x) {
            Some(below) => hidden = below,
            None => break body.sequence(&mut m, x)?,
        }
    };
    let features = Features::read(&mut m, sequence, body.steps)?;
    m.check_all_read()?;

    layers.reverse();
    let size = layers.last().map_or(0, |layer| layer.output_size);
    layers.push(Layer::new(CellKind::Softmax, size, size));
    let found = layers[0].input_size;
    if found != features.size {
        return m.fail(sequence, format!("it gives {} features, but the first layer takes {found}", features.size));
    }
    let source = format!("{name}, a TensorFlow 1 graph");
    let mut model = chain(source, &features.name, layers, &m.node(output).def.name)?;
    model.architecture.front_end = features.front_end;
    model.architecture.schedule = features.schedule;
    model.validate()?;
    Ok(model)
}

/// The one node that no other uses, a Softmax.
fn output(m: &Matcher<'_>) -> Result<Value, ImportError> {
    let idle = |op: &str| matches!(op, "Const" | "NoOp" | "Placeholder");
    let ends: Vec<Value> = (0..m.graph.nodes.len())
        .map(|node| Value { node, output: 0 })
        .filter(|&value| !m.graph.used[value.node] && !idle(&m.node(value).def.op))
        .collect();
    let output = ends.iter().find(|&&end| m.node(end).def.op == "Softmax");
    match (output, ends.iter().find(|&end| Some(end) != output)) {
        (Some(&output), None) => Ok(output),
        (Some(_), Some(&second)) => m.fail(second, "it is a second output, but one is read"),
        (None, Some(&end)) => m.fail(end, "the output must be a Softmax"),
        (None, None) => Err(ImportError::Malformed { format: "TensorFlow graph", reason: "it has no output".into() }),
    }
}

fn push(m: &Matcher<'_>, layers: &mut Vec<Layer>, layer: Layer, at: Value) -> Result<(), ImportError> {
    if layers.len() == MAX_LAYERS {
        return m.fail(at, format!("the network has more than {MAX_LAYERS} layers"));
    }
    layers.push(layer);
    Ok(())
}

/// `act(x W + b)`, and x.
fn dense(m: &mut Matcher<'_>, value: Value) -> Result<(Layer, Value), ImportError> {
    let (activation, value) = m.activation(value)?.unwrap_or((Activation::Identity, value));
    let (product, bias) = match m.op(value)? {
        (_, "MatMul") => (value, None),
        _ => {
            let [product, bias] = m.biased(value)?;
            (product, Some(m.constant(bias)?))
        }
    };
    let [x, weights] = m.product(product)?;
    let weights = m.constant(weights)?;
    let node = m.source(product)?;
    let weights = Named { name: &m.node(node).def.name, tensor: &weights };
    let (input, units) = weights.matrix()?;
    let mut layer = Layer::new(CellKind::Dense, input, units)
        .tensor("weights", weights.transposed(0, input)?)
        .activation("activation", activation);
    if let Some(bias) = bias {
        layer = layer.tensor("bias", Named { name: weights.name, tensor: &bias }.shaped(&[units], units)?);
    }
    Ok((layer, x))
}
