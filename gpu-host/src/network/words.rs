//! Layers of a description as layers that are trained: classes and arguments of PyTorch.

use tidegate_tools::canonical::MAX_NODES;
use tidegate_tools::format::description::{LayerDescription, Take};

use super::{Function, Kind};
use crate::cpu::Stack;
use crate::rnn::{Bias, Cell, Direction, Rnn, RnnError, Settings};

/// Most weights of a layer: with gradient and moments they take 1 GiB.
const MAX_PARAMS: usize = 1 << 26;

/// Why a layer is not trained.
pub(super) enum Wrong {
    Words(String),
    Rnn(RnnError),
}

/// A layer of a description, how many parameters it has, and of how many features its output is.
pub(super) fn kind(layer: &LayerDescription, input: usize, vector: bool) -> Result<(Kind, usize, usize), Wrong> {
    let words = |reason: String| Err(Wrong::Words(reason));
    let cell = match (layer.class.as_str(), layer.args.get("nonlinearity").and_then(|value| value.as_str())) {
        ("LSTM", _) => Some(Cell::Lstm),
        ("GRU", _) => Some(Cell::Gru),
        ("RNN", None | Some("tanh")) => Some(Cell::RnnTanh),
        ("RNN", Some("relu")) => Some(Cell::RnnRelu),
        _ => None,
    };
    let known: &[&str] = match layer.class.as_str() {
        "LSTM" | "GRU" | "RNN" => &[
            "input_size",
            "hidden_size",
            "num_layers",
            "bias",
            "bidirectional",
            "dropout",
            "batch_first",
            "proj_size",
            "nonlinearity",
            "cell_clip",
        ],
        "Linear" => &["in_features", "out_features", "bias"],
        "Dropout" => &["p", "inplace"],
        "ReLU" | "Tanh" | "Sigmoid" => &["inplace"],
        class => return words(format!("class {class} is not trained here")),
    };
    if let Some(unknown) = layer.args.keys().find(|name| !known.contains(&name.as_str())) {
        return words(format!("argument {unknown} is not known"));
    }
    let number = |name: &str| match layer.args.get(name) {
        None => Ok(None),
        Some(value) => match value.as_u64().and_then(|value| usize::try_from(value).ok()) {
            Some(value) => Ok(Some(value)),
            None => Err(Wrong::Words(format!("argument {name} must be a whole number"))),
        },
    };
    let flag = |name: &str, default| match layer.args.get(name) {
        None => Ok(default),
        Some(value) => value.as_bool().ok_or_else(|| Wrong::Words(format!("argument {name} must be true or false"))),
    };
    let share = |name: &str, default: f32| match layer.args.get(name) {
        None => Ok(default),
        Some(value) => match value.as_f64() {
            Some(value) if (0.0..1.0).contains(&value) => Ok(value as f32),
            _ => Err(Wrong::Words(format!("argument {name} must be from 0 to less than 1"))),
        },
    };
    let needed = |name: &str| number(name)?.ok_or_else(|| Wrong::Words(format!("argument {name} is needed")));
    let same = |name: &str| match number(name)? {
        Some(found) if found != input => Err(Wrong::Words(format!("{name} is {found}, but it reads {input} features"))),
        _ => Ok(()),
    };
    if layer.take != Take::Sequence && cell.is_none() {
        return words("only a recurrent layer takes its last output".into());
    }
    match layer.class.as_str() {
        "Linear" => {
            same("in_features")?;
            let (output, bias) = (needed("out_features")?, flag("bias", true)?);
            let Some(params) = input.checked_mul(output).filter(|&size| output > 0 && size <= MAX_PARAMS) else {
                return words(format!("{input} x {output} weights are none, or too many"));
            };
            Ok((Kind::Linear { input, output, bias }, params + if bias { output } else { 0 }, output))
        }
        "Dropout" => Ok((Kind::Dropout(share("p", 0.5)?), 0, input)),
        "ReLU" => Ok((Kind::Activation(Function::Relu), 0, input)),
        "Tanh" => Ok((Kind::Activation(Function::Tanh), 0, input)),
        "Sigmoid" => Ok((Kind::Activation(Function::Sigmoid), 0, input)),
        _ => {
            let Some(cell) = cell else { return words("argument nonlinearity must be tanh or relu".into()) };
            if vector {
                return words("it would read one row: only the last recurrent layer takes its last output".into());
            }
            same("input_size")?;
            let layers = number("num_layers")?.unwrap_or(1);
            if layers > MAX_NODES {
                return words(format!("num_layers is {layers}, but a model has at most {MAX_NODES} layers"));
            }
            let projected_size = number("proj_size")?.filter(|&size| size > 0);
            let direction = match flag("bidirectional", false)? {
                true => Direction::Bidirectional,
                false => Direction::Unidirectional,
            };
            let bias = if flag("bias", true)? { Bias::Both } else { Bias::None };
            // PyTorch has none.
            let clip = layer.args.get("cell_clip");
            let cell_clip = clip.map(|value| value.as_f64().map_or(f32::NAN, |value| value as f32));
            let settings = Settings {
                layers,
                projected_size,
                direction,
                bias,
                cell_clip,
                ..Settings::new(cell, input, needed("hidden_size")?)
            };
            let rnn = Rnn::new(settings).map_err(Wrong::Rnn)?;
            let blocks = cell.blocks() * settings.hidden_size;
            let each = (0..rnn.pseudo_layers()).map(|k| blocks.saturating_mul(rnn.input_size(k) + rnn.output_size()));
            if each.fold(0, usize::saturating_add) > MAX_PARAMS {
                return words(format!("it has more than {MAX_PARAMS} weights"));
            }
            let stack = Stack::new(&rnn);
            let (params, output) = (stack.params_size(), direction.count() * rnn.output_size());
            Ok((Kind::Stack { stack, take: layer.take, dropout: share("dropout", 0.0)? }, params, output))
        }
    }
}
