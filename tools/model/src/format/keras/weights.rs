//! Assigns the tensors of a file to the variables of the layers. Files of Keras 1 and 2 have a group for each layer
//! with a list of names in Keras's order; files of Keras 3 use an attribute path and a number. The name of a tensor
//! must agree with its position. All tensors are renamed to `<prefix>/<variable>`.

use std::collections::{BTreeMap, BTreeSet};

use super::{first, hdf5::Tree, variables, variables::Variable};
use crate::format::description::{LayerDescription as Layer, Tensors, nearest};
use crate::format::refuse::{in_layer, unsupported_if};
use crate::{canonical::Tensor, data::one_line, error::ImportError, error::Result};

#[derive(Clone, Copy, Debug)]
pub(super) enum Layout<'a> {
    /// A group for each layer below `root`, as written by `save_weights` of Keras 1 and 2.
    Groups {
        /// Empty in a file that holds only weights.
        root: &'a str,
        mirrored: bool,
    },
    /// Attribute paths.
    Paths,
}

/// Moves the tensors of the layers out of `tree` and renames them with the layers' prefixes. Tensors of no layer remain
/// in `tree`.
pub(super) fn assign(layers: &[Layer], tree: &mut Tree, layout: Layout<'_>) -> Result<Tensors> {
    let mut once = BTreeSet::new();
    let layers: Vec<&Layer> = layers.iter().filter(|layer| once.insert(layer.prefix())).collect();
    let mut found = BTreeMap::new();
    match layout {
        Layout::Paths => {
            let counted = variables::numbered(layers.iter().map(|layer| layer.class.as_str()));
            for (layer, counted) in layers.into_iter().zip(counted) {
                let path = match &layer.saved {
                    Some(path) => path.clone(),
                    None if tree.has_group(layer.prefix()) => layer.prefix().to_owned(),
                    None => format!("layers/{counted}"),
                };
                by_path(layer, &path, tree, &mut found).map_err(|error| blamed(layer, error))?;
            }
        }
        Layout::Groups { root, mirrored } => {
            let within = |name: &str| if root.is_empty() { name.to_owned() } else { format!("{root}/{name}") };
            // A nested model has one group for all of its layers.
            let known = tree.list(root, "layer_names").into_iter().flatten().map(str::to_owned);
            let known: BTreeSet<String> = known.collect();
            let mut groups: Vec<(String, Vec<&Layer>)> = Vec::new();
            for layer in layers {
                let prefix = layer.prefix();
                let mut name = prefix;
                while !known.contains(name) {
                    match name.rsplit_once('/') {
                        Some((outer, _)) => name = outer,
                        None => break,
                    }
                }
                match groups.iter_mut().find(|(group, _)| group == name) {
                    Some((_, members)) => members.push(layer),
                    None => groups.push((name.to_owned(), vec![layer])),
                }
            }
            for (name, members) in groups {
                by_order(&members, &within(&name), tree, mirrored, &mut found)?;
            }
        }
    }
    Ok(found)
}

fn blamed(layer: &Layer, error: ImportError) -> ImportError {
    in_layer(&layer.name, &layer.class, error)
}

fn take(tree: &mut Tree, name: &str) -> Result<Tensor> {
    tree.tensors.remove(name).ok_or_else(|| {
        let near = nearest(name, tree.tensors.keys());
        ImportError::NoSuchTensor { tensor: name.escape_debug().to_string(), near }
    })
}

fn by_path(layer: &Layer, path: &str, tree: &mut Tree, found: &mut Tensors) -> Result<()> {
    for variable in variables::of((&layer.class, &layer.args)) {
        let tensor = take(tree, &format!("{path}/{}", variable.path))?;
        found.insert(format!("{}/{}", layer.prefix(), variable.name), tensor);
    }
    Ok(())
}

struct Wanted<'a> {
    layer: &'a Layer,
    variable: Variable,
}

fn by_order(layers: &[&Layer], group: &str, tree: &mut Tree, mirrored: bool, found: &mut Tensors) -> Result<()> {
    let mut wanted: Vec<Wanted<'_>> = Vec::new();
    for &layer in layers {
        let of = variables::of((&layer.class, &layer.args));
        wanted.extend(of.into_iter().map(|variable| Wanted { layer, variable }));
    }
    let Some(&first) = layers.first() else { return Ok(()) };
    let names: Vec<String> = match (tree.list(group, "weight_names"), wanted.first()) {
        (Some(names), _) => names.into_iter().map(|name| format!("{group}/{name}")).collect(),
        (None, None) => Vec::new(),
        (None, Some(wanted)) => {
            let missing = take(tree, &format!("{group}/{}", wanted.variable.name));
            return missing.map(drop).map_err(|error| blamed(first, error));
        }
    };
    let mut saved = Vec::new();
    for name in names {
        let tensor = take(tree, &name).map_err(|error| blamed(first, error))?;
        saved.push((name, tensor));
    }
    // Layers of a nested model have their own names, in the order in which the model lists them.
    let listed = |layer: &Layer| saved.iter().position(|(name, _)| is_of(layer, name)).unwrap_or(saved.len());
    if layers.len() > 1 {
        wanted.sort_by_cached_key(|wanted| listed(wanted.layer));
    }
    wanted.sort_by_key(|wanted| !wanted.variable.trained);
    let classes: Vec<&str> = wanted.iter().map(|wanted| wanted.variable.class.as_str()).collect();
    if let ([], [(name, _), ..]) = (&wanted[..], &saved[..]) {
        let error = ImportError::Refused {
            found: one_line(&format!(
                "no layer of this class that is read has tensors, but the file has {name:?} for it"
            )),
            advice: "rebuild it from Keras's own layers; or end the network before it, with its tensors under \"unused\"",
        };
        return Err(blamed(first, error));
    }
    let saved = first::merged(saved, &classes).map_err(|error| blamed(first, error))?;
    if saved.len() != wanted.len() {
        let names: Vec<&str> = wanted.iter().map(|wanted| wanted.variable.name.as_str()).take(8).collect();
        let (found, needed, names) = (saved.len(), wanted.len(), names.join(", "));
        let of = format!("{found} tensors in group {group:?} where the layer has {needed} ({names})");
        return Err(blamed(first, ImportError::Unsupported(of)));
    }
    for (Wanted { layer, variable }, (name, mut tensor)) in wanted.into_iter().zip(saved) {
        let fits = agrees(&name, &variable) && (layers.len() == 1 || is_of(layer, &name));
        unsupported_if(!fits, format_args!("tensor {name:?} where the layer has its {}", variable.name))
            .map_err(|error| blamed(layer, error))?;
        first::flattened(&variable, &mut tensor);
        if mirrored {
            first::mirror(&variable, &mut tensor);
        }
        found.insert(format!("{}/{}", layer.prefix(), variable.name), tensor);
    }
    Ok(())
}

/// Whether a name in a file belongs to this layer of a nested model: `dense_1/kernel:0`, `dense_1_W`.
fn is_of(layer: &Layer, name: &str) -> bool {
    let prefix = layer.prefix();
    let own = prefix.rsplit_once('/').map_or(prefix, |(_, name)| name);
    let (scopes, leaf) = name.rsplit_once('/').unwrap_or(("", name));
    let first = leaf.strip_prefix(own).is_some_and(|rest| rest.starts_with('_'));
    first || scopes.split('/').any(|part| part == own)
}

/// Whether a name in a file ends with the variable's name: `lstm/lstm_cell/kernel:0`, `dense_1_W`.
fn agrees(name: &str, variable: &Variable) -> bool {
    let leaf = name.rsplit('/').next().unwrap_or(name);
    let leaf = leaf.rsplit_once(':').map_or(leaf, |(leaf, _)| leaf);
    let own = variable.name.rsplit('/').next().unwrap_or(&variable.name);
    let is = |known: &str| {
        // TensorFlow numbers repeated names.
        let numberless = leaf.rsplit_once('_').filter(|(_, number)| number.bytes().all(|byte| byte.is_ascii_digit()));
        let leaf = numberless.map_or(leaf, |(leaf, _)| leaf);
        // Keras 1 puts the layer's name in front.
        let kernels = ["recurrent_kernel", "depthwise_kernel", "pointwise_kernel"];
        leaf == known || (!kernels.contains(&leaf) && leaf.strip_suffix(known).is_some_and(|rest| rest.ends_with('_')))
    };
    is(own) || first::names(own, &variable.class).iter().any(|known| is(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_must_agree_with_its_position() {
        let of = |name: &str, class: &str| Variable {
            name: name.into(),
            path: String::new(),
            trained: true,
            class: class.into(),
        };
        let kernel = of("forward/kernel", "LSTM");
        for name in ["lstm/lstm_cell/kernel:0", "lstm/kernel_1:0", "m/l/kernel", "lstm_1_W", "lstm_1_W:0"] {
            assert!(agrees(name, &kernel), "{name}");
        }
        for name in ["lstm/bias:0", "lstm/recurrent_kernel:0", "lstm_1_U"] {
            assert!(!agrees(name, &kernel), "{name}");
        }
        assert!(agrees("lstm/recurrent_kernel:0", &of("recurrent_kernel", "LSTM")));
        assert!(agrees("bn/running_std", &of("moving_variance", "BatchNormalization")));
        assert!(agrees("depthwise/kernel", &of("depthwise_kernel", "DepthwiseConv1D")));
        assert!(!agrees("dense/kernel", &of("depthwise_kernel", "SeparableConv1D")));
    }

    #[test]
    fn a_layer_s_name_is_a_part_of_a_tensor_s() {
        let layer = Layer { name: "m/dense_1".into(), ..Layer::default() };
        assert!(is_of(&layer, "model_weights/m/dense_1/kernel:0") && is_of(&layer, "m/dense_1_W:0"));
        assert!(!is_of(&layer, "m/dense_12/kernel:0") && !is_of(&layer, "m/dense_1_1/kernel:0"));
    }
}
