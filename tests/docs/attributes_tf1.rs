//! Each attribute of each op in the graphs of `frameworks/tf1_graph` is changed in one node, and the graph is imported.
//! The attribute is refused if the error names it, honoured if the model differs or the changed graph no longer fits
//! together, and harmless if the model is the same.

use std::collections::BTreeMap;
use std::fs;

use tidegate_model::canonical::Canonical;
use tidegate_model::error::ImportError;
use tidegate_model::format::graphdef::attr_value::Value as Attr;
use tidegate_model::format::graphdef::{self, AttrValue, ListValue, NodeDef};
use tidegate_model::format::tf1::import_graph;

use super::attributes::{Outcome, Table, written};
use super::repository;

/// Number of nodes of an op that are changed.
const NODES: usize = 3;

/// Another value of an attribute; `None` for types, constants and shapes, which follow from the graph.
fn other(name: &str, value: &Attr) -> Option<Attr> {
    Some(match value {
        Attr::Bool(flag) => Attr::Bool(!flag),
        Attr::Int(number) => Attr::Int(number + 1),
        Attr::Float(number) => Attr::Float(number + 0.25),
        Attr::Bytes(text) => Attr::Bytes(match (name, text.as_slice()) {
            ("padding", b"SAME") => b"VALID".to_vec(),
            ("padding", _) => b"SAME".to_vec(),
            ("data_format", _) => b"NCHW".to_vec(),
            _ => b"other".to_vec(),
        }),
        Attr::List(_) if name == "squeeze_dims" => Attr::List(ListValue { i: vec![9] }),
        Attr::List(_) => Attr::List(ListValue { i: vec![1, 2, 2, 1] }),
        _ => return None,
    })
}

fn import(nodes: &[NodeDef], window: Option<usize>) -> Result<Canonical, ImportError> {
    import_graph(nodes, "x.pb", window).map(|imported| imported.model)
}

#[test]
fn every_attribute_of_tensorflow_s_ops_is_honoured_harmless_or_refused() {
    let folder = repository().join("tests/frameworks/tf1_graph");
    let mut files: Vec<_> = fs::read_dir(&folder)
        .expect("the samples are there")
        .map(|entry| entry.expect("it can be read").path())
        .collect();
    files.sort();
    let mut found: BTreeMap<(String, String), Outcome> = BTreeMap::new();
    let mut count: BTreeMap<(String, String), usize> = BTreeMap::new();
    for file in files.iter().filter(|file| file.extension().is_some_and(|end| end == "pb")) {
        let nodes = graphdef::decode(&fs::read(file).expect("it can be read")).expect("it is a graph");
        let window = (file.to_string_lossy().contains("open")).then_some(9);
        let Ok(base) = import(&nodes, window) else { continue };
        for (at, node) in nodes.iter().enumerate() {
            let unknown = ("unheard_of".to_owned(), AttrValue { value: Some(Attr::Int(1)) });
            for (name, attr) in node.attr.iter().map(|(name, attr)| (name.clone(), attr.clone())).chain([unknown]) {
                let Some(value) =
                    attr.value.as_ref().filter(|_| !name.starts_with('_')).and_then(|value| other(&name, value))
                else {
                    continue;
                };
                let key = (node.op.clone(), name.clone());
                let tried = count.entry(key.clone()).or_default();
                if *tried == NODES {
                    continue;
                }
                *tried += 1;
                let mut changed = nodes.clone();
                changed[at].attr.insert(name.clone(), AttrValue { value: Some(value) });
                let outcome = match import(&changed, window) {
                    Ok(model) if model == base => Outcome::Harmless,
                    Err(error) if error.to_string().contains(&name) => Outcome::Refused,
                    _ => Outcome::Honoured,
                };
                // A node that no output needs changes nothing. One that does says what the attribute is.
                let known = found.entry(key).or_insert(outcome);
                if *known == Outcome::Harmless {
                    *known = outcome;
                }
            }
        }
    }
    // The others are not evaluated, since no output needs them.
    let evaluated = |op: &String| found.get(&(op.clone(), "unheard_of".to_owned())) == Some(&Outcome::Refused);
    let found: BTreeMap<_, _> = found.iter().filter(|((op, _), _)| evaluated(op)).collect();
    let mut table = Table::new();
    for ((op, name), outcome) in found {
        table.entry(op.clone()).or_default().insert(name.clone(), vec![(String::new(), *outcome)]);
    }
    assert!(table.len() > 40, "only {} ops", table.len());
    written("docs/tf1_graph.md", &table, "op");
}
