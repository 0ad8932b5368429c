//! A thousand streams of one model, stepped by two threads that exchange them, and in a pool that two threads share.
//! `cargo xtask hosts` runs this under the thread sanitizer and Miri.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tidegate::internals::cell::CellKind;
use tidegate_fused::{FusedModel, Isa, Stream, StreamPool};
use tidegate_fused_bench::{Image, noises};

/// Miri is about a thousand times slower than a CPU. The thread sanitizer, which gets a number of seconds, runs code without
/// optimization.
const STREAMS: usize = if cfg!(miri) { 6 } else { 1000 };
const STREAMS_FOR_SECONDS: usize = 100;
const STEPS: usize = if cfg!(miri) { 3 } else { 20 };
const THREADS: usize = 2;
const INPUT: usize = 8;

/// A stream and the number of steps that it has run.
struct Turn<'f, 'm> {
    index: usize,
    step: usize,
    stream: Stream<'f, 'm>,
}

/// The input of step `step` of stream `index`.
fn input(x: &[f32], index: usize, step: usize) -> &[f32] {
    let start = (index * 7 + step * INPUT) % (x.len() - INPUT);
    &x[start..start + INPUT]
}

/// Steps all streams from zero until `at_least` has passed, at least once. Returns the total number of steps.
fn hold(fused: &FusedModel<'_>, streams: usize, at_least: Duration) -> usize {
    let (x, size) = (noises(997), fused.model().output_size());
    let mut alone = fused.stream();
    let mut expected = vec![0.0; streams * STEPS * size];
    for (index, steps) in expected.chunks_mut(STEPS * size).enumerate() {
        alone.reset();
        for (step, y) in steps.chunks_mut(size).enumerate() {
            assert!(alone.step(input(&x, index, step), y).is_ok_and(tidegate::Step::has_output));
        }
    }
    let turns = (0..streams).map(|index| Turn { index, step: 0, stream: fused.stream() });
    let (turns, start) = (Mutex::new(turns.collect::<VecDeque<_>>()), Instant::now());
    let work = || {
        let (mut y, mut steps) = (vec![0.0; size], 0);
        loop {
            let next = turns.lock().expect("no thread panics with it").pop_front();
            let Some(Turn { index, step, mut stream }) = next else { return steps };
            assert!(stream.step(input(&x, index, step), &mut y).is_ok_and(tidegate::Step::has_output));
            let at = (index * STEPS + step) * size;
            assert_eq!(y, expected[at..at + size], "stream {index}, step {step}");
            steps += 1;
            let step = match step + 1 {
                STEPS if start.elapsed() >= at_least => continue,
                STEPS => 0,
                step => step,
            };
            if step == 0 {
                stream.reset();
            }
            turns.lock().expect("no thread panics with it").push_back(Turn { index, step, stream });
        }
    };
    let steps = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().expect("every step is right")).sum()
    });
    assert!(steps >= streams * STEPS, "every stream has had every step");
    steps
}

/// Steps a pool until `at_least` has passed, at least three times; with the feature `threads`, on two threads. Returns
/// the total number of steps.
fn hold_pool(fused: &FusedModel<'_>, streams: usize, at_least: Duration) -> usize {
    let (x, size) = (noises(997), fused.model().output_size());
    #[cfg(feature = "threads")]
    let threads = rayon::ThreadPoolBuilder::new().num_threads(THREADS).build().expect("threads start");
    let mut pool = StreamPool::with_capacity(fused, streams);
    let ids: Vec<_> = (0..streams).map(|_| pool.join()).collect();
    let mut alone: Vec<_> = (0..streams).map(|_| fused.stream()).collect();
    let (start, mut calls, mut steps) = (Instant::now(), 0, 0);
    while calls < 3 || start.elapsed() < at_least {
        // Streams in descending order, in every other call every third of them.
        let order: Vec<usize> = (0..streams).rev().step_by(1 + 2 * (calls % 2)).collect();
        let ready: Vec<_> = order.iter().map(|&index| ids[index]).collect();
        let frames: Vec<f32> = order.iter().flat_map(|&index| input(&x, index, calls)).copied().collect();
        let (mut y, mut expected) = (vec![0.0; ready.len() * size], vec![0.0; size]);
        #[cfg(feature = "threads")]
        let stepped = threads.install(|| pool.par_step(&ready, &frames, &mut y).map(<[_]>::len));
        #[cfg(not(feature = "threads"))]
        let stepped = pool.step(&ready, &frames, &mut y).map(<[_]>::len);
        assert_eq!(stepped, Ok(ready.len()));
        for (&index, y) in order.iter().zip(y.chunks(size)) {
            assert!(alone[index].step(input(&x, index, calls), &mut expected).is_ok());
            assert_eq!(y, expected, "stream {index}");
        }
        (calls, steps) = (calls + 1, steps + ready.len());
    }
    steps
}

#[test]
fn a_thousand_streams_over_one_model_step_correctly_on_two_threads() {
    let seconds = std::env::var("TIDEGATE_RACE_SECONDS").ok().map(|text| text.parse().expect("seconds"));
    let streams = if seconds.is_some() { STREAMS_FOR_SECONDS } else { STREAMS };
    // SRU has no kernel.
    let cells = [(CellKind::Lstm, &[][..], 16), (CellKind::Gru, &["reset_after"], 21), (CellKind::Sru, &[], INPUT)];
    let isas: Vec<Isa> = Isa::available().collect();
    let at_least = Duration::from_secs(seconds.unwrap_or(0)) / (2 * cells.len() * isas.len()) as u32;
    for (kind, options, hidden) in cells {
        let image = Image::of(kind, options, INPUT, hidden);
        for &isa in &isas {
            let steps = hold(&FusedModel::with_isa(&image.model(), isa), streams, at_least);
            println!("{} on {isa}: {steps} steps of {streams} streams", kind.spec().name);
            let steps = hold_pool(&FusedModel::with_isa(&image.model(), isa), streams, at_least);
            println!("{} on {isa}: {steps} steps of a pool of {streams} streams", kind.spec().name);
        }
    }
}
