//! One epoch: a pass over the training set in batches, whose parts run in parallel, then an evaluation on the held-out
//! data.

use chacha20::ChaCha8Rng;
use chacha20::rand_core::Rng;
use tidegate_model::score::best;

use super::adam::Rates;
use super::aware::Aware;
use super::data::{Data, Example};
use super::machine::{Machine, in_parallel};
use super::resume::Progress;
use super::world::World;
use super::{Purpose, Result, Settings, TrainError, random};
use crate::cpu::count::stop;
use crate::cpu::{Batch, add, longest};
use crate::network::{Carried, Cpu, Draws, LayerUnits, Learned, Lesson, Network, Rounded, Stacks, uniform};

/// Sequences per part of a batch. A part has its own random numbers, and one thread computes it.
const PART: usize = 32;
/// Number of parts whose gradients are in memory at the same time.
const WAVE: usize = 16;

/// A training and the device and processes that run it.
pub(super) struct Course<'a> {
    pub(super) settings: &'a Settings,
    pub(super) network: &'a Network,
    pub(super) data: &'a Data,
    pub(super) machine: &'a mut Machine,
    pub(super) world: &'a mut World,
}

/// A pass over training or held-out data with fixed parameters.
struct Pass<'a> {
    settings: &'a Settings,
    network: &'a Network,
    data: &'a Data,
    params: &'a [f32],
    aware: Option<(&'a Aware<'a>, &'a Rounded)>,
}

impl<'a> Pass<'a> {
    /// With `aware`, the pass uses the `rounded` parameters.
    fn new(course: &Course<'a>, params: &'a [f32], aware: Option<&'a Aware<'a>>, rounded: Option<&'a Rounded>) -> Self {
        let Course { settings, network, data, .. } = *course;
        let params = rounded.map_or(params, |rounded| &rounded.params);
        Self { settings, network, data, params, aware: aware.zip(rounded) }
    }

    /// Rounds the input of a batch, if values are rounded, and returns the scales of the other values.
    fn round(&self, batch: &mut Batch) -> Option<&'a LayerUnits> {
        let (aware, rounded) = self.aware?;
        aware.count_input(batch, rounded.input);
        Some(&rounded.units)
    }

    /// Computes the gradient of some of the parts, given as `(number, sequences)`, of a step on `sequences` sequences.
    /// `numbers` are the number of the epoch and the number of the step within it.
    fn learn<S: Stacks>(
        &self,
        stacks: &mut S,
        (numbers, sequences): ([u64; 2], usize),
        parts: &[(usize, &[usize])],
        from: Option<&Carried>,
    ) -> Result<(Learned, Vec<f32>), S::Error> {
        let (mut batches, mut classes, mut dropout) = (Vec::new(), Vec::new(), Vec::new());
        for &(part, chosen) in parts {
            let [epoch, step] = numbers;
            let draw = |purpose| random(self.settings.seed, purpose, epoch, step << 16 | part as u64);
            let mut variants = draw(Purpose::Variants);
            let examples: Vec<&Example> = chosen.iter().map(|&k| &self.data.train[k]).collect();
            classes.extend(examples.iter().map(|example| example.class));
            let picked = examples.iter().map(|example| &example.variants[below(&mut variants, example.variants.len())]);
            let mut batch = gather(picked.map(Vec::as_slice), self.data.features);
            if self.settings.noise > 0.0 {
                add_noise(&mut batch, self.settings.noise, &mut variants);
            }
            batches.push(batch);
            dropout.push((draw(Purpose::Dropout), chosen.len()));
        }
        let mut batch = together(batches);
        let units = self.round(&mut batch);
        let mut gradient = vec![0.0; self.network.params_size()];
        let from = from.filter(|_| self.settings.carry);
        let lesson = Lesson { batch, classes: &classes, sequences, from, units };
        let learned = self.network.learn(stacks, self.params, lesson, Draws::new(dropout), &mut gradient)?;
        Ok((learned, gradient))
    }

    /// Loss and number of correct decisions for some sequences, and their final states.
    fn score<S: Stacks>(
        &self,
        stacks: &mut S,
        chosen: &[usize],
        from: Option<&Carried>,
    ) -> Result<([f64; 2], Carried), S::Error> {
        let examples = &self.data.held_out;
        let first = chosen.iter().filter_map(|&k| examples[k].variants.first());
        let mut batch = gather(first.map(Vec::as_slice), self.data.features);
        let units = self.round(&mut batch);
        let (scores, carried) = self.network.scores(stacks, self.params, batch, from, units)?;
        let rows = scores.chunks_exact(self.network.classes()).zip(chosen);
        let found = rows.fold([0.0, 0.0], |[loss, right], (row, &k)| {
            let class = examples[k].class;
            let sum: f64 = row.iter().map(|&score| f64::from(score - row[class]).exp()).sum();
            [loss + sum.ln(), right + f64::from(u8::from(best(row) == class))]
        });
        Ok((found, carried))
    }

    /// Evaluates the parts in order; each continues from the final states of the previous one.
    fn one_by_one<S: Stacks>(&self, stacks: &mut S, parts: &[Vec<usize>]) -> Result<Vec<[f64; 2]>, S::Error> {
        let mut before = None;
        let one = |part: &Vec<usize>| {
            let (found, carried) = self.score(stacks, part, before.as_ref())?;
            before = Some(carried);
            Ok(found)
        };
        parts.iter().map(one).collect()
    }
}

struct Sum {
    loss: f64,
    right: usize,
    gradient: Vec<f32>,
    ends: Vec<Carried>,
}

impl Sum {
    fn add(&mut self, (learned, gradient): (Learned, Vec<f32>)) {
        self.loss += learned.loss;
        self.right += learned.right;
        self.ends.push(learned.carried);
        add(&mut self.gradient, &gradient);
    }
}

/// Runs one pass over the training set, then evaluates the held-out data.
pub(super) fn epoch(course: &mut Course<'_>, aware: &mut Option<Aware<'_>>, progress: &mut Progress) -> Result<()> {
    let Course { settings, network, data, .. } = *course;
    let number = progress.epochs;
    let mut order: Vec<usize> = (0..data.train.len()).collect();
    shuffle(&mut order, &mut random(settings.seed, Purpose::Order, number as u64, 0));
    let part = number as f64 / settings.epochs.max(2).saturating_sub(1) as f64;
    let cosine = 0.5 + 0.5 * (part * std::f64::consts::PI).cos();
    let rates = Rates {
        learning: settings.learning_rate * (settings.end_rate + (1.0 - settings.end_rate) * cosine),
        decay: settings.weight_decay,
        clip: settings.clip,
    };
    // Final states of each part. With `carry`, the next batch continues from them row by row.
    let mut carried: Vec<Carried> = Vec::new();
    for (step, batch) in order.chunks(settings.batch).enumerate() {
        let rounded = aware.as_ref().map(|aware| aware.rounded(&progress.params)).transpose()?;
        let pass = Pass::new(course, &progress.params, aware.as_ref(), rounded.as_ref());
        let step = ([number as u64, step as u64], batch.len());
        let parts: Vec<(usize, &[usize])> = course.world.own(batch.chunks(PART).enumerate()).collect();
        let mut sum = Sum { loss: 0.0, right: 0, gradient: vec![0.0; network.params_size()], ends: Vec::new() };
        match course.machine {
            // In the order of the parts, not of the threads, so that sums are reproducible.
            Machine::Cpu => {
                for (wave, parts) in parts.chunks(WAVE).enumerate() {
                    let learn = |k: usize| {
                        let Ok(learned) = pass.learn(&mut Cpu, step, &parts[k..=k], carried.get(wave * WAVE + k));
                        learned
                    };
                    in_parallel(parts.len(), learn).into_iter().for_each(|learned| sum.add(learned));
                }
            }
            #[cfg(feature = "cudnn")]
            Machine::Gpu(_) if parts.is_empty() => {}
            #[cfg(feature = "cudnn")]
            Machine::Gpu(gpu) => sum.add(pass.learn(&mut gpu.layers, step, &parts, carried.first())?),
        }
        carried = sum.ends;
        let mut gradient = sum.gradient;
        let [loss, right] = course.machine.add_up(course.world, &mut gradient, [sum.loss, sum.right as f64])?;
        if !loss.is_finite() {
            return Err(TrainError::Diverged { epoch: number + 1 });
        }
        if let Some(rounded) = &rounded {
            stop(&mut gradient, &rounded.cut);
        }
        progress.adam.step(&rates, &mut progress.params, &gradient);
        progress.steps.push([loss as f32, right as f32 / batch.len() as f32]);
    }
    if let Some(aware) = aware {
        aware.measure(&progress.params)?;
    }
    let checked = check(course, &progress.params, aware.as_ref())?;
    if !checked[0].is_finite() {
        return Err(TrainError::Diverged { epoch: number + 1 });
    }
    // Of two equal accuracies, the lower loss is better.
    let better =
        |[loss, accuracy]: [f32; 2], [than, before]: [f32; 2]| accuracy > before || accuracy == before && loss < than;
    if progress.held_out.get(progress.best_epoch).is_none_or(|&best| better(checked, best)) {
        progress.best_epoch = number;
        progress.best.clone_from(&progress.params);
    }
    progress.held_out.push(checked);
    progress.epochs += 1;
    Ok(())
}

/// Mean loss and accuracy on the held-out data: each sequence by itself, or as [`streams`].
fn check(course: &mut Course<'_>, params: &[f32], aware: Option<&Aware<'_>>) -> Result<[f32; 2]> {
    let Course { settings, data, .. } = *course;
    let rounded = aware.map(|aware| aware.rounded(params)).transpose()?;
    let pass = Pass::new(course, params, aware, rounded.as_ref());
    let count = data.held_out.len();
    let order = if settings.carry { streams(count) } else { (0..count).collect() };
    let parts = own_parts(&order, settings.carry, course.world);
    let found = match course.machine {
        Machine::Cpu if settings.carry => {
            let Ok(found) = pass.one_by_one(&mut Cpu, &parts);
            found
        }
        Machine::Cpu => in_parallel(parts.len(), |part| {
            let Ok((found, _)) = pass.score(&mut Cpu, &parts[part], None);
            found
        }),
        #[cfg(feature = "cudnn")]
        Machine::Gpu(gpu) if settings.carry => pass.one_by_one(&mut gpu.layers, &parts)?,
        #[cfg(feature = "cudnn")]
        Machine::Gpu(gpu) => {
            let score = |parts: &[Vec<usize>]| Ok(pass.score(&mut gpu.layers, &parts.concat(), None)?.0);
            parts.chunks(WAVE).map(score).collect::<Result<_>>()?
        }
    };
    let sum = found.iter().fold([0.0, 0.0], |sum, part| [sum[0] + part[0], sum[1] + part[1]]);
    let [loss, right] = course.world.sum(sum)?;
    let count = count.max(1) as f64;
    Ok([(loss / count) as f32, (right / count) as f32])
}

/// The share of the held-out data of this process: whole parts, or streams of each part.
fn own_parts(order: &[usize], carry: bool, world: &World) -> Vec<Vec<usize>> {
    let parts = order.chunks(PART);
    if !carry {
        return world.own(parts.enumerate()).map(|(_, part)| part.to_vec()).collect();
    }
    let streams = parts.map(|part| world.own(part.iter().copied().enumerate()).map(|(_, k)| k).collect());
    streams.filter(|part: &Vec<usize>| !part.is_empty()).collect()
}

/// The order in which `count` held-out sequences are evaluated as streams: the first 32 start one stream each, the next
/// 32 continue them, and so on. It does not depend on the seed.
pub fn streams(count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    shuffle(&mut order, &mut random(0, Purpose::Streams, 0, 0));
    order
}

/// Makes a batch of sequences, padded at the end.
fn gather<'a>(rows: impl Iterator<Item = &'a [f32]>, features: usize) -> Batch {
    let all: Vec<&[f32]> = rows.collect();
    let lengths: Vec<usize> = all.iter().map(|rows| rows.len() / features).collect();
    let steps = longest(&lengths);
    let mut data = vec![0.0; steps * all.len() * features];
    for (sequence, rows) in all.iter().enumerate() {
        for (step, row) in rows.chunks_exact(features).enumerate() {
            let from = (step * all.len() + sequence) * features;
            data[from..from + features].copy_from_slice(row);
        }
    }
    Batch { data, lengths, features }
}

fn together(mut parts: Vec<Batch>) -> Batch {
    if parts.len() == 1 {
        return parts.swap_remove(0);
    }
    let lengths: Vec<usize> = parts.iter().flat_map(|part| &part.lengths).copied().collect();
    let features = parts.first().map_or(0, |part| part.features);
    let steps = longest(&lengths);
    let mut data = vec![0.0; steps * lengths.len() * features];
    let mut first = 0;
    for part in &parts {
        let own = part.lengths.len() * features;
        for (step, rows) in part.data.chunks_exact(own.max(1)).enumerate() {
            let from = step * lengths.len() * features + first;
            data[from..from + own].copy_from_slice(rows);
        }
        first += own;
    }
    Batch { data, lengths, features }
}

fn add_noise(batch: &mut Batch, deviation: f32, random: &mut ChaCha8Rng) {
    for value in &mut batch.data {
        // Box-Muller transform.
        let radius = (-2.0 * (1.0 - uniform(random)).ln()).sqrt();
        *value += deviation * radius * (std::f32::consts::TAU * uniform(random)).cos();
    }
}

fn shuffle(order: &mut [usize], random: &mut ChaCha8Rng) {
    for k in (1..order.len()).rev() {
        order.swap(k, below(random, k + 1));
    }
}

/// A random number below `count`; all are equally likely up to 1 in 2^32.
fn below(random: &mut ChaCha8Rng, count: usize) -> usize {
    ((u64::from(random.next_u32()) * count as u64) >> 32) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shuffle_is_a_permutation_that_depends_on_its_purpose() {
        let shuffled = |purpose, epoch| {
            let mut order: Vec<usize> = (0..100).collect();
            shuffle(&mut order, &mut random(3, purpose, epoch, 0));
            order
        };
        let order = shuffled(Purpose::Order, 1);
        assert_eq!(order, shuffled(Purpose::Order, 1));
        assert!(order != shuffled(Purpose::Order, 2) && order != shuffled(Purpose::Dropout, 1));
        let mut sorted = order;
        sorted.sort_unstable();
        assert_eq!(sorted, (0..100).collect::<Vec<_>>());
    }

    /// Every process has something to do, and a stream stays in one process.
    #[test]
    fn the_held_out_data_are_divided_among_the_processes() {
        let order: Vec<usize> = (0..70).rev().collect();
        for (carry, size) in [(false, 1), (false, 3), (true, 1), (true, 3), (true, 32)] {
            let all: Vec<_> = (0..size).map(|rank| own_parts(&order, carry, &World::one_of(rank, size))).collect();
            assert!(all.iter().all(|parts| !parts.is_empty()), "{carry} {size}");
            let mut found = all.concat().concat();
            found.sort_unstable();
            assert_eq!(found, (0..70).collect::<Vec<_>>(), "{carry} {size}");
            let behind =
                |before: &[usize], after: &[usize]| after.iter().zip(before).all(|(k, before)| before - k == PART);
            assert!(!carry || all.iter().flat_map(|parts| parts.windows(2)).all(|pair| behind(&pair[0], &pair[1])));
        }
    }

    #[test]
    fn sequences_are_gathered_step_by_step() {
        let rows = [[1.0, 2.0, 3.0, 4.0].as_slice(), &[5.0, 6.0], &[7.0, 8.0]];
        let batch = gather(rows[..2].iter().copied(), 2);
        assert_eq!(batch.lengths, [2, 1]);
        assert_eq!(batch.data, [1.0, 2.0, 5.0, 6.0, 3.0, 4.0, 0.0, 0.0]);
        let parts = vec![gather(rows[1..2].iter().copied(), 2), gather([rows[0], rows[2]].into_iter(), 2)];
        assert_eq!(together(parts), gather([rows[1], rows[0], rows[2]].into_iter(), 2));
    }
}
