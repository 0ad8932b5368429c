//! `pack`: a model to a flash image.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use serde_json::json;
use tidegate::{Layout, Model, Numeric};
use tidegate_model::canonical::Canonical;
use tidegate_model::compare::Comparison;
use tidegate_model::load::{self, ImageBuffer};
use tidegate_model::output::{Pending, prepare};
use tidegate_model::quantize::{Goal, Ranges, Report, StandIn, is_poor, weakest, weight_bits, wide_layers};
use tidegate_tools::grouped;
use tidegate_tools::report::page;

use super::args::{JsonArg, PACKED, SettingArgs, numeric};
use super::calibrate::{Calibration, RangeArg, decisions, parse_range, rules};
use super::{Failure, Outcome, check_extension, check_outputs, print_notes, shown};

/// Packs a model into a flash image
///
/// Reads canonical models and every format of `import`. Integer ranges are taken from the calibration data; the effect
/// on each layer is reported.
#[derive(clap::Args)]
#[command(after_help = "Examples, in the folder of `tidegate demo --keep .`:
  tidegate pack GRU_S.pb -o spotter.tgi
  tidegate pack GRU_S.pb -o spotter.tgi --for cortex-m4 --report spotter.html \\
      --calibrate speech_commands/index.csv --evaluate speech_commands/index.csv
  tidegate pack GRU_S.pb -o spotter.tgi --range gru.hidden:mse --keep gru=16
  tidegate pack GRU_S.pb -o spotter.tgi --numeric f16 --schedule 25/6 --threshold 0.9")]
pub struct Args {
    /// The canonical or foreign model
    model: PathBuf,
    /// File to write the image to
    #[arg(short, long)]
    output: PathBuf,
    /// Number format of weights, activations and states [default: i8x16, or i8 for an integer model]
    #[arg(long, value_parser = numeric())]
    numeric: Option<Numeric>,
    /// Calibration data for integer ranges: an index CSV, a folder of clips, or an input file; `noise` stands for features
    /// from -1 to 1 [default: the sounds that tidegate carries, for a model with a front end]
    #[arg(long, value_name = "DATA")]
    calibrate: Option<PathBuf>,
    /// Rule for integer ranges: `auto` (all calibration values, with a margin where rounding permits it), `minmax` (exactly
    /// these values), `percentile=P` of them (`percentile` is 99.99), or `mse` (least error from clipping and rounding).
    /// NAME:RULE sets the rule of one value or state; repeatable [default: auto]
    #[arg(long, value_name = "[NAME:]RULE", value_parser = parse_range)]
    range: Vec<RangeArg>,
    /// Bits of the weights of a layer: 8 or 16 in i8x16, 4 or 8 in i4x16; repeatable
    #[arg(long, value_name = "LAYER=BITS", value_parser = parse_keep)]
    keep: Vec<(String, u8)>,
    /// Signal-to-noise ratio at the output, such as 35dB: layers get weights with twice as many bits until it is reached
    #[arg(long, value_name = "RATIO", value_parser = parse_ratio)]
    at_least: Option<f64>,
    /// Size of the image, such as 100KiB: layers get weights with twice as many bits while the image fits
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    budget: Option<usize>,
    /// Labeled index to compare the accuracy of integers and f32 on
    #[arg(long, value_name = "CLIPS.csv")]
    evaluate: Option<PathBuf>,
    /// File to write ranges, saturation and signal-to-noise ratios of every layer to: JSON (.json), a page with pictures
    /// (.html) or text
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Fail instead of warning: the output is less than 30 dB from that of f32, or more than 1 % of the decisions change
    #[arg(long)]
    strict: bool,
    /// Core whose kernels read the weights
    #[arg(long = "for", value_name = "CORE", value_parser = layout(), default_value = "portable")]
    layout: Layout,
    #[command(flatten)]
    settings: SettingArgs,
    #[command(flatten)]
    json: JsonArg,
}

/// `lstm=16`.
fn parse_keep(text: &str) -> Result<(String, u8), String> {
    let (layer, bits) = text.rsplit_once('=').ok_or("write LAYER=BITS, such as lstm=16")?;
    let bits = bits.parse().ok().filter(|bits| [4, 8, 16].contains(bits));
    Ok((layer.to_owned(), bits.ok_or("weights have 4, 8 or 16 bits")?))
}

/// `35dB` or `35`.
fn parse_ratio(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix("dB").unwrap_or(text).trim();
    let ratio = number.parse().ok().filter(|ratio: &f64| (0.0..=120.0).contains(ratio));
    ratio.ok_or_else(|| "write a ratio from 0 to 120, such as 35dB".to_owned())
}

/// `100KiB`, `1MiB` or bytes.
fn parse_size(text: &str) -> Result<usize, String> {
    let units = [("KiB", 1 << 10), ("MiB", 1 << 20), ("", 1)];
    let sized =
        units.iter().find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?.trim().parse::<usize>().ok()?, bytes)));
    let size = sized.and_then(|(number, bytes)| number.checked_mul(*bytes));
    size.ok_or_else(|| "write a size such as 100KiB, 1MiB or 65536".to_owned())
}

/// Parser of a layout's name.
fn layout() -> impl TypedValueParser<Value = Layout> {
    let help = ["For every build", "Cortex-M0 and M0+", "Cortex-M4, M7 and M33 (DSP extension)", "Cortex-M55 (Helium)"];
    let values = Layout::ALL.iter().zip(help).map(|(layout, help)| PossibleValue::new(layout.name()).help(help));
    let named = |name: String| Layout::ALL.into_iter().find(|layout| layout.name() == name);
    PossibleValuesParser::new(values).map(move |name| named(name).expect("a possible value"))
}

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let read = [Some(&args.model), args.calibrate.as_ref(), args.evaluate.as_ref()];
    let read = read.into_iter().flatten().map(PathBuf::as_path);
    let read: Vec<&Path> = read.chain(args.settings.files()).collect();
    check_outputs(&[Some(&args.output), args.report.as_ref()], &read)?;
    let advice = format!(
        "pack writes images: give -o {}, or `tidegate import {} -o {}` for a model",
        args.output.with_extension("tgi").display(),
        args.model.display(),
        args.output.display()
    );
    check_extension(&args.output, "safetensors", advice)?;
    let loaded = load::canonical(&args.model, &args.settings.settings())?;
    let model = &loaded.model;
    let numeric = args.numeric.unwrap_or_else(|| model.architecture.numeric_or(PACKED));
    let layout = args.layout;
    let measured = numeric.needs_ranges();
    let (image, report) = if measured {
        let (image, report) = integers(args, model, numeric, layout)?;
        (image, Some(report))
    } else {
        let given = [
            ("--for", layout != Layout::Portable && !numeric.is_integer()),
            ("--calibrate", args.calibrate.is_some()),
            ("--range", !args.range.is_empty()),
            ("--evaluate", args.evaluate.is_some()),
            ("--report", args.report.is_some()),
            ("--keep", !args.keep.is_empty()),
            ("--at-least", args.at_least.is_some()),
            ("--budget", args.budget.is_some()),
            ("--strict", args.strict),
        ];
        if let Some((option, _)) = given.into_iter().find(|(_, given)| *given) {
            let reason = if numeric.is_integer() {
                format!("{option}: the model already has integers: give --numeric i8x16 to quantize it again")
            } else {
                format!("{option}: is only for integers, not for {}: leave --numeric out", numeric.name())
            };
            return Err(Failure::new(reason));
        }
        (load::packed_with(&args.model, model, numeric, &Ranges::default(), layout)?, None)
    };
    if let Some(report) = &report {
        for warning in &report.warnings {
            if args.strict {
                return Err(Failure::of(&args.model, warning));
            }
            eprintln!("warning: {}: {warning}", args.model.display());
        }
    }
    // No file appears before all are written.
    let mut files = vec![prepare(&args.output, |file| file.write_all(image.bytes()))?];
    if let (Some(file), Some(report)) = (&args.report, &report) {
        let has = |wanted: &str| file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case(wanted));
        let content = match (has("json"), has("html")) {
            (true, _) => format!("{:#}\n", report.json),
            (_, true) => report.html.clone(),
            _ => report.text.clone(),
        };
        files.push(prepare(file, |file| file.write_all(content.as_bytes()))?);
    }
    files.into_iter().try_for_each(Pending::keep)?;
    if let (Some(report), None) = (&report, &args.calibrate) {
        eprintln!("note: calibrated on {}; use --calibrate to give your own input", report.source);
    }
    print_notes(&args.model, &loaded);
    if args.json.json {
        let value = json!({
            "model": shown(&args.model), "output": shown(&args.output), "bytes": image.bytes().len(), "numeric": numeric.name(),
            "layout": layout.name(), "report": report.map(|report| report.json),
        });
        writeln!(out, "{value}")?;
        return Ok(());
    }
    if let Some(report) = report {
        write!(out, "{}", report.text)?;
    }
    let bytes = grouped(image.bytes().len());
    writeln!(out, "{} -> {}: {bytes} bytes, {}", args.model.display(), args.output.display(), numeric.name())?;
    Ok(())
}

impl Args {
    /// The goal for the image; each layer of `--keep` must be able to have weights with twice as many bits.
    fn goal(&self, model: &Canonical, numeric: Numeric) -> Result<Goal, Failure> {
        let usual = weight_bits(numeric);
        let layers: Vec<&str> = wide_layers(model).collect();
        for (layer, bits) in &self.keep {
            if !layers.contains(&layer.as_str()) {
                let others = if layers.is_empty() {
                    "no layer can".to_owned()
                } else {
                    format!("these can: {}", layers.join(", "))
                };
                return Err(Failure::new(format!("--keep: {layer:?} cannot have weights of another width; {others}")));
            }
            if *bits != usual && *bits != 2 * usual {
                let name = numeric.name();
                return Err(Failure::new(format!(
                    "--keep: {layer}={bits}: in {name} weights have {usual} or {} bits",
                    2 * usual
                )));
            }
        }
        let with = |wanted| self.keep.iter().filter(move |(_, bits)| *bits == wanted).map(|(layer, _)| layer.clone());
        let (wide, narrow) = (with(2 * usual).collect(), with(usual).collect());
        Ok(Goal { wide, narrow, at_least: self.at_least, budget: self.budget })
    }
}

/// The value of `--calibrate` that stands for no data.
const NOISE: &str = "noise";
/// Why a model without a front end is not packed without data.
const WITHOUT_DATA: &str = "nothing says which values its input has, and integers need their range: give real input with \
    --calibrate, or --calibrate noise for values from -1 to 1";

/// Why noise is not given to a model for which there is something better.
const NOT_NOISE: &str = "--calibrate noise is for features whose values nothing shows: leave it out, and the model is \
    calibrated on sounds or indices that tidegate has";

/// A report in every form.
struct ReportTexts {
    source: String,
    text: String,
    html: String,
    warnings: Vec<String>,
    json: serde_json::Value,
}

/// The data of `--calibrate`, or its substitute.
pub fn calibration(
    given: Option<&Path>,
    model: &Canonical,
    file: &Path,
    numeric: Numeric,
    layout: Layout,
) -> Result<Calibration, Failure> {
    match given {
        Some(data) if data.as_os_str() != NOISE => Calibration::read(data, model, file),
        Some(_) if StandIn::of(model) != StandIn::Noise => Err(Failure::of(file, NOT_NOISE)),
        None if StandIn::of(model) == StandIn::Noise => {
            // If the model has no integer form at all, data would not help.
            load::packed_with(file, model, numeric, &Ranges::default(), layout)?;
            Err(Failure::of(file, WITHOUT_DATA))
        }
        _ => Calibration::stand_in(model, file),
    }
}

/// Packs an integer image and reports its errors.
fn integers(
    args: &Args,
    model: &Canonical,
    numeric: Numeric,
    layout: Layout,
) -> Result<(ImageBuffer, ReportTexts), Failure> {
    let goal = args.goal(model, numeric)?;
    let calibration = calibration(args.calibrate.as_deref(), model, &args.model, numeric, layout)?;
    let seen = calibration.seen(model, &args.model)?;
    let rules = rules(&args.range, &seen)?;
    let ranges = calibration.choose(model, numeric, seen.ranges(&rules, model), &rules, &goal, &args.model)?;
    let image = load::packed_with(&args.model, model, numeric, &ranges, layout)?;
    let float = load::packed(&args.model, model, Numeric::F32)?;
    let (integer, reference) = (image.model()?, float.model()?);
    let comparison = calibration.compare(&integer, &reference, &args.model)?;
    let (ratio, bytes) = (comparison.output.snr_db(), image.bytes().len());
    if let Some(most) = goal.budget.filter(|most| bytes > *most) {
        let other = if numeric == Numeric::I4x16 { "" } else { ", or try --numeric i4x16" };
        let (bytes, most) = (grouped(bytes), grouped(most));
        let reason = format!("the image takes {bytes} bytes, more than the {most} of --budget: raise it{other}");
        return Err(Failure::of(&args.model, reason));
    }
    if let Some(wanted) = goal.at_least.filter(|wanted| ratio.is_nan() || ratio < *wanted) {
        let other = if numeric == Numeric::I4x16 { "i8x16" } else { "f16" };
        let reason = format!(
            "the output reaches {ratio:.1} dB, less than the {wanted} dB of --at-least: ask for less, or try --numeric {other}"
        );
        return Err(Failure::of(&args.model, reason));
    }
    let decisions = match &args.evaluate {
        Some(index) => Some(decisions(index, &integer, &reference, &args.model)?),
        None => None,
    };
    let wider_gains = wider_gains(args, (model, &reference), numeric, &calibration, &ranges, &comparison)?;
    let described =
        format!("{}: {} bytes, {}, {}", args.output.display(), grouped(bytes), numeric.name(), layout.name());
    let date = time::OffsetDateTime::now_utc().date().to_string();
    let report = Report {
        heading: [&args.model.display().to_string(), &described, &date],
        model,
        source: &calibration.what,
        numeric,
        seen: &seen,
        ranges: &ranges,
        rules: &rules,
        comparison: &comparison,
        decisions: decisions.as_ref(),
        wider_gains,
    };
    let (text, warnings, json) = (report.text(), report.warnings(), report.json());
    let html = page(&report, &integer, bytes);
    Ok((image, ReportTexts { source: calibration.what.clone(), text, html, warnings, json }))
}

/// For a poor image, the decibels that the output gains if the weakest layer has weights with twice as many bits; `None` if
/// it cannot have them.
fn wider_gains(
    args: &Args,
    (model, reference): (&Canonical, &Model<'_>),
    numeric: Numeric,
    calibration: &Calibration,
    ranges: &Ranges,
    comparison: &Comparison,
) -> Result<Option<f64>, Failure> {
    let Some(weakest) = weakest(comparison, model).filter(|_| is_poor(&comparison.output)) else { return Ok(None) };
    let name = weakest.value.name.as_str();
    if !wide_layers(model).any(|layer| layer == name) {
        return Ok(None);
    }
    let mut wider = ranges.clone();
    wider.add_wide([name.to_owned()]);
    // A diagnosis that fails is no reason to give no image.
    let Ok(image) = load::packed_with(&args.model, model, numeric, &wider, Layout::Portable) else { return Ok(None) };
    let wide = calibration.compare(&image.model()?, reference, &args.model)?;
    Ok(Some(wide.output.snr_db() - comparison.output.snr_db()))
}
