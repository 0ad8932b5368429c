//! `verify`: an image against the model that it was packed from.

use std::io::Write;
use std::path::{Path, PathBuf};

use tidegate::front_end::Mfcc;
use tidegate_model::canonical::Canonical;
use tidegate_model::compare::Comparison;
use tidegate_model::data::read_index_files;
use tidegate_model::drift::Drift;
use tidegate_model::inputs::{Inputs, Part, Reader};
use tidegate_model::load::{self, Settings};
use tidegate_model::quantize::LEAST_SNR_DB;
use tidegate_model::sound::{front_end_of, stream_features};
use tidegate_model::verify::{reference, to_json, too_short};
use tidegate_tools::plot::{Curves, curves};
use tidegate_tools::progress::Bars;

use super::args::{ArchArgs, Backend, EndlessArg, JsonArg, StreamArg};
use super::{Failure, Outcome, check_outputs, check_plot, print_file_notes, print_notes};

/// Compares an image with the model that it was packed from, layer by layer, on an input
///
/// Runs the image, and the model in f32, on the same sequence from a zero state, both with the schedule of the image, as
/// a device does. Prints the largest error and the signal-to-noise ratio of every layer, every cell state and the
/// output, and the number of saturated integers. The clips of an index are joined into one stream, as in
/// `eval --stream`. An hour of sound shows whether errors accumulate.
#[derive(clap::Args)]
#[command(after_help = "Examples, in the folder of `tidegate demo --keep .`:
  tidegate verify gru_s.tgi --against GRU_S.pb --input speech_commands/yes/022cd682_nohash_0.flac
  tidegate verify gru_s.tgi --against GRU_S.pb --index speech_commands/index.csv --plot drift.svg")]
#[command(group(clap::ArgGroup::new("what").required(true).args(["input", "index"])))]
pub struct Args {
    /// The packed image
    image: PathBuf,
    /// The model that the image was packed from, canonical or foreign
    #[arg(long, value_name = "MODEL")]
    against: PathBuf,
    #[command(flatten)]
    arch: ArchArgs,
    #[command(flatten)]
    stream: StreamArg,
    /// Input: features, or sound for a model with a front end. Each of several sequences runs from a zero state
    #[arg(long)]
    input: Option<PathBuf>,
    /// CSV with the column `file`: clips to join into one stream, or sequences of features, one in each file
    #[arg(long)]
    index: Option<PathBuf>,
    /// Seed for order, gaps and noise of the stream [default: 0]
    #[arg(long, conflicts_with = "input")]
    seed: Option<u64>,
    /// SVG file to draw the signal-to-noise ratios over time to
    #[arg(long, value_name = "SVG")]
    plot: Option<PathBuf>,
    #[command(flatten)]
    endless: EndlessArg,
    /// Backend that runs image and model
    #[arg(long, value_enum, default_value_t = Backend::Scalar)]
    backend: Backend,
    #[command(flatten)]
    json: JsonArg,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let what = args.index.as_deref().or(args.input.as_deref()).unwrap_or(Path::new(""));
    let read: Vec<&Path> = [&args.image, &args.against, what].into_iter().chain(args.arch.files()).collect();
    check_outputs(&[args.plot.as_ref()], &read)?;
    check_plot(args.plot.as_ref())?;
    let (image, canonical) = load_both(args)?;
    let image = image.model()?;
    let inputs = match &args.index {
        Some(index) if image.front_end().is_some() => {
            let mfcc = front_end_of(&image, &args.image)?;
            let features =
                stream_features(mfcc, &args.image, &read_index_files(index)?, args.seed.unwrap_or(0), &Bars)?;
            Inputs { sequences: vec![vec![features]], ..Inputs::default() }
        }
        _ if args.seed.is_some() => {
            return Err(Failure::of(what, "holds sequences of features, which run one by one: leave --seed out"));
        }
        _ => {
            let ports = &canonical.architecture.inputs;
            Reader { model: &image, ports, file: &args.image }.read(what, Part::Test)?
        }
    };
    print_file_notes(what, &inputs.notes);
    let reference = reference(&image, &args.image, &canonical, &args.against, &inputs.sequences)?;
    let reference = reference.model()?;
    let reference = reference.with_schedule(image.schedule()).map_err(|error| Failure::of(&args.against, error))?;
    let (image_engine, reference_engine) = (args.backend.engine(&image), args.backend.engine(&reference));
    let engines = if args.endless.endless {
        [args.endless.of(image_engine), reference_engine.endless()]
    } else {
        [image_engine, reference_engine]
    };
    let drift = Drift::run(&engines[0], &engines[1], &inputs.sequences).map_err(|error| Failure::of(what, error))?;
    if drift.whole.output.values == 0 {
        return Err(Failure::of(what, too_short(&image, args.endless.endless)));
    }
    if let Some(file) = &args.plot {
        let title = format!("{} against {}", args.image.display(), args.against.display());
        draw(file, &title, &drift, image.front_end())?;
    }
    let Comparison { layers, states, output, .. } = &drift.whole;
    if args.json.json {
        writeln!(out, "{}", to_json(&drift.whole))?;
        return Ok(());
    }
    for difference in layers.iter().chain(states) {
        let ends = if image.numeric().is_integer() && difference.saturated > 0 {
            format!("  {} of {} at an end of 16 bits", difference.saturated, difference.values)
        } else {
            String::new()
        };
        writeln!(out, "{}{ends}", difference.text())?;
    }
    writeln!(out, "{}", output.text())?;
    if let Some(file) = &args.plot {
        writeln!(out, "drawn in {}", file.display())?;
    }
    Ok(())
}

/// Draws the signal-to-noise ratios of layers, states and output over time.
fn draw(file: &Path, title: &str, drift: &Drift, front_end: Option<&Mfcc<'_>>) -> Outcome {
    /// Maximum number of seconds that are not drawn as minutes.
    const SECONDS: f64 = 300.0;
    let step = front_end.map(Mfcc::settings).map(|of| f64::from(of.stride_len) / f64::from(of.sample_rate.max(1)));
    let (x_label, unit) = match step {
        None => ("steps", 1.0),
        Some(step) if step * drift.whole.steps as f64 > SECONDS => ("minutes", step / 60.0),
        Some(step) => ("seconds", step),
    };
    let enough = format!("{LEAST_SNR_DB} dB: enough");
    let drawing = Curves {
        title,
        x_label,
        y_label: "signal to noise, dB",
        curves: &drift.curves(unit),
        levels: &[(LEAST_SNR_DB as f32, &enough)],
        infinity: "equal",
    };
    Ok(curves(file, &drawing)?)
}

/// The image and its model.
fn load_both(args: &Args) -> Result<(load::ImageBuffer, Canonical), Failure> {
    if !load::is_image(&args.image)? {
        return Err(Failure::of(&args.image, "is not an image: pack it first, `tidegate pack MODEL -o IMAGE`"));
    }
    if load::is_image(&args.against)? {
        return Err(Failure::of(&args.against, "is an image: give the model that it was packed from"));
    }
    let image = load::image(&args.image, &Settings::default(), None)?;
    let settings = Settings { stream: args.stream.stream, ..args.arch.settings()? };
    let loaded = load::canonical(&args.against, &settings)?;
    print_notes(&args.against, &loaded);
    Ok((image, loaded.model))
}
