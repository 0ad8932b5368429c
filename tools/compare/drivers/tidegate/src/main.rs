//! Tidegate: the image whose numeric the variant names, as in `f32` or `f32-2threads`. A call is a step of a stream, or a
//! batch of sequences, on one thread or several.

use std::fs;

use anyhow::{Context, Result};
use compare_protocol::{Case, Runner, serve, transposed};
use rayon::{ThreadPool, ThreadPoolBuilder};
use tidegate::internals::cell::CellKind;
use tidegate::{Batch, ImageBytes, Model, Sequence};
use tidegate_fused::{FusedModel, Isa, ParScratch, Scratch, Stream};

/// Alignment of an image.
const ALIGNMENT: usize = 16;

/// What a step reads: the frames of a case.
struct Frames {
    /// `[time, features]` of a stream, `[batch, time, features]` of sequences. A mask is the last feature.
    x: Vec<f32>,
    features: usize,
    time: usize,
    batch: usize,
}

impl Frames {
    fn read(case: &Case) -> Result<Self> {
        let (time, batch, mut features) = (case.number("steps")?, case.number("batch")?, case.number("input")?);
        let mut x = case.floats("x.f32")?;
        if case.number("masked")? == 1 {
            let mask = case.floats("mask.f32")?;
            x = x.chunks_exact(features).zip(mask).flat_map(|(x, mask)| x.iter().copied().chain([mask])).collect();
            features += 1;
        }
        Ok(Self { x: transposed(&x, time, batch, features), features, time, batch })
    }
}

struct Fused {
    model: &'static FusedModel<'static>,
    frames: Frames,
    is_stream: bool,
    /// Only the last step has outputs: those of all steps. Bidirectional layers need the whole sequence.
    last_only: bool,
    stream: Stream<'static, 'static>,
    batch: Batch<'static>,
    scratch: Scratch,
    /// For several threads.
    pool: Option<(ThreadPool, ParScratch)>,
    y: Vec<f32>,
    next: usize,
}

impl Fused {
    fn new(model: &'static FusedModel<'static>, frames: Frames, is_stream: bool, threads: usize) -> Result<Self> {
        let core = model.model();
        let last_only = core.nodes().any(|node| node.kind == CellKind::Window);
        let steps = if is_stream || last_only { 1 } else { frames.time };
        // A batch borrows its memory, which lives until the program ends.
        let batch = Batch::new(core, frames.batch, vec![0; frames.batch * core.state_words()].leak())?;
        let pool = (threads > 1).then(|| -> Result<_> {
            let pool = ThreadPoolBuilder::new().num_threads(threads).build()?;
            let scratch = pool.install(|| model.par_scratch());
            Ok((pool, scratch))
        });
        let y = vec![0.0; frames.batch * steps * core.output_size()];
        let (stream, scratch, pool) = (model.stream(), model.scratch(), pool.transpose()?);
        Ok(Self { model, frames, is_stream, last_only, stream, batch, scratch, pool, y, next: 0 })
    }
}

impl Runner for Fused {
    fn call(&mut self) -> Result<()> {
        let Self { model, frames, stream, batch, scratch, y, .. } = self;
        if self.is_stream {
            let x = &frames.x[self.next * frames.features..][..frames.features];
            self.next = (self.next + 1) % frames.time;
            let _ = stream.step(x, y)?;
            return Ok(());
        }
        let sequence = Sequence { last_only: self.last_only, ..Sequence::ALL };
        batch.reset();
        let (x, y): (&[&[f32]], &mut [&mut [f32]]) = (&[&frames.x], &mut [y]);
        match &mut self.pool {
            Some((pool, scratch)) => pool.install(|| model.par_run_batch(batch, scratch, x, y, &sequence))?,
            None => model.run_batch(batch, scratch, x, y, &sequence)?,
        };
        Ok(())
    }

    fn outputs(&mut self) -> Result<Vec<f32>> {
        let Frames { batch, time, .. } = self.frames;
        if !self.is_stream {
            self.call()?;
            return Ok(transposed(&self.y, batch, time, self.y.len() / batch / time));
        }
        self.stream.reset();
        self.next = 0;
        let mut all = Vec::new();
        for _ in 0..time {
            self.call()?;
            all.extend_from_slice(&self.y);
        }
        Ok(all)
    }
}

fn main() -> Result<()> {
    let case = Case::from_arguments()?;
    let variant = Case::variant()?;
    let (numeric, threads) = match variant.split_once('-') {
        Some((numeric, threads)) => (numeric, threads.strip_suffix("threads").context("not THREADSthreads")?.parse()?),
        None => (variant.as_str(), 1),
    };
    let bytes = fs::read(case.path(&format!("model-{numeric}.tgi")))?;
    let (frames, is_stream) = (Frames::read(&case)?, case.is_stream()?);
    serve(|| {
        // The model lives until the program ends.
        let model: &'static FusedModel<'static> = Box::leak(Box::new(FusedModel::with_isa(&parse(&bytes)?, isa()?)));
        let (isa, nodes) = (model.isa().name(), model.packed());
        let fast = nodes.iter().filter(|&&packed| packed).count();
        let description = format!("tidegate-fused {numeric}, {isa}, {fast} of {} nodes have a kernel", nodes.len());
        Ok((Fused::new(model, frames, is_stream, threads)?, description))
    })
}

/// The instruction set that the environment variable `TIDEGATE_ISA` names, otherwise the fastest one.
fn isa() -> Result<Isa> {
    let Some(name) = std::env::var_os("TIDEGATE_ISA") else { return Ok(Isa::best()) };
    let found = Isa::available().find(|isa| *isa.name() == *name);
    found.with_context(|| format!("this CPU has no instruction set {}", name.display()))
}

fn parse(bytes: &[u8]) -> Result<Model<'static>> {
    let buffer: &'static mut [u8] = Box::leak(vec![0; bytes.len() + ALIGNMENT].into_boxed_slice());
    let start = buffer.as_ptr().align_offset(ALIGNMENT);
    let image = &mut buffer[start..start + bytes.len()];
    image.copy_from_slice(bytes);
    Ok(Model::parse(ImageBytes::new(image)?)?.endless())
}
