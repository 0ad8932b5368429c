//! TensorFlow 1's `PhasedLSTMCell`, whose input is a pair of the time and x. Its three kernels, one after the other,
//! contain the canonical gates i, f, g, o.

use tidegate::internals::cell::CellKind;

use super::{cells::Converted, cells::unsupported, classes::split_rows};
use crate::format::{case::Case, layer::At, layer::Layer, network::Network, weights::stacked};
use crate::{canonical::Tensor, error::ImportError, error::Result};

/// The cell and its two inputs, or three if the time is `f64`.
pub(super) fn convert(case: &mut Case<'_>) -> Result<Network> {
    // These only set initial values.
    case.ignore_all(&["ratio_on", "trainable_ratio_on", "period_init_min", "period_init_max"]);
    let split_time = case.has_rest("input_time");
    let mut layer = layer(case)?.state("hidden", At::new("h")).state("cell_state", At::new("c"));
    case.units("num_units", layer.hidden_size)?;
    let mut network = Network::new();
    let x = network.input("input", layer.extents["features"]);
    let mut inputs = vec![network.input("input_time", 1)];
    if split_time {
        layer.input_size += 1;
        layer.options.insert(0, "split_time");
        inputs.push(network.input("input_time_rest", 1));
    }
    inputs.push(x);
    let output = network.add(layer, &inputs.iter().collect::<Vec<_>>());
    network.output("output", &output);
    Ok(network)
}

/// The layer for the time followed by x. The kernels are `mask_gates/kernel` [input + units, 2 * units] of i, f,
/// `new_input/kernel` and `output_gate/kernel` [input + units, units]. With peepholes, those of the gates have `units`
/// additional rows, for the old c (i and f) or the new c (o).
fn layer(case: &mut Case<'_>) -> Converted {
    let (mask_gates, mask_bias) = (case.named("mask_gates/kernel")?, case.named("mask_gates/bias")?);
    let (new_input, new_bias) = (case.named("new_input/kernel")?, case.named("new_input/bias")?);
    let (output_gate, output_bias) = (case.named("output_gate/kernel")?, case.named("output_gate/bias")?);
    let (period, phase, ratio_on) = (case.named("period")?, case.named("phase")?, case.named("ratio_on")?);
    let peepholes = case.flag("use_peepholes", false)?;
    // Openness of a closed unit at the end of its period.
    let leak = case.number("leak")?.unwrap_or(0.001);

    let units = new_input.units(1)?;
    let (input_new, recurrent_new) = new_input.split_kernel(units)?;
    let input = input_new.shape[1];
    let rows = input + units;
    let seen = if peepholes { rows + units } else { rows };
    mask_gates.shaped(&[seen, 2 * units], units)?;
    output_gate.shaped(&[seen, units], units)?;
    let bias = stacked([
        &mask_bias.shaped(&[2 * units], units)?,
        &new_bias.shaped(&[units], units)?,
        &output_bias.shaped(&[units], units)?,
    ]);
    // Rows of x or of h, for all gates.
    let blocks = |from, to, new: &Tensor| {
        let parts = [&mask_gates.transposed(from, to)?, new, &output_gate.transposed(from, to)?];
        Ok::<_, ImportError>(stacked(parts))
    };
    if let Some(bad) = period.tensor.data.iter().find(|&&period| !(period > 0.0)) {
        return unsupported(format!("a period of {bad}"));
    }
    let layer = Layer::new(CellKind::PhasedLstm, input + 1, units)
        .extent("features", input)
        .param("leak", leak)
        .tensor("input_weights", blocks(0, input, &input_new)?)
        .tensor("recurrent_weights", blocks(input, rows, &recurrent_new)?)
        .tensor("bias", bias)
        .tensor("period", period.shaped(&[units], units)?)
        .tensor("phase", phase.shaped(&[units], units)?)
        .tensor("ratio_on", ratio_on.shaped(&[units], units)?);
    if !peepholes {
        return Ok(layer);
    }
    let (of_input, of_forget) = split_rows(mask_gates.transposed(rows, seen)?, units);
    Ok(layer
        .option("peephole")
        .tensor("input_peephole", of_input)
        .tensor("forget_peephole", of_forget)
        .tensor("output_peephole", output_gate.transposed(rows, seen)?))
}
