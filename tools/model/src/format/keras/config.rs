//! Keras's own description of a model, in JSON: `model.to_json()`, the attribute `model_config` of an `.h5` file, or
//! `config.json` in a `.keras` file. The generations of Keras differ in names and in the notation of a layer's inputs.
//! The layers of a nested model become layers of the outer model, with names such as `features/dense`.

use std::collections::{BTreeSet, HashMap};

use serde_json::Value as Json;

use super::graph::{self, Call, Node, Read, ends};
use super::part::{Generation, MODEL_KEYS, PART_KEYS, Part, is_model, known_keys, part, text, wrong, wrong_if};
use super::slices;
use super::{arguments::arguments, arguments::over_time, variables::numbered};
use crate::format::description::{Description, Input, LayerDescription, Size};
use crate::format::refuse::limit_if;
use crate::{data::one_line, error::ImportError, error::Result};

/// Maximum number of layers and models; each call of a layer counts.
const MAX_LAYERS: usize = 4096;
/// Maximum number of parts of all calls of models together. A model's parts count once for each call of the model.
const MAX_PARTS: usize = 16 * MAX_LAYERS;
/// Maximum number of values in the arguments of all calls together. A layer's arguments count once for each call.
const MAX_ARGUMENTS: usize = 1 << 18;
/// Maximum length of a layer's name in bytes, including the names of the models around it.
const MAX_NAME: usize = 1024;

pub(super) fn describe(json: &Json, generation: Generation) -> Result<Description> {
    let (inputs, layers, names, calls) = (Vec::new(), Vec::new(), BTreeSet::new(), HashMap::new());
    let mut writer = Writer { generation, inputs, layers, names, calls, count: 0, parts: 0, values: 0 };
    let class = json.get("class_name").and_then(Json::as_str).unwrap_or_default();
    let Some(config) = json.get("config") else { return wrong("its architecture has no class or no arguments") };
    json.as_object().map_or(Ok(()), |json| known_keys(json, "model", "", PART_KEYS))?;
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
    /// Number of earlier calls of each layer.
    calls: HashMap<String, usize>,
    /// Number of calls of layers and models.
    count: usize,
    /// Number of parts of the called models.
    parts: usize,
    /// Number of values in the arguments of the calls.
    values: usize,
}

/// The position of a model within the outermost one.
#[derive(Clone, Copy, Default)]
struct Place<'a> {
    /// Prefix of the names of the model's layers.
    scope: &'a str,
    /// The same prefix in a Keras 3 file.
    path: &'a str,
    /// Values that the model reads; `None` for the outermost model, which has its own inputs.
    given: Option<&'a [String]>,
    /// Whether the model is applied to each step on its own, inside a `TimeDistributed`.
    each_step: bool,
}

impl Writer {
    /// Adds the layers of a model. Returns the names of its outputs.
    fn model(&mut self, class: &str, config: &Json, built: Option<&Json>, place: Place<'_>) -> Result<Vec<String>> {
        let parts = parts(class, config)?;
        self.parts += parts.len();
        limit_if(self.parts > MAX_PARTS, MAX_PARTS, "layers in all calls of its models")?;
        let saved = saved_names(class, &parts);
        if class != "Sequential" {
            return self.graph(config, &parts, &saved, place);
        }
        // In Keras 1, a Sequential may begin with several parallel models.
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
        let (scope, found) = (place.scope, before.len());
        let misfit = found != 1 && beside.is_empty();
        wrong_if(misfit, format_args!("model {scope:?} reads {found} values, but a Sequential reads one"))?;
        for (part, saved) in parts.iter().zip(&saved).filter(|(part, _)| part.class != "InputLayer") {
            before = self.call(part, saved, &before, (false, None), place)?;
        }
        Ok(before)
    }

    /// Adds the layers of a functional model. Returns the names of its outputs.
    fn graph(&mut self, config: &Json, parts: &[Part<'_>], saved: &[String], place: Place<'_>) -> Result<Vec<String>> {
        let (inputs, outputs) = (ends(config, "input_layers")?, ends(config, "output_layers")?);
        let many = inputs.len() > MAX_LAYERS || outputs.len() > MAX_LAYERS;
        limit_if(many, MAX_LAYERS, "inputs or outputs")?;
        // Names of the values that the layers of this model read.
        let mut values: HashMap<Read<'_>, String> = HashMap::new();
        for (k, read) in inputs.iter().enumerate() {
            let part = parts.iter().find(|part| part.name == read.0);
            let Some(part) = part else { return wrong(format!("its input {:?} is not a layer", read.0)) };
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
        let known = |values: &HashMap<Read<'_>, String>, read: &Read<'_>| {
            let of = || format!("output {} of layer {:?} (a state, if the layer is recurrent)", read.2, read.0);
            values.get(read).cloned().ok_or_else(|| ImportError::Unsupported(one_line(&of())))
        };
        for Call { node, call, reads, masked, index } in calls {
            let (Some(part), Some(saved)) = (parts.get(node), saved.get(node)) else { continue };
            self.count += reads.len();
            limit_if(self.count > 4 * MAX_LAYERS, 4 * MAX_LAYERS, "values that its layers read")?;
            let reads = reads.iter().map(|read| known(&values, read)).collect::<Result<Vec<_>, _>>()?;
            let outputs = self.call(part, saved, &reads, (masked, index), place)?;
            for (index, output) in outputs.into_iter().enumerate() {
                values.insert((part.name, call, index), output);
            }
        }
        outputs.iter().map(|read| known(&values, read)).collect()
    }

    fn call(
        &mut self,
        part: &Part<'_>,
        saved: &str,
        read: &[String],
        (masked, index): (bool, Option<&Json>),
        place: Place<'_>,
    ) -> Result<Vec<String>> {
        self.count += 1;
        let (own, path) = (join(place.scope, part.name), join(place.path, saved));
        let many = self.count > 4 * MAX_LAYERS || self.layers.len() >= MAX_LAYERS;
        limit_if(many, MAX_LAYERS, "layers")?;
        limit_if(own.len() > MAX_NAME, MAX_NAME, "bytes in the name of a layer")?;
        let within = Place { scope: &own, path: &path, given: Some(read), each_step: place.each_step };
        if is_model(part.class) {
            return self.model(part.class, part.config, None, within);
        }
        if let ("TimeDistributed", Some(inner)) = (part.class, part.config.get("layer")) {
            let inner = super::part::part(inner)?;
            if is_model(inner.class) {
                let path = join(&path, "layer");
                return self.model(inner.class, inner.config, None, Place { path: &path, each_step: true, ..within });
            }
        }
        let Some(config) = part.config.as_object() else { return wrong(format!("layer {own:?} has no arguments")) };
        self.values = self.values.saturating_add(weight(part.config));
        limit_if(self.values > MAX_ARGUMENTS, MAX_ARGUMENTS, "arguments of its layers")?;
        let (mut class, mut args) = arguments(self.generation, part.class, config, &own)?;
        if let Some(index) = index {
            slices::check(args.get("function"))?;
            slices::CLASS.clone_into(&mut class);
            args = std::iter::once(("index".to_owned(), index.clone())).collect();
        }
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
        // The two unmerged outputs of a Bidirectional become two layers that share their weights.
        let apart = layer.class == "Bidirectional" && layer.args.get("merge_mode").is_some_and(Json::is_null);
        let outputs: &[&str] = if apart { &["forward", "backward"] } else { &[""] };
        let mut names = Vec::new();
        for output in outputs {
            let mut layer = layer.clone();
            layer.name = if apart { format!("{name}/{output}") } else { name.clone() };
            while !self.names.insert(layer.name.clone()) {
                // A model's input may have the same name as one of its layers.
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

    /// The input of a Sequential, as described by its first layer or by the model itself.
    fn sequential_input(&mut self, config: &Json, built: Option<&Json>, parts: &[Part<'_>]) -> Result<String> {
        let Some(first) = parts.first() else { return wrong("it has no layers") };
        let shape = input_shape(first).or_else(|| config.get("build_input_shape")).or(built);
        let reader = parts.iter().find(|part| part.class != "InputLayer");
        let name = if first.class == "InputLayer" { first.name } else { "input" };
        self.new_input(name, shape, reader.is_some_and(reads_indices))
    }

    fn input(&mut self, part: &Part<'_>, parts: &[Part<'_>]) -> Result<String> {
        let name = Json::from(part.name);
        let reads = |other: &Part<'_>| other.calls.iter().any(|call| graph::mentions(call, &name));
        let indices = parts.iter().any(|other| reads_indices(other) && reads(other));
        self.new_input(part.name, input_shape(part), indices)
    }

    /// Adds an input. `indices`: the number at each step is the index of a row in a table.
    fn new_input(&mut self, name: &str, shape: Option<&Json>, indices: bool) -> Result<String> {
        self.count += 1;
        limit_if(self.count > MAX_LAYERS, MAX_LAYERS, "layers")?;
        let shape = shape.and_then(Json::as_array);
        let Some([_, dims @ ..]) = shape.map(Vec::as_slice) else {
            let of = format!("input {name:?} without a shape (the model was saved before it was built)");
            return Err(ImportError::Unsupported(one_line(&of)));
        };
        let dim = |dim: &Json| -> Result<Option<usize>> {
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
            [] => return wrong(format!("input {name:?} is a scalar")),
        };
        let Some(size) = size.into_iter().collect::<Option<Vec<usize>>>() else {
            let of = format!("input {name:?} of an unknown number of features");
            return Err(ImportError::Unsupported(one_line(&of)));
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

/// Number of values in `json`. A long text counts as several values, and so does an object, which has room for eleven.
fn weight(json: &Json) -> usize {
    match json {
        Json::Object(object) if object.is_empty() => 1,
        Json::Array(list) => list.iter().map(weight).sum::<usize>() + 1,
        Json::Object(object) => object.iter().map(|(key, value)| key.len() / 32 + weight(value)).sum::<usize>() + 16,
        Json::String(text) => text.len() / 32 + 1,
        _ => 1,
    }
}

fn join(scope: &str, name: &str) -> String {
    if scope.is_empty() { name.to_owned() } else { format!("{scope}/{name}") }
}

/// The layers of a model. In Keras 1 and the first versions of Keras 2, the configuration of a Sequential is only a
/// list.
fn parts<'a>(class: &str, config: &'a Json) -> Result<Vec<Part<'a>>> {
    if !is_model(class) {
        let advice = "(one that a program builds; export it as Sequential or functional)";
        return Err(ImportError::Unsupported(one_line(&format!("a model of class {class:?} {advice}"))));
    }
    if let Some(config) = config.as_object() {
        known_keys(config, class, text(config, "name").unwrap_or_default(), MODEL_KEYS)?;
    }
    let Some(layers) = config.get("layers").unwrap_or(config).as_array() else { return wrong("it lists no layers") };
    limit_if(layers.len() > MAX_LAYERS, MAX_LAYERS, "layers")?;
    let parts: Vec<Part<'_>> = layers.iter().map(part).collect::<Result<_>>()?;
    parts.iter().filter(|part| part.class == "InputLayer").try_for_each(known_input)?;
    Ok(parts)
}

/// Arguments of an input that do not change the values that its layers read.
const INPUT_KEYS: &[&str] = &[
    "name",
    "dtype",
    "input_dtype",
    "sparse",
    "batch_shape",
    "batch_input_shape",
    "trainable",
    "build_config",
    "optional",
];

fn known_input(part: &Part<'_>) -> Result<()> {
    part.config.as_object().map_or(Ok(()), |config| known_keys(config, "input", part.name, INPUT_KEYS))
}

/// Paths of a model's layers in a Keras 3 file.
fn saved_names(class: &str, parts: &[Part<'_>]) -> Vec<String> {
    // The input of a Sequential is not one of its layers, so it does not affect the numbering.
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
