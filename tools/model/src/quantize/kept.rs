//! The values that the quantized weights stand for, and the scale of every value: for training that accounts for
//! quantization.

use std::collections::BTreeMap;

use tidegate::internals::{
    cell::{CellKind, IntegerSpec},
    image::GROUP,
};
use tidegate::{Layout, Numeric};

use super::node::rows_of;
use super::{QuantizeError, Quantized, QuantizedNode, Ranges};
use crate::canonical::{Canonical, Node, canonical_rows};

/// Rounding moves a weight by half a step; the rest covers the error of the division.
const HALF_STEP: f64 = 0.5 + 1e-9;

/// A weight after quantization.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KeptWeight {
    /// The real value of the weight's integer.
    pub value: f32,
    /// Whether the weight is clipped at the integer range of its row or group.
    pub cut: bool,
}

/// The quantized weights and the scales of a model.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    /// Each weight of every matrix, by its canonical name and in its order.
    pub weights: BTreeMap<String, Vec<KeptWeight>>,
    /// The scale of each value, by its name, and of an LSTM's `<node>.cell_state` and `<node>.memory`, the input of its
    /// projection.
    pub units: BTreeMap<String, f64>,
}

impl Kept {
    /// Quantizes a valid model to `i8x16` or `i4x16`, exactly as [`pack_with`](crate::pack::pack_with) does with
    /// [`nearest`](Ranges::nearest) ranges.
    ///
    /// # Errors
    /// If a node has no integer form.
    pub fn new(model: &Canonical, ranges: &Ranges, numeric: Numeric) -> Result<Self, QuantizeError> {
        Ok(Self::of(&Quantized::new(model, numeric, &ranges.nearest(), Layout::Portable)?))
    }

    /// The weights and scales of a model in integers.
    pub fn of(quantized: &Quantized) -> Self {
        let Quantized { model, scales, nodes: all, .. } = quantized;
        let mut kept = Self::default();
        let (inputs, nodes) = (&model.architecture.inputs, &model.architecture.nodes);
        for name in inputs.iter().map(|input| &input.name).chain(nodes.iter().map(|node| &node.name)) {
            kept.units.insert(name.clone(), scales.of(name));
        }
        for (node, quantized) in nodes.iter().zip(all) {
            let kind = CellKind::from_name(&node.cell).and_then(|kind| Some((kind, kind.integer_spec()?)));
            let Some((kind, integer)) = kind else { continue };
            for (number, name) in [("cell_bits", "cell_state"), ("memory_bits", "memory")] {
                if let Some(at) = integer.numbers.iter().position(|of| of.name == number) {
                    let unit = f64::from(-quantized.numbers[at]).exp2();
                    kept.units.insert(format!("{}.{name}", node.name), unit);
                }
            }
            kept.see(node, kind, integer, quantized, model);
        }
        kept
    }

    fn see(
        &mut self,
        node: &Node,
        kind: CellKind,
        integer: &IntegerSpec,
        quantized: &QuantizedNode,
        model: &Canonical,
    ) {
        for (index, tensor) in integer.tensors.iter().enumerate() {
            let (Some((rows, part)), &[name]) = (rows_of(integer, &quantized.rows, index), tensor.from) else {
                continue;
            };
            let name = format!("{}.{name}", node.name);
            let Some(before) = model.tensors.get(&name) else { continue };
            let none = KeptWeight { value: 0.0, cut: false };
            let kept = self.weights.entry(name).or_insert_with(|| vec![none; before.data.len()]);
            for (row, place) in rows.iter().zip(canonical_rows(node, kind.spec(), tensor)) {
                let (weights, step) = (&row.weights[part], row.steps[part]);
                let places = place * weights.len()..(place + 1) * weights.len();
                let before = &before.data[places.clone()];
                for (col, (kept, (&weight, &before))) in
                    kept[places].iter_mut().zip(weights.iter().zip(before)).enumerate()
                {
                    let factor = row.factors[part].get(col / GROUP).copied().unwrap_or(1);
                    let value = f64::from(weight) * step;
                    let far = (f64::from(before) - value).abs();
                    *kept = KeptWeight { value: value as f32, cut: far > HALF_STEP * step * f64::from(factor) };
                }
            }
        }
    }
}
