//! The arguments of Keras's layers, as read from its files: training arguments are dropped, and names are converted to
//! those of Keras 2 and 3.

use serde_json::{Map, Value as Json, json};

use super::first;
use super::part::{Generation, custom_object, is_model, part, wrong};
use crate::format::description::{Description, LayerDescription, Take};
use crate::{data::one_line, error::ImportError, error::Result};

type Args = Map<String, Json>;

/// Whether an argument has no effect on the output of a trained network.
pub(super) fn is_of_training(argument: &str) -> bool {
    const ENDS: [&str; 3] = ["_initializer", "_regularizer", "_constraint"];
    const NAMES: &str = "name dtype seed dropout recurrent_dropout unit_forget_bias implementation unroll \
                         batch_input_shape batch_shape build_config noise_shape input_dtype autocast";
    NAMES.split(' ').any(|name| name == argument) || ENDS.iter().any(|end| argument.ends_with(end))
}

/// Whether an argument is a boolean. Python accepts a number instead, and files store that number: `scale=1`.
fn is_flag(class: &str, argument: &str) -> bool {
    const NAMES: &str = "center fused go_backwards invert keepdims mask_zero renorm reset_after return_sequences \
                         return_state stateful synchronized time_major trainable unroll use_bias zero_output_for_mask";
    (argument == "scale" && class.ends_with("Normalization")) || NAMES.split(' ').any(|name| name == argument)
}

/// Whether a dtype is that of a layer with float weights. A policy is an object in a file; those of quantized layers have
/// other classes or, as texts, name two types.
fn is_of_floats(dtype: &Json) -> bool {
    match dtype.get("class_name") {
        Some(class) => ["DTypePolicy", "FloatDTypePolicy", "Policy", "PolicyV1"].iter().any(|known| class == known),
        None => !dtype.as_str().is_some_and(|name| name.contains("_from_")),
    }
}

/// Translates a description from the names of Keras 1 to those of Keras 2.
pub(super) fn upgraded(mut description: Description) -> Result<Description> {
    for layer in &mut description.layers {
        (layer.class, layer.args) = arguments(Generation::First, &layer.class, &layer.args, &layer.name)?;
    }
    Generation::First.framework().clone_into(&mut description.framework);
    Ok(description)
}

/// A class and its arguments in the names of Keras 2 and 3, without training arguments. Inner layers are converted too.
pub(super) fn arguments(generation: Generation, class: &str, config: &Args, layer: &str) -> Result<(String, Args)> {
    let (class, mut config) = match generation {
        Generation::First => first::arguments(class, config)?,
        _ => (class.to_owned(), config.clone()),
    };
    for (_, value) in config.iter_mut().filter(|(name, _)| is_flag(&class, name)) {
        if let Some(number) = value.as_f64() {
            *value = (number != 0.0).into();
        }
    }
    if let Some((_, own)) = class.split_once('>') {
        return Err(custom_object(layer, own));
    }
    if let Some(policy) = config.get("dtype").filter(|dtype| !is_of_floats(dtype)) {
        return Err(ImportError::Unsupported(one_line(&format!("layer {layer:?} with dtype {policy}"))));
    }
    // These arguments add weights to those of the layer that the class names.
    let adds_weights = |(name, value): &(&String, &Json)| match name.as_str() {
        "renorm" => **value == Json::Bool(true),
        "lora_rank" => !value.is_null(),
        "use_scale" => class == "Attention" && **value == Json::Bool(true),
        "score_mode" => **value == "concat",
        _ => false,
    };
    if let Some((name, value)) = config.iter().find(adds_weights) {
        return Err(ImportError::Unsupported(one_line(&format!("layer {layer:?} with {name} = {value}"))));
    }
    let is_trained = |name: &str, value: &Json| name == "trainable" && *value == Json::Bool(true);
    config.retain(|name, value| !(is_of_training(name) || is_trained(name, value)));
    // Before Keras had this argument, a GRU applied the reset gate before the product.
    if class.starts_with("GRU") && generation != Generation::Third {
        config.entry("reset_after").or_insert(false.into());
    }
    for key in ["layer", "backward_layer", "cell"] {
        if let Some(inner) = config.get(key) {
            let inner = inner_layer(generation, inner, layer)?;
            config.insert(key.to_owned(), inner);
        }
    }
    if let Some(Json::Array(cells)) = config.get("cells") {
        let cells = cells.iter().map(|cell| inner_layer(generation, cell, layer)).collect::<Result<Vec<_>, _>>()?;
        config.insert("cells".to_owned(), cells.into());
    }
    idle_directions(generation, &class, &mut config);
    // An activation may be a layer, `{"class_name": "LeakyReLU", "config": {...}}`; Keras 3 may also write a function's
    // name this way.
    for (_, value) in config.iter_mut().filter(|(name, _)| name.ends_with("activation")) {
        if let Some(function) = value.as_object().filter(|object| object.get("class_name") == Some(&"function".into()))
        {
            *value = function.get("config").cloned().unwrap_or_default();
        }
    }
    Ok((class, config))
}

/// Marks the directions of a `Bidirectional` of early Keras, which do not output zeros at masked steps, unlike in later
/// versions.
pub(super) fn idle_directions(generation: Generation, class: &str, args: &mut Map<String, Json>) {
    if class != "Bidirectional" || !matches!(generation, Generation::First | Generation::Alone) {
        return;
    }
    for key in DIRECTIONS {
        if let Some(inner) = inner_args(args, key) {
            inner.insert("zero_output_for_mask".into(), false.into());
        }
    }
}

fn inner_layer(generation: Generation, json: &Json, layer: &str) -> Result<Json> {
    if json.is_null() {
        return Ok(Json::Null);
    }
    let part = part(json)?;
    let (class, args) = match part.config.as_object() {
        _ if is_model(part.class) => (part.class.to_owned(), part.config.clone()),
        Some(config) => {
            let (class, args) = arguments(generation, part.class, config, layer)?;
            (class, args.into())
        }
        None => return wrong(format!("layer {layer:?} has an inner layer without arguments")),
    };
    Ok(json!({"class_name": class, "config": args}))
}

/// Whether a layer of this class runs over time.
pub(super) fn runs_over_time(class: &str) -> bool {
    matches!(class, "LSTM" | "GRU" | "SimpleRNN" | "RNN" | "CuDNNLSTM" | "CuDNNGRU") || class.starts_with("ConvLSTM")
}

/// Moves the arguments for the returned outputs and for statefulness to their own fields of the layer.
pub(super) fn over_time(layer: &mut LayerDescription) {
    let args = match layer.class.as_str() {
        class if runs_over_time(class) => Some(&layer.args),
        // Both directions have the same values.
        "Bidirectional" => layer.args.get("layer").and_then(|inner| inner.get("config")).and_then(Json::as_object),
        _ => return,
    };
    let flag = |name: &str| args.and_then(|args| args.get(name)).and_then(Json::as_bool).unwrap_or(false);
    (layer.take, layer.stateful) =
        (if flag("return_sequences") { Take::Sequence } else { Take::Final }, flag("stateful"));
    let moved = |name: &str| matches!(name, "return_sequences" | "stateful" | "return_state");
    if layer.class != "Bidirectional" {
        layer.args.retain(|name, _| !moved(name));
    }
    for key in DIRECTIONS {
        inner_args(&mut layer.args, key).into_iter().for_each(|args| args.retain(|name, _| !moved(name)));
    }
}

/// The arguments of a `Bidirectional` that are layers.
const DIRECTIONS: [&str; 2] = ["layer", "backward_layer"];

fn inner_args<'a>(args: &'a mut Args, key: &str) -> Option<&'a mut Args> {
    args.get_mut(key)?.get_mut("config")?.as_object_mut()
}
