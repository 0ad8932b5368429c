//! Calibration of an integer image: input data or a substitute, the ranges from it, and the accuracy of the image.

use std::fs;
use std::path::{Path, PathBuf};

use tidegate::front_end::Mfcc;
use tidegate::{Model, Numeric, Schedule};
use tidegate_model::backend::Engine;
use tidegate_model::canonical::Canonical;
use tidegate_model::compare::Comparison;
use tidegate_model::data::{DataError, is_audio, read_audio_at, read_index_files};
use tidegate_model::load;
use tidegate_model::quantize::{Decisions, Goal, RangeRule, RangeRules, Ranges, RangesError, Seen, StandIn, choose};
use tidegate_model::runner::{clip_features, fit};
use tidegate_tools::progress::{bar, counter};

use super::Failure;
use super::eval::Labeled;
use super::inputs::read_inputs;
use super::sound::{front_end_of, stream_features};

/// The sequences that determine the ranges of values.
pub struct Calibration {
    /// For each sequence and each input, `[steps, size]`.
    sequences: Vec<Vec<Vec<f32>>>,
    /// A readable description of the data.
    pub what: String,
    /// The source of the sequences.
    data: Option<PathBuf>,
}

/// A value of `--range`: a rule for all values, or `NAME:RULE` for one value or state.
#[derive(Clone, Debug)]
pub struct RangeArg {
    name: Option<String>,
    rule: RangeRule,
}

/// `mse`, or `lstm.cell_state:percentile=99.9`.
pub fn parse_range(text: &str) -> Result<RangeArg, String> {
    let (name, rule) = text.rsplit_once(':').map_or((None, text), |(name, rule)| (Some(name.to_owned()), rule));
    Ok(RangeArg { name, rule: rule.parse()? })
}

/// Combines the given rules. Each name must be that of a value in `seen`.
pub fn rules(given: &[RangeArg], seen: &Seen) -> Result<RangeRules, Failure> {
    let mut rules = RangeRules::default();
    for RangeArg { name, rule } in given {
        match name {
            None => rules.usual = *rule,
            Some(name) if seen.names().any(|seen| seen == name) => {
                rules.named.insert(name.clone(), *rule);
            }
            Some(name) => {
                let names: Vec<&str> = seen.names().collect();
                return Err(Failure::new(format!("--range: the model has no {name:?}; it has {}", names.join(", "))));
            }
        }
    }
    Ok(rules)
}

impl Calibration {
    /// Reads an index CSV, a folder of clips, or an input file.
    pub fn read(data: &Path, model: &Canonical, file: &Path) -> Result<Self, Failure> {
        let image = load::packed(file, model, Numeric::F32)?;
        let loaded = image.model()?;
        let clips = if data.is_dir() {
            Some(folder(data)?)
        } else if is_index(data)? {
            Some(read_index_files(data)?)
        } else {
            None
        };
        let Some(clips) = clips else {
            let sequences = vec![read_inputs(&loaded, &model.architecture.inputs, file, data)?];
            return Ok(Self { sequences, what: data.display().to_string(), data: Some(data.to_owned()) });
        };
        let what = format!("{} clips of {}", clips.len(), data.display());
        // The same features as in the image, whose front end computes in integers.
        let section = match &model.architecture.front_end {
            Some(front_end) => front_end.section(Numeric::I8x16, None).map_err(|error| Failure::of(file, error))?,
            None => Vec::new(),
        };
        let _ = front_end_of(&loaded, file)?;
        let mfcc = Mfcc::parse(&section).map_err(|error| Failure::of(file, error))?;
        let sequences = sounds(&mfcc, loaded.schedule(), &clips, file)?;
        Ok(Self { sequences, what, data: Some(data.to_owned()) })
    }

    /// Takes the substitute for data.
    pub fn stand_in(model: &Canonical, file: &Path) -> Result<Self, Failure> {
        let sequences = StandIn::sequences(model).map_err(|error| Failure::of(file, error))?;
        Ok(Self { sequences, what: StandIn::of(model).to_string(), data: None })
    }

    /// Runs a model on the sequences and collects its values.
    pub fn seen(&self, model: &Canonical, file: &Path) -> Result<Seen, Failure> {
        let progress = bar(self.sequences.len() as u64, "calibrating");
        let sequences: Vec<Vec<&[f32]>> =
            self.sequences.iter().map(|inputs| inputs.iter().map(Vec::as_slice).collect()).collect();
        let each = sequences.iter().map(|inputs| {
            progress.advance(1);
            inputs.as_slice()
        });
        Seen::measure(model, each).map_err(|error| match &self.data {
            Some(data) if matches!(error, RangesError::NeverRan { .. }) => Failure::of(data, error),
            _ => Failure::of(file, error),
        })
    }

    /// Improves ranges by trials on the sequences.
    pub fn choose(
        &self,
        model: &Canonical,
        numeric: Numeric,
        ranges: Ranges,
        rules: &RangeRules,
        goal: &Goal,
        file: &Path,
    ) -> Result<Ranges, Failure> {
        let progress = counter("trying choices");
        let tried = || progress.advance(1);
        choose(model, numeric, ranges, rules, &self.sequences, goal, &tried).map_err(|error| Failure::of(file, error))
    }

    /// Compares an image with its model in f32 on all sequences.
    pub fn compare(&self, image: &Model<'_>, reference: &Model<'_>, file: &Path) -> Result<Comparison, Failure> {
        let progress = bar(self.sequences.len() as u64, "comparing");
        let mut comparison = Comparison::new(image, reference);
        for inputs in &self.sequences {
            let inputs: Vec<&[f32]> = inputs.iter().map(Vec::as_slice).collect();
            let compared = comparison.run(image, reference, &inputs, |_| ());
            compared.map_err(|error| Failure::of(file, error))?;
            progress.advance(1);
        }
        Ok(comparison)
    }
}

/// Compares the decisions of an image and of its model in f32 on a labeled index.
pub fn decisions(index: &Path, image: &Model<'_>, reference: &Model<'_>, file: &Path) -> Result<Decisions, Failure> {
    let labeled = Labeled::read(index, image, file)?;
    let mut decisions = Decisions { what: index.display().to_string(), ..Decisions::default() };
    let progress = bar(labeled.clips.len() as u64, "evaluating");
    for clip in &labeled.clips {
        let truth = labeled.truth(clip);
        if let [got, expected] = labeled.decide(clip, &[Engine::from(image), Engine::from(reference)], file)?[..] {
            decisions.clips += 1;
            decisions.correct += usize::from(got == truth);
            decisions.float_correct += usize::from(expected == truth);
            decisions.same += usize::from(got == expected);
        }
        progress.advance(1);
    }
    Ok(decisions)
}

/// Whether a file is a CSV with the column `file`. Other CSV files hold numbers.
fn is_index(data: &Path) -> Result<bool, Failure> {
    if !data.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("csv")) {
        return Ok(false);
    }
    let text = fs::read(data).map_err(|error| DataError::io(data, "read", error))?;
    let header = text.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let header = String::from_utf8_lossy(header);
    // Spreadsheets write a byte order mark.
    let header = header.trim_start_matches('\u{feff}');
    Ok(header.split(',').any(|column| column.trim().trim_matches('"') == "file"))
}

/// The sounds in a folder, in the order of their names.
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

/// Features of every clip by itself, or of all clips as one stream if the schedule is endless.
fn sounds(mfcc: &Mfcc<'_>, schedule: Schedule, clips: &[PathBuf], file: &Path) -> Result<Vec<Vec<Vec<f32>>>, Failure> {
    let Schedule::Windows { frames, .. } = schedule else {
        return Ok(vec![vec![stream_features(mfcc, file, clips, 0)?]]);
    };
    let progress = bar(clips.len() as u64, "reading");
    let mut sequences = Vec::with_capacity(clips.len());
    for clip in clips {
        let samples = read_audio_at(clip, mfcc.settings().sample_rate)?.samples;
        let samples = fit(mfcc, &samples, frames).map_err(|error| Failure::of(file, error))?;
        sequences.push(vec![clip_features(mfcc, &samples).map_err(|error| Failure::of(clip, error))?]);
        progress.advance(1);
    }
    Ok(sequences)
}
