//! The numeric `i8`: TFLite's rounding of sums, its LSTM, and layers over windows of bytes.

mod curves;
pub mod lstm;
mod round;
pub mod window_dense;
pub mod window_depthwise;

use tidegate::internals::cell::window_dense::i8::window_after;
use tidegate::internals::node::Node;

pub use round::Rounded;

/// Adds x to the window of a node, and writes the values of its bytes to `to` if the step has an output.
#[inline(always)]
fn take_row(node: &Node<'_>, x: &[i16], state: &mut [i16], first: i32, to: &mut [i16]) -> bool {
    let Some(bytes) = window_after(node, &x[..node.input_size], state, first) else { return false };
    // A byte holds the low eight bits of a value from `first` up to 255 more.
    let (from, first) = (first as u8, first as i16);
    to.iter_mut().zip(bytes).for_each(|(to, byte)| *to = first + i16::from(byte.wrapping_sub(from)));
    true
}
