//! Derives an architecture from the names and shapes of a state dict. They fully determine a recurrent network, an
//! embedding before it and one linear layer after it, but not the modules without weights. If anything is ambiguous,
//! the error contains a draft of a description.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::state::State;
use crate::format::description::{Description, Input, LayerDescription, Size};
use crate::{data::one_line, error::ImportError, error::Result};

/// Maximum number of modules in a draft; it is printed on one line.
const MAX_DRAFT: usize = 32;
struct Module {
    layer: LayerDescription,
    role: Role,
    input: usize,
    output: usize,
    /// Reason why the tensors do not determine the module, if they do not.
    doubt: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Embedding,
    Recurrent { bidirectional: bool },
    Linear,
    Other,
}

/// The architecture, and a note that describes it.
pub(super) fn found(state: &State) -> Result<(Description, String)> {
    let in_file = modules(state);
    let mut modules: Vec<&Module> = in_file.iter().collect();
    // Embeddings, then layers that run over time, then linear layers, each group in the order of the file.
    modules.sort_by_key(|module| match module.role {
        Role::Embedding => 0,
        Role::Recurrent { .. } | Role::Other => 1,
        Role::Linear => 2,
    });
    let doubt = modules.iter().find_map(|module| module.doubt.clone()).or_else(|| doubt(&modules));
    if let Some(chain) = doubt.as_ref().and_then(|_| chain(&in_file)) {
        modules = chain;
    }
    let first = modules.first().map_or(1, |module| module.input);
    let input = Input { name: "input".into(), size: Size::One(first.max(1)), ..Input::default() };
    let classes: Vec<String> = modules.iter().map(|module| call(&module.layer)).collect();
    let layers: Vec<LayerDescription> = modules.iter().take(MAX_DRAFT).map(|module| module.layer.clone()).collect();
    let description = Description { inputs: vec![input], layers, ..Description::default() };
    match doubt {
        None => Ok((description, format!("found from the names: {}, no activation after it", classes.join(" -> ")))),
        Some(reason) => Err(ImportError::NeedsArchitecture { reason: one_line(&reason), draft: description.draft() }),
    }
}

/// `lstm: LSTM(num_layers=2)`
fn call(layer: &LayerDescription) -> String {
    let args: Vec<String> = layer.args.iter().map(|(name, value)| format!("{name}={value}")).collect();
    format!("{} {}({})", layer.name, layer.class, args.join(", "))
}

/// Reason why modules that are unambiguous on their own do not determine an architecture together.
fn doubt(modules: &[&Module]) -> Option<String> {
    let roles: Vec<Role> = modules.iter().map(|module| module.role).collect();
    let rest = match roles.as_slice() {
        [Role::Embedding, rest @ ..] => rest,
        rest => rest,
    };
    match rest {
        [] => return Some("its names show no layer that runs over time".into()),
        [Role::Recurrent { .. } | Role::Linear] | [Role::Recurrent { bidirectional: false }, Role::Linear] => {}
        [Role::Recurrent { bidirectional: true }, Role::Linear] => {
            return Some("its names do not determine what the linear layer reads of both directions".into());
        }
        _ => return Some("its names do not determine how its layers follow each other".into()),
    }
    // Files list modules in the order of their definition or of the alphabet, not in that of their calls.
    if let [embedding @ .., recurrent, linear] = modules
        && (linear.input, linear.output) == (recurrent.output, recurrent.input)
        && embedding.iter().all(|embedding| embedding.output == linear.input)
        && rest.len() == 2
    {
        let (linear, recurrent) = (&linear.layer.name, &recurrent.layer.name);
        return Some(format!("its names and sizes fit {linear:?} before {recurrent:?} as well as after it"));
    }
    let pairs = modules.iter().zip(modules.iter().skip(1));
    let apart = pairs.filter(|(from, to)| from.output != to.input).map(|(from, to)| {
        let (from, to, sizes) = (&from.layer.name, &to.layer.name, (from.output, to.input));
        format!("{from:?} outputs {} features and {to:?} reads {}", sizes.0, sizes.1)
    });
    apart.into_iter().next()
}

/// An order in which every module reads as many features as the one before it outputs, as near as possible to that of the
/// file. `None` if there is none, or if it is not found within a number of trials.
fn chain(in_file: &[Module]) -> Option<Vec<&Module>> {
    fn extend<'m>(chain: &mut Vec<&'m Module>, rest: &mut Vec<&'m Module>, trials: &mut usize) -> bool {
        if rest.is_empty() {
            return true;
        }
        for at in 0..rest.len() {
            let next = rest[at];
            let fits = |last: &&Module| last.output == next.input && next.role != Role::Embedding;
            if !chain.last().is_none_or(fits) || *trials == 0 {
                continue;
            }
            *trials -= 1;
            chain.push(rest.remove(at));
            if extend(chain, rest, trials) {
                return true;
            }
            rest.extend(chain.pop());
            rest[at..].rotate_right(1);
        }
        false
    }
    let (mut chain, mut rest) = (Vec::new(), in_file.iter().collect());
    (in_file.len() <= MAX_DRAFT && extend(&mut chain, &mut rest, &mut 10_000)).then_some(chain)
}

/// The modules, in the order of the file.
fn modules(state: &State) -> Vec<Module> {
    let mut order: Vec<&str> = Vec::new();
    let mut tensors: BTreeMap<&str, BTreeMap<&str, &[usize]>> = BTreeMap::new();
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

fn module(prefix: &str, tensors: &BTreeMap<&str, &[usize]>) -> Module {
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
fn recurrent(tensors: &BTreeMap<&str, &[usize]>, suffix: &str, cell: &str) -> Option<Told> {
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
        args.insert("nonlinearity".into(), "tanh".into());
        doubt = Some("its names do not determine whether the RNN's nonlinearity is tanh or relu".to_owned());
    }
    let output = recurrent * if bidirectional { 2 } else { 1 };
    Some((class, args, Role::Recurrent { bidirectional }, (input, output), doubt))
}

fn plain(prefix: &str, tensors: &BTreeMap<&str, &[usize]>) -> Option<Told> {
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
            ("BatchNorm1d", Map::new(), Role::Other, (size, size), doubtful("its eps or its position"))
        }
        [size] => {
            let doubt = if bias { "its eps or its position" } else { "whether it is a LayerNorm or an RMSNorm" };
            ("LayerNorm", args, Role::Other, (size, size), doubtful(doubt))
        }
        [filters, channels, _] => {
            ("Conv1d", args, Role::Other, (channels, filters), doubtful("its stride, padding and dilation"))
        }
        [filters, channels, height, width] => {
            args.insert("kernel_size".into(), json!([height, width]));
            ("Conv2d", args, Role::Other, (channels, filters), doubtful("its stride, padding and dilation"))
        }
        _ => return None,
    })
}

fn unknown(prefix: &str, tensors: &BTreeMap<&str, &[usize]>) -> Told {
    let names: Vec<&str> = tensors.keys().take(3).copied().collect();
    let doubt = format!("{prefix:?} with {} is not a layer that can be recognized by its names", names.join(", "));
    ("Unknown", Map::new(), Role::Other, (1, 1), Some(doubt))
}
