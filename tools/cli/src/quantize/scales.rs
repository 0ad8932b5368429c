//! What a unit of every value is worth.

use std::collections::BTreeMap;

use tidegate::Numeric;
use tidegate::activation::Activation;
use tidegate::cell::CellKind;
use tidegate::curve::Curve;
use tidegate::front_end::{FrontEndError, Mfcc};
use tidegate::gate::Gate;
use tidegate::quant::MAX;

use super::lstm::LstmBits;
use super::{QuantizeError, Ranges, candidate};
use crate::canonical::{self, Canonical, Node};
use crate::pack::front_end_section;

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
    ///
    /// # Errors
    /// If the front end has no form in integers.
    pub fn assign(mut model: Canonical, ranges: &Ranges) -> Result<(Canonical, Self), QuantizeError> {
        let mut scales = Self(BTreeMap::new());
        let mut sizes = BTreeMap::new();
        for input in &model.architecture.inputs {
            let scale = if is_index(&model, &input.name) { 1.0 } else { from_range(ranges.of(&input.name)) };
            scales.0.insert(input.name.clone(), scale);
            sizes.insert(input.name.clone(), input.size);
        }
        // The front end says what its features count; they are the first input.
        if let (Some(front_end), Some(input)) = (&model.architecture.front_end, model.architecture.inputs.first()) {
            scales.0.insert(input.name.clone(), f64::from(feature_scale(front_end)?));
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
                Output::Memory => f64::from(-LstmBits::of(&node, &model, ranges).memory).exp2(),
                Output::AsInput => scales.input(&node),
                Output::AsGreatest => scales.parts(&node).into_iter().fold(0.0, f64::max),
                Output::PowerOfTwo => {
                    // The candidate has the scale of the output too.
                    let range = ranges.of(&node.name).max(ranges.of(&candidate::name(&node)));
                    let unit = from_range(range).max(least_scale(&node, &model, ranges, &scales));
                    unit.log2().ceil().exp2().clamp(Q15, 1.0)
                }
                Output::Mixed(share, candidate) => {
                    let most = f64::from(-weighed_bits(&node, candidate, ranges)).exp2() / Q15;
                    from_range(ranges.of(&node.name)).max(share * most / f64::from(MAX))
                }
            };
            scales.0.insert(node.name.clone(), scale);
            sizes.insert(node.name.clone(), node.output_size * node.steps());
            nodes.push(node);
        }
        model.architecture.nodes = nodes;
        Ok((model, scales))
    }

    /// Those that a model says itself.
    pub(super) fn of_known(known: BTreeMap<String, f64>) -> Self {
        Self(known)
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

/// What a unit of a feature of the front end in integers is worth.
fn feature_scale(front_end: &canonical::Mfcc) -> Result<f32, FrontEndError> {
    let section = front_end_section(front_end, Numeric::I8x16)?;
    Ok(Mfcc::parse(&section)?.scale().unwrap_or(1.0))
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
    let unit = if node.cell == CellKind::Lstm.spec().name {
        most("projection_weights") * f64::from(-LstmBits::of(node, model, ranges).memory).exp2()
    } else {
        most("weights").max(most("input_weights")) * read
    };
    let candidate = if node.cell == CellKind::Gru.spec().name {
        let most_candidate = most_candidate(node, model, ranges, read * f64::from(MAX)) / f64::from(MAX);
        most_candidate.min(most_scale(most("recurrent_weights")))
    } else {
        0.0
    };
    // Sums may be made coarser so that they do not wrap.
    candidate.max(2.5 / 127.0 * unit)
}

/// What a unit of an output may be worth for the sake of what it does not show, over which weights up to this are summed: sums
/// are counted in units of 1 at least, of which a multiplier gives less than a half for each unit of what it is given, and
/// the way there may cost up to another half. Beyond, what is not shown is cut off.
fn most_scale(weight: f64) -> f64 {
    127.0 / 4.0 / weight
}

/// The most that the candidate of a GRU can be over an input of this range: it has the scale of the output, which sees
/// only a part of it.
fn most_candidate(node: &Node, model: &Canonical, ranges: &Ranges, read: f64) -> f64 {
    let carried = f64::from(ranges.of(&node.name));
    let new = CellKind::Gru.spec().gates.iter().position(|gate| *gate == Gate::New).unwrap_or(0);
    let reaches = |name: &str, of: f64| -> Vec<f64> {
        let Some(tensor) = model.tensors.get(&format!("{}.{name}", node.name)) else {
            return vec![0.0; node.hidden_size];
        };
        let cols = tensor.shape.iter().skip(1).product::<usize>().max(1);
        let rows = tensor.data.chunks(cols).skip(new * node.hidden_size).take(node.hidden_size);
        rows.map(|row| row.iter().map(|weight| f64::from(weight.abs())).sum::<f64>() * of).collect()
    };
    let parts = [("input_weights", read), ("recurrent_weights", carried), ("input_bias", 1.0), ("recurrent_bias", 1.0)];
    let parts = parts.map(|(name, of)| reaches(name, of));
    let unit = |unit: usize| parts.iter().filter_map(|part| part.get(unit)).sum::<f64>();
    let end = (0..node.hidden_size).map(unit).fold(0.0, f64::max) as f32;
    let candidate = activation(node, 1);
    f64::from(candidate.apply(end).abs().max(candidate.apply(-end).abs()))
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
    /// The m of an LSTM.
    Memory,
    /// From what was seen; its fraction bits are a number of the node.
    PowerOfTwo,
    /// From what was seen, but so that the greatest share of a candidate, the activation of this index, fits.
    Mixed(f64, usize),
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
        Some(CellKind::Lstm) => Output::Memory,
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
        Some(CellKind::MinGru) => Output::PowerOfTwo,
        Some(CellKind::FastRnn) => Output::Mixed(param(node, "alpha"), 0),
        Some(CellKind::FastGrnn) => Output::Mixed(param(node, "zeta") + param(node, "nu"), 1),
        _ => Output::Measured,
    }
}

/// A number of a node; 0 where it has none.
pub fn param(node: &Node, name: &str) -> f64 {
    node.params.get(name).map_or(0.0, |&param| param.into())
}

/// The fraction bits of a candidate, activation `index`, that is weighed before it is added: all of it fits.
pub fn weighed_bits(node: &Node, index: usize, ranges: &Ranges) -> i32 {
    let bounded = Curve::of(activation(node, index)).is_some_and(Curve::is_bounded);
    if bounded { 15 } else { fraction_bits(candidate::range(node, index, ranges)) }
}

/// Activation `index` of a node.
pub fn activation(node: &Node, index: usize) -> Activation {
    let spec = CellKind::from_name(&node.cell).and_then(|kind| kind.spec().activations.get(index));
    let Some(spec) = spec else { return Activation::Identity };
    node.activations.get(spec.name).and_then(|text| text.parse().ok()).unwrap_or(spec.default)
}

/// What a table reaches to, as a power of two: 16.
pub const TABLE_REACH_BITS: i32 = 4;

/// The greatest magnitude of an activation over the reach of its table.
pub fn reach(of: Activation) -> f32 {
    let end = f32::from(1_u16 << TABLE_REACH_BITS);
    of.apply(end).abs().max(of.apply(-end).abs())
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
