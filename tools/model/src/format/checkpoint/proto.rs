//! The protobuf messages of a checkpoint index: tensorflow/core/protobuf/tensor_bundle.proto and the files it includes.

use prost::Message;

pub use crate::format::graphdef::{Dim as DimProto, TensorShape as ShapeProto};

/// The only version of the format so far.
pub const VERSION: i32 = 1;

/// The value of the empty key.
#[derive(Clone, PartialEq, Message)]
pub struct Header {
    /// Number of shards.
    #[prost(int32, tag = "1")]
    pub num_shards: i32,
    /// Byte order of the values; 0 is little-endian.
    #[prost(int32, tag = "2")]
    pub endianness: i32,
    /// Version of the format.
    #[prost(message, optional, tag = "3")]
    pub version: Option<Version>,
}

/// Versions of the format.
#[derive(Clone, PartialEq, Message)]
pub struct Version {
    /// Version of the writer.
    #[prost(int32, tag = "1")]
    pub producer: i32,
    /// Oldest version that can read the file.
    #[prost(int32, tag = "2")]
    pub min_consumer: i32,
}

/// A variable, or a slice of one.
#[derive(Clone, PartialEq, Message)]
pub struct EntryProto {
    /// `DataType` of `types.proto`.
    #[prost(int32, tag = "1")]
    pub dtype: i32,
    /// Shape of the values.
    #[prost(message, optional, tag = "2")]
    pub shape: Option<ShapeProto>,
    /// Shard that holds the values.
    #[prost(int32, tag = "3")]
    pub shard_id: i32,
    /// Position of the values in the shard, in bytes.
    #[prost(int64, tag = "4")]
    pub offset: i64,
    /// Size of the values in bytes.
    #[prost(int64, tag = "5")]
    pub size: i64,
    /// [Masked](super::table::masked) checksum of the values.
    #[prost(fixed32, tag = "6")]
    pub crc32c: u32,
    /// Slices of a partitioned variable; otherwise empty.
    #[prost(message, repeated, tag = "7")]
    pub slices: Vec<SliceProto>,
}

/// A slice of a variable.
#[derive(Clone, PartialEq, Message)]
pub struct SliceProto {
    /// Range in each dimension.
    #[prost(message, repeated, tag = "1")]
    pub extent: Vec<ExtentProto>,
}

/// A range of one dimension.
#[derive(Clone, PartialEq, Message)]
pub struct ExtentProto {
    /// First element.
    #[prost(int64, tag = "1")]
    pub start: i64,
    /// Number of elements; absent for the whole dimension.
    #[prost(int64, optional, tag = "2")]
    pub length: Option<i64>,
}
