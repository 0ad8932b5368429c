//! Where the ranges of integers come from: real input, or noise.

use std::fs;
use std::path::{Path, PathBuf};

use tidegate::front_end::Mfcc;
use tidegate::{Numeric, Schedule};
use tidegate_tools::canonical::Canonical;
use tidegate_tools::data::{DataError, is_audio, read_audio_at, read_index_files};
use tidegate_tools::load;
use tidegate_tools::pack::front_end_section;
use tidegate_tools::progress::bar;
use tidegate_tools::quantize::Ranges;
use tidegate_tools::runner::{clip_features, fit};

use super::run::read_inputs;
use super::{Failure, front_end_of};

/// What a model runs over to learn how far its values reach.
pub struct Calibration {
    /// Each `[steps, size]` for each input.
    pub sequences: Vec<Vec<Vec<f32>>>,
    /// What they are, for people.
    pub what: String,
}

impl Calibration {
    /// Of an index CSV, a folder of clips, or an input file.
    pub fn read(data: &Path, model: &Canonical, file: &Path) -> Result<Self, Failure> {
        let image = load::packed(file, model, Numeric::F32)?;
        let loaded = image.model()?;
        let clips = if data.is_dir() {
            Some(folder(data)?)
        } else if is_index(data) {
            Some(read_index_files(data)?)
        } else {
            None
        };
        let Some(clips) = clips else {
            let sequences = vec![read_inputs(&loaded, file, data)?];
            return Ok(Self { sequences, what: data.display().to_string() });
        };
        let what = format!("{} clips of {}", clips.len(), data.display());
        // As the front end of the image gives them: in integers.
        let section = match &model.architecture.front_end {
            Some(front_end) => {
                front_end_section(front_end, Numeric::I8x16).map_err(|error| Failure::of(file, error))?
            }
            None => Vec::new(),
        };
        let _ = front_end_of(&loaded, file)?;
        let mfcc = Mfcc::parse(&section).map_err(|error| Failure::of(file, error))?;
        Ok(Self { sequences: sounds(&mfcc, loaded.schedule(), &clips, file)?, what })
    }

    /// The ranges of a model that runs over it.
    pub fn ranges(&self, model: &Canonical, file: &Path) -> Result<Ranges, Failure> {
        let progress = bar(self.sequences.len() as u64, "calibrating");
        let sequences: Vec<Vec<&[f32]>> =
            self.sequences.iter().map(|inputs| inputs.iter().map(Vec::as_slice).collect()).collect();
        let each = sequences.iter().map(|inputs| {
            progress.advance(1);
            inputs.as_slice()
        });
        Ranges::measure(model, each).map_err(|error| Failure::of(file, error))
    }
}

/// A CSV whose header has a column `file`; other CSVs hold numbers.
fn is_index(data: &Path) -> bool {
    data.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("csv")) && read_index_files(data).is_ok()
}

/// The sounds in a folder, by name.
fn folder(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    let failed = |error| DataError::io(path, "read", error);
    let entries = fs::read_dir(path).map_err(failed)?.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    let mut clips: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).filter(|path| is_audio(path)).collect();
    if clips.is_empty() {
        return Err(Failure::of(
            path,
            "has no .wav and no .flac: give a folder of clips, an index CSV or an input file",
        ));
    }
    clips.sort();
    Ok(clips)
}

/// The features of every clip, as the model hears it by itself.
fn sounds(mfcc: &Mfcc<'_>, schedule: Schedule, clips: &[PathBuf], file: &Path) -> Result<Vec<Vec<Vec<f32>>>, Failure> {
    let progress = bar(clips.len() as u64, "reading");
    let mut sequences = Vec::with_capacity(clips.len());
    for clip in clips {
        let samples = read_audio_at(clip, mfcc.settings().sample_rate)?.samples;
        let samples = match schedule {
            Schedule::Endless => samples,
            Schedule::Windows { frames, .. } => {
                fit(mfcc, &samples, frames).map_err(|error| Failure::of(file, error))?
            }
        };
        sequences.push(vec![clip_features(mfcc, &samples).map_err(|error| Failure::of(clip, error))?]);
        progress.advance(1);
    }
    Ok(sequences)
}
