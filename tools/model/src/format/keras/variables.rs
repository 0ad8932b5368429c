//! The variables of Keras's layers in Keras's own order. Files of Keras 1 and 2 identify them by this order, files of
//! Keras 3 by attribute path and number.

use std::collections::HashMap;

use serde_json::{Map, Value as Json};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Variable {
    /// Name among the layer's tensors: `forward/kernel`.
    pub name: String,
    /// Path below the layer in a Keras 3 file.
    pub path: String,
    /// Whether the variable is trained. Files of Keras 1 and 2 list trained variables first.
    pub trained: bool,
    /// Class of the innermost layer that owns the variable.
    pub class: String,
}

pub(super) type Layer<'a> = (&'a str, &'a Map<String, Json>);

/// The variables of a layer; empty if it has none or its class is unknown.
pub(super) fn of(layer: Layer<'_>) -> Vec<Variable> {
    let mut found = Vec::new();
    collect(layer, "", "", true, &mut found);
    found
}

fn collect(layer: Layer<'_>, scope: &str, path: &str, trained: bool, found: &mut Vec<Variable>) {
    let (class, args) = layer;
    let trained = trained && args.get("trainable") != Some(&Json::Bool(false));
    let mut inner = |layer: Option<Layer<'_>>, name: &str, attribute: &str| {
        if let Some(layer) = layer {
            collect(layer, &format!("{scope}{name}/"), &format!("{path}{attribute}/"), trained, found);
        }
    };
    match class {
        "Bidirectional" => {
            let forward = layer_in(args.get("layer"));
            inner(forward, "forward", "forward_layer");
            inner(layer_in(args.get("backward_layer")).or(forward), "backward", "backward_layer");
        }
        "TimeDistributed" => inner(layer_in(args.get("layer")), "layer", "layer"),
        "RNN" => {
            let (cells, stacked) = cells(args.get("cell"));
            let names = numbered(cells.iter().map(|(class, _)| *class));
            for (k, (cell, name)) in cells.into_iter().zip(names).enumerate() {
                let attribute = if stacked { format!("cell/cells/{name}") } else { "cell".to_owned() };
                inner(Some(cell), &k.to_string(), &attribute);
            }
        }
        _ => {
            // A recurrent layer stores the variables of its cell.
            let cell = matches!(class, "LSTM" | "GRU" | "SimpleRNN") || class.starts_with("ConvLSTM");
            let attribute = if cell { "cell/vars" } else { "vars" };
            found.extend(own(class, args).into_iter().enumerate().map(|(k, (name, kept))| Variable {
                name: format!("{scope}{name}"),
                path: format!("{path}{attribute}/{k}"),
                trained: trained && !kept,
                class: class.to_owned(),
            }));
        }
    }
}

pub(super) fn layer_in(json: Option<&Json>) -> Option<Layer<'_>> {
    let json = json?;
    Some((json.get("class_name")?.as_str()?, json.get("config")?.as_object()?))
}

/// The cells of an `RNN`, and whether they are stacked (a list of cells or `StackedRNNCells`).
pub(super) fn cells(cell: Option<&Json>) -> (Vec<Layer<'_>>, bool) {
    let list = match cell {
        Some(Json::Array(cells)) => Some(cells),
        cell => match layer_in(cell) {
            Some(("StackedRNNCells", args)) => args.get("cells").and_then(Json::as_array),
            _ => None,
        },
    };
    match list {
        Some(cells) => (cells.iter().filter_map(|cell| layer_in(Some(cell))).collect(), true),
        None => (layer_in(cell).into_iter().collect(), false),
    }
}

/// Names of a layer's own variables, and whether each is excluded from training.
fn own(class: &str, args: &Map<String, Json>) -> Vec<(&'static str, bool)> {
    let has = |flag: &str| args.get(flag) != Some(&Json::Bool(false));
    let with_bias = |names: &[&'static str]| {
        let bias = has("use_bias").then_some("bias");
        names.iter().copied().chain(bias).map(|name| (name, false)).collect::<Vec<_>>()
    };
    let affine = || {
        let [gamma, beta] =
            [("scale", "gamma"), ("center", "beta")].map(|(flag, name)| has(flag).then_some((name, false)));
        gamma.into_iter().chain(beta)
    };
    match class {
        "Dense" | "Conv1D" | "Conv2D" | "Conv3D" => with_bias(&["kernel"]),
        "DepthwiseConv1D" | "DepthwiseConv2D" => with_bias(&["depthwise_kernel"]),
        "SeparableConv1D" | "SeparableConv2D" => with_bias(&["depthwise_kernel", "pointwise_kernel"]),
        "LSTM" | "GRU" | "SimpleRNN" | "LSTMCell" | "GRUCell" | "SimpleRNNCell" | "ConvLSTM1D" | "ConvLSTM2D"
        | "ConvLSTM3D" => with_bias(&["kernel", "recurrent_kernel"]),
        "CuDNNLSTM" | "CuDNNGRU" => ["kernel", "recurrent_kernel", "bias"].map(|name| (name, false)).to_vec(),
        "BatchNormalization" => affine().chain([("moving_mean", true), ("moving_variance", true)]).collect(),
        "LayerNormalization" => affine().collect(),
        "Embedding" => vec![("embeddings", false)],
        // Statistics computed by `adapt`.
        "Normalization" if args.get("mean").is_none_or(Json::is_null) => {
            ["mean", "variance", "count"].map(|name| (name, true)).to_vec()
        }
        "PReLU" => vec![("alpha", false)],
        "AttentionWeightedAverage" => vec![("W", false)],
        _ => Vec::new(),
    }
}

/// Names of a layer's parts as Keras 3 derives them from their classes: `lstm_cell`, `lstm_cell_1`.
pub(super) fn numbered<'a>(classes: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut used: HashMap<String, usize> = HashMap::new();
    let name = |class| {
        let name = snake_case(class);
        let count = used.entry(name.clone()).or_insert(0);
        *count += 1;
        if *count == 1 { name } else { format!("{name}_{}", *count - 1) }
    };
    classes.map(name).collect()
}

/// Converts a class name to snake case: `Conv1D` to `conv1d`, `SimpleRNN` to `simple_rnn`, `PReLU` to `p_re_lu`.
fn snake_case(class: &str) -> String {
    let chars: Vec<char> = class.chars().filter(|c| c.is_alphanumeric() || *c == '_').collect();
    // First inserts a break before each capital followed by lowercase letters, then between a lowercase letter and a
    // capital.
    let mut first = String::new();
    let mut k = 0;
    while let Some(&c) = chars.get(k) {
        let begins = c.is_ascii_uppercase() && chars.get(k + 1).is_some_and(char::is_ascii_lowercase);
        if k > 0 && begins {
            first.push('_');
        }
        first.push(c);
        k += 1;
        while let Some(&small) = chars.get(k).filter(|c| begins && c.is_ascii_lowercase()) {
            first.push(small);
            k += 1;
        }
    }
    let mut name = String::new();
    let mut before = ' ';
    for c in first.chars() {
        if before.is_ascii_lowercase() && c.is_ascii_uppercase() {
            name.push('_');
        }
        before = c;
        name.extend(c.to_lowercase());
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_classes_are_those_that_keras_makes() {
        let pairs = [
            ("LSTM", "lstm"),
            ("SimpleRNN", "simple_rnn"),
            ("SimpleRNNCell", "simple_rnn_cell"),
            ("Conv1D", "conv1d"),
            ("ConvLSTM2D", "conv_lstm2d"),
            ("BatchNormalization", "batch_normalization"),
            ("PReLU", "p_re_lu"),
            ("DepthwiseConv2D", "depthwise_conv2d"),
            ("GlobalAveragePooling1D", "global_average_pooling1d"),
            ("StackedRNNCells", "stacked_rnn_cells"),
        ];
        for (class, name) in pairs {
            assert_eq!(snake_case(class), name);
        }
        assert_eq!(numbered(["LSTM", "GRU", "LSTM"].into_iter()), ["lstm", "gru", "lstm_1"]);
    }
}
