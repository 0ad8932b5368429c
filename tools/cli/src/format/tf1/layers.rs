//! Layers of TensorFlow 1 as descriptions name them: every cell as it is, run by `dynamic_rnn` or a function like it;
//! what runs cells in both directions, with both outputs one after the other as `tf.concat(outputs, -1)` has them;
//! `CudnnLSTM` and its kin; and the plain layers around them.

use serde_json::{Map, Value as Json};

use super::{golden, plain, wrapper};
use crate::error::ImportError;
use crate::format::description::{Take, Value, foreign, last};
use crate::format::golden::Case;
use crate::format::network::{Direction, Network, Source};
use crate::format::plain::several;

/// Adds a layer.
pub(crate) fn add(
    case: &mut Case<'_>,
    network: &mut Network,
    inputs: &[Value],
    take: Take,
) -> Result<Value, ImportError> {
    if matches!(case.cls.as_str(), "Concat" | "Add" | "Multiply") {
        let value = several(case, network, inputs)?;
        return Ok(if take == Take::Sequence { value } else { last(network, value) });
    }
    let [x] = inputs else { return foreign("tf1", case, network, inputs, take) };
    let outputs = match case.cls.as_str() {
        "bidirectional_dynamic_rnn" | "static_bidirectional_rnn" => {
            whole_sequence(case, x)?;
            wrapper::pair(case, network, &x.source)?.to_vec()
        }
        "stack_bidirectional_dynamic_rnn" | "stack_bidirectional_rnn" => {
            whole_sequence(case, x)?;
            wrapper::stack_of_pairs(case, network, &x.source)?.to_vec()
        }
        "CudnnLSTM" | "CudnnGRU" | "CudnnRNNTanh" | "CudnnRNNRelu" => cudnn(case, network, x)?,
        _ => match plain::add(case, network, x)? {
            Some(value) => return Ok(if take == Take::Sequence { value } else { last(network, value) }),
            None => return foreign("tf1", case, network, inputs, take),
        },
    };
    match take {
        Take::Sequence => Ok(x.with(network.concat(&outputs))),
        Take::Last => {
            let source = network.concat(&outputs);
            Ok(last(network, x.with(source)))
        }
        Take::Final => {
            // The backward direction gives the first row last.
            let ends: Vec<Source> =
                outputs.iter().enumerate().map(|(k, output)| network.last(output, k == 1)).collect();
            Ok(Value { sequence: false, ..x.with(network.concat(&ends)) })
        }
    }
}

fn whole_sequence(case: &Case<'_>, x: &Value) -> Result<(), ImportError> {
    match x.source.rows() {
        Some(_) => Ok(()),
        None => Err(ImportError::NeedsWindow { what: case.cls.clone() }),
    }
}

/// Layers of cuDNN, with the variables of the cells that compute the same: one output, or one for each direction.
fn cudnn(case: &mut Case<'_>, network: &mut Network, x: &Value) -> Result<Vec<Source>, ImportError> {
    let (class, scope, activation) = match case.cls.as_str() {
        "CudnnLSTM" => ("CudnnCompatibleLSTMCell", "cudnn_compatible_lstm_cell", None),
        "CudnnGRU" => ("CudnnCompatibleGRUCell", "cudnn_compatible_gru_cell", None),
        "CudnnRNNTanh" => ("BasicRNNCell", "basic_rnn_cell", Some("tanh")),
        _ => ("BasicRNNCell", "basic_rnn_cell", Some("relu")),
    };
    // What only training sees, and what says how the first layer reads its input: by its weights.
    for argument in ["dropout", "seed", "dtype", "kernel_initializer", "bias_initializer", "name"] {
        case.ignore(argument);
    }
    match case.text("input_mode")?.as_deref() {
        None | Some("linear_input" | "auto_select") => {}
        Some(other) => return Err(ImportError::Unsupported(format!("input_mode {other:?}"))),
    }
    let both = match case.text("direction")?.as_deref() {
        None | Some("unidirectional") => false,
        Some("bidirectional") => true,
        Some(other) => return Err(ImportError::Unsupported(format!("direction {other:?}"))),
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
    let mut sources = vec![x.source.clone()];
    for k in 0..count {
        let mut outputs = Vec::new();
        let directions: &[_] = match both {
            true => &[(Some("fw"), Direction::Forward), (Some("bw"), Direction::Backward)],
            false => &[(None, Direction::Forward)],
        };
        for &(side, direction) in directions {
            let cell = format!("cell_{k}");
            let path = match side {
                Some(side) => format!("stack_bidirectional_rnn/{cell}/bidirectional_rnn/{side}/{scope}"),
                None => format!("rnn/multi_rnn_cell/{cell}/{scope}"),
            };
            let segments: Vec<&str> = [cell.as_str()].into_iter().chain(side).chain([scope]).collect();
            let layer =
                case.scoped(class.to_owned(), args.clone(), &segments, golden::cell).map_err(|error| match error {
                    ImportError::MissingTensor { tensor } => {
                        ImportError::MissingTensor { tensor: format!("{path}/{tensor}") }
                    }
                    other => other,
                })?;
            let given: usize = sources.iter().map(Source::size).sum();
            if given != layer.input_size {
                let needed = layer.input_size;
                return Err(ImportError::Unsupported(format!(
                    "an input of {given} features where {path} takes {needed}"
                )));
            }
            outputs.push(network.directed(layer, &sources.iter().collect::<Vec<_>>(), direction));
        }
        sources = outputs;
    }
    if count == 0 {
        return Err(ImportError::Unsupported("a network without layers".into()));
    }
    Ok(sources)
}
