//! The device that runs a training: all cores of the CPU, or a GPU.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::Result;
use super::world::World;
use crate::rnn::Math;
#[cfg(feature = "cudnn")]
use {
    super::place::SILENCE,
    crate::device::layers::Layers,
    crate::sys::nccl::{Library, Nccl, UniqueId},
};

/// Device that a training may run on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wanted {
    /// A GPU if there is one, otherwise the CPU.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// A GPU, with the layers in cuDNN.
    Cuda,
}

/// Device that a training runs on.
pub enum Machine {
    /// All cores of the CPU.
    Cpu,
    /// A GPU.
    #[cfg(feature = "cudnn")]
    Gpu(Box<Gpu>),
}

/// A GPU, and its connection to the GPUs of other processes.
#[cfg(feature = "cudnn")]
pub struct Gpu {
    pub(super) layers: Layers,
    nccl: Option<Nccl>,
}

impl Machine {
    /// Opens the wanted device; `number` selects one of several GPUs. Also returns why `Auto` chose the CPU.
    ///
    /// # Errors
    /// If a GPU is wanted and cannot be opened.
    #[cfg(feature = "cudnn")]
    pub fn find(wanted: Wanted, number: usize, math: Math) -> Result<(Self, Option<String>)> {
        if wanted == Wanted::Cpu {
            return Ok((Self::Cpu, None));
        }
        match crate::device::Device::number(number) {
            Ok(device) => Ok((Self::Gpu(Box::new(Gpu { layers: Layers::new(&device, math), nccl: None })), None)),
            Err(reason) if wanted == Wanted::Auto => Ok((Self::Cpu, Some(reason.to_string()))),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens the wanted device. Also returns why `Auto` chose the CPU.
    ///
    /// # Errors
    /// If a GPU is wanted: this build has no cuDNN.
    #[cfg(not(feature = "cudnn"))]
    pub fn find(wanted: Wanted, _: usize, _: Math) -> Result<(Self, Option<String>)> {
        match wanted {
            Wanted::Cpu => Ok((Self::Cpu, None)),
            Wanted::Auto => Ok((Self::Cpu, Some("built without cuDNN".to_owned()))),
            Wanted::Cuda => Err(super::TrainError::WithoutCudnn),
        }
    }

    /// Connects the GPUs of all processes, so that they sum gradients directly.
    #[cfg(feature = "cudnn")]
    pub(super) fn join(&mut self, world: &mut World) -> Result<()> {
        let Self::Gpu(gpu) = self else { return Ok(()) };
        if world.size == 1 {
            return Ok(());
        }
        let library = Library::load()?;
        let id = if world.rank == 0 { library.unique_id()?.0.to_vec() } else { Vec::new() };
        let id = UniqueId::of(&world.share(id)?)?;
        // Continue only if all processes have NCCL: it would wait for a process without NCCL.
        world.sum([0.0])?;
        gpu.nccl = Some(Nccl::new(library, &gpu.layers.device, (world.rank, world.size), id, SILENCE)?);
        Ok(())
    }

    /// Sums gradients, in place, and two counts over all processes.
    pub(super) fn add_up(&mut self, world: &mut World, gradient: &mut [f32], counts: [f64; 2]) -> Result<[f64; 2]> {
        // The counts come first, so that a lost process is noticed before a GPU waits for it.
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

    /// Identifies the arithmetic, which must be the same in every process: the CPU and GPUs, f32 and tf32 sum
    /// differently.
    pub(super) fn kind(&self) -> String {
        match self {
            Self::Cpu => "cpu".to_owned(),
            #[cfg(feature = "cudnn")]
            Self::Gpu(gpu) => format!("cuda {:?}", gpu.layers.math),
        }
    }

    /// Name in reports.
    pub fn name(&self) -> &str {
        match self {
            Self::Cpu => "the CPU",
            #[cfg(feature = "cudnn")]
            Self::Gpu(gpu) => gpu.layers.device.name(),
        }
    }
}

/// Computes `work(0)`, `work(1)`, ... on all cores, and returns the results in order.
pub(super) fn in_parallel<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(count);
    if threads <= 1 {
        return (0..count).map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let run = || {
        let numbers =
            std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed)).take_while(|&number| number < count);
        numbers.map(|number| (number, work(number))).collect::<Vec<_>>()
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
    fn every_item_is_computed_once_and_in_order() {
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
