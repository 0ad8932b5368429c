//! Continuous-time networks: `CfC` and `LTC` of `ncps.torch`, and `Cfc` of raminmh/CfC, from which those come. Linear
//! layers are [out, in], the synapses of an LTC [source, target].
//!
//! The input `timespans`, where a case has it, is the last feature that a cell reads; else the time is 1. A wiring with
//! layers is a chain of cells. A mixed memory in front of such a chain would read the states of all of its cells, which
//! no cell does: it is refused.

mod cfc;
mod ltc;

use tidegate::activation::Activation;
use tidegate::gate::{LSTM, LSTM_NCPS};

use super::activation::LECUN_TANH;
use super::golden::Case;
use super::layer::{At, Layer};
use super::network::{Network, Source};
use super::torch;
use super::weights::{add_forget_bias, reordered};
use crate::error::ImportError;
use cfc::{Cfc, Mode};

/// What the LSTM of a mixed memory adds to its forget gate.
const FORGET_BIAS: f32 = 1.0;

/// What tensors, the class's own arguments, or only training know of the original's hyperparameters.
const TOLD: [&str; 18] = [
    "backbone_dr",
    "backbone_layers",
    "backbone_units",
    "base_lr",
    "batch_size",
    "class_weight",
    "clipnorm",
    "decay_lr",
    "epochs",
    "forget_bias",
    "hidden_size",
    "init",
    "optim",
    "size",
    "tau",
    "use_ltc",
    "use_mixed",
    "weight_decay",
];

/// The network of an `ncps` case.
pub(crate) fn convert(case: &mut Case<'_>) -> Result<Network, ImportError> {
    case.ignore("batch_first");
    let last_only = !case.flag("return_sequences", true)?;
    let wired = case.given("wiring");
    let mixed = case.flag("mixed_memory", false)?;
    let mut network = match case.cls.as_str() {
        "CfC" => {
            let mode = Mode::read(case.text("mode")?.as_deref())?;
            let activation = case.activation("activation", LECUN_TANH)?;
            // Tensors tell the sizes of the backbone, and where dropout layers stand between them.
            for argument in ["backbone_units", "backbone_layers", "backbone_dropout", "proj_size"] {
                case.ignore(argument);
            }
            cfc::convert(case, &Cfc { wired, mixed, mode, activation, units: "units", input_size: "input_size" })?
        }
        "LTC" => ltc::convert(case, wired, mixed)?,
        _ => return case.unknown_class(),
    };
    network.last_only = last_only;
    Ok(network)
}

/// The network of a `cfc` case.
pub(crate) fn convert_original(case: &mut Case<'_>) -> Result<Network, ImportError> {
    if case.cls != "Cfc" {
        return case.unknown_class();
    }
    // A case that does not say has every output, whatever the class's default.
    let last_only = !case.flag("return_sequences", true)?;
    case.size("out_feature")?;
    case.spread("hparams")?;
    for argument in TOLD {
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
    let mut network = match case.flag("use_ltc", false)? {
        true => ltc::convert_original(case, mixed)?,
        false => {
            let (units, input_size) = ("hidden_size", "in_features");
            cfc::convert(case, &Cfc { wired: false, mixed, mode, activation, units, input_size })?
        }
    };
    network.last_only = last_only;
    Ok(network)
}

/// `fc`, where there is one.
fn readout(case: &mut Case<'_>, network: &mut Network, y: Source) -> Result<Source, ImportError> {
    Ok(match torch::linear(case, "fc")? {
        Some(layer) => network.add(layer, &[&y]),
        None => y,
    })
}

/// The layer with the LSTM in front of it.
fn mixed_memory(case: &mut Case<'_>, layer: Layer, features: usize) -> Result<Layer, ImportError> {
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
