//! Training: data, epochs, and what comes out of them. On the CPU; the same data, settings, seed and machine give the same
//! weights, however many threads there are and however often it was stopped.

mod adam;
mod augment;
mod aware;
pub mod data;
mod resume;
mod ts;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use tidegate::Numeric;
use tidegate_tools::canonical::{Canonical, Detector, Mfcc, Schedule};
use tidegate_tools::data::{DataError, read_tensors, write_tensors};
use tidegate_tools::format::Description;
use tidegate_tools::load::{LoadError, packed};
use tidegate_tools::progress::bar;
use tidegate_tools::runner::RunError;

use crate::cpu::count::stop;
use crate::cpu::{Batch, add};
use crate::network::{Carried, Lesson, Network, NetworkError, Rounded, Scaling, best, uniform};
use adam::{Adam, Rates};
use aware::Aware;
use data::{Data, Example, Hearing};
use resume::Progress;

/// Why nothing was trained.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// A file.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The front end's file, or that the network cannot be packed.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// Sounds that are too long.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The architecture.
    #[error("{}: {source}", path.display())]
    Network {
        /// Its file.
        path: PathBuf,
        /// What is wrong with it.
        source: NetworkError,
    },
    /// Numbers ran away.
    #[error("the loss is no number any more in epoch {epoch}: give a smaller --lr")]
    Diverged {
        /// When, counted from 1.
        epoch: usize,
    },
}

/// What is to be trained, and how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Sequences, or an index of sounds.
    pub data: PathBuf,
    /// What is held out, where `data` does not say.
    pub test: Option<PathBuf>,
    /// The architecture, in PyTorch's words.
    pub arch: PathBuf,
    /// A front end's name or JSON file, for sounds.
    pub front_end: Option<PathBuf>,
    /// Changed copies of each sound.
    pub copies: usize,
    /// Label of the clips that are the noise of these copies.
    pub background: Option<String>,
    /// Weights to begin with, under PyTorch's names.
    pub init: Option<PathBuf>,
    /// The integers that weights and values are counted in while it is trained: `i8x16` or `i4x16`.
    pub quantize_aware: Option<Numeric>,
    /// Where what is trained on goes, as tensors.
    pub features: Option<PathBuf>,
    /// Times that all sequences are gone through.
    pub epochs: usize,
    /// Epochs without a better one before it ends; then, and only then, the best epoch's weights count.
    pub patience: Option<usize>,
    /// Sequences of a step.
    pub batch: usize,
    /// Of Adam.
    pub learning_rate: f64,
    /// What it is at the end as a share of what it was, along a half cosine.
    pub end_rate: f64,
    /// Of AdamW.
    pub weight_decay: f64,
    /// Longest gradient.
    pub clip: f64,
    /// Standard deviation of noise that is added to scaled features.
    pub noise: f32,
    /// Whether features are scaled to mean 0 and deviation 1, which goes into the first layer's weights.
    pub scale: bool,
    /// Whether each sequence goes on where the one before it in the batch's row has ended, as in a stream.
    pub carry: bool,
    /// Of everything random.
    pub seed: u64,
    /// Where the training is kept.
    pub checkpoint: PathBuf,
}

/// What was trained.
#[derive(Clone, Debug)]
pub struct Trained {
    /// The model, to be packed.
    pub model: Canonical,
    /// The weights under PyTorch's names, for features that are scaled as in training.
    pub state_dict: std::collections::BTreeMap<String, tidegate_tools::canonical::Tensor>,
    /// Loss, and share of right decisions, of each step.
    pub steps: Vec<[f32; 2]>,
    /// The same of what is held out, after each epoch.
    pub held_out: Vec<[f32; 2]>,
    /// The epoch whose weights these are, counted from 1.
    pub epoch: usize,
    /// Sequences held out.
    pub checked: usize,
    /// Spent on training, over all runs.
    pub seconds: f64,
    /// Epochs that were done before this run.
    pub resumed: usize,
}

impl Trained {
    /// Right decisions on what is held out.
    pub fn accuracy(&self) -> f32 {
        self.held_out.get(self.epoch.saturating_sub(1)).map_or(0.0, |[_, accuracy]| *accuracy)
    }
}

/// What random numbers are for: each has its own.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    Weights,
    Order,
    Variants,
    Dropout,
    Copies,
    Streams,
}

/// Numbers of a purpose that depend on nothing that was drawn before.
pub(crate) fn random(seed: u64, purpose: Purpose, a: u64, b: u64) -> ChaCha8Rng {
    let mut key = [0; 32];
    for (to, from) in key.as_chunks_mut::<8>().0.iter_mut().zip([seed, purpose as u64, a, b]) {
        *to = from.to_le_bytes();
    }
    ChaCha8Rng::from_seed(key)
}

/// `work(0)`, `work(1)`, ... on all cores, in their order.
pub(crate) fn in_parallel<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(count);
    if threads <= 1 {
        return (0..count).map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let run = || {
        let mut done = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return done;
            }
            done.push((number, work(number)));
        }
    };
    let mut all: Vec<(usize, T)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| match thread.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        threads.into_iter().flat_map(join).collect()
    });
    all.sort_by_key(|(number, _)| *number);
    all.into_iter().map(|(_, result)| result).collect()
}

/// Sequences that one thread computes together.
const SHARD: usize = 32;
/// Gradients of so many shards are in memory at once.
const WAVE: usize = 16;

/// Trains a network and gives its model.
///
/// # Errors
/// If a file cannot be read or written, the network cannot be trained or packed, or the loss runs away.
pub fn train(settings: &Settings) -> Result<Trained, TrainError> {
    let description = Description::read(&settings.arch)?;
    let of_arch = |source: NetworkError| TrainError::Network { path: settings.arch.clone(), source };
    let network = Network::new(&description).map_err(of_arch)?;
    if settings.carry && !network.goes_on() {
        let reason = "looks both ways, so nothing goes on where it has ended: leave --carry out".to_owned();
        return Err(of_arch(NetworkError::Whole(reason)));
    }
    let mut initial = network.initial(&mut random(settings.seed, Purpose::Weights, 0, 0));
    if let Some(path) = &settings.init {
        let failed = |source| TrainError::Network { path: path.clone(), source };
        initial = network.params(&read_tensors(path)?).map_err(failed)?;
    }
    let front_end = settings.front_end.as_deref().map(tidegate_tools::load::read_front_end).transpose()?;
    let front_end = front_end.map(|(mfcc, _)| mfcc);
    let source = format!("trained by tidegate-gpu {} on the CPU", env!("CARGO_PKG_VERSION"));
    let make = |params: &[f32], scaling: &Scaling, labels: &[String]| {
        let mut model = network.model(params, scaling, &source).map_err(of_arch)?;
        if settings.carry {
            model.architecture.schedule = Schedule::Endless;
        }
        finish(&mut model, front_end.as_ref(), labels);
        Ok::<_, TrainError>(model)
    };
    // Before anything takes long: it can be packed, and the front end is the device's own.
    let untrained = make(&initial, &Scaling::none(network.features()), &[])?;
    let image = packed(&settings.arch, &untrained, Numeric::F32)?;
    let model = image.model().map_err(|source| LoadError::Image { path: settings.arch.clone(), source })?;
    let hearing = model.front_end().map(|mfcc| Hearing {
        mfcc,
        schedule: model.schedule(),
        copies: settings.copies,
        background: settings.background.as_deref(),
        seed: settings.seed,
    });
    let mut data = data::read(&settings.data, settings.test.as_deref(), hearing.as_ref())?;
    let fits = [(data.features, network.features(), "features"), (data.labels.len(), network.classes(), "classes")];
    if let Some((found, needed, what)) = fits.into_iter().find(|(found, needed, _)| found != needed) {
        let reason = format!("has {found} {what}, the architecture {} has {needed}", settings.arch.display());
        return Err(DataError::new(&settings.data, reason).into());
    }
    let scaling = scale(&mut data, settings.scale);
    if let Some(path) = &settings.features {
        write_tensors(path, &data.tensors())?;
    }
    let fingerprint = fingerprint(settings, &description, &data, &initial);
    let unlabeled = |params: &[f32]| make(params, &scaling, &[]);
    // It can be packed as it will be written, before anything takes long.
    unlabeled(&initial)?;
    let aware = settings
        .quantize_aware
        .map(|numeric| Aware::new((&network, &settings.arch), numeric, (&data, &scaling), &unlabeled));
    let mut aware = aware.transpose().map_err(of_arch)?;
    let fresh = || Progress {
        best: initial.clone(),
        adam: Adam::new(network.params_size()),
        params: initial.clone(),
        ..Progress::default()
    };
    let found = Progress::load(&settings.checkpoint, &fingerprint, network.params_size())?;
    let mut progress = found.unwrap_or_else(fresh);
    let resumed = progress.epochs;
    if let Some(aware) = &mut aware {
        aware.measure(&progress.params)?;
    }
    let shown = bar(settings.epochs as u64, "training");
    shown.advance(resumed as u64);
    while progress.epochs < settings.epochs && !given_up(settings, &progress) {
        let started = Instant::now();
        epoch(settings, &network, &data, &mut aware, &mut progress)?;
        progress.seconds += started.elapsed().as_secs_f64();
        progress.save(&settings.checkpoint, &fingerprint)?;
        shown.advance(1);
    }
    drop(shown);
    let chosen = settings.patience.is_some();
    let params = if chosen { &progress.best } else { &progress.params };
    Ok(Trained {
        model: make(params, &scaling, &data.labels)?,
        state_dict: network.state_dict(params),
        epoch: if chosen { progress.best_epoch + 1 } else { progress.epochs },
        checked: data.held_out.len(),
        seconds: progress.seconds,
        steps: progress.steps,
        held_out: progress.held_out,
        resumed,
    })
}

/// What the architecture does not say.
fn finish(model: &mut Canonical, front_end: Option<&Mfcc>, labels: &[String]) {
    let architecture = &mut model.architecture;
    if let Some(mfcc) = front_end {
        if let Schedule::Windows { frames, every } = &mut architecture.schedule
            && frames == every
        {
            *every = mfcc.every().min(*frames);
        }
        architecture.front_end = Some(mfcc.clone());
    }
    architecture.labels = labels.to_vec();
    if front_end.is_some() && !labels.is_empty() {
        architecture.detector = Some(Detector::default_for(labels, architecture.window_ms()));
    }
}

/// Scales all features as those that are trained on are.
fn scale(data: &mut Data, wanted: bool) -> Scaling {
    if !wanted {
        return Scaling::none(data.features);
    }
    let features = data.features;
    let rows = data.train.iter().flat_map(|example| &example.variants).flat_map(|rows| rows.chunks_exact(features));
    let scaling = Scaling::of(features, rows);
    let all = data.train.iter_mut().chain(&mut data.held_out).flat_map(|example| &mut example.variants);
    all.flat_map(|rows| rows.chunks_exact_mut(features)).for_each(|row| scaling.apply(row));
    scaling
}

fn given_up(settings: &Settings, progress: &Progress) -> bool {
    settings.patience.is_some_and(|patience| progress.epochs > progress.best_epoch + patience)
}

/// One epoch: every sequence once, then what is held out.
fn epoch(
    settings: &Settings,
    network: &Network,
    data: &Data,
    aware: &mut Option<Aware<'_>>,
    progress: &mut Progress,
) -> Result<(), TrainError> {
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
    // Of each shard: its rows are streams, of which the next batch has the next sequence.
    let mut carried: Vec<Carried> = Vec::new();
    for (step, batch) in order.chunks(settings.batch).enumerate() {
        let rounded = aware.as_ref().map(|aware| aware.rounded(&progress.params)).transpose()?;
        let params = rounded.as_ref().map_or(&progress.params, |rounded| &rounded.params);
        let learn = |shard: usize, chosen: &[usize]| {
            let draw = |purpose| random(settings.seed, purpose, number as u64, (step << 16 | shard) as u64);
            let (mut variants, mut dropout) = (draw(Purpose::Variants), draw(Purpose::Dropout));
            let examples: Vec<&Example> = chosen.iter().map(|&k| &data.train[k]).collect();
            let classes: Vec<usize> = examples.iter().map(|example| example.class).collect();
            let picked = examples.iter().map(|example| &example.variants[below(&mut variants, example.variants.len())]);
            let mut together = gather(picked.map(Vec::as_slice), data.features);
            if settings.noise > 0.0 {
                add_noise(&mut together, settings.noise, &mut variants);
            }
            if let Some((aware, rounded)) = aware.as_ref().zip(rounded.as_ref()) {
                aware.count_input(&mut together, rounded.input);
            }
            let mut gradient = vec![0.0; network.params_size()];
            let from = carried.get(shard).filter(|_| settings.carry);
            let units = rounded.as_ref().map(|rounded| rounded.units.as_slice());
            let lesson = Lesson { batch: together, classes: &classes, sequences: batch.len(), from, units };
            (network.learn(params, lesson, &mut dropout, &mut gradient), gradient)
        };
        let (mut loss, mut right, mut gradient) = (0.0, 0, vec![0.0; network.params_size()]);
        let mut ends = Vec::new();
        let shards: Vec<(usize, &[usize])> = batch.chunks(SHARD).enumerate().collect();
        for wave in shards.chunks(WAVE) {
            // In the order of the shards, whichever thread was first: sums have one result.
            for (learned, own) in in_parallel(wave.len(), |k| learn(wave[k].0, wave[k].1)) {
                loss += learned.loss;
                right += learned.right;
                ends.push(learned.carried);
                add(&mut gradient, &own);
            }
        }
        carried = ends;
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
    let checked = check(network, &progress.params, data, (settings.carry, aware.as_ref()))?;
    if !checked[0].is_finite() {
        return Err(TrainError::Diverged { epoch: number + 1 });
    }
    // Of two that are as often right the surer one.
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

/// Mean loss and share of right decisions on what is held out: each sequence by itself, or as [`streams`].
fn check(
    network: &Network,
    params: &[f32],
    data: &Data,
    (carry, aware): (bool, Option<&Aware<'_>>),
) -> Result<[f32; 2], TrainError> {
    let rounded = aware.map(|aware| Ok::<_, TrainError>((aware, aware.rounded(params)?))).transpose()?;
    let params = rounded.as_ref().map_or(params, |(_, rounded)| &rounded.params);
    let units = rounded.as_ref().map(|(_, rounded)| rounded.units.as_slice());
    let examples = &data.held_out;
    let order = if carry { streams(examples.len()) } else { (0..examples.len()).collect() };
    let shards: Vec<&[usize]> = order.chunks(SHARD).collect();
    let score = |shard: &[usize], from: Option<&Carried>| {
        let first = shard.iter().filter_map(|&k| examples[k].variants.first());
        let mut together = gather(first.map(Vec::as_slice), data.features);
        if let Some((aware, Rounded { input, .. })) = &rounded {
            aware.count_input(&mut together, *input);
        }
        let (scores, carried) = network.scores(params, together, from, units);
        let rows = scores.chunks_exact(network.classes()).zip(shard);
        let found = rows.fold((0.0, 0), |(loss, right), (row, &k)| {
            let class = examples[k].class;
            let sum: f64 = row.iter().map(|&score| f64::from(score - row[class]).exp()).sum();
            (loss + sum.ln(), right + usize::from(best(row) == class))
        });
        (found, carried)
    };
    let found = if carry {
        let mut before = None;
        let mut one_by_one = |shard: &&[usize]| {
            let (found, carried) = score(shard, before.as_ref());
            before = Some(carried);
            found
        };
        shards.iter().map(&mut one_by_one).collect()
    } else {
        in_parallel(shards.len(), |shard| score(shards[shard], None).0)
    };
    let (loss, right) = found.iter().fold((0.0, 0), |(loss, right), part| (loss + part.0, right + part.1));
    let count = examples.len().max(1) as f64;
    Ok([(loss / count) as f32, (f64::from(right as u32) / count) as f32])
}

/// The order in which `count` sequences that are held out are heard as streams: the first 32 begin a stream each, the next
/// 32 go on behind them, and so on. It is the same for every seed.
pub fn streams(count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    shuffle(&mut order, &mut random(0, Purpose::Streams, 0, 0));
    order
}

/// Sequences side by side, padding behind the shorter ones.
fn gather<'a>(rows: impl Iterator<Item = &'a [f32]>, features: usize) -> Batch {
    let all: Vec<&[f32]> = rows.collect();
    let lengths: Vec<usize> = all.iter().map(|rows| rows.len() / features).collect();
    let steps = lengths.iter().copied().max().unwrap_or(0);
    let mut data = vec![0.0; steps * all.len() * features];
    for (sequence, rows) in all.iter().enumerate() {
        for (step, row) in rows.chunks_exact(features).enumerate() {
            let from = (step * all.len() + sequence) * features;
            data[from..from + features].copy_from_slice(row);
        }
    }
    Batch { data, lengths, features }
}

fn add_noise(batch: &mut Batch, deviation: f32, random: &mut ChaCha8Rng) {
    for value in &mut batch.data {
        // Box and Muller.
        let radius = (-2.0 * (1.0 - uniform(random)).ln()).sqrt();
        *value += deviation * radius * (std::f32::consts::TAU * uniform(random)).cos();
    }
}

fn shuffle(order: &mut [usize], random: &mut ChaCha8Rng) {
    for k in (1..order.len()).rev() {
        order.swap(k, below(random, k + 1));
    }
}

/// A number below `count`, each as likely as any other up to 1 in 2^32.
fn below(random: &mut ChaCha8Rng, count: usize) -> usize {
    ((u64::from(random.next_u32()) * count as u64) >> 32) as usize
}

/// What must be the same for a training to go on.
fn fingerprint(settings: &Settings, description: &Description, data: &Data, initial: &[f32]) -> String {
    let mut digest = 0;
    let mut see = |values: &[f32]| {
        for chunk in values.chunks(1024) {
            let bytes: Vec<u8> = chunk.iter().flat_map(|value| value.to_le_bytes()).collect();
            digest = crc32c::crc32c_append(digest, &bytes);
        }
    };
    see(initial);
    for example in data.train.iter().chain(&data.held_out) {
        example.variants.iter().for_each(|rows| see(rows));
        see(&[example.class as f32]);
    }
    let Settings {
        epochs,
        patience,
        batch,
        learning_rate,
        end_rate,
        weight_decay,
        clip,
        noise,
        scale,
        carry,
        seed,
        quantize_aware,
        ..
    } = settings;
    let integers = quantize_aware.map_or("", Numeric::name);
    let rates = format!("{learning_rate} {end_rate} {weight_decay} {clip} {noise} {scale} {carry} {integers}");
    let network = serde_json::to_string(description).unwrap_or_default();
    format!("1 {digest:08x} {epochs} {patience:?} {batch} {rates} {seed} {network}")
}

/// Deletes the checkpoint: what was trained is kept elsewhere.
///
/// # Errors
/// If it is there and cannot be deleted.
pub fn forget(checkpoint: &Path) -> Result<(), DataError> {
    match std::fs::remove_file(checkpoint) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(DataError::io(checkpoint, "deleted", error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_done_once_each_and_in_order() {
        let count = AtomicUsize::new(0);
        let done = in_parallel(1000, |k| {
            count.fetch_add(1, Ordering::Relaxed);
            k * k
        });
        assert_eq!(count.into_inner(), 1000);
        assert_eq!(done, (0..1000).map(|k| k * k).collect::<Vec<_>>());
        assert!(in_parallel(0, |k| k).is_empty());
    }

    #[test]
    fn an_order_has_everything_once_and_each_purpose_its_own_numbers() {
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

    #[test]
    fn sequences_are_gathered_step_by_step() {
        let batch = gather([[1.0, 2.0, 3.0, 4.0].as_slice(), &[5.0, 6.0]].into_iter(), 2);
        assert_eq!(batch.lengths, [2, 1]);
        assert_eq!(batch.data, [1.0, 2.0, 5.0, 6.0, 3.0, 4.0, 0.0, 0.0]);
    }
}
