//! A WaveNet (van den Oord et al. 2016): dilated causal convolutions with residual connections, whose outputs are added up
//! for a head.
//!
//! The samples before the first one are silence. Over silence the values of the network are constant, but not 0, because its
//! layers have biases. Therefore each value before a convolution is stored minus its value in silence, and the biases
//! compensate the difference. The zeros with which a delay starts then stand for silence.

use tidegate::internals::{activation::Activation, cell::CellKind};

use super::config::{PostHead, Stack, Step, WaveNet};
use super::{Weights, malformed};
use crate::canonical::{MAX_NODES, Tensor};
use crate::error::Result;
use crate::format::network::Source;
use crate::format::refuse::limit_if;
use crate::format::{Layer, Network};

/// A value of the network.
#[derive(Clone)]
struct Value {
    source: Source,
    /// The true value in silence.
    silent: Vec<f64>,
    /// The true value less the one that the model computes.
    shift: Vec<f64>,
}

/// A convolution of a value: its weights are `[outputs, inputs, kernel]`, and the last tap is the newest sample.
struct Taps<'v> {
    of: &'v Value,
    kernel: usize,
    dilation: usize,
    weights: Tensor,
}

pub(super) fn add(network: &mut Network, config: WaveNet, weights: &mut Weights) -> Result<()> {
    let WaveNet { stacks, head: post } = config;
    let Some(first) = stacks.first() else { return malformed("its layers are empty".into()) };
    first.check()?;
    let counts = stacks.iter().map(Stack::least_nodes).collect::<Result<Vec<usize>>>()?;
    let nodes = counts.into_iter().fold(0_usize, usize::saturating_add);
    limit_if(nodes > MAX_NODES, MAX_NODES, "nodes")?;
    let silence = vec![0.0; first.input_size];
    let source = network.input("input", first.input_size);
    let input = Value { source, silent: silence.clone(), shift: silence };
    let (mut x, mut head): (Value, Option<Value>) = (input.clone(), None);
    for (at, stack) in stacks.iter().enumerate() {
        stack.check()?;
        if stack.input_size != x.silent.len() || stack.condition_size != input.silent.len() {
            return malformed(format!(
                "its layers have an input_size of {} and a condition_size of {}, but get {} and {} values",
                stack.input_size,
                stack.condition_size,
                x.silent.len(),
                input.silent.len()
            ));
        }
        // The last weight scales the head of the last stack.
        let is_last = at + 1 == stacks.len();
        let scale = weights.all.last().filter(|_| is_last).map_or(1.0, |&scale| f64::from(scale));
        let mut stage = Stage { network: &mut *network, weights: &mut *weights };
        let (next, sum) = stage.stack(stack, &x, &input, head, is_last)?;
        head = Some(stage.head(stack, sum, scale)?);
        x = next;
    }
    let Some(mut y) = head else { return malformed("its layers are empty".into()) };
    if let Some(post) = post {
        y = Stage { network, weights }.post(&post, y)?;
    }
    weights.tensor(&[1])?;
    network.output("output", &y.source);
    Ok(())
}

struct Stage<'n> {
    network: &'n mut Network,
    weights: &'n mut Weights,
}

impl Stage<'_> {
    /// The layers of a stack. Returns the last one's output, and the sum of all for the head. The head of the stack before,
    /// if there is one, is part of the sum.
    fn stack(
        &mut self,
        stack: &Stack,
        x: &Value,
        condition: &Value,
        head_before: Option<Value>,
        is_last: bool,
    ) -> Result<(Value, Value)> {
        let (channels, inner) = (stack.channels, stack.bottleneck());
        let mut x = self.matrix(x, channels, false, Shift::Silent)?;
        let mut parts: Vec<Value> = head_before.into_iter().collect();
        let (steps, head_channels) = (stack.steps()?, stack.head_channels()?);
        for (at, step) in steps.iter().enumerate() {
            let y = self.layer(&x, condition, step, inner)?;
            if stack.has_pointwise() {
                let is_read = !(is_last && at + 1 == steps.len());
                x = self.residual(x, &y, channels, is_read)?;
            }
            parts.push(match head_channels {
                Some(channels) => self.matrix(&y, channels, true, Shift::None)?,
                None => y,
            });
        }
        Ok((x, self.sum(&parts)?))
    }

    /// The head of a stack, times `scale`: a convolution of the sum of its layers.
    fn head(&mut self, stack: &Stack, sum: Value, scale: f64) -> Result<Value> {
        let head = stack.head()?;
        let sum = if head.kernel_size > 1 { self.relative(sum) } else { sum };
        let shape = [head.out_channels, sum.silent.len(), head.kernel_size];
        let weights = scaled(self.weights.tensor(&shape)?, scale);
        let bias = if head.bias { scaled(self.weights.tensor(&[head.out_channels])?, scale).data } else { Vec::new() };
        let taps = Taps { of: &sum, kernel: head.kernel_size, dilation: head.head_dilation, weights };
        Ok(self.convolution(&[taps], &bias, Activation::Identity, Shift::None))
    }

    /// The convolution of a layer over its input and the condition, with its activation and gate.
    fn layer(&mut self, x: &Value, condition: &Value, step: &Step, inner: usize) -> Result<Value> {
        let outputs = if step.gate.is_some() { 2 * inner } else { inner };
        let conv = self.weights.tensor(&[outputs, x.silent.len(), step.kernel])?;
        let bias = self.weights.tensor(&[outputs])?.data;
        let mixed = self.weights.tensor(&[outputs, condition.silent.len(), 1])?;
        let taps = Taps { of: x, kernel: step.kernel, dilation: step.dilation, weights: conv };
        let mixed = Taps { of: condition, kernel: 1, dilation: 1, weights: mixed };
        // Both halves read the same delays.
        let sources = self.sources(&[&taps, &mixed]);
        let mut half = |from: usize, activation: Activation| {
            let taps = [taps.rows(from, inner), mixed.rows(from, inner)];
            self.dense(&sources, &taps, &bias[from..from + inner], activation, Shift::None)
        };
        let y = half(0, step.activation);
        let Some(gate) = step.gate else { return Ok(y) };
        let gate = half(inner, gate);
        let silent = y.silent.iter().zip(&gate.silent).map(|(y, gate)| y * gate).collect();
        let source = self.network.add(Layer::merge("multiply", 2, inner), &[&y.source, &gate.source]);
        Ok(Value { source, silent, shift: y.shift })
    }

    /// The input of a layer and its output through a matrix, added up. Nothing is added to the network unless the sum is
    /// read.
    fn residual(&mut self, x: Value, y: &Value, channels: usize, is_read: bool) -> Result<Value> {
        if !is_read {
            self.weights.tensor(&[channels, y.silent.len()])?;
            self.weights.tensor(&[channels])?;
            return Ok(x);
        }
        let y = self.matrix(y, channels, true, Shift::Silent)?;
        self.sum(&[x, y])
    }

    /// Activations and convolutions behind all layers.
    fn post(&mut self, post: &PostHead, mut y: Value) -> Result<Value> {
        post.check()?;
        let (activation, inputs) = (post.activation()?, y.silent.len());
        if post.in_channels.is_some_and(|channels| channels != inputs) {
            return malformed(format!("the in_channels of its head are not the {inputs} values before it"));
        }
        for (at, &kernel) in post.kernel_sizes.0.iter().enumerate() {
            let size = y.silent.len();
            let outputs = if at + 1 == post.kernel_sizes.0.len() { post.out_channels } else { post.channels };
            let layer = Layer::new(CellKind::Activation, size, size).activation("activation", activation);
            let source = self.network.add(layer, &[&y.source]);
            let silent = y.silent.iter().map(|&value| applied(activation, value)).collect();
            let active = Value { source, silent, shift: vec![0.0; size] };
            let active = if kernel > 1 { self.relative(active) } else { active };
            let weights = self.weights.tensor(&[outputs, size, kernel])?;
            let bias = self.weights.tensor(&[outputs])?.data;
            let taps = Taps { of: &active, kernel, dilation: 1, weights };
            y = self.convolution(&[taps], &bias, Activation::Identity, Shift::None);
        }
        Ok(y)
    }

    /// A matrix times a value, and a bias.
    fn matrix(&mut self, of: &Value, outputs: usize, has_bias: bool, shift: Shift) -> Result<Value> {
        let weights = self.weights.tensor(&[outputs, of.silent.len(), 1])?;
        let bias = if has_bias { self.weights.tensor(&[outputs])?.data } else { Vec::new() };
        let taps = Taps { of, kernel: 1, dilation: 1, weights };
        Ok(self.convolution(&[taps], &bias, Activation::Identity, shift))
    }

    fn sum(&mut self, parts: &[Value]) -> Result<Value> {
        let [first, others @ ..] = parts else { return malformed("it has no layers".into()) };
        if others.is_empty() {
            return Ok(first.clone());
        }
        let size = first.silent.len();
        if let Some(other) = others.iter().find(|other| other.silent.len() != size) {
            return malformed(format!("its layers add {} values to {size}", other.silent.len()));
        }
        let sources: Vec<&Source> = parts.iter().map(|part| &part.source).collect();
        let source = self.network.add(Layer::merge("add", parts.len(), size), &sources);
        let total = |of: fn(&Value) -> &[f64]| {
            (0..size).map(|channel| parts.iter().map(|part| of(part)[channel]).sum()).collect()
        };
        Ok(Value { source, silent: total(|part| &part.silent), shift: total(|part| &part.shift) })
    }

    /// The same value, relative to that in silence.
    fn relative(&mut self, x: Value) -> Value {
        if x.shift == x.silent {
            return x;
        }
        let bias: Vec<f32> = x.shift.iter().zip(&x.silent).map(|(shift, silent)| (shift - silent) as f32).collect();
        let size = bias.len();
        let layer = Layer::new(CellKind::Scale, size, size).extent("channels", size);
        let layer = layer.tensor("bias", Tensor { shape: vec![size], data: bias });
        Value { source: self.network.add(layer, &[&x.source]), shift: x.silent.clone(), ..x }
    }

    /// `act(Σ taps + bias)` as one dense layer over the taps of all values. A value with several taps must be relative to
    /// that in silence.
    fn convolution(&mut self, taps: &[Taps<'_>], bias: &[f32], activation: Activation, shift: Shift) -> Value {
        let sources = self.sources(&taps.iter().collect::<Vec<_>>());
        self.dense(&sources, taps, bias, activation, shift)
    }

    /// The same over the samples under the taps, which are `sources`.
    fn dense(
        &mut self,
        sources: &[Source],
        taps: &[Taps<'_>],
        bias: &[f32],
        activation: Activation,
        shift: Shift,
    ) -> Value {
        let outputs = taps.first().map_or(0, |taps| taps.weights.shape[0]);
        let row = |row: usize| taps.iter().flat_map(move |taps| taps.row(row));
        let data: Vec<f32> = (0..outputs).flat_map(row).collect();
        let bias = |at: usize| bias.get(at).map_or(0.0, |&bias| f64::from(bias));
        let with = |of: fn(&Value) -> &[f64]| -> Vec<f64> {
            (0..outputs)
                .map(|at| bias(at) + taps.iter().map(|taps| taps.constant(at, of(taps.of))).sum::<f64>())
                .collect()
        };
        let (biases, sums) = (with(|of| &of.shift), with(|of| &of.silent));
        let silent: Vec<f64> = sums.iter().map(|&sum| applied(activation, sum)).collect();
        let shift = match shift {
            Shift::None => vec![0.0; outputs],
            Shift::Silent => silent.clone(),
        };
        let bias = biases.iter().zip(&shift).map(|(bias, shift)| (bias - shift) as f32).collect();
        let columns = data.len() / outputs.max(1);
        let (weights, bias) =
            (Tensor { shape: vec![outputs, columns], data }, Tensor { shape: vec![outputs], data: bias });
        let layer = Layer::dense(weights, Some(bias), activation);
        let source = self.network.add(layer, &sources.iter().collect::<Vec<_>>());
        Value { source, silent, shift }
    }

    /// The samples under all taps.
    fn sources(&mut self, taps: &[&Taps<'_>]) -> Vec<Source> {
        taps.iter().flat_map(|taps| self.delayed(taps)).collect()
    }

    /// The samples under the taps, the oldest first.
    fn delayed(&mut self, taps: &Taps<'_>) -> Vec<Source> {
        let (x, size) = (&taps.of.source, taps.of.silent.len());
        if taps.dilation == 1 && taps.kernel > 1 {
            return vec![self.network.frames(x, taps.kernel, 1, taps.kernel - 1).flat()];
        }
        let mut sources = vec![x.clone()];
        for _ in 1..taps.kernel {
            let layer = Layer::new(CellKind::Delay, size, size).extent("steps", taps.dilation);
            let delayed = self.network.add(layer, &[&sources[sources.len() - 1]]);
            sources.push(delayed);
        }
        sources.reverse();
        sources
    }
}

/// The constant that is subtracted from a value.
#[derive(Clone, Copy)]
enum Shift {
    None,
    /// The value in silence.
    Silent,
}

impl Taps<'_> {
    /// The taps of `count` outputs from output `from` on.
    fn rows(&self, from: usize, count: usize) -> Self {
        let size = self.of.silent.len() * self.kernel;
        let data = self.weights.data[from * size..][..count * size].to_vec();
        let weights = Tensor { shape: [&[count], &self.weights.shape[1..]].concat(), data };
        Taps { weights, ..*self }
    }

    /// The weights of an output in the order of [`Stage::delayed`].
    fn row(&self, output: usize) -> Vec<f32> {
        let inputs = self.of.silent.len();
        let weights = &self.weights.data[output * inputs * self.kernel..][..inputs * self.kernel];
        (0..self.kernel).flat_map(|tap| (0..inputs).map(move |input| weights[input * self.kernel + tap])).collect()
    }

    /// The sum of an output for constant inputs.
    fn constant(&self, output: usize, inputs: &[f64]) -> f64 {
        let len = inputs.len() * self.kernel;
        let weights = &self.weights.data[output * len..][..len];
        weights.iter().enumerate().map(|(at, &weight)| f64::from(weight) * inputs[at / self.kernel]).sum()
    }
}

fn scaled(mut tensor: Tensor, scale: f64) -> Tensor {
    for value in &mut tensor.data {
        *value = (f64::from(*value) * scale) as f32;
    }
    tensor
}

fn applied(activation: Activation, x: f64) -> f64 {
    activation.apply(x as f32).into()
}
