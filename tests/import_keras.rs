//! Damaged and malicious Keras files, and errors for files that lack information.

#[path = "import_keras/defaults.rs"]
mod defaults;
#[path = "import_keras/seeds.rs"]
mod seeds;

use serde_json::{Value as Json, json};
use tidegate_model::canonical::{self, Canonical};
use tidegate_model::error::ImportError;
use tidegate_model::format::{Description, Options, import_bytes_with};
use tidegate_tests::hdf5::{DEFLATE, F32, Group, Link, Tensor, Weights, file, keras2};
use tidegate_tests::import::{ALONE, archive, damaged, described, line, sample};

fn import(bytes: &[u8], options: &Options) -> Result<Canonical, ImportError> {
    import_bytes_with(bytes, "x.h5", options).map(|imported| imported.model)
}

/// The error of refused bytes: one line of limited length.
fn refusal(bytes: &[u8], options: &Options) -> String {
    line(&import(bytes, options).expect_err("it must be refused"), 16_384)
}

#[track_caller]
fn refused(bytes: &[u8], reason: &str) {
    let line = refusal(bytes, &ALONE);
    assert!(line.contains(reason), "{reason:?} is not in: {line}");
}

const SMALL: [&str; 5] = [
    "keras1/lstm.h5",
    "keras2/lstm_without_bias.h5",
    "keras2_tensorflow1/cudnn_lstm.h5",
    "keras3/simple_rnn.keras",
    "keras3/legacy_lstm.h5",
];

#[test]
fn every_prefix_of_a_file_is_refused() {
    for name in SMALL {
        let bytes = sample(name);
        import(&bytes, &ALONE).unwrap_or_else(|error| panic!("{name}: {error}"));
        let ends = (0..bytes.len()).filter(|end| end % 61 == 0 || *end < 4096 || end % 1024 == 0);
        for end in ends {
            // An HDF5 file states its length; a zip archive ends with its directory.
            refusal(&bytes[..end], &ALONE);
        }
    }
}

#[test]
fn a_damaged_byte_is_refused_or_gives_a_model() {
    for name in SMALL {
        damaged(name, 5, &sample(name), |bytes| import(bytes, &ALONE));
    }
}

/// A layer in an architecture of Keras 2.
fn layer(class: &str, name: &str, more: Json) -> Json {
    let mut config = json!({ "name": name });
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({ "class_name": class, "config": config })
}

fn sequential(layers: &[Json]) -> Json {
    json!({ "class_name": "Sequential", "config": { "name": "sequential", "layers": layers } })
}

/// A dense layer with three inputs and two outputs.
fn dense() -> Json {
    let more = json!({"units": 2, "activation": "linear", "use_bias": true, "batch_input_shape": [null, null, 3]});
    sequential(&[layer("Dense", "dense", more)])
}

fn weights(kernel: Tensor, bias: Tensor) -> Weights {
    vec![("kernel:0".into(), kernel), ("bias:0".into(), bias)]
}

fn model(kernel: Tensor, bias: Tensor) -> Vec<u8> {
    file(&keras2(&dense(), vec![("dense", weights(kernel, bias))]))
}

/// A file with changed contents of the layer's group.
fn with_group(change: impl FnOnce(&mut Group)) -> Vec<u8> {
    let mut root = keras2(&dense(), vec![("dense", weights(Tensor::of(&[3, 2]), Tensor::of(&[2])))]);
    let Link::Group(models) = &mut root.links[0].1 else { unreachable!() };
    let Link::Group(layer) = &mut models.links[0].1 else { unreachable!() };
    change(layer);
    file(&root)
}

/// A file with changed contents of the root.
fn with_root(change: impl FnOnce(&mut Group)) -> Vec<u8> {
    let mut root = keras2(&dense(), vec![("dense", weights(Tensor::of(&[3, 2]), Tensor::of(&[2])))]);
    change(&mut root);
    file(&root)
}

/// An architecture without weights.
fn config(config: &Json) -> Vec<u8> {
    file(&keras2(config, vec![]))
}

#[test]
fn a_handwritten_file_imports_like_one_of_keras() {
    import(&model(Tensor::of(&[3, 2]), Tensor::of(&[2])), &ALONE).unwrap();
    import(&model(Tensor::packed(&[3, 2]), Tensor::of(&[2])), &ALONE).unwrap();
    import(&with_root(|_| ()), &ALONE).unwrap();
    let soft = |group: &mut Group| {
        group.links[1].1 = Link::Soft("/elsewhere".into());
    };
    let moved = with_root(|root| {
        root.links.push(("elsewhere".into(), Link::Tensor(Tensor::of(&[2]))));
        let Link::Group(models) = &mut root.links[0].1 else { unreachable!() };
        let Link::Group(layer) = &mut models.links[0].1 else { unreachable!() };
        soft(layer);
    });
    // A link within the file is followed or refused, but not ignored: its target exists twice.
    if let Err(error) = import(&moved, &ALONE) {
        assert!(error.to_string().contains("elsewhere"), "{error}");
    }
}

#[test]
fn wrong_shapes_are_refused_by_name() {
    for (kernel, bias) in [(vec![2, 3], vec![2]), (vec![3, 2], vec![3]), (vec![6], vec![2]), (vec![3, 2, 1], vec![2])] {
        let line = refusal(&model(Tensor::of(&kernel), Tensor::of(&bias)), &ALONE);
        assert!(line.contains("layer \"dense\" (Dense)"), "{line}");
    }
    refused(&model(Tensor::of(&[3, 0]), Tensor::of(&[0])), "dense");
}

#[test]
fn missing_tensors_are_named() {
    refused(&with_group(|group| drop(group.links.pop())), "bias:0");
    let none = with_group(|group| {
        group.links.clear();
        group.texts.clear();
    });
    refused(&none, "dense");
    refused(&config(&dense()), "dense");
    let unknown = with_root(|root| drop(root.links.pop()));
    refused(&unknown, "dense");
    // One tensor more than the layer has.
    let more = with_group(|group| {
        group.texts[0].1.push("alpha:0".into());
        group.links.push(("alpha:0".into(), Link::Tensor(Tensor::of(&[2]))));
    });
    refused(&more, "dense");
    let aside = with_group(|group| group.links.push(("stray".into(), Link::Tensor(Tensor::of(&[2])))));
    refused(&aside, "stray");
}

#[test]
fn absurd_sizes_are_refused() {
    let kernel = Tensor::of(&[3, 2]);
    for shape in [vec![u64::MAX, u64::MAX], vec![1 << 62, 4], vec![1 << 40, 2], vec![3, 1 << 31], vec![1 << 20; 32]] {
        let absurd = Tensor { shape: shape.clone(), ..kernel.clone() };
        refusal(&model(absurd, Tensor::of(&[2])), &ALONE);
        let claimed = Tensor { claimed: Some(u64::MAX / 2), shape, ..kernel.clone() };
        refusal(&model(claimed, Tensor::of(&[2])), &ALONE);
    }
    // Stated dimensions of a chunk.
    for dims in [vec![u32::MAX, u32::MAX], vec![0, 0], vec![1 << 30, 2], vec![3]] {
        let chunk = Some((dims, Some(DEFLATE)));
        refusal(&model(Tensor { chunk: chunk.clone(), ..Tensor::packed(&[3, 2]) }, Tensor::of(&[2])), &ALONE);
        refusal(&model(Tensor { chunk, shape: vec![1 << 30, 2], ..Tensor::packed(&[3, 2]) }, Tensor::of(&[2])), &ALONE);
    }
    // Types of unknown widths and kinds.
    for (at, value) in [(4, 0), (4, 3), (4, 0xff), (7, 0xff), (0, 0x13), (0, 0x15), (0, 0x16), (0, 0x19), (0, 0x1f)] {
        let mut datatype = F32.to_vec();
        datatype[at] = value;
        refusal(&model(Tensor { datatype, ..kernel.clone() }, Tensor::of(&[2])), &ALONE);
    }
    // Every position in a real file that may be a size or an address.
    let whole = sample("keras2/lstm_without_bias.h5");
    for at in (0..whole.len() - 8).step_by(8) {
        for value in [u64::MAX - 1, 1 << 63, 1 << 40, whole.len() as u64 - 1, 0] {
            let mut bytes = whole.clone();
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
            drop(import(&bytes, &ALONE).map_err(|error| assert!(!error.to_string().contains(char::is_control))));
        }
    }
}

#[test]
fn chunks_that_unpack_to_more_than_a_file_holds_are_refused() {
    // 64 MiB of zeros in 64 KiB, with and without a shape that states it.
    let bomb = Tensor::packed(&[1 << 12, 1 << 12]);
    refusal(&model(bomb.clone(), Tensor::of(&[2])), &ALONE);
    refusal(&model(Tensor { shape: vec![3, 2], ..bomb.clone() }, Tensor::of(&[2])), &ALONE);
    refusal(&model(Tensor { chunk: Some((vec![3, 2], Some(DEFLATE))), ..bomb }, Tensor::of(&[2])), &ALONE);
    let unknown = Tensor { chunk: Some((vec![3, 2], Some(999))), ..Tensor::packed(&[3, 2]) };
    refused(&model(unknown, Tensor::of(&[2])), "999");
}

#[test]
fn circular_and_external_links_are_refused() {
    for (name, link) in [
        ("dense", Link::Root),
        ("again", Link::Root),
        ("nowhere", Link::Address(u64::MAX - 8)),
        ("middle", Link::Address(100)),
        ("itself", Link::Soft("/model_weights/dense/itself".into())),
        ("gone", Link::Soft("/not/there".into())),
        ("passwords", Link::External("/etc/passwd".into(), "/".into())),
    ] {
        let root = with_root(|root| root.links.push((name.into(), link.clone())));
        let inside = with_group(|group| group.links.push((name.into(), link.clone())));
        let instead = with_group(|group| group.links[0].1 = link.clone());
        refused(&instead, "dense");
        for bytes in [root, inside] {
            match import(&bytes, &ALONE) {
                // A dangling link that is not read counts as missing.
                Ok(_) => assert!(matches!(link, Link::Soft(_) | Link::External(..)), "{name}"),
                Err(error) => assert!(!error.to_string().contains("passwd:"), "{error}"),
            }
        }
    }
    // Two links in each of many nested groups: each tensor has 2^40 names.
    let mut deep = Group::default();
    for _ in 0..200 {
        deep = Group { links: vec![("a".into(), Link::Group(deep))], ..Group::default() };
    }
    refusal(&with_root(|root| root.links.push(("deep".into(), Link::Group(deep)))), &ALONE);
    refusal(&lattice(40), &ALONE);
}

/// Groups in which two names link to the next group.
fn lattice(levels: usize) -> Vec<u8> {
    let mut last = vec![("w".into(), Link::Tensor(Tensor::of(&[2])))];
    for _ in 0..levels {
        let inner = Group { links: last, ..Group::default() };
        last = vec![("a".into(), Link::Group(inner)), ("b".into(), Link::Address(0))];
    }
    let root = Group { links: last, ..Group::default() };
    let mut bytes = file(&root);
    // Each `b` gets the target of the `a` beside it: the eight bytes after the name.
    let targets: Vec<usize> = (96..bytes.len() - 13).filter(|&at| bytes[at..at + 5] == [1, 8, 0, 1, b'a']).collect();
    for at in targets {
        let a: Vec<u8> = bytes[at + 5..at + 13].to_vec();
        let b = (at..bytes.len() - 13).find(|&b| bytes[b..b + 5] == [1, 8, 0, 1, b'b']).unwrap();
        bytes[b + 5..b + 13].copy_from_slice(&a);
    }
    bytes
}

#[test]
fn malicious_architectures_are_refused() {
    let lstm = |units: Json| {
        let more = json!({"units": units, "batch_input_shape": [null, 4, 3]});
        config(&sequential(&[layer("LSTM", "lstm", more)]))
    };
    for units in [json!(1_000_000_000), json!(-1), json!(0), json!(u64::MAX), json!(1e300), json!("many"), json!(null)]
    {
        refused(&lstm(units), "lstm");
    }
    for shape in [
        json!([null, 1_000_000_000, 3]),
        json!([null, 4, 1_000_000_000_000_u64]),
        json!([]),
        json!([null]),
        json!([null, -4, 3]),
        json!("x"),
        json!([null, 4, 65536, 65536]),
        json!([null, 4, null]),
    ] {
        refusal(
            &config(&sequential(&[layer("LSTM", "lstm", json!({"units": 2, "batch_input_shape": shape}))])),
            &ALONE,
        );
    }
    // Models within models, lists within lists.
    let mut nested = sequential(&[layer("Dense", "dense", json!({"units": 2, "batch_input_shape": [null, 3]}))]);
    for k in 0..40 {
        let inner = layer("Sequential", &format!("s{k}"), nested["config"].clone());
        nested = sequential(&[inner]);
    }
    refusal(&config(&nested), &ALONE);
    for open in ["[", "{\"a\":", "{\"class_name\":\"Sequential\",\"config\":{\"layers\":["] {
        refused(&raw_config(&open.repeat(1000)), "model_config");
    }
    refused(&raw_config(""), "model_config");
    for text in ["null", "[]", "{}", "{\"class_name\": \"Sequential\"}", "{\"class_name\": 7, \"config\": 7}"] {
        refusal(&raw_config(text), &ALONE);
    }
    refused(&config(&json!({"class_name": "Mine", "config": {}})), "Mine");
    refused(
        &config(&sequential(&[layer(
            "Lambda",
            "f",
            json!({"batch_input_shape": [null, 4, 3], "function": ["4wEA", null, null]}),
        )])),
        "Lambda",
    );
}

fn raw_config(text: &str) -> Vec<u8> {
    with_root(|root| {
        for (name, texts) in &mut root.texts {
            if name == "model_config" {
                *texts = vec![text.to_owned()];
            }
        }
    })
}

/// A functional model: layers with their inputs.
fn functional(layers: &[(&str, Json, &[&str])], output: &str) -> Vec<u8> {
    let input = json!({"class_name": "InputLayer", "name": "x", "inbound_nodes": [],
                       "config": {"name": "x", "batch_input_shape": [null, null, 3]}});
    let node = |reads: &[&str]| reads.iter().map(|read| json!([read, 0, 0, {}])).collect::<Vec<_>>();
    let all = layers.iter().map(|(name, layer, reads)| {
        let mut layer = layer.clone();
        let object = layer.as_object_mut().unwrap();
        object.insert("name".into(), json!(name));
        object.insert("inbound_nodes".into(), json!([node(reads)]));
        layer
    });
    let layers: Vec<Json> = std::iter::once(input).chain(all).collect();
    config(&json!({"class_name": "Functional", "config": {"name": "m", "layers": layers,
        "input_layers": [["x", 0, 0]], "output_layers": [[output, 0, 0]]}}))
}

#[test]
fn cyclic_graphs_are_refused() {
    let add = layer("Add", "a", json!({}));
    let relu = layer("ReLU", "r", json!({}));
    for (layers, output, reason) in [
        (vec![("a", add.clone(), &["a"][..])], "a", "cycle"),
        (vec![("a", add.clone(), &["x", "r"][..]), ("r", relu.clone(), &["a"][..])], "r", "cycle"),
        (vec![("r", relu.clone(), &["nobody"][..])], "r", "nobody"),
        (vec![("r", relu.clone(), &["x"][..])], "nobody", "nobody"),
        (vec![("r", relu.clone(), &[][..])], "r", "r"),
    ] {
        let line = refusal(&functional(&layers, output), &ALONE);
        assert!(line.contains(reason), "{line}");
    }
    // Each layer adds the previous layer to itself: 2^60 paths from input to output in a model of 60 layers.
    let names: Vec<String> = (0..60).map(|k| format!("a{k}")).collect();
    let mut before = "x";
    let mut reads: Vec<[&str; 2]> = Vec::new();
    for name in &names {
        reads.push([before, before]);
        before = name;
    }
    let doubling: Vec<(&str, Json, &[&str])> =
        names.iter().zip(&reads).map(|(name, reads)| (name.as_str(), add.clone(), reads.as_slice())).collect();
    drop(import(&functional(&doubling, "a59"), &ALONE));
}

#[test]
fn models_that_call_models_do_not_grow_without_limit() {
    // Each model calls the inner one twice: 2^24 layers.
    let node = |name: &str| json!([[name, 0, 0, {}]]);
    let mut class = "Sequential";
    let mut inner = sequential(&[layer("ReLU", "r", json!({}))])["config"].clone();
    for k in 0..24 {
        let input = json!({"class_name": "InputLayer", "name": "x", "inbound_nodes": [],
                           "config": {"name": "x", "batch_input_shape": [null, null, 3]}});
        let called = json!({"class_name": class, "name": "inner", "config": inner,
                            "inbound_nodes": [node("x"), [["inner", 0, 0, {}]]]});
        inner = json!({"name": format!("m{k}"), "layers": [input, called], "input_layers": [["x", 0, 0]],
                       "output_layers": [["inner", 1, 0]]});
        class = "Functional";
    }
    refusal(&config(&json!({"class_name": "Functional", "config": inner})), &ALONE);
}

const METADATA: &[u8] = b"{\"keras_version\": \"3.12.0\", \"date_saved\": \"\"}";

#[test]
fn archives_with_missing_or_oversized_parts_are_refused() {
    let weights = model(Tensor::of(&[3, 2]), Tensor::of(&[2]));
    let config = dense().to_string();
    let (config, whole) = (config.as_bytes(), |weights: &[u8], config: &[u8], deflated| {
        archive(&[("metadata.json", METADATA), ("config.json", config), ("model.weights.h5", weights)], deflated)
    });
    refused(&archive(&[("metadata.json", METADATA), ("config.json", config)], false), "model.weights.h5");
    refused(&archive(&[("metadata.json", METADATA), ("model.weights.h5", &weights)], false), "Keras");
    refusal(&whole(&weights, config, false), &ALONE);
    refusal(&whole(b"", config, false), &ALONE);
    refusal(&whole(&weights[..weights.len() / 2], config, true), &ALONE);
    refused(&whole(&weights, b"{", false), "config.json");
    // Zip bombs: of weights, of an architecture, of an unused part.
    let zeros = vec![0; 32 << 20];
    refused(&whole(&zeros, config, true), "unpacks to");
    refused(&whole(&weights, &vec![b' '; 32 << 20], true), "unpacks to");
    refused(
        &archive(&[("metadata.json", METADATA), ("config.json", config), ("assets/x", &zeros)], true),
        "unpacks to",
    );
    let twice = archive(
        &[("metadata.json", METADATA), ("config.json", config), ("model.weights.h5", &weights), ("a", &weights)],
        false,
    );
    refusal(&twice, &ALONE);
}

#[test]
fn versions_and_other_files_are_refused() {
    let mut bytes = sample("keras2/lstm_without_bias.h5");
    for version in [1, 2, 3, 4, 255] {
        bytes[8] = version;
        refusal(&bytes, &ALONE);
    }
    // HDF5 files that are not from Keras: empty, or with other tensors.
    refused(&file(&Group::default()), "Keras");
    let links = vec![("sound".to_owned(), Link::Tensor(Tensor::of(&[4, 4])))];
    refused(&file(&Group { links, ..Group::default() }), "Keras");
}

#[test]
fn weights_alone_ask_for_an_architecture_with_a_draft() {
    for name in ["keras2/weights.h5", "keras3/weights.weights.h5", "keras1/weights.weights.h5"] {
        match import(&sample(name), &ALONE) {
            Err(ImportError::NeedsArchitecture { draft, .. }) => {
                let description: Description =
                    serde_json::from_str(&draft).unwrap_or_else(|error| panic!("{name}: {error}: {draft}"));
                assert_eq!(description.layers.len(), 3, "{name}: {draft}");
            }
            other => panic!("{name}: {other:?}"),
        }
    }
    let line =
        refusal(&sample("keras2/lstm.h5"), &described(r#"{"inputs": [{"name": "x", "size": 6}], "layers": []}"#));
    assert!(line.contains("--arch"), "{line}");
}

#[test]
fn a_missing_tensor_is_named_with_the_nearest() {
    let arch = |name: &str, size: usize| {
        format!(
            r#"{{"inputs": [{{"name": "x", "size": {size}}}], "layers": [{{"name": "{name}", "class": "LSTM", "args": {{"return_sequences": true}}}},
            {{"name": "above", "class": "GRU"}}, {{"name": "head", "class": "Dense"}}]}}"#
        )
    };
    let line = refusal(&sample("keras2/weights.h5"), &described(&arch("bellow", 9)));
    assert!(line.contains("bellow") && line.contains("below"), "{line}");
    let line = refusal(&sample("keras2/weights.h5"), &described(&arch("below", 4)));
    assert!(line.contains("below") && line.contains('4') && line.contains('9'), "{line}");
}

#[test]
fn a_class_of_custom_code_is_refused_with_its_tensor() {
    let arch = r#"{"inputs": [{"name": "x", "size": 9}], "layers": [
        {"name": "below", "class": "LSTM", "args": {"return_sequences": true}},
        {"name": "above", "class": "CapsuleLayer"}, {"name": "head", "class": "Dense"}]}"#;
    let line = refusal(&sample("keras2/weights.h5"), &described(arch));
    assert!(line.contains(r#"layer "above" (CapsuleLayer)"#) && line.contains("above/"), "{line}");
    assert!(line.contains(r#"with its tensors under "unused""#), "{line}");
}

/// Repeats the tests above that request too much memory, in a process with little memory.
#[test]
#[cfg(unix)]
fn excessive_memory_requests_fail_in_a_limited_process() {
    /// Address space in KiB: enough for the program, its stack, and the 32 MiB of the zip bomb.
    const LIMIT: usize = 200_000;
    let tests = [
        "absurd_sizes_are_refused",
        "malicious_architectures_are_refused",
        "archives_with_missing_or_oversized_parts_are_refused",
        "chunks_that_unpack_to_more_than_a_file_holds_are_refused",
        "circular_and_external_links_are_refused",
        "models_that_call_models_do_not_grow_without_limit",
    ];
    let (_, module) = module_path!().split_once("::").unwrap();
    let tests = tests.map(|test| format!("{module}::{test}"));
    let program = std::env::current_exe().unwrap();
    let command = format!("ulimit -v {LIMIT} && exec \"$0\" --test-threads=1 --exact \"$@\"");
    let output = std::process::Command::new("sh").arg("-c").arg(command).arg(program).args(tests).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("6 passed"), "{text}{}", String::from_utf8_lossy(&output.stderr));
}

/// A description of Keras 3 with a `Bidirectional` over an LSTM with these arguments, and the reason why it is refused.
fn bidirectional(args: Json) -> Result<Canonical, String> {
    let text = json!({
        "framework": "keras3",
        "inputs": [{"name": "x", "size": 3, "steps": 4}],
        "layers": [{"name": "both", "class": "Bidirectional", "args": {"layer": {"class_name": "LSTM", "config": args}}}],
    });
    let description: Description = serde_json::from_value(text).unwrap();
    let tensor = |shape: &[usize]| canonical::Tensor { shape: shape.to_vec(), data: vec![0.5; shape.iter().product()] };
    let own = [("kernel", &[3, 8][..]), ("recurrent_kernel", &[2, 8]), ("bias", &[8])];
    let named = |direction: &'static str| own.map(|(name, shape)| (format!("both/{direction}/{name}"), tensor(shape)));
    let tensors = named("forward").into_iter().chain(named("backward")).collect();
    description.model("keras3", &tensors, None, "x").map(|imported| imported.model).map_err(|error| error.to_string())
}

#[test]
fn the_directions_of_a_bidirectional_layer_may_say_which_outputs_they_return() {
    let outputs = |args: Json| bidirectional(args).unwrap().architecture.outputs[0].size;
    assert_eq!(outputs(json!({"units": 2, "return_sequences": true})), 16);
    assert_eq!(outputs(json!({"units": 2, "return_sequences": false})), 4);
    let reason = bidirectional(json!({"units": 2, "stateful": true})).unwrap_err();
    assert!(reason.contains("argument stateful (set it on the layer"), "{reason}");
}

#[test]
fn arguments_that_change_weights_or_inputs_are_refused_by_name() {
    let with = |class: &str, more: Json| config(&sequential(&[layer(class, "first", more)]));
    let shape = json!([null, null, 3]);
    for (class, mut more, reason) in [
        ("BatchNormalization", json!({"renorm": true}), "layer \"first\" with renorm = true"),
        ("Dense", json!({"units": 2, "lora_rank": 4}), "layer \"first\" with lora_rank = 4"),
        ("Dense", json!({"units": 2, "dtype": {"class_name": "DTypePolicyMap"}}), "layer \"first\" with dtype"),
        ("Dense", json!({"units": 2, "dtype": "int8_from_float32"}), "layer \"first\" with dtype"),
        ("InputLayer", json!({"ragged": true}), "input \"first\" with ragged = true"),
        ("InputLayer", json!({"unheard_of": 1}), "input \"first\" with unheard_of = 1"),
    ] {
        more["batch_input_shape"] = shape.clone();
        refused(&with(class, more), reason);
    }
}

#[test]
fn unknown_keys_of_models_and_layers_are_refused_by_name() {
    for (pointer, reason) in [
        ("", "model \"\" with unheard_of = 1"),
        ("/config", "Sequential \"sequential\" with unheard_of = 1"),
        ("/config/layers/0", "Dense \"dense\" with unheard_of = 1"),
    ] {
        let with = |value: Json| {
            let mut model = dense();
            model.pointer_mut(pointer).expect("the model has this part")["unheard_of"] = value;
            model
        };
        refused(&config(&with(json!(1))), reason);
        // Null and false say that something is not used.
        for unset in [json!(null), json!(false)] {
            let weights = weights(Tensor::of(&[3, 2]), Tensor::of(&[2]));
            import(&file(&keras2(&with(unset), vec![("dense", weights)])), &ALONE).expect("the key is unset");
        }
    }
    let mut timed = layer("TimeDistributed", "timed", json!({"batch_input_shape": [null, 4, 3]}));
    timed["config"]["layer"] = dense();
    timed["config"]["layer"]["config"]["unheard_of"] = json!(1);
    refused(&config(&sequential(&[timed])), "unheard_of");
}
