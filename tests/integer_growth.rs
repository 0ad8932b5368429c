//! Unbounded activations, whose range is not visible in any output: a node's scales follow the calibrated range, and a
//! range that it cannot represent is reported.

use std::collections::BTreeMap;
use std::ops::Range;

use tidegate::{Layout, Model, Numeric, State};
use tidegate_model::canonical::{Canonical, Node};
use tidegate_model::load::ImageBuffer;
use tidegate_model::pack::{pack, pack_with};
use tidegate_model::quantize::{RangeRule, RangeRules, Ranges, Seen};
use tidegate_tests::network::{drawn, node, unrolled, with};
use tidegate_tests::random::{Draw, Rng};
use tidegate_tests::tolerance::worse;
use tidegate_tests::twin::Twin;

const UNITS: usize = 8;
const FEATURES: usize = 6;
const STEPS: usize = 80;

/// Every unbounded activation, and one that is bounded.
const GROWING: [&str; 11] = [
    "relu",
    "identity",
    "leaky_relu(0.1)",
    "elu(1)",
    "selu",
    "softplus",
    "silu",
    "gelu",
    "affine(1,1)",
    "hard_swish",
    "mish",
];

fn cell(kind: &str, options: &[&str], activations: &[(&str, &str)], params: &[(&str, f32)]) -> Node {
    let mut node = with(node("n", kind, "in", [FEATURES, UNITS, UNITS], &[]), options);
    node.activations = activations.iter().map(|&(name, of)| (name.to_owned(), of.to_owned())).collect();
    node.params = params.iter().map(|&(name, value)| (name.to_owned(), value)).collect();
    if options.contains(&"low_rank") {
        node.extents.insert("rank".to_owned(), 3);
    }
    node
}

/// All outputs over a sequence, from a state of zeros.
fn run(model: &Model<'_>, x: &[f32]) -> Vec<f32> {
    let (mut memory, mut scratch) = (vec![0; model.state_words()], vec![0; model.scratch_words()]);
    let mut state = State::new(model, &mut memory).unwrap();
    let mut y = vec![0.0; x.len() / model.input_size() * model.output_size()];
    model.run_f32(&mut state, &mut scratch, x, &mut y).unwrap();
    y
}

/// The signal-to-noise ratio of the integers against f32 over the calibration data, in dB. The integers must match
/// their twin.
fn far(what: &str, model: &Canonical, ranges: &Ranges, x: &[f32]) -> f64 {
    let [integer, float] = [pack_with(model, Numeric::I8x16, ranges, Layout::Portable), pack(model, Numeric::F32)]
        .map(|image| ImageBuffer::new(&image.unwrap_or_else(|error| panic!("{what}: {error}"))));
    let (integer, float) = (integer.model().unwrap(), float.model().unwrap());
    let (got, expected) = (run(&integer, x), run(&float, x));
    let mut twin = Twin::new(model, ranges, Numeric::I8x16);
    let (from, to) = (integer.inputs().next().unwrap().scale, integer.outputs().next().unwrap().scale);
    let counted: Vec<i16> = x.iter().map(|x| (x / from).round().clamp(-32767.0, 32767.0) as i16).collect();
    let twins = counted.chunks(integer.input_size()).flat_map(|row| twin.step(row).expect("the step has an output"));
    assert!(twins.map(|y| f32::from(y) * to).eq(got.iter().copied()), "{what} matches its twin");
    let power = |values: &mut dyn Iterator<Item = f64>| values.map(|value| value * value).sum::<f64>();
    let noise = power(&mut got.iter().zip(&expected).map(|(got, expected)| f64::from(got - expected)));
    let snr = 10.0 * (power(&mut expected.iter().map(|&expected| expected.into())) / noise).log10();
    println!("{what}: candidate to {}, {snr:.1} dB", ranges.of("n.candidate"));
    snr
}

/// Multiplies the rows of some gates by a factor.
fn scale(model: &mut Canonical, tensor: &str, gates: Range<usize>, by: f32) {
    let Some(tensor) = model.tensors.get_mut(tensor) else { return };
    let cols = tensor.shape[1];
    tensor.data[gates.start * UNITS * cols..gates.end * UNITS * cols].iter_mut().for_each(|weight| *weight *= by);
}

/// Nearly closes a gate: its sums stay small, and it lets through only a small part of a candidate that is far larger
/// than the output.
fn shut(model: &mut Canonical, gate: usize, bias: f32) {
    for name in ["n.input_weights", "n.recurrent_weights"] {
        scale(model, name, gate..gate + 1, 0.02);
    }
    let tensor = model.tensors.get_mut("n.input_bias").expect("biases are drawn");
    tensor.data[gate * UNITS..][..UNITS].fill(bias);
}

#[test]
fn candidates_larger_than_the_output_are_not_clipped() {
    let mut rng = Rng::new(11);
    let draw = Draw { weights: 1.0, biases: true };
    let x = rng.numbers(STEPS * FEATURES, 40.0);
    let mut lowest = BTreeMap::new();
    for of in GROWING {
        let (small, fast) = ([("alpha", 0.05), ("beta", 0.9)], [("zeta", 0.05), ("nu", 0.01)]);
        let cells = [
            cell("fast_rnn", &[], &[("activation", of)], &small),
            cell("fast_rnn", &["low_rank"], &[("activation", of)], &small),
            cell("fast_grnn", &[], &[("candidate_activation", of)], &fast),
            cell("fast_grnn", &["low_rank"], &[("candidate_activation", of)], &fast),
            cell("gru", &[], &[("new_activation", of)], &[]),
            cell("gru", &["reset_after"], &[("new_activation", of)], &[]),
            cell("lstm", &[], &[("cell_activation", of)], &[]),
            cell("lstm", &["peephole"], &[("cell_activation", of)], &[("cell_clip", 4.0)]),
            cell("lstm", &["coupled"], &[("cell_activation", of)], &[]),
            cell("lstm", &[], &[("cell_activation", "identity"), ("output_activation", of)], &[("cell_clip", 100.0)]),
        ];
        for node in cells {
            let what = format!("{} {:?} {:?}", node.cell, node.options, node.activations);
            let shows = node.activations.contains_key("output_activation");
            let mut model = drawn(&mut rng, vec![node.clone()], draw);
            match node.cell.as_str() {
                // The gate keeps most of the state, and admits little of the candidate.
                "gru" => shut(&mut model, 1, 3.0),
                "lstm" if node.options.contains(&"coupled".to_owned()) => shut(&mut model, 1, 3.0),
                "lstm" if !shows => shut(&mut model, 0, -3.0),
                // Small recurrent weights, so that the output hardly feeds back.
                "lstm" => scale(&mut model, "n.recurrent_weights", 0..4, 0.02),
                _ => {}
            }
            // A margin would hide the clipping, so there is none.
            let rules = RangeRules { usual: RangeRule::MinMax, ..RangeRules::default() };
            let ranges = Seen::measure(&model, [[x.as_slice()].as_slice()]).unwrap().ranges(&rules, &model);
            let reached = ranges.of("n.candidate");
            assert!(reached > 17.0, "{what} reaches {reached}");
            let snr = far(&what, &model, &ranges, &x);
            let least = lowest.entry(node.cell.clone()).or_insert(f64::INFINITY);
            *least = least.min(snr);
            // Ranges as if only the output had been observed. The scale of a GRU's output has room for all of its sums.
            let shown = Ranges::new(["in", "n", "n.cell_state"].map(|name| (name.to_owned(), ranges.of(name))));
            let roomy = node.cell == "gru" && ["relu", "identity"].contains(&of);
            if !shows && !roomy {
                let cut = far(&format!("  {what}, cut off"), &model, &shown, &x);
                assert!(snr > cut + 6.0, "{what}: {snr} dB, {cut} dB where it is cut off");
            }
        }
    }
    for (kind, biases) in [("min_gru", &[-3.0][..]), ("min_lstm", &[-3.0, 3.0])] {
        let mut model = drawn(&mut rng, vec![cell(kind, &[], &[], &[])], draw);
        biases.iter().enumerate().for_each(|(gate, &bias)| shut(&mut model, gate, bias));
        let ranges = Ranges::measure(&model, [[x.as_slice()].as_slice()]).unwrap();
        assert!(ranges.of("n.candidate") > 2.0 * ranges.of("n"), "{kind}");
        lowest.insert(kind.to_owned(), far(kind, &model, &ranges, &x));
    }
    println!("{lowest:?}");
    assert!(lowest.values().all(|least| *least > 30.0), "{lowest:?}");
}

/// The candidates of a FastRNN follow from its outputs: (h' - beta h) / alpha.
#[test]
fn the_observed_range_of_a_candidate_is_that_of_the_computed_values() {
    let mut rng = Rng::new(12);
    let length = 4;
    for (windowed, backwards, stateful) in
        [(false, false, true), (true, false, false), (true, true, false), (true, false, true)]
    {
        let single = cell("fast_rnn", &[], &[("activation", "softplus")], &[("alpha", 0.25), ("beta", 0.5)]);
        let nodes = if windowed {
            let size = length * FEATURES;
            let window = node("w", "window", "in", [FEATURES, size, size], &[("length", length), ("hop", length)]);
            let cell = unrolled(Node { inputs: vec!["w".to_owned()], ..single }, length, backwards, stateful);
            vec![window, cell]
        } else {
            vec![single]
        };
        let model = drawn(&mut rng, nodes, Draw { weights: 3.0, biases: true });
        let x = rng.numbers(STEPS * FEATURES, 9.0);
        let ranges = Ranges::measure(&model, [[x.as_slice()].as_slice()]).unwrap();
        let image = ImageBuffer::new(&pack(&model, Numeric::F32).unwrap());
        let y = run(&image.model().unwrap(), &x);
        let mut most = 0.0_f32;
        let mut before = vec![0.0; UNITS];
        for window in y.chunks(if windowed { length * UNITS } else { y.len() }) {
            let mut rows: Vec<&[f32]> = window.chunks(UNITS).collect();
            if backwards {
                rows.reverse();
            }
            if !stateful {
                before.fill(0.0);
            }
            for row in rows {
                for (h, before) in row.iter().zip(&mut before) {
                    most = worse(most, ((h - 0.5 * *before) / 0.25).abs());
                    *before = *h;
                }
            }
        }
        let seen = ranges.of("n.candidate");
        assert!((seen / most - 1.0).abs() < 1e-5, "{windowed} {backwards} {stateful}: {seen} is not {most}");
    }
}

#[test]
fn a_layer_with_large_sums_is_not_clipped_where_its_table_usually_ends() {
    let mut rng = Rng::new(13);
    let mut dense = node("n", "dense", "in", [FEATURES, UNITS, UNITS], &[]);
    dense.activations.insert("activation".to_owned(), "softplus".to_owned());
    let model = drawn(&mut rng, vec![dense], Draw { weights: 3000.0, biases: true });
    let x = rng.numbers(STEPS * FEATURES, 1.0);
    let ranges = Ranges::measure(&model, [[x.as_slice()].as_slice()]).unwrap();
    assert!(ranges.of("n") > 2048.0, "{}", ranges.of("n"));
    let snr = far("dense", &model, &ranges, &x);
    assert!(snr > 35.0, "{snr} dB");
}

#[test]
fn ranges_beyond_every_table_are_named() {
    let lstm = |name: &str| cell("lstm", &[], &[(name, "softplus")], &[]);
    let fast = cell("fast_rnn", &[], &[("activation", "softplus")], &[("alpha", 0.05), ("beta", 0.9)]);
    let ranges =
        |name: &str, range: f32| Ranges::new([("in", 1.0), ("n", 1.0), (name, range)].map(|(n, r)| (n.to_owned(), r)));
    for (node, ranges, reason) in [
        (lstm("output_activation"), ranges("n.cell_state", 200.0), "softplus has inputs above 2^7"),
        (lstm("cell_activation"), ranges("n.candidate", 40_000.0), "candidate reaches 40000"),
        (fast, ranges("n.candidate", 40_000.0), "candidate reaches 40000"),
    ] {
        let model = drawn(&mut Rng::new(14), vec![node], Draw { weights: 1.0, biases: true });
        let text = pack_with(&model, Numeric::I8x16, &ranges, Layout::Portable).expect_err(reason).to_string();
        assert!(text.contains(reason) && text.starts_with("n is a "), "{text}");
    }
}
