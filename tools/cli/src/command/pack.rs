//! Any model to a flash image.

use std::io::Write;
use std::path::PathBuf;

use clap::ValueEnum;
use tidegate::Numeric;
use tidegate::image::Layout;
use tidegate_tools::canonical::Canonical;
use tidegate_tools::data::one_line;
use tidegate_tools::load::{self, ImageBuffer, Loaded};
use tidegate_tools::output::write_atomically;
use tidegate_tools::quantize::Ranges;

use super::calibrate::Calibration;
use super::verify::compare;
use super::{Failure, NumericArg, Outcome, SettingArgs, grouped, keep_inputs};

/// Turns a model into a flash image
///
/// Takes canonical models and whatever `import` reads.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  tidegate pack assets/hello_edge/GRU_S.pb -o gru_s.tgi
  tidegate pack gru_s.safetensors -o gru_s.tgi --numeric f16 --schedule 25/6 --threshold 0.9
  tidegate pack gru_s.safetensors -o gru_s.tgi --numeric i8x16 --calibrate clips.csv --for cortex-m4")]
pub struct Args {
    /// The canonical or foreign model
    model: PathBuf,
    /// Where the image goes
    #[arg(short, long)]
    output: PathBuf,
    /// How weights, activations and states are stored and computed
    #[arg(long, value_enum, default_value = "f32")]
    numeric: NumericArg,
    /// Where the ranges of integers come from: an index CSV, a folder of clips, or an input file [default: noise]
    #[arg(long, value_name = "DATA")]
    calibrate: Option<PathBuf>,
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
    /// Cortex-M0 and M0+
    CortexM0,
    /// Cortex-M4, M7 and M33, with the DSP extension
    CortexM4,
    /// Cortex-M55, with Helium
    CortexM55,
}

impl From<Target> for Layout {
    fn from(target: Target) -> Self {
        match target {
            Target::Portable => Self::Portable,
            Target::CortexM0 => Self::CortexM0,
            Target::CortexM4 => Self::CortexM4,
            Target::CortexM55 => Self::CortexM55,
        }
    }
}

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    keep_inputs(&args.output, &[&args.model])?;
    let Loaded { model, labels_from, notes } = load::canonical(&args.model, &args.settings.settings())?;
    let numeric = Numeric::from(args.numeric);
    let layout = Layout::from(args.target);
    if !numeric.is_integer() && (layout != Layout::Portable || args.calibrate.is_some()) {
        let reason = "are for integers: pack with --numeric i8x16";
        return Err(Failure::new(format!("--for {} and --calibrate {reason}", layout.name())));
    }
    let calibration = match &args.calibrate {
        Some(data) => Some(Calibration::read(data, &model, &args.model)?),
        None => None,
    };
    let ranges = match &calibration {
        Some(calibration) => calibration.ranges(&model, &args.model)?,
        None if numeric.is_integer() => {
            eprintln!("warning: ranges come from noise; give real input with --calibrate");
            Ranges::from_noise(&model).map_err(|error| Failure::of(&args.model, error))?
        }
        None => Ranges::default(),
    };
    let image = load::packed_with(&args.model, &model, numeric, &ranges, layout)?;
    write_atomically(&args.output, |file| file.write_all(image.bytes()))?;
    for note in notes {
        writeln!(out, "{}", one_line(&note))?;
    }
    if let Some(file) = labels_from {
        writeln!(out, "{} labels from {}", model.architecture.labels.len(), file.display())?;
    }
    if let Some(calibration) = &calibration {
        report(args, &model, &image, calibration, out)?;
    }
    let bytes = grouped(image.bytes().len());
    writeln!(out, "{} -> {}: {bytes} bytes, {}", args.model.display(), args.output.display(), numeric.name())?;
    Ok(())
}

/// How far the image is from the model in f32 over the calibration: a line a layer.
fn report(
    args: &Args,
    model: &Canonical,
    image: &ImageBuffer,
    calibration: &Calibration,
    out: &mut dyn Write,
) -> Outcome {
    writeln!(out, "ranges from {}; against f32 over the first of them:", calibration.what)?;
    let reference = load::packed(&args.model, model, Numeric::F32)?;
    let Some(first) = calibration.sequences.first() else { return Ok(()) };
    let inputs: Vec<&[f32]> = first.iter().map(Vec::as_slice).collect();
    let compared = compare(&image.model()?.endless(), &reference.model()?.endless(), &inputs);
    let (output, layers) = compared.map_err(|error| Failure::of(&args.model, error))?;
    for difference in layers.iter().chain([&output]) {
        writeln!(out, "  {}", difference.text())?;
    }
    Ok(())
}
