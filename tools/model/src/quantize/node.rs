//! The integer form of one node: its option bits, its numbers, and the bytes of its tensors.

mod moves;
mod rows;
mod tables;

use tidegate::internals::{
    activation::Activation,
    cell::{
        CURVE, CellKind, CellSpec, IntegerSpec, Numbers, OTHER, Quantization, Reads, Role, Sizes, Storage, TensorSpec,
        UNIT_SCALES, Unit,
    },
    curve::{BITS, Curve, LEAST_BITS, PREACT_BITS},
    integer_norm::FRACTION_BITS,
    quant::{MAX, RESCALED_BITS},
};
use tidegate::{Layout, Numeric};

use super::candidate::{self, weighed_bits};
use super::lstm::{LstmBits, UNIT_MARGIN, candidate_reach, epsilon, sum_bits};
use super::ranges::RowScales;
use super::terms::{Q15, activation, fine_bits, fraction_bits, has, most, param, quantization};
use super::{QuantizeError, Ranges, Scales};
use crate::canonical::{Canonical, Node, image_rows};

pub(super) use rows::{TensorRows, rows_of};

/// Maximum number of fraction bits that are given up.
const MOST_COARSER: i32 = 15;
/// Greatest term and greatest gain. The limits leave enough room that the combination of terms, gains and factors does
/// not wrap.
const MOST_TERM: f64 = 268_435_456.0;
const MOST_GAIN: f64 = 1_073_741_824.0;
/// A gain of 1, for an output scale of 1.
const GAIN: f64 = (1_u64 << (32 - FRACTION_BITS)) as f64;
/// Fraction bits of the input of an LSTM's output activation if it is not normalized.
const SHOWN_BITS: i32 = 15;
/// Number of table steps from the middle to either end, as a power of two.
const HALF_TABLE_BITS: i32 = 8;

/// Greatest addend of a sum.
const MOST_SUM: f64 = 2_147_483_647.0;

/// Greatest range of a candidate whose scale is a power of two, at most 1; the rest is the margin above the observed
/// range.
const MOST_CANDIDATE: f32 = 31_000.0;

/// The scale beyond which a mask value of 1 rounds to 0.
const LEAST_MASK: f64 = 1.9;

/// The integer form of a node.
#[derive(Clone, Debug)]
pub struct QuantizedNode {
    /// Bit `k`: option `k` of the spec.
    pub options: u32,
    /// Numbers in the order of the integer spec.
    pub numbers: Vec<i32>,
    /// Whether the activations are given as limits among the numbers.
    pub is_limited: bool,
    /// The bytes of each tensor; `None` if the node does not have it.
    pub tensors: Vec<Option<Vec<u8>>>,
    /// The quantized rows behind the weight bytes; empty in the numeric `i8`.
    pub(super) rows: Vec<TensorRows>,
    /// The scales of the rows of each tensor, and their expected squared errors; empty in the numeric `i8`.
    pub(super) row_scales: Vec<(String, RowScales, Vec<f64>)>,
}

struct Quantizer<'a> {
    node: &'a Node,
    spec: &'static CellSpec,
    integer: &'static IntegerSpec,
    rules: &'static Quantization,
    options: u32,
    numbers: Vec<i32>,
    /// The rows of each tensor.
    rows: Vec<TensorRows>,
    input: f64,
    output: f64,
    /// The scale of each part of a merge.
    parts: Vec<f64>,
    model: &'a Canonical,
    ranges: &'a Ranges,
    numeric: Numeric,
    layout: Layout,
}

impl QuantizedNode {
    /// Quantizes a node. `model` holds the node's tensors, `scales` the scales of its inputs and output.
    ///
    /// # Errors
    /// If the node has no integer form.
    pub fn new(
        node: &Node,
        model: &Canonical,
        scales: &Scales,
        ranges: &Ranges,
        numeric: Numeric,
        layout: Layout,
    ) -> Result<Self, QuantizeError> {
        let refuse = |with: &str| QuantizeError::NoIntegerForm {
            node: node.name.clone(),
            cell: node.cell.clone(),
            with: with.to_owned(),
        };
        let kind = CellKind::from_name(&node.cell).ok_or_else(|| refuse(""))?;
        let (spec, integer) = (kind.spec(), kind.integer_spec().ok_or_else(|| refuse(""))?);
        let rules = integer.quantization.ok_or_else(|| refuse(""))?;
        let options = node.option_bits(spec);
        if let Some(option) = (0..spec.options.len()).find(|bit| options & !integer.options & 1 << bit != 0) {
            return Err(refuse(&format!(" with {}", spec.options[option])));
        }
        let extents = node.extent_bytes(spec);
        let (input, hidden, output) = (node.input_size, node.hidden_size, node.output_size);
        let sizes = Sizes { input, hidden, output, options, extents: &extents };
        if sizes.broken(integer.rules).is_some() {
            return Err(refuse(" with groups or more features than the integer form supports"));
        }
        if let Some(gate) = unbounded_gate(node, rules) {
            return Err(refuse(&format!(" whose gates are {gate}")));
        }
        if let Some((name, most)) = rules.limits.iter().find(|(name, most)| param(node, name) > f64::from(*most)) {
            return Err(refuse(&format!(" whose {name} is above {most}")));
        }
        if has(node, "masked") && scales.input(node) > LEAST_MASK {
            return Err(refuse(" with masked, and with features whose scale rounds a mask value of 1 to 0"));
        }
        if !(scales.of(&node.name).is_finite() && node.inputs.iter().all(|name| scales.of(name).is_finite())) {
            return Err(refuse(" whose values leave the range of f32"));
        }
        if blends_unbounded(node, model) {
            return Err(refuse(" with blend, whose share is not bounded by a sigmoid"));
        }
        let candidate = ranges.of(&candidate::name(node));
        if !rules.activations.contains(&Role::Candidate) && candidate > MOST_CANDIDATE {
            let with = format!(" whose candidate reaches {candidate}, but 16 bits hold at most {MOST_CANDIDATE}");
            return Err(refuse(&with));
        }
        if has(node, "cell_norm") && candidate_reach(node, model, ranges).is_none() {
            return Err(refuse(" with cell_norm whose candidate has no bound"));
        }
        let mut coarser = 0;
        loop {
            let mut quantizer = Quantizer {
                node,
                spec,
                integer,
                rules,
                options,
                numbers: vec![0; integer.numbers.len()],
                rows: Vec::new(),
                input: scales.input(node),
                output: scales.of(&node.name),
                parts: if rules.reads == Reads::Parts { scales.parts(node) } else { Vec::new() },
                model,
                ranges,
                numeric,
                layout,
            };
            quantizer.set_activations();
            if let Some(far) = quantizer.too_far() {
                return Err(refuse(&far));
            }
            quantizer.set_numbers(coarser);
            quantizer.set_rows();
            let tensors = integer.tensors.iter().map(|tensor| quantizer.tensor(tensor)).collect::<Option<_>>();
            if let Some(tensors) = tensors {
                let row_scales = quantizer.row_scales();
                let Quantizer { options, numbers, rows, .. } = quantizer;
                return Ok(Self { options, numbers, is_limited: false, tensors, rows, row_scales });
            }
            // One weight times one step of the input already overflows the sum, so the sums are made coarser.
            coarser += 1;
            if coarser > MOST_COARSER {
                return Err(refuse(" whose weights are too large for the range of its input"));
            }
        }
    }
}

impl Quantizer<'_> {
    /// Selects the activations that need tables.
    fn set_activations(&mut self) {
        for (index, default) in self.spec.activations.iter().enumerate() {
            let of = activation(self.node, index);
            if of != default.default {
                self.options |= 1 << OTHER;
            }
            // A weighted activation that keeps the scale of its sum is tabulated too.
            let weighed = self.rules.activations.get(index) == Some(&Role::Weighed);
            if Curve::of(of).is_none_or(|curve| weighed && curve.keeps_unit()) {
                self.options |= 1 << (CURVE + index as u32);
            }
        }
    }

    fn set(&mut self, name: &str, value: i32) {
        let at = self.integer.numbers.iter().position(|number| number.name == name);
        if let Some(at) = at {
            let (least, most) = (self.integer.numbers[at].least, self.integer.numbers[at].most);
            self.numbers[at] = value.clamp(least, most);
        }
    }

    fn get(&self, name: &str) -> i32 {
        let at = self.integer.numbers.iter().position(|number| number.name == name);
        at.map_or(0, |at| self.numbers[at])
    }

    /// Sets the numbers by name; a name means the same in every cell. Sums have up to `coarser` fraction bits fewer than
    /// usual.
    fn set_numbers(&mut self, coarser: i32) {
        // Normalized values are more precise than a sum over 8-bit weights, and stay small.
        let normalized = ["gate_norm", "joint_norm", "output_norm"].iter().any(|norm| has(self.node, norm));
        // A table over octaves is also fine enough for small arguments.
        let wants_fine = self.ranges.has_fine_sums(&self.node.name) || self.has_octaves();
        let fine = fine_bits(self.node, self.model).filter(|_| wants_fine);
        let most = if normalized { *BITS.end() } else { fine.unwrap_or(PREACT_BITS as i32) };
        let bits = self.table_bits(most - coarser).max(LEAST_BITS);
        for index in 0..self.integer.numbers.len() {
            self.numbers[index] = self.integer.numbers[index].least;
        }
        self.set("preact_bits", bits);
        if bits != PREACT_BITS as i32 {
            self.options |= 1 << OTHER;
        }
        self.set_tables(bits);
        self.set_latent(coarser);
        match self.rules.numbers {
            Numbers::Common => {}
            Numbers::Memory => self.set_lstm(coarser),
            Numbers::Normalized => self.set_epsilon(self.input),
            Numbers::Exponents => self.set_softmax(),
            Numbers::Rescaled => self.set_identity(),
            Numbers::OutputBits => self.set("hidden_bits", -self.output.log2() as i32),
            Numbers::Shares { candidate, params, shift } => self.set_shares(candidate, params, shift),
            Numbers::Applied => self.set_activation(),
            Numbers::Indexed => self.set("multiplier", moves::multiplier(self.input)),
        }
    }

    fn set_lstm(&mut self, coarser: i32) {
        let LstmBits { cell, candidate, memory } = LstmBits::of(self.node, self.model, self.ranges);
        // Only a candidate that keeps its scale has the scale of c.
        let keeps = Curve::of(activation(self.node, 1)).is_some_and(Curve::keeps_unit);
        let cell_bits = (cell - if keeps { coarser } else { 0 }).max(0);
        let candidate_bits = if keeps { cell_bits } else { candidate };
        self.set("cell_bits", cell_bits);
        self.set("candidate_shift", candidate_bits - cell_bits);
        self.set("memory_bits", memory);
        let clip = |name: &str, scale: f64| match self.node.params.get(name) {
            Some(&clip) if clip > 0.0 => ((f64::from(clip) / scale).round()).min(f64::from(MAX)) as i32,
            _ => i32::MAX,
        };
        let (cell_clip, projection_clip) =
            (clip("cell_clip", f64::from(-cell_bits).exp2()), clip("projection_clip", self.output));
        // The kind's first step function clips only at the range of 16 bits.
        if self.node.params.get("cell_clip").is_some_and(|&clip| clip > 0.0) {
            self.options |= 1 << OTHER;
        }
        if self.ranges.has_unit_scales(&self.node.name) && self.may_have_unit_scales() {
            self.options |= 1 << UNIT_SCALES;
        }
        self.set("cell_clip", cell_clip);
        self.set("projection_clip", projection_clip);
        self.set_norms(coarser);
        let peepholes = ["input_peephole", "forget_peephole", "output_peephole"];
        let most = peepholes.map(|name| most(self.node, self.model, name)).into_iter().fold(0.0, f64::max);
        // The greatest shift with which a factor fits: p · 2^(preact_bits - cell_bits + shift).
        let room = (f64::from(MAX) / most).log2().floor().clamp(-64.0, 64.0) as i32;
        self.set("peephole_shift", room - self.get("preact_bits") + cell_bits);
    }

    /// Whether the units of an LSTM may have scales of their own: nothing but their gates reads their cell states.
    fn may_have_unit_scales(&self) -> bool {
        let readers = ["cell_norm", "output_norm", "gate_norm", "joint_norm"];
        let keeps_unit = [1, 2].map(|index| Curve::of(activation(self.node, index)).is_some_and(Curve::keeps_unit));
        keeps_unit == [false; 2] && !readers.iter().any(|option| has(self.node, option))
    }

    /// For each unit of an LSTM, the fraction bits of its cell state beyond those of the node: half of those that its range
    /// permits, because a unit that stayed small in the calibration may grow elsewhere.
    fn cell_shifts(&self) -> Vec<i16> {
        let most = (SHOWN_BITS - self.get("cell_bits")).min(self.get("candidate_shift"));
        let peaks = self.ranges.elements(&format!("{}.cell_state", self.node.name)).map(|elements| &elements.peaks);
        let shift = |unit: usize| {
            let range = peaks.and_then(|peaks| peaks.get(unit)).map_or(f32::MAX, |peak| UNIT_MARGIN * peak);
            ((fraction_bits(range) - self.get("cell_bits")) / 2).clamp(0, most) as i16
        };
        (0..self.node.hidden_size).map(shift).collect()
    }

    /// Fraction bits of the input of an LSTM's output activation.
    fn shown_bits(&self) -> i32 {
        if has(self.node, "output_norm") { self.get("preact_bits") } else { SHOWN_BITS }
    }

    /// Sets the numbers of the normalization.
    fn set_norms(&mut self, coarser: i32) {
        let (input, recurrent) = (("input_weights", self.input), ("recurrent_weights", self.output));
        let (sums, of_hidden): (&[_], _) =
            if has(self.node, "joint_norm") { (&[input], [recurrent]) } else { (&[input, recurrent], [recurrent]) };
        let bits = |matrices: &[_]| sum_bits(self.node, self.model, matrices) - coarser;
        let (sum_bits, recurrent_sum_bits) = (bits(sums), bits(&of_hidden));
        if has(self.node, "gate_norm") || has(self.node, "joint_norm") {
            self.set("sum_bits", sum_bits);
        }
        if has(self.node, "joint_norm") {
            self.set("recurrent_sum_bits", recurrent_sum_bits);
        }
        self.set_epsilon(1.0);
    }

    /// Sets ε for values of this scale.
    fn set_epsilon(&mut self, scale: f64) {
        let (epsilon, epsilon_bits) = epsilon(self.node, scale);
        self.set("epsilon", epsilon);
        self.set("epsilon_bits", epsilon_bits);
    }

    /// Sets the weights of a candidate, as fine as possible while the sum of a candidate's shares is at most [`MAX`].
    fn set_shares(&mut self, candidate: usize, names: &[&str], shift: &str) {
        let units = f64::from(-weighed_bits(self.node, candidate, self.ranges)).exp2() / self.output;
        let shares = |name: &&str| param(self.node, name) * units * f64::from(1 << 15);
        let room = (f64::from(MAX) / names.iter().map(shares).sum::<f64>()).log2().floor().clamp(0.0, 15.0);
        for (name, share) in names.iter().zip(names.iter().map(shares).collect::<Vec<_>>()) {
            self.set(name, (share * room.exp2()).round() as i32);
        }
        self.set(shift, room as i32);
        self.set("beta", (param(self.node, "beta") / Q15).round() as i32);
    }

    /// Sets the fraction bits of B h, for low-rank recurrent weights.
    fn set_latent(&mut self, coarser: i32) {
        // The greatest possible magnitude of a row of B times h.
        let basis = self.model.tensors.get(&format!("{}.recurrent_basis", self.node.name));
        let rows = basis.into_iter().flat_map(|basis| basis.data.chunks(self.node.hidden_size));
        let most = rows.map(|row| row.iter().map(|weight| f64::from(weight.abs())).sum::<f64>()).fold(0.0, f64::max);
        self.set("latent_bits", fraction_bits((most * self.output * f64::from(MAX)) as f32) - coarser);
    }

    fn set_softmax(&mut self) {
        // Divided by 2^32, the multiplier converts input steps · 2^14 to a power of two with 15 fraction bits.
        let mut multiplier = self.input * std::f64::consts::LOG2_E * f64::from(1 << 15) * f64::from(1 << 18);
        let mut lift = 0;
        while multiplier >= f64::from(i32::MAX) {
            multiplier /= 2.0;
            lift += 1;
        }
        self.set("multiplier", multiplier.round() as i32);
        self.set("lift", lift);
    }

    /// The scale of a [`Unit`].
    fn unit(&self, unit: &Unit) -> f64 {
        match unit {
            Unit::Input => self.input,
            Unit::Output => self.output,
            Unit::Q15 => Q15,
            Unit::Bits(number) => f64::from(-self.numbers[*number]).exp2(),
            Unit::Before { activation: index, bits, after } => match activation(self.node, *index) {
                Activation::Identity | Activation::Relu => self.unit(after),
                _ => f64::from(-self.numbers[*bits]).exp2(),
            },
            Unit::When { option, with, without } => {
                self.unit(if self.options >> option & 1 == 1 { with } else { without })
            }
        }
    }

    /// The bytes of a tensor: `Some(None)` if the node does not have it, `None` if a scale is too fine.
    fn tensor(&self, tensor: &TensorSpec) -> Option<Option<Vec<u8>>> {
        if !tensor.presence.required(self.options) {
            return Some(None);
        }
        let bytes = match tensor.storage {
            Storage::Weights(_) => self.weights(tensor)?,
            Storage::Rows { .. } => {
                let index = self.integer.tensors.iter().position(|of| std::ptr::eq(of, tensor))?;
                rows::sum_bytes(&self.rows[index].as_ref()?.0)
            }
            Storage::Factors { shift, from, to } => {
                let factor = self.unit(&from) / self.unit(&to) * f64::from(self.numbers[shift]).exp2();
                let most = f64::from(MAX);
                let integer = |value: f32| {
                    let integer = (f64::from(value) * factor).round();
                    (integer.abs() <= most).then_some(integer as i16)
                };
                let integers = self.whole_blocks(tensor).into_iter().map(integer).collect::<Option<Vec<i16>>>()?;
                integers.into_iter().flat_map(i16::to_le_bytes).collect()
            }
            Storage::Shifts => {
                let mut shifts = self.cell_shifts();
                shifts.resize(shifts.len().next_multiple_of(4), 0);
                shifts.into_iter().flat_map(i16::to_le_bytes).collect()
            }
            Storage::Terms(to) => self.words(tensor, to, 1.0, MOST_TERM)?,
            Storage::Gains(to) => self.words(tensor, to, GAIN, MOST_GAIN)?,
            Storage::Curve => self.table(tensor),
            Storage::Multipliers => {
                let mut values = self.multipliers(tensor);
                values.resize(values.len().next_multiple_of(4), 0);
                to_bytes(&values)
            }
            Storage::Addends => self.words(tensor, &[Unit::Output], f64::from(1 << RESCALED_BITS), MOST_SUM)?,
            Storage::Index => index_bytes(&self.image_rows(tensor)),
            // All but the first exist only in the numeric `i8`.
            Storage::F32 | Storage::Requantized { .. } | Storage::Starts { .. } | Storage::Taps | Storage::Values => {
                Vec::new()
            }
        };
        Some(Some(bytes))
    }

    fn image_rows(&self, tensor: &TensorSpec) -> Vec<f32> {
        image_rows(self.node, self.spec, tensor, &self.model.tensors)
    }

    /// The rows of a tensor, padded to whole blocks of four.
    fn whole_blocks(&self, tensor: &TensorSpec) -> Vec<f32> {
        let mut values = self.image_rows(tensor);
        values.resize(values.len().next_multiple_of(4), 0.0);
        values
    }

    /// A tensor of `i32`: each value divided by its unit and multiplied by `times`, padded to whole blocks. `None` if a
    /// magnitude exceeds `most`.
    fn words(&self, tensor: &TensorSpec, to: &[Unit], times: f64, most: f64) -> Option<Vec<u8>> {
        let units = to.iter().cycle().map(|unit| self.unit(unit));
        let word = |(value, unit): (f32, f64)| {
            let word = (f64::from(value) * times / unit).round();
            (word.abs() <= most).then_some(word as i32)
        };
        let words = self.whole_blocks(tensor).into_iter().zip(units).map(word).collect::<Option<Vec<i32>>>()?;
        Some(to_bytes(&words))
    }
}

/// Whether a node blends by a share that may leave 0 to 1.
fn blends_unbounded(node: &Node, model: &Canonical) -> bool {
    let share = node.inputs.last().and_then(|name| model.architecture.nodes.iter().find(|of| of.name == *name));
    let bounded = |share: &Node| {
        let roles = quantization(share).map_or::<&[Role], _>(&[], |rules| rules.activations);
        matches!(roles, [Role::Output | Role::Applied])
            && matches!(activation(share, 0), Activation::Sigmoid | Activation::HardSigmoid { .. })
    };
    has(node, "blend") && !(node.inputs.len() == 3 && share.is_some_and(bounded))
}

/// The first gate activation that may leave 0 to 1.
fn unbounded_gate(node: &Node, rules: &Quantization) -> Option<Activation> {
    let gates = rules.activations.iter().enumerate().filter(|(_, role)| **role == Role::Gate);
    let bounded = |gate: &Activation| matches!(gate, Activation::Sigmoid | Activation::HardSigmoid { .. });
    gates.map(|(index, _)| activation(node, index)).find(|gate| !bounded(gate))
}

/// The bytes of positions in the input, padded to whole blocks of four.
pub(crate) fn index_bytes(positions: &[f32]) -> Vec<u8> {
    let mut positions: Vec<u16> = positions.iter().map(|&position| position as u16).collect();
    positions.resize(positions.len().next_multiple_of(4), 0);
    positions.into_iter().flat_map(u16::to_le_bytes).collect()
}

pub(super) fn to_bytes(words: &[i32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}
