//! What a file of weights tells of its network: names and shapes, not what a layer does with its numbers. They make a
//! description to start from.

use serde_json::{Map, Value as Json};

use super::hdf5::Tree;
use crate::error::ImportError;
use crate::format::description::{Description, Input, LayerDescription, Size};

/// Most layers of it, and most bytes: it is one line.
const MAX_LAYERS: usize = 32;
const MAX_BYTES: usize = 1 << 13;

/// Why a file of weights alone is refused. `framework` is empty where the file does not say.
pub(super) fn draft(tree: &Tree, framework: &str) -> ImportError {
    let groups: Vec<String> = match tree.list("", "layer_names") {
        Some(names) => names.into_iter().map(str::to_owned).collect(),
        None => {
            let names = tree.texts.keys().filter_map(|path| path.strip_prefix("layers/"));
            names.filter(|name| !name.contains('/')).map(|name| format!("layers/{name}")).collect()
        }
    };
    let mut size = None;
    let mut layers = Vec::new();
    for name in groups {
        let begins = format!("{name}/");
        let of = tree.tensors.range(begins.clone()..).take_while(|(path, _)| path.starts_with(&begins));
        let shapes: Vec<(&str, &[usize])> =
            of.map(|(path, tensor)| (path.get(begins.len()..).unwrap_or_default(), tensor.shape.as_slice())).collect();
        let Some((class, args, input)) = layer(&name, &shapes) else { continue };
        size = size.or(input);
        layers.push(LayerDescription { name, class, args, ..LayerDescription::default() });
    }
    layers.truncate(MAX_LAYERS);
    let description = Description {
        framework: framework.to_owned(),
        inputs: vec![Input { name: "input".into(), size: Size::One(size.unwrap_or(1)), ..Input::default() }],
        layers,
        ..Description::default()
    };
    let mut draft = serde_json::to_string(&description).unwrap_or_default();
    if draft.len() > MAX_BYTES || draft.contains(char::is_control) {
        draft = "(too long to be shown)".into();
    }
    ImportError::NeedsArchitecture {
        reason: "its weights do not tell activations, nor which outputs count".into(),
        draft,
    }
}

/// Class, arguments and features that come in.
fn layer(name: &str, shapes: &[(&str, &[usize])]) -> Option<(String, Map<String, Json>, Option<usize>)> {
    let has = |part: &str| shapes.iter().any(|(path, _)| path.contains(part));
    let matrix = |end: &str| {
        shapes.iter().find_map(|(path, shape)| match shape {
            &&[rows, cols] if path.trim_end_matches(":0").ends_with(end) => Some((rows, cols)),
            _ => None,
        })
    };
    let mut args = Map::new();
    // Names of Keras 2, or the numbers of Keras 3.
    let kernel = matrix("kernel").or_else(|| matrix("vars/0"));
    let recurrent = matrix("recurrent_kernel").or_else(|| matrix("cell/vars/1"));
    let class = match (kernel, recurrent) {
        _ if has("forward_") || has("forward_layer") => "Bidirectional",
        (_, Some((units, cols))) if units > 0 => match cols / units {
            4 => "LSTM",
            3 => "GRU",
            _ => "SimpleRNN",
        },
        _ if has("moving_mean") || shapes.len() == 4 => "BatchNormalization",
        _ if has("embeddings") || name.contains("embedding") => "Embedding",
        (Some(_), None) => "Dense",
        _ if shapes.is_empty() => return None,
        _ => "Unknown",
    };
    if let (Some((units, cols)), "LSTM" | "GRU" | "SimpleRNN") = (recurrent, class) {
        args.insert("units".into(), units.into());
        args.insert("return_sequences".into(), true.into());
        let _ = cols;
    }
    if let ("Dense", Some((_, units))) = (class, kernel) {
        args.insert("units".into(), units.into());
        args.insert("activation".into(), "linear".into());
    }
    let input = match class {
        "LSTM" | "GRU" | "SimpleRNN" => kernel.filter(|kernel| Some(*kernel) != recurrent).map(|(rows, _)| rows),
        "Dense" => kernel.map(|(rows, _)| rows),
        "Embedding" => Some(1),
        _ => None,
    };
    Some((class.to_owned(), args, input))
}
