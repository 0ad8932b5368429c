//! What another backend needs to run the nodes of a model with kernels of its own: how a pass goes through them, how a
//! schedule takes turns, how values cross the ports. `tidegate-fused` is one.
//!
//! A node that it has no kernel for runs here: [`Node::run_f32`](crate::node::Node::run_f32). States lie as
//! [`State::words_mut`](crate::State::words_mut) has them, so that any backend goes on with any other's.

pub use crate::engine::Crosses;
pub use crate::run::Pass;
pub use crate::schedule::Turn;
