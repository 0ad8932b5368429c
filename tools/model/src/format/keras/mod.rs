//! Models and layers of Keras 1 to 3. This file converts a case of one recurrent layer, or of `Bidirectional` over two.
//! The weights of LSTM and GRU are converted in [`recurrent`], all layers of a whole model in [`layers`]. A network
//! that reverses a sequence processes the whole sequence as one window.

mod activation;
mod arguments;
mod attention;
mod config;
mod conv_lstm;
mod defaults;
mod file;
mod first;
mod graph;
mod hdf5;
mod kernel;
pub(crate) mod layers;
mod mask;
mod names;
mod order;
mod part;
mod pointwise;
mod products;
mod recurrent;
mod slices;
mod variables;
mod weights;

use self::recurrent::recurrent;
use super::case::Case;
use super::network::{Control, Direction, Idle, Network, Source};
use crate::error::Result;

pub(crate) use defaults::{Origin, check};
pub(crate) use file::{description, import_archive, import_hdf5, is_keras};
pub(crate) use hdf5::MAGIC;

pub(crate) fn convert(case: &mut Case<'_>) -> Result<Network> {
    case.control("mask", Control::Mask);
    // If a case does not set the argument, it has every output, regardless of the default of the class.
    let last_only = !case.flag("return_sequences", true)?;
    let mut network = match case.cls.as_str() {
        "Bidirectional" => bidirectional(case, last_only)?,
        _ => {
            let zero = case.flag("zero_output_for_mask", false)?;
            let mut network = directed(case)?;
            network.idle = if zero { Idle::Zero } else { Idle::Repeat };
            network
        }
    };
    network.last_only = last_only;
    Ok(network)
}

/// A recurrent layer in either direction. Backward outputs stay in the order in which they were computed.
fn directed(case: &mut Case<'_>) -> Result<Network> {
    if !case.flag("go_backwards", false)? {
        return Ok(Network::of(recurrent(case)?));
    }
    let layer = recurrent(case)?;
    let mut network = Network::new();
    let x = network.input("input", layer.input_size);
    let rows = network.window(&x, case.steps()?);
    let output = network.directed(layer, &[&rows], Direction::BackwardAsProcessed);
    network.output("output", &output);
    network.reversed = true;
    Ok(network)
}

/// A layer in each direction. The two share all arguments other than those of `Bidirectional`; outputs of masked steps
/// are zero. With `last_only`, the output is the last output that each direction computes.
fn bidirectional(case: &mut Case<'_>, last_only: bool) -> Result<Network> {
    let units = case.sizes("units")?.unwrap_or_default();
    let class = |case: &mut Case<'_>, name| case.text(name).map(Option::unwrap_or_default);
    let (forward, backward) = (class(case, "forward")?, class(case, "backward")?);
    let how = match case.is_null("merge_mode") {
        true => None,
        false => Some(case.text("merge_mode")?.unwrap_or_else(|| "concat".to_owned())),
    };
    // Keras starts the name of the forward layer with this; the backward layer may have any name.
    let scope = case.segment("forward_");
    let back = if last_only { Direction::BackwardAsProcessed } else { Direction::Backward };
    let shared = case.remaining();
    let mut network = Network::new();
    let mut outputs = Vec::new();
    let mut rows: Option<Source> = None;
    let directions = [
        ("forward", forward, Direction::Forward, scope.as_deref().into_iter().collect()),
        ("backward", backward, back, vec![]),
    ];
    for (k, (name, class, direction, scope)) in directions.into_iter().enumerate() {
        let mut args = shared.clone();
        args.extend(units.get(k).map(|&units| ("units".to_owned(), units.into())));
        let layer = case.scoped(class, args, &scope, recurrent)?;
        let x = match rows.take() {
            Some(rows) => rows,
            None => {
                let x = network.input("input", layer.input_size);
                network.window(&x, case.steps()?)
            }
        };
        let add = |network: &mut Network| Ok(network.directed(layer, &[&x], direction));
        outputs.push(network.renamed(|state| format!("{name}_{state}"), add)?);
        rows = Some(x);
    }
    match how {
        None => {
            let numbered = case.has_output("output_0");
            let names = if numbered { ["output_0", "output_1"] } else { ["output_forward", "output_backward"] };
            for (name, part) in names.into_iter().zip(&outputs) {
                network.output(name, part);
            }
        }
        Some(how) => {
            let output = layers::merged(&mut network, &outputs, &how)?;
            network.output("output", &output);
        }
    }
    Ok(network)
}
