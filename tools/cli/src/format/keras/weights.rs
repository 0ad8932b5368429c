//! Which tensor of a file is which variable of which layer. Files of Keras 1 and 2 have a group for each layer, with a
//! list of names in Keras's order; those of Keras 3 a path of attributes and a number. What a name says must agree with
//! what its place says. All become `<prefix>/<variable>`.

use std::collections::{BTreeMap, BTreeSet};

use super::first;
use super::hdf5::Tree;
use super::variables::{self, Variable};
use crate::canonical::Tensor;
use crate::error::ImportError;
use crate::format::description::{LayerDescription, nearest};

/// How a file has its weights.
#[derive(Clone, Copy, Debug)]
pub(super) enum Layout<'a> {
    /// A group for each layer below this one, as `save_weights` of Keras 1 and 2 has written it.
    Groups {
        /// Empty in a file that has only weights.
        root: &'a str,
        /// Whether convolutions are mirrored.
        mirrored: bool,
    },
    /// A path of attributes.
    Paths,
}

/// A tensor and its name in the file.
type Saved = (String, Tensor);

/// Moves the tensors of the layers out of `tree`, under the layers' prefixes. What no layer has is left there.
pub(super) fn assign(
    layers: &[LayerDescription],
    tree: &mut Tree,
    layout: Layout<'_>,
) -> Result<BTreeMap<String, Tensor>, ImportError> {
    let mut once = BTreeSet::new();
    let layers: Vec<&LayerDescription> = layers.iter().filter(|layer| once.insert(layer.prefix())).collect();
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
            // A model within the model has one group for all of its layers.
            let known: BTreeSet<String> = match tree.list(root, "layer_names") {
                Some(names) => names.into_iter().map(str::to_owned).collect(),
                None => BTreeSet::new(),
            };
            let mut groups: Vec<(String, Vec<&LayerDescription>)> = Vec::new();
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

fn blamed(layer: &LayerDescription, error: ImportError) -> ImportError {
    ImportError::Layer {
        layer: layer.name.escape_debug().to_string(),
        class: layer.class.escape_debug().to_string(),
        source: Box::new(error),
    }
}

fn take(tree: &mut Tree, name: &str) -> Result<Tensor, ImportError> {
    tree.tensors.remove(name).ok_or_else(|| {
        let near = nearest(name, tree.tensors.keys());
        ImportError::NoSuchTensor { tensor: name.escape_debug().to_string(), near }
    })
}

fn by_path(
    layer: &LayerDescription,
    path: &str,
    tree: &mut Tree,
    found: &mut BTreeMap<String, Tensor>,
) -> Result<(), ImportError> {
    for variable in variables::of((&layer.class, &layer.args)) {
        let tensor = take(tree, &format!("{path}/{}", variable.path))?;
        found.insert(format!("{}/{}", layer.prefix(), variable.name), tensor);
    }
    Ok(())
}

/// A variable of one of the layers of a group.
struct Wanted<'a> {
    layer: &'a LayerDescription,
    variable: Variable,
}

fn by_order(
    layers: &[&LayerDescription],
    group: &str,
    tree: &mut Tree,
    mirrored: bool,
    found: &mut BTreeMap<String, Tensor>,
) -> Result<(), ImportError> {
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
    let mut saved: Vec<Saved> = Vec::new();
    for name in names {
        let tensor = take(tree, &name).map_err(|error| blamed(first, error))?;
        saved.push((name, tensor));
    }
    // Layers of a model within the model stand under their own names, in the order in which it lists them.
    let listed =
        |layer: &LayerDescription| saved.iter().position(|(name, _)| is_of(layer, name)).unwrap_or(saved.len());
    if layers.len() > 1 {
        wanted.sort_by_cached_key(|wanted| listed(wanted.layer));
    }
    wanted.sort_by_key(|wanted| !wanted.variable.trained);
    let classes: Vec<&str> = wanted.iter().map(|wanted| wanted.variable.class.as_str()).collect();
    let saved = first::merged(saved, &classes).map_err(|error| blamed(first, error))?;
    if saved.len() != wanted.len() {
        let names: Vec<&str> = wanted.iter().map(|wanted| wanted.variable.name.as_str()).take(8).collect();
        let of = format!(
            "{} tensors in group {group:?} where the layer has {} ({})",
            saved.len(),
            wanted.len(),
            names.join(", ")
        );
        return Err(blamed(first, ImportError::Unsupported(of)));
    }
    for (Wanted { layer, variable }, (name, mut tensor)) in wanted.into_iter().zip(saved) {
        let several = layers.len() > 1;
        if !agrees(&name, &variable) || (several && !is_of(layer, &name)) {
            let of = format!("tensor {name:?} where the layer has its {}", variable.name);
            return Err(blamed(layer, ImportError::Unsupported(of)));
        }
        first::flattened(&variable, &mut tensor);
        if mirrored {
            first::mirror(&variable, &mut tensor);
        }
        found.insert(format!("{}/{}", layer.prefix(), variable.name), tensor);
    }
    Ok(())
}

/// Whether a name in a file says this layer of a model: `dense_1/kernel:0`, `dense_1_W`.
fn is_of(layer: &LayerDescription, name: &str) -> bool {
    let prefix = layer.prefix();
    let own = prefix.rsplit_once('/').map_or(prefix, |(_, name)| name);
    let (scopes, leaf) = name.rsplit_once('/').unwrap_or(("", name));
    let first = leaf.strip_prefix(own).is_some_and(|rest| rest.starts_with('_'));
    first || scopes.split('/').any(|part| part == own)
}

/// Whether a name in a file ends as that of the variable does: `lstm/lstm_cell/kernel:0`, `dense_1_W`.
fn agrees(name: &str, variable: &Variable) -> bool {
    let leaf = name.rsplit('/').next().unwrap_or(name);
    let leaf = leaf.rsplit_once(':').map_or(leaf, |(leaf, _)| leaf);
    let own = variable.name.rsplit('/').next().unwrap_or(&variable.name);
    let is = |known: &str| {
        // TensorFlow numbers what has been named before.
        let numberless = leaf.rsplit_once('_').filter(|(_, number)| number.bytes().all(|byte| byte.is_ascii_digit()));
        let leaf = numberless.map_or(leaf, |(leaf, _)| leaf);
        // Keras 1 has the layer's name before it.
        let kernels = ["recurrent_kernel", "depthwise_kernel", "pointwise_kernel"];
        leaf == known || (!kernels.contains(&leaf) && leaf.strip_suffix(known).is_some_and(|rest| rest.ends_with('_')))
    };
    is(own) || first::names(own, &variable.class).iter().any(|known| is(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_must_say_what_its_place_says() {
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
        let layer = LayerDescription { name: "m/dense_1".into(), ..LayerDescription::default() };
        assert!(is_of(&layer, "model_weights/m/dense_1/kernel:0") && is_of(&layer, "m/dense_1_W:0"));
        assert!(!is_of(&layer, "m/dense_12/kernel:0") && !is_of(&layer, "m/dense_1_1/kernel:0"));
    }
}
