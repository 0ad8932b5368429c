//! Quantization report: the range of every value, the share of it that is clipped, the difference of every layer from
//! `f32`, and the number of clips that both classify correctly.

use serde_json::{Value, json};

use super::{RangeRules, Ranges, Seen};
use crate::compare::{Comparison, Difference};

/// Signal-to-noise ratio at the output below which a report warns.
const LEAST_SNR_DB: f64 = 30.0;
/// Share of changed decisions above which a report warns.
const MOST_CHANGED: f64 = 0.01;
/// Share of saturated values above which saturation counts as the cause of an error.
const MOST_SATURATED: f64 = 0.001;

/// Labeled clips that both the `f32` and the integer model classified.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decisions {
    /// Number of clips.
    pub clips: usize,
    /// Clips that are correct in `f32`.
    pub float_correct: usize,
    /// Clips that are correct in integers.
    pub correct: usize,
    /// Clips with the same decision in both.
    pub same: usize,
    /// Description of the clips, for the reader.
    pub what: String,
}

/// The quantization report.
#[derive(Debug)]
pub struct Report<'a> {
    /// Source of the ranges, for the reader.
    pub source: &'a str,
    /// The observed magnitudes.
    pub seen: &'a Seen,
    /// The ranges that follow from them.
    pub ranges: &'a Ranges,
    /// The rules that the ranges follow.
    pub rules: &'a RangeRules,
    /// Comparison of integers and `f32` over the same data.
    pub comparison: &'a Comparison,
    /// Decisions on a labeled index.
    pub decisions: Option<&'a Decisions>,
}

impl Report<'_> {
    /// One line for each value: inputs, layers, cell states, candidates that are not visible in any value, and the output;
    /// then the decisions and the verdict.
    pub fn text(&self) -> String {
        let mut text = format!("ranges from {}; integers against f32 over the same:\n", self.source);
        text += &format!("  {:<6} {:<24} {:<36} {}\n", "value", "name", "range", "saturated, signal-to-noise ratio");
        let Comparison { inputs, layers, states, output, .. } = self.comparison;
        let range = |name: &str| format!("range {:.4} by {}", self.ranges.of(name), self.rules.of(name));
        for (what, values) in [("input", inputs), ("layer", layers), ("state", states)] {
            for value in values {
                let (name, outcome) = (&value.name, outcome(value));
                text += &format!("  {what:<6} {name:<24} {:<36} {outcome}\n", range(name));
            }
        }
        for name in self.seen.candidates() {
            let range = range(name);
            let (values, beyond) = self.seen.beyond(name, self.ranges.of(name));
            let share = 100.0 * beyond as f64 / values.max(1) as f64;
            text += &format!("  inside {name:<24} {range:<36} {share:.4} % beyond it in f32\n");
        }
        if let Some(decisions) = self.decisions {
            text += &decisions.text();
        }
        let weakest = self.weakest().map_or_else(String::new, |weakest| {
            format!("; most of the error is from {} ({})", weakest.name, weakest.ratio())
        });
        text += &format!("output {}{weakest}\n", output.ratio());
        text
    }

    /// The layer that adds most noise in proportion to its signal.
    fn weakest(&self) -> Option<&Difference> {
        let noise = |of: &Difference| if of.noise > 0.0 { of.noise / of.signal } else { 0.0 };
        let mut before = self.comparison.inputs.iter().map(noise).fold(0.0, f64::max);
        let mut most: Option<(f64, &Difference)> = None;
        for layer in &self.comparison.layers {
            let added = noise(layer) - before;
            if added > most.map_or(0.0, |(most, _)| most) {
                most = Some((added, layer));
            }
            before = noise(layer);
        }
        most.map(|(_, layer)| layer)
    }

    /// Warnings about the quality of the image. Each names the layer at fault and a remedy. Empty for a good image.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let output = &self.comparison.output;
        if output.noise > 0.0 && !(output.snr_db() >= LEAST_SNR_DB) {
            let weakest = self.weakest().map_or_else(String::new, |layer| {
                let states = self.comparison.states.iter().filter(|state| state.name.starts_with(&layer.name));
                let saturated = states.chain([layer]).map(Difference::saturation).fold(0.0, f64::max);
                let (why, remedy) = if saturated > MOST_SATURATED {
                    let share = 100.0 * saturated;
                    (
                        format!("{share:.2} % of its values saturate"),
                        "calibrate with data like that of the device".to_owned(),
                    )
                } else {
                    ("its weights are rounded".to_owned(), format!("try --keep {}=16 or --at-least 30dB", layer.name))
                };
                format!("; most of the error is from the layer {:?}, because {why}: {remedy}", layer.name)
            });
            warnings.push(format!("the output is only {} from that of f32{weakest}", output.ratio()));
        }
        if let Some(Decisions { clips, same, what, .. }) = self.decisions
            && (clips - same) as f64 > MOST_CHANGED * *clips as f64
        {
            let changed = clips - same;
            warnings.push(format!(
                "{changed} of {clips} decisions of {what} differ from those of f32: try --at-least 40dB or more calibration data"
            ));
        }
        warnings
    }

    /// The report as JSON, with all its numbers.
    pub fn json(&self) -> Value {
        let value = |difference: &Difference| {
            let name = difference.name.as_str();
            json!({
                "name": name, "seen": self.seen.most(name), "range": self.ranges.of(name),
                "rule": self.rules.of(name).to_string(), "values": difference.values,
                "saturated": difference.saturated, "saturation": difference.saturation(),
                "max_abs_error": difference.max_abs_error, "snr_db": difference.snr_db(),
            })
        };
        let candidate = |name: &str| {
            let (values, beyond) = self.seen.beyond(name, self.ranges.of(name));
            json!({
                "name": name, "seen": self.seen.most(name), "range": self.ranges.of(name),
                "rule": self.rules.of(name).to_string(), "values": values, "beyond": beyond,
            })
        };
        let candidates: Vec<Value> = self.seen.candidates().map(candidate).collect();
        let all = |values: &[Difference]| values.iter().map(value).collect::<Vec<_>>();
        let Comparison { inputs, layers, states, output, steps } = self.comparison;
        let decisions = self.decisions.map(|Decisions { clips, float_correct, correct, same, what }| {
            json!({ "clips": clips, "f32_correct": float_correct, "correct": correct, "same": same, "of": what })
        });
        json!({
            "ranges_from": self.source, "steps": steps, "inputs": all(inputs), "layers": all(layers),
            "states": all(states), "candidates": candidates, "output": errors(output), "decisions": decisions,
            "weakest": self.weakest().map(|weakest| weakest.name.as_str()), "warnings": self.warnings(),
        })
    }
}

impl Decisions {
    /// The decisions as one line of text.
    pub fn text(&self) -> String {
        let Self { clips, float_correct, correct, same, what } = self;
        format!("  {correct} of {clips} clips right, {float_correct} in f32; {same} decided the same ({what})\n")
    }
}

/// JSON has no infinity: equal values have the ratio null.
fn errors(difference: &Difference) -> Value {
    json!({ "max_abs_error": difference.max_abs_error, "snr_db": difference.snr_db() })
}

fn outcome(difference: &Difference) -> String {
    format!("{:.4} % at an end, {}", 100.0 * difference.saturation(), difference.ratio())
}
