//! Calibration of an integer image: input data or a substitute, the ranges from it, and the accuracy of the image.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use tidegate::front_end::Mfcc;
use tidegate::{Model, Numeric, Schedule};

use crate::canonical::Canonical;
use crate::compare::Comparison;
use crate::data::{DataError, is_audio, is_index, read_audio_at, read_index_files};
use crate::inputs::{Inputs, Part, Reader};
use crate::load::{self, LoadError};
use crate::progress::Progress;
use crate::quantize::{Chosen, Goal, RangeRule, RangeRules, Ranges, RangesError, Seen, StandIn, choose};
use crate::runner::{clip_features, fit};
use crate::sound::{front_end_of, stream_features};

/// The sequences that determine the ranges of values.
#[derive(Debug)]
pub struct Calibration {
    /// For each sequence and each input, `[steps, size]`.
    sequences: Vec<Vec<Vec<f32>>>,
    /// A readable description of the data.
    pub what: String,
    /// Notes for the user about the data.
    pub notes: Vec<String>,
    /// The source of the sequences.
    data: Option<PathBuf>,
}

/// A value of `--range`: a rule for all values, or `NAME:RULE` for one value or state.
#[derive(Clone, Debug)]
pub struct RangeArg {
    name: Option<String>,
    rule: RangeRule,
}

impl FromStr for RangeArg {
    type Err = String;

    /// `mse`, or `lstm.cell_state:percentile=99.9`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, rule) = text.rsplit_once(':').map_or((None, text), |(name, rule)| (Some(name.to_owned()), rule));
        Ok(Self { name, rule: rule.parse()? })
    }
}

/// Combines the given rules.
///
/// # Errors
/// If `seen` has no value or state of a given name.
pub fn rules(given: &[RangeArg], seen: &Seen) -> Result<RangeRules, LoadError> {
    let mut rules = RangeRules::default();
    for RangeArg { name, rule } in given {
        match name {
            None => rules.usual = *rule,
            Some(name) if seen.names().any(|seen| seen == name) => {
                rules.named.insert(name.clone(), *rule);
            }
            Some(name) => {
                let names: Vec<&str> = seen.names().collect();
                let reason = format!("--range: the model has no {name:?}; it has {}", names.join(", "));
                return Err(LoadError::Option { reason });
            }
        }
    }
    Ok(rules)
}

impl Calibration {
    /// Reads an index CSV, a folder of clips, or an input file for the model in `file`.
    ///
    /// # Errors
    /// If the data cannot be read, or do not fit the model.
    pub fn read(data: &Path, model: &Canonical, file: &Path, progress: &dyn Progress) -> Result<Self, LoadError> {
        let image = load::packed(file, model, Numeric::F32)?;
        let loaded = image.model().map_err(|error| DataError::new(file, error))?;
        let clips = if data.is_dir() {
            Some(folder(data)?)
        } else if is_index(data)? {
            let has_front_end = loaded.front_end().is_some();
            Some(read_index_files(data)?).filter(|files| has_front_end && files.iter().any(|file| is_audio(file)))
        } else {
            None
        };
        let Some(clips) = clips else {
            let reader = Reader { model: &loaded, ports: &model.architecture.inputs, file };
            let inputs = reader.read(data, Part::Train)?;
            return Ok(Self { data: Some(data.to_owned()), ..Self::of(inputs, &data.display().to_string()) });
        };
        let what = format!("{} clips of {}", clips.len(), data.display());
        // The same features as in the image, whose front end computes in integers.
        let section = match &model.architecture.front_end {
            Some(front_end) => front_end.section(Numeric::I8x16, None).map_err(|error| DataError::new(file, error))?,
            None => Vec::new(),
        };
        let _ = front_end_of(&loaded, file)?;
        let mfcc = Mfcc::parse(&section).map_err(|error| DataError::new(file, error))?;
        let sequences = sounds(&mfcc, loaded.schedule(), &clips, file, progress)?;
        Ok(Self { sequences, what, notes: Vec::new(), data: Some(data.to_owned()) })
    }

    /// Takes sequences in memory; `what` describes them.
    pub fn of(inputs: Inputs, what: &str) -> Self {
        let what = match inputs.is_list {
            true => format!("{} sequences of {what}", inputs.sequences.len()),
            false => what.to_owned(),
        };
        Self { sequences: inputs.sequences, what, notes: inputs.notes, data: None }
    }

    /// Takes the substitute for calibration data that [`StandIn`] chooses for the model.
    ///
    /// # Errors
    /// If the model cannot be packed.
    pub fn stand_in(model: &Canonical, file: &Path) -> Result<Self, LoadError> {
        let sequences = StandIn::sequences(model).map_err(|error| DataError::new(file, error))?;
        Ok(Self { sequences, what: StandIn::of(model).to_string(), notes: Vec::new(), data: None })
    }

    /// Runs a model on the sequences and collects its values.
    ///
    /// # Errors
    /// If the model cannot be packed, or does not run.
    pub fn seen(&self, model: &Canonical, file: &Path, progress: &dyn Progress) -> Result<Seen, LoadError> {
        let ran = progress.begin("calibrating", Some(self.sequences.len()));
        let sequences: Vec<Vec<&[f32]>> =
            self.sequences.iter().map(|inputs| inputs.iter().map(Vec::as_slice).collect()).collect();
        let each = sequences.iter().map(|inputs| {
            ran();
            inputs.as_slice()
        });
        let failed = |error| match &self.data {
            Some(data) if matches!(error, RangesError::NeverRan { .. }) => DataError::new(data, error),
            _ => DataError::new(file, error),
        };
        Ok(Seen::measure(model, each).map_err(failed)?)
    }

    /// Improves ranges by trials on the sequences.
    ///
    /// # Errors
    /// If a trial cannot be packed or run.
    #[expect(clippy::too_many_arguments)]
    pub fn choose(
        &self,
        model: &Canonical,
        numeric: Numeric,
        ranges: Ranges,
        rules: &RangeRules,
        goal: &Goal,
        file: &Path,
        progress: &dyn Progress,
    ) -> Result<Chosen, LoadError> {
        let tried = progress.begin("trying choices", None);
        let chosen = choose(model, numeric, ranges, rules, &self.sequences, goal, &tried);
        Ok(chosen.map_err(|error| DataError::new(file, error))?)
    }

    /// Compares an image with its model in f32 on all sequences.
    ///
    /// # Errors
    /// If the sequences do not fit the model.
    pub fn compare(
        &self,
        image: &Model<'_>,
        reference: &Model<'_>,
        file: &Path,
        progress: &dyn Progress,
    ) -> Result<Comparison, LoadError> {
        let compared = progress.begin("comparing", Some(self.sequences.len()));
        let mut comparison = Comparison::new(image, reference);
        for inputs in &self.sequences {
            let inputs: Vec<&[f32]> = inputs.iter().map(Vec::as_slice).collect();
            let ran = comparison.run(image, reference, &inputs, |_| ());
            ran.map_err(|error| DataError::new(file, error))?;
            compared();
        }
        Ok(comparison)
    }
}

/// The sounds in a folder, in the order of their names.
fn folder(path: &Path) -> Result<Vec<PathBuf>, DataError> {
    let failed = |error| DataError::io(path, "read", error);
    let entries = fs::read_dir(path).map_err(failed)?.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    let mut clips: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).filter(|path| is_audio(path)).collect();
    if clips.is_empty() {
        return Err(DataError::new(
            path,
            "has no .wav and no .flac: give a folder of clips, an index CSV or an input file",
        ));
    }
    clips.sort();
    Ok(clips)
}

/// Features of every clip by itself, or of all clips as one stream if the schedule is endless.
fn sounds(
    mfcc: &Mfcc<'_>,
    schedule: Schedule,
    clips: &[PathBuf],
    file: &Path,
    progress: &dyn Progress,
) -> Result<Vec<Vec<Vec<f32>>>, DataError> {
    let Schedule::Windows { frames, .. } = schedule else {
        return Ok(vec![vec![stream_features(mfcc, file, clips, 0, progress)?]]);
    };
    let read = progress.begin("reading", Some(clips.len()));
    let mut sequences = Vec::with_capacity(clips.len());
    for clip in clips {
        let samples = read_audio_at(clip, mfcc.settings().sample_rate)?.samples;
        let samples = fit(mfcc, &samples, frames).map_err(|error| DataError::new(file, error))?;
        sequences.push(vec![clip_features(mfcc, &samples).map_err(|error| DataError::new(clip, error))?]);
        read();
    }
    Ok(sequences)
}
