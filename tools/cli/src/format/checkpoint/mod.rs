//! TensorFlow checkpoints in their second format: `model.ckpt.index`, which says what the variables are called and
//! where they lie, and `model.ckpt.data-00000-of-00001`, which holds their values. A checkpoint has no architecture:
//! a description gives it, or names that only one kind of network has.

mod bundle;
mod draft;
mod names;
pub mod proto;
pub mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::fs::File;
use std::io::{ErrorKind, Read, Seek};
use std::path::{Path, PathBuf};

use super::Options;
use super::description::{Description, Imported};
use crate::error::ImportError;

pub use bundle::Bundle;
pub use table::is_table;

/// What its index is called behind the prefix that TensorFlow is given.
const INDEX: &str = ".index";
/// What TensorFlow writes beside it: the graph that was trained, without weights.
const META: &str = ".meta";
/// The file in which a folder says which of its checkpoints is the latest, and most bytes of it.
const LATEST: &str = "checkpoint";
const MAX_LATEST_BYTES: u64 = 1 << 16;
/// Most names of a note, which is one line.
const MAX_NAMES: usize = 8;

fn malformed<T>(reason: impl Display) -> Result<T, ImportError> {
    Err(ImportError::Malformed { format: "TensorFlow checkpoint", reason: reason.to_string() })
}

/// The index of the checkpoint that a person means with `path`: its prefix as TensorFlow was given it, its index, one
/// of its shards, the graph beside them, or a folder with a file `checkpoint`, or that file. None if it is none of these.
pub fn index_of(path: &Path) -> Option<PathBuf> {
    let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    if path.is_dir() {
        return latest(&path.join(LATEST));
    }
    if name == LATEST && path.is_file() {
        return latest(path);
    }
    if name.ends_with(INDEX) {
        return Some(path.to_owned());
    }
    // `.data-00000-of-00001`
    let digits = |text: &str| text.len() >= 5 && text.bytes().all(|byte| byte.is_ascii_digit());
    let shard = name
        .rsplit_once(".data-")
        .filter(|(_, of)| of.split_once("-of-").is_some_and(|(shard, shards)| digits(shard) && digits(shards)));
    let prefix = match shard {
        // Without its index it is nothing.
        Some((prefix, _)) => return Some(with_suffix(&path.with_file_name(prefix), INDEX)),
        None if name.ends_with(META) => path.with_extension(""),
        None if path.exists() => return None,
        None => path.to_owned(),
    };
    Some(with_suffix(&prefix, INDEX)).filter(|index| index.is_file())
}

/// What `model_checkpoint_path: "..."` names; beside the file where the path is of another machine.
fn latest(file: &Path) -> Option<PathBuf> {
    let mut text = String::new();
    File::open(file).ok()?.take(MAX_LATEST_BYTES).read_to_string(&mut text).ok()?;
    let path = text.lines().find_map(|line| line.trim().strip_prefix("model_checkpoint_path:"))?;
    let path = path.trim().strip_prefix('"')?.strip_suffix('"')?.replace("\\\\", "\\");
    let given = with_suffix(&file.with_file_name(&path), INDEX);
    let name = path.rsplit(['/', '\\']).next().unwrap_or_default();
    let beside = with_suffix(&file.with_file_name(name), INDEX);
    Some(if given.is_file() { given } else { beside })
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// The model of a checkpoint, of which `index` holds what is in the file `path`.
///
/// # Errors
/// If the checkpoint is damaged, or names and description do not tell its architecture.
pub fn import(index: &[u8], path: &Path, options: &Options) -> Result<Imported, ImportError> {
    let name = path.file_name().map_or_else(|| "a checkpoint".into(), |name| name.to_string_lossy());
    let prefix = name.strip_suffix(INDEX).unwrap_or(&name);
    import_parts(index, prefix, options, |shard, shards| {
        let file = format!("{prefix}.data-{shard:05}-of-{shards:05}");
        File::open(path.with_file_name(&file)).map_err(|error| {
            let reason = match error.kind() {
                ErrorKind::NotFound => "there is no such file beside it".to_owned(),
                _ => format!("it cannot be read: {error}"),
            };
            ImportError::Refused {
                found: format!("its values are in {file:?}, and {reason}"),
                advice: "a checkpoint is all of its files: copy them together",
            }
        })
    })
}

/// As [`import`], from an index in memory. `open` gives a shard by its number and how many there are.
///
/// # Errors
/// As [`import`], and those of `open`.
pub fn import_parts<R: Read + Seek>(
    index: &[u8],
    name: &str,
    options: &Options,
    mut open: impl FnMut(u32, u32) -> Result<R, ImportError>,
) -> Result<Imported, ImportError> {
    let bundle = Bundle::read(index)?;
    let values = bundle.tensors(|name| !names::is_slot(name), |shard| open(shard, bundle.shards))?;
    let mut notes = Vec::new();
    for (dtype, names) in grouped(bundle.skipped().map(|(name, dtype)| (dtype, name))) {
        notes.push(format!("not used: {} ({dtype})", listed(&names)));
    }
    let slots: Vec<&str> = bundle.names().filter(|name| names::is_slot(name)).collect();
    if !slots.is_empty() {
        let last: BTreeSet<&str> = slots.iter().map(|name| name.rsplit('/').next().unwrap_or(name)).collect();
        let kinds = listed(&last.into_iter().collect::<Vec<_>>());
        notes.push(format!("not used: {} variables of an optimizer ({kinds})", slots.len()));
    }
    for (name, lost, of) in &values.rounded {
        notes.push(format!("{name}: {lost} of {of} numbers are rounded from f64 to f32"));
    }
    let source = format!("{name}, a TensorFlow checkpoint");
    let description = match &options.description {
        Some(given) => given.clone(),
        None => {
            let found = names::found(&values.tensors)?;
            notes.push(found.note);
            found.description
        }
    };
    in_rows_order(&description, &bundle)?;
    let mut imported = description.model("tf1", &values.tensors, options.window, &source)?;
    imported.notes.splice(0..0, notes);
    Ok(imported)
}

/// Refuses a lookup whose table is in parts, unless it is said that each part has rows that follow each other: where
/// nothing is said, TensorFlow deals the rows out in turn.
fn in_rows_order(description: &Description, bundle: &Bundle) -> Result<(), ImportError> {
    let lookups = description.layers.iter().filter(|layer| layer.class.ends_with("embedding_lookup"));
    for layer in lookups.filter(|layer| layer.args.get("partition_strategy").is_none_or(|how| how != "div")) {
        if let Some(table) = bundle.partitioned().find(|name| layer.has(name)) {
            return Err(ImportError::Refused {
                found: format!("layer {:?} looks up rows of {table:?}, which is in parts", layer.name),
                advice: "if the program does so with partition_strategy \"div\", say it in the layer's args; else save the variable whole",
            });
        }
    }
    Ok(())
}

fn grouped<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> BTreeMap<&'a str, Vec<&'a str>> {
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (group, name) in pairs {
        groups.entry(group).or_default().push(name);
    }
    groups
}

/// Names on one line.
fn listed(names: &[&str]) -> String {
    let mut text = names.iter().take(MAX_NAMES).copied().collect::<Vec<_>>().join(", ");
    if let Some(more) = names.len().checked_sub(MAX_NAMES).filter(|&more| more > 0) {
        text.push_str(&format!(" and {more} more"));
    }
    text
}
