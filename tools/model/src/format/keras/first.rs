//! Differences of Keras 1: names of classes and arguments, a separate tensor for each gate, and, with Theano, mirrored
//! convolutions. Keras 2 reads these files in the same way.

use serde_json::{Map, Value as Json};

use super::variables::Variable;
use crate::format::refuse::err_if;
use crate::{canonical::Tensor, data::one_line, error::ImportError, error::Result};

/// Other names of a variable in Keras 1 and in Keras 2 with Theano, and of a depthwise kernel in Keras 3.
pub(super) fn names(variable: &str, class: &str) -> &'static [&'static str] {
    match variable {
        "kernel" | "embeddings" => &["W"],
        "depthwise_kernel" if class.starts_with("Depthwise") => &["kernel"],
        "recurrent_kernel" => &["U"],
        "bias" => &["b"],
        "moving_mean" => &["running_mean"],
        "moving_variance" => &["running_std"],
        "alpha" => &["alphas"],
        _ => &[],
    }
}

/// The names of the gates in Keras 1, in the order of Keras 2.
fn gates(class: &str) -> &'static [&'static str] {
    match class {
        "LSTM" | "ConvLSTM2D" => &["i", "f", "c", "o"],
        "GRU" => &["z", "r", "h"],
        _ => &[],
    }
}

/// Concatenates the tensors of layers that have three tensors for each gate, `W_i`, `U_i`, `b_i` and so on. `classes`
/// are the classes of the layers that own the variables, in the order of the variables.
pub(super) fn merged(saved: Vec<(String, Tensor)>, classes: &[&str]) -> Result<Vec<(String, Tensor)>> {
    if saved.len() <= classes.len() {
        return Ok(saved);
    }
    // Removes the suffix `:0` of TensorFlow.
    let own_name = |name: &str| name.rsplit_once(':').map_or(name, |(name, _)| name).to_owned();
    let saved = saved.into_iter().map(|(name, tensor)| (own_name(&name), tensor));
    let mut merged = Vec::new();
    let mut rest = saved.peekable();
    let mut classes = classes.iter();
    while let Some(&class) = classes.next() {
        let gates = gates(class);
        let apart = rest.peek().is_some_and(|(name, _)| gates.iter().any(|gate| name.ends_with(&format!("_W_{gate}"))));
        if !apart {
            merged.extend(rest.next());
            continue;
        }
        // One class for each of kernel, recurrent kernel and bias; the first is already taken.
        classes.nth(1);
        let own: Vec<(String, Tensor)> = rest.by_ref().take(3 * gates.len()).collect();
        for kind in ["W", "U", "b"] {
            let mut parts = Vec::new();
            for gate in gates {
                let end = format!("_{kind}_{gate}");
                match own.iter().find(|(name, _)| name.ends_with(&end)) {
                    Some((_, tensor)) => parts.push(tensor),
                    None => return Err(ImportError::MissingTensor { tensor: end }),
                }
            }
            let name = own.first().map_or("", |(name, _)| name.rsplit_once("_W_").map_or("", |(scope, _)| scope));
            merged.push((format!("{name}_{kind}"), beside(&parts)?));
        }
    }
    merged.extend(rest);
    Ok(merged)
}

/// Concatenates tensors along their last dimension.
fn beside(parts: &[&Tensor]) -> Result<Tensor> {
    let refuse = || ImportError::Unsupported("gates whose tensors have different shapes".into());
    let first = parts.first().ok_or_else(refuse)?;
    let (width, outer) = first.shape.split_last().ok_or_else(refuse)?;
    err_if(*width == 0 || parts.iter().any(|part| part.shape != first.shape), refuse)?;
    let rows = first.data.len() / width;
    let row = |row: usize| parts.iter().flat_map(move |part| part.data.chunks(*width).nth(row)).flatten().copied();
    let mut shape = outer.to_vec();
    shape.push(width * parts.len());
    Ok(Tensor { shape, data: (0..rows).flat_map(row).collect() })
}

/// Removes the second tap dimension of a `Conv1D`, which Keras 1 ran over an image one pixel wide.
pub(super) fn flattened(variable: &Variable, tensor: &mut Tensor) {
    if variable.class == "Conv1D"
        && let [taps, 1, channels, filters] = *tensor.shape
    {
        tensor.shape = vec![taps, channels, filters];
    }
}

/// Reverses the taps, the leading dimensions, of a convolution: Theano's run over an image in the opposite direction.
pub(super) fn mirror(variable: &Variable, tensor: &mut Tensor) {
    let conv = matches!(variable.class.as_str(), "Conv1D" | "Conv2D" | "Conv3D" | "ConvLSTM2D");
    let kernel = variable.name.ends_with("kernel");
    let Some((_, taps)) = tensor.shape.split_last_chunk::<2>().map(|(taps, last)| (last, taps)) else { return };
    let positions: usize = taps.iter().product();
    if !conv || !kernel || positions == 0 {
        return;
    }
    let each = tensor.data.len() / positions;
    tensor.data = tensor.data.chunks(each.max(1)).rev().flatten().copied().collect();
}

/// A class and its arguments in the names of Keras 2.
pub(super) fn arguments(class: &str, config: &Map<String, Json>) -> Result<(String, Map<String, Json>)> {
    let class = match class {
        "Convolution1D" | "AtrousConvolution1D" => "Conv1D",
        "Convolution2D" | "AtrousConvolution2D" => "Conv2D",
        "SeparableConvolution2D" => "SeparableConv2D",
        "TimeDistributedDense" => "Dense",
        "Merge" => match config.get("mode").and_then(Json::as_str) {
            Some("concat") => "Concatenate",
            Some("sum") => "Add",
            Some("mul") => "Multiply",
            Some("ave") => "Average",
            Some("max") => "Maximum",
            _ => {
                let of = "a Merge of another mode than concat, sum, mul, ave or max";
                return Err(ImportError::Unsupported(of.into()));
            }
        },
        other => other,
    };
    let recurrent = matches!(class, "LSTM" | "GRU" | "SimpleRNN") || class == "ConvLSTM2D";
    let mut args = Map::new();
    let pair = |config: &Map<String, Json>, keys: [&str; 2]| -> Option<Json> {
        Some(vec![config.get(keys[0])?.clone(), config.get(keys[1])?.clone()].into())
    };
    for (name, value) in config {
        let known = match name.as_str() {
            same @ ("output_dim" | "input_dim") if class == "Embedding" => same,
            "output_dim" => "units",
            "inner_activation" if recurrent => "recurrent_activation",
            "dropout_W" => "dropout",
            "dropout_U" => "recurrent_dropout",
            "nb_filter" => "filters",
            "filter_length" => "kernel_size",
            "subsample" | "subsample_length" | "stride" => "strides",
            "atrous_rate" => "dilation_rate",
            "border_mode" => "padding",
            "pool_length" => "pool_size",
            "bias" => "use_bias",
            "p" => "rate",
            "n" if class == "RepeatVector" => "n",
            "dim_ordering" => {
                let format = match value.as_str() {
                    Some("th") => "channels_first",
                    Some("default") | None => continue,
                    _ => "channels_last",
                };
                args.insert("data_format".into(), format.into());
                continue;
            }
            "concat_axis" if class == "Concatenate" => "axis",
            // Other arguments of a Merge. Its layers are its inputs.
            "mode" | "mode_type" | "concat_axis" | "dot_axes" | "output_shape" | "output_shape_type"
            | "output_mask" | "output_mask_type" | "arguments" | "layers" | "node_indices" | "tensor_indices"
                if config.contains_key("dot_axes") =>
            {
                continue;
            }
            // Arguments that the weights determine, and arguments of training.
            "init" | "inner_init" | "forget_bias_init" | "weights" | "gamma_init" | "beta_init" | "input_length"
            | "consume_less" | "nb_row" | "nb_col" | "input_dim" | "W_regularizer" | "U_regularizer"
            | "b_regularizer" | "W_constraint" | "U_constraint" | "b_constraint" | "gamma_regularizer"
            | "beta_regularizer" | "sigma" => continue,
            "mode" if class == "BatchNormalization" && value.as_u64() == Some(0) => continue,
            other => other,
        };
        args.insert(known.to_owned(), value.clone());
    }
    if let Some(size) = pair(config, ["nb_row", "nb_col"]) {
        args.insert("kernel_size".into(), size);
    }
    // The default of Keras 1.
    if recurrent && class != "SimpleRNN" {
        args.entry("recurrent_activation").or_insert("hard_sigmoid".into());
    }
    if class == "Highway" || class == "MaxoutDense" {
        return Err(ImportError::Unsupported(one_line(&format!("class {class:?} of Keras 1"))));
    }
    Ok((class.to_owned(), args))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tensor(shape: &[usize], data: &[f32]) -> Tensor {
        Tensor { shape: shape.to_vec(), data: data.to_vec() }
    }

    #[test]
    fn tensors_of_gates_become_those_of_a_layer_in_the_order_of_keras_2() {
        let gates = ["z", "r", "h"];
        let saved = gates.iter().zip([1.0, 2.0, 3.0]).flat_map(|(gate, k)| {
            let named =
                |kind: &str, shape: &[usize], data: &[f32]| (format!("gru_1_{kind}_{gate}:0"), tensor(shape, data));
            [named("W", &[2, 1], &[k, 10.0 * k]), named("U", &[1, 1], &[-k]), named("b", &[1], &[0.5 * k])]
        });
        let dense = ("dense_1_W:0".to_owned(), tensor(&[1, 1], &[7.0]));
        let saved = saved.chain([dense]).collect();
        let merged = merged(saved, &["GRU", "GRU", "GRU", "Dense"]).unwrap();
        let names: Vec<&str> = merged.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["gru_1_W", "gru_1_U", "gru_1_b", "dense_1_W"]);
        assert_eq!(merged[0].1, tensor(&[2, 3], &[1.0, 2.0, 3.0, 10.0, 20.0, 30.0]));
        assert_eq!(merged[1].1, tensor(&[1, 3], &[-1.0, -2.0, -3.0]));
        assert_eq!(merged[2].1, tensor(&[3], &[0.5, 1.0, 1.5]));
    }

    #[test]
    fn a_gate_that_is_missing_is_named() {
        let saved = (0..9).map(|k| (format!("gru_1_W_{}", ["z", "r"][k % 2]), tensor(&[1, 1], &[0.0]))).collect();
        assert!(merged(saved, &["GRU"; 3]).unwrap_err().to_string().contains("_W_h"));
    }

    #[test]
    fn theano_s_kernels_are_turned_along_every_axis_of_taps() {
        let variable = Variable { name: "kernel".into(), path: String::new(), trained: true, class: "Conv2D".into() };
        let mut kernel = tensor(&[2, 2, 1, 2], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
        mirror(&variable, &mut kernel);
        assert_eq!(kernel.data, [6.0, 7.0, 4.0, 5.0, 2.0, 3.0, 0.0, 1.0]);
        let dense = Variable { class: "Dense".into(), ..variable };
        let before = kernel.clone();
        mirror(&dense, &mut kernel);
        assert_eq!(kernel, before);
    }

    #[test]
    fn arguments_have_the_names_of_keras_2() {
        let of = |class: &str, config: &Json| {
            let (class, args) = arguments(class, config.as_object().unwrap()).unwrap();
            json!([class, args])
        };
        let conv = json!({"nb_filter": 4, "nb_row": 3, "nb_col": 2, "subsample": [2, 1], "border_mode": "same",
            "dim_ordering": "tf", "bias": true, "init": "glorot_uniform", "W_regularizer": null});
        assert_eq!(
            of("Convolution2D", &conv),
            json!(["Conv2D", {"filters": 4, "kernel_size": [3, 2], "strides": [2, 1], "padding": "same",
                "data_format": "channels_last", "use_bias": true}])
        );
        let lstm = json!({"output_dim": 5, "inner_activation": "sigmoid", "consume_less": "cpu", "input_dim": 3});
        assert_eq!(of("LSTM", &lstm), json!(["LSTM", {"units": 5, "recurrent_activation": "sigmoid"}]));
        assert_eq!(of("GRU", &json!({})), json!(["GRU", {"recurrent_activation": "hard_sigmoid"}]));
        let merge = json!({"mode": "sum", "dot_axes": -1, "concat_axis": -1, "layers": []});
        assert_eq!(of("Merge", &merge), json!(["Add", {}]));
        assert!(arguments("Merge", json!({"mode": "cos"}).as_object().unwrap()).is_err());
    }
}
