//! `run` of an ONNX graph, whose inputs and outputs are the tensors of the graph instead of the ports of a network.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::Path;

use serde_json::{Value, json};
use tidegate::Numeric;
use tidegate_model::canonical::{MAX_FILE_BYTES, Tensor, read_bounded};
use tidegate_model::data::{DataError, is_audio, one_line, prepare_tensors, read_tensors};
use tidegate_model::error::ImportError;
use tidegate_model::format::{is_onnx, onnx};
use tidegate_model::load::{self, LoadError};
use tidegate_model::output::Pending;

use super::args::{JsonArg, ModelArgs};
use super::{Failure, Outcome, row_text, say, tensor_json};

/// Whether a file is an ONNX graph.
pub fn is_graph(file: &Path) -> Result<bool, Failure> {
    /// Bytes at the start of a file that distinguish the formats.
    const HEAD: u64 = 64;
    let mut head = Vec::new();
    match std::fs::File::open(file).and_then(|file| file.take(HEAD).read_to_end(&mut head)) {
        Ok(_) => Ok(is_onnx(&head)),
        // The path may be the prefix of a checkpoint. The loader reports a missing file.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(_) if file.is_dir() => Ok(false),
        Err(error) => Err(DataError::io(file, "read", error).into()),
    }
}

/// Runs the graph on the tensors in `input`. Writes its outputs, or prints them.
pub fn run(model: &ModelArgs, input: &Path, output: Option<&Path>, json: &JsonArg, out: &mut dyn Write) -> Outcome {
    let file = &model.file;
    if is_audio(input) {
        return Err(Failure::of(input, "an ONNX graph takes tensors by their names: give a .safetensors or .npz"));
    }
    if model.labels.labels.is_some() {
        return Err(Failure::of(file, "is an ONNX graph, whose outputs have no labels: leave --labels out"));
    }
    let numeric = model.numeric.unwrap_or(Numeric::F32);
    if numeric.is_integer() {
        return Err(Failure::of(file, "an ONNX graph runs in f32 and f16: pack it to run it in integers"));
    }
    let mut tensors = read_tensors(input)?;
    let mut options = load::options(&model.arch.settings()?)?;
    options.onnx.offered.clone_from(&tensors);
    options.onnx.folder = file.parent().map(Path::to_owned);
    let failed = |source: ImportError| LoadError::Import { path: file.clone(), source };
    let bytes = read_bounded(file).map_err(|error| DataError::io(file, "read", error))?;
    let bytes = bytes.ok_or_else(|| failed(ImportError::TooLarge { limit: MAX_FILE_BYTES }))?;
    let name = file.file_name().map_or_else(|| "a file".into(), |name| name.to_string_lossy());
    let (imported, interface) = onnx::open(&bytes, &name, &options).map_err(failed)?;
    // The array in a .npy or .csv file has no name.
    if let (Some(only), 1) = (interface.sole_input(), tensors.len())
        && !tensors.contains_key(only)
        && input.extension().is_some_and(|extension| extension == "npy" || extension == "csv")
        && let Some((_, tensor)) = tensors.pop_first()
    {
        tensors.insert(only.to_owned(), tensor);
    }
    let image = load::packed(file, &imported.model, numeric)?;
    let engine = model.engine(&image.model()?)?;
    let outputs = interface.run(&engine, &tensors).map_err(|error| Failure::of(input, error))?;
    for note in imported.notes {
        say(&format!("note: {}: {}", file.display(), note));
    }
    let written = output.map(|output| prepare_tensors(output, &outputs)).transpose()?;
    if json.json {
        let outputs: Vec<Value> = outputs.iter().map(|(name, tensor)| tensor_json(name, tensor)).collect();
        // A graph has no steps of its own, and no labels.
        writeln!(out, "{}", json!({ "steps": null, "outputs": outputs, "labels": [] }))?;
    } else if written.is_none() {
        print(&outputs, out)?;
    }
    Ok(written.map_or(Ok(()), Pending::keep)?)
}

/// Prints every tensor, with a line for each row of its last dimension.
fn print(outputs: &BTreeMap<String, Tensor>, out: &mut dyn Write) -> Outcome {
    for (name, tensor) in outputs {
        writeln!(out, "{} {:?}", one_line(name), tensor.shape)?;
        for row in tensor.data.chunks(tensor.shape.last().copied().unwrap_or(1).max(1)) {
            writeln!(out, "      {}", row_text(row))?;
        }
    }
    Ok(())
}
