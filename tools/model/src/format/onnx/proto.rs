//! The part of ONNX's messages that a model needs (onnx/onnx.proto), and the check of a file before decoding: its
//! messages must have room in the file's budget.

use prost::Message;

use super::malformed;
use crate::budget::Budget;
use crate::error::{ImportError, Result};
use crate::format::protobuf::{self, Field, Trouble};

const MAX_DEPTH: usize = 16;

#[derive(Clone, PartialEq, Message)]
pub struct ModelProto {
    /// Version of the messages.
    #[prost(int64, tag = "1")]
    pub ir_version: i64,
    /// The program that has written the file.
    #[prost(string, tag = "2")]
    pub producer_name: String,
    #[prost(message, optional, tag = "7")]
    pub graph: Option<GraphProto>,
    #[prost(message, repeated, tag = "8")]
    pub opset_import: Vec<OperatorSetId>,
    /// Functions that nodes may call.
    #[prost(message, repeated, tag = "25")]
    pub functions: Vec<FunctionProto>,
}

/// A set of operators that a model uses.
#[derive(Clone, PartialEq, Message)]
pub struct OperatorSetId {
    /// Empty for the operators of ONNX itself.
    #[prost(string, tag = "1")]
    pub domain: String,
    #[prost(int64, tag = "2")]
    pub version: i64,
}

/// A function. Only its presence matters.
#[derive(Clone, PartialEq, Message)]
pub struct FunctionProto {
    #[prost(string, tag = "1")]
    pub name: String,
}

/// A graph. Each node reads only values of earlier nodes.
#[derive(Clone, PartialEq, Message)]
pub struct GraphProto {
    #[prost(message, repeated, tag = "1")]
    pub node: Vec<NodeProto>,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(message, repeated, tag = "5")]
    pub initializer: Vec<TensorProto>,
    #[prost(message, repeated, tag = "11")]
    pub input: Vec<ValueInfo>,
    #[prost(message, repeated, tag = "12")]
    pub output: Vec<ValueInfo>,
    /// Shapes of values within the graph, if the exporter has computed them.
    #[prost(message, repeated, tag = "13")]
    pub value_info: Vec<ValueInfo>,
    #[prost(message, repeated, tag = "15")]
    pub sparse_initializer: Vec<SparseTensor>,
}

/// A sparse tensor. Only its presence matters.
#[derive(Clone, PartialEq, Message)]
pub struct SparseTensor {}

#[derive(Clone, PartialEq, Message)]
pub struct NodeProto {
    /// Empty for an input that is left out.
    #[prost(string, repeated, tag = "1")]
    pub input: Vec<String>,
    /// Empty for an output that nothing reads.
    #[prost(string, repeated, tag = "2")]
    pub output: Vec<String>,
    #[prost(string, tag = "3")]
    pub name: String,
    #[prost(string, tag = "4")]
    pub op_type: String,
    #[prost(message, repeated, tag = "5")]
    pub attribute: Vec<AttributeProto>,
    #[prost(string, tag = "7")]
    pub domain: String,
}

/// An attribute. Its type says which of the values it has.
#[derive(Clone, PartialEq, Message)]
pub struct AttributeProto {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(float, tag = "2")]
    pub f: f32,
    #[prost(int64, tag = "3")]
    pub i: i64,
    #[prost(bytes = "vec", tag = "4")]
    pub s: Vec<u8>,
    #[prost(message, optional, tag = "5")]
    pub t: Option<TensorProto>,
    #[prost(message, optional, boxed, tag = "6")]
    pub g: Option<Box<GraphProto>>,
    #[prost(float, repeated, tag = "7")]
    pub floats: Vec<f32>,
    #[prost(int64, repeated, tag = "8")]
    pub ints: Vec<i64>,
    #[prost(bytes = "vec", repeated, tag = "9")]
    pub strings: Vec<Vec<u8>>,
    #[prost(int32, tag = "20")]
    pub kind: i32,
    /// Only set within functions.
    #[prost(string, tag = "21")]
    pub ref_attr_name: String,
}

/// Values of [`AttributeProto::kind`].
pub mod kind {
    pub const FLOAT: i32 = 1;
    pub const INT: i32 = 2;
    pub const STRING: i32 = 3;
    pub const TENSOR: i32 = 4;
    pub const FLOATS: i32 = 6;
    pub const INTS: i32 = 7;
    pub const STRINGS: i32 = 8;
}

#[derive(Clone, PartialEq, Message)]
pub struct TensorProto {
    #[prost(int64, repeated, tag = "1")]
    pub dims: Vec<i64>,
    #[prost(int32, tag = "2")]
    pub data_type: i32,
    #[prost(float, repeated, tag = "4")]
    pub float_data: Vec<f32>,
    #[prost(int32, repeated, tag = "5")]
    pub int32_data: Vec<i32>,
    #[prost(int64, repeated, tag = "7")]
    pub int64_data: Vec<i64>,
    #[prost(string, tag = "8")]
    pub name: String,
    /// All values in little-endian order. If it is empty, one of the lists has the values.
    #[prost(bytes = "vec", tag = "9")]
    pub raw_data: Vec<u8>,
    #[prost(double, repeated, tag = "10")]
    pub double_data: Vec<f64>,
    #[prost(uint64, repeated, tag = "11")]
    pub uint64_data: Vec<u64>,
    /// The file with the values, and the part of it, if they are in another file.
    #[prost(message, repeated, tag = "13")]
    pub external_data: Vec<EntryProto>,
    /// 1 if the values are in another file.
    #[prost(int32, tag = "14")]
    pub data_location: i32,
}

/// A text with a name.
#[derive(Clone, PartialEq, Message)]
pub struct EntryProto {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(string, tag = "2")]
    pub value: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct ValueInfo {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, optional, tag = "2")]
    pub of: Option<TypeProto>,
}

/// The type of a value; `tensor` is `None` for any type other than a tensor.
#[derive(Clone, PartialEq, Message)]
pub struct TypeProto {
    #[prost(message, optional, tag = "1")]
    pub tensor: Option<TensorType>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TensorType {
    #[prost(int32, tag = "1")]
    pub elem_type: i32,
    /// `None` if not even the number of dimensions is known.
    #[prost(message, optional, tag = "2")]
    pub shape: Option<ShapeProto>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ShapeProto {
    #[prost(message, repeated, tag = "1")]
    pub dim: Vec<DimProto>,
}

/// A dimension: a number, a name, or neither if it is open.
#[derive(Clone, PartialEq, Message)]
pub struct DimProto {
    #[prost(int64, optional, tag = "1")]
    pub value: Option<i64>,
    #[prost(string, tag = "2")]
    pub param: String,
}

/// Decodes a model file, after the memory of its messages was subtracted.
///
/// # Errors
/// If the bytes are not an ONNX model or exceed the budget.
pub(crate) fn decode(bytes: &[u8], budget: &mut Budget) -> Result<ModelProto> {
    // Each level of graphs is three levels of messages: a graph, a node and an attribute.
    protobuf::take(bytes, Part::Model, Part::field, 3 * MAX_DEPTH + 3, budget).map_err(|trouble| match trouble {
        Trouble::Costly(error) => error.into(),
        Trouble::Damaged(error) => damaged(error),
        Trouble::Cut { needed, left } => {
            malformed(format!("it is cut off: a field needs {needed} bytes, {left} are left"))
        }
        Trouble::Deep => ImportError::Limit { most: MAX_DEPTH, what: "levels of graphs within each other" },
    })?;
    ModelProto::decode(bytes).map_err(damaged)
}

/// A message whose fields take memory.
#[derive(Clone, Copy)]
enum Part {
    Model,
    Graph,
    Node,
    Attribute,
    Tensor,
    Info,
    Type,
    TensorType,
    Shape,
    /// A message whose only content is a text.
    Named,
    Leaf,
}

impl Part {
    fn field(self, tag: u32) -> Field<Self> {
        let of = |part, size| Field::Message(part, size);
        match (self, tag) {
            (Self::Model, 7) | (Self::Attribute, 6) => of(Self::Graph, size_of::<GraphProto>()),
            (Self::Graph, 1) => of(Self::Node, size_of::<NodeProto>()),
            (Self::Graph, 5) => of(Self::Tensor, size_of::<TensorProto>()),
            (Self::Attribute, 5) => of(Self::Tensor, 0),
            (Self::Graph, 11..=13) => of(Self::Info, size_of::<ValueInfo>()),
            (Self::Graph, 15) => of(Self::Leaf, size_of::<SparseTensor>()),
            (Self::Node, 5) => of(Self::Attribute, size_of::<AttributeProto>()),
            (Self::Info, 2) => of(Self::Type, 0),
            (Self::Type, 1) => of(Self::TensorType, 0),
            (Self::TensorType, 2) => of(Self::Shape, 0),
            (Self::Shape, 1) => of(Self::Leaf, size_of::<DimProto>()),
            (Self::Model, 8) => of(Self::Named, size_of::<OperatorSetId>()),
            (Self::Model, 25) => of(Self::Named, size_of::<FunctionProto>()),
            (Self::Tensor, 4) => Field::Numbers { each: 4, wire: 4 },
            (Self::Tensor, 10) => Field::Numbers { each: 8, wire: 8 },
            (Self::Attribute, 7) => Field::Numbers { each: 4, wire: 4 },
            (Self::Attribute, 8) | (Self::Tensor, 1 | 5 | 7 | 11) => Field::Numbers { each: 8, wire: 1 },
            (Self::Node, 1..=4 | 7)
            | (Self::Model | Self::Graph, 2)
            | (Self::Attribute, 1 | 4 | 9 | 21)
            | (Self::Tensor, 8 | 9)
            | (Self::Info | Self::Named, 1) => Field::Bytes,
            _ => Field::Plain,
        }
    }
}

fn damaged(error: prost::DecodeError) -> ImportError {
    malformed(format!("it is cut off or damaged ({error})"))
}
