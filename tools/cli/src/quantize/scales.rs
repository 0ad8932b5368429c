//! What a unit of every value is worth.

use std::collections::BTreeMap;

use tidegate::activation::Activation;
use tidegate::cell::CellKind;
use tidegate::curve::Curve;
use tidegate::quant::MAX;

use super::Ranges;
use crate::canonical::{Canonical, Node};

/// 2^-15: of what is between -1 and 1.
pub const Q15: f64 = 1.0 / 32768.0;

/// What is left above the greatest value seen.
const HEADROOM: f64 = 1.05;

/// What a unit of every input and node is worth.
#[derive(Clone, Debug)]
pub struct Scales(BTreeMap<String, f64>);

impl Scales {
    /// Of all values of a model, which is given back with a node more wherever one reads values whose scales differ: an
    /// identity that brings the finer one to the scale of the coarsest.
    pub fn assign(mut model: Canonical, ranges: &Ranges) -> (Canonical, Self) {
        let mut scales = Self(BTreeMap::new());
        let mut sizes = BTreeMap::new();
        for input in &model.architecture.inputs {
            let scale = if is_index(&model, &input.name) { 1.0 } else { from_range(ranges.of(&input.name)) };
            scales.0.insert(input.name.clone(), scale);
            sizes.insert(input.name.clone(), input.size);
        }
        let mut nodes = Vec::new();
        for mut node in std::mem::take(&mut model.architecture.nodes) {
            if !reads_parts(&node, |name| sizes[name]) {
                let common = node.inputs.iter().map(|name| scales.of(name)).fold(0.0, f64::max);
                for name in &mut node.inputs {
                    if scales.of(name) != common {
                        let identity = scales.bring(name, common, (&node.name, sizes[name.as_str()]));
                        sizes.insert(identity.name.clone(), identity.output_size);
                        name.clone_from(&identity.name);
                        nodes.push(identity);
                    }
                }
            }
            let scale = match output(&node) {
                Output::Bounded => Q15,
                Output::Measured => from_range(ranges.of(&node.name)).max(least_scale(&node, &model, ranges, &scales)),
                Output::AsInput => scales.input(&node),
                Output::AsGreatest => scales.parts(&node).into_iter().fold(0.0, f64::max),
            };
            scales.0.insert(node.name.clone(), scale);
            sizes.insert(node.name.clone(), node.output_size * node.steps());
            nodes.push(node);
        }
        model.architecture.nodes = nodes;
        (model, scales)
    }

    /// A node that brings a value of so many elements to another scale, for one that reads it.
    fn bring(&mut self, name: &str, scale: f64, (reader, size): (&str, usize)) -> Node {
        let mut brought = format!("{name} for {reader}");
        while self.0.contains_key(&brought) {
            brought.push('_');
        }
        self.0.insert(brought.clone(), scale);
        Node {
            name: brought,
            cell: CellKind::Identity.spec().name.to_owned(),
            inputs: vec![name.to_owned()],
            input_size: size,
            hidden_size: size,
            output_size: size,
            options: Vec::new(),
            params: BTreeMap::new(),
            activations: BTreeMap::new(),
            extents: BTreeMap::new(),
            unroll: None,
        }
    }

    /// What a unit of this value is worth.
    pub fn of(&self, name: &str) -> f64 {
        self.0.get(name).copied().unwrap_or(1.0)
    }

    /// What a unit of what a node reads is worth: of all of it, unless it reads parts.
    pub fn input(&self, node: &Node) -> f64 {
        node.inputs.first().map_or(1.0, |name| self.of(name))
    }

    /// What a unit of each part of what a [merge](tidegate::cell::merge) reads is worth: those of its values, if it reads
    /// one for each part, else all the same.
    pub fn parts(&self, node: &Node) -> Vec<f64> {
        let parts = node.input_size / node.output_size;
        if parts == node.inputs.len() {
            node.inputs.iter().map(|name| self.of(name)).collect()
        } else {
            vec![self.input(node); parts]
        }
    }
}

/// Whether an embedding reads a value, or what moves it reads it for one.
fn is_index(model: &Canonical, name: &str) -> bool {
    let mut indices = vec![name];
    for node in model.architecture.nodes.iter().filter(|node| matches!(output(node), Output::AsInput)) {
        if node.inputs.iter().any(|input| indices.contains(&input.as_str())) {
            indices.push(&node.name);
        }
    }
    let embedding = CellKind::Embedding.spec().name;
    let mut readers = model.architecture.nodes.iter().filter(|node| node.cell == embedding);
    readers.any(|node| node.inputs.iter().any(|input| indices.contains(&input.as_str())))
}

/// Whether a node may read values whose scales differ: a merge of a value for each part.
fn reads_parts(node: &Node, size: impl Fn(&str) -> usize) -> bool {
    let part = node.output_size * node.steps();
    node.cell == CellKind::Merge.spec().name && node.inputs.iter().all(|name| size(name) == part)
}

/// What an output that sums are brought to counts at least: its unit is more than twice theirs.
fn least_scale(node: &Node, model: &Canonical, ranges: &Ranges, scales: &Scales) -> f64 {
    if node.cell == CellKind::Merge.spec().name {
        return least_merged(node, scales);
    }
    let read = if node.cell == CellKind::Embedding.spec().name { Q15 } else { scales.input(node) };
    let most = |name: &str| {
        let tensor = model.tensors.get(&format!("{}.{name}", node.name));
        let all = tensor.into_iter().flat_map(|tensor| &tensor.data);
        f64::from(all.fold(0.0_f32, |most, weight| most.max(weight.abs())))
    };
    if node.cell == CellKind::Scale.spec().name {
        let gain = if node.options.iter().any(|option| option == "gain") { most("gain") } else { 1.0 };
        return 1.01 / 127.0 * (gain * read).max(most("bias") / f64::from(MAX));
    }
    // What an LSTM projects is of the unit of its cell state at most.
    let cell = f64::from(-fraction_bits(ranges.of(&format!("{}.cell_state", node.name)))).exp2();
    let memory = if Curve::of(activation(node, 2)).is_some_and(Curve::is_bounded) { Q15 } else { cell };
    let unit = if node.cell == CellKind::Lstm.spec().name {
        most("projection_weights") * memory
    } else {
        most("weights").max(most("input_weights")) * read
    };
    // Sums may be made coarser so that they do not wrap.
    2.5 / 127.0 * unit
}

/// So that no multiplier of a merge, and no sum, leaves 32 bits, with room for rounding.
fn least_merged(node: &Node, scales: &Scales) -> f64 {
    let parts = scales.parts(node);
    if node.options.iter().any(|option| option == "multiply") && parts.len() > 1 {
        return 1.01 * 256.0 * product_unit(&parts);
    }
    let greatest = parts.iter().copied().fold(0.0, f64::max);
    1.01 * (greatest / 127.0).max(parts.iter().sum::<f64>() / 255.0)
}

/// What a unit of a product of parts is worth, all but the last two of which lost 15 bits.
pub fn product_unit(parts: &[f64]) -> f64 {
    parts.iter().product::<f64>() * 2.0_f64.powi(15 * (parts.len() as i32 - 2))
}

/// Where the scale of a node's output comes from.
enum Output {
    /// 2^-15
    Bounded,
    /// From what was seen.
    Measured,
    /// It is that of the input.
    AsInput,
    /// It is the coarsest of the parts of the input.
    AsGreatest,
}

fn output(node: &Node) -> Output {
    let bounded = |index| {
        if Curve::of(activation(node, index)).is_some_and(Curve::is_bounded) {
            Output::Bounded
        } else {
            Output::Measured
        }
    };
    match CellKind::from_name(&node.cell) {
        Some(CellKind::Lstm) if node.options.iter().any(|option| option == "projection") => Output::Measured,
        // Its scale is a power of two that the node's own numbers say.
        Some(CellKind::Lstm) => bounded(2),
        Some(CellKind::Gru) => bounded(1),
        Some(CellKind::Elman | CellKind::Dense | CellKind::Conv | CellKind::DepthwiseConv) => bounded(0),
        Some(CellKind::Softmax) => Output::Bounded,
        Some(CellKind::Activation) => match Curve::of(activation(node, 0)) {
            Some(curve) if curve.keeps_unit() => Output::AsInput,
            Some(_) => Output::Bounded,
            None => Output::Measured,
        },
        // So are they, and what is between two of them.
        Some(CellKind::Merge) if node.options.iter().any(|option| option == "maximum" || option == "blend") => {
            Output::AsGreatest
        }
        Some(CellKind::Identity | CellKind::Last | CellKind::Window | CellKind::Repeat | CellKind::Pool) => {
            Output::AsInput
        }
        _ => Output::Measured,
    }
}

/// Activation `index` of a node.
pub fn activation(node: &Node, index: usize) -> Activation {
    let spec = CellKind::from_name(&node.cell).and_then(|kind| kind.spec().activations.get(index));
    let Some(spec) = spec else { return Activation::Identity };
    node.activations.get(spec.name).and_then(|text| text.parse().ok()).unwrap_or(spec.default)
}

/// So that what was seen fits, and a little more.
fn from_range(range: f32) -> f64 {
    let range = f64::from(range);
    if range > 0.0 { range * HEADROOM / f64::from(MAX) } else { Q15 }
}

/// The most fraction bits, up to 15, with which a value of this range fits in 16 bits.
pub fn fraction_bits(range: f32) -> i32 {
    let bits = (f64::from(MAX) / (f64::from(range) * HEADROOM)).log2().floor();
    if bits >= 15.0 { 15 } else { (bits as i32).max(0) }
}
