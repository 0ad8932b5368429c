//! Continuous-time networks: `CfC` and `LTC` of `ncps.torch`, and `Cfc` of raminmh/CfC, from which those come. Linear
//! layers are [out, in], the synapses of an LTC [source, target].
//!
//! The input `timespans`, where a case has it, is the last feature that a cell reads; else the time is 1. A wiring with
//! layers is a chain of cells. A mixed memory in front of such a chain would read the states of all of its cells, which
//! no cell does: it is refused.

use tidegate::activation::Activation;
use tidegate::cell::CellKind;
use tidegate::gate::{Gate, LSTM};

use super::golden::Case;
use super::layer::{At, Layer};
use super::network::{Network, Source};
use super::weights::{Named, reordered, stacked};
use crate::canonical::Tensor;
use crate::error::ImportError;

/// The order of the gates in the LSTM of a mixed memory.
const MEMORY_ORDER: [Gate; 4] = [Gate::Cell, Gate::Input, Gate::Forget, Gate::Output];
/// What that LSTM adds to its forget gate.
const FORGET_BIAS: f32 = 1.0;
/// ncps's activation of a backbone, where it is not given.
const LECUN_TANH: Activation = Activation::ScaledTanh { alpha: 1.7159, beta: 0.666 };
/// What an LTC adds to what it divides by, where it is not given.
const EPSILON: f32 = 1e-8;

/// The network of an `ncps` case.
pub(crate) fn convert(case: &mut Case<'_>) -> Result<Network, ImportError> {
    case.ignore("batch_first");
    case.must_be("return_sequences", true)?;
    let wired = case.text("wiring")?.is_some();
    let mixed = case.flag("mixed_memory", false)?;
    match case.cls.as_str() {
        "CfC" => {
            let mode = Mode::read(case.text("mode")?.as_deref())?;
            let activation = case.activation("activation", LECUN_TANH)?;
            // Tensors tell the sizes of the backbone, and where dropout layers stand between them.
            for argument in ["backbone_units", "backbone_layers", "backbone_dropout", "proj_size"] {
                case.ignore(argument);
            }
            cfc(case, &Cfc { wired, mixed, mode, activation, units: "units", input_size: "input_size" })
        }
        "LTC" => {
            let implicit = case.flag("implicit_param_constraints", true)?;
            let epsilon = case.number("epsilon")?.unwrap_or(EPSILON);
            let unfolds = case.size("ode_unfolds")?.unwrap_or(6);
            let mapped = |name: Option<String>| name.is_none_or(|name| matches!(name.as_str(), "affine" | "linear"));
            let (input, output) = (mapped(case.text("input_mapping")?), mapped(case.text("output_mapping")?));
            let features = case.input_size()?;
            case.units("input_size", features)?;
            let synapses = Ltc { implicit, epsilon, unfolds, mapped: [input, output] };
            let timed = case.has_input("timespans");
            let mut layer = synapses.read(case, features, timed)?;
            if wired {
                // A wiring has more neurons than its argument says.
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
            if let Some(scale) = output_mapping(case, output, motor)? {
                y = network.add(scale, &[&y]);
            }
            network.output("output", &y);
            Ok(network)
        }
        _ => case.unknown_class(),
    }
}

/// The network of a `cfc` case.
pub(crate) fn convert_original(case: &mut Case<'_>) -> Result<Network, ImportError> {
    if case.cls != "Cfc" {
        return case.unknown_class();
    }
    case.ignore("return_sequences");
    case.size("out_feature")?;
    case.spread("hparams")?;
    // What only training sees, or the tensors tell.
    for argument in ["backbone_units", "backbone_layers", "backbone_dr", "init", "optimizer", "optim", "base_lr"] {
        case.ignore(argument);
    }
    for argument in ["decay_lr", "weight_decay", "clipnorm", "epochs", "batch_size", "class_weight", "size"] {
        case.ignore(argument);
    }
    let mode = match (case.flag("minimal", false)?, case.flag("no_gate", false)?) {
        (true, _) => Mode::Pure,
        (false, true) => Mode::NoGate,
        (false, false) => Mode::Default,
    };
    let mixed = case.flag("use_mixed", false)?;
    let activation = match case.text("backbone_activation")?.as_deref() {
        None | Some("lecun") => LECUN_TANH,
        Some("silu") => Activation::Silu,
        Some("relu") => Activation::Relu,
        Some("tanh") => Activation::Tanh,
        Some(name) => return Err(ImportError::Unsupported(format!("argument backbone_activation = {name:?}"))),
    };
    if !case.flag("use_ltc", false)? {
        let (units, input_size) = ("hidden_size", "in_features");
        return cfc(case, &Cfc { wired: false, mixed, mode, activation, units, input_size });
    }
    // Its time is one more than the time that is given, and nothing maps its output.
    let features = case.input_size()?;
    case.units("in_features", features)?;
    if !case.has_input("timespans") {
        return Err(ImportError::Unsupported("Cfc without timespans".into()));
    }
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

/// How the state of a CfC follows from its features.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Default,
    NoGate,
    Pure,
}

impl Mode {
    fn read(name: Option<&str>) -> Result<Self, ImportError> {
        match name {
            None | Some("default") => Ok(Self::Default),
            Some("no_gate") => Ok(Self::NoGate),
            Some("pure") => Ok(Self::Pure),
            Some(name) => Err(ImportError::Unsupported(format!("argument mode = {name:?}"))),
        }
    }
}

/// The arguments of a CfC, and the names of two of them.
struct Cfc {
    wired: bool,
    mixed: bool,
    mode: Mode,
    activation: Activation,
    units: &'static str,
    input_size: &'static str,
}

/// A chain of cells, and what reads the last.
fn cfc(case: &mut Case<'_>, arguments: &Cfc) -> Result<Network, ImportError> {
    let timed = case.has_input("timespans");
    let features = case.input_size()?;
    case.units(arguments.input_size, features)?;
    let mut network = Network::new();
    let mut y = network.input("input", features);
    let time = timed.then(|| network.input("timespans", 1));
    let mut layers = Vec::new();
    if arguments.wired {
        // A wiring has more neurons than its argument says, and no backbone.
        case.ignore(arguments.units);
        while case.peek(&format!("rnn_cell.layer_{}.ff1.weight", layers.len())).is_ok() {
            let scope = format!("rnn_cell.layer_{}", layers.len());
            layers.push(cell(case, &scope, arguments, timed)?);
        }
    } else {
        layers.push(cell(case, "rnn_cell", arguments, timed)?);
        case.units(arguments.units, layers[0].hidden_size)?;
    }
    if arguments.mixed {
        let [layer] = <[Layer; 1]>::try_from(layers).map_err(|layers| {
            ImportError::Unsupported(format!("mixed_memory before a wiring of {} layers", layers.len()))
        })?;
        layers = vec![mixed_memory(case, layer, features)?];
    }
    let mut first = 0;
    for layer in layers {
        let units = layer.hidden_size;
        let layer = layer.state("hidden", At::new("h").from(first));
        y = network.add(layer, &[Some(&y), time.as_ref()].into_iter().flatten().collect::<Vec<_>>());
        first += units;
    }
    let y = readout(case, &mut network, y)?;
    network.output("output", &y);
    Ok(network)
}

/// `fc`, where there is one.
fn readout(case: &mut Case<'_>, network: &mut Network, y: Source) -> Result<Source, ImportError> {
    match case.optional("fc.weight")? {
        None => Ok(y),
        Some(weights) => {
            let name = "fc.weight";
            let (rows, _) = Named { name, tensor: weights }.matrix()?;
            let bias = Named { name: "fc.bias", tensor: case.tensor("fc.bias")? }.shaped(&[rows], rows)?;
            Ok(network.add(Layer::dense(weights.clone(), Some(bias), Activation::Identity), &[&y]))
        }
    }
}

/// Weights and bias of a linear layer.
struct Linear {
    weights: Tensor,
    bias: Tensor,
}

impl Linear {
    fn read(case: &mut Case<'_>, name: &str) -> Result<Self, ImportError> {
        let weight = format!("{name}.weight");
        let named = Named { name: &weight, tensor: case.tensor(&weight)? };
        let (rows, _) = named.matrix()?;
        let bias = format!("{name}.bias");
        let bias = Named { name: &bias, tensor: case.tensor(&bias)? }.shaped(&[rows], rows)?;
        Ok(Self { weights: named.tensor.clone(), bias })
    }

    fn rows(&self) -> usize {
        self.weights.shape[0]
    }

    fn cols(&self) -> usize {
        self.weights.shape[1]
    }

    /// Its weights by those of a mask.
    fn masked(mut self, mask: Option<&Tensor>) -> Result<Self, ImportError> {
        if let Some(tensor) = mask {
            let mask = Named { name: "sparsity_mask", tensor }.shaped(&self.weights.shape, self.rows())?;
            self.weights = Tensor { shape: mask.shape, ..combined(&self.weights, &mask.data, |w, mask| w * mask) };
        }
        Ok(self)
    }

    /// The sum of two.
    fn plus(self, other: &Self) -> Result<Self, ImportError> {
        let weights = Named { name: "time_a.weight", tensor: &other.weights };
        let added = weights.shaped(&self.weights.shape, self.rows())?;
        Ok(Self {
            weights: combined(&self.weights, &added.data, |a, b| a + b),
            bias: combined(&self.bias, &other.bias.data, |a, b| a + b),
        })
    }
}

/// Element by element.
fn combined(a: &Tensor, b: &[f32], with: impl Fn(f32, f32) -> f32) -> Tensor {
    Tensor { shape: a.shape.clone(), data: a.data.iter().zip(b).map(|(&a, &b)| with(a, b)).collect() }
}

/// The linear layers of a backbone. Between two are an activation and perhaps a dropout.
fn backbone(case: &mut Case<'_>, scope: &str) -> Result<Vec<Linear>, ImportError> {
    let (mut layers, mut others, mut index) = (Vec::new(), 0, 0);
    while others < 3 {
        let name = format!("{scope}.backbone.{index}");
        if case.peek(&format!("{name}.weight")).is_ok() {
            layers.push(Linear::read(case, &name)?);
            others = 0;
        } else {
            others += 1;
        }
        index += 1;
    }
    Ok(layers)
}

/// The cell under this name.
fn cell(case: &mut Case<'_>, scope: &str, arguments: &Cfc, timed: bool) -> Result<Layer, ImportError> {
    let mask = case.optional(&format!("{scope}.sparsity_mask"))?;
    let start = Linear::read(case, &format!("{scope}.ff1"))?.masked(mask)?;
    let units = start.rows();
    let mut backbone = backbone(case, scope)?.into_iter();
    let front = backbone.next();
    let operand = front.as_ref().map_or(start.cols(), Linear::cols);
    let Some(features) = operand.checked_sub(units) else {
        return Err(ImportError::Unsupported(format!("{scope} of {units} units over {operand} features")));
    };
    let mut layer = Layer::new(CellKind::Cfc, features + usize::from(timed), units).extent("features", features);
    if timed {
        layer = layer.option("elapsed");
    }
    if let Some(front) = front {
        layer = layer.option("backbone").extent("backbone_units", front.rows());
        layer = layer.activation("backbone_activation", arguments.activation);
        layer = layer.tensor("backbone_weights", front.weights).tensor("backbone_bias", front.bias);
        let further = backbone.len();
        let stack = |top: Linear, bottom: Linear| Linear {
            weights: stacked(&top.weights, &bottom.weights),
            bias: stacked(&top.bias, &bottom.bias),
        };
        if let Some(deep) = backbone.reduce(stack) {
            layer = layer.option("deep").extent("further_layers", further);
            layer = layer.tensor("deep_weights", deep.weights).tensor("deep_bias", deep.bias);
        }
    }
    layer = layer.tensor("start_weights", start.weights).tensor("start_bias", start.bias);
    if arguments.mode == Mode::Pure {
        let mut vector = |name: &str| {
            let tensor = case.tensor(&format!("{scope}.{name}"))?;
            let data = Named { name, tensor }.shaped(&[1, units], units)?.data;
            Ok::<_, ImportError>(Tensor { shape: vec![units], data })
        };
        let (constant, asymptote) = (vector("w_tau")?, vector("A")?);
        return Ok(layer.option("pure").tensor("time_constant", constant).tensor("asymptote", asymptote));
    }
    if arguments.mode == Mode::NoGate {
        layer = layer.option("no_gate");
    }
    let end = Linear::read(case, &format!("{scope}.ff2"))?.masked(mask)?;
    let rate = Linear::read(case, &format!("{scope}.time_a"))?;
    let shift = Linear::read(case, &format!("{scope}.time_b"))?;
    layer = layer.tensor("end_weights", end.weights).tensor("end_bias", end.bias);
    let shift = if timed {
        layer = layer.tensor("rate_weights", rate.weights).tensor("rate_bias", rate.bias);
        shift
    } else {
        shift.plus(&rate)?
    };
    Ok(layer.tensor("shift_weights", shift.weights).tensor("shift_bias", shift.bias))
}

/// The layer with the LSTM in front of it.
fn mixed_memory(case: &mut Case<'_>, layer: Layer, features: usize) -> Result<Layer, ImportError> {
    let units = layer.hidden_size;
    let mut tensor = |name: &str, shape: &[usize]| Named { name, tensor: case.tensor(name)? }.shaped(shape, units);
    let input = tensor("lstm.input_map.weight", &[4 * units, features])?;
    let recurrent = tensor("lstm.recurrent_map.weight", &[4 * units, units])?;
    let mut bias = reordered(&tensor("lstm.input_map.bias", &[4 * units])?, MEMORY_ORDER, LSTM);
    bias.data[units..2 * units].iter_mut().for_each(|bias| *bias += FORGET_BIAS);
    Ok(layer
        .option("mixed_memory")
        .tensor("memory_input_weights", reordered(&input, MEMORY_ORDER, LSTM))
        .tensor("memory_recurrent_weights", reordered(&recurrent, MEMORY_ORDER, LSTM))
        .tensor("memory_bias", bias)
        .state("cell_state", At::new("c")))
}

/// The arguments of an LTC.
struct Ltc {
    /// Whether what must be positive is the softplus of what is stored.
    implicit: bool,
    epsilon: f32,
    unfolds: usize,
    /// Whether input and output have gains.
    mapped: [bool; 2],
}

impl Ltc {
    /// The cell of `features`, and the time where it is given.
    fn read(&self, case: &mut Case<'_>, features: usize, timed: bool) -> Result<Layer, ImportError> {
        let units = case.peek("rnn_cell.cm")?.data.len();
        let motor = match case.peek("rnn_cell.output_w") {
            Ok(gain) => gain.data.len(),
            Err(_) => case.noted_size("motor").unwrap_or(units),
        };
        let positive = |value: f32| if self.implicit { softplus(value) } else { f64::from(value) };
        let vector = |case: &mut Case<'_>, name: &str, len: usize| {
            let name = format!("rnn_cell.{name}");
            Ok::<_, ImportError>(Named { name: &name, tensor: case.tensor(&name)? }.shaped(&[len], units)?.data)
        };
        let mut layer = Layer::new(CellKind::Ltc, features + usize::from(timed), units)
            .extent("features", features)
            .extent("unfolds", self.unfolds);
        layer.output_size = motor;
        let mut gains = vec![1.0; features];
        if self.mapped[0] {
            gains = vector(case, "input_w", features)?;
        }
        let mut shifts = vec![0.0; features];
        if case.peek("rnn_cell.input_b").is_ok() {
            shifts = vector(case, "input_b", features)?;
        }
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

    /// Slope, shift, weights and drive, [target, source], of synapses from sources that are `gain · u + shift`:
    /// σ(m (gain u + shift - μ)).
    fn synapses(
        &self,
        case: &mut Case<'_>,
        side: &str,
        [sources, units]: [usize; 2],
        gains: &[f32],
        shifts: &[f32],
    ) -> Result<[Tensor; 4], ImportError> {
        let mut matrix = |name: &str| {
            let name = format!("rnn_cell.{side}{name}");
            let named = Named { name: &name, tensor: case.tensor(&name)? };
            named.shaped(&[sources, units], units)?;
            named.transposed(0, sources)
        };
        let (sigma, mu) = (matrix("sigma")?, matrix("mu")?);
        let (w, reversal) = (matrix("w")?, matrix("erev")?);
        // The original has no wiring.
        let name = format!("rnn_cell.{side}sparsity_mask");
        let mask = if case.peek(&name).is_ok() {
            let named = Named { name: &name, tensor: case.tensor(&name)? };
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

/// The gain and the shift of an LTC's output.
fn output_mapping(case: &mut Case<'_>, mapped: bool, motor: usize) -> Result<Option<Layer>, ImportError> {
    if !mapped {
        return Ok(None);
    }
    let mut vector = |name: &str| Named { name, tensor: case.tensor(name)? }.shaped(&[motor], motor);
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
