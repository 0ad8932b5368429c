//! The scale of every value: the real number that one integer step stands for.

use std::collections::BTreeMap;

use tidegate::internals::{
    cell::{CellKind, LeastScale, Numbers, OutputScale, Reads},
    curve::Curve,
    gate::Gate,
    quant::MAX,
};
use tidegate::{
    Numeric,
    front_end::{FrontEndError, Mfcc},
};

use super::candidate::{self, weighed_bits};
use super::lstm::LstmBits;
use super::matrix::matrix;
use super::rows::{MOST_WEIGHT, Operand, Part};
use super::terms::{
    Q15, activation, from_range, has, magnitude, most, output, param, quantization, reads, row_magnitudes,
};
use super::{QuantizeError, Ranges};
use crate::canonical::{self, Canonical, Node};

/// The scale of every input and node.
#[derive(Clone, Debug)]
pub struct Scales(BTreeMap<String, f64>);

impl Scales {
    /// Assigns a scale to every value of a model. Where a node reads values with different scales, an identity node is
    /// inserted that converts the finer value to the coarsest scale; the changed model is returned as well.
    ///
    /// # Errors
    /// If the front end has no integer form.
    pub fn assign(mut model: Canonical, ranges: &Ranges) -> Result<(Canonical, Self), QuantizeError> {
        let mut scales = Self(BTreeMap::new());
        let mut sizes = BTreeMap::new();
        for input in &model.architecture.inputs {
            let scale =
                if index_rows(&model, &input.name).is_some() { 1.0 } else { from_range(ranges.of(&input.name)) };
            scales.0.insert(input.name.clone(), scale);
            sizes.insert(input.name.clone(), input.size);
        }
        // The front end defines the scale of its features, which are the first input.
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
            let scale = scales.output(&node, &model, ranges);
            scales.0.insert(node.name.clone(), scale);
            sizes.insert(node.name.clone(), node.output_size * node.steps());
            nodes.push(node);
        }
        model.architecture.nodes = nodes;
        Ok((model, scales))
    }

    /// The scale of a node's output. The scales of its inputs must be known.
    fn output(&self, node: &Node, model: &Canonical, ranges: &Ranges) -> f64 {
        let measured = || {
            let scale = from_range(ranges.of(&node.name)).max(least_scale(node, model, ranges, self));
            on_one_grid(node, model, self.input(node), scale)
        };
        match output(node) {
            None | Some(OutputScale::Measured) => measured(),
            Some(OutputScale::Q15) => Q15,
            Some(OutputScale::Activation(index)) => match Curve::of(activation(node, index)) {
                Some(curve) if curve.is_bounded() => Q15,
                _ => measured(),
            },
            Some(OutputScale::Applied) => match Curve::of(activation(node, 0)) {
                Some(curve) if curve.keeps_unit() => self.input(node),
                Some(_) => Q15,
                None => measured(),
            },
            Some(OutputScale::Memory) => f64::from(-LstmBits::of(node, model, ranges).memory).exp2(),
            Some(OutputScale::Input) => self.input(node),
            Some(OutputScale::Coarsest) => self.parts(node).into_iter().fold(0.0, f64::max),
            Some(OutputScale::PowerOfTwo) => {
                // The candidate shares the scale of the output.
                let range = ranges.of(&node.name).max(ranges.of(&candidate::name(node)));
                let unit = from_range(range).max(least_scale(node, model, ranges, self));
                unit.log2().ceil().exp2().clamp(Q15, 1.0)
            }
            Some(OutputScale::Shares) => {
                let Some(Numbers::Shares { candidate, params, .. }) = quantization(node).map(|rules| rules.numbers)
                else {
                    return measured();
                };
                let most = f64::from(-weighed_bits(node, candidate, ranges)).exp2() / Q15;
                let share: f64 = params.iter().map(|name| param(node, name)).sum();
                from_range(ranges.of(&node.name)).max(share * most / f64::from(MAX))
            }
        }
    }

    /// The scales that a model states itself.
    pub(super) fn of_known(known: BTreeMap<String, f64>) -> Self {
        Self(known)
    }

    /// An identity node that converts a value of `size` elements to another scale for the node `reader`.
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
            ..Node::default()
        }
    }

    /// The scale of this value.
    pub fn of(&self, name: &str) -> f64 {
        self.0.get(name).copied().unwrap_or(1.0)
    }

    /// The scale of a node's input. All inputs share it, unless the node reads parts.
    pub fn input(&self, node: &Node) -> f64 {
        node.inputs.first().map_or(1.0, |name| self.of(name))
    }

    /// The scale of each part of a [merge](tidegate::internals::cell::merge): those of its values if it reads one value
    /// for each part, otherwise the scale of its only input.
    pub fn parts(&self, node: &Node) -> Vec<f64> {
        let parts = node.input_size / node.output_size;
        if parts == node.inputs.len() {
            node.inputs.iter().map(|name| self.of(name)).collect()
        } else {
            vec![self.input(node); parts]
        }
    }
}

/// The least scale of a recurrent output, at least `scale`, with which the products of both matrices are multiples of one step,
/// if the weights of each were quantized before to steps of their own. All weights are then kept exactly.
fn on_one_grid(node: &Node, model: &Canonical, input: f64, scale: f64) -> f64 {
    let step = |name| {
        let (tensor, _) = matrix(name, node, model)?;
        Part { weights: &tensor.data, scale: 1.0, operand: &Operand::NONE }.exact_unit()
    };
    let (Some(of_input), Some(of_output)) = (step("input_weights"), step("recurrent_weights")) else { return scale };
    let power = (of_input * input / (of_output * scale)).log2().floor();
    let common = of_input * input / (of_output * power.exp2());
    // With low rank, the recurrent matrix does not read the output.
    if has(node, "low_rank") || common > most_scale(most(node, model, "recurrent_weights")) { scale } else { common }
}

/// The number of rows of the embedding that reads this value as an index, directly or through nodes that only move it; `None`
/// if none does.
pub fn index_rows(model: &Canonical, name: &str) -> Option<usize> {
    let mut indices = vec![name];
    let moves = |node: &&Node| match output(node) {
        Some(OutputScale::Input) => true,
        Some(OutputScale::Applied) => Curve::of(activation(node, 0)).is_some_and(Curve::keeps_unit),
        _ => false,
    };
    for node in model.architecture.nodes.iter().filter(moves) {
        if node.inputs.iter().any(|input| indices.contains(&input.as_str())) {
            indices.push(&node.name);
        }
    }
    let mut readers = model.architecture.nodes.iter().filter(|node| reads(node) == Reads::Index);
    let reader = readers.find(|node| node.inputs.iter().any(|input| indices.contains(&input.as_str())))?;
    Some(reader.extents.get("vocabulary").copied().unwrap_or(1))
}

/// Whether a node may read values with different scales: a merge that reads one value for each part.
fn reads_parts(node: &Node, size: impl Fn(&str) -> usize) -> bool {
    let part = node.output_size * node.steps();
    reads(node) == Reads::Parts && node.inputs.iter().all(|name| size(name) == part)
}

/// The scale of the front end's integer features.
fn feature_scale(front_end: &canonical::Mfcc) -> Result<f32, FrontEndError> {
    let section = front_end.section(Numeric::I8x16, None)?;
    Ok(Mfcc::parse(&section)?.scale().unwrap_or(1.0))
}

/// The least scale of an output that sums are converted to: more than twice that of the sums.
fn least_scale(node: &Node, model: &Canonical, ranges: &Ranges, scales: &Scales) -> f64 {
    let rule = quantization(node).map_or(LeastScale::Weights, |rules| rules.least_output);
    // A row of an embedding table is read as if it were multiplied by 1.
    let read = if reads(node) == Reads::Index { Q15 } else { scales.input(node) };
    let most = |name: &str| most(node, model, name);
    // The margin permits coarser sums that do not wrap.
    let sums = 2.5 / MOST_WEIGHT;
    let weights = || most("weights").max(most("input_weights")) * read;
    match rule {
        LeastScale::Parts => least_merged(node, scales),
        LeastScale::Channels => {
            let gain = if has(node, "gain") { most("gain") } else { 1.0 };
            1.01 / 127.0 * (gain * read).max(most("bias") / f64::from(MAX))
        }
        LeastScale::Normalized => {
            // The greatest multiplier is gain / scale · 2^17, the greatest addend bias / scale · 2^8.
            let gain = if has(node, "gain") { most("gain") } else { 1.0 };
            1.01 * (gain / f64::from(1 << 14)).max(most("bias") / f64::from(1 << 23))
        }
        LeastScale::Projection => {
            sums * most("projection_weights") * f64::from(-LstmBits::of(node, model, ranges).memory).exp2()
        }
        LeastScale::Candidate(gate) => {
            let candidate = most_candidate(node, gate, model, ranges, read * f64::from(MAX)) / f64::from(MAX);
            candidate.min(most_scale(most("recurrent_weights"))).max(sums * weights())
        }
        LeastScale::Weights => sums * weights(),
    }
}

/// Maximum scale of an output that is summed over recurrent weights up to `weight`. The scale of the sums is at least
/// 1; a multiplier keeps less than half of each step, and the conversion may cost up to another half. The hidden range
/// of the candidate is clipped beyond this limit.
fn most_scale(weight: f64) -> f64 {
    MOST_WEIGHT / 4.0 / weight
}

/// The range of a candidate, the rows of this gate: the observed one or, if the calibration could not show it, the greatest
/// possible one over an input of this range. The candidate has the scale of the output, although the output shows only a
/// part of it.
fn most_candidate(node: &Node, gate: Gate, model: &Canonical, ranges: &Ranges, read: f64) -> f64 {
    let carried = f64::from(ranges.of(&node.name));
    let observed = ranges.of(&candidate::name(node));
    if observed > 0.0 {
        return from_range(observed) * f64::from(MAX);
    }
    let parts = [("input_weights", read), ("recurrent_weights", carried), ("input_bias", 1.0), ("recurrent_bias", 1.0)];
    let parts = parts
        .map(|(name, of)| row_magnitudes(node, gate, model, name).into_iter().map(|sum| sum * of).collect::<Vec<_>>());
    let unit = |unit: usize| parts.iter().filter_map(|part| part.get(unit)).sum::<f64>();
    let end = (0..node.hidden_size).map(unit).fold(0.0, f64::max) as f32;
    f64::from(magnitude(activation(node, 1), end))
}

/// The least scale with which every multiplier of a merge, and every sum, fits in 32 bits, with room for rounding.
fn least_merged(node: &Node, scales: &Scales) -> f64 {
    let parts = scales.parts(node);
    if has(node, "multiply") && parts.len() > 1 {
        return 1.01 * 256.0 * product_unit(&parts);
    }
    let greatest = parts.iter().copied().fold(0.0, f64::max);
    1.01 * (greatest / 127.0).max(parts.iter().sum::<f64>() / 255.0)
}

/// The scale of a product of parts. Each factor after the second costs a shift by 15 bits.
pub fn product_unit(parts: &[f64]) -> f64 {
    parts.iter().product::<f64>() * 2.0_f64.powi(15 * (parts.len() as i32 - 2))
}
