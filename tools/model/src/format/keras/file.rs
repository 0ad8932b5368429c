//! Keras's files: `.h5` with a whole model or only weights, `.keras`, and `.weights.h5`.

use serde_json::Value as Json;

use super::{
    arguments::idle_directions, arguments::upgraded, config::describe, hdf5, hdf5::Tree, names, part::Generation,
    part::wrong, weights::Layout, weights::assign,
};
use crate::format::description::within;
use crate::format::refuse::{in_layer, limit_if, unsupported_if};
use crate::format::{Description, Imported, Options, archive::Archive};
use crate::{budget::Budget, data::one_line, error::ImportError, error::Result};

pub(crate) fn import_hdf5(bytes: &[u8], name: &str, options: &Options) -> Result<Imported> {
    let mut budget = Budget::of_file(bytes.len());
    let tree = hdf5::read(bytes, is_of_network, &mut budget)?;
    let version = tree.text("", "keras_version").or_else(|| tree.text("model_weights", "keras_version"));
    let version = version.unwrap_or_default().to_owned();
    let whole = tree.text("", "model_config").map(|text| parsed(text, "model_config", &mut budget)).transpose()?;
    let groups = tree.list("", "layer_names").is_some();
    let generation = match version.as_str() {
        // Keras 1.0 did not write its version.
        "" if whole.is_some() || groups => Some(Generation::First),
        "" => None,
        version => Some(Generation::of(version)),
    };
    if let (Some(json), Some(generation)) = (whole, generation) {
        let description = Description { version, ..own(&json, generation, options)? };
        let root = "model_weights";
        let mirrored = is_mirrored(&tree, root, generation);
        return finish(&description, tree, Layout::Groups { root, mirrored }, options, name);
    }
    let layout = match groups {
        true => Layout::Groups { root: "", mirrored: generation.is_some_and(|of| is_mirrored(&tree, "", of)) },
        false if tree.has_group("layers") || tree.has_group("vars") => Layout::Paths,
        false => return wrong("it has neither Keras layers nor Keras weights"),
    };
    let framework = generation.map_or("", Generation::framework);
    let Some(given) = &options.description else { return Err(names::draft(&tree, framework)) };
    let mut description = Description { version, ..given.clone() };
    if description.framework == "keras1" || (description.framework.is_empty() && generation == Some(Generation::First))
    {
        description = upgraded(description)?;
    } else if description.framework.is_empty() {
        framework.clone_into(&mut description.framework);
    }
    for layer in description.layers.iter_mut().filter(|_| description.framework == "keras2") {
        idle_directions(generation.unwrap_or(Generation::Third), &layer.class, &mut layer.args);
    }
    if generation.is_none() && description.framework == "keras2" {
        // Earlier versions write a group for each layer.
        FIRST_WITH_PATHS.clone_into(&mut description.version);
    }
    finish(&description, tree, layout, options, name)
}

/// The first Keras 2 that wrote weights as Keras 3 does, without its version.
const FIRST_WITH_PATHS: &str = "2.12";

/// Whether kernels are stored in Theano's mirrored order. Keras 1 does not name its backend, but TensorFlow's names end
/// in `:0`.
fn is_mirrored(tree: &Tree, root: &str, generation: Generation) -> bool {
    match tree.text("", "backend").or_else(|| tree.text(root, "backend")) {
        Some(backend) => backend == "theano",
        None => {
            let mut names = tree.tensors.keys().filter(|name| name.starts_with(root)).peekable();
            generation == Generation::First && names.peek().is_some() && names.all(|name| !name.contains(':'))
        }
    }
}

pub(crate) fn is_keras(archive: &Archive<'_>) -> bool {
    let has = |name: &str| archive.names().iter().any(|entry| entry == name);
    has("config.json") && (has("metadata.json") || has("model.weights.h5"))
}

pub(crate) fn import_archive(archive: &mut Archive<'_>, name: &str, options: &Options) -> Result<Imported> {
    let Some(config) = archive.read("config.json")? else { return wrong("it has no config.json") };
    let config = String::from_utf8(config).or_else(|_| wrong("its config.json is not UTF-8"))?;
    let json = parsed(&config, "config.json", &mut archive.budget)?;
    let metadata = archive.read("metadata.json")?.unwrap_or_default();
    let metadata = parsed(&String::from_utf8_lossy(&metadata), "metadata.json", &mut archive.budget).ok();
    let version = metadata.and_then(|json| Some(json.get("keras_version")?.as_str()?.to_owned()));
    let Some(version) = version else { return wrong("its metadata.json has no keras_version") };
    let description = Description { version: version.clone(), ..own(&json, Generation::of(&version), options)? };
    let Some(weights) = archive.read("model.weights.h5")? else {
        return Err(ImportError::Unsupported("a .keras file without model.weights.h5".into()));
    };
    let tree = hdf5::read(&weights, is_of_network, &mut archive.budget)?;
    finish(&description, tree, Layout::Paths, options, name)
}

/// The description of an architecture that the user gives in Keras's own JSON.
pub(crate) fn description(json: &Json) -> Result<Description> {
    let generation = match json.get("keras_version").and_then(Json::as_str) {
        Some(version) => Generation::of(version),
        None if json.get("module").is_some() => Generation::Third,
        None => return wrong("it has no keras_version, unlike the output of model.to_json()"),
    };
    describe(json, generation)
}

/// Maximum length of an architecture in bytes; even one with thousands of layers is shorter.
const MAX_JSON: usize = 8 << 20;

fn parsed(text: &str, what: &str, budget: &mut Budget) -> Result<Json> {
    limit_if(text.len() > MAX_JSON, MAX_JSON, "bytes in its description of the layers")?;
    budget.take_json(text.as_bytes())?;
    serde_json::from_str(text).or_else(|error| wrong(format!("its {what}: {error}")))
}

fn own(json: &Json, generation: Generation, options: &Options) -> Result<Description> {
    unsupported_if(options.description.is_some(), "--arch with a file that holds its architecture")?;
    describe(json, generation)
}

/// Whether a group belongs to the network and not only to training.
fn is_of_network(path: &str) -> bool {
    let first = path.split('/').next().unwrap_or(path);
    let random = path.split('/').any(|part| part == "seed_generator");
    !random && !matches!(first, "optimizer_weights" | "optimizer" | "_optimizer" | "metrics")
}

/// Refuses a layer of the file's own architecture whose class has weights that no layer here reads.
fn no_weights_left(of: &Description, tree: &Tree) -> Result<()> {
    for layer in &of.layers {
        let Some(saved) = &layer.saved else { continue };
        let is_own = |tensor: &&String| within(saved, tensor).is_some() || within(layer.prefix(), tensor).is_some();
        if let Some(tensor) = tree.tensors.keys().find(is_own) {
            let found = one_line(&format!("its class has weights that no layer here reads ({tensor})"));
            let advice = "export the network as ONNX, for example with tf2onnx or model.export(FILE, format=\"onnx\")";
            return Err(in_layer(&layer.name, &layer.class, ImportError::Refused { found, advice }));
        }
    }
    Ok(())
}

fn finish(of: &Description, mut tree: Tree, layout: Layout<'_>, options: &Options, name: &str) -> Result<Imported> {
    let mut tensors = assign(&of.layers, &mut tree, layout)?;
    no_weights_left(of, &tree)?;
    tensors.append(&mut tree.tensors);
    // If neither the file nor the user states the framework, either it makes no difference or the layer that depends on
    // it is refused.
    let mut imported = of.model(Generation::Third.framework(), &tensors, options.window, &format!("{name}, Keras"))?;
    let skipped = tree.skipped.iter().map(|name| {
        let what = if name.ends_with("seed_generator") { "the state of a random generator" } else { "training state" };
        one_line(&format!("not used: {name} ({what})"))
    });
    for layer in &of.layers {
        let what = match layer.class.as_str() {
            "Masking" => "steps of the masking's value",
            "Embedding" if layer.args.get("mask_zero") == Some(&Json::Bool(true)) => "steps of index 0",
            _ => continue,
        };
        let note = format!("layer {}: {what} leave the following states and outputs unchanged", layer.name);
        imported.notes.push(one_line(&note));
    }
    imported.notes.splice(0..0, tree.notes.iter().map(|note| one_line(note)).chain(skipped));
    Ok(imported)
}
