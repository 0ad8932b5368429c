//! Training: data, epochs, and what comes out of them. On a machine the same data, settings and seed give the same weights,
//! however many threads there are and however often it was stopped.

mod adam;
mod augment;
mod aware;
pub mod data;
mod epoch;
mod join;
mod machine;
mod resume;
mod ts;
mod world;

use std::path::{Path, PathBuf};
use std::time::Instant;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use tidegate::Numeric;
use tidegate_tools::canonical::{Canonical, Detector, Mfcc, Schedule};
use tidegate_tools::data::{DataError, read_tensors, write_tensors};
use tidegate_tools::format::Description;
use tidegate_tools::load::{LoadError, packed};
use tidegate_tools::progress::bar;
use tidegate_tools::runner::RunError;

use crate::network::{Network, NetworkError, Scaling};
use adam::Adam;
use aware::Aware;
use data::{Data, Hearing};
pub use epoch::streams;
use epoch::{Course, epoch};
pub use machine::{Machine, Wanted};
use resume::Progress;
pub use world::{Place, WorldError};

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
    /// Other processes.
    #[error(transparent)]
    World(#[from] WorldError),
    /// The GPU.
    #[cfg(feature = "cudnn")]
    #[error(transparent)]
    Gpu(#[from] crate::status::GpuError),
    /// A GPU is wanted.
    #[error("this build has no cuDNN: build it with cargo build --release -p tidegate-gpu --features cudnn")]
    WithoutCudnn,
    /// A GPU is wanted for what has to be rounded between its steps.
    #[error("--quantize-aware rounds every state, which cuDNN does not: leave --device cuda out")]
    Rounding,
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

/// Trains a network on a machine, or on several with one process each, and gives its model.
///
/// # Errors
/// If a file cannot be read or written, the network cannot be trained or packed, the loss runs away, the device fails, or
/// another process does.
pub fn train(settings: &Settings, machine: &mut Machine, place: &Place) -> Result<Trained, TrainError> {
    if settings.quantize_aware.is_some() && !matches!(machine, Machine::Cpu) {
        return Err(TrainError::Rounding);
    }
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
    let source = format!("trained by tidegate-gpu {} on {}", env!("CARGO_PKG_VERSION"), machine.name());
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
    if let Some(path) = settings.features.as_ref().filter(|_| place.is_first()) {
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
    let mut world = place.join(&format!("{fingerprint} {}", machine.kind()))?;
    #[cfg(feature = "cudnn")]
    machine.join(&mut world)?;
    let kept = if place.is_first() { Progress::read(&settings.checkpoint)? } else { Vec::new() };
    let found = Progress::parse(&world.share(kept)?, &settings.checkpoint, &fingerprint, network.params_size())?;
    let mut progress = found.unwrap_or_else(fresh);
    let resumed = progress.epochs;
    if let Some(aware) = &mut aware {
        aware.measure(&progress.params)?;
    }
    let shown = place.is_first().then(|| bar(settings.epochs as u64, "training"));
    let show = |epochs: usize| shown.iter().for_each(|bar| bar.advance(epochs as u64));
    show(resumed);
    let mut course = Course { settings, network: &network, data: &data, machine, world: &mut world };
    while progress.epochs < settings.epochs && !given_up(settings, &progress) {
        let started = Instant::now();
        epoch(&mut course, &mut aware, &mut progress)?;
        course.world.agree(digest(0, &progress.params), progress.epochs)?;
        progress.seconds += started.elapsed().as_secs_f64();
        if place.is_first() {
            progress.save(&settings.checkpoint, &fingerprint)?;
        }
        show(1);
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

/// Of these numbers, behind others.
fn digest(before: u32, values: &[f32]) -> u32 {
    values.chunks(1024).fold(before, |digest, values| {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        crc32c::crc32c_append(digest, &bytes)
    })
}

/// What must be the same for a training to go on.
fn fingerprint(settings: &Settings, description: &Description, data: &Data, initial: &[f32]) -> String {
    let mut seen = digest(0, initial);
    for example in data.train.iter().chain(&data.held_out) {
        seen = example.variants.iter().fold(seen, |seen, rows| digest(seen, rows));
        seen = digest(seen, &[example.class as f32]);
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
    format!("1 {seen:08x} {epochs} {patience:?} {batch} {rates} {seed} {network}")
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
