//! A cell given as its constructor call in Python: `LSTMCell(5, use_peepholes=True)`.

use serde_json::{Map, Value};

use super::refuse::err_if;
use crate::error::{ImportError, Result};

#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    pub cls: String,
    /// Arguments by name. An argument that is itself a call is stored as its text, and a list of calls as a list of
    /// texts.
    pub args: Map<String, Value>,
}

impl Call {
    /// Parses a call. Only the first argument may be without a name.
    pub fn parse(text: &str) -> Result<Self> {
        let refuse = || ImportError::Unsupported(format!("cell {text:?}"));
        let (cls, rest) = text.trim().split_once('(').ok_or_else(refuse)?;
        let inner = rest.strip_suffix(')').ok_or_else(refuse)?;
        err_if(cls.is_empty() || !cls.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.'), refuse)?;
        let cls = cls.rsplit('.').next().unwrap_or(cls).to_owned();
        let mut args = Map::new();
        for (k, argument) in arguments(inner).ok_or_else(refuse)?.into_iter().enumerate() {
            // An equals sign within a nested call belongs to the nested call.
            let named = argument.split_once('=').filter(|(name, _)| !name.contains(['(', '[', '\'', '"']));
            let (name, value) = match named {
                Some((name, value)) => (name.trim(), value.trim()),
                None if k == 0 => (first_argument(&cls), argument),
                None => return Err(refuse()),
            };
            err_if(args.insert(name.to_owned(), literal(value).ok_or_else(refuse)?).is_some(), refuse)?;
        }
        Ok(Self { cls, args })
    }
}

fn first_argument(cls: &str) -> &'static str {
    match cls {
        "CFNCell" | "MinimalRNNCell" => "units",
        "MultiRNNCell" => "cells",
        _ if cls.ends_with("Wrapper") || cls.ends_with("Adaptor") => "cell",
        _ => "num_units",
    }
}

/// Splits at the commas outside of parentheses; `None` if a parenthesis is not closed.
fn arguments(text: &str) -> Option<Vec<&str>> {
    let (mut depth, mut start) = (0_usize, 0);
    let mut parts = Vec::new();
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.checked_sub(1)?,
            ',' if depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    // Python permits a trailing comma, and an empty argument list.
    if parts.last().is_some_and(|last| last.is_empty()) {
        parts.pop();
    }
    (depth == 0).then_some(parts)
}

fn literal(text: &str) -> Option<Value> {
    let quoted = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    match text {
        "True" => Some(Value::Bool(true)),
        "False" => Some(Value::Bool(false)),
        "None" => Some(Value::Null),
        _ if text.ends_with(')') => Some(Value::String(text.to_owned())),
        _ if text.starts_with('[') => {
            let items = arguments(text.strip_prefix('[')?.strip_suffix(']')?)?;
            items.into_iter().map(literal).collect::<Option<Vec<_>>>().map(Value::Array)
        }
        _ => match quoted('\'').or_else(|| quoted('"')) {
            Some(inner) => Some(Value::String(inner.to_owned())),
            // Numbers have the same syntax in Python and JSON.
            None => serde_json::from_str(text).ok(),
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parsed(text: &str) -> Value {
        let Call { cls, args } = Call::parse(text).unwrap();
        json!([cls, args])
    }

    #[test]
    fn a_call_is_its_class_and_its_arguments_by_name() {
        assert_eq!(parsed("LSTMCell(5)"), json!(["LSTMCell", {"num_units": 5}]));
        assert_eq!(
            parsed("rnn.LSTMCell(num_units=5, use_peepholes=True, cell_clip=0.5, name=None, activation='relu',)"),
            json!(["LSTMCell", {"num_units": 5, "use_peepholes": true, "cell_clip": 0.5, "name": null, "activation": "relu"}])
        );
        assert_eq!(parsed("CFNCell( 7 )"), json!(["CFNCell", {"units": 7}]));
        assert_eq!(parsed("GRUCell()"), json!(["GRUCell", {}]));
    }

    #[test]
    fn a_call_within_a_call_is_text() {
        assert_eq!(
            parsed("FusedRNNCellAdaptor(LSTMCell(5, use_peepholes=True), use_dynamic_rnn=True)"),
            json!(["FusedRNNCellAdaptor", {"cell": "LSTMCell(5, use_peepholes=True)", "use_dynamic_rnn": true}])
        );
    }

    #[test]
    fn a_list_is_parsed_with_its_elements() {
        assert_eq!(
            parsed("MultiRNNCell([GRUCell(4), LSTMCell(3, activation='relu')])"),
            json!(["MultiRNNCell", {"cells": ["GRUCell(4)", "LSTMCell(3, activation='relu')"]}])
        );
        assert_eq!(parsed("C(2, shape=[4, 3,], none=[])"), json!(["C", {"num_units": 2, "shape": [4, 3], "none": []}]));
    }

    #[test]
    fn anything_but_a_call_is_refused() {
        for text in ["", "LSTMCell", "LSTMCell(", "LSTMCell(5", "LSTMCell(5))", "LSTMCell(5, 6)", "LSTMCell(x)", "(5)"]
        {
            assert!(Call::parse(text).is_err(), "{text:?}");
        }
        assert!(Call::parse("LSTMCell(5, num_units=5)").is_err());
    }
}
