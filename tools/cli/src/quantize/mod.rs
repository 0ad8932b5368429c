//! Canonical model to the integer numerics: what every value counts, the numbers of every node, and its tensors.
//!
//! A value is an i16 times a scale. What is bounded by its activation has the scale 2^-15; others have theirs from
//! [`Ranges`], which come from running the model.

use tidegate::Numeric;
use tidegate::front_end::FrontEndError;

pub mod byte;
mod candidate;
mod kept;
mod lstm;
mod node;
mod noise;
mod ranges;
mod report;
mod rows;
mod scales;
mod seen;

pub use kept::{Kept, KeptWeight};
pub use node::QuantizedNode;
pub use noise::noise;
pub use ranges::{Ranges, RangesError};
pub use report::{Decisions, Report};
pub use scales::Scales;
pub use seen::{RangeRule, RangeRules, Seen};

/// Why a model has no integer form.
#[derive(Debug, thiserror::Error)]
pub enum QuantizeError {
    /// The front end has no form in integers.
    #[error(transparent)]
    FrontEnd(#[from] FrontEndError),
    /// The numeric `i8` is of models that are in integers already.
    #[error("the model does not say in integers what {value} counts, as {} needs it: pack with --numeric i8x16", Numeric::I8.name())]
    NotInIntegers {
        /// An input or a node.
        value: String,
    },
    /// A cell, or one with such options, in the numeric `i8`.
    #[error("{node} is a {cell}{with}, which the numeric i8 does not have: pack with --numeric i8x16")]
    NoByteForm {
        /// Its name.
        node: String,
        /// What it is.
        cell: String,
        /// What about it; empty: all.
        with: String,
    },
    /// A cell, or one with such options.
    #[error("{node} is a {cell}{with}, which the integer numerics do not have: pack with --numeric f16 or f32")]
    NoIntegerForm {
        /// Its name.
        node: String,
        /// What it is.
        cell: String,
        /// What about it; empty: all.
        with: String,
    },
}
