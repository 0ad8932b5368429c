//! The families of classes that importers know: frameworks, and the packages built on them.

use super::case::{Case, Definition};
use super::network::{Conversion, Network};
use super::{baselines, edgeml, keras, mingru, ncps, sru, tf1, tf2ops, torch, xlstm};
use crate::error::{ImportError, Result};

/// Converts a definition to a model, and maps the tensors of a golden case to its ports and states. Ports have the
/// names of the tensors (`input`, `output`); nodes are named `lstm`, `gru`, `gru_2`, ...
///
/// # Errors
/// [`ImportError::Unsupported`] for a class, argument, input or tensor that is not supported; other errors for tensors
/// that do not fit the class.
pub fn convert_definition(definition: Definition<'_>) -> Result<Conversion> {
    let family = definition.family.clone();
    let mut case = Case::new(definition);
    let network = convert(&family, &mut case)?;
    case.conversion(&family, network)
}

/// Converts a case of this family to a network.
///
/// # Errors
/// The errors of [`convert_definition`].
pub(crate) fn convert(family: &str, case: &mut Case<'_>) -> Result<Network> {
    match family {
        "baselines" => baselines::convert(case),
        "edgeml" => edgeml::convert(case),
        "mingru" => mingru::convert(case),
        "ncps" => ncps::convert(case),
        "cfc" => ncps::convert_original(case),
        "sru" => sru::convert(case),
        "tf1" => tf1::convert(case),
        "tf2ops" => tf2ops::convert(case),
        "torch" => torch::convert(case),
        "xlstm" => xlstm::convert(case),
        "keras2" | "keras3" => keras::convert(case),
        _ => Err(ImportError::Unsupported(format!("family {family:?}"))),
    }
}
