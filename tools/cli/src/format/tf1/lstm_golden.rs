//! The arguments and tensors of contrib's LSTM variants in golden cases.

use tidegate::activation::Activation;

use super::cells::{self, LstmOptions};
use super::golden::{lstm_options, numbered, projection, with_tuple};
use super::lstm_variants::{LayerNorm, LayerNorms, coupled_lstm, layer_norm_lstm, weight_normalized};
use crate::error::ImportError;
use crate::format::golden::Case;
use crate::format::layer::Layer;
use crate::format::weights::{Named, stacked};

/// `gamma` and `beta` of a scope.
fn layer_norm<'a>(case: &mut Case<'a>, scope: &str) -> Result<LayerNorm<'a>, ImportError> {
    Ok(LayerNorm { gamma: case.tensor(&format!("{scope}/gamma"))?, beta: case.tensor(&format!("{scope}/beta"))? })
}

fn layer_norms<'a>(case: &mut Case<'a>) -> Result<LayerNorms<'a>, ImportError> {
    let gates = [
        layer_norm(case, "input")?,
        layer_norm(case, "transform")?,
        layer_norm(case, "forget")?,
        layer_norm(case, "output")?,
    ];
    Ok(LayerNorms { gates, state: layer_norm(case, "state")? })
}

/// Takes what only initializes or trains a normalized cell.
fn ignore_training(case: &mut Case<'_>) {
    for name in ["norm_gain", "norm_shift", "dropout_keep_prob", "dropout_prob_seed"] {
        case.ignore(name);
    }
}

pub fn layer_norm_basic(case: &mut Case<'_>) -> Result<Layer, ImportError> {
    ignore_training(case);
    // Deprecated, and not read.
    case.ignore("input_size");
    let options = LstmOptions {
        forget_bias: case.number("forget_bias")?.unwrap_or(1.0),
        activation: case.activation("activation", Activation::Tanh)?,
        ..LstmOptions::default()
    };
    let kernel = case.tensor("kernel")?;
    let layer = match case.flag("layer_norm", true)? {
        true => layer_norm_lstm(kernel, layer_norms(case)?, options)?,
        false => cells::lstm(kernel, case.tensor("bias")?, options)?,
    };
    with_tuple(case, layer)
}

pub fn layer_norm_full(case: &mut Case<'_>) -> Result<Layer, ImportError> {
    ignore_training(case);
    let projection = projection(case, "projection/kernel")?;
    let kernel = case.tensor("kernel")?;
    let options = LstmOptions { projection, ..lstm_options(case)? };
    let layer = match case.flag("layer_norm", false)? {
        true => {
            saved_only(case, "bias")?;
            layer_norm_lstm(kernel, layer_norms(case)?, options)?
        }
        false => cells::lstm(kernel, case.tensor("bias")?, options)?,
    };
    with_tuple(case, layer)
}

pub fn weight_norm(case: &mut Case<'_>) -> Result<Layer, ImportError> {
    let normalized = case.flag("norm", true)?;
    // The projection first: its names end like the cell's.
    let projection = match case.size("num_proj")? {
        Some(_) if normalized => {
            let (weights, norms) = (case.tensor("projection/kernel")?, case.tensor("projection/norm_0")?);
            let rows = Named { name: "projection/kernel", tensor: weights }.matrix()?.0;
            Some(weight_normalized(weights, 0..rows, norms, "projection/norm_0")?)
        }
        Some(_) => Some(case.tensor("projection/kernel")?.clone()),
        None => None,
    };
    let kernel = case.tensor("kernel")?;
    let (rows, cols) = Named { name: "kernel", tensor: kernel }.matrix()?;
    let output = match &projection {
        Some(projection) => Named { name: "projection/kernel", tensor: projection }.matrix()?.1,
        None => cols / 4,
    };
    let input = rows.saturating_sub(output);
    let kernel = match normalized {
        true => stacked([
            &weight_normalized(kernel, 0..input, case.tensor("norm_0")?, "norm_0")?,
            &weight_normalized(kernel, input..rows, case.tensor("norm_1")?, "norm_1")?,
        ]),
        false => kernel.clone(),
    };
    let options = LstmOptions { projection: projection.as_ref(), ..lstm_options(case)? };
    let layer = cells::lstm(&kernel, case.tensor("bias")?, options)?;
    with_tuple(case, layer)
}

pub fn coupled(case: &mut Case<'_>) -> Result<Layer, ImportError> {
    ignore_training(case);
    let shards = case.size("num_unit_shards")?.unwrap_or(1);
    let kernel = numbered(case, "W", shards)?;
    let projection = match case.size("num_proj")? {
        Some(_) => {
            let shards = case.size("num_proj_shards")?.unwrap_or(1);
            Some(numbered(case, "W_P", shards)?)
        }
        None => None,
    };
    let peepholes = match case.flag("use_peepholes", false)? {
        true => Some([case.tensor("W_F_diag")?, case.tensor("W_O_diag")?]),
        false => None,
    };
    let options = LstmOptions {
        forget_bias: case.number("forget_bias")?.unwrap_or(1.0),
        projection: projection.as_ref(),
        projection_clip: case.number("proj_clip")?,
        activation: case.activation("activation", Activation::Tanh)?,
        ..LstmOptions::default()
    };
    let (bias, norms) = match case.flag("layer_norm", false)? {
        true => {
            saved_only(case, "B")?;
            let (transform, forget) = (layer_norm(case, "transform")?, layer_norm(case, "forget")?);
            (None, Some([transform, forget, layer_norm(case, "output")?, layer_norm(case, "state")?]))
        }
        false => (Some(case.tensor("B")?), None),
    };
    let layer = coupled_lstm(&kernel, bias, norms, peepholes, options)?;
    with_tuple(case, layer)
}

/// Takes a bias that the cell makes and saves, but does not add, with layer normalization.
fn saved_only(case: &mut Case<'_>, name: &str) -> Result<(), ImportError> {
    case.optional(name).map(drop)
}
