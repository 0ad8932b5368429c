//! Products of two matrices that the network computes: `Dot`, and `Attention` over the rows of a window. A product of
//! rows is a multiplication of repeated rows, and a convolution with weights of 1 that adds them up.

use tidegate::internals::{activation::Activation, cell::CellKind};

use super::activation::{Function, add_function};
use crate::canonical::{MAX_SIZE, Tensor};
use crate::error::{ImportError, Result};
use crate::format::picture::Kernel;
use crate::format::refuse::{needs_window_if, unsupported_if};
use crate::format::{case::Case, case::unsupported, layer::Layer, network::Network, network::Source, signal::Signal};

/// The greatest number of features that a gather can move.
const MAX_MOVED: usize = u16::MAX as usize;

/// Adds the layer if its class is one of these.
pub(super) fn add(case: &mut Case<'_>, network: &mut Network, inputs: &[Signal]) -> Result<Option<Signal>> {
    if !matches!(case.cls.as_str(), "Dot" | "Attention") {
        return Ok(None);
    }
    unsupported_if(inputs.iter().any(|input| input.mask.is_some()), "an input with a mask")?;
    unsupported_if(inputs.iter().any(|input| input.shape.len() != 1), "an input of images")?;
    let stream = inputs.iter().any(|input| input.sequence && input.source.rows().is_none());
    needs_window_if(stream, &case.cls)?;
    network.only_full_windows();
    if case.cls == "Dot" { dot(case, network, inputs) } else { attention(case, network, inputs) }.map(Some)
}

/// The rows of a window as columns.
pub(super) fn transposed(network: &mut Network, x: &Signal) -> Result<Signal> {
    let rows = x.source.rows().ok_or_else(|| ImportError::NeedsWindow { what: "a transposed sequence".into() })?;
    unsupported_if(x.mask.is_some(), "a transposed sequence with a mask")?;
    let size = x.source.size();
    network.only_full_windows();
    let flat = x.source.clone().flat();
    let source = if rows == 1 || size == 1 {
        flat
    } else {
        let all = flat.size();
        unsupported_if(all > MAX_MOVED, format_args!("a transposed sequence of {all} numbers"))?;
        let data = (0..size).flat_map(|column| (0..rows).map(move |row| (row * size + column) as f32)).collect();
        let index = Tensor { shape: vec![all], data };
        network.add(Layer::new(CellKind::Gather, all, all).extent("rows", 1).tensor("index", index), &[&flat])
    };
    Ok(Signal { shape: vec![rows], steps: Some(size), sequence: true, ..x.with(source.in_rows(size)) })
}

/// `left rightᵀ`: the products of every row of `left` with every row of `right`. A value without rows is one row.
fn product(network: &mut Network, left: &Source, right: &Source) -> Result<Source> {
    let (size, rows, columns) = (left.size(), left.rows().unwrap_or(1), right.rows().unwrap_or(1));
    let found = right.size();
    unsupported_if(size != found, format_args!("a product of {size} and {found} numbers"))?;
    let all = size.saturating_mul(columns);
    let total = all.saturating_mul(rows);
    unsupported_if(total > MAX_SIZE, format_args!("a product with {total} intermediate numbers"))?;
    let left = match (columns, left.rows()) {
        (1, _) => left.clone(),
        (_, None) => network.repeated(left, columns).flat(),
        (_, Some(rows)) => {
            unsupported_if(size > MAX_MOVED, format_args!("a product of rows of {size} numbers"))?;
            let data = (0..columns).flat_map(|_| (0..size).map(|at| at as f32)).collect();
            let index = Tensor { shape: vec![all], data };
            let layer = Layer::new(CellKind::Gather, size * rows, total).extent("rows", rows).tensor("index", index);
            network.whole(layer, left, Some(rows))
        }
    };
    let right = match (left.rows(), right.clone().flat()) {
        (None, right) => right,
        (Some(1), right) => right.in_rows(1),
        (Some(rows), right) => network.repeated(&right, rows),
    };
    let products = network.add(Layer::merge("multiply", 2, all), &[&left, &right]);
    if size == 1 {
        return Ok(products);
    }
    let ones = Tensor { shape: vec![1, size], data: vec![1.0; size] };
    let sum = Layer::dense(ones, None, Activation::Identity);
    if columns == 1 {
        return Ok(network.add(sum, &[&products]));
    }
    let conv =
        Kernel::of([1, 1]).placed(Layer { kind: CellKind::Conv, ..sum }, [1, columns, size], [1, columns], true)?;
    Ok(network.add(conv, &[&products]))
}

/// `Dot`: the sum over one axis of both inputs. Axes count from the batch.
fn dot(case: &mut Case<'_>, network: &mut Network, inputs: &[Signal]) -> Result<Signal> {
    let [left, right] = inputs else { return Err(ImportError::Unsupported(format!("{} inputs", inputs.len()))) };
    case.must_be("normalize", false)?;
    let Some(given) = case.value("axes") else { return Err(ImportError::Unsupported("a Dot without axes".into())) };
    let axes = match given.as_array().map(Vec::as_slice) {
        Some([left, right]) => [left.as_i64(), right.as_i64()],
        _ => [given.as_i64(); 2],
    };
    // The axis over which it adds up becomes the last one.
    let mut operands = Vec::new();
    for (x, axis) in [left, right].into_iter().zip(axes) {
        let rank = if x.sequence { 2 } else { 1 };
        let axis = axis.map(|axis| if axis < 0 { axis + rank + 1 } else { axis });
        operands.push(match axis {
            Some(axis) if axis == rank => x.clone(),
            Some(1) => transposed(network, x)?,
            _ => return Err(unsupported("axes", &given)),
        });
    }
    let [first, second] = operands.as_slice() else { return Err(unsupported("axes", &given)) };
    // A vector is the left factor, so that the result is one row.
    let (a, b) = if right.sequence { (first, second) } else { (second, first) };
    let source = product(network, &a.source, &b.source)?;
    let sequence = left.sequence && right.sequence;
    let steps = source.rows().filter(|_| sequence);
    Ok(Signal { shape: vec![source.size()], source, steps, sequence, order: None, ..left.clone() })
}

/// `Attention`: `softmax(query keyᵀ) value`; without keys, the values are the keys.
fn attention(case: &mut Case<'_>, network: &mut Network, inputs: &[Signal]) -> Result<Signal> {
    case.must_be("use_scale", false)?;
    let mode = case.text("score_mode")?;
    unsupported_if(mode.as_deref().is_some_and(|mode| mode != "dot"), format_args!("argument score_mode = {mode:?}"))?;
    let (query, value, key) = match inputs {
        [query, value] => (query, value, value),
        [query, value, key] => (query, value, key),
        _ => return Err(ImportError::Unsupported(format!("{} inputs", inputs.len()))),
    };
    unsupported_if(!inputs.iter().all(|input| input.sequence), "an input without time")?;
    unsupported_if(key.source.rows() != value.source.rows(), "keys and values of different lengths")?;
    let scores = product(network, &query.source, &key.source)?;
    let shares = add_function(network, &query.with(scores), Function::Softmax)?;
    let columns = transposed(network, value)?;
    Ok(query.with(product(network, &shares.source, &columns.source)?))
}
