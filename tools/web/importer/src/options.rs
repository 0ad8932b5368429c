//! Options of a request, named like those of `tidegate pack`.

use std::collections::BTreeMap;

use serde::Deserialize;
use tidegate::{Layout, Numeric};
use tidegate_model::load::{Labels, Settings};
use tidegate_model::packing::Packing;

/// The options of `tidegate pack` that name no file. `tidegate pack --help` explains them.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Options {
    numeric: Option<String>,
    window: Option<usize>,
    shape: BTreeMap<String, Vec<usize>>,
    bind: BTreeMap<String, f64>,
    state: BTreeMap<String, String>,
    labels: Option<Vec<String>>,
    stream: bool,
    schedule: Option<String>,
    front_end: Option<String>,
    mean_of: Option<u32>,
    threshold: Option<f32>,
    refractory: Option<u32>,
    /// `noise`: features from -1 to 1 for a model without a front end.
    calibrate: Option<String>,
    range: Vec<String>,
    keep: BTreeMap<String, u8>,
    at_least: Option<f64>,
    budget: Option<usize>,
}

impl Options {
    /// Whether integers are calibrated on noise.
    pub fn calibrates_on_noise(&self) -> Result<bool, String> {
        match self.calibrate.as_deref() {
            None => Ok(false),
            Some("noise") => Ok(true),
            Some(other) => Err(format!("calibrate: {other:?} is a file, which a browser does not have; give noise")),
        }
    }

    /// The settings of the import, and those of the image.
    pub fn settings(self) -> Result<(Settings, Packing), String> {
        let named = |name: String| {
            let known = || Numeric::ALL.map(Numeric::name).join(", ");
            let found = Numeric::ALL.into_iter().find(|numeric| numeric.name() == name);
            found.ok_or_else(|| format!("numeric: {name:?} is unknown; give one of {}", known()))
        };
        let schedule = |text: String| text.parse().map_err(|error| format!("schedule: {error}"));
        let settings = Settings {
            window: self.window,
            shapes: self.shape,
            // A number stands for a file, as in `--bind`.
            binds: self.bind.into_iter().map(|(name, number)| (name, number.to_string().into())).collect(),
            states: self.state,
            labels: self.labels.map_or(Labels::Own, Labels::Given),
            stream: self.stream,
            schedule: self.schedule.map(schedule).transpose()?,
            front_end: self.front_end.map(Into::into),
            mean_of: self.mean_of,
            threshold: self.threshold,
            refractory_ms: self.refractory,
            ..Settings::default()
        };
        let packing = Packing {
            numeric: self.numeric.map(named).transpose()?,
            layout: Layout::Portable,
            range: self.range.iter().map(|text| text.parse()).collect::<Result<_, String>>()?,
            keep: self.keep.into_iter().collect(),
            at_least: self.at_least,
            budget: self.budget,
        };
        Ok((settings, packing))
    }
}
