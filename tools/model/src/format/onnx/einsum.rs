//! `Einsum` of two operands that is a matrix product: each label of both operands is summed, or is the index of a
//! matrix. A matrix for each index of a group of features is a dense layer in groups.

use tidegate::internals::{activation::Activation, cell::CellKind};

use super::{graph::Session, graph::Stop, moves::needed, value::Value, value::inverse};
use crate::canonical::Tensor;
use crate::format::{layer::Layer, refuse::err_if, refuse::fail_if};

/// The labels of two operands and of the result, by their part in the product.
struct Product {
    /// Labels of both operands and the result: each value is a matrix.
    matrices: Vec<char>,
    /// Labels of the first operand and the result.
    rows: Vec<char>,
    /// Labels of the second operand and the result.
    columns: Vec<char>,
    /// Labels of both operands.
    inner: Vec<char>,
}

impl Product {
    fn of(a: &str, b: &str, result: &str) -> Option<Self> {
        let is_plain = |labels: &str| {
            labels.chars().enumerate().all(|(k, label)| label.is_ascii_alphabetic() && !labels[..k].contains(label))
        };
        let all = |labels: &str, keep: &dyn Fn(char) -> bool| labels.chars().filter(|&label| keep(label)).collect();
        let product = Self {
            matrices: all(result, &|label| a.contains(label) && b.contains(label)),
            rows: all(result, &|label| a.contains(label) && !b.contains(label)),
            columns: all(result, &|label| !a.contains(label) && b.contains(label)),
            inner: all(a, &|label| b.contains(label) && !result.contains(label)),
        };
        let Self { matrices, rows, columns, inner } = &product;
        let complete = matrices.len() + rows.len() + inner.len() == a.len()
            && matrices.len() + columns.len() + inner.len() == b.len()
            && matrices.len() + rows.len() + columns.len() == result.len();
        ([a, b, result].into_iter().all(is_plain) && complete).then_some(product)
    }
}

impl Session<'_> {
    pub(super) fn einsum(&mut self, inputs: &[Option<Value>]) -> Result<Value, Stop> {
        let equation = self.attributes("equation")?.text("equation", "")?.replace(' ', "");
        let misfit = || format!("attribute equation = {equation:?} is not a product of two matrices");
        let (operands, result) = equation.split_once("->").ok_or_else(misfit)?;
        let (a_labels, b_labels) = operands.split_once(',').ok_or_else(misfit)?;
        let (a, b) = (needed(inputs, 0)?, needed(inputs, 1)?);
        if a.is_constant() && !b.is_constant() {
            return self.multiplied((b, b_labels), (a, a_labels), result).map_err(|stop| named(stop, misfit));
        }
        self.multiplied((a, a_labels), (b, b_labels), result).map_err(|stop| named(stop, misfit))
    }

    fn multiplied(&mut self, a: (Value, &str), b: (Value, &str), result: &str) -> Result<Value, Stop> {
        let ((a, a_labels), (b, b_labels)) = (a, b);
        let product = Product::of(a_labels, b_labels, result).ok_or(String::new())?;
        let fits = a.shape.len() == a_labels.len() && b.shape.len() == b_labels.len();
        err_if(!fits, String::new)?;
        if b.is_constant() && !product.matrices.is_empty() {
            return self.grouped((a, a_labels), (b, b_labels), product, result);
        }
        let Product { matrices, rows, columns, inner } = product;
        // The product has one dimension for each part of the labels; several labels in a part would need a reshape.
        fail_if(inner.len() != 1 || columns.len() > 1 || (!matrices.is_empty() && rows.len() > 1), "")?;
        let order = |labels: &str, parts: &[&[char]]| -> Vec<usize> {
            parts.concat().into_iter().filter_map(|label| labels.find(label)).collect()
        };
        let mut left = a.transposed(&order(a_labels, &[&matrices, &rows, &inner]))?;
        let mut right = b.transposed(&order(b_labels, &[&matrices, &inner, &columns]))?;
        // A vector is a matrix of one row or one column.
        let at = matrices.len();
        let is_row = rows.is_empty() && !matrices.is_empty();
        if is_row {
            left = left.widened(at)?;
        }
        if columns.is_empty() {
            right = right.widened(at + 1)?;
        }
        let mut value = self.mat_mul_of(&left, &right)?;
        if columns.is_empty() {
            value = value.narrowed(value.shape.len() - 1)?;
        }
        if is_row {
            value = value.narrowed(at)?;
        }
        let made: Vec<char> = [matrices, rows, columns].concat();
        let places: Vec<usize> = made.into_iter().filter_map(|label| result.find(label)).collect();
        Ok(value.transposed(&inverse(&places))?)
    }
}

impl Session<'_> {
    /// A product with a known matrix for each index of `matrices`: a dense layer in groups.
    fn grouped(
        &mut self,
        (a, a_labels): (Value, &str),
        (b, b_labels): (Value, &str),
        product: Product,
        result: &str,
    ) -> Result<Value, Stop> {
        let Product { matrices, rows, columns, inner } = product;
        let order = |labels: &str, parts: &[&[char]]| -> Vec<usize> {
            parts.concat().into_iter().filter_map(|label| labels.find(label)).collect()
        };
        let x = a.transposed(&order(a_labels, &[&rows, &matrices, &inner]))?;
        let weights = b.transposed(&order(b_labels, &[&matrices, &columns, &inner]))?;
        let size = |dims: &[usize]| dims.iter().product::<usize>();
        let (before, features) = x.shape.split_at(rows.len());
        let (groups, own) = weights.shape.split_at(matrices.len());
        let units = &own[..columns.len()];
        let fits = features == [groups, &own[columns.len()..]].concat() && !weights.shape.contains(&0);
        fail_if(!fits, format_args!("its operands are {:?} and {:?}", a.shape, b.shape))?;
        for axis in rows.len()..x.shape.len() {
            self.within_sequence(&x, axis)?;
        }
        let kept: Vec<_> = x.axes[..rows.len()].to_vec();
        let flat = x.reshaped([before, &[size(features)]].concat())?;
        let flat = flat.with_axes(kept.iter().copied().chain([None]).collect());
        let outputs = size(groups) * size(units);
        let weights = Tensor { shape: vec![outputs, size(features) / size(groups)], data: weights.known_floats()? };
        let made = self.over_rows(&flat, &[rows.len()], |inputs| {
            let layer = Layer::new(CellKind::Dense, inputs, outputs).tensor("weights", weights);
            layer.extent("groups", size(groups)).activation("activation", Activation::Identity)
        })?;
        let axes = kept.into_iter().chain(vec![None; matrices.len() + columns.len()]).collect();
        let value = made.reshaped([before, groups, units].concat())?.with_axes(axes);
        let labels: Vec<char> = [rows, matrices, columns].concat();
        let places: Vec<usize> = labels.into_iter().filter_map(|label| result.find(label)).collect();
        Ok(value.transposed(&inverse(&places))?)
    }
}

/// Replaces an empty reason of a stop by `reason`.
fn named(stop: Stop, reason: impl FnOnce() -> String) -> Stop {
    match stop {
        Stop::Reason(given) if given.is_empty() => Stop::Reason(reason()),
        other => other,
    }
}
