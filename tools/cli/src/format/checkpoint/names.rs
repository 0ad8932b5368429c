//! What the names of a checkpoint's variables tell: those that `CudnnLSTM` and `CudnnGRU` save tell the network whole
//! (layers, directions, kind; their cells have no further arguments), and which variables are an optimizer's. Other
//! names tell the class of a cell but not its arguments (forget bias, activation, clipping): then the error holds a
//! description to start from.
//!
//! ```text
//! <scope>/rnn/multi_rnn_cell/cell_<k>/cudnn_compatible_lstm_cell/{kernel,bias}
//! <scope>/stack_bidirectional_rnn/cell_<k>/bidirectional_rnn/{fw,bw}/cudnn_compatible_lstm_cell/{kernel,bias}
//! <...>/cudnn_compatible_gru_cell/{gates,candidate/input_projection,candidate/hidden_projection}/{kernel,bias}
//! ```
//! (tensorflow/contrib/cudnn_rnn/python/ops/cudnn_rnn_ops.py, `_tf_canonical_name_prefix`)

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::canonical::Tensor;
use crate::error::ImportError;
use crate::format::description::{Description, Input, LayerDescription, Size};

/// What TensorFlow 1's optimizers call their slots; a second one of a kind ends in `_1`.
const SLOTS: [&str; 13] = [
    "Adam",
    "AdamAsync",
    "AdaMax",
    "Adadelta",
    "Adagrad",
    "AdagradDA",
    "Ftrl",
    "LARSOptimizer",
    "Momentum",
    "RMSProp",
    "adam_m",
    "adam_v",
    "AdamWeightDecayOptimizer",
];
/// Scalars of an optimizer, with a number behind where there are several.
const SCALARS: [&str; 2] = ["beta1_power", "beta2_power"];

/// Most layers that a description to start from lists: it is one line.
const MAX_DRAFT: usize = 32;

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
const LSTM: &str = "cudnn_compatible_lstm_cell";
const GRU: &str = "cudnn_compatible_gru_cell";

/// An architecture and what it is in words.
#[derive(Debug)]
pub(super) struct Found {
    pub description: Description,
    pub note: String,
}

/// Whether only an optimizer has a variable of this name.
pub(super) fn is_slot(name: &str) -> bool {
    let last = name.rsplit('/').next().unwrap_or(name);
    let numbered = last.rsplit_once('_').filter(|(_, n)| !n.is_empty() && n.bytes().all(|byte| byte.is_ascii_digit()));
    let is = |known: &[&str]| known.contains(&last) || numbered.is_some_and(|(stem, _)| known.contains(&stem));
    is(&SCALARS) || (last.len() < name.len() && is(&SLOTS))
}

/// A network of one `CudnnLSTM` or `CudnnGRU`.
struct Stack<'a> {
    scope: &'a str,
    bidirectional: bool,
    cell: &'static str,
    layers: usize,
}

impl Stack<'_> {
    /// Of its variables, where they begin.
    fn description(&self) -> LayerDescription {
        let direction = if self.bidirectional { "bidirectional" } else { "unidirectional" };
        LayerDescription {
            name: if self.cell == LSTM { "lstm" } else { "gru" }.to_owned(),
            class: if self.cell == LSTM { "CudnnLSTM" } else { "CudnnGRU" }.to_owned(),
            args: object(json!({"num_layers": self.layers, "direction": direction})),
            prefix: Some(self.scope.to_owned()),
            ..LayerDescription::default()
        }
    }

    /// Features that go in and come out, by the first cell.
    fn sizes(&self, tensors: &BTreeMap<String, Tensor>) -> Option<(usize, usize)> {
        let first = match self.bidirectional {
            true => "stack_bidirectional_rnn/cell_0/bidirectional_rnn/fw",
            false => "rnn/multi_rnn_cell/cell_0",
        };
        let separator = if self.scope.is_empty() { "" } else { "/" };
        let (kernel, gates) = if self.cell == LSTM { ("kernel", 4) } else { ("gates/kernel", 2) };
        let kernel = tensors.get(&format!("{}{separator}{first}/{}/{kernel}", self.scope, self.cell))?;
        let [rows, cols] = *kernel.shape else { return None };
        let units = cols / gates;
        Some((rows.checked_sub(units)?, if self.bidirectional { 2 * units } else { units }))
    }
}

/// The scope, direction, cell and layer of a variable of a `CudnnLSTM` or `CudnnGRU`.
fn parse(name: &str) -> Option<(&str, bool, &'static str, usize)> {
    let (scope, rest, bidirectional) = [("stack_bidirectional_rnn/", true), ("rnn/multi_rnn_cell/", false)]
        .into_iter()
        .find_map(|(part, both)| name.split_once(part).map(|(scope, rest)| (scope, rest, both)))
        .filter(|(scope, ..)| scope.is_empty() || scope.ends_with('/'))?;
    let (layer, rest) = rest.strip_prefix("cell_")?.split_once('/')?;
    let cell = match bidirectional {
        true => rest.strip_prefix("bidirectional_rnn/")?.strip_prefix(['f', 'b'])?.strip_prefix("w/")?,
        false => rest,
    };
    let cell =
        [LSTM, GRU].into_iter().find(|known| cell.strip_prefix(known).is_some_and(|rest| rest.starts_with('/')))?;
    Some((scope.trim_end_matches('/'), bidirectional, cell, layer.parse().ok()?))
}

/// The architecture that the names tell.
///
/// # Errors
/// If they do not tell it; the error holds a description to start from.
pub(super) fn found(tensors: &BTreeMap<String, Tensor>) -> Result<Found, ImportError> {
    let mut stacks: BTreeMap<(&str, bool, &'static str), usize> = BTreeMap::new();
    let mut rest = BTreeSet::new();
    for name in tensors.keys() {
        match parse(name) {
            Some((scope, bidirectional, cell, layer)) => {
                let layers = stacks.entry((scope, bidirectional, cell)).or_default();
                *layers = (*layers).max(layer.saturating_add(1));
            }
            None => drop(rest.insert(name.as_str())),
        }
    }
    let stacks: Vec<Stack<'_>> = stacks
        .into_iter()
        .map(|((scope, bidirectional, cell), layers)| Stack { scope, bidirectional, cell, layers })
        .collect();
    let modules = modules(tensors, &rest);
    let sizes = stacks.first().and_then(|stack| stack.sizes(tensors));
    let reason = match (stacks.as_slice(), sizes, modules.as_slice()) {
        ([stack], Some((input, _)), []) if rest.is_empty() => return Ok(of_stack(stack, input, None)),
        ([stack], Some((input, output)), [head])
            if !stack.bidirectional && head.is_dense(output) && rest.len() == head.tensors =>
        {
            return Ok(of_stack(stack, input, Some(head)));
        }
        ([stack], ..) if stack.bidirectional && modules.len() == 1 => {
            "its names do not tell what the layer behind reads of both directions"
        }
        ([], ..) => "its names do not tell the arguments of its layers",
        _ => "its names do not tell how its layers follow each other",
    };
    Err(ImportError::NeedsArchitecture { reason: reason.to_owned(), draft: draft(&stacks, modules, sizes, tensors) })
}

fn of_stack(stack: &Stack<'_>, input: usize, head: Option<&Module>) -> Found {
    let mut layers = vec![stack.description()];
    let directions = if stack.bidirectional { "in both directions" } else { "forward" };
    let mut note = format!("found from the names: {} of {} layers {directions}", layers[0].class, stack.layers);
    if let Some(head) = head {
        note.push_str(&format!(" -> {} Dense, no activation behind", head.layer.name));
        layers.push(head.layer.clone());
    }
    let input = Input { name: "input".into(), size: Size::One(input), ..Input::default() };
    Found { description: Description { inputs: vec![input], layers, ..Description::default() }, note }
}

/// A layer, as the names of its variables tell it.
struct Module {
    layer: LayerDescription,
    /// Of its kernel, if that is a matrix.
    kernel: Option<(usize, usize)>,
    /// Features that go in, as far as that tells.
    input: Option<usize>,
    bias: bool,
    tensors: usize,
}

impl Module {
    fn is_dense(&self, input: usize) -> bool {
        self.layer.class == "Dense"
            && self.bias
            && self.tensors == 2
            && self.kernel.is_some_and(|(rows, _)| rows == input)
    }
}

/// The cells that `names` belong to, then the dense layers, each in the order of the names.
fn modules(tensors: &BTreeMap<String, Tensor>, names: &BTreeSet<&str>) -> Vec<Module> {
    let mut modules: BTreeMap<(bool, &str), Module> = BTreeMap::new();
    for &name in names {
        let cell = CELLS.iter().find_map(|(scope, class)| Some((cell_path(name, scope)?, *class)));
        let Some((own, class)) = cell.or_else(|| Some((name.rsplit_once('/')?.0, "Dense"))) else { continue };
        // Cells of both directions are one layer.
        let side = [("bidirectional_rnn/fw/", "cell_fw"), ("bidirectional_rnn/bw/", "cell_bw")]
            .into_iter()
            .find_map(|(scope, side)| Some((own.find(scope)? + scope.len() - "/fw/".len(), side)))
            .filter(|_| class != "Dense");
        let prefix = side.and_then(|(end, _)| own.get(..end)).unwrap_or(own);
        let module = modules.entry((class == "Dense", prefix)).or_insert_with(|| {
            let name = match prefix.rsplit('/').next() {
                Some(last) if class == "Dense" => last.to_owned(),
                _ => prefix.replace('/', "_"),
            };
            let other = (name != prefix).then(|| prefix.to_owned());
            let class = if side.is_some() { "bidirectional_dynamic_rnn" } else { class };
            let layer =
                LayerDescription { name, class: class.to_owned(), prefix: other, ..LayerDescription::default() };
            Module { layer, kernel: None, input: None, bias: false, tensors: 0 }
        });
        if let Some((_, side)) = side {
            module.layer.args.insert(side.to_owned(), format!("{class}()").into());
        }
        module.tensors += 1;
        if name == format!("{own}/kernel") || name == format!("{own}/gates/kernel") {
            module.kernel = tensors.get(name).and_then(|kernel| match *kernel.shape {
                [rows, cols] => Some((rows, cols)),
                _ => None,
            });
            // A cell's kernel has rows for its input and for its own output.
            let gates = match class {
                _ if class.contains("LSTM") => 4,
                _ if class.contains("GRU") => 2,
                _ => 1,
            };
            let input = |(rows, cols): (usize, usize)| {
                if class == "Dense" { Some(rows) } else { rows.checked_sub(cols / gates) }
            };
            module.input = module.kernel.and_then(input);
        }
        module.bias |= name == format!("{own}/bias");
    }
    // What has no kernel is no layer that is known.
    modules.into_values().filter(|module| module.kernel.is_some()).collect()
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

/// A description to start from, as JSON.
fn draft(
    stacks: &[Stack<'_>],
    modules: Vec<Module>,
    sizes: Option<(usize, usize)>,
    tensors: &BTreeMap<String, Tensor>,
) -> String {
    let input = sizes.map(|(input, _)| input).or_else(|| modules.first()?.input);
    let mut layers: Vec<LayerDescription> = stacks.iter().map(Stack::description).collect();
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
    layers.truncate(MAX_DRAFT);
    let input = Input { name: "input".into(), size: Size::One(input.unwrap_or(1).max(1)), ..Input::default() };
    let description = Description { inputs: vec![input], layers, ..Description::default() };
    serde_json::to_string(&description).unwrap_or_default()
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_of_optimizers_are_known_by_their_last_name() {
        for name in
            ["rnn/kernel/Adam", "rnn/kernel/Adam_1", "rnn/kernel/RMSProp_2", "beta1_power", "train/beta2_power_1"]
        {
            assert!(is_slot(name), "{name}");
        }
        for name in ["Adam", "rnn/kernel", "Adam/kernel", "rnn/Adam_x", "rnn/Adam_", "global_step", "beta_power"] {
            assert!(!is_slot(name), "{name}");
        }
    }

    #[test]
    fn the_names_of_cudnn_layers_are_read() {
        let fw = "a/stack_bidirectional_rnn/cell_1/bidirectional_rnn/fw/cudnn_compatible_gru_cell/gates/bias";
        assert_eq!(parse(fw), Some(("a", true, GRU, 1)));
        assert_eq!(parse("rnn/multi_rnn_cell/cell_0/cudnn_compatible_lstm_cell/kernel"), Some(("", false, LSTM, 0)));
        assert_eq!(
            parse("b/c/rnn/multi_rnn_cell/cell_12/cudnn_compatible_lstm_cell/x"),
            Some(("b/c", false, LSTM, 12))
        );
        for name in [
            "rnn/multi_rnn_cell/cell_0/lstm_cell/kernel",
            "arnn/multi_rnn_cell/cell_0/cudnn_compatible_lstm_cell/kernel",
            "rnn/multi_rnn_cell/cell_0/cudnn_compatible_lstm_cells/kernel",
            "rnn/multi_rnn_cell/cell_x/cudnn_compatible_lstm_cell/kernel",
            "stack_bidirectional_rnn/cell_0/bidirectional_rnn/xw/cudnn_compatible_lstm_cell/kernel",
        ] {
            assert_eq!(parse(name), None, "{name}");
        }
    }
}
