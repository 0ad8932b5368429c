//! Layers of a description, which are PyTorch's classes and arguments, as layers of a network.

use serde_json::Value;
use tidegate::internals::activation::{relu, sigmoid, tanh};
use tidegate_model::canonical::MAX_NODES;
use tidegate_model::format::description::{LayerDescription, Take};

use super::{Function, Kind};
use crate::cpu::Stack;
use crate::rnn::{Bias, Cell, Direction, Rnn, RnnError, Settings};

/// Largest number of weights of a layer: with gradient and moments they take 1 GiB.
const MAX_PARAMS: usize = 1 << 26;

pub(super) enum Wrong {
    Words(String),
    Rnn(RnnError),
}

/// Returns the layer of a description, the number of its parameters and its output size.
pub(super) fn kind(layer: &LayerDescription, input: usize, vector: bool) -> Result<(Kind, usize, usize), Wrong> {
    let words = |reason: String| Err(Wrong::Words(reason));
    let cell = match (layer.class.as_str(), layer.args.get("nonlinearity").and_then(|value| value.as_str())) {
        ("LSTM", _) => Some(Cell::Lstm),
        ("GRU", _) => Some(Cell::Gru),
        ("RNN", None | Some("tanh")) => Some(Cell::RnnTanh),
        ("RNN", Some("relu")) => Some(Cell::RnnRelu),
        _ => None,
    };
    let known = match layer.class.as_str() {
        "LSTM" | "GRU" | "RNN" => {
            "input_size hidden_size num_layers bias bidirectional dropout batch_first proj_size nonlinearity cell_clip"
        }
        "Linear" => "in_features out_features bias",
        "Dropout" => "p inplace",
        "ReLU" | "Tanh" | "Sigmoid" => "inplace",
        class => return words(format!("class {class} cannot be trained")),
    };
    if let Some(unknown) = layer.args.keys().find(|name| !known.split(' ').any(|known| known == *name)) {
        return words(format!("unknown argument {unknown}"));
    }
    let wrong = |name: &str, must_be: &str| Wrong::Words(format!("argument {name} must be {must_be}"));
    let number = |name: &str| {
        let read = |value: &Value| usize::try_from(value.as_u64()?).ok();
        let found = layer.args.get(name).map(|value| read(value).ok_or_else(|| wrong(name, "a non-negative integer")));
        found.transpose()
    };
    let flag = |name: &str, default| {
        let found = layer.args.get(name).map_or(Some(default), Value::as_bool);
        found.ok_or_else(|| wrong(name, "true or false"))
    };
    let share = |name: &str, default: f64| {
        let found = layer.args.get(name).map_or(Some(default), Value::as_f64);
        let found = found.filter(|share| (0.0..1.0).contains(share)).map(|share| share as f32);
        found.ok_or_else(|| wrong(name, "at least 0 and less than 1"))
    };
    let needed = |name: &str| number(name)?.ok_or_else(|| Wrong::Words(format!("argument {name} is required")));
    let same = |name: &str| match number(name)? {
        Some(found) if found != input => {
            Err(Wrong::Words(format!("{name} is {found}, but its input has {input} features")))
        }
        _ => Ok(()),
    };
    if layer.take == Take::Open {
        return words("take must be sequence, last or final".into());
    }
    if layer.take != Take::Sequence && cell.is_none() {
        return words("only a recurrent layer can take its last output".into());
    }
    let activation = |apply, slope| Ok((Kind::Activation(Function { apply, slope }), 0, input));
    match layer.class.as_str() {
        "Linear" => {
            same("in_features")?;
            let (output, bias) = (needed("out_features")?, flag("bias", true)?);
            let Some(params) = input.checked_mul(output).filter(|&size| output > 0 && size <= MAX_PARAMS) else {
                return words(format!("{input} x {output} weights: the number must be from 1 to {MAX_PARAMS}"));
            };
            Ok((Kind::Linear { input, output, bias }, params + if bias { output } else { 0 }, output))
        }
        "Dropout" => Ok((Kind::Dropout(share("p", 0.5)?), 0, input)),
        "ReLU" => activation(relu, |y| f32::from(y > 0.0)),
        "Tanh" => activation(tanh, |y| 1.0 - y * y),
        "Sigmoid" => activation(sigmoid, |y| y * (1.0 - y)),
        _ => {
            let Some(cell) = cell else { return words("argument nonlinearity must be tanh or relu".into()) };
            if vector {
                let reason = "its input is a single row: only the last recurrent layer can take its last output";
                return words(reason.into());
            }
            same("input_size")?;
            let layers = number("num_layers")?.unwrap_or(1);
            if layers > MAX_NODES {
                return words(format!("num_layers is {layers}, but a model has at most {MAX_NODES} layers"));
            }
            let projected_size = number("proj_size")?.filter(|&size| size > 0);
            let both = flag("bidirectional", false)?;
            let direction = if both { Direction::Bidirectional } else { Direction::Unidirectional };
            let bias = if flag("bias", true)? { Bias::Both } else { Bias::None };
            // An extension: PyTorch has no such argument.
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
