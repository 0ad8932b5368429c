//! The graph under construction: nodes of ONNX, and tensors of weights.

use std::collections::HashSet;

use prost::Message;

use super::sums::Row;
use crate::format::onnx::proto::{
    AttributeProto, DimProto, GraphProto, ModelProto, NodeProto, OperatorSetId, ShapeProto, TensorProto, TensorType,
    TypeProto, ValueInfo, kind,
};

/// The version of ONNX's operators: the first in which every operator used here has its present form.
const OPSET: i64 = 17;
/// The version of ONNX's messages that came with it.
const IR_VERSION: i64 = 8;
/// Codes of the types of elements.
const FLOAT: i32 = 1;
const INT8: i32 = 3;
const INT64: i32 = 7;

/// A value of the graph by its name.
pub type Name = String;

/// A dimension of a port.
pub enum Dim {
    Open(&'static str),
    Fixed(usize),
}

#[derive(Default)]
pub struct Graph {
    nodes: Vec<NodeProto>,
    tensors: Vec<TensorProto>,
    inputs: Vec<ValueInfo>,
    outputs: Vec<ValueInfo>,
    taken: HashSet<String>,
}

impl Graph {
    /// Reserves a name.
    pub fn name(&mut self, wanted: &str) -> Name {
        let numbered = (2..).map(|count| format!("{wanted}_{count}"));
        let free = std::iter::once(wanted.to_owned()).chain(numbered).find(|name| !self.taken.contains(name));
        let name = free.unwrap_or_default();
        self.taken.insert(name.clone());
        name
    }

    /// Adds an operator with one output, named after the layer and the operator.
    pub fn op(&mut self, layer: &str, op: &str, inputs: &[&str], attributes: Vec<AttributeProto>) -> Name {
        self.op_of(layer, op, inputs, attributes, 1).remove(0)
    }

    /// Adds an operator with several outputs.
    pub fn op_of(
        &mut self,
        layer: &str,
        op: &str,
        inputs: &[&str],
        attribute: Vec<AttributeProto>,
        count: usize,
    ) -> Vec<Name> {
        let name = self.name(&format!("{layer}/{op}"));
        let output: Vec<Name> = (0..count).map(|_| self.name(&format!("{name}/output"))).collect();
        self.push(name, op, inputs, output.clone(), attribute);
        output
    }

    /// Adds an operator whose output is an output of the graph.
    pub fn last(&mut self, op: &str, inputs: &[&str], attribute: Vec<AttributeProto>, output: &str) {
        let name = self.name(&format!("{output}/{op}"));
        self.push(name, op, inputs, vec![output.to_owned()], attribute);
    }

    fn push(&mut self, name: Name, op: &str, inputs: &[&str], output: Vec<Name>, attribute: Vec<AttributeProto>) {
        let input = inputs.iter().map(|&input| input.to_owned()).collect();
        self.nodes.push(NodeProto { input, output, name, op_type: op.to_owned(), attribute, ..NodeProto::default() });
    }

    pub fn floats(&mut self, wanted: &str, dims: &[usize], values: &[f32]) -> Name {
        self.tensor(wanted, dims, FLOAT, values.iter().flat_map(|value| value.to_le_bytes()).collect())
    }

    pub fn ints(&mut self, wanted: &str, values: &[i64]) -> Name {
        self.tensor(wanted, &[values.len()], INT64, values.iter().flat_map(|value| value.to_le_bytes()).collect())
    }

    fn tensor(&mut self, wanted: &str, dims: &[usize], data_type: i32, raw_data: Vec<u8>) -> Name {
        let name = self.name(wanted);
        let dims = dims.iter().map(|&dim| dim as i64).collect();
        self.tensors.push(TensorProto { dims, data_type, name: name.clone(), raw_data, ..TensorProto::default() });
        name
    }

    /// A tensor of weights: floats as they are, integers with a `DequantizeLinear` that gives each row, along the axis, its
    /// step. `place` is the position of an element, by its row and column.
    pub fn weights(
        &mut self,
        wanted: &str,
        rows: &[Row],
        dims: &[usize],
        axis: i64,
        place: impl Fn(usize, usize) -> usize,
    ) -> Name {
        let len = dims.iter().product();
        let planes = rows.iter().map(|row| if let Row::Planes(planes) = row { planes.len() } else { 0 }).max();
        let planes = planes.unwrap_or(0);
        if planes == 0 {
            let mut values = vec![0.0; len];
            for (at, row) in rows.iter().enumerate() {
                let Row::Floats(row) = row else { continue };
                row.iter().enumerate().for_each(|(col, &value)| values[place(at, col)] = value);
            }
            return self.floats(wanted, dims, &values);
        }
        let parts: Vec<Name> = (0..planes).map(|plane| self.plane(wanted, rows, plane, (dims, axis), &place)).collect();
        match &parts[..] {
            [one] => one.clone(),
            parts => self.op(wanted, "Sum", &parts.iter().map(String::as_str).collect::<Vec<_>>(), vec![]),
        }
    }

    fn plane(
        &mut self,
        wanted: &str,
        rows: &[Row],
        plane: usize,
        (dims, axis): (&[usize], i64),
        place: &impl Fn(usize, usize) -> usize,
    ) -> Name {
        let (mut values, mut steps) = (vec![0; dims.iter().product()], Vec::with_capacity(rows.len()));
        for (at, row) in rows.iter().enumerate() {
            let Row::Planes(planes) = row else { continue };
            let of = &planes[plane];
            of.weights.iter().enumerate().for_each(|(col, weight)| values[place(at, col)] = weight.cast_unsigned());
            steps.push(of.step);
        }
        let integers = self.tensor(&format!("{wanted}_quantized"), dims, INT8, values);
        let steps = self.floats(&format!("{wanted}_scale"), &[steps.len()], &steps);
        self.op(wanted, "DequantizeLinear", &[&integers, &steps], vec![int("axis", axis)])
    }

    pub fn input(&mut self, name: &str, dims: &[Dim]) {
        self.inputs.push(port(name, dims));
    }

    pub fn output(&mut self, name: &str, dims: &[Dim]) {
        self.outputs.push(port(name, dims));
    }

    /// The bytes of a file.
    pub fn finish(self, name: &str) -> Vec<u8> {
        let Self { nodes: node, tensors: initializer, inputs: input, outputs: output, .. } = self;
        let graph = GraphProto { node, name: name.to_owned(), initializer, input, output, ..GraphProto::default() };
        ModelProto {
            ir_version: IR_VERSION,
            producer_name: "tidegate".to_owned(),
            graph: Some(graph),
            opset_import: vec![OperatorSetId { domain: String::new(), version: OPSET }],
            ..ModelProto::default()
        }
        .encode_to_vec()
    }
}

fn port(name: &str, dims: &[Dim]) -> ValueInfo {
    let dim = dims.iter().map(|dim| match dim {
        Dim::Open(name) => DimProto { value: None, param: (*name).to_owned() },
        Dim::Fixed(size) => DimProto { value: Some(*size as i64), param: String::new() },
    });
    let tensor = TensorType { elem_type: FLOAT, shape: Some(ShapeProto { dim: dim.collect() }) };
    ValueInfo { name: name.to_owned(), of: Some(TypeProto { tensor: Some(tensor) }) }
}

pub fn int(name: &str, i: i64) -> AttributeProto {
    AttributeProto { name: name.to_owned(), i, kind: kind::INT, ..AttributeProto::default() }
}

pub fn ints(name: &str, ints: &[i64]) -> AttributeProto {
    AttributeProto { name: name.to_owned(), ints: ints.to_vec(), kind: kind::INTS, ..AttributeProto::default() }
}

pub fn float(name: &str, f: f32) -> AttributeProto {
    AttributeProto { name: name.to_owned(), f, kind: kind::FLOAT, ..AttributeProto::default() }
}

pub fn floats(name: &str, floats: Vec<f32>) -> AttributeProto {
    AttributeProto { name: name.to_owned(), floats, kind: kind::FLOATS, ..AttributeProto::default() }
}

pub fn strings(name: &str, strings: &[&str]) -> AttributeProto {
    let strings = strings.iter().map(|text| text.as_bytes().to_vec()).collect();
    AttributeProto { name: name.to_owned(), strings, kind: kind::STRINGS, ..AttributeProto::default() }
}
