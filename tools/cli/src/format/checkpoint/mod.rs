//! TensorFlow checkpoints in their second format: `model.ckpt.index`, which says what the variables are called and
//! where they lie, and `model.ckpt.data-00000-of-00001`, which holds their values. A checkpoint has no architecture.

mod bundle;
mod table;

use std::fmt::Display;

use crate::error::ImportError;

pub use bundle::Bundle;
pub use table::is_table;

fn malformed<T>(reason: impl Display) -> Result<T, ImportError> {
    Err(ImportError::Malformed { format: "TensorFlow checkpoint", reason: reason.to_string() })
}
