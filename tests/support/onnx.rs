//! ONNX graphs that a test writes operator by operator, and their outputs.

use std::collections::BTreeMap;

use prost::Message;
use tidegate::Numeric;
use tidegate_model::backend::Engine;
use tidegate_model::canonical::Tensor;
use tidegate_model::format::onnx::open;
use tidegate_model::format::onnx::proto::{
    AttributeProto, DimProto, GraphProto, ModelProto, NodeProto, OperatorSetId, ShapeProto, TensorProto, TensorType,
    TypeProto, ValueInfo,
};
use tidegate_model::format::{Imported, Options};

use crate::images::AlignedBytes;

/// Tensors by the names of a graph.
pub type Tensors = BTreeMap<String, Tensor>;

/// An input or output of floats.
pub fn port(name: &str, dims: &[usize]) -> ValueInfo {
    port_of(name, dims, 1)
}

/// An input or output of this element type.
pub fn port_of(name: &str, dims: &[usize], elem_type: i32) -> ValueInfo {
    let dim = dims.iter().map(|&size| DimProto { value: Some(size as i64), ..DimProto::default() }).collect();
    let tensor = TensorType { elem_type, shape: Some(ShapeProto { dim }) };
    ValueInfo { name: name.into(), of: Some(TypeProto { tensor: Some(tensor) }) }
}

/// A node with the names of its inputs and outputs.
pub fn node(op: &str, input: &[&str], output: &[&str]) -> NodeProto {
    let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    NodeProto { input: owned(input), output: owned(output), op_type: op.into(), ..NodeProto::default() }
}

/// The node with an integer attribute.
pub fn with(mut node: NodeProto, name: &str, i: i64) -> NodeProto {
    node.attribute.push(AttributeProto { name: name.into(), i, kind: 2, ..AttributeProto::default() });
    node
}

/// An initializer of floats.
pub fn floats(name: &str, dims: &[usize], float_data: Vec<f32>) -> TensorProto {
    let dims = dims.iter().map(|&dim| dim as i64).collect();
    TensorProto { name: name.into(), dims, data_type: 1, float_data, ..TensorProto::default() }
}

/// An initializer of integers.
pub fn ints(name: &str, values: &[i64]) -> TensorProto {
    let (dims, int64_data) = (vec![values.len() as i64], values.to_vec());
    TensorProto { name: name.into(), dims, data_type: 7, int64_data, ..TensorProto::default() }
}

/// `count` numbers between -1 and 1.
pub fn values(count: usize, seed: f32) -> Vec<f32> {
    (0..count).map(|k| (seed * (k + 1) as f32).sin()).collect()
}

/// The bytes of a file with this graph. Field 1 is the version of the file format, which the importer does not read.
pub fn bytes(graph: GraphProto) -> Vec<u8> {
    let opset_import = vec![OperatorSetId { domain: String::new(), version: 13 }];
    let model = ModelProto { graph: Some(graph), opset_import, ..ModelProto::default() };
    [[1 << 3, 8].as_slice(), &model.encode_to_vec()].concat()
}

/// A tensor by its name.
pub fn tensor(name: &str, shape: &[usize], data: Vec<f32>) -> (String, Tensor) {
    (name.to_owned(), Tensor { shape: shape.to_vec(), data })
}

/// The network of a file, and its outputs for these inputs or the error of running it.
pub fn outputs(bytes: &[u8], options: &Options, inputs: &Tensors) -> (Imported, Result<Tensors, String>) {
    let (imported, interface) = open(bytes, "x.onnx", options).unwrap_or_else(|error| panic!("{error}"));
    let image = AlignedBytes::pack(&imported.model, Numeric::F32);
    let outputs = interface.run(&Engine::from(&image.model()), inputs).map_err(|error| error.to_string());
    (imported, outputs)
}
