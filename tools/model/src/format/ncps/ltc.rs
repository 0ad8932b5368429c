//! Liquid time-constant cells. The masks of the wiring and the input mapping are folded into the synapses.

use tidegate::internals::cell::CellKind;

use super::{mixed_memory, readout};
use crate::format::{case::Case, layer::At, layer::Layer, network::Network, refuse::unsupported_if, weights::Named};
use crate::{canonical::Tensor, error::ImportError, error::Result};

/// Default of `epsilon`, which is added to the divisor of each unit.
const EPSILON: f32 = 1e-8;

pub(super) fn convert(case: &mut Case<'_>, wired: bool, mixed: bool) -> Result<Network> {
    let implicit = case.flag("implicit_param_constraints", true)?;
    let epsilon = case.number("epsilon")?.unwrap_or(EPSILON);
    let unfolds = case.size("ode_unfolds")?.unwrap_or(6);
    // The presence of these weights shows whether and how input and output are mapped.
    case.text("input_mapping")?;
    case.text("output_mapping")?;
    let mapped = ["input_w", "output_w"].map(|name| case.peek(&format!("rnn_cell.{name}")).is_ok());
    let features = case.input_size()?;
    case.units("input_size", features)?;
    let synapses = Ltc { implicit, epsilon, unfolds, mapped };
    let timed = case.has_input("timespans");
    let mut layer = synapses.read(case, features, timed)?;
    if wired {
        // A wiring has more neurons than the argument states.
        case.ignore("units");
    } else {
        case.units("units", layer.hidden_size)?;
    }
    if mixed {
        layer = mixed_memory(case, layer, features)?;
    }
    let mut network = Network::new();
    let x = network.input("input", features);
    let time = timed.then(|| network.input("timespans", 1));
    let motor = layer.output_size;
    let mut y = network.add(layer, &[Some(&x), time.as_ref()].into_iter().flatten().collect::<Vec<_>>());
    if let Some(scale) = output_mapping(case, mapped[1], motor)? {
        y = network.add(scale, &[&y]);
    }
    network.output("output", &y);
    Ok(network)
}

/// Converts the LTC of the original `Cfc`: its elapsed time is one more than the given time, and its output is not
/// mapped.
pub(super) fn convert_original(case: &mut Case<'_>, mixed: bool) -> Result<Network> {
    let features = case.input_size()?;
    case.units("in_features", features)?;
    unsupported_if(!case.has_input("timespans"), "Cfc without timespans")?;
    let synapses = Ltc { implicit: false, epsilon: EPSILON, unfolds: 6, mapped: [true, false] };
    let mut layer = synapses.read(case, features, true)?;
    case.units("hidden_size", layer.hidden_size)?;
    if mixed {
        layer = mixed_memory(case, layer, features)?;
    }
    let mut network = Network::new();
    let (x, time) = (network.input("input", features), network.input("timespans", 1));
    let one = Layer::new(CellKind::Scale, 1, 1).tensor("bias", Tensor { shape: vec![1], data: vec![1.0] });
    let time = network.add(one, &[&time]);
    let y = network.add(layer, &[&x, &time]);
    let y = readout(case, &mut network, y)?;
    network.output("output", &y);
    Ok(network)
}

struct Ltc {
    /// Whether parameters that must be positive are stored as the inverse of the softplus.
    implicit: bool,
    epsilon: f32,
    unfolds: usize,
    /// Whether input and output have gains.
    mapped: [bool; 2],
}

impl Ltc {
    /// The cell over `features` inputs, and the elapsed time if it is given.
    fn read(&self, case: &mut Case<'_>, features: usize, timed: bool) -> Result<Layer> {
        let units = case.peek("rnn_cell.cm")?.data.len();
        let motor = match case.peek("rnn_cell.output_w") {
            Ok(gain) => gain.data.len(),
            Err(_) => case.noted_size("motor").unwrap_or(units),
        };
        let positive = |value: f32| if self.implicit { softplus(value) } else { f64::from(value) };
        let vector = |case: &mut Case<'_>, name: &str, len: usize| {
            let name = format!("rnn_cell.{name}");
            Ok::<_, ImportError>(case.named(&name)?.shaped(&[len], units)?.data)
        };
        let mut layer = Layer::new(CellKind::Ltc, features + usize::from(timed), units)
            .extent("features", features)
            .extent("unfolds", self.unfolds);
        layer.output_size = motor;
        let gains = if self.mapped[0] { vector(case, "input_w", features)? } else { vec![1.0; features] };
        let shifted = case.peek("rnn_cell.input_b").is_ok();
        let shifts = if shifted { vector(case, "input_b", features)? } else { vec![0.0; features] };
        let input = self.synapses(case, "sensory_", [features, units], &gains, &shifts)?;
        let recurrent = self.synapses(case, "", [units, units], &vec![1.0; units], &vec![0.0; units])?;
        let [slope, shift, weights, drive] = input;
        layer = layer.tensor("input_slope", slope).tensor("input_shift", shift);
        layer = layer.tensor("input_weights", weights).tensor("input_drive", drive);
        let [slope, shift, weights, drive] = recurrent;
        layer = layer.tensor("recurrent_slope", slope).tensor("recurrent_shift", shift);
        layer = layer.tensor("recurrent_weights", weights).tensor("recurrent_drive", drive);
        let (leak, rest) = (vector(case, "gleak", units)?, vector(case, "vleak", units)?);
        let drive = leak.iter().zip(rest).map(|(&leak, rest)| (positive(leak) * f64::from(rest)) as f32).collect();
        let leak = leak.iter().map(|&leak| (positive(leak) + f64::from(self.epsilon)) as f32).collect();
        let capacitance = vector(case, "cm", units)?.iter().map(|&c| positive(c) as f32).collect();
        let tensor = |data| Tensor { shape: vec![units], data };
        Ok(layer
            .tensor("capacitance", tensor(capacitance))
            .tensor("leak", tensor(leak))
            .tensor("leak_drive", tensor(drive))
            .state("hidden", At::new("h")))
    }

    /// Slope, shift, weights and drive, each [target, source], of the synapses from sources mapped by `gain · u +
    /// shift`: σ(m (gain u + shift - μ)).
    fn synapses(
        &self,
        case: &mut Case<'_>,
        side: &str,
        [sources, units]: [usize; 2],
        gains: &[f32],
        shifts: &[f32],
    ) -> Result<[Tensor; 4]> {
        let mut matrix = |name: &str| {
            let name = format!("rnn_cell.{side}{name}");
            let named = case.named(&name)?;
            named.shaped(&[sources, units], units)?;
            named.transposed(0, sources)
        };
        let (sigma, mu) = (matrix("sigma")?, matrix("mu")?);
        let (w, reversal) = (matrix("w")?, matrix("erev")?);
        // The original class has no wiring.
        let name = format!("rnn_cell.{side}sparsity_mask");
        let mask = if case.peek(&name).is_ok() {
            let named = case.named(&name)?;
            named.shaped(&[sources, units], units)?;
            named.transposed(0, sources)?.data
        } else {
            vec![1.0; sources * units]
        };
        let by_source = |index: usize, of: &[f32]| f64::from(of[index % sources]);
        let made = |make: &dyn Fn(usize) -> f64| Tensor {
            shape: vec![units, sources],
            data: (0..units * sources).map(|index| make(index) as f32).collect(),
        };
        let at = |tensor: &Tensor, index: usize| f64::from(tensor.data[index]);
        let weight = |index: usize| {
            let w = w.data[index];
            f64::from(mask[index]) * if self.implicit { softplus(w) } else { f64::from(w) }
        };
        Ok([
            made(&|index| at(&sigma, index) * by_source(index, gains)),
            made(&|index| at(&sigma, index) * (by_source(index, shifts) - at(&mu, index))),
            made(&weight),
            made(&|index| weight(index) * at(&reversal, index)),
        ])
    }
}

/// Gain and bias that map an LTC's output, if it is mapped.
fn output_mapping(case: &mut Case<'_>, mapped: bool, motor: usize) -> Result<Option<Layer>> {
    if !mapped {
        return Ok(None);
    }
    let mut vector = |name: &str| case.named(name)?.shaped(&[motor], motor);
    let mut layer = Layer::new(CellKind::Scale, motor, motor).option("gain").extent("channels", motor);
    layer = layer.tensor("gain", vector("rnn_cell.output_w")?);
    if case.peek("rnn_cell.output_b").is_ok() {
        let bias = Named { name: "output_b", tensor: case.tensor("rnn_cell.output_b")? };
        layer = layer.tensor("bias", bias.shaped(&[motor], motor)?);
    }
    Ok(Some(layer))
}

/// ln(1 + e^x) in f64.
fn softplus(x: f32) -> f64 {
    let x = f64::from(x);
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}
