//! TensorFlow's fused recurrent ops, called with raw tensors: the cells of TensorFlow 1 under other names.

use tidegate::gate::{Gate, LSTM, LSTM_TF1};

use super::golden::{Case, Control};
use super::layer::{At, Layer};
use super::network::Network;
use super::tf1::cells::{self, LstmOptions};
use super::tf1::golden::gru_op;
use crate::error::ImportError;

/// The network of a `tf2ops` case.
pub(crate) fn convert(case: &mut Case<'_>) -> Result<Network, ImportError> {
    case.control("seq_len_max", Control::Length);
    match case.cls.as_str() {
        "GRUBlockCell" => Ok(Network::of(gru_op(case)?.state("hidden", At::new("h")))),
        "LSTMBlockCell" => Ok(Network::of(lstm(case, LSTM_TF1, 1.0, 3.0)?)),
        "BlockLSTM" => sequence(case, LSTM_TF1, 1.0, 3.0),
        // i, f, ci, o
        "BlockLSTMV2" => sequence(case, LSTM, 0.0, 0.0),
        _ => case.unknown_class(),
    }
}

/// An op over a whole sequence. Its outputs are every h and every c.
fn sequence(case: &mut Case<'_>, order: [Gate; 4], forget_bias: f32, clip: f32) -> Result<Network, ImportError> {
    let layer = lstm(case, order, forget_bias, clip)?.trace("cell_state", "cs");
    let mut network = Network::new();
    let input = network.input("input", layer.input_size);
    let output = network.add(layer, &[&input]);
    network.output("output_h", &output);
    Ok(network)
}

/// `forget_bias` and `clip` are the op's attributes where they are not given; a clip that is not positive is none.
fn lstm(case: &mut Case<'_>, order: [Gate; 4], forget_bias: f32, clip: f32) -> Result<Layer, ImportError> {
    let peepholes = match case.flag("use_peephole", false)? {
        true => Some([case.tensor("wci")?, case.tensor("wcf")?, case.tensor("wco")?]),
        false => {
            ["wci", "wcf", "wco"].into_iter().try_for_each(|name| case.unread(name))?;
            None
        }
    };
    let options = LstmOptions {
        forget_bias: case.number("forget_bias")?.unwrap_or(forget_bias),
        peepholes,
        cell_clip: Some(case.number("cell_clip")?.unwrap_or(clip)).filter(|&clip| clip > 0.0),
        order,
        ..LstmOptions::default()
    };
    let layer = cells::lstm(case.tensor("w")?, case.tensor("b")?, options)?;
    Ok(layer.state("hidden", At::new("h")).state("cell_state", At::new("c")))
}
