//! Variables of Keras 2's `CuDNNLSTM` and `CuDNNGRU`, each of which is a single layer in one direction:
//!
//! | variable | shape | content |
//! |---|---|---|
//! | `kernel` | `[input, gates * hidden]` | the block of columns of each gate holds the elements of cuDNN's matrix in their order in memory |
//! | `recurrent_kernel` | `[hidden, gates * hidden]` | the same |
//! | `bias` | `[2 * gates * hidden]` | the bias of the input side, then that of the recurrent side |
//!
//! Gates are in Keras's order: i, f, c, o, which equals cuDNN's, and z, r, h, which does not.

use std::collections::BTreeMap;

use tidegate::internals::gate::{GRU, GRU_KERAS, permutation};
use tidegate_model::canonical::Tensor;
use tidegate_model::error::{ImportError, Shape};

use crate::rnn::{Bias, Cell, Direction, Rnn};
use crate::saveable::SaveError;
use crate::weights::{LayerWeights, check};

/// Position in the canonical order of each of Keras's gates, and vice versa: the permutation of a GRU is its own
/// inverse.
fn order(rnn: &Rnn) -> Result<Vec<usize>, SaveError> {
    const { assert!(matches!(permutation(GRU, GRU_KERAS), [1, 0, 2])) };
    const { assert!(matches!(permutation(GRU_KERAS, GRU), [1, 0, 2])) };
    let settings = rnn.settings();
    let lacks = if settings.layers != 1 || settings.direction != Direction::Unidirectional {
        "more than one layer or direction"
    } else if settings.projected_size.is_some() {
        "a projection"
    } else if settings.cell_clip.is_some() {
        "a cell clip"
    } else if settings.bias != Bias::Both || !rnn.has_input_weights(0) {
        "other than two biases, or no input weights"
    } else {
        match settings.cell {
            Cell::Lstm => return Ok(vec![0, 1, 2, 3]),
            Cell::Gru => return Ok(permutation(GRU, GRU_KERAS).to_vec()),
            Cell::RnnTanh | Cell::RnnRelu => "a cell without gates",
        }
    };
    Err(SaveError::Foreign { node: settings.cell.kind().spec().name.to_owned(), what: lacks.to_owned() })
}

/// Converts the weights of a layer to variables.
///
/// # Errors
/// If the weights do not fit the layer, or Keras has no such layer.
pub fn to_variables(rnn: &Rnn, layers: &[LayerWeights]) -> Result<BTreeMap<String, Tensor>, SaveError> {
    let order = order(rnn)?;
    check(rnn, layers)?;
    let hidden = rnn.settings().hidden_size;
    let layer = &layers[0];
    let matrix = |name: &str| {
        let Tensor { shape, data } = &layer[name];
        let size = shape[1];
        let mut variable = Tensor { shape: vec![size, shape[0]], data: vec![0.0; data.len()] };
        for (block, &gate) in order.iter().enumerate() {
            let matrix = data[gate * hidden * size..(gate + 1) * hidden * size].chunks(hidden);
            for (row, values) in variable.data.chunks_mut(shape[0]).zip(matrix) {
                row[block * hidden..(block + 1) * hidden].copy_from_slice(values);
            }
        }
        variable
    };
    let bias = |name: &str| {
        let data = &layer[name].data;
        order.iter().flat_map(|gate| &data[gate * hidden..(gate + 1) * hidden]).copied().collect::<Vec<f32>>()
    };
    let both = [bias("input_bias"), bias("recurrent_bias")].concat();
    Ok(BTreeMap::from([
        ("kernel".to_owned(), matrix("input_weights")),
        ("recurrent_kernel".to_owned(), matrix("recurrent_weights")),
        ("bias".to_owned(), Tensor { shape: vec![both.len()], data: both }),
    ]))
}

/// Converts variables to the weights of a layer.
///
/// # Errors
/// If a variable is missing or has another shape, or Keras has no such layer.
pub fn from_variables(rnn: &Rnn, variables: &BTreeMap<String, Tensor>) -> Result<Vec<LayerWeights>, SaveError> {
    let order = order(rnn)?;
    let hidden = rnn.settings().hidden_size;
    let cols = order.len() * hidden;
    let variable = |name: &str, shape: &[usize]| {
        let missing = || ImportError::MissingTensor { tensor: name.to_owned() };
        let tensor = variables.get(name).ok_or_else(missing)?;
        if tensor.shape != shape || tensor.data.len() != shape.iter().product::<usize>() {
            let (found, needed) = (Shape(tensor.shape.clone()), format!("it must be {}", Shape(shape.to_vec())));
            return Err(ImportError::Shape { tensor: name.to_owned(), found, needed });
        }
        Ok(tensor)
    };
    let matrix = |name: &str, size: usize| {
        let tensor = variable(name, &[size, cols])?;
        let block = |&gate: &usize| {
            tensor.data.chunks(cols).flat_map(move |row| &row[gate * hidden..(gate + 1) * hidden]).copied()
        };
        Ok::<_, ImportError>(Tensor { shape: vec![cols, size], data: order.iter().flat_map(block).collect() })
    };
    let both = variable("bias", &[2 * cols])?;
    let bias = |data: &[f32]| {
        let data = order.iter().flat_map(|gate| &data[gate * hidden..(gate + 1) * hidden]).copied().collect();
        Tensor { shape: vec![cols], data }
    };
    let (input, recurrent) = both.data.split_at(cols);
    Ok(vec![LayerWeights::from([
        ("input_weights", matrix("kernel", rnn.settings().input_size)?),
        ("recurrent_weights", matrix("recurrent_kernel", hidden)?),
        ("input_bias", bias(input)),
        ("recurrent_bias", bias(recurrent)),
    ])])
}
