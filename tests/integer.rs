//! The integer numerics: activations over every input, and whole models compared with a twin in 64-bit integers, bit
//! for bit in every layout.

use std::path::Path;

use tidegate::internals::{
    activation::Activation,
    cell::{CellKind, IntegerSpec},
    curve::{BITS, Curve, ODD_OCTAVES, OVER_OCTAVES, SIGMOID_MAX_ERROR, TABLE_LEN, TANH_MAX_ERROR, sigmoid, tanh},
    integer_norm::{Epsilon, FRACTION_BITS, Moments, ROOT_MAX_ERROR, inverse_root_of_mantissa},
};
use tidegate::{Layout, Model, Numeric, State, StepError};
use tidegate_model::canonical::Canonical;
use tidegate_model::load::ImageBuffer;
use tidegate_model::pack::pack_with;
use tidegate_model::quantize::Ranges;
use tidegate_tests::bytes::in_bytes;
use tidegate_tests::golden::Case;
use tidegate_tests::oracle::{Bounded, Oracle};
use tidegate_tests::random::{Draw, Fit, Rng, Variant, chain};
use tidegate_tests::tolerance::{worse, worst};
use tidegate_tests::twin::Twin;

const ONE: f64 = 32768.0;
/// One, two, an odd number, a block and one more, two vectors of sixteen and one more.
const SIZES: [usize; 6] = [1, 2, 3, 5, 17, 33];

#[test]
fn sigmoid_and_tanh_keep_their_stated_errors_over_every_input() {
    for bits in BITS {
        let (mut worst, mut before) = ([0.0_f64; 2], [i32::MIN; 2]);
        // Beyond sums of ±16, both functions are saturated.
        let end = 17 << bits;
        for x in -end..=end {
            let exact = f64::from(x) / f64::from(bits).exp2();
            let got = [sigmoid(x, bits.unsigned_abs()), tanh(x, bits.unsigned_abs())];
            let exact = [ONE / (1.0 + (-exact).exp()), ONE * exact.tanh()];
            for k in 0..2 {
                worst[k] = worse(worst[k], (f64::from(got[k]) - exact[k]).abs());
                assert!(got[k] >= before[k], "{bits} bits: {x} gives less than {}", x - 1);
                before[k] = got[k];
            }
            assert!((0..=32768).contains(&got[0]) && (-32767..=32767).contains(&got[1]));
        }
        println!("{bits} bits: sigmoid within {:.3}, tanh within {:.3} of 2^-15", worst[0], worst[1]);
        assert!(worst[0] <= SIGMOID_MAX_ERROR && worst[1] <= TANH_MAX_ERROR);
        for x in [i32::MIN, i32::MIN + 1, -end, end, i32::MAX] {
            let (low, bits) = (x < 0, bits.unsigned_abs());
            assert_eq!(sigmoid(x, bits), if low { 1 } else { 32768 });
            assert_eq!(tanh(x, bits), if low { -32767 } else { 32767 });
        }
    }
    assert_eq!((sigmoid(0, 12), tanh(0, 12)), (16384, 0));
}

/// Every sum of up to 24 bits, and sums of all octaves above. The bound: the lines between two values of the table are off by
/// (1/16)² / 8 · 1/4 of the root, and a value and the interpolation are each rounded by half a unit.
#[test]
fn a_table_over_octaves_keeps_its_relative_error() {
    let unit = 30_000.0 / f64::from(1 << 30).sqrt();
    let root = |x: f64| x.sqrt() * unit;
    let mut values: Vec<i16> = (0..TABLE_LEN)
        .map(|at| root((1.0 + (at % 16) as f64 / 16.0) * ((at / 16) as f64).exp2()).round().min(32767.0) as i16)
        .collect();
    values[TABLE_LEN - 1] = 7;
    let curve = Curve::Table { values: &values, shift: OVER_OCTAVES };
    let mut rng = Rng::new(6);
    let others = (0..1 << 20).map(|_| ((rng.bits() >> 33) as i32 & 0x3fff_ffff) >> rng.below(7));
    for x in (1..1 << 24).chain(others) {
        let (got, exact) = (curve.apply(x, 0), root(f64::from(x)));
        let bound = exact / 8192.0 + 1.0;
        assert!((f64::from(got) - exact).abs() <= bound, "{x}: {got} is not {exact}");
        assert!(got <= curve.apply(x + 1, 0), "{x} gives more than {}", x + 1);
    }
    assert!([0, -1, i32::MIN].iter().all(|&x| curve.apply(x, 0) == 7));
    let odd = Curve::Table { values: &values, shift: ODD_OCTAVES };
    assert!([1, 77, 12_345_678, i32::MAX].iter().all(|&x| odd.apply(-x, 0) == -odd.apply(x, 0)));
    assert_eq!(odd.apply(i32::MIN, 0), -odd.apply(i32::MAX, 0));
}

/// The reciprocal square root of layer normalization, over all mantissas.
#[test]
fn inverse_roots_keep_their_stated_error_over_every_mantissa() {
    let mut worst = 0.0_f64;
    for m in 1 << 22..1 << 24 {
        let got = inverse_root_of_mantissa(m);
        assert!(got < 1 << 30);
        worst = worse(worst, (f64::from(got) / 41.0_f64.exp2() * f64::from(m).sqrt() - 1.0).abs());
    }
    println!("within 2^{:.2}", worst.log2());
    assert!(worst <= ROOT_MAX_ERROR);
}

/// The bound: each q is off by less than 1, and the standard deviation of n values is at least 2^13.5 / √n. This gives
/// (1 + |y| / 2) √n / 2^13.5, plus the errors of the root and the shifts. The root mean square is at least 2^14 / √n.
#[test]
fn normalized_values_are_within_a_derived_bound_of_f64() {
    let mut rng = Rng::new(4);
    let (mut worst, mut tried) = (0.0_f64, 0);
    for len in [1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 64, 65, 128, 1000, 4096, 16384] {
        for _ in 0..64 {
            let (width, center) = (rng.below(30), rng.bits() as i32 >> (2 + rng.below(30)));
            let outlier = rng.below(len);
            let values: Vec<i32> = match rng.below(5) {
                0 => (0..len).map(|_| center / 2 + (rng.bits() as i32 >> (31 - width))).collect(),
                1 => (0..len).map(|unit| center + i32::from(unit == outlier)).collect(),
                // Differences of 33 bits.
                2 => (0..len).map(|_| rng.bits() as i32).collect(),
                3 => (0..len).map(|_| if rng.below(2) == 0 { i32::MIN } else { i32::MAX }).collect(),
                _ => (0..len).map(|unit| if unit == outlier { 1 << width } else { rng.bits() as i32 & 1 }).collect(),
            };
            let epsilon = Epsilon { mantissa: rng.below(1 << 15) as u32, exponent: rng.below(120) as i32 - 80 };
            let (n, exact) = (len as f64, values.iter().map(|&value| f64::from(value)));
            let mean = exact.clone().sum::<f64>() / n;
            let added = f64::from(epsilon.mantissa) * f64::from(epsilon.exponent).exp2();
            let all = values.iter().copied();
            for (mean, moments) in
                [(mean, Moments::of(all.clone(), epsilon)), (0.0, Moments::root_mean_square(all, epsilon))]
            {
                let variance = exact.clone().map(|value| (value - mean).powi(2)).sum::<f64>() / n;
                for (&value, exact) in values.iter().zip(exact.clone()) {
                    let y = if variance == 0.0 { 0.0 } else { (exact - mean) / (variance + added).sqrt() };
                    let got = f64::from(moments.apply(value)) / f64::from(FRACTION_BITS).exp2();
                    let bound = (1.0 + y.abs() / 2.0) * n.sqrt() / 13.5_f64.exp2()
                        + y.abs() / 21.0_f64.exp2()
                        + 18.0_f64.exp2().recip();
                    worst = worse(worst, (got - y).abs() / bound);
                    assert!((got - y).abs() <= bound, "{got} is not {y}: {len} values, {mean}, {epsilon:?}");
                    tried += 1;
                }
            }
        }
    }
    println!("{tried} values use {worst:.2} of their bound at most");
    // No input panics, not even differences of 33 bits or an empty slice.
    for values in [&[][..], &[i32::MIN], &[i32::MIN, i32::MAX], &[i32::MAX, i32::MIN, 0, -1]] {
        for exponent in [i32::MIN, -64, 0, 18, 19, 64, i32::MAX] {
            let moments = Moments::of(values.iter().copied(), Epsilon { mantissa: u32::MAX, exponent });
            assert!(values.len() > 1 || values.iter().all(|&value| moments.apply(value) == 0), "{exponent}");
            let _: Vec<i32> = values.iter().map(|&value| moments.apply(value)).collect();
        }
    }
}

/// Every variant with an integer form, with every option and activation.
fn variants() -> impl Iterator<Item = Variant> {
    Variant::all().into_iter().filter(move |variant| {
        let gate = variant.activations.get("gate_activation").map_or("sigmoid", String::as_str);
        let bit = |option: &&'static str| {
            variant.kind.spec().options.iter().position(|of| of == option).expect("an option of its cell")
        };
        let has = |integer: &IntegerSpec| variant.options.iter().all(|option| integer.options >> bit(option) & 1 == 1);
        variant.kind.integer_spec().is_some_and(has)
            && (gate.starts_with("sigmoid") || gate.starts_with("hard_sigmoid"))
    })
}

fn sequence(rng: &mut Rng, steps: usize, size: usize, limit: f32) -> Vec<f32> {
    rng.numbers(steps * size, limit)
}

fn image(model: &Canonical, ranges: &Ranges, numeric: Numeric, layout: Layout) -> ImageBuffer {
    ImageBuffer::new(&pack_with(model, numeric, ranges, layout).unwrap())
}

/// The greatest weight over the carried values, divided by 127: first among the sums whose scale is a power of two with
/// any activation, then among all sums. In a GRU the candidate may share the scale of the carried values. `None` if no
/// growing value is carried, or if it shares the scale.
fn over_carried(model: &Canonical) -> Option<(f64, f64)> {
    let node = &model.architecture.nodes[0];
    let most = |weights: &[f32]| weights.iter().fold(0.0, |most, &weight| f64::max(most, weight.abs().into())) / 127.0;
    let weights = |name: &str| model.tensors.get(&format!("n0.{name}")).map(|tensor| tensor.data.as_slice());
    match CellKind::from_name(&node.cell)? {
        CellKind::Gru => {
            let weights = weights("recurrent_weights")?;
            Some((most(&weights[..2 * node.hidden_size * node.hidden_size]), most(weights)))
        }
        CellKind::FastRnn | CellKind::FastGrnn => {
            let most = most(weights("recurrent_basis").or(weights("recurrent_weights"))?);
            Some((most, most))
        }
        _ => None,
    }
}

/// Lower bound of the output's scale: the 16-bit range extends slightly beyond the observed range.
fn of_unit(ranges: &Ranges) -> f64 {
    1.05 * f64::from(ranges.of("n0")) / 32767.0
}

/// The concatenated outputs of every step, and the state after the last.
fn run(model: &Model<'_>, x: &[i16]) -> (Vec<i16>, Vec<i16>) {
    let (mut memory, mut scratch) = (vec![0; model.state_words()], vec![0xA5A5_5A5A; model.scratch_words()]);
    let mut state = State::new(model, &mut memory).unwrap();
    let mut outputs = Vec::new();
    for row in x.chunks(model.input_size()) {
        let mut y = vec![0; model.output_size()];
        // The contents of the scratch must not matter.
        scratch.fill(0xA5A5_5A5A);
        assert!(model.step_i16(&mut state, &mut scratch, row, &mut y).unwrap().has_output());
        outputs.extend(y);
    }
    (outputs, state.values_i16().to_vec())
}

#[test]
fn every_cell_matches_its_twin_in_every_layout() {
    let mut rng = Rng::new(1);
    let (mut seen, mut refused) = (std::collections::BTreeMap::new(), 0);
    for (at, variant) in variants().enumerate() {
        // A third of the pairs, with each size as input and as width, or every pair if `TIDEGATE_EVERY_SIZE` is set. The other
        // pairs are drawn too, so that each pair has the same network in both cases.
        let every = std::env::var_os("TIDEGATE_EVERY_SIZE").is_some();
        let pairs = (0..SIZES.len()).flat_map(|input| (0..SIZES.len()).map(move |hidden| [input, hidden]));
        for [at_input, at_hidden] in pairs {
            let [input, hidden] = [at_input, at_hidden].map(|at| SIZES[at]);
            let draw = Draw { weights: rng.pick(&[0.5, 2.0, 30.0]), biases: rng.below(4) > 0 };
            let model = chain(&mut rng, input, &[(variant.clone(), hidden)], draw);
            let limit = rng.pick(&[0.01, 1.0, 200.0]);
            let (steps, size) = (12, model.architecture.inputs[0].size);
            let seen_before = sequence(&mut rng, steps, size, limit);
            // Inputs beyond the calibrated range, up to the ends of 16 bits.
            let mut x: Vec<i16> = (0..steps * size).map(|_| (rng.bits() as i16).max(-32767)).collect();
            if !every && !(at + at_input + at_hidden).is_multiple_of(3) {
                continue;
            }
            let ranges = Ranges::measure(&model, [[seen_before.as_slice()].as_slice()]).unwrap();
            x[..size].fill(32767);
            x[size..2 * size].fill(-32767);
            for numeric in Numeric::INTEGER {
                if let Err(error) = pack_with(&model, numeric, &ranges, Layout::Portable) {
                    let what = format!("{:?} {:?}: {error}", variant.kind, variant.activations);
                    let text = error.to_string();
                    if text.contains("too large") {
                        // A sum has a scale of at most 1, and the shift of its finer part rounds by half a unit.
                        let (_, most) = over_carried(&model).unwrap_or_else(|| panic!("{what} carries nothing"));
                        let moved = most * of_unit(&ranges);
                        assert!(
                            moved * std::f64::consts::SQRT_2 >= 0.5,
                            "{what}, though a unit moves a sum by {moved}"
                        );
                        refused += 1;
                    } else if text.contains("candidate reaches") {
                        assert!(ranges.of("n0.candidate") > 31_000.0, "{what}");
                        refused += 1;
                    } else if text.contains("where its table ends") {
                        // The output of an LSTM has a scale of 2^-15, and sums have a scale of at most 1.
                        let most = ranges.of("n0").max(ranges.of("n0.candidate"));
                        let shown = variant.kind == CellKind::Lstm && ranges.of("n0.cell_state") > 128.0;
                        assert!(shown || most > 4e6, "{what}: {most}");
                        refused += 1;
                    } else if text.contains("range of f32") {
                        assert!(!ranges.of("n0").is_finite(), "{what}: {}", ranges.of("n0"));
                        refused += 1;
                    } else {
                        assert!(text.contains("groups"), "{what}");
                    }
                    continue;
                }
                if let Some((always, _)) = over_carried(&model) {
                    let moved = always * of_unit(&ranges);
                    assert!(moved < 0.5, "{:?} {:?}: a unit moves a sum by {moved}", variant.kind, variant.activations);
                }
                let mut twin = Twin::new(&model, &ranges, numeric);
                let expected: Vec<i16> =
                    x.chunks(size).flat_map(|row| twin.step(row).expect("the step has an output")).collect();
                let what = format!(
                    "{:?} {:?} {:?}, {input} to {hidden}, {}",
                    variant.kind,
                    variant.options,
                    variant.activations,
                    numeric.name()
                );
                for layout in Layout::ALL.into_iter().filter(|layout| layout.is_of(numeric)) {
                    let image = image(&model, &ranges, numeric, layout);
                    let (got, _) = run(&image.model().unwrap(), &x);
                    assert_eq!(got, expected, "{what}, {}", layout.name());
                }
                *seen.entry((numeric.name(), variant.kind.spec().name)).or_insert(0) += 1;
            }
        }
    }
    println!("{seen:?}, and {refused} that grew without bound");
    // The networks of `integer_layers` test these.
    let apart = [CellKind::Window, CellKind::Embedding];
    let forms = CellKind::ALL.iter().filter(|kind| kind.integer_spec().is_some() && !apart.contains(kind));
    let mut each = forms.flat_map(|kind| Numeric::INTEGER.map(|numeric| (numeric.name(), kind.spec().name)));
    assert!(each.all(|of| seen.contains_key(&of)), "every cell with an integer form: {seen:?}");
}

/// -32768 is not a valid value of a port, so the output of such a step is unspecified. But the step ends, in every
/// layout, and a reset restores the initial state.
#[test]
fn an_invalid_port_value_is_harmless() {
    let mut rng = Rng::new(8);
    for variant in variants() {
        for (input, hidden) in [(1, 1), (5, 3), (17, 17)] {
            let draw = Draw { weights: rng.pick(&[0.5, 30.0]), biases: true };
            let model = chain(&mut rng, input, &[(variant.clone(), hidden)], draw);
            let size = model.architecture.inputs[0].size;
            let seen = sequence(&mut rng, 12, size, 1.0);
            let ranges = Ranges::measure(&model, [[seen.as_slice()].as_slice()]).unwrap();
            let numeric = rng.pick(&Numeric::INTEGER);
            if pack_with(&model, numeric, &ranges, Layout::Portable).is_err() {
                continue;
            }
            for layout in Layout::ALL.into_iter().filter(|layout| layout.is_of(numeric)) {
                let image = image(&model, &ranges, numeric, layout);
                let model = image.model().unwrap();
                let (mut memory, mut scratch) = (vec![0; model.state_words()], vec![0; model.scratch_words()]);
                let mut state = State::new(&model, &mut memory).unwrap();
                let mut y = vec![0; model.output_size()];
                for row in [vec![i16::MIN; size], vec![32767; size], vec![i16::MIN; size]] {
                    assert!(model.step_i16(&mut state, &mut scratch, &row, &mut y).unwrap().has_output());
                }
                state.reset();
                let x: Vec<i16> = (0..size).map(|_| (rng.bits() as i16).max(-32767)).collect();
                assert!(model.step_i16(&mut state, &mut scratch, &x, &mut y).unwrap().has_output());
                assert_eq!(y, run(&model, &x).0, "{:?} {:?}, {}", variant.kind, variant.options, layout.name());
            }
        }
    }
}

/// A chain of five layers differs from f32 by no more than the rounding of its weights and activations.
#[test]
fn a_chain_of_cells_is_close_to_f32_and_streaming_gives_the_same_bits() {
    let mut rng = Rng::new(2);
    let cells = [CellKind::Lstm, CellKind::Gru, CellKind::Elman, CellKind::Dense, CellKind::Softmax];
    let cells = cells.map(|kind| (Variant::new(kind, &[]), 24));
    let model = chain(&mut rng, 10, &cells, Draw { weights: 1.5, biases: true });
    let x = sequence(&mut rng, 200, 10, 3.0);
    let ranges = Ranges::measure(&model, [[x.as_slice()].as_slice()]).unwrap();
    let (integer, float) =
        (image(&model, &ranges, Numeric::I8x16, Layout::Portable), tidegate_model::pack::pack(&model, Numeric::F32));
    let float = ImageBuffer::new(&float.unwrap());
    let (integer, float) = (integer.model().unwrap(), float.model().unwrap());
    let sequences = [x.clone()];
    let (got, expected) = (outputs(&integer, &sequences), outputs(&float, &sequences));
    let snr = snr(&got, &expected);
    println!("a chain of five layers: {snr:.1} dB");
    assert!(snr > 30.0, "{snr} dB");
    // Step by step, saved and restored on the way, with i16 at the ports.
    let scale = integer.inputs().next().unwrap().scale;
    let rounded: Vec<i16> = x.iter().map(|x| ((x / scale).abs() + 0.5).copysign(*x) as i16).collect();
    let (whole, last) = run(&integer, &rounded);
    let scale = integer.outputs().next().unwrap().scale;
    assert!(whole.iter().zip(&got).all(|(&y, &got)| f32::from(y) * scale == got), "i16 steps equal the f32 run");
    let (mut memory, mut scratch) = (vec![0; integer.state_words()], vec![0; integer.scratch_words()]);
    let mut state = State::new(&integer, &mut memory).unwrap();
    let mut streamed = Vec::new();
    for row in rounded.chunks(10) {
        let mut saved = vec![0; state.saved_bytes()];
        state.save(&mut saved).unwrap();
        state.values_i16_mut().fill(7);
        integer.restore(&mut state, &saved).unwrap();
        let mut y = vec![0; 24];
        let _ = integer.step_i16(&mut state, &mut scratch, row, &mut y).unwrap();
        streamed.extend(y);
    }
    assert_eq!((streamed, state.values_i16()), (whole, last.as_slice()));
    assert!(state.values().is_empty(), "the state has no floats");
}

/// Prefixes of golden case names, and the least signal-to-noise ratio of each in dB. The networks have only a few
/// units, so the errors of rounding weights to 8 bits hardly average out.
const GOLDEN: [(&str, f64); 11] = [
    ("edgeml__FastGRNNCell__", 40.0),
    ("edgeml__FastRNNCell__", 45.0),
    ("mingru__minGRU__", 38.0),
    ("mingru__minLSTM__", 38.0),
    // Four units whose gates are saturated.
    ("tf1__LayerNormBasicLSTMCell__ln_i8h4", 30.0),
    ("tf1__LayerNormLSTMCell__ln_i8h4", 30.0),
    ("tf1__LayerNorm", 40.0),
    ("tf1__CoupledInputForgetGateLSTMCell__", 36.0),
    ("baselines__lnlstm__", 40.0),
    ("tf1__BasicLSTMCell__relu", 40.0),
    ("keras2__LSTM__relu", 40.0),
];

/// All outputs of a model over sequences, each from a state of zeros.
fn outputs(model: &Model<'_>, sequences: &[Vec<f32>]) -> Vec<f32> {
    let (mut memory, mut scratch) = (vec![0; model.state_words()], vec![0; model.scratch_words()]);
    let each = |sequence: &Vec<f32>| {
        let mut state = State::new(model, &mut memory).unwrap();
        let mut all = vec![0.0; sequence.len() / model.input_size() * model.output_size()];
        model.run_f32(&mut state, &mut scratch, sequence, &mut all).unwrap();
        all
    };
    sequences.iter().flat_map(each).collect()
}

/// Signal-to-noise ratio of `got` against `expected`, in dB.
fn snr(got: &[f32], expected: &[f32]) -> f64 {
    let noise: f64 = got.iter().zip(expected).map(|(got, expected)| f64::from(got - expected).powi(2)).sum();
    let signal: f64 = expected.iter().map(|&expected| f64::from(expected).powi(2)).sum();
    10.0 * (signal / noise).log10()
}

#[test]
fn golden_cases_calibrated_on_their_own_inputs_stay_near_f32() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden");
    let mut names: Vec<String> = std::fs::read_dir(folder.clone())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    for (start, least) in GOLDEN {
        // The first matching prefix counts.
        let (cases, others): (Vec<_>, Vec<_>) = names.into_iter().partition(|name| name.starts_with(start));
        assert!(!cases.is_empty(), "no case {start}");
        names = others;
        for name in cases {
            let case = Case::open(&folder.join(&name));
            let (model, sequences) = (case.model(), case.sequences());
            let sequences: Vec<Vec<f32>> = sequences.into_iter().map(|rows| rows.concat()).collect();
            let inputs: Vec<[&[f32]; 1]> = sequences.iter().map(|sequence| [sequence.as_slice()]).collect();
            let ranges = Ranges::measure(&model, inputs.iter().map(<[_; 1]>::as_slice)).unwrap();
            let float = ImageBuffer::new(&tidegate_model::pack::pack(&model, Numeric::F32).unwrap());
            let integer = image(&model, &ranges, Numeric::I8x16, Layout::Portable);
            let [float, integer] = [float, integer].map(|image| outputs(&image.model().unwrap(), &sequences));
            let snr = snr(&integer, &float);
            println!("{name}: {snr:.1} dB");
            assert!(snr >= least, "{name}: {snr} dB");
        }
    }
}

/// The share f / (f + i) of a minLSTM keeps its digits where both gates round to 0 or to 1. There is one input feature,
/// so that no weight is rounded.
#[test]
fn a_min_lstm_whose_gates_are_tiny_or_saturated_stays_near_f64() {
    const UNITS: usize = 24;
    let mut rng = Rng::new(9);
    for biases in [[0.0, 0.0], [-9.0, -8.0], [-14.0, -15.0], [8.0, 9.0], [-2.0, 2.0]] {
        let variant = Variant::new(CellKind::MinLstm, &[]);
        let mut model = chain(&mut rng, 1, &[(variant, UNITS)], Draw { weights: 1.0, biases: true });
        let drawn = model.tensors.get_mut("n0.input_bias").expect("biases are drawn");
        for (of_gate, bias) in drawn.data.chunks_mut(UNITS).zip(biases) {
            of_gate.iter_mut().for_each(|drawn| *drawn += bias);
        }
        let x = sequence(&mut rng, 200, 1, 1.0);
        let ranges = Ranges::measure(&model, [[x.as_slice()].as_slice()]).unwrap();
        let image = image(&model, &ranges, Numeric::I8x16, Layout::Portable);
        let image = image.model().unwrap();
        let (from, to) = (image.input_scale(), image.outputs().next().unwrap().scale);
        let rounded: Vec<i16> = x.iter().map(|x| (x / from).round() as i16).collect();
        let x: Vec<f32> = rounded.iter().map(|&x| f32::from(x) * from).collect();
        let oracle = Oracle::new(&model);
        let exact = oracle.run(&mut vec![Bounded::exact(0.0); oracle.state_len()], &x);
        let (got, _) = run(&image, &rounded);
        let error = |(&got, exact): (&i16, &Bounded)| (f64::from(got) - exact.value / f64::from(to)).abs();
        let worst = worst(got.iter().zip(&exact).map(error));
        println!("gates of {biases:?}: within {worst:.1} of {to}");
        assert!(worst <= 5.0, "gates of {biases:?}: {worst}");
    }
}

/// The greatest number of units that can be normalized together matches the twin without overflow; one more is refused.
#[test]
fn the_largest_normalization_matches_its_twin_and_a_larger_one_is_refused() {
    for (options, most) in [
        (&["projection", "gate_norm", "cell_norm", "output_norm"][..], 1 << 14),
        (&["projection", "joint_norm"], 1 << 12),
    ] {
        let few = |_: usize, units: usize| Fit { hidden: units, output: 1, extents: Vec::new() };
        let variant = Variant::new(CellKind::Lstm, options).fit(few).param("epsilon", 1e-12);
        let mut rng = Rng::new(6);
        let mut model = |units| chain(&mut rng, 2, &[(variant.clone(), units)], Draw { weights: 1.0, biases: true });
        let (fits, larger) = (model(most), model(most + 1));
        let ranges = Ranges::measure(&fits, [[[0.5, -0.25, 1.0, 1.0].as_slice()].as_slice()]).unwrap();
        let image = image(&fits, &ranges, Numeric::I8x16, Layout::Portable);
        let x = [16_000, -8_000, 32_767, 32_767, -32_767, 1];
        let mut twin = Twin::new(&fits, &ranges, Numeric::I8x16);
        let expected: Vec<i16> = x.chunks(2).flat_map(|row| twin.step(row).expect("the step has an output")).collect();
        assert_eq!(run(&image.model().unwrap(), &x).0, expected, "{options:?}");
        let refused = pack_with(&larger, Numeric::I8x16, &ranges, Layout::Portable).unwrap_err().to_string();
        assert!(refused.contains("more features than the integer form supports"), "{refused}");
    }
}

#[test]
fn missing_integer_forms_are_named() {
    let beta = Variant::new(CellKind::FastRnn, &[]).param("alpha", 0.3).param("beta", 1.5);
    let candidate = Variant::new(CellKind::Lstm, &["cell_norm"])
        .param("epsilon", 0.5)
        .activation("cell_activation", Activation::Identity);
    let gate = Variant::new(CellKind::FastGrnn, &[]).activation("gate_activation", Activation::Tanh);
    for (variant, reason) in
        [(beta, "beta is above 1"), (candidate, "candidate has no bound"), (gate, "whose gates are tanh")]
    {
        let model = chain(&mut Rng::new(5), 2, &[(variant, 3)], Draw { weights: 1.0, biases: true });
        let packed = pack_with(&model, Numeric::I8x16, &Ranges::default(), Layout::Portable);
        let text = packed.expect_err(reason).to_string();
        assert!(text.contains(reason) && text.contains("n0"), "{text}");
    }
}

/// The packer writes no image in bytes that `parse` refuses.
#[test]
fn every_variant_in_bytes_is_parsed_or_refused_by_the_packer() {
    let (mut parsed, mut refused) = (0, 0);
    for variant in Variant::all() {
        let model = chain(&mut Rng::new(3), 4, &[(variant, 4)], Draw { weights: 1.0, biases: true });
        match pack_with(&in_bytes(model), Numeric::I8, &Ranges::default(), Layout::Portable) {
            Ok(bytes) => {
                ImageBuffer::new(&bytes).model().expect("the packer has written it");
                parsed += 1;
            }
            Err(_) => refused += 1,
        }
    }
    println!("{parsed} variants are parsed, {refused} refused");
    assert!(parsed > 0 && refused > 0);
}

#[test]
fn a_float_model_has_no_integer_outputs() {
    let mut rng = Rng::new(3);
    let model = chain(&mut rng, 2, &[(Variant::new(CellKind::Lstm, &[]), 3)], Draw { weights: 1.0, biases: true });
    let image = ImageBuffer::new(&tidegate_model::pack::pack(&model, Numeric::F32).unwrap());
    let model = image.model().unwrap();
    let (mut memory, mut scratch) = (vec![0; model.state_words()], vec![0; model.scratch_words()]);
    let mut state = State::new(&model, &mut memory).unwrap();
    let stepped = model.step_i16(&mut state, &mut scratch, &[0; 2], &mut [0; 3]);
    assert_eq!(stepped, Err(StepError::FloatModel));
    assert!(state.values_i16().is_empty());
}
