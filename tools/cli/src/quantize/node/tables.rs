//! Activations that are tabulated, and how far their tables reach.

use tidegate::activation::Activation;
use tidegate::cell::{CURVE, CellKind, OTHER, Presence, Storage, TensorSpec, Unit};
use tidegate::curve::{BITS, LEAST_BITS, MAX_TABLE_SHIFT, PREACT_BITS, TABLE_LEN};
use tidegate::quant::{MAX, RESCALED_BITS};

use super::moves::multiplier;
use super::{HALF_TABLE_BITS, Quantizer, SHOWN_BITS};
use crate::pack::{dim, image_rows};
use crate::quantize::candidate;
use crate::quantize::lstm::{has, shown_reach};
use crate::quantize::scales::{Q15, TABLE_REACH_BITS, activation, weighed_bits};

/// The most fraction bits of what an activation takes.
const MOST_BITS: i32 = *BITS.end();
/// The furthest that a table of sums without fraction bits reaches to, as a power of two.
const MOST_REACH: i32 = MAX_TABLE_SHIFT + HALF_TABLE_BITS;

impl Quantizer<'_> {
    /// The fraction bits that sums may have, at most so many, so that every table reaches as far as it is to.
    pub(super) fn table_bits(&self, most: i32) -> i32 {
        let of_sums = self.tables().filter(|&(_, index, _)| !self.is_shown(index));
        of_sums.map(|(_, _, reach)| MOST_REACH - reach).fold(most, i32::min)
    }

    /// The widths of the steps of all tables, of sums with so many fraction bits.
    pub(super) fn set_tables(&mut self, bits: i32) {
        let every = self.integer.tensors.iter().filter(|of| of.storage == Storage::Curve);
        for (table, index) in every.map(|table| (table.name, index_of(table))) {
            let bits = if self.is_shown(index) { self.shown_bits() } else { bits };
            self.set(&table_shift(table), self.reach(index) + bits - HALF_TABLE_BITS);
        }
    }

    /// What stands against a table: an activation that goes on where none of its steps can be wide enough.
    pub(super) fn too_far(&self) -> Option<String> {
        let beyond = |(_, index, reach): (&str, usize, i32)| {
            // Without normalization what is shown has as many fraction bits as it can.
            let most = MOST_REACH - if self.is_shown(index) && !has(self.node, "output_norm") { SHOWN_BITS } else { 0 };
            let of = activation(self.node, index);
            (reach > most).then(|| format!(" whose {of} sees more than 2^{most}, where its table ends"))
        };
        self.tables().find_map(beyond)
    }

    /// Every table: its name, its activation, and what it is to reach to.
    fn tables(&self) -> impl Iterator<Item = (&'static str, usize, i32)> {
        let present = |of: &&TensorSpec| of.storage == Storage::Curve && of.presence.required(self.options);
        let tables = self.integer.tensors.iter().filter(present);
        tables.map(|table| (table.name, index_of(table), self.reach(index_of(table))))
    }

    /// Whether an activation is that of an LSTM's output.
    fn is_shown(&self, index: usize) -> bool {
        self.node.cell == CellKind::Lstm.spec().name && index == 2
    }

    /// What activation `index` reaches to, as a power of two: as far as its sums can, or matter.
    fn reach(&self, index: usize) -> i32 {
        let of = activation(self.node, index);
        let mut most = most_reach(of);
        // What grows is not cut off below what was seen of it.
        if candidate::grows(of) {
            let range = self.seen(index);
            while most <= MOST_REACH && magnitude(of, most) < range {
                most += 1;
            }
        }
        self.most_sum(index).map_or(most, |sum| most.min(sum.log2().ceil() as i32))
    }

    /// How far went what an activation gave; 0 where that is not known.
    fn seen(&self, index: usize) -> f32 {
        let (name, of) = (&self.node.name, activation(self.node, index));
        let candidate = || self.ranges.of(&candidate::name(self.node));
        match CellKind::from_name(&self.node.cell) {
            Some(CellKind::Dense | CellKind::Conv | CellKind::DepthwiseConv | CellKind::Elman) => self.ranges.of(name),
            Some(CellKind::Gru) if index == 1 => self.ranges.of(name).max(candidate()),
            Some(CellKind::Lstm) if index == 2 => {
                let shown = shown_reach(self.node, self.model, self.ranges);
                of.apply(shown).abs().max(of.apply(-shown).abs())
            }
            Some(kind) if candidate::index(kind) == Some(index) => candidate(),
            _ => 0.0,
        }
    }

    /// The greatest magnitude that a sum before activation `index` can have; none where more than weights make it.
    fn most_sum(&self, index: usize) -> Option<f64> {
        let summed = match CellKind::from_name(&self.node.cell) {
            Some(CellKind::Dense | CellKind::Conv | CellKind::DepthwiseConv) => true,
            Some(CellKind::Elman | CellKind::Gru | CellKind::Lstm) => {
                let known = ["reset_after", "masked", "projection", "coupled"];
                self.node.options.iter().all(|option| known.contains(&option.as_str()))
            }
            _ => false,
        };
        if !summed {
            return None;
        }
        // What a row can reach: any input, and any output before it.
        let matrix = |tensor: usize| {
            let of = &self.integer.tensors[tensor];
            let Storage::Weights(unit) = of.storage else { return Vec::new() };
            let cols = of.cols.as_ref().map_or(1, |cols| dim(self.node, self.spec, cols));
            let rows = image_rows(self.node, self.spec, of, &self.model.tensors);
            let reached = self.unit(&unit) * f64::from(MAX);
            let sum = |row: &[f32]| row.iter().map(|weight| f64::from(weight.abs())).sum::<f64>() * reached;
            rows.chunks(cols).map(sum).collect::<Vec<f64>>()
        };
        let mut most = 0.0;
        for tensor in self.integer.tensors.iter().filter(|tensor| tensor.presence.required(self.options)) {
            let Storage::Rows { input, recurrent, to } = tensor.storage else { continue };
            let bias = image_rows(self.node, self.spec, tensor, &self.model.tensors);
            let (input, recurrent) = (matrix(input), recurrent.map_or_else(Vec::new, |(tensor, _)| matrix(tensor)));
            let sums = bias.iter().enumerate().map(|(row, bias)| {
                let part = |part: &[f64]| part.get(row).copied().unwrap_or(0.0);
                let before = matches!(to[row % to.len()], Unit::Before { activation, .. } if activation == index);
                if before { f64::from(bias.abs()) + part(&input) + part(&recurrent) } else { 0.0 }
            });
            // Those of several tensors are added.
            most += sums.fold(0.0, f64::max);
        }
        (most > 0.0).then_some(most)
    }

    /// As many fraction bits as its input leaves room for, and a table that reaches as far as its input can.
    pub(super) fn set_activation(&mut self) {
        let reach = (self.input * f64::from(MAX)).log2().ceil() as i32;
        let bits = (MAX_TABLE_SHIFT + HALF_TABLE_BITS - reach).clamp(LEAST_BITS, MOST_BITS);
        self.set("preact_bits", bits);
        if bits != PREACT_BITS as i32 {
            self.options |= 1 << OTHER;
        }
        self.set("table_shift", reach + bits - HALF_TABLE_BITS);
        // What is rescaled has 8 fraction bits more than its unit.
        self.set("multiplier", multiplier(self.input * f64::from(bits - RESCALED_BITS as i32).exp2()));
    }

    /// A tabulated activation.
    pub(super) fn table(&self, tensor: &TensorSpec) -> Vec<u8> {
        let index = index_of(tensor);
        let of = activation(self.node, index);
        let after = self.after(index);
        let bits = if self.is_shown(index) { self.shown_bits() } else { self.get("preact_bits") };
        let step = f64::from(self.get(&table_shift(tensor.name)) - bits).exp2();
        let most = f64::from(MAX);
        let value = |at: usize| {
            let x = (at as f64 - (TABLE_LEN / 2) as f64) * step;
            (f64::from(of.apply(x as f32)) / after).round().clamp(-most, most) as i16
        };
        let filled = TABLE_LEN.next_multiple_of(2) - TABLE_LEN;
        let values = (0..TABLE_LEN).map(value).chain(std::iter::repeat_n(0, filled));
        values.flat_map(i16::to_le_bytes).collect()
    }

    /// What comes out of activation `index`.
    fn after(&self, index: usize) -> f64 {
        match (CellKind::from_name(&self.node.cell), index) {
            (Some(CellKind::Lstm), 1) => f64::from(-(self.get("candidate_shift") + self.get("cell_bits"))).exp2(),
            (Some(CellKind::Lstm), 2) => f64::from(-self.get("memory_bits")).exp2(),
            (Some(CellKind::Lstm | CellKind::Gru | CellKind::FastGrnn), 0) => Q15,
            (Some(CellKind::FastGrnn | CellKind::FastRnn), _) => {
                f64::from(-weighed_bits(self.node, index, self.ranges)).exp2()
            }
            _ => self.output,
        }
    }
}

/// Which activation a table is of.
fn index_of(table: &TensorSpec) -> usize {
    match table.presence {
        Presence::With(option) => option.saturating_sub(CURVE) as usize,
        _ => 0,
    }
}

/// The greatest magnitude of an activation up to this power of two.
fn magnitude(of: Activation, reach: i32) -> f32 {
    let end = 2.0_f32.powi(reach);
    of.apply(end).abs().max(of.apply(-end).abs())
}

/// What a table reaches to at most, as a power of two: beyond it nothing changes, or little does.
fn most_reach(of: Activation) -> i32 {
    let ends = |reach: i32| [1.0, -1.0].map(|side| of.apply(side * 2.0_f32.powi(reach)));
    let all = ends(TABLE_REACH_BITS);
    (0..TABLE_REACH_BITS)
        .find(|&reach| (reach..TABLE_REACH_BITS).all(|reach| ends(reach) == all))
        .unwrap_or(TABLE_REACH_BITS)
}

/// The number that says how wide the steps of a table are.
fn table_shift(table: &str) -> String {
    format!("{table}_shift")
}
