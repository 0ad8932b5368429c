//! Quantization: converts a canonical model to the integer numerics. It chooses the scale of every value, the numbers
//! of every node, and the bytes of its tensors.
//!
//! A value is an `i16` times a scale. A value that its activation bounds has the scale 2^-15. The scale of any other
//! value follows from its [`Ranges`], which are measured while the model runs.

use tidegate::Numeric;
use tidegate::front_end::FrontEndError;

mod auto;
pub mod byte;
mod candidate;
mod choose;
mod covariance;
mod distribution;
mod draw;
mod equalize;
mod kept;
mod learnt;
mod lstm;
mod matrix;
mod node;
mod operand;
mod probe;
mod quantized;
mod ranges;
mod report;
mod rows;
mod scales;
mod seen;
mod stand_in;
mod terms;

pub use choose::{Chosen, Goal, choose, wide_layers};
pub use equalize::{equalized, equalized_as};
pub use kept::{Kept, KeptWeight};
pub use learnt::{Damaged, LearnError, Learnt};
pub use node::QuantizedNode;
pub(crate) use node::index_bytes;
pub use quantized::Quantized;
pub use ranges::{Elements, Ranges};
pub use report::{Decisions, LEAST_SNR_DB, Report, Row, Weakest, is_poor, weakest, weight_bits};
pub use scales::Scales;
pub use seen::{RangeRule, RangeRules, RangesError, Seen};
pub use stand_in::StandIn;

/// Why a model has no integer form.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the error texts explain the variants and their fields")]
pub enum QuantizeError {
    #[error(transparent)]
    FrontEnd(#[from] FrontEndError),
    #[error("the model has no integer scale for {value}, which {} needs: pack with --numeric i8x16", Numeric::I8.name())]
    NotInIntegers { value: String },
    #[error("{node} is a {cell}{with}, which the numeric i8 does not support: pack with --numeric i8x16")]
    NoByteForm { node: String, cell: String, with: String },
    #[error("{node} is a {cell}{with}, which the integer numerics do not support: pack with --numeric f16 or f32")]
    NoIntegerForm { node: String, cell: String, with: String },
}
