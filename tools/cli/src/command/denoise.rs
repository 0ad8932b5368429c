//! `denoise`: a sound without its noise.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::json;
use tidegate::{Model, Numeric};
use tidegate_model::backend::{Engine, check_memory};
use tidegate_model::budget::TooCostly;
use tidegate_model::canonical::Canonical;
use tidegate_model::compare::Comparison;
use tidegate_model::data::{Audio, prepare_wav, read_audio_at};
use tidegate_model::denoise::{HopError, Recipe, denoise, inputs, integers, sound};
use tidegate_model::load::{self, ImageBuffer, Settings};
use tidegate_model::quantize::is_poor;
use tidegate_tools::plot::{Noise, noise};
use tidegate_tools::progress::bar;

use super::args::{Backend, JsonArg, numeric};
use super::{Failure, Outcome, check_outputs, check_plot, say, shown};

/// Longest part of a sound that calibrates integers, in seconds.
const CALIBRATED: usize = 30;

/// Suppresses the noise of a sound, frame by frame as on a device
#[derive(clap::Args)]
#[command(after_help = "Recipes:
  dtln MODEL_1 MODEL_2    DTLN, 16 kHz; the result is 384 samples late, as on a device
  gtcrn MODEL             GTCRN, 16 kHz
  rnnoise MODEL           RNNoise 0.1, 48 kHz

Example, in the folder of `tidegate demo --keep .`:
  tidegate denoise noisy.wav clean.wav --recipe rnnoise weights.rnn --plot clean.svg")]
pub struct Args {
    /// Sound to read (.wav, .flac), mono, 16 bits, at the sample rate of the recipe
    input: PathBuf,
    /// Sound to write (.wav)
    output: PathBuf,
    /// Recipe, and the model of each of its networks: a flash image, or any model that `import` reads. This option follows
    /// the two sounds
    #[arg(long, required = true, num_args = 2..=3, value_names = ["NAME", "MODEL", "MODEL"])]
    recipe: Vec<PathBuf>,
    /// Numeric of models that are not images [default: f32, or i8 for an integer model]
    #[arg(long, value_parser = numeric())]
    numeric: Option<Numeric>,
    /// Sound for the ranges of integers [default: the first 30 seconds of the input]
    #[arg(long, value_name = "SOUND")]
    calibrate: Option<PathBuf>,
    /// SVG file to draw both sounds and the gain to
    #[arg(long, value_name = "SVG")]
    plot: Option<PathBuf>,
    /// Backend that runs the networks
    #[arg(long, value_enum, default_value_t)]
    backend: Backend,
    #[command(flatten)]
    json: JsonArg,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let (recipe, models) = args.recipe()?;
    let read = [&args.input].into_iter().chain(&args.calibrate).chain(models).map(PathBuf::as_path);
    check_outputs(&[Some(&args.output), args.plot.as_ref()], &read.collect::<Vec<_>>())?;
    check_plot(args.plot.as_ref())?;
    let facts = recipe.facts();
    let noisy = read_audio_at(&args.input, facts.sample_rate)?;
    let images = args.images(recipe, models, &noisy)?;
    let clean = args.run(recipe, models, &images, &noisy, "denoising", |engines, blocks| {
        denoise(recipe, engines, blocks, |_, _, _| ())
    })?;
    let clean = sound(&clean, recipe);
    // No file appears before all are written.
    let written = prepare_wav(&args.output, &clean)?;
    if let Some(file) = &args.plot {
        let title = format!("{} without noise: {}", args.input.display(), facts.name);
        let drawing = Noise {
            title: &title,
            sample_rate: facts.sample_rate,
            noisy: &noisy.samples,
            clean: &clean.samples,
            late: facts.late,
            hop: facts.hop,
        };
        noise(file, &drawing)?;
    }
    written.keep()?;
    let mut numerics: Vec<&str> =
        images.iter().map(|image| Ok(image.model()?.numeric().name())).collect::<Result<_, Failure>>()?;
    if args.json.json {
        let value = json!({
            "input": shown(&args.input), "output": shown(&args.output), "recipe": facts.name, "seconds": noisy.seconds(),
            "numerics": numerics, "late_samples": facts.late,
        });
        writeln!(out, "{value}")?;
        return Ok(());
    }
    numerics.dedup();
    let (input, output, seconds) = (args.input.display(), args.output.display(), noisy.seconds());
    writeln!(out, "{input} -> {output}: {seconds:.1} s, {} in {}", facts.name, numerics.join(" and "))?;
    if facts.late > 0 {
        writeln!(out, "the result is {} samples late, as on a device", facts.late)?;
    }
    if let Some(file) = &args.plot {
        writeln!(out, "drawn in {}", file.display())?;
    }
    Ok(())
}

/// Warns if the output of an image in integers is far from that of floats, over the values that calibrated it.
fn warn_of_loss(file: &Path, image: &Model<'_>, floats: &Model<'_>, input: &[f32]) -> Outcome {
    let mut comparison = Comparison::new(image, floats);
    comparison
        .run(Engine::fastest(image), Engine::fastest(floats), &[input], |_| ())
        .map_err(|error| Failure::of(file, error))?;
    if is_poor(&comparison.output) {
        let (file, numeric, ratio) = (file.display(), image.numeric().name(), comparison.output.ratio());
        say(&format!("warning: {file}: its output in {numeric} is {ratio} from that in f32: give another --numeric"));
    }
    Ok(())
}

impl Args {
    /// The recipe and the files of its networks.
    fn recipe(&self) -> Result<(Recipe, &[PathBuf]), Failure> {
        let (name, models) = self.recipe.split_first().ok_or_else(|| Failure::new("--recipe: give a name"))?;
        let Some(recipe) = name.to_str().and_then(Recipe::named) else {
            let known = Recipe::ALL.map(|recipe| recipe.facts().name).join(", ");
            return Err(Failure::new(format!("--recipe: {} is not known; known: {known}", name.display())));
        };
        let (needed, given) = (recipe.facts().networks.len(), models.len());
        if needed != given {
            let (name, models) = (recipe.facts().name, if needed == 1 { "model" } else { "models" });
            return Err(Failure::new(format!(
                "--recipe: {name} needs {needed} {models} after its name, and has {given}"
            )));
        }
        Ok((recipe, models))
    }

    /// The images of the models, in the numeric that is asked for.
    fn images(&self, recipe: Recipe, models: &[PathBuf], noisy: &Audio) -> Result<Vec<ImageBuffer>, Failure> {
        let needs_ranges = self.numeric.is_some_and(Numeric::needs_ranges);
        let first = if needs_ranges { None } else { self.numeric };
        let mut images = Vec::new();
        let mut to_pack: Vec<Option<Canonical>> = Vec::new();
        for (network, file) in models.iter().enumerate() {
            let is_image = load::is_image(file)?;
            let numeric = if is_image { self.numeric } else { first };
            let image = load::image(file, &Settings::default(), numeric)?;
            recipe.check(network, &image.model()?).map_err(|reason| Failure::of(file, reason))?;
            images.push(image);
            let model = match needs_ranges && !is_image {
                true => Some(load::canonical(file, &Settings::default())?.model),
                false => None,
            };
            to_pack.push(model);
        }
        let (Some(numeric), true) = (self.numeric, to_pack.iter().any(Option::is_some)) else {
            if let Some(file) = &self.calibrate {
                return Err(Failure::of(
                    file,
                    "--calibrate is for --numeric i8x16 or i4x16 and models that are not images",
                ));
            }
            return Ok(images);
        };
        let given = self.calibrate.as_ref().map(|file| read_audio_at(file, recipe.facts().sample_rate)).transpose()?;
        if given.is_none() {
            let input = self.input.display();
            say(&format!("note: {input}: calibrates the integers too; --calibrate takes another sound"));
        }
        let mut sound = given.unwrap_or_else(|| noisy.clone());
        sound.samples.truncate(CALIBRATED * recipe.facts().sample_rate as usize);
        let seen = self
            .run(recipe, models, &images, &sound, "calibrating", |engines, blocks| inputs(recipe, engines, blocks))?;
        for (network, (model, input)) in to_pack.iter().zip(seen).enumerate() {
            if let Some(model) = model {
                let (file, floats) = (&models[network], &images[network]);
                let image = integers(file, model, numeric, &input)?;
                warn_of_loss(file, &image.model()?, &floats.model()?, &input)?;
                images[network] = image;
            }
        }
        Ok(images)
    }

    /// Runs the networks over a sound, hop by hop.
    fn run<'s, T>(
        &self,
        recipe: Recipe,
        models: &[PathBuf],
        images: &[ImageBuffer],
        sound: &'s Audio,
        what: &str,
        work: impl FnOnce(&[Engine<'_>], &mut dyn Iterator<Item = &'s [i16]>) -> Result<T, HopError>,
    ) -> Result<T, Failure> {
        let mut engines = Vec::new();
        let parsed = images.iter().map(ImageBuffer::model).collect::<Result<Vec<_>, _>>()?;
        for (model, file) in parsed.iter().zip(models) {
            check_memory(model).map_err(|error| Failure::of(file, format!("{error}; {}", TooCostly::ADVICE)))?;
            engines.push(self.backend.engine(model));
        }
        let hop = recipe.facts().hop;
        let progress = bar(sound.samples.len().div_ceil(hop) as u64, what);
        let mut blocks = sound.samples.chunks(hop).inspect(|_| progress.advance(1));
        let file = |error: &HopError| models.get(error.network()).map_or(Path::new("model"), PathBuf::as_path);
        work(&engines, &mut blocks).map_err(|error| Failure::of(file(&error), &error))
    }
}
