//! Layers in networks: embeddings and blends compared with the oracle, and convolutions that stream along time compared
//! bit for bit with the same convolution over the whole sequence.

use tidegate::{Numeric, State};
use tidegate_model::canonical::{Canonical, Node};
use tidegate_tests::images::AlignedBytes;
use tidegate_tests::network::{apart, drawn, network, node};
use tidegate_tests::oracle::{Bounded, Oracle};
use tidegate_tests::random::{Draw, Rng};
use tidegate_tests::tolerance::{each_within, same_bits};

const DRAW: Draw = Draw { weights: 1.0, biases: true };

/// All outputs of a sequence, concatenated.
fn stream(model: &Canonical, x: &[f32]) -> Vec<f32> {
    let image = AlignedBytes::pack(model, Numeric::F32);
    let model = image.model();
    let (mut memory, mut scratch) = (vec![0; model.state_words()], vec![0; model.scratch_words()]);
    let mut state = State::new(&model, &mut memory).expect("the memory has the model's own length");
    let (mut all, mut y) = (Vec::new(), vec![0.0; model.output_size()]);
    for x in x.chunks(model.input_size()) {
        let step = model.step_f32(&mut state, &mut scratch, x, &mut y).expect("every length is right");
        if step.has_output() {
            all.extend_from_slice(&y);
        }
    }
    all
}

fn hold(model: &Canonical, x: &[f32]) {
    let oracle = Oracle::new(model);
    let exact = oracle.run(&mut vec![Bounded::default(); oracle.state_len()], x);
    let (values, bounds): (Vec<f64>, Vec<f64>) = exact.iter().map(|exact| (exact.value, exact.error)).unzip();
    each_within(&stream(model, x), &values, &bounds).unwrap_or_else(|miss| panic!("{miss}"));
}

#[test]
fn an_embedding_returns_the_row_of_the_nearest_index() {
    let mut rng = Rng::new(1);
    for (vocabulary, size) in [(1, 1), (3, 5), (4, 2), (9, 3)] {
        let table = rng.numbers(vocabulary * size, 1.0);
        let nodes = vec![node("n", "embedding", "in", [1, size, size], &[("vocabulary", vocabulary)])];
        let model = network(nodes, &[("n.weights", &[vocabulary, size], &table)]);
        hold(&model, &[0.0, 1.0, 2.0, 0.5, 0.499_999_97, 7.6, 1e20, -3.0, -0.5]);
    }
}

#[test]
fn three_parts_are_blended_and_merged() {
    let mut rng = Rng::new(2);
    for option in ["add", "multiply", "average", "maximum", "blend", "norm"] {
        for size in [1, 3, 4, 17] {
            let mut merge = node("n", "merge", "in", [3 * size, size, size], &[]);
            merge.options.push(option.to_owned());
            hold(&network(vec![merge], &[]), &rng.numbers(5 * 3 * size, 2.0));
        }
    }
}

#[test]
fn a_quotient_and_a_difference_have_two_parts() {
    let mut rng = Rng::new(4);
    for (option, size) in ["divide", "subtract"].into_iter().flat_map(|option| [1, 3, 4, 17].map(|size| (option, size)))
    {
        let mut merge = node("n", "merge", "in", [2 * size, size, size], &[]);
        merge.options.push(option.to_owned());
        hold(&network(vec![merge.clone()], &[]), &rng.numbers(5 * 2 * size, 2.0));
        let mut of_three = network(vec![merge], &[]);
        of_three.architecture.inputs[0].size = 3 * size;
        of_three.architecture.nodes[0].input_size = 3 * size;
        assert!(of_three.validate().is_err());
    }
}

/// Each row is a stream of its own, on both backends, in steps and in sequences.
#[test]
fn rows_with_states_of_their_own_give_the_bits_of_single_cells() {
    let mut rng = Rng::new(5);
    let (rows, features, steps) = (3, 2, 9);
    for (kind, units) in [("gru", 3), ("lstm", 4), ("elman", 5)] {
        let whole = node("whole", "identity", "in", [rows * features; 3], &[]);
        let cells = node("cells", kind, "whole", [features, units, units], &[]);
        let model = drawn(&mut rng, vec![whole, apart(cells.clone(), rows)], DRAW);
        let x = rng.numbers(steps * rows * features, 2.0);
        hold(&model, &x);
        let single = drawn(&mut rng, vec![Node { inputs: vec!["in".to_owned()], ..cells }], DRAW);
        let single = Canonical { tensors: model.tensors.clone(), ..single };
        let mut expected = vec![0.0; steps * rows * units];
        for row in 0..rows {
            let own: Vec<f32> = x.chunks(features).skip(row).step_by(rows).flatten().copied().collect();
            let y = stream(&single, &own);
            for (step, y) in y.chunks(units).enumerate() {
                expected[(step * rows + row) * units..][..units].copy_from_slice(y);
            }
        }
        same_bits(&stream(&model, &x), &expected).unwrap_or_else(|miss| panic!("{kind}: {miss}"));
        let image = AlignedBytes::pack(&model, Numeric::F32);
        let parsed = image.model();
        let last = parsed.state_range_of_row("cells", "hidden", rows - 1).expect("the last row has a state");
        assert_eq!(last.end, parsed.state_words() - 1 - if kind == "lstm" { units } else { 0 });
        assert_eq!(parsed.state_range_of_row("cells", "hidden", rows), None);
        assert!(parsed.state_range("cells", "hidden").is_some_and(|first| first.end == units));
    }
}

#[test]
fn a_masked_step_keeps_state_and_output() {
    let mut rng = Rng::new(3);
    for (cell, gates) in [("elman", 1), ("gru", 3), ("lstm", 4)] {
        for (features, units) in [(1, 1), (3, 5), (6, 4)] {
            let mut cell = node("n", cell, "in", [features + 1, units, units], &[]);
            cell.options.push("masked".to_owned());
            let rows = gates * units;
            let (input, recurrent) = (rng.numbers(rows * (features + 1), 1.0), rng.numbers(rows * units, 1.0));
            let bias = rng.numbers(rows, 1.0);
            let tensors: [(&str, &[usize], &[f32]); 3] = [
                ("n.input_weights", &[rows, features + 1], &input),
                ("n.recurrent_weights", &[rows, units], &recurrent),
                ("n.input_bias", &[rows], &bias),
            ];
            let model = network(vec![cell], &tensors);
            let counts = [false, true, true, false, false, true, false, true];
            let steps = counts.map(|counts| {
                let mut x = rng.numbers(features, 1.0);
                x.push(f32::from(u8::from(counts)));
                x
            });
            hold(&model, &steps.concat());
            let counted: Vec<f32> =
                steps.iter().zip(counts).filter(|(_, counts)| *counts).flat_map(|(x, _)| x.clone()).collect();
            let mut given = stream(&model, &counted).chunks(units).map(<[f32]>::to_vec).collect::<Vec<_>>().into_iter();
            let mut now = vec![0.0; units];
            let mut expected = Vec::new();
            for counts in counts {
                if counts {
                    now = given.next().expect("there is an output for every step that counts");
                }
                expected.extend_from_slice(&now);
            }
            same_bits(&stream(&model, &steps.concat()), &expected).unwrap_or_else(|miss| panic!("{miss}"));
        }
    }
}

/// A layer whose kernel extends along time, over `rows` rows.
fn along_time(cell: &str, from: &str, [rows, size, filters]: [usize; 3], more: &[(&str, usize)]) -> Node {
    let mut extents = vec![("in_height", rows), ("in_channels", size)];
    extents.extend_from_slice(more);
    let positions = more.iter().find(|(name, _)| *name == "out_height").map_or(1, |&(_, value)| value);
    node("n", cell, from, [rows * size, filters, positions * filters], &extents)
}

#[test]
fn a_layer_that_streams_along_time_equals_the_layer_over_the_whole_sequence_bit_for_bit() {
    let mut rng = Rng::new(3);
    for cell in ["conv", "depthwise_conv", "max", "average"] {
        for (size, kernel, stride, prefill, steps) in
            [(3, 3, 1, 2, 11), (2, 4, 2, 0, 12), (5, 5, 3, 1, 13), (1, 1, 1, 0, 4)]
        {
            let pool = matches!(cell, "max" | "average");
            let filters = if cell == "conv" { 4 } else { size };
            let kind = if pool { "pool" } else { cell };
            // A pool ignores padding, but not the zeros of a window.
            let prefill = if pool { 0 } else { prefill };
            let cols = kernel * if cell == "conv" { size } else { 1 };
            let (weights, bias) = (rng.numbers(filters * cols, 1.0), rng.numbers(filters, 1.0));
            let shapes = [vec![filters, cols], vec![filters]];
            let tensors: &[(&str, &[usize], &[f32])] =
                &[("n.weights", &shapes[0], &weights), ("n.bias", &shapes[1], &bias)];
            let tensors = if pool { &[] } else { tensors };
            let with = |mut node: Node| {
                node.options.extend(pool.then(|| cell.to_owned()));
                node
            };
            let length = kernel * size;
            let buffer = [("length", kernel), ("hop", stride), ("prefill", prefill)];
            let window = node("w", "window", "in", [size, length, length], &buffer);
            let kernel_extent = ("kernel_height", kernel);
            let streaming = with(along_time(kind, "w", [kernel, size, filters], &[kernel_extent]));
            let positions = (steps + prefill - kernel) / stride + 1;
            let over = [kernel_extent, ("stride_height", stride), ("pad_top", prefill), ("out_height", positions)];
            let whole = with(along_time(kind, "in", [steps, size, filters], &over));
            let x = rng.numbers(steps * size, 1.0);
            let (streamed, whole) = (network(vec![window, streaming], tensors), network(vec![whole], tensors));
            hold(&streamed, &x);
            hold(&whole, &x);
            let what = format!("{cell}, {kernel} taps in steps of {stride}, {prefill} zeros before");
            same_bits(&stream(&streamed, &x), &stream(&whole, &x)).unwrap_or_else(|miss| panic!("{what}: {miss}"));
        }
    }
}
