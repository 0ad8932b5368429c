//! Amplifiers and pedals of GuitarML, Neural Amp Modeler and AIDA-X: their files are imported as they are, equal PyTorch's
//! equations in f64, and test themselves.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Value as Json, json};
use tidegate::{Layout, Numeric};
use tidegate_model::backend::Engine;

use tidegate_model::canonical::{Canonical, Schedule};
use tidegate_model::error::ImportError;
use tidegate_model::format::{Imported, import_bytes_with};
use tidegate_model::load::{self, ImageBuffer};
use tidegate_model::pack::{pack, pack_with};
use tidegate_model::quantize::Ranges;
use tidegate_model::runner;
use tidegate_tests::data;
use tidegate_tests::import::{self, ALONE, damaged, sample};
use tidegate_tests::tolerance::worst;

const PEDALS: [&str; 2] = ["gru8_ts9_pytorch.json", "lstm8_ts9_pytorch.json"];

fn file(name: &str) -> Vec<u8> {
    fs::read(data::file(&format!("deployed/amps/{name}"))).unwrap()
}

fn import(bytes: &[u8]) -> Result<Imported, ImportError> {
    import_bytes_with(bytes, "amp", &ALONE)
}

fn model(bytes: &[u8]) -> Canonical {
    import(bytes).unwrap_or_else(|error| panic!("{error}")).model
}

#[track_caller]
fn refused(json: &Json, reason: &str) {
    let line = import::line(&import(&serde_json::to_vec(json).unwrap()).expect_err("it must be refused"), 1024);
    assert!(line.contains(reason), "{reason:?} is not in: {line}");
}

/// A plucked string, louder than the files' amplifiers need to distort.
fn sound(samples: usize) -> Vec<f32> {
    let at = |k: usize| {
        let t = k as f32 / 48_000.0;
        ((2.0 * std::f32::consts::PI * 196.0 * t).sin() + 0.5 * (2.0 * std::f32::consts::PI * 1_234.0 * t).sin())
            * (-20.0 * t).exp()
    };
    (0..samples).map(at).collect()
}

/// The outputs of a model in f32, by the reference kernels and by those of this machine.
fn outputs(model: &Canonical, input: &[f32]) -> Vec<f32> {
    let image = ImageBuffer::new(&pack(model, Numeric::F32).unwrap());
    let model = image.model().unwrap();
    let run = |engine: Engine<'_>| runner::run(engine, &[input], None).unwrap().outputs.remove(0);
    let (scalar, fused) = (run(Engine::from(&model)), run(Engine::fused(&model)));
    let apart = scalar.iter().zip(&fused).map(|(a, b)| (a - b).abs());
    assert_eq!(scalar.len(), fused.len());
    assert!(worst(apart) <= 1e-6);
    scalar
}

fn numbers(json: &Json) -> Vec<f64> {
    match json {
        Json::Array(list) => list.iter().flat_map(numbers).collect(),
        number => vec![number.as_f64().unwrap()],
    }
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// `bias + weights x`, with as many rows as the bias has elements.
fn product(weights: &[f64], x: &[f64], bias: &[f64]) -> Vec<f64> {
    let rows = weights.chunks(x.len()).zip(bias);
    rows.map(|(row, bias)| bias + row.iter().zip(x).map(|(w, x)| w * x).sum::<f64>()).collect()
}

/// PyTorch's LSTM: the gates i, f, g, o of `a`, the sums of every gate.
fn lstm(a: &[f64], h: &mut [f64], c: &mut [f64]) {
    let units = h.len();
    for k in 0..units {
        let [i, f, g, o] = [0, 1, 2, 3].map(|gate| a[gate * units + k]);
        c[k] = sigmoid(f) * c[k] + sigmoid(i) * g.tanh();
        h[k] = sigmoid(o) * c[k].tanh();
    }
}

/// PyTorch's GRU: the gates r, z, n of the sums over the input and over h.
fn gru(a: &[f64], b: &[f64], h: &mut [f64]) {
    let units = h.len();
    for k in 0..units {
        let [r, z] = [0, 1].map(|gate| sigmoid(a[gate * units + k] + b[gate * units + k]));
        let n = (a[2 * units + k] + r * b[2 * units + k]).tanh();
        h[k] = (1.0 - z) * n + z * h[k];
    }
}

/// The outputs of CoreAudioML's `SimpleRNN` with one input, in f64.
fn pedal(json: &Json, input: &[f32]) -> Vec<f64> {
    let (of, tensor) = (&json["model_data"], |name: &str| numbers(&json["state_dict"][name]));
    let units = of["hidden_size"].as_u64().unwrap() as usize;
    let (w, r) = (tensor("rec.weight_ih_l0"), tensor("rec.weight_hh_l0"));
    let (w_bias, r_bias) = (tensor("rec.bias_ih_l0"), tensor("rec.bias_hh_l0"));
    let (head, bias, skip) = (tensor("lin.weight"), tensor("lin.bias"), of["skip"].as_f64().unwrap());
    let (mut h, mut c) = (vec![0.0; units], vec![0.0; units]);
    let step = |&x: &f32| {
        let x = f64::from(x);
        let (a, b) = (product(&w, &[x], &w_bias), product(&r, &h, &r_bias));
        match of["unit_type"].as_str().unwrap() {
            "LSTM" => lstm(&a.iter().zip(&b).map(|(a, b)| a + b).collect::<Vec<_>>(), &mut h, &mut c),
            _ => gru(&a, &b, &mut h),
        }
        product(&head, &h, &bias)[0] + skip * x
    };
    input.iter().map(step).collect()
}

/// The outputs of Neural Amp Modeler's LSTM, in f64.
fn amplifier(json: &Json, input: &[f32]) -> Vec<f64> {
    let size = |name: &str| json["config"][name].as_u64().unwrap() as usize;
    let (units, layers) = (size("hidden_size"), size("num_layers"));
    let all = numbers(&json["weights"]);
    let mut rest = all.as_slice();
    let mut take = |count: usize| {
        let (part, others) = rest.split_at(count);
        rest = others;
        part.to_vec()
    };
    let mut cells: Vec<[Vec<f64>; 4]> = Vec::new();
    for layer in 0..layers {
        let width = if layer == 0 { size("input_size") } else { units };
        cells.push([take(4 * units * (width + units)), take(4 * units), take(units), take(units)]);
    }
    let (head, bias) = (take(units), take(1));
    assert!(rest.is_empty());
    let step = |&x: &f32| {
        let mut x = vec![f64::from(x)];
        for [weights, bias, h, c] in &mut cells {
            x.extend_from_slice(h);
            lstm(&product(weights, &x, bias), h, c);
            x.clone_from(h);
        }
        product(&head, &x, &bias)[0]
    };
    input.iter().map(step).collect()
}

#[track_caller]
fn equal(name: &str, got: &[f32], expected: &[f64]) {
    assert_eq!(got.len(), expected.len(), "{name}");
    let most = worst(got.iter().zip(expected).map(|(&got, expected)| (f64::from(got) - expected).abs()));
    println!("{name}: {most:.1e} over {} samples", got.len());
    assert!(most <= 1e-6, "{name}: {most:e}");
}

#[test]
fn pedals_of_guitarml_equal_pytorch() {
    let input = sound(4_800);
    for name in PEDALS {
        let json: Json = serde_json::from_slice(&file(name)).unwrap();
        equal(name, &outputs(&model(&file(name)), &input), &pedal(&json, &input));
    }
}

#[test]
fn an_amplifier_of_neural_amp_modeler_starts_from_its_initial_states() {
    let input = sound(4_800);
    let bytes = file("lstm.nam");
    let json: Json = serde_json::from_slice(&bytes).unwrap();
    let imported = import(&bytes).unwrap();
    assert_eq!(imported.notes, ["it was trained for 48000 samples a second"]);
    equal("lstm.nam", &outputs(&imported.model, &input), &amplifier(&json, &input));
    // Every window starts from the initial states again.
    let mut windows = imported.model;
    windows.architecture.schedule = Schedule::Windows { frames: 5, every: 5 };
    let ends = outputs(&windows, &input[..20]);
    let expected: Vec<f64> = input[..20].chunks(5).map(|window| amplifier(&json, window)[4]).collect();
    equal("windows", &ends, &expected);
}

/// A file of Neural Amp Modeler with random weights.
fn written(config: [usize; 3], seed: f64) -> Json {
    let [input_size, hidden_size, num_layers] = config;
    let inputs = input_size + (num_layers - 1) * hidden_size;
    let count = 4 * hidden_size * (inputs + num_layers * hidden_size) + num_layers * 6 * hidden_size + hidden_size + 1;
    let weights: Vec<f64> = (0..count).map(|k| f64::from((seed * (k + 1) as f64).sin() as f32)).collect();
    let config = json!({"input_size": input_size, "hidden_size": hidden_size, "num_layers": num_layers});
    json!({"version": "0.5.4", "architecture": "LSTM", "config": config, "weights": weights})
}

#[test]
fn amplifiers_of_several_layers_equal_their_equations() {
    let input = sound(500);
    for (config, seed) in [([1, 4, 2], 1.7), ([1, 1, 1], 0.3), ([1, 7, 3], 2.9), ([1, 16, 1], 4.1)] {
        let json = written(config, seed);
        let model = model(&serde_json::to_vec(&json).unwrap());
        equal(&format!("{config:?}"), &outputs(&model, &input), &amplifier(&json, &input));
    }
}

/// The WaveNets in tests/frameworks/nam, which `nam.py` has written. `container` holds two of them.
const WAVENETS: [&str; 7] = ["standard", "gated", "kernels", "bottleneck", "passed_on", "behind", "container"];

fn wavenet(name: &str) -> Vec<u8> {
    sample(&format!("nam/{name}.nam"))
}

#[test]
fn wavenets_equal_neural_amp_modeler_from_the_first_sample_on() {
    for name in WAVENETS {
        let imported = import(&wavenet(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        let rate = "it was trained for 48000 samples a second";
        let part = "the last of its 2 networks, which is the default; the others are left out";
        assert_eq!(imported.notes, if name == "container" { vec![part, rate] } else { vec![rate] });
        let golden = sample(&format!("nam/{name}.golden.safetensors"));
        let golden = safetensors::SafeTensors::deserialize(&golden).unwrap();
        let of = |name: &str| -> Vec<f32> { floats(golden.tensor(name).unwrap().data()) };
        let (input, expected) = (of("input"), of("output"));
        let got = outputs(&imported.model, &input);
        assert_eq!(got.len(), expected.len());
        let most = worst(got.iter().zip(&expected).map(|(got, expected)| (got - expected).abs()));
        println!("{name}: {most:.1e} over {} samples", got.len());
        // Both compute in f32: at most 10 layers in series with sums of at most 30 terms below 1, each off by 2^-24.
        assert!(most <= 300.0 * 2.0_f32.powi(-24), "{name}: {most:e}");
    }
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect()
}

#[test]
fn a_wavenet_runs_in_every_numeric_but_bytes() {
    let golden = sample("nam/standard.golden.safetensors");
    let golden = safetensors::SafeTensors::deserialize(&golden).unwrap();
    let input: Vec<f32> = floats(golden.tensor("input").unwrap().data());
    let model = model(&wavenet("standard"));
    let ranges = Ranges::measure(&model, [[input.as_slice()].as_slice()]).unwrap();
    let exact = outputs(&model, &input);
    // `pack` warns below 30 dB. Weights of 4 bits have 24 dB less than those of 8; weights of f16 have 2^-11.
    for (numeric, least) in [(Numeric::F16, 50.0), (Numeric::I8x16, 30.0), (Numeric::I4x16, 6.0)] {
        let image = ImageBuffer::new(&pack_with(&model, numeric, &ranges, Layout::Portable).unwrap());
        let image = image.model().unwrap();
        let got = runner::run(Engine::from(&image), &[&input], None).unwrap().outputs.remove(0);
        let power = |values: &mut dyn Iterator<Item = f32>| values.map(|value| f64::from(value).powi(2)).sum::<f64>();
        let noise = power(&mut got.iter().zip(&exact).map(|(got, exact)| got - exact));
        let snr = 10.0 * (power(&mut exact.iter().copied()) / noise).log10();
        println!("{}: {snr:.1} dB", numeric.name());
        assert!(snr >= least, "{}: {snr} dB", numeric.name());
    }
}

#[test]
fn the_halves_of_a_gated_layer_share_their_delays() {
    let nodes = model(&wavenet("gated")).architecture.nodes;
    let count = |cell: &str| nodes.iter().filter(|node| node.cell == cell).count();
    // Two taps with dilations of 1, 3 and 9.
    assert_eq!((count("window"), count("delay")), (1, 2));
}

#[test]
fn settings_of_a_wavenet_that_are_not_read_are_refused_by_name() {
    let of = |name: &str, change: &dyn Fn(&mut Json)| {
        let mut json: Json = serde_json::from_slice(&wavenet(name)).unwrap();
        change(&mut json);
        json
    };
    let layers =
        |name: &str, field: &str, value: Json| of(name, &|json| json["config"]["layers"][0][field] = value.clone());
    for (json, reason) in [
        (layers("standard", "activation", json!("Fasttanh")), r#"activation "Fasttanh""#),
        (layers("standard", "gating_mode", json!("blended")), r#"gating_mode "blended""#),
        (layers("standard", "groups_input", json!(2)), "groups_input = 2"),
        (layers("standard", "conv_pre_film", json!({"active": true})), "conv_pre_film"),
        (layers("standard", "condition_size", json!(2)), "a condition_size of 2"),
        (layers("standard", "dilations", json!([])), "its dilations are empty"),
        (layers("standard", "kernel_size", json!(0)), "its kernel_size is 0"),
        (layers("standard", "kernel_sizes", json!([3])), "either kernel_size or kernel_sizes"),
        (layers("standard", "channels", json!(1 << 20)), "weights, but its config needs"),
        (layers("standard", "cabinet", json!(1)), "unknown field `cabinet`"),
        (layers("standard", "dilations", json!(vec![1; 1025])), "a list of at most 1024 values"),
        (layers("standard", "kernel_size", json!(300)), "1024 nodes"),
        (layers("standard", "activation", json!([[["Tanh"]]])), "the name or the settings of an activation"),
        (layers("kernels", "kernel_sizes", json!([6, 4])), "its kernel_sizes has 2 values for 3 layers"),
        (
            layers("kernels", "activation", json!({"type": "PReLU", "negative_slopes": [0.1, 0.2, 0.3]})),
            "negative_slopes, one for each channel,",
        ),
        (of("behind", &|json| json["config"]["head"]["kernel_sizes"] = json!([])), "of its head are empty"),
        (of("standard", &|json| json["config"]["condition_dsp"] = json!({})), "condition_dsp"),
        (of("standard", &|json| json["config"]["hidden_size"] = json!(3)), "hidden_size of the architecture WaveNet"),
        (of("standard", &|json| json["config"]["layers"] = json!([])), "its layers are empty"),
        (of("standard", &|json| json["weights"].as_array_mut().unwrap().push(json!(1.0))), "but its config needs"),
        (of("container", &|json| json["config"]["submodels"] = json!([])), "it contains no network"),
        (
            of("container", &|json| json["config"]["submodels"][1]["model"]["architecture"] = json!("Linear")),
            r#"architecture "Linear", other than LSTM and WaveNet,"#,
        ),
    ] {
        refused(&json, reason);
    }
}

#[test]
fn an_initial_state_of_zeros_needs_no_option() {
    let mut json = written([1, 3, 1], 0.9);
    let start = 4 * 3 * (1 + 3) + 4 * 3;
    for k in start..start + 6 {
        json["weights"][k] = json!(0.0);
    }
    let model = model(&serde_json::to_vec(&json).unwrap());
    assert!(model.architecture.nodes.iter().all(|node| node.options.is_empty()));
    equal("zeros", &outputs(&model, &sound(100)), &amplifier(&json, &sound(100)));
}

#[test]
fn integers_refuse_an_initial_state_by_name() {
    let model = model(&file("lstm.nam"));
    let error = load::packed(Path::new("lstm.nam"), &model, Numeric::I8x16).unwrap_err().to_string();
    println!("{error}");
    assert!(error.contains("initial"), "{error}");
}

/// RTNeural's sample with one input, with AIDA-X's fields beside its layers.
fn beside(fields: &[(&str, Json)]) -> Json {
    let mut json: Json = serde_json::from_slice(&sample("rtneural/lstm.json")).unwrap();
    for (name, value) in fields {
        json[*name] = value.clone();
    }
    json
}

/// The notes and the outputs of a file.
fn run(json: &Json, input: &[f32]) -> (Vec<String>, Vec<f32>) {
    let imported = import(&serde_json::to_vec(json).unwrap()).unwrap_or_else(|error| panic!("{error}"));
    let outputs = outputs(&imported.model, input);
    (imported.notes, outputs)
}

#[test]
fn gains_and_the_sum_of_input_and_output_are_those_of_aida_x() {
    let input = sound(300);
    let scaled = |gain: f32| input.iter().map(|x| gain * x).collect::<Vec<f32>>();
    // 6 dB and -12 dB.
    let (louder, softer) = (1.995_262_3, 0.251_188_64);
    let plain = |input: &[f32]| run(&beside(&[]), input).1;
    let of = |fields: &[(&str, Json)]| run(&beside(fields), &input).1;
    let same = |got: Vec<f32>, expected: Vec<f32>| {
        assert!(worst(got.iter().zip(&expected).map(|(a, b)| (a - b).abs())) <= 1e-6);
        assert_eq!(got.len(), expected.len());
    };
    same(of(&[("in_skip", json!(0)), ("in_gain", json!(0.0)), ("out_gain", json!(null))]), plain(&input));
    same(of(&[("in_gain", json!(6.0))]), plain(&scaled(louder)));
    same(of(&[("out_gain", json!(-12))]), plain(&input).iter().map(|y| softer * y).collect());
    let sum = |x: &[f32]| plain(x).iter().zip(x).map(|(y, x)| x + y).collect::<Vec<f32>>();
    same(of(&[("in_skip", json!(1))]), sum(&input));
    let all = [("in_skip", json!(1)), ("in_gain", json!(6.0)), ("out_gain", json!(-12.0))];
    same(of(&all), sum(&scaled(louder)).iter().map(|y| softer * y).collect());
}

#[test]
fn only_the_sound_of_several_inputs_is_added_and_amplified() {
    let dense = |weights: Json| json!([{"type": "dense", "shape": [null, null, 1], "weights": weights}]);
    let json = json!({"in_shape": [null, null, 3], "in_skip": 1, "in_gain": 20.0,
        "layers": dense(json!([[[0.5], [2.0], [-1.0]], [0.25]]))});
    // 10 · 0.5 + 2 · 3 - 4 + 0.25, and 10 times the sound.
    assert_eq!(run(&json, &[1.0, 3.0, 4.0]).1, [17.25]);
    let pedal = json!({"model_data": {"model": "SimpleRNN", "unit_type": "RNN", "input_size": 2, "hidden_size": 1,
            "output_size": 1, "skip": 1},
        "state_dict": {"rec.weight_ih_l0": [[0.0, 0.0]], "rec.weight_hh_l0": [[0.0]], "rec.bias_ih_l0": [0.0],
            "rec.bias_hh_l0": [0.0], "lin.weight": [[1.0]], "lin.bias": [0.5]}});
    assert_eq!(run(&pedal, &[3.0, 7.0]).1, [3.5]);
}

#[test]
fn a_file_with_its_own_test_passes_it_or_is_refused() {
    let input = sound(64);
    let skip = [("in_skip", json!(1)), ("out_gain", json!(3.0))];
    let expected = run(&beside(&skip), &input).1;
    let tested = |input: &[f32], output: &[f32]| {
        let mut json = beside(&skip);
        json["input_batch"] = json!(input);
        json["output_batch"] = json!(output);
        json
    };
    let (notes, _) = run(&tested(&input, &expected), &input);
    assert_eq!(notes, ["its own test passes: 64 samples, off by 0.0e0 at most"]);
    let mut off = expected.clone();
    off[40] += 5e-4;
    refused(&tested(&input, &off), "its own test fails: 64 samples (input_batch, output_batch), off by 5.0e-4");
    let mut other = tested(&input, &expected);
    other["in_skip"] = json!(0);
    refused(&other, "its own test fails");
    let mut weights = tested(&input, &expected);
    let weight = &mut weights["layers"][0]["weights"][0][0][3];
    *weight = json!(weight.as_f64().unwrap() + 0.1);
    refused(&weights, "its own test fails");
    refused(&tested(&input, &expected[1..]), "input_batch has 64 samples, output_batch 63");
    refused(&tested(&[], &[]), "input_batch has 0 samples");
}

#[test]
fn other_networks_and_settings_are_refused_by_name() {
    let pedal: Json = serde_json::from_slice(&file(PEDALS[1])).unwrap();
    let of = |name: &str, value: Json| {
        let mut json = pedal.clone();
        json["model_data"][name] = value;
        json
    };
    for (json, reason) in [
        (of("model", json!("GatedConvNet")), r#"model "GatedConvNet", other than SimpleRNN,"#),
        (of("unit_type", json!("SRU")), r#"unit_type "SRU""#),
        (of("skip", json!(2)), "skip = 2 with 1 inputs and 1 outputs"),
        (of("hidden_size", json!(9)), "hidden_size"),
        (of("num_layers", json!(2)), "weight_ih_l1"),
        (of("num_layers", json!(0)), "a network without layers"),
        (of("output_size", json!(2)), "skip = 1 with 1 inputs and 2 outputs"),
        (of("bias_fl", json!(false)), r#"tensor "bias" of Linear"#),
        (of("clip", json!(1)), "unknown field `clip`"),
        (of("input_size", json!(0)), "input_size = 0"),
    ] {
        refused(&json, reason);
    }
    refused(&json!({"model_data": pedal["model_data"]}), r#"no weights: its field "state_dict" is absent"#);
    refused(
        &json!({"activation": "gated", "dilations": [1, 2]}),
        r#"its fields "activation", "dilations" are no state dict"#,
    );
    let mut more = pedal;
    more["cabinet"] = json!("4x12");
    refused(&more, r#"field "cabinet" beside model_data"#);
    let amplifier = written([1, 3, 1], 0.9);
    let with = |change: &dyn Fn(&mut Json)| {
        let mut json = amplifier.clone();
        change(&mut json);
        json
    };
    refused(
        &with(&|json| json["architecture"] = json!("ConvNet")),
        r#"architecture "ConvNet", other than LSTM and WaveNet,"#,
    );
    refused(&with(&|json| json["config"]["cabinet"] = json!(1)), "unknown field `cabinet`");
    refused(&with(&|json| json["config"]["in_channels"] = json!(1)), "in_channels of the architecture LSTM");
    refused(&with(&|json| json["cabinet"] = json!(1)), r#"field "cabinet" beside the weights"#);
    refused(&with(&|json| json["config"]["num_layers"] = json!(2)), "it has 70 weights, but its config needs [12, 6]");
    let huge = with(&|json| json["config"]["hidden_size"] = json!(1 << 20));
    refused(&huge, "but its config needs [4194304, 1048577] after the first 0");
    refused(&with(&|json| json["config"]["hidden_size"] = json!(1_u64 << 40)), "its sizes must be from 1 to 1048576");
}

#[test]
fn damaged_files_are_refused_or_give_a_model() {
    for name in [PEDALS[0], "lstm.nam"] {
        let bytes = file(name);
        damaged(name, 7, &bytes, import);
        let text = bytes.trim_ascii_end();
        for end in (0..text.len()).step_by(13) {
            import::line(&import(&text[..end]).expect_err("it must be refused"), 2048);
        }
    }
    for name in WAVENETS {
        damaged(name, 7, &wavenet(name), import);
    }
    let tested = BTreeMap::from([("input_batch", json!([1e30, -1e30])), ("output_batch", json!([0.0, 0.0]))]);
    let fields: Vec<(&str, Json)> = tested.into_iter().collect();
    refused(&beside(&fields), "its own test fails");
}
