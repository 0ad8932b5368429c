//! States that are ports of a graph: pairs an input with the output that is its value in the next step.

use std::collections::BTreeMap;

use crate::data::one_line;
use crate::error::{ImportError, Result};

/// An input or an output of a graph.
pub(super) struct Port {
    pub name: String,
    pub shape: Vec<usize>,
    /// Whether it may be a state that `--state` does not name.
    pub is_free: bool,
}

/// Pairs of an input and an output of the same shape that form one state: those that `--state` names, those with similar
/// names, and those that are the only ones of their shape, if the output `holds` elements of the input.
///
/// # Errors
/// If `--state` names a port that does not exist, or ports of different shapes.
pub(super) fn pairs(
    inputs: &[Port],
    outputs: &[Port],
    named: &BTreeMap<String, String>,
    holds: impl Fn(usize, usize) -> bool,
) -> Result<Vec<(usize, usize)>> {
    let mut pairs = by_option(inputs, outputs, named)?;
    let (mut taken_in, mut taken_out) = (vec![false; inputs.len()], vec![false; outputs.len()]);
    for &(input, output) in &pairs {
        (taken_in[input], taken_out[output]) = (true, true);
    }
    let fits = |input: usize, output: usize| inputs[input].shape == outputs[output].shape && inputs[input].is_free;
    let stems_in: Vec<String> = inputs.iter().map(|of| stem(&of.name)).collect();
    let stems_out: Vec<String> = outputs.iter().map(|of| stem(&of.name)).collect();
    let named = |input: usize, output: usize| fits(input, output) && are_alike(&stems_in[input], &stems_out[output]);
    for input in (0..inputs.len()).filter(|&input| !taken_in[input]).collect::<Vec<_>>() {
        let only = sole((0..outputs.len()).filter(|&output| !taken_out[output] && named(input, output)));
        if let Some(output) = only
            && sole((0..inputs.len()).filter(|&other| named(other, output))).is_some()
        {
            pairs.push((input, output));
            (taken_in[input], taken_out[output]) = (true, true);
        }
    }
    for input in 0..inputs.len() {
        let free = |input: usize, output: usize| !taken_in[input] && !taken_out[output] && fits(input, output);
        let Some(output) = sole((0..outputs.len()).filter(|&output| free(input, output))) else { continue };
        if sole((0..inputs.len()).filter(|&other| free(other, output))).is_some() && holds(input, output) {
            pairs.push((input, output));
            (taken_in[input], taken_out[output]) = (true, true);
        }
    }
    Ok(pairs)
}

/// The pairs that `--state` names.
///
/// # Errors
/// If it names a port that does not exist, or ports of different shapes.
pub(super) fn by_option(
    inputs: &[Port],
    outputs: &[Port],
    named: &BTreeMap<String, String>,
) -> Result<Vec<(usize, usize)>, ImportError> {
    let mut pairs = Vec::new();
    for (input, output) in named {
        let of = |what: &str, name: &str| ImportError::Refused {
            found: format!("--state {input}={output}: the graph has no {what} {:?}", one_line(name)),
            advice: "name an input and an output of the graph",
        };
        let from = inputs.iter().position(|of| of.name == *input).ok_or_else(|| of("input", input))?;
        let to = outputs.iter().position(|of| of.name == *output).ok_or_else(|| of("output", output))?;
        let (before, after) = (&inputs[from].shape, &outputs[to].shape);
        if before != after {
            return Err(ImportError::Refused {
                found: format!("--state {input}={output}: they are {before:?} and {after:?}"),
                advice: "name an output with the shape of the input",
            });
        }
        pairs.push((from, to));
    }
    Ok(pairs)
}

/// Pairs of an input and an output of the same shape and number, as LiteRT's converter for PyTorch names them: `args_1` and
/// `output_1`. They may be states, but need not.
pub(super) fn numbered(inputs: &[Port], outputs: &[Port]) -> Vec<(usize, usize)> {
    let output = |input: &Port| {
        let number = input.name.strip_prefix("args_").filter(|_| input.is_free)?;
        outputs.iter().position(|of| of.name.strip_prefix("output_") == Some(number) && of.shape == input.shape)
    };
    inputs.iter().enumerate().filter_map(|(number, input)| Some((number, output(input)?))).collect()
}

/// The only one of `outputs` with a name like that of an input.
pub(super) fn alike<'a>(input: &str, outputs: impl Iterator<Item = &'a str>) -> Option<usize> {
    let input = stem(input);
    let found = outputs.enumerate().filter(|(_, output)| are_alike(&input, &stem(output)));
    sole(found.map(|(number, _)| number))
}

/// The only item; `None` if there are several or none.
fn sole(mut items: impl Iterator<Item = usize>) -> Option<usize> {
    let first = items.next();
    first.filter(|_| items.next().is_none())
}

/// Whether the names of an input and an output, without the words that tell them apart, are those of one state: `cache`
/// and `cache_out`, `state` and `stateN`, `past_key` and `present_key`.
fn are_alike(input: &str, output: &str) -> bool {
    !input.is_empty() && (input == output || output.strip_suffix('n') == Some(input))
}

/// A name without the words that tell the old value of a state from the new one.
fn stem(name: &str) -> String {
    const WORDS: [&str; 12] =
        ["in", "out", "input", "output", "new", "next", "old", "prev", "previous", "past", "present", "n"];
    let lower = name.to_lowercase();
    let words = lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.filter(|word| !WORDS.contains(word)).collect::<Vec<_>>().join("_")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ports(names: &[(&str, usize)]) -> Vec<Port> {
        names.iter().map(|&(name, size)| Port { name: name.into(), shape: vec![1, size], is_free: true }).collect()
    }

    #[test]
    fn pairs_need_alike_names_or_a_shape_of_their_own_and_held_elements() {
        let (inputs, outputs) =
            (ports(&[("x", 3), ("cache_in", 4), ("s", 5)]), ports(&[("cache", 4), ("y", 4), ("t", 5)]));
        let of = |holds: bool| pairs(&inputs, &outputs, &BTreeMap::new(), |_, _| holds).unwrap();
        assert_eq!(of(true), [(1, 0), (2, 2)]);
        assert_eq!(of(false), [(1, 0)]);
    }
}
