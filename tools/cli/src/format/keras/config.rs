//! Keras's own words for a model, which are JSON: `model.to_json()`, the attribute `model_config` of an `.h5`, `config.json`
//! in a `.keras`. Its generations have other names for some things, and other ways to say what a layer reads. Models
//! within a model become its layers: `features/dense`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value as Json};

use super::first;
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
    /// What it reads, for each time that it is called.
    calls: Vec<Vec<Read<'a>>>,
}

/// An output of a layer: its name, which of its calls, which of the outputs.
type Read<'a> = (&'a str, u64, u64);

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
}

impl Writer {
    /// Adds the layers of a model. Gives what it gives.
    fn model(
        &mut self,
        class: &str,
        config: &Json,
        built: Option<&Json>,
        Place { scope, path, given }: Place<'_>,
    ) -> Result<Vec<String>, ImportError> {
        let parts = parts(class, config)?;
        let saved = saved_names(class, &parts);
        // What a read of a layer of this model is called.
        let mut values: BTreeMap<Read<'_>, String> = BTreeMap::new();
        let sequential = class == "Sequential";
        let mut before: Vec<String> = match (given, sequential) {
            (Some(given), _) => given.to_vec(),
            (None, true) => vec![self.sequential_input(config, built, &parts)?],
            (None, false) => Vec::new(),
        };
        if sequential {
            if before.len() != 1 {
                return wrong(format!("model {scope:?} reads {} values, but it is a Sequential", before.len()));
            }
            for (part, saved) in parts.iter().zip(&saved).filter(|(part, _)| part.class != "InputLayer") {
                before = self.call(part, scope, &join(path, saved), &before)?;
            }
            return Ok(before);
        }
        let (Some(inputs), Some(outputs)) = (ends(config, "input_layers"), ends(config, "output_layers")) else {
            return wrong("a model does not list its input_layers and output_layers");
        };
        for (k, read) in inputs.iter().enumerate() {
            let Some(part) = parts.iter().find(|part| part.name == read.0) else {
                return wrong(format!("its input {:?} is no layer", read.0));
            };
            let name = match given {
                Some(given) => given.get(k).cloned(),
                None => Some(self.input(part, &parts)?),
            };
            let Some(name) = name else { return wrong(format!("model {scope:?} is called with too few inputs")) };
            values.insert((part.name, 0, 0), name);
        }
        // Layers are listed nearly in order: each as soon as what it reads is there.
        let mut waiting: Vec<(usize, usize)> = Vec::new();
        for (k, part) in parts.iter().enumerate().filter(|(_, part)| part.class != "InputLayer") {
            waiting.extend((0..part.calls.len()).map(|call| (k, call)));
        }
        if waiting.len() > MAX_LAYERS {
            return wrong(format!("it has more than {MAX_LAYERS} layers"));
        }
        while !waiting.is_empty() {
            let mut later = Vec::new();
            let mut late = BTreeSet::new();
            let count = waiting.len();
            for (k, call) in waiting {
                let (Some(part), Some(saved)) = (parts.get(k), saved.get(k)) else { continue };
                let reads = part.calls.get(call).map(Vec::as_slice).unwrap_or_default();
                let read: Option<Vec<String>> = reads.iter().map(|read| values.get(read).cloned()).collect();
                // The calls of one layer are numbered in their order.
                match read.filter(|_| !late.contains(&k)) {
                    Some(read) => {
                        let outputs = self.call(part, scope, &join(path, saved), &read)?;
                        for (index, output) in outputs.into_iter().enumerate() {
                            values.insert((part.name, call as u64, index as u64), output);
                        }
                    }
                    None => {
                        late.insert(k);
                        later.push((k, call));
                    }
                }
            }
            if later.len() == count {
                let names = later.iter().filter_map(|&(k, call)| Some((parts.get(k)?, call)));
                let missing = names.flat_map(|(part, call)| {
                    part.calls.get(call).into_iter().flatten().map(move |read| (part.name, *read))
                });
                let mut missing = missing.filter(|(_, read)| !values.contains_key(read));
                let (layer, (read, _, output)) = missing.next().unwrap_or(("", ("", 0, 0)));
                if output > 0 {
                    let of = format!("output {output} of layer {read:?} (a state), which layer {layer:?} reads,");
                    return Err(ImportError::Unsupported(one_line(&of)));
                }
                return wrong(format!("layer {layer:?} reads {read:?}, which never comes: its graph has a circle"));
            }
            waiting = later;
        }
        let outputs = outputs.iter().map(|read| match values.get(read) {
            Some(name) => Ok(name.clone()),
            None if read.2 > 0 => {
                Err(ImportError::Unsupported(one_line(&format!("output {} of layer {:?} (a state)", read.2, read.0))))
            }
            None => wrong(format!("its output {:?} is no layer", read.0)),
        });
        outputs.collect()
    }

    /// Calls a layer or a model once more.
    fn call(&mut self, part: &Part<'_>, scope: &str, path: &str, read: &[String]) -> Result<Vec<String>, ImportError> {
        self.count += 1;
        if self.count > MAX_LAYERS {
            return wrong(format!("it has more than {MAX_LAYERS} layers"));
        }
        let own = join(scope, part.name);
        if is_model(part.class) {
            return self.model(part.class, part.config, None, Place { scope: &own, path, given: Some(read) });
        }
        let Some(config) = part.config.as_object() else { return wrong(format!("layer {own:?} has no arguments")) };
        let (class, args) = arguments(self.generation, part.class, config, &own)?;
        let count = self.calls.entry(own.clone()).or_insert(0);
        *count += 1;
        let name = if *count == 1 { own.clone() } else { format!("{own}:{count}") };
        let mut layer = LayerDescription {
            class,
            args,
            inputs: read.to_vec(),
            prefix: Some(own),
            saved: Some(path.to_owned()),
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
        let reads = |other: &&Part<'_>| other.calls.iter().flatten().any(|read| read.0 == part.name);
        let indices = parts.iter().filter(reads).any(reads_indices);
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
    let calls = match layer.get("inbound_nodes") {
        Some(nodes) => {
            let nodes = nodes.as_array().map(Vec::as_slice).unwrap_or_default();
            nodes.iter().map(|node| reads(node, name)).collect::<Result<Vec<_>, _>>()?
        }
        None => Vec::new(),
    };
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

/// What one call of a layer reads. Keras 2: `[["lstm", 0, 0, {}], ...]`. Keras 3: tensors among positional arguments.
fn reads<'a>(node: &'a Json, layer: &str) -> Result<Vec<Read<'a>>, ImportError> {
    let mut found = Vec::new();
    let keywords: Vec<&Json> = match node {
        Json::Array(list) if list.first().is_some_and(Json::is_string) => {
            found.push(read(list, layer)?);
            list.get(3).into_iter().collect()
        }
        Json::Array(list) => {
            for item in list {
                let Some(item) = item.as_array() else {
                    return wrong(format!("layer {layer:?} reads what is no output of a layer"));
                };
                found.push(read(item, layer)?);
            }
            list.iter().filter_map(|item| item.get(3)).collect()
        }
        Json::Object(call) => {
            for argument in call.get("args").and_then(Json::as_array).into_iter().flatten() {
                tensors(argument, layer, &mut found)?;
            }
            call.get("kwargs").into_iter().collect()
        }
        _ => return wrong(format!("layer {layer:?} is called in a way that is not known")),
    };
    for (keyword, value) in keywords.iter().filter_map(|json| json.as_object()).flatten() {
        // How the network was run; and the mask that Keras hands on by itself.
        let harmless = matches!(keyword.as_str(), "training" | "mask") || value.is_null();
        if !harmless {
            let of = format!("layer {layer:?} called with {keyword}");
            return Err(ImportError::Unsupported(one_line(&of)));
        }
    }
    Ok(found)
}

fn read<'a>(list: &'a [Json], layer: &str) -> Result<Read<'a>, ImportError> {
    match list {
        [Json::String(name), call, output, ..] => match (call.as_u64(), output.as_u64()) {
            (Some(call), Some(output)) => Ok((name, call, output)),
            _ => wrong(format!("layer {layer:?} reads {name:?} in a way that is not known")),
        },
        _ => wrong(format!("layer {layer:?} reads what is no output of a layer")),
    }
}

/// Tensors of an argument of Keras 3: one, or lists of them.
fn tensors<'a>(argument: &'a Json, layer: &str, found: &mut Vec<Read<'a>>) -> Result<(), ImportError> {
    match argument {
        Json::Array(list) => list.iter().try_for_each(|item| tensors(item, layer, found)),
        Json::Object(object) if object.get("class_name") == Some(&"__keras_tensor__".into()) => {
            let history = argument.pointer("/config/keras_history").and_then(Json::as_array);
            let Some(history) = history else { return wrong(format!("layer {layer:?} reads a tensor from nowhere")) };
            found.push(read(history, layer)?);
            Ok(())
        }
        Json::Null => Ok(()),
        other => Err(ImportError::Unsupported(one_line(&format!("layer {layer:?} called with {other}")))),
    }
}

/// `input_layers` and `output_layers`: a list of reads, or one alone; where they have names, these do not count.
fn ends<'a>(config: &'a Json, key: &str) -> Option<Vec<Read<'a>>> {
    let given = config.get(key)?;
    let list = match given {
        Json::Object(named) => named.values().collect(),
        Json::Array(list) if list.first().is_some_and(Json::is_string) => vec![given],
        Json::Array(list) => list.iter().collect(),
        _ => return None,
    };
    list.into_iter().map(|item| read(item.as_array()?, "").ok()).collect()
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
    config.retain(|name, value| !is_of_training(name) && !(name == "trainable" && *value == Json::Bool(true)));
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
