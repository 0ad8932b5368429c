//! Modules of a state dict, recognized by the names and shapes of their tensors. What these do not determine is [`OPEN`]
//! among the arguments.

use std::collections::{BTreeSet, HashMap};

use serde_json::{Map, Value};

use super::state::State;
use crate::format::description::{LayerDescription, OPEN};

/// Advice about a module that no class of an architecture describes.
const AS_ONNX: &str = "export the network as ONNX (torch.onnx.export) if no class of docs/architecture.md computes it";

/// A module of a state dict, as far as its tensors determine it.
pub(super) struct Module {
    pub layer: LayerDescription,
    pub role: Role,
    pub input: usize,
    pub output: usize,
    /// Reason why the tensors do not determine the module, if they do not.
    pub doubt: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Embedding,
    Recurrent {
        bidirectional: bool,
    },
    Linear,
    /// A convolution over this many axes; transposed ones have no class in an architecture.
    Conv {
        axes: usize,
        transposed: bool,
    },
    Norm,
    Unknown,
}

/// The modules, in the order of the file.
pub(super) fn modules(state: &State) -> Vec<Module> {
    let mut order: Vec<&str> = Vec::new();
    let mut tensors: HashMap<&str, HashMap<&str, &[usize]>> = HashMap::new();
    for name in &state.order {
        let (prefix, leaf) = name.rsplit_once('.').unwrap_or(("", name));
        let Some(tensor) = state.tensors.get(name) else { continue };
        if !tensors.contains_key(prefix) {
            order.push(prefix);
        }
        tensors.entry(prefix).or_default().insert(leaf, &tensor.shape);
    }
    let modules = order.iter().filter_map(|prefix| Some(module(prefix, tensors.get(prefix)?)));
    modules.collect()
}

fn module(prefix: &str, tensors: &HashMap<&str, &[usize]>) -> Module {
    let recurrent = recurrent(tensors, "_l0", "").or_else(|| recurrent(tensors, "", "Cell"));
    let (class, args, role, (input, output), doubt) =
        recurrent.unwrap_or_else(|| plain(prefix, tensors).unwrap_or_else(|| unknown(prefix, tensors)));
    let name = if prefix.is_empty() { class.to_lowercase() } else { prefix.to_owned() };
    let layer = LayerDescription {
        prefix: (name != prefix).then(|| prefix.to_owned()),
        name,
        class: class.to_owned(),
        args,
        ..LayerDescription::default()
    };
    Module { layer, role, input, output, doubt }
}

type Told = (&'static str, Map<String, Value>, Role, (usize, usize), Option<String>);

/// `weight_ih_l0` [gates * hidden, input], `weight_hh_l0` [gates * hidden, hidden], `weight_hr_l0` [projected, hidden].
/// The tensors of a cell have no layer number in their names.
fn recurrent(tensors: &HashMap<&str, &[usize]>, suffix: &str, cell: &str) -> Option<Told> {
    let matrix = |name: &str| match tensors.get(format!("{name}{suffix}").as_str()) {
        Some(&&[rows, cols]) => Some((rows, cols)),
        _ => None,
    };
    let ((rows, input), (_, recurrent)) = (matrix("weight_ih")?, matrix("weight_hh")?);
    let projected = matrix("weight_hr");
    let hidden = projected.map_or(recurrent, |(_, hidden)| hidden);
    if hidden == 0 || rows % hidden != 0 {
        return None;
    }
    let class = match (rows / hidden, cell) {
        (4, "") => "LSTM",
        (3, "") => "GRU",
        (1, "") => "RNN",
        (4, _) => "LSTMCell",
        (3, _) => "GRUCell",
        (1, _) => "RNNCell",
        _ => return None,
    };
    let count = (1..=tensors.len()).find(|k| !tensors.contains_key(format!("weight_ih_l{k}").as_str())).unwrap_or(1);
    let bidirectional = cell.is_empty() && tensors.contains_key("weight_ih_l0_reverse");
    let mut args = Map::new();
    if count > 1 && cell.is_empty() {
        args.insert("num_layers".into(), count.into());
    }
    if bidirectional {
        args.insert("bidirectional".into(), true.into());
    }
    if !tensors.contains_key(format!("bias_ih{suffix}").as_str()) {
        args.insert("bias".into(), false.into());
    }
    if let Some((size, _)) = projected {
        args.insert("proj_size".into(), size.into());
    }
    let mut doubt = None;
    if class.starts_with("RNN") {
        args.insert("nonlinearity".into(), OPEN.into());
        doubt = Some("its names do not determine whether the RNN's nonlinearity is tanh or relu".to_owned());
    }
    let output = recurrent * if bidirectional { 2 } else { 1 };
    Some((class, args, Role::Recurrent { bidirectional }, (input, output), doubt))
}

fn plain(prefix: &str, tensors: &HashMap<&str, &[usize]>) -> Option<Told> {
    let weight = *tensors.get("weight")?;
    let bias = tensors.contains_key("bias");
    let mut args = Map::new();
    if !bias {
        args.insert("bias".into(), false.into());
    }
    let doubtful = |what: &str| Some(format!("the tensors of {prefix:?} do not determine {what}"));
    let embeds = prefix.rsplit('.').next().is_some_and(|name| name.to_lowercase().contains("emb"));
    Some(match *weight {
        [_, size] if embeds && !bias => ("Embedding", Map::new(), Role::Embedding, (1, size), None),
        [units, input] => {
            let doubt = if bias { None } else { doubtful("whether it is a Linear or an Embedding") };
            ("Linear", args, Role::Linear, (input, units), doubt)
        }
        [size] if tensors.contains_key("running_mean") => {
            args.clear();
            args.insert("eps".into(), OPEN.into());
            ("BatchNorm1d", args, Role::Norm, (size, size), doubtful("its eps or its position"))
        }
        [size] => {
            args.insert("eps".into(), OPEN.into());
            if bias {
                ("LayerNorm", args, Role::Norm, (size, size), doubtful("its eps or its position"))
            } else {
                (OPEN, args, Role::Norm, (size, size), doubtful("whether it is a LayerNorm or an RMSNorm"))
            }
        }
        [first, second, ref taps @ ..] if matches!(taps.len(), 1 | 2) => {
            // A transposed convolution has its input channels first, and as many biases as outputs.
            let biases = tensors.get("bias").and_then(|bias| bias.first().copied());
            let transposed = biases.is_some_and(|biases| biases != first);
            let class = match (taps.len(), transposed) {
                (1, false) => "Conv1d",
                (1, true) => "ConvTranspose1d",
                (_, false) => "Conv2d",
                (_, true) => "ConvTranspose2d",
            };
            for name in ["stride", "padding", "dilation"] {
                args.insert(name.into(), OPEN.into());
            }
            let (sizes, doubt) = match biases.filter(|_| transposed) {
                Some(biases) => {
                    let doubt =
                        format!("{prefix:?} is a transposed convolution, for which there is no class: {AS_ONNX}");
                    ((first, biases), Some(doubt))
                }
                None => ((second, first), doubtful("its stride, padding and dilation")),
            };
            (class, args, Role::Conv { axes: taps.len(), transposed }, sizes, doubt)
        }
        _ => return None,
    })
}

fn unknown(prefix: &str, tensors: &HashMap<&str, &[usize]>) -> Told {
    let names: BTreeSet<&str> = tensors.keys().copied().collect();
    let names: Vec<&str> = names.into_iter().take(3).collect();
    let doubt =
        format!("{prefix:?} with {} is not a layer that can be recognized by its names: {AS_ONNX}", names.join(", "));
    (OPEN, Map::new(), Role::Unknown, (1, 1), Some(doubt))
}
