//! TensorFlow 1's cells that hold other cells: stacks and wrappers. A cell within is written as its constructor was
//! called, `"LSTMCell(5, use_peepholes=True)"`.

use tidegate::activation::Activation;

use super::cells;
use super::golden::{cell, intersection};
use crate::error::ImportError;
use crate::format::golden::Case;
use crate::format::layer::Layer;
use crate::format::network::{Network, Source};

/// The network of a cell, or of a cell that holds others.
pub(crate) fn convert(case: &mut Case<'_>) -> Result<Network, ImportError> {
    match case.cls.as_str() {
        "MultiRNNCell" | "InputProjectionWrapper" | "OutputProjectionWrapper" | "IntersectionRNNCell" => {
            let mut network = Network::new();
            let input = network.input("input", case.input_size()?);
            let output = add(case, &mut network, &input)?;
            network.output("output", &output);
            Ok(network)
        }
        _ => Ok(Network::of(cell(case)?)),
    }
}

/// Adds a cell of any kind that reads `x`; returns its output.
fn add(case: &mut Case<'_>, network: &mut Network, x: &Source) -> Result<Source, ImportError> {
    match case.cls.as_str() {
        "MultiRNNCell" => multi(case, network, x),
        "InputProjectionWrapper" => input_projection(case, network, x),
        "OutputProjectionWrapper" => output_projection(case, network, x),
        "IntersectionRNNCell" => {
            let (projection, layer) = intersection(case)?;
            let projected = projection.map_or_else(|| x.clone(), |projection| network.add(projection, &[x]));
            Ok(network.add(layer, &[&projected]))
        }
        _ => Ok(network.add(cell(case)?, &[x])),
    }
}

/// The output of a cell is the input of the next.
fn multi(case: &mut Case<'_>, network: &mut Network, x: &Source) -> Result<Source, ImportError> {
    case.must_be("state_is_tuple", true)?;
    let calls = case.texts("cells")?.unwrap_or_default();
    let mut last = x.clone();
    for (k, call) in calls.iter().enumerate() {
        let scope = format!("cell_{k}");
        last = network.renamed(
            |state| within(&scope, state),
            |network| case.cell(call, &[&scope], |case| add(case, network, &last)),
        )?;
    }
    Ok(last)
}

/// The name of a cell's state in the case of what holds it: a state that is one tensor has the name of its cell.
fn within(scope: &str, state: &str) -> String {
    if state == "state" { scope.to_owned() } else { format!("{scope}_{state}") }
}

/// The cell reads `act(x K + b)`.
fn input_projection(case: &mut Case<'_>, network: &mut Network, x: &Source) -> Result<Source, ImportError> {
    let activation = case.activation("activation", Activation::Identity)?;
    let projection = dense(case, activation)?;
    case.units("num_proj", projection.output_size)?;
    let projected = network.add(projection, &[x]);
    wrapped(case, network, &projected)
}

/// `y = act(cell(x) K + b)`.
fn output_projection(case: &mut Case<'_>, network: &mut Network, x: &Source) -> Result<Source, ImportError> {
    let activation = case.activation("activation", Activation::Identity)?;
    let projection = dense(case, activation)?;
    case.units("output_size", projection.output_size)?;
    let output = wrapped(case, network, x)?;
    Ok(network.add(projection, &[&output]))
}

/// The only cell within a wrapper, with the parameters that the wrapper has left.
fn wrapped(case: &mut Case<'_>, network: &mut Network, x: &Source) -> Result<Source, ImportError> {
    let Some(call) = case.text("cell")? else {
        return Err(ImportError::Unsupported(format!("{} without a cell", case.cls)));
    };
    case.cell(&call, &[], |case| add(case, network, x))
}

/// A wrapper's own `kernel` [input, output] and `bias`.
fn dense(case: &mut Case<'_>, activation: Activation) -> Result<Layer, ImportError> {
    cells::dense(case.tensor("kernel")?, case.tensor("bias")?, activation)
}
