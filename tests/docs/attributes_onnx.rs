//! The table of ONNX's operators has a row for each one that the importer accepts.

use std::collections::BTreeMap;

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
            Ok(_) => Outcome::Honoured,
            Err(error) if error.contains(name) => Outcome::Refused,
            Err(error) => panic!("{name}: {error}"),
        };
        row.insert(name.to_owned(), vec![(String::new(), outcome)]);
    }
    table.insert("If".to_owned(), row);
}

#[test]
fn every_attribute_of_onnx_s_operators_is_honoured_harmless_or_refused() {
    let error = |op: &str| import(node(op, &["x"], vec![])).err();
    let mut operators = accepted(&words("tools/model/src/format/onnx", ""), unread, error);
    // Operators of quantized models are known, but refused together.
    operators.retain(|op| !error(op).is_some_and(|error| error.starts_with("it was quantized")));
    let mut table = of_archives(&["onnx"]);
    of_if(&mut table);
    complete("docs/onnx.md", &table, &operators);
    written("docs/onnx.md", &table, "operator");
}
