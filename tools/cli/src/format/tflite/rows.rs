//! The rows of weights in integers: what a fully connected layer and a convolution have alike.

use tidegate::activation::Activation;

use super::integers::{Counted, Multiplier, limits};
use super::layers::activation;
use super::lower::{Counts, Reader, Trouble};
use super::schema::{Operator, Type};

/// In which precision a scale of the input and the one scale of all weights are multiplied. One a row is multiplied in f64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// f32
    OfScales,
    /// f64
    OfProducts,
}

/// Weights, the bias behind them, and how their sums become integers again.
pub struct Rows {
    /// As the file has it; the first dimension counts the rows.
    pub shape: Vec<usize>,
    /// What the weights stand for.
    pub weights: Vec<f32>,
    /// What the bias of each row stands for, 0 where there is none.
    pub bias: Vec<f32>,
    /// That of the operator.
    pub activation: Activation,
    /// What comes out.
    pub output: Counts,
    /// The same with all that the node has.
    pub counted: Counted,
}

impl Reader<'_> {
    /// The weights of an operator, its input 1, and its bias, input 2. Option `fused` is its activation, `input` what its
    /// input counts.
    pub fn rows(
        &mut self,
        operator: &Operator<'_>,
        fused: usize,
        input: Counts,
        precision: Precision,
    ) -> Result<Rows, Trouble> {
        let Some(output) = self.output_counts(operator)? else {
            return Err("its input is of int8, but its output is not".into());
        };
        let Some((shape, weights, quantization)) = self.integers(operator, 1, Type::I8)? else {
            return Err("its weights are missing".into());
        };
        let count = shape.first().copied().unwrap_or(1);
        let quantization = quantization.ok_or("its weights have no scale")?;
        let per_row = quantization.scales.len() == count && (count == 1 || quantization.dimension == 0);
        if quantization.zero_points.iter().any(|&zero_point| zero_point != 0)
            || !(per_row || quantization.scales.len() == 1)
        {
            return Err("its weights have another zero point than 0, or other scales than one or one a row".into());
        }
        let starts = match self.integers(operator, 2, Type::I32)? {
            Some((_, bias, _)) if bias.len() == count => bias.iter().map(|&bias| bias as i32).collect(),
            None => vec![0_i32; count],
            Some((shape, ..)) => return Err(format!("its bias is {shape:?}, not [{count}]").into()),
        };
        let code = operator.option(fused, 0_i8)?;
        let activation = activation(code).and_then(|of| Some((of, limits(of, output)?)));
        let (activation, limits) = activation
            .ok_or_else(|| format!("attribute fused_activation_function is {code}, which integers do not support"))?;
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
            let by =
                Multiplier::of(product / f64::from(output.scale)).ok_or("a product of its scales is out of range")?;
            rows.extend([start, by.factor, by.shift]);
        }
        let each = (weights.len() / count).max(1);
        let weights = weights.iter().enumerate().map(|(at, &weight)| weight as f32 * scale_of(at / each)).collect();
        let bias =
            starts.iter().enumerate().map(|(row, &start)| start as f32 * (scale_of(row) * input.scale)).collect();
        let counted = Counted::of(output).limited(output, limits).scaled("weights", scales).rows("rows", rows);
        Ok(Rows { shape, weights, bias, activation, output, counted })
    }
}
