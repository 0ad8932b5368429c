//! Canonical model to the integer numerics: what every value counts, the numbers of every node, and its tensors.
//!
//! A value is an i16 times a scale. What is bounded by its activation has the scale 2^-15; others have theirs from
//! [`Ranges`], which come from running the model.

mod lstm;
mod node;
mod noise;
mod ranges;
mod report;
mod rows;
mod scales;
mod seen;

pub use node::QuantizedNode;
pub use noise::noise;
pub use ranges::{Ranges, RangesError};
pub use report::{Decisions, Report};
pub use scales::Scales;
pub use seen::{RangeRule, RangeRules, Seen};

/// Why a model has no integer form.
#[derive(Debug, thiserror::Error)]
pub enum QuantizeError {
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
    /// Values that one node reads, or that lie beside each other, count in different scales.
    #[error("{node} reads {a} and {b}, whose scales differ: pack with --numeric f16 or f32")]
    Scales {
        /// Its name.
        node: String,
        /// One of them.
        a: String,
        /// The other.
        b: String,
    },
}
