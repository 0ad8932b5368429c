//! `eval`: accuracy on single clips, or on a stream of clips.

use std::io::Write;
use std::path::PathBuf;

use tidegate::{Model, Schedule};
use tidegate_model::backend::Engine;
use tidegate_model::canonical;
use tidegate_model::labeled::Labeled;
use tidegate_model::runner::score_stream;
use tidegate_model::score::{Confusion, StreamScore};
use tidegate_model::sound::{front_end_of, joined, labels_of, schedule_text, scheduled};
use tidegate_tools::progress::{Bars, bar};

use super::args::{JsonArg, ModelArgs};
use super::{Failure, Outcome};

/// Measures the accuracy of a model on labeled clips or sequences, one by one or as one stream
///
/// The index is a CSV with the columns `file` and `label`, whose files are sounds or sequences of features (.npy, .csv).
/// Other data hold sequences with their classes: x [n, steps, features], y [n] and lengths [n] in .npz or .safetensors,
/// or a .ts file. A sequence is right if the last output of a run over it is.
///
/// Without --stream, prints accuracy and confusion matrix. With --stream, the stream has every clip once, in a random order with gaps of 0.6 to 1.4 s. A keyword counts as right if
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
    /// CSV with the columns `file` and `label`, or sequences with classes (.npz, .safetensors, .ts)
    #[arg(long, value_name = "DATA")]
    index: PathBuf,
    /// Join the clips into one stream and score its events
    #[arg(long)]
    stream: bool,
    /// Seed for order, gaps and noise of the stream
    #[arg(long, default_value_t = 0, requires = "stream")]
    seed: u64,
    /// Schedule that replaces that of the model, for the stream
    #[arg(long, value_name = "endless|FRAMES/EVERY", requires = "stream")]
    schedule: Option<canonical::Schedule>,
    #[command(flatten)]
    json: JsonArg,
}

/// Maximum number of classes, because a confusion matrix has a count for each pair.
const MOST_CLASSES: usize = 4096;

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let image = args.model.load()?;
    let model = scheduled(image.model()?, args.schedule, &args.model.file)?;
    let labeled = Labeled::read(&args.index, &model, &args.model.file)?;
    if args.stream { stream(args, &model, &labeled, out) } else { one_by_one(args, model, &labeled, out) }
}

fn one_by_one(args: &Args, model: Model<'_>, labeled: &Labeled, out: &mut dyn Write) -> Outcome {
    if model.output_size() > MOST_CLASSES {
        let reason = format!("has {} classes, but a confusion matrix has at most {MOST_CLASSES}", model.output_size());
        return Err(Failure::of(&args.model.file, reason));
    }
    let engine = [args.model.engine(&model)?];
    let mut confusion = Confusion::new(&labeled.classes);
    let progress = bar(labeled.examples.len() as u64, "clips");
    for example in &labeled.examples {
        for decision in labeled.decide(example, &engine, &args.model.file)? {
            confusion.add(example.truth, decision);
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
fn stream(args: &Args, model: &Model<'_>, labeled: &Labeled, out: &mut dyn Write) -> Outcome {
    let (file, clips) = (&args.model.file, labeled.clips()?);
    let labels = labels_of(model, file)?;
    let mfcc = front_end_of(model, file)?;
    if model.detector().is_none() {
        return Err(Failure::of(file, "has no detector, so it cannot report events: pack it with --labels FILE"));
    }
    let rate = mfcc.settings().sample_rate;
    let (sounds, plan) = joined(clips.iter().copied(), rate, args.seed, &Bars)?;
    let engine = args.model.engine(model)?;
    let scored = |engine: &Engine<'_>, what| {
        let progress = bar(clips.len() as u64, what);
        score_stream(engine, mfcc, &sounds, &plan, &labels, &|| progress.advance(1))
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
