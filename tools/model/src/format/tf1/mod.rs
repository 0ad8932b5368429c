//! TensorFlow 1: cells from their tensors, and frozen graphs. A graph is evaluated to expressions in a normal form
//! (`symbol`, `evaluate`), in which a cell has the same form however it was written (`pattern`), in a loop or unrolled
//! (`sequence`). The result is lowered to layers (`lower`). An unsupported node is an error that names it.

mod along;
mod arithmetic;
mod arrays;
mod attention;
mod attributes;
mod bands;
mod cell_layer;
mod cell_ops;
pub mod cells;
pub(crate) mod classes;
mod conditions;
mod constants;
mod cudnn_params;
mod dims;
mod evaluate;
mod exports;
mod feeds;
mod first_step;
mod front_end;
mod functions;
mod graph;
mod hint;
mod images;
mod import;
mod integers;
pub(crate) mod layers;
mod loops;
mod lower;
mod lower_kernel;
mod lstm_classes;
mod lstm_variants;
mod moments;
mod moves;
mod normal;
mod operations;
mod padded;
mod pattern;
mod phased_lstm;
mod rearrange;
mod sequence;
mod symbol;
mod wrapper;

use super::{case::Case, network::Control, network::Network};
use crate::error::Result;

pub use import::import_graph;
pub(super) use pattern::find as find_cell;
pub(super) use sequence::{chain, of_loop, of_steps};
pub(super) use symbol::{Arena, At, Cell, Expr, Id, Linear};

/// Converts a `tf1` case to a network.
pub(crate) fn convert(case: &mut Case<'_>) -> Result<Network> {
    case.control("sequence_length", Control::Length);
    match case.cls.strip_prefix("CudnnParamsFormatConverter") {
        Some(_) => Ok(Network::of(cudnn_params::layer(case)?)),
        None => wrapper::convert(case),
    }
}
