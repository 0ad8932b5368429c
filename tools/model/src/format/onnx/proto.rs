//! The part of ONNX's messages that a model needs (onnx/onnx.proto), and the check of a file before decoding: it counts
//! everything that could make a small hostile file large in memory.

use prost::Message;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

use super::malformed;
use crate::error::{ImportError, Result};
use crate::format::refuse::err_if;

/// Maximum number of nodes, attributes, inputs, tensors and other messages of a model together. An empty message takes
/// two bytes in a file, but much more in memory.
const MAX_MESSAGES: usize = 1 << 18;
/// Maximum number of bytes of all numbers together that are encoded with fewer bytes than they need in memory.
const MAX_PACKED: usize = 1 << 22;
const MAX_DEPTH: usize = 16;

#[derive(Clone, PartialEq, Message)]
pub struct ModelProto {
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
    #[prost(message, repeated, tag = "5")]
    pub initializer: Vec<TensorProto>,
    #[prost(message, repeated, tag = "11")]
    pub input: Vec<ValueInfo>,
    #[prost(message, repeated, tag = "12")]
    pub output: Vec<ValueInfo>,
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
    /// 1 if the values are in another file.
    #[prost(int32, tag = "14")]
    pub data_location: i32,
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

/// Decodes a model file.
///
/// # Errors
/// If the bytes are not an ONNX model or exceed a limit.
pub fn decode(bytes: &[u8]) -> Result<ModelProto> {
    let mut left = Left { messages: MAX_MESSAGES, packed: MAX_PACKED };
    count(bytes, Part::Model, 0, &mut left)?;
    ModelProto::decode(bytes).map_err(damaged)
}

/// A message whose fields are counted.
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
    /// A message without counted fields, or a text.
    Leaf,
}

impl Part {
    /// The message in a field, if it is counted.
    fn field(self, tag: u32) -> Option<Self> {
        Some(match (self, tag) {
            (Self::Model, 7) | (Self::Attribute, 6) => Self::Graph,
            (Self::Graph, 1) => Self::Node,
            (Self::Graph, 5) | (Self::Attribute, 5) => Self::Tensor,
            (Self::Graph, 11 | 12) => Self::Info,
            (Self::Node, 5) => Self::Attribute,
            (Self::Info, 2) => Self::Type,
            (Self::Type, 1) => Self::TensorType,
            (Self::TensorType, 2) => Self::Shape,
            (Self::Model, 8 | 25)
            | (Self::Graph, 15)
            | (Self::Node, 1 | 2)
            | (Self::Attribute, 9)
            | (Self::Shape, 1) => Self::Leaf,
            _ => return None,
        })
    }

    /// Whether a field is a list of numbers that take fewer bytes in the file than in memory.
    fn packs(self, tag: u32) -> bool {
        matches!((self, tag), (Self::Attribute, 8) | (Self::Tensor, 1 | 5 | 7 | 11))
    }
}

struct Left {
    messages: usize,
    packed: usize,
}

fn count(mut bytes: &[u8], of: Part, depth: usize, left: &mut Left) -> Result<()> {
    // Each level of graphs is three levels of messages: a graph, a node and an attribute.
    err_if(depth > 3 * MAX_DEPTH, || malformed(format!("its graphs are nested more than {MAX_DEPTH} deep")))?;
    while !bytes.is_empty() {
        let (tag, wire) = decode_key(&mut bytes).map_err(damaged)?;
        let field = if wire == WireType::LengthDelimited {
            let len = decode_varint(&mut bytes).map_err(damaged)?;
            let split = usize::try_from(len).ok().and_then(|len| bytes.split_at_checked(len));
            let cut = || malformed(format!("it is cut off: a field needs {len} bytes, {} are left", bytes.len()));
            let (field, rest) = split.ok_or_else(cut)?;
            bytes = rest;
            Some(field)
        } else {
            skip_field(wire, tag, &mut bytes, DecodeContext::default()).map_err(damaged)?;
            None
        };
        if of.packs(tag) {
            let fewer = left.packed.checked_sub(field.map_or(1, <[u8]>::len));
            left.packed = fewer.ok_or_else(|| malformed(format!("its lists have more than {MAX_PACKED} numbers")))?;
        }
        if let (Some(inner), Some(field)) = (of.field(tag), field) {
            let fewer = left.messages.checked_sub(1);
            left.messages = fewer.ok_or_else(|| malformed(format!("it has more than {MAX_MESSAGES} parts")))?;
            if !matches!(inner, Part::Leaf) {
                count(field, inner, depth + 1, left)?;
            }
        }
    }
    Ok(())
}

fn damaged(error: prost::DecodeError) -> ImportError {
    malformed(format!("it is cut off or damaged ({error})"))
}
