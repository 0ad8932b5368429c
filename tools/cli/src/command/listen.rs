//! `listen`: the events in a sound.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tidegate_model::backend::Engine;
use tidegate_model::canonical;
use tidegate_model::data::read_audio_at;
use tidegate_model::runner;
use tidegate_tools::plot::{EventMark, Timeline, TruthSpan, timeline};

use super::args::{JsonArg, ModelArgs, parse_schedule};
use super::sound::{front_end_of, labels_of, schedule_json, schedule_text, scheduled};
use super::{Failure, Outcome, check_outputs, check_plot, shown};

/// Detects labels in a sound: prints a line for each event, and draws a timeline
#[derive(clap::Args)]
#[command(after_help = "Example, in the folder of `tidegate demo --keep .`:
  tidegate listen gru_s.tgi --wav stream.wav --plot stream.svg")]
pub struct Args {
    #[command(flatten)]
    model: ModelArgs,
    /// Sound file (.wav, .flac), mono, 16 bits, at the sample rate of the model
    #[arg(long)]
    wav: PathBuf,
    /// SVG file to draw the waveform, posteriors and events to
    #[arg(long, value_name = "SVG")]
    plot: Option<PathBuf>,
    /// Schedule that replaces that of the model
    #[arg(long, value_name = "endless|FRAMES/EVERY", value_parser = parse_schedule)]
    schedule: Option<canonical::Schedule>,
    #[command(flatten)]
    json: JsonArg,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    check_outputs(&[args.plot.as_ref()], &[&args.model.file, &args.wav])?;
    check_plot(args.plot.as_ref())?;
    let image = args.model.load()?;
    let model = scheduled(image.model()?, args.schedule, &args.model.file)?;
    let mfcc = front_end_of(&model, &args.model.file)?;
    let audio = read_audio_at(&args.wav, mfcc.settings().sample_rate)?;
    let heard = run_stream(args.model.engine(&model)?, &args.model.file, &audio.samples)?;
    if let Some(file) = &args.plot {
        heard.plot(file, &args.wav.display().to_string(), &audio.samples, &[])?;
    }
    if args.json.json {
        let value = json!({
            "sound": shown(&args.wav), "seconds": audio.seconds(), "schedule": schedule_json(model.schedule()),
            "decisions": heard.decisions.len(), "threshold": heard.threshold, "events": heard.events_json(),
        });
        writeln!(out, "{value}")?;
        return Ok(());
    }
    let (decisions, seconds, schedule) = (heard.decisions.len(), audio.seconds(), schedule_text(model.schedule()));
    writeln!(out, "{}: {seconds:.1} s, {decisions} decisions, {schedule}", args.wav.display())?;
    if decisions == 0 {
        writeln!(out, "no decision: the sound is shorter than the first window")?;
    }
    let needed = model.detector().map_or(0, |detector| detector.mean_of() as usize);
    if (1..needed).contains(&decisions) {
        writeln!(
            out,
            "too short for an event: the detector averages {needed} decisions (for single clips: tidegate eval)"
        )?;
    }
    heard.print(out)?;
    if let Some(file) = &args.plot {
        writeln!(out, "drawn in {}", file.display())?;
    }
    Ok(())
}

/// Decisions and detected events.
pub struct Heard {
    pub labels: Vec<String>,
    pub decisions: Vec<(f32, Vec<f32>)>,
    pub events: Vec<EventMark>,
    sample_rate: u32,
    threshold: Option<f32>,
}

/// Runs a model on `samples`, from a zero state.
pub fn run_stream<'m>(engine: impl Into<Engine<'m>>, file: &Path, samples: &[i16]) -> Result<Heard, Failure> {
    let engine = engine.into();
    let model = engine.model();
    let mfcc = front_end_of(model, file)?;
    let sample_rate = mfcc.settings().sample_rate;
    let threshold = model.detector().and_then(|detector| {
        (0..detector.label_count())
            .filter_map(|label| detector.label(label))
            .map(|label| label.threshold)
            .find(|t| *t <= 1.0)
    });
    runner::check_room(runner::frame_count(mfcc, samples.len()), model.output_size())
        .map_err(|error| Failure::of(file, error))?;
    let mut heard =
        Heard { labels: labels_of(model, file)?, decisions: vec![], events: vec![], sample_rate, threshold };
    runner::listen(&engine, mfcc, [Ok::<_, tidegate::StepError>(samples)], |decision| {
        let seconds = decision.sample as f32 / sample_rate as f32;
        heard.decisions.push((seconds, decision.posteriors.to_vec()));
        if let Some(event) = decision.event {
            heard.events.push(EventMark { seconds, label: event.label, score: event.score });
        }
    })
    .map_err(|error| Failure::of(file, error))?;
    Ok(heard)
}

impl Heard {
    /// The events for programs.
    pub fn events_json(&self) -> Vec<Value> {
        let event = |event: &EventMark| json!({ "seconds": event.seconds, "label": self.labels.get(event.label), "score": event.score });
        self.events.iter().map(event).collect()
    }

    /// Prints a line for every event.
    pub fn print(&self, out: &mut dyn Write) -> Outcome {
        for event in &self.events {
            let label = self.labels.get(event.label).map_or("?", String::as_str);
            writeln!(out, "{:8.2} s  {label:<10} {:.3}", event.seconds, event.score)?;
        }
        Ok(())
    }

    /// Draws the timeline.
    pub fn plot(&self, file: &Path, title: &str, samples: &[i16], truth: &[TruthSpan<'_>]) -> Outcome {
        let drawing = Timeline {
            title,
            sample_rate: self.sample_rate,
            samples,
            decisions: &self.decisions,
            labels: &self.labels,
            threshold: self.threshold,
            events: &self.events,
            truth,
        };
        Ok(timeline(file, &drawing)?)
    }
}
