//! Tidegate: the image of the numeric that the variant names, as in `f32` or `f32-2threads`.

mod fused;

use std::fs;

use anyhow::{Context, Result};
use compare_protocol::{Case, serve, transposed};
use tidegate::{ImageBytes, Model};
use tidegate_fused::FusedModel;

/// What an image has to stand on a multiple of.
const ALIGNMENT: usize = 16;

/// A case as Tidegate takes it.
pub struct Problem {
    pub stream: bool,
    pub batch: usize,
    pub time: usize,
    pub threads: usize,
    /// Of a step, with the mask.
    pub features: usize,
    /// `[time, input]` of a stream, `[batch, time, input]` of sequences; a mask is the last feature.
    pub x: Vec<f32>,
}

impl Problem {
    fn read(case: &Case, threads: usize) -> Result<Self> {
        let (time, batch, input) = (case.number("steps")?, case.number("batch")?, case.number("input")?);
        let stream = case.is_stream()?;
        let mut x = case.floats("x.f32")?;
        let mut features = input;
        if case.number("masked")? == 1 {
            let mask = case.floats("mask.f32")?;
            x = x.chunks_exact(input).zip(&mask).flat_map(|(x, &mask)| x.iter().copied().chain([mask])).collect();
            features += 1;
        }
        Ok(Self { stream, batch, time, threads, features, x: transposed(&x, time, batch, features) })
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
    let problem = Problem::read(&case, threads)?;
    serve(|| {
        // What is loaded lives until the program ends.
        let model: &'static FusedModel<'static> = Box::leak(Box::new(FusedModel::new(&parse(&bytes)?)));
        let (isa, nodes) = (model.isa().name(), model.packed());
        let fast = nodes.iter().filter(|&&packed| packed).count();
        let description = format!("tidegate-fused {numeric}, {isa}, {fast} of {} nodes have a kernel", nodes.len());
        Ok((fused::Fused::new(model, problem)?, description))
    })
}

fn parse(bytes: &[u8]) -> Result<Model<'static>> {
    let buffer: &'static mut [u8] = Box::leak(vec![0; bytes.len() + ALIGNMENT].into_boxed_slice());
    let start = buffer.as_ptr().align_offset(ALIGNMENT);
    let image = &mut buffer[start..start + bytes.len()];
    image.copy_from_slice(bytes);
    let image = ImageBytes::new(image)?;
    Ok(Model::parse(image)?.endless())
}
