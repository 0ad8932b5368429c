//! `tidegate-fused` over windows: unrolled layers in both directions and in stacks, alone and in batches, from streams,
//! with lengths, resets and ends. Results are bit-identical to stepping and within the oracle's bound. Convolutions
//! over images are here too.

use tidegate::{Batch, Layout, Numeric, Sequence, State};
use tidegate_fused::FusedModel;
use tidegate_model::canonical::{Canonical, Node, Unroll};
use tidegate_model::pack::{pack, pack_with};
use tidegate_model::quantize::Ranges;
use tidegate_tests::backend::{self, Backend};
use tidegate_tests::images::AlignedBytes;
use tidegate_tests::network::{activated, drawn, node, reading, unrolled, with};
use tidegate_tests::oracle::{Bounded, Oracle};
use tidegate_tests::random::{Draw, Rng};
use tidegate_tests::tolerance::{each_within, same_bits};

const DRAW: Draw = Draw { weights: 0.6, biases: true };

/// How the windows are cut, and whether state is carried from one to the next.
#[derive(Clone, Copy, Debug)]
struct Cut {
    length: usize,
    hop: usize,
    partial: bool,
    stateful: bool,
}

/// Two bidirectional layers over windows, with cells of these options. Both directions of the last layer are
/// concatenated.
fn bidirectional(rng: &mut Rng, (cell, options): (&str, &[&str]), input: usize, units: usize, cut: Cut) -> Canonical {
    let Cut { length, hop, partial, stateful } = cut;
    let rows = length * input;
    let buffer = node("w", "window", "in", [input, rows, rows], &[("length", length), ("hop", hop)]);
    let mut nodes = vec![with(buffer, if partial { &["partial"] } else { &[] })];
    let mut sources = vec!["w"];
    for [forward, backward] in [["f0", "b0"], ["f1", "b1"]] {
        let size = if sources.len() == 1 { input } else { 2 * units };
        for (name, backwards) in [(forward, false), (backward, true)] {
            let one = with(node(name, cell, "", [size, units, units], &[]), options);
            nodes.push(unrolled(reading(one, &sources), length, backwards, stateful));
        }
        sources = vec![forward, backward];
    }
    let both = reading(node("both", "identity", "", [2 * units; 3], &[]), &sources);
    nodes.push(unrolled(both, length, false, false));
    drawn(rng, nodes, DRAW)
}

/// The concatenated window rows of every step and of the end, and the state afterwards.
fn steps(backend: &dyn Backend, x: &[f32], resets: &[bool], finish: bool) -> (Vec<f32>, Vec<f32>) {
    let model = backend.model();
    let mut memory = vec![0; model.state_words()];
    let mut state = State::new(model, &mut memory).expect("the memory has the model's own length");
    let mut all = Vec::new();
    let mut y = vec![f32::NAN; model.output_size()];
    for (x, &reset) in x.chunks(model.input_size()).zip(resets) {
        if reset {
            state.reset();
        }
        if backend.step(&mut state, &[x], &mut [&mut y]).expect("every length is right").has_output() {
            all.extend_from_slice(&y);
        }
    }
    if finish && !x.is_empty() && backend.finish(&mut state, &mut [&mut y]).expect("the length is right").has_output() {
        all.extend_from_slice(&y);
    }
    (all, state.values().to_vec())
}

/// Compares a batch of `time` steps with the steps of each of its sequences.
fn hold(backend: &dyn Backend, rng: &mut Rng, (batch, time): (usize, usize), last_only: bool, what: &str) {
    let model = backend.model();
    let (input, output) = (model.input_size(), model.output_size());
    let lens: Vec<usize> = (0..batch).map(|_| time - rng.below(1 + time / 3).min(time)).collect();
    let resets: Vec<bool> = (0..batch * time).map(|_| rng.below(40) == 0).collect();
    let x = rng.numbers(batch * time * input, 2.0);
    let how = Sequence { lens: Some(&lens), resets: Some(&resets), last_only, finish: true };
    let mut memory = vec![0; batch * model.state_words()];
    let mut states = Batch::new(model, batch, &mut memory).expect("the memory has the batch's own length");
    let rows = if last_only { 1 } else { time };
    let mut y = vec![f32::NAN; batch * rows * output];
    let mut left = backend.run_batch(&mut states, &[&x], &mut [&mut y], &how).expect("every length is right");
    for (index, state) in states.states().enumerate() {
        let own = index * time..index * time + lens[index];
        let x = &x[own.start * input..own.end * input];
        let (mut expected, after) = steps(backend, x, &resets[own], true);
        if last_only {
            expected.drain(..expected.len().saturating_sub(output));
        }
        left -= expected.len() / output;
        expected.resize(rows * output, 0.0);
        let got = &y[index * rows * output..(index + 1) * rows * output];
        let what = format!("{what}, {}, {index} of {batch}", backend.name());
        same_bits(got, &expected).unwrap_or_else(|miss| panic!("{what}: {miss}"));
        same_bits(state.values(), &after).unwrap_or_else(|miss| panic!("{what}, the state: {miss}"));
    }
    assert_eq!(left, 0, "{what}: rows were counted but not compared");
}

#[test]
fn two_bidirectional_layers_equal_stepping_in_batches_of_every_size() {
    let mut rng = Rng::new(51);
    let cells: [(&str, &[&str]); 6] = [
        ("lstm", &[]),
        ("lstm", &["masked", "peephole"]),
        ("gru", &["reset_after"]),
        ("gru", &[]),
        ("elman", &["masked"]),
        ("ugrnn", &[]),
    ];
    let cuts = [(1, 1, true), (4, 4, true), (7, 7, false), (5, 2, false), (3, 8, false), (23, 23, true)];
    for (round, cell) in cells.into_iter().flat_map(|cell| cuts.map(|cut| (cell, cut))).enumerate() {
        let (cell, (length, hop, partial)) = cell;
        let cut = Cut { length, hop, partial, stateful: round % 3 == 0 };
        let (input, units) = ([1, 5, 16, 19][round % 4], [3, 16, 18, 8, 33][round % 5]);
        let model = bidirectional(&mut rng, cell, input, units, cut);
        let image = AlignedBytes::pack(&model, if round % 2 == 0 { Numeric::F32 } else { Numeric::F16 });
        for backend in backend::all(&image.model()) {
            for (batch, time) in [(1, 31), (3, 10), (9, 24)] {
                let what = format!("{cell:?}, {input} to {units}, {cut:?}");
                hold(&*backend, &mut rng, (batch, time), round % 2 == 1, &what);
            }
        }
    }
}

#[test]
fn windows_longer_than_the_rows_that_run_at_once_equal_stepping() {
    let mut rng = Rng::new(52);
    let cut = Cut { length: 150, hop: 150, partial: true, stateful: false };
    for cell in ["lstm", "gru"] {
        let image = AlignedBytes::pack(&bidirectional(&mut rng, (cell, &[]), 3, 5, cut), Numeric::F32);
        for backend in backend::all(&image.model()).iter().skip(1) {
            for (batch, time) in [(1, 310), (5, 150), (140, 8)] {
                hold(&**backend, &mut rng, (batch, time), true, cell);
            }
        }
    }
}

/// Layers before a window, two windows in succession, and layers behind them that also read values from before.
fn nested(rng: &mut Rng) -> Canonical {
    let nodes = vec![
        node("l", "lstm", "in", [4, 6, 6], &[]),
        reading(node("d", "dense", "", [10, 5, 5], &[("groups", 1)]), &["l", "in"]),
        reading(node("w", "window", "", [11, 33, 33], &[("length", 3), ("hop", 2)]), &["d", "l"]),
        unrolled(node("g", "gru", "w", [11, 7, 7], &[]), 3, true, true),
        node("e", "elman", "g", [21, 4, 4], &[]),
        node("v", "window", "e", [4, 8, 8], &[("length", 2), ("hop", 1)]),
        reading(node("o", "dense", "", [14, 3, 3], &[("groups", 1)]), &["v", "l"]),
    ];
    drawn(rng, nodes, DRAW)
}

#[test]
fn layers_before_and_behind_nested_windows_equal_stepping() {
    let mut rng = Rng::new(53);
    let image = AlignedBytes::pack(&nested(&mut rng), Numeric::F32);
    for backend in backend::all(&image.model()) {
        for (batch, time) in [(1, 300), (2, 9), (11, 40), (130, 7)] {
            for last_only in [false, true] {
                hold(&*backend, &mut rng, (batch, time), last_only, "nested windows");
            }
        }
    }
}

#[test]
fn rows_read_and_written_from_either_end_stay_within_the_derived_bound() {
    let mut rng = Rng::new(54);
    for (round, cell) in ["lstm", "gru", "elman"].into_iter().cycle().take(24).enumerate() {
        let directions = [(false, false), (true, true), (true, false), (false, true)][round % 4];
        let (input, units, length) = (1 + rng.below(20), 1 + rng.below(20), 1 + rng.below(6));
        let rows = length * input;
        let unroll = |node: Node| Node {
            unroll: Some(Unroll {
                steps: length,
                read_backwards: directions.0,
                write_backwards: directions.1,
                stateful: round % 3 == 0,
                apart: false,
            }),
            ..node
        };
        let buffer = node("w", "window", "in", [input, rows, rows], &[("length", length), ("hop", length)]);
        let nodes = vec![buffer, unroll(node("r", cell, "w", [input, units, units], &[]))];
        let model = drawn(&mut rng, nodes, DRAW);
        let image = AlignedBytes::pack(&model, Numeric::F32);
        let (oracle, x) = (Oracle::new(&model), rng.numbers(2 * rows, 1.0));
        let mut state = vec![Bounded::exact(0.0); image.model().state_elements()];
        let exact: Vec<Bounded> =
            x.chunks(input).filter_map(|x| oracle.step(&mut state, &[x])).flat_map(|mut y| y.swap_remove(0)).collect();
        let (values, bounds): (Vec<f64>, Vec<f64>) = exact.iter().map(|exact| (exact.value, exact.error)).unzip();
        for backend in backend::all(&image.model()) {
            let (y, _) = steps(&*backend, &x, &vec![false; 2 * length], false);
            assert_eq!(y.len(), 2 * length * units);
            let what = format!("{}, {cell}, {input} to {units}, {length} rows, {directions:?}", backend.name());
            each_within(&y, &values, &bounds).unwrap_or_else(|miss| panic!("{what}: {miss}"));
        }
    }
}

#[test]
fn convolutions_over_images_stay_within_the_derived_bound() {
    let mut rng = Rng::new(57);
    // Height, width, channels, taps on both axes, strides, dilation of the width, padding on every side.
    let images = [
        ([6, 7, 3], [3, 4], [1, 1], 1, [1, 1, 2, 1]),
        ([5, 9, 17], [2, 3], [2, 1], 2, [0, 1, 1, 3]),
        ([10, 10, 1], [10, 4], [2, 2], 1, [0, 0, 0, 0]),
        ([4, 4, 33], [1, 1], [1, 1], 1, [0, 0, 0, 0]),
    ];
    for (([height, width, channels], taps, strides, dilation, pads), filters) in
        images.into_iter().flat_map(|image| [5, 16, 48].map(|filters| (image, filters)))
    {
        let out = |size: usize, taps: usize, stride: usize, dilation: usize, padding: usize| {
            (size + padding - (taps - 1) * dilation - 1) / stride + 1
        };
        let out_height = out(height, taps[0], strides[0], 1, pads[0] + pads[1]);
        let out_width = out(width, taps[1], strides[1], dilation, pads[2] + pads[3]);
        let extents = [
            ("in_height", height),
            ("in_width", width),
            ("in_channels", channels),
            ("kernel_height", taps[0]),
            ("kernel_width", taps[1]),
            ("stride_height", strides[0]),
            ("stride_width", strides[1]),
            ("dilation_height", 1),
            ("dilation_width", dilation),
            ("pad_top", pads[0]),
            ("pad_bottom", pads[1]),
            ("pad_left", pads[2]),
            ("pad_right", pads[3]),
            ("out_height", out_height),
            ("out_width", out_width),
        ];
        let positions = out_height * out_width;
        for (cell, last, hidden) in [("conv", "groups", filters), ("depthwise_conv", "multiplier", channels)] {
            let sizes = [height * width * channels, hidden, positions * hidden];
            let one = activated(node("c", cell, "in", sizes, &[&extents[..], &[(last, 1)]].concat()), "relu");
            let model = drawn(&mut rng, vec![one], DRAW);
            let image = AlignedBytes::pack(&model, Numeric::F32);
            assert_eq!(FusedModel::new(&image.model()).packed(), [true], "{cell}");
            let x = rng.numbers(sizes[0], 1.0);
            let exact = Oracle::new(&model).step(&mut [], &[&x]).expect("the step has an output").swap_remove(0);
            let (values, bounds): (Vec<f64>, Vec<f64>) = exact.iter().map(|exact| (exact.value, exact.error)).unzip();
            for backend in backend::all(&image.model()) {
                let (y, _) = steps(&*backend, &x, &[false], false);
                let what = format!("{}, {cell}, {height} x {width} x {channels}, {filters}", backend.name());
                each_within(&y, &values, &bounds).unwrap_or_else(|miss| panic!("{what}: {miss}"));
            }
        }
    }
}

#[test]
fn layers_over_windows_have_the_kernels_of_their_cells() {
    let cut = Cut { length: 4, hop: 4, partial: false, stateful: false };
    let model = bidirectional(&mut Rng::new(55), ("lstm", &[]), 3, 17, cut);
    let image = AlignedBytes::new(&pack(&model, Numeric::F32).expect("the model packs"));
    let packed = FusedModel::new(&image.model()).packed();
    assert_eq!(packed, [false, true, true, true, true, false]);
}

#[test]
fn integers_over_windows_give_the_bits_of_the_reference() {
    let mut rng = Rng::new(56);
    for (round, cell) in ["lstm", "gru", "lstm", "gru"].into_iter().enumerate() {
        let (input, units) = ([5, 16, 3, 40][round], [9, 32, 17, 4][round]);
        let cut = Cut { length: 6, hop: 6, partial: round > 1, stateful: round % 2 == 0 };
        let model = bidirectional(&mut rng, (cell, &[]), input, units, cut);
        let seen = rng.numbers(24 * input, 1.0);
        let ranges = Ranges::measure(&model, [[seen.as_slice()].as_slice()]).expect("the model runs");
        for numeric in Numeric::INTEGER {
            let layout = rng.pick(&Layout::ALL.into_iter().filter(|layout| layout.is_of(numeric)).collect::<Vec<_>>());
            let image = AlignedBytes::new(&pack_with(&model, numeric, &ranges, layout).expect("the model packs"));
            let all = backend::all(&image.model());
            let x = rng.numbers(17 * input, 1.0);
            let (expected, after) = steps(&*all[0], &x, &[false; 17], true);
            assert_eq!(expected.len(), (17 / 6 + usize::from(cut.partial)) * 6 * 2 * units);
            for backend in &all {
                let what = format!("{cell}, {input} to {units}, {}, {}", numeric.name(), backend.name());
                let (got, state) = steps(&**backend, &x, &[false; 17], true);
                assert_eq!(got, expected, "{what}");
                same_bits(&state, &after).unwrap_or_else(|miss| panic!("{what}, the state: {miss}"));
                hold(&**backend, &mut rng, (7, 20), round % 2 == 0, &what);
            }
        }
    }
}
