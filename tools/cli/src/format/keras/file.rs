//! Files of Keras: `.h5` of a whole model or of weights, `.keras`, `.weights.h5`.

use serde_json::Value as Json;

use super::arguments::{idle_directions, upgraded};
use super::config::{Generation, describe, wrong};
use super::hdf5::{self, Tree};
use super::names;
use super::weights::{Layout, assign};
use crate::data::one_line;
use crate::error::ImportError;
use crate::format::archive::Archive;
use crate::format::{Description, Imported, Options};

/// The model in HDF5.
pub(crate) fn import_hdf5(bytes: &[u8], name: &str, options: &Options) -> Result<Imported, ImportError> {
    let tree = hdf5::read(bytes, is_of_network)?;
    let version = tree.text("", "keras_version").or_else(|| tree.text("model_weights", "keras_version"));
    let version = version.unwrap_or_default().to_owned();
    let whole = tree.text("", "model_config").map(|text| parsed(text, "model_config")).transpose()?;
    let groups = tree.list("", "layer_names").is_some();
    let generation = match version.as_str() {
        // Keras 1.0 did not say.
        "" if whole.is_some() || groups => Some(Generation::First),
        "" => None,
        version => Some(Generation::of(version)),
    };
    let source = format!("{name}, Keras");
    if let (Some(json), Some(generation)) = (whole, generation) {
        let description = Description { version, ..own(&json, generation, options)? };
        let root = "model_weights";
        let mirrored = is_mirrored(&tree, root, generation);
        return finish(&description, tree, Layout::Groups { root, mirrored }, options, &source);
    }
    let layout = match groups {
        true => Layout::Groups { root: "", mirrored: generation.is_some_and(|of| is_mirrored(&tree, "", of)) },
        false if tree.has_group("layers") || tree.has_group("vars") => Layout::Paths,
        false => return wrong("it has neither layers nor weights of Keras"),
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
        // Those before write groups of layers.
        FIRST_WITH_PATHS.clone_into(&mut description.version);
    }
    finish(&description, tree, layout, options, &source)
}

/// Which Keras 2 was the first to write weights as Keras 3 does, without saying its version.
const FIRST_WITH_PATHS: &str = "2.12";

/// Whether kernels are those of Theano. Keras 1 does not say, but TensorFlow's names end in `:0`.
fn is_mirrored(tree: &Tree, root: &str, generation: Generation) -> bool {
    match tree.text("", "backend").or_else(|| tree.text(root, "backend")) {
        Some(backend) => backend == "theano",
        None => {
            let mut names = tree.tensors.keys().filter(|name| name.starts_with(root)).peekable();
            generation == Generation::First && names.peek().is_some() && names.all(|name| !name.contains(':'))
        }
    }
}

/// Whether an archive is one of Keras.
pub(crate) fn is_keras(archive: &Archive<'_>) -> bool {
    let has = |name: &str| archive.names().iter().any(|entry| entry == name);
    has("config.json") && (has("metadata.json") || has("model.weights.h5"))
}

/// The model in a `.keras`.
pub(crate) fn import_archive(
    archive: &mut Archive<'_>,
    name: &str,
    options: &Options,
) -> Result<Imported, ImportError> {
    let Some(config) = archive.read("config.json")? else { return wrong("it has no config.json") };
    let config = String::from_utf8(config).or_else(|_| wrong("its config.json is no text"))?;
    let json = parsed(&config, "config.json")?;
    let version = archive.read("metadata.json")?.and_then(|text| {
        let metadata: Json = serde_json::from_slice(text.get(..).filter(|text| text.len() <= MAX_JSON)?).ok()?;
        Some(metadata.get("keras_version")?.as_str()?.to_owned())
    });
    let Some(version) = version else { return wrong("its metadata.json says no keras_version") };
    let description = Description { version: version.clone(), ..own(&json, Generation::of(&version), options)? };
    let Some(weights) = archive.read("model.weights.h5")? else {
        return Err(ImportError::Unsupported("a .keras file without model.weights.h5".into()));
    };
    let tree = hdf5::read(&weights, is_of_network)?;
    finish(&description, tree, Layout::Paths, options, &format!("{name}, Keras"))
}

/// What a person gives as an architecture in Keras's own words.
pub(crate) fn description(json: &Json) -> Result<Description, ImportError> {
    let generation = match json.get("keras_version").and_then(Json::as_str) {
        Some(version) => Generation::of(version),
        None if json.get("module").is_some() => Generation::Third,
        None => return wrong("it does not say its keras_version, as what model.to_json() gives does"),
    };
    describe(json, generation)
}

/// Most bytes of an architecture: one of thousands of layers has some.
const MAX_JSON: usize = 8 << 20;

fn parsed(text: &str, what: &str) -> Result<Json, ImportError> {
    if text.len() > MAX_JSON {
        return wrong(format!("its {what} is longer than {MAX_JSON} bytes"));
    }
    serde_json::from_str(text).or_else(|error| wrong(format!("its {what}: {error}")))
}

fn own(json: &Json, generation: Generation, options: &Options) -> Result<Description, ImportError> {
    if options.description.is_some() {
        return Err(ImportError::Unsupported("--arch with a file that holds its architecture".into()));
    }
    describe(json, generation)
}

/// Groups that hold what only training needs.
fn is_of_network(path: &str) -> bool {
    let first = path.split('/').next().unwrap_or(path);
    let random = path.split('/').any(|part| part == "seed_generator");
    !random && !matches!(first, "optimizer_weights" | "optimizer" | "_optimizer" | "metrics")
}

fn finish(
    description: &Description,
    mut tree: Tree,
    layout: Layout<'_>,
    options: &Options,
    source: &str,
) -> Result<Imported, ImportError> {
    let mut tensors = assign(&description.layers, &mut tree, layout)?;
    tensors.append(&mut tree.tensors);
    // Where neither the file nor a person says which, it makes no difference, or the layer for which it does is refused.
    let mut imported = description.model(Generation::Third.framework(), &tensors, options.window, source)?;
    let skipped = tree.skipped.iter().map(|name| {
        let what = if name.ends_with("seed_generator") { "the state of a random generator" } else { "of training" };
        one_line(&format!("not used: {name} ({what})"))
    });
    for layer in &description.layers {
        let what = match layer.class.as_str() {
            "Masking" => "steps of the masking's value",
            "Embedding" if layer.args.get("mask_zero") == Some(&Json::Bool(true)) => "steps of index 0",
            _ => continue,
        };
        let note = format!("layer {}: {what} keep the states behind it, and what they gave before", layer.name);
        imported.notes.push(one_line(&note));
    }
    imported.notes.splice(0..0, tree.notes.iter().map(|note| one_line(note)).chain(skipped));
    Ok(imported)
}
