//! The inputs of a model in a file.

use std::path::Path;

use tidegate::{Model, Numeric, Port};
use tidegate_model::canonical::{self, Tensor};
use tidegate_model::data::{Stored, is_audio, read_audio_at, read_stored_tensors};
use tidegate_model::runner::clip_features;

use super::Failure;
use super::sound::front_end_of;

/// The inputs of `model` in `file`, each `[steps, size]`, in the order of its ports. `ports` are the inputs of the model
/// in `model_file`, as far as they are known.
pub fn read_inputs(
    model: &Model<'_>,
    ports: &[canonical::Port],
    model_file: &Path,
    file: &Path,
) -> Result<Vec<Vec<f32>>, Failure> {
    if is_audio(file) {
        let mfcc = front_end_of(model, model_file)?;
        let audio = read_audio_at(file, mfcc.settings().sample_rate)?;
        let features = clip_features(mfcc, &audio.samples).map_err(|error| Failure::of(file, error))?;
        if features.is_empty() {
            let (found, frame) = (audio.samples.len(), mfcc.settings().window_len);
            return Err(Failure::of(file, format!("{found} samples are less than one frame of {frame}")));
        }
        return Ok(vec![features]);
    }
    let mut tensors = read_stored_tensors(file)?;
    let (inputs, is_i8): (Vec<_>, _) = (model.inputs().collect(), model.numeric() == Numeric::I8);
    let read = |stored: Stored, port: &Port<'_>| {
        let rows = ports.iter().find(|of| of.name == port.name).and_then(|of| of.rows);
        let values = sequence(real(stored, port, is_i8), port, rows, file)?;
        whole_calls(values, port, rows, file)
    };
    if let ([port], 1) = (inputs.as_slice(), tensors.len()) {
        return tensors.pop_first().into_iter().map(|(_, stored)| read(stored, port)).collect();
    }
    let names: Vec<&str> = inputs.iter().map(|port| port.name).collect();
    if let Some(name) = tensors.keys().find(|name| !names.contains(&name.as_str())) {
        let reason = format!("tensor {name:?} is no input of the model, which has {}", names.join(", "));
        return Err(Failure::of(file, reason));
    }
    let take = |port: &Port<'_>| match tensors.remove(port.name) {
        Some(stored) => read(stored, port),
        None => Err(Failure::of(file, format!("has no tensor {:?}, which is an input of the model", port.name))),
    };
    let given = inputs.iter().map(take).collect::<Result<Vec<_>, _>>()?;
    let steps: Vec<usize> = given.iter().zip(&inputs).map(|(values, port)| values.len() / port.size).collect();
    if steps.windows(2).any(|pair| pair[0] != pair[1]) {
        return Err(Failure::of(file, format!("its tensors have {steps:?} steps; they must have the same number")));
    }
    Ok(given)
}

/// The real values of a tensor. An int8 tensor for a model in `i8` holds the model's own integers.
fn real(stored: Stored, port: &Port<'_>, is_i8: bool) -> Tensor {
    let Stored { mut tensor, is_int8 } = stored;
    if is_int8 && is_i8 {
        tensor.data.iter_mut().for_each(|value| *value = (*value - port.zero_point as f32) * port.scale);
    }
    tensor
}

/// Checks a tensor of `[steps, size]`. Leading dimensions of 1 are allowed, and calls of `rows` steps each.
fn sequence(tensor: Tensor, port: &Port<'_>, rows: Option<usize>, file: &Path) -> Result<Vec<f32>, Failure> {
    let Port { name, size, .. } = *port;
    let fits = match *tensor.shape.as_slice() {
        [only] => only == size,
        [ref calls @ .., steps, last] if last == size && Some(steps) == rows => !calls.contains(&0),
        [ref ones @ .., steps, last] => last == size && steps > 0 && ones.iter().all(|&one| one == 1),
        [] => false,
    };
    if !fits {
        let calls = rows.map_or_else(String::new, |rows| format!(" or [calls, {rows}, {size}]"));
        let reason = format!("tensor of shape {:?}; the input {name:?} takes [steps, {size}]{calls}", tensor.shape);
        return Err(Failure::of(file, reason));
    }
    if let Some(at) = tensor.data.iter().position(|value| !value.is_finite()) {
        let (step, value) = (at / size.max(1), tensor.data[at]);
        let reason = format!("the input {name:?} has {value} in step {step}; only finite numbers are allowed");
        return Err(Failure::of(file, reason));
    }
    Ok(tensor.data)
}

/// Drops the steps at the end that do not fill a call of `rows` steps.
fn whole_calls(mut values: Vec<f32>, port: &Port<'_>, rows: Option<usize>, file: &Path) -> Result<Vec<f32>, Failure> {
    let (steps, rows) = (values.len() / port.size.max(1), rows.unwrap_or(1));
    let left = steps % rows;
    if left == steps {
        let reason = format!("has {steps} steps of the input {:?}; a call of the model takes {rows}", port.name);
        return Err(Failure::of(file, reason));
    }
    if left > 0 {
        let file = file.display();
        eprintln!("note: {file}: {left} steps at the end do not fill a call of {rows}, and are dropped");
        values.truncate((steps - left) * port.size);
    }
    Ok(values)
}
