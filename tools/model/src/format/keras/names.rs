//! A draft description from a file that holds only weights. Names and shapes show the classes and the sizes of layers.
//! Everything else is [`OPEN`] in the draft: a draft is never imported by
//! guess.

use std::collections::BTreeSet;

use serde_json::{Map, Value as Json, json};

use super::{hdf5::Tree, order, order::Found};
use crate::error::ImportError;
use crate::format::description::{Description, Input, LayerDescription, OPEN, Size};

/// Maximum number of layers in the draft; it is printed on one line.
const MAX_LAYERS: usize = 32;
/// Layers without weights that are not active after training, by the names that Keras gives them.
const IDLE: [&str; 10] = [
    "input",
    "dropout",
    "alpha_dropout",
    "gaussian_dropout",
    "gaussian_noise",
    "spatial_dropout1d",
    "spatial_dropout2d",
    "activity_regularization",
    "input_layer",
    "seed_generator",
];

/// The error for a file that holds only weights. `framework` is empty if the file does not state it.
pub(super) fn draft(tree: &Tree, framework: &str) -> ImportError {
    let listed = tree.list("", "layer_names");
    let groups: Vec<String> = match &listed {
        Some(names) => names.iter().copied().map(str::to_owned).collect(),
        None => {
            let names: BTreeSet<&str> = tree.texts.keys().filter_map(|path| path.strip_prefix("layers/")).collect();
            names.into_iter().filter(|name| !name.contains('/')).map(|name| format!("layers/{name}")).collect()
        }
    };
    let mut layers: Vec<Found> = groups.iter().filter_map(|name| found(name, tree)).take(MAX_LAYERS).collect();
    // Files with attribute paths list layers in alphabetical order.
    let ordered = listed.is_some() || order::restore(&mut layers);
    close(&mut layers, ordered);
    let size = layers.iter().find_map(|found| found.input).unwrap_or(1);
    let description = Description {
        framework: framework.to_owned(),
        inputs: vec![Input { name: "input".into(), size: Size::One(size), ..Input::default() }],
        layers: layers.into_iter().map(|found| found.layer).collect(),
        ..Description::default()
    };
    ImportError::NeedsArchitecture {
        reason: format!("its weights do not show what stands as {OPEN:?} below, nor layers of custom code"),
        draft: description.draft(),
    }
}

/// Sets the inputs and arguments that depend on the neighboring layers.
fn close(layers: &mut [Found], ordered: bool) {
    let mut before = None;
    for (k, found) in layers.iter_mut().enumerate() {
        // An activation has as many features as it reads.
        let has_any = found.layer.class == "Activation";
        let fits = k == 0 || (before.is_some() && (has_any || before == found.input));
        if !(ordered && fits) {
            found.layer.inputs = vec![OPEN.to_owned()];
        }
        before = if has_any { before } else { found.output };
    }
    let mut over_time = false;
    for found in layers.iter_mut().rev() {
        let class = found.layer.class.as_str();
        // Only a sequence can be read over time. A layer of custom code in between may make one.
        let all = if over_time && ordered { json!(true) } else { json!(OPEN) };
        over_time |= is_recurrent(class) || ["Bidirectional", "Conv1D", "AttentionWeightedAverage"].contains(&class);
        over_time &= class != OPEN;
        if let Some(Json::Object(inner)) = found.layer.args.get_mut("layer").and_then(|inner| inner.get_mut("config")) {
            inner.insert("return_sequences".into(), all);
        } else if is_recurrent(class) {
            found.layer.args.insert("return_sequences".into(), all);
        }
    }
}

fn is_recurrent(class: &str) -> bool {
    matches!(class, "LSTM" | "GRU" | "SimpleRNN" | "CuDNNLSTM" | "CuDNNGRU")
}

fn found(name: &str, tree: &Tree) -> Option<Found> {
    let begins = format!("{name}/");
    let own = tree.tensors.range(begins.clone()..).take_while(|(path, _)| path.starts_with(&begins));
    let tensors: Vec<(&str, &[usize])> =
        own.map(|(path, tensor)| (path.get(begins.len()..).unwrap_or_default(), tensor.shape.as_slice())).collect();
    let stem = order::stem(name).0;
    let described = |class: &str, args: Json, sizes: (Option<usize>, Option<usize>)| {
        let args = if let Json::Object(args) = args { args } else { Map::new() };
        let layer =
            LayerDescription { name: name.to_owned(), class: class.into(), args, ..LayerDescription::default() };
        Some(Found { layer, input: sizes.0, output: sizes.1 })
    };
    if tensors.is_empty() {
        return match stem {
            idle if IDLE.contains(&idle) => None,
            "activation" => described("Activation", json!({"activation": OPEN}), (None, None)),
            _ => described(OPEN, json!({}), (None, None)),
        };
    }
    if stem.contains("attention")
        && let &[(path, &[size, 1])] = tensors.as_slice()
        && path.trim_end_matches(":0").ends_with("_W")
    {
        return described("AttentionWeightedAverage", json!({}), (Some(size), Some(size)));
    }
    let (class, args, sizes) = match directions(&tensors) {
        Some(forward) => {
            let (class, args, (input, output)) = layer(stem, &forward);
            let inner = json!({"class_name": class, "config": args});
            let both = output.map(|units| 2 * units);
            ("Bidirectional", json!({"layer": inner, "merge_mode": OPEN}), (input, both))
        }
        None => layer(stem, &tensors),
    };
    described(class, args, sizes)
}

/// The tensors of the forward direction, without their scope.
fn directions<'a>(tensors: &[(&'a str, &'a [usize])]) -> Option<Vec<(&'a str, &'a [usize])>> {
    let forward = |path: &str| path.split('/').any(|part| part.starts_with("forward_"));
    let own: Vec<_> = tensors.iter().copied().filter(|(path, _)| forward(path)).collect();
    (!own.is_empty()).then_some(own)
}

type Sizes = (Option<usize>, Option<usize>);

/// Class, arguments and sizes of a layer. Keras 2 names variables, Keras 3 numbers them and names the class.
fn layer(stem: &str, tensors: &[(&str, &[usize])]) -> (&'static str, Json, Sizes) {
    let numbered = tensors.iter().all(|(path, _)| path.rsplit('/').nth(1) == Some("vars"));
    let is = |class: &str| numbered && stem == class;
    let of = |name: &str, number: &str| {
        let found = tensors.iter().find(|(path, _)| {
            let leaf = path.rsplit('/').next().unwrap_or(path).trim_end_matches(":0");
            if numbered { leaf == number } else { leaf == name }
        });
        found.map(|(_, shape)| *shape)
    };
    let kernel = of("kernel", "0");
    let bias = |number: &str| of("bias", number);
    let in_cell = tensors.iter().any(|(path, _)| path.contains("cell/vars/"));
    let recurrent = of("recurrent_kernel", "1").filter(|_| !numbered || in_cell);
    let norm = |names: [&str; 2]| names.map(|name| of(name, "").is_some());
    match (kernel, recurrent) {
        (Some(&[input, rows]), Some(&[units, cols])) if units > 0 && rows == cols => {
            // cuDNN's layers have two biases in a row.
            let twice = bias("2") == Some(&[2 * cols]);
            let class = match (cols / units, twice) {
                (4, false) => "LSTM",
                (4, true) => "CuDNNLSTM",
                (3, false) => "GRU",
                (3, true) => "CuDNNGRU",
                (1, false) => "SimpleRNN",
                _ => OPEN,
            };
            let mut args = json!({"units": units});
            // cuDNN's layers have no other activations.
            if !class.starts_with("CuDNN") && class != OPEN {
                args["activation"] = OPEN.into();
                if class != "SimpleRNN" {
                    args["recurrent_activation"] = OPEN.into();
                }
            }
            (class, with_bias(args, bias("2").is_some()), (Some(input), Some(units)))
        }
        (Some(&[input, units]), None) if !numbered || is("dense") => {
            let args = json!({"units": units, "activation": OPEN});
            ("Dense", with_bias(args, bias("1").is_some()), (Some(input), Some(units)))
        }
        (Some(&[taps, input, filters]), None) if !numbered || is("conv1d") => {
            let args = json!({"filters": filters, "kernel_size": taps, "strides": OPEN, "padding": OPEN,
                              "activation": OPEN});
            ("Conv1D", with_bias(args, bias("1").is_some()), (Some(input), Some(filters)))
        }
        _ if of("moving_mean", "").is_some() || (is("batch_normalization") && tensors.len() == 4) => {
            let [scale, center] = if numbered { [true; 2] } else { norm(["gamma", "beta"]) };
            let size = tensors.first().and_then(|(_, shape)| shape.first().copied());
            ("BatchNormalization", json!({"scale": scale, "center": center, "epsilon": OPEN}), (size, size))
        }
        _ if of("gamma", "").is_some()
            || of("beta", "").is_some()
            || (is("layer_normalization") && tensors.len() == 2) =>
        {
            let [scale, center] = if numbered { [true; 2] } else { norm(["gamma", "beta"]) };
            let size = tensors.first().and_then(|(_, shape)| shape.last().copied());
            ("LayerNormalization", json!({"scale": scale, "center": center, "epsilon": OPEN}), (size, size))
        }
        _ => match of("embeddings", "0") {
            Some(&[rows, size]) if !numbered || is("embedding") => {
                let args = json!({"input_dim": rows, "output_dim": size, "mask_zero": OPEN});
                ("Embedding", args, (Some(1), Some(size)))
            }
            _ => (OPEN, json!({}), (None, None)),
        },
    }
}

fn with_bias(mut args: Json, bias: bool) -> Json {
    if let (Json::Object(args), false) = (&mut args, bias) {
        args.insert("use_bias".into(), false.into());
    }
    args
}
