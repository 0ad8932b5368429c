//! The importer asks for arguments whose defaults differ between versions of Keras; settings in the file are used.

use serde_json::{Value as Json, json};
use tidegate::internals::activation::Activation;
use tidegate::{Numeric, State};
use tidegate_model::format::Options;
use tidegate_tests::hdf5::{Group, Link, Tensor, file};
use tidegate_tests::images::AlignedBytes;
use tidegate_tests::import::{archive, described};

use super::{dense, import, model, refusal, refused};

/// A weights file as this version of Keras saves it; 1.0 does not record a version.
fn weights_of(version: &str, layer: &str, tensors: &[(&str, &[usize])]) -> Vec<u8> {
    let named = tensors.iter().map(|(name, shape)| ((*name).to_owned(), Link::Tensor(Tensor::of(shape)))).collect();
    let names = tensors.iter().map(|(name, _)| (*name).to_owned()).collect();
    let group = Group { texts: vec![("weight_names".into(), names)], links: named };
    let mut texts = vec![("layer_names".into(), vec![layer.to_owned()]), ("backend".into(), vec!["tensorflow".into()])];
    if !version.is_empty() {
        texts.push(("keras_version".into(), vec![version.to_owned()]));
    }
    file(&Group { texts, links: vec![(layer.to_owned(), Link::Group(group))] })
}

/// A weights file as Keras 3, and Keras 2 from 2.12 on, save it: it does not record a version.
fn weights_by_path(shapes: &[&[usize]]) -> Vec<u8> {
    let within = |name: &str, link: Link| Link::Group(Group { texts: vec![], links: vec![(name.into(), link)] });
    let vars = shapes.iter().enumerate().map(|(k, shape)| (k.to_string(), Link::Tensor(Tensor::of(shape)))).collect();
    let cell = within("vars", Link::Group(Group { texts: vec![], links: vars }));
    file(&Group { texts: vec![], links: vec![("layers".into(), within("rnn", within("cell", cell)))] })
}

const LSTM: [(&str, &[usize]); 3] = [("kernel:0", &[1, 4]), ("recurrent_kernel:0", &[1, 4]), ("bias:0", &[4])];

/// A description of one layer over one feature.
fn rnn(framework: &str, class: &str, args: &Json) -> Options {
    let layer = json!({"name": "rnn", "class": class, "args": args});
    let arch = json!({"inputs": [{"name": "x", "size": 1}], "layers": [layer]});
    let mut arch = arch.as_object().unwrap().clone();
    if !framework.is_empty() {
        arch.insert("framework".into(), framework.into());
    }
    described(&Json::from(arch).to_string())
}

/// The activation of the gates of the only layer.
fn gates(bytes: &[u8], options: &Options) -> Activation {
    let model = import(bytes, options).unwrap_or_else(|error| panic!("{error}; {}", error.advice()));
    let named = model.architecture.nodes[0].activations.get("gate_activation");
    named.map_or(Activation::Sigmoid, |text| text.parse().unwrap())
}

const HARD_2: Activation = Activation::HardSigmoid { alpha: 0.2, beta: 0.5 };
const HARD_3: Activation = Activation::HardSigmoid { alpha: 1.0 / 6.0, beta: 0.5 };

#[test]
fn the_gate_activation_is_asked_for_where_versions_of_keras_differ() {
    let cell = json!({"class_name": "LSTMCell", "config": {"units": 1}});
    let nested = [
        ("LSTM", json!({})),
        ("RNN", json!({"cell": cell})),
        ("RNN", json!({"cell": [cell]})),
        ("Bidirectional", json!({"layer": {"class_name": "LSTM", "config": {"units": 1}}})),
    ];
    for version in ["1.2.2", "2.0.0", "2.1.6-tf", "2.2.4", "2.2.4-tf", "2.2.5"] {
        for (class, args) in &nested {
            let line = refusal(&weights_of(version, "rnn", &twice_where_both(class)), &rnn("keras2", class, args));
            for part in ["\"rnn\"", class, version, "recurrent_activation", "\"hard_sigmoid\"", "--arch"] {
                assert!(line.contains(part), "{part} is not in: {line}");
            }
        }
        for (name, gate) in [("hard_sigmoid", HARD_2), ("sigmoid", Activation::Sigmoid)] {
            let said = json!({"recurrent_activation": name});
            assert_eq!(gates(&weights_of(version, "rnn", &LSTM), &rnn("keras2", "LSTM", &said)), gate, "{version}");
        }
    }
    // Keras 1, assumed unless the file says otherwise, always had it, and so did the layers for cuDNN and those of
    // later versions.
    for version in ["", "1.2.2"] {
        assert_eq!(gates(&weights_of(version, "rnn", &LSTM), &rnn("", "LSTM", &json!({}))), HARD_2);
    }
    for version in ["2.3.0", "2.3.0-tf", "2.21.0", "3.12.0"] {
        assert_eq!(gates(&weights_of(version, "rnn", &LSTM), &rnn("", "LSTM", &json!({}))), Activation::Sigmoid);
    }
    let cudnn = [("kernel:0", &[1, 4][..]), ("recurrent_kernel:0", &[1, 4]), ("bias:0", &[8])];
    assert_eq!(gates(&weights_of("2.2.4", "rnn", &cudnn), &rnn("", "CuDNNLSTM", &json!({}))), Activation::Sigmoid);
    let line = refusal(&weights_of("2.2.4", "rnn", &cudnn), &rnn("", "LSTM", &json!({})));
    assert!(line.contains("recurrent_activation"), "{line}");
}

/// Weights of an LSTM for each direction of the class.
fn twice_where_both(class: &str) -> Vec<(&'static str, &'static [usize])> {
    const BACK: [(&str, &[usize]); 3] =
        [("b_kernel:0", &[1, 4]), ("b_recurrent_kernel:0", &[1, 4]), ("b_bias:0", &[4])];
    if class == "Bidirectional" { [LSTM, BACK].concat() } else { LSTM.to_vec() }
}

#[test]
fn a_stated_gate_activation_is_used() {
    // The numbers that `Tensor::of` generates, in the order i, f, c, o; h and c are 0 before the first step.
    let number = |k: usize| k as f32 / 17.0 - 0.5;
    for (name, gate) in [("hard_sigmoid", HARD_2), ("sigmoid", Activation::Sigmoid)] {
        let options = rnn("", "LSTM", &json!({"recurrent_activation": name}));
        let model = import(&weights_of("2.2.4", "rnn", &LSTM), &options).unwrap();
        let image = AlignedBytes::pack(&model, Numeric::F32);
        let model = image.model();
        let (mut memory, mut scratch) = (vec![0; model.state_words()], vec![0; model.scratch_words()]);
        let mut state = State::new(&model, &mut memory).unwrap();
        let (mut h, mut c) = (0.0_f32, 0.0_f32);
        for x in [1.0, -3.0, 2.0] {
            let mut y = [0.0];
            assert!(model.step_f32(&mut state, &mut scratch, &[x], &mut y).unwrap().has_output());
            let [i, f, g, o] = std::array::from_fn(|k| number(k) * x + number(k) * h + number(k));
            c = gate.apply(f) * c + gate.apply(i) * g.tanh();
            h = gate.apply(o) * c.tanh();
            assert!((y[0] - h).abs() < 1e-6, "{name}: {} is not {h}", y[0]);
        }
    }
}

#[test]
fn the_position_of_the_reset_is_asked_for_if_no_bias_shows_it() {
    let gru = [("kernel:0", &[1, 3][..]), ("recurrent_kernel:0", &[1, 3])];
    let args = |more: &Json| {
        let mut args = json!({"use_bias": false, "recurrent_activation": "sigmoid"}).as_object().unwrap().clone();
        args.extend(more.as_object().unwrap().clone());
        Json::from(args)
    };
    let resets_after = |version: &str, more: &Json| {
        let model = import(&weights_of(version, "rnn", &gru), &rnn("", "GRU", &args(more))).unwrap();
        model.architecture.nodes[0].options.iter().any(|option| option == "reset_after")
    };
    for version in ["2.2.4", "2.2.4-tf", "2.3.1"] {
        let line = refusal(&weights_of(version, "rnn", &gru), &rnn("", "GRU", &args(&json!({}))));
        assert!(line.contains("reset_after") && line.contains(version) && line.contains("--arch"), "{line}");
        for said in [false, true] {
            assert_eq!(resets_after(version, &json!({"reset_after": said})), said);
        }
    }
    for version in ["2.3.0-tf", "2.21.0", "3.12.0"] {
        assert!(resets_after(version, &json!({})), "{version}");
    }
    assert!(!resets_after("1.2.2", &json!({})));
}

#[test]
fn a_missing_keras_version_is_asked_for_where_it_matters() {
    let lstm: [&[usize]; 3] = [&[1, 4], &[1, 4], &[4]];
    // One tap, channel and filter each.
    let conv: [&[usize]; 3] = [&[1, 1, 4], &[1, 1, 4], &[4]];
    let (lstm, conv) = (weights_by_path(&lstm), weights_by_path(&conv));
    let at = |framework: &str, class: &str, args: Json| {
        let mut options = rnn(framework, class, &args);
        let description = options.description.as_mut().unwrap();
        description.layers[0].prefix = Some("layers/rnn".into());
        if class.starts_with("Conv") {
            description.inputs[0].size = serde_json::from_value(json!([2, 1])).unwrap();
        }
        options
    };
    let hard = || json!({"recurrent_activation": "hard_sigmoid"});
    for (bytes, class, args) in
        [(&lstm, "LSTM", hard()), (&conv, "ConvLSTM1D", hard()), (&conv, "ConvLSTM1D", json!({}))]
    {
        let line = refusal(bytes, &at("", class, args));
        for part in ["\"rnn\"", class, "\"framework\"", "keras2", "keras3", "--arch"] {
            assert!(line.contains(part), "{part} is not in: {line}");
        }
    }
    assert_eq!(gates(&lstm, &at("", "LSTM", json!({}))), Activation::Sigmoid);
    assert_eq!(gates(&conv, &at("", "ConvLSTM1D", json!({"recurrent_activation": "sigmoid"}))), Activation::Sigmoid);
    for (framework, hard_sigmoid, default) in [("keras2", HARD_2, HARD_2), ("keras3", HARD_3, Activation::Sigmoid)] {
        assert_eq!(gates(&lstm, &at(framework, "LSTM", json!({}))), Activation::Sigmoid);
        assert_eq!(gates(&lstm, &at(framework, "LSTM", hard())), hard_sigmoid);
        assert_eq!(gates(&conv, &at(framework, "ConvLSTM1D", hard())), hard_sigmoid);
        assert_eq!(gates(&conv, &at(framework, "ConvLSTM1D", json!({}))), default);
    }
    // Archives, and architectures in Keras's own format, record the version.
    let config = dense().to_string();
    let weights = model(Tensor::of(&[3, 2]), Tensor::of(&[2]));
    let silent =
        archive(&[("metadata.json", b"{}"), ("config.json", config.as_bytes()), ("model.weights.h5", &weights)], false);
    refused(&silent, "keras_version");
}

#[test]
fn since_tensorflow_1_13_directions_output_zeros_for_masked_steps() {
    let lstm = json!({"units": 1, "recurrent_activation": "sigmoid"});
    let args = json!({"layer": {"class_name": "LSTM", "config": lstm}});
    let arch = json!({"inputs": [{"name": "x", "size": 1, "steps": 3}], "layers": [
        {"name": "mask", "class": "Masking", "args": {"mask_value": 0.0}},
        {"name": "rnn", "class": "Bidirectional", "args": args}]});
    let options = described(&arch.to_string());
    // Additional nodes produce the zeros.
    let nodes = |version: &str| {
        let bytes = weights_of(version, "rnn", &twice_where_both("Bidirectional"));
        import(&bytes, &options).unwrap().architecture.nodes.len()
    };
    let without = nodes("2.2.4");
    for (version, zeros) in [("2.1.6-tf", false), ("2.3.1", false), ("2.2.4-tf", true), ("2.4.0", true)] {
        assert_eq!(nodes(version) > without, zeros, "{version}");
    }
}
