//! Integer images of a thousand random networks: calibrated on one half of an input, and compared with f32 on the other.
//!
//! The measure is f32 whose rows of weights are each rounded to 8 bits. The networks differ in cells, options, sizes, the
//! range of their inputs over six decades, sparse rows, and outliers of weights and inputs. Only networks that contract
//! count: in others, any error grows until it is as large as the output.

use std::collections::BTreeMap;
use std::path::Path;

use tidegate::internals::cell::CellKind;
use tidegate::{Layout, Numeric};
use tidegate_model::canonical::Canonical;
use tidegate_model::compare::Comparison;
use tidegate_model::load::{self, ImageBuffer};
use tidegate_model::quantize::{Goal, RangeRules, Seen, choose};
use tidegate_tests::oracle::{Bounded, Oracle};
use tidegate_tests::random::{Draw, Rng, Variant, chain};

/// Number of networks.
const NETWORKS: u64 = 1000;
/// Steps of each half of an input.
const STEPS: usize = 300;
/// Decibels that an image may be below f32 with rounded rows.
const BELOW_DB: f64 = 3.0;
/// Decibels from which on an image is good enough.
const ENOUGH_DB: f64 = 45.0;
/// Decibels that no image may be below the rule.
const WORST_DB: f64 = 10.0;

/// The cells, without and with options. The plain ones are drawn more often.
const CELLS: [(CellKind, &[&str]); 13] = [
    (CellKind::Lstm, &[]),
    (CellKind::Lstm, &[]),
    (CellKind::Lstm, &[]),
    (CellKind::Lstm, &["peephole"]),
    (CellKind::Lstm, &["coupled"]),
    (CellKind::Gru, &[]),
    (CellKind::Gru, &[]),
    (CellKind::Gru, &["reset_after"]),
    (CellKind::Gru, &["reset_after"]),
    (CellKind::Elman, &[]),
    (CellKind::MinGru, &[]),
    (CellKind::MinLstm, &[]),
    (CellKind::FastGrnn, &[]),
];

/// A random network and its input, of two halves.
fn network(rng: &mut Rng) -> (String, Canonical, Vec<f32>) {
    let features = 1 + rng.below(40);
    let layers = 1 + rng.below(2);
    let mut cells = Vec::new();
    for _ in 0..layers {
        let (kind, options) = rng.pick(&CELLS);
        cells.push((Variant::new(kind, options), 1 + rng.below(40)));
    }
    if rng.below(2) == 0 {
        cells.push((Variant::new(CellKind::Dense, &[]), 1 + rng.below(6)));
    }
    let mut name = cells.iter().map(|(cell, units)| format!("{} of {units}", cell.name())).collect::<Vec<_>>().join(", ");
    let weights = rng.pick(&[0.5, 1.0, 1.7, 3.0]);
    let biases = rng.below(4) > 0;
    let mut model = chain(rng, features, &cells, Draw { weights, biases });
    // Sparse rows, rows of other sizes, and single large weights.
    let odd = rng.below(4);
    for tensor in model.tensors.values_mut().filter(|tensor| tensor.shape.len() == 2) {
        let cols = tensor.shape[1];
        for row in tensor.data.chunks_mut(cols) {
            match (odd, rng.below(3)) {
                (1, 0) => row.iter_mut().for_each(|weight| *weight *= f32::from(u8::from(rng.below(10) == 0))),
                (2, 0) => row.iter_mut().for_each(|weight| *weight *= 0.05),
                (3, 0) => row[rng.below(cols)] *= 8.0,
                _ => {}
            }
        }
    }
    // The range of the whole input, and of each column.
    let decade = |rng: &mut Rng| 10.0_f32.powf(rng.number(3.0));
    let whole = decade(rng);
    let by_columns = rng.below(5) == 0;
    let scales: Vec<f32> =
        (0..features).map(|_| if by_columns { whole * 10.0_f32.powf(rng.number(1.0)) } else { whole }).collect();
    if let Some(first) = model.tensors.get_mut("n0.input_weights") {
        let cols = first.shape[1];
        for row in first.data.chunks_mut(cols) {
            row.iter_mut().zip(&scales).for_each(|(weight, scale)| *weight /= scale);
        }
    }
    let (kind, outliers) = (rng.below(3), rng.below(4) == 0);
    // About twenty in each half.
    let rarity = features * STEPS / 20;
    let mut values = vec![0.0; features];
    let mut input = Vec::new();
    for step in 0..2 * STEPS {
        for (value, scale) in values.iter_mut().zip(&scales) {
            *value = match kind {
                0 => rng.number(1.7),
                1 => 0.9 * *value + rng.number(0.7),
                _ if step % 8 == 0 => rng.number(1.7),
                _ => *value,
            };
            let far = if outliers && rng.below(rarity) == 0 { 30.0 } else { 1.0 };
            input.push(*value * scale * far);
        }
    }
    name += &format!(
        ", {features} features, weights {weights}, odd {odd}, range {whole:.1e}, columns {by_columns}, input {kind}, \
         outliers {outliers}"
    );
    (name, model, input)
}

/// Whether a small change of the state shrinks to a tenth in a third of a half.
fn contracts(rng: &mut Rng, model: &Canonical, input: &[f32]) -> bool {
    let oracle = Oracle::new(model);
    let input = &input[..STEPS / 3 * model.architecture.inputs[0].size];
    let mut states = [0.0, 1e-3].map(|by: f32| {
        let state: Vec<_> = (0..oracle.state_len()).map(|_| Bounded::exact(rng.number(1.0) * by)).collect();
        state
    });
    let size = model.architecture.outputs[0].size;
    let [one, other] = states.each_mut().map(|state| oracle.run(state, input));
    let far: Vec<f64> = one
        .chunks(size)
        .zip(other.chunks(size))
        .map(|(one, other)| one.iter().zip(other).map(|(a, b)| (a.value - b.value).powi(2)).sum::<f64>())
        .collect();
    let most = |far: &[f64]| far.iter().copied().fold(0.0, f64::max);
    most(&far[far.len() / 2..]) <= 0.01 * most(&far[..far.len() / 4])
}

/// The model with each row of its matrices rounded to 8 bits.
fn rounded(model: &Canonical) -> Canonical {
    let mut model = model.clone();
    for tensor in model.tensors.values_mut().filter(|tensor| tensor.shape.len() == 2) {
        for row in tensor.data.chunks_mut(tensor.shape[1]) {
            let step = row.iter().fold(0.0_f32, |most, weight| most.max(weight.abs())) / 127.0;
            if step > 0.0 {
                row.iter_mut().for_each(|weight| *weight = (*weight / step).round() * step);
            }
        }
    }
    model
}

/// Decibels of an image on an input, against a reference.
fn ratio(image: &ImageBuffer, reference: &ImageBuffer, input: &[f32]) -> f64 {
    let (image, reference) = (image.model().unwrap(), reference.model().unwrap());
    let mut comparison = Comparison::new(&image, &reference);
    comparison.run(&image, &reference, &[input], |_| ()).unwrap();
    let output = comparison.output;
    if output.noise > 0.0 { output.snr_db() } else { f64::INFINITY }
}

#[test]
fn random_networks_stay_near_f32_with_rounded_weights() {
    let float = |model: &Canonical| load::packed(Path::new("model"), model, Numeric::F32).unwrap();
    let (mut counted, mut below) = (0, Vec::new());
    let mut refused: BTreeMap<String, usize> = BTreeMap::new();
    let seed = std::env::var("SEED").ok().map_or(0, |seed| seed.parse().unwrap());
    for number in 0..NETWORKS {
        let mut rng = Rng::new(seed * 1_000_000 + number);
        let (name, model, input) = network(&mut rng);
        if !contracts(&mut rng, &model, &input) {
            continue;
        }
        let (half, other) = input.split_at(input.len() / 2);
        let (rules, numeric) = (RangeRules::default(), Numeric::I8x16);
        let ranges = Seen::measure(&model, [&[half][..]]).unwrap().ranges(&rules, &model);
        let ranges =
            choose(&model, numeric, ranges, &rules, &[vec![half.to_vec()]], &Goal::default()).unwrap();
        let image = match load::packed_with(Path::new("model"), &model, numeric, &ranges, Layout::Portable) {
            Ok(image) => image,
            Err(error) => {
                *refused.entry(error.to_string()).or_default() += 1;
                continue;
            }
        };
        let reference = float(&model);
        let (got, measure) = (ratio(&image, &reference, other), ratio(&float(&rounded(&model)), &reference, other));
        assert!(!got.is_nan() && !measure.is_nan(), "{number} {name}: {got} {measure}");
        counted += 1;
        let short = (measure - BELOW_DB).min(ENOUGH_DB) - got;
        if short > 0.0 {
            below.push((short, format!("{number}: {got:.1} dB, rounded rows {measure:.1} dB, {name}")));
        }
    }
    below.sort_by(|a, b| b.0.total_cmp(&a.0));
    for (short, text) in &below {
        println!("{short:.1} dB short: {text}");
    }
    println!("{counted} contract, {} below the rule, refused {refused:?}", below.len());
    assert!(counted > 500, "{counted}");
    assert!(below.len() * 20 <= counted, "{} of {counted}", below.len());
    assert!(below.iter().all(|(short, _)| *short <= WORST_DB), "{:?}", below[0]);
    assert!(refused.values().sum::<usize>() * 100 <= counted, "{refused:?}");
}

#[test]
fn debug_one() {
    let float = |model: &Canonical| load::packed(Path::new("model"), model, Numeric::F32).unwrap();
    for number in std::env::var("ONES").unwrap_or_default().split(',').filter_map(|x| x.parse::<u64>().ok()) {
        let mut rng = Rng::new(number);
        let (name, model, input) = network(&mut rng);
        let (half, other) = input.split_at(input.len() / 2);
        let (rules, numeric) = (RangeRules::default(), Numeric::I8x16);
        let reference = float(&model);
        println!("{number} {name}");
        let seen = Seen::measure(&model, [&[half][..]]).unwrap();
        let base = seen.ranges(&rules, &model);
        for n in seen.names() { print!("{n} {:.3} range {:.3}; ", seen.most(n), base.of(n)); }
        println!();
        let chosen = choose(&model, numeric, base.clone(), &rules, &[vec![half.to_vec()]], &Goal::default()).unwrap();
        for n in seen.names() { if chosen.of(n) != base.of(n) { print!("{n} chosen {:.3}; ", chosen.of(n)); } }
        let mut minmax = RangeRules::default(); minmax.usual = tidegate_model::quantize::RangeRule::MinMax;
        let mm = seen.ranges(&minmax, &model);
        let both = Seen::measure(&model, [&[input.as_slice()][..]]).unwrap().ranges(&minmax, &model);
        for n in seen.names() { print!("{n} both {:.3}; ", both.of(n)); }
        let mut wide = base.clone();
        wide.add_wide(model.architecture.nodes.iter().map(|n| n.name.clone()));
        let mut widemm = mm.clone();
        widemm.add_wide(model.architecture.nodes.iter().map(|n| n.name.clone()));
        let r = ratio(&float(&rounded(&model)), &reference, other);
        println!("rounded {r:.1}");
        let mut cw = chosen.clone();
        cw.add_wide(model.architecture.nodes.iter().map(|n| n.name.clone()));
        for (what, ranges) in [("chosen wide", &cw), ("chosen", &chosen)] {
            let image = load::packed_with(Path::new("model"), &model, numeric, ranges, Layout::Portable).unwrap();
            let size = model.architecture.inputs[0].size;
            println!("  {what}: other {:.1}, own {:.1}", ratio(&image, &reference, other), ratio(&image, &reference, half));
            let run = |image: &ImageBuffer| { let m = image.model().unwrap(); let (mut mem, mut scr) = (vec![0; m.state_words()], vec![0; m.scratch_words()]); let mut st = tidegate::State::new(&m, &mut mem).unwrap(); let mut y = vec![0.0; other.len() / size * m.output_size()]; m.run_f32(&mut st, &mut scr, other, &mut y).unwrap(); y };
            let (a, b) = (run(&image), run(&reference));
            let out = a.len() / STEPS;
            let e: Vec<(usize, f64)> = a.chunks(out).zip(b.chunks(out)).map(|(a, b)| a.iter().zip(b).map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>()).enumerate().collect();
            let total: f64 = e.iter().map(|x| x.1).sum();
            let mut s = e.clone(); s.sort_by(|a, b| b.1.total_cmp(&a.1));
            println!("   worst steps {:?}", s[..10].iter().map(|(t, v)| (*t, (v / total * 1000.0).round() / 1000.0)).collect::<Vec<_>>());
            let t = s[0].0; println!("   at {t}: {:?} {:?}", &a[t*out..(t+1)*out], &b[t*out..(t+1)*out]);
            println!("   input {:?}", other[t*size..(t+1)*size].iter().map(|x| x.abs()).fold(0.0, f32::max));
        }
        for (what, ranges) in [("base", &base), ("chosen", &chosen), ("nearest", &base.nearest()), ("minmax", &mm), ("minmax nearest", &mm.nearest()), ("wide", &wide), ("wide minmax", &widemm), ("both", &both), ("both nearest", &both.nearest())] {
            let image = load::packed_with(Path::new("model"), &model, numeric, ranges, Layout::Portable).unwrap();
            println!("  {what}: other {:.1}, own {:.1}", ratio(&image, &reference, other), ratio(&image, &reference, half));
            if what == "base" { for n in image.model().unwrap().nodes() { print!("{:?} {:b}; ", n.kind, n.options);} println!(); }
        }
    }
}
