//! A draft description from a file that holds only weights. Names and shapes say a lot about the network, but not which
//! functions the layers apply.

use serde_json::{Map, Value as Json};

use super::hdf5::Tree;
use crate::error::ImportError;
use crate::format::description::{Description, Input, LayerDescription, Size};

/// Maximum number of layers in the draft; it is printed on one line.
const MAX_LAYERS: usize = 32;

/// The error for a file that holds only weights. `framework` is empty if the file does not state it.
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
    ImportError::NeedsArchitecture {
        reason: "its weights do not show the activations or which outputs are used".into(),
        draft: description.draft(),
    }
}

fn layer(name: &str, shapes: &[(&str, &[usize])]) -> Option<(String, Map<String, Json>, Option<usize>)> {
    let has = |part: &str| shapes.iter().any(|(path, _)| path.contains(part));
    let matrix = |end: &str| {
        shapes.iter().find_map(|(path, shape)| match shape {
            &&[rows, cols] if path.trim_end_matches(":0").ends_with(end) => Some((rows, cols)),
            _ => None,
        })
    };
    let mut args = Map::new();
    // Keras 2 uses names, Keras 3 numbers.
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
    if let (Some((units, _)), "LSTM" | "GRU" | "SimpleRNN") = (recurrent, class) {
        args.insert("units".into(), units.into());
        args.insert("return_sequences".into(), true.into());
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
