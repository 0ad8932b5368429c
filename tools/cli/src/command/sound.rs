//! Helpers of the commands that process sound: the front end, labels and schedule of a model, and clips joined into one
//! stream.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tidegate::{Model, Schedule, front_end::Mfcc};
use tidegate_model::canonical;
use tidegate_model::data::read_audio_at;
use tidegate_model::runner;
use tidegate_model::score::{ClipLen, StreamPlan};
use tidegate_tools::progress::bar;

use super::Failure;

/// The model with the schedule given on the command line, or with its own.
pub fn scheduled<'a>(
    model: Model<'a>,
    schedule: Option<canonical::Schedule>,
    file: &Path,
) -> Result<Model<'a>, Failure> {
    let Some(schedule) = schedule.map(Schedule::from) else { return Ok(model) };
    model.with_schedule(schedule).map_err(|_| {
        let states = schedule.states();
        Failure::of(file, format!("{states} states in turn are too many: give --schedule with fewer frames"))
    })
}

/// `endless`, or `windows of 25 frames every 6, 5 states in turn`.
pub fn schedule_text(schedule: Schedule) -> String {
    match schedule {
        Schedule::Endless => "endless".to_owned(),
        Schedule::Windows { frames, every } => {
            format!("windows of {frames} frames every {every}, {} states in turn", schedule.states())
        }
    }
}

/// A schedule for programs: `"endless"`, or `{"windows": {"frames": 25, "every": 6}}`.
pub fn schedule_json(schedule: Schedule) -> Value {
    match schedule {
        Schedule::Endless => json!("endless"),
        Schedule::Windows { frames, every } => json!({ "windows": { "frames": frames, "every": every } }),
    }
}

/// The front end of a model, which must match its input.
pub fn front_end_of<'m>(model: &'m Model<'_>, file: &Path) -> Result<&'m Mfcc<'m>, Failure> {
    let Some(front_end) = model.front_end() else {
        let reason = "has no front end for sound: pack it with --front-end, or give features";
        return Err(Failure::of(file, reason));
    };
    let (gives, takes) = (front_end.settings().coefficients as usize, model.input_size());
    if gives != takes {
        let reason = format!("its front end gives {gives} coefficients, the network takes {takes} features");
        return Err(Failure::of(file, reason));
    }
    Ok(front_end)
}

/// The labels of a model, one for each class.
pub fn labels_of(model: &Model<'_>, file: &Path) -> Result<Vec<String>, Failure> {
    let labels: Vec<String> = model.labels().map(str::to_owned).collect();
    if labels.len() != model.output_size() {
        return Err(Failure::of(file, "has no labels for its classes: pack it with --labels FILE"));
    }
    Ok(labels)
}

/// Samples of the clips at these paths with these labels, and the plan that joins them into one stream.
pub fn joined<'c>(
    clips: impl ExactSizeIterator<Item = (&'c PathBuf, &'c str)>,
    sample_rate: u32,
    seed: u64,
) -> Result<(Vec<Vec<i16>>, StreamPlan), Failure> {
    let progress = bar(clips.len() as u64, "reading");
    let (mut sounds, mut lengths) = (Vec::with_capacity(clips.len()), Vec::with_capacity(clips.len()));
    for (path, label) in clips {
        let samples = read_audio_at(path, sample_rate)?.samples;
        lengths.push(ClipLen { label: label.to_owned(), len: samples.len() });
        sounds.push(samples);
        progress.advance(1);
    }
    Ok((sounds, StreamPlan::new(&lengths, sample_rate, seed)))
}

/// Features of clips that are joined into one stream.
pub fn stream_features(mfcc: &Mfcc<'_>, file: &Path, clips: &[PathBuf], seed: u64) -> Result<Vec<f32>, Failure> {
    let (sounds, plan) = joined(clips.iter().map(|clip| (clip, "")), mfcc.settings().sample_rate, seed)?;
    runner::stream_features(mfcc, &sounds, &plan).map_err(|error| Failure::of(file, error))
}
