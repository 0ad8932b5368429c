//! TensorFlow 1: cells from their tensors, and frozen graphs. What a graph computes is written in a normal form
//! (`symbol`, `evaluate`), in which cells look alike however they were written (`pattern`), in a loop or unrolled
//! (`sequence`); layers are made of the result (`lower`). What is not known is refused by the node's name.

mod arithmetic;
mod arrays;
mod attention;
mod attributes;
pub mod bands;
mod bands_golden;
mod cell_layer;
mod cell_ops;
pub mod cells;
mod conditions;
mod constants;
mod dims;
mod evaluate;
mod feeds;
mod front_end;
pub(crate) mod golden;
mod graph;
mod images;
mod import;
mod integers;
pub(crate) mod layers;
mod loops;
mod lower;
mod lower_kernel;
mod lstm_golden;
pub mod lstm_variants;
mod moments;
mod moves;
mod normal;
mod operations;
mod pattern;
mod phased_lstm;
mod plain;
mod rearrange;
mod sequence;
mod symbol;
mod windowed;
mod wrapper;

pub use import::import_graph;
