//! Activation tables: their contents and the input range that they cover.

use tidegate::internals::{
    activation::Activation,
    cell::{CURVE, Numbers, OTHER, Presence, Role, Storage, TensorSpec, Unit},
    curve::{BITS, LEAST_BITS, MAX_TABLE_SHIFT, OCTAVE_BITS, OCTAVES, OVER_OCTAVES, PREACT_BITS, TABLE_LEN},
    quant::{MAX, RESCALED_BITS},
};

use super::moves::multiplier;
use super::{HALF_TABLE_BITS, Quantizer, SHOWN_BITS};
use crate::canonical::cols;
use crate::quantize::candidate::{self, weighed_bits};
use crate::quantize::lstm::shown_reach;
use crate::quantize::terms::{Q15, TABLE_REACH_BITS, activation, has, magnitude};

/// Maximum number of fraction bits of an activation's input.
const MOST_BITS: i32 = *BITS.end();
/// Maximum input range of a table for sums without fraction bits, as a power of two.
const MOST_REACH: i32 = MAX_TABLE_SHIFT + HALF_TABLE_BITS;
/// The same for a table over octaves.
const MOST_OCTAVES: i32 = OCTAVES as i32 - 1;

impl Quantizer<'_> {
    /// Number of fraction bits of the sums, at most `most`, with which every table covers its input range.
    pub(super) fn table_bits(&self, most: i32) -> i32 {
        let of_sums = self.tables().filter(|&(_, index, _)| !self.is_shown(index));
        of_sums.map(|(_, index, reach)| self.farthest(index) - reach).fold(most, i32::min)
    }

    /// Sets the step width of every table, for sums with `bits` fraction bits.
    pub(super) fn set_tables(&mut self, bits: i32) {
        let every = self.integer.tensors.iter().filter(|of| of.storage == Storage::Curve);
        for (table, index) in every.map(|table| (table.name, index_of(table))) {
            let bits = if self.is_shown(index) { self.shown_bits() } else { bits };
            let shift = self.reach(index) + bits - HALF_TABLE_BITS;
            let is_over_octaves = needs_octaves(activation(self.node, index));
            self.set(
                &table_shift(table),
                if is_over_octaves { OVER_OCTAVES as i32 } else { shift.min(MAX_TABLE_SHIFT) },
            );
        }
    }

    /// Explains why a table cannot be built: the activation keeps growing beyond the end of the widest possible table.
    pub(super) fn too_far(&self) -> Option<String> {
        let beyond = |(_, index, reach): (&str, usize, i32)| {
            // Without normalization, the input of the LSTM's output activation has the maximum number of fraction bits.
            let shown = if self.is_shown(index) && !has(self.node, "output_norm") { SHOWN_BITS } else { 0 };
            let most = self.farthest(index) - shown;
            let of = activation(self.node, index);
            (reach > most).then(|| format!(" whose {of} has inputs above 2^{most}, where its table ends"))
        };
        self.tables().find_map(beyond)
    }

    /// The maximum input range of the table of activation `index`, for sums without fraction bits, as a power of two.
    fn farthest(&self, index: usize) -> i32 {
        if needs_octaves(activation(self.node, index)) { MOST_OCTAVES } else { MOST_REACH }
    }

    /// Whether a table of the node's sums is over octaves.
    pub(super) fn has_octaves(&self) -> bool {
        self.tables().any(|(_, index, _)| !self.is_shown(index) && needs_octaves(activation(self.node, index)))
    }

    /// Every table: its name, the index of its activation, and its input range as a power of two.
    fn tables(&self) -> impl Iterator<Item = (&'static str, usize, i32)> {
        let present = |of: &&TensorSpec| of.storage == Storage::Curve && of.presence.required(self.options);
        let tables = self.integer.tensors.iter().filter(present);
        tables.map(|table| (table.name, index_of(table), self.reach(index_of(table))))
    }

    /// Whether activation `index` is the output activation of an LSTM.
    fn is_shown(&self, index: usize) -> bool {
        matches!(self.role(index), Some(Role::Shown(_)))
    }

    fn role(&self, index: usize) -> Option<Role> {
        self.rules.activations.get(index).copied()
    }

    /// The input range that the table of activation `index` must cover, as a power of two: the range of its sums, or
    /// the part of it in which the activation still changes.
    fn reach(&self, index: usize) -> i32 {
        let of = activation(self.node, index);
        let mut most = most_reach(of);
        // The table of a growing activation covers at least the observed range.
        if candidate::grows(of) {
            let range = self.seen(index);
            while most <= self.farthest(index) && magnitude(of, 2.0_f32.powi(most)) < range {
                most += 1;
            }
        }
        self.most_sum(index).map_or(most, |sum| most.min(sum.log2().ceil() as i32))
    }

    /// The greatest observed magnitude of the activation's output; 0 if unknown.
    fn seen(&self, index: usize) -> f32 {
        let (name, of) = (&self.node.name, activation(self.node, index));
        let candidate = || self.ranges.of(&candidate::name(self.node));
        match self.role(index) {
            Some(Role::Output) => self.ranges.of(name),
            Some(Role::Candidate) => self.ranges.of(name).max(candidate()),
            Some(Role::Shown(_)) => magnitude(of, shown_reach(self.node, self.model, self.ranges)),
            Some(Role::CandidateBits(_) | Role::Weighed) => candidate(),
            Some(Role::Gate | Role::Applied | Role::Limits) | None => 0.0,
        }
    }

    /// The greatest possible magnitude of a sum before activation `index`; `None` if the sum does not depend on weights
    /// alone.
    fn most_sum(&self, index: usize) -> Option<f64> {
        let options = self.node.option_bits(self.spec);
        if self.rules.summed.is_none_or(|known| options & !known != 0) {
            return None;
        }
        // The greatest magnitude of each row's sum, over any input and any previous output.
        let matrix = |tensor: usize| {
            let of = &self.integer.tensors[tensor];
            let Storage::Weights(unit) = of.storage else { return Vec::new() };
            let reached = self.unit(&unit) * f64::from(MAX);
            let sum = |row: &[f32]| row.iter().map(|weight| f64::from(weight.abs())).sum::<f64>() * reached;
            self.image_rows(of).chunks(cols(self.node, self.spec, of)).map(sum).collect::<Vec<f64>>()
        };
        let mut most = 0.0;
        for tensor in self.integer.tensors.iter().filter(|tensor| tensor.presence.required(self.options)) {
            let Storage::Rows { input, recurrent, to } = tensor.storage else { continue };
            let bias = self.image_rows(tensor);
            let (input, recurrent) = (matrix(input), recurrent.map_or_else(Vec::new, |(tensor, _)| matrix(tensor)));
            let sums = bias.iter().enumerate().map(|(row, bias)| {
                let part = |part: &[f64]| part.get(row).copied().unwrap_or(0.0);
                let before = matches!(to[row % to.len()], Unit::Before { activation, .. } if activation == index);
                if before { f64::from(bias.abs()) + part(&input) + part(&recurrent) } else { 0.0 }
            });
            // The sums of several tensors are added.
            most += sums.fold(0.0, f64::max);
        }
        (most > 0.0).then_some(most)
    }

    /// Sets as many fraction bits as the range of the input permits, and a table that covers this range.
    pub(super) fn set_activation(&mut self) {
        if needs_octaves(activation(self.node, 0)) {
            // The argument is the input with more bits, whatever its unit.
            self.set("table_shift", OVER_OCTAVES as i32);
            return self.set("multiplier", multiplier(1.0));
        }
        let reach = (self.input * f64::from(MAX)).log2().ceil() as i32;
        let bits = (MAX_TABLE_SHIFT + HALF_TABLE_BITS - reach).clamp(LEAST_BITS, MOST_BITS);
        self.set("preact_bits", bits);
        if bits != PREACT_BITS as i32 {
            self.options |= 1 << OTHER;
        }
        self.set("table_shift", (reach + bits - HALF_TABLE_BITS).min(MAX_TABLE_SHIFT));
        // A rescaled value has 8 more fraction bits than its scale.
        self.set("multiplier", multiplier(self.input * f64::from(bits - RESCALED_BITS as i32).exp2()));
    }

    /// The bytes of an activation table.
    pub(super) fn table(&self, tensor: &TensorSpec) -> Vec<u8> {
        let index = index_of(tensor);
        let of = activation(self.node, index);
        let after = self.after(index);
        let bits = if self.is_shown(index) { self.shown_bits() } else { self.get("preact_bits") };
        let step = f64::from(self.get(&table_shift(tensor.name)) - bits).exp2();
        let most = f64::from(MAX);
        let argument = |at: usize| {
            if !needs_octaves(of) {
                return (at as f64 - (TABLE_LEN / 2) as f64) * step;
            }
            if at + 1 == TABLE_LEN {
                return 0.0;
            }
            let (octave, interval) = (at >> OCTAVE_BITS, at % (1 << OCTAVE_BITS));
            let unit = match self.rules.numbers {
                Numbers::Applied => self.input / f64::from(1 << RESCALED_BITS),
                _ => f64::from(-bits).exp2(),
            };
            unit * (octave as f64).exp2() * (1.0 + interval as f64 / f64::from(1 << OCTAVE_BITS))
        };
        let value = |at: usize| {
            let x = argument(at);
            (f64::from(of.apply(x as f32)) / after).round().clamp(-most, most) as i16
        };
        let filled = TABLE_LEN.next_multiple_of(2) - TABLE_LEN;
        let values = (0..TABLE_LEN).map(value).chain(std::iter::repeat_n(0, filled));
        values.flat_map(i16::to_le_bytes).collect()
    }

    /// The scale of the output of activation `index`.
    fn after(&self, index: usize) -> f64 {
        match self.role(index) {
            Some(Role::Gate) => Q15,
            Some(Role::CandidateBits(numbers)) => {
                f64::from(-numbers.iter().map(|name| self.get(name)).sum::<i32>()).exp2()
            }
            Some(Role::Shown(number)) => f64::from(-self.get(number)).exp2(),
            Some(Role::Weighed) => f64::from(-weighed_bits(self.node, index, self.ranges)).exp2(),
            Some(Role::Output | Role::Candidate | Role::Applied | Role::Limits) | None => self.output,
        }
    }
}

/// Whether an activation needs a table over octaves, because it is steep near zero or changes far from it.
fn needs_octaves(activation: Activation) -> bool {
    matches!(activation, Activation::Sqrt | Activation::Softsign | Activation::Log { .. })
}

/// The index of a table's activation.
fn index_of(table: &TensorSpec) -> usize {
    match table.presence {
        Presence::With(option) => option.saturating_sub(CURVE) as usize,
        _ => 0,
    }
}

/// The greatest input range that a table needs, as a power of two: beyond it the activation hardly changes, or not at
/// all.
fn most_reach(of: Activation) -> i32 {
    let ends = |reach: i32| [1.0, -1.0].map(|side| of.apply(side * 2.0_f32.powi(reach)));
    let all = ends(TABLE_REACH_BITS);
    (0..TABLE_REACH_BITS)
        .find(|&reach| (reach..TABLE_REACH_BITS).all(|reach| ends(reach) == all))
        .unwrap_or(TABLE_REACH_BITS)
}

/// Name of the number that holds the step width of a table.
fn table_shift(table: &str) -> String {
    format!("{table}_shift")
}
