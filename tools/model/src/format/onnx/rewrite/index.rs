//! The indices of a table, as exporters of Keras write them out.
//!
//! ```text
//! Gather(table, c)                                          c = Cast(x)   Keras declares the input of an Embedding as floats
//! Gather(table, (c < 0) · (c + rows) + c · not (c < 0))     TensorFlow counts negative indices from the end
//! Gather(table, Where(c < 0, c + rows, c))
//! ```
//!
//! The `Gather` reads the input itself, because the indices of words are whole numbers from 0.

use super::{Replaced, Seen};
use crate::format::onnx::graph::Attributes;
use crate::format::onnx::value::elem;

/// The operators to replace, and the inputs that are indices.
pub(super) fn found<'a>(seen: &Seen<'a>) -> (Vec<Replaced>, Vec<&'a str>) {
    let gathers = seen.graph.node.iter().enumerate().filter(|(_, node)| node.op_type == "Gather");
    let found = gathers.filter_map(|(at, node)| {
        let index = node.input.get(1)?;
        let input = wrapped(seen, index).unwrap_or_else(|| uncast(seen, index));
        (input != index && seen.is_input(input)).then(|| {
            let mut gather = node.clone();
            gather.input[1] = input.to_owned();
            (Replaced { at, nodes: vec![gather] }, input)
        })
    });
    found.unzip()
}

/// c without conversions, if a value is c with negative numbers counted from the end.
fn wrapped<'a>(seen: &Seen<'a>, name: &str) -> Option<&'a str> {
    let from_end = |name| Some(uncast(seen, seen.pair(name, "Add", Some, |rows| seen.number(rows))?.0));
    let [condition, end, start] = match seen.made_by(name, "Where") {
        Some(choice) => {
            let [condition, end, start] = &choice.input[..] else { return None };
            [negative(seen, condition)?, from_end(end)?, uncast(seen, start)]
        }
        None => {
            let not = |name| negative(seen, seen.made_by(uncast(seen, name), "Not")?.input.first()?);
            let end = |name: &'a str| seen.pair(name, "Mul", |of| negative(seen, of), from_end);
            let start = |name: &'a str| seen.pair(name, "Mul", |of| Some(uncast(seen, of)), not);
            let ((condition, end), (start, other)) = seen.pair(name, "Add", end, start)?;
            (condition == other).then_some([condition, end, start])?
        }
    };
    (condition == end && end == start).then_some(start)
}

/// c without conversions, if a value says whether c is negative.
fn negative<'a>(seen: &Seen<'a>, name: &'a str) -> Option<&'a str> {
    let [count, zero] = &seen.made_by(uncast(seen, name), "Less")?.input[..] else { return None };
    (seen.number(zero)? == 0.0).then(|| uncast(seen, count))
}

/// The number that conversions start from, if its type holds each index.
fn uncast<'a>(seen: &Seen<'a>, name: &'a str) -> &'a str {
    // The input as an integer, and this integer as a float for a comparison.
    const MOST: usize = 2;
    (0..MOST).fold(name, |name, _| {
        let is_number =
            |to: i64| [elem::INT32, elem::INT64, elem::FLOAT, elem::DOUBLE].iter().any(|&of| to == i64::from(of));
        let cast = seen.made_by(name, "Cast");
        let cast = cast.filter(|cast| Attributes::of(cast).int("to", 0).is_ok_and(is_number));
        cast.and_then(|cast| cast.input.first()).map_or(name, String::as_str)
    })
}
