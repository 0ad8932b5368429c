//! TensorFlow 1's cells that hold other cells, and the functions that run cells backwards or in both directions: a
//! network that looks at the whole sequence as one window. A cell within is written as its constructor was called,
//! `"LSTMCell(5, use_peepholes=True)"`.

use tidegate::activation::Activation;

use super::golden::{cell, intersection};
use super::{attention, bands_golden, cells, phased_lstm};
use crate::error::ImportError;
use crate::format::golden::Case;
use crate::format::layer::Layer;
use crate::format::network::{Direction, Network, Source};

/// The network of a cell of any kind, or of a function that runs cells.
pub(crate) fn convert(case: &mut Case<'_>) -> Result<Network, ImportError> {
    ignore_making(case)?;
    match case.cls.as_str() {
        "bidirectional_dynamic_rnn" => bidirectional(case, true),
        "static_bidirectional_rnn" => bidirectional(case, false),
        "stack_bidirectional_dynamic_rnn" | "stack_bidirectional_rnn" => stack_bidirectional(case),
        "TimeReversedFusedRNN" => reversed(case),
        "PhasedLSTMCell" => phased_lstm::convert(case),
        cls if holds_cells(cls) || bands_golden::has(cls) => {
            let mut network = Network::new();
            let x = network.input("input", case.input_size()?);
            let output = add(case, &mut network, &x, Direction::Forward)?;
            network.output("output", &output);
            Ok(network)
        }
        _ => Ok(Network::of(cell(case)?)),
    }
}

/// Takes what says only how variables are called and begin, and the type of all numbers.
fn ignore_making(case: &mut Case<'_>) -> Result<(), ImportError> {
    for name in ["initializer", "kernel_initializer", "bias_initializer", "name", "reuse", "_reuse", "trainable"] {
        case.ignore(name);
    }
    match case.text("dtype")? {
        Some(dtype) if dtype != "float32" => Err(ImportError::Unsupported(format!("argument dtype = {dtype:?}"))),
        _ => Ok(()),
    }
}

fn holds_cells(cls: &str) -> bool {
    cls == "MultiRNNCell" || cls == "IntersectionRNNCell" || cls.ends_with("Wrapper") || cls.ends_with("Adaptor")
}

/// Adds a cell of any kind that reads `x`; returns its output.
fn add(case: &mut Case<'_>, network: &mut Network, x: &Source, direction: Direction) -> Result<Source, ImportError> {
    ignore_making(case)?;
    match case.cls.as_str() {
        "MultiRNNCell" => multi(case, network, x, direction),
        "AttentionCellWrapper" => Ok(network.directed(attention::layer(case)?, &[x], direction)),
        "InputProjectionWrapper" => input_projection(case, network, x, direction),
        "OutputProjectionWrapper" => output_projection(case, network, x, direction),
        "ResidualWrapper" => residual(case, network, x, direction),
        "HighwayWrapper" => highway(case, network, x, direction),
        "DropoutWrapper" => {
            // It drops only while a network is trained.
            for name in ["input", "output", "state"] {
                case.ignore(&format!("{name}_keep_prob"));
            }
            for name in ["variational_recurrent", "input_size", "seed", "dropout_state_filter_visitor"] {
                case.ignore(name);
            }
            wrapped(case, network, x, direction)
        }
        "DeviceWrapper" => {
            case.ignore("device");
            wrapped(case, network, x, direction)
        }
        "FusedRNNCellAdaptor" => {
            // How TensorFlow runs it.
            case.ignore("use_dynamic_rnn");
            wrapped(case, network, x, direction)
        }
        "IntersectionRNNCell" => {
            let (projection, layer) = intersection(case)?;
            let projected = projection.map_or_else(|| x.clone(), |projection| network.add(projection, &[x]));
            Ok(network.directed(layer, &[&projected], direction))
        }
        cls if bands_golden::has(cls) => bands_golden::add(case, network, x, direction),
        cls if holds_cells(cls) => case.unknown_class(),
        _ => Ok(network.directed(cell(case)?, &[x], direction)),
    }
}

/// Adds the cell that the argument `name` holds, for one direction of a network.
fn one_direction(
    case: &mut Case<'_>,
    network: &mut Network,
    x: &Source,
    call: &str,
    layer: Option<usize>,
    direction: Direction,
) -> Result<Source, ImportError> {
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

/// `cell_fw` and `cell_bw`, whose outputs are two or, put one after the other, one.
fn bidirectional(case: &mut Case<'_>, two: bool) -> Result<Network, ImportError> {
    let mut network = Network::new();
    let x = network.input("input", case.input_size()?);
    let rows = network.window(&x, case.steps()?);
    let [forward, backward] = pair(case, &mut network, &rows)?;
    if two {
        network.output("output_fw", &forward);
        network.output("output_bw", &backward);
    } else {
        let both = network.concat(&[forward, backward]);
        network.output("output", &both);
    }
    Ok(network)
}

/// Adds `cell_fw` and `cell_bw`, which read the rows of a window.
pub(super) fn pair(case: &mut Case<'_>, network: &mut Network, rows: &Source) -> Result<[Source; 2], ImportError> {
    let mut direction = |name, direction| {
        let call = case.text(name)?.ok_or_else(|| ImportError::Unsupported(format!("{} without {name}", case.cls)))?;
        one_direction(case, network, rows, &call, None, direction)
    };
    Ok([direction("cell_fw", Direction::Forward)?, direction("cell_bw", Direction::Backward)?])
}

/// A pair of cells for each of `cells`; each pair reads both outputs of the pair before.
fn stack_bidirectional(case: &mut Case<'_>) -> Result<Network, ImportError> {
    let mut network = Network::new();
    let x = network.input("input", case.input_size()?);
    let rows = network.window(&x, case.steps()?);
    let last = stack_of_pairs(case, &mut network, &rows)?;
    let last = network.concat(&last);
    network.output("output", &last);
    Ok(network)
}

/// Adds such pairs; gives the outputs of the last.
pub(super) fn stack_of_pairs(
    case: &mut Case<'_>,
    network: &mut Network,
    rows: &Source,
) -> Result<[Source; 2], ImportError> {
    let mut last: Option<[Source; 2]> = None;
    for (k, call) in case.texts("cells")?.unwrap_or_default().iter().enumerate() {
        let x = match &last {
            None => rows.clone(),
            Some(both) => network.concat(both),
        };
        let mut side = |direction| one_direction(case, network, &x, call, Some(k), direction);
        last = Some([side(Direction::Forward)?, side(Direction::Backward)?]);
    }
    last.ok_or_else(|| ImportError::Unsupported(format!("{} without cells", case.cls)))
}

/// A cell that goes from the last step to the first; its outputs stand beside their inputs.
fn reversed(case: &mut Case<'_>) -> Result<Network, ImportError> {
    let mut network = Network::new();
    let x = network.input("input", case.input_size()?);
    let rows = network.window(&x, case.steps()?);
    let output = wrapped(case, &mut network, &rows, Direction::Backward)?;
    network.output("output", &output);
    Ok(network)
}

/// The output of a cell is the input of the next. Their states are a tuple, or one after the other in one tensor.
fn multi(case: &mut Case<'_>, network: &mut Network, x: &Source, direction: Direction) -> Result<Source, ImportError> {
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

/// The name of a cell's state in the case of what holds it: a state that is one tensor has the name of its cell.
fn within(scope: &str, state: &str) -> String {
    if state == "state" { scope.to_owned() } else { format!("{scope}_{state}") }
}

/// The cell reads `act(x K + b)`.
fn input_projection(
    case: &mut Case<'_>,
    network: &mut Network,
    x: &Source,
    direction: Direction,
) -> Result<Source, ImportError> {
    let activation = case.activation("activation", Activation::Identity)?;
    let projection = dense(case, activation)?;
    case.units("num_proj", projection.output_size)?;
    let projected = network.add(projection, &[x]);
    wrapped(case, network, &projected, direction)
}

/// `y = act(cell(x) K + b)`.
fn output_projection(
    case: &mut Case<'_>,
    network: &mut Network,
    x: &Source,
    direction: Direction,
) -> Result<Source, ImportError> {
    let activation = case.activation("activation", Activation::Identity)?;
    let projection = dense(case, activation)?;
    case.units("output_size", projection.output_size)?;
    let output = wrapped(case, network, x, direction)?;
    Ok(network.add(projection, &[&output]))
}

/// `y = x + cell(x)`
fn residual(
    case: &mut Case<'_>,
    network: &mut Network,
    x: &Source,
    direction: Direction,
) -> Result<Source, ImportError> {
    let output = wrapped(case, network, x, direction)?;
    Ok(network.add(Layer::merge("add", 2, output.size()), &[x, &output]))
}

/// `y = t x + (1 - t) cell(x)` with `t = σ(x carry_w + carry_b)`; where the gates are not coupled, the cell's own is
/// `σ(x transform_w + transform_b)` and not `1 - t`.
fn highway(
    case: &mut Case<'_>,
    network: &mut Network,
    x: &Source,
    direction: Direction,
) -> Result<Source, ImportError> {
    // An initial value of the biases.
    case.ignore("carry_bias_init");
    let gate = |name: &str, case: &mut Case<'_>, network: &mut Network| -> Result<Source, ImportError> {
        let weights = format!("{name}_w");
        let weights = case.named(&weights)?;
        let bias = format!("{name}_b");
        let bias = case.named(&bias)?.shaped(&[x.size()], x.size())?;
        let weights = weights.transposed(0, weights.matrix()?.0)?;
        Ok(network.add(Layer::dense(weights, Some(bias), Activation::Sigmoid), &[x]))
    };
    let carry = gate("carry", case, network)?;
    if case.flag("couple_carry_transform_gates", true)? {
        let output = wrapped(case, network, x, direction)?;
        return Ok(network.add(Layer::merge("blend", 3, x.size()), &[x, &output, &carry]));
    }
    let transform = gate("transform", case, network)?;
    let output = wrapped(case, network, x, direction)?;
    let carried = network.add(Layer::merge("multiply", 2, x.size()), &[x, &carry]);
    let transformed = network.add(Layer::merge("multiply", 2, x.size()), &[&output, &transform]);
    Ok(network.add(Layer::merge("add", 2, x.size()), &[&carried, &transformed]))
}

/// The only cell within a wrapper, with the parameters that the wrapper has left.
fn wrapped(
    case: &mut Case<'_>,
    network: &mut Network,
    x: &Source,
    direction: Direction,
) -> Result<Source, ImportError> {
    let Some(call) = case.text("cell")? else {
        return Err(ImportError::Unsupported(format!("{} without a cell", case.cls)));
    };
    case.cell(&call, &[], |case| add(case, network, x, direction))
}

/// A wrapper's own `kernel` [input, output] and `bias`.
fn dense(case: &mut Case<'_>, activation: Activation) -> Result<Layer, ImportError> {
    cells::dense(case.tensor("kernel")?, case.tensor("bias")?, activation)
}
