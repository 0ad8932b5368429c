//! Activations that are tabulated, and how far their tables reach.

use tidegate::activation::Activation;
use tidegate::cell::{CURVE, CellKind, OTHER, Presence, Storage, TensorSpec, Unit};
use tidegate::curve::{BITS, LEAST_BITS, MAX_TABLE_SHIFT, PREACT_BITS, TABLE_LEN};
use tidegate::quant::{MAX, RESCALED_BITS};

use super::moves::multiplier;
use super::{HALF_TABLE_BITS, Quantizer};
use crate::pack::{dim, image_rows};
use crate::quantize::Ranges;
use crate::quantize::scales::{Q15, TABLE_REACH_BITS, activation, weighed_bits};

/// The most fraction bits of what an activation takes.
const MOST_BITS: i32 = *BITS.end();

impl Quantizer<'_> {
    /// The widths of the steps of all tables, of sums with so many fraction bits.
    pub(super) fn set_tables(&mut self, ranges: &Ranges, bits: i32) {
        for index in 0..self.spec.activations.len() {
            let table = |of: &&TensorSpec| of.storage == Storage::Curve && index_of(of) == index;
            if let Some(table) = self.integer.tensors.iter().find(table) {
                self.set(&table_shift(table.name), self.reach(index, ranges) + bits - HALF_TABLE_BITS);
            }
        }
    }

    /// What the table of activation `index` reaches to, as a power of two: as far as its sums can, or matter.
    fn reach(&self, index: usize, ranges: &Ranges) -> i32 {
        let of = activation(self.node, index);
        let mut most = most_reach(of);
        // What grows is not cut off below what was seen of it.
        if self.grows(index, of) {
            while most < MAX_TABLE_SHIFT && magnitude(of, most) < ranges.of(&self.node.name) {
                most += 1;
            }
        }
        self.most_sum(index).map_or(most, |sum| most.min(sum.log2().ceil() as i32))
    }

    /// Whether an activation that has no bound makes the output.
    fn grows(&self, index: usize, of: Activation) -> bool {
        let output = match CellKind::from_name(&self.node.cell) {
            Some(CellKind::Dense | CellKind::Conv | CellKind::DepthwiseConv | CellKind::Elman) => index == 0,
            Some(CellKind::Gru) => index == 1,
            _ => false,
        };
        output && magnitude(of, 2 * TABLE_REACH_BITS) > 4.0 * magnitude(of, TABLE_REACH_BITS)
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
            let rows = image_rows(self.node, self.spec, of, self.model);
            let reached = self.unit(&unit) * f64::from(MAX);
            let sum = |row: &[f32]| row.iter().map(|weight| f64::from(weight.abs())).sum::<f64>() * reached;
            rows.chunks(cols).map(sum).collect::<Vec<f64>>()
        };
        let mut most = 0.0;
        for tensor in self.integer.tensors.iter().filter(|tensor| tensor.presence.required(self.options)) {
            let Storage::Rows { input, recurrent, to } = tensor.storage else { continue };
            let bias = image_rows(self.node, self.spec, tensor, self.model);
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
        let bits = if self.node.cell == "lstm" && index == 2 { self.shown_bits() } else { self.get("preact_bits") };
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
                f64::from(-weighed_bits(activation(self.node, index))).exp2()
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
pub fn most_reach(of: Activation) -> i32 {
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
