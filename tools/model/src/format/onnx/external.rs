//! Tensor values that a model stores in a separate file beside its own, as PyTorch's exporter does by default.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use super::proto::{GraphProto, TensorProto};
use crate::budget::Budget;
use crate::canonical::MAX_FILE_BYTES;
use crate::data::one_line;
use crate::error::{ImportError, Result};
use crate::format::refuse::err_if;

/// Maximum nesting depth of the graphs that are searched.
const MAX_DEPTH: usize = 16;

/// Reads the values of all tensors that are in files in `folder`, and returns their number of bytes.
pub(super) fn read(graph: &mut GraphProto, folder: Option<&Path>, budget: &mut Budget) -> Result<usize> {
    read_within(graph, folder, budget, 0)
}

fn read_within(graph: &mut GraphProto, folder: Option<&Path>, budget: &mut Budget, depth: usize) -> Result<usize> {
    let mut total = 0;
    for tensor in graph.initializer.iter_mut().filter(|tensor| tensor.data_location != 0) {
        total += values(tensor, folder, budget)?;
    }
    for attribute in graph.node.iter_mut().flat_map(|node| &mut node.attribute) {
        if let Some(tensor) = attribute.t.as_mut().filter(|tensor| tensor.data_location != 0) {
            total += values(tensor, folder, budget)?;
        }
        if let (Some(graph), true) = (attribute.g.as_deref_mut(), depth < MAX_DEPTH) {
            total += read_within(graph, folder, budget, depth + 1)?;
        }
    }
    Ok(total)
}

fn values(tensor: &mut TensorProto, folder: Option<&Path>, budget: &mut Budget) -> Result<usize> {
    let label = one_line(&tensor.name);
    let refused = |reason: String| super::malformed(format!("initializer {label:?}: {reason}"));
    let entry = |key: &str| tensor.external_data.iter().find(|entry| entry.key == key).map(|entry| &entry.value);
    let location = entry("location").ok_or_else(|| refused("its values are in another file without a name".into()))?;
    let number = |key: &str| match entry(key) {
        None => Ok(None),
        Some(text) => text
            .parse::<u64>()
            .map(Some)
            .map_err(|_| refused(format!("the {key} of its values is {:?}", one_line(text)))),
    };
    let (offset, length) = (number("offset")?.unwrap_or(0), number("length")?);
    // A path could refer to any file on the machine.
    let is_plain =
        !location.is_empty() && location != ".." && location != "." && !location.contains(['/', '\\', ':', '\0']);
    let name = one_line(location);
    err_if(!is_plain, || {
        refused(format!("its values are in {name:?}, which is not the name of a file in its folder"))
    })?;
    let missing = || ImportError::Refused {
        found: format!("the values of initializer {label:?} are in the file {name:?}, which is not beside the model"),
        advice: "put that file into the folder of the model, or save the model with its values inside",
    };
    let path = folder.ok_or_else(missing)?.join(location);
    let mut file = File::open(path).map_err(|_| missing())?;
    let size = file.metadata()?.len();
    let length = length.unwrap_or(size.saturating_sub(offset));
    let fits = offset.checked_add(length).is_some_and(|end| end <= size);
    err_if(!fits, || refused(format!("its values end after {name:?} does, which has {size} bytes")))?;
    err_if(length > MAX_FILE_BYTES, || ImportError::TooLarge { limit: MAX_FILE_BYTES })?;
    budget.widen(length);
    file.seek(SeekFrom::Start(offset))?;
    file.take(length).read_to_end(&mut tensor.raw_data)?;
    (tensor.data_location, tensor.external_data) = (0, Vec::new());
    Ok(tensor.raw_data.len())
}
