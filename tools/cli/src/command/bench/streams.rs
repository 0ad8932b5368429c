//! Steps of many live streams: together in a pool, or one stream after the other.

use std::hint::black_box;

use rayon::ThreadPool;
use rayon::iter::{IndexedParallelIterator, ParallelIterator};
use rayon::slice::{ParallelSlice, ParallelSliceMut};
use tidegate_fused::{FusedModel, StreamPool};

/// How the streams are stepped.
#[derive(Clone, Copy)]
pub struct How {
    pub streams: usize,
    pub threads: usize,
    /// Whether each stream is stepped by itself.
    pub apart: bool,
}

/// Times calls that step every stream once. `input` has a frame for each stream.
pub fn time(fused: &FusedModel<'_>, input: &[f32], how: How) -> Result<Vec<u64>, rayon::ThreadPoolBuildError> {
    let threads = match how.threads {
        1 => None,
        threads => Some(rayon::ThreadPoolBuilder::new().num_threads(threads).build()?),
    };
    let mut output = vec![0.0; how.streams * fused.model().output_size()];
    Ok(if how.apart {
        apart(fused, input, &mut output, how.streams, threads)
    } else {
        together(fused, input, &mut output, how.streams, threads)
    })
}

fn together(
    fused: &FusedModel<'_>,
    input: &[f32],
    output: &mut [f32],
    streams: usize,
    threads: Option<ThreadPool>,
) -> Vec<u64> {
    let mut pool = StreamPool::with_capacity(fused, streams);
    let ids: Vec<_> = (0..streams).map(|_| pool.join()).collect();
    match threads {
        None => super::time(|| {
            let _ = black_box(pool.step(&ids, black_box(input), output));
        }),
        Some(threads) => threads.install(|| {
            super::time(|| {
                let _ = black_box(pool.par_step(&ids, black_box(input), output));
            })
        }),
    }
}

fn apart(
    fused: &FusedModel<'_>,
    input: &[f32],
    output: &mut [f32],
    streams: usize,
    threads: Option<ThreadPool>,
) -> Vec<u64> {
    let (of_input, of_output) = (fused.model().input_size(), fused.model().output_size());
    let mut all: Vec<_> = (0..streams).map(|_| fused.stream()).collect();
    let Some(threads) = threads else {
        return super::time(|| {
            for ((stream, x), y) in all.iter_mut().zip(input.chunks(of_input)).zip(output.chunks_mut(of_output)) {
                let _ = black_box(stream.step(black_box(x), y));
            }
        });
    };
    let each = streams.div_ceil(threads.current_num_threads());
    threads.install(|| {
        super::time(|| {
            let shares = all.par_chunks_mut(each).zip(input.par_chunks(each * of_input));
            shares.zip(output.par_chunks_mut(each * of_output)).for_each(|((streams, input), output)| {
                for ((stream, x), y) in streams.iter_mut().zip(input.chunks(of_input)).zip(output.chunks_mut(of_output))
                {
                    let _ = black_box(stream.step(black_box(x), y));
                }
            });
        })
    })
}
