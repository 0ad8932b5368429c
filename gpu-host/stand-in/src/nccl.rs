//! NCCL

use crate::Code;

/// `ncclSystemError`
pub const SYSTEM_ERROR: Code = 2;
