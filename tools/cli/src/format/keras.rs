//! Keras's `LSTM` (order i, f, c, o: the canonical one), `GRU` (order z, r, h) and `SimpleRNN`, alike in Keras 2 and 3.

use tidegate::activation::Activation;
use tidegate::cell::CellKind;
use tidegate::gate;

use super::golden::Case;
use super::layer::{At, Layer};
use super::network::Network;
use super::weights::{Named, reordered};
use crate::canonical::Tensor;
use crate::error::ImportError;

/// The network of a `keras2` or `keras3` case.
pub(crate) fn convert(case: &mut Case<'_>) -> Result<Network, ImportError> {
    for argument in ["go_backwards", "stateful", "time_major", "unroll", "zero_output_for_mask"] {
        case.must_be(argument, false)?;
    }
    // What only training sees: the forget bias is an initial value, baked into the bias.
    for argument in ["unit_forget_bias", "dropout", "recurrent_dropout", "implementation"] {
        case.ignore(argument);
    }
    let kind = match case.cls.as_str() {
        "LSTM" => CellKind::Lstm,
        "GRU" => CellKind::Gru,
        "SimpleRNN" => CellKind::Elman,
        _ => return case.unknown_class(),
    };
    Ok(Network::of(layer(case, kind)?))
}

fn layer(case: &mut Case<'_>, kind: CellKind) -> Result<Layer, ImportError> {
    let gates = kind.spec().gates.len().max(1);
    let kernel = Named { name: "kernel", tensor: case.tensor("kernel")? };
    let recurrent = Named { name: "recurrent_kernel", tensor: case.tensor("recurrent_kernel")? };
    let units = kernel.units(gates)?;
    case.units("units", units)?;
    let (input, rows) = kernel.matrix()?;
    recurrent.shaped(&[units, rows], units)?;
    let ordered = |tensor: Tensor| match kind {
        CellKind::Gru => reordered(&tensor, gate::GRU_KERAS, gate::GRU),
        _ => tensor,
    };
    let mut layer = Layer::new(kind, input, units)
        .tensor("input_weights", ordered(kernel.transposed(0, input)?))
        .tensor("recurrent_weights", ordered(recurrent.transposed(0, units)?));
    let reset_after = kind == CellKind::Gru && case.flag("reset_after", true)?;
    if reset_after {
        layer.options.push("reset_after");
    }
    if case.flag("use_bias", true)? {
        let bias = Named { name: "bias", tensor: case.tensor("bias")? };
        if reset_after {
            let both = bias.shaped(&[2, rows], units)?;
            let (input, recurrent) = both.data.split_at(rows);
            let vector = |data: &[f32]| Tensor { shape: vec![rows], data: data.to_vec() };
            layer =
                layer.tensor("input_bias", ordered(vector(input))).tensor("recurrent_bias", ordered(vector(recurrent)));
        } else {
            layer = layer.tensor("input_bias", ordered(bias.shaped(&[rows], units)?));
        }
    }
    let activation = case.activation("activation", Activation::Tanh)?;
    layer = layer.state("hidden", At::new("h"));
    Ok(match kind {
        CellKind::Lstm => {
            let gate = case.activation("recurrent_activation", Activation::Sigmoid)?;
            layer
                .state("cell_state", At::new("c"))
                .activation("gate_activation", gate)
                .activation("cell_activation", activation)
                .activation("output_activation", activation)
        }
        CellKind::Gru => {
            let gate = case.activation("recurrent_activation", Activation::Sigmoid)?;
            layer.activation("gate_activation", gate).activation("new_activation", activation)
        }
        _ => layer.activation("activation", activation),
    })
}
