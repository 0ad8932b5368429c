//! `import`: a foreign model to a canonical model.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::json;
use tidegate_model::canonical::{Architecture, Node, Port};
use tidegate_model::load;

use super::args::{JsonArg, SettingArgs};
use super::{Outcome, check_extension, check_outputs, layers, print_notes, shown};

/// Converts a foreign model to a canonical model (safetensors)
///
/// Reads, by their content:
///
/// - ONNX (.onnx)
/// - TFLite (.tflite), and wake words of ESPHome (.json beside the .tflite)
/// - Keras models and weights (.keras, .h5, .hdf5, .weights.h5)
/// - PyTorch state dicts (.pt, .pth, .bin, .safetensors, .json)
/// - frozen TensorFlow graphs (.pb)
/// - TensorFlow checkpoints (.ckpt: their prefix, their .index or their folder)
/// - RTNeural and AIDA-X (.json, .aidax), GuitarML (.json), Neural Amp Modeler (.nam)
/// - RNNoise weights (.rnn, or text)
/// - canonical models (.safetensors)
///
/// A file that holds only weights needs --arch if the names of its tensors do not determine the architecture.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
#[command(after_help = "Examples, in the folder of `tidegate demo --keep .`:
  tidegate import GRU_S.pb -o spotter.safetensors
  tidegate import weights.rnn -o rnnoise.safetensors --labels none")]
pub struct Args {
    /// The trained model
    model: PathBuf,
    /// File to write the canonical model to
    #[arg(short, long)]
    output: PathBuf,
    #[command(flatten)]
    settings: SettingArgs,
    #[command(flatten)]
    json: JsonArg,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let read: Vec<&Path> = std::iter::once(args.model.as_path()).chain(args.settings.files()).collect();
    check_outputs(&[Some(&args.output)], &read)?;
    let advice = format!(
        "import writes models as safetensors: give -o {}, or `tidegate pack {} -o {}` for an image",
        args.output.with_extension("safetensors").display(),
        args.model.display(),
        args.output.with_extension("tgi").display()
    );
    check_extension(&args.output, &["safetensors"], advice)?;
    let loaded = load::canonical(&args.model, &args.settings.settings()?)?;
    loaded.model.save(&args.output)?;
    print_notes(&args.model, &loaded);
    if args.json.json {
        let Architecture { source, nodes, inputs, outputs, labels, schedule, .. } = &loaded.model.architecture;
        let layer = |node: &Node| json!({ "name": node.name, "cell": node.cell, "input": node.input_size, "output": node.output_size });
        let port = |port: &Port| json!({ "name": port.name, "size": port.size });
        let value = json!({
            "model": shown(&args.model), "output": shown(&args.output), "source": source,
            "layers": nodes.iter().map(layer).collect::<Vec<_>>(),
            "inputs": inputs.iter().map(port).collect::<Vec<_>>(),
            "outputs": outputs.iter().map(port).collect::<Vec<_>>(),
            "labels": labels, "schedule": schedule,
        });
        writeln!(out, "{value}")?;
        return Ok(());
    }
    writeln!(out, "{} -> {}: {}", args.model.display(), args.output.display(), layers(&loaded.model))?;
    Ok(())
}
