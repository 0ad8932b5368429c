//! What computes a training: all cores of the CPU, or a GPU.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::TrainError;
#[cfg(feature = "cudnn")]
use super::world::SILENCE;
use super::world::World;
#[cfg(feature = "cudnn")]
use crate::device::layers::Layers;
use crate::rnn::Math;
#[cfg(feature = "cudnn")]
use crate::sys::nccl::{Library, Nccl, UniqueId};

/// Where a training may run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wanted {
    /// On a GPU if there is one, else on the CPU.
    #[default]
    Auto,
    /// On the CPU.
    Cpu,
    /// On a GPU, with layers in cuDNN.
    Cuda,
}

/// Where it runs.
pub enum Machine {
    /// On all cores of the CPU.
    Cpu,
    /// On a GPU.
    #[cfg(feature = "cudnn")]
    Gpu(Box<Gpu>),
}

/// A GPU, and the other processes' where there are some.
#[cfg(feature = "cudnn")]
pub struct Gpu {
    pub(super) layers: Layers,
    nccl: Option<Nccl>,
}

impl Machine {
    /// The machine that is wanted, of several GPUs the one of this number; and why it is the CPU where it could have been
    /// another.
    ///
    /// # Errors
    /// If a GPU is wanted and there is none.
    #[cfg(feature = "cudnn")]
    pub fn find(wanted: Wanted, number: usize, math: Math) -> Result<(Self, Option<String>), TrainError> {
        if wanted == Wanted::Cpu {
            return Ok((Self::Cpu, None));
        }
        match crate::device::Device::number(number) {
            Ok(device) => Ok((Self::Gpu(Box::new(Gpu { layers: Layers::new(&device, math), nccl: None })), None)),
            Err(reason) if wanted == Wanted::Auto => Ok((Self::Cpu, Some(reason.to_string()))),
            Err(error) => Err(error.into()),
        }
    }

    /// The machine that is wanted; and why it is the CPU where it could have been another.
    ///
    /// # Errors
    /// If a GPU is wanted: this build has no cuDNN.
    #[cfg(not(feature = "cudnn"))]
    pub fn find(wanted: Wanted, _: usize, _: Math) -> Result<(Self, Option<String>), TrainError> {
        match wanted {
            Wanted::Cpu => Ok((Self::Cpu, None)),
            Wanted::Auto => Ok((Self::Cpu, Some("this build has no cuDNN".to_owned()))),
            Wanted::Cuda => Err(TrainError::WithoutCudnn),
        }
    }

    /// GPUs add up gradients by themselves.
    ///
    /// # Errors
    /// If there is no NCCL, or it fails.
    #[cfg(feature = "cudnn")]
    pub(super) fn join(&mut self, world: &mut World) -> Result<(), TrainError> {
        let Self::Gpu(gpu) = self else { return Ok(()) };
        if world.is_alone() {
            return Ok(());
        }
        let library = Library::load()?;
        let id = if world.is_first() { library.unique_id()?.bytes().to_vec() } else { Vec::new() };
        let id = UniqueId::of(&world.share(id)?)?;
        // All have NCCL: it would wait for one that has not.
        world.sum([0.0])?;
        gpu.nccl = Some(Nccl::new(library, gpu.layers.device(), world.rank_of(), id, SILENCE)?);
        Ok(())
    }

    /// The sum of gradients over all processes, in place, and of two counts.
    pub(super) fn add_up(
        &mut self,
        world: &mut World,
        gradient: &mut [f32],
        counts: [f64; 2],
    ) -> Result<[f64; 2], TrainError> {
        // First the counts: who is gone is known before GPUs wait for it.
        let sums = world.sum(counts)?;
        #[cfg(feature = "cudnn")]
        if let Self::Gpu(gpu) = self
            && let Some(nccl) = &mut gpu.nccl
        {
            nccl.sum(gradient)?;
            return Ok(sums);
        }
        world.add_up(gradient)?;
        Ok(sums)
    }

    /// What must be the same in every process: a CPU sums otherwise than a GPU, and tf32 otherwise than f32.
    pub(super) fn kind(&self) -> String {
        match self {
            Self::Cpu => "cpu".to_owned(),
            #[cfg(feature = "cudnn")]
            Self::Gpu(gpu) => format!("cuda {:?}", gpu.layers.math()),
        }
    }

    /// In reports.
    pub fn name(&self) -> &str {
        match self {
            Self::Cpu => "the CPU",
            #[cfg(feature = "cudnn")]
            Self::Gpu(gpu) => gpu.layers.device().name(),
        }
    }
}

/// `work(0)`, `work(1)`, ... on all cores, in their order.
pub(super) fn in_parallel<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
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
}
