//! An image against the model that it was packed from.

use std::io::Write;
use std::path::PathBuf;

use serde_json::json;
use tidegate::node::Node;
use tidegate::{Model, Numeric};
use tidegate_tools::load::{self, Settings};
use tidegate_tools::runner::{self, Sequence};

use super::run::read_inputs;
use super::{ArchArgs, Backend, Failure, Outcome};

/// Compares an image with the model that it was packed from, layer by layer, on an input
///
/// Both run the same sequence from a zero state; the model in f32. Reports the worst error and the signal-to-noise
/// ratio of every layer and of the output.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  tidegate verify gru_s_f16.tgi --against assets/hello_edge/GRU_S.pb --input assets/speech_commands/yes/022cd682_nohash_0.flac
  tidegate verify keywords.tgi --against keywords.ckpt --arch arch.json --input features.npy")]
pub struct Args {
    /// The packed image
    image: PathBuf,
    /// The model that it was packed from, canonical or foreign
    #[arg(long, value_name = "MODEL")]
    against: PathBuf,
    #[command(flatten)]
    arch: ArchArgs,
    /// What goes in: features or, with a front end, a sound
    #[arg(long)]
    input: PathBuf,
    /// What computes
    #[arg(long, value_enum, default_value_t)]
    backend: Backend,
    /// One JSON value on standard output
    #[arg(long)]
    json: bool,
}

/// How far one is from the other.
pub struct Difference {
    pub name: String,
    pub max_abs_error: f64,
    /// Infinite where both are equal.
    pub snr_db: f64,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let Backend::Scalar = args.backend;
    let (image, reference) = load_both(args)?;
    let (image, reference) = (image.model()?, reference.model()?);
    let inputs = read_inputs(&image, &args.image, &args.input)?;
    let inputs: Vec<&[f32]> = inputs.iter().map(Vec::as_slice).collect();
    let (output, layers) = compare(&image, &reference, &inputs).map_err(|error| Failure::of(&args.input, error))?;
    if args.json {
        // JSON has no infinity: an equal layer has the ratio null.
        let layers: Vec<_> = layers
            .iter()
            .map(|layer| json!({ "name": layer.name, "max_abs_error": layer.max_abs_error, "snr_db": layer.snr_db }))
            .collect();
        let value = json!({ "max_abs_error": output.max_abs_error, "snr_db": output.snr_db, "layers": layers });
        writeln!(out, "{value}")?;
        return Ok(());
    }
    for difference in layers.iter().chain([&output]) {
        writeln!(out, "{}", difference.text())?;
    }
    Ok(())
}

impl Difference {
    /// A line for people.
    pub fn text(&self) -> String {
        let ratio = if self.snr_db.is_finite() { format!("{:.1} dB", self.snr_db) } else { "equal".to_owned() };
        format!("{:<12} worst error {:.3e}  {ratio}", self.name, self.max_abs_error)
    }
}

fn load_both(args: &Args) -> Result<(load::ImageBuffer, load::ImageBuffer), Failure> {
    if !load::is_image(&args.image)? {
        return Err(Failure::of(&args.image, "is not an image: pack it first, `tidegate pack MODEL -o IMAGE`"));
    }
    if load::is_image(&args.against)? {
        return Err(Failure::of(&args.against, "is an image: give the model that it was packed from"));
    }
    let image = load::image(&args.image, &Settings::default(), None)?;
    let reference = load::image(&args.against, &args.arch.settings(), Some(Numeric::F32))?;
    let (image_model, reference_model) = (image.model()?, reference.model()?);
    let shape = |node: Node<'_>| (node.kind, node.input_size, node.hidden_size, node.output_size);
    let same = |(at, of): (usize, Node<'_>)| image_model.nodes().nth(at).map(shape) == Some(shape(of));
    // The packer may have added nodes that bring a value to another scale.
    let known = common_layers(&image_model, &reference_model);
    if known.len() != reference_model.nodes().count() || !known.into_iter().zip(reference_model.nodes()).all(same) {
        let reason = format!("has other layers than {}: was it packed from another model?", args.against.display());
        return Err(Failure::of(&args.image, reason));
    }
    Ok((image, reference))
}

/// Runs both over `inputs`; gives the difference of the outputs, and of each layer.
pub fn compare(
    image: &Model<'_>,
    reference: &Model<'_>,
    inputs: &[&[f32]],
) -> Result<(Difference, Vec<Difference>), runner::RunError> {
    let (got, expected) = (runner::run(image, inputs, None)?, runner::run(reference, inputs, None)?);
    let layers = common_layers(image, reference).into_iter().zip(reference.node_names()).zip(&expected.layers);
    let layers = layers.map(|((at, name), expected)| difference(name, &got.layers[at], expected)).collect();
    let all = |sequence: &Sequence| sequence.outputs.concat();
    Ok((difference("output", &all(&got), &all(&expected)), layers))
}

/// Where the layers of the reference are in the image, in order, up to the first that is not.
fn common_layers(image: &Model<'_>, reference: &Model<'_>) -> Vec<usize> {
    let mut names = image.node_names().enumerate();
    reference.node_names().map_while(|name| names.find(|(_, other)| *other == name).map(|(at, _)| at)).collect()
}

fn difference(name: &str, got: &[f32], expected: &[f32]) -> Difference {
    let (mut worst, mut signal, mut noise) = (0.0_f64, 0.0, 0.0);
    for (&got, &expected) in got.iter().zip(expected) {
        let error = f64::from(got) - f64::from(expected);
        // A value that is not a number is infinitely far off.
        worst = worst.max(if error.is_nan() { f64::INFINITY } else { error.abs() });
        signal += f64::from(expected).powi(2);
        noise += error * error;
    }
    Difference { name: name.to_owned(), max_abs_error: worst, snr_db: 10.0 * (signal / noise).log10() }
}
