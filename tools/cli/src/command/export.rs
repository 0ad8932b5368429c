//! `export`: a packed network as standard ONNX.

use std::io::Write;
use std::path::PathBuf;

use tidegate_model::export::to_onnx;
use tidegate_model::load::{self, Settings};
use tidegate_model::output::write_atomically;
use tidegate_tools::grouped;

use super::{Failure, Outcome, check_kind, check_outputs};

/// Writes the network of an image as ONNX, to view it or to run it elsewhere
///
/// The file holds LSTM, GRU and other operators in floats, with the weights of the image behind DequantizeLinear. It takes
/// [n, steps, features] from a zero state and returns [n, rows, classes]. The front end and the detector are not exported.
#[derive(clap::Args)]
#[command(after_help = "Example, in the folder of `tidegate demo --keep .`:
  tidegate export gru_s.tgi -o gru_s.onnx")]
pub struct Args {
    /// The image
    image: PathBuf,
    /// ONNX file to write
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let Args { image: file, output } = args;
    check_outputs(&[Some(output)], &[file])?;
    check_kind("-o", Some(output), "ONNX", &["onnx"])?;
    // A model in floats has no integers to export yet.
    if !load::is_image(file)? {
        return Err(Failure::of(file, "is not an image: pack it first, `tidegate pack MODEL -o IMAGE`"));
    }
    let image = load::image(file, &Settings::default(), None)?;
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let content = to_onnx(&image.model()?, &stem).map_err(|error| Failure::of(file, error))?;
    write_atomically(output, |to| to.write_all(&content))?;
    writeln!(out, "{} -> {}: {} bytes", file.display(), output.display(), grouped(content.len()))?;
    Ok(())
}
