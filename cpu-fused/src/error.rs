//! Why a model is not packed.

use core::fmt;

/// The layers of a model need more memory than the caller's limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackError {
    /// Index of the node whose layer exceeds the limit.
    pub node: usize,
    /// The limit in bytes.
    pub limit: usize,
}

impl fmt::Display for PackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}: the packed layers exceed the limit of {} bytes", self.node, self.limit)
    }
}

impl core::error::Error for PackError {}
