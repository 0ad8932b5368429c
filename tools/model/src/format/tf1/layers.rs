//! Layers of TensorFlow 1 as named in descriptions: each cell, run by `dynamic_rnn` or a similar function; functions
//! that run cells in both directions, with the two outputs concatenated as by `tf.concat(outputs, -1)`; `CudnnLSTM` and
//! related classes; and stateless layers.

use serde_json::{Map, Value as Json};

use super::{cells::unsupported, cells::unsupported_if, classes, functions, wrapper};
use crate::error::{ImportError, Result};
use crate::format::network::{Direction, Network, Source};
use crate::format::signal::{Signal, embedded, last};
use crate::format::{case::Case, description::Take, refuse::needs_window_if, stateless::several};

/// Adds a layer.
pub(crate) fn add(case: &mut Case<'_>, network: &mut Network, inputs: &[Signal], take: Take) -> Result<Signal> {
    if matches!(case.cls.as_str(), "Concat" | "Add" | "Multiply") {
        let value = several(case, network, inputs)?;
        return Ok(if take == Take::Sequence { value } else { last(network, value) });
    }
    let [x] = inputs else { return embedded(super::convert(case)?, network, inputs, take) };
    let outputs = match case.cls.as_str() {
        cls if wrapper::runs_both_directions(cls) => {
            whole_sequence(case, x)?;
            wrapper::both_directions(case, network, &x.source)?.to_vec()
        }
        "CudnnLSTM" | "CudnnGRU" | "CudnnRNNTanh" | "CudnnRNNRelu" => cudnn(case, network, x)?,
        _ => match functions::add(case, network, x)? {
            Some(value) => return Ok(if take == Take::Sequence { value } else { last(network, value) }),
            None => return embedded(super::convert(case)?, network, inputs, take),
        },
    };
    match take {
        Take::Sequence => Ok(x.with(network.concat(&outputs))),
        Take::Last => {
            let whole = x.with(network.concat(&outputs));
            Ok(last(network, whole))
        }
        // `Open` is refused before.
        Take::Final | Take::Open => {
            // The last output of the backward direction is in the first row.
            let ends: Vec<Source> =
                outputs.iter().enumerate().map(|(k, output)| network.last(output, k == 1)).collect();
            Ok(Signal { sequence: false, ..x.with(network.concat(&ends)) })
        }
    }
}

fn whole_sequence(case: &Case<'_>, x: &Signal) -> Result<()> {
    needs_window_if(x.source.rows().is_none(), &case.cls)
}

/// Layers of cuDNN, with the variables of the equivalent cells. Returns one output, or one for each direction.
fn cudnn(case: &mut Case<'_>, network: &mut Network, x: &Signal) -> Result<Vec<Source>> {
    let (class, scope, activation) = match case.cls.as_str() {
        "CudnnLSTM" => ("CudnnCompatibleLSTMCell", "cudnn_compatible_lstm_cell", None),
        "CudnnGRU" => ("CudnnCompatibleGRUCell", "cudnn_compatible_gru_cell", None),
        "CudnnRNNTanh" => ("BasicRNNCell", "basic_rnn_cell", Some("tanh")),
        _ => ("BasicRNNCell", "basic_rnn_cell", Some("relu")),
    };
    // These only affect training. With each accepted `input_mode`, the first layer multiplies its input by its weights.
    case.ignore_all(&["dropout", "seed", "dtype", "kernel_initializer", "bias_initializer", "name"]);
    match case.text("input_mode")?.as_deref() {
        None | Some("linear_input" | "auto_select") => {}
        Some(other) => return unsupported(format!("input_mode {other:?}")),
    }
    let both = match case.text("direction")?.as_deref() {
        None | Some("unidirectional") => false,
        Some("bidirectional") => true,
        Some(other) => return unsupported(format!("direction {other:?}")),
    };
    if both {
        whole_sequence(case, x)?;
    }
    let mut args = Map::new();
    if let Some(units) = case.size("num_units")? {
        args.insert("num_units".to_owned(), units.into());
    }
    if let Some(activation) = activation {
        args.insert("activation".to_owned(), Json::from(activation));
    }
    let count = case.size("num_layers")?.unwrap_or(1);
    unsupported_if(count == 0, "a network without layers")?;
    let directions: &[_] = match both {
        true => &[(Some("fw"), Direction::Forward), (Some("bw"), Direction::Backward)],
        false => &[(None, Direction::Forward)],
    };
    let mut sources = vec![x.source.clone()];
    for k in 0..count {
        let cell = format!("cell_{k}");
        let inputs = std::mem::take(&mut sources);
        let given: usize = inputs.iter().map(Source::size).sum();
        for &(side, direction) in directions {
            let path = match side {
                Some(side) => format!("stack_bidirectional_rnn/{cell}/bidirectional_rnn/{side}/{scope}"),
                None => format!("rnn/multi_rnn_cell/{cell}/{scope}"),
            };
            let segments: Vec<&str> = [cell.as_str()].into_iter().chain(side).chain([scope]).collect();
            let layer = case.scoped(class.to_owned(), args.clone(), &segments, classes::cell);
            let layer = layer.map_err(|mut error| {
                if let ImportError::MissingTensor { tensor } = &mut error {
                    tensor.insert_str(0, &format!("{path}/"));
                }
                error
            })?;
            let needed = layer.input_size;
            unsupported_if(given != needed, format_args!("an input of {given} features where {path} takes {needed}"))?;
            sources.push(network.directed(layer, &inputs.iter().collect::<Vec<_>>(), direction));
        }
    }
    Ok(sources)
}
