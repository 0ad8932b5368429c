//! TFLite models (<https://ai.google.dev/edge/litert>), float and integer: `UNIDIRECTIONAL_SEQUENCE_LSTM` and the
//! layers around it.
//!
//! TFLite runs a whole sequence at once; the imported network runs it step by step. The dimension after the batch is
//! time. An operator that needs all steps (a `RESHAPE` to one row, a convolution) reads a window. An integer model
//! keeps its integers: canonical tensors hold the dequantized weights, and [`Integers`](crate::canonical::Integers)
//! holds the parameters of the integer arithmetic.

mod algebra;
mod blocks;
mod cells;
mod conv;
mod cut;
mod distributed;
mod elementwise;
mod flat;
mod fused_norm;
mod hard_swish;
mod integers;
mod layers;
mod loops;
mod lower;
mod lstm;
mod moment;
mod moves;
mod names;
mod norm;
mod options;
mod over_steps;
mod pad;
mod pool;
mod ports;
mod positions;
mod rolled;
mod rows;
mod rows_in_time;
mod schema;
mod svdf;
mod table;
mod tensors;
mod timeline;
mod unrolled;
mod variables;

use self::lower::Reader;
use super::{Imported, Options, refuse::unsupported_if};
use crate::{budget::Budget, data::one_line, error::ImportError, error::Result};

const FORMAT: &str = "TFLite model";
/// Identifier at byte 4 of a file.
pub(super) const MAGIC: &[u8] = b"TFL3";

fn malformed(reason: String) -> ImportError {
    ImportError::Malformed { format: FORMAT, reason: one_line(&reason) }
}

fn unsupported(what: String) -> ImportError {
    ImportError::Unsupported(what)
}

pub(super) fn import(bytes: &[u8], name: &str, options: &Options) -> Result<Imported> {
    unsupported_if(options.description.is_some(), "--arch with a file that holds its architecture")?;
    unsupported_if(options.window.is_some(), "--window with a file whose sequences have a length")?;
    let mut budget = Budget::of_file(bytes.len());
    let mut model = schema::Model::read(bytes, &mut budget)?;
    let initial = variables::remove_unused(&mut model.main);
    let source = format!("{name}, TFLite");
    let read = |in_windows| {
        let mut reader = Reader::new(&model, budget.clone(), in_windows);
        reader.called.clone_from(&initial);
        reader.import(&source, &options.onnx.states)
    };
    match read(false)? {
        Some(imported) => Ok(imported),
        None => read(true)?.ok_or_else(|| unsupported("a graph with windows over several layers".into())),
    }
}
