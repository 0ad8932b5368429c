//! `listen`: the events in a sound.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::json;
use tidegate_model::canonical;
use tidegate_model::data::read_audio_at;
use tidegate_model::heard::{Heard, HeardEvent, hear};
use tidegate_tools::plot::{EventMark, Timeline, TruthSpan, timeline};

use super::args::{JsonArg, ModelArgs};
use super::{Outcome, check_outputs, check_plot, shown};
use tidegate_model::sound::{front_end_of, schedule_json, schedule_text, scheduled};

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
    #[arg(long, value_name = "endless|FRAMES/EVERY")]
    schedule: Option<canonical::Schedule>,
    #[command(flatten)]
    json: JsonArg,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let read: Vec<&Path> = args.model.files().chain([args.wav.as_path()]).collect();
    check_outputs(&[args.plot.as_ref()], &read)?;
    check_plot(args.plot.as_ref())?;
    let image = args.model.load()?;
    let model = scheduled(image.model()?, args.schedule, &args.model.file)?;
    let mfcc = front_end_of(&model, &args.model.file)?;
    let audio = read_audio_at(&args.wav, mfcc.settings().sample_rate)?;
    let heard = hear(args.model.engine(&model)?, &args.model.file, &audio.samples)?;
    if let Some(file) = &args.plot {
        draw(&heard, file, &args.wav.display().to_string(), &audio.samples, &[])?;
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
    print(&heard, out)?;
    if let Some(file) = &args.plot {
        writeln!(out, "drawn in {}", file.display())?;
    }
    Ok(())
}

/// Prints a line for every event.
pub fn print(heard: &Heard, out: &mut dyn Write) -> Outcome {
    for event in &heard.events {
        let label = heard.labels.get(event.label).map_or("?", String::as_str);
        writeln!(out, "{:8.2} s  {label:<10} {:.3}", event.seconds, event.score)?;
    }
    Ok(())
}

/// Draws the timeline.
pub fn draw(heard: &Heard, file: &Path, title: &str, samples: &[i16], truth: &[TruthSpan<'_>]) -> Outcome {
    let mark = |event: &HeardEvent| EventMark { seconds: event.seconds, label: event.label, score: event.score };
    let events: Vec<EventMark> = heard.events.iter().map(mark).collect();
    let drawing = Timeline {
        title,
        sample_rate: heard.sample_rate,
        samples,
        decisions: &heard.decisions,
        labels: &heard.labels,
        threshold: heard.threshold,
        events: &events,
        truth,
    };
    Ok(timeline(file, &drawing)?)
}
