//! Costs of a model on a core, estimated from recorded figures: for each kind of layer, weights of the terms whose sum is
//! the number of instructions. `cargo xtask costs` counts them under QEMU and writes `tools/cli/costs.json`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use serde::Deserialize;
use tidegate::front_end::{Method, Mfcc};
use tidegate::internals::cell::{OTHER, UNIT_SCALES};
use tidegate::internals::node::Node;
use tidegate::{Model, Schedule};

use crate::cadence::extent;

/// Number of terms of a cost.
pub const TERMS: usize = 6;
/// What each term counts in a layer: the layer itself, rows of a step or pixels, outputs, activations, moved elements, bytes
/// of weights. The bytes include the padding of a layout, and so do the products.
pub type Terms = [f64; TERMS];

/// The estimate for a model on a core.
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    /// Instructions of a step, on average: all states of the schedule run, and layers behind the last state when a window
    /// is complete.
    pub step: f64,
    /// Instructions of a step in which a window is complete.
    pub longest: f64,
    /// Instructions of the front end for a step; 0 without a front end.
    pub front_end: f64,
    /// Cycles of `step`, if the core has a table of cycles.
    pub cycles: Option<f64>,
    /// Bytes of stack of a step.
    pub stack: u64,
    /// Bytes of code and constants, built for small size: the step, the layers, the front end and the detector, without the
    /// image.
    pub code: u64,
    /// Layers without figures, which are left out.
    pub unknown: Vec<String>,
}

/// The figures of every core.
#[derive(Debug, Deserialize)]
pub struct Costs {
    /// The compiler of the code.
    pub compiler: String,
    cores: BTreeMap<String, Core>,
}

#[derive(Debug, Deserialize)]
struct Core {
    /// Instructions of a step apart from its layers, by numeric.
    base: BTreeMap<String, f64>,
    /// By [`key`].
    layers: BTreeMap<String, Figures>,
    /// By [`front_end_key`].
    front_ends: BTreeMap<String, Figures>,
    /// Bytes of code and constants, and the functions that need them.
    #[serde(default)]
    code: Vec<(u64, BTreeSet<String>)>,
}

#[derive(Debug, Deserialize)]
struct Figures {
    instructions: Terms,
    /// Cycles for an instruction, if the core has a table.
    #[serde(default)]
    cycles: Option<f64>,
    #[serde(default)]
    stack: u64,
    /// The function, by its name in [`Core::code`].
    #[serde(default)]
    code: String,
}

impl Figures {
    fn of(&self, terms: &Terms) -> f64 {
        self.instructions.iter().zip(terms).map(|(weight, term)| weight * term).sum::<f64>().max(0.0)
    }
}

/// The kind of a layer, as far as its cost depends on it: cell, options, activation if it has one, numeric and layout.
pub fn key(model: &Model<'_>, node: &Node<'_>) -> String {
    let mut key = node.spec().name.to_owned();
    for (bit, option) in (0..).zip(node.spec().options) {
        if node.has(bit) {
            key += &format!("+{option}");
        }
    }
    let in_integers = model.numeric().is_integer();
    for (name, holds) in [
        ("grouped", extent(node, "groups").is_some_and(|groups| groups > 1)),
        ("wide", node.is_wide()),
        ("unit_scales", in_integers && node.has(UNIT_SCALES)),
        ("other", in_integers && node.has(OTHER)),
    ] {
        if holds {
            key += &format!("+{name}");
        }
    }
    if node.spec().activations.len() == 1 {
        key += &format!("/{}", node.activation(0).name());
    }
    format!("{key} {} {}", model.numeric().name(), model.layout().name())
}

/// The terms of a layer.
pub fn terms(node: &Node<'_>) -> Terms {
    let (work, rows) = (node.step_work(), f64::from(node.unroll.map_or(1, |unroll| unroll.steps)));
    let pixels: usize = ["out_height", "out_width", "rows"].into_iter().filter_map(|name| extent(node, name)).product();
    let outputs = rows * node.output_size as f64;
    [1.0, rows * pixels as f64, outputs, work.curves as f64, work.moves as f64, work.bytes as f64]
}

/// The kind of a front end, as far as its cost depends on it.
pub fn front_end_key(front_end: &Mfcc<'_>, in_integers: bool) -> String {
    let settings = front_end.settings();
    let method = match settings.method {
        Method::Mfcc => "mfcc",
        Method::LogMel(_) => "log_mel",
        Method::Micro => "micro",
        Method::MicroWithoutGain => "micro_without_gain",
    };
    let numbers = if in_integers { "integers" } else { "floats" };
    format!("{method} {} {numbers}", settings.fft_len)
}

/// The terms of a front end: frame, length of the window, step of the window, bands, products of the cosine transform.
pub fn front_end_terms(front_end: &Mfcc<'_>) -> Terms {
    let settings = front_end.settings();
    let products = match settings.method {
        Method::Mfcc => settings.mel_bands * settings.coefficients,
        _ => 0,
    };
    [1, settings.window_len, settings.stride_len, settings.mel_bands, products, 0].map(f64::from)
}

impl Costs {
    /// Reads a record.
    ///
    /// # Errors
    /// If it is malformed.
    pub fn from_json(text: &str) -> serde_json::Result<Self> {
        serde_json::from_str(text)
    }

    /// The cores, by their names in figures: `m0plus`, `m4`.
    pub fn cores(&self) -> impl Iterator<Item = &str> {
        self.cores.keys().map(String::as_str)
    }

    /// The cost of a step on a core; `None` if there are no figures of the core.
    pub fn of(&self, model: &Model<'_>, core: &str) -> Option<Cost> {
        let core = self.cores.get(core)?;
        let numeric = model.numeric().name();
        let base = core.base.get(numeric).copied().unwrap_or_default();
        let states = f64::from(model.schedule().states());
        // Average number of states that run in a step, and of windows that a step completes.
        let (running, complete) = match model.schedule() {
            Schedule::Endless => (1.0, 1.0),
            Schedule::Windows { frames, every } => (f64::from(frames) / f64::from(every), 1.0 / f64::from(every)),
        };
        let with_state = model.stateful_nodes().count();
        let (mut step, mut longest, mut cycles) = (running * base, states * base, Some(running * base));
        let numbers = if model.numeric().is_integer() { "integers" } else { "floats" };
        let mut functions = BTreeSet::from([format!("step {numbers}")]);
        let (mut stack, mut unknown) = (0, Vec::new());
        // Number of values that each slot of the arena gets in a window, or in a step of a model without windows.
        let frames = match model.schedule() {
            Schedule::Endless => None,
            Schedule::Windows { frames, .. } => Some(f64::from(frames)),
        };
        let whole = frames.unwrap_or(1.0);
        let mut values: Vec<(Range<usize>, f64)> = Vec::new();
        for (index, node) in model.nodes().enumerate() {
            let values_of =
                |start: usize| values.iter().rev().find(|(slot, _)| slot.contains(&start)).map_or(whole, |of| of.1);
            let given =
                (0..).map_while(|slot| node.slot(slot)).map(|(start, _)| values_of(start)).fold(whole, f64::min);
            let written = match (extent(&node, "hop"), extent(&node, "length"), frames) {
                // A window node has no output until it is full; prefilled steps count as input.
                (Some(hop), Some(length), Some(_)) => {
                    let filled = given + extent(&node, "prefill").unwrap_or_default() as f64;
                    ((filled - length as f64) / hop.max(1) as f64 + 1.0).floor().clamp(0.0, given)
                }
                (Some(hop), ..) => given / hop.max(1) as f64,
                (None, ..) => given,
            };
            values.push((node.output(), written));
            let (rate, complete_rate) = (given / whole, written / whole);
            let key = key(model, &node);
            let Some(figures) = core.layer(&key) else {
                unknown.push(key);
                continue;
            };
            let all = figures.of(&terms(&node)) + core.other_curves(model, &node);
            // A step without an output moves the input into the window.
            let moved = figures.of(&[1.0, 1.0, 0.0, 0.0, node.input_size as f64, 0.0]).min(all);
            let instructions = complete_rate * all + (rate - complete_rate) * moved;
            let (often, most) = if index < with_state { (running, states) } else { (complete, 1.0) };
            step += often * instructions;
            longest += most * all;
            cycles = cycles.zip(figures.cycles).map(|(sum, ratio)| sum + often * ratio * instructions);
            stack = stack.max(figures.stack);
            functions.insert(figures.code.clone());
        }
        let in_integers = model.integer_front_end().is_some();
        let mut front_end = 0.0;
        if let Some(settings) = model.front_end() {
            let key = front_end_key(settings, in_integers);
            match core.front_ends.get(&key) {
                Some(figures) => {
                    front_end = figures.of(&front_end_terms(settings));
                    functions.extend([figures.code.clone(), format!("front end {numbers}")]);
                }
                None => unknown.push(format!("front end {key}")),
            }
        }
        if model.detector().is_some() {
            functions.insert(format!("detector {numbers}"));
        }
        let is_needed = |names: &BTreeSet<String>| !names.is_disjoint(&functions);
        let code = core.code.iter().filter(|(_, names)| is_needed(names)).map(|(bytes, _)| bytes).sum();
        Some(Cost { step, longest, front_end, cycles, stack, code, unknown })
    }
}

impl Core {
    /// Additional cost of activations other than those of the spec, in floats; integer tables all cost the same. The figures
    /// of a layer with several activations were measured with those of the spec.
    fn other_curves(&self, model: &Model<'_>, node: &Node<'_>) -> f64 {
        let spec = node.spec();
        let places = spec.activations.len();
        if model.numeric().is_integer() || places < 2 {
            return 0.0;
        }
        let curve = |name: &str| {
            let key = format!("activation/{name} {} {}", model.numeric().name(), model.layout().name());
            self.layers.get(&key).map_or(0.0, |figures| figures.of(&[0.0, 0.0, 1.0, 1.0, 1.0, 0.0]))
        };
        let rows = f64::from(node.unroll.map_or(1, |unroll| unroll.steps));
        let more = spec.activations.iter().enumerate().map(|(index, place)| {
            // One activation serves all gates.
            let times = if place.name == "gate_activation" { spec.curves.len().saturating_sub(places - 1) } else { 1 };
            (curve(node.activation(index).name()) - curve(place.default.name())) * (times * node.hidden_size) as f64
        });
        rows * more.sum::<f64>()
    }

    /// The figures of a kind of layer, or of the most similar one: the same cell, numeric and layout.
    fn layer(&self, key: &str) -> Option<&Figures> {
        if let Some(figures) = self.layers.get(key) {
            return Some(figures);
        }
        let parts = |key: &str| -> Option<(String, Vec<String>, String)> {
            let (layer, place) = key.split_once(' ')?;
            let mut words = layer.split(['+', '/']).map(str::to_owned);
            Some((words.next()?, words.collect(), place.to_owned()))
        };
        let (cell, words, place) = parts(key)?;
        let differences = |other: &str| {
            let (other_cell, others, other_place) = parts(other)?;
            let missing = words.iter().filter(|word| !others.contains(word)).count();
            let surplus = others.iter().filter(|word| !words.contains(word)).count();
            (other_cell == cell && other_place == place).then_some(missing + surplus)
        };
        let near = self.layers.iter().filter_map(|(other, figures)| Some((differences(other)?, figures)));
        near.min_by_key(|(differences, _)| *differences).map(|(_, figures)| figures)
    }
}
