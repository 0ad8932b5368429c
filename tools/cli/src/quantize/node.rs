//! One node in integers: its option bits, its numbers, and the bytes of its tensors.

mod moves;
mod tables;

use tidegate::Numeric;
use tidegate::activation::Activation;
use tidegate::cell::{CURVE, CellKind, CellSpec, IntegerSpec, OTHER, Sizes, Storage, TensorSpec, Unit};
use tidegate::curve::{BITS, Curve, LEAST_BITS, PREACT_BITS};
use tidegate::image::{GROUP, Layout, factors_at};
use tidegate::integer_norm::FRACTION_BITS;
use tidegate::quant::{MAX, RESCALED_BITS, RowBlock};

use super::lstm::{LstmBits, candidate_reach, epsilon, has, sum_bits};
use super::rows::{Part, Row, better, row};
use super::scales::{Q15, activation, fraction_bits, param, weighed_bits};
use super::{QuantizeError, Ranges, Scales, candidate};
use crate::canonical::{Canonical, Node};
use crate::pack::{dim, image_rows};

/// The most fraction bits that are given up.
const MOST_COARSER: i32 = 15;
/// The greatest term, and the greatest gain: so far below the end that what terms, gains and factors give together does
/// not wrap.
const MOST_TERM: f64 = 268_435_456.0;
const MOST_GAIN: f64 = 1_073_741_824.0;
/// A gain of 1, to a unit of 1.
const GAIN: f64 = (1_u64 << (32 - FRACTION_BITS)) as f64;
/// Fraction bits of what the output's activation of an LSTM takes that is not normalized.
const SHOWN_BITS: i32 = 15;
/// Steps of a table to its end, as a power of two.
const HALF_TABLE_BITS: i32 = 8;

/// What is added to a sum at most.
const MOST_SUM: f64 = 2_147_483_647.0;

/// How far a candidate may reach that counts a power of two, at most 1, but for what is left above what was seen.
const MOST_CANDIDATE: f32 = 31_000.0;

/// The scale beyond which a mask that is 1 rounds to 0.
const LEAST_MASK: f64 = 1.9;

/// A node in integers.
#[derive(Clone, Debug)]
pub struct QuantizedNode {
    /// Bit `k`: option `k` of the spec.
    pub options: u32,
    /// As the integer spec lists them.
    pub numbers: Vec<i32>,
    /// Whether limits among the numbers stand for its activations.
    pub is_limited: bool,
    /// The bytes of each tensor; none where the node does not have it.
    pub tensors: Vec<Option<Vec<u8>>>,
    /// What the bytes of weights were made of; empty in the numeric `i8`.
    pub(super) rows: Vec<TensorRows>,
}

/// The rows that a tensor with [`Storage::Rows`] speaks of, and which of their parts is the finer one.
pub(super) type TensorRows = Option<(Vec<Row>, usize)>;

struct Quantizer<'a> {
    node: &'a Node,
    spec: &'static CellSpec,
    integer: &'static IntegerSpec,
    options: u32,
    numbers: Vec<i32>,
    /// Of each tensor.
    rows: Vec<TensorRows>,
    input: f64,
    output: f64,
    /// Of a merge, what a unit of each part is worth.
    parts: Vec<f64>,
    model: &'a Canonical,
    ranges: &'a Ranges,
    numeric: Numeric,
    layout: Layout,
}

impl QuantizedNode {
    /// `model` holds the node's tensors, `scales` what it reads and gives.
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
        let options = node.option_bits(spec);
        if let Some(option) = (0..spec.options.len()).find(|bit| options & !integer.options & 1 << bit != 0) {
            return Err(refuse(&format!(" with {}", spec.options[option])));
        }
        let extents = node.extent_bytes(spec);
        let (input, hidden, output) = (node.input_size, node.hidden_size, node.output_size);
        let sizes = Sizes { input, hidden, output, options, extents: &extents };
        if sizes.broken(integer.rules).is_some() {
            return Err(refuse(" with groups or so many features"));
        }
        if let Some(gate) = unbounded_gate(node, kind) {
            return Err(refuse(&format!(" whose gates are {gate}")));
        }
        if kind == CellKind::FastRnn && param(node, "beta") > 1.0 {
            return Err(refuse(" whose beta is above 1"));
        }
        let masked = node.options.iter().any(|option| option == "masked");
        if masked && scales.input(node) > LEAST_MASK {
            return Err(refuse(" with masked, and with features beside which 1 counts as 0"));
        }
        if !(scales.of(&node.name).is_finite() && node.inputs.iter().all(|name| scales.of(name).is_finite())) {
            return Err(refuse(" whose values leave the range of f32"));
        }
        if blends_unbounded(node, model) {
            return Err(refuse(" with blend, whose share no sigmoid bounds"));
        }
        let candidate = ranges.of(&candidate::name(node));
        if kind != CellKind::Gru && candidate > MOST_CANDIDATE {
            let with = format!(" whose candidate reaches {candidate}, of which 16 bits count {MOST_CANDIDATE}");
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
                options,
                numbers: vec![0; integer.numbers.len()],
                rows: Vec::new(),
                input: scales.input(node),
                output: scales.of(&node.name),
                parts: if kind == CellKind::Merge { scales.parts(node) } else { Vec::new() },
                model,
                ranges,
                numeric,
                layout,
            };
            quantizer.set_activations();
            if let Some(far) = quantizer.too_far() {
                return Err(refuse(&far));
            }
            quantizer.set_numbers(kind, coarser);
            quantizer.set_rows();
            let tensors = integer.tensors.iter().map(|tensor| quantizer.tensor(tensor)).collect::<Option<_>>();
            if let Some(tensors) = tensors {
                let Quantizer { options, numbers, rows, .. } = quantizer;
                return Ok(Self { options, numbers, is_limited: false, tensors, rows });
            }
            // A weight times a unit of the input alone moves the sum by more than it can count.
            coarser += 1;
            if coarser > MOST_COARSER {
                return Err(refuse(" whose weights are too large for the range of its input"));
            }
        }
    }
}

impl Quantizer<'_> {
    /// Tables where they are needed.
    fn set_activations(&mut self) {
        for (index, default) in self.spec.activations.iter().enumerate() {
            let of = activation(self.node, index);
            if of != default.default {
                self.options |= 1 << OTHER;
            }
            if Curve::of(of).is_none_or(|curve| self.only_tables() && curve.keeps_unit()) {
                self.options |= 1 << (CURVE + index as u32);
            }
        }
    }

    /// Whether activations that keep their unit are tabulated too: two of them see one sum, or what comes out is weighed.
    fn only_tables(&self) -> bool {
        [CellKind::FastRnn, CellKind::FastGrnn].iter().any(|kind| kind.spec().name == self.node.cell)
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

    /// Numbers by what their names mean in every cell that has them.
    /// Sums have `coarser` fraction bits less than usual, as far as they may.
    fn set_numbers(&mut self, kind: CellKind, coarser: i32) {
        // What is normalized is exact to more bits than weights of 8 make a sum, and stays small.
        let normalized = ["gate_norm", "joint_norm", "output_norm"].iter().any(|norm| has(self.node, norm));
        let most = if normalized { *BITS.end() } else { PREACT_BITS as i32 };
        let bits = self.table_bits(most - coarser).max(LEAST_BITS);
        for index in 0..self.integer.numbers.len() {
            self.numbers[index] = self.integer.numbers[index].least;
        }
        self.set("preact_bits", bits);
        if bits != PREACT_BITS as i32 {
            self.options |= 1 << OTHER;
        }
        self.set_tables(bits);
        match kind {
            CellKind::Lstm => self.set_lstm(coarser),
            CellKind::Softmax => self.set_softmax(),
            CellKind::Identity => self.set_identity(),
            CellKind::MinGru => self.set("hidden_bits", -self.output.log2() as i32),
            CellKind::FastRnn | CellKind::FastGrnn => self.set_fast(coarser),
            CellKind::Activation => self.set_activation(),
            CellKind::Embedding => self.set("multiplier", moves::multiplier(self.input)),
            _ => {}
        }
    }

    /// All rows, and which part of each tensor of them is the finer one.
    fn set_rows(&mut self) {
        self.rows = self.integer.tensors.iter().map(|tensor| self.rows(tensor)).collect();
        for (tensor, rows) in self.integer.tensors.iter().zip(&self.rows) {
            if let (Storage::Rows { recurrent: Some((_, number)), .. }, Some((_, first))) = (tensor.storage, rows) {
                self.numbers[number] = *first as i32;
            }
        }
    }

    fn set_lstm(&mut self, coarser: i32) {
        let LstmBits { cell, candidate, memory } = LstmBits::of(self.node, self.model, self.ranges);
        // Only a candidate that keeps its unit is counted as c is.
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
        // The first step of the kind has no clip but the range of 16 bits.
        if self.node.params.get("cell_clip").is_some_and(|&clip| clip > 0.0) {
            self.options |= 1 << OTHER;
        }
        self.set("cell_clip", cell_clip);
        self.set("projection_clip", projection_clip);
        self.set_norms(coarser);
        let peepholes = ["input_peephole", "forget_peephole", "output_peephole"];
        let most = peepholes.iter().filter_map(|name| self.model.tensors.get(&format!("{}.{name}", self.node.name)));
        let most = most.flat_map(|tensor| &tensor.data).fold(0.0_f32, |most, value| most.max(value.abs()));
        // The most with which a factor fits: p · 2^(preact_bits - cell_bits + shift).
        let room = (f64::from(MAX) / f64::from(most)).log2().floor().clamp(-64.0, 64.0) as i32;
        self.set("peephole_shift", room - self.get("preact_bits") + cell_bits);
    }

    /// What the output's activation of an LSTM takes.
    fn shown_bits(&self) -> i32 {
        if has(self.node, "output_norm") { self.get("preact_bits") } else { SHOWN_BITS }
    }

    /// What normalizing takes.
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
        let (epsilon, epsilon_bits) = epsilon(self.node);
        self.set("epsilon", epsilon);
        self.set("epsilon_bits", epsilon_bits);
    }

    /// What weighs a candidate: so fine that all of a candidate's shares together are at most [`MAX`].
    fn set_fast(&mut self, coarser: i32) {
        let grnn = self.node.cell == CellKind::FastGrnn.spec().name;
        let (names, candidate, shift): (&[_], _, _) =
            if grnn { (&["zeta", "nu"], 1, "mix_shift") } else { (&["alpha"], 0, "alpha_shift") };
        let units = f64::from(-weighed_bits(self.node, candidate, self.ranges)).exp2() / self.output;
        let shares = |name: &&str| param(self.node, name) * units * f64::from(1 << 15);
        let room = (f64::from(MAX) / names.iter().map(shares).sum::<f64>()).log2().floor().clamp(0.0, 15.0);
        for (name, share) in names.iter().zip(names.iter().map(shares).collect::<Vec<_>>()) {
            self.set(name, (share * room.exp2()).round() as i32);
        }
        self.set(shift, room as i32);
        self.set("beta", (param(self.node, "beta") / Q15).round() as i32);
        // No row of B times h reaches further.
        let basis = self.model.tensors.get(&format!("{}.recurrent_basis", self.node.name));
        let rows = basis.into_iter().flat_map(|basis| basis.data.chunks(self.node.hidden_size));
        let most = rows.map(|row| row.iter().map(|weight| f64::from(weight.abs())).sum::<f64>()).fold(0.0, f64::max);
        self.set("latent_bits", fraction_bits((most * self.output * f64::from(MAX)) as f32) - coarser);
    }

    fn set_softmax(&mut self) {
        // Over 2^32 the multiplier brings units · 2^14 to 15 fraction bits of a power of two.
        let mut multiplier = self.input * std::f64::consts::LOG2_E * f64::from(1 << 15) * f64::from(1 << 18);
        let mut lift = 0;
        while multiplier >= f64::from(i32::MAX) {
            multiplier /= 2.0;
            lift += 1;
        }
        self.set("multiplier", multiplier.round() as i32);
        self.set("lift", lift);
    }

    /// What a unit is worth. `gate` picks the activation of what is [`Unit::Before`] one.
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

    /// The bytes of a tensor: `Some(None)` where the node does not have it, `None` where a unit is too fine.
    fn tensor(&self, tensor: &TensorSpec) -> Option<Option<Vec<u8>>> {
        if !tensor.presence.required(self.options) {
            return Some(None);
        }
        let bytes = match tensor.storage {
            Storage::Weights(_) => self.weights(tensor)?,
            Storage::Rows { .. } => {
                let index = self.integer.tensors.iter().position(|of| std::ptr::eq(of, tensor))?;
                let (rows, _) = self.rows[index].as_ref()?;
                rows.chunks(4).flat_map(row_block).flat_map(i32::to_le_bytes).collect()
            }
            Storage::Factors { shift, from, to } => {
                let factor = self.unit(&from) / self.unit(&to) * f64::from(self.numbers[shift]).exp2();
                let mut values = image_rows(self.node, self.spec, tensor, &self.model.tensors);
                values.resize(values.len().next_multiple_of(4), 0.0);
                let most = f64::from(MAX);
                let integer = |value: f32| {
                    let integer = (f64::from(value) * factor).round();
                    (integer.abs() <= most).then_some(integer as i16)
                };
                let integers = values.into_iter().map(integer).collect::<Option<Vec<i16>>>()?;
                integers.into_iter().flat_map(i16::to_le_bytes).collect()
            }
            Storage::Terms(to) => self.words(tensor, to, 1.0, MOST_TERM)?,
            Storage::Gains(to) => self.words(tensor, to, GAIN, MOST_GAIN)?,
            Storage::Curve => self.table(tensor),
            Storage::Multipliers => {
                let mut values = self.multipliers(tensor);
                values.resize(values.len().next_multiple_of(4), 0);
                values.into_iter().flat_map(i32::to_le_bytes).collect()
            }
            Storage::Addends => self.words(tensor, &[Unit::Output], f64::from(1 << RESCALED_BITS), MOST_SUM)?,
            // The last two are those of the numeric `i8`.
            Storage::F32 | Storage::Requantized { .. } | Storage::Starts { .. } => Vec::new(),
        };
        Some(Some(bytes))
    }

    /// A tensor of i32, so many times each value in its unit, filled up to whole blocks; `None` where one is greater
    /// than `most`.
    fn words(&self, tensor: &TensorSpec, to: &[Unit], times: f64, most: f64) -> Option<Vec<u8>> {
        let mut values = image_rows(self.node, self.spec, tensor, &self.model.tensors);
        values.resize(values.len().next_multiple_of(4), 0.0);
        let units = to.iter().cycle().map(|unit| self.unit(unit));
        let word = |(value, unit): (f32, f64)| {
            let word = (f64::from(value) * times / unit).round();
            (word.abs() <= most).then_some(word as i32)
        };
        let words = values.into_iter().zip(units).map(word).collect::<Option<Vec<i32>>>()?;
        Some(words.into_iter().flat_map(i32::to_le_bytes).collect())
    }

    /// The rows that the tensor with [`Storage::Rows`] speaks of, and whether the recurrent part is the finer one: where
    /// less of the weights is lost.
    fn rows(&self, tensor: &TensorSpec) -> Option<(Vec<Row>, usize)> {
        let Storage::Rows { input, recurrent, to } = tensor.storage else { return None };
        if !tensor.presence.required(self.options) {
            return None;
        }
        let bias = image_rows(self.node, self.spec, tensor, &self.model.tensors);
        let matrix = |index: usize| {
            let of = &self.integer.tensors[index];
            let Storage::Weights(unit) = of.storage else { return None };
            let cols = of.cols.as_ref().map_or(1, |cols| dim(self.node, self.spec, cols));
            Some((image_rows(self.node, self.spec, of, &self.model.tensors), cols, self.unit(&unit)))
        };
        let matrices = [Some(matrix(input)?), recurrent.and_then(|(index, _)| matrix(index))];
        let with = |first: usize| -> Option<Vec<Row>> {
            let rows = bias.iter().enumerate().map(|(index, &bias)| {
                let of = |at: usize| match &matrices[at] {
                    Some((weights, cols, scale)) => Part { weights: &weights[index * cols..][..*cols], scale: *scale },
                    None => Part::NONE,
                };
                row([of(0), of(1)], first, f64::from(bias), self.unit(&to[index % to.len()]), self.numeric)
            });
            rows.collect()
        };
        let recurrent_first = recurrent.and_then(|_| with(1));
        better([with(0), recurrent_first])
    }

    /// The weights of a matrix in the order of the layout.
    fn weights(&self, tensor: &TensorSpec) -> Option<Vec<u8>> {
        let index = self.integer.tensors.iter().position(|of| std::ptr::eq(of, tensor))?;
        let (rows, part) = rows_of(self.integer, &self.rows, index)?;
        let cols = rows.first()?.weights[part].len();
        let bytes = self.layout.block_bytes(self.numeric, cols)?;
        Some(rows.chunks(4).flat_map(|rows| self.block(rows, part, cols, bytes)).collect())
    }

    /// A block of four rows, or of those that are left.
    fn block(&self, rows: &[Row], part: usize, cols: usize, bytes: usize) -> Vec<u8> {
        let (numeric, layout, nibbles) = (self.numeric, self.layout, self.numeric == Numeric::I4x16);
        let mut block = vec![0; bytes];
        for (at, col) in
            (0..4).flat_map(|at| (0..cols.next_multiple_of(layout.columns(numeric))).map(move |col| (at, col)))
        {
            let row = rows.get(at);
            let factor = row.and_then(|row| row.factors[part].get(col / GROUP)).copied().unwrap_or(1);
            let weight = row.and_then(|row| row.weights[part].get(col)).copied().unwrap_or(0);
            let place = layout.place(numeric, at, col);
            if nibbles {
                block[factors_at(bytes, col / GROUP) + at] = factor.cast_unsigned();
                block[place / 2] |= layout.code_of(numeric, weight / factor) << (4 * (place % 2));
            } else {
                block[place] = layout.code_of(numeric, weight);
            }
        }
        block
    }
}

/// The rows that hold the weights of tensor `index`, and as which of their parts.
pub(super) fn rows_of<'r>(integer: &IntegerSpec, rows: &'r [TensorRows], index: usize) -> Option<(&'r [Row], usize)> {
    integer.tensors.iter().zip(rows).find_map(|(of, rows)| match of.storage {
        Storage::Rows { input, .. } if input == index => Some((rows.as_ref()?.0.as_slice(), 0)),
        Storage::Rows { recurrent: Some((recurrent, _)), .. } if recurrent == index => {
            Some((rows.as_ref()?.0.as_slice(), 1))
        }
        _ => None,
    })
}

/// Whether a node blends by what may leave 0 to 1.
fn blends_unbounded(node: &Node, model: &Canonical) -> bool {
    let share = node.inputs.last().and_then(|name| model.architecture.nodes.iter().find(|of| of.name == *name));
    let bounded = |share: &Node| {
        let of = activation(share, 0);
        let layer = ["dense", "conv", "depthwise_conv", "activation", "elman"].contains(&share.cell.as_str());
        layer && matches!(of, Activation::Sigmoid | Activation::HardSigmoid { .. })
    };
    node.options.iter().any(|option| option == "blend") && !(node.inputs.len() == 3 && share.is_some_and(bounded))
}

/// The activation of a node's gates, if it leaves 0 to 1.
fn unbounded_gate(node: &Node, kind: CellKind) -> Option<Activation> {
    let gated = matches!(kind, CellKind::Lstm | CellKind::Gru | CellKind::FastGrnn);
    let gate = activation(node, 0);
    let bounded = matches!(gate, Activation::Sigmoid | Activation::HardSigmoid { .. });
    (gated && !bounded).then_some(gate)
}

fn row_block(rows: &[Row]) -> RowBlock {
    let (mut block, mut shifts) = ([0; 9], [0; 4]);
    for (at, row) in rows.iter().enumerate() {
        block[at] = row.start;
        block[4 + at] = row.multiplier;
        shifts[at] = row.shift;
    }
    block[8] = i32::from_le_bytes(shifts);
    block
}
