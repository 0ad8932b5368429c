//! `inspect`: the contents of a model.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use tidegate::front_end::Method;
use tidegate::internals::node::Unroll;
use tidegate::{Numeric, Port, Schedule};
use tidegate_model::c_header;
use tidegate_model::cadence::steps_per_output;
use tidegate_model::data::one_line;
use tidegate_model::inspect::{activations, extents, macs_per_step, named_nodes, options, params, ram_bytes, to_json};
use tidegate_model::output::{Pending, prepare};
use tidegate_tools::device::{CORES, Core, OnDevice};
use tidegate_tools::grouped;
use tidegate_tools::plot::memory_map;
use tidegate_update::{Signed, TrustError};

use super::args::{ModelArgs, StreamArg};
use tidegate_model::sound::schedule_text;

use super::keys::signer;
use super::{Failure, Outcome, check_kind, check_outputs, check_plot, say};

/// Shows layers, flash, RAM, multiply-accumulates, labels and front end of a model
#[derive(clap::Args)]
#[command(after_help = "Examples, in the folder of `tidegate demo --keep .`:
  tidegate inspect gru_s.tgi
  tidegate inspect GRU_S.pb --numeric f16 --json
  tidegate inspect gru_s.tgi --for cortex-m4 --mhz 120 --plot memory.svg
  tidegate inspect gru_s.tgi --c-header kws.h --c-array kws.c")]
pub struct Args {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    stream: StreamArg,
    /// Print one JSON value on standard output
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    device: DeviceArgs,
    /// C header to write, with the constants of the image for programs that include tidegate.h
    #[arg(long, value_name = "FILE")]
    c_header: Option<PathBuf>,
    /// C file to write, with the image as an array for toolchains without .incbin
    #[arg(long, value_name = "FILE")]
    c_array: Option<PathBuf>,
}

/// The device that the firmware is for.
#[derive(clap::Args)]
struct DeviceArgs {
    /// Core to estimate time, stack and all RAM on
    #[arg(long = "for", value_name = "CORE", value_parser = core())]
    core: Option<Core>,
    /// Clock of the core in MHz
    #[arg(long, value_name = "MHZ", requires = "core", value_parser = positive)]
    mhz: Option<f64>,
    /// Milliseconds between steps; a model with a front end has its own
    #[arg(long, value_name = "MS", requires = "mhz", value_parser = positive)]
    every: Option<f64>,
    /// SVG file to draw flash and RAM into
    #[arg(long, value_name = "FILE", requires = "core")]
    plot: Option<PathBuf>,
}

fn core() -> impl TypedValueParser<Value = Core> {
    let named = |name: String| CORES.into_iter().find(|core| core.name == name).expect("a possible value");
    PossibleValuesParser::new(CORES.map(|core| core.name)).map(named)
}

fn positive(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| "give a number above 0".to_owned())
}

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let DeviceArgs { core, mhz, every, plot } = &args.device;
    let read: Vec<&Path> = args.model.files().collect();
    check_outputs(&[args.c_header.as_ref(), args.c_array.as_ref(), plot.as_ref()], &read)?;
    check_kind("--c-header", args.c_header.as_ref(), "a C header", &["h"])?;
    check_kind("--c-array", args.c_array.as_ref(), "a C file", &["c"])?;
    check_plot(plot.as_ref())?;
    let image = args.model.load_as_packed(&args.stream)?;
    let model = image.model()?;
    let stem = args.model.file.file_stem().unwrap_or_default().to_string_lossy();
    if every.is_some() && model.front_end().is_some() {
        say(&format!("note: {}: its front end sets the time between steps, not --every", args.model.file.display()));
    }
    let on_device = core.map(|core| {
        let sizes = (&model, ram_bytes(&model), image.bytes().len());
        OnDevice::new(core, *mhz, *every, sizes).map_err(|error| Failure::of(&args.model.file, error))
    });
    let on_device = on_device.transpose()?;
    for warning in on_device.iter().flat_map(OnDevice::warnings) {
        say(&format!("warning: {}: {warning}", args.model.file.display()));
    }
    let header = args.c_header.as_ref().map(|path| (path, c_header::header(&stem, &model, image.bytes().len())));
    let array = args.c_array.as_ref().map(|path| (path, c_header::array(&stem, image.bytes())));
    // No file appears before all are written.
    let files = header.into_iter().chain(array).map(|(path, text)| prepare(path, |to| to.write_all(text.as_bytes())));
    let files = files.collect::<Result<Vec<_>, _>>()?;
    if let Some((path, on_device)) = plot.as_ref().zip(on_device.as_ref()) {
        memory_map(path, &stem, &on_device.parts())?;
    }
    files.into_iter().try_for_each(Pending::keep)?;
    if args.json {
        let mut value = to_json(&model, image.bytes());
        if let Some(on_device) = &on_device {
            value["device"] = on_device.to_json();
        }
        writeln!(out, "{value}")?;
        return Ok(());
    }
    writeln!(out, "{}", args.model.file.display())?;
    writeln!(out, "  model    {:016x}, {}, {}", model.id().0, model.numeric().name(), model.layout().name())?;
    match Signed::find(image.bytes()) {
        Ok(signed) => writeln!(out, "  signed   {}; not verified: tidegate verify-signature", signer(&signed))?,
        Err(TrustError::Unsigned) => {}
        Err(error) => writeln!(out, "  signed   {error}")?,
    }
    if let Some(test) = model.self_test() {
        writeln!(out, "  tests    itself in {} steps, {} of them with an output", test.steps(), test.outputs())?;
    }
    for (name, node) in named_nodes(&model) {
        let sizes = match node.hidden_size == node.output_size {
            true => format!("{} -> {}", node.input_size, node.output_size),
            false => format!("{} -> {} -> {}", node.input_size, node.hidden_size, node.output_size),
        };
        let mut more = options(&node);
        let defaults = node.spec().extents.iter().map(|spec| spec.default as usize);
        let given = extents(&node).zip(defaults).filter(|((_, value), default)| value != default);
        more.extend(given.map(|((extent, value), _)| format!("{extent} {value}")));
        more.extend(params(&model, &node).map(|(param, value)| format!("{param} {value}")));
        more.extend(activations(&node).map(|(_, activation)| activation.to_owned()));
        more.extend(node.unroll.map(unroll_text));
        let (cell, macs) = (node.spec().name, grouped(node.macs()));
        let semicolon = if more.is_empty() { "" } else { "; " };
        writeln!(out, "  layer    {name}: {cell} {sizes}, {macs} MACs{semicolon}{}", more.join(", "))?;
    }
    // The relation between the integers of the image and those of a TFLite file.
    let counts = |port: &Port<'_>| match model.numeric() {
        Numeric::I8 => format!(", {:e} times (TFLite's integer minus {})", port.scale, port.zero_point),
        _ => String::new(),
    };
    for port in model.inputs() {
        writeln!(out, "  input    {} [{}]{}", one_line(port.name), port.size, counts(&port))?;
    }
    for port in model.outputs() {
        writeln!(out, "  output   {} [{}]{}", one_line(port.name), port.size, counts(&port))?;
    }
    writeln!(out, "  flash    {} bytes", grouped(image.bytes().len()))?;
    let [state, scratch, sound, means] = ram_bytes(&model).map(grouped);
    let total = grouped(ram_bytes(&model).iter().sum());
    let beside = match (model.front_end(), model.detector()) {
        (None, None) => String::new(),
        _ => format!(", {sound} bytes for the front end, {means} bytes for the detector: {total} together"),
    };
    writeln!(out, "  RAM      {state} bytes of state, {scratch} bytes of scratch{beside}")?;
    writeln!(out, "  a step   {} multiply-accumulates", grouped(macs_per_step(&model)))?;
    let work = model.work();
    let [curves, moves, bytes] =
        [work.curves, work.moves, work.bytes].map(|count| grouped(usize::try_from(count).unwrap_or(usize::MAX)));
    writeln!(out, "  and      {curves} activations, {moves} elements moved, {bytes} bytes of the image read")?;
    if let Schedule::Windows { .. } = model.schedule() {
        writeln!(out, "           (with all {} states of the schedule)", model.schedule().states())?;
    }
    for line in on_device.iter().flat_map(OnDevice::lines) {
        writeln!(out, "  {line}")?;
    }
    if let Some(front_end) = model.front_end() {
        let s = front_end.settings();
        let (rate, window, stride) = (s.sample_rate, s.window_len, s.stride_len);
        let (count, bands, lower, upper) = (s.coefficients, s.mel_bands, s.lower_hz, s.upper_hz);
        let heard = if s.fft_len < window { format!(" (the first {} heard)", s.fft_len) } else { String::new() };
        let integer = front_end.scale().map_or_else(String::new, |scale| format!(", integers in units of {scale:.3e}"));
        let kind = match s.method {
            Method::Mfcc => format!("{count} MFCCs of {bands} mel bands"),
            Method::LogMel(_) => format!("the logarithms of {bands} mel bands"),
            Method::Micro => format!("{count} channels of TensorFlow Lite Micro's front end"),
            Method::MicroWithoutGain => format!("{count} channels of TensorFlow Lite Micro's front end without gain"),
        };
        let features = format!("{kind}, {lower} to {upper} Hz{integer}");
        writeln!(out, "  hears    {rate} Hz, {window} samples{heard} every {stride}: {features}")?;
    }
    let every = match (model.schedule(), steps_per_output(&model)) {
        (Schedule::Endless, steps) if steps > 1 => format!(", with an output every {steps} steps"),
        _ => String::new(),
    };
    writeln!(out, "  schedule {}{every}", schedule_text(model.schedule()))?;
    if let Some(detector) = model.detector() {
        let thresholds: Vec<String> = (0..detector.label_count())
            .filter_map(|label| detector.label(label))
            .filter(|label| label.threshold <= 1.0)
            .map(|label| format!("{} ({} ms)", label.threshold, label.refractory_ms))
            .collect();
        let same = thresholds.windows(2).all(|pair| pair[0] == pair[1]);
        let shown = if same { thresholds.first().cloned().unwrap_or_default() } else { thresholds.join(", ") };
        writeln!(out, "  detects  mean of {} posteriors at least {shown}", detector.mean_of())?;
    }
    let labels: Vec<&str> = model.labels().collect();
    if !labels.is_empty() {
        writeln!(out, "  labels   {}", labels.join(" "))?;
    }
    Ok(())
}

/// `9 rows a step, read backwards, written backwards, state carried on`
fn unroll_text(unroll: Unroll) -> String {
    let flags = [
        (unroll.read_backwards, ", read backwards"),
        (unroll.write_backwards, ", written backwards"),
        (unroll.stateful && !unroll.apart, ", state carried on"),
        (unroll.apart, ", each with a state of its own"),
    ];
    let flags: String = flags.into_iter().filter(|(set, _)| *set).map(|(_, text)| text).collect();
    format!("{} rows a step{flags}", unroll.steps)
}
