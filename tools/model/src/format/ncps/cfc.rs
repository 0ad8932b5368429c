//! Closed-form continuous-time cells: a single cell over a backbone, or a chain of cells that a wiring defines.

use tidegate::internals::{activation::Activation, cell::CellKind};

use super::{mixed_memory, readout};
use crate::format::{case::Case, layer::At, layer::Layer, network::Network, weights::Named, weights::stacked};
use crate::{canonical::Tensor, error::ImportError, error::Result};

/// How a CfC computes its new state from its features.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Default,
    NoGate,
    Pure,
}

impl Mode {
    pub(super) fn read(name: Option<&str>) -> Result<Self> {
        match name {
            None | Some("default") => Ok(Self::Default),
            Some("no_gate") => Ok(Self::NoGate),
            Some("pure") => Ok(Self::Pure),
            Some(name) => Err(ImportError::Unsupported(format!("argument mode = {name:?}"))),
        }
    }
}

/// The arguments of a CfC. Two of them have different names in different classes.
pub(super) struct Cfc {
    pub wired: bool,
    pub mixed: bool,
    pub mode: Mode,
    pub activation: Activation,
    pub units: &'static str,
    pub input_size: &'static str,
}

/// A chain of cells and the readout of the last one.
pub(super) fn convert(case: &mut Case<'_>, arguments: &Cfc) -> Result<Network> {
    let timed = case.has_input("timespans");
    let features = case.input_size()?;
    case.units(arguments.input_size, features)?;
    let mut network = Network::new();
    let mut y = network.input("input", features);
    let time = timed.then(|| network.input("timespans", 1));
    let mut layers = Vec::new();
    if arguments.wired {
        // A wiring has more neurons than the argument states, and no backbone.
        case.ignore(arguments.units);
        while case.peek(&format!("rnn_cell.layer_{}.ff1.weight", layers.len())).is_ok() {
            layers.push(cell(case, &format!("rnn_cell.layer_{}", layers.len()), arguments, timed)?);
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

struct Linear {
    weights: Tensor,
    bias: Tensor,
}

impl Linear {
    fn read(case: &mut Case<'_>, name: &str) -> Result<Self> {
        let weight = format!("{name}.weight");
        let named = case.named(&weight)?;
        let (rows, _) = named.matrix()?;
        let bias = format!("{name}.bias");
        let bias = case.named(&bias)?.shaped(&[rows], rows)?;
        Ok(Self { weights: named.tensor.clone(), bias })
    }

    fn rows(&self) -> usize {
        self.weights.shape[0]
    }

    fn masked(mut self, mask: Option<&Tensor>) -> Result<Self> {
        if let Some(tensor) = mask {
            let mask = Named { name: "sparsity_mask", tensor }.shaped(&self.weights.shape, self.rows())?;
            self.weights = Tensor { shape: mask.shape, ..combined(&self.weights, &mask.data, |w, mask| w * mask) };
        }
        Ok(self)
    }

    fn plus(self, other: &Self) -> Result<Self> {
        let weights = Named { name: "time_a.weight", tensor: &other.weights };
        let added = weights.shaped(&self.weights.shape, self.rows())?;
        Ok(Self {
            weights: combined(&self.weights, &added.data, |a, b| a + b),
            bias: combined(&self.bias, &other.bias.data, |a, b| a + b),
        })
    }
}

fn combined(a: &Tensor, b: &[f32], with: impl Fn(f32, f32) -> f32) -> Tensor {
    Tensor { shape: a.shape.clone(), data: a.data.iter().zip(b).map(|(&a, &b)| with(a, b)).collect() }
}

/// The linear layers of a backbone. An activation and possibly a dropout come between two of them.
fn backbone(case: &mut Case<'_>, scope: &str) -> Result<Vec<Linear>> {
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

/// The cell whose tensor names begin with `scope`.
fn cell(case: &mut Case<'_>, scope: &str, arguments: &Cfc, timed: bool) -> Result<Layer> {
    let mask = case.optional(&format!("{scope}.sparsity_mask"))?;
    let start = Linear::read(case, &format!("{scope}.ff1"))?.masked(mask)?;
    let units = start.rows();
    let mut backbone = backbone(case, scope)?.into_iter();
    let front = backbone.next();
    let operand = front.as_ref().unwrap_or(&start).weights.shape[1];
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
            weights: stacked([&top.weights, &bottom.weights]),
            bias: stacked([&top.bias, &bottom.bias]),
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
