//! The rows of a node: the scales of their sums, the integer weights, and their bytes in the order of the layout.

use std::ops::Range;

use tidegate::Numeric;
use tidegate::internals::{
    cell::{IntegerSpec, Storage, TensorSpec, Unit, WIDE, is_wide},
    curve::Curve,
    image::{GROUP, factors_at},
};

use super::{Quantizer, to_bytes};
use crate::canonical::cols;
use crate::quantize::candidate;
use crate::quantize::covariance::Factor;
use crate::quantize::operand::Values;
use crate::quantize::ranges::RowScales;
use crate::quantize::rows::{Operand, Part, Row, Sum, Target, better, fixed, row, wide, wide_pair};
use crate::quantize::terms::{activation, has};

/// The rows of a tensor with [`Storage::Rows`], and the index of their finer part.
pub type TensorRows = Option<(Vec<Row>, usize)>;

/// The weights of a part of a row in one plane, and the factors of their groups.
type Plane = fn(&Row, usize) -> (&[i8], &[i8]);

/// A matrix that the rows of a tensor multiply.
struct Matrix {
    weights: Vec<f32>,
    cols: usize,
    /// The scale of the values that the columns multiply.
    scale: f64,
    /// The values that the columns multiply, if calibration observed them.
    values: Option<Values>,
    /// The position of these values in the node's [covariance](crate::quantize::covariance::Covariance).
    observed: Option<Range<usize>>,
}

impl Quantizer<'_> {
    /// Quantizes all rows, and sets the index of the finer part of each tensor. With weights in two planes, each of two
    /// matrices has sums of its own.
    pub(super) fn set_rows(&mut self) {
        if self.ranges.is_wide(&self.node.name) && self.takes(WIDE) {
            self.options |= 1 << WIDE;
        }
        self.rows = self.integer.tensors.iter().map(|tensor| self.rows(tensor)).collect();
        let compensated = self.integer.tensors.iter().zip(std::mem::take(&mut self.rows));
        self.rows = compensated.map(|(tensor, rows)| Some(self.compensated(tensor, rows?))).collect();
        for (tensor, rows) in self.integer.tensors.iter().zip(&self.rows) {
            if let (Storage::Rows { recurrent: Some((_, number)), .. }, Some((_, first))) = (tensor.storage, rows) {
                self.numbers[number] = *first as i32;
            }
        }
    }

    /// Whether the integer form has this option.
    fn takes(&self, option: u32) -> bool {
        self.integer.options >> option & 1 == 1
    }

    /// The rows of a tensor with [`Storage::Rows`], and the index of the finer part: the one with which the expected
    /// error of the sums is smaller. `None` for other tensors, and if the rows have no scale.
    fn rows(&self, tensor: &TensorSpec) -> TensorRows {
        let (matrices, to) = self.matrices(tensor)?;
        let bias = self.image_rows(tensor);
        let is_pair = matrices[1].is_some();
        let is_wide = is_wide(self.options);
        let scales = self.ranges.row_scales(&self.key(tensor)).filter(|of| of.scales.len() == bias.len() && !is_wide);
        // The rows for each choice of the finer part, which share their operands.
        let mut orders = match scales {
            Some(of) if of.first <= usize::from(is_pair) => [0, 1].map(|first| first == of.first),
            _ => [true, is_pair && !is_wide],
        }
        .map(|is_tried| is_tried.then(|| Vec::with_capacity(bias.len())));
        for (index, &bias) in bias.iter().enumerate() {
            let (target, operands) = self.row_of(&matrices, to, index, bias);
            let parts = parts(&matrices, &operands, index);
            for (first, rows) in orders.iter_mut().enumerate() {
                let Some(of_order) = rows else { continue };
                let row = match (is_wide, is_pair, scales) {
                    (true, true, _) => wide_pair(parts, target),
                    (true, false, _) => wide(parts[0], target),
                    (false, _, Some(of)) => fixed(parts, first, of.scales[index], target),
                    (false, _, None) => row(parts, first, target),
                };
                match row {
                    Some(row) => of_order.push(row),
                    None => *rows = None,
                }
            }
        }
        better(orders)
    }

    /// The name of a tensor of rows, for [`RowScales`].
    fn key(&self, tensor: &TensorSpec) -> String {
        format!("{}.{}", self.node.name, tensor.name)
    }

    /// The scales of all rows, and their expected squared errors.
    pub(super) fn row_scales(&self) -> Vec<(String, RowScales, Vec<f64>)> {
        let of = |(tensor, rows): (&TensorSpec, &TensorRows)| {
            let (rows, first) = rows.as_ref()?;
            let scales = RowScales { first: *first, scales: rows.iter().map(Row::scales).collect() };
            Some((self.key(tensor), scales, rows.iter().map(|row| row.loss).collect()))
        };
        self.integer.tensors.iter().zip(&self.rows).filter_map(of).collect()
    }

    /// Rows with the same scales whose weights compensate each other's errors.
    fn compensated(&self, tensor: &TensorSpec, (rows, first): (Vec<Row>, usize)) -> (Vec<Row>, usize) {
        let Some((matrices, to)) = self.matrices(tensor) else { return (rows, first) };
        let covers = [0, 1].map(|part| matrices[part].as_ref().is_some_and(|matrix| matrix.observed.is_some()));
        let Some(factor) = self.factor(&matrices).filter(|_| self.is_weighed(tensor)) else { return (rows, first) };
        let bias = self.image_rows(tensor);
        let rows = rows.into_iter().zip(bias).enumerate().map(|(index, (row, bias))| {
            let (target, operands) = self.row_of(&matrices, to, index, bias);
            if target.draw.is_nearest {
                return row;
            }
            row.compensated(parts(&matrices, &operands, index), first, target, (&factor, covers))
        });
        (rows.collect(), first)
    }

    /// The matrices of a tensor's rows, and the units of their sums.
    fn matrices(&self, tensor: &TensorSpec) -> Option<([Option<Matrix>; 2], &'static [Unit])> {
        let Storage::Rows { input, recurrent, to } = tensor.storage else { return None };
        tensor.presence.required(self.options).then_some(())?;
        let recurrent = recurrent.and_then(|(index, _)| self.matrix(index));
        Some(([Some(self.matrix(input)?), recurrent], to))
    }

    fn matrix(&self, index: usize) -> Option<Matrix> {
        let of = &self.integer.tensors[index];
        let Storage::Weights(unit) = of.storage else { return None };
        let (cols, scale) = (cols(self.node, self.spec, of), self.unit(&unit));
        let (input, output) = (self.node.input_size, self.node.output_size);
        let observed = match unit {
            Unit::Input => Some(0..input),
            // A reset gate scales the output down; this is ignored.
            Unit::Output => Some(input..input + output),
            _ => None,
        };
        let values = Values::of(&unit, cols, self.node, self.model, self.ranges);
        let observed = observed.filter(|range| range.len() == cols);
        Some(Matrix { weights: self.image_rows(of), cols, scale, values, observed })
    }

    /// The target of a row, and the values that its two parts multiply.
    fn row_of(&self, matrices: &[Option<Matrix>; 2], to: &[Unit], index: usize, bias: f32) -> (Target, [Operand; 2]) {
        let unit = &to[index % to.len()];
        let is_bounded = self.is_bounded(unit);
        // Weights in two planes are precise enough without weighing. They are not compensated, so an observation that
        // misleads would cost precision.
        let draw = self.ranges.draw(&self.node.name, index);
        let is_weighed = self.is_weighed_for(to, matrices[1].is_some()) && !is_wide(self.options) && !draw.is_nearest;
        let operands = [0, 1].map(|part| match &matrices[part] {
            None => Operand::NONE,
            Some(matrix) => {
                let values = matrix.values.as_ref().filter(|_| is_weighed);
                let weights = matrix.row(index);
                match values {
                    Some(values) => values.operand(weights, matrix.scale, is_bounded),
                    None if draw.is_nearest => Operand::unweighed(weights.len()),
                    None => Operand::unknown(weights.len()),
                }
            }
        });
        (Target { bias: bias.into(), to: self.unit(unit), numeric: self.numeric, draw }, operands)
    }

    /// Whether the errors of a tensor's rows are weighed by the observed values.
    fn is_weighed(&self, tensor: &TensorSpec) -> bool {
        let Storage::Rows { recurrent, to, .. } = tensor.storage else { return false };
        self.is_weighed_for(to, recurrent.is_some())
    }

    /// [`is_weighed`](Self::is_weighed) for sums of these units.
    fn is_weighed_for(&self, to: &[Unit], is_recurrent: bool) -> bool {
        // Normalization removes the common part of the errors of a gate's sums, but the expected error includes it.
        let is_normalized = has(self.node, "gate_norm") || has(self.node, "joint_norm");
        // In a cell without bounds, errors of the state grow beyond what the calibration shows.
        let grows = is_recurrent && !to.iter().any(|unit| self.is_bounded(unit))
            || self.ranges.of(&candidate::name(self.node)) > 0.0;
        !is_normalized && !grows
    }

    /// Whether sums of this unit are arguments of a bounded activation.
    fn is_bounded(&self, unit: &Unit) -> bool {
        let Unit::Before { activation: index, .. } = unit else { return false };
        Curve::of(activation(self.node, *index)).is_some_and(Curve::is_bounded)
    }

    /// The factor of the covariance of the values that the matrices multiply.
    fn factor(&self, matrices: &[Option<Matrix>; 2]) -> Option<Factor> {
        let parts = matrices.iter().flatten().filter_map(|matrix| Some((matrix.observed.clone()?, matrix.scale)));
        let parts: Vec<_> = parts.collect();
        (!parts.is_empty()).then(|| self.ranges.covariance(&self.node.name)?.factor(&parts)).flatten()
    }

    /// The weights of a matrix in the order of the layout.
    pub(super) fn weights(&self, tensor: &TensorSpec) -> Option<Vec<u8>> {
        let index = self.integer.tensors.iter().position(|of| std::ptr::eq(of, tensor))?;
        let (rows, part) = rows_of(self.integer, &self.rows, index)?;
        let cols = rows.first()?.weights[part].len();
        let bytes = self.layout.block_bytes(self.numeric, cols)?;
        let plane = |of: Plane| rows.chunks(4).flat_map(move |rows| self.block(rows, part, of, (cols, bytes)));
        let coarse = plane(|row, part| (&row.weights[part], &row.factors[part]));
        let fine = is_wide(self.options).then(|| plane(|row, part| (&row.fine[part], &row.fine_factors[part])));
        Some(coarse.chain(fine.into_iter().flatten()).collect())
    }

    /// A block of four rows; the last one may hold fewer. `of` selects the plane of a row.
    fn block(&self, rows: &[Row], part: usize, of: Plane, (cols, bytes): (usize, usize)) -> Vec<u8> {
        let (numeric, layout, nibbles) = (self.numeric, self.layout, self.numeric == Numeric::I4x16);
        let mut block = vec![0; bytes];
        for (at, col) in
            (0..4).flat_map(|at| (0..cols.next_multiple_of(layout.columns(numeric))).map(move |col| (at, col)))
        {
            let row = rows.get(at).map(|row| of(row, part));
            let factor = row.and_then(|(_, factors)| factors.get(col / GROUP)).copied().unwrap_or(1);
            let weight = row.and_then(|(weights, _)| weights.get(col)).copied().unwrap_or(0);
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

impl Matrix {
    /// The weights of a row.
    fn row(&self, index: usize) -> &[f32] {
        &self.weights[index * self.cols..][..self.cols]
    }
}

/// The two parts of a row.
fn parts<'a>(matrices: &'a [Option<Matrix>; 2], operands: &'a [Operand; 2], index: usize) -> [Part<'a>; 2] {
    [0, 1].map(|part| match &matrices[part] {
        None => Part::NONE,
        Some(matrix) => Part { weights: matrix.row(index), scale: matrix.scale, operand: &operands[part] },
    })
}

/// The rows that hold the weights of tensor `index`, and the index of their part.
pub fn rows_of<'r>(integer: &IntegerSpec, rows: &'r [TensorRows], index: usize) -> Option<(&'r [Row], usize)> {
    integer.tensors.iter().zip(rows).find_map(|(of, rows)| match of.storage {
        Storage::Rows { input, .. } if input == index => Some((rows.as_ref()?.0.as_slice(), 0)),
        Storage::Rows { recurrent: Some((recurrent, _)), .. } if recurrent == index => {
            Some((rows.as_ref()?.0.as_slice(), 1))
        }
        _ => None,
    })
}

/// The bytes of a tensor of rows: blocks of four sums, then those of the second sums.
pub(super) fn sum_bytes(rows: &[Row]) -> Vec<u8> {
    let first: Vec<Sum> = rows.iter().map(|row| row.sum).collect();
    let second: Vec<Sum> = rows.iter().filter_map(|row| row.second).collect();
    let block = |sums: &[Sum]| {
        let (mut block, mut shifts) = ([0; 9], [0; 4]);
        for (at, sum) in sums.iter().enumerate() {
            block[at] = sum.start;
            block[4 + at] = sum.multiplier;
            shifts[at] = sum.shift;
        }
        block[8] = i32::from_le_bytes(shifts);
        block
    };
    to_bytes(first.chunks(4).chain(second.chunks(4)).map(block).collect::<Vec<_>>().as_flattened())
}
