//! TensorFlow 1's `PhasedLSTMCell`, whose input is a pair: the time, then x. Its three kernels, one after the other, have
//! the canonical gates i, f, g, o.

use tidegate::cell::CellKind;

use crate::canonical::Tensor;
use crate::error::ImportError;
use crate::format::golden::Case;
use crate::format::layer::{At, Layer};
use crate::format::network::Network;
use crate::format::weights::{Named, stacked};

/// The tensors of a `PhasedLSTMCell`.
#[derive(Clone, Copy, Debug)]
pub struct PhasedLstm<'a> {
    /// `mask_gates/kernel`, [input + units, 2 * units], and `mask_gates/bias`: i, f.
    pub mask_gates: [&'a Tensor; 2],
    /// `new_input/kernel`, [input + units, units], and `new_input/bias`.
    pub new_input: [&'a Tensor; 2],
    /// `output_gate/kernel`, [input + units, units], and `output_gate/bias`.
    pub output_gate: [&'a Tensor; 2],
    /// `[units]`
    pub period: &'a Tensor,
    /// `[units]`
    pub phase: &'a Tensor,
    /// `[units]`
    pub ratio_on: &'a Tensor,
    /// `use_peepholes`: the kernels of the gates have as many rows more, of the old c for i and f, of the new for o.
    pub peepholes: bool,
    /// How far a closed unit is open at the end of its period.
    pub leak: f32,
    /// The time comes in as two numbers.
    pub split_time: bool,
}

impl PhasedLstm<'_> {
    /// The layer, which reads the time and then x.
    ///
    /// # Errors
    /// If a tensor has another shape, or a period is not positive.
    pub fn layer(&self) -> Result<Layer, ImportError> {
        let named = |name, tensor| Named { name, tensor };
        let [new_input, new_bias] = self.new_input;
        let new_input = named("new_input/kernel", new_input);
        let units = new_input.units(1)?;
        let (input_new, recurrent_new) = new_input.split_kernel(units)?;
        let input = input_new.shape[1];
        let rows = input + units;
        let [mask_gates, mask_bias] = self.mask_gates;
        let [output_gate, output_bias] = self.output_gate;
        let seen = if self.peepholes { rows + units } else { rows };
        let mask_gates = named("mask_gates/kernel", mask_gates);
        mask_gates.shaped(&[seen, 2 * units], units)?;
        let output_gate = named("output_gate/kernel", output_gate);
        output_gate.shaped(&[seen, units], units)?;
        let bias = stacked([
            &named("mask_gates/bias", mask_bias).shaped(&[2 * units], units)?,
            &named("new_input/bias", new_bias).shaped(&[units], units)?,
            &named("output_gate/bias", output_bias).shaped(&[units], units)?,
        ]);
        // Rows of x or of h of all gates.
        let blocks = |from, to, new: &Tensor| -> Result<Tensor, ImportError> {
            Ok(stacked([&mask_gates.transposed(from, to)?, new, &output_gate.transposed(from, to)?]))
        };
        if let Some(bad) = self.period.data.iter().find(|&&period| !(period > 0.0)) {
            return Err(ImportError::Unsupported(format!("a period of {bad}")));
        }
        let mut layer = Layer::new(CellKind::PhasedLstm, input + 1, units)
            .extent("features", input)
            .param("leak", self.leak)
            .tensor("input_weights", blocks(0, input, &input_new)?)
            .tensor("recurrent_weights", blocks(input, rows, &recurrent_new)?)
            .tensor("bias", bias)
            .tensor("period", named("period", self.period).shaped(&[units], units)?)
            .tensor("phase", named("phase", self.phase).shaped(&[units], units)?)
            .tensor("ratio_on", named("ratio_on", self.ratio_on).shaped(&[units], units)?);
        if self.split_time {
            layer = layer.option("split_time");
            layer.input_size += 1;
        }
        if self.peepholes {
            let mut of_gates = mask_gates.transposed(rows, seen)?;
            let of_forget = Tensor { shape: vec![units, units], data: of_gates.data.split_off(units * units) };
            of_gates.shape[0] = units;
            layer = layer
                .option("peephole")
                .tensor("input_peephole", of_gates)
                .tensor("forget_peephole", of_forget)
                .tensor("output_peephole", output_gate.transposed(rows, seen)?);
        }
        Ok(layer)
    }
}

/// The cell and its two inputs; three where the time is f64.
pub(super) fn convert(case: &mut Case<'_>) -> Result<Network, ImportError> {
    // Initial values.
    for argument in ["ratio_on", "trainable_ratio_on", "period_init_min", "period_init_max"] {
        case.ignore(argument);
    }
    let split_time = case.has_rest("input_time");
    let tensors = PhasedLstm {
        mask_gates: [case.tensor("mask_gates/kernel")?, case.tensor("mask_gates/bias")?],
        new_input: [case.tensor("new_input/kernel")?, case.tensor("new_input/bias")?],
        output_gate: [case.tensor("output_gate/kernel")?, case.tensor("output_gate/bias")?],
        period: case.tensor("period")?,
        phase: case.tensor("phase")?,
        ratio_on: case.tensor("ratio_on")?,
        peepholes: case.flag("use_peepholes", false)?,
        leak: case.number("leak")?.unwrap_or(0.001),
        split_time,
    };
    let layer = tensors.layer()?.state("hidden", At::new("h")).state("cell_state", At::new("c"));
    case.units("num_units", layer.hidden_size)?;
    let mut network = Network::new();
    let x = network.input("input", layer.extents["features"]);
    let time = network.input("input_time", 1);
    let output = if split_time {
        let rest = network.input("input_time_rest", 1);
        network.add(layer, &[&time, &rest, &x])
    } else {
        network.add(layer, &[&time, &x])
    };
    network.output("output", &output);
    Ok(network)
}
