//! TensorFlow checkpoints of the second format: `model.ckpt.index` holds the names and positions of the variables, and
//! `model.ckpt.data-00000-of-00001` holds their values. A checkpoint does not store its architecture. The architecture
//! comes from a description, or from variable names that only one kind of network has.

mod bundle;
mod draft;
mod names;
pub mod proto;
pub mod table;

use std::collections::BTreeSet;
use std::fmt::Display;
use std::fs::File;
use std::io::{ErrorKind, Read, Seek};
use std::path::{Path, PathBuf};

use super::{Options, description::Description, description::Imported};
use crate::error::{ImportError, Result};

pub use bundle::Bundle;
pub use table::is_table;

/// Suffix of the index file, after the prefix that TensorFlow is given.
const INDEX: &str = ".index";
/// Suffix of the training graph, which TensorFlow writes beside the index. It contains no weights.
const META: &str = ".meta";
/// File that names the latest checkpoint of a folder, and its maximum size in bytes.
const LATEST: &str = "checkpoint";
const MAX_LATEST_BYTES: u64 = 1 << 16;
/// Maximum number of names in a note, which is one line.
const MAX_NAMES: usize = 8;

fn malformed<T>(reason: impl Display) -> Result<T> {
    Err(ImportError::Malformed { format: "TensorFlow checkpoint", reason: reason.to_string() })
}

fn malformed_if(found: bool, reason: impl Display) -> Result<()> {
    if found { malformed(reason) } else { Ok(()) }
}

/// The index of the checkpoint that the user means by `path`. `path` may be the prefix that TensorFlow was given, the
/// index, one of the shards, the graph beside them, the file `checkpoint`, or a folder that contains it. Returns `None`
/// for any other path.
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
        // A shard is useless without its index, so a missing index is reported later.
        Some((prefix, _)) => return Some(with_suffix(&path.with_file_name(prefix), INDEX)),
        None if name.ends_with(META) => path.with_extension(""),
        None if path.exists() => return None,
        None => path.to_owned(),
    };
    Some(with_suffix(&prefix, INDEX)).filter(|index| index.is_file())
}

/// The index of the checkpoint in `model_checkpoint_path: "..."`, or beside the file if there is none at this path.
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

/// Imports the model of a checkpoint. `index` is the content of the file at `path`.
///
/// # Errors
/// If the checkpoint is damaged, or if its names and the description do not determine the architecture.
pub fn import(index: &[u8], path: &Path, options: &Options) -> Result<Imported> {
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
                advice: "a checkpoint consists of several files: copy them together",
            }
        })
    })
}

/// Like [`import`], but `open` opens the shards, given the number of the shard and the number of shards.
///
/// # Errors
/// The errors of [`import`] and of `open`.
pub fn import_parts<R: Read + Seek>(
    index: &[u8],
    name: &str,
    options: &Options,
    mut open: impl FnMut(u32, u32) -> Result<R>,
) -> Result<Imported> {
    let bundle = Bundle::read(index)?;
    let values = bundle.tensors(|name| !names::is_slot(name), |shard| open(shard, bundle.shards))?;
    let dtypes: BTreeSet<&str> = bundle.skipped().map(|(_, dtype)| dtype).collect();
    let of = |dtype: &str| bundle.skipped().filter(|(_, of)| *of == dtype).map(|(name, _)| name).collect::<Vec<_>>();
    let skipped = dtypes.into_iter().map(|dtype| format!("not used: {} ({dtype})", listed(&of(dtype))));
    let mut notes: Vec<String> = skipped.collect();
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
    let description = if let Some(given) = &options.description {
        given.clone()
    } else {
        let found = names::found(&values.tensors)?;
        notes.push(found.note);
        found.description
    };
    in_rows_order(&description, &bundle)?;
    let mut imported = description.model("tf1", &values.tensors, options.window, &source)?;
    imported.notes.splice(0..0, notes);
    Ok(imported)
}

/// Refuses a lookup in a partitioned table unless its `partition_strategy` is `div`, where each part holds consecutive
/// rows. By default, TensorFlow distributes the rows in turn.
fn in_rows_order(description: &Description, bundle: &Bundle) -> Result<()> {
    let lookups = description.layers.iter().filter(|layer| layer.class.ends_with("embedding_lookup"));
    for layer in lookups.filter(|layer| layer.args.get("partition_strategy").is_none_or(|how| how != "div")) {
        if let Some(table) = bundle.partitioned().find(|name| layer.has(name)) {
            return Err(ImportError::Refused {
                found: format!("layer {:?} looks up rows of {table:?}, which is partitioned", layer.name),
                advice: "if the program uses partition_strategy \"div\", add it to the layer's args; otherwise save the variable unpartitioned",
            });
        }
    }
    Ok(())
}

/// At most [`MAX_NAMES`] names on one line.
fn listed(names: &[&str]) -> String {
    let mut text = names.iter().take(MAX_NAMES).copied().collect::<Vec<_>>().join(", ");
    if let Some(more) = names.len().checked_sub(MAX_NAMES).filter(|&more| more > 0) {
        text.push_str(&format!(" and {more} more"));
    }
    text
}
