//! `sru.SRU` of asappresearch's package: layers in sequence, each in one or both directions.
//!
//! A layer's weights are `[features, directions, units, k]`. The index k selects x̃, f, r, and W_s if the highway has a
//! projection because the number of features differs from that of the outputs. `weight_c` and `bias` are `[2,
//! directions, units]` for f and r. Matrices read the input after the layer normalization and the projection; a highway
//! without W_s reads the unchanged input.

use tidegate::internals::{activation::Activation, cell::CellKind};

use super::network::{Control, Direction, Idle, Network, Source};
use super::weights::{Named, stacked, zeros};
use super::{case::Case, case::agree, layer::At, layer::Layer, refuse::unsupported_if, stateless, torch};
use crate::{canonical::Tensor, error::Result};

/// ε of PyTorch's layer normalization.
const EPSILON: f32 = 1e-5;

pub(crate) fn convert(case: &mut Case<'_>) -> Result<Network> {
    if case.cls != "SRU" {
        return case.unknown_class();
    }
    // Arguments for training and initialization only.
    case.ignore_all(&["dropout", "rnn_dropout", "highway_bias", "v1", "weight_c_init"]);
    // Controls mixed precision; the cases have single precision.
    case.ignore("amp_recurrence_fp16");
    let bidirectional = case.flag("bidirectional", false)?;
    let arguments = Arguments {
        directions: if bidirectional { 2 } else { 1 },
        activation: if case.flag("use_tanh", false)? { Activation::Tanh } else { Activation::Identity },
        skip: case.flag("has_skip_term", true)?,
        rescale: case.flag("rescale", false)?,
        layer_norm: case.flag("layer_norm", false)?,
        normalize_after: case.flag("normalize_after", false)?,
        narrow: case.flag("nn_rnn_compatible_return", false)? && bidirectional,
    };
    let padded = case.has_input("mask_pad");
    case.control("mask_pad", Control::Padding);
    // Packed sequences.
    case.control("sequence_length", Control::Length);
    // The presence of the weights shows whether they are used.
    case.size("projection_size")?;
    let layers = case.size("num_layers")?.unwrap_or(2);
    let units = case.size("hidden_size")?;
    let input_size = case.input_size()?;
    case.units("input_size", input_size)?;

    let mut network = Network::new();
    if padded && arguments.layer_norm && arguments.normalize_after {
        // The normalization turns the zeros of a masked step into its bias.
        let bias = case.peek(&format!("rnn_lst.{}.layer_norm.bias", layers.saturating_sub(1)))?;
        network.idle = Idle::Always(bias.data.clone());
    }
    let input = network.input("input", input_size);
    let mut x = if bidirectional { network.window(&input, case.steps()?) } else { input };
    if case.flag("proj_input_to_hidden_first", false)?
        && let Some(projection) = torch::linear(case, "input_to_hidden")?
    {
        x = network.add(projection, &[&x]);
    }
    let mut halves = vec![x];
    for index in 0..layers {
        halves = layer(case, &mut network, &arguments, index, &halves)?;
        if let Some(units) = units {
            agree("hidden_size", units, size_of(&halves) / arguments.directions)?;
        }
    }
    let output = network.concat(&halves);
    network.output("output", &output);
    Ok(network)
}

struct Arguments {
    directions: usize,
    activation: Activation,
    skip: bool,
    rescale: bool,
    layer_norm: bool,
    normalize_after: bool,
    /// Whether the returned states are `[layers · directions, batch, units]`. The given states are `[layers, batch,
    /// directions · units]` in either case.
    narrow: bool,
}

fn size_of(sources: &[Source]) -> usize {
    sources.iter().map(Source::size).sum()
}

/// Adds one layer. Its input and its output are given as concatenated parts.
fn layer(
    case: &mut Case<'_>,
    network: &mut Network,
    arguments: &Arguments,
    index: usize,
    incoming: &[Source],
) -> Result<Vec<Source>> {
    let directions = arguments.directions;
    let name = |tensor: &str| format!("rnn_lst.{index}.{tensor}");
    let incoming: Vec<&Source> = incoming.iter().collect();
    let (mut features, mut separate) = (incoming.clone(), false);
    let normalized;
    if arguments.layer_norm && !arguments.normalize_after {
        normalized = network.add(layer_norm(case, &name("layer_norm"))?, &features);
        (features, separate) = (vec![&normalized], true);
    }
    let projected;
    let weight_proj = name("weight_proj");
    if let Some(tensor) = case.optional(&weight_proj)? {
        let named = Named { name: &weight_proj, tensor };
        let projection = named.transposed(0, named.matrix()?.0)?;
        projected = network.add(Layer::dense(projection, None, Activation::Identity), &features);
        (features, separate) = (vec![&projected], true);
    }
    let weights = Weights::read(case, index, directions)?;
    let given: usize = incoming.iter().map(|part| part.size()).sum();
    let found: usize = features.iter().map(|part| part.size()).sum();
    unsupported_if(
        weights.features != found,
        format_args!("layer {index} with weights of {} features over {found}", weights.features),
    )?;
    let scale = case.tensor(&name("scale_x"))?;
    let scale = if arguments.rescale { *scale.data.first().unwrap_or(&1.0) } else { 1.0 };
    let mut outputs = Vec::new();
    for direction in 0..directions {
        let mut cell = weights.cell(direction, arguments.activation);
        let mut read = features.clone();
        if weights.blocks == 3 && !arguments.skip {
            cell = cell.option("no_highway");
        } else if weights.blocks == 3 {
            unsupported_if(
                given != directions * weights.units,
                format_args!("layer {index} over {given} features without the weights of its highway"),
            )?;
            let mut skip = direction * weights.units;
            if separate {
                cell = cell.option("residual").extent("features", found);
                cell.input_size += given;
                read.extend(&incoming);
                skip += found;
            }
            cell = cell.param("highway_scale", scale).extent("skip", skip);
        }
        let mut at = At::new("c").index(index).from(direction * weights.units);
        if arguments.narrow {
            let given = Some((at.index, at.from));
            at = At { given, ..At::new("c").index(index * directions + direction) };
        }
        let way = if direction == 0 { Direction::Forward } else { Direction::Backward };
        outputs.push(network.directed(cell.state("cell_state", at), &read, way));
    }
    if arguments.layer_norm && arguments.normalize_after {
        let parts: Vec<&Source> = outputs.iter().collect();
        return Ok(vec![network.add(layer_norm(case, &name("layer_norm"))?, &parts)]);
    }
    Ok(outputs)
}

/// PyTorch's `nn.LayerNorm` under this name.
fn layer_norm(case: &mut Case<'_>, name: &str) -> Result<Layer> {
    let (weight, bias) = (format!("{name}.weight"), format!("{name}.bias"));
    let gain = case.tensor(&weight)?;
    let size = gain.data.len();
    let bias = case.named(&bias)?;
    Ok(stateless::layer_norm(size, EPSILON, Some(gain.clone()), Some(bias.shaped(&[size], size)?)))
}

/// The tensors of one layer, checked against each other.
struct Weights<'a> {
    /// `[features, directions, units, blocks]`
    weight: &'a Tensor,
    /// `[2, directions, units]`
    peephole: &'a Tensor,
    /// `[2, directions, units]`
    bias: &'a Tensor,
    features: usize,
    directions: usize,
    units: usize,
    blocks: usize,
}

impl<'a> Weights<'a> {
    fn read(case: &mut Case<'a>, index: usize, directions: usize) -> Result<Self> {
        let name = |tensor: &str| format!("rnn_lst.{index}.{tensor}");
        let mut tensor = |tensor: &str| case.tensor(&name(tensor));
        let (weight, peephole, bias) = (tensor("weight")?, tensor("weight_c")?, tensor("bias")?);
        let of_weight = name("weight");
        let named = Named { name: &of_weight, tensor: weight };
        let (features, cols) = named.matrix()?;
        let units = bias.data.len() / (2 * directions);
        for (vector, tensor) in [("weight_c", peephole), ("bias", bias)] {
            Named { name: &name(vector), tensor }.shaped(&[2 * directions * units], units)?;
        }
        let blocks = [3, 4].into_iter().find(|blocks| units > 0 && cols == directions * units * blocks);
        let refuse = || named.refuse(format!("each of {directions} times {units} units needs 3 or 4 columns"));
        let blocks = blocks.map_or_else(refuse, Ok)?;
        Ok(Self { weight, peephole, bias, features, directions, units, blocks })
    }

    fn cell(&self, direction: usize, activation: Activation) -> Layer {
        let Self { features, directions, units, blocks, .. } = *self;
        let row = |block: usize, unit: usize| {
            let column = (direction * units + unit) * blocks + block;
            self.weight.data.iter().skip(column).step_by(directions * units * blocks).copied()
        };
        let matrix = |block: usize| Tensor {
            shape: vec![units, features],
            data: (0..units).flat_map(|unit| row(block, unit)).collect(),
        };
        let part = |tensor: &Tensor, gate: usize| {
            let start = (gate * directions + direction) * units;
            Tensor { shape: vec![units], data: tensor.data[start..start + units].to_vec() }
        };
        let bias = stacked([&zeros(units), &part(self.bias, 0), &part(self.bias, 1)]);
        let cell = Layer::new(CellKind::Sru, features, units)
            .option("cell_gates")
            .tensor("input_weights", stacked(&[0, 1, 2].map(matrix)))
            .tensor("bias", bias)
            .tensor("forget_peephole", part(self.peephole, 0))
            .tensor("reset_peephole", part(self.peephole, 1))
            .activation("output_activation", activation);
        if blocks == 4 { cell.option("highway").tensor("highway_weights", matrix(3)) } else { cell }
    }
}
