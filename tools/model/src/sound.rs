//! Sound for a model: its front end, labels and schedule, and clips joined into one stream.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tidegate::{Model, Schedule, front_end::Mfcc};

use crate::canonical;
use crate::data::{DataError, read_audio_at};
use crate::progress::Progress;
use crate::runner;
use crate::score::{ClipLen, StreamPlan};

/// The model with the given schedule, or with its own.
///
/// # Errors
/// If the schedule has too many states in turn.
pub fn scheduled<'a>(
    model: Model<'a>,
    schedule: Option<canonical::Schedule>,
    file: &Path,
) -> Result<Model<'a>, DataError> {
    let Some(schedule) = schedule.map(Schedule::from) else { return Ok(model) };
    model.with_schedule(schedule).map_err(|_| {
        let states = schedule.states();
        DataError::new(file, format!("{states} states in turn are too many: give --schedule with fewer frames"))
    })
}

/// `endless`, or `windows of 25 frames every 6, 5 states in turn`.
pub fn schedule_text(schedule: Schedule) -> String {
    match schedule {
        Schedule::Endless => "endless".to_owned(),
        Schedule::Windows { frames, every } => {
            let states = match schedule.states() {
                1 => "1 state".to_owned(),
                states => format!("{states} states in turn"),
            };
            format!("windows of {frames} frames every {every}, {states}")
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

/// The front end of the model in `file`, which must match its input.
///
/// # Errors
/// If the model has no front end, or one with another number of coefficients than the model has features.
pub fn front_end_of<'m>(model: &'m Model<'_>, file: &Path) -> Result<&'m Mfcc<'m>, DataError> {
    let Some(front_end) = model.front_end() else {
        let reason = "has no front end for sound: pack it with --front-end, or give features";
        return Err(DataError::new(file, reason));
    };
    let (gives, takes) = (front_end.settings().coefficients as usize, model.input_size());
    if gives != takes {
        let reason = format!("its front end gives {gives} coefficients, the network takes {takes} features");
        return Err(DataError::new(file, reason));
    }
    Ok(front_end)
}

/// The labels of the model in `file`, one for each class.
///
/// # Errors
/// If they are fewer or more.
pub fn labels_of(model: &Model<'_>, file: &Path) -> Result<Vec<String>, DataError> {
    let labels: Vec<String> = model.labels().map(str::to_owned).collect();
    if labels.len() != model.output_size() {
        return Err(DataError::new(file, "has no labels for its classes: pack it with --labels FILE"));
    }
    Ok(labels)
}

/// Samples of the clips at these paths with these labels, and the plan that joins them into one stream.
///
/// # Errors
/// If a clip cannot be read, or has another sample rate.
pub fn joined<'c>(
    clips: impl ExactSizeIterator<Item = (&'c PathBuf, &'c str)>,
    sample_rate: u32,
    seed: u64,
    progress: &dyn Progress,
) -> Result<(Vec<Vec<i16>>, StreamPlan), DataError> {
    let read = progress.begin("reading", Some(clips.len()));
    let (mut sounds, mut lengths) = (Vec::with_capacity(clips.len()), Vec::with_capacity(clips.len()));
    for (path, label) in clips {
        let samples = read_audio_at(path, sample_rate)?.samples;
        lengths.push(ClipLen { label: label.to_owned(), len: samples.len() });
        sounds.push(samples);
        read();
    }
    Ok((sounds, StreamPlan::new(&lengths, sample_rate, seed)))
}

/// Features of clips that are joined into one stream, for the model in `file`.
///
/// # Errors
/// As [`joined`]; also if the features are too many.
pub fn stream_features(
    mfcc: &Mfcc<'_>,
    file: &Path,
    clips: &[PathBuf],
    seed: u64,
    progress: &dyn Progress,
) -> Result<Vec<f32>, DataError> {
    let (sounds, plan) = joined(clips.iter().map(|clip| (clip, "")), mfcc.settings().sample_rate, seed, progress)?;
    runner::stream_features(mfcc, &sounds, &plan).map_err(|error| DataError::new(file, error))
}
