//! The contents of a model: layers, sizes, memory, front end, detector.

use serde::Serialize;
use serde_json::{Value, json};
use tidegate::front_end::Mfcc;
use tidegate::internals::node::Node;
use tidegate::{Model, Port};
#[cfg(feature = "sign")]
use tidegate_update::Signed;

use crate::cadence::steps_per_output;
use crate::canonical;
#[cfg(feature = "sign")]
use crate::sign::hex;
use crate::sound::schedule_json;

/// Bytes of RAM without the stack: state, scratch, front end, detector.
pub fn ram_bytes(model: &Model<'_>) -> [usize; 4] {
    let front_end = match model.integer_front_end() {
        Some(front_end) => front_end.memory_words(),
        None => model.front_end().map_or(0, Mfcc::memory_words),
    };
    let detector = model.detector().map_or(0, |detector| match model.numeric().is_integer() {
        true => detector.integer_memory_words(),
        false => detector.memory_words(),
    });
    [model.state_words(), model.scratch_words(), front_end, detector].map(|words| 4 * words)
}

/// Every node with its name.
pub fn named_nodes<'a>(model: &'a Model<'a>) -> Vec<(String, Node<'a>)> {
    let mut names = model.node_names().map(str::to_owned);
    let name = |index| names.next().unwrap_or_else(|| format!("node {index}"));
    (0..).map(name).zip(model.nodes()).collect()
}

/// The options of a node that are enabled.
pub fn options(node: &Node<'_>) -> Vec<String> {
    let names = node.spec().options.iter();
    (0..).zip(names).filter(|&(bit, _)| node.has(bit)).map(|(_, name)| (*name).to_owned()).collect()
}

/// The parameters of a node. In an integer numeric they are internal to the packer.
pub fn params(model: &Model<'_>, node: &Node<'_>) -> impl Iterator<Item = (&'static str, f32)> {
    let is_float = !model.numeric().is_integer();
    let params = node.spec().params.iter().enumerate().map(|(index, param)| (param.name, node.param(index)));
    params.filter(move |(_, value)| is_float && *value != 0.0)
}

/// The activations of a node, by their names in its spec.
pub fn activations(node: &Node<'_>) -> impl Iterator<Item = (&'static str, &'static str)> {
    let activations = node.spec().activations.iter().enumerate();
    activations.map(|(index, spec)| (spec.name, node.activation(index).name()))
}

/// The extents of a node, by their names in its spec.
pub fn extents(node: &Node<'_>) -> impl Iterator<Item = (&'static str, usize)> {
    node.spec().extents.iter().enumerate().map(|(index, spec)| (spec.name, node.extent(index)))
}

/// Multiply-accumulates of one step of one state.
pub fn macs_per_step(model: &Model<'_>) -> usize {
    model.nodes().map(|node| node.macs()).sum()
}

fn object<T: Serialize>(fields: impl Iterator<Item = (&'static str, T)>) -> Value {
    fields.map(|(name, value)| (name.to_owned(), json!(value))).collect()
}

/// Counter, key and product that the signature of an image states, without verifying it; `null` without a signature.
#[cfg(feature = "sign")]
fn signature(image: &[u8]) -> Value {
    let of = |signed: Signed<'_>| json!({ "counter": signed.counter(), "key": signed.key().to_string(), "product": hex(&signed.product()) });
    Signed::find(image).ok().map_or(Value::Null, of)
}

#[cfg(not(feature = "sign"))]
fn signature(_: &[u8]) -> Value {
    Value::Null
}

/// A model and its image as one JSON value, as in docs/json.md.
pub fn to_json(model: &Model<'_>, image: &[u8]) -> Value {
    let layers: Vec<Value> = named_nodes(model)
        .into_iter()
        .map(|(name, node)| {
            json!({
                "name": name,
                "cell": node.spec().name,
                "input": node.input_size,
                "hidden": node.hidden_size,
                "output": node.output_size,
                "options": options(&node),
                "extents": object(extents(&node)),
                "unroll": node.unroll.map(|unroll| json!({
                    "steps": unroll.steps,
                    "read_backwards": unroll.read_backwards,
                    "write_backwards": unroll.write_backwards,
                    "stateful": unroll.stateful,
                    "apart": unroll.apart,
                })),
                "params": object(params(model, &node)),
                "activations": object(activations(&node)),
                "macs": node.macs(),
            })
        })
        .collect();
    let [state, scratch, sound, means] = ram_bytes(model);
    let front_end = model.front_end().map(|front_end| canonical::Mfcc::from(front_end.settings()));
    let detector = model.detector().map(|detector| {
        let labels: Vec<Value> = (0..detector.label_count())
            .filter_map(|label| detector.label(label))
            .map(|label| json!({ "threshold": label.threshold, "refractory_ms": label.refractory_ms }))
            .collect();
        json!({ "mean_of": detector.mean_of(), "labels": labels })
    });
    let port = |port: Port<'_>| json!({ "name": port.name, "size": port.size, "scale": port.scale, "zero_point": port.zero_point });
    let work = model.work();
    let signature = signature(image);
    json!({
        "format": tidegate::internals::image::field::FORMAT_VERSION,
        "model_id": format!("{:016x}", model.id().0),
        "numeric": model.numeric().name(),
        "layout": model.layout().name(),
        "signed": !signature.is_null(),
        "signature": signature,
        "self_test": model.self_test().map(|test| json!({ "steps": test.steps(), "outputs": test.outputs() })),
        "layers": layers,
        "inputs": model.inputs().map(port).collect::<Vec<_>>(),
        "outputs": model.outputs().map(port).collect::<Vec<_>>(),
        "flash_bytes": image.len(),
        "state_bytes": state,
        "scratch_bytes": scratch,
        "front_end_bytes": sound,
        "detector_bytes": means,
        "macs_per_step": macs_per_step(model),
        "work": { "macs": work.macs, "curves": work.curves, "moves": work.moves, "bytes": work.bytes },
        "labels": model.labels().collect::<Vec<_>>(),
        "front_end": front_end,
        "front_end_scale": model.front_end().and_then(Mfcc::scale),
        "schedule": schedule_json(model.schedule()),
        "steps_per_output": steps_per_output(model),
        "detector": detector,
    })
}
