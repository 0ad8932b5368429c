//! Packing as `tidegate pack` does it: integers with ranges from calibration data, a goal for size or precision, and a
//! report of the errors.

use std::path::Path;

use tidegate::{Layout, Model, Numeric};

use crate::calibrate::{Calibration, RangeArg, rules};
use crate::canonical::Canonical;
use crate::compare::Comparison;
use crate::data::DataError;
use crate::inputs::Inputs;
use crate::labeled::Labeled;
use crate::load::{self, ImageBuffer, LoadError};
use crate::progress::Progress;
use crate::quantize::{
    Chosen, Decisions, Goal, RangeRules, Ranges, Report, Seen, StandIn, is_poor, weakest, weight_bits, wide_layers,
};

/// The numeric of a model that is not in integers already.
pub const USUAL: Numeric = Numeric::I8x16;
/// The value of `--calibrate` that stands for no data.
pub const NOISE: &str = "noise";

/// Why a model without a front end is not packed without data.
const WITHOUT_DATA: &str = "nothing says which values its input has, and integers need their range: give real input with \
    --calibrate, or --calibrate noise for values from -1 to 1";
/// Why noise is refused for a model that has a better substitute for data.
const NOT_NOISE: &str = "--calibrate noise is for features whose values nothing shows: leave it out, and the model is \
    calibrated on sounds or indices that tidegate has";

/// How a model is packed.
#[derive(Clone, Debug)]
pub struct Packing {
    /// Number format; `None` for [`USUAL`], or `i8` for a model in integers.
    pub numeric: Option<Numeric>,
    /// Layout of the weights.
    pub layout: Layout,
    /// Rules for the ranges of values.
    pub range: Vec<RangeArg>,
    /// Bits of the weights of layers, by name.
    pub keep: Vec<(String, u8)>,
    /// Least signal-to-noise ratio of the output in dB.
    pub at_least: Option<f64>,
    /// Most bytes of the image.
    pub budget: Option<usize>,
}

impl Default for Packing {
    fn default() -> Self {
        let (numeric, layout, at_least, budget) = (None, Layout::Portable, None, None);
        Self { numeric, layout, range: Vec::new(), keep: Vec::new(), at_least, budget }
    }
}

/// The data that determine the ranges of integers.
#[derive(Debug)]
pub enum Source<'a> {
    /// No data. A model for sounds or indices is calibrated on those that tidegate has; other models are refused.
    Nothing,
    /// A file, or `noise`.
    File(&'a Path),
    /// Sequences in memory, and a description.
    Memory(Inputs, &'a str),
}

/// An image in integers, and how it was made.
#[derive(Debug)]
pub struct Measured {
    /// The numeric of the image.
    pub numeric: Numeric,
    /// Description of the calibration data.
    pub source: String,
    /// Notes for the user about the data.
    pub notes: Vec<String>,
    /// The model that was packed, if it has other weights than the one that was given.
    equalized: Option<Canonical>,
    seen: Seen,
    rules: RangeRules,
    ranges: Ranges,
    /// Comparison with the model in f32.
    pub comparison: Comparison,
    decisions: Option<Decisions>,
    wider_gains: Option<f64>,
}

impl Measured {
    /// The report; its heading names the model, the image and the date.
    pub fn report<'a>(&'a self, model: &'a Canonical, heading: [&'a str; 3]) -> Report<'a> {
        Report {
            heading,
            model: self.equalized.as_ref().unwrap_or(model),
            source: &self.source,
            numeric: self.numeric,
            seen: &self.seen,
            ranges: &self.ranges,
            rules: &self.rules,
            comparison: &self.comparison,
            decisions: self.decisions.as_ref(),
            wider_gains: self.wider_gains,
        }
    }
}

/// A model to pack, which was read from `file`.
#[derive(Clone, Copy)]
pub struct Packer<'a> {
    /// The model.
    pub model: &'a Canonical,
    /// Its file, for errors.
    pub file: &'a Path,
    /// Shows the progress.
    pub progress: &'a dyn Progress,
}

impl Packer<'_> {
    /// The numeric of the image.
    pub fn numeric(&self, packing: &Packing) -> Numeric {
        packing.numeric.unwrap_or_else(|| self.model.architecture.numeric_or(USUAL))
    }

    /// Packs an image; for integers that need ranges, also returns how they were measured. `evaluate` is labeled data to
    /// compare decisions on.
    ///
    /// # Errors
    /// If an option does not fit the numeric, the data do not fit the model, or the image misses its goal.
    pub fn pack(
        &self,
        packing: &Packing,
        source: Source<'_>,
        evaluate: Option<&Path>,
    ) -> Result<(ImageBuffer, Option<Measured>), LoadError> {
        let numeric = self.numeric(packing);
        if !numeric.needs_ranges() {
            self.check_plain(packing, &source, evaluate)?;
            let image = load::packed_with(self.file, self.model, numeric, &Ranges::default(), packing.layout)?;
            return Ok((image, None));
        }
        let (image, measured) = self.measured(packing, source, evaluate)?;
        Ok((image, Some(measured)))
    }

    /// Refuses options for integers with another numeric.
    fn check_plain(&self, packing: &Packing, source: &Source<'_>, evaluate: Option<&Path>) -> Result<(), LoadError> {
        let numeric = self.numeric(packing);
        let given = [
            ("--for", packing.layout != Layout::Portable && !numeric.is_integer()),
            ("--calibrate", !matches!(source, Source::Nothing)),
            ("--range", !packing.range.is_empty()),
            ("--evaluate", evaluate.is_some()),
            ("--keep", !packing.keep.is_empty()),
            ("--at-least", packing.at_least.is_some()),
            ("--budget", packing.budget.is_some()),
        ];
        let Some((option, _)) = given.into_iter().find(|(_, given)| *given) else { return Ok(()) };
        Err(LoadError::Option { reason: only_for_integers(option, numeric) })
    }

    /// The goal for the image; each layer of `keep` must be able to have weights with twice as many bits.
    fn goal(&self, packing: &Packing) -> Result<Goal, LoadError> {
        let numeric = self.numeric(packing);
        let usual = weight_bits(numeric);
        let refuse = |reason| Err(LoadError::Option { reason });
        let layers: Vec<&str> = wide_layers(self.model).collect();
        for (layer, bits) in &packing.keep {
            if !layers.contains(&layer.as_str()) {
                let others = match layers.as_slice() {
                    [] => "no layer can".to_owned(),
                    layers => format!("these can: {}", layers.join(", ")),
                };
                return refuse(format!("--keep: {layer:?} cannot have weights of another width; {others}"));
            }
            if *bits != usual && *bits != 2 * usual {
                let (name, wide) = (numeric.name(), 2 * usual);
                return refuse(format!("--keep: {layer}={bits}: in {name} weights have {usual} or {wide} bits"));
            }
        }
        let with =
            |wanted| packing.keep.iter().filter(move |(_, bits)| *bits == wanted).map(|(layer, _)| layer.clone());
        let (wide, narrow) = (with(2 * usual).collect(), with(usual).collect());
        Ok(Goal { wide, narrow, at_least: packing.at_least, budget: packing.budget })
    }

    /// The calibration data, or their substitute.
    ///
    /// # Errors
    /// If the data cannot be read or do not fit the model, or if there are none and the model has no substitute.
    pub fn calibration(&self, source: Source<'_>, numeric: Numeric, layout: Layout) -> Result<Calibration, LoadError> {
        let Self { model, file, progress } = *self;
        match source {
            Source::Memory(inputs, what) => Ok(Calibration::of(inputs, what)),
            Source::File(data) if data.as_os_str() != NOISE => Calibration::read(data, model, file, progress),
            Source::File(_) if StandIn::of(model) != StandIn::Noise => Err(DataError::new(file, NOT_NOISE).into()),
            Source::Nothing if StandIn::of(model) == StandIn::Noise => {
                // If the model has no integer form at all, data would not help.
                load::packed_with(file, model, numeric, &Ranges::default(), layout)?;
                Err(DataError::new(file, WITHOUT_DATA).into())
            }
            _ => Calibration::stand_in(model, file),
        }
    }

    /// Packs an integer image and measures its errors.
    fn measured(
        &self,
        packing: &Packing,
        source: Source<'_>,
        evaluate: Option<&Path>,
    ) -> Result<(ImageBuffer, Measured), LoadError> {
        let Self { model, file, progress } = *self;
        let (numeric, layout, goal) = (self.numeric(packing), packing.layout, self.goal(packing)?);
        let calibration = self.calibration(source, numeric, layout)?;
        let seen = calibration.seen(model, file, progress)?;
        let rules = rules(&packing.range, &seen)?;
        let ranges = seen.ranges(&rules, model);
        let Chosen { ranges, equalized } = calibration.choose(model, numeric, ranges, &rules, &goal, file, progress)?;
        let (equalized, seen) = match equalized {
            Some((model, seen)) => (Some(model), seen),
            None => (None, seen),
        };
        let model = equalized.as_ref().unwrap_or(model);
        let image = load::packed_with(file, model, numeric, &ranges, layout)?;
        let float = load::packed(file, model, Numeric::F32)?;
        let parsed = |image| parsed(image, file);
        let (integer, reference) = (parsed(&image)?, parsed(&float)?);
        let comparison = calibration.compare(&integer, &reference, file, progress)?;
        check_goal(&goal, numeric, comparison.output.snr_db(), image.bytes().len(), file)?;
        let decisions = match evaluate {
            Some(data) => {
                let labeled = Labeled::read(data, &integer, file)?;
                Some(labeled.decisions(&integer, &reference, file, progress)?)
            }
            None => None,
        };
        let packer = Packer { model, ..*self };
        let wider_gains = packer.wider_gains(&reference, numeric, &calibration, &ranges, &comparison)?;
        let Calibration { what: source, notes, .. } = calibration;
        let measured =
            Measured { numeric, source, notes, equalized, seen, rules, ranges, comparison, decisions, wider_gains };
        Ok((image, measured))
    }

    /// For a poor image, the decibels that the output gains if the weakest layer has weights with twice as many bits;
    /// `None` if this layer cannot have them.
    fn wider_gains(
        &self,
        reference: &Model<'_>,
        numeric: Numeric,
        calibration: &Calibration,
        ranges: &Ranges,
        comparison: &Comparison,
    ) -> Result<Option<f64>, LoadError> {
        let Self { model, file, progress } = *self;
        let Some(weakest) = weakest(comparison, model).filter(|_| is_poor(&comparison.output)) else { return Ok(None) };
        let name = weakest.value.name.as_str();
        if !wide_layers(model).any(|layer| layer == name) {
            return Ok(None);
        }
        let mut wider = ranges.clone();
        wider.add_wide([name.to_owned()]);
        // If this diagnosis fails, the image is returned without it.
        let Ok(image) = load::packed_with(file, model, numeric, &wider, Layout::Portable) else { return Ok(None) };
        let wide = calibration.compare(&parsed(&image, file)?, reference, file, progress)?;
        Ok(Some(wide.output.snr_db() - comparison.output.snr_db()))
    }
}

/// Why an option is refused.
pub fn only_for_integers(option: &str, numeric: Numeric) -> String {
    if numeric.is_integer() {
        format!(
            "{option}: the numeric i8 takes the integers that a model already has: give --numeric i8x16 to quantize it"
        )
    } else {
        format!("{option}: is only for integers, not for {}: leave {option} or --numeric out", numeric.name())
    }
}

fn parsed<'i>(image: &'i ImageBuffer, file: &Path) -> Result<Model<'i>, LoadError> {
    image.model().map_err(|source| LoadError::Packed { path: file.to_owned(), source })
}

fn check_goal(goal: &Goal, numeric: Numeric, ratio: f64, bytes: usize, file: &Path) -> Result<(), DataError> {
    if let Some(most) = goal.budget.filter(|most| bytes > *most) {
        let other = if numeric == Numeric::I4x16 { "" } else { ", or try --numeric i4x16" };
        let (bytes, most) = (grouped(bytes), grouped(most));
        let reason = format!("the image takes {bytes} bytes, more than the {most} of --budget: raise it{other}");
        return Err(DataError::new(file, reason));
    }
    if let Some(wanted) = goal.at_least.filter(|wanted| ratio.is_nan() || ratio < *wanted) {
        let other = if numeric == Numeric::I4x16 { "i8x16" } else { "f16" };
        let reason = format!(
            "the output reaches {ratio:.1} dB, less than the {wanted} dB of --at-least: ask for less, or try --numeric {other}"
        );
        return Err(DataError::new(file, reason));
    }
    Ok(())
}

/// 1234567 as `1,234,567`.
pub fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> = digits.as_bytes().rchunks(3).rev().filter_map(|group| str::from_utf8(group).ok()).collect();
    groups.join(",")
}
