//! `torch.save`'s files: a zip archive with `data.pkl` and an entry for each storage, or, before PyTorch 1.6, pickles one
//! after the other with the storages behind them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::dict::{Storages, read, storages, tensors};
use super::pickle::{Object, Pickle};
use super::state::malformed;
use crate::data::element::Endian;
use crate::error::ImportError;
use crate::format::archive::Archive;
use crate::format::{Imported, Options};

/// The first object of the older format.
const MAGIC: i128 = 0x1950_a86a_20f9_469c_fc6c;
/// Its version.
const PROTOCOL: i128 = 1001;

const SAVE: &str = "save the weights alone: torch.save(model.state_dict(), FILE)";

/// Whether an archive is one of PyTorch's.
pub(crate) fn is_torch(archive: &Archive<'_>) -> bool {
    archive.names().iter().any(|name| is_pickle(name) || is_exported(name))
}

fn is_pickle(name: &str) -> bool {
    name == "data.pkl" || name.ends_with("/data.pkl")
}

/// What `torch.export.save` writes.
fn is_exported(name: &str) -> bool {
    ["serialized_exported_program.json", "models/model.json"].iter().any(|end| name.ends_with(end))
}

/// The model in an archive that was read from `bytes` bytes.
pub(crate) fn import_archive(
    archive: &mut Archive<'_>,
    bytes: usize,
    name: &str,
    options: &Options,
) -> Result<Imported, ImportError> {
    let refused = |found: &str, advice| Err(ImportError::Refused { found: found.to_owned(), advice });
    let of_script = |name: &String| name.ends_with("/constants.pkl") || name.contains("/code/");
    if archive.names().iter().any(of_script) {
        return refused(
            "it is a TorchScript archive, which holds a program",
            "save its weights: torch.save(torch.jit.load(FILE).state_dict(), NEW_FILE)",
        );
    }
    if archive.names().iter().any(|name| is_exported(name)) {
        return refused("it is a program that torch.export has written", SAVE);
    }
    let mut pickles = archive.names().iter().filter(|name| is_pickle(name)).cloned();
    let (Some(entry), None) = (pickles.next(), pickles.next()) else {
        return malformed("it holds several pickles");
    };
    let folder = entry.trim_end_matches("data.pkl");
    let endian = match archive.read(&format!("{folder}byteorder"))?.as_deref() {
        Some(b"big") => Endian::Big,
        Some(b"little") | None => Endian::Little,
        Some(_) => return malformed("its byte order is neither little nor big"),
    };
    let content = archive.read(&entry)?.unwrap_or_default();
    let pickle = read(&content)?;
    let found = tensors(&pickle)?;
    let mut storages: Storages<'_> = BTreeMap::new();
    for (_, view) in &found.views {
        if !storages.contains_key(view.storage)
            && let Some(content) = archive.read(&format!("{folder}data/{}", view.storage))?
        {
            storages.insert(view.storage.to_owned(), Cow::Owned(content));
        }
    }
    found.state(&storages, endian, bytes)?.import(name, options)
}

/// The model in the older format.
pub(crate) fn import_pickles(bytes: &[u8], name: &str, options: &Options) -> Result<Imported, ImportError> {
    let mut rest = bytes;
    let magic = next(&mut rest)?;
    if magic.get(magic.root) != &Object::Int(MAGIC) {
        return Err(ImportError::Refused {
            found: "it is a pickle that torch.save has not written".into(),
            advice: SAVE,
        });
    }
    let protocol = next(&mut rest)?;
    if protocol.get(protocol.root) != &Object::Int(PROTOCOL) {
        return malformed(format!("its version is not {PROTOCOL}"));
    }
    let system = next(&mut rest)?;
    let Object::Dict(facts) = system.get(system.root) else {
        return malformed("it does not say what machine has written it");
    };
    let is = |key, text| matches!(system.get(key), Object::Text(found) if *found == text);
    let order = facts.iter().find(|&&(key, _)| is(key, "little_endian"));
    if order.is_some_and(|&(_, value)| system.get(value) == &Object::Bool(false)) {
        return malformed("its numbers are big-endian");
    }
    let pickle = next(&mut rest)?;
    let keys = next(&mut rest)?;
    let Object::List(keys_in_order) = keys.get(keys.root) else { return malformed("it has no list of storages") };
    let elements = storages(&pickle)?;
    let mut contents: Storages<'_> = BTreeMap::new();
    for &key in keys_in_order {
        let &Object::Text(key) = keys.get(key) else { return malformed("the name of a storage is no text") };
        let Some(element) = elements.get(key) else {
            return malformed(format!("storage {key:?} is listed, but no tensor is in it"));
        };
        let Some((len, behind)) = rest.split_first_chunk::<8>() else {
            return malformed(format!("it ends before storage {key:?}"));
        };
        let len = u64::from_le_bytes(*len);
        let size = usize::try_from(len).ok().and_then(|len| len.checked_mul(element.bytes()));
        let Some((content, behind)) = size.and_then(|size| behind.split_at_checked(size)) else {
            let left = behind.len();
            return malformed(format!("storage {key:?} has {len} numbers, but {left} bytes are left"));
        };
        contents.insert(key.to_owned(), Cow::Borrowed(content));
        rest = behind;
    }
    tensors(&pickle)?.state(&contents, Endian::Little, bytes.len())?.import(name, options)
}

/// The pickle at the start, which is cut off.
fn next<'a>(rest: &mut &'a [u8]) -> Result<Pickle<'a>, ImportError> {
    let pickle = read(rest)?;
    *rest = rest.get(pickle.len..).unwrap_or_default();
    Ok(pickle)
}
