//! Keras's own words for a model, which are JSON: `model.to_json()`, the attribute `model_config` of an `.h5`, `config.json`
//! in a `.keras`. Its generations have other names for some things, and other ways to say what a layer reads. Models
//! within a model become its layers: `features/dense`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value as Json};

use super::arguments::{arguments, custom_object, over_time};
use super::graph::{self, Call, Node, Read, ends};
use super::variables::numbered;
use crate::data::one_line;
use crate::error::ImportError;
use crate::format::description::{Description, Input, LayerDescription, Size};

/// Layers and models, each as often as it is called.
const MAX_LAYERS: usize = 4096;
/// Values in the arguments of all calls together: those of a layer are there as often as it is called.
const MAX_ARGUMENTS: usize = 1 << 18;
/// Bytes of a layer's name, with those of the models that it is in.
const MAX_NAME: usize = 1024;

/// Which Keras has written a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Generation {
    /// Version 1, with names of its own.
    First,
    /// Version 2 to 2.3, by itself, and the copies of it in TensorFlow to 1.12.
    Alone,
    /// Version 2 within TensorFlow from 1.13 on.
    Second,
    /// Version 3.
    Third,
}

impl Generation {
    /// Of a version as Keras writes it: `2.2.4-tf`.
    pub fn of(version: &str) -> Self {
        let mut parts = version.split('.');
        match (parts.next(), parts.next()) {
            (Some("0" | "1"), _) => Self::First,
            (Some("2"), Some("0" | "1")) => Self::Alone,
            (Some("2"), Some("2" | "3")) if !version.contains("tf") => Self::Alone,
            (Some("2"), _) => Self::Second,
            _ => Self::Third,
        }
    }

    /// Whose names of activations there are.
    pub fn framework(self) -> &'static str {
        match self {
            Self::First | Self::Alone | Self::Second => "keras2",
            Self::Third => "keras3",
        }
    }
}

pub(super) fn wrong<T>(reason: impl AsRef<str>) -> Result<T, ImportError> {
    Err(ImportError::Malformed { format: "Keras model", reason: one_line(reason.as_ref()) })
}

/// A layer, or a model, as a model lists it.
pub(super) struct Part<'a> {
    pub name: &'a str,
    pub class: &'a str,
    pub config: &'a Json,
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
        values: 0,
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
    /// Values in their arguments.
    values: usize,
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
        // In Keras 1 it may begin with several models side by side.
        let beside = parts.first().filter(|part| part.class == "Merge").and_then(|part| part.config.get("layers"));
        let beside = beside.and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
        let mut before: Vec<String> = match place.given {
            Some(given) => given.to_vec(),
            None if beside.is_empty() => vec![self.sequential_input(config, built, &parts)?],
            None => Vec::new(),
        };
        for model in beside {
            let model = part(model)?;
            if !is_model(model.class) {
                return Err(ImportError::Unsupported(one_line(&format!("a Merge of layers ({:?})", model.name))));
            }
            before.extend(self.model(model.class, model.config, None, Place { given: None, ..place })?);
        }
        if before.len() != 1 && beside.is_empty() {
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
        if inputs.len() > MAX_LAYERS || outputs.len() > MAX_LAYERS {
            return wrong(format!("it has more than {MAX_LAYERS} inputs or outputs"));
        }
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
            self.count += reads.len();
            if self.count > 4 * MAX_LAYERS {
                return wrong(format!("its layers read more than {MAX_LAYERS} values"));
            }
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
        let (own, path) = (join(place.scope, part.name), join(place.path, saved));
        if self.count > 4 * MAX_LAYERS || self.layers.len() >= MAX_LAYERS {
            return wrong(format!("it has more than {MAX_LAYERS} layers"));
        }
        if own.len() > MAX_NAME {
            return wrong(format!("a layer has a name of {} bytes", own.len()));
        }
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
        self.values = self.values.saturating_add(weight(part.config));
        if self.values > MAX_ARGUMENTS {
            return wrong(format!("its layers have more than {MAX_ARGUMENTS} arguments"));
        }
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

/// Values within a value, and the length of its texts.
fn weight(json: &Json) -> usize {
    match json {
        Json::Array(list) => list.iter().map(weight).sum::<usize>() + 1,
        Json::Object(object) => object.iter().map(|(key, value)| key.len() / 32 + weight(value)).sum::<usize>() + 1,
        Json::String(text) => text.len() / 32 + 1,
        _ => 1,
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

pub(super) fn part(json: &Json) -> Result<Part<'_>, ImportError> {
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
