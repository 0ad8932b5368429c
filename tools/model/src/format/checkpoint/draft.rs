//! Drafts a description for a checkpoint whose variable names do not determine its architecture. The layers are derived
//! from the variables and listed in the order that most networks have. The user corrects the draft.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::Value;

use crate::canonical::Tensor;
use crate::format::description::{Description, Input, LayerDescription, Size};

/// Scopes of the cells that cuDNN's layers save.
pub(super) const LSTM: &str = "cudnn_compatible_lstm_cell";
pub(super) const GRU: &str = "cudnn_compatible_gru_cell";
/// Maximum number of layers in a draft, which is printed on one line.
const MAX_LAYERS: usize = 32;

/// Scopes of cells, as TensorFlow derives them from the class name.
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

/// Common names of weights, each with the name of the matching bias.
const PAIRS: [(&str, &str); 5] =
    [("weights", "biases"), ("weight", "bias"), ("kernel", "bias"), ("w", "b"), ("W", "b")];

/// Usual position of a layer in a network, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Embedding,
    Front,
    Cell,
    Dense,
    /// After the first layer with the same number of output features.
    Norm,
}

pub(super) struct Module {
    pub layer: LayerDescription,
    place: Place,
    kernel: Option<(usize, usize)>,
    /// Input and output features, if known from the shapes.
    input: Option<usize>,
    output: Option<usize>,
    bias: bool,
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

    /// Whether the variables can only be those of a dense layer with `input` input features.
    pub fn is_dense(&self, input: usize) -> bool {
        let named = self.layer.tensors.is_empty() && self.bias && self.tensors == 2;
        self.layer.class == "Dense" && named && self.kernel.is_some_and(|(rows, _)| rows == input)
    }

    fn arg(&mut self, name: &str, value: impl Into<Value>) {
        self.layer.args.insert(name.to_owned(), value.into());
    }
}

/// The layers to which the variables `names` belong, in their usual order.
pub(super) fn modules(tensors: &BTreeMap<String, Tensor>, names: &BTreeSet<&str>) -> Vec<Module> {
    let mut cells: HashMap<&str, Module> = HashMap::new();
    let mut scopes: HashMap<&str, HashMap<&str, &Tensor>> = HashMap::new();
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
    // A scope without a kernel is not a known cell.
    let order: BTreeSet<&str> = cells.keys().copied().collect();
    let cells = order.into_iter().filter_map(|prefix| cells.remove(prefix));
    let mut all: Vec<Module> = cells.filter(|module| module.kernel.is_some()).collect();
    let order: BTreeSet<&str> = scopes.keys().copied().collect();
    for scope in order {
        let variables = scopes.remove(scope).unwrap_or_default();
        match plain(scope, &variables) {
            Some(module) => all.push(module),
            None => all.extend(loose(scope, variables)),
        }
    }
    // TensorFlow numbers layers of one class: the first has no suffix, the second has `_1`.
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

/// Adds a variable of the cell with scope `own`.
fn cell<'a>(cells: &mut HashMap<&'a str, Module>, name: &str, own: &'a str, class: &str, tensor: &Tensor) {
    // The cells of both directions form one layer.
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
    let is_kernel = matches!(name.strip_prefix(own), Some("/kernel" | "/gates/kernel"));
    if let (&[rows, cols], true) = (tensor.shape.as_slice(), is_kernel) {
        // The rows of a cell's kernel are its input features, then its units.
        let gates = match class {
            _ if class.contains("LSTM") => 4,
            _ if class.contains("GRU") => 2,
            _ => 1,
        };
        module.kernel = Some((rows, cols));
        module.input = rows.checked_sub(cols / gates);
        module.output = Some(cols / gates * if side.is_some() { 2 } else { 1 });
    }
}

/// The layer whose variables are named as in `tf.layers` or `tf.contrib.layers`.
fn plain(scope: &str, variables: &HashMap<&str, &Tensor>) -> Option<Module> {
    let shape = |names: &[&str]| names.iter().find_map(|name| Some(variables.get(name)?.shape.as_slice()));
    let has = |name: &str| variables.contains_key(name);
    let bias = has("bias") || has("biases");
    let mut module = if let Some(kernel) = shape(&["kernel", "weights"]).filter(|_| !scope.is_empty()) {
        let last = scope.rsplit('/').next().unwrap_or(scope);
        let (class, place, input) = match *kernel {
            // The default activation of `fully_connected` is relu.
            [rows, _] if last.starts_with("fully_connected") => ("fully_connected", Place::Dense, Some(rows)),
            [rows, _] => ("Dense", Place::Dense, Some(rows)),
            [_, channels, _] => ("Conv1D", Place::Front, Some(channels)),
            [_, _, _, _] => ("Conv2D", Place::Front, None),
            _ => return None,
        };
        let matrix = if let [rows, cols] = *kernel { Some((rows, cols)) } else { None };
        Module { kernel: matrix, input, output: kernel.last().copied(), ..Module::new(class, scope, place) }
    } else if let Some(depthwise) = shape(&["depthwise_kernel", "depthwise_weights"]) {
        let (class, input) = match *depthwise {
            [_, channels, _] => ("SeparableConv1D", Some(channels)),
            _ => ("SeparableConv2D", None),
        };
        let output = shape(&["pointwise_kernel", "pointwise_weights"]).and_then(|shape| shape.last().copied());
        Module { input, output, ..Module::new(class, scope, Place::Front) }
    } else if let Some(size) = shape(&["moving_mean", "gamma", "beta"]) {
        let class = match scope.rsplit('/').next().is_some_and(|last| last.starts_with("LayerNorm")) {
            _ if has("moving_mean") => "BatchNormalization",
            true => "layer_norm",
            false => "LayerNormalization",
        };
        let mut module = Module::new(class, scope, Place::Norm);
        if class == "layer_norm" {
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

/// Layers made of variables with custom names: each matrix, with the vector that fits it best as its bias.
fn loose(scope: &str, mut variables: HashMap<&str, &Tensor>) -> Vec<Module> {
    let path = |name: &str| if scope.is_empty() { name.to_owned() } else { format!("{scope}/{name}") };
    let mut modules = Vec::new();
    let names: BTreeSet<&str> = variables.keys().copied().collect();
    for &name in &names {
        let Some(&[rows, cols]) = variables.get(name).map(|tensor| tensor.shape.as_slice()) else { continue };
        if name.to_lowercase().contains("embed") {
            let mut module = Module::new("embedding_lookup", &path(name), Place::Embedding);
            module.layer.tensors.insert("params".to_owned(), path(name));
            module.input = Some(1);
            modules.push(module);
            continue;
        }
        let fits = |bias: &str| variables.get(bias).is_some_and(|tensor| tensor.shape == [cols]);
        let named = PAIRS.iter().map(|(weights, bias)| name.replacen(weights, bias, 1)).find(|bias| fits(bias));
        let bias = named.or_else(|| names.iter().find(|bias| fits(bias)).map(|bias| (*bias).to_owned()));
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
    // All tensors of these layers are named explicitly.
    modules.iter_mut().for_each(|module| module.layer.prefix = None);
    modules
}

/// The part of `name` up to and including a cell's scope: `rnn/lstm_cell` for `rnn/lstm_cell/kernel`.
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

/// The draft as JSON: the layers of `first`, then those of `modules`.
pub(super) fn description(
    first: Vec<LayerDescription>,
    modules: Vec<Module>,
    input: Option<usize>,
    tensors: &BTreeMap<String, Tensor>,
) -> String {
    let input = input.or_else(|| modules.first()?.input);
    let mut layers: Vec<_> = first.into_iter().chain(modules.into_iter().map(|module| module.layer)).collect();
    let mut names = BTreeSet::new();
    for layer in &mut layers {
        if !names.insert(layer.name.clone()) {
            let prefix = layer.prefix.get_or_insert_with(|| layer.name.clone());
            layer.name = prefix.replace('/', "_");
        }
    }
    if layers.is_empty() {
        let prefix = tensors.keys().next().map(|name| name.split('/').next().unwrap_or(name).to_owned());
        let (name, class) = ("rnn".to_owned(), "LSTMCell".to_owned());
        layers.push(LayerDescription { name, class, prefix, ..LayerDescription::default() });
    }
    layers.truncate(MAX_LAYERS);
    let input = Input { name: "input".into(), size: Size::One(input.unwrap_or(1).max(1)), ..Input::default() };
    let description = Description { inputs: vec![input], layers, ..Description::default() };
    serde_json::to_string(&description).unwrap_or_default()
}
