//! TensorFlow 1's cells that contain other cells, and the functions that run cells backwards or in both directions. The
//! latter become a network that processes the whole sequence as one window. An inner cell is written like the call of
//! its constructor, `"LSTMCell(5, use_peepholes=True)"`.

use tidegate::internals::activation::Activation;

use super::{attention, bands, cells, cells::unsupported, classes::cell, classes::intersection, phased_lstm};
use crate::error::{ImportError, Result};
use crate::format::network::{Direction, Network, Source};
use crate::format::{case::Case, layer::Layer};

/// The output of the layers that were added.
type Added = Result<Source>;

/// Converts a cell of any kind, or a function that runs cells, to a network.
pub(crate) fn convert(case: &mut Case<'_>) -> Result<Network> {
    ignore_making(case)?;
    match case.cls.as_str() {
        "PhasedLSTMCell" => phased_lstm::convert(case),
        "TimeReversedFusedRNN" => over_window(case),
        cls if runs_both_directions(cls) => over_window(case),
        cls if holds_cells(cls) || bands::has(cls) => {
            let mut network = Network::new();
            let x = network.input("input", case.input_size()?);
            let output = add(case, &mut network, &x, Direction::Forward)?;
            network.output("output", &output);
            Ok(network)
        }
        _ => Ok(Network::of(cell(case)?)),
    }
}

/// Ignores arguments that only affect the names and initial values of variables, and checks the type of the numbers.
fn ignore_making(case: &mut Case<'_>) -> Result<()> {
    case.ignore_all(&["initializer", "kernel_initializer", "bias_initializer", "name", "reuse", "_reuse", "trainable"]);
    match case.text("dtype")? {
        Some(dtype) if dtype != "float32" => unsupported(format!("argument dtype = {dtype:?}")),
        _ => Ok(()),
    }
}

fn holds_cells(cls: &str) -> bool {
    cls == "MultiRNNCell" || cls == "IntersectionRNNCell" || cls.ends_with("Wrapper") || cls.ends_with("Adaptor")
}

/// Adds a cell of any kind that reads `x`; returns its output.
fn add(case: &mut Case<'_>, network: &mut Network, x: &Source, direction: Direction) -> Added {
    ignore_making(case)?;
    match case.cls.as_str() {
        "MultiRNNCell" => multi(case, network, x, direction),
        "AttentionCellWrapper" => Ok(network.directed(attention::layer(case)?, &[x], direction)),
        "InputProjectionWrapper" => input_projection(case, network, x, direction),
        "OutputProjectionWrapper" => output_projection(case, network, x, direction),
        "ResidualWrapper" => residual(case, network, x, direction),
        "HighwayWrapper" => highway(case, network, x, direction),
        "DropoutWrapper" | "DeviceWrapper" | "FusedRNNCellAdaptor" => {
            // Dropout is only active in training; the other wrappers select how TensorFlow runs the cell.
            match case.cls.as_str() {
                "DropoutWrapper" => {
                    case.ignore_all(&["input_keep_prob", "output_keep_prob", "state_keep_prob", "input_size", "seed"]);
                    case.ignore_all(&["variational_recurrent", "dropout_state_filter_visitor"]);
                }
                "DeviceWrapper" => case.ignore("device"),
                _ => case.ignore("use_dynamic_rnn"),
            }
            wrapped(case, network, x, direction)
        }
        "IntersectionRNNCell" => {
            let (projection, layer) = intersection(case)?;
            let projected = projection.map_or_else(|| x.clone(), |projection| network.add(projection, &[x]));
            Ok(network.directed(layer, &[&projected], direction))
        }
        cls if bands::has(cls) => bands::add(case, network, x, direction),
        cls if holds_cells(cls) => case.unknown_class(),
        _ => Ok(network.directed(cell(case)?, &[x], direction)),
    }
}

/// Adds the cell constructed by `call`, for one direction of a network.
fn one_direction(
    case: &mut Case<'_>,
    network: &mut Network,
    x: &Source,
    call: &str,
    layer: Option<usize>,
    direction: Direction,
) -> Added {
    let side = if direction == Direction::Forward { "fw" } else { "bw" };
    let cell = layer.map(|k| format!("cell_{k}"));
    let scope: Vec<&str> = cell.as_deref().into_iter().chain([side]).collect();
    network.renamed(
        |state| match &cell {
            Some(cell) => within(&format!("{side}_{cell}"), state),
            None => format!("{side}_{state}"),
        },
        |network| case.cell(call, &scope, |case| add(case, network, x, direction)),
    )
}

/// Whether `cls` is a function that runs cells in both directions.
pub(super) fn runs_both_directions(cls: &str) -> bool {
    matches!(
        cls,
        "bidirectional_dynamic_rnn"
            | "static_bidirectional_rnn"
            | "stack_bidirectional_dynamic_rnn"
            | "stack_bidirectional_rnn"
    )
}

/// Runs cells over the whole sequence as one window. `bidirectional_dynamic_rnn` has an output for each direction.
fn over_window(case: &mut Case<'_>) -> Result<Network> {
    let mut network = Network::new();
    let x = network.input("input", case.input_size()?);
    let rows = network.window(&x, case.steps()?);
    let outputs = match case.cls.as_str() {
        "TimeReversedFusedRNN" => vec![wrapped(case, &mut network, &rows, Direction::Backward)?],
        _ => both_directions(case, &mut network, &rows)?.to_vec(),
    };
    if let ([forward, backward], "bidirectional_dynamic_rnn") = (&*outputs, case.cls.as_str()) {
        network.output("output_fw", forward);
        network.output("output_bw", backward);
    } else {
        let output = network.concat(&outputs);
        network.output("output", &output);
    }
    Ok(network)
}

/// Adds the cells of a function that runs them in both directions over the rows of a window; returns the output of each
/// direction. The function is given either `cell_fw` and `cell_bw`, or a stack of `cells`: one pair for each element,
/// which reads both outputs of the previous pair.
pub(super) fn both_directions(case: &mut Case<'_>, network: &mut Network, rows: &Source) -> Result<[Source; 2]> {
    if !case.cls.starts_with("stack_") {
        let mut side = |name, direction| {
            let call = case.text(name)?;
            let call = call.ok_or_else(|| ImportError::Unsupported(format!("{} without {name}", case.cls)))?;
            one_direction(case, network, rows, &call, None, direction)
        };
        return Ok([side("cell_fw", Direction::Forward)?, side("cell_bw", Direction::Backward)?]);
    }
    let mut last: Option<[Source; 2]> = None;
    for (k, call) in case.texts("cells")?.unwrap_or_default().iter().enumerate() {
        let x = last.map_or_else(|| rows.clone(), |both| network.concat(&both));
        let mut side = |direction| one_direction(case, network, &x, call, Some(k), direction);
        last = Some([side(Direction::Forward)?, side(Direction::Backward)?]);
    }
    last.ok_or_else(|| ImportError::Unsupported(format!("{} without cells", case.cls)))
}

/// Stacked cells; each reads the output of the one before. Their states are a tuple, or concatenated in one tensor.
fn multi(case: &mut Case<'_>, network: &mut Network, x: &Source, direction: Direction) -> Added {
    let tuple = case.flag("state_is_tuple", true)?;
    let calls = case.texts("cells")?.unwrap_or_default();
    let (mut last, mut end) = (x.clone(), 0);
    for (k, call) in calls.iter().enumerate() {
        let scope = format!("cell_{k}");
        let cell = |network: &mut Network| case.cell(call, &[&scope], |case| add(case, network, &last, direction));
        if tuple {
            last = network.renamed(|state| within(&scope, state), cell)?;
        } else {
            (last, end) = network.states_from(end, cell)?;
        }
    }
    Ok(last)
}

/// The name of an inner cell's state in the case of the outer one; a single tensor has the name of the cell.
fn within(scope: &str, state: &str) -> String {
    if state == "state" { scope.to_owned() } else { format!("{scope}_{state}") }
}

/// The input of the cell is `act(x K + b)`.
fn input_projection(case: &mut Case<'_>, network: &mut Network, x: &Source, direction: Direction) -> Added {
    let projection = dense(case, "num_proj")?;
    let projected = network.add(projection, &[x]);
    wrapped(case, network, &projected, direction)
}

/// `y = act(cell(x) K + b)`.
fn output_projection(case: &mut Case<'_>, network: &mut Network, x: &Source, direction: Direction) -> Added {
    let projection = dense(case, "output_size")?;
    let output = wrapped(case, network, x, direction)?;
    Ok(network.add(projection, &[&output]))
}

/// `y = x + cell(x)`
fn residual(case: &mut Case<'_>, network: &mut Network, x: &Source, direction: Direction) -> Added {
    let output = wrapped(case, network, x, direction)?;
    Ok(network.add(Layer::merge("add", 2, output.size()), &[x, &output]))
}

/// `y = t x + (1 - t) cell(x)` with `t = σ(x carry_w + carry_b)`. If the gates are not coupled, the factor of the cell
/// is `σ(x transform_w + transform_b)` instead of `1 - t`.
fn highway(case: &mut Case<'_>, network: &mut Network, x: &Source, direction: Direction) -> Added {
    // Only an initial value of the biases.
    case.ignore("carry_bias_init");
    let gate = |[weights, bias]: [&str; 2], case: &mut Case<'_>, network: &mut Network| -> Added {
        let weights = case.named(weights)?;
        let bias = case.vector(bias, x.size())?;
        let weights = weights.transposed(0, weights.matrix()?.0)?;
        Ok(network.add(Layer::dense(weights, Some(bias), Activation::Sigmoid), &[x]))
    };
    let carry = gate(["carry_w", "carry_b"], case, network)?;
    if case.flag("couple_carry_transform_gates", true)? {
        let output = wrapped(case, network, x, direction)?;
        return Ok(network.add(Layer::merge("blend", 3, x.size()), &[x, &output, &carry]));
    }
    let transform = gate(["transform_w", "transform_b"], case, network)?;
    let output = wrapped(case, network, x, direction)?;
    let carried = network.add(Layer::merge("multiply", 2, x.size()), &[x, &carry]);
    let transformed = network.add(Layer::merge("multiply", 2, x.size()), &[&output, &transform]);
    Ok(network.add(Layer::merge("add", 2, x.size()), &[&carried, &transformed]))
}

/// Adds the only cell inside a wrapper. It uses the parameters that the wrapper does not.
fn wrapped(case: &mut Case<'_>, network: &mut Network, x: &Source, direction: Direction) -> Added {
    let Some(call) = case.text("cell")? else { return unsupported(format!("{} without a cell", case.cls)) };
    case.cell(&call, &[], |case| add(case, network, x, direction))
}

/// A wrapper's own `kernel` [input, output] and `bias`; `size` is its argument for the number of outputs.
fn dense(case: &mut Case<'_>, size: &str) -> Result<Layer> {
    let activation = case.activation("activation", Activation::Identity)?;
    let layer = cells::dense(case.tensor("kernel")?, case.tensor("bias")?, activation)?;
    case.units(size, layer.output_size)?;
    Ok(layer)
}
