//! `eval`: accuracy on single clips, or on a stream of clips.

use std::io::Write;
use std::path::{Path, PathBuf};

use tidegate::{Model, Schedule};
use tidegate_model::backend::Engine;
use tidegate_model::canonical;
use tidegate_model::data::{Clip, read_audio_at, read_index};
use tidegate_model::runner::{classify, score_stream};
use tidegate_model::score::{Confusion, StreamScore, best};
use tidegate_tools::progress::bar;

use super::args::{JsonArg, ModelArgs, parse_schedule};
use super::sound::{front_end_of, joined, labels_of, schedule_text, scheduled};
use super::{Failure, Outcome};

/// Measures the accuracy of a model on labeled clips, one by one or as one stream
///
/// The index is a CSV with the columns `file` and `label`. Without --stream, prints accuracy and confusion matrix. With
/// --stream, the stream has every clip once, in a random order with gaps of 0.6 to 1.4 s. A keyword counts as right if
/// exactly one event occurs between the start of its clip and 0.6 s after the end, and the event has its label.
///
/// For a model with a single label, all other labels of the index count as one other class.
#[derive(clap::Args)]
#[command(after_help = "Examples, in the folder of `tidegate demo --keep .`:
  tidegate eval gru_s.tgi --index speech_commands/index.csv
  tidegate eval GRU_S.pb --index speech_commands/index.csv --stream --seed 7 --json")]
pub struct Args {
    #[command(flatten)]
    model: ModelArgs,
    /// CSV with the columns `file` and `label`
    #[arg(long)]
    index: PathBuf,
    /// Join the clips into one stream and score its events
    #[arg(long)]
    stream: bool,
    /// Seed for order, gaps and noise of the stream
    #[arg(long, default_value_t = 0, requires = "stream")]
    seed: u64,
    /// Schedule that replaces that of the model, for the stream
    #[arg(long, value_name = "endless|FRAMES/EVERY", value_parser = parse_schedule, requires = "stream")]
    schedule: Option<canonical::Schedule>,
    #[command(flatten)]
    json: JsonArg,
}

/// Maximum number of classes, because a confusion matrix has a count for each pair.
const MOST_CLASSES: usize = 4096;
/// The class of all clips that do not have the only label of a model.
const OTHER: &str = "_other_";

/// Labeled clips, and the rule that maps posteriors to a class.
pub struct Labeled {
    pub clips: Vec<Clip>,
    /// The labels of the model. For a single label, that label and [`OTHER`].
    classes: Vec<String>,
    /// For a single label, the minimum posterior.
    threshold: Option<f32>,
}

impl Labeled {
    /// Reads the clips of an index, whose labels must be those of the model in `file`.
    pub fn read(index: &Path, model: &Model<'_>, file: &Path) -> Result<Self, Failure> {
        let labels = labels_of(model, file)?;
        let mut clips = read_index(index)?;
        if let [label] = labels.as_slice() {
            if !clips.iter().any(|clip| clip.label == *label) {
                return Err(Failure::of(index, format!("no clip has the model's only label, {label:?}")));
            }
            clips.iter_mut().filter(|clip| clip.label != *label).for_each(|clip| clip.label = OTHER.to_owned());
        } else if let Some(clip) = clips.iter().find(|clip| !labels.contains(&clip.label)) {
            let reason = format!("label {:?} is not one of the model's: {}", clip.label, labels.join(" "));
            return Err(Failure::of(index, reason));
        }
        let only = (labels.len() == 1).then(|| model.detector().and_then(|detector| detector.label(0)));
        let threshold = only.map(|detected| detected.map_or(0.5, |label| label.threshold));
        let classes = labels.into_iter().chain(threshold.map(|_| OTHER.to_owned())).collect();
        Ok(Self { clips, classes, threshold })
    }

    /// The class of a clip.
    pub fn truth(&self, clip: &Clip) -> usize {
        self.classes.iter().position(|label| *label == clip.label).unwrap_or(0)
    }

    /// The decision of each model for a clip. Each model uses its own front end, in integers or in f32.
    pub fn decide(&self, clip: &Clip, engines: &[Engine<'_>], file: &Path) -> Result<Vec<usize>, Failure> {
        let Some(first) = engines.first() else { return Ok(Vec::new()) };
        let audio = read_audio_at(&clip.path, front_end_of(first.model(), file)?.settings().sample_rate)?;
        let decide = |engine: &Engine<'_>| {
            let mfcc = front_end_of(engine.model(), file)?;
            let posteriors = classify(engine, mfcc, &audio.samples).map_err(|error| Failure::of(file, error))?;
            if posteriors.is_empty() {
                return Err(Failure::of(&clip.path, "is shorter than one frame: leave it out of the index"));
            }
            Ok(self.threshold.map_or_else(|| best(&posteriors), |least| usize::from(posteriors[0] < least)))
        };
        engines.iter().map(decide).collect()
    }
}

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let image = args.model.load()?;
    let model = scheduled(image.model()?, args.schedule, &args.model.file)?;
    let labeled = Labeled::read(&args.index, &model, &args.model.file)?;
    if args.stream { stream(args, &model, &labeled.clips, out) } else { clip_by_clip(args, model, &labeled, out) }
}

fn clip_by_clip(args: &Args, model: Model<'_>, labeled: &Labeled, out: &mut dyn Write) -> Outcome {
    front_end_of(&model, &args.model.file)?;
    if model.output_size() > MOST_CLASSES {
        let reason = format!("has {} classes, but a confusion matrix has at most {MOST_CLASSES}", model.output_size());
        return Err(Failure::of(&args.model.file, reason));
    }
    let engine = [args.model.engine(&model)?];
    let mut confusion = Confusion::new(&labeled.classes);
    let progress = bar(labeled.clips.len() as u64, "clips");
    for clip in &labeled.clips {
        for decision in labeled.decide(clip, &engine, &args.model.file)? {
            confusion.add(labeled.truth(clip), decision);
        }
        progress.advance(1);
    }
    drop(progress);
    let accuracy = confusion.accuracy();
    if args.json.json {
        writeln!(out, "{}", serde_json::to_string(&accuracy)?)?;
    } else {
        write!(out, "{confusion}")?;
        let (correct, clips) = (accuracy.correct, accuracy.clips);
        writeln!(out, "{correct} of {clips} clips right: {:.2} %", 100.0 * accuracy.accuracy)?;
    }
    Ok(())
}

/// Joins the clips into one stream and scores its events.
fn stream(args: &Args, model: &Model<'_>, clips: &[Clip], out: &mut dyn Write) -> Outcome {
    let file = &args.model.file;
    let labels = labels_of(model, file)?;
    let mfcc = front_end_of(model, file)?;
    if model.detector().is_none() {
        return Err(Failure::of(file, "has no detector, so it cannot report events: pack it with --labels FILE"));
    }
    let rate = mfcc.settings().sample_rate;
    let (sounds, plan) = joined(clips.iter().map(|clip| (&clip.path, clip.label.as_str())), rate, args.seed)?;
    let engine = args.model.engine(model)?;
    let scored = |engine: &Engine<'_>, what| {
        let progress = bar(clips.len() as u64, what);
        score_stream(engine, mfcc, &sounds, &plan, &labels, || progress.advance(1))
            .map_err(|error| Failure::of(file, error))
    };
    let score = scored(&engine, "stream")?;
    if args.json.json {
        writeln!(out, "{}", serde_json::to_string(&score)?)?;
        return Ok(());
    }
    let minutes = score.seconds / 60.0;
    writeln!(out, "{}: {} clips in {minutes:.1} minutes, seed {}", file.display(), score.clips, score.seed)?;
    writeln!(out, "{:<44} {:>8} {:>8} {:>8} {:>14}", "", "right", "wrong", "missed", "false alarms/h")?;
    line(out, &schedule_text(model.schedule()), &score)?;
    if model.schedule() != Schedule::Endless {
        let beside = scored(&engine.endless(), "endless")?;
        line(out, "for comparison: one endless state", &beside)?;
    }
    Ok(())
}

fn line(out: &mut dyn Write, what: &str, score: &StreamScore) -> Outcome {
    let percent = |count: usize| format!("{:.2} %", 100.0 * count as f64 / score.keywords.max(1) as f64);
    let (right, wrong, missed) = (percent(score.right), percent(score.wrong), percent(score.missed));
    writeln!(out, "{what:<44} {right:>8} {wrong:>8} {missed:>8} {:>14.1}", score.false_alarms_per_hour)?;
    Ok(())
}
