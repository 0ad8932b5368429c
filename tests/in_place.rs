//! Windows that are computed in place, by the layer that reads them: they give the same bits at the same steps as a window
//! followed by a layer.

use std::collections::{BTreeMap, BTreeSet};

use tidegate::internals::{
    cell::CellKind,
    image::field::{activation, node as field},
    write::seal,
};
use tidegate::{ImageError, Layout, Model, Numeric, State};
use tidegate_fused::FusedModel;
use tidegate_model::canonical::{Canonical, Integers, Node, Tensor};
use tidegate_model::in_place::in_place;
use tidegate_model::pack::pack_with;
use tidegate_model::quantize::Ranges;
use tidegate_tests::fields::{put32, record_of};
use tidegate_tests::images::AlignedBytes;
use tidegate_tests::network::{activated, drawn, node, reading, with};
use tidegate_tests::random::{Draw, Rng, port};

/// A window of `size` features and a layer over it. The kind is random; layers with a free number of units have `units`.
fn windowed(rng: &mut Rng, index: usize, from: &str, size: usize, units: usize) -> [Node; 2] {
    let (window, layer) = (format!("w{index}"), format!("l{index}"));
    let length = rng.pick(&[1, 2, 3, 5, 8, 11]);
    let prefill = rng.pick(&[0, length / 2, length - 1]);
    // A stride of three steps is rare.
    let hop = if rng.below(5) == 0 { 3 } else { 1 };
    let rows = length * size;
    let extents = [("length", length), ("hop", hop), ("prefill", prefill)];
    let reader = match rng.below(3) {
        0 => node(&layer, "dense", &window, [rows, units, units], &[]),
        1 => {
            let extents = [("in_height", length), ("in_channels", size), ("kernel_height", length)];
            node(&layer, "conv", &window, [rows, units, units], &extents)
        }
        _ => {
            let multiplier = rng.pick(&[1, 1, 2]);
            let extents =
                [("in_height", length), ("in_channels", size), ("kernel_height", length), ("multiplier", multiplier)];
            node(&layer, "depthwise_conv", &window, [rows, size * multiplier, size * multiplier], &extents)
        }
    };
    [node(&window, "window", from, [size, rows, rows], &extents), reader]
}

/// A number type at the ports.
trait Value: Copy + Default {
    /// Whether the step has an output.
    fn step(model: &Model<'_>, state: &mut State<'_>, scratch: &mut [u32], x: &[Self], y: &mut [Self]) -> bool;
}

impl Value for f32 {
    fn step(model: &Model<'_>, state: &mut State<'_>, scratch: &mut [u32], x: &[f32], y: &mut [f32]) -> bool {
        model.step_f32(state, scratch, x, y).unwrap().has_output()
    }
}

impl Value for i16 {
    fn step(model: &Model<'_>, state: &mut State<'_>, scratch: &mut [u32], x: &[i16], y: &mut [i16]) -> bool {
        model.step_i16(state, scratch, x, y).unwrap().has_output()
    }
}

/// The outputs and the steps at which they occur, in a stream that is saved and restored in its middle.
fn stepped<P: Value>(image: &AlignedBytes, input: &[P]) -> Vec<(usize, Vec<P>)> {
    let model = image.model();
    let (mut memory, mut scratch) = (vec![0; model.state_words()], vec![u32::MAX; model.scratch_words()]);
    let mut state = State::new(&model, &mut memory).unwrap();
    let (mut y, mut all) = (vec![P::default(); model.output_size()], Vec::new());
    for (at, x) in input.chunks(model.input_size()).enumerate() {
        if at == 20 {
            let mut saved = vec![0; state.saved_bytes()];
            state.save(&mut saved).unwrap();
            state.reset();
            model.restore(&mut state, &saved).unwrap();
        }
        if P::step(&model, &mut state, &mut scratch, x, &mut y) {
            all.push((at, y.clone()));
        }
    }
    all
}

fn count(model: &Canonical, cell: CellKind) -> usize {
    model.architecture.nodes.iter().filter(|node| node.cell == cell.spec().name).count()
}

#[test]
fn windows_in_place_have_the_same_bits_in_floats() {
    let mut rng = Rng::new(1);
    let (mut joined, mut outputs) = (0, 0);
    for round in 0..60 {
        let mut size = rng.pick(&[1, 3, 4, 7, 16]);
        let (mut nodes, mut from) = (Vec::new(), "in".to_owned());
        for index in 0..1 + rng.below(4) {
            let units = rng.pick(&[1, 4, 5, 9]);
            let [window, layer] = windowed(&mut rng, index, &from, size, units);
            (from, size) = (layer.name.clone(), layer.output_size);
            nodes.extend([window, if rng.below(2) == 0 { activated(layer, "relu") } else { layer }]);
            // A layer with a state of its own steps only after whole windows.
            if rng.below(3) == 0 {
                nodes.push(node(&format!("g{index}"), "gru", &from, [size, 3, 3], &[]));
                (from, size) = (format!("g{index}"), 3);
            }
        }
        let model = drawn(&mut rng, nodes, Draw { weights: 1.5, biases: true });
        let other = in_place(&model);
        other.validate().unwrap();
        joined += count(&other, CellKind::WindowDense) + count(&other, CellKind::WindowDepthwise);
        assert_eq!(count(&other, CellKind::Window), 0, "round {round}");
        let input = rng.numbers(50 * model.architecture.inputs[0].size, 2.0);
        for numeric in Numeric::FLOAT {
            let [plain, other] = [&model, &other].map(|model| AlignedBytes::pack(model, numeric));
            let bits = |all: Vec<(usize, Vec<f32>)>| -> Vec<(usize, Vec<u32>)> {
                all.into_iter().map(|(at, y)| (at, y.into_iter().map(f32::to_bits).collect())).collect()
            };
            let expected = bits(stepped(&plain, &input));
            outputs += expected.len();
            assert_eq!(bits(stepped(&other, &input)), expected, "round {round} in {}", numeric.name());
            let model = other.model();
            let fused = FusedModel::new(&model);
            let mut stream = fused.stream();
            let mut y = vec![0.0; model.output_size()];
            let mut steps = Vec::new();
            for (at, x) in input.chunks(model.input_size()).enumerate() {
                if stream.step(x, &mut y).unwrap().has_output() {
                    steps.push(at);
                }
            }
            assert_eq!(steps, expected.iter().map(|(at, _)| *at).collect::<Vec<_>>(), "round {round} on fused");
        }
    }
    println!("{joined} windows in place, {outputs} outputs");
    assert!(joined > 100 && outputs > 2000, "{joined} {outputs}");
}

/// A node between a window and its layer does not step before the window is full.
#[test]
fn a_layer_steps_in_the_place_of_its_window() {
    let nodes = vec![
        node("w", "window", "in", [2, 6, 6], &[("length", 3)]),
        node("g", "gru", "in", [2, 3, 3], &[]),
        node("l", "dense", "w", [6, 3, 3], &[]),
        reading(node("j", "identity", "", [6, 6, 6], &[]), &["l", "g"]),
    ];
    let model = drawn(&mut Rng::new(6), nodes, Draw { weights: 1.5, biases: true });
    let input = Rng::new(7).numbers(30 * 2, 2.0);
    let [plain, other] = [&model, &in_place(&model)].map(|model| AlignedBytes::pack(model, Numeric::F32));
    let expected = stepped(&plain, &input);
    assert_eq!((expected.len(), expected[0].0), (28, 2));
    assert_eq!(stepped(&other, &input), expected);
}

/// An integer network, as an importer makes it.
struct Whole {
    nodes: Vec<Node>,
    tensors: BTreeMap<String, Tensor>,
    integers: BTreeMap<String, Integers>,
}

impl Whole {
    /// Adds a layer with random weights, whose output has this zero point. Its input is of magnitude 100.
    fn layer(&mut self, rng: &mut Rng, node: Node, cols: usize, zero_point: i32) {
        let rows = if node.cell == "depthwise_conv" { node.hidden_size } else { node.output_size };
        let data: Vec<f32> = (0..rows * cols).map(|_| rng.below(255) as f32 - 127.0).collect();
        self.tensors.insert(format!("{}.weights", node.name), Tensor { shape: vec![rows, cols], data });
        let mut constants = Vec::new();
        for _ in 0..rows {
            // Sums of about 127 · 60 · √cols become values of about 100.
            let shift = -6 - (cols as f32).log2() as i32 / 2 - rng.below(2) as i32;
            constants.extend([rng.below(20_000) as i32 - 10_000, (1 << 30) + rng.below(1 << 30) as i32, shift]);
        }
        let limits = [("least".to_owned(), -128 - zero_point), ("most".to_owned(), 127 - zero_point)];
        let integers = Integers {
            scale: 0.5,
            zero_point,
            numbers: limits.into(),
            scales: [("weights".to_owned(), vec![1.0])].into(),
            rows: [("rows".to_owned(), constants)].into(),
        };
        self.integers.insert(node.name.clone(), integers);
        self.nodes.push(node);
    }

    fn model(self) -> Canonical {
        // The drawn weights are replaced.
        let mut model = drawn(&mut Rng::new(0), self.nodes, Draw { weights: 1.0, biases: false });
        model.tensors = self.tensors;
        model.architecture.integers = self.integers;
        model.validate().unwrap();
        model
    }
}

/// The model with a second reader for each window, so that none is computed in place.
fn apart(model: &Canonical) -> Canonical {
    let mut model = model.clone();
    let windows: Vec<Node> = model.architecture.nodes.iter().filter(|node| node.cell == "window").cloned().collect();
    for window in windows {
        let (name, [rows, size]) = (format!("{}_again", window.name), [window.output_size, window.input_size]);
        let reader = node(&name, "last", &window.name, [rows, size, size], &[("steps", rows / size)]);
        model.architecture.nodes.push(reader);
    }
    model.validate().unwrap();
    model
}

fn pack(model: &Canonical, layout: Layout) -> AlignedBytes {
    AlignedBytes::new(&pack_with(model, Numeric::I8, &Ranges::default(), layout).unwrap())
}

#[test]
fn windows_of_bytes_in_place_have_the_same_bits() {
    let mut rng = Rng::new(2);
    let (mut outputs, mut values) = (0, BTreeSet::new());
    for round in 0..80 {
        let first = rng.pick(&[1, 3, 4, 17, 40]);
        let mut whole = Whole { nodes: Vec::new(), tensors: BTreeMap::new(), integers: BTreeMap::new() };
        let zero_point = |rng: &mut Rng| rng.pick(&[-128, -18, 0, 5, 127]);
        let of_input = zero_point(&mut rng);
        whole.integers.insert("in".to_owned(), Integers { scale: 0.1, zero_point: of_input, ..Integers::default() });
        let (mut size, mut from) = (first, "in".to_owned());
        for index in 0..1 + rng.below(3) {
            let units = rng.pick(&[1, 4, 6, 35]);
            let [window, layer] = windowed(&mut rng, index, &from, size, units);
            (from, size) = (layer.name.clone(), layer.output_size);
            let cols = if layer.cell == "depthwise_conv" { window.extents["length"] } else { layer.input_size };
            let zero_point = zero_point(&mut rng);
            whole.nodes.push(window);
            whole.layer(&mut rng, layer, cols, zero_point);
            if rng.below(3) == 0 {
                // A slice moves values without integers of its own.
                let slice = format!("s{index}");
                let extents = [("row", size), ("first", size / 2)];
                let part = size - size / 2;
                whole.nodes.push(node(&slice, "slice", &from, [size, part, part], &extents));
                (from, size) = (slice, part);
            }
        }
        let model = whole.model();
        let plain = apart(&model);
        let value = |rng: &mut Rng| (rng.below(256) as i32 - 128 - of_input) as i16;
        let input: Vec<i16> = (0..50 * first).map(|_| value(&mut rng)).collect();
        let expected = stepped(&pack(&plain, Layout::Portable), &input);
        outputs += expected.len();
        values.extend(expected.iter().flat_map(|(_, y)| y).copied());
        for layout in Layout::ALL {
            let image = pack(&model, layout);
            let model = image.model();
            assert!(model.nodes().all(|node| node.kind != CellKind::Window), "round {round}");
            assert_eq!(stepped(&image, &input), expected, "round {round} in {}", layout.name());
            let fused = FusedModel::new(&model);
            let mut stream = fused.stream();
            let (mut y, mut given) = (vec![0; model.output_size()], Vec::new());
            for (at, x) in input.chunks(first).enumerate() {
                if stream.step_i16(x, &mut y).unwrap().has_output() {
                    given.push((at, y.clone()));
                }
            }
            assert_eq!(given, expected, "round {round} in {} on fused", layout.name());
        }
    }
    println!("{outputs} outputs with {} different values", values.len());
    assert!(outputs > 1000 && values.len() > 300, "{outputs} {}", values.len());
}

/// Values of an input that are not TFLite's integers are limited to them, as in TFLite.
#[test]
fn a_value_beyond_a_byte_is_limited() {
    let mut whole = Whole { nodes: Vec::new(), tensors: BTreeMap::new(), integers: BTreeMap::new() };
    whole.integers.insert("in".to_owned(), Integers { scale: 0.1, zero_point: 27, ..Integers::default() });
    whole.nodes.push(node("w", "window", "in", [1, 2, 2], &[("length", 2), ("prefill", 1)]));
    whole.layer(&mut Rng::new(3), node("l", "dense", "w", [2, 1, 1], &[]), 2, 0);
    // The row without a bias, divided by 2^0: the value of the older row.
    whole.tensors.insert("l.weights".to_owned(), Tensor { shape: vec![1, 2], data: vec![1.0, 0.0] });
    whole.integers.get_mut("l").unwrap().rows.insert("rows".to_owned(), vec![0, 1 << 30, 0]);
    let image = pack(&whole.model(), Layout::Portable);
    let given = stepped(&image, &[100, 101, -155, -156, 32767, -32767, 7, 0]);
    let halves: Vec<i16> = given.into_iter().map(|(_, y)| y[0]).collect();
    assert_eq!(halves, [0, 50, 50, -77, -77, 50, -77, 4], "half of the value before, rounded");
}

/// Each number, extent and length of the record is checked when the image is parsed.
#[test]
fn a_wrong_record_of_a_layer_over_a_window_is_refused() {
    let mut whole = Whole { nodes: Vec::new(), tensors: BTreeMap::new(), integers: BTreeMap::new() };
    whole.integers.insert("in".to_owned(), Integers { scale: 0.1, ..Integers::default() });
    whole.nodes.push(node("w", "window", "in", [2, 6, 6], &[("length", 3)]));
    whole.layer(&mut Rng::new(8), node("l", "dense", "w", [6, 4, 4], &[]), 6, 0);
    let image = pack(&whole.model(), Layout::Portable);
    let with = |offset: usize, value: u32| {
        let mut bytes = image.get().to_vec();
        let at = record_of(&bytes, 0) + offset;
        put32(&mut bytes, at, value);
        seal(&mut bytes);
        Model::parse(AlignedBytes::new(&bytes).image()).map(|_| ())
    };
    let [length, hop, prefill] = [0, 1, 2].map(|extent| field::LEN + 4 * extent);
    let [first, roundings] = [2, 3].map(|number| field::LEN + 4 * 3 + activation::LEN + 4 * number);
    assert_eq!(with(hop, 4), Ok(()));
    let size = Err(ImageError::BadSize { node: 0, input: 2, hidden: 4, output: 4 });
    assert_eq!(with(prefill, 3), size, "as many rows as the window has");
    assert_eq!([with(length, 1 << 15), with(hop, 1 << 15)], [size; 2], "i16 does not hold the counts");
    assert_eq!(with(hop, 0), Err(ImageError::BadExtent { node: 0, extent: 1, found: 0 }));
    let option = Err(ImageError::BadOption { node: 0 });
    for (at, value) in [(first, 1_i32), (first, -256), (roundings, 0), (roundings, 3), (field::OPTIONS.start, 1)] {
        assert_eq!(with(at, value.cast_unsigned()), option, "{value} at {at}");
    }
    assert_eq!(with(field::UNROLL_STEPS.start, 2), option, "a layer over a window is not unrolled");
    // Six bytes are three elements, padded to four; then two counts.
    let memory = Err(ImageError::BadMemory { node: 0, state: 6, work: 0 });
    assert_eq!(with(field::STATE_ELEMENTS.start, 5), memory);
}

/// A layer whose limits allow more than 256 values, which no importer makes, does not fit the bytes of a window.
#[test]
fn a_window_of_values_beyond_a_byte_stays() {
    for (limits, windows) in [([-128, 127], 0), ([-129, 127], 1), ([-128, 128], 1)] {
        let mut whole = Whole { nodes: Vec::new(), tensors: BTreeMap::new(), integers: BTreeMap::new() };
        whole.integers.insert("in".to_owned(), Integers { scale: 0.1, ..Integers::default() });
        let mut rng = Rng::new(5);
        whole.layer(&mut rng, node("a", "dense", "in", [3, 4, 4], &[]), 3, 0);
        let numbers = [("least", limits[0]), ("most", limits[1])].map(|(name, limit)| (name.to_owned(), limit));
        whole.integers.get_mut("a").unwrap().numbers = numbers.into();
        // A slice moves the values, so its window has them as well.
        whole.nodes.push(node("s", "slice", "a", [4, 2, 2], &[("row", 4), ("first", 1)]));
        whole.nodes.push(node("w", "window", "s", [2, 6, 6], &[("length", 3)]));
        whole.layer(&mut rng, node("l", "dense", "w", [6, 4, 4], &[]), 6, 0);
        assert_eq!(count(&in_place(&whole.model()), CellKind::Window), windows, "{limits:?}");
    }
}

/// A window with another reader, a window that is an output, and layers that do not read whole rows keep their nodes.
#[test]
fn other_windows_stay() {
    let window = |extents: &[(&str, usize)]| node("w", "window", "in", [2, 6, 6], extents);
    let whole = || vec![window(&[("length", 3)]), node("l", "dense", "w", [6, 4, 4], &[])];
    let draw = |nodes: Vec<Node>| drawn(&mut Rng::new(4), nodes, Draw { weights: 1.0, biases: true });
    let windows = |model: &Canonical| count(&in_place(model), CellKind::Window);
    assert_eq!(windows(&draw(whole())), 0);
    let mut read = draw(whole());
    read.architecture.outputs.push(port("w", 6, "w"));
    assert_eq!(windows(&read), 1, "an output");
    let mut twice = whole();
    twice.push(node("m", "dense", "w", [6, 2, 2], &[]));
    assert_eq!(windows(&draw(twice)), 1, "two readers");
    let kernel = |extents: &[(&str, usize)], outputs: usize| {
        let extents = [&[("in_height", 3), ("in_channels", 2)], extents].concat();
        draw(vec![window(&[("length", 3)]), node("l", "conv", "w", [6, 4, 4 * outputs], &extents)])
    };
    assert_eq!(windows(&kernel(&[("kernel_height", 3)], 1)), 0);
    assert_eq!(windows(&kernel(&[("kernel_height", 2), ("out_height", 2)], 2)), 1, "two positions");
    assert_eq!(windows(&kernel(&[("kernel_height", 3), ("groups", 2)], 1)), 1, "groups");
    let padded = [("kernel_height", 3), ("pad_top", 1), ("pad_bottom", 1), ("stride_height", 3)];
    assert_eq!(windows(&kernel(&padded, 1)), 1, "padding");
    let partial = with(window(&[("length", 3), ("hop", 3)]), &["partial"]);
    assert_eq!(windows(&draw(vec![partial, node("l", "dense", "w", [6, 4, 4], &[])])), 1, "a partial window");
    // Channels of half a row.
    let extents = [("in_height", 6), ("in_channels", 1), ("kernel_height", 6)];
    let halves = vec![window(&[("length", 3)]), node("l", "depthwise_conv", "w", [6, 1, 1], &extents)];
    assert_eq!(windows(&draw(halves)), 1, "other channels");
}
