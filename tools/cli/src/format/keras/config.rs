//! Keras's own words for a model, which are JSON: `model.to_json()`, the attribute `model_config` of an `.h5`, `config.json`
//! in a `.keras`. Its generations have other names for some things, and other ways to say what a layer reads. Models
//! within a model become its layers: `features/dense`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value as Json};

use super::first;
use super::graph::{self, Call, Node, Read, ends};
use super::variables::numbered;
use crate::data::one_line;
use crate::error::ImportError;
use crate::format::description::{Description, Input, LayerDescription, Size, Take};

/// Layers and models, each as often as it is called.
const MAX_LAYERS: usize = 4096;

/// Which Keras has written a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Generation {
    /// Version 1, with names of its own.
    First,
    /// Version 2, also within TensorFlow.
    Second,
    /// Version 3.
    Third,
}

impl Generation {
    /// Of a version as Keras writes it: `2.2.4-tf`.
    pub fn of(version: &str) -> Self {
        match version.split('.').next() {
            Some("0" | "1") => Self::First,
            Some("2") => Self::Second,
            _ => Self::Third,
        }
    }

    /// Whose names of activations there are.
    pub fn framework(self) -> &'static str {
        match self {
            Self::First | Self::Second => "keras2",
            Self::Third => "keras3",
        }
    }
}

pub(super) fn wrong<T>(reason: impl AsRef<str>) -> Result<T, ImportError> {
    Err(ImportError::Malformed { format: "Keras model", reason: one_line(reason.as_ref()) })
}

/// A layer, or a model, as a model lists it.
struct Part<'a> {
    name: &'a str,
    class: &'a str,
    config: &'a Json,
    /// How it is called, once for each time.
    calls: &'a [Json],
}

/// The description of a model.
pub(super) fn describe(json: &Json, generation: Generation) -> Result<Description, ImportError> {
    let mut writer = Writer {
        generation,
        inputs: Vec::new(),
        layers: Vec::new(),
        names: BTreeSet::new(),
        calls: BTreeMap::new(),
        count: 0,
    };
    let class = json.get("class_name").and_then(Json::as_str).unwrap_or_default();
    let Some(config) = json.get("config") else { return wrong("its architecture has no class or no arguments") };
    let outputs = writer.model(class, config, json.pointer("/build_config/input_shape"), Place::default())?;
    let (inputs, layers) = (writer.inputs, writer.layers);
    let framework = generation.framework().to_owned();
    let mut seen = BTreeSet::new();
    let outputs = outputs.into_iter().filter(|name| seen.insert(name.clone())).collect();
    Ok(Description { framework, inputs, layers, outputs, ..Description::default() })
}

struct Writer {
    generation: Generation,
    inputs: Vec<Input>,
    layers: Vec<LayerDescription>,
    names: BTreeSet<String>,
    /// How often a layer has been called before.
    calls: BTreeMap<String, usize>,
    /// Calls of layers and of models.
    count: usize,
}

/// Where a model is.
#[derive(Clone, Copy, Default)]
struct Place<'a> {
    /// What the names of its layers begin with.
    scope: &'a str,
    /// The same of a file of Keras 3.
    path: &'a str,
    /// What it reads; the outermost model has inputs of its own.
    given: Option<&'a [String]>,
    /// Whether it knows nothing of time: it is within a `TimeDistributed`.
    each_step: bool,
}

impl Writer {
    /// Adds the layers of a model. Gives what it gives.
    fn model(
        &mut self,
        class: &str,
        config: &Json,
        built: Option<&Json>,
        place: Place<'_>,
    ) -> Result<Vec<String>, ImportError> {
        let parts = parts(class, config)?;
        let saved = saved_names(class, &parts);
        if class != "Sequential" {
            return self.graph(config, &parts, &saved, place);
        }
        let mut before: Vec<String> = match place.given {
            Some(given) => given.to_vec(),
            None => vec![self.sequential_input(config, built, &parts)?],
        };
        if before.len() != 1 {
            return wrong(format!("model {:?} reads {} values, but it is a Sequential", place.scope, before.len()));
        }
        for (part, saved) in parts.iter().zip(&saved).filter(|(part, _)| part.class != "InputLayer") {
            before = self.call(part, saved, &before, false, place)?;
        }
        Ok(before)
    }

    /// The same of a functional model.
    fn graph(
        &mut self,
        config: &Json,
        parts: &[Part<'_>],
        saved: &[String],
        place: Place<'_>,
    ) -> Result<Vec<String>, ImportError> {
        let (inputs, outputs) = (ends(config, "input_layers")?, ends(config, "output_layers")?);
        // What a read of a layer of this model is called.
        let mut values: BTreeMap<Read<'_>, String> = BTreeMap::new();
        for (k, read) in inputs.iter().enumerate() {
            let Some(part) = parts.iter().find(|part| part.name == read.0) else {
                return wrong(format!("its input {:?} is no layer", read.0));
            };
            let name = match place.given {
                Some(given) => given.get(k).cloned(),
                None => Some(self.input(part, parts)?),
            };
            let Some(name) = name else {
                return wrong(format!("model {:?} is called with too few inputs", place.scope));
            };
            values.insert(*read, name);
        }
        let nodes = parts.iter().map(|part| {
            let Part { name, class, calls, .. } = *part;
            Node { name, class, calls, is_model: is_model(class) }
        });
        let (calls, outputs) = graph::calls(&nodes.collect::<Vec<_>>(), &inputs, &outputs)?;
        let known = |values: &BTreeMap<Read<'_>, String>, read: &Read<'_>| match values.get(read) {
            Some(name) => Ok(name.clone()),
            None => {
                let of = format!("output {} of layer {:?} (a state, if the layer is recurrent)", read.2, read.0);
                Err(ImportError::Unsupported(one_line(&of)))
            }
        };
        for Call { node, call, reads, masked } in calls {
            let (Some(part), Some(saved)) = (parts.get(node), saved.get(node)) else { continue };
            let reads = reads.iter().map(|read| known(&values, read)).collect::<Result<Vec<_>, _>>()?;
            let outputs = self.call(part, saved, &reads, masked, place)?;
            for (index, output) in outputs.into_iter().enumerate() {
                values.insert((part.name, call, index), output);
            }
        }
        outputs.iter().map(|read| known(&values, read)).collect()
    }

    /// Calls a layer or a model once more.
    fn call(
        &mut self,
        part: &Part<'_>,
        saved: &str,
        read: &[String],
        masked: bool,
        place: Place<'_>,
    ) -> Result<Vec<String>, ImportError> {
        self.count += 1;
        if self.count > MAX_LAYERS {
            return wrong(format!("it has more than {MAX_LAYERS} layers"));
        }
        let (own, path) = (join(place.scope, part.name), join(place.path, saved));
        let within = Place { scope: &own, path: &path, given: Some(read), each_step: place.each_step };
        if is_model(part.class) {
            return self.model(part.class, part.config, None, within);
        }
        if let ("TimeDistributed", Some(inner)) = (part.class, part.config.get("layer"))
            && let Some(class) = inner.get("class_name").and_then(Json::as_str).filter(|class| is_model(class))
        {
            let path = join(&path, "layer");
            let config = inner.get("config").unwrap_or(inner);
            return self.model(class, config, None, Place { path: &path, each_step: true, ..within });
        }
        let Some(config) = part.config.as_object() else { return wrong(format!("layer {own:?} has no arguments")) };
        let (class, mut args) = arguments(self.generation, part.class, config, &own)?;
        for (argument, given) in [("each_step", place.each_step), ("masked", masked)] {
            if given {
                args.insert(argument.to_owned(), true.into());
            }
        }
        let count = self.calls.entry(own.clone()).or_insert(0);
        *count += 1;
        let name = if *count == 1 { own.clone() } else { format!("{own}:{count}") };
        let mut layer = LayerDescription {
            class,
            args,
            inputs: read.to_vec(),
            prefix: Some(own),
            saved: Some(path),
            ..LayerDescription::default()
        };
        over_time(&mut layer);
        // Both outputs of a Bidirectional are a layer each, of the same weights.
        let apart = layer.class == "Bidirectional" && layer.args.get("merge_mode").is_some_and(Json::is_null);
        let outputs: &[&str] = if apart { &["forward", "backward"] } else { &[""] };
        let mut names = Vec::new();
        for output in outputs {
            let mut layer = layer.clone();
            layer.name = if apart { format!("{name}/{output}") } else { name.clone() };
            while !self.names.insert(layer.name.clone()) {
                // An input of a model may be called as one of its layers.
                layer.name.push('_');
            }
            if apart {
                layer.args.insert("merge_mode".into(), (*output).into());
            }
            names.push(layer.name.clone());
            self.layers.push(layer);
        }
        Ok(names)
    }

    /// The input that the first layer of a Sequential, or the model itself, says.
    fn sequential_input(
        &mut self,
        config: &Json,
        built: Option<&Json>,
        parts: &[Part<'_>],
    ) -> Result<String, ImportError> {
        let Some(first) = parts.first() else { return wrong("it has no layers") };
        let shape = input_shape(first).or_else(|| config.get("build_input_shape")).or(built);
        let reader = parts.iter().find(|part| part.class != "InputLayer");
        let name = if first.class == "InputLayer" { first.name } else { "input" };
        self.new_input(name, shape, reader.is_some_and(reads_indices))
    }

    fn input(&mut self, part: &Part<'_>, parts: &[Part<'_>]) -> Result<String, ImportError> {
        let name = Json::from(part.name);
        let indices = parts
            .iter()
            .filter(|part| reads_indices(part))
            .any(|other| other.calls.iter().any(|call| graph::mentions(call, &name)));
        self.new_input(part.name, input_shape(part), indices)
    }

    /// `indices`: a number at each step stands for a row of a table.
    fn new_input(&mut self, name: &str, shape: Option<&Json>, indices: bool) -> Result<String, ImportError> {
        self.count += 1;
        if self.count > MAX_LAYERS {
            return wrong(format!("it has more than {MAX_LAYERS} layers"));
        }
        let shape = shape.and_then(Json::as_array);
        let Some([_, dims @ ..]) = shape.map(Vec::as_slice) else {
            return Err(ImportError::Unsupported(one_line(&format!(
                "input {name:?} without its shape (a model that was saved before it was built)"
            ))));
        };
        let dim = |dim: &Json| -> Result<Option<usize>, ImportError> {
            match dim.as_u64().and_then(|dim| usize::try_from(dim).ok()) {
                Some(dim) if dim > 0 => Ok(Some(dim)),
                _ if dim.is_null() => Ok(None),
                _ => wrong(format!("input {name:?} has a dimension {dim}")),
            }
        };
        let dims = dims.iter().map(dim).collect::<Result<Vec<_>, _>>()?;
        let (steps, size, vector) = match dims.as_slice() {
            [steps] if indices => (*steps, vec![], false),
            [size] => (None, vec![*size], true),
            [steps, size @ ..] => (*steps, size.to_vec(), false),
            [] => return wrong(format!("input {name:?} is one number")),
        };
        let Some(size) = size.into_iter().collect::<Option<Vec<usize>>>() else {
            return Err(ImportError::Unsupported(one_line(&format!(
                "input {name:?} of an unknown number of features"
            ))));
        };
        let size = match size.as_slice() {
            [] => Size::One(1),
            [size] => Size::One(*size),
            _ => Size::Shape(size),
        };
        let mut name = name.to_owned();
        while !self.names.insert(name.clone()) {
            name.push('_');
        }
        self.inputs.push(Input { name: name.clone(), size, steps, vector });
        Ok(name)
    }
}

fn join(scope: &str, name: &str) -> String {
    if scope.is_empty() { name.to_owned() } else { format!("{scope}/{name}") }
}

pub(super) fn is_model(class: &str) -> bool {
    matches!(class, "Sequential" | "Functional" | "Model")
}

fn text<'a>(json: &'a Map<String, Json>, key: &str) -> Option<&'a str> {
    json.get(key).and_then(Json::as_str)
}

/// The layers of a model. Keras 1 and the first of Keras 2 have no more than a list of a Sequential.
fn parts<'a>(class: &str, config: &'a Json) -> Result<Vec<Part<'a>>, ImportError> {
    if !is_model(class) {
        let of =
            format!("a model of class {class:?} (one that a program builds; export it as Sequential or functional)");
        return Err(ImportError::Unsupported(one_line(&of)));
    }
    let Some(layers) = config.get("layers").unwrap_or(config).as_array() else { return wrong("it lists no layers") };
    if layers.len() > MAX_LAYERS {
        return wrong(format!("it has more than {MAX_LAYERS} layers"));
    }
    layers.iter().map(part).collect()
}

fn part(json: &Json) -> Result<Part<'_>, ImportError> {
    let Some((layer, class, config)) =
        json.as_object().and_then(|layer| Some((layer, text(layer, "class_name")?, layer.get("config")?)))
    else {
        return wrong("a layer has no class or no arguments");
    };
    let name = text(layer, "name").or_else(|| config.get("name")?.as_str()).unwrap_or_default();
    if let Some(custom) = text(layer, "registered_name").filter(|name| name.contains('>')) {
        return Err(custom_object(name, custom));
    }
    let calls = layer.get("inbound_nodes").and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
    Ok(Part { name, class, config, calls })
}

fn custom_object(layer: &str, class: &str) -> ImportError {
    ImportError::Layer {
        layer: layer.escape_debug().to_string(),
        class: class.escape_debug().to_string(),
        source: Box::new(ImportError::Refused {
            found: "its class is a program's own, which is not in the file".into(),
            advice: "build the network of Keras's own layers and load the weights into it, then save that",
        }),
    }
}

/// Where a file of Keras 3 has the parts of a model.
fn saved_names(class: &str, parts: &[Part<'_>]) -> Vec<String> {
    // The input of a Sequential is none of its layers; what it is called does not count.
    let of_input = |class_of: &str| class == "Sequential" && class_of == "InputLayer";
    let classes = parts.iter().map(|part| if of_input(part.class) { "" } else { part.class });
    numbered(classes).into_iter().map(|name| format!("layers/{name}")).collect()
}

fn input_shape<'a>(part: &Part<'a>) -> Option<&'a Json> {
    let keys = ["batch_shape", "batch_input_shape"];
    keys.iter().find_map(|key| part.config.get(*key)).filter(|shape| shape.is_array())
}

fn reads_indices(part: &Part<'_>) -> bool {
    part.class == "Embedding"
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

/// A class and its arguments as Keras 2 and 3 have them, without those of training. Layers within it are the same.
fn arguments(
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
    // An activation that is a layer: `{"class_name": "LeakyReLU", "config": {...}}`; and the name of a function in Keras 3.
    for (_, value) in config.iter_mut().filter(|(name, _)| name.ends_with("activation")) {
        if let Some(function) = value.as_object().filter(|object| object.get("class_name") == Some(&"function".into()))
        {
            *value = function.get("config").cloned().unwrap_or_default();
        }
    }
    Ok((class, config))
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
fn over_time(layer: &mut LayerDescription) {
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
        args.remove("time_major");
    }
}
