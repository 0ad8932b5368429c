//! TFLite models (<https://ai.google.dev/edge/litert>), of floats and of integers: `UNIDIRECTIONAL_SEQUENCE_LSTM` and the
//! layers around it.
//!
//! What TFLite runs over a whole sequence at once runs here step after step: the dimension behind the batch is time, and what
//! looks at all of it (a `RESHAPE` to one row, a convolution) looks at a window. An integer model keeps its integers: canonical
//! tensors say what its weights stand for, and [`Integers`](crate::canonical::Integers) how it computes.

mod conv;
mod flat;
mod integers;
mod layers;
mod lower;
mod lstm;
mod rows;
mod schema;

use self::lower::Reader;
use super::{Imported, Options};
use crate::data::one_line;
use crate::error::ImportError;

/// What it is called.
const FORMAT: &str = "TFLite model";
/// At byte 4 of a file.
pub(super) const MAGIC: &[u8] = b"TFL3";

fn malformed(reason: String) -> ImportError {
    ImportError::Malformed { format: FORMAT, reason: one_line(&reason) }
}

fn unsupported(what: String) -> ImportError {
    ImportError::Unsupported(what)
}

/// The model in the bytes of a file.
pub(super) fn import(bytes: &[u8], name: &str, options: &Options) -> Result<Imported, ImportError> {
    if options.description.is_some() {
        return Err(unsupported("--arch with a file that holds its architecture".into()));
    }
    if options.window.is_some() {
        return Err(unsupported("--window with a file whose sequences have a length".into()));
    }
    let model = schema::Model::read(bytes)?;
    Reader::new(&model, bytes.len()).import(&format!("{name}, TFLite"))
}
