//! Any model to a flash image.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use tidegate::Numeric;
use tidegate::image::Layout;
use tidegate_tools::canonical::Canonical;
use tidegate_tools::data::one_line;
use tidegate_tools::load::{self, ImageBuffer, Loaded};
use tidegate_tools::output::{Pending, prepare};
use tidegate_tools::quantize::{Ranges, Report};

use super::calibrate::{Calibration, RangeArg, decisions, parse_range, rules};
use super::{Failure, NumericArg, Outcome, SettingArgs, grouped, keep_apart, keep_inputs};

/// Turns a model into a flash image
///
/// Takes canonical models and whatever `import` reads. In integers, values reach as far as they do over the calibration;
/// what comes of that is told layer by layer.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  tidegate pack assets/hello_edge/GRU_S.pb -o gru_s.tgi
  tidegate pack gru_s.safetensors -o gru_s.tgi --calibrate clips.csv --for cortex-m4 --evaluate others.csv
  tidegate pack gru_s.safetensors -o gru_s.tgi --calibrate clips.csv --range gru.hidden:mse --report gru_s.json
  tidegate pack keywords_int8.tflite -o keywords.tgi
  tidegate pack gru_s.safetensors -o gru_s.tgi --numeric f16 --schedule 25/6 --threshold 0.9")]
pub struct Args {
    /// The canonical or foreign model
    model: PathBuf,
    /// Where the image goes
    #[arg(short, long)]
    output: PathBuf,
    /// How weights, activations and states are stored and computed [default: i8x16, or i8 for a model in integers]
    #[arg(long, value_enum)]
    numeric: Option<NumericArg>,
    /// Where the ranges of integers come from: an index CSV, a folder of clips, or an input file [default: noise]
    #[arg(long, value_name = "DATA")]
    calibrate: Option<PathBuf>,
    /// How far integers reach: `minmax` (all that was seen), `percentile=P` of it (percentile is 99.99), or `mse` (where
    /// clipping and rounding cost the least); NAME:RULE for one value or state, again for more [default: minmax]
    #[arg(long, value_name = "[NAME:]RULE", value_parser = parse_range)]
    range: Vec<RangeArg>,
    /// Labeled index on which the accuracy of integers and of f32 is told
    #[arg(long, value_name = "CLIPS.csv")]
    evaluate: Option<PathBuf>,
    /// Where ranges, saturation and signal-to-noise ratios of every layer go: as JSON (.json), or as text
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
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
    let read: Vec<&Path> = [Some(&args.model), args.calibrate.as_ref(), args.evaluate.as_ref()]
        .into_iter()
        .flatten()
        .map(PathBuf::as_path)
        .chain(args.settings.files())
        .collect();
    let written: Vec<&Path> =
        [Some(&args.output), args.report.as_ref()].into_iter().flatten().map(PathBuf::as_path).collect();
    for file in &written {
        keep_inputs(file, &read)?;
    }
    keep_apart(&written)?;
    let Loaded { model, labels_from, notes } = load::canonical(&args.model, &args.settings.settings())?;
    let numeric = args.numeric.map_or_else(|| model.architecture.numeric_or(Numeric::I8x16), Numeric::from);
    let layout = Layout::from(args.target);
    let measured = numeric.needs_ranges();
    let (image, told) = if measured {
        let (image, told) = integers(args, &model, numeric, layout)?;
        (image, Some(told))
    } else {
        let given = [
            ("--for", layout != Layout::Portable && !numeric.is_integer()),
            ("--calibrate", args.calibrate.is_some()),
            ("--range", !args.range.is_empty()),
            ("--evaluate", args.evaluate.is_some()),
            ("--report", args.report.is_some()),
        ];
        if let Some((option, _)) = given.into_iter().find(|(_, given)| *given) {
            let reason = if numeric.is_integer() {
                format!("{option}: the model is in integers already: give --numeric i8x16 to count anew")
            } else {
                format!("{option}: is for integers, and {} are none: leave --numeric out", numeric.name())
            };
            return Err(Failure::new(reason));
        }
        (load::packed_with(&args.model, &model, numeric, &Ranges::default(), layout)?, None)
    };
    // Nothing has its name before all of it is written.
    let mut files = vec![prepare(&args.output, |file| file.write_all(image.bytes()))?];
    if let (Some(file), Some(told)) = (&args.report, &told) {
        let as_json = file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
        let content = if as_json { format!("{:#}\n", told.json) } else { told.text.clone() };
        files.push(prepare(file, |file| file.write_all(content.as_bytes()))?);
    }
    files.into_iter().try_for_each(Pending::keep)?;
    if measured && args.calibrate.is_none() {
        eprintln!("warning: ranges come from noise; give real input with --calibrate");
    }
    for note in notes {
        writeln!(out, "{}", one_line(&note))?;
    }
    if let Some(file) = labels_from {
        writeln!(out, "{} labels from {}", model.architecture.labels.len(), file.display())?;
    }
    if let Some(told) = told {
        write!(out, "{}", told.text)?;
    }
    let bytes = grouped(image.bytes().len());
    writeln!(out, "{} -> {}: {bytes} bytes, {}", args.model.display(), args.output.display(), numeric.name())?;
    Ok(())
}

/// A report in both its forms.
struct Told {
    text: String,
    json: serde_json::Value,
}

/// The image of a model in integers, and what became of it.
fn integers(args: &Args, model: &Canonical, numeric: Numeric, layout: Layout) -> Result<(ImageBuffer, Told), Failure> {
    let calibration = match &args.calibrate {
        Some(data) => Calibration::read(data, model, &args.model)?,
        None => Calibration::noise(model, &args.model)?,
    };
    let seen = calibration.seen(model, &args.model)?;
    let rules = rules(&args.range, &seen)?;
    let ranges = seen.ranges(&rules);
    let image = load::packed_with(&args.model, model, numeric, &ranges, layout)?;
    let float = load::packed(&args.model, model, Numeric::F32)?;
    let (integer, reference) = (image.model()?, float.model()?);
    let comparison = calibration.compare(&integer, &reference, &args.model)?;
    let decisions = match &args.evaluate {
        Some(index) => Some(decisions(index, &integer, &reference, &args.model)?),
        None => None,
    };
    let source = calibration.what.as_str();
    let (rules, comparison, decisions) = (&rules, &comparison, decisions.as_ref());
    let report = Report { source, seen: &seen, ranges: &ranges, rules, comparison, decisions };
    let (text, json) = (report.text(), report.json());
    Ok((image, Told { text, json }))
}
