//! The table of ONNX's operators has a row for each one that the importer accepts.

use std::collections::BTreeMap;
use std::fs;

use prost::Message;
use tidegate_model::canonical::Canonical;
use tidegate_model::format::import_bytes_with;
use tidegate_model::format::onnx::proto::{
    AttributeProto, DimProto, GraphProto, ModelProto, NodeProto, OperatorSetId, ShapeProto, TensorProto, TensorType,
    TypeProto, ValueInfo,
};
use tidegate_tests::import::ALONE;

use super::attributes::of_archives;
use super::outcomes::{Outcome, Table, written};
use super::repository;
use super::trial::{accepted, complete, unread, words};

fn value(name: &str) -> ValueInfo {
    let dim = [1, 3, 4].map(|size| DimProto { value: Some(size), ..DimProto::default() }).to_vec();
    let of = TypeProto { tensor: Some(TensorType { elem_type: 1, shape: Some(ShapeProto { dim }) }) };
    ValueInfo { name: name.into(), of: Some(of) }
}

fn node(op: &str, inputs: &[&str], attribute: Vec<AttributeProto>) -> NodeProto {
    NodeProto {
        input: inputs.iter().map(|&input| input.to_owned()).collect(),
        output: vec!["y".into()],
        name: "node".into(),
        op_type: op.into(),
        attribute,
        ..NodeProto::default()
    }
}

/// Imports a graph from `x` to `y` of one node; `c` is a constant that is true.
fn import(node: NodeProto) -> Result<Canonical, String> {
    let c = TensorProto { data_type: 9, raw_data: vec![1], name: "c".into(), ..TensorProto::default() };
    let (input, output) = (vec![value("x")], vec![value("y")]);
    let graph = GraphProto { node: vec![node], initializer: vec![c], input, output, ..GraphProto::default() };
    let opset_import = vec![OperatorSetId { domain: String::new(), version: 14 }];
    let model = ModelProto { graph: Some(graph), opset_import, ..ModelProto::default() };
    let bytes = [[1 << 3, 8].as_slice(), &model.encode_to_vec()].concat();
    import_bytes_with(&bytes, "x.onnx", &ALONE).map(|imported| imported.model).map_err(|error| error.to_string())
}

/// A branch that computes `op` of `x`.
fn branch(name: &str, op: &str) -> AttributeProto {
    let graph = GraphProto { node: vec![node(op, &["x"], vec![])], output: vec![value("y")], ..GraphProto::default() };
    AttributeProto { name: name.into(), g: Some(Box::new(graph)), kind: 5, ..AttributeProto::default() }
}

/// The row of `If`, whose attributes are graphs.
fn of_if(table: &mut Table) {
    let with = |then: &str, otherwise: &str, more: Option<AttributeProto>| {
        let branches = [branch("then_branch", then), branch("else_branch", otherwise)];
        import(node("If", &["c"], branches.into_iter().chain(more).collect()))
    };
    let base = with("Tanh", "Sigmoid", None).expect("the graph imports");
    let mut row = BTreeMap::new();
    let unheard = AttributeProto { name: "unheard_of".into(), i: 1, kind: 2, ..AttributeProto::default() };
    for (name, tried) in [
        ("then_branch", with("Relu", "Sigmoid", None)),
        // The condition is a constant.
        ("else_branch", with("Tanh", "Relu", None)),
        ("unheard_of", with("Tanh", "Sigmoid", Some(unheard))),
    ] {
        let outcome = match tried {
            Ok(model) if model == base => Outcome::Harmless,
            Ok(_) => Outcome::Honored,
            Err(error) if error.contains(name) => Outcome::Refused,
            Err(error) => panic!("{name}: {error}"),
        };
        row.insert(name.to_owned(), vec![(String::new(), outcome)]);
    }
    table.insert("If".to_owned(), row);
}

/// The row of `Loop`, whose attribute is the graph of a step.
fn of_loop(table: &mut Table) {
    let file = repository().join("tests/frameworks/onnx/keras_gru.onnx");
    let bytes = fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let with = |change: fn(&mut NodeProto)| {
        let mut model = ModelProto::decode(bytes.as_slice()).expect("the file is a model");
        let nodes = model.graph.iter_mut().flat_map(|graph| &mut graph.node);
        change(nodes.into_iter().find(|node| node.op_type == "Loop").expect("it has a loop"));
        let bytes = [[1 << 3, 8].as_slice(), &model.encode_to_vec()].concat();
        import_bytes_with(&bytes, "x.onnx", &ALONE).map(|imported| imported.model).map_err(|error| error.to_string())
    };
    let base = with(|_| {}).expect("the graph imports");
    let other = with(|node| {
        let body = node.attribute[0].g.as_mut().expect("it has a body");
        body.node.iter_mut().filter(|node| node.op_type == "Tanh").for_each(|node| node.op_type = "Relu".into());
    });
    assert_ne!(other, Ok(base), "another body gives the same network");
    let unheard = with(|node| {
        node.attribute.push(AttributeProto { name: "unheard_of".into(), i: 1, kind: 2, ..AttributeProto::default() });
    });
    assert!(unheard.is_err_and(|error| error.contains("unheard_of")));
    let row = [("body", Outcome::Honored), ("unheard_of", Outcome::Refused)];
    let row = row.into_iter().map(|(name, outcome)| (name.to_owned(), vec![(String::new(), outcome)]));
    table.insert("Loop".to_owned(), row.collect());
}

#[test]
fn every_attribute_of_onnx_s_operators_is_honored_harmless_or_refused() {
    let error = |op: &str| import(node(op, &["x"], vec![])).err();
    let mut operators = accepted(&words("tools/model/src/format/onnx", ""), unread, error);
    // Operators of quantized models are known, but refused together.
    operators.retain(|op| !error(op).is_some_and(|error| error.starts_with("it was quantized")));
    let mut table = of_archives(&["onnx"]);
    of_if(&mut table);
    of_loop(&mut table);
    complete("docs/onnx.md", &table, &operators);
    written("docs/onnx.md", &table, "operator");
}
