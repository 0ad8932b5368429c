//! Benchmarks of stream steps, whole sequences, batches and loading: `cargo bench -p tidegate-fused-bench`.

#![allow(missing_docs, reason = "what criterion's macros make has none")]

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use tidegate::internals::cell::CellKind;
use tidegate::{Batch, Sequence};
use tidegate_fused::{FusedModel, Isa};
use tidegate_fused_bench::{Image, noises};

/// One step of a stream: S1 to S3 (LSTM) and S4 (GRU), with equal numbers of inputs and units.
fn streams(criterion: &mut Criterion) {
    for (cell, kind, options) in [("lstm", CellKind::Lstm, &[][..]), ("gru", CellKind::Gru, &["reset_after"])] {
        for isa in Isa::available() {
            let mut group = criterion.benchmark_group(format!("step/{cell}/{isa}"));
            for size in [16, 32, 64, 128, 256, 512] {
                let image = Image::of(kind, options, size, size);
                let model = image.model();
                let fused = FusedModel::with_isa(&model, isa);
                let mut stream = fused.stream();
                let (x, mut y) = (noises(size), vec![0.0; size]);
                group.bench_function(BenchmarkId::from_parameter(size), |bencher| {
                    bencher.iter(|| stream.step(black_box(&x), &mut y));
                    assert!(y.iter().all(|y| y.is_finite() && *y != 0.0), "{cell} {isa} {size}: it did not step");
                });
            }
        }
    }
}

/// Sequences of an LSTM: name, batch, steps, inputs, units.
fn sequences(criterion: &mut Criterion) {
    let works = [("W1", 1, 70, 512, 512), ("W2", 64, 1000, 256, 126), ("W3", 128, 28, 28, 32)];
    for (name, batch, time, input, hidden) in works {
        let image = Image::of(CellKind::Lstm, &[], input, hidden);
        let model = image.model();
        let (x, mut y) = (noises(batch * time * input), vec![0.0; batch * time * hidden]);
        let mut group = criterion.benchmark_group(format!("run/{name}"));
        group.sample_size(10);
        for isa in Isa::available() {
            let fused = FusedModel::with_isa(&model, isa);
            let (mut memory, mut scratch) = (vec![0; batch * model.state_words()], fused.scratch());
            group.bench_function(isa.name(), |bencher| {
                bencher.iter(|| {
                    let mut states = Batch::new(&model, batch, &mut memory).expect("as many words as its states have");
                    let run =
                        fused.run_batch(&mut states, &mut scratch, &[black_box(&x)], &mut [&mut y], &Sequence::ALL);
                    assert_eq!(run, Ok(batch * time));
                });
            });
        }
    }
}

/// Checks and packs an image of 2 MB. The packed weights have the same size as those of the image.
fn loads(criterion: &mut Criterion) {
    let image = Image::of(CellKind::Lstm, &[], 256, 256);
    let mut group = criterion.benchmark_group("load");
    group.bench_function("parse", |bencher| bencher.iter(|| image.model()));
    let model = image.model();
    for isa in Isa::available() {
        group.bench_function(isa.name(), |bencher| bencher.iter(|| FusedModel::with_isa(black_box(&model), isa)));
    }
}

criterion_group!(benches, streams, sequences, loads);
criterion_main!(benches);
