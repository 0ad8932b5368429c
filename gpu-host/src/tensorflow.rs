//! TensorFlow 1's canonical variables of `CudnnLSTM`, `CudnnGRU` and the like: those of the equivalent cells, one per
//! layer and direction.
//!
//! ```text
//! <scope>/rnn/multi_rnn_cell/cell_<layer>/<cell>/...
//! <scope>/stack_bidirectional_rnn/cell_<layer>/bidirectional_rnn/{fw,bw}/<cell>/...
//! ```
//!
//! | cell | variables |
//! |---|---|
//! | `cudnn_compatible_lstm_cell` | `kernel` `[input + hidden, 4 * hidden]`, `bias` |
//! | `cudnn_compatible_gru_cell` | `gates/{kernel,bias}` of r and u, `candidate/input_projection/{kernel,bias}`, `candidate/hidden_projection/{kernel,bias}` |
//! | `basic_rnn_cell` | `kernel` `[input + hidden, hidden]`, `bias` |
//!
//! These cells have one bias where cuDNN has two, except in the candidate of a GRU. The sum of both is written; it is
//! read as the bias of the input side. (tensorflow/contrib/cudnn_rnn/python/ops/cudnn_rnn_ops.py)

use std::collections::BTreeMap;

use tidegate::internals::{
    activation::Activation,
    gate::{LSTM, LSTM_TF1, permutation},
};
use tidegate_model::canonical::Tensor;
use tidegate_model::error::ImportError;
use tidegate_model::format::Layer;
use tidegate_model::format::tf1::cells;

pub use crate::checkpoint::write_checkpoint;
use crate::rnn::{Cell, Rnn, Settings};
use crate::saveable::{SaveError, linear, take};
use crate::weights::{LayerWeights, check};

/// Prefix of the variable names of a pseudo-layer.
fn prefix(rnn: &Rnn, scope: &str, pseudo_layer: usize) -> String {
    let cell = match rnn.settings().cell {
        Cell::Lstm => "cudnn_compatible_lstm_cell",
        Cell::Gru => "cudnn_compatible_gru_cell",
        Cell::RnnTanh | Cell::RnnRelu => "basic_rnn_cell",
    };
    let separator = if scope.is_empty() { "" } else { "/" };
    let directions = rnn.settings().direction.count();
    let layer = pseudo_layer / directions;
    if directions == 1 {
        return format!("{scope}{separator}rnn/multi_rnn_cell/cell_{layer}/{cell}");
    }
    let side = if pseudo_layer.is_multiple_of(2) { "fw" } else { "bw" };
    format!("{scope}{separator}stack_bidirectional_rnn/cell_{layer}/bidirectional_rnn/{side}/{cell}")
}

/// Converts the weights of a stack to named variables.
///
/// # Errors
/// If the weights do not fit the stack, or it has a projection or a clip, which these cells lack.
pub fn to_variables(rnn: &Rnn, layers: &[LayerWeights], scope: &str) -> Result<BTreeMap<String, Tensor>, SaveError> {
    check(rnn, layers)?;
    refuse_others(rnn, scope)?;
    let mut variables = BTreeMap::new();
    for (pseudo_layer, layer) in layers.iter().enumerate() {
        let (prefix, layer) = (prefix(rnn, scope, pseudo_layer), linear(rnn, pseudo_layer, layer));
        variables.extend(cell(rnn, &layer).into_iter().map(|(name, tensor)| (format!("{prefix}/{name}"), tensor)));
    }
    Ok(variables)
}

fn refuse_others(rnn: &Rnn, scope: &str) -> Result<(), SaveError> {
    let foreign = |what: &str| Err(SaveError::Foreign { node: scope.to_owned(), what: what.to_owned() });
    match rnn.settings() {
        Settings { projected_size: Some(_), .. } => foreign("a projection"),
        Settings { cell_clip: Some(_), .. } => foreign("a cell clip"),
        _ => Ok(()),
    }
}

/// Variables of one cell.
fn cell(rnn: &Rnn, layer: &LayerWeights) -> Vec<(&'static str, Tensor)> {
    let hidden = rnn.settings().hidden_size;
    let rows = rnn.settings().cell.blocks() * hidden;
    let bias = |name: &str| layer.get(name).map_or_else(|| vec![0.0; rows], |bias| bias.data.clone());
    let (input_bias, recurrent_bias) = (bias("input_bias"), bias("recurrent_bias"));
    let sum: Vec<f32> = input_bias.iter().zip(&recurrent_bias).map(|(a, b)| a + b).collect();
    let vector = |data: &[f32]| Tensor { shape: vec![data.len()], data: data.to_vec() };
    let (input, recurrent) = (&layer["input_weights"], &layer["recurrent_weights"]);
    match rnn.settings().cell {
        Cell::Lstm => {
            let order = permutation(LSTM, LSTM_TF1);
            let blocks: Vec<usize> = order.iter().flat_map(|gate| gate * hidden..(gate + 1) * hidden).collect();
            let bias: Vec<f32> = blocks.iter().map(|&row| sum[row]).collect();
            vec![("kernel", kernel(&[input, recurrent], &blocks)), ("bias", vector(&bias))]
        }
        Cell::Gru => {
            let (gates, candidate): (Vec<usize>, Vec<usize>) = (0..rows).partition(|row| *row < 2 * hidden);
            vec![
                ("gates/kernel", kernel(&[input, recurrent], &gates)),
                ("gates/bias", vector(&sum[..2 * hidden])),
                ("candidate/input_projection/kernel", kernel(&[input], &candidate)),
                ("candidate/input_projection/bias", vector(&input_bias[2 * hidden..])),
                ("candidate/hidden_projection/kernel", kernel(&[recurrent], &candidate)),
                ("candidate/hidden_projection/bias", vector(&recurrent_bias[2 * hidden..])),
            ]
        }
        Cell::RnnTanh | Cell::RnnRelu => {
            let all: Vec<usize> = (0..rows).collect();
            vec![("kernel", kernel(&[input, recurrent], &all)), ("bias", vector(&sum))]
        }
    }
}

/// Transposes the rows of several matrices into one matrix, stacked along the first axis.
fn kernel(matrices: &[&Tensor], rows: &[usize]) -> Tensor {
    let mut kernel = Tensor { shape: vec![0, rows.len()], data: Vec::new() };
    for matrix in matrices {
        let cols = matrix.shape[1];
        kernel.shape[0] += cols;
        kernel.data.extend((0..cols).flat_map(|col| rows.iter().map(move |row| matrix.data[row * cols + col])));
    }
    kernel
}

/// Converts named variables to the weights of a stack. Other variables are ignored.
///
/// # Errors
/// If a variable is missing or has another shape.
pub fn from_variables(
    rnn: &Rnn,
    variables: &BTreeMap<String, Tensor>,
    scope: &str,
) -> Result<Vec<LayerWeights>, SaveError> {
    refuse_others(rnn, scope)?;
    let layer = |pseudo_layer| {
        let prefix = prefix(rnn, scope, pseudo_layer);
        let variable = |name: &str| {
            let tensor = format!("{prefix}/{name}");
            variables.get(&tensor).ok_or(SaveError::Model(ImportError::MissingTensor { tensor }))
        };
        let found: Layer = match rnn.settings().cell {
            Cell::Lstm => cells::cudnn_compatible_lstm(variable("kernel")?, variable("bias")?)?,
            Cell::Gru => {
                let part = |part: &str| {
                    let of = |name| variable(&format!("candidate/{part}/{name}"));
                    Ok::<_, SaveError>([of("kernel")?, of("bias")?])
                };
                let (gates, bias) = (variable("gates/kernel")?, variable("gates/bias")?);
                let projections = (part("input_projection")?, part("hidden_projection")?);
                cells::cudnn_compatible_gru(gates, bias, projections.0, projections.1, Activation::Tanh)?
            }
            Cell::RnnTanh => cells::basic_rnn(variable("kernel")?, variable("bias")?, Activation::Tanh)?,
            Cell::RnnRelu => cells::basic_rnn(variable("kernel")?, variable("bias")?, Activation::Relu)?,
        };
        take(rnn, pseudo_layer, &prefix, |name| found.tensors.get(name))
    };
    (0..rnn.pseudo_layers()).map(layer).collect()
}
