//! `verify`: an image against the model that it was packed from.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::json;
use tidegate::front_end::Mfcc;
use tidegate::internals::node::Node;
use tidegate::{Numeric, Schedule};
use tidegate_model::compare::{Comparison, Difference, common_layers};
use tidegate_model::data::read_index_files;
use tidegate_model::drift::Drift;
use tidegate_model::in_place::in_place;
use tidegate_model::load::{self, Settings};
use tidegate_model::quantize::LEAST_SNR_DB;
use tidegate_tools::plot::{Curves, curves};

use super::args::{ArchArgs, Backend, EndlessArg, JsonArg, StreamArg};
use super::inputs::read_inputs;
use super::sound::{front_end_of, stream_features};
use super::{Failure, Outcome, check_outputs, check_plot};

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
    /// Input: features, or sound for a model with a front end
    #[arg(long)]
    input: Option<PathBuf>,
    /// CSV with the column `file`: clips to join into one stream
    #[arg(long)]
    index: Option<PathBuf>,
    /// Seed for order, gaps and noise of the stream
    #[arg(long, default_value_t = 0, conflicts_with = "input")]
    seed: u64,
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
    check_outputs(&[args.plot.as_ref()], &[&args.image, &args.against, what])?;
    check_plot(args.plot.as_ref())?;
    let (image, reference) = load_both(args)?;
    let (image, reference) = (image.model()?, reference.model()?);
    let inputs = match &args.index {
        Some(index) => {
            let mfcc = front_end_of(&image, &args.image)?;
            vec![stream_features(mfcc, &args.image, &read_index_files(index)?, args.seed)?]
        }
        None => read_inputs(&image, &[], &args.image, what)?,
    };
    let inputs: Vec<&[f32]> = inputs.iter().map(Vec::as_slice).collect();
    let reference = reference.with_schedule(image.schedule()).map_err(|error| Failure::of(&args.against, error))?;
    let (image_engine, reference_engine) = (args.backend.engine(&image), args.backend.engine(&reference));
    let engines = if args.endless.endless {
        [args.endless.of(image_engine), reference_engine.endless()]
    } else {
        [image_engine, reference_engine]
    };
    let drift = Drift::run(&engines[0], &engines[1], &inputs).map_err(|error| Failure::of(what, error))?;
    if drift.whole.output.values == 0 {
        let remedy = match image.schedule() {
            Schedule::Windows { frames, .. } if !args.endless.endless => {
                format!("at least {frames} steps, or --endless to run without windows")
            }
            _ => "more steps".to_owned(),
        };
        return Err(Failure::of(what, format!("ends before the model gives an output: give {remedy}")));
    }
    if let Some(file) = &args.plot {
        let title = format!("{} against {}", args.image.display(), args.against.display());
        draw(file, &title, &drift, image.front_end())?;
    }
    let Comparison { layers, states, output, steps, .. } = &drift.whole;
    if args.json.json {
        // JSON has no infinity: the ratio of equal values is null.
        let value = |of: &Difference| {
            let (error, ratio, saturation) = (of.max_abs_error, of.snr_db(), of.saturation());
            json!({ "name": of.name, "max_abs_error": error, "snr_db": ratio, "saturation": saturation })
        };
        let [layers, states] = [layers, states].map(|all| all.iter().map(value).collect::<Vec<_>>());
        let (error, ratio) = (output.max_abs_error, output.snr_db());
        let value = json!({
            "max_abs_error": error, "snr_db": ratio, "steps": steps, "layers": layers, "states": states,
        });
        writeln!(out, "{value}")?;
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

fn load_both(args: &Args) -> Result<(load::ImageBuffer, load::ImageBuffer), Failure> {
    if !load::is_image(&args.image)? {
        return Err(Failure::of(&args.image, "is not an image: pack it first, `tidegate pack MODEL -o IMAGE`"));
    }
    if load::is_image(&args.against)? {
        return Err(Failure::of(&args.against, "is an image: give the model that it was packed from"));
    }
    let image = load::image(&args.image, &Settings::default(), None)?;
    let settings = Settings { stream: args.stream.stream, ..args.arch.settings() };
    let model = load::canonical(&args.against, &settings)?.model;
    // The packer joins some nodes in `i8`.
    let model = if image.model()?.numeric() == Numeric::I8 { in_place(&model) } else { model };
    let reference = load::packed(&args.against, &model, Numeric::F32)?;
    let (image_model, reference_model) = (image.model()?, reference.model()?);
    let shape = |node: Node<'_>| (node.kind, node.input_size, node.hidden_size, node.output_size);
    let same = |(at, of): (usize, Node<'_>)| image_model.nodes().nth(at).map(shape) == Some(shape(of));
    // The packer may have added nodes that rescale a value.
    let known = common_layers(&image_model, &reference_model);
    if known.len() != reference_model.nodes().count() || !known.into_iter().zip(reference_model.nodes()).all(same) {
        let reason = format!("has other layers than {}: was it packed from another model?", args.against.display());
        return Err(Failure::of(&args.image, reason));
    }
    Ok((image, reference))
}
