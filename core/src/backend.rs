//! Interface for other backends, which run the nodes of a model with their own kernels: passes through the nodes, the
//! turns of a schedule, and the conversion at the ports. `tidegate-fused` is such a backend.
//!
//! A backend without a kernel for a node calls [`Node::run_f32`](crate::node::Node::run_f32). States have the layout of
//! [`State::words_mut`](crate::State::words_mut), so that backends can continue each other's states.

pub use crate::node::Pass;
pub use crate::port::Crosses;
pub use crate::schedule::Turn;
