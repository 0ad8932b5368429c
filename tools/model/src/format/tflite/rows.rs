//! Rows of integer weights, shared by fully connected layers and convolutions.

use tidegate::internals::activation::Activation;

use super::integers::{Counted, Counts, Multiplier, limits};
use super::lower::{Reader, Trouble};
use super::options::FUSED;
use super::schema::{Operator, Type, activation};
use crate::format::refuse::fail_if;

/// Precision in which the scale of the input and a single scale of the weights are multiplied. Scales for each row are
/// always multiplied in f64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// f32
    OfScales,
    /// f64
    OfProducts,
}

/// Dimension of the weights that counts the filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filters {
    /// The first.
    First,
    /// The last of `[1, height, width, filters]`.
    Last,
}

impl Filters {
    /// Index of the dimension.
    fn dimension(self) -> i32 {
        match self {
            Self::First => 0,
            Self::Last => 3,
        }
    }

    /// The weights with the filters first; `[filters, height, width, 1]` if they were last.
    fn first<T: Copy>(self, (shape, data): (Vec<usize>, Vec<T>)) -> Result<(Vec<usize>, Vec<T>), Trouble> {
        match (self, shape.as_slice()) {
            (Self::First, _) => Ok((shape, data)),
            (Self::Last, &[1, height, width, filters]) => {
                let data = (0..filters).flat_map(|filter| data.iter().skip(filter).step_by(filters)).copied();
                Ok((vec![filters, height, width, 1], data.collect()))
            }
            (Self::Last, _) => Err(format!("its weights are {shape:?}, not [1, height, width, filters]").into()),
        }
    }
}

/// Weights and bias of an operator.
pub struct Rows {
    /// Shape; the first dimension counts the rows.
    pub shape: Vec<usize>,
    /// Weights as floats.
    pub weights: Vec<f32>,
    /// Bias of each row as a float.
    pub bias: Option<Vec<f32>>,
    pub activation: Activation,
    /// Quantization of the output and the integers of the node; `None` for an operator of floats.
    pub integers: Option<(Counts, Counted)>,
}

impl Reader<'_> {
    /// The weights (input 1) and the bias (input 2) of an operator. `input` is the quantization of its input.
    pub fn rows(
        &mut self,
        operator: &Operator<'_>,
        input: Option<Counts>,
        precision: Precision,
        filters: Filters,
    ) -> Result<Rows, Trouble> {
        let Some(input) = input else {
            let activation = operator.limit()?;
            let (shape, weights) = filters.first(self.floats(operator, 1)?.ok_or("its weights are missing")?)?;
            let bias = self.floats(operator, 2)?.map(|(_, data)| data);
            return Ok(Rows { shape, weights, bias, activation, integers: None });
        };
        let output = self.output_counts(operator)?.ok_or("its input is of int8, but its output is not")?;
        let (shape, weights, quantization) = self.integers(operator, 1, Type::I8)?.ok_or("its weights are missing")?;
        let (shape, weights) = filters.first((shape, weights))?;
        let count = shape.first().copied().unwrap_or(1);
        if filters == Filters::Last {
            // The budget counts the rows by the first dimension of the file.
            self.take_rows(count)?;
        }
        let quantization = quantization.ok_or("its weights have no scale")?;
        let per_row =
            quantization.scales.len() == count && (count == 1 || quantization.dimension == filters.dimension());
        let moved = quantization.zero_points.iter().any(|&zero_point| zero_point != 0);
        let misfit = moved || !(per_row || quantization.scales.len() == 1);
        fail_if(misfit, "its weights have a zero point other than 0, or neither one scale nor one for each row")?;
        let starts = match self.integers(operator, 2, Type::I32)? {
            Some((_, bias, _)) if bias.len() == count => bias.iter().map(|&bias| bias as i32).collect(),
            None => vec![0_i32; count],
            Some((shape, ..)) => return Err(format!("its bias is {shape:?}, not [{count}]").into()),
        };
        let code = operator.option(FUSED, 0_i8)?;
        let activation = activation(code).and_then(|of| Some((of, limits(of, output)?)));
        let (activation, limits) =
            activation.ok_or_else(|| format!("attribute {FUSED} is {code}, which integers do not support"))?;
        let scales = quantization.scales;
        let scale_of = |row: usize| scales[if scales.len() == 1 { 0 } else { row }];
        let mut rows = Vec::new();
        for (row, &start) in starts.iter().enumerate() {
            let scale = scale_of(row);
            let product = if scales.len() == 1 && precision == Precision::OfScales {
                f64::from(input.scale * scale)
            } else {
                f64::from(input.scale) * f64::from(scale)
            };
            let by = Multiplier::of(product / f64::from(output.scale));
            let by = by.ok_or("a product of its scales is out of range")?;
            rows.extend([start, by.factor, by.shift]);
        }
        let each = (weights.len() / count).max(1);
        let weights = weights.iter().enumerate().map(|(at, &weight)| weight as f32 * scale_of(at / each)).collect();
        let unit = |(row, &start): (usize, &i32)| start as f32 * (scale_of(row) * input.scale);
        let bias = starts.iter().enumerate().map(unit).collect();
        let counted = Counted::of(output).limited(output, limits).scaled("weights", scales).rows("rows", rows);
        Ok(Rows { shape, weights, bias: Some(bias), activation, integers: Some((output, counted)) })
    }
}
