//! A description to start from, where the names of a checkpoint's variables do not tell its architecture: the layers
//! that there must be by their variables, in the order that most networks have them in. A person corrects it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::names::{GRU, LSTM};
use crate::canonical::Tensor;
use crate::format::description::{Description, Input, LayerDescription, Size};

/// Most layers that a description to start from lists: it is one line.
const MAX_LAYERS: usize = 32;

/// Scopes of cells, as TensorFlow derives them from the class.
const CELLS: [(&str, &str); 16] = [
    ("basic_rnn_cell", "BasicRNNCell"),
    ("basic_lstm_cell", "BasicLSTMCell"),
    ("lstm_cell", "LSTMCell"),
    ("gru_cell", "GRUCell"),
    ("layer_norm_basic_lstm_cell", "LayerNormBasicLSTMCell"),
    ("coupled_input_forget_gate_lstm_cell", "CoupledInputForgetGateLSTMCell"),
    ("lstm_fused_cell", "LSTMBlockFusedCell"),
    ("nas_cell", "NASCell"),
    ("ugrnn_cell", "UGRNNCell"),
    ("ind_rnn_cell", "IndRNNCell"),
    ("indy_lstm_cell", "IndyLSTMCell"),
    ("indy_gru_cell", "IndyGRUCell"),
    ("sru_cell", "SRUCell"),
    ("glstm_cell", "GLSTMCell"),
    (LSTM, "CudnnCompatibleLSTMCell"),
    (GRU, "CudnnCompatibleGRUCell"),
];

/// What weights are called, and what the bias beside them is.
const PAIRS: [(&str, &str); 5] =
    [("weights", "biases"), ("weight", "bias"), ("kernel", "bias"), ("w", "b"), ("W", "b")];

/// Where a layer usually is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Embedding,
    Front,
    Cell,
    Dense,
    /// Behind the first that has as many features.
    Norm,
}

/// A layer, as the names of its variables tell it.
pub(super) struct Module {
    pub layer: LayerDescription,
    place: Place,
    /// Of its kernel, if that is a matrix.
    kernel: Option<(usize, usize)>,
    /// Features that go in and come out, as far as that tells.
    input: Option<usize>,
    output: Option<usize>,
    bias: bool,
    /// How many it has.
    pub tensors: usize,
}

impl Module {
    fn new(class: &str, prefix: &str, place: Place) -> Self {
        let name = match (place, prefix.rsplit('/').next()) {
            (Place::Cell, _) | (_, None) => prefix.replace('/', "_"),
            (_, Some(last)) => last.to_owned(),
        };
        let other = (name != prefix).then(|| prefix.to_owned());
        let layer = LayerDescription { name, class: class.to_owned(), prefix: other, ..LayerDescription::default() };
        Self { layer, place, kernel: None, input: None, output: None, bias: false, tensors: 0 }
    }

    /// Whether it can be nothing but a dense layer of so many features.
    pub fn is_dense(&self, input: usize) -> bool {
        let named = self.layer.tensors.is_empty() && self.bias && self.tensors == 2;
        self.layer.class == "Dense" && named && self.kernel.is_some_and(|(rows, _)| rows == input)
    }

    fn arg(&mut self, name: &str, value: impl Into<Value>) {
        self.layer.args.insert(name.to_owned(), value.into());
    }
}

/// The layers that `names` belong to, as they usually follow each other.
pub(super) fn modules(tensors: &BTreeMap<String, Tensor>, names: &BTreeSet<&str>) -> Vec<Module> {
    let mut cells: BTreeMap<&str, Module> = BTreeMap::new();
    let mut scopes: BTreeMap<&str, BTreeMap<&str, &Tensor>> = BTreeMap::new();
    for &name in names {
        let Some(tensor) = tensors.get(name) else { continue };
        match CELLS.iter().find_map(|(scope, class)| Some((cell_path(name, scope)?, *class))) {
            Some((own, class)) => cell(&mut cells, name, own, class, tensor),
            None => {
                let (scope, last) = name.rsplit_once('/').unwrap_or(("", name));
                scopes.entry(scope).or_default().insert(last, tensor);
            }
        }
    }
    // What has no kernel is no cell that is known.
    let mut all: Vec<Module> = cells.into_values().filter(|module| module.kernel.is_some()).collect();
    for (scope, variables) in scopes {
        match plain(scope, &variables) {
            Some(module) => all.push(module),
            None => all.extend(loose(scope, variables)),
        }
    }
    // The first of a class has no number, the second `_1`.
    let number = |name: &str| name.rsplit_once('_').and_then(|(_, number)| number.parse::<usize>().ok()).unwrap_or(0);
    all.sort_by_key(|module| (module.place, if module.place == Place::Cell { 0 } else { number(&module.layer.name) }));
    let norms = all.split_off(all.partition_point(|module| module.place < Place::Norm));
    for norm in norms {
        let behind = |other: bool| {
            all.iter().enumerate().position(|(at, module)| {
                let followed = all.get(at + 1).is_some_and(|next| next.place == Place::Norm);
                module.output == norm.output && !followed && (other || module.place != Place::Norm)
            })
        };
        let at = behind(false).or_else(|| behind(true)).map_or(0, |at| at + 1);
        all.insert(at, norm);
    }
    all
}

/// Adds a variable of a cell, of which `own` is the scope.
fn cell<'a>(cells: &mut BTreeMap<&'a str, Module>, name: &str, own: &'a str, class: &str, tensor: &Tensor) {
    // Cells of both directions are one layer.
    let side = [("bidirectional_rnn/fw/", "cell_fw"), ("bidirectional_rnn/bw/", "cell_bw")]
        .into_iter()
        .find_map(|(scope, side)| Some((own.find(scope)? + scope.len() - "/fw/".len(), side)));
    let prefix = side.and_then(|(end, _)| own.get(..end)).unwrap_or(own);
    let whole = if side.is_some() { "bidirectional_dynamic_rnn" } else { class };
    let module = cells.entry(prefix).or_insert_with(|| Module::new(whole, prefix, Place::Cell));
    if let Some((_, side)) = side {
        module.arg(side, format!("{class}()"));
    }
    module.tensors += 1;
    if let ([rows, cols], true) = (
        tensor.shape.as_slice(),
        name.strip_prefix(own).is_some_and(|rest| matches!(rest, "/kernel" | "/gates/kernel")),
    ) {
        // A cell's kernel has rows for its input and for its own output.
        let gates = match class {
            _ if class.contains("LSTM") => 4,
            _ if class.contains("GRU") => 2,
            _ => 1,
        };
        module.kernel = Some((*rows, *cols));
        module.input = rows.checked_sub(cols / gates);
        module.output = Some(cols / gates * if side.is_some() { 2 } else { 1 });
    }
}

/// The layer whose variables have the names that `tf.layers` and `tf.contrib.layers` give.
fn plain(scope: &str, variables: &BTreeMap<&str, &Tensor>) -> Option<Module> {
    let shape = |names: [&str; 2]| names.iter().find_map(|name| Some(variables.get(name)?.shape.as_slice()));
    let has = |name: &str| variables.contains_key(name);
    let bias = has("bias") || has("biases");
    let mut module = if let Some(kernel) = shape(["kernel", "weights"]).filter(|_| !scope.is_empty()) {
        let last = scope.rsplit('/').next().unwrap_or(scope);
        let (class, place, input) = match *kernel {
            // Its activation is relu where none is given.
            [rows, _] if last.starts_with("fully_connected") => ("fully_connected", Place::Dense, Some(rows)),
            [rows, _] => ("Dense", Place::Dense, Some(rows)),
            [_, channels, _] => ("Conv1D", Place::Front, Some(channels)),
            [_, _, _, _] => ("Conv2D", Place::Front, None),
            _ => return None,
        };
        let mut module = Module::new(class, scope, place);
        if let [rows, cols] = *kernel {
            module.kernel = Some((rows, cols));
        }
        module.input = input;
        module.output = kernel.last().copied();
        module
    } else if let Some(depthwise) = shape(["depthwise_kernel", "depthwise_weights"]) {
        let class = if depthwise.len() == 3 { "SeparableConv1D" } else { "SeparableConv2D" };
        let mut module = Module::new(class, scope, Place::Front);
        module.input = (depthwise.len() == 3).then(|| depthwise[1]);
        module.output = shape(["pointwise_kernel", "pointwise_weights"]).and_then(|shape| shape.last().copied());
        module
    } else if has("moving_mean") {
        let mut module = Module::new("BatchNormalization", scope, Place::Norm);
        for (argument, tensor) in [("center", "beta"), ("scale", "gamma")] {
            if !has(tensor) {
                module.arg(argument, false);
            }
        }
        let size = shape(["moving_mean", "moving_variance"]).and_then(|shape| shape.first().copied());
        return Some(Module { input: size, output: size, ..module });
    } else if let Some(size) = shape(["gamma", "beta"]) {
        let mut module = match scope.rsplit('/').next().is_some_and(|last| last.starts_with("LayerNorm")) {
            true => Module::new("layer_norm", scope, Place::Norm),
            false => Module::new("LayerNormalization", scope, Place::Norm),
        };
        if module.layer.class == "layer_norm" {
            module.arg("begin_norm_axis", 2);
        }
        for (argument, tensor) in [("center", "beta"), ("scale", "gamma")] {
            if !has(tensor) {
                module.arg(argument, false);
            }
        }
        return Some(Module { input: size.first().copied(), output: size.first().copied(), ..module });
    } else if has("embeddings") {
        return Some(Module { input: Some(1), ..Module::new("Embedding", scope, Place::Embedding) });
    } else {
        return None;
    };
    (module.bias, module.tensors) = (bias, variables.len());
    if !bias && module.layer.class != "fully_connected" {
        module.arg("use_bias", false);
    }
    Some(module)
}

/// Layers of variables that a person has named, each a matrix and the vector that fits it best.
fn loose(scope: &str, mut variables: BTreeMap<&str, &Tensor>) -> Vec<Module> {
    let path = |name: &str| if scope.is_empty() { name.to_owned() } else { format!("{scope}/{name}") };
    let matrices: Vec<(&str, usize, usize)> = variables
        .iter()
        .filter_map(|(name, tensor)| match *tensor.shape {
            [rows, cols] => Some((*name, rows, cols)),
            _ => None,
        })
        .collect();
    let mut modules = Vec::new();
    for (name, rows, cols) in matrices {
        if name.to_lowercase().contains("embed") {
            let mut module = Module::new("embedding_lookup", &path(name), Place::Embedding);
            module.layer.tensors.insert("params".to_owned(), path(name));
            module.input = Some(1);
            modules.push(module);
            continue;
        }
        let fits = |bias: &str| variables.get(bias).is_some_and(|tensor| tensor.shape == [cols]);
        let named = PAIRS.iter().map(|(weights, bias)| name.replacen(weights, bias, 1)).find(|bias| fits(bias));
        let bias = named.or_else(|| variables.keys().find(|bias| fits(bias)).map(|bias| (*bias).to_owned()));
        let mut module = Module::new("Dense", &path(name), Place::Dense);
        module.layer.tensors.insert("kernel".to_owned(), path(name));
        match bias {
            Some(bias) => {
                variables.remove(bias.as_str());
                module.layer.tensors.insert("bias".to_owned(), path(&bias));
            }
            None => module.arg("use_bias", false),
        }
        module.input = Some(rows);
        modules.push(module);
    }
    for module in &mut modules {
        // All of its tensors are named.
        module.layer.prefix = None;
    }
    modules
}

/// What is before and with a cell's scope: `rnn/lstm_cell` of `rnn/lstm_cell/kernel`.
fn cell_path<'a>(name: &'a str, scope: &str) -> Option<&'a str> {
    let mut end = 0;
    for segment in name.split('/') {
        end += segment.len();
        if segment == scope {
            return name.get(..end).filter(|path| path.len() < name.len());
        }
        end += 1;
    }
    None
}

/// A description to start from, as JSON: `first`, then `modules`.
pub(super) fn description(
    first: Vec<LayerDescription>,
    modules: Vec<Module>,
    input: Option<usize>,
    tensors: &BTreeMap<String, Tensor>,
) -> String {
    let input = input.or_else(|| modules.first()?.input);
    let mut layers = first;
    layers.extend(modules.into_iter().map(|module| module.layer));
    let mut names = BTreeSet::new();
    for layer in &mut layers {
        if !names.insert(layer.name.clone()) {
            let prefix = layer.prefix.get_or_insert_with(|| layer.name.clone());
            layer.name = prefix.replace('/', "_");
        }
    }
    if layers.is_empty() {
        let prefix = tensors.keys().next().map(|name| name.split('/').next().unwrap_or(name).to_owned());
        layers.push(LayerDescription {
            name: "rnn".into(),
            class: "LSTMCell".into(),
            prefix,
            ..LayerDescription::default()
        });
    }
    layers.truncate(MAX_LAYERS);
    let input = Input { name: "input".into(), size: Size::One(input.unwrap_or(1).max(1)), ..Input::default() };
    let description = Description { inputs: vec![input], layers, ..Description::default() };
    serde_json::to_string(&description).unwrap_or_default()
}
