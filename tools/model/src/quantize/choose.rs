//! Choices that no formula makes well: each is tried on calibration data, and kept if the output comes nearer to that of
//! `f32`.

use std::collections::BTreeSet;

use tidegate::internals::cell::{CellKind, UNIT_SCALES, WIDE};
use tidegate::{Layout, Numeric};

use super::auto::is_fixed;
use super::lstm::UNIT_MARGIN;
use super::{RangeRule, RangeRules, Ranges, RangesError};
use crate::buffer::ImageBuffer;
use crate::canonical::{Architecture, Canonical, Node};
use crate::compare::Comparison;
use crate::pack::{pack, pack_with};

/// Decibels that a choice must gain at the output.
const LEAST_GAIN: f64 = 1.0;
/// Decibels that rounding to nearest must gain over rounding by what calibration observed. The expected errors of sums do
/// not say how an error acts later on.
const BETTER: f64 = 0.1;
/// Margins that are tried.
const MARGINS: [Margin; 4] = [
    Margin { factor: 16.0, cost: 0.5, enough: 60.0 },
    Margin { factor: 8.0, cost: 0.5, enough: 60.0 },
    Margin { factor: 4.0, cost: 0.5, enough: 52.0 },
    Margin { factor: 2.0, cost: 2.0, enough: 52.0 },
];
/// The ratio of outputs without noise.
const MOST_SNR_DB: f64 = 200.0;
/// Number of steps of the calibration that trials use.
const STEPS: usize = 3000;
/// Divisors of the range of an input that are tried, as powers of two.
const NARROWER: std::ops::RangeInclusive<i32> = 1..=5;

/// A margin for values outside the calibration.
#[derive(Clone, Copy, Debug)]
struct Margin {
    /// The range as a multiple of the observed range.
    factor: f32,
    /// Decibels that the margin may cost at the output.
    cost: f64,
    /// Decibels at the output that are enough, whatever the margin costs. Rounding weights to 8 bits usually costs more.
    enough: f64,
}

impl Margin {
    /// The least ratio at the output with this margin, given the ratio without.
    fn least(self, without: f64, goal: &Goal) -> f64 {
        let asks_for_more = !goal.wide.is_empty() || goal.at_least.is_some() || goal.budget.is_some();
        let least = without - self.cost;
        if asks_for_more { least } else { self.enough.min(least) }
    }
}

/// Goal for the quality and the size of an image.
#[derive(Clone, Debug, Default)]
pub struct Goal {
    /// Layers whose weights have 16 bits.
    pub wide: BTreeSet<String>,
    /// Layers whose weights keep 8 bits.
    pub narrow: BTreeSet<String>,
    /// Decibels at the output. Layers get weights of 16 bits until it is reached.
    pub at_least: Option<f64>,
    /// Bytes of the image. Layers get weights of 16 bits, those that gain most first, while they fit.
    pub budget: Option<usize>,
}

/// The quality and the size of an image.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    snr_db: f64,
    bytes: usize,
}

/// Tries choices for one model.
struct Trials<'a> {
    model: &'a Canonical,
    numeric: Numeric,
    reference: ImageBuffer,
    /// For each sequence and each input, `[steps, size]`.
    sequences: Vec<Vec<&'a [f32]>>,
}

impl<'a> Trials<'a> {
    fn new(model: &'a Canonical, numeric: Numeric, sequences: &'a [Vec<Vec<f32>>]) -> Result<Self, RangesError> {
        let reference = ImageBuffer::new(&pack(model, Numeric::F32)?);
        let (mut left, mut used) = (STEPS, Vec::new());
        for inputs in sequences {
            let sizes = model.architecture.inputs.iter().map(|input| input.size);
            let cut = inputs.iter().zip(sizes).map(|(input, size)| &input[..input.len().min(left * size)]);
            let cut: Vec<&[f32]> = cut.collect();
            let size = model.architecture.inputs.first().map_or(1, |input| input.size.max(1));
            left = left.saturating_sub(cut.first().map_or(0, |input| input.len() / size));
            used.push(cut);
            if left == 0 {
                break;
            }
        }
        Ok(Self { model, numeric, reference, sequences: used })
    }

    /// The outcome with these ranges; `None` if no step has an output.
    fn of(&self, ranges: &Ranges) -> Result<Option<Outcome>, RangesError> {
        let bytes = pack_with(self.model, self.numeric, ranges, Layout::Portable)?;
        let image = ImageBuffer::new(&bytes);
        let (image, reference) = (image.model(), self.reference.model());
        let (image, reference) = (image.map_err(RangesError::Image)?, reference.map_err(RangesError::Image)?);
        let mut comparison = Comparison::new(&image, &reference);
        for inputs in &self.sequences {
            comparison.run(&image, &reference, inputs, |_| ())?;
        }
        let output = comparison.output;
        // Without noise the ratio is infinite.
        let snr_db = if output.noise > 0.0 { output.snr_db() } else { MOST_SNR_DB };
        Ok((output.values > 0).then_some(Outcome { snr_db, bytes: bytes.len() }))
    }
}

/// Improves ranges by what calibration data show: rounding of weights, scales of the cell state for each unit, margins for values outside the
/// calibration, narrower ranges of inputs, and weights of 16 bits where the goal asks for them. Values with a rule other
/// than [`RangeRule::Auto`] keep their range.
///
/// # Errors
/// If a trial cannot be packed or run.
pub fn choose(
    model: &Canonical,
    numeric: Numeric,
    mut ranges: Ranges,
    rules: &RangeRules,
    sequences: &[Vec<Vec<f32>>],
    goal: &Goal,
) -> Result<Ranges, RangesError> {
    ranges.add_wide(goal.wide.iter().cloned());
    let trials = Trials::new(model, numeric, sequences)?;
    // The margins of the rule follow from formulas. Where they cost too much, all values start without.
    let observed = without_margins(&ranges, rules);
    // The caller reports why a model cannot be packed.
    let (Ok(Some(with)), Ok(Some(without))) = (trials.of(&ranges), trials.of(&observed)) else { return Ok(ranges) };
    let mut best = with;
    if with.snr_db < MARGINS[3].least(without.snr_db, goal) {
        (best, ranges) = (without, observed);
    }
    // `least` gives the ratio that the change must reach from the best one so far.
    let mut attempt = |ranges: &mut Ranges, changed: Ranges, least: &dyn Fn(f64) -> f64| -> bool {
        let reached = trials.of(&changed).ok().flatten();
        let better = reached.filter(|outcome| outcome.snr_db >= least(best.snr_db));
        if let Some(outcome) = better {
            best = outcome;
            *ranges = changed;
        }
        better.is_some()
    };
    let gain = |best: f64| best + LEAST_GAIN;
    let nearest = ranges.nearest();
    attempt(&mut ranges, nearest, &|best| best + BETTER);
    for node in &model.architecture.nodes {
        if takes(node, UNIT_SCALES) {
            let mut changed = ranges.clone();
            // Units with scales of their own leave room for a greater margin.
            let cell_state = format!("{}.cell_state", node.name);
            if rules.of(&cell_state) == RangeRule::Auto {
                changed.set(&cell_state, UNIT_MARGIN * ranges.of(&cell_state));
            }
            changed.add_unit_scales([node.name.clone()]);
            attempt(&mut ranges, changed, &gain);
        }
    }
    // All nodes at once; if that costs too much, each node alone.
    let groups = open_values(model, &ranges, rules);
    for names in std::iter::once(groups.concat()).chain(groups).filter(|names| !names.is_empty()) {
        for margin in MARGINS {
            let mut changed = ranges.clone();
            names.iter().for_each(|name| changed.set(name, ranges.of(name).max(margin.factor * peak(&ranges, name))));
            if changed == ranges || attempt(&mut ranges, changed, &|best| margin.least(best, goal)) {
                break;
            }
        }
    }
    if model.architecture.front_end.is_none() {
        for input in model.architecture.inputs.iter().filter(|input| rules.of(&input.name) == RangeRule::Auto) {
            let whole = ranges.of(&input.name);
            // A range with a margin is not narrowed: the calibration cannot show what the margin is for.
            let is_open = !has_margin(&ranges, &input.name);
            for power in NARROWER.filter(|_| is_open) {
                let mut changed = ranges.clone();
                changed.set(&input.name, whole * 2.0_f32.powi(-power));
                if !attempt(&mut ranges, changed, &gain) {
                    break;
                }
            }
        }
    }
    widen(&trials, &mut ranges, best, goal);
    Ok(ranges)
}

/// The values and states of each node, and the inputs, whose ranges follow from the calibration; without bounded outputs.
fn open_values(model: &Canonical, ranges: &Ranges, rules: &RangeRules) -> Vec<Vec<String>> {
    let Architecture { inputs, nodes, front_end, .. } = &model.architecture;
    let is_open = |name: &&str| rules.of(name) == RangeRule::Auto && ranges.of(name) > 0.0;
    let of_node = |node: &Node| -> Vec<String> {
        let states = format!("{}.", node.name);
        let is_own = |name: &&str| (*name == node.name && !is_fixed(node)) || name.starts_with(&states);
        ranges.names().filter(is_own).filter(is_open).map(str::to_owned).collect()
    };
    // The front end sets the scale of its features.
    let inputs = inputs.iter().filter(|_| front_end.is_none()).map(|input| input.name.as_str());
    let of_inputs = inputs.filter(is_open).map(|name| vec![name.to_owned()]);
    nodes.iter().map(of_node).chain(of_inputs).filter(|names| !names.is_empty()).collect()
}

/// Whether the range of a value exceeds the values that calibration observed.
fn has_margin(ranges: &Ranges, name: &str) -> bool {
    ranges.of(name) > peak(ranges, name)
}

/// The greatest magnitude of a value that calibration observed.
fn peak(ranges: &Ranges, name: &str) -> f32 {
    let peaks = ranges.elements(name).into_iter().flat_map(|elements| &elements.peaks);
    peaks.fold(0.0_f32, |most, peak| most.max(*peak))
}

/// The ranges that calibration observed, for values without a rule of their own.
fn without_margins(ranges: &Ranges, rules: &RangeRules) -> Ranges {
    let mut observed = ranges.clone();
    for name in ranges.names().filter(|name| rules.of(name) == RangeRule::Auto && has_margin(ranges, name)) {
        observed.set(name, peak(ranges, name));
    }
    observed
}

/// Gives weights of 16 bits to the layers that gain most for each byte, until the goal is reached.
fn widen(trials: &Trials<'_>, ranges: &mut Ranges, mut best: Outcome, goal: &Goal) {
    let wanted = match (goal.at_least, goal.budget) {
        (None, None) => return,
        (at_least, _) => at_least.unwrap_or(f64::INFINITY),
    };
    let budget = goal.budget.unwrap_or(usize::MAX);
    while best.snr_db < wanted {
        let is_open = |name: &&str| !ranges.is_wide(name) && !goal.narrow.contains(*name);
        let tried = wide_layers(trials.model).filter(is_open).filter_map(|name| {
            let mut changed = ranges.clone();
            changed.add_wide([name.to_owned()]);
            let outcome = trials.of(&changed).ok().flatten().filter(|outcome| outcome.bytes <= budget)?;
            let gain = (outcome.snr_db - best.snr_db) / outcome.bytes.saturating_sub(best.bytes).max(1) as f64;
            Some((gain, outcome, changed))
        });
        let Some((_, outcome, changed)) = tried.max_by(|a, b| a.0.total_cmp(&b.0)) else { return };
        (best, *ranges) = (outcome, changed);
    }
}

/// The names of the layers that can have weights of 16 bits.
pub fn wide_layers(model: &Canonical) -> impl Iterator<Item = &str> {
    model.architecture.nodes.iter().filter(|node| takes(node, WIDE)).map(|node| node.name.as_str())
}

/// Whether the integer form of a node's cell has this option.
fn takes(node: &Node, option: u32) -> bool {
    let integer = CellKind::from_name(&node.cell).and_then(CellKind::integer_spec);
    integer.is_some_and(|integer| integer.options >> option & 1 == 1)
}
