//! An LSTM over samples, whose initial states were trained with it, and a linear layer. The weights of each LSTM are
//! `[4 · hidden, input + hidden]` and `[4 · hidden]` with the gates i, f, g, o, then its initial h and c.

use tidegate::internals::{activation::Activation, cell::CellKind};

use super::config::Lstm;
use super::{Weights, malformed};
use crate::canonical::{MAX_NODES, MAX_SIZE, Tensor};
use crate::error::Result;
use crate::format::{Layer, Network};

pub(super) fn add(network: &mut Network, config: Lstm, weights: &mut Weights) -> Result<()> {
    let Lstm { input_size, hidden_size, num_layers } = config;
    let size = 1..=MAX_SIZE;
    if !(size.contains(&input_size) && size.contains(&hidden_size) && (1..=MAX_NODES).contains(&num_layers)) {
        return malformed(format!("its sizes must be from 1 to {MAX_SIZE}, and its layers to {MAX_NODES}"));
    }
    let mut last = network.input("input", input_size);
    for _ in 0..num_layers {
        let layer = layer(weights, last.size(), hidden_size)?;
        last = network.add(layer, &[&last]);
    }
    let (head, bias) = (weights.tensor(&[1, hidden_size])?, weights.tensor(&[1])?);
    last = network.add(Layer::dense(head, Some(bias), Activation::Identity), &[&last]);
    network.output("output", &last);
    Ok(())
}

fn layer(weights: &mut Weights, input: usize, hidden: usize) -> Result<Layer> {
    let (gates, bias) = (weights.tensor(&[4 * hidden, input + hidden])?, weights.tensor(&[4 * hidden])?);
    let (initial_hidden, initial_cell) = (weights.tensor(&[hidden])?, weights.tensor(&[hidden])?);
    let part = |from: usize, cols: usize| {
        let rows = gates.data.chunks(input + hidden);
        let data = rows.flat_map(|row| row[from..from + cols].to_vec()).collect();
        Tensor { shape: vec![4 * hidden, cols], data }
    };
    let layer = Layer::new(CellKind::Lstm, input, hidden)
        .tensor("input_weights", part(0, input))
        .tensor("recurrent_weights", part(input, hidden))
        .tensor("input_bias", bias);
    if [&initial_hidden, &initial_cell].iter().all(|state| state.data.iter().all(|&value| value == 0.0)) {
        return Ok(layer);
    }
    let layer = layer.option("initial").tensor("initial_hidden", initial_hidden);
    Ok(layer.tensor("initial_cell_state", initial_cell))
}
