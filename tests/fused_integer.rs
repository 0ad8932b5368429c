//! The integer kernels of `tidegate-fused` compared with `tidegate`: outputs and states are bit-identical on every
//! instruction set of this machine.

use std::path::{Path, PathBuf};

use tidegate::internals::{
    activation::Activation,
    cell::{CellKind, Storage, UNIT_SCALES},
};
use tidegate::{Batch, ImageBytes, Layout, Model, Numeric, Sequence, State};
use tidegate_fused::{FusedModel, Isa};
use tidegate_model::canonical::Canonical;
use tidegate_model::data::{read_audio_at, read_index};
use tidegate_model::load::{self, Settings};
use tidegate_model::pack::pack_with;
use tidegate_model::quantize::Ranges;
use tidegate_model::runner::{features, fit};
use tidegate_tests::bytes::in_bytes;
use tidegate_tests::images::AlignedBytes;
use tidegate_tests::random::{Draw, Fit, Rng, Variant, chain};

const DRAW: Draw = Draw { weights: 2.0, biases: true };
/// Number of steps of a test.
const STEPS: usize = 24;

/// The cells that have kernels, with their options and some of the activations that they support.
fn cells() -> Vec<Variant> {
    let named = |name: &str| -> Activation { name.parse().unwrap_or_else(|_| panic!("{name} is an activation")) };
    let lstm = |options: &[&'static str]| Variant::new(CellKind::Lstm, options);
    let projected = |options: &[&'static str]| lstm(options).fit(Fit::projected);
    let [gru, after] = [&[][..], &["reset_after"]].map(|options| Variant::new(CellKind::Gru, options));
    let elman = Variant::plain("elman");
    vec![
        lstm(&[]),
        lstm(&["peephole"]).param("cell_clip", 0.25),
        lstm(&["coupled", "masked"]),
        lstm(&["coupled", "peephole"]),
        projected(&["projection"]),
        projected(&["peephole", "projection"]).param("cell_clip", 0.5).param("projection_clip", 0.1),
        projected(&["projection", "masked"]).activation("output_activation", named("relu")),
        lstm(&[]).activation("gate_activation", named("hard_sigmoid")).activation("cell_activation", named("relu")),
        lstm(&["peephole"])
            .activation("cell_activation", named("elu"))
            .activation("output_activation", named("identity")),
        gru.clone(),
        after.clone(),
        Variant::new(CellKind::Gru, &["masked"]).activation("new_activation", named("softsign")),
        Variant::new(CellKind::Gru, &["reset_after", "masked"]).activation("gate_activation", named("hard_sigmoid")),
        elman.clone(),
        elman.activation("activation", named("relu")),
        Variant::new(CellKind::Elman, &["masked"]),
    ]
}

/// The dense layer with each activation of its kernel, and with an activation that is a table.
fn dense() -> Vec<Variant> {
    let plain = Variant::plain("dense");
    let others = ["relu", "sigmoid", "tanh", "elu"].map(|name| {
        let activation: Activation = name.parse().unwrap_or_else(|_| panic!("{name} is an activation"));
        plain.clone().activation("activation", activation)
    });
    [plain].into_iter().chain(others).collect()
}

/// Rows of extreme values, followed by rows of random values of all magnitudes.
fn extreme(rng: &mut Rng, size: usize) -> Vec<i16> {
    let mut x = vec![32767; size];
    x.extend(vec![-32767; size]);
    x.extend((0..size).map(|k| if k % 2 == 0 { 32767 } else { -32767 }));
    while x.len() < STEPS * size {
        let shift = rng.below(16);
        x.push(((rng.bits() as i16) >> shift).max(-32767));
    }
    // Every fifth step is masked.
    x.chunks_mut(size).skip(3).step_by(5).for_each(|x| x[size - 1] = 0);
    x
}

/// Runs the same steps by `tidegate` and by each instruction set, starting from a random state. Every output and the
/// last state must be equal, and so must the steps without an output.
fn hold(what: &str, model: &Model<'_>, rng: &mut Rng) {
    let (size, steps) = (model.input_size(), extreme(rng, model.input_size()));
    let values: Vec<i16> = (0..model.state_elements())
        .map(|_| if rng.below(3) == 0 { 32767 } else { (rng.bits() as i16).max(-32767) })
        .collect();
    let (mut memory, mut scratch) = (vec![0; model.state_words()], vec![0; model.scratch_words()]);
    let mut state = State::new(model, &mut memory).unwrap();
    state.values_i16_mut()[..values.len()].copy_from_slice(&values);
    let mut expected = Vec::new();
    let mut y = vec![0; model.output_size()];
    for x in steps.chunks(size) {
        let has_output = model.step_i16(&mut state, &mut scratch, x, &mut y).unwrap().has_output();
        expected.push(has_output.then(|| y.clone()));
    }
    assert!(expected.iter().any(Option::is_some), "{what}");
    for isa in Isa::available() {
        let fused = FusedModel::with_isa(model, isa);
        assert!(fused.packed().iter().all(|&packed| packed), "{what}: each node has a kernel on {isa}");
        let mut stream = fused.stream();
        stream.state().values_i16_mut()[..values.len()].copy_from_slice(&values);
        let mut got = Vec::new();
        for x in steps.chunks(size) {
            let has_output = stream.step_i16(x, &mut y).unwrap().has_output();
            got.push(has_output.then(|| y.clone()));
        }
        assert_eq!(got, expected, "{what} on {isa}");
        assert_eq!(stream.state().values_i16(), state.values_i16(), "{what} on {isa}: the state");
    }
}

/// Runs a batch of sequences by `tidegate` and by each instruction set. Some sequences are short and some are reset on
/// the way. Every output and the last states must be equal.
fn hold_sequences(what: &str, model: &Model<'_>, rng: &mut Rng, (batch, time): (usize, usize)) {
    let (size, words) = (model.input_size(), model.state_words());
    let mut x = rng.numbers(batch * time * size, 3.0);
    x.chunks_mut(size).skip(2).step_by(4).for_each(|x| x[size - 1] = 0.0);
    let lens: Vec<usize> = (0..batch).map(|_| time - rng.below(time + 1).min(3)).collect();
    let resets: Vec<bool> = (0..batch * time).map(|_| rng.below(7) == 0).collect();
    let how = Sequence { lens: Some(&lens), resets: Some(&resets), ..Sequence::ALL };
    let (mut memory, mut scratch) = (vec![0; batch * words], vec![0; model.scratch_words()]);
    let mut expected = vec![f32::NAN; batch * time * model.output_size()];
    let mut states = Batch::new(model, batch, &mut memory).unwrap();
    let steps = model.run_batch(&mut states, &mut scratch, &[&x], &mut [&mut expected], &how).unwrap();
    assert!(model.has_buffer() || steps == lens.iter().sum::<usize>(), "{what}");
    for isa in Isa::available() {
        let fused = FusedModel::with_isa(model, isa);
        let (mut got_memory, mut scratch) = (vec![0; batch * words], fused.scratch());
        let mut got = vec![f32::NAN; expected.len()];
        let mut states = Batch::new(model, batch, &mut got_memory).unwrap();
        assert_eq!(fused.run_batch(&mut states, &mut scratch, &[&x], &mut [&mut got], &how), Ok(steps));
        assert!(got.iter().zip(&expected).all(|(a, b)| a.to_bits() == b.to_bits()), "{what} on {isa}: sequences");
        assert_eq!(got_memory, memory, "{what} on {isa}: the states");
    }
}

/// A model's image, with ranges calibrated on noise. In half of the images, each unit of an LSTM has a scale of its own, if
/// its activations permit it.
fn image(rng: &mut Rng, model: &Canonical, numeric: Numeric, layout: Layout) -> AlignedBytes {
    let size = model.architecture.inputs[0].size;
    let seen = rng.numbers(8 * size, 2.0);
    let mut ranges = Ranges::measure(model, [[seen.as_slice()].as_slice()]).unwrap().nearest();
    if rng.below(2) == 0 {
        ranges.add_unit_scales(model.architecture.nodes.iter().map(|node| node.name.clone()));
    }
    AlignedBytes::new(&pack_with(model, numeric, &ranges, layout).unwrap_or_else(|error| panic!("{error}")))
}

/// A random layout of a numeric.
fn layout(rng: &mut Rng, numeric: Numeric) -> Layout {
    let layouts: Vec<Layout> = Layout::ALL.into_iter().filter(|layout| layout.is_of(numeric)).collect();
    rng.pick(&layouts)
}

/// Inputs in f32 are rounded once. A value just below a half is rounded down, such as 0.49999997, to which 0.5 cannot
/// be added in f32.
#[test]
fn f32_inputs_are_rounded_to_nearest_halves_away_from_zero() {
    let mut rng = Rng::new(9);
    let model = chain(&mut rng, 1, &[(Variant::plain("identity"), 1)], DRAW);
    let mut just_below = 0;
    // The first scale is 2^-7 to a part in a million, the second is not near a power of two.
    for range in [32767.0 / 1.05 / 128.0, 3.0] {
        let ranges = Ranges::new([("in".to_owned(), range), ("n0".to_owned(), range)]);
        let image = AlignedBytes::new(&pack_with(&model, Numeric::I8x16, &ranges, Layout::Portable).unwrap());
        let model = image.model();
        let scale = model.inputs().next().unwrap().scale;
        let near = |half: f32| {
            (-3_i32..=3).map(move |ulps| f32::from_bits((half * scale).to_bits().wrapping_add_signed(ulps)))
        };
        let halves = [0.5, 1.5, 2.5, 127.5, 8191.5, 16383.5, 32766.5, 32767.5, 4e9];
        let ends = [0.0, f32::INFINITY, f32::MIN_POSITIVE, f32::NAN];
        let x: Vec<f32> = halves.into_iter().flat_map(near).chain(ends).flat_map(|x| [x, -x]).collect();
        let expected: Vec<f32> = x
            .iter()
            .map(|x| {
                let whole = (x / scale).round().clamp(-32767.0, 32767.0);
                if whole.is_nan() { 0.0 } else { whole * scale }
            })
            .collect();
        just_below += x.iter().filter(|&x| (x / scale).abs() == 0.499_999_97).count();
        let (mut memory, mut scratch) = (vec![0; model.state_words()], vec![0; model.scratch_words()]);
        let mut y = vec![f32::NAN; x.len()];
        let mut state = State::new(&model, &mut memory).unwrap();
        model.run_f32(&mut state, &mut scratch, &x, &mut y).unwrap();
        assert_eq!(y, expected, "tidegate");
        for isa in Isa::available() {
            let fused = FusedModel::with_isa(&model, isa);
            let mut scratch = fused.scratch();
            let mut state = State::new(&model, &mut memory).unwrap();
            y.fill(f32::NAN);
            fused.run(&mut state, &mut scratch, &x, &mut y).unwrap();
            assert_eq!(y, expected, "{isa}");
        }
    }
    assert!(just_below > 0, "0.49999997 is among the inputs");
}

#[test]
fn cells_and_dense_layers_of_every_size_give_the_bits_of_the_reference() {
    let mut rng = Rng::new(1);
    let (mut tried, mut scaled) = (0, 0);
    // For each variant a third of the sizes, or every size if the environment asks for it. Under emulation, where debug
    // assertions are on, a third would still take minutes.
    let every = if cfg!(debug_assertions) {
        11
    } else if std::env::var_os("TIDEGATE_EVERY_SIZE").is_some() {
        1
    } else {
        3
    };
    for (at, variant) in cells().into_iter().chain(dense()).enumerate() {
        for units in (1 + at % every..=67).step_by(every).chain([128, 256]) {
            // Fewer inputs than units, as many, or more.
            let input = if units > 67 { units } else { 1 + rng.below(70) };
            let model = chain(&mut rng, input, &[(variant.clone(), units)], DRAW);
            for numeric in Numeric::INTEGER {
                let layout = layout(&mut rng, numeric);
                let image = image(&mut rng, &model, numeric, layout);
                let what = format!("{} {input} to {units}, {}, {}", variant.name(), numeric.name(), layout.name());
                let model = image.model();
                hold(&what, &model, &mut rng);
                tried += 1;
                scaled += usize::from(model.nodes().any(|node| node.has(UNIT_SCALES)));
            }
        }
    }
    assert!(scaled >= tried / 8, "{scaled} of {tried} images have scales of units");
    assert!(tried >= (16 + 5) * (67 / every + 2) * 2, "{tried}");
}

/// A chain in the numeric `i8` whose factors and shifts are random. No shift is greater than `most`.
fn in_random_bytes(rng: &mut Rng, input: usize, cells: &[(Variant, usize)], most: i32) -> Canonical {
    let mut model = in_bytes(chain(rng, input, cells, DRAW));
    for of in model.architecture.integers.values_mut() {
        // Shifts that a converter would write, and the least and the greatest that an image holds.
        let shift = |rng: &mut Rng| rng.pick(&[0, 1, 2, 8, 30, -1, -2, -5, -7, -9, -11, -31]).min(most);
        let factor = |rng: &mut Rng| (rng.bits() as u32 >> rng.pick(&[1, 1, 1, 9])).cast_signed();
        for (name, number) in &mut of.numbers {
            match name.as_str() {
                name if name.ends_with("factor") => *number = factor(rng),
                name if name.ends_with("shift") => *number = shift(rng),
                "cell_bits" => *number = 9 + rng.below(7) as i32,
                "cell_clip" => *number = 1 + rng.below(1 << 15) as i32,
                _ => {}
            }
        }
        for rows in of.rows.values_mut().filter(|rows| rows.len().is_multiple_of(3)) {
            for [start, of, by] in rows.as_chunks_mut().0 {
                *start = rng.bits() as i32 >> rng.below(32);
                (*of, *by) = (factor(rng), shift(rng));
            }
        }
    }
    model
}

/// Windows with and without steps that have no output.
fn windowed(_: usize, units: usize) -> Fit {
    let (length, hop) = (1 + units % 7, 1 + units % 3);
    let extents = vec![("length", length), ("hop", hop), ("prefill", units % 2 * (length - 1))];
    Fit { extents, ..Fit::units(0, units) }
}

/// The same with a filter for each channel.
fn filtered(input: usize, units: usize) -> Fit {
    Fit { extents: windowed(0, units).extents, ..Fit::units(0, input) }
}

#[test]
fn layers_of_bytes_give_the_bits_of_the_reference() {
    let mut rng = Rng::new(11);
    let mut tried = 0;
    let windows = [Variant::plain("window_dense").fit(windowed), Variant::plain("window_depthwise").fit(filtered)];
    for variant in ["lstm", "dense", "conv"].map(Variant::plain).into_iter().chain(windows) {
        let cell = variant.name();
        // `tidegate` steps windows with so few units that most lanes of a vector would be empty.
        let least = if cell.starts_with("window_dense") { 8 } else { 1 };
        for units in (least..=67).step_by(if cfg!(debug_assertions) { 11 } else { 3 }) {
            let input = 1 + rng.below(70);
            // `tidegate` steps a layer that is rounded once and has a multiplier above 1.
            let most = if cell.contains("dense") { 0 } else { 30 };
            let model = in_random_bytes(&mut rng, input, &[(variant.clone(), units)], most);
            let layout = layout(&mut rng, Numeric::I8);
            let image = pack_with(&model, Numeric::I8, &Ranges::default(), layout);
            let image = AlignedBytes::new(&image.unwrap_or_else(|error| panic!("{error}")));
            let what = format!("{} {input} to {units}, i8, {}", variant.name(), layout.name());
            hold(&what, &image.model(), &mut rng);
            hold_sequences(&what, &image.model(), &mut rng, (3, 5));
            tried += 1;
        }
    }
    assert!(tried >= 5 * 6, "{tried}");
}

#[test]
fn sequences_and_batches_give_the_bits_of_the_reference() {
    let mut rng = Rng::new(4);
    for variant in cells().into_iter().chain(dense()) {
        for (units, input, batch, time) in
            [(5, 3, 1, 1), (16, 16, 1, 9), (33, 7, 2, 5), (64, 70, 5, 6), (20, 40, 131, 2)]
        {
            let model = chain(&mut rng, input, &[(variant.clone(), units)], DRAW);
            for numeric in Numeric::INTEGER {
                let layout = layout(&mut rng, numeric);
                let image = image(&mut rng, &model, numeric, layout);
                let what = format!("{} {input} to {units}, {}, {}", variant.name(), numeric.name(), layout.name());
                hold_sequences(&what, &image.model(), &mut rng, (batch, time));
            }
        }
    }
    // More steps than run together, through two layers.
    for variant in [Variant::plain("lstm"), Variant::plain("gru"), Variant::new(CellKind::Gru, &["reset_after"])] {
        let model = chain(&mut rng, 9, &[(variant.clone(), 24), (variant, 17)], DRAW);
        let image = image(&mut rng, &model, Numeric::I8x16, Layout::Portable);
        hold_sequences("two layers", &image.model(), &mut rng, (1, 300));
        hold_sequences("two layers", &image.model(), &mut rng, (3, 100));
    }
}

#[test]
fn chains_of_layers_give_the_bits_of_the_reference_in_every_layout() {
    let mut rng = Rng::new(2);
    for (first, last) in cells().into_iter().zip(dense().into_iter().cycle()) {
        let model = chain(&mut rng, 10, &[(first.clone(), 33), (first, 20), (last, 12)], DRAW);
        for numeric in Numeric::INTEGER {
            for layout in Layout::ALL.into_iter().filter(|layout| layout.is_of(numeric)) {
                let image = image(&mut rng, &model, numeric, layout);
                hold(&format!("a chain, {}, {}", numeric.name(), layout.name()), &image.model(), &mut rng);
            }
        }
    }
}

/// Random weights, random scales of units and random requantization, so that sums wrap, shifts have all sizes, and results
/// need all 32 bits.
fn scramble(image: &mut [u8], rng: &mut Rng) {
    let aligned = AlignedBytes::new(image);
    let model = aligned.model();
    let base = aligned.get().as_ptr().addr();
    for node in model.nodes() {
        for (index, spec) in node.kind.integer_spec().unwrap().tensors.iter().enumerate() {
            let bytes = node.tensor_bytes_at(index);
            if bytes.is_empty() {
                continue;
            }
            let start = bytes.as_ptr().addr() - base;
            let to = &mut image[start..start + bytes.len()];
            match spec.storage {
                Storage::Weights(_) => to.iter_mut().for_each(|byte| *byte = rng.bits() as u8),
                Storage::Rows { .. } => {
                    for block in to.chunks_mut(36) {
                        block.iter_mut().for_each(|byte| *byte = rng.bits() as u8);
                        block[32..].iter_mut().for_each(|shift| *shift %= 32);
                    }
                }
                Storage::Shifts => {
                    to.as_chunks_mut().0.iter_mut().for_each(|shift| *shift = (rng.below(16) as i16).to_le_bytes());
                }
                _ => {}
            }
        }
    }
}

#[test]
fn sums_that_wrap_are_the_same_in_every_backend() {
    let mut rng = Rng::new(3);
    for variant in cells().into_iter().chain(dense()) {
        for units in [1, 7, 16, 33, 64, 200] {
            let input = 1 + rng.below(200);
            let model = chain(&mut rng, input, &[(variant.clone(), units)], DRAW);
            let mut bytes = image(&mut rng, &model, Numeric::I8x16, Layout::Portable).get().to_vec();
            scramble(&mut bytes, &mut rng);
            let bytes = AlignedBytes::new(&bytes);
            // Checksums and row sums are wrong, but the structure is right.
            let model = Model::parse_structure(ImageBytes::new(bytes.get()).unwrap()).unwrap();
            hold(&format!("noise in {} {input} to {units}", variant.name()), &model, &mut rng);
        }
    }
}

fn assets() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../assets")
}

#[test]
fn published_spotters_over_clips_give_the_bits_of_the_reference() {
    let clips = read_index(&assets().join("speech_commands/index.csv")).unwrap();
    assert!(!clips.is_empty());
    for (name, kernels) in [("Basic_LSTM_S", 2), ("GRU_S", 2), ("LSTM_S", 2), ("CRNN_S", 5)] {
        let path = assets().join(format!("hello_edge/{name}.pb"));
        let canonical = load::canonical(&path, &Settings::default()).unwrap().model;
        for numeric in Numeric::INTEGER {
            let image = load::packed(&path, &canonical, numeric).unwrap();
            let model = image.model().unwrap();
            let (mfcc, mut heard) = (model.front_end().unwrap(), 0);
            for isa in Isa::available() {
                let fused = FusedModel::with_isa(&model, isa);
                // The softmax, and the window of CRNN_S, are stepped by `tidegate`.
                assert_eq!(fused.packed().iter().filter(|&&packed| packed).count(), kernels, "{name} on {isa}");
                for clip in &clips {
                    let samples = read_audio_at(&clip.path, 16_000).unwrap().samples;
                    let frames = features(mfcc, &fit(mfcc, &samples, 49).unwrap()).unwrap();
                    let (mut memory, mut scratch) = (vec![0; model.state_words()], vec![0; model.scratch_words()]);
                    let mut state = State::new(&model, &mut memory).unwrap();
                    let mut stream = fused.stream();
                    let (mut expected, mut got) = (vec![0.0; model.output_size()], vec![0.0; model.output_size()]);
                    for x in frames.chunks(model.input_size()) {
                        let step = model.step_f32(&mut state, &mut scratch, x, &mut expected).unwrap();
                        assert_eq!(stream.step(x, &mut got).unwrap(), step, "{name} on {isa}");
                        assert_eq!(got, expected, "{name}, {} on {isa}: {}", numeric.name(), clip.path.display());
                        heard += usize::from(step.has_output());
                    }
                }
            }
            assert!(heard > 0, "{name} gives events");
        }
    }
}
