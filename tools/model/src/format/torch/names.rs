//! Derives an architecture from the names and shapes of a state dict. They fully determine a recurrent network, an
//! embedding before it and one linear layer after it, but not the modules without weights. If anything is ambiguous,
//! the error contains a draft of a description.

use super::recognized::{Module, Role, modules};
use super::{draft::draft, state::State};
use crate::format::description::{Description, Input, LayerDescription, OPEN, Size};
use crate::{data::one_line, error::ImportError, error::Result};

/// The architecture, and a note that describes it.
pub(super) fn found(state: &State) -> Result<(Description, String)> {
    let in_file = modules(state);
    let mut modules: Vec<&Module> = in_file.iter().collect();
    // Embeddings, then layers that run over time, then linear layers, each group in the order of the file.
    modules.sort_by_key(|module| match module.role {
        Role::Embedding => 0,
        Role::Linear => 2,
        _ => 1,
    });
    if let Some(reason) = modules.iter().find_map(|module| module.doubt.clone()).or_else(|| doubt(&modules)) {
        let complete = format!("every {OPEN:?} is to be filled in, and a layer {OPEN:?} removed if nothing is there");
        let reason = one_line(&format!("{reason} ({complete})"));
        return Err(ImportError::NeedsArchitecture { reason, draft: draft(&in_file, state.order.is_sorted()) });
    }
    let first = modules.first().map_or(1, |module| module.input);
    let input = Input { name: "input".into(), size: Size::One(first.max(1)), ..Input::default() };
    let classes: Vec<String> = modules.iter().map(|module| call(&module.layer)).collect();
    let layers: Vec<LayerDescription> = modules.iter().map(|module| module.layer.clone()).collect();
    let description = Description { inputs: vec![input], layers, ..Description::default() };
    Ok((description, format!("found from the names: {}, no activation after it", classes.join(" -> "))))
}

/// `lstm: LSTM(num_layers=2)`
fn call(layer: &LayerDescription) -> String {
    let args: Vec<String> = layer.args.iter().map(|(name, value)| format!("{name}={value}")).collect();
    format!("{} {}({})", layer.name, layer.class, args.join(", "))
}

/// Reason why modules that are unambiguous on their own do not determine an architecture together.
fn doubt(modules: &[&Module]) -> Option<String> {
    let roles: Vec<Role> = modules.iter().map(|module| module.role).collect();
    let rest = match roles.as_slice() {
        [Role::Embedding, rest @ ..] => rest,
        rest => rest,
    };
    match rest {
        [] => return Some("its names show no layer that runs over time".into()),
        [Role::Recurrent { .. } | Role::Linear] | [Role::Recurrent { bidirectional: false }, Role::Linear] => {}
        [Role::Recurrent { bidirectional: true }, Role::Linear] => {
            return Some("its names do not determine what the linear layer reads of both directions".into());
        }
        _ => return Some("its names do not determine how its layers follow each other".into()),
    }
    // Files list modules in the order of their definition or of the alphabet, not in that of their calls.
    if let [embedding @ .., recurrent, linear] = modules
        && (linear.input, linear.output) == (recurrent.output, recurrent.input)
        && embedding.iter().all(|embedding| embedding.output == linear.input)
        && rest.len() == 2
    {
        let (linear, recurrent) = (&linear.layer.name, &recurrent.layer.name);
        return Some(format!("its names and sizes fit {linear:?} before {recurrent:?} as well as after it"));
    }
    let pairs = modules.iter().zip(modules.iter().skip(1));
    let apart = pairs.filter(|(from, to)| from.output != to.input).map(|(from, to)| {
        let (from, to, sizes) = (&from.layer.name, &to.layer.name, (from.output, to.input));
        format!("{from:?} outputs {} features and {to:?} reads {}", sizes.0, sizes.1)
    });
    apart.into_iter().next()
}
