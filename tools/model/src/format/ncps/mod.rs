//! Continuous-time networks: `CfC` and `LTC` of `ncps.torch`, and the original `Cfc` of raminmh/CfC. Linear layers are
//! [out, in], the synapses of an LTC [source, target].
//!
//! If a case has the input `timespans`, it is the last feature of each cell; otherwise the elapsed time is 1. A wiring
//! with layers is a chain of cells. A mixed memory before such a chain would read the states of all cells, which no
//! canonical cell can do, so it is refused.

mod cfc;
mod ltc;

use tidegate::internals::{activation::Activation, gate::LSTM, gate::LSTM_NCPS};

use super::weights::{add_forget_bias, reordered};
use super::{activation::LECUN_TANH, case::Case, layer::At, layer::Layer, network::Network, network::Source, torch};
use crate::error::{ImportError, Result};
use cfc::{Cfc, Mode};

/// Constant that the LSTM of a mixed memory adds to its forget gate.
const FORGET_BIAS: f32 = 1.0;

/// Hyperparameters of the original that follow from the tensors or the class's own arguments, or only affect training.
const REDUNDANT: &str = "backbone_dr backbone_layers backbone_units base_lr batch_size class_weight clipnorm decay_lr epochs \
    forget_bias hidden_size init optim size tau use_ltc use_mixed weight_decay";

pub(crate) fn convert(case: &mut Case<'_>) -> Result<Network> {
    case.ignore("batch_first");
    let last_only = !case.flag("return_sequences", true)?;
    let wired = case.given("wiring");
    let mixed = case.flag("mixed_memory", false)?;
    let mut network = match case.cls.as_str() {
        "CfC" => {
            let mode = Mode::read(case.text("mode")?.as_deref())?;
            let activation = case.activation("activation", LECUN_TANH)?;
            // The tensors show the sizes of the backbone and the positions of its dropout layers.
            case.ignore_all(&["backbone_units", "backbone_layers", "backbone_dropout", "proj_size"]);
            cfc::convert(case, &Cfc { wired, mixed, mode, activation, units: "units", input_size: "input_size" })?
        }
        "LTC" => ltc::convert(case, wired, mixed)?,
        _ => return case.unknown_class(),
    };
    network.last_only = last_only;
    Ok(network)
}

/// Converts a `cfc` case to a network.
pub(crate) fn convert_original(case: &mut Case<'_>) -> Result<Network> {
    if case.cls != "Cfc" {
        return case.unknown_class();
    }
    // If a case does not set the argument, it has every output, regardless of the default of the class.
    let last_only = !case.flag("return_sequences", true)?;
    case.size("out_feature")?;
    case.spread("hparams")?;
    for argument in REDUNDANT.split(' ') {
        case.ignore(&format!("hparams.{argument}"));
    }
    let mode = match (case.flag("hparams.minimal", false)?, case.flag("hparams.no_gate", false)?) {
        (true, _) => Mode::Pure,
        (false, true) => Mode::NoGate,
        (false, false) => Mode::Default,
    };
    let mixed = case.flag("use_mixed", false)?;
    let activation = match case.text("hparams.backbone_activation")?.as_deref() {
        None | Some("lecun") => LECUN_TANH,
        Some("silu") => Activation::Silu,
        Some("relu") => Activation::Relu,
        Some("tanh") => Activation::Tanh,
        Some("gelu") => Activation::Gelu,
        Some(name) => return Err(ImportError::Unsupported(format!("argument backbone_activation = {name:?}"))),
    };
    let (units, input_size) = ("hidden_size", "in_features");
    let mut network = match case.flag("use_ltc", false)? {
        true => ltc::convert_original(case, mixed)?,
        false => cfc::convert(case, &Cfc { wired: false, mixed, mode, activation, units, input_size })?,
    };
    network.last_only = last_only;
    Ok(network)
}

fn readout(case: &mut Case<'_>, network: &mut Network, y: Source) -> Result<Source> {
    Ok(torch::linear(case, "fc")?.map(|layer| network.add(layer, &[&y])).unwrap_or(y))
}

/// The layer with a mixed memory: an LSTM before it.
fn mixed_memory(case: &mut Case<'_>, layer: Layer, features: usize) -> Result<Layer> {
    let units = layer.hidden_size;
    let mut tensor = |name: &str, shape: &[usize]| case.named(name)?.shaped(shape, units);
    let input = tensor("lstm.input_map.weight", &[4 * units, features])?;
    let recurrent = tensor("lstm.recurrent_map.weight", &[4 * units, units])?;
    let mut bias = reordered(&tensor("lstm.input_map.bias", &[4 * units])?, LSTM_NCPS, LSTM);
    add_forget_bias(&mut bias, FORGET_BIAS);
    Ok(layer
        .option("mixed_memory")
        .tensor("memory_input_weights", reordered(&input, LSTM_NCPS, LSTM))
        .tensor("memory_recurrent_weights", reordered(&recurrent, LSTM_NCPS, LSTM))
        .tensor("memory_bias", bias)
        .state("cell_state", At::new("c")))
}
