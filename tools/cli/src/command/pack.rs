//! `pack`: a model to a flash image.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use serde_json::json;
use tidegate::{Layout, Numeric};
use tidegate_model::calibrate::RangeArg;
use tidegate_model::canonical::Canonical;
use tidegate_model::load::{self, ImageBuffer};
use tidegate_model::output::{Pending, prepare};
use tidegate_model::packing::{Measured, Packer, Packing, Source, only_for_integers};
use tidegate_model::self_test::with_self_test;
use tidegate_tools::device::CORES;
use tidegate_tools::grouped;
use tidegate_tools::progress::Bars;
use tidegate_tools::report::page;

use super::args::{JsonArg, SettingArgs, numeric};
use super::{
    Failure, Outcome, check_extension, check_kind, check_once, check_outputs, print_file_notes, print_notes, say, shown,
};

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
    /// Calibration data for integer ranges: an index CSV, a folder of clips, or an input file (.npy, .npz, .safetensors,
    /// .ts) with one sequence, or with many, [n, steps, features], in a tensor such as `x` or `x_train`; `noise` stands for
    /// random features from -1 to 1 [default: the sounds that tidegate carries, for a model with a front end]
    #[arg(long, value_name = "DATA")]
    calibrate: Option<PathBuf>,
    /// Rule for integer ranges: `auto` (all calibration values, with a margin where rounding permits it), `minmax` (exactly
    /// these values), `percentile=P` of them (`percentile` is 99.99), or `mse` (least error from clipping and rounding).
    /// NAME:RULE sets the rule of one value or state; repeatable [default: auto]
    #[arg(long, value_name = "[NAME:]RULE")]
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
    /// Labeled data to compare the accuracy of integers and f32 on, as in `eval --index`
    #[arg(long, value_name = "DATA")]
    evaluate: Option<PathBuf>,
    /// File to write ranges, saturation and signal-to-noise ratios of every layer to: JSON (.json), a page with pictures
    /// (.html) or text
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Fail instead of warning: the output has less than 30 dB signal-to-noise ratio, or more than 1 % of the decisions change
    #[arg(long)]
    strict: bool,
    /// Add a self-test to the image: inputs and the bits of the outputs, which a device compares before it keeps an update
    #[arg(long)]
    self_test: bool,
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
    let values = Layout::ALL.iter().zip(help).map(|(layout, help)| {
        let others =
            CORES.iter().filter(|core| core.layout == *layout && core.name != layout.name()).map(|core| core.name);
        PossibleValue::new(layout.name()).help(help).aliases(others)
    });
    let named = |name: String| {
        let of_core = CORES.iter().find(|core| core.name == name).map(|core| core.layout);
        Layout::ALL.into_iter().find(|layout| layout.name() == name).or(of_core)
    };
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
        args.output.with_extension("safetensors").display()
    );
    check_extension(&args.output, &["tgi"], advice)?;
    let kinds = ["txt", "json", "html", "htm"];
    check_kind("--report", args.report.as_ref(), "text, JSON (.json) or a page (.html)", &kinds)?;
    check_once("--keep", args.keep.iter().map(|(layer, _)| layer.as_str()))?;
    let loaded = load::canonical(&args.model, &args.settings.settings()?)?;
    let model = &loaded.model;
    let packing = Packing {
        numeric: args.numeric,
        layout: args.layout,
        range: args.range.clone(),
        keep: args.keep.clone(),
        at_least: args.at_least,
        budget: args.budget,
    };
    let packer = Packer { model, file: &args.model, progress: &Bars };
    let (numeric, layout) = (packer.numeric(&packing), args.layout);
    let given = [("--report", args.report.is_some()), ("--strict", args.strict)];
    if let Some((option, _)) = given.into_iter().find(|(_, given)| *given && !numeric.needs_ranges()) {
        return Err(Failure::new(only_for_integers(option, numeric)));
    }
    let source = args.calibrate.as_deref().map_or(Source::Nothing, Source::File);
    let (mut image, measured) = packer.pack(&packing, source, args.evaluate.as_deref())?;
    if let (Some(measured), Some(data)) = (&measured, &args.calibrate) {
        print_file_notes(data, &measured.notes);
    }
    if args.self_test {
        let tested = with_self_test(image.bytes()).map_err(|error| Failure::of(&args.model, error))?;
        image = ImageBuffer::new(&tested);
    }
    let report = measured.map(|measured| texts(args, model, &image, &measured)).transpose()?;
    if let Some(report) = &report {
        for warning in &report.warnings {
            if args.strict {
                return Err(Failure::of(&args.model, warning));
            }
            say(&format!("warning: {}: {warning}", args.model.display()));
        }
    }
    // No file appears before all are written.
    let mut files = vec![prepare(&args.output, |file| file.write_all(image.bytes()))?];
    if let (Some(file), Some(report)) = (&args.report, &report) {
        let has = |wanted: &str| file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case(wanted));
        let content = match (has("json"), has("html") || has("htm")) {
            (true, _) => format!("{:#}\n", report.json),
            (_, true) => report.html.clone(),
            _ => report.text.clone(),
        };
        files.push(prepare(file, |file| file.write_all(content.as_bytes()))?);
    }
    files.into_iter().try_for_each(Pending::keep)?;
    if let (Some(report), None) = (&report, &args.calibrate) {
        say(&format!("note: calibrated on {}; use --calibrate to give your own input", report.source));
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

/// A report in every form.
struct ReportTexts {
    source: String,
    text: String,
    html: String,
    warnings: Vec<String>,
    json: serde_json::Value,
}

/// The report of an image in every form.
fn texts(args: &Args, model: &Canonical, image: &ImageBuffer, measured: &Measured) -> Result<ReportTexts, Failure> {
    let bytes = image.bytes().len();
    let (numeric, layout) = (measured.numeric.name(), args.layout.name());
    let described = format!("{}: {} bytes, {numeric}, {layout}", args.output.display(), grouped(bytes));
    let (file, date) = (args.model.display().to_string(), time::OffsetDateTime::now_utc().date().to_string());
    let report = measured.report(model, [&file, &described, &date]);
    let (text, warnings, json) = (report.text(), report.warnings(), report.json());
    let html = page(&report, &image.model()?, bytes);
    Ok(ReportTexts { source: measured.source.clone(), text, html, warnings, json })
}
