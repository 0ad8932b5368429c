//! ESPHome's description of a wake word: the JSON file beside a model of microWakeWord, with its front end and its
//! detector.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::canonical::{Architecture, Detector, LabelDetector, Mfcc, Schedule};
use crate::data::{DataError, read_bytes};

/// Milliseconds after an event without another event. ESPHome ignores frames for about as long after a detection.
const REFRACTORY_MS: u32 = 1500;
/// Milliseconds from frame to frame in files of version 1, as ESPHome converts them.
const STEP_MS: u32 = 20;

/// A wake word and its model.
#[derive(Clone, Debug, PartialEq)]
pub struct WakeWord {
    /// The file of this description.
    pub file: PathBuf,
    /// The file of the model.
    pub model: PathBuf,
    label: String,
    front_end: Mfcc,
    detector: Detector,
}

#[derive(Deserialize)]
struct File {
    #[serde(rename = "type")]
    kind: String,
    wake_word: String,
    model: String,
    version: u32,
    micro: Option<Micro>,
}

#[derive(Deserialize)]
struct Micro {
    probability_cutoff: f64,
    /// The alias is the field's name in version 1.
    #[serde(alias = "sliding_window_average_size")]
    sliding_window_size: u32,
    feature_step_size: Option<u32>,
}

impl WakeWord {
    /// The description in `path`, or the one with the name of the model in `path`, beside it; `None` if there is none.
    ///
    /// # Errors
    /// If it has values that ESPHome does not accept, or its model does not exist.
    pub fn of(path: &Path) -> Result<Option<Self>, DataError> {
        let is = |extension: &str| path.extension().is_some_and(|found| found.eq_ignore_ascii_case(extension));
        let file = if is("tflite") { path.with_extension("json") } else { path.to_owned() };
        if !(is("tflite") || is("json")) || !file.is_file() {
            return Ok(None);
        }
        let Some(described) = Self::parse(&read_bytes(&file)?, &file)? else { return Ok(None) };
        if !described.model.is_file() {
            let model = described.model.file_name().unwrap_or_default();
            let reason = format!("names the model {model:?}, which is not there: put it beside this file");
            return Err(DataError::new(&file, reason));
        }
        // A file with the model's name may describe another model.
        Ok(if is("json") || described.model.file_name() == path.file_name() { Some(described) } else { None })
    }

    /// The description in the text of `file`; `None` if it has no wake word.
    ///
    /// # Errors
    /// If it has values that ESPHome does not accept.
    pub fn parse(text: &[u8], file: &Path) -> Result<Option<Self>, DataError> {
        // Other JSON files are models.
        let Ok(value) = serde_json::from_slice::<serde_json::Value>(text) else { return Ok(None) };
        if value.get("wake_word").is_none() {
            return Ok(None);
        }
        let wrong = |reason: String| DataError::new(file, reason);
        let parsed =
            File::deserialize(value).map_err(|error| wrong(format!("is not a wake word of ESPHome: {error}")))?;
        parsed.described(file).map(Some).map_err(wrong)
    }

    /// Gives a model the wake word as its label, and the front end, the schedule and the detector.
    pub fn apply(&self, architecture: &mut Architecture) {
        architecture.labels = vec![self.label.clone()];
        architecture.front_end = Some(self.front_end.clone());
        architecture.detector = Some(self.detector.clone());
        architecture.schedule = Schedule::Endless;
    }
}

impl File {
    fn described(self, file: &Path) -> Result<WakeWord, String> {
        let Self { kind, wake_word, model, version, micro } = self;
        if kind != "micro" {
            return Err(format!("has the type {kind:?}; only \"micro\" is supported"));
        }
        if !(1..=2).contains(&version) {
            return Err(format!("has version {version}; 1 and 2 are supported"));
        }
        let Some(Micro { probability_cutoff: cutoff, sliding_window_size: mean_of, feature_step_size }) = micro else {
            return Err("has no \"micro\" with the settings of the detector".to_owned());
        };
        if !(0.0..=1.0).contains(&cutoff) {
            return Err(format!("has a probability_cutoff of {cutoff}; 0 to 1 are supported"));
        }
        if !(1..=255).contains(&mean_of) {
            return Err(format!("averages {mean_of} probabilities; 1 to 255 are supported"));
        }
        let step = if version == 1 { Some(STEP_MS) } else { feature_step_size };
        let Some(step @ 1..=30) = step else {
            return Err("needs a feature_step_size of 1 to 30 milliseconds".to_owned());
        };
        // ESPHome multiplies the cutoff, as a byte, by the number of averaged probabilities, and detects a word if the sum of
        // their bytes is greater. The threshold is therefore halfway between this product and the next integer.
        let cutoff = f64::from((cutoff * 255.0) as u8);
        let threshold = (cutoff * f64::from(mean_of) + 0.5) / (256.0 * f64::from(mean_of));
        let label = LabelDetector { threshold: threshold as f32, refractory_ms: REFRACTORY_MS };
        Ok(WakeWord {
            file: file.to_owned(),
            model: file.with_file_name(model),
            label: wake_word,
            front_end: Mfcc::micro_wake_word(step),
            detector: Detector { mean_of, labels: vec![label] },
        })
    }
}
