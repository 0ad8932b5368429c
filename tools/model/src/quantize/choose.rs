//! Choices for quantization that no formula makes well. Each is tried on calibration data, and kept if it brings the
//! output nearer to that of `f32`.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use tidegate::internals::cell::{CellKind, UNIT_SCALES, WIDE};
use tidegate::{Layout, Numeric};

use super::auto::{is_fixed, is_steep};
use super::draw::{self, pseudorandom};
use super::equalize::equalized;
use super::lstm::UNIT_MARGIN;
use super::terms::fine_bits;
use super::{RangeRule, RangeRules, Ranges, RangesError, Seen};
use crate::backend::Engine;
use crate::buffer::ImageBuffer;
use crate::canonical::{Architecture, Canonical, Node, Schedule};
use crate::pack::{pack, pack_with};
use crate::runner;

/// Decibels that a choice must gain at the output.
const LEAST_GAIN: f64 = 1.0;
/// Decibels that rounding to nearest must gain over rounding that is weighted by the observed values. The expected errors
/// of sums do not show how an error acts later on.
const BETTER: f64 = 0.1;
/// Margins that are tried, the greatest first.
const MARGINS: [Margin; 4] = [
    Margin { factor: 16.0, cost: 0.5, enough: 60.0 },
    Margin { factor: 8.0, cost: 0.5, enough: 60.0 },
    Margin { factor: 4.0, cost: 0.5, enough: 52.0 },
    LEAST_MARGIN,
];
/// A value that is clipped costs more than one that is rounded coarsely, so the least margin may cost most. Weights of 8 bits
/// alone add an error about 45 dB below an output; an error of half that power is small beside it.
const LEAST_MARGIN: Margin = Margin { factor: 2.0, cost: 2.0, enough: 48.0 };
/// Signal-to-noise ratio of the output, in decibels, from which finer sums and other grids are no longer tried.
const ENOUGH_DB: f64 = 52.0;
/// Factors of the grids of weights that are tried.
const GRIDS: [f32; 3] = [1.04, 1.09, 1.15];
/// Signal-to-noise ratio in decibels that stands for an output without noise.
const MOST_SNR_DB: f64 = 200.0;
/// Number of steps of the calibration that trials use.
const STEPS: usize = 3000;
/// Signal-to-noise ratio of the output, in decibels, from which no more ways to round rows are drawn.
const DRAW_BELOW_DB: f64 = 50.0;
/// The greatest number of draws, and of multiply-accumulates in the trials of all draws. In a network with many weights, the
/// errors of its rows average out.
const MOST_DRAWS: usize = 150;
const DRAWN_MACS: u64 = 200_000_000;
/// Number of varied copies of the calibration data, and the maximum difference of their values. An improvement that occurs in
/// one copy only by chance then counts for less.
const VARIED: u64 = 3;
const VARIATION: f64 = 0.1;
/// The number of steps of the pieces that a varied copy takes from the calibration data, in another order. They bring a network
/// into other states.
const PIECES: RangeInclusive<usize> = 4..=32;
/// The greatest number of multiply-accumulates of a trial on varied copies. Greater models try only draws on them.
const VARIED_MACS: u64 = 10_000_000;
/// Share of the mean squared error that is added to the squared error of each step before the logarithm.
const LEAST_NOISE: f64 = 1e-3;
/// Divisors of the range of an input that are tried, as powers of two.
const NARROWER: RangeInclusive<i32> = 1..=5;

/// Goal for the quality and the size of an image.
#[derive(Clone, Debug, Default)]
pub struct Goal {
    /// Layers whose weights have twice as many bits as the numeric's.
    pub wide: BTreeSet<String>,
    /// Layers whose weights have the numeric's bits.
    pub narrow: BTreeSet<String>,
    /// Decibels at the output. Layers get weights with twice as many bits until it is reached.
    pub at_least: Option<f64>,
    /// Bytes of the image. Layers get weights with twice as many bits, those that gain most first, while they fit.
    pub budget: Option<usize>,
}

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

/// The quality and the size of an image.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    snr_db: f64,
    /// The ratio computed from the geometric mean of the steps' squared errors, which single steps hardly affect.
    typical_db: f64,
    bytes: usize,
}

/// Tries choices for one model.
struct Trials<'a> {
    model: &'a Canonical,
    numeric: Numeric,
    /// For each sequence and each input, `[steps, size]`.
    sequences: Vec<Vec<&'a [f32]>>,
    /// The outputs in `f32`: for each sequence and each output, `[rows, size]`.
    expected: Vec<Vec<Vec<f32>>>,
    /// Multiply-accumulates of a step.
    macs: u64,
    /// Called after each trial.
    tried: &'a dyn Fn(),
}

impl<'a> Trials<'a> {
    fn new(
        model: &'a Canonical,
        numeric: Numeric,
        sequences: &'a [Vec<Vec<f32>>],
        tried: &'a dyn Fn(),
    ) -> Result<Self, RangesError> {
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
        let float = pack(model, Numeric::F32)?;
        let expected = outputs(&float, &used)?;
        let macs = ImageBuffer::new(&float).model().map_err(RangesError::Image)?.work().macs;
        Ok(Self { model, numeric, sequences: used, expected, macs, tried })
    }

    /// The multiply-accumulates of a trial.
    fn work(&self) -> u64 {
        let size = self.model.architecture.inputs.first().map_or(1, |input| input.size.max(1));
        let steps: usize = self.sequences.iter().filter_map(|inputs| Some(inputs.first()?.len() / size)).sum();
        self.macs.saturating_mul(steps as u64)
    }

    /// The sequences, and copies of them whose values differ by up to [`VARIATION`]. The steps of a copy are in another order,
    /// except in a model that starts anew for each window.
    fn varied(&self) -> Vec<Vec<Vec<f32>>> {
        let mut drawn = 0;
        let mut random = || {
            drawn += 1;
            pseudorandom(drawn)
        };
        let Architecture { inputs, schedule, .. } = &self.model.architecture;
        let sizes: Vec<usize> = inputs.iter().map(|input| input.size.max(1)).collect();
        let owned = |inputs: &Vec<&[f32]>| inputs.iter().map(|input| input.to_vec()).collect();
        let mut all: Vec<Vec<Vec<f32>>> = self.sequences.iter().map(owned).collect();
        for inputs in (0..VARIED).flat_map(|_| &self.sequences) {
            let steps = inputs.iter().zip(&sizes).map(|(input, size)| input.len() / size).min().unwrap_or(0);
            let (mut copy, mut done) = (vec![Vec::new(); inputs.len()], 0);
            while done < steps {
                let left = steps - done;
                let (from, len) = match schedule {
                    Schedule::Windows { .. } => (done, left),
                    Schedule::Endless => {
                        let len = within(PIECES, random()).min(left);
                        (within(0..=steps - len, random()), len)
                    }
                };
                for ((copy, input), size) in copy.iter_mut().zip(inputs).zip(&sizes) {
                    let vary = |value: &f32| (f64::from(*value) * (1.0 + VARIATION * (2.0 * random() - 1.0))) as f32;
                    copy.extend(input[from * size..][..len * size].iter().map(vary));
                }
                done += len;
            }
            all.push(copy);
        }
        all
    }

    /// The outcome with these ranges; `None` if no step has an output.
    fn of(&self, ranges: &Ranges) -> Result<Option<Outcome>, RangesError> {
        let bytes = pack_with(self.model, self.numeric, ranges, Layout::Portable)?;
        let got = outputs(&bytes, &self.sequences)?;
        (self.tried)();
        let sizes = || self.model.architecture.outputs.iter().map(|output| output.size.max(1));
        let (mut signal, mut noises) = (0.0, Vec::new());
        for (got, expected) in got.iter().zip(&self.expected) {
            for ((got, expected), size) in got.iter().zip(expected).zip(sizes()) {
                signal += expected.iter().map(|&expected| f64::from(expected).powi(2)).sum::<f64>();
                noises
                    .extend(got.chunks(size).zip(expected.chunks(size)).map(|(got, expected)| squared(got, expected)));
            }
        }
        if noises.is_empty() {
            return Ok(None);
        }
        let (sum, count) = (noises.iter().sum::<f64>(), noises.len() as f64);
        let least = LEAST_NOISE * sum / count;
        let typical = (noises.iter().map(|noise| (noise + least).ln()).sum::<f64>() / count).exp() * count;
        // Without noise the ratio is infinite.
        let ratio = |noise: f64| if sum == 0.0 { MOST_SNR_DB } else { 10.0 * (signal / noise).log10() };
        Ok(Some(Outcome { snr_db: ratio(sum), typical_db: ratio(typical), bytes: bytes.len() }))
    }
}

/// The number in a range at this share of it, from 0 to 1.
fn within(range: RangeInclusive<usize>, share: f64) -> usize {
    range.start() + ((range.end() - range.start()) as f64 * share).round() as usize
}

/// The squared distance of two rows.
fn squared(got: &[f32], expected: &[f32]) -> f64 {
    got.iter().zip(expected).map(|(&got, &expected)| (f64::from(got) - f64::from(expected)).powi(2)).sum()
}

/// The outputs of an image over sequences. In `f32` the backends differ in the last bits, and an image must not depend on
/// the machine that packs it, so only integers run on the fastest one.
fn outputs(image: &[u8], sequences: &[Vec<&[f32]>]) -> Result<Vec<Vec<Vec<f32>>>, RangesError> {
    let image = ImageBuffer::new(image);
    let model = image.model().map_err(RangesError::Image)?;
    let engine = if model.numeric().is_integer() { Engine::fastest(&model) } else { Engine::Scalar(model) };
    sequences.iter().map(|inputs| Ok(runner::run(&engine, inputs, None)?.outputs)).collect()
}

/// The result of [`choose`].
#[derive(Debug)]
pub struct Chosen {
    /// The ranges.
    pub ranges: Ranges,
    /// The [`equalized`] model that the ranges are for, and its values; `None` if they are for the model as it is.
    pub equalized: Option<(Canonical, Seen)>,
}

/// Improves ranges by what calibration data show: rounding of weights, scales of the cell state for each unit, margins for
/// values outside the calibration, narrower ranges of inputs, finer sums, other grids of weights, other ways to round the rows
/// of a small network, and weights with twice as many bits where the goal asks for them. Values with a rule other than
/// [`RangeRule::Auto`] keep their range. The same is done for the [`equalized`] model, which is taken if its output is closer
/// to `f32`. `tried` is called after each trial.
///
/// # Errors
/// If a trial cannot be packed or run.
pub fn choose(
    model: &Canonical,
    numeric: Numeric,
    ranges: Ranges,
    rules: &RangeRules,
    sequences: &[Vec<Vec<f32>>],
    goal: &Goal,
    tried: &dyn Fn(),
) -> Result<Chosen, RangesError> {
    let search = |model: &Canonical, ranges: &Ranges| search(model, numeric, ranges, rules, sequences, goal, tried);
    let chosen = search(model, &ranges)?;
    let of_equalized = || {
        let other = equalized(model, &ranges)?;
        let slices: Vec<Vec<&[f32]>> =
            sequences.iter().map(|inputs| inputs.iter().map(Vec::as_slice).collect()).collect();
        let seen = Seen::measure(&other, slices.iter().map(Vec::as_slice)).ok()?;
        let trials_of = |model| Trials::new(model, numeric, sequences, tried).ok();
        let (trials, trials_of_other) = (trials_of(model)?, trials_of(&other)?);
        if trials.expected != trials_of_other.expected {
            return None;
        }
        let is_better = |ranges_of_other: &Ranges, ranges: &Ranges| {
            let outcome = trials_of_other.of(ranges_of_other).ok().flatten()?;
            let least = trials.of(ranges).ok().flatten().map(|outcome| outcome.snr_db + LEAST_GAIN);
            let fits = goal.budget.is_none_or(|budget| outcome.bytes <= budget);
            (fits && least.is_none_or(|least| outcome.snr_db >= least)).then_some(())
        };
        let ranges_of_other = seen.ranges(rules, &other);
        // A search takes a while, so there is none for a model that is not promising.
        is_better(&ranges_of_other, &ranges)?;
        let ranges_of_other = search(&other, &ranges_of_other).ok()?;
        is_better(&ranges_of_other, &chosen)?;
        drop(trials_of_other);
        Some((ranges_of_other, other, seen))
    };
    // If the equalized model cannot be packed or run, the model stays as it is.
    Ok(match of_equalized() {
        Some((ranges, model, seen)) => Chosen { ranges, equalized: Some((model, seen)) },
        None => Chosen { ranges: chosen, equalized: None },
    })
}

/// The best ranges for one model.
fn search(
    model: &Canonical,
    numeric: Numeric,
    ranges: &Ranges,
    rules: &RangeRules,
    sequences: &[Vec<Vec<f32>>],
    goal: &Goal,
    tried: &dyn Fn(),
) -> Result<Ranges, RangesError> {
    let mut ranges = ranges.clone();
    ranges.add_wide(goal.wide.iter().cloned());
    let trials = Trials::new(model, numeric, sequences, tried)?;
    // Draws on more work than this are not tried, so that their reference is not needed.
    let copies = if trials.work() <= DRAWN_MACS { Some(trials.varied()) } else { None };
    let varied = copies.as_ref().map(|copies| Trials::new(model, numeric, copies, tried)).transpose()?;
    let trials = varied.as_ref().filter(|varied| varied.work() <= VARIED_MACS).unwrap_or(&trials);
    // The caller reports why a model cannot be packed.
    let Ok(Some(best)) = trials.of(&ranges) else { return Ok(ranges) };
    let mut search = Search { trials, varied: varied.as_ref(), rules, goal, ranges, best };
    search.without_margins();
    search.nearest();
    search.unit_scales();
    search.margins();
    search.narrower_inputs();
    search.fine_sums();
    search.grids();
    search.draws();
    search.wider_weights();
    Ok(search.ranges)
}

/// The best ranges so far.
struct Search<'a> {
    trials: &'a Trials<'a>,
    /// Trials on varied copies of the calibration data; `None` for a model that is too great for draws.
    varied: Option<&'a Trials<'a>>,
    rules: &'a RangeRules,
    goal: &'a Goal,
    ranges: Ranges,
    best: Outcome,
}

impl Search<'_> {
    /// Takes these ranges if the output then has at least this ratio.
    fn attempt(&mut self, changed: Ranges, least_db: f64) -> bool {
        let outcome = self.trials.of(&changed).ok().flatten().filter(|outcome| outcome.snr_db >= least_db);
        if let Some(outcome) = outcome {
            (self.best, self.ranges) = (outcome, changed);
        }
        outcome.is_some()
    }

    /// The least acceptable ratio at the output with this margin, given the ratio without it.
    fn least_with(&self, margin: Margin, without_db: f64) -> f64 {
        let Goal { wide, narrow: _, at_least, budget } = self.goal;
        let least = without_db - margin.cost;
        // With a goal, the weights should give all the precision that they can, so `enough` does not apply.
        if wide.is_empty() && at_least.is_none() && budget.is_none() { margin.enough.min(least) } else { least }
    }

    /// Removes the margins that follow from formulas if they cost too much.
    fn without_margins(&mut self) {
        let mut observed = self.ranges.clone();
        for name in self.ranges.names().filter(|name| self.is_auto(name)) {
            observed.set(name, self.ranges.of(name).min(peak(&self.ranges, name)));
        }
        if let Ok(Some(without)) = self.trials.of(&observed)
            && self.best.snr_db < self.least_with(LEAST_MARGIN, without.snr_db)
        {
            (self.best, self.ranges) = (without, observed);
        }
    }

    /// Rounds to nearest, with the scales that hold weights best or those with the least expected error.
    fn nearest(&mut self) {
        let mut drawn = self.ranges.clone();
        for name in wide_layers(self.trials.model) {
            (0..row_count(self.trials.model, name)).for_each(|row| drawn.set_draw(name, row, draw::NEAREST));
        }
        self.attempt(self.ranges.nearest(), self.best.snr_db + BETTER);
        self.attempt(drawn, self.best.snr_db + BETTER);
    }

    fn unit_scales(&mut self) {
        for node in self.trials.model.architecture.nodes.iter().filter(|node| takes(node, UNIT_SCALES)) {
            let mut changed = self.ranges.clone();
            // Units with scales of their own leave room for a greater margin.
            let cell_state = format!("{}.cell_state", node.name);
            if self.is_auto(&cell_state) {
                changed.set(&cell_state, UNIT_MARGIN * self.ranges.of(&cell_state));
            }
            changed.add_unit_scales([node.name.clone()]);
            self.attempt(changed, self.best.snr_db + LEAST_GAIN);
        }
    }

    /// Gives margins to all nodes and inputs at once; if that costs too much, to each alone.
    fn margins(&mut self) {
        let groups = self.open_values();
        for names in std::iter::once(groups.concat()).chain(groups) {
            for margin in MARGINS {
                let mut changed = self.ranges.clone();
                for name in &names {
                    changed.set(name, self.ranges.of(name).max(margin.factor * peak(&self.ranges, name)));
                }
                let least = self.least_with(margin, self.best.snr_db);
                if changed == self.ranges || self.attempt(changed, least) {
                    break;
                }
            }
        }
    }

    fn narrower_inputs(&mut self) {
        let Architecture { inputs, front_end, .. } = &self.trials.model.architecture;
        for input in inputs.iter().filter(|_| front_end.is_none()) {
            let whole = self.ranges.of(&input.name);
            // A range with a margin is not narrowed: the calibration cannot show what the margin is for.
            let is_open = self.is_auto(&input.name) && whole <= peak(&self.ranges, &input.name);
            for power in NARROWER.filter(|_| is_open) {
                let mut changed = self.ranges.clone();
                changed.set(&input.name, whole * 2.0_f32.powi(-power));
                if !self.attempt(changed, self.best.snr_db + LEAST_GAIN) {
                    break;
                }
            }
        }
    }

    /// Gives more fraction bits to sums that stay small.
    fn fine_sums(&mut self) {
        for node in &self.trials.model.architecture.nodes {
            if self.best.snr_db < ENOUGH_DB && fine_bits(node, self.trials.model).is_some() {
                let mut changed = self.ranges.clone();
                changed.add_fine_sums([node.name.clone()]);
                self.attempt(changed, self.best.snr_db + LEAST_GAIN);
            }
        }
    }

    /// Makes the grids of weights a little coarser, which rounds every weight in another way.
    fn grids(&mut self) {
        for name in wide_layers(self.trials.model) {
            for factor in GRIDS {
                if self.best.snr_db < ENOUGH_DB {
                    let mut changed = self.ranges.clone();
                    changed.set_grid(name, factor);
                    self.attempt(changed, self.best.snr_db + LEAST_GAIN);
                }
            }
        }
    }

    /// Draws other ways to round rows: of whole layers, then of single rows. In a small network the errors of a few weights
    /// decide on which side of a threshold a state falls, so that one rounding is many decibels better than another.
    fn draws(&mut self) {
        let (model, Some(trials)) = (self.trials.model, self.varied) else { return };
        // Weights in two planes have no other roundings.
        let narrow = wide_layers(model).filter(|name| !self.ranges.is_wide(name));
        let layers = narrow.map(|name| (name, row_count(model, name))).filter(|&(_, rows)| rows > 0);
        let layers: Vec<(&str, usize)> = layers.collect();
        let most = usize::try_from(DRAWN_MACS / trials.work().max(1)).map_or(MOST_DRAWS, |most| most.min(MOST_DRAWS));
        if self.best.snr_db >= DRAW_BELOW_DB || layers.is_empty() || most == 0 {
            return;
        }
        let whole =
            (1..draw::NUMBERS).flat_map(|number| layers.iter().map(move |&(name, rows)| (name, 0..rows, number)));
        let rows = || layers.iter().flat_map(|&(name, rows)| (0..rows).map(move |row| (name, row)));
        let single = (1..).flat_map(|round: usize| {
            rows().map(move |(name, row)| (name, row..row + 1, ((round + row) % draw::NUMBERS as usize) as u32))
        });
        let Ok(Some(mut best)) = trials.of(&self.ranges) else { return };
        // Half the weight is on the steps with the greatest errors, half on all steps alike.
        let score = |of: Outcome| (of.snr_db + of.typical_db) / 2.0;
        let mut ranges = self.ranges.clone();
        for (name, rows, number) in whole.chain(single).take(most) {
            if best.snr_db >= DRAW_BELOW_DB {
                break;
            }
            let mut changed = ranges.clone();
            rows.for_each(|row| changed.set_draw(name, row, number));
            if let Ok(Some(outcome)) = trials.of(&changed)
                && score(outcome) >= score(best) + BETTER
            {
                (best, ranges) = (outcome, changed);
            }
        }
        self.attempt(ranges, self.best.snr_db - LEAST_GAIN);
    }

    /// Gives weights with twice as many bits to the layers that gain most for each byte, until the goal is reached.
    fn wider_weights(&mut self) {
        let Goal { wide: _, narrow, at_least, budget } = self.goal;
        if at_least.is_none() && budget.is_none() {
            return;
        }
        let (wanted, budget) = (at_least.unwrap_or(f64::INFINITY), budget.unwrap_or(usize::MAX));
        while self.best.snr_db < wanted {
            let is_open = |name: &&str| !self.ranges.is_wide(name) && !narrow.contains(*name);
            let tried = wide_layers(self.trials.model).filter(is_open).filter_map(|name| {
                let mut changed = self.ranges.clone();
                changed.add_wide([name.to_owned()]);
                let outcome = self.trials.of(&changed).ok().flatten().filter(|outcome| outcome.bytes <= budget)?;
                let more = outcome.bytes.saturating_sub(self.best.bytes).max(1);
                Some(((outcome.snr_db - self.best.snr_db) / more as f64, outcome, changed))
            });
            let Some((_, outcome, changed)) = tried.max_by(|a, b| a.0.total_cmp(&b.0)) else { return };
            (self.best, self.ranges) = (outcome, changed);
        }
    }

    /// Whether the range of a value follows from the calibration alone.
    fn is_auto(&self, name: &str) -> bool {
        self.rules.of(name) == RangeRule::Auto
    }

    /// The values and states of each node, and the inputs, whose ranges may change; without bounded outputs.
    fn open_values(&self) -> Vec<Vec<String>> {
        let Architecture { inputs, nodes, front_end, .. } = &self.trials.model.architecture;
        let is_open =
            |name: &&str| self.is_auto(name) && self.ranges.of(name) > 0.0 && !is_steep(name, self.trials.model);
        let of_node = |node: &Node| -> Vec<String> {
            let states = format!("{}.", node.name);
            let is_own = |name: &&str| (*name == node.name && !is_fixed(node)) || name.starts_with(&states);
            self.ranges.names().filter(is_own).filter(is_open).map(str::to_owned).collect()
        };
        // The front end sets the scale of its features.
        let inputs = inputs.iter().filter(|_| front_end.is_none()).map(|input| input.name.as_str());
        let of_inputs = inputs.filter(is_open).map(|name| vec![name.to_owned()]);
        nodes.iter().map(of_node).chain(of_inputs).filter(|names| !names.is_empty()).collect()
    }
}

/// The greatest magnitude of a value that calibration observed.
fn peak(ranges: &Ranges, name: &str) -> f32 {
    let peaks = ranges.elements(name).into_iter().flat_map(|elements| &elements.peaks);
    peaks.fold(0.0_f32, |most, peak| most.max(*peak))
}

/// The number of rows of a layer's weights.
fn row_count(model: &Canonical, node: &str) -> usize {
    let tensor = |name| model.tensors.get(&format!("{node}.{name}"));
    ["weights", "input_weights"]
        .into_iter()
        .find_map(tensor)
        .and_then(|tensor| tensor.shape.first().copied())
        .unwrap_or(0)
}

/// The names of the layers that can have weights with twice as many bits.
pub fn wide_layers(model: &Canonical) -> impl Iterator<Item = &str> {
    model.architecture.nodes.iter().filter(|node| takes(node, WIDE)).map(|node| node.name.as_str())
}

/// Whether the integer form of a node's cell has this option.
fn takes(node: &Node, option: u32) -> bool {
    let integer = CellKind::from_name(&node.cell).and_then(CellKind::integer_spec);
    integer.is_some_and(|integer| integer.options >> option & 1 == 1)
}
