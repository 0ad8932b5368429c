//! Models over windows that step row by row: the same bits as over each window, and refusals by name.

use tidegate::{Numeric, State};
use tidegate_model::canonical::{Architecture, Canonical, Node, Schedule};
use tidegate_model::streamed::{StreamError, streamed};
use tidegate_tests::images::AlignedBytes;
use tidegate_tests::network::{activated, drawn, node, reading, unrolled, with};
use tidegate_tests::random::{Draw, Rng, port};

/// The output of each step that has one.
fn stepped(model: &Canonical, rows: &[f32]) -> Vec<Vec<u32>> {
    let image = AlignedBytes::pack(model, Numeric::F32);
    let model = image.model();
    let (mut memory, mut scratch) = (vec![0; model.state_words()], vec![0; model.scratch_words()]);
    let mut state = State::new(&model, &mut memory).unwrap();
    let (mut y, mut all) = (vec![0.0_f32; model.output_size()], Vec::new());
    for x in rows.chunks(model.input_size()) {
        if model.step_f32(&mut state, &mut scratch, x, &mut y).unwrap().has_output() {
            all.push(y.iter().map(|value| value.to_bits()).collect());
        }
    }
    all
}

/// The value of a layer. Time is the height of the image, or with `flat` its width.
struct Image {
    rows: usize,
    width: usize,
    channels: usize,
    flat: bool,
}

impl Image {
    fn conv(&mut self, rng: &mut Rng, name: &str, from: &str) -> Node {
        let kernel = rng.pick(&[1, 1, 2, 3, 5]).min(self.rows);
        let dilation = if kernel > 1 && 2 * (kernel - 1) < self.rows { rng.pick(&[1, 2]) } else { 1 };
        let out = self.rows - (kernel - 1) * dilation;
        let (time, across) = if self.flat { ("width", "height") } else { ("height", "width") };
        let depthwise = rng.below(2) == 0;
        let filters = if depthwise { self.channels } else { rng.pick(&[1, 4, 6]) };
        // Padding across time is allowed.
        let padding = usize::from(self.width > 2);
        let taps = if padding == 1 { 3 } else { self.width };
        let positions = self.width + 2 * padding + 1 - taps;
        let [before, after] = if self.flat { ["pad_top", "pad_bottom"] } else { ["pad_left", "pad_right"] };
        let side = |what: &str, side: &str| format!("{what}_{side}");
        let extents = [
            (side("in", time), self.rows),
            (side("kernel", time), kernel),
            (side("dilation", time), dilation),
            (side("out", time), out),
            (side("in", across), self.width),
            (side("kernel", across), taps),
            (side("out", across), positions),
            (before.to_owned(), padding),
            (after.to_owned(), padding),
            ("in_channels".to_owned(), self.channels),
        ];
        let extents: Vec<(&str, usize)> = extents.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        let input = self.rows * self.width * self.channels;
        let kind = if depthwise { "depthwise_conv" } else { "conv" };
        (self.rows, self.width, self.channels) = (out, positions, filters);
        node(name, kind, from, [input, filters, out * positions * filters], &extents)
    }
}

#[test]
fn rows_give_the_bits_of_the_windows_that_end_at_them() {
    let mut rng = Rng::new(1);
    let mut outputs = 0;
    for round in 0..40 {
        let rows = 6 + rng.below(12);
        let flat = rng.below(3) == 0;
        let width = if flat { 1 } else { rng.pick(&[1, 1, 2, 5]) };
        let mut image = Image { rows, width, channels: rng.pick(&[1, 3, 8]), flat };
        let row = image.width * image.channels;
        let (mut nodes, mut from) = (vec![node("a", "activation", "in", [rows * row; 3], &[])], "a".to_owned());
        for index in 0..2 + rng.below(3) {
            let layer = image.conv(&mut rng, &format!("c{index}"), &from);
            (from, nodes) = (layer.name.clone(), [nodes, vec![activated(layer, "relu")]].concat());
            let size = image.rows * image.width * image.channels;
            let name = format!("n{index}");
            match rng.below(4) {
                0 => {
                    let scale = node(&name, "scale", &from, [size; 3], &[("channels", image.channels)]);
                    nodes.push(with(scale, &["gain"]));
                }
                1 => {
                    let add = reading(node(&name, "merge", "", [2 * size, size, size], &[]), &[&from, &from]);
                    nodes.push(with(add, &["add"]));
                }
                2 => {
                    let units = 5;
                    let dense = node(&name, "dense", &from, [size / image.rows, units, units], &[]);
                    nodes.push(unrolled(dense, image.rows, false, false));
                    (image.width, image.channels) = (1, units);
                }
                _ => continue,
            }
            from = name;
        }
        let size = image.rows * image.width * image.channels;
        nodes.extend([node("d", "dense", &from, [size, 4, 4], &[]), node("s", "softmax", "d", [4; 3], &[])]);
        let model = drawn(&mut rng, nodes, Draw { weights: 1.5, biases: true });
        let architecture = streamed(&model.architecture).unwrap_or_else(|error| panic!("round {round}: {error}"));
        let other = Canonical { architecture, tensors: model.tensors.clone() };
        other.validate().unwrap();
        assert_eq!(other.architecture.inputs[0].size, row, "round {round}");
        let frames = rng.numbers((rows + 20) * row, 2.0);
        let windows: Vec<f32> = frames.windows(rows * row).step_by(row).flatten().copied().collect();
        let expected = stepped(&model, &windows);
        assert_eq!(expected.len(), 21);
        outputs += expected.len();
        // The first output is that of the first whole window.
        assert_eq!(stepped(&other, &frames), expected, "round {round}");
        // A model that collects its windows, as Keras's input of `[rows, features]` is imported.
        let window = node("w", "window", "in", [row, rows * row, rows * row], &[("length", rows), ("hop", rows)]);
        let mut collecting = model.architecture.clone();
        collecting.inputs[0].size = row;
        collecting.nodes[0].inputs = vec!["w".to_owned()];
        collecting.nodes.insert(0, window);
        let collected = Canonical { architecture: streamed(&collecting).unwrap(), tensors: model.tensors.clone() };
        collected.validate().unwrap();
        assert_eq!(stepped(&collected, &frames), expected, "round {round}");
    }
    println!("{outputs} outputs are equal");
}

/// A network over a window of 8 rows of 3 features.
fn refused(nodes: Vec<Node>) -> String {
    let model = drawn(&mut Rng::new(2), nodes, Draw { weights: 1.0, biases: true });
    streamed(&model.architecture).map(|_| ()).unwrap_err().to_string()
}

fn conv(name: &str, from: &str, rows: usize, more: &[(&str, usize)]) -> Node {
    let extents = [&[("in_height", rows), ("in_channels", 3)], more].concat();
    let of = |name: &str| extents.iter().find(|(of, _)| *of == name).map_or(1, |(_, value)| *value);
    let out = of("out_height");
    node(name, "conv", from, [3 * rows, 3, 3 * out], &extents)
}

#[test]
fn what_treats_rows_differently_is_refused_by_name() {
    let first = || conv("first", "in", 8, &[("kernel_height", 3), ("out_height", 6)]);
    let pool = node("mean", "pool", "first", [18, 3, 3], &[("in_height", 6), ("in_channels", 3), ("kernel_height", 6)]);
    for (nodes, reason) in [
        (
            vec![conv("same", "in", 8, &[("kernel_height", 3), ("pad_top", 1), ("pad_bottom", 1), ("out_height", 8)])],
            "same (conv) pads the rows of the window, and so sees its border (padding SAME)",
        ),
        (
            vec![first(), with(pool, &["average"])],
            "mean (pool) takes a mean or maximum over 6 rows of the window (MEAN or POOL)",
        ),
        (
            vec![first(), conv("hops", "first", 6, &[("kernel_height", 2), ("stride_height", 2), ("out_height", 3)])],
            "hops (conv) has a stride of 2 along time: a window reads only some of its rows",
        ),
        (
            vec![first(), node("memory", "gru", "first", [18, 3, 3], &[])],
            "memory (gru) has a state that follows the windows",
        ),
        (
            vec![first(), unrolled(node("memory", "gru", "first", [3, 3, 3], &[]), 6, false, false)],
            "memory (gru) has a state that follows the windows",
        ),
        (
            vec![first(), node("shares", "softmax", "first", [18; 3], &[])],
            "shares (softmax) reads all 6 rows of the window together",
        ),
        (
            vec![first(), node("norm", "layer_norm", "first", [18; 3], &[])],
            "norm (layer_norm) reads all 6 rows of the window together",
        ),
        (
            vec![first(), with(node("gains", "scale", "first", [18; 3], &[("channels", 18)]), &["gain"])],
            "gains (scale) reads all 6 rows of the window together",
        ),
        (
            vec![first(), node("part", "slice", "first", [18, 9, 9], &[("row", 18)])],
            "part (slice) reads all 6 rows of the window together",
        ),
        (
            vec![
                first(),
                conv("second", "first", 6, &[("kernel_height", 2), ("out_height", 5)]),
                reading(node("join", "identity", "", [33; 3], &[]), &["first", "second"]),
            ],
            "join (identity) joins 6 and 5 rows",
        ),
    ] {
        let error = refused(nodes);
        let end = "the model cannot step row by row; without --stream it keeps its window of 8 rows";
        assert_eq!(error, format!("{reason}: {end}"));
    }
    let open = refused(vec![first()]);
    assert_eq!(open, "the output out has 6 rows of time: the model cannot step row by row; leave --stream out");
    let dense = refused(vec![node("d", "dense", "in", [24, 2, 2], &[])]);
    assert!(dense.starts_with("no convolution reads several rows of the input"), "{dense}");
    let model = drawn(&mut Rng::new(3), vec![first()], Draw { weights: 1.0, biases: true });
    let two = Architecture { inputs: vec![port("in", 24, ""), port("b", 1, "")], ..model.architecture.clone() };
    assert_eq!(streamed(&two), Err(StreamError::Inputs { inputs: 2 }));
    let windows = Architecture { schedule: Schedule::Windows { frames: 2, every: 1 }, ..model.architecture };
    assert_eq!(streamed(&windows), Err(StreamError::Scheduled));
}
