//! Models quantized to 8-bit integers as a TFLite converter would, made from randomly drawn models. All scales are
//! powers of two.

use std::collections::BTreeMap;

use tidegate::internals::cell::{CellKind, NumberSpec, Storage, TensorSpec};
use tidegate_model::canonical::{Canonical, Integers, Node, Tensor};

/// Scale of the weights.
const WEIGHT: f32 = 1.0 / 32.0;
/// Scale of the activations.
const VALUE: f32 = 1.0 / 128.0;
/// Multiplier of a requantization by 2^shift.
const HALF: i32 = 1 << 30;

/// Adds the integer parameters that the numeric `i8` needs to every node that has an `i8` form, and rounds the weights.
pub fn in_bytes(mut model: Canonical) -> Canonical {
    let value = Integers { scale: VALUE, ..Integers::default() };
    let inputs = model.architecture.inputs.iter().map(|port| (port.name.clone(), value.clone()));
    let mut integers: BTreeMap<String, Integers> = inputs.collect();
    for node in &model.architecture.nodes {
        let kind = CellKind::from_name(&node.cell).expect("a valid model names cells that exist");
        if kind == CellKind::Merge && node.input_size != 2 * node.output_size {
            continue;
        }
        let Some(spec) = kind.byte_spec().filter(|spec| !spec.numbers.is_empty()) else { continue };
        let mut of = if kind == CellKind::Softmax {
            Integers { scale: 1.0 / 256.0, zero_point: -128, ..Integers::default() }
        } else {
            value.clone()
        };
        of.numbers = spec.numbers.iter().map(|number| (number.name.to_owned(), chosen(node, kind, number))).collect();
        for tensor in spec.tensors {
            match tensor.storage {
                Storage::Weights(_) | Storage::Taps => {
                    let [name] = tensor.from else { unreachable!("weights are one tensor") };
                    of.scales.insert((*name).to_owned(), vec![WEIGHT]);
                    let weights = model.tensors.get_mut(&format!("{}.{name}", node.name));
                    let weights = weights.into_iter().flat_map(|tensor| &mut tensor.data);
                    weights.for_each(|weight| *weight = (*weight / WEIGHT).round() * WEIGHT);
                }
                Storage::Requantized { .. } => {
                    let rows = starts(&model.tensors, node, tensor).into_iter();
                    of.rows.insert(tensor.name.to_owned(), rows.flat_map(|start| [start, HALF, -4]).collect());
                }
                Storage::Values if kind == CellKind::Activation => {
                    // Limits stand for the default activation, and a table for the others.
                    if !node.activations.is_empty() {
                        of.rows.insert(tensor.name.to_owned(), (0..256).map(|entry| 3 * entry % 255 - 128).collect());
                    }
                }
                _ => {
                    of.rows.insert(tensor.name.to_owned(), starts(&model.tensors, node, tensor));
                }
            }
        }
        integers.insert(node.name.clone(), of);
    }
    model.architecture.integers = integers;
    model
}

/// Value of an integer parameter of a node: the scale of c is 2^-11, and a requantization without rows keeps the scale.
fn chosen(node: &Node, kind: CellKind, number: &NumberSpec) -> i32 {
    match number.name {
        "cell_bits" => 11,
        "cell_clip" => number.most,
        "least" | "first" => -128,
        "roundings" => 1,
        "zero_point" => -5,
        // A mean by division.
        "factor" if kind == CellKind::Pool => 0,
        "most" => 127,
        // The exponents have 26 fraction bits.
        "lift" => 20,
        "reach" => 31 << 6,
        "shift" if kind == CellKind::Lstm => -22,
        // Gains have the scale of values. Sums have 20 fraction bits more.
        "shift" if matches!(kind, CellKind::Scale | CellKind::Merge) => {
            let multiplies = ["gain", "multiply"].iter().any(|option| node.options.iter().any(|of| of == option));
            if multiplies { -6 } else { -19 }
        }
        name if name.ends_with("shift") => 1,
        _ => HALF,
    }
}

/// The node's first bias, or its gains, in integers; zeros if it has none.
fn starts(tensors: &BTreeMap<String, Tensor>, node: &Node, tensor: &TensorSpec) -> Vec<i32> {
    let bias = tensor.from.first().and_then(|name| tensors.get(&format!("{}.{name}", node.name)));
    let unit = if tensor.storage == Storage::Values { VALUE } else { VALUE * WEIGHT };
    match bias {
        Some(bias) => bias.data.iter().map(|bias| (bias / unit).round() as i32).collect(),
        None => {
            let kind = CellKind::from_name(&node.cell).expect("the cell exists");
            let rows = node.dim(kind.spec(), &tensor.rows).expect("its rows");
            vec![0; rows * tensor.gates.len().max(1)]
        }
    }
}
