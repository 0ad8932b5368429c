//! Expressions in a normal form. Each expression is created once, a sum of matrix products is one [`Linear`], and
//! operations that only move values (slices, swaps of batch and time, flattening) are outside the operations that
//! compute. The gates of a cell therefore become the same expressions, however a framework wrote them.

mod cell;

use std::collections::HashMap;

use tidegate::internals::activation::Activation;

use crate::budget::FIXED;
use crate::canonical::Tensor;

pub(super) use crate::format::refuse::fail_if;
pub use cell::{Cell, Gate, Lstm, Norm};

pub type Id = usize;

/// A dimension: a number, or a symbol for a dimension that the graph leaves open.
pub type Dim = i64;
pub const BATCH: Dim = i64::MIN;
/// The number of steps, if the graph leaves it open.
pub const TIME: Dim = i64::MIN + 1;
/// A fed `sequence_length`, which is assumed to be the number of steps.
pub const LENGTH: Dim = i64::MIN + 2;
/// The first of the symbols for products and differences.
pub(super) const DERIVED: Dim = i64::MIN + 3;
const MAX_DERIVED: Dim = 1 << 16;

/// Maximum number of expressions; it is also the number of nodes of the largest graph.
const MAX_EXPRS: usize = 1 << 18;
const MAX_OPERANDS: usize = 1 << 20;
/// Maximum number of steps of unrolled loops that are examined in total.
const MAX_STEPS: usize = 1 << 23;
const MAX_WIDTH: usize = 1 << 24;
pub(super) const MAX_TERMS: usize = 64;
/// Maximum depth to which a slice is moved into an expression.
pub(super) const MAX_DEPTH: usize = 64;

/// The error for an expression that no cell and no layer computes.
pub(super) const NO_FORM: &str = "no known cell or layer has this form";

/// The index of `item`, which is added if it is new; `None` if there are `max` others.
pub(super) fn intern<T: PartialEq>(known: &mut Vec<T>, item: T, max: usize) -> Option<usize> {
    let index = known.iter().position(|known| *known == item);
    if index.is_none() && known.len() < max {
        known.push(item);
        return Some(known.len() - 1);
    }
    index
}

pub fn is_symbol(dim: Dim) -> bool {
    dim < DERIVED + MAX_DERIVED
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum At {
    /// The current step of the loop with this number.
    Turn(usize),
    /// The step with this index, which is not the last.
    Step(usize),
    Last,
}

/// A block of a constant matrix: `rows` rows from `row` on, and the columns from `col` on.
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
    /// Each source with its weights, a constant vector.
    pub diagonals: Vec<(Id, Id)>,
    pub bias: Option<Id>,
    pub units: usize,
}

impl Linear {
    pub fn sources(&self) -> impl Iterator<Item = Id> {
        self.terms.iter().map(|(source, _)| *source).chain(self.diagonals.iter().map(|(source, _)| *source))
    }

    pub fn sources_mut(&mut self) -> impl Iterator<Item = &mut Id> {
        self.terms.iter_mut().map(|(source, _)| source).chain(self.diagonals.iter_mut().map(|(source, _)| source))
    }

    /// Whether the weights of all sources are the same.
    pub fn has_weights_of(&self, other: &Self) -> bool {
        self.terms.iter().map(|(_, block)| block).eq(other.terms.iter().map(|(_, block)| block))
            && self.diagonals.iter().map(|(_, weights)| weights).eq(other.diagonals.iter().map(|(_, weights)| weights))
    }
}

/// Geometry of a kernel over `[height, width, channels]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Kernel {
    pub taps: [usize; 2],
    pub strides: [usize; 2],
    pub dilations: [usize; 2],
    pub padding: Padding,
}

/// The zeros around the input of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Padding {
    /// As by TensorFlow's SAME.
    Same,
    /// The number of zeros before and behind the input, along each axis.
    Of([[usize; 2]; 2]),
}

impl Padding {
    /// TensorFlow's VALID.
    pub const NONE: Self = Self::Of([[0; 2]; 2]);
}

/// A value with zeros around it.
#[derive(Clone, Debug, PartialEq)]
pub struct Padded {
    pub x: Id,
    /// The number of zeros before and behind each axis.
    pub zeros: Vec<[usize; 2]>,
    /// The blocks of SpaceToBatchND along each axis.
    pub blocks: Vec<usize>,
    /// A convolution over the blocks: its node and its weights.
    pub conv: Option<(usize, Id)>,
    /// An axis that was removed from the convolution's output.
    pub removed: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Over {
    /// Convolution with weights [height, width, channels, filters].
    Conv {
        weights: usize,
    },
    /// Convolution of each channel on its own, with weights [height, width, channels, multiplier].
    Depthwise {
        weights: usize,
    },
    Max,
    Average,
}

impl Over {
    /// The tensor of a convolution's weights.
    pub fn weights(self) -> Option<usize> {
        match self {
            Self::Conv { weights } | Self::Depthwise { weights } => Some(weights),
            Self::Max | Self::Average => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Expr {
    /// An input, by the node of the graph.
    Input(usize),
    Const(usize),
    /// The same value (given by its bits) everywhere.
    Fill(u32),
    /// A state of a loop, by number.
    Variable(usize),
    Step(Id, At),
    /// The outputs of a cell over a sequence: the number of the cell, and its input.
    Rnn(usize, Id),
    Stack(Vec<Id>),
    /// Batch and time swapped: [batch, time, ...] becomes [time, batch, ...], and vice versa.
    Swap(Id),
    /// A sequence [batch, time, ...] with its steps in reverse order.
    Reverse(Id),
    /// Leading dimensions flattened to one.
    Rows(Id),
    Reshape(Id),
    Unary(usize, Id),
    Linear(Linear),
    /// Multiplication by a gain and addition of a shift (bits).
    Affine(Id, u32, u32),
    /// Clip to a minimum and a maximum (bits).
    Clip(Id, u32, u32),
    Add(Id, Id),
    Mul(Id, Id),
    Maximum(Id, Id),
    Concat(Vec<Id>),
    /// A range of features from the given start; the shape gives its length.
    Slice(Id, usize),
    Softmax(Id),
    /// Layer normalization: operand, factor, shift (constant vectors) and epsilon (bits).
    Norm(Id, Id, Id, u32),
    Kernel(Id, Kernel, Over),
    /// Multiplication by a factor and addition of a shift for each channel (constant vectors).
    Scale(Id, Id, Id),
}

impl Expr {
    /// Whether two expressions differ only in their operands.
    fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Unary(a, _), Self::Unary(b, _)) => a == b,
            (Self::Affine(_, a, b), Self::Affine(_, c, d)) | (Self::Clip(_, a, b), Self::Clip(_, c, d)) => {
                a == c && b == d
            }
            (Self::Slice(_, a), Self::Slice(_, b)) => a == b,
            (Self::Norm(_, a, b, c), Self::Norm(_, d, e, f)) => (a, b, c) == (d, e, f),
            (Self::Softmax(_), Self::Softmax(_)) | (Self::Add(..), Self::Add(..)) => true,
            (Self::Mul(..), Self::Mul(..)) | (Self::Maximum(..), Self::Maximum(..)) => true,
            (Self::Concat(a), Self::Concat(b)) => a.len() == b.len(),
            (Self::Linear(a), Self::Linear(b)) => a.has_weights_of(b) && a.bias == b.bias && a.units == b.units,
            _ => false,
        }
    }
}

#[derive(Clone, Debug)]
pub struct Variable {
    pub frame: usize,
    /// Value before the first step.
    pub initial: Id,
    /// Value after a step; `None` until the loop's body has been evaluated.
    pub next: Option<Id>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Derived {
    Product(Vec<Dim>),
    Less(Dim, i64),
}

/// All expressions of a graph.
#[derive(Default)]
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
    /// Remaining budget of copied weights.
    pub(super) values_left: usize,
    /// Remaining budget of computed values.
    pub(super) work_left: usize,
    operands_left: usize,
    pub(super) steps_left: usize,
    pub(super) slices: HashMap<(Id, usize, usize), Id>,
    /// Values in the bodies of loops as sequences, by loop and value.
    pub(super) lifted: HashMap<(usize, Id), Id>,
    pub(super) by_content: HashMap<u64, usize>,
    /// The node that is being evaluated; errors about new expressions refer to it.
    pub origin: usize,
}

pub(super) type Made = Result<Id, String>;

pub(super) fn number(bits: u32) -> f32 {
    f32::from_bits(bits)
}

impl Arena {
    /// An empty arena with a budget of `values` values for weights.
    pub fn new(values: usize) -> Self {
        Self {
            values_left: values,
            work_left: values.saturating_mul(16),
            operands_left: MAX_OPERANDS,
            steps_left: MAX_STEPS,
            ..Self::default()
        }
    }

    /// Whether two expressions compute the same function of their operands.
    pub fn is_alike(&self, a: Id, b: Id) -> bool {
        self.width(a) == self.width(b) && self.expr(a).is_like(self.expr(b))
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

    /// Number of features: the last dimension.
    pub fn width(&self, id: Id) -> usize {
        self.shapes[id].last().map_or(0, |&dim| usize::try_from(dim).unwrap_or(0))
    }

    /// The shape of an expression with another number of features.
    pub(super) fn with_width(&self, id: Id, width: usize) -> Vec<Dim> {
        let mut shape = self.shape(id).to_vec();
        if let Some(last) = shape.last_mut() {
            *last = width as Dim;
        }
        shape
    }

    pub fn activation(&self, number: usize) -> Activation {
        self.activations[number]
    }

    pub fn make(&mut self, expr: Expr, shape: Vec<Dim>) -> Made {
        if let Some(&id) = self.known.get(&(expr.clone(), shape.clone())) {
            return Ok(id);
        }
        let id = self.exprs.len();
        fail_if(id == MAX_EXPRS, format_args!("the graph computes more than {MAX_EXPRS} different values, {FIXED}"))?;
        let operands = match &expr {
            Expr::Linear(linear) => linear.terms.len() + linear.diagonals.len(),
            Expr::Stack(parts) | Expr::Concat(parts) => parts.len(),
            _ => 2,
        };
        let left = self.operands_left.checked_sub(operands);
        self.operands_left = left.ok_or("the graph's values have too many operands")?;
        let wide = shape.last().is_some_and(|&width| !is_symbol(width) && width > MAX_WIDTH as Dim);
        fail_if(wide, format_args!("it has more than {MAX_WIDTH} features"))?;
        self.known.insert((expr.clone(), shape.clone()), id);
        self.exprs.push(expr);
        self.shapes.push(shape);
        self.origins.push(self.origin);
        Ok(id)
    }

    /// A new state of loop `frame`.
    pub fn state(&mut self, frame: usize, initial: Id) -> Made {
        let shape = self.shape(initial).to_vec();
        self.variables.push(Variable { frame, initial, next: None });
        self.make(Expr::Variable(self.variables.len() - 1), shape)
    }

    /// Whether an expression computes the features of each step from those of its operands at this step.
    pub fn is_stepwise(&self, id: Id) -> bool {
        match self.expr(id) {
            Expr::Unary(..) | Expr::Affine(..) | Expr::Clip(..) | Expr::Softmax(_) | Expr::Norm(..) => true,
            Expr::Slice(..) | Expr::Add(..) | Expr::Mul(..) | Expr::Maximum(..) => true,
            Expr::Concat(_) | Expr::Linear(_) => true,
            Expr::Input(_) | Expr::Const(_) | Expr::Fill(_) | Expr::Variable(_) | Expr::Step(..) => false,
            Expr::Rnn(..) | Expr::Stack(_) | Expr::Swap(_) | Expr::Reverse(_) | Expr::Rows(_) => false,
            Expr::Reshape(_) | Expr::Kernel(..) | Expr::Scale(..) => false,
        }
    }

    /// A copy of a stepwise expression with these operands.
    pub fn with_operands(&mut self, id: Id, operands: &[Id]) -> Made {
        match (self.expr(id).clone(), operands) {
            (Expr::Unary(activation, _), &[x]) => self.unary(self.activations[activation], x),
            (Expr::Affine(_, gain, shift), &[x]) => self.affine(x, number(gain), number(shift)),
            (Expr::Clip(_, least, greatest), &[x]) => self.clip(x, number(least), number(greatest)),
            (Expr::Softmax(_), &[x]) => self.softmax(x),
            (Expr::Norm(_, gain, shift, epsilon), &[x]) => self.norm(x, gain, shift, epsilon),
            (Expr::Slice(_, start), &[x]) => self.slice(x, start, self.width(id)),
            (Expr::Add(..), &[a, b]) => self.add(a, b),
            (Expr::Mul(..), &[a, b]) => self.mul(a, b),
            (Expr::Maximum(..), &[a, b]) => self.maximum(a, b),
            (Expr::Concat(_), parts) => self.concat(parts),
            (Expr::Linear(mut linear), &[.., last]) => {
                linear.sources_mut().zip(operands).for_each(|(source, &operand)| *source = operand);
                let shape = self.with_width(last, linear.units);
                self.make(Expr::Linear(linear), shape)
            }
            _ => Err(NO_FORM.into()),
        }
    }

    /// The operands that [`Arena::with_operands`] replaces.
    pub fn operands(&self, id: Id) -> Vec<Id> {
        match self.expr(id) {
            Expr::Input(_) | Expr::Const(_) | Expr::Fill(_) | Expr::Variable(_) => vec![],
            &Expr::Step(x, _) | &Expr::Rnn(_, x) | &Expr::Swap(x) | &Expr::Reverse(x) | &Expr::Rows(x) => vec![x],
            &Expr::Reshape(x) | &Expr::Unary(_, x) | &Expr::Affine(x, ..) | &Expr::Clip(x, ..) => vec![x],
            &Expr::Slice(x, _) | &Expr::Softmax(x) | &Expr::Norm(x, ..) => vec![x],
            &Expr::Kernel(x, ..) | &Expr::Scale(x, ..) => vec![x],
            &Expr::Add(a, b) | &Expr::Mul(a, b) | &Expr::Maximum(a, b) => vec![a, b],
            Expr::Stack(parts) | Expr::Concat(parts) => parts.clone(),
            Expr::Linear(linear) => linear.sources().collect(),
        }
    }
}

#[derive(Clone, PartialEq, Eq)]
pub(super) enum Wrap {
    Swap,
    Rows,
    /// Reshape to these leading dimensions.
    Reshape(Vec<Dim>),
}
