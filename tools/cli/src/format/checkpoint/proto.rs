//! The messages of a checkpoint's table, of tensorflow/core/protobuf/tensor_bundle.proto and what it includes.

use prost::Message;

/// The only version of the format that there has been.
pub const VERSION: i32 = 1;

/// What stands under the empty key.
#[derive(Clone, PartialEq, Message)]
pub struct Header {
    /// Files of values.
    #[prost(int32, tag = "1")]
    pub num_shards: i32,
    /// 0 is little.
    #[prost(int32, tag = "2")]
    pub endianness: i32,
    /// Of the format.
    #[prost(message, optional, tag = "3")]
    pub version: Option<Version>,
}

/// Versions of the format.
#[derive(Clone, PartialEq, Message)]
pub struct Version {
    /// What wrote it.
    #[prost(int32, tag = "1")]
    pub producer: i32,
    /// The oldest that reads it.
    #[prost(int32, tag = "2")]
    pub min_consumer: i32,
}

/// A variable, or a slice of one.
#[derive(Clone, PartialEq, Message)]
pub struct EntryProto {
    /// `DataType` of `types.proto`.
    #[prost(int32, tag = "1")]
    pub dtype: i32,
    /// Its shape.
    #[prost(message, optional, tag = "2")]
    pub shape: Option<ShapeProto>,
    /// Which file has its values.
    #[prost(int32, tag = "3")]
    pub shard_id: i32,
    /// Where they begin there, in bytes.
    #[prost(int64, tag = "4")]
    pub offset: i64,
    /// Their bytes.
    #[prost(int64, tag = "5")]
    pub size: i64,
    /// Their checksum, [masked](super::table::masked).
    #[prost(fixed32, tag = "6")]
    pub crc32c: u32,
    /// Of a variable that was partitioned: its slices.
    #[prost(message, repeated, tag = "7")]
    pub slices: Vec<SliceProto>,
}

/// A shape.
#[derive(Clone, PartialEq, Message)]
pub struct ShapeProto {
    /// From the outermost on.
    #[prost(message, repeated, tag = "2")]
    pub dim: Vec<DimProto>,
    /// Nobody knows how many there are.
    #[prost(bool, tag = "3")]
    pub unknown_rank: bool,
}

/// A dimension.
#[derive(Clone, PartialEq, Message)]
pub struct DimProto {
    /// Its elements.
    #[prost(int64, tag = "1")]
    pub size: i64,
}

/// A slice of a variable.
#[derive(Clone, PartialEq, Message)]
pub struct SliceProto {
    /// Of each dimension.
    #[prost(message, repeated, tag = "1")]
    pub extent: Vec<ExtentProto>,
}

/// A part of a dimension.
#[derive(Clone, PartialEq, Message)]
pub struct ExtentProto {
    /// Its first element.
    #[prost(int64, tag = "1")]
    pub start: i64,
    /// All of the dimension where it is not given.
    #[prost(int64, optional, tag = "2")]
    pub length: Option<i64>,
}
