//! Comparison of an image with the model that it was packed from.

use std::collections::HashMap;
use std::path::Path;

use serde_json::{Value, json};
use tidegate::internals::node::Node;
use tidegate::{Model, Numeric, Schedule};

use crate::canonical::Canonical;
use crate::compare::{Comparison, Difference, common_layers};
use crate::data::DataError;
use crate::in_place::in_place;
use crate::load::{self, ImageBuffer, LoadError};
use crate::quantize::equalized_as;
use crate::runner::{RunError, run_part, step_count};

/// The number of values from which the factors of an image's channels are estimated, and the limits of the steps.
const NUMBERS: usize = 10_000_000;
const LEAST_STEPS: usize = 256;
const MOST_STEPS: usize = 3000;

/// The model from `model_file` in f32, with the layers of the image from `image_file`. If the packer has multiplied channels by
/// factors, the model has them too; they are estimated from the first steps of the sequences.
///
/// # Errors
/// If the image has other layers than the model.
pub fn reference(
    image: &Model<'_>,
    image_file: &Path,
    model: &Canonical,
    model_file: &Path,
    sequences: &[Vec<Vec<f32>>],
) -> Result<ImageBuffer, LoadError> {
    // The packer joins some nodes in `i8`.
    let joined = (image.numeric() == Numeric::I8).then(|| in_place(model));
    let reference = load::packed(model_file, joined.as_ref().unwrap_or(model), Numeric::F32)?;
    let parsed = reference.model().map_err(|source| LoadError::Packed { path: model_file.to_owned(), source })?;
    let shape = |node: Node<'_>| (node.kind, node.input_size, node.hidden_size, node.output_size);
    let same = |(at, of): (usize, Node<'_>)| image.nodes().nth(at).map(shape) == Some(shape(of));
    // The packer may have added nodes that rescale a value.
    let known = common_layers(image, &parsed);
    if known.len() != parsed.nodes().count() || !known.into_iter().zip(parsed.nodes()).all(same) {
        let reason = format!("has other layers than {}: was it packed from another model?", model_file.display());
        return Err(DataError::new(image_file, reason).into());
    }
    if !image.numeric().is_integer() || image.numeric() == Numeric::I8 {
        return Ok(reference);
    }
    let parsed = parsed.with_schedule(image.schedule()).map_err(|error| DataError::new(model_file, error))?;
    // If a run fails, so does the comparison, whose error says more. If only its values need too much memory, no factors are
    // estimated.
    let (Ok(expected), Ok(got)) = (values(&parsed, sequences), values(image, sequences)) else { return Ok(reference) };
    match equalized_as(model, &expected, &got) {
        Some(equalized) => load::packed(model_file, &equalized, Numeric::F32).or(Ok(reference)),
        None => Ok(reference),
    }
}

/// The values of all nodes over the first steps of sequences, in the order of the steps.
fn values<'m>(model: &Model<'m>, sequences: &[Vec<Vec<f32>>]) -> Result<HashMap<&'m str, Vec<f32>>, RunError> {
    let sizes: Vec<usize> = model.inputs().map(|port| port.size).collect();
    let numbers: usize = model.nodes().map(|node| node.output_size).sum();
    let mut left = (NUMBERS / numbers.max(1)).clamp(LEAST_STEPS, MOST_STEPS);
    let mut values: HashMap<&str, Vec<f32>> = HashMap::new();
    for inputs in sequences {
        if left == 0 {
            break;
        }
        let cut: Vec<&[f32]> =
            inputs.iter().zip(&sizes).map(|(input, size)| &input[..input.len().min(left * size)]).collect();
        left -= step_count(&cut, &sizes).min(left);
        for (name, layer) in model.node_names().zip(run_part(model, &cut, None)?.layers) {
            values.entry(name).or_default().extend(layer);
        }
    }
    Ok(values)
}

/// A comparison as one JSON value, as in docs/json.md. JSON has no infinity: the ratio of equal values is null.
pub fn to_json(comparison: &Comparison) -> Value {
    let Comparison { layers, states, output, steps, .. } = comparison;
    let value = |of: &Difference| {
        let (error, ratio, saturation) = (of.max_abs_error, of.snr_db(), of.saturation());
        json!({ "name": of.name, "max_abs_error": error, "snr_db": ratio, "saturation": saturation })
    };
    let [layers, states] = [layers, states].map(|all| all.iter().map(value).collect::<Vec<_>>());
    let (error, ratio) = (output.max_abs_error, output.snr_db());
    json!({ "max_abs_error": error, "snr_db": ratio, "steps": steps, "layers": layers, "states": states })
}

/// Why a comparison of an image has no output.
pub fn too_short(image: &Model<'_>, is_endless: bool) -> String {
    let remedy = match image.schedule() {
        Schedule::Windows { frames, .. } if !is_endless => {
            format!("at least {frames} steps, or --endless to run without windows")
        }
        _ => "more steps".to_owned(),
    };
    format!("ends before the model gives an output: give {remedy}")
}
