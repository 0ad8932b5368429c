//! What a graph computes, as expressions in a normal form: each is made once, sums of matrix products are one
//! [`Linear`], and what only moves features (slices, swaps of batch and time, flattening) stands outside of what
//! computes. However a framework wrote its cell, its gates end as the same expressions.

use std::collections::HashMap;

use tidegate::activation::Activation;

use super::dims::Derived;
use super::pattern::Cell;
use crate::canonical::Tensor;

/// An expression, by its number.
pub type Id = usize;

/// A dimension: a number, or a symbol for what the graph leaves open.
pub type Dim = i64;
/// How many sequences run at once.
pub const BATCH: Dim = i64::MIN;
/// How many steps there are, where the graph does not say.
pub const TIME: Dim = i64::MIN + 1;
/// A `sequence_length` that is fed: as many steps as there are.
pub const LENGTH: Dim = i64::MIN + 2;
/// The first of the symbols that stand for products and differences.
pub(super) const DERIVED: Dim = i64::MIN + 3;
const MAX_DERIVED: Dim = 1 << 16;

/// Most expressions: a graph of the largest size has as many nodes.
const MAX_EXPRS: usize = 1 << 18;
/// Most operands of all expressions together.
const MAX_OPERANDS: usize = 1 << 20;
/// Most steps of unrolled loops that are looked at, all in all.
const MAX_STEPS: usize = 1 << 23;
/// Most features.
const MAX_WIDTH: usize = 1 << 24;
/// Most matrices in one sum.
pub(super) const MAX_TERMS: usize = 64;
/// Deepest expression that a slice is moved into.
pub(super) const MAX_DEPTH: usize = 64;

/// Whether a dimension is open.
pub fn is_symbol(dim: Dim) -> bool {
    dim < DERIVED + MAX_DERIVED
}

/// Which step of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum At {
    /// The one that the loop of this number is at.
    Turn(usize),
    /// This one, not the last.
    Step(usize),
    /// The last.
    Last,
}

/// A part of a constant matrix: `rows` rows from `row` on, columns from `col` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Block {
    pub tensor: usize,
    pub row: usize,
    pub rows: usize,
    pub col: usize,
}

/// `Σ source · block + Σ source ⊙ weights + bias` over the last axis.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Linear {
    pub terms: Vec<(Id, Block)>,
    /// Weights are constant vectors.
    pub diagonals: Vec<(Id, Id)>,
    /// A constant vector.
    pub bias: Option<Id>,
    pub units: usize,
}

/// How a kernel goes over `[height, width, channels]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Kernel {
    /// Along height and width.
    pub taps: [usize; 2],
    pub strides: [usize; 2],
    pub dilations: [usize; 2],
    /// Zeros as TensorFlow's SAME has them, or none.
    pub same: bool,
}

/// What a kernel does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Over {
    /// Weights [height, width, channels, filters].
    Conv {
        weights: usize,
    },
    Max,
    Average,
}

/// An expression.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Expr {
    /// Node of the graph.
    Input(usize),
    /// Number of the tensor.
    Const(usize),
    /// One value (its bits) everywhere.
    Fill(u32),
    /// A state of a loop, by number.
    Variable(usize),
    /// A step of a sequence [batch, time, ...].
    Step(Id, At),
    /// The last outputs of a cell over a sequence.
    Rnn(usize, Id),
    /// Steps put one after the other, [batch, time, ...].
    Stack(Vec<Id>),
    /// The other of [batch, time, ...] and [time, batch, ...].
    Swap(Id),
    /// The last step first; of [batch, time, ...].
    Reverse(Id),
    /// Leading dimensions made one.
    Rows(Id),
    /// The same values in the same order in another shape.
    Reshape(Id),
    /// An activation, by number.
    Unary(usize, Id),
    Linear(Linear),
    /// Gain and shift (bits).
    Affine(Id, u32, u32),
    /// Least and greatest (bits).
    Clip(Id, u32, u32),
    Add(Id, Id),
    Mul(Id, Id),
    Maximum(Id, Id),
    /// Features one after the other.
    Concat(Vec<Id>),
    /// Features from one on; as many as its shape says.
    Slice(Id, usize),
    Softmax(Id),
    /// Features less their mean, divided by the root of their variance and an epsilon (bits), times a factor, plus a
    /// shift, both constant vectors.
    Norm(Id, Id, Id, u32),
    Kernel(Id, Kernel, Over),
    /// A factor and a shift for every channel, constant vectors.
    Scale(Id, Id, Id),
}

/// A state of a loop.
#[derive(Clone, Debug)]
pub struct Variable {
    pub frame: usize,
    /// Before the first step.
    pub initial: Id,
    /// After a step, once the loop's body is read.
    pub next: Option<Id>,
}

/// All expressions of a graph.
pub struct Arena {
    exprs: Vec<Expr>,
    shapes: Vec<Vec<Dim>>,
    origins: Vec<usize>,
    known: HashMap<(Expr, Vec<Dim>), Id>,
    pub tensors: Vec<Tensor>,
    pub(super) activations: Vec<Activation>,
    pub(super) derived: Vec<Derived>,
    pub variables: Vec<Variable>,
    pub cells: Vec<Cell>,
    /// Weights that may still be copied out.
    pub(super) values_left: usize,
    /// Values that may still be computed.
    pub(super) work_left: usize,
    operands_left: usize,
    pub(super) steps_left: usize,
    /// Slices by what they are of, start and length.
    pub(super) slices: HashMap<(Id, usize, usize), Id>,
    /// What the bodies of loops compute, as sequences, by loop.
    pub(super) lifted: HashMap<(usize, Id), Id>,
    pub(super) by_content: HashMap<u64, usize>,
    /// The node that is read, to blame for what is made.
    pub origin: usize,
}

pub(super) type Made = Result<Id, String>;

pub(super) fn number(bits: u32) -> f32 {
    f32::from_bits(bits)
}

impl Arena {
    /// With so many values for weights.
    pub fn new(values: usize) -> Self {
        Self {
            exprs: Vec::new(),
            shapes: Vec::new(),
            origins: Vec::new(),
            known: HashMap::new(),
            tensors: Vec::new(),
            activations: Vec::new(),
            derived: Vec::new(),
            variables: Vec::new(),
            cells: Vec::new(),
            values_left: values,
            work_left: values.saturating_mul(16),
            operands_left: MAX_OPERANDS,
            steps_left: MAX_STEPS,
            slices: HashMap::new(),
            lifted: HashMap::new(),
            by_content: HashMap::new(),
            origin: 0,
        }
    }

    pub fn expr(&self, id: Id) -> &Expr {
        &self.exprs[id]
    }

    pub fn shape(&self, id: Id) -> &[Dim] {
        &self.shapes[id]
    }

    /// The node of the graph that an expression was first made for.
    pub fn origin_of(&self, id: Id) -> usize {
        self.origins[id]
    }

    /// Features: the last dimension.
    pub fn width(&self, id: Id) -> usize {
        self.shapes[id].last().map_or(0, |&dim| usize::try_from(dim).unwrap_or(0))
    }

    pub fn activation(&self, number: usize) -> Activation {
        self.activations[number]
    }

    pub fn make(&mut self, expr: Expr, shape: Vec<Dim>) -> Made {
        if let Some(&id) = self.known.get(&(expr.clone(), shape.clone())) {
            return Ok(id);
        }
        let id = self.exprs.len();
        if id == MAX_EXPRS {
            return Err(format!("the graph computes more than {MAX_EXPRS} different values"));
        }
        let operands = match &expr {
            Expr::Linear(linear) => linear.terms.len() + linear.diagonals.len(),
            Expr::Stack(parts) | Expr::Concat(parts) => parts.len(),
            _ => 2,
        };
        let left = self.operands_left.checked_sub(operands);
        self.operands_left = left.ok_or("the graph's values have too many operands")?;
        if shape.last().is_some_and(|&width| !is_symbol(width) && width > MAX_WIDTH as Dim) {
            return Err(format!("it has more than {MAX_WIDTH} features"));
        }
        self.known.insert((expr.clone(), shape.clone()), id);
        self.exprs.push(expr);
        self.shapes.push(shape);
        self.origins.push(self.origin);
        Ok(id)
    }

    /// Another with these operands, for an expression that works on the features of each step alone.
    pub fn with_operands(&mut self, id: Id, mut operand: impl FnMut(&mut Self, Id) -> Made) -> Made {
        match self.expr(id).clone() {
            Expr::Unary(activation, x) => {
                let x = operand(self, x)?;
                self.unary(self.activations[activation], x)
            }
            Expr::Affine(x, gain, shift) => {
                let x = operand(self, x)?;
                self.affine(x, number(gain), number(shift))
            }
            Expr::Clip(x, least, greatest) => {
                let x = operand(self, x)?;
                self.clip(x, number(least), number(greatest))
            }
            Expr::Softmax(x) => {
                let x = operand(self, x)?;
                self.softmax(x)
            }
            Expr::Norm(x, gain, shift, epsilon) => {
                let x = operand(self, x)?;
                self.norm(x, gain, shift, epsilon)
            }
            Expr::Slice(x, start) => {
                let (x, len) = (operand(self, x)?, self.width(id));
                self.slice(x, start, len)
            }
            Expr::Add(a, b) => {
                let (a, b) = (operand(self, a)?, operand(self, b)?);
                self.add(a, b)
            }
            Expr::Mul(a, b) => {
                let (a, b) = (operand(self, a)?, operand(self, b)?);
                self.mul(a, b)
            }
            Expr::Maximum(a, b) => {
                let (a, b) = (operand(self, a)?, operand(self, b)?);
                self.maximum(a, b)
            }
            Expr::Concat(parts) => {
                let parts: Result<Vec<Id>, String> = parts.into_iter().map(|part| operand(self, part)).collect();
                self.concat(&parts?)
            }
            Expr::Linear(mut linear) => {
                let mut shape = Vec::new();
                let sources = linear.terms.iter_mut().map(|(source, _)| source);
                for source in sources.chain(linear.diagonals.iter_mut().map(|(source, _)| source)) {
                    *source = operand(self, *source)?;
                    shape = self.shape(*source).to_vec();
                }
                if let Some(last) = shape.last_mut() {
                    *last = linear.units as Dim;
                }
                self.make(Expr::Linear(linear), shape)
            }
            _ => Err("no cell or layer that this importer knows ends so".into()),
        }
    }

    /// The operands that [`Arena::with_operands`] replaces.
    pub fn operands(&self, id: Id) -> Vec<Id> {
        match self.expr(id) {
            Expr::Input(_) | Expr::Const(_) | Expr::Fill(_) | Expr::Variable(_) => vec![],
            &Expr::Step(x, _)
            | &Expr::Rnn(_, x)
            | &Expr::Swap(x)
            | &Expr::Reverse(x)
            | &Expr::Rows(x)
            | &Expr::Reshape(x)
            | &Expr::Unary(_, x)
            | &Expr::Affine(x, ..)
            | &Expr::Clip(x, ..)
            | &Expr::Slice(x, _)
            | &Expr::Softmax(x)
            | &Expr::Norm(x, ..)
            | &Expr::Kernel(x, ..)
            | &Expr::Scale(x, ..) => vec![x],
            &Expr::Add(a, b) | &Expr::Mul(a, b) | &Expr::Maximum(a, b) => vec![a, b],
            Expr::Stack(parts) | Expr::Concat(parts) => parts.clone(),
            Expr::Linear(linear) => {
                let terms = linear.terms.iter().map(|(source, _)| *source);
                terms.chain(linear.diagonals.iter().map(|(source, _)| *source)).collect()
            }
        }
    }
}

#[derive(Clone, PartialEq, Eq)]
pub(super) enum Wrap {
    Swap,
    Rows,
    /// With these leading dimensions.
    Reshape(Vec<Dim>),
}
