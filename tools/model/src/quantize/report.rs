//! Quantization report: the range of every value, the share of it that is clipped, the difference of every layer from
//! `f32`, and the number of clips that both classify correctly.

use serde_json::{Value, json};
use tidegate::Numeric;

use super::{RangeRules, Ranges, Seen};
use crate::canonical::Canonical;
use crate::compare::{Comparison, Difference};

/// Signal-to-noise ratio below which a report warns of an output.
pub const LEAST_SNR_DB: f64 = 30.0;
/// Signal-to-noise ratio at the output with which few decisions change.
const WANTED_SNR_DB: f64 = 40.0;
/// Share of changed decisions above which a report warns.
const MOST_CHANGED: f64 = 0.01;
/// Share of saturated values above which saturation counts as the cause of an error.
const MOST_SATURATED: f64 = 0.001;
/// Decibels that weights with twice as many bits must gain for the weights to be the cause of an error.
const LEAST_GAIN: f64 = 3.0;

/// Number of bits of the weights of an integer numeric.
pub fn weight_bits(numeric: Numeric) -> u8 {
    if numeric == Numeric::I4x16 { 4 } else { 8 }
}

/// Whether an output is farther from that of `f32` than a good image's.
pub fn is_poor(output: &Difference) -> bool {
    output.noise > 0.0 && !(output.snr_db() >= LEAST_SNR_DB)
}

/// A value of the report's table.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// `input`, `layer`, `state` or `candidate`.
    pub kind: &'static str,
    /// Name of the value.
    pub name: String,
    /// Signal-to-noise ratio against `f32`.
    pub ratio: String,
    /// The same in dB; `None` if it is not finite.
    pub snr_db: Option<f64>,
    /// Greatest absolute error.
    pub worst: String,
    /// Range that the rule has given to the value. The integers of a bounded output cover the range up to 1.
    pub range: String,
    /// The rule that gave the range.
    pub rule: String,
    /// Share of values at an end of the range or, for a candidate, beyond it in `f32`.
    pub saturated: f64,
}

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
    /// The model's file, the image and the date, for the reader.
    pub heading: [&'a str; 3],
    /// The model.
    pub model: &'a Canonical,
    /// Source of the ranges, for the reader.
    pub source: &'a str,
    /// The numeric of the image.
    pub numeric: Numeric,
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
    /// Decibels that the output gains if the [weakest](weakest) layer has weights with twice as many bits; `None` if this was not
    /// tried.
    pub wider_gains: Option<f64>,
}

/// The value that costs the output most of its precision.
#[derive(Clone, Copy, Debug)]
pub struct Weakest<'a> {
    /// `input` or `layer`.
    pub kind: &'static str,
    /// The value.
    pub value: &'a Difference,
}

/// The input, or the layer with weights, that adds most noise in proportion to its signal; `None` if no value adds any.
/// Layers without weights only pass on the noise of other layers.
pub fn weakest<'a>(comparison: &'a Comparison, model: &Canonical) -> Option<Weakest<'a>> {
    let has_weights = |layer: &str| {
        let of_layer = format!("{layer}.");
        // The index of a gather is no weight.
        let is_weight = |name: &String| name.strip_prefix(&of_layer).is_some_and(|tensor| tensor != "index");
        model.tensors.keys().any(is_weight)
    };
    let Comparison { inputs, layers, .. } = comparison;
    let noise = |of: &Difference| if of.noise > 0.0 { of.noise / of.signal } else { 0.0 };
    // The greatest noise of the values that a layer reads.
    let before = |layer: &str| {
        let nodes = &model.architecture.nodes;
        let read = nodes.iter().filter(|node| node.name == layer).flat_map(|node| &node.inputs);
        let known = read.filter_map(|name| inputs.iter().chain(layers).find(|value| value.name == *name));
        known.map(noise).fold(0.0, f64::max)
    };
    let of_inputs = inputs.iter().map(|value| (noise(value), Weakest { kind: "input", value }));
    let of_layers = layers.iter().filter(|value| has_weights(&value.name));
    let of_layers = of_layers.map(|value| (noise(value) - before(&value.name), Weakest { kind: "layer", value }));
    let all = of_inputs.chain(of_layers).filter(|(added, _)| *added > 0.0);
    all.max_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, weakest)| weakest)
}

impl Report<'_> {
    /// A heading, a table with one line for each value, and the verdict.
    pub fn text(&self) -> String {
        let [model, image, date] = self.heading;
        let steps = self.comparison.steps;
        let mut text = format!(
            "model        {model}\nimage        {image}\ndate         {date}\ncalibration  {}: {steps} steps, over which \
             integers are compared with f32\n\n",
            self.source
        );
        let rows = self.rows();
        let width = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0).max(4);
        text += &format!(
            "{:<9}  {:<width$}  {:>9}  {:>11}  {:>12}  {:<16}  {:>10}\n",
            "kind", "name", "SNR", "worst error", "range", "rule", "saturated"
        );
        for Row { kind, name, ratio, worst, range, rule, saturated, .. } in rows {
            let saturated = format!("{:.4} %", 100.0 * saturated);
            text += &format!(
                "{kind:<9}  {name:<width$}  {ratio:>9}  {worst:>11}  {range:>12}  {rule:<16}  {saturated:>10}\n"
            );
        }
        text += "\n";
        text += &self.verdict();
        text
    }

    /// The rows of the table: inputs, layers, cell states, and candidates that are not visible in any value.
    pub fn rows(&self) -> Vec<Row> {
        let Comparison { inputs, layers, states, .. } = self.comparison;
        let (range, rule) = (|name: &str| self.shown_range(name), |name: &str| self.rules.of(name).to_string());
        let row = |kind, value: &Difference| Row {
            kind,
            name: value.name.clone(),
            ratio: value.ratio(),
            snr_db: Some(value.snr_db()).filter(|ratio| ratio.is_finite()),
            worst: format!("{:.2e}", value.max_abs_error),
            range: range(&value.name),
            rule: rule(&value.name),
            saturated: value.saturation(),
        };
        let values = [("input", inputs), ("layer", layers), ("state", states)];
        let rows = values.into_iter().flat_map(|(kind, values)| values.iter().map(move |value| row(kind, value)));
        let candidates = self.seen.candidates().map(|name| {
            let (values, beyond) = self.seen.beyond(name, self.ranges.of(name));
            let saturated = beyond as f64 / values.max(1) as f64;
            let (ratio, worst) = ("-".to_owned(), "-".to_owned());
            let (name, range, rule) = (name.to_owned(), range(name), rule(name));
            Row { kind: "candidate", name, ratio, snr_db: None, worst, range, rule, saturated }
        });
        rows.chain(candidates).collect()
    }

    /// The decisions, if there are any, and the ratio at the output with what costs most of it: a line each.
    pub fn verdict(&self) -> String {
        let decisions = self.decisions.map(Decisions::text).unwrap_or_default();
        let differs = self.comparison.output.noise > 0.0;
        let why = self.weakest().filter(|_| differs).map_or_else(String::new, |why| format!("; {why}"));
        format!("{decisions}output {}{why}\n", self.comparison.output.ratio())
    }

    /// Whether the output is farther from that of `f32` than a good image's.
    fn is_poor(&self) -> bool {
        is_poor(&self.comparison.output)
    }

    /// `weakest: layer gru, 17.9 dB`, and for a poor image why, and what to do.
    fn weakest(&self) -> Option<String> {
        let weakest = weakest(self.comparison, self.model)?;
        let Weakest { kind, value } = weakest;
        let named = format!("weakest: {kind} {}, {}", value.name, value.ratio());
        Some(if self.is_poor() { format!("{named}, because {}", self.cause(weakest)) } else { named })
    }

    /// Why a value is imprecise, and a remedy.
    fn cause(&self, Weakest { kind, value }: Weakest<'_>) -> String {
        let name = &value.name;
        let of_value = format!("{name}.");
        let states = self.comparison.states.iter().filter(|state| state.name.starts_with(&of_value));
        let saturated = states.chain([value]).map(Difference::saturation).fold(0.0, f64::max);
        if saturated > MOST_SATURATED {
            let share = 100.0 * saturated;
            return format!("{share:.2} % of its values saturate; try calibration data like the device's");
        }
        match (self.numeric, self.wider_gains) {
            (numeric, Some(gain)) if gain >= LEAST_GAIN => {
                let bits = 2 * weight_bits(numeric);
                format!("its weights have too few bits; try --keep {name}={bits} or --at-least {LEAST_SNR_DB}dB")
            }
            (Numeric::I4x16, _) if kind == "layer" => {
                format!("its weights have 4 bits; try --at-least {LEAST_SNR_DB}dB or --numeric i8x16")
            }
            (_, None) if kind == "layer" => "its weights and values have too few bits; try --numeric f16".to_owned(),
            _ => {
                "16 bits are too few for its values or for what it reads; try inputs of one magnitude or --numeric f16"
                    .to_owned()
            }
        }
    }

    /// A range as text.
    fn shown_range(&self, name: &str) -> String {
        let range = self.ranges.of(name);
        if range == 0.0 || (1e-3..1e6).contains(&range) { format!("{range:.4}") } else { format!("{range:.3e}") }
    }

    /// Warnings about the quality of the image. Each names the layer at fault and a remedy. Empty for a good image.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        for port in &self.model.architecture.inputs {
            if self.seen.most(&port.name) == 0.0 {
                let name = &port.name;
                warnings.push(format!("the calibration data are zero throughout in {name:?}; try real data"));
            }
        }
        if self.is_poor() {
            let why = self.weakest().map_or_else(String::new, |why| format!("; {why}"));
            let ratio = self.comparison.output.ratio();
            warnings.push(format!("the output is only {ratio} from that of f32{why}"));
        }
        if let Some(Decisions { clips, same, what, .. }) = self.decisions
            && (clips - same) as f64 > MOST_CHANGED * *clips as f64
        {
            let changed = clips - same;
            let weakest = weakest(self.comparison, self.model).map_or_else(String::new, |Weakest { kind, value }| {
                format!("; weakest: {kind} {}, {}", value.name, value.ratio())
            });
            let remedy = if self.comparison.output.snr_db() < WANTED_SNR_DB {
                format!("--at-least {WANTED_SNR_DB}dB or more calibration data")
            } else {
                "more calibration data".to_owned()
            };
            warnings.push(format!(
                "{changed} of {clips} decisions of {what} differ from those of f32{weakest}; try {remedy}"
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
        let [model, image, date] = self.heading;
        let weakest = weakest(self.comparison, self.model).map(|weakest| weakest.value.name.as_str());
        json!({
            "model": model, "image": image, "date": date, "verdict": self.verdict(),
            "ranges_from": self.source, "steps": steps, "inputs": all(inputs), "layers": all(layers),
            "states": all(states), "candidates": candidates, "output": errors(output), "decisions": decisions,
            "weakest": weakest, "warnings": self.warnings(),
        })
    }
}

impl Decisions {
    /// The decisions as one line of text.
    pub fn text(&self) -> String {
        let Self { clips, float_correct, correct, same, what } = self;
        format!("decisions as in f32: {same} of {clips}; {correct} are right, {float_correct} in f32 ({what})\n")
    }
}

/// JSON has no infinity: equal values have the ratio null.
fn errors(difference: &Difference) -> Value {
    json!({ "max_abs_error": difference.max_abs_error, "snr_db": difference.snr_db() })
}

#[cfg(test)]
mod tests {
    use super::weakest;
    use crate::canonical::{Architecture, Canonical, Node, Tensor};
    use crate::compare::{Comparison, Difference};

    /// A gather of the elements that are least exact has a lower ratio than the layer that computes them.
    #[test]
    fn a_gather_only_passes_on_noise() {
        let layer = |name: &str, from: &str| Node {
            name: name.to_owned(),
            cell: name.to_owned(),
            inputs: vec![from.to_owned()],
            ..Node::default()
        };
        let nodes = vec![layer("dense", "x"), layer("gather", "dense")];
        let tensors =
            ["dense.weights", "gather.index"].map(|name| (name.to_owned(), Tensor { shape: vec![1], data: vec![0.0] }));
        let architecture = Architecture { version: 1, nodes, ..Architecture::default() };
        let model = Canonical { architecture, tensors: tensors.into() };
        let difference =
            |name: &str, noise| Difference { name: name.to_owned(), signal: 1.0, noise, ..Default::default() };
        let comparison = Comparison {
            inputs: vec![difference("x", 0.0)],
            layers: vec![difference("dense", 0.01), difference("gather", 0.1)],
            states: Vec::new(),
            output: difference("", 0.1),
            steps: 1,
        };
        assert_eq!(weakest(&comparison, &model).expect("one adds noise").value.name, "dense");
    }
}
