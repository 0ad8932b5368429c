//! Any model to a flash image.

use std::io::Write;
use std::path::PathBuf;

use clap::ValueEnum;
use tidegate::Numeric;
use tidegate_tools::data::one_line;
use tidegate_tools::load::{self, Loaded};
use tidegate_tools::output::write_atomically;

use super::{NumericArg, Outcome, SettingArgs, grouped, keep_inputs};

/// Turns a model into a flash image
///
/// Takes canonical models and whatever `import` reads.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  tidegate pack assets/hello_edge/GRU_S.pb -o gru_s.tgi
  tidegate pack gru_s.safetensors -o gru_s.tgi --numeric f16 --schedule 25/6 --threshold 0.9")]
pub struct Args {
    /// The canonical or foreign model
    model: PathBuf,
    /// Where the image goes
    #[arg(short, long)]
    output: PathBuf,
    /// How weights, activations and states are stored and computed
    #[arg(long, value_enum, default_value = "f32")]
    numeric: NumericArg,
    /// The core whose kernels will read the weights
    #[arg(long = "for", value_enum, default_value = "portable")]
    target: Target,
    #[command(flatten)]
    settings: SettingArgs,
}

/// Weight layouts.
#[derive(Clone, Copy, ValueEnum)]
enum Target {
    /// Read by every build
    Portable,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let Target::Portable = args.target;
    keep_inputs(&args.output, &[&args.model])?;
    let Loaded { model, labels_from, notes } = load::canonical(&args.model, &args.settings.settings())?;
    let numeric = Numeric::from(args.numeric);
    let image = load::packed(&args.model, &model, numeric)?;
    write_atomically(&args.output, |file| file.write_all(image.bytes()))?;
    for note in notes {
        writeln!(out, "{}", one_line(&note))?;
    }
    if let Some(file) = labels_from {
        writeln!(out, "{} labels from {}", model.architecture.labels.len(), file.display())?;
    }
    let bytes = grouped(image.bytes().len());
    writeln!(out, "{} -> {}: {bytes} bytes, {}", args.model.display(), args.output.display(), numeric.name())?;
    Ok(())
}
