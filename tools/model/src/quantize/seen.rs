//! Observed values of a running model: a histogram of the magnitudes of each value, and the range that a rule derives
//! from it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::str::FromStr;

use tidegate::internals::quant::MAX;
use tidegate::{Model, Numeric, State, Values};

use super::covariance::Covariance;
use super::distribution::Element;
use super::probe::{Probe, Probing};
use super::{Elements, Ranges, auto};
use crate::buffer::ImageBuffer;
use crate::canonical::{Canonical, Schedule};
use crate::pack::{PackError, pack};
use crate::runner;

/// Why ranges could not be measured.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the error texts explain the variants and their fields")]
pub enum RangesError {
    #[error(transparent)]
    Pack(#[from] PackError),
    #[error(transparent)]
    Image(tidegate::ImageError),
    #[error(
        "the layer {node:?} never ran: the calibration data ends before a window is full; calibrate with more steps"
    )]
    NeverRan { node: String },
    #[error(transparent)]
    Run(#[from] runner::RunError),
}

/// Rule that derives the range of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum RangeRule {
    /// The whole observed range, with a margin for other values, as wide as rounding to 16 bits permits.
    #[default]
    Auto,
    /// The whole observed range.
    MinMax,
    /// The range that covers this percentage of the observed magnitudes.
    Percentile(f64),
    /// The range with the least squared error of clipping and of rounding to 16 bits together.
    Mse,
}

impl RangeRule {
    /// Percentage of `percentile` without a number.
    pub const USUAL_PERCENTILE: f64 = 99.99;
}

impl fmt::Display for RangeRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::MinMax => f.write_str("minmax"),
            Self::Percentile(percent) => write!(f, "percentile={percent}"),
            Self::Mse => f.write_str("mse"),
        }
    }
}

impl FromStr for RangeRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let percent =
            || text.strip_prefix("percentile=")?.parse().ok().filter(|percent| (1.0..=100.0).contains(percent));
        match text {
            "auto" => Ok(Self::Auto),
            "minmax" => Ok(Self::MinMax),
            "mse" => Ok(Self::Mse),
            "percentile" => Ok(Self::Percentile(Self::USUAL_PERCENTILE)),
            _ => percent()
                .map(Self::Percentile)
                .ok_or("write auto, minmax, mse, or percentile=P with P from 1 to 100".into()),
        }
    }
}

/// The rule for every value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RangeRules {
    /// Default rule.
    pub usual: RangeRule,
    /// Rules of single values and states, by name.
    pub named: HashMap<String, RangeRule>,
}

impl RangeRules {
    /// The rule for a value or state.
    pub fn of(&self, name: &str) -> RangeRule {
        self.named.get(name).copied().unwrap_or(self.usual)
    }
}

/// Histogram of one value's magnitudes, with a resolution of one part in 128, and its elements.
#[derive(Clone, Debug, Default)]
struct Magnitudes {
    most: f32,
    count: u64,
    elements: Elements,
    /// The upper 16 bits of the `f32`, in order, and their counts.
    bins: Vec<(u16, u64)>,
}

impl Magnitudes {
    fn see(&mut self, values: &[f32]) {
        let Elements { distributions, peaks } = &mut self.elements;
        // A window that is not full has fewer values.
        let len = values.len().max(peaks.len());
        distributions.resize_with(len, Element::default);
        peaks.resize(len, 0.0);
        for ((element, peak), &value) in distributions.iter_mut().zip(peaks).zip(values) {
            element.see(value);
            *peak = peak.max(value.abs());
        }
        for value in values {
            self.most = self.most.max(value.abs());
            let bin = (value.abs().to_bits() >> 16) as u16;
            match self.bins.binary_search_by_key(&bin, |(bin, _)| *bin) {
                Ok(at) => self.bins[at].1 += 1,
                Err(at) => self.bins.insert(at, (bin, 1)),
            }
        }
        self.count += values.len() as u64;
    }

    /// The greatest magnitude in a bin.
    fn end(bin: u16) -> f32 {
        f32::from_bits(u32::from(bin) << 16 | 0xffff)
    }

    /// Number of magnitudes in bins that are entirely beyond `range`.
    fn beyond(&self, range: f32) -> u64 {
        let least = |bin: u16| f32::from_bits(u32::from(bin) << 16);
        self.bins.iter().filter(|(bin, _)| least(*bin) > range).map(|(_, count)| count).sum()
    }

    fn range(&self, rule: RangeRule) -> f32 {
        match rule {
            RangeRule::Auto | RangeRule::MinMax => self.most,
            RangeRule::Percentile(percent) => self.percentile(percent),
            RangeRule::Mse => self.least_error(),
        }
    }

    fn percentile(&self, percent: f64) -> f32 {
        let (wanted, mut so_far) = (self.count as f64 * percent / 100.0, 0);
        let reached = self.bins.iter().find(|(_, count)| {
            so_far += *count;
            so_far as f64 >= wanted
        });
        reached.map_or(self.most, |(bin, _)| Self::end(*bin).min(self.most))
    }

    fn least_error(&self) -> f32 {
        let error = |end: f32| -> f64 {
            let step = f64::from(end) / f64::from(MAX);
            let of = |&(bin, count): &(u16, u64)| {
                let clipped = f64::from((Self::end(bin).min(self.most) - end).max(0.0));
                count as f64 * (clipped * clipped + step * step / 12.0)
            };
            self.bins.iter().map(of).sum()
        };
        let ends =
            self.bins.iter().map(|(bin, _)| Self::end(*bin).min(self.most)).filter(|end| *end > 0.0 && end.is_finite());
        let least = ends.map(|end| (error(end), end)).min_by(|a, b| a.0.total_cmp(&b.0));
        least.map_or(self.most, |(_, end)| end)
    }
}

/// The observed magnitudes of every value and state, by `<value>` or `<node>.<state>`.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    values: HashMap<String, Magnitudes>,
    /// The covariance of each node's input and previous output, if the node multiplies them.
    covariances: HashMap<String, Covariance>,
    /// Names of the candidates that are not visible in any value.
    candidates: Vec<String>,
}

impl Seen {
    /// Observes a model that runs in `f32` over sequences, each `[steps, size]` for each input.
    ///
    /// # Errors
    /// If the model cannot be packed, a sequence does not fit its inputs, or a layer never ran.
    pub fn measure<'s>(
        model: &Canonical,
        sequences: impl IntoIterator<Item = &'s [&'s [f32]]>,
    ) -> Result<Self, RangesError> {
        let nodes = &model.architecture.nodes;
        let covariances = nodes.iter().filter_map(|node| Some((node.name.clone(), Covariance::of(node, model)?)));
        Self { covariances: covariances.collect(), ..Self::default() }.measured(model, sequences)
    }

    /// [`measure`](Self::measure) without the covariances, which only rounding by what calibration observed needs.
    ///
    /// # Errors
    /// Those of [`measure`](Self::measure).
    pub fn measure_values<'s>(
        model: &Canonical,
        sequences: impl IntoIterator<Item = &'s [&'s [f32]]>,
    ) -> Result<Self, RangesError> {
        Self::default().measured(model, sequences)
    }

    fn measured<'s>(
        self,
        model: &Canonical,
        sequences: impl IntoIterator<Item = &'s [&'s [f32]]>,
    ) -> Result<Self, RangesError> {
        let image = ImageBuffer::new(&pack(model, Numeric::F32)?);
        let loaded = image.model().map_err(RangesError::Image)?;
        let probes = Probe::all(model)?;
        let candidates = probes.iter().map(Probe::name).collect();
        let mut seen = Self { candidates, ..self };
        for sequence in sequences {
            let probing = Probing::start(&probes).map_err(RangesError::Image)?;
            seen.run(&loaded.endless(), model, probing, sequence)?;
        }
        // A missing range must not be taken as a range of 0.
        match model.architecture.nodes.iter().find(|node| !seen.values.contains_key(&node.name)) {
            Some(node) => Err(RangesError::NeverRan { node: node.name.clone() }),
            None => Ok(seen),
        }
    }

    /// The names of all values and states, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.values.keys().map(String::as_str).collect::<BTreeSet<_>>().into_iter()
    }

    /// The greatest magnitude of a value or state; 0 if unknown.
    pub fn most(&self, name: &str) -> f32 {
        self.values.get(name).map_or(0.0, |magnitudes| magnitudes.most)
    }

    /// The names of the candidates that may leave -1 to 1, `<node>.candidate`.
    pub fn candidates(&self) -> impl Iterator<Item = &str> {
        self.candidates.iter().map(String::as_str)
    }

    /// Number of observed elements of a value or state, and how many of them were beyond `range`, to one part in 128 of
    /// it.
    pub fn beyond(&self, name: &str, range: f32) -> (u64, u64) {
        self.values.get(name).map_or((0, 0), |magnitudes| (magnitudes.count, magnitudes.beyond(range)))
    }

    /// The magnitudes of a value or state by octaves: exponents of 2, in order, and counts. Zeros are not counted.
    pub fn octaves(&self, name: &str) -> BTreeMap<i32, u64> {
        let mut octaves = BTreeMap::new();
        for &(bin, count) in self.values.get(name).into_iter().flat_map(|magnitudes| &magnitudes.bins) {
            if bin > 0 {
                *octaves.entry(i32::from(bin >> 7) - 127).or_default() += count;
            }
        }
        octaves
    }

    /// The ranges of a model's values that follow from the rules.
    pub fn ranges(&self, rules: &RangeRules, model: &Canonical) -> Ranges {
        let range = |(name, magnitudes): (&String, &Magnitudes)| {
            let range = match rules.of(name) {
                RangeRule::Auto => auto::range(name, magnitudes.most, &magnitudes.elements, model),
                rule => magnitudes.range(rule),
            };
            (name.clone(), range)
        };
        let elements = self.values.iter().map(|(name, magnitudes)| (name.clone(), magnitudes.elements.clone()));
        Ranges::new(self.values.iter().map(range)).with_elements(elements).with_covariances(self.covariances.clone())
    }

    fn see(&mut self, name: &str, values: &[f32]) {
        match self.values.get_mut(name) {
            Some(magnitudes) => magnitudes.see(values),
            None => self.values.entry(name.to_owned()).or_default().see(values),
        }
    }

    fn run(
        &mut self,
        model: &Model<'_>,
        canonical: &Canonical,
        mut probing: Probing<'_>,
        inputs: &[&[f32]],
    ) -> Result<(), RangesError> {
        let architecture = &canonical.architecture;
        let (mut memory, mut scratch) = (vec![0; model.state_words()], vec![0; model.scratch_words()]);
        let mut state = State::new(model, &mut memory).expect("the memory has the model's own length");
        let sizes: Vec<usize> = architecture.inputs.iter().map(|input| input.size).collect();
        let steps = runner::step_count(inputs, &sizes);
        let mut outputs: Vec<Vec<f32>> = architecture.outputs.iter().map(|output| vec![0.0; output.size]).collect();
        let states: Vec<(String, &str, &str)> = model
            .nodes()
            .zip(&architecture.nodes)
            .flat_map(|(node, of)| node.spec().states.iter().map(|part| (of.name.as_str(), part.name)))
            .map(|(node, part)| (format!("{node}.{part}"), node, part))
            .collect();
        let mut values: HashMap<&str, Vec<f32>> = HashMap::new();
        for step in 0..steps {
            // A state that is reset for each window needs only the range of one window.
            if let Schedule::Windows { frames, .. } = architecture.schedule
                && step.is_multiple_of(frames as usize)
            {
                state.reset();
                probing.reset();
                values.clear();
            }
            let rows = runner::rows(inputs, &sizes, step);
            for (input, row) in architecture.inputs.iter().zip(&rows) {
                self.see(&input.name, row);
                probing.value(&input.name, row);
                values.insert(&input.name, row.to_vec());
            }
            let mut probed = Ok(());
            let mut out: Vec<&mut [f32]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
            let all = &mut values;
            let seen = model.step_observed(&mut state, &mut scratch, &rows, &mut out, |node, values| {
                if let (Values::F32(values), Ok(())) = (values, probed) {
                    let of = &architecture.nodes[node];
                    let name = of.name.as_str();
                    if let Some(covariance) = self.covariances.get_mut(name) {
                        let read = of.inputs.iter().filter_map(|input| all.get(input.as_str())).flatten();
                        // The output of the previous step; zeros in the first one.
                        let before = all.get(name).into_iter().flatten().chain(std::iter::repeat(&0.0));
                        covariance.see(read.chain(before.take(of.output_size)).copied());
                    }
                    self.see(name, values);
                    probing.value(name, values);
                    probed = probing.given(node, values, |name, candidates| self.see(name, candidates));
                    all.insert(name, values.to_vec());
                }
            });
            let _ = seen.and_then(|step| probed.map(|()| step)).map_err(runner::RunError::from)?;
            for (name, node, part) in &states {
                if let Some(values) = state.part(model, node, part) {
                    self.see(name, values);
                }
            }
        }
        Ok(())
    }
}

impl Ranges {
    /// Measures the ranges while the model runs in `f32` over sequences, each `[steps, size]` for each input, by the
    /// default rules. The errors are those of [`Seen::measure`].
    pub fn measure<'s>(
        model: &Canonical,
        sequences: impl IntoIterator<Item = &'s [&'s [f32]]>,
    ) -> Result<Self, RangesError> {
        Ok(Seen::measure(model, sequences)?.ranges(&RangeRules::default(), model))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(values: &[f32]) -> Magnitudes {
        let mut magnitudes = Magnitudes::default();
        values.chunks(1000).for_each(|step| magnitudes.see(step));
        magnitudes
    }

    #[test]
    fn a_range_follows_its_rule() {
        // 1 to 1000, and one outlier.
        let values: Vec<f32> = (1..=1000).map(|k| k as f32 * if k % 2 == 0 { 1.0 } else { -1.0 }).collect();
        let one_off = seen(&[values.as_slice(), &[-1e6]].concat());
        assert_eq!(one_off.range(RangeRule::MinMax), 1e6);
        for (percent, expected) in [(50.0, 500.5), (99.0, 991.0), (99.9, 1000.0), (100.0, 1e6)] {
            let range = one_off.range(RangeRule::Percentile(percent));
            assert!((1.0..=1.0 + 1.0 / 100.0).contains(&(range / expected)), "{percent}: {range}");
        }
        // 16 bits are enough for both: clipping a million costs more than coarse steps.
        assert_eq!(one_off.range(RangeRule::Mse), 1e6);
        // A rare value just beyond many others is clipped.
        let mut crowd = vec![1.0; 10_000_000];
        crowd.push(1.0085);
        assert!(seen(&crowd).range(RangeRule::Mse) < 1.0085);
        assert_eq!((seen(&[0.0; 9]).range(RangeRule::Mse), seen(&[]).range(RangeRule::Percentile(99.0))), (0.0, 0.0));
    }

    #[test]
    fn rules_are_read_as_they_are_written() {
        for text in ["auto", "minmax", "mse", "percentile=99.9", "percentile=100"] {
            assert_eq!(text.parse::<RangeRule>().unwrap().to_string(), text);
        }
        assert_eq!("percentile".parse(), Ok(RangeRule::Percentile(99.99)));
        for text in ["", "max", "percentile=", "percentile=0", "percentile=101", "percentile=NaN", "Mse"] {
            assert!(text.parse::<RangeRule>().is_err(), "{text}");
        }
    }
}
