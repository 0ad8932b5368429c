//! Files of `torch.save`: a zip archive with `data.pkl` and an entry for each storage, or, before PyTorch 1.6, several
//! pickles followed by the storages.

use std::borrow::Cow;
use std::collections::HashMap;

use super::dict::{Storages, read, storages, tensors};
use super::{pickle::Object, pickle::Pickle, state::malformed, state::malformed_if};
use crate::format::{Imported, Options, archive::Archive};
use crate::{budget::Budget, data::element::Endian, error::ImportError, error::Result};

/// The first object of the older format.
const MAGIC: i128 = 0x1950_a86a_20f9_469c_fc6c;
const PROTOCOL: i128 = 1001;

const SAVE: &str = "save the weights alone: torch.save(model.state_dict(), FILE)";

pub(crate) fn is_torch(archive: &Archive<'_>) -> bool {
    archive.names().iter().any(|name| is_pickle(name) || is_exported(name))
}

fn is_pickle(name: &str) -> bool {
    name == "data.pkl" || name.ends_with("/data.pkl")
}

fn is_exported(name: &str) -> bool {
    ["serialized_exported_program.json", "models/model.json"].iter().any(|end| name.ends_with(end))
}

fn refused(found: &str, advice: &'static str) -> Result<Imported> {
    Err(ImportError::Refused { found: found.to_owned(), advice })
}

pub(crate) fn import_archive(archive: &mut Archive<'_>, name: &str, options: &Options) -> Result<Imported> {
    let of_script = |name: &String| name.ends_with("/constants.pkl") || name.contains("/code/");
    if archive.names().iter().any(of_script) {
        return refused(
            "it is a TorchScript archive, which holds a program",
            "export it as ONNX: torch.onnx.export(torch.jit.load(FILE), EXAMPLE_INPUT, \"NEW.onnx\", dynamo=False); or save \
             its weights: torch.save(torch.jit.load(FILE).state_dict(), \"NEW.pt\")",
        );
    }
    if archive.names().iter().any(|name| is_exported(name)) {
        return refused("it is a program written by torch.export", SAVE);
    }
    let mut pickles = archive.names().iter().filter(|name| is_pickle(name)).cloned();
    let (Some(entry), None) = (pickles.next(), pickles.next()) else {
        return malformed("it holds several pickles");
    };
    let folder = entry.trim_end_matches("data.pkl");
    let endian = match archive.read(&format!("{folder}byteorder"))?.as_deref() {
        Some(b"big") => Endian::Big,
        Some(b"little") | None => Endian::Little,
        Some(_) => return malformed("its byte order is neither little-endian nor big-endian"),
    };
    let content = archive.read(&entry)?.unwrap_or_default();
    let pickle = read(&content)?;
    let found = tensors(&pickle)?;
    let mut storages: Storages<'_> = HashMap::new();
    for (_, view) in &found.views {
        if !storages.contains_key(view.storage)
            && let Some(content) = archive.read(&format!("{folder}data/{}", view.storage))?
        {
            storages.insert(view.storage.to_owned(), Cow::Owned(content));
        }
    }
    found.state(&storages, endian, &mut archive.budget)?.import(name, options)
}

pub(crate) fn import_pickles(bytes: &[u8], name: &str, options: &Options) -> Result<Imported> {
    let mut rest = bytes;
    let magic = next(&mut rest)?;
    if magic.get(magic.root) != &Object::Int(MAGIC) {
        return refused("it is a pickle that torch.save did not write", SAVE);
    }
    let protocol = next(&mut rest)?;
    malformed_if(protocol.get(protocol.root) != &Object::Int(PROTOCOL), format_args!("its version is not {PROTOCOL}"))?;
    let system = next(&mut rest)?;
    let Object::Dict(facts) = system.get(system.root) else {
        return malformed("it does not say which machine wrote it");
    };
    let is = |key, text| matches!(system.get(key), Object::Text(found) if *found == text);
    let order = facts.iter().find(|&&(key, _)| is(key, "little_endian"));
    let big = order.is_some_and(|&(_, value)| system.get(value) == &Object::Bool(false));
    malformed_if(big, "its numbers are big-endian")?;
    let pickle = next(&mut rest)?;
    let keys = next(&mut rest)?;
    let Object::List(keys_in_order) = keys.get(keys.root) else { return malformed("it has no list of storages") };
    let elements = storages(&pickle)?;
    let mut contents: Storages<'_> = HashMap::new();
    for &key in keys_in_order {
        let &Object::Text(key) = keys.get(key) else { return malformed("the name of a storage is not a text") };
        let Some(element) = elements.get(key) else {
            return malformed(format!("storage {key:?} is listed, but no tensor uses it"));
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
    tensors(&pickle)?.state(&contents, Endian::Little, &mut Budget::of_file(bytes.len()))?.import(name, options)
}

/// Reads the pickle at the start of `rest` and removes it.
fn next<'a>(rest: &mut &'a [u8]) -> Result<Pickle<'a>> {
    let pickle = read(rest)?;
    *rest = rest.get(pickle.len..).unwrap_or_default();
    Ok(pickle)
}
