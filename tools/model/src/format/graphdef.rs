//! The part of TensorFlow's GraphDef that a frozen graph needs, as protobuf messages (tensorflow/core/framework:
//! `graph.proto`, `node_def.proto`, `attr_value.proto`, `tensor.proto`), and the checks on a decoded file.

use std::collections::BTreeMap;
use std::fmt::Display;

use prost::Message;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

use super::protobuf::{self, Field, Trouble};
use super::refuse::{err_if, fail_if, limit_if};
use crate::{budget::Budget, budget::FIXED, canonical::Tensor, error::ImportError, error::Result};

/// Maximum number of nodes in a graph; the Hello Edge graphs have about 110.
pub const MAX_NODES: usize = 65_536;
/// Maximum depth of the messages of a node: an attribute, its value, a constant, its shape, a dimension.
const MAX_DEPTH: usize = 5;
/// Maximum number of values of one tensor: as many as the largest file can hold.
pub const MAX_VALUES: usize = 1 << 24;

/// `DT_FLOAT`
pub const FLOAT: i32 = 1;
/// `DT_INT32`
pub const INT32: i32 = 3;
/// `DT_STRING`
pub const STRING: i32 = 7;
/// `DT_INT64`
pub const INT64: i32 = 9;
/// `DT_BOOL`
pub const BOOL: i32 = 10;

/// An operation, its inputs and its attributes.
#[derive(Clone, PartialEq, Message)]
pub struct NodeDef {
    /// Name, unique in the graph.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Name of the operation.
    #[prost(string, tag = "2")]
    pub op: String,
    /// `node`, `node:output`, or `^node` for a control dependency.
    #[prost(string, repeated, tag = "3")]
    pub input: Vec<String>,
    /// Attributes by name; an absent one has the op's default.
    #[prost(btree_map = "string, message", tag = "5")]
    pub attr: BTreeMap<String, AttrValue>,
}

/// The value of an attribute.
#[derive(Clone, PartialEq, Message)]
pub struct AttrValue {
    /// The value, if it is of a supported kind.
    #[prost(oneof = "attr_value::Value", tags = "1, 2, 3, 4, 5, 6, 7, 8")]
    pub value: Option<attr_value::Value>,
}

/// See [`AttrValue`].
pub mod attr_value {
    /// The supported kinds of values. Functions and placeholders are not among them and decode to `None`.
    #[derive(Clone, PartialEq, prost::Oneof)]
    pub enum Value {
        /// Several numbers, such as strides or kernel sizes.
        #[prost(message, tag = "1")]
        List(super::ListValue),
        /// A string.
        #[prost(bytes = "vec", tag = "2")]
        Bytes(Vec<u8>),
        /// An integer.
        #[prost(int64, tag = "3")]
        Int(i64),
        /// A float.
        #[prost(float, tag = "4")]
        Float(f32),
        /// A flag.
        #[prost(bool, tag = "5")]
        Bool(bool),
        /// A data type.
        #[prost(int32, tag = "6")]
        Type(i32),
        /// A shape.
        #[prost(message, tag = "7")]
        Shape(super::TensorShape),
        /// A constant.
        #[prost(message, boxed, tag = "8")]
        Tensor(Box<super::TensorProto>),
    }
}

/// A list of integers; lists of other types decode to an empty one.
#[derive(Clone, PartialEq, Message)]
pub struct ListValue {
    /// The integers.
    #[prost(int64, repeated, tag = "3")]
    pub i: Vec<i64>,
}

/// A shape; -1 stands for an unknown dimension.
#[derive(Clone, PartialEq, Message)]
pub struct TensorShape {
    /// Dimensions, outermost first.
    #[prost(message, repeated, tag = "2")]
    pub dim: Vec<Dim>,
    /// Whether even the number of dimensions is unknown.
    #[prost(bool, tag = "3")]
    pub unknown_rank: bool,
}

/// A dimension.
#[derive(Clone, PartialEq, Message)]
pub struct Dim {
    /// Number of elements, or -1.
    #[prost(int64, tag = "1")]
    pub size: i64,
}

/// A constant.
#[derive(Clone, PartialEq, Message)]
pub struct TensorProto {
    /// Data type, a `DT_*` constant.
    #[prost(int32, tag = "1")]
    pub dtype: i32,
    /// Shape of the tensor.
    #[prost(message, optional, tag = "2")]
    pub shape: Option<TensorShape>,
    /// All values, little-endian. If empty, the values are in the list for the type below.
    #[prost(bytes = "vec", tag = "4")]
    pub tensor_content: Vec<u8>,
    /// Values of `DT_FLOAT`; the last one repeats up to the end of the tensor.
    #[prost(float, repeated, tag = "5")]
    pub float_val: Vec<f32>,
    /// Values of `DT_INT32`, likewise.
    #[prost(int32, repeated, tag = "7")]
    pub int_val: Vec<i32>,
    /// Values of `DT_INT64`, likewise.
    #[prost(int64, repeated, tag = "10")]
    pub int64_val: Vec<i64>,
    /// Values of `DT_BOOL`, likewise.
    #[prost(bool, repeated, tag = "11")]
    pub bool_val: Vec<bool>,
}

/// Decodes the nodes of a graph file, in file order. The memory of a node is subtracted from the file's budget before it
/// is decoded, so that a small hostile file cannot cause large allocations.
///
/// # Errors
/// If the file is cut off or is not a GraphDef.
pub fn decode(bytes: &[u8]) -> Result<Vec<NodeDef>> {
    const NODE: u32 = 1;
    let mut rest = bytes;
    let mut nodes = Vec::new();
    let mut budget = Budget::of_file(bytes.len());
    while !rest.is_empty() {
        let (tag, wire) = decode_key(&mut rest).map_err(damaged)?;
        if tag != NODE || wire != WireType::LengthDelimited {
            // Versions and the function library are skipped; a function call is refused later as an unknown op.
            skip_field(wire, tag, &mut rest, DecodeContext::default()).map_err(damaged)?;
            continue;
        }
        let needed = decode_varint(&mut rest).map_err(damaged)?;
        let (offset, left) = (bytes.len() - rest.len(), rest.len());
        let split = usize::try_from(needed).ok().and_then(|needed| rest.split_at_checked(needed));
        let (node, after) = split.ok_or(ImportError::Truncated { node: nodes.len(), offset, needed, left })?;
        limit_if(nodes.len() == MAX_NODES, MAX_NODES, "nodes")?;
        let broken = |error: &dyn Display| malformed(format!("node {}: {error}", nodes.len()));
        budget.take(size_of::<NodeDef>(), 2)?;
        protobuf::take(node, Part::Node, Part::field, MAX_DEPTH, &mut budget).map_err(|trouble| match trouble {
            Trouble::Costly(error) => error.into(),
            Trouble::Damaged(error) => broken(&error),
            Trouble::Cut { needed, left } => broken(&format_args!("a field needs {needed} bytes, {left} are left")),
            Trouble::Deep => broken(&"its messages are nested too deeply"),
        })?;
        nodes.push(NodeDef::decode(node).map_err(|error| broken(&error))?);
        rest = after;
    }
    err_if(nodes.is_empty(), || malformed("it has no nodes"))?;
    Ok(nodes)
}

/// A message whose fields take memory.
#[derive(Clone, Copy)]
enum Part {
    Node,
    Attribute,
    Value,
    List,
    Shape,
    Tensor,
    Leaf,
}

impl Part {
    fn field(self, tag: u32) -> Field<Self> {
        let of = |part, size| Field::Message(part, size);
        match (self, tag) {
            // A map has nodes of eleven names and values, which are at least half full.
            (Self::Node, 5) => of(Self::Attribute, 2 * (size_of::<String>() + size_of::<AttrValue>())),
            (Self::Attribute, 2) => of(Self::Value, 0),
            (Self::Value, 1) => of(Self::List, 0),
            (Self::Value, 7) | (Self::Tensor, 2) => of(Self::Shape, 0),
            (Self::Value, 8) => of(Self::Tensor, size_of::<TensorProto>()),
            (Self::Shape, 2) => of(Self::Leaf, size_of::<Dim>()),
            (Self::List, 3) | (Self::Tensor, 10) => Field::Numbers { each: 8, wire: 1 },
            (Self::Tensor, 5) => Field::Numbers { each: 4, wire: 4 },
            (Self::Tensor, 7) => Field::Numbers { each: 4, wire: 1 },
            (Self::Tensor, 11) => Field::Numbers { each: 1, wire: 1 },
            (Self::Node, 1..=3) | (Self::Attribute, 1) | (Self::Value, 2) | (Self::Tensor, 4) => Field::Bytes,
            _ => Field::Plain,
        }
    }
}

/// The error for bytes that are not a valid message.
fn damaged(error: prost::DecodeError) -> ImportError {
    malformed(format!("it is cut off or damaged ({error})"))
}

fn malformed(reason: impl ToString) -> ImportError {
    ImportError::Malformed { format: "TensorFlow graph", reason: reason.to_string().escape_debug().to_string() }
}

impl TensorProto {
    /// Number of values of four bytes that this tensor's part of the file has room for.
    pub fn held(&self) -> usize {
        self.encoded_len() / size_of::<f32>()
    }

    /// The dimensions of the tensor.
    ///
    /// # Errors
    /// If a dimension is unknown or the product exceeds [`MAX_VALUES`].
    pub fn dims(&self) -> Result<Vec<usize>, String> {
        let shape = self.shape.as_ref().map_or(&[][..], |shape| &shape.dim);
        let open = shape.len() > 8 || self.shape.as_ref().is_some_and(|shape| shape.unknown_rank);
        fail_if(open, "its shape is unknown or has more than 8 dimensions")?;
        let dims: Option<Vec<usize>> = shape.iter().map(|dim| usize::try_from(dim.size).ok()).collect();
        let dims = dims.ok_or("its shape has a negative dimension")?;
        let len = dims.iter().try_fold(1_usize, |product, &dim| product.checked_mul(dim));
        match len {
            Some(len) if len <= MAX_VALUES => Ok(dims),
            _ => Err(format!("it has more than {MAX_VALUES} values, {FIXED}")),
        }
    }

    /// The tensor of a `DT_FLOAT` constant.
    ///
    /// # Errors
    /// If the constant has another type or its content does not fit its shape.
    pub fn floats(&self) -> Result<Tensor, String> {
        fail_if(self.dtype != FLOAT, format_args!("its type is {}, but must be {FLOAT} (float)", self.dtype))?;
        let shape = self.dims()?;
        let data = self.values(&shape, &self.float_val, f32::from_le_bytes)?;
        Ok(Tensor { shape, data })
    }

    /// Shape and values of a `DT_INT32` or `DT_INT64` constant.
    ///
    /// # Errors
    /// The errors of [`TensorProto::floats`].
    pub fn ints(&self) -> Result<(Vec<usize>, Vec<i64>), String> {
        let shape = self.dims()?;
        let data = match self.dtype {
            INT32 => self.values(&shape, &self.int_val, i32::from_le_bytes)?.into_iter().map(i64::from).collect(),
            INT64 => self.values(&shape, &self.int64_val, i64::from_le_bytes)?,
            found => return Err(format!("its type is {found}, but must be {INT32} or {INT64} (integers)")),
        };
        Ok((shape, data))
    }

    /// The single value of a `DT_BOOL` constant.
    ///
    /// # Errors
    /// The errors of [`TensorProto::floats`].
    pub fn flag(&self) -> Result<bool, String> {
        match *self.values(&self.dims()?, &self.bool_val, |[byte]| byte != 0)? {
            [flag] => Ok(flag),
            _ => Err("it has more than one flag".into()),
        }
    }

    fn values<T: Copy + Default, const N: usize>(
        &self,
        shape: &[usize],
        list: &[T],
        read: fn([u8; N]) -> T,
    ) -> Result<Vec<T>, String> {
        let len: usize = shape.iter().product();
        let content = &self.tensor_content;
        if !content.is_empty() {
            let (values, rest) = content.as_chunks::<N>();
            let misfit = values.len() != len || !rest.is_empty();
            fail_if(misfit, format_args!("its shape needs {} bytes, but it holds {}", N * len, content.len()))?;
            return Ok(values.iter().map(|&value| read(value)).collect());
        }
        match list.last() {
            _ if len == 0 => Ok(Vec::new()),
            // TensorFlow omits the values of an all-zero tensor (tensorflow/core/framework/tensor.cc).
            None => Ok(vec![T::default(); len]),
            Some(&last) if list.len() <= len => {
                let mut values = list.to_vec();
                values.resize(len, last);
                Ok(values)
            }
            Some(_) => Err(format!("its shape needs {len} values, but it holds {}", list.len())),
        }
    }
}
