//! `import`: a foreign model to a canonical model.

use std::io::Write;
use std::path::{Path, PathBuf};

use tidegate_model::load;

use super::args::SettingArgs;
use super::{Outcome, check_outputs, layers, print_notes};

/// Converts a foreign model to a canonical model (safetensors)
///
/// Reads frozen TensorFlow 1 graphs (.pb), TensorFlow checkpoints (prefix, index file or folder), Keras models and
/// weights (.h5, .keras), PyTorch state dicts (.pt, .pth, .safetensors), ONNX (.onnx), TFLite (.tflite), RTNeural and
/// GuitarML (.json), Neural Amp Modeler (.nam), RNNoise weights (.rnn) and canonical models.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  tidegate import assets/hello_edge/GRU_S.pb -o gru_s.safetensors
  tidegate import keywords.ckpt --arch arch.json -o keywords.safetensors")]
pub struct Args {
    /// The trained model
    model: PathBuf,
    /// File to write the canonical model to
    #[arg(short, long)]
    output: PathBuf,
    #[command(flatten)]
    settings: SettingArgs,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let read: Vec<&Path> = std::iter::once(args.model.as_path()).chain(args.settings.files()).collect();
    check_outputs(&[Some(&args.output)], &read)?;
    let loaded = load::canonical(&args.model, &args.settings.settings())?;
    loaded.model.save(&args.output)?;
    print_notes(&args.model, &loaded, out)?;
    writeln!(out, "{} -> {}: {}", args.model.display(), args.output.display(), layers(&loaded.model))?;
    Ok(())
}
