//! Each argument that a layer of an `--arch` file may have is imported, and the result is classified. The arguments are
//! those of PyTorch 2.5. An argument is honored if the model differs from that of the default, and harmless if the model
//! is the same. Numbers are not compared here: `frameworks/torch` holds outputs of PyTorch for the common ones.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tidegate_model::canonical::{Canonical, Tensor};
use tidegate_model::format::Description;

use super::outcomes::{Outcome, Table, written};
use super::trial::{Args, accepted, add_bare, bare, complete, words};

/// A class: its arguments, the size of its input, and its tensors, as in `weight 3x2, bias 3`.
struct Class {
    class: &'static str,
    args: &'static str,
    input: &'static str,
    tensors: &'static str,
    /// Arguments, a value of each in JSON, and the tensors if they differ in another way than [`adapted`] states.
    tries: &'static [(&'static str, &'static str, &'static str)],
}

const FOREIGN: [(&str, &str, &str); 3] =
    [("device", "\"cpu\"", ""), ("dtype", "\"float32\"", ""), ("unheard_of", "1", "")];

const CLASSES: [Class; 26] = [
    Class {
        class: "LSTM",
        args: "{}",
        input: "3",
        tensors: "weight_ih_l0 8x3, weight_hh_l0 8x2, bias_ih_l0 8, bias_hh_l0 8",
        tries: &[
            ("input_size", "4", ""),
            ("hidden_size", "3", ""),
            ("num_layers", "2", ""),
            ("bias", "false", ""),
            ("batch_first", "true", ""),
            ("dropout", "0.5", ""),
            ("bidirectional", "true", ""),
            ("proj_size", "1", "weight_ih_l0 8x3, weight_hh_l0 8x1, bias_ih_l0 8, bias_hh_l0 8, weight_hr_l0 1x2"),
            ("proj_size", "2", "weight_ih_l0 8x3, weight_hh_l0 8x1, bias_ih_l0 8, bias_hh_l0 8, weight_hr_l0 1x2"),
        ],
    },
    Class {
        class: "GRU",
        args: "{}",
        input: "3",
        tensors: "weight_ih_l0 6x3, weight_hh_l0 6x2, bias_ih_l0 6, bias_hh_l0 6",
        tries: &[
            ("input_size", "4", ""),
            ("hidden_size", "3", ""),
            ("num_layers", "2", ""),
            ("bias", "false", ""),
            ("batch_first", "true", ""),
            ("dropout", "0.5", ""),
            ("bidirectional", "true", ""),
        ],
    },
    Class {
        class: "RNN",
        args: "{}",
        input: "3",
        tensors: "weight_ih_l0 2x3, weight_hh_l0 2x2, bias_ih_l0 2, bias_hh_l0 2",
        tries: &[
            ("input_size", "4", ""),
            ("hidden_size", "3", ""),
            ("num_layers", "2", ""),
            ("nonlinearity", "\"relu\"", ""),
            ("bias", "false", ""),
            ("batch_first", "true", ""),
            ("dropout", "0.5", ""),
            ("bidirectional", "true", ""),
        ],
    },
    Class {
        class: "LSTMCell",
        args: "{}",
        input: "3",
        tensors: "weight_ih 8x3, weight_hh 8x2, bias_ih 8, bias_hh 8",
        tries: &[("input_size", "4", ""), ("hidden_size", "3", ""), ("bias", "false", "")],
    },
    Class {
        class: "GRUCell",
        args: "{}",
        input: "3",
        tensors: "weight_ih 6x3, weight_hh 6x2, bias_ih 6, bias_hh 6",
        tries: &[("input_size", "4", ""), ("hidden_size", "3", ""), ("bias", "false", "")],
    },
    Class {
        class: "RNNCell",
        args: "{}",
        input: "3",
        tensors: "weight_ih 2x3, weight_hh 2x2, bias_ih 2, bias_hh 2",
        tries: &[
            ("input_size", "4", ""),
            ("hidden_size", "3", ""),
            ("bias", "false", ""),
            ("nonlinearity", "\"relu\"", ""),
        ],
    },
    Class {
        class: "Linear",
        args: "{}",
        input: "3",
        tensors: "weight 2x3, bias 2",
        tries: &[("in_features", "4", ""), ("out_features", "3", ""), ("bias", "false", "")],
    },
    Class {
        class: "Conv1d",
        args: "{}",
        input: "4",
        tensors: "weight 4x4x3, bias 4",
        tries: &[
            ("in_channels", "3", ""),
            ("out_channels", "3", ""),
            ("kernel_size", "2", ""),
            ("stride", "2", ""),
            ("padding", "1", ""),
            ("padding", "\"same\"", ""),
            ("dilation", "2", ""),
            ("groups", "2", "weight 4x2x3, bias 4"),
            ("bias", "false", ""),
            ("padding_mode", "\"reflect\"", ""),
        ],
    },
    Class {
        class: "Conv2d",
        args: "{}",
        input: "[5, 4]",
        tensors: "weight 4x4x3x2, bias 4",
        tries: &[
            ("in_channels", "3", ""),
            ("out_channels", "3", ""),
            ("kernel_size", "2", ""),
            ("stride", "2", ""),
            ("padding", "1", ""),
            ("padding", "\"same\"", ""),
            ("dilation", "2", ""),
            ("groups", "2", "weight 4x2x3x2, bias 4"),
            ("bias", "false", ""),
            ("padding_mode", "\"reflect\"", ""),
        ],
    },
    Class {
        class: "MaxPool1d",
        args: r#"{"kernel_size": 3}"#,
        input: "4",
        tensors: "",
        tries: &[
            ("kernel_size", "2", ""),
            ("stride", "2", ""),
            ("padding", "1", ""),
            ("dilation", "2", ""),
            ("return_indices", "true", ""),
            ("ceil_mode", "true", ""),
        ],
    },
    Class {
        class: "AvgPool2d",
        args: r#"{"kernel_size": 2}"#,
        input: "[5, 4]",
        tensors: "",
        tries: &[
            ("kernel_size", "3", ""),
            ("stride", "1", ""),
            ("padding", "1", ""),
            ("ceil_mode", "true", ""),
            ("count_include_pad", "false", ""),
            ("divisor_override", "3", ""),
        ],
    },
    Class {
        class: "AdaptiveAvgPool1d",
        args: r#"{"output_size": 1}"#,
        input: "4",
        tensors: "",
        tries: &[("output_size", "2", "")],
    },
    Class {
        class: "AdaptiveMaxPool1d",
        args: r#"{"output_size": 1}"#,
        input: "4",
        tensors: "",
        tries: &[("output_size", "2", ""), ("return_indices", "true", "")],
    },
    Class {
        class: "Embedding",
        args: "{}",
        input: "1",
        tensors: "weight 5x3",
        tries: &[
            ("num_embeddings", "4", ""),
            ("embedding_dim", "4", ""),
            ("padding_idx", "0", ""),
            ("max_norm", "1.0", ""),
            ("norm_type", "1.0", ""),
            ("scale_grad_by_freq", "true", ""),
            ("sparse", "true", ""),
        ],
    },
    Class {
        class: "LayerNorm",
        args: "{}",
        input: "3",
        tensors: "weight 3, bias 3",
        tries: &[
            ("normalized_shape", "4", ""),
            ("eps", "0.1", ""),
            ("elementwise_affine", "false", ""),
            ("bias", "false", ""),
        ],
    },
    Class {
        class: "RMSNorm",
        args: "{}",
        input: "3",
        tensors: "weight 3",
        tries: &[("normalized_shape", "4", ""), ("eps", "0.1", ""), ("elementwise_affine", "false", "")],
    },
    Class {
        class: "BatchNorm1d",
        args: "{}",
        input: "3",
        tensors: "weight 3, bias 3, running_mean 3, running_var 3, num_batches_tracked 1",
        tries: &[
            ("num_features", "4", ""),
            ("eps", "0.1", ""),
            ("momentum", "0.5", ""),
            ("affine", "false", ""),
            ("track_running_stats", "false", ""),
        ],
    },
    Class {
        class: "BatchNorm2d",
        args: "{}",
        input: "[5, 4]",
        tensors: "weight 4, bias 4, running_mean 4, running_var 4, num_batches_tracked 1",
        tries: &[
            ("num_features", "5", ""),
            ("eps", "0.1", ""),
            ("momentum", "0.5", ""),
            ("affine", "false", ""),
            ("track_running_stats", "false", ""),
        ],
    },
    Class {
        class: "Softmax",
        args: r#"{"dim": -1}"#,
        input: "3",
        tensors: "",
        tries: &[("dim", "1", ""), ("dim", "2", "")],
    },
    Class {
        class: "Concat",
        args: r#"{"dim": -1}"#,
        input: "3",
        tensors: "",
        tries: &[("dim", "0", ""), ("dim", "1", ""), ("dim", "2", "")],
    },
    Class {
        class: "Flatten",
        args: r#"{"start_dim": 2, "channels_first": true}"#,
        input: "[5, 4]",
        // The order of the elements shows in the weights of the next layer.
        tensors: "end.weight 2x20, end.bias 2",
        tries: &[
            ("start_dim", "0", ""),
            ("start_dim", "1", "end.weight 2x120, end.bias 2"),
            ("start_dim", "3", ""),
            ("end_dim", "-1", ""),
            ("end_dim", "2", ""),
            ("end_dim", "3", ""),
            ("channels_first", "false", ""),
        ],
    },
    Class {
        class: "LeakyReLU",
        args: "{}",
        input: "3",
        tensors: "",
        tries: &[("negative_slope", "0.2", ""), ("inplace", "true", "")],
    },
    Class {
        class: "ELU",
        args: "{}",
        input: "3",
        tensors: "",
        tries: &[("alpha", "0.5", ""), ("inplace", "true", "")],
    },
    Class { class: "GELU", args: "{}", input: "3", tensors: "", tries: &[("approximate", "\"tanh\"", "")] },
    Class {
        class: "Softplus",
        args: "{}",
        input: "3",
        tensors: "",
        tries: &[("beta", "2.0", ""), ("threshold", "1.0", ""), ("threshold", "30.0", "")],
    },
    Class {
        class: "Dropout",
        args: "{}",
        input: "3",
        tensors: "",
        tries: &[("p", "0.9", ""), ("inplace", "true", "")],
    },
];

/// The tensors of a layer if argument `name` has this value.
fn adapted(tensors: &str, name: &str, value: &str) -> String {
    let entries: Vec<&str> = tensors.split(", ").collect();
    let without = |starts: &[&str]| {
        let kept = entries.iter().copied().filter(|entry| !starts.iter().any(|start| entry.starts_with(start)));
        // A text without an entry stands for the default.
        Some(kept.collect::<Vec<_>>().join(", ")).filter(|kept| !kept.is_empty()).unwrap_or_else(|| "-".to_owned())
    };
    let and = |more: Vec<String>| format!("{tensors}, {}", more.join(", "));
    match (name, value) {
        ("bias", "false") => without(&["bias"]),
        ("affine" | "elementwise_affine", "false") => without(&["bias", "weight"]),
        ("bidirectional", "true") => and(entries.iter().map(|entry| entry.replace("_l0", "_l0_reverse")).collect()),
        ("num_layers", "2") => {
            // The second layer reads the first one's output, as the recurrent weights do.
            let recurrent = entries.iter().find_map(|entry| entry.strip_prefix("weight_hh_l0 ")).unwrap_or_default();
            let second = |entry: &&str| match entry.split_once(' ') {
                Some(("weight_ih_l0", _)) => format!("weight_ih_l1 {recurrent}"),
                _ => entry.replace("_l0", "_l1"),
            };
            and(entries.iter().map(second).collect())
        }
        _ => tensors.to_owned(),
    }
}

/// Tensors of these names and shapes, below the layer's name.
fn tensors(text: &str) -> BTreeMap<String, Tensor> {
    let tensor = |entry: &str| {
        let (name, shape) = entry.trim().split_once(' ').expect("a tensor has a name and a shape");
        let shape: Vec<usize> = shape.split('x').map(|dim| dim.parse().expect("a dimension is a number")).collect();
        let least = if name.ends_with("var") { 7.0 } else { 0.0 };
        let value = |k: usize| (((7 * k + name.len()) % 13) as f32 - 6.0 + least) / 10.0;
        let name = if name.starts_with("end.") { name.to_owned() } else { format!("layer.{name}") };
        (name, Tensor { data: (0..shape.iter().product()).map(value).collect(), shape })
    };
    text.split(',').filter(|entry| !entry.trim_matches(['-', ' ']).is_empty()).map(tensor).collect()
}

fn model(of: &Class, args: &Value, named: &str) -> Result<Canonical, String> {
    let input: Value = serde_json::from_str(of.input).expect("a size is JSON");
    let tensors = tensors(named);
    // A graph of one layer that passes on its input is no model.
    let end = if tensors.contains_key("end.weight") { "Linear" } else { "Tanh" };
    let layers = json!([
        {"name": "layer", "class": of.class, "args": args, "inputs": if of.class == "Concat" { vec!["x", "x"] } else { vec!["x"] }},
        {"name": "end", "class": end},
    ]);
    let text = json!({"inputs": [{"name": "x", "size": input, "steps": 6}], "layers": layers});
    let description: Description = serde_json::from_value(text).expect("it is an architecture");
    description.model("torch", &tensors, None, "").map(|imported| imported.model).map_err(|error| error.to_string())
}

#[test]
fn every_argument_of_pytorch_s_layers_is_honored_harmless_or_refused() {
    let (mut table, mut wrong) = (Table::new(), Vec::new());
    for of in &CLASSES {
        let args: Value = serde_json::from_str(of.args).expect("arguments are JSON");
        let base = model(of, &args, of.tensors).unwrap_or_else(|error| panic!("{}: {error}", of.class));
        let found = table.entry(of.class.to_owned()).or_default();
        for &(name, value, named) in of.tries.iter().chain(&FOREIGN) {
            let mut args = args.clone();
            args[name] = serde_json::from_str(value).expect("a value is JSON");
            let named = if named.is_empty() { adapted(of.tensors, name, value) } else { named.to_owned() };
            let outcome = match model(of, &args, &named) {
                Ok(model) if model == base => Outcome::Harmless,
                Ok(_) => Outcome::Honored,
                Err(error) if error.contains(name) => Outcome::Refused,
                Err(error) => {
                    wrong.push(format!("{} {name} = {value} is refused without its name: {error}", of.class));
                    continue;
                }
            };
            found.entry(name.to_owned()).or_default().push((value.to_owned(), outcome));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let words = words("tools/model/src/format", "Case<");
    let classes =
        accepted(&words, |class| format!("class {class:?}"), |class| bare("torch", class, &Args::new()).err());
    add_bare(&mut table, "torch", &classes, &words);
    complete("docs/pytorch.md", &table, &classes);
    written("docs/pytorch.md", &table, "class");
}
