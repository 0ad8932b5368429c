#[path = "../benches/models.rs"]
mod models;
use std::time::Instant;
use models::{Image, noises};
use tidegate::cell::CellKind;
use tidegate::{Batch, Sequence};
use tidegate_fused::{FusedModel, Isa};
fn median(mut f: impl FnMut(), budget_ms: u128) -> f64 {
    f();
    let mut t = Vec::new();
    let s = Instant::now();
    while t.len() < 7 || s.elapsed().as_millis() < budget_ms {
        let b = Instant::now();
        f();
        t.push(b.elapsed().as_nanos());
    }
    t.sort_unstable();
    t[t.len() / 2] as f64
}
fn main() {
    let which = std::env::args().nth(1).unwrap_or_default();
    for isa in Isa::available() {
        if !which.is_empty() && !which.contains(isa.name()) { continue; }
        for (kind, options) in [(CellKind::Lstm, &[][..]), (CellKind::Gru, &["reset_after"][..]), (CellKind::Gru, &[][..])] {
            print!("{isa} {} {options:?}:", kind.spec().name);
            for h in [16, 32, 64, 128, 256, 512] {
                let image = Image::of(kind, options, h, h);
                let model = image.model();
                let fused = FusedModel::with_isa(&model, isa);
                let mut stream = fused.stream();
                let x = noises(h);
                let mut y = vec![0.0; h];
                let n = (400_000 / (h * h)).max(1) * 4;
                let ns = median(|| for _ in 0..n { let _ = std::hint::black_box(stream.step(&x, &mut y)); }, 200) / n as f64;
                print!(" {h}: {:.3}us", ns / 1e3);
            }
            println!();
        }
        for (name, b, t, i, h) in [("W1", 1, 70, 512, 512), ("W2", 64, 1000, 256, 126), ("W3", 128, 28, 28, 32)] {
            let image = Image::of(CellKind::Lstm, &[], i, h);
            let model = image.model();
            let fused = FusedModel::with_isa(&model, isa);
            let x = noises(b * t * i);
            let mut y = vec![0.0; b * t * h];
            let mut memory = vec![0; b * model.state_words()];
            let mut scratch = fused.scratch();
            let ns = median(|| { let mut batch = Batch::new(&model, b, &mut memory).unwrap();
                fused.run_batch(&mut batch, &mut scratch, &[&x], &mut [&mut y], &Sequence::ALL).unwrap(); }, 500);
            print!(" {name}: {:.3}ms", ns / 1e6);
        }
        println!();
    }
}
