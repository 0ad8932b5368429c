//! Keras's layers as descriptions name them: those that run over time, one of them in both directions, cells of an `RNN`,
//! `TimeDistributed`; all others are in `plain` and `kernel`. Over a reversed sequence a network looks at the whole of it.

use serde_json::Map;

use super::arguments::is_of_training;
use super::{kernel, mask, plain, recurrent};
use crate::error::ImportError;
use crate::format::description::{Take, Value, last};
use crate::format::golden::Case;
use crate::format::layer::Layer;
use crate::format::network::{Direction, Network, Source};

/// Adds a layer.
pub(crate) fn add(
    case: &mut Case<'_>,
    network: &mut Network,
    inputs: &[Value],
    take: Take,
) -> Result<Value, ImportError> {
    case.ignore_where(|name| is_of_training(name) || name == "trainable");
    let masked = case.flag("masked", false)?;
    let take = match case.given_flag("return_sequences")? {
        Some(true) => Take::Sequence,
        Some(false) if take == Take::Sequence => Take::Final,
        _ => take,
    };
    if let Some(merged) = plain::several(case, network, inputs)? {
        return Ok(merged);
    }
    let [x] = inputs else { return Err(ImportError::Unsupported(format!("{} inputs", inputs.len()))) };
    if masked && x.mask.is_none() {
        return Err(ImportError::Unsupported("a mask that is not its input's".into()));
    }
    match case.cls.as_str() {
        "Bidirectional" => bidirectional(case, network, x, take),
        class if runs_over_time(class) => over_time(case, network, x, take),
        _ => {
            let value = at_each_step(case, network, x)?;
            Ok(if take == Take::Sequence { value } else { last(network, value) })
        }
    }
}

fn runs_over_time(class: &str) -> bool {
    matches!(class, "LSTM" | "GRU" | "SimpleRNN" | "RNN" | "CuDNNLSTM" | "CuDNNGRU") || class.starts_with("ConvLSTM")
}

/// A layer without a state. What `each_step` is said of knows nothing of time: it is within a `TimeDistributed`.
fn at_each_step(case: &mut Case<'_>, network: &mut Network, x: &Value) -> Result<Value, ImportError> {
    if case.cls == "TimeDistributed" {
        let Some((class, mut args)) = case.inner_layer("layer")? else {
            return Err(ImportError::Unsupported("a TimeDistributed without its layer".into()));
        };
        args.insert("each_step".into(), true.into());
        return case.scoped(class, args, &["layer"], |inner| {
            inner.ignore_where(|name| is_of_training(name) || name == "trainable");
            at_each_step(inner, network, x)
        });
    }
    let each_step = case.flag("each_step", false)?;
    if each_step && (runs_over_time(&case.cls) || case.cls == "Bidirectional") {
        return Err(ImportError::Unsupported(format!("{} within a TimeDistributed", case.cls)));
    }
    if let Some(value) = kernel::add(case, network, x, each_step)? {
        // What goes over time hands no mask on.
        let mask = value.mask.clone().filter(|_| each_step);
        return Ok(Value { mask, ..value });
    }
    plain::add(case, network, x, each_step)?.map_or_else(|| case.unknown_class(), Ok)
}

/// One layer, or the cells of an `RNN` one above the other; and whether the output of a step that does not count is 0,
/// if it is said.
fn layers(case: &mut Case<'_>) -> Result<(Vec<Layer>, Option<bool>), ImportError> {
    case.ignore_where(|name| is_of_training(name) || name == "trainable");
    case.must_be("time_major", false)?;
    for argument in ["return_sequences", "return_state", "input_length"] {
        case.ignore(argument);
    }
    if case.flag("stateful", false)? {
        return Err(ImportError::Unsupported("argument stateful (say it of the layer, beside its arguments)".into()));
    }
    let silent = case.given_flag("zero_output_for_mask")?;
    if case.cls != "RNN" {
        return Ok((vec![recurrent(case)?], silent));
    }
    let given = case.value("cell").unwrap_or_default();
    let (cells, _) = super::variables::cells(Some(&given));
    if cells.is_empty() {
        return Err(ImportError::Unsupported("an RNN without cells".into()));
    }
    let mut layers = Vec::new();
    for (k, (class, args)) in cells.into_iter().enumerate() {
        let class = match class {
            "LSTMCell" => "LSTM",
            "GRUCell" => "GRU",
            "SimpleRNNCell" => "SimpleRNN",
            other => return Err(ImportError::Unsupported(format!("a cell of class {other:?}"))),
        };
        layers.push(case.scoped(class.to_owned(), args.clone(), &[&k.to_string()], recurrent)?);
    }
    Ok((layers, silent))
}

/// All of these over a sequence, in one direction.
fn run(network: &mut Network, layers: Vec<Layer>, x: &Value, direction: Direction) -> Result<Source, ImportError> {
    if x.mask.is_some() && !network.fresh {
        // Keras begins each call with an output of 0, whatever the state.
        return Err(ImportError::Unsupported("masking before a layer that is stateful".into()));
    }
    let (mut source, mut mask) = (x.source.clone(), x.mask.clone());
    for (k, layer) in layers.into_iter().enumerate() {
        if layer.input_size != source.size() {
            let (found, needed) = (source.size(), layer.input_size);
            return Err(ImportError::Unsupported(format!("{found} features where its tensors take {needed}")));
        }
        // Once its outputs stand in the order in which they are made, so do the next one's.
        let direction = match direction {
            Direction::BackwardAsProcessed if k > 0 => Direction::Forward,
            other => other,
        };
        source = match &mask {
            Some(mask) => network.directed(mask::with_mask(layer)?, &[&source, mask], direction),
            None => network.directed(layer, &[&source], direction),
        };
        if direction == Direction::BackwardAsProcessed
            && let Some(given) = &mask
        {
            mask = Some(network.directed(Layer::identity(1), &[given], direction));
        }
    }
    Ok(source)
}

fn over_time(case: &mut Case<'_>, network: &mut Network, x: &Value, take: Take) -> Result<Value, ImportError> {
    let backwards = case.flag("go_backwards", false)?;
    if backwards && x.source.rows().is_none() {
        return Err(ImportError::NeedsWindow { what: case.cls.clone() });
    }
    if !x.sequence {
        return Err(ImportError::Unsupported("an input without time".into()));
    }
    let (layers, silent) = layers(case)?;
    let shape = layers.last().map(shape_of).unwrap_or_default();
    let direction = if backwards { Direction::BackwardAsProcessed } else { Direction::Forward };
    let mut source = run(network, layers, x, direction)?;
    if let (true, Some(mask), Take::Sequence) = (silent == Some(true), &x.mask, take) {
        if backwards {
            return Err(ImportError::Unsupported("argument zero_output_for_mask = true with go_backwards".into()));
        }
        source = mask::silenced(network, &source, mask);
    }
    let value = Value { shape, ..x.with(source) };
    Ok(if take == Take::Sequence { value } else { last(network, value) })
}

/// Dimensions of what a layer gives.
fn shape_of(layer: &Layer) -> Vec<usize> {
    let axes = ["out_depth", "out_height", "out_width"].into_iter().filter_map(|axis| layer.extents.get(axis).copied());
    let mut shape: Vec<usize> = axes.collect();
    let units = if shape.is_empty() { layer.output_size } else { layer.hidden_size };
    let first = layer.options.contains(&"channels_first");
    shape.insert(if first { 0 } else { shape.len() }, units);
    shape
}

/// A layer in each direction. `merge_mode` may also say which of the two outputs this is.
fn bidirectional(case: &mut Case<'_>, network: &mut Network, x: &Value, take: Take) -> Result<Value, ImportError> {
    if x.source.rows().is_none() {
        return Err(ImportError::NeedsWindow { what: case.cls.clone() });
    }
    let how = case.text("merge_mode")?.unwrap_or_else(|| "concat".to_owned());
    let Some(forward) = case.inner_layer("layer")? else {
        return Err(ImportError::Unsupported("a Bidirectional without its layer".into()));
    };
    let backward = case.inner_layer("backward_layer")?;
    let turned = |args: &Map<String, serde_json::Value>| args.get("go_backwards") == Some(&true.into());
    if turned(&forward.1) || backward.as_ref().is_some_and(|(_, args)| !turned(args)) {
        return Err(ImportError::Unsupported("a Bidirectional whose layers both go the other way".into()));
    }
    let backward = backward.unwrap_or_else(|| forward.clone());
    let directions = [("forward", forward, Direction::Forward), ("backward", backward, Direction::Backward)];
    let mut outputs = Vec::new();
    for (name, (class, mut args), direction) in directions {
        args.remove("go_backwards");
        args.remove("stateful");
        let (layers, silent) = case.scoped(class, args, &[name], layers)?;
        if !matches!(how.as_str(), "forward" | "backward") || how == name {
            let mut output = run(network, layers, x, direction)?;
            // As Keras has it, unless a file is older.
            if let (true, Some(mask), Take::Sequence) = (silent != Some(false), &x.mask, take) {
                output = mask::silenced(network, &output, mask);
            }
            // The backward direction gives the first row last.
            let back = direction == Direction::Backward;
            outputs.push(if take == Take::Sequence { output } else { network.last(&output, back) });
        }
    }
    let parts: Vec<&Source> = outputs.iter().collect();
    let size = parts.first().map_or(0, |part| part.size());
    if how != "concat" && parts.iter().any(|part| part.size() != size) {
        return Err(ImportError::Unsupported("directions of different sizes".into()));
    }
    let source = match how.as_str() {
        "concat" | "forward" | "backward" => network.concat(&outputs),
        "sum" => network.add(Layer::merge("add", parts.len(), size), &parts),
        "mul" => network.add(Layer::merge("multiply", parts.len(), size), &parts),
        "ave" => network.add(Layer::merge("average", parts.len(), size), &parts),
        other => return Err(ImportError::Unsupported(format!("argument merge_mode = {other:?}"))),
    };
    let mask = x.mask.clone().filter(|_| take == Take::Sequence);
    Ok(Value { sequence: take == Take::Sequence, mask, ..x.with(source) })
}
