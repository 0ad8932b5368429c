//! Each attribute of each op in the graphs of `frameworks/tf1_graph` is changed in one node, and the graph is imported.
//! The attribute is refused if the error names it, honored if the model differs or the changed graph no longer fits
//! together, and harmless if the model is the same.

use std::collections::BTreeMap;
use std::fs;

use tidegate_model::canonical::Canonical;
use tidegate_model::error::ImportError;
use tidegate_model::format::graphdef::attr_value::Value as Attr;
use tidegate_model::format::graphdef::{self, AttrValue, ListValue, NodeDef};
use tidegate_model::format::{Options, tf1::import_graph};
use tidegate_tests::graphs::Graph;

use super::outcomes::{Outcome, Table, written};
use super::repository;
use super::trial::{accepted, complete, unread, words};

/// Number of values of an op's attribute that are tried.
const NODES: usize = 500;

/// Other values of an attribute; empty for types, constants and shapes, which follow from the graph.
fn others(name: &str, value: &Attr) -> Vec<Attr> {
    // A mask has a bit for each of up to three dimensions.
    match value {
        Attr::Int(mask) if name.ends_with("_mask") => [1, 2, 4, 7].map(|bits| Attr::Int(mask ^ bits)).to_vec(),
        _ => other(name, value).into_iter().collect(),
    }
}

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

/// Words in the source that look like ops but have no attributes that the importer reads: `TensorList` is the start of
/// names of ops, and no output reads an `Assert` or a `NoOp`.
const WITHOUT_ATTRIBUTES: [&str; 3] = ["Assert", "NoOp", "TensorList"];

/// Ops of integers and constants that have no attributes but types in TensorFlow.
const ONLY_TYPES: [&str; 8] =
    ["Floor", "LogicalNot", "OnesLike", "Rank", "SelectV2", "Sqrt", "TensorListLength", "ZerosLike"];

/// A graph of one op, over an input with these dimensions.
fn of_op(op: &str, dims: &[i64], attrs: &[(&str, Attr)]) -> Result<Canonical, ImportError> {
    let mut graph = Graph::of_input(dims);
    graph.node("y", op, &["x"]);
    for (name, value) in attrs {
        graph.with(name, value.clone());
    }
    // A graph that passes on its input is no model.
    graph.node("z", "Tanh", &["y"]);
    import(&graph.nodes, None)
}

/// Adds a row for an op that no sample has.
fn add(table: &mut Table, op: &str) {
    let list = |i: [i64; 4]| Attr::List(ListValue { i: i.to_vec() });
    let text = |text: &str| Attr::Bytes(text.as_bytes().to_vec());
    let (dims, own, tries): (&[i64], Vec<_>, Vec<_>) = match op {
        "AvgPool" => (
            &[1, 6, 4, 2],
            vec![("ksize", list([1, 2, 2, 1])), ("strides", list([1, 1, 1, 1])), ("padding", text("VALID"))],
            vec![
                ("ksize", list([1, 3, 2, 1])),
                ("strides", list([1, 2, 1, 1])),
                ("padding", text("SAME")),
                ("data_format", text("NCHW")),
            ],
        ),
        "LeakyRelu" => (&[1, 3, 4], vec![], vec![("alpha", Attr::Float(0.3))]),
        "CheckNumerics" | "PreventGradient" => (&[1, 3, 4], vec![], vec![("message", text("other"))]),
        _ => (&[1, 3, 4], vec![], vec![]),
    };
    if ONLY_TYPES.contains(&op) {
        table.insert(op.to_owned(), BTreeMap::new());
        return;
    }
    let base = of_op(op, dims, &own);
    let mut row = BTreeMap::new();
    for (name, value) in tries.into_iter().chain([("unheard_of", Attr::Int(1))]) {
        let mut attrs = own.clone();
        attrs.retain(|(own, _)| *own != name);
        attrs.push((name, value));
        let outcome = match (of_op(op, dims, &attrs), &base) {
            (Ok(model), Ok(base)) if model == *base => Outcome::Harmless,
            (Ok(_), Ok(_)) => Outcome::Honored,
            (Err(error), _) if error.to_string().contains(name) => Outcome::Refused,
            (tried, _) => panic!("{op} {name}: {:?}", tried.err().map(|error| error.to_string())),
        };
        row.insert(name.to_owned(), vec![(String::new(), outcome)]);
    }
    table.insert(op.to_owned(), row);
}

fn import(nodes: &[NodeDef], window: Option<usize>) -> Result<Canonical, ImportError> {
    import_graph(nodes, "x.pb", &Options { window, ..Options::default() }).map(|imported| imported.model)
}

#[test]
fn every_attribute_of_tensorflow_s_ops_is_honored_harmless_or_refused() {
    let folder = repository().join("tests/frameworks/tf1_graph");
    let mut files: Vec<_> = fs::read_dir(&folder)
        .expect("the samples are there")
        .map(|entry| entry.expect("it can be read").path())
        .collect();
    files.sort();
    // A graph with TensorFlow's front end.
    files.push(repository().join("assets/hello_edge/GRU_S.pb"));
    let mut found: BTreeMap<(String, String), Outcome> = BTreeMap::new();
    let mut count: BTreeMap<(String, String), usize> = BTreeMap::new();
    for file in files.iter().filter(|file| file.extension().is_some_and(|end| end == "pb")) {
        let nodes = graphdef::decode(&fs::read(file).expect("it can be read")).expect("it is a graph");
        let window = (file.to_string_lossy().contains("open")).then_some(9);
        let Ok(base) = import(&nodes, window) else { continue };
        for (at, node) in nodes.iter().enumerate() {
            let unknown = ("unheard_of".to_owned(), AttrValue { value: Some(Attr::Int(1)) });
            for (name, attr) in node.attr.iter().map(|(name, attr)| (name.clone(), attr.clone())).chain([unknown]) {
                let given = attr.value.as_ref().filter(|_| !name.starts_with('_'));
                let key = (node.op.clone(), name.clone());
                for value in given.map_or_else(Vec::new, |value| others(&name, value)) {
                    // A node that no output needs is always harmless, so the first other outcome counts.
                    let is_known = found.get(&key).is_some_and(|outcome| *outcome != Outcome::Harmless);
                    let tried = count.entry(key.clone()).or_default();
                    if is_known || *tried == NODES {
                        break;
                    }
                    *tried += 1;
                    let mut changed = nodes.clone();
                    changed[at].attr.insert(name.clone(), AttrValue { value: Some(value) });
                    let outcome = match import(&changed, window) {
                        Ok(model) if model == base => Outcome::Harmless,
                        Err(error) if error.to_string().contains(&name) => Outcome::Refused,
                        _ => Outcome::Honored,
                    };
                    found.insert(key.clone(), outcome);
                }
            }
        }
    }
    // The other ops are not evaluated, since no output needs them.
    let evaluated = |op: &String| found.get(&(op.clone(), "unheard_of".to_owned())) == Some(&Outcome::Refused);
    let found: BTreeMap<_, _> = found.iter().filter(|((op, _), _)| evaluated(op)).collect();
    let mut table = Table::new();
    for ((op, name), outcome) in found {
        table.entry(op.clone()).or_default().insert(name.clone(), vec![(String::new(), *outcome)]);
    }
    let error = |op: &str| {
        let mut graph = Graph::of_input(&[1, 3, 4]);
        graph.node("y", op, &["x"]);
        import(&graph.nodes, None).err().map(|error| error.to_string())
    };
    let mut ops = accepted(&words("tools/model/src/format/tf1", ""), unread, error);
    ops.retain(|op| !WITHOUT_ATTRIBUTES.contains(&op.as_str()));
    for op in &ops {
        if !table.contains_key(op) {
            add(&mut table, op);
        }
    }
    complete("docs/tf1_graph.md", &table, &ops);
    written("docs/tf1_graph.md", &table, "op");
}
