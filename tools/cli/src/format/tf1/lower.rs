//! Layers of what a graph computes. As long as every layer needs only what is there at a step, the network streams: a
//! convolution along time keeps the frames under its kernel. A layer that runs backwards, or a convolution that sees
//! zeros behind the last frame, makes the whole network look at windows of the graph's length.

use std::collections::HashMap;

use tidegate::activation::Activation;
use tidegate::cell::CellKind;

use super::evaluate::Evaluator;
use super::lower_kernel::time_axis;
use super::sequence::{self, MAX_DEPTH};
use super::symbol::{Arena, At, Dim, Expr, Id, Linear, Over, is_symbol};
use super::windowed::needs_window;
use crate::canonical::{MAX_NODES, MAX_SIZE, Tensor};
use crate::error::ImportError;
use crate::format::layer::Layer;
use crate::format::network::{Direction, Network, Source};
use crate::format::weights::Named;

/// Layers as they are made of expressions.
pub struct Lowering<'a, 'g> {
    pub(super) graph: &'a mut Evaluator<'g>,
    pub network: Network,
    known: HashMap<Id, Source>,
    /// Whether the whole of a sequence is looked at as one window.
    pub(super) windowed: bool,
    /// The input port, the node it is of, and whether its time stands first.
    input: Option<(Source, usize, bool)>,
    /// Whether what is read has its time first.
    time_first: bool,
    layers: usize,
    /// Steps of the input that the output needs; `None` where the graph leaves their number open.
    pub steps: Option<usize>,
}

impl<'a, 'g> Lowering<'a, 'g> {
    /// Layers for these outputs.
    pub fn new(graph: &'a mut Evaluator<'g>, outputs: &[Id]) -> Result<Self, ImportError> {
        let windowed = needs_window(&mut graph.arena, outputs);
        let mut network = Network::new();
        network.fresh = true;
        let steps = Some(0);
        Ok(Self { graph, network, known: HashMap::new(), windowed, input: None, time_first: false, layers: 0, steps })
    }

    /// The node of the input and its name.
    pub fn input_node(&self) -> Option<usize> {
        self.input.as_ref().map(|(_, node, _)| *node)
    }

    fn arena(&mut self) -> &mut Arena {
        &mut self.graph.arena
    }

    pub(super) fn fail<T>(&self, id: Id, reason: impl Into<String>) -> Result<T, ImportError> {
        self.graph.fail(self.graph.arena.origin_of(id), reason)
    }

    fn blame<T>(&self, id: Id, made: Result<T, String>) -> Result<T, ImportError> {
        made.or_else(|reason| self.fail(id, reason))
    }

    /// An output of the graph; whether it has one value for a sequence, not one for each step.
    pub fn output(&mut self, id: Id, name: &str) -> Result<bool, ImportError> {
        let id = match *self.graph.arena.expr(id) {
            Expr::Swap(inner) | Expr::Rows(inner) => inner,
            _ => id,
        };
        let id = match *self.graph.arena.expr(id) {
            Expr::Swap(inner) => inner,
            _ => id,
        };
        let shape = self.graph.arena.shape(id).to_vec();
        let needed = known_len(&shape, 1).filter(|_| shape.len() > 2);
        let source = self.lower(id, needed, 0)?;
        self.network.output(name, &source);
        Ok(shape.len() == 2)
    }

    /// The layer that gives this; `needed` steps of it count.
    pub(super) fn lower(&mut self, id: Id, needed: Option<usize>, depth: usize) -> Result<Source, ImportError> {
        if depth == MAX_DEPTH {
            return self.fail(id, format!("the network is deeper than {MAX_DEPTH}"));
        }
        if let Some(source) = self.known.get(&id) {
            return Ok(source.clone());
        }
        let source = self.layer(id, needed, depth + 1)?;
        self.known.insert(id, source.clone());
        Ok(source)
    }

    fn layer(&mut self, id: Id, needed: Option<usize>, depth: usize) -> Result<Source, ImportError> {
        let expr = self.graph.arena.expr(id).clone();
        let shape = self.graph.arena.shape(id).to_vec();
        // A cell that was unrolled: its last step.
        if shape.len() == 2
            && matches!(expr, Expr::Add(..) | Expr::Mul(..) | Expr::Linear(_) | Expr::Clip(..) | Expr::Unary(..))
            && let Some(steps) = sequence::chain(self.arena(), id)
        {
            let sequence = sequence::of_steps(self.arena(), &steps, 0);
            let sequence = self.blame(id, sequence)?;
            let last = self.arena().step(sequence, At::Last);
            let last = self.blame(id, last)?;
            return self.lower(last, None, depth);
        }
        match expr {
            Expr::Input(node) => self.port(id, node, &shape, needed),
            Expr::Swap(inner) => {
                self.time_first = !self.time_first;
                let source = self.lower(inner, needed, depth);
                self.time_first = !self.time_first;
                source
            }
            Expr::Rows(inner) => self.lower(inner, needed, depth),
            Expr::Stack(steps) => {
                let sequence = sequence::of_steps(self.arena(), &steps, 0);
                let sequence = self.blame(id, sequence)?;
                self.lower(sequence, needed, depth)
            }
            Expr::Step(sequence, at) => self.step(id, sequence, at, depth),
            Expr::Rnn(cell, x) => {
                let direction = match self.graph.arena.expr(x) {
                    Expr::Reverse(_) => Direction::BackwardAsProcessed,
                    _ => Direction::Forward,
                };
                self.rnn(cell, x, direction, needed, depth)
            }
            Expr::Reverse(x) => match *self.graph.arena.expr(x) {
                Expr::Rnn(cell, from) if matches!(self.graph.arena.expr(from), Expr::Reverse(_)) => {
                    self.rnn(cell, from, Direction::Backward, needed, depth)
                }
                _ => self.fail(id, "only a cell runs backwards"),
            },
            Expr::Reshape(inner) => self.reshape(id, inner, &shape, needed, depth),
            Expr::Softmax(x) => {
                let x = self.lower(x, needed, depth)?;
                self.add(Layer::new(CellKind::Softmax, x.size(), x.size()), &[&x])
            }
            Expr::Unary(activation, x) => {
                let activation = self.graph.arena.activation(activation);
                self.activated(x, activation, needed, depth)
            }
            Expr::Clip(x, a, b) if f32::from_bits(a) == -1.0 && f32::from_bits(b) == 1.0 => {
                self.activated(x, Activation::HardTanh, needed, depth)
            }
            Expr::Clip(..) => self.fail(id, "it clips what is neither the state of a cell nor to -1 and 1"),
            Expr::Affine(x, gain, shift) => {
                let (gain, shift) = (f32::from_bits(gain), f32::from_bits(shift));
                if let Expr::Linear(linear) = self.graph.arena.expr(x).clone() {
                    let scaled = self.arena().scaled_linear(linear, gain, shift);
                    let scaled = self.blame(id, scaled)?;
                    let Expr::Linear(linear) = self.graph.arena.expr(scaled).clone() else {
                        return self.fail(id, "it is no sum of products");
                    };
                    return self.dense(id, linear, Activation::Identity, needed, depth);
                }
                self.activated(x, Activation::Affine { alpha: gain, beta: shift }, needed, depth)
            }
            Expr::Linear(linear) => self.dense(id, linear, Activation::Identity, needed, depth),
            Expr::Add(a, b) => self.merge("add", a, b, needed, depth),
            Expr::Mul(a, b) => self.merge("multiply", a, b, needed, depth),
            Expr::Maximum(a, b) => self.merge("maximum", a, b, needed, depth),
            Expr::Concat(parts) => {
                let mut sources = Vec::new();
                for part in parts {
                    sources.push(self.lower(part, needed, depth)?);
                }
                Ok(self.network.concat(&sources))
            }
            Expr::Kernel(x, kernel, over) => {
                self.kernel(id, x, kernel, over, None, Activation::Identity, needed, depth)
            }
            Expr::Scale(x, gain, shift) => self.scale(id, x, (gain, shift), Activation::Identity, needed, depth),
            Expr::Norm(x, gain, shift, epsilon) => {
                let x = self.lower(x, needed, depth)?;
                let arena = &self.graph.arena;
                let vector = |id: Id| Tensor { shape: vec![arena.vector(id).len()], data: arena.vector(id).to_vec() };
                let layer = Layer::new(CellKind::LayerNorm, x.size(), x.size())
                    .param("epsilon", f32::from_bits(epsilon))
                    .option("gain")
                    .tensor("gain", vector(gain))
                    .tensor("bias", vector(shift));
                self.add(layer, &[&x])
            }
            Expr::Slice(..) => self.fail(id, "it takes some of the features, which no layer here does"),
            Expr::Variable(_) => self.fail(id, "the state of a loop is used outside of it"),
            Expr::Const(_) | Expr::Fill(_) => self.fail(id, "a constant stands where features must"),
        }
    }

    pub(super) fn add(&mut self, layer: Layer, inputs: &[&Source]) -> Result<Source, ImportError> {
        self.check(&layer)?;
        Ok(self.network.add(layer, inputs))
    }

    /// Whether there may be this layer too: a graph can use its weights in many.
    pub(super) fn check(&mut self, layer: &Layer) -> Result<(), ImportError> {
        self.layers += 1;
        if self.layers > MAX_NODES {
            return Err(ImportError::Unsupported(format!("a network of more than {MAX_NODES} layers")));
        }
        let values = layer.tensors.values().map(|tensor| tensor.data.len()).sum();
        self.arena().spend(values).map_err(|reason| ImportError::Malformed { format: "TensorFlow graph", reason })
    }

    fn port(&mut self, id: Id, node: usize, shape: &[Dim], needed: Option<usize>) -> Result<Source, ImportError> {
        let size = match shape {
            [_, size] => usize::try_from(*size).ok(),
            [_, _, rest @ ..] => rest.iter().map(|&dim| usize::try_from(dim).ok()).product(),
            _ => None,
        };
        self.feed(id, node, size, needed)
    }

    /// The input port of so many features for each step.
    fn feed(&mut self, id: Id, node: usize, size: Option<usize>, needed: Option<usize>) -> Result<Source, ImportError> {
        let Some(size) = size.filter(|size| (1..=MAX_SIZE).contains(size)) else {
            return self.fail(id, "the number of its features must be known");
        };
        let sequence = self.graph.arena.shape(id).len() > 2;
        self.steps = match (self.steps, needed) {
            (Some(steps), Some(needed)) => Some(steps.max(needed)),
            (steps, None) if !sequence => steps.map(|steps| steps.max(1)),
            _ => None,
        };
        if let Some((source, of, time_first)) = &self.input {
            if *of != node {
                return self.fail(id, "it is a second input, but one is read");
            }
            if *time_first != self.time_first {
                return self.fail(id, "its first dimension is used as batch and as time");
            }
            return Ok(source.clone());
        }
        let name = self.graph.graph.nodes[node].def.name.clone();
        let mut source = self.network.input(&name, size);
        if self.windowed {
            let Some(steps) = self.steps else {
                let name = &self.graph.graph.nodes[node].def.name;
                let what = format!("a layer that runs backwards over {name:?}");
                return Err(ImportError::NeedsWindow { what });
            };
            if steps * size > MAX_SIZE {
                return self.fail(id, format!("a window of {steps} steps of {size} features is too large"));
            }
            source = self.network.window(&source, steps);
        }
        self.input = Some((source.clone(), node, self.time_first));
        Ok(source)
    }

    fn step(&mut self, id: Id, sequence: Id, at: At, depth: usize) -> Result<Source, ImportError> {
        let shape = self.graph.arena.shape(sequence).to_vec();
        let needed = match at {
            At::Last => known_len(&shape, 1),
            At::Step(0) if self.windowed => known_len(&shape, 1),
            _ => return self.fail(id, "a step is taken out of a sequence"),
        };
        let rows = self.lower(sequence, needed, depth)?;
        if !self.windowed {
            return Ok(rows);
        }
        if needed.is_none() || rows.rows() != needed {
            return self.fail(id, "the number of steps must be known");
        }
        Ok(self.network.last(&rows, at != At::Last))
    }

    fn rnn(
        &mut self,
        cell: usize,
        x: Id,
        direction: Direction,
        needed: Option<usize>,
        depth: usize,
    ) -> Result<Source, ImportError> {
        let from = match *self.graph.arena.expr(x) {
            Expr::Reverse(inner) => inner,
            _ => x,
        };
        let source = self.lower(from, needed, depth)?;
        let arena = &self.graph.arena;
        let layer = arena.cells[cell].layer(arena)?;
        self.check(&layer)?;
        Ok(self.network.directed(layer, &[&source], direction))
    }

    fn reshape(
        &mut self,
        id: Id,
        inner: Id,
        shape: &[Dim],
        needed: Option<usize>,
        depth: usize,
    ) -> Result<Source, ImportError> {
        let from = self.graph.arena.shape(inner).to_vec();
        let (time, old) = (time_axis(&self.graph.arena, id), time_axis(&self.graph.arena, inner));
        match (time, old, self.graph.arena.expr(inner).clone()) {
            // Frames that are fed one behind the other.
            (Some(axis), None, Expr::Input(node)) => {
                let size = shape[axis + 1..].iter().map(|&dim| usize::try_from(dim).ok()).product();
                let needed = needed.or_else(|| known_len(shape, axis));
                self.feed(id, node, size, needed)
            }
            (Some(axis), Some(before), _) if shape[axis] == from[before] => self.lower(inner, needed, depth),
            // All steps at once.
            (None, Some(axis), _) if shape.len() == 2 => {
                let Some(steps) = known_len(&from, axis) else {
                    return self.fail(id, "the number of steps must be known");
                };
                let rows = self.lower(inner, Some(steps), depth)?;
                let size = steps * rows.size();
                if size > MAX_SIZE {
                    return self.fail(id, format!("{steps} steps of {} features are too many", rows.size()));
                }
                if self.windowed {
                    return Ok(self.network.whole(Layer::identity(size), &rows, None));
                }
                if steps == 1 {
                    return Ok(rows);
                }
                let window = Layer::new(CellKind::Window, rows.size(), size);
                self.add(window.extent("length", steps).extent("hop", steps), &[&rows])
            }
            _ => self.fail(id, "it must keep the steps of its input apart, or make one vector of them"),
        }
    }

    fn activated(
        &mut self,
        x: Id,
        activation: Activation,
        needed: Option<usize>,
        depth: usize,
    ) -> Result<Source, ImportError> {
        match self.graph.arena.expr(x).clone() {
            Expr::Linear(linear) => self.dense(x, linear, activation, needed, depth),
            Expr::Kernel(inner, kernel, over @ Over::Conv { .. }) => {
                self.kernel(x, inner, kernel, over, None, activation, needed, depth)
            }
            Expr::Scale(inner, gain, shift) => self.scale(x, inner, (gain, shift), activation, needed, depth),
            _ => {
                let source = self.lower(x, needed, depth)?;
                self.activation(source, activation)
            }
        }
    }

    fn activation(&mut self, x: Source, activation: Activation) -> Result<Source, ImportError> {
        if activation == Activation::Identity {
            return Ok(x);
        }
        let layer = Layer::new(CellKind::Activation, x.size(), x.size()).activation("activation", activation);
        self.add(layer, &[&x])
    }

    fn merge(
        &mut self,
        how: &'static str,
        a: Id,
        b: Id,
        needed: Option<usize>,
        depth: usize,
    ) -> Result<Source, ImportError> {
        let (a, b) = (self.lower(a, needed, depth)?, self.lower(b, needed, depth)?);
        self.add(Layer::merge(how, 2, a.size()), &[&a, &b])
    }

    fn dense(
        &mut self,
        id: Id,
        linear: Linear,
        activation: Activation,
        needed: Option<usize>,
        depth: usize,
    ) -> Result<Source, ImportError> {
        let Linear { terms, diagonals, bias, units } = linear;
        let vector = |this: &Self, id: Id| {
            let data = this.graph.arena.vector(id).to_vec();
            Tensor { shape: vec![data.len()], data }
        };
        match (&*terms, &*diagonals) {
            ([_, ..], []) => {
                let mut sources = Vec::new();
                let mut kernel = Tensor { shape: vec![0, units], data: Vec::new() };
                for &(source, block) in &terms {
                    sources.push(self.lower(source, needed, depth)?);
                    kernel.data.extend(self.graph.arena.block(block, units).data);
                }
                kernel.shape[0] = kernel.data.len() / units;
                let name = self.graph.graph.nodes[self.graph.arena.origin_of(id)].def.name.clone();
                let kernel = Named { name: &name, tensor: &kernel };
                let bias = bias.map(|bias| vector(self, bias));
                let layer = Layer::dense(kernel.transposed(0, kernel.matrix()?.0)?, bias, activation);
                self.add(layer, &sources.iter().collect::<Vec<_>>())
            }
            ([], &[(source, weights)]) => {
                let source = self.lower(source, needed, depth)?;
                let mut layer = Layer::new(CellKind::Scale, units, units)
                    .option("gain")
                    .extent("channels", units)
                    .tensor("gain", vector(self, weights));
                if let Some(bias) = bias {
                    layer = layer.tensor("bias", vector(self, bias));
                }
                let scaled = self.add(layer, &[&source])?;
                self.activation(scaled, activation)
            }
            _ => self.fail(id, "it adds products that no layer here adds"),
        }
    }

    fn scale(
        &mut self,
        id: Id,
        x: Id,
        (gain, shift): (Id, Id),
        activation: Activation,
        needed: Option<usize>,
        depth: usize,
    ) -> Result<Source, ImportError> {
        if let Expr::Kernel(inner, kernel, over @ Over::Conv { .. }) = *self.graph.arena.expr(x) {
            return self.kernel(id, inner, kernel, over, Some((gain, shift)), activation, needed, depth);
        }
        let source = self.lower(x, needed, depth)?;
        let arena = &self.graph.arena;
        let vector = |id: Id| Tensor { shape: vec![arena.vector(id).len()], data: arena.vector(id).to_vec() };
        let layer = Layer::new(CellKind::Scale, source.size(), source.size())
            .option("gain")
            .extent("channels", arena.width(x))
            .tensor("gain", vector(gain))
            .tensor("bias", vector(shift));
        let scaled = self.add(layer, &[&source])?;
        self.activation(scaled, activation)
    }
}

pub(super) fn known_len(shape: &[Dim], axis: usize) -> Option<usize> {
    shape.get(axis).filter(|&&dim| !is_symbol(dim)).and_then(|&dim| usize::try_from(dim).ok())
}
