//! Lowers expressions to layers. The network streams if every layer needs only past and current steps; a convolution
//! along time keeps the frames under its kernel. If a layer runs backwards, or a convolution is padded after the last
//! frame, the whole network processes windows of the graph's length.

use std::collections::HashMap;

use tidegate::internals::{activation::Activation, cell::CellKind};

use super::along::{needs_window, time_axis};
use super::symbol::{At, Dim, Expr, Id, Linear, is_symbol};
use super::{cells::unsupported_if, evaluate::Evaluator, graph::malformed, sequence, sequence::MAX_DEPTH};
use crate::budget::{Budget, FIXED};
use crate::canonical::{MAX_NODES, MAX_SIZE, Tensor};
use crate::error::{ImportError, Result};
use crate::format::network::{Direction, Network, Source};
use crate::format::{layer::Layer, weights::Named};

/// The output of the layers that were added.
pub(super) type Lowered = Result<Source>;

pub struct Lowering<'a, 'g> {
    pub(super) graph: &'a mut Evaluator<'g>,
    pub network: Network,
    known: HashMap<Id, Source>,
    /// Whether whole sequences are processed as one window.
    pub(super) windowed: bool,
    /// The input port, its node, and whether the input is time-major.
    input: Option<(Source, usize, bool)>,
    /// Whether the current expression is read as time-major.
    time_first: bool,
    layers: usize,
    depth: usize,
    /// Number of input steps that the output needs; `None` if the graph leaves it open.
    pub steps: Option<usize>,
}

impl<'a, 'g> Lowering<'a, 'g> {
    /// Starts a network for these outputs.
    pub fn new(graph: &'a mut Evaluator<'g>, outputs: &[Id]) -> Result<Self> {
        let windowed = needs_window(&mut graph.arena, outputs);
        let mut network = Network::new();
        network.limit(Budget::of_network(graph.held()));
        network.fresh = true;
        Ok(Self {
            graph,
            network,
            known: HashMap::new(),
            windowed,
            input: None,
            time_first: false,
            layers: 0,
            depth: 0,
            steps: Some(0),
        })
    }

    pub fn input_node(&self) -> Option<usize> {
        self.input.as_ref().map(|(_, node, _)| *node)
    }

    pub(super) fn fail<T>(&self, id: Id, reason: impl Into<String>) -> Result<T> {
        self.graph.fail(self.graph.arena.origin_of(id), reason)
    }

    fn blame<T>(&self, id: Id, made: Result<T, String>) -> Result<T> {
        made.or_else(|reason| self.fail(id, reason))
    }

    /// Adds an output of the graph. Returns whether it has one value per sequence, rather than one per step.
    pub fn output(&mut self, id: Id, name: &str) -> Result<bool> {
        let arena = &self.graph.arena;
        let id = if let Expr::Swap(inner) | Expr::Rows(inner) = *arena.expr(id) { inner } else { id };
        let id = if let Expr::Swap(inner) = *arena.expr(id) { inner } else { id };
        let shape = self.graph.arena.shape(id).to_vec();
        let needed = known_len(&shape, 1).filter(|_| shape.len() > 2);
        let source = self.lower(id, needed)?;
        self.network.output(name, &source);
        Ok(shape.len() == 2)
    }

    /// The layer that computes `id`. `needed` is the number of its steps that are used.
    pub(super) fn lower(&mut self, id: Id, needed: Option<usize>) -> Lowered {
        if self.depth == MAX_DEPTH {
            return self.fail(id, format!("the network is deeper than {MAX_DEPTH}, {FIXED}"));
        }
        if let Some(source) = self.known.get(&id) {
            return Ok(source.clone());
        }
        self.depth += 1;
        let source = self.layer(id, needed)?;
        self.depth -= 1;
        self.known.insert(id, source.clone());
        Ok(source)
    }

    fn layer(&mut self, id: Id, needed: Option<usize>) -> Lowered {
        let expr = self.graph.arena.expr(id).clone();
        let shape = self.graph.arena.shape(id).to_vec();
        // One step of the output of an unrolled cell.
        if shape.len() == 2
            && matches!(expr, Expr::Add(..) | Expr::Mul(..) | Expr::Linear(_) | Expr::Clip(..) | Expr::Unary(..))
            && let Some(unrolled) = sequence::unrolled(&mut self.graph.arena, id)
        {
            let (sequence, at) = self.blame(id, unrolled)?;
            let step = self.graph.arena.step(sequence, at);
            let step = self.blame(id, step)?;
            return self.lower(step, None);
        }
        match expr {
            Expr::Input(node) => self.feed(id, node, &shape[if shape.len() > 2 { 2 } else { 1 }..], needed),
            Expr::Swap(inner) => {
                self.time_first = !self.time_first;
                let source = self.lower(inner, needed);
                self.time_first = !self.time_first;
                source
            }
            Expr::Rows(inner) => self.lower(inner, needed),
            Expr::Stack(steps) => {
                let sequence = self.of_steps(id, &steps)?;
                self.lower(sequence, needed)
            }
            Expr::Step(sequence, at) => self.step(id, sequence, at),
            Expr::Rnn(cell, x) => {
                let reversed = matches!(self.graph.arena.expr(x), Expr::Reverse(_));
                let direction = if reversed { Direction::BackwardAsProcessed } else { Direction::Forward };
                self.rnn(cell, x, direction, needed)
            }
            Expr::Reverse(x) => match *self.graph.arena.expr(x) {
                Expr::Rnn(cell, from) if matches!(self.graph.arena.expr(from), Expr::Reverse(_)) => {
                    self.rnn(cell, from, Direction::Backward, needed)
                }
                _ => self.fail(id, "only a cell can run backwards"),
            },
            Expr::Reshape(inner) => self.reshape(id, inner, &shape, needed),
            Expr::Softmax(x) => {
                let x = self.lower(x, needed)?;
                self.add(Layer::new(CellKind::Softmax, x.size(), x.size()), &[&x])
            }
            Expr::Unary(activation, x) => {
                let activation = self.graph.arena.activation(activation);
                self.activated(x, activation, needed)
            }
            Expr::Clip(x, a, b) if f32::from_bits(a) == -1.0 && f32::from_bits(b) == 1.0 => {
                self.activated(x, Activation::HardTanh, needed)
            }
            Expr::Clip(..) => self.fail(id, "only the state of a cell can be clipped to bounds other than -1 and 1"),
            Expr::Affine(x, gain, shift) => {
                let (gain, shift) = (f32::from_bits(gain), f32::from_bits(shift));
                if let Expr::Linear(linear) = self.graph.arena.expr(x).clone() {
                    let scaled = self.graph.arena.scaled_linear(linear, gain, shift);
                    let scaled = self.blame(id, scaled)?;
                    let Expr::Linear(linear) = self.graph.arena.expr(scaled).clone() else {
                        return self.fail(id, "it is not a sum of products");
                    };
                    return self.dense(id, linear, Activation::Identity, needed);
                }
                self.activated(x, Activation::Affine { alpha: gain, beta: shift }, needed)
            }
            Expr::Linear(linear) => self.dense(id, linear, Activation::Identity, needed),
            Expr::Add(a, b) => self.merge("add", a, b, needed),
            Expr::Mul(a, b) => self.merge("multiply", a, b, needed),
            Expr::Maximum(a, b) => self.merge("maximum", a, b, needed),
            Expr::Concat(parts) => {
                let sources: Result<Vec<_>> = parts.into_iter().map(|part| self.lower(part, needed)).collect();
                Ok(self.network.concat(&sources?))
            }
            Expr::Kernel(x, kernel, over) => self.kernel(id, (x, kernel, over), None, Activation::Identity, needed),
            Expr::Scale(x, gain, shift) => self.scale(id, x, (gain, shift), Activation::Identity, needed),
            Expr::Norm(x, gain, shift, epsilon) => {
                let x = self.lower(x, needed)?;
                let layer =
                    Layer::new(CellKind::LayerNorm, x.size(), x.size()).param("epsilon", f32::from_bits(epsilon));
                let layer = layer.option("gain").tensor("gain", self.vector(gain)).tensor("bias", self.vector(shift));
                self.add(layer, &[&x])
            }
            Expr::Slice(..) => self.fail(id, "it takes some of the features, which no layer supports"),
            Expr::Variable(_) => self.fail(id, "the state of a loop is used outside the loop"),
            Expr::Const(_) | Expr::Fill(_) => self.fail(id, "a constant is used in place of features"),
        }
    }

    fn of_steps(&mut self, id: Id, steps: &[Id]) -> Result<Id> {
        let sequence = sequence::of_steps(&mut self.graph.arena, steps, 0);
        self.blame(id, sequence)
    }

    pub(super) fn add(&mut self, layer: Layer, inputs: &[&Source]) -> Lowered {
        self.check(&layer)?;
        Ok(self.network.add(layer, inputs))
    }

    /// Counts a layer and its weights against the limits. A graph can use the same weights in many layers.
    pub(super) fn check(&mut self, layer: &Layer) -> Result<()> {
        self.layers += 1;
        self.network.is_within()?;
        unsupported_if(self.layers > MAX_NODES, format_args!("a network of more than {MAX_NODES} layers"))?;
        let values = layer.tensors.values().map(|tensor| tensor.data.len()).sum();
        self.graph.arena.spend(values).or_else(malformed)
    }

    /// The input port, with the dimensions `features` at each step.
    fn feed(&mut self, id: Id, node: usize, features: &[Dim], needed: Option<usize>) -> Lowered {
        let size: Option<usize> = features.iter().map(|&dim| usize::try_from(dim).ok()).product();
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
                return self.fail(id, "it is a second input; only one is supported");
            }
            if *time_first != self.time_first {
                return self.fail(id, "its first dimension is used as batch and as time");
            }
            return Ok(source.clone());
        }
        let name = &self.graph.graph.nodes[node].def.name;
        let mut source = self.network.input(name, size);
        if self.windowed {
            let Some(steps) = self.steps else {
                return Err(ImportError::NeedsWindow { what: format!("a layer that runs backwards over {name:?}") });
            };
            if steps * size > MAX_SIZE {
                return self.fail(id, format!("a window of {steps} steps of {size} features is too large"));
            }
            source = self.network.window(&source, steps);
        }
        self.input = Some((source.clone(), node, self.time_first));
        Ok(source)
    }

    fn step(&mut self, id: Id, sequence: Id, at: At) -> Lowered {
        let shape = self.graph.arena.shape(sequence).to_vec();
        let needed = match at {
            At::Last => known_len(&shape, 1),
            At::Step(0) if self.windowed => known_len(&shape, 1),
            _ => return self.fail(id, "a step is taken out of a sequence"),
        };
        let rows = self.lower(sequence, needed)?;
        if !self.windowed {
            return Ok(rows);
        }
        if needed.is_none() || rows.rows() != needed {
            return self.fail(id, "the number of steps must be known");
        }
        Ok(self.network.last(&rows, at != At::Last))
    }

    fn rnn(&mut self, cell: usize, x: Id, direction: Direction, needed: Option<usize>) -> Lowered {
        let from = if let Expr::Reverse(inner) = *self.graph.arena.expr(x) { inner } else { x };
        let source = self.lower(from, needed)?;
        let arena = &self.graph.arena;
        let layer = arena.cells[cell].layer(arena)?;
        self.check(&layer)?;
        Ok(self.network.directed(layer, &[&source], direction))
    }

    fn reshape(&mut self, id: Id, inner: Id, shape: &[Dim], needed: Option<usize>) -> Lowered {
        let from = self.graph.arena.shape(inner).to_vec();
        let (time, old) = (time_axis(&self.graph.arena, id), time_axis(&self.graph.arena, inner));
        match (time, old, self.graph.arena.expr(inner).clone()) {
            // The frames of a sequence are fed as one vector.
            (Some(axis), None, Expr::Input(node)) => {
                let needed = needed.or_else(|| known_len(shape, axis));
                self.feed(id, node, &shape[axis + 1..], needed)
            }
            (Some(axis), Some(before), _) if shape[axis] == from[before] => self.lower(inner, needed),
            // All steps are concatenated to one vector.
            (None, Some(axis), _) if shape.len() == 2 => {
                let Some(steps) = known_len(&from, axis) else {
                    return self.fail(id, "the number of steps must be known");
                };
                let rows = self.lower(inner, Some(steps))?;
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
            _ => self.fail(id, "it must keep the steps of its input separate or join them to one vector"),
        }
    }

    fn activated(&mut self, x: Id, activation: Activation, needed: Option<usize>) -> Lowered {
        match self.graph.arena.expr(x).clone() {
            Expr::Linear(linear) => self.dense(x, linear, activation, needed),
            Expr::Kernel(inner, kernel, over) if over.weights().is_some() => {
                self.kernel(x, (inner, kernel, over), None, activation, needed)
            }
            Expr::Scale(inner, gain, shift) => self.scale(x, inner, (gain, shift), activation, needed),
            _ => {
                let source = self.lower(x, needed)?;
                self.activation(source, activation)
            }
        }
    }

    fn activation(&mut self, x: Source, activation: Activation) -> Lowered {
        if activation == Activation::Identity {
            return Ok(x);
        }
        let layer = Layer::new(CellKind::Activation, x.size(), x.size()).activation("activation", activation);
        self.add(layer, &[&x])
    }

    fn merge(&mut self, how: &'static str, a: Id, b: Id, needed: Option<usize>) -> Lowered {
        let (a, b) = (self.lower(a, needed)?, self.lower(b, needed)?);
        self.add(Layer::merge(how, 2, a.size()), &[&a, &b])
    }

    fn dense(&mut self, id: Id, linear: Linear, activation: Activation, needed: Option<usize>) -> Lowered {
        let Linear { terms, diagonals, bias, units } = linear;
        match (&*terms, &*diagonals) {
            ([_, ..], []) => {
                let mut sources = Vec::new();
                let mut kernel = Tensor { shape: vec![0, units], data: Vec::new() };
                for &(source, block) in &terms {
                    sources.push(self.lower(source, needed)?);
                    kernel.data.extend(self.graph.arena.block(block, units).data);
                }
                kernel.shape[0] = kernel.data.len() / units;
                let name = self.graph.graph.nodes[self.graph.arena.origin_of(id)].def.name.clone();
                let kernel = Named { name: &name, tensor: &kernel };
                let bias = bias.map(|bias| self.vector(bias));
                let layer = Layer::dense(kernel.transposed(0, kernel.matrix()?.0)?, bias, activation);
                self.add(layer, &sources.iter().collect::<Vec<_>>())
            }
            ([], &[(source, weights)]) => {
                let source = self.lower(source, needed)?;
                self.scaled(&source, units, (weights, bias), activation)
            }
            _ => self.fail(id, "no layer can compute this sum of products"),
        }
    }

    fn scale(&mut self, id: Id, x: Id, by: (Id, Id), activation: Activation, needed: Option<usize>) -> Lowered {
        if let Expr::Kernel(inner, kernel, over) = *self.graph.arena.expr(x)
            && over.weights().is_some()
        {
            return self.kernel(id, (inner, kernel, over), Some(by), activation, needed);
        }
        let source = self.lower(x, needed)?;
        self.scaled(&source, self.graph.arena.width(x), (by.0, Some(by.1)), activation)
    }

    /// A factor and a shift for each of `channels` channels.
    fn scaled(&mut self, x: &Source, channels: usize, by: (Id, Option<Id>), activation: Activation) -> Lowered {
        let layer = Layer::new(CellKind::Scale, x.size(), x.size()).option("gain").extent("channels", channels);
        let layer = layer.tensor("gain", self.vector(by.0)).optional("bias", by.1.map(|shift| self.vector(shift)));
        let scaled = self.add(layer, &[x])?;
        self.activation(scaled, activation)
    }

    fn vector(&self, id: Id) -> Tensor {
        self.graph.arena.constant_vector(id)
    }
}

pub(super) fn known_len(shape: &[Dim], axis: usize) -> Option<usize> {
    shape.get(axis).filter(|&&dim| !is_symbol(dim)).and_then(|&dim| usize::try_from(dim).ok())
}
