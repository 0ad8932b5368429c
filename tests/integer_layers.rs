//! Integer networks of every layer that moves or merges values: bit-identical to the twin in every layout, and as near
//! to f32 as 16-bit values allow.

use tidegate::internals::cell::CellKind;
use tidegate::internals::curve::{OVER_OCTAVES, TABLE_LEN};
use tidegate::{Layout, Model, Numeric, SectionKind, State};
use tidegate_model::canonical::{Canonical, Node};
use tidegate_model::load::ImageBuffer;
use tidegate_model::pack::pack_with;
use tidegate_model::quantize::Ranges;
use tidegate_tests::fields::{payload_of, put32, slot_of, tensor_of, u32_at};
use tidegate_tests::images::AlignedBytes;
use tidegate_tests::network::{activated, apart, drawn, node, reading, unrolled, with};
use tidegate_tests::random::{Draw, Rng};
use tidegate_tests::twin::Twin;

const DRAW: Draw = Draw { weights: 2.0, biases: true };

/// The outputs of every step that has one.
fn run(model: &Model<'_>, x: &[i16]) -> Vec<i16> {
    let (mut memory, mut scratch) = (vec![0; model.state_words()], vec![0; model.scratch_words()]);
    let mut state = State::new(model, &mut memory).unwrap();
    let (mut outputs, mut y) = (Vec::new(), vec![0; model.output_size()]);
    for row in x.chunks(model.input_size()) {
        // The contents of the scratch must not matter.
        scratch.fill(0xA5A5_5A5A);
        if model.step_i16(&mut state, &mut scratch, row, &mut y).unwrap().has_output() {
            outputs.extend_from_slice(&y);
        }
    }
    outputs
}

fn run_f32(model: &Model<'_>, x: &[f32]) -> Vec<f32> {
    let (mut memory, mut scratch) = (vec![0; model.state_words()], vec![0; model.scratch_words()]);
    let mut state = State::new(model, &mut memory).unwrap();
    let (mut outputs, mut y) = (Vec::new(), vec![0.0; model.output_size()]);
    for row in x.chunks(model.input_size()) {
        if model.step_f32(&mut state, &mut scratch, row, &mut y).unwrap().has_output() {
            outputs.extend_from_slice(&y);
        }
    }
    outputs
}

fn image(model: &Canonical, ranges: &Ranges, layout: Layout) -> ImageBuffer {
    image_in(Numeric::I8x16, model, ranges, layout)
}

fn image_in(numeric: Numeric, model: &Canonical, ranges: &Ranges, layout: Layout) -> ImageBuffer {
    ImageBuffer::new(&pack_with(model, numeric, ranges, layout).unwrap_or_else(|error| panic!("{error}")))
}

/// Checks a network against the twin in every layout, also on inputs beyond the calibrated range, and against f32 with
/// at least this many decibels.
fn hold(what: &str, rng: &mut Rng, nodes: Vec<Node>, least_db: f64) {
    let seen = rng.numbers(60 * nodes[0].input_size, 3.0);
    hold_on(what, rng, nodes, &seen, least_db);
}

/// The same with this calibration data.
fn hold_on(what: &str, rng: &mut Rng, nodes: Vec<Node>, seen: &[f32], least_db: f64) {
    let model = drawn(rng, nodes, DRAW);
    let ranges = Ranges::measure(&model, [[seen].as_slice()]).unwrap();
    hold_with(what, rng, &model, &ranges, least_db, seen);
}

/// The same with these ranges.
fn hold_with(what: &str, rng: &mut Rng, model: &Canonical, ranges: &Ranges, least_db: f64, seen: &[f32]) {
    let size = model.architecture.inputs[0].size;
    let mut x: Vec<i16> = (0..60 * size).map(|_| (rng.bits() as i16).max(-32767)).collect();
    x[..size].fill(32767);
    x[size..2 * size].fill(-32767);
    for numeric in Numeric::INTEGER {
        let mut twin = Twin::new(model, ranges, numeric);
        let expected: Vec<i16> = x.chunks(size).filter_map(|row| twin.step(row)).flatten().collect();
        assert!(!expected.is_empty(), "{what} has outputs");
        for layout in Layout::ALL.into_iter().filter(|layout| layout.is_of(numeric)) {
            let image = image_in(numeric, model, ranges, layout);
            let got = run(&image.model().unwrap(), &x);
            assert_eq!(got, expected, "{what}, {}, {}", numeric.name(), layout.name());
        }
    }
    let float = ImageBuffer::new(&tidegate_model::pack::pack(model, Numeric::F32).unwrap());
    let integer = image(model, ranges, Layout::Portable);
    let (got, exact) = (run_f32(&integer.model().unwrap(), seen), run_f32(&float.model().unwrap(), seen));
    assert_eq!(got.len(), exact.len(), "{what}: the number of outputs");
    let power = |values: &mut dyn Iterator<Item = f64>| values.map(|value| value * value).sum::<f64>();
    let noise = power(&mut got.iter().zip(&exact).map(|(got, exact)| f64::from(got - exact)));
    let snr = 10.0 * (power(&mut exact.iter().map(|&exact| exact.into())) / noise).log10();
    println!("{what}: {snr:.1} dB");
    assert!(snr > least_db, "{what}: {snr} dB");
}

fn dense(name: &str, from: &str, input: usize, units: usize) -> Node {
    node(name, "dense", from, [input, units, units], &[])
}

fn cell(kind: &str, name: &str, from: &str, input: usize, units: usize) -> Node {
    node(name, kind, from, [input, units, units], &[])
}

/// Weights of twice the bits, where the rows of both matrices are split; scales of the units of an LSTM; finer sums and coarser
/// grids.
#[test]
fn wide_weights_and_scales_of_units_match_their_twins() {
    let mut rng = Rng::new(7);
    for (features, units) in [(3, 5), (20, 33)] {
        for (kind, options, params) in [
            ("lstm", &[][..], &[][..]),
            ("lstm", &["coupled"], &[]),
            ("lstm", &["peephole"], &[]),
            ("lstm", &["peephole"], &[("cell_clip", 0.5)]),
            ("gru", &[], &[]),
            ("gru", &["reset_after"], &[]),
            ("elman", &[], &[]),
            ("dense", &[], &[]),
            ("min_gru", &[], &[]),
            ("min_lstm", &[], &[]),
            ("fast_rnn", &[], &[("alpha", 0.25), ("beta", 0.5)]),
            ("fast_grnn", &[], &[("zeta", 0.7), ("nu", 0.2)]),
        ] {
            let mut node = with(cell(kind, "n", "in", features, units), options);
            node.params = params.iter().map(|&(name, value)| (name.to_owned(), value)).collect();
            let model = drawn(&mut rng, vec![node], DRAW);
            let seen = rng.numbers(60 * features, 3.0);
            for (wide, scaled, fine) in
                [(true, false, false), (false, true, false), (true, true, false), (false, false, true)]
            {
                let mut ranges = Ranges::measure(&model, [[seen.as_slice()].as_slice()]).unwrap();
                ranges.add_wide(wide.then(|| "n".to_owned()));
                ranges.add_unit_scales(scaled.then(|| "n".to_owned()));
                ranges.add_fine_sums(fine.then(|| "n".to_owned()));
                ranges.set_grid("n", if fine { 1.1 } else { 1.0 });
                let what = format!("{kind} {options:?} of {units}, wide {wide}, scaled {scaled}, fine {fine}");
                hold_with(&what, &mut rng, &model, &ranges, if wide { 45.0 } else { 25.0 }, &seen);
            }
        }
    }
}

#[test]
fn tables_over_octaves_match_their_twins() {
    let mut rng = Rng::new(17);
    let lstm = ["cell_activation", "output_activation"];
    let mut softsign = cell("lstm", "n", "in", 5, 7);
    softsign.activations = lstm.iter().map(|name| ((*name).to_owned(), "softsign".to_owned())).collect();
    for (what, node) in [
        ("root", activated(cell("activation", "n", "in", 5, 5), "sqrt")),
        ("dense with roots", activated(dense("n", "in", 5, 7), "sqrt")),
        ("dense with softsign", activated(dense("n", "in", 5, 7), "softsign")),
        ("LSTM with softsign", softsign),
    ] {
        let model = drawn(&mut rng, vec![node], DRAW);
        let seen = rng.numbers(60 * 5, 30.0);
        let ranges = Ranges::measure(&model, [[seen.as_slice()].as_slice()]).unwrap();
        hold_with(what, &mut rng, &model, &ranges, 30.0, &seen);
    }
}

/// An image from before tables over octaves, with a `sqrt` table of even steps, gives the same outputs as before.
#[test]
fn a_table_of_even_steps_is_read_as_one() {
    let model = drawn(&mut Rng::new(1), vec![activated(cell("activation", "n", "in", 1, 1), "sqrt")], DRAW);
    let ranges = Ranges::measure(&model, [[[4.0].as_slice()].as_slice()]).unwrap();
    let mut bytes = pack_with(&model, Numeric::I8x16, &ranges, Layout::Portable).unwrap();
    let numbers = CellKind::Activation.integer_spec().unwrap().numbers;
    let shift = numbers.iter().position(|number| number.name == "table_shift").unwrap();
    // The numbers come before the slots.
    let at = slot_of(&bytes, 0) - 4 * (numbers.len() - shift);
    assert_eq!(u32_at(&bytes, at), OVER_OCTAVES);
    put32(&mut bytes, at, 14);
    // 0 below zero, then 100 a step.
    let table = payload_of(&bytes, SectionKind::Weights) + u32_at(&bytes, tensor_of(&bytes, 0, 0)) as usize;
    for (step, value) in bytes[table..].chunks_exact_mut(2).take(TABLE_LEN).enumerate() {
        value.copy_from_slice(&((step as i16 - 256).max(0) * 100).to_le_bytes());
    }
    let image = AlignedBytes::new(&bytes);
    let model = Model::parse_structure(image.image()).unwrap();
    // The argument is the input with 8 fraction bits more, and a step of the table 2^14.
    assert_eq!(run(&model, &[64, 6400, -6400]), [100, 10_000, 0]);
}

#[test]
fn a_convolution_before_cells_matches_its_twin() {
    let mut rng = Rng::new(1);
    for (features, filters, groups) in [(10, 6, 1), (4, 6, 2), (9, 5, 1), (6, 9, 3)] {
        let length = 5 * features;
        let window =
            node("w", "window", "in", [features, length, length], &[("length", 5), ("hop", 2), ("prefill", 1)]);
        // An image of pixels with as many channels as there are groups.
        let width = features / groups;
        let positions = width.div_ceil(2);
        let extents = [
            ("in_height", 5),
            ("in_width", width),
            ("in_channels", groups),
            ("kernel_height", 5),
            ("kernel_width", 3),
            ("stride_width", 2),
            ("pad_left", 1),
            ("pad_right", if width % 2 == 0 { 0 } else { 1 }),
            ("out_width", positions),
            ("groups", groups),
        ];
        let conv = activated(node("c", "conv", "w", [length, filters, positions * filters], &extents), "relu");
        let nodes = vec![
            window,
            conv,
            cell("gru", "g", "c", positions * filters, 7),
            cell("lstm", "l", "g", 7, 5),
            activated(dense("d", "l", 5, 6), "relu"),
            node("s", "softmax", "d", [6, 6, 6], &[]),
        ];
        hold(&format!("{features} features, {filters} filters in {groups} groups"), &mut rng, nodes, 30.0);
    }
}

#[test]
fn bidirectional_layers_match_their_twins() {
    let mut rng = Rng::new(2);
    for (features, units, partial, stateful) in [(3, 4, true, false), (5, 3, false, false), (4, 8, false, true)] {
        let (length, hop) = (6, if partial { 6 } else { 2 });
        let rows = length * features;
        let window = node("w", "window", "in", [features, rows, rows], &[("length", length), ("hop", hop)]);
        let window = with(window, if partial { &["partial"] } else { &[] });
        let merges: [&[&str]; 6] = [&[], &["add"], &["multiply"], &["average"], &["maximum"], &["norm"]];
        for (kind, merge) in ["lstm", "gru", "elman"].into_iter().flat_map(|kind| merges.map(|merge| (kind, merge))) {
            let sides =
                ["f", "b"].map(|name| unrolled(cell(kind, name, "w", features, units), length, name == "b", stateful));
            let [forward, backward] = sides;
            let concatenated = merge.is_empty();
            let joined = if concatenated { 2 * units } else { units };
            let join = if concatenated { "identity" } else { "merge" };
            let join = reading(node("j", join, "", [2 * units, joined, joined], &[]), &["f", "b"]);
            let nodes = vec![
                window.clone(),
                forward,
                backward,
                unrolled(with(join, merge), length, false, false),
                unrolled(cell("gru", "again", "j", joined, units), length, false, stateful),
                node("last", "last", "again", [length * units, units, units], &[("steps", length)]),
                dense("d", "last", units, 3),
            ];
            hold(
                &format!("{kind} {merge:?} of {units} units, partial {partial}, stateful {stateful}"),
                &mut rng,
                nodes,
                20.0,
            );
        }
    }
}

#[test]
fn rows_with_states_of_their_own_match_their_twins() {
    let mut rng = Rng::new(8);
    for (kind, units) in [("gru", 3), ("lstm", 4), ("elman", 5)] {
        let nodes = vec![
            dense("d", "in", 5, 3 * 2),
            apart(cell(kind, "cells", "d", 2, units), 3),
            dense("last", "cells", 3 * units, 2),
        ];
        hold(kind, &mut rng, nodes, 20.0);
    }
}

#[test]
fn values_of_different_scales_are_brought_to_one_scale() {
    let mut rng = Rng::new(3);
    for (features, units) in [(3, 3), (6, 6), (17, 17)] {
        // Values of several units: the input reaches three, the LSTM one.
        let wide = || dense("wide", "in", features, units);
        let lstm = || cell("lstm", "l", "wide", units, units);
        let parts = |option: &str| {
            let merge = node("m", "merge", "", [3 * units, units, units], &[]);
            with(reading(merge, &["in", "l", "wide"]), &[option])
        };
        for option in ["add", "multiply", "average", "maximum", "norm"] {
            hold(&format!("{option} of {units}"), &mut rng, vec![wide(), lstm(), parts(option)], 30.0);
        }
        let difference = reading(node("m", "merge", "", [2 * units, units, units], &[]), &["l", "wide"]);
        let difference = with(difference, &["subtract"]);
        hold(&format!("difference of {units}"), &mut rng, vec![wide(), lstm(), difference], 30.0);
        let share = activated(dense("share", "in", features, units), "sigmoid");
        let blend = reading(parts("blend"), &["wide", "l", "share"]);
        hold(&format!("blend of {units}"), &mut rng, vec![wide(), lstm(), share, blend], 30.0);
        for kind in ["lstm", "gru", "elman", "dense", "identity"] {
            let both = features + 2 * units;
            let size = if kind == "identity" { both } else { units };
            let reader = reading(node("r", kind, "", [both, size, size], &[]), &["in", "l", "wide"]);
            hold(&format!("{kind} of {units}, over three scales"), &mut rng, vec![wide(), lstm(), reader], 30.0);
        }
        // A residual connection whose parts are not adjacent.
        let pair = reading(node("p", "identity", "", [2 * units, 2 * units, 2 * units], &[]), &["l", "wide"]);
        let sum = node("s", "merge", "p", [2 * units, units, units], &[]);
        hold(&format!("one value of two parts, {units} each"), &mut rng, vec![wide(), lstm(), pair, sum], 30.0);
    }
}

#[test]
fn masked_steps_keep_state_and_output() {
    let mut rng = Rng::new(6);
    for (kind, options) in
        [("elman", &[][..]), ("gru", &[]), ("gru", &["reset_after"]), ("lstm", &[]), ("lstm", &["peephole"])]
    {
        for (features, units) in [(1, 1), (3, 5), (7, 16)] {
            let masked = [options, &["masked"]].concat();
            let nodes = vec![with(cell(kind, "n", "in", features + 1, units), &masked)];
            let counts: Vec<bool> = (0..60).map(|_| rng.below(3) > 0).collect();
            let rows = counts.iter().map(|&counts| {
                let mut row = rng.numbers(features, 2.0);
                row.push(f32::from(u8::from(counts)));
                row
            });
            let seen = rows.collect::<Vec<_>>().concat();
            let what = format!("masked {kind} {options:?} of {units} units");
            hold_on(&what, &mut rng, nodes.clone(), &seen, 30.0);
            // Outputs equal those of the same steps without the masked ones.
            let model = drawn(&mut rng, nodes, DRAW);
            let ranges = Ranges::measure(&model, [[seen.as_slice()].as_slice()]).unwrap();
            let image = image(&model, &ranges, Layout::Portable);
            let model = image.model().unwrap();
            let counted: Vec<f32> =
                seen.chunks(features + 1).filter(|row| row[features] != 0.0).flatten().copied().collect();
            let given = run_f32(&model, &counted);
            let (mut given, mut now, mut expected) = (given.chunks(units), vec![0.0; units], Vec::new());
            for counts in counts {
                if counts {
                    now = given.next().expect("there is an output for every step that counts").to_vec();
                }
                expected.extend_from_slice(&now);
            }
            assert_eq!(run_f32(&model, &seen), expected, "{what}");
        }
    }
}

#[test]
fn an_embedding_matches_its_twin_and_every_row_of_its_table() {
    let mut rng = Rng::new(7);
    for (vocabulary, size, units) in [(1, 3, 2), (5, 1, 3), (40, 17, 8), (9, 600, 4)] {
        let embedding = node("e", "embedding", "in", [1, size, size], &[("vocabulary", vocabulary)]);
        let seen: Vec<f32> = (0..80).map(|step| (step % vocabulary) as f32).collect();
        let alone = format!("{size} of {vocabulary}");
        hold_on(&alone, &mut rng, vec![embedding.clone()], &seen, 35.0);
        // Through a window, and followed by a cell.
        let window = node("w", "window", "in", [1, 3, 3], &[("length", 3), ("hop", 2)]);
        let rows = unrolled(reading(embedding, &["w"]), 3, false, false);
        let nodes = vec![window, rows, unrolled(cell("gru", "g", "e", size, units), 3, true, false)];
        hold_on(&format!("{alone}, of a window"), &mut rng, nodes, &seen, 30.0);
    }
}

#[test]
fn a_decoder_that_repeats_matches_its_twin() {
    let mut rng = Rng::new(4);
    for (features, units, times) in [(2, 3, 4), (5, 8, 3)] {
        let rows = times * units;
        let nodes = vec![
            cell("lstm", "l", "in", features, units),
            node("r", "repeat", "l", [units, rows, rows], &[("times", times)]),
            unrolled(cell("gru", "g", "r", units, units), times, false, false),
            unrolled(dense("d", "g", units, 3), times, false, false),
            with(node("first", "last", "d", [times * 3, 3, 3], &[("steps", times)]), &["first"]),
        ];
        hold(&format!("{times} times {units} units"), &mut rng, nodes, 30.0);
    }
}

#[test]
fn a_layer_that_streams_along_time_equals_the_layer_over_the_whole_sequence_bit_for_bit() {
    let mut rng = Rng::new(5);
    for (layer, kind) in [("conv", "conv"), ("depthwise_conv", "depthwise_conv"), ("max", "pool"), ("average", "pool")]
    {
        for (size, kernel, stride, steps) in [(3, 3, 1, 11), (2, 4, 2, 12), (5, 5, 3, 13), (1, 1, 1, 4), (16, 3, 1, 9)]
        {
            let filters = if layer == "conv" { 6 } else { size };
            let option: &[&str] = if kind == "pool" { &[layer] } else { &[] };
            let over = |rows: usize, from: &str, positions: usize| {
                let extents = [
                    ("in_height", rows),
                    ("in_channels", size),
                    ("kernel_height", kernel),
                    ("stride_height", stride),
                    ("out_height", positions),
                ];
                with(node("n", kind, from, [rows * size, filters, positions * filters], &extents), option)
            };
            let length = kernel * size;
            let window = node("w", "window", "in", [size, length, length], &[("length", kernel), ("hop", stride)]);
            let positions = (steps - kernel) / stride + 1;
            let streamed = drawn(&mut rng, vec![window, over(kernel, "w", 1)], DRAW);
            let mut whole = drawn(&mut rng, vec![over(steps, "in", positions)], DRAW);
            whole.tensors.clone_from(&streamed.tensors);
            let seen = rng.numbers(steps * size, 2.0);
            // At the edges of the input, the two layers see different values.
            let ranges = Ranges::measure(&streamed, [[seen.as_slice()].as_slice()]).unwrap().nearest();
            let x: Vec<i16> = (0..steps * size).map(|_| (rng.bits() as i16).max(-32767)).collect();
            for layout in Layout::ALL {
                let [streamed, whole] = [&streamed, &whole].map(|model| image(model, &ranges, layout));
                let (streamed, whole) = (run(&streamed.model().unwrap(), &x), run(&whole.model().unwrap(), &x));
                assert_eq!(streamed, whole, "{layer}, {kernel} taps in steps of {stride}, {}", layout.name());
            }
        }
    }
}
