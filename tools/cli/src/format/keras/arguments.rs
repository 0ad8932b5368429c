//! The arguments of Keras's layers as its files have them: without those of training, in the names of Keras 2 and 3.

use serde_json::{Map, Value as Json};

use super::config::{Generation, is_model, part, wrong};
use super::first;
use crate::data::one_line;
use crate::error::ImportError;
use crate::format::description::{Description, LayerDescription, Take};

pub(super) fn custom_object(layer: &str, class: &str) -> ImportError {
    ImportError::Layer {
        layer: layer.escape_debug().to_string(),
        class: class.escape_debug().to_string(),
        source: Box::new(ImportError::Refused {
            found: "its class is a program's own, which is not in the file".into(),
            advice: "build the network of Keras's own layers and load the weights into it, then save that",
        }),
    }
}

/// What does not change what a trained network computes.
pub(super) fn is_of_training(argument: &str) -> bool {
    const ENDS: [&str; 3] = ["_initializer", "_regularizer", "_constraint"];
    const NAMES: [&str; 15] = [
        "name",
        "dtype",
        "seed",
        "dropout",
        "recurrent_dropout",
        "unit_forget_bias",
        "implementation",
        "unroll",
        "batch_input_shape",
        "batch_shape",
        "build_config",
        "noise_shape",
        "input_dtype",
        "autocast",
        "quantization_config",
    ];
    NAMES.contains(&argument) || ENDS.iter().any(|end| argument.ends_with(end))
}

/// A description in the words of Keras 1 in those of Keras 2.
pub(super) fn upgraded(mut description: Description) -> Result<Description, ImportError> {
    for layer in &mut description.layers {
        (layer.class, layer.args) = arguments(Generation::First, &layer.class, &layer.args, &layer.name)?;
    }
    Generation::First.framework().clone_into(&mut description.framework);
    Ok(description)
}

/// A class and its arguments as Keras 2 and 3 have them, without those of training. Layers within it are the same.
pub(super) fn arguments(
    generation: Generation,
    class: &str,
    config: &Map<String, Json>,
    layer: &str,
) -> Result<(String, Map<String, Json>), ImportError> {
    let (class, mut config) = match generation {
        Generation::First => first::arguments(class, config)?,
        _ => (class.to_owned(), config.clone()),
    };
    if let Some((_, own)) = class.split_once('>') {
        return Err(custom_object(layer, own));
    }
    if let Some(policy) = config.get("dtype").and_then(|dtype| dtype.get("class_name"))
        && policy.as_str().is_some_and(|policy| policy.starts_with("Quantized"))
    {
        return Err(ImportError::Unsupported(one_line(&format!("layer {layer:?} with dtype {policy}"))));
    }
    let is_trained = |name: &str, value: &Json| name == "trainable" && *value == Json::Bool(true);
    config.retain(|name, value| !(is_of_training(name) || is_trained(name, value)));
    // Before Keras had the argument, a GRU reset before the product.
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
    // An activation that is a layer: `{"class_name": "LeakyReLU", "config": {...}}`; and the name of a function in Keras 3.
    for (_, value) in config.iter_mut().filter(|(name, _)| name.ends_with("activation")) {
        if let Some(function) = value.as_object().filter(|object| object.get("class_name") == Some(&"function".into()))
        {
            *value = function.get("config").cloned().unwrap_or_default();
        }
    }
    Ok((class, config))
}

/// Later, the directions of a `Bidirectional` have given zeros where a step does not count.
pub(super) fn idle_directions(generation: Generation, class: &str, args: &mut Map<String, Json>) {
    if class != "Bidirectional" || !matches!(generation, Generation::First | Generation::Alone) {
        return;
    }
    for key in ["layer", "backward_layer"] {
        if let Some(inner) = args.get_mut(key).and_then(|inner| inner.get_mut("config")?.as_object_mut()) {
            inner.insert("zero_output_for_mask".into(), false.into());
        }
    }
}

/// A layer as an argument of another one.
fn inner_layer(generation: Generation, json: &Json, layer: &str) -> Result<Json, ImportError> {
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
        None => return wrong(format!("layer {layer:?} holds one without arguments")),
    };
    let mut object = Map::new();
    object.insert("class_name".into(), class.into());
    object.insert("config".into(), args);
    Ok(object.into())
}

/// Which outputs count is said beside the arguments, and whether the state is carried on.
pub(super) fn over_time(layer: &mut LayerDescription) {
    let recurrent = |class: &str| {
        matches!(class, "LSTM" | "GRU" | "SimpleRNN" | "RNN" | "CuDNNLSTM" | "CuDNNGRU")
            || class.starts_with("ConvLSTM")
    };
    let of = match layer.class.as_str() {
        class if recurrent(class) => Some(&mut layer.args),
        "Bidirectional" => {
            // Both layers have the same.
            let inner = layer.args.get("layer").and_then(|inner| inner.get("config")).and_then(Json::as_object);
            let flag = |name: &str| inner.and_then(|inner| inner.get(name)).and_then(Json::as_bool).unwrap_or(false);
            layer.take = if flag("return_sequences") { Take::Sequence } else { Take::Final };
            layer.stateful = flag("stateful");
            None
        }
        _ => None,
    };
    if let Some(args) = of {
        let sequences = args.remove("return_sequences").and_then(|value| value.as_bool()).unwrap_or(false);
        layer.take = if sequences { Take::Sequence } else { Take::Final };
        layer.stateful = args.remove("stateful").and_then(|value| value.as_bool()).unwrap_or(false);
        args.remove("return_state");
    }
}
