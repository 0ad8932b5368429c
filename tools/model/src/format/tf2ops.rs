//! TensorFlow's fused recurrent ops, called with raw tensors. They compute TensorFlow 1's cells under other names.

use tidegate::internals::gate::{Gate, LSTM, LSTM_TF1};

use super::{
    case::Case, layer::At, layer::Layer, network::Control, network::Network, tf1::cells, tf1::cells::LstmOptions,
    tf1::classes::gru_op,
};
use crate::error::Result;

pub(crate) fn convert(case: &mut Case<'_>) -> Result<Network> {
    case.control("seq_len_max", Control::Length);
    match case.cls.as_str() {
        "GRUBlockCell" => Ok(Network::of(gru_op(case)?.state("hidden", At::new("h")))),
        "LSTMBlockCell" => Ok(Network::of(lstm(case, LSTM_TF1, 1.0, 3.0)?)),
        "BlockLSTM" => sequence(case, LSTM_TF1, 1.0, 3.0),
        // Gate order i, f, ci, o.
        "BlockLSTMV2" => sequence(case, LSTM, 0.0, 0.0),
        _ => case.unknown_class(),
    }
}

/// An op over a whole sequence; its outputs are the h and c of every step.
fn sequence(case: &mut Case<'_>, order: [Gate; 4], forget_bias: f32, clip: f32) -> Result<Network> {
    let layer = lstm(case, order, forget_bias, clip)?.trace("cell_state", "cs");
    let mut network = Network::new();
    let input = network.input("input", layer.input_size);
    let output = network.add(layer, &[&input]);
    network.output("output_h", &output);
    Ok(network)
}

/// `forget_bias` and `clip` are the op's defaults for absent attributes. A clip that is not positive means no clip.
fn lstm(case: &mut Case<'_>, order: [Gate; 4], forget_bias: f32, clip: f32) -> Result<Layer> {
    let peepholes = match case.flag("use_peephole", false)? {
        true => Some([case.tensor("wci")?, case.tensor("wcf")?, case.tensor("wco")?]),
        false => {
            ["wci", "wcf", "wco"].into_iter().try_for_each(|name| case.tensor(name).map(drop))?;
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
