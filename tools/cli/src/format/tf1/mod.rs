//! TensorFlow 1: cells from their tensors, and frozen graphs. A graph is read from its output back to its input
//! by patterns; every node must have been read by one, else the graph is refused by that node's name.

mod attention;
pub mod bands;
mod bands_golden;
pub mod cells;
mod fold;
mod front_end;
pub(crate) mod golden;
mod graph;
mod gru;
mod import;
pub(crate) mod layers;
mod lstm;
mod lstm_golden;
pub mod lstm_variants;
mod matcher;
mod phased_lstm;
mod while_loop;
mod wrapper;

pub use import::import_graph;
