//! Keras's layers as descriptions name them: layers that run over time, `Bidirectional`, cells of an `RNN`, and
//! `TimeDistributed`. All others are in `pointwise` and `kernel`. A network that reverses a sequence needs the whole
//! window.

use serde_json::Map;

use super::arguments::{is_of_training, runs_over_time};
use super::recurrent::recurrent;
use super::{kernel, mask, pointwise, products, slices};
use crate::error::{ImportError, Result};
use crate::format::network::{Direction, Network, Source};
use crate::format::stateless::fitting;
use crate::format::{
    case::Case, description::Take, layer::Layer, refuse::needs_window_if, refuse::unsupported_if, signal::Signal,
    signal::last,
};

pub(crate) fn add(case: &mut Case<'_>, network: &mut Network, inputs: &[Signal], take: Take) -> Result<Signal> {
    case.ignore_where(|name| is_of_training(name) || name == "trainable");
    let masked = case.flag("masked", false)?;
    let given = match case.cls.as_str() {
        // Both directions have the same value.
        "Bidirectional" => case.inner_flag("layer", "return_sequences")?,
        _ => case.given_flag("return_sequences")?,
    };
    let take = match given {
        Some(true) => Take::Sequence,
        Some(false) if take == Take::Sequence => Take::Final,
        _ => take,
    };
    if let Some(merged) = pointwise::several(case, network, inputs)? {
        return Ok(merged);
    }
    if let Some(product) = products::add(case, network, inputs)? {
        return Ok(product);
    }
    let [x] = inputs else { return Err(ImportError::Unsupported(format!("{} inputs", inputs.len()))) };
    unsupported_if(masked && x.mask.is_none(), "a mask other than that of its input")?;
    match case.cls.as_str() {
        "Bidirectional" => bidirectional(case, network, x, take),
        slices::CLASS => slices::get_item(case, network, x),
        class if runs_over_time(class) => over_time(case, network, x, take),
        _ => {
            let value = at_each_step(case, network, x)?;
            Ok(if take == Take::Sequence { value } else { last(network, value) })
        }
    }
}

/// Whether a layer of this class may read sequences of different lengths.
pub(crate) fn meets_other_rows(class: &str) -> bool {
    matches!(class, "Dot" | "Attention" | "Add" | "Subtract" | "Multiply" | "Average" | "Maximum")
}

/// Adds a layer without state. With `each_step`, the layer is inside a `TimeDistributed` and does not run over time.
fn at_each_step(case: &mut Case<'_>, network: &mut Network, x: &Signal) -> Result<Signal> {
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
    let over_time = runs_over_time(&case.cls) || case.cls == "Bidirectional";
    unsupported_if(each_step && over_time, format_args!("{} within a TimeDistributed", case.cls))?;
    if let Some(value) = kernel::add(case, network, x, each_step)? {
        // A layer that runs over time does not propagate the mask.
        let mask = value.mask.clone().filter(|_| each_step);
        return Ok(Signal { mask, ..value });
    }
    pointwise::add(case, network, x, each_step)?.map_or_else(|| case.unknown_class(), Ok)
}

/// The layer, or the stacked cells of an `RNN`; and whether the output at masked steps is 0, if the arguments state it.
fn layers(case: &mut Case<'_>) -> Result<(Vec<Layer>, Option<bool>)> {
    case.ignore_where(|name| is_of_training(name) || name == "trainable");
    case.must_be("time_major", false)?;
    case.ignore_all(&["return_state", "input_length"]);
    unsupported_if(case.flag("stateful", false)?, "argument stateful (set it on the layer, not among its arguments)")?;
    let silent = case.given_flag("zero_output_for_mask")?;
    if case.cls != "RNN" {
        return Ok((vec![recurrent(case)?], silent));
    }
    let given = case.value("cell").unwrap_or_default();
    let (cells, _) = super::variables::cells(Some(&given));
    unsupported_if(cells.is_empty(), "an RNN without cells")?;
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

/// Runs all `layers` over a sequence in one direction.
fn run(network: &mut Network, layers: Vec<Layer>, x: &Signal, direction: Direction) -> Result<Source> {
    if x.mask.is_some() && !network.fresh {
        // Keras starts each call with an output of 0, regardless of the state.
        return Err(ImportError::Unsupported("masking before a layer that is stateful".into()));
    }
    let (mut source, mut mask) = (x.source.clone(), x.mask.clone());
    for (k, layer) in layers.into_iter().enumerate() {
        fitting(&layer, &source)?;
        // After the first layer, the outputs are in the order of processing, so the next layers run forward.
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

fn over_time(case: &mut Case<'_>, network: &mut Network, x: &Signal, take: Take) -> Result<Signal> {
    let backwards = case.flag("go_backwards", false)?;
    needs_window_if(backwards && x.source.rows().is_none(), &case.cls)?;
    unsupported_if(!x.sequence, "an input without time")?;
    let (layers, silent) = layers(case)?;
    let shape = layers.last().map(shape_of).unwrap_or_default();
    let direction = if backwards { Direction::BackwardAsProcessed } else { Direction::Forward };
    let mut source = run(network, layers, x, direction)?;
    if let (true, Some(mask), Take::Sequence) = (silent == Some(true), &x.mask, take) {
        unsupported_if(backwards, "argument zero_output_for_mask = true with go_backwards")?;
        source = mask::silenced(network, &source, mask);
    }
    let value = Signal { shape, ..x.with(source) };
    Ok(if take == Take::Sequence { value } else { last(network, value) })
}

fn shape_of(layer: &Layer) -> Vec<usize> {
    let axes = ["out_depth", "out_height", "out_width"].into_iter().filter_map(|axis| layer.extents.get(axis).copied());
    let mut shape: Vec<usize> = axes.collect();
    let units = if shape.is_empty() { layer.output_size } else { layer.hidden_size };
    let first = layer.options.contains(&"channels_first");
    shape.insert(if first { 0 } else { shape.len() }, units);
    shape
}

/// A layer in each direction. `merge_mode` may also select one of the two outputs.
fn bidirectional(case: &mut Case<'_>, network: &mut Network, x: &Signal, take: Take) -> Result<Signal> {
    needs_window_if(x.source.rows().is_none(), &case.cls)?;
    let how = case.text("merge_mode")?.unwrap_or_else(|| "concat".to_owned());
    let Some(forward) = case.inner_layer("layer")? else {
        return Err(ImportError::Unsupported("a Bidirectional without its layer".into()));
    };
    let backward = case.inner_layer("backward_layer")?;
    let turned = |args: &Map<String, serde_json::Value>| args.get("go_backwards") == Some(&true.into());
    let swapped = turned(&forward.1) || backward.as_ref().is_some_and(|(_, args)| !turned(args));
    unsupported_if(swapped, "a Bidirectional with its directions swapped")?;
    let backward = backward.unwrap_or_else(|| forward.clone());
    let differ = forward.1.get("return_sequences") != backward.1.get("return_sequences");
    unsupported_if(differ, "argument return_sequences that differs between the directions")?;
    let directions = [("forward", forward, Direction::Forward), ("backward", backward, Direction::Backward)];
    let mut outputs = Vec::new();
    for (name, (class, mut args), direction) in directions {
        args.remove("go_backwards");
        args.remove("return_sequences");
        let (layers, silent) = case.scoped(class, args, &[name], layers)?;
        if !matches!(how.as_str(), "forward" | "backward") || how == name {
            let mut output = run(network, layers, x, direction)?;
            // Keras zeroes the outputs of masked steps, except in older versions.
            if let (true, Some(mask), Take::Sequence) = (silent != Some(false), &x.mask, take) {
                output = mask::silenced(network, &output, mask);
            }
            // The backward direction outputs the first row last.
            let back = direction == Direction::Backward;
            outputs.push(if take == Take::Sequence { output } else { network.last(&output, back) });
        }
    }
    let differ = outputs.iter().any(|part| outputs.first().is_some_and(|first| part.size() != first.size()));
    unsupported_if(how != "concat" && differ, "directions of different sizes")?;
    let source = match outputs.as_slice() {
        [one] => one.clone(),
        both => merged(network, both, &how)?,
    };
    let mask = x.mask.clone().filter(|_| take == Take::Sequence);
    Ok(Signal { sequence: take == Take::Sequence, mask, ..x.with(source) })
}

/// The outputs of both directions, merged by this `merge_mode`.
pub(super) fn merged(network: &mut Network, outputs: &[Source], how: &str) -> Result<Source> {
    let merge = match how {
        "concat" => return Ok(network.concat(outputs)),
        "sum" => "add",
        "mul" => "multiply",
        "ave" => "average",
        other => return Err(ImportError::Unsupported(format!("argument merge_mode = {other:?}"))),
    };
    let size = outputs.first().map_or(0, Source::size);
    Ok(network.add(Layer::merge(merge, outputs.len(), size), &outputs.iter().collect::<Vec<_>>()))
}
