//! The settings of a network in a file.

use serde::Deserialize;
use serde::de::IgnoredAny;
use tidegate::internals::activation::Activation;

use super::lists::{Curve, Few, Film, OneOrEach};
use super::malformed;
use crate::canonical::MAX_SIZE;
use crate::data::one_line;
use crate::error::Result;
use crate::format::array::Array;
use crate::format::refuse::unsupported_if;

pub(super) const LSTM: &str = "LSTM";
pub(super) const WAVENET: &str = "WaveNet";
/// A file of several networks of different sizes.
pub(super) const CONTAINER: &str = "SlimmableContainer";

/// The slope of LeakyReLU and PReLU for negative values, if the file names none.
const SLOPE: f32 = 0.01;

/// A network and its weights. Fields that describe how it was trained are ignored.
#[derive(Deserialize)]
pub(super) struct Model {
    pub architecture: String,
    pub config: Config,
    pub weights: Option<Array>,
    pub sample_rate: Option<f64>,
}

/// The fields of every architecture. Each architecture takes its own, and refuses the others.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Config {
    input_size: Option<usize>,
    hidden_size: Option<usize>,
    num_layers: Option<usize>,
    layers: Option<Few<Stack>>,
    head: Option<PostHead>,
    /// The last weight has this value too, and is used instead.
    head_scale: Option<IgnoredAny>,
    in_channels: Option<usize>,
    condition_dsp: Option<IgnoredAny>,
    submodels: Option<Few<Submodel>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Submodel {
    pub model: Box<Model>,
    #[serde(rename = "max_value")]
    _max_value: IgnoredAny,
}

pub(super) struct Lstm {
    pub input_size: usize,
    pub hidden_size: usize,
    pub num_layers: usize,
}

pub(super) struct WaveNet {
    pub stacks: Vec<Stack>,
    pub head: Option<PostHead>,
}

/// Layers of the same width in series, which share a head ("layer array").
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Stack {
    pub input_size: usize,
    pub condition_size: usize,
    pub channels: usize,
    dilations: Few<usize>,
    bottleneck: Option<usize>,
    kernel_size: Option<usize>,
    kernel_sizes: Option<Few<usize>>,
    activation: OneOrEach<Curve>,
    gated: Option<bool>,
    gating_mode: Option<OneOrEach<String>>,
    secondary_activation: Option<OneOrEach<Curve>>,
    head: Option<StackHead>,
    head_size: Option<usize>,
    head_bias: Option<bool>,
    layer1x1: Option<Pointwise>,
    head1x1: Option<Pointwise>,
    groups_input: Option<usize>,
    groups_input_mixin: Option<usize>,
    conv_pre_film: Option<Film>,
    conv_post_film: Option<Film>,
    input_mixin_pre_film: Option<Film>,
    input_mixin_post_film: Option<Film>,
    activation_pre_film: Option<Film>,
    activation_post_film: Option<Film>,
    layer1x1_post_film: Option<Film>,
    head1x1_post_film: Option<Film>,
    /// Smaller networks that the file can be cut to.
    #[serde(rename = "slimmable")]
    _slimmable: Option<IgnoredAny>,
}

/// The convolution over the sum of the layers' outputs.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StackHead {
    pub out_channels: usize,
    pub kernel_size: usize,
    pub bias: bool,
    #[serde(default = "one")]
    pub head_dilation: usize,
}

/// Convolutions behind all layers, each with the activation in front.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PostHead {
    pub channels: usize,
    pub out_channels: usize,
    pub kernel_sizes: Few<usize>,
    activation: Curve,
    pub in_channels: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Pointwise {
    active: bool,
    #[serde(default = "one")]
    groups: usize,
    out_channels: Option<usize>,
}

/// A layer of a stack.
pub(super) struct Step {
    pub kernel: usize,
    pub dilation: usize,
    pub activation: Activation,
    /// The activation of the gate, if there is one.
    pub gate: Option<Activation>,
}

fn one() -> usize {
    1
}

fn needed<T>(field: Option<T>, name: &str) -> Result<T> {
    field.map_or_else(|| malformed(format!("its config has no {name}")), Ok)
}

impl Config {
    /// Refuses fields that belong to another architecture.
    fn only(&self, architecture: &str, own: &[&str]) -> Result<()> {
        let fields = [
            ("input_size", self.input_size.is_some()),
            ("hidden_size", self.hidden_size.is_some()),
            ("num_layers", self.num_layers.is_some()),
            ("layers", self.layers.is_some()),
            ("head", self.head.is_some()),
            ("head_scale", self.head_scale.is_some()),
            ("in_channels", self.in_channels.is_some()),
            ("condition_dsp", self.condition_dsp.is_some()),
            ("submodels", self.submodels.is_some()),
        ];
        let other = fields.iter().find(|(name, is_there)| *is_there && !own.contains(name));
        let name = other.map_or("", |(name, _)| name);
        unsupported_if(other.is_some(), format_args!("{name} of the architecture {architecture}"))
    }

    pub fn submodels(self) -> Result<Vec<Submodel>> {
        self.only(CONTAINER, &["submodels"])?;
        Ok(needed(self.submodels, "submodels")?.0)
    }

    pub fn lstm(self) -> Result<Lstm> {
        self.only(LSTM, &["input_size", "hidden_size", "num_layers"])?;
        Ok(Lstm {
            input_size: needed(self.input_size, "input_size")?,
            hidden_size: needed(self.hidden_size, "hidden_size")?,
            num_layers: needed(self.num_layers, "num_layers")?,
        })
    }

    pub fn wavenet(self) -> Result<WaveNet> {
        self.only(WAVENET, &["layers", "head", "head_scale", "in_channels"])?;
        let stacks = needed(self.layers, "layers")?.0;
        let first = stacks.first().map_or(1, |stack| stack.input_size);
        let inputs = self.in_channels.unwrap_or(first);
        unsupported_if(inputs != first, format_args!("in_channels = {inputs} with layers of {first}"))?;
        Ok(WaveNet { stacks, head: self.head })
    }
}

/// The value of each of `count` layers.
fn each<T: Clone>(values: &OneOrEach<T>, count: usize, name: &str) -> Result<Vec<Option<T>>> {
    match values {
        OneOrEach::One(value) => Ok(vec![Some(value.clone()); count]),
        OneOrEach::Each(values) => of_each(values, count, name),
    }
}

fn of_each<T: Clone>(Few(values): &Few<T>, count: usize, name: &str) -> Result<Vec<T>> {
    if values.len() == count {
        return Ok(values.clone());
    }
    malformed(format!("its {name} has {} values for {count} layers", values.len()))
}

/// A size that a network can have.
fn size(value: usize, name: &str) -> Result<usize> {
    match value {
        1..=MAX_SIZE => Ok(value),
        _ => malformed(format!("its {name} is {value}, but must be from 1 to {MAX_SIZE}")),
    }
}

impl Stack {
    /// Checks the sizes, and refuses what is not read.
    pub fn check(&self) -> Result<()> {
        for (value, name) in [
            (self.input_size, "input_size"),
            (self.condition_size, "condition_size"),
            (self.channels, "channels"),
            (self.bottleneck(), "bottleneck"),
        ] {
            size(value, name)?;
        }
        if self.dilations.0.is_empty() {
            return malformed("its dilations are empty".into());
        }
        for (groups, name) in [
            (self.groups_input, "groups_input"),
            (self.groups_input_mixin, "groups_input_mixin"),
            (self.layer1x1.as_ref().map(|layer| layer.groups), "groups of layer1x1"),
            (self.head1x1.as_ref().map(|layer| layer.groups), "groups of head1x1"),
        ] {
            let groups = groups.unwrap_or(1);
            unsupported_if(groups != 1, format_args!("{name} = {groups}"))?;
        }
        for (film, name) in [
            (&self.conv_pre_film, "conv_pre_film"),
            (&self.conv_post_film, "conv_post_film"),
            (&self.input_mixin_pre_film, "input_mixin_pre_film"),
            (&self.input_mixin_post_film, "input_mixin_post_film"),
            (&self.activation_pre_film, "activation_pre_film"),
            (&self.activation_post_film, "activation_post_film"),
            (&self.layer1x1_post_film, "layer1x1_post_film"),
            (&self.head1x1_post_film, "head1x1_post_film"),
        ] {
            unsupported_if(film.as_ref().is_some_and(|film| film.active), name)?;
        }
        if !self.has_pointwise() && self.bottleneck() != self.channels {
            return malformed("its bottleneck differs from its channels, and it has no layer1x1".into());
        }
        Ok(())
    }

    /// The least number of nodes that it becomes: one for each layer and each delay.
    pub fn least_nodes(&self) -> Result<usize> {
        let delays = |kernel: usize, dilation: usize| if dilation > 1 { kernel.saturating_sub(1) } else { 0 };
        let of_head = self.head().map(|head| delays(head.kernel_size, head.head_dilation))?;
        let layers = self.steps()?.into_iter().map(|step| 1 + delays(step.kernel, step.dilation));
        Ok(layers.fold(of_head, usize::saturating_add))
    }

    pub fn bottleneck(&self) -> usize {
        self.bottleneck.unwrap_or(self.channels)
    }

    /// Whether a layer passes its output on through a matrix; otherwise it passes its input on.
    pub fn has_pointwise(&self) -> bool {
        self.layer1x1.as_ref().is_none_or(|layer| layer.active)
    }

    /// Number of outputs of the matrix between a layer and the head, if there is one.
    pub fn head_channels(&self) -> Result<Option<usize>> {
        match &self.head1x1 {
            Some(layer) if layer.active => {
                let channels = needed(layer.out_channels, "out_channels of head1x1")?;
                Ok(Some(size(channels, "out_channels of head1x1")?))
            }
            _ => Ok(None),
        }
    }

    /// The convolution over the sum of the layers' outputs.
    pub fn head(&self) -> Result<StackHead> {
        let head = match &self.head {
            Some(head) => head.clone(),
            None => StackHead {
                out_channels: needed(self.head_size, "head_size")?,
                kernel_size: 1,
                bias: needed(self.head_bias, "head_bias")?,
                head_dilation: 1,
            },
        };
        size(head.out_channels, "head_size")?;
        size(head.kernel_size, "kernel_size of the head")?;
        size(head.head_dilation, "head_dilation")?;
        Ok(head)
    }

    pub fn steps(&self) -> Result<Vec<Step>> {
        let count = self.dilations.0.len();
        let kernels = match (&self.kernel_size, &self.kernel_sizes) {
            (Some(kernel), None) => vec![*kernel; count],
            (None, Some(kernels)) => of_each(kernels, count, "kernel_sizes")?,
            _ => return malformed("its config needs either kernel_size or kernel_sizes".into()),
        };
        let gated = if self.gated == Some(true) { "gated" } else { "none" };
        let modes = match &self.gating_mode {
            Some(modes) => each(modes, count, "gating_mode")?,
            None => vec![Some(gated.to_owned()); count],
        };
        let gates = match &self.secondary_activation {
            Some(gates) => each(gates, count, "secondary_activation")?,
            None => vec![None; count],
        };
        let curves = each(&self.activation, count, "activation")?;
        let mut steps = Vec::with_capacity(count);
        for (at, (curve, gate)) in curves.iter().zip(&gates).enumerate() {
            let gate = match modes[at].as_deref() {
                None | Some("none") => None,
                Some("gated") => Some(gate.as_ref().map_or(Ok(Activation::Sigmoid), Curve::activation)?),
                Some(other) => {
                    unsupported_if(true, format_args!("gating_mode {:?}", one_line(other)))?;
                    None
                }
            };
            let curve = needed(curve.as_ref(), "activation for each layer")?;
            let (kernel, dilation) = (size(kernels[at], "kernel_size")?, size(self.dilations.0[at], "dilation")?);
            steps.push(Step { kernel, dilation, activation: curve.activation()?, gate });
        }
        Ok(steps)
    }
}

impl PostHead {
    /// Checks the sizes.
    pub fn check(&self) -> Result<()> {
        size(self.channels, "channels of the head")?;
        size(self.out_channels, "out_channels of the head")?;
        for &kernel in &self.kernel_sizes.0 {
            size(kernel, "kernel_sizes of the head")?;
        }
        if self.kernel_sizes.0.is_empty() {
            return malformed("the kernel_sizes of its head are empty".into());
        }
        Ok(())
    }

    pub fn activation(&self) -> Result<Activation> {
        self.activation.activation()
    }
}

impl Curve {
    fn activation(&self) -> Result<Activation> {
        unsupported_if(self.has_slopes, "negative_slopes, one for each channel,")?;
        let slope = self.slope.unwrap_or(SLOPE);
        Ok(match self.name.as_str() {
            "Tanh" => Activation::Tanh,
            "Hardtanh" => Activation::HardTanh,
            "ReLU" => Activation::Relu,
            "LeakyReLU" | "PReLU" => Activation::LeakyRelu { alpha: slope },
            "Sigmoid" => Activation::Sigmoid,
            "SiLU" => Activation::Silu,
            "Hardswish" => Activation::HardSwish,
            "Softsign" => Activation::Softsign,
            other => {
                unsupported_if(true, format_args!("activation {:?}", one_line(other)))?;
                Activation::Identity
            }
        })
    }
}
