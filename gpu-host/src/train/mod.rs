//! Training: data, epochs and the resulting model. On one machine, the same data, settings and seed give the same
//! weights, regardless of the number of threads and of interruptions.

mod adam;
mod augment;
mod aware;
mod channel;
mod data;
mod epoch;
mod error;
#[doc(hidden)]
pub mod fuzz;
mod join;
mod machine;
mod place;
mod resume;
mod secret;
mod settings;
mod world;

use std::path::{Path, PathBuf};
use std::time::Instant;

use chacha20::ChaCha8Rng;
use chacha20::rand_core::SeedableRng;
use tidegate::Numeric;
use tidegate_model::canonical::{Canonical, Detector, Mfcc, Schedule};
use tidegate_model::data::{DataError, read_tensors, write_tensors};
use tidegate_model::format::Description;
use tidegate_model::load::{LoadError, packed};
use tidegate_model::output::write_atomically;
use tidegate_model::runner::RunError;
use tidegate_tools::progress::bar;

use crate::network::{Network, NetworkError, Scaling};
use adam::Adam;
use aware::Aware;
use data::{Data, Hearing};
pub use epoch::streams;
use epoch::{Course, epoch};
pub use error::WorldError;
pub use machine::{Machine, Wanted};
pub use place::Place;
use resume::Progress;
pub use settings::Settings;

/// Why training failed.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the error texts explain the variants and their fields")]
pub enum TrainError {
    /// A file cannot be read or written.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The front end cannot be read, or the network cannot be packed.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A sound is too long.
    #[error(transparent)]
    Run(#[from] RunError),
    #[error("{}: {source}", path.display())]
    Network { path: PathBuf, source: NetworkError },
    /// The processes cannot train together.
    #[error(transparent)]
    World(#[from] WorldError),
    /// The GPU failed.
    #[cfg(feature = "cudnn")]
    #[error(transparent)]
    Gpu(#[from] crate::status::GpuError),
    #[error("built without cuDNN: build it with cargo build --release -p tidegate-gpu --features cudnn")]
    WithoutCudnn,
    #[error("--quantize-aware rounds every state, which cuDNN cannot do: remove --device cuda")]
    Rounding,
    #[error("the loss is not finite in epoch {epoch}: lower --lr")]
    Diverged { epoch: usize },
}

type Result<T, E = TrainError> = std::result::Result<T, E>;

/// Result of a training.
#[derive(Clone, Debug)]
pub struct Trained {
    /// The model, ready to be packed.
    pub model: Canonical,
    /// The weights under PyTorch's names, for features scaled as in training.
    pub state_dict: std::collections::BTreeMap<String, tidegate_model::canonical::Tensor>,
    /// Loss and accuracy of each step.
    pub steps: Vec<[f32; 2]>,
    /// Loss and accuracy on the held-out data after each epoch.
    pub held_out: Vec<[f32; 2]>,
    /// The epoch of these weights, counted from 1.
    pub epoch: usize,
    /// Number of held-out sequences.
    pub checked: usize,
    /// Training time over all runs.
    pub seconds: f64,
    /// Number of epochs completed by earlier runs.
    pub resumed: usize,
}

impl Trained {
    /// Accuracy on the held-out data.
    pub fn accuracy(&self) -> f32 {
        self.held_out.get(self.epoch.saturating_sub(1)).map_or(0.0, |[_, accuracy]| *accuracy)
    }
}

/// Purpose of random numbers; each has its own generator.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    Weights,
    Order,
    Variants,
    Dropout,
    Copies,
    Streams,
}

/// A generator that depends only on its arguments.
pub(crate) fn random(seed: u64, purpose: Purpose, a: u64, b: u64) -> ChaCha8Rng {
    let mut key = [0; 32];
    for (to, from) in key.as_chunks_mut::<8>().0.iter_mut().zip([seed, purpose as u64, a, b]) {
        *to = from.to_le_bytes();
    }
    ChaCha8Rng::from_seed(key)
}

/// Trains a network on one machine, or together with other processes, and returns its model. The state of an
/// unfinished training is in the file `checkpoint`.
///
/// # Errors
/// If a file cannot be read or written, the network cannot be trained or packed, the loss diverges, the device fails,
/// or another process does.
pub fn train(settings: &Settings, checkpoint: &Path, machine: &mut Machine, place: &Place) -> Result<Trained> {
    if settings.quantize_aware.is_some() && !matches!(machine, Machine::Cpu) {
        return Err(TrainError::Rounding);
    }
    let description = Description::read(&settings.arch)?;
    let of_arch = |source: NetworkError| TrainError::Network { path: settings.arch.clone(), source };
    let network = Network::new(&description).map_err(of_arch)?;
    if settings.carry && !network.goes_on() {
        let reason = "has a backward direction, which cannot continue from another sequence: remove --carry".to_owned();
        return Err(of_arch(NetworkError::Whole(reason)));
    }
    let mut initial = network.initial(&mut random(settings.seed, Purpose::Weights, 0, 0));
    if let Some(path) = &settings.init {
        let failed = |source| TrainError::Network { path: path.clone(), source };
        initial = network.params(&read_tensors(path)?).map_err(failed)?;
    }
    let front_end = settings.front_end.as_deref().map(tidegate_model::load::read_front_end).transpose()?;
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
    // Pack the model before the long part starts. The packed image also provides the front end as the device runs it.
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
        let reason = format!("has {found} {what}, but the architecture {} has {needed}", settings.arch.display());
        return Err(DataError::new(&settings.data, reason).into());
    }
    let scaling = scale(&mut data, settings.scale);
    if let Some(path) = settings.features.as_ref().filter(|_| place.is_first()) {
        write_tensors(path, &data.tensors())?;
    }
    let fingerprint = fingerprint(settings, &description, &data, &initial);
    let unlabeled = |params: &[f32]| make(params, &scaling, &[]);
    // Check that the final model can be packed before the long part starts.
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
    let mut world = place.join(&format!("{fingerprint} {}", machine.kind()), checkpoint)?;
    #[cfg(feature = "cudnn")]
    machine.join(&mut world)?;
    let kept = if place.is_first() { Progress::read(checkpoint)? } else { Vec::new() };
    let found = Progress::parse(&world.share(kept)?, checkpoint, &fingerprint, network.params_size())?;
    let mut progress = found.unwrap_or_else(fresh);
    let resumed = progress.epochs;
    if let Some(aware) = &mut aware {
        aware.measure(&progress.params)?;
    }
    let log = |progress: &Progress| match &settings.log {
        Some(path) if place.is_first() => log(path, progress),
        _ => Ok(()),
    };
    // Also before the first epoch, so that a wrong path fails at once.
    log(&progress)?;
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
            progress.save(checkpoint, &fingerprint)?;
        }
        log(&progress)?;
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

/// Writes a line for each epoch, so that the file is whole after every one and after a resumed training too.
fn log(path: &Path, progress: &Progress) -> Result<()> {
    let per_epoch = (progress.steps.len() / progress.held_out.len().max(1)).max(1);
    let mut text = "epoch,loss,accuracy,val_loss,val_accuracy\n".to_owned();
    for (k, (steps, [loss, accuracy])) in progress.steps.chunks(per_epoch).zip(&progress.held_out).enumerate() {
        let mean = |which: usize| steps.iter().map(|step| step[which]).sum::<f32>() / steps.len() as f32;
        text += &format!("{},{},{},{loss},{accuracy}\n", k + 1, mean(0), mean(1));
    }
    write_atomically(path, |file| file.write_all(text.as_bytes()))?;
    Ok(())
}

/// Adds the settings that the architecture does not contain.
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

/// Scales all features by the statistics of the training data.
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

/// Extends a CRC by these values.
fn digest(before: u32, values: &[f32]) -> u32 {
    values.chunks(1024).fold(before, |digest, values| {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        crc32c::crc32c_append(digest, &bytes)
    })
}

/// Everything that must be equal for a training to be resumed.
fn fingerprint(settings: &Settings, description: &Description, data: &Data, initial: &[f32]) -> String {
    let mut seen = digest(0, initial);
    for example in data.train.iter().chain(&data.held_out) {
        seen = example.variants.iter().fold(seen, |seen, rows| digest(seen, rows));
        seen = digest(seen, &[example.class as f32]);
    }
    let integers = settings.quantize_aware.map_or("", Numeric::name);
    let Settings { epochs, patience, batch, seed, .. } = settings;
    let Settings { learning_rate, end_rate, weight_decay, clip, noise, scale, carry, .. } = settings;
    let rates = format!("{learning_rate} {end_rate} {weight_decay} {clip} {noise} {scale} {carry} {integers}");
    let network = serde_json::to_string(description).unwrap_or_default();
    format!("1 {seen:08x} {epochs} {patience:?} {batch} {rates} {seed} {network}")
}

/// Deletes the checkpoint of a finished training.
///
/// # Errors
/// If it exists and cannot be deleted.
pub fn forget(checkpoint: &Path) -> Result<(), DataError> {
    match std::fs::remove_file(checkpoint) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(DataError::io(checkpoint, "deleted", error)),
        _ => Ok(()),
    }
}
