//! How good a model is: clip by clip, or as a stream.

use std::io::Write;
use std::path::{Path, PathBuf};

use tidegate::{Model, Schedule};
use tidegate_tools::canonical;
use tidegate_tools::data::{Clip, read_audio_at, read_index};
use tidegate_tools::engine::Engine;
use tidegate_tools::progress::bar;
use tidegate_tools::runner::{classify, score_stream};
use tidegate_tools::score::{ClipLen, Confusion, StreamPlan, StreamScore, best};

use super::{Failure, ModelArgs, Outcome, front_end_of, labels_of, parse_schedule, schedule_text, scheduled};

/// Scores a model on labeled clips: accuracy and confusion matrix, or with --stream the events of one long stream
///
/// The index is a CSV with the columns `file` and `label`. As a stream every clip comes once, in an order and with
/// gaps of 0.6 to 1.4 s drawn from the seed. A keyword is right when exactly one event, of its label, falls between
/// its clip's start and 0.6 s after its end.
///
/// A model of one label tells it from everything else: its index may have any other labels.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  tidegate eval assets/hello_edge/GRU_S.pb --index assets/speech_commands/index.csv
  tidegate eval gru_s.tgi --index clips.csv --stream --seed 7 --json")]
pub struct Args {
    #[command(flatten)]
    model: ModelArgs,
    /// CSV with the columns `file` and `label`
    #[arg(long)]
    index: PathBuf,
    /// Join the clips into one stream and score the events
    #[arg(long)]
    stream: bool,
    /// Order, gaps and noise of the stream
    #[arg(long, default_value_t = 0, requires = "stream")]
    seed: u64,
    /// Another schedule than the model's own, for the stream
    #[arg(long, value_name = "endless|FRAMES/EVERY", value_parser = parse_schedule, requires = "stream")]
    schedule: Option<canonical::Schedule>,
    /// One JSON value on standard output
    #[arg(long)]
    json: bool,
}

/// Most classes of a confusion matrix, which has a count for each pair.
const MOST_CLASSES: usize = 4096;
/// What is not the only label of a model.
const OTHER: &str = "_other_";

/// Labeled clips, and how a model's posteriors decide for one of the classes.
pub struct Labeled {
    pub clips: Vec<Clip>,
    /// The model's labels; of a model with one, that and all else.
    classes: Vec<String>,
    /// From this on a model of one label has heard it.
    threshold: Option<f32>,
}

impl Labeled {
    /// The clips of an index whose labels are those of the model in `file`.
    pub fn read(index: &Path, model: &Model<'_>, file: &Path) -> Result<Self, Failure> {
        let labels = labels_of(model, file)?;
        let mut clips = read_index(index)?;
        if let [label] = labels.as_slice() {
            if !clips.iter().any(|clip| clip.label == *label) {
                return Err(Failure::of(index, format!("no clip has the model's only label, {label:?}")));
            }
            clips.iter_mut().filter(|clip| clip.label != *label).for_each(|clip| clip.label = OTHER.to_owned());
        } else if let Some(clip) = clips.iter().find(|clip| !labels.contains(&clip.label)) {
            let reason = format!("label {:?} is none of the model's: {}", clip.label, labels.join(" "));
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

    /// What each model decides for a clip, as its own front end hears it: in integers or in f32.
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
        let reason = format!("has {} classes; at most {MOST_CLASSES} are told from each other", model.output_size());
        return Err(Failure::of(&args.model.file, reason));
    }
    let engine = [args.model.backend.engine(&model)];
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
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&accuracy)?)?;
    } else {
        write!(out, "{confusion}")?;
        let (correct, clips) = (accuracy.correct, accuracy.clips);
        writeln!(out, "{correct} of {clips} clips right: {:.2} %", 100.0 * accuracy.accuracy)?;
    }
    Ok(())
}

/// Hears every clip once, in the order of the plan, and scores the events.
fn stream(args: &Args, model: &Model<'_>, clips: &[Clip], out: &mut dyn Write) -> Outcome {
    let file = &args.model.file;
    let labels = labels_of(model, file)?;
    let mfcc = front_end_of(model, file)?;
    if model.detector().is_none() {
        return Err(Failure::of(file, "has no detector, so it cannot report events: pack it with --labels FILE"));
    }
    let rate = mfcc.settings().sample_rate;
    let mut sounds = Vec::with_capacity(clips.len());
    for clip in clips {
        sounds.push(read_audio_at(&clip.path, rate)?.samples);
    }
    let lengths = clips.iter().zip(&sounds);
    let lengths: Vec<_> =
        lengths.map(|(clip, sound)| ClipLen { label: clip.label.clone(), len: sound.len() }).collect();
    let plan = StreamPlan::new(&lengths, rate, args.seed);
    let engine = args.model.backend.engine(model);
    let scored = |engine: &Engine<'_>, what| {
        let progress = bar(clips.len() as u64, what);
        score_stream(engine, mfcc, &sounds, &plan, &labels, || progress.advance(1))
            .map_err(|error| Failure::of(file, error))
    };
    let score = scored(&engine, "stream")?;
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&score)?)?;
        return Ok(());
    }
    let minutes = score.seconds / 60.0;
    writeln!(out, "{}: {} clips in {minutes:.1} minutes, seed {}", file.display(), score.clips, score.seed)?;
    writeln!(out, "{:<44} {:>8} {:>8} {:>8} {:>14}", "", "right", "wrong", "missed", "false alarms/h")?;
    line(out, &schedule_text(model.schedule()), &score)?;
    if model.schedule() != Schedule::Endless {
        let beside = scored(&engine.endless(), "endless")?;
        line(out, "beside it: one endless state", &beside)?;
    }
    Ok(())
}

fn line(out: &mut dyn Write, what: &str, score: &StreamScore) -> Outcome {
    let percent = |count: usize| format!("{:.2} %", 100.0 * count as f64 / score.keywords.max(1) as f64);
    let (right, wrong, missed) = (percent(score.right), percent(score.wrong), percent(score.missed));
    writeln!(out, "{what:<44} {right:>8} {wrong:>8} {missed:>8} {:>14.1}", score.false_alarms_per_hour)?;
    Ok(())
}
