//! The numeric `i8`: TFLite's rounding of sums, and its LSTM.

mod curves;
pub mod lstm;
mod round;

pub use round::Rounded;
