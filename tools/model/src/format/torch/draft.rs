//! A draft description from a state dict. The names and shapes of tensors show the modules that have weights. Everything
//! else is [`OPEN`] in the draft, so that a draft is never imported by guess: the modules without weights between them,
//! arguments, which outputs are used, and the order if neither the sizes nor the file show it.

use serde_json::json;

use super::recognized::{Module, Role};
use crate::format::description::{Description, Input, LayerDescription, OPEN, Size, Take};

/// Maximum number of modules in a draft; it is printed on one line.
const MAX_MODULES: usize = 32;
/// Maximum number of trials in the search for an order.
const MAX_TRIALS: usize = 10_000;

/// The draft. `sorted` says that the file lists its tensors in the order of the alphabet, not in that of their definition.
pub(super) fn draft(in_file: &[Module], sorted: bool) -> String {
    let (modules, known) = match orders(in_file).as_slice() {
        [only] => (only.clone(), true),
        [first, ..] => (first.clone(), !sorted),
        [] => (in_file.iter().collect(), !sorted),
    };
    let first = modules.first();
    let size = match first.map(|module| module.role) {
        // Its width is not known, and 0 is refused.
        Some(Role::Conv { axes: 2, .. }) => Size::Shape(vec![0, first.map_or(1, |module| module.input)]),
        _ => Size::One(first.map_or(1, |module| module.input).max(1)),
    };
    let input = Input { name: "input".into(), size, ..Input::default() };
    let last_over_time = modules.iter().rposition(|module| matches!(module.role, Role::Recurrent { .. }));
    let mut layers = Vec::new();
    let (mut before, mut axes): (Option<&Module>, usize) = (None, 1);
    for (k, module) in modules.iter().enumerate().take(MAX_MODULES) {
        let mut layer = module.layer.clone();
        match (module.role, before) {
            (Role::Conv { axes: over, transposed: false }, Some(before)) => {
                axes = over;
                if before.output != module.input && before.output.is_multiple_of(module.input) {
                    layer.args.insert("groups".into(), json!(OPEN));
                }
            }
            (Role::Conv { axes: over, .. }, _) => axes = over,
            (Role::Norm, _) if axes == 2 && layer.class == "BatchNorm1d" => "BatchNorm2d".clone_into(&mut layer.class),
            (Role::Recurrent { .. }, _) => axes = 1,
            _ => {}
        }
        let fits = before.is_none_or(|before| before.output == module.input || layer.args.contains_key("groups"));
        if !(known && fits) {
            layer.inputs = vec![OPEN.to_owned()];
        }
        if last_over_time == Some(k) && k + 1 < modules.len() {
            layer.take = Take::Open;
        }
        let then = (module.role != Role::Embedding).then(|| LayerDescription {
            name: format!("after {}", layer.name),
            class: OPEN.to_owned(),
            ..LayerDescription::default()
        });
        layers.push(layer);
        layers.extend(then);
        before = Some(*module);
    }
    Description { inputs: vec![input], layers, ..Description::default() }.draft()
}

/// Orders in which every module reads as many features as the one before it outputs: at most two, the first of which is
/// as near as possible to that of the file. Empty if none is found within a number of trials.
fn orders(in_file: &[Module]) -> Vec<Vec<&Module>> {
    let mut search =
        Search { chain: Vec::new(), rest: in_file.iter().collect(), found: Vec::new(), trials: MAX_TRIALS };
    if in_file.len() <= MAX_MODULES {
        search.extend();
    }
    search.found
}

struct Search<'m> {
    chain: Vec<&'m Module>,
    rest: Vec<&'m Module>,
    found: Vec<Vec<&'m Module>>,
    trials: usize,
}

impl Search<'_> {
    fn extend(&mut self) {
        if self.rest.is_empty() {
            self.found.push(self.chain.clone());
            return;
        }
        for at in 0..self.rest.len() {
            let next = self.rest[at];
            let fits = |last: &&Module| last.output == next.input && next.role != Role::Embedding;
            if !self.chain.last().is_none_or(fits) {
                continue;
            }
            if self.trials == 0 || self.found.len() > 1 {
                return;
            }
            self.trials -= 1;
            self.chain.push(self.rest.remove(at));
            self.extend();
            self.rest.extend(self.chain.pop());
            self.rest[at..].rotate_right(1);
        }
    }
}
