//! Packing to the numeric `i8`, for models that are integer models already, such as TFLite's. Nothing is measured or
//! chosen here: the integers of the model are arranged in the layout of the image.

use std::collections::BTreeMap;

use tidegate::internals::{
    activation::Activation,
    cell::{CURVE, CellKind, CellSpec, IntegerSpec, OTHER, Presence, Role, Sizes, Storage, TensorSpec},
    quant::RowBlock,
};
use tidegate::{Layout, Numeric};

use super::node::{QuantizedNode, index_bytes, to_bytes};
use super::{QuantizeError, Scales};
use crate::canonical::{Canonical, Integers, Node, Tensor, dim, image_rows};

const NUMERIC: Numeric = Numeric::I8;

/// Returns the scale and the zero point of every value of a model. A value that a node only moves has those of the
/// node's input.
///
/// # Errors
/// If the model does not state them for an input or a node.
pub fn counts(model: &Canonical) -> Result<(Scales, BTreeMap<String, i32>), QuantizeError> {
    let architecture = &model.architecture;
    let (mut scales, mut zero_points) = (BTreeMap::new(), BTreeMap::new());
    let inputs = architecture.inputs.iter().map(|input| (&input.name, None));
    for (name, moved) in inputs.chain(architecture.nodes.iter().map(|node| (&node.name, node.inputs.first()))) {
        let stated = architecture.integers.get(name).map(|of| (f64::from(of.scale), of.zero_point));
        let moved = || moved.and_then(|from| Some((*scales.get(from)?, *zero_points.get(from)?)));
        let known = stated.or_else(moved);
        let (scale, zero_point) = known.ok_or_else(|| QuantizeError::NotInIntegers { value: name.clone() })?;
        scales.insert(name.clone(), scale);
        zero_points.insert(name.clone(), zero_point);
    }
    Ok((Scales::of_known(scales), zero_points))
}

/// Converts a node to the form of the image, with the integers that its model states.
///
/// # Errors
/// If the model lacks an integer that the cell needs, or the cell has no `i8` form.
pub fn quantized(node: &Node, model: &Canonical, layout: Layout) -> Result<QuantizedNode, QuantizeError> {
    let refuse = |with: String| QuantizeError::NoByteForm { node: node.name.clone(), cell: node.cell.clone(), with };
    let kind = CellKind::from_name(&node.cell).ok_or_else(|| refuse(String::new()))?;
    let (spec, integer) = (kind.spec(), kind.byte_spec().ok_or_else(|| refuse(String::new()))?);
    let options = node.option_bits(spec);
    if let Some(option) = (0..spec.options.len()).find(|bit| options & !integer.options & 1 << bit != 0) {
        return Err(refuse(format!(" with {}", spec.options[option])));
    }
    let extents = node.extent_bytes(spec);
    let (input, hidden, output) = (node.input_size, node.hidden_size, node.output_size);
    if (Sizes { input, hidden, output, options, extents: &extents }).broken(integer.rules).is_some() {
        return Err(refuse(" with groups or sizes that this numeric lacks".to_owned()));
    }
    let none = Integers::default();
    let given = match model.architecture.integers.get(&node.name) {
        Some(given) => given,
        None if integer.numbers.is_empty() && integer.tensors.iter().all(is_moved) => &none,
        None => return Err(QuantizeError::NotInIntegers { value: node.name.clone() }),
    };
    let options = options | tabulated(integer, given);
    let limited = integer.quantization.is_some_and(|rules| rules.activations == [Role::Limits]);
    if let Some((name, activation)) = node.activations.iter().next() {
        // Limits stand for an activation that only clips; any other needs a table.
        let clips = limited && activation.parse().is_ok_and(is_clip);
        if !clips && options & 1 << CURVE == 0 {
            return Err(refuse(format!(" whose {name} is {activation}")));
        }
    }
    let number = |name: &str| {
        let number = given.numbers.get(name).copied();
        number.ok_or_else(|| refuse(format!(" whose integers have no {name}")))
    };
    let numbers = integer.numbers.iter().map(|of| number(of.name)).collect::<Result<Vec<i32>, _>>()?;
    let layer = Layer { node, spec, model, given, layout };
    let tensor = |tensor: &TensorSpec| {
        let present = tensor.presence.required(options).then(|| layer.tensor(tensor).map_err(refuse));
        present.transpose()
    };
    let tensors = integer.tensors.iter().map(tensor).collect::<Result<Vec<_>, _>>()?;
    Ok(QuantizedNode {
        options,
        numbers,
        is_limited: options & 1 << OTHER == 0,
        tensors,
        rows: Vec::new(),
        row_scales: Vec::new(),
    })
}

/// The option bits of a node whose integers include tables of activations.
fn tabulated(integer: &IntegerSpec, given: &Integers) -> u32 {
    let bits = |tensor: &TensorSpec| match tensor.presence {
        Presence::With(option) if option >= CURVE && given.rows.contains_key(tensor.name) => 1 << OTHER | 1 << option,
        _ => 0,
    };
    integer.tensors.iter().map(bits).fold(0, |all, bits| all | bits)
}

/// Whether a tensor holds positions instead of weights, so that it needs no integers.
fn is_moved(tensor: &TensorSpec) -> bool {
    tensor.storage == Storage::Index
}

/// Whether an activation is only a clamp, which limits can express.
fn is_clip(activation: Activation) -> bool {
    matches!(activation, Activation::Identity | Activation::Relu | Activation::Relu6 | Activation::HardTanh)
}

struct Layer<'a> {
    node: &'a Node,
    spec: &'static CellSpec,
    model: &'a Canonical,
    given: &'a Integers,
    layout: Layout,
}

impl Layer<'_> {
    /// The bytes of a tensor. The error completes a sentence that begins with the name of the cell.
    fn tensor(&self, tensor: &TensorSpec) -> Result<Vec<u8>, String> {
        match tensor.storage {
            Storage::Weights(_) => self.weights(tensor, self.layout),
            Storage::Taps => self.weights(tensor, Layout::Portable),
            Storage::Requantized { .. } => {
                let rows = self.rows(tensor, 3)?;
                let blocks = rows.chunks(4).map(row_block).collect::<Option<Vec<_>>>();
                let blocks = blocks.ok_or_else(|| format!(" whose {} have a shift out of its range", tensor.name))?;
                Ok(to_bytes(blocks.as_flattened()))
            }
            Storage::Starts { .. } | Storage::Addends => {
                let mut starts: Vec<i32> = self.rows(tensor, 1)?.into_iter().flatten().copied().collect();
                starts.resize(starts.len().next_multiple_of(4), 0);
                Ok(to_bytes(&starts))
            }
            Storage::Values => {
                let values = self.rows(tensor, 1)?.into_iter().flatten().map(|&value| i16::try_from(value));
                let values = values.collect::<Result<Vec<i16>, _>>();
                let mut values = values.map_err(|_| format!(" whose {} exceed 16 bits", tensor.name))?;
                values.resize(values.len().next_multiple_of(4), 0);
                Ok(values.into_iter().flat_map(i16::to_le_bytes).collect())
            }
            Storage::Index => Ok(index_bytes(&image_rows(self.node, self.spec, tensor, &self.model.tensors))),
            _ => Err(format!(" with {}", tensor.name)),
        }
    }

    /// The `each` integers of every row, ordered by unit.
    fn rows(&self, tensor: &TensorSpec, each: usize) -> Result<Vec<&[i32]>, String> {
        let (units, blocks) = (dim(self.node, self.spec, &tensor.rows), tensor.gates.len().max(1));
        let given = self.given.rows.get(tensor.name).map(Vec::as_slice).unwrap_or_default();
        if given.len() != units * blocks * each {
            let needed = units * blocks * each;
            return Err(format!(" whose {} are {} integers, not {needed}", tensor.name, given.len()));
        }
        let row = |index: usize| &given[((index % blocks) * units + index / blocks) * each..][..each];
        Ok((0..units * blocks).map(row).collect())
    }

    /// The weights of a matrix in the order of a layout.
    fn weights(&self, tensor: &TensorSpec, layout: Layout) -> Result<Vec<u8>, String> {
        let [name] = tensor.from else { return Err(format!(" with {}", tensor.name)) };
        let scales = self.given.scales.get(*name).map(Vec::as_slice).unwrap_or_default();
        let Some(Tensor { shape, data }) = self.model.tensors.get(&format!("{}.{name}", self.node.name)) else {
            return Err(format!(" without {name}"));
        };
        let (rows, cols) = (shape.first().copied().unwrap_or(0), shape.get(1).copied().unwrap_or(1));
        if scales.is_empty() || !rows.is_multiple_of(scales.len()) {
            return Err(format!(" with {} scales for the {rows} rows of {name}", scales.len()));
        }
        let of_row = |index: usize| scales[index / (rows / scales.len())];
        let integer = |(index, value): (usize, &f32)| {
            let integer = (f64::from(*value) / f64::from(of_row(index / cols))).round();
            (-128.0..=127.0).contains(&integer).then_some(integer as f32)
        };
        let integers = data.iter().enumerate().map(integer).collect::<Option<Vec<f32>>>();
        let data = integers.ok_or_else(|| format!(" whose {name} are not 8-bit integers times their scales"))?;
        let alone = [(format!("{}.{name}", self.node.name), Tensor { shape: shape.clone(), data })].into();
        let rows = image_rows(self.node, self.spec, tensor, &alone);
        let bytes = layout.block_bytes(NUMERIC, cols).ok_or_else(|| format!(" with too many {name}"))?;
        Ok(rows.chunks(4 * cols).flat_map(|rows| block_of(rows, cols, layout, bytes)).collect())
    }
}

/// A block of four rows; the last one may hold fewer.
fn block_of(rows: &[f32], cols: usize, layout: Layout, bytes: usize) -> Vec<u8> {
    let mut block = vec![0; bytes];
    let padded = cols.next_multiple_of(layout.columns(NUMERIC));
    for (row, col) in (0..4).flat_map(|row| (0..padded).map(move |col| (row, col))) {
        let weight = if col < cols { rows.get(row * cols + col).copied().unwrap_or(0.0) } else { 0.0 };
        block[layout.place(NUMERIC, row, col)] = layout.code_of(NUMERIC, weight as i8);
    }
    block
}

/// Start, factor and shift of up to four rows.
fn row_block(rows: &[&[i32]]) -> Option<RowBlock> {
    let (mut block, mut shifts) = ([0; 9], [0; 4]);
    for (at, row) in rows.iter().enumerate() {
        let [start, factor, shift] = **row else { return None };
        block[at] = start;
        block[4 + at] = factor;
        shifts[at] = i8::try_from(shift).ok()?.cast_unsigned();
    }
    block[8] = i32::from_le_bytes(shifts);
    Some(block)
}
