//! `x[:, -1, :]` in a functional model, which Keras saves as a layer: steps of a sequence and features of a step.

use serde_json::Value as Json;

use crate::error::{ImportError, Result};
use crate::format::refuse::{needs_window_if, unsupported_if};
use crate::format::{case::Case, case::unsupported, network::Network, signal::Signal, signal::last};

/// The class of such a layer in Keras 3.
pub(super) const CLASS: &str = "GetItem";

/// The parts of one dimension that are selected.
enum Selected {
    /// One element; the dimension is removed.
    One(usize),
    /// This many elements from the first.
    Range(usize, usize),
}

/// `index` is an argument of the call: a number or a slice for each dimension from the batch on.
pub(super) fn get_item(case: &mut Case<'_>, network: &mut Network, x: &Signal) -> Result<Signal> {
    let index = case.value("index").unwrap_or_default();
    let refuse = || unsupported("index", &index);
    let list = match &index {
        Json::Array(list) => list.as_slice(),
        one => std::slice::from_ref(one),
    };
    unsupported_if(x.shape.len() > 1 || x.order.is_some(), "a part of an image")?;
    let [batch, rest @ ..] = list else { return Err(refuse()) };
    let most = if x.sequence { 2 } else { 1 };
    if !is_all(batch) || rest.len() > most {
        return Err(refuse());
    }
    let (time, features) = match rest {
        [time, features] => (Some(time), Some(features)),
        [time] if x.sequence => (Some(time), None),
        [features] => (None, Some(features)),
        _ => (None, None),
    };
    let mut value = x.clone();
    if let Some(time) = time.filter(|time| !is_all(time)) {
        unsupported_if(x.mask.is_some(), "steps of a sequence with a mask")?;
        value = of_time(network, x, time)?.ok_or_else(refuse)?;
    }
    if let Some(features) = features.filter(|features| !is_all(features)) {
        let Some(Selected::Range(first, len)) = selected(features, value.source.size()) else { return Err(refuse()) };
        let source = network.part(&value.source, first, len);
        value = value.with(source);
    }
    Ok(value)
}

/// `None` if the index is not a number or a slice of neighboring steps.
fn of_time(network: &mut Network, x: &Signal, index: &Json) -> Result<Option<Signal>> {
    // In a stream the schedule selects the last step.
    if index.as_i64() == Some(-1) {
        return Ok(Some(last(network, x.clone())));
    }
    needs_window_if(x.source.rows().is_none(), "a part of the steps")?;
    let (rows, size) = (x.source.rows().unwrap_or(1), x.source.size());
    let Some(selected) = selected(index, rows) else { return Ok(None) };
    let (first, len) = match selected {
        Selected::One(at) if at + 1 == rows => return Ok(Some(last(network, x.clone()))),
        Selected::One(at) => (at, 1),
        Selected::Range(first, len) => (first, len),
    };
    network.only_full_windows();
    let part = network.part(&x.source.clone().flat(), first * size, len * size);
    Ok(Some(match selected {
        Selected::One(_) => Signal { sequence: false, steps: None, ..x.with(part) },
        Selected::Range(..) => Signal { source: part.in_rows(len), steps: Some(len), ..x.clone() },
    }))
}

/// The arguments of a slice, in the notation of Keras 3 or of Keras 2.
fn slice(json: &Json) -> Option<[&Json; 3]> {
    let of = if json.get("class_name").is_some_and(|class| class == "__slice__") { json.get("config")? } else { json };
    let part = |name| of.get(name);
    Some([part("start")?, part("stop")?, part("step")?])
}

fn is_all(json: &Json) -> bool {
    slice(json).is_some_and(|parts| parts.iter().all(|part| part.is_null()))
}

fn selected(json: &Json, len: usize) -> Option<Selected> {
    let place = |at: i64| usize::try_from(if at < 0 { at + len as i64 } else { at }).ok();
    if let Some(at) = json.as_i64() {
        return place(at).filter(|&at| at < len).map(Selected::One);
    }
    let [start, stop, step] = slice(json)?;
    if !(step.is_null() || step.as_i64() == Some(1)) {
        return None;
    }
    let first = if start.is_null() { 0 } else { place(start.as_i64()?)? };
    let end = if stop.is_null() { len } else { place(stop.as_i64()?)? };
    (first < end && end <= len).then_some(Selected::Range(first, end - first))
}

/// Refuses another function of TensorFlow that Keras 2 saves as a layer.
pub(super) fn check(function: Option<&Json>) -> Result<()> {
    match function {
        Some(function) if function != "__operators__.getitem" => {
            Err(ImportError::Unsupported(format!("the function {function}")))
        }
        _ => Ok(()),
    }
}
