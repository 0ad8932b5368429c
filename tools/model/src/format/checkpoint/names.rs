//! Derives an architecture from the variable names of a checkpoint. The names that `CudnnLSTM` and `CudnnGRU` save
//! determine the whole network (layers, directions, kind), because their cells have no further arguments. Variables of
//! an optimizer are recognized by name, too. Other names give the class of a cell but not its arguments (forget bias,
//! activation, clipping); the error then contains a draft of a description.
//!
//! ```text
//! <scope>/rnn/multi_rnn_cell/cell_<k>/cudnn_compatible_lstm_cell/{kernel,bias}
//! <scope>/stack_bidirectional_rnn/cell_<k>/bidirectional_rnn/{fw,bw}/cudnn_compatible_lstm_cell/{kernel,bias}
//! <...>/cudnn_compatible_gru_cell/{gates,candidate/input_projection,candidate/hidden_projection}/{kernel,bias}
//! ```
//! (tensorflow/contrib/cudnn_rnn/python/ops/cudnn_rnn_ops.py, `_tf_canonical_name_prefix`)

use std::collections::{BTreeMap, BTreeSet};

use super::draft::{self, GRU, LSTM, Module};
use crate::format::description::{Description, Input, LayerDescription, Size};
use crate::{canonical::Tensor, error::ImportError, error::Result};

/// Names of the slots of TensorFlow 1's optimizers; the second slot of a kind ends in `_1`.
const SLOTS: &str = "Adam AdamAsync AdaMax Adadelta Adagrad AdagradDA Ftrl LARSOptimizer Momentum RMSProp adam_m adam_v \
    AdamWeightDecayOptimizer";
/// Scalar variables of optimizers; a number is appended if there are several.
const SCALARS: &str = "beta1_power beta2_power";

#[derive(Debug)]
pub(super) struct Found {
    pub description: Description,
    pub note: String,
}

/// Whether only optimizers have variables of this name.
pub(super) fn is_slot(name: &str) -> bool {
    let last = name.rsplit('/').next().unwrap_or(name);
    let numbered = last.rsplit_once('_').filter(|(_, n)| !n.is_empty() && n.bytes().all(|byte| byte.is_ascii_digit()));
    let stem = numbered.map_or(last, |(stem, _)| stem);
    let is = |known: &str| known.split(' ').any(|known| known == last || known == stem);
    is(SCALARS) || (last.len() < name.len() && is(SLOTS))
}

/// A network of one `CudnnLSTM` or `CudnnGRU`.
struct Stack<'a> {
    scope: &'a str,
    bidirectional: bool,
    cell: &'static str,
    layers: usize,
}

impl Stack<'_> {
    /// Description of the layer; the scope is the prefix of its variables.
    fn description(&self) -> LayerDescription {
        let direction = if self.bidirectional { "bidirectional" } else { "unidirectional" };
        let (name, class) = if self.cell == LSTM { ("lstm", "CudnnLSTM") } else { ("gru", "CudnnGRU") };
        let args = [("num_layers", self.layers.into()), ("direction", direction.into())];
        let args = args.map(|(name, value)| (name.to_owned(), value)).into_iter().collect();
        let (name, class, prefix) = (name.to_owned(), class.to_owned(), Some(self.scope.to_owned()));
        LayerDescription { name, class, args, prefix, ..LayerDescription::default() }
    }

    /// Input and output features, from the kernel of the first cell.
    fn sizes(&self, tensors: &BTreeMap<String, Tensor>) -> Option<(usize, usize)> {
        let first = match self.bidirectional {
            true => "stack_bidirectional_rnn/cell_0/bidirectional_rnn/fw",
            false => "rnn/multi_rnn_cell/cell_0",
        };
        let separator = if self.scope.is_empty() { "" } else { "/" };
        let (kernel, gates) = if self.cell == LSTM { ("kernel", 4) } else { ("gates/kernel", 2) };
        let kernel = tensors.get(&format!("{}{separator}{first}/{}/{kernel}", self.scope, self.cell))?;
        let [rows, cols] = *kernel.shape else { return None };
        let units = cols / gates;
        Some((rows.checked_sub(units)?, if self.bidirectional { 2 * units } else { units }))
    }
}

/// The scope, whether it is bidirectional, the cell and the layer number of a variable of a `CudnnLSTM` or `CudnnGRU`.
fn parse(name: &str) -> Option<(&str, bool, &'static str, usize)> {
    let (scope, rest, bidirectional) = [("stack_bidirectional_rnn/", true), ("rnn/multi_rnn_cell/", false)]
        .into_iter()
        .find_map(|(part, both)| name.split_once(part).map(|(scope, rest)| (scope, rest, both)))
        .filter(|(scope, ..)| scope.is_empty() || scope.ends_with('/'))?;
    let (layer, rest) = rest.strip_prefix("cell_")?.split_once('/')?;
    let cell = match bidirectional {
        true => rest.strip_prefix("bidirectional_rnn/")?.strip_prefix(['f', 'b'])?.strip_prefix("w/")?,
        false => rest,
    };
    let cell =
        [LSTM, GRU].into_iter().find(|known| cell.strip_prefix(known).is_some_and(|rest| rest.starts_with('/')))?;
    Some((scope.trim_end_matches('/'), bidirectional, cell, layer.parse().ok()?))
}

/// The architecture that the variable names determine.
///
/// # Errors
/// If the names do not determine it; the error contains a draft of a description.
pub(super) fn found(tensors: &BTreeMap<String, Tensor>) -> Result<Found> {
    // Sorted by scope, direction and cell.
    let mut stacks: Vec<Stack<'_>> = Vec::new();
    let mut rest = BTreeSet::new();
    for name in tensors.keys() {
        match parse(name) {
            Some((scope, bidirectional, cell, layer)) => {
                let (key, layers) = ((scope, bidirectional, cell), layer.saturating_add(1));
                match stacks.binary_search_by_key(&key, |of| (of.scope, of.bidirectional, of.cell)) {
                    Ok(at) => stacks[at].layers = stacks[at].layers.max(layers),
                    Err(at) => stacks.insert(at, Stack { scope, bidirectional, cell, layers }),
                }
            }
            None => drop(rest.insert(name.as_str())),
        }
    }
    let modules = draft::modules(tensors, &rest);
    let sizes = stacks.first().and_then(|stack| stack.sizes(tensors));
    let reason = match (stacks.as_slice(), sizes, modules.as_slice()) {
        ([stack], Some((input, _)), []) if rest.is_empty() => return Ok(of_stack(stack, input, None)),
        ([stack], Some((input, output)), [head])
            if !stack.bidirectional && head.is_dense(output) && rest.len() == head.tensors =>
        {
            return Ok(of_stack(stack, input, Some(head)));
        }
        ([stack], ..) if stack.bidirectional && modules.len() == 1 => {
            "its names do not determine how the next layer combines both directions"
        }
        ([], ..) => "its names do not determine the arguments of its layers",
        _ => "its names do not determine the order of its layers",
    };
    let stacks = stacks.iter().map(Stack::description).collect();
    let draft = draft::description(stacks, modules, sizes.map(|(input, _)| input), tensors);
    Err(ImportError::NeedsArchitecture { reason: reason.to_owned(), draft })
}

fn of_stack(stack: &Stack<'_>, input: usize, head: Option<&Module>) -> Found {
    let mut layers = vec![stack.description()];
    let directions = if stack.bidirectional { "in both directions" } else { "forward" };
    let mut note = format!("found from the names: {} of {} layers {directions}", layers[0].class, stack.layers);
    if let Some(head) = head {
        note.push_str(&format!(" -> {} Dense, no activation behind", head.layer.name));
        layers.push(head.layer.clone());
    }
    let input = Input { name: "input".into(), size: Size::One(input), ..Input::default() };
    Found { description: Description { inputs: vec![input], layers, ..Description::default() }, note }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_of_optimizers_are_known_by_their_last_name() {
        for name in
            ["rnn/kernel/Adam", "rnn/kernel/Adam_1", "rnn/kernel/RMSProp_2", "beta1_power", "train/beta2_power_1"]
        {
            assert!(is_slot(name), "{name}");
        }
        for name in ["Adam", "rnn/kernel", "Adam/kernel", "rnn/Adam_x", "rnn/Adam_", "global_step", "beta_power"] {
            assert!(!is_slot(name), "{name}");
        }
    }

    #[test]
    fn the_names_of_cudnn_layers_are_read() {
        let fw = "a/stack_bidirectional_rnn/cell_1/bidirectional_rnn/fw/cudnn_compatible_gru_cell/gates/bias";
        assert_eq!(parse(fw), Some(("a", true, GRU, 1)));
        assert_eq!(parse("rnn/multi_rnn_cell/cell_0/cudnn_compatible_lstm_cell/kernel"), Some(("", false, LSTM, 0)));
        assert_eq!(
            parse("b/c/rnn/multi_rnn_cell/cell_12/cudnn_compatible_lstm_cell/x"),
            Some(("b/c", false, LSTM, 12))
        );
        for name in [
            "rnn/multi_rnn_cell/cell_0/lstm_cell/kernel",
            "arnn/multi_rnn_cell/cell_0/cudnn_compatible_lstm_cell/kernel",
            "rnn/multi_rnn_cell/cell_0/cudnn_compatible_lstm_cells/kernel",
            "rnn/multi_rnn_cell/cell_x/cudnn_compatible_lstm_cell/kernel",
            "stack_bidirectional_rnn/cell_0/bidirectional_rnn/xw/cudnn_compatible_lstm_cell/kernel",
        ] {
            assert_eq!(parse(name), None, "{name}");
        }
    }
}
