//! What a graph computes, as expressions in a normal form: each is made once, sums of matrix products are one
//! [`Linear`], and what only moves features (slices, swaps of batch and time, flattening) stands outside of what
//! computes. However a framework wrote its cell, its gates end as the same expressions.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use tidegate::activation::Activation;

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
const DERIVED: Dim = i64::MIN + 3;
const MAX_DERIVED: Dim = 1 << 16;
/// Largest number that is not a symbol; the smallest is its negative.
const MAX_DIM: Dim = 1 << 48;

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
    derived: Vec<Derived>,
    pub variables: Vec<Variable>,
    pub cells: Vec<Cell>,
    /// Weights that may still be copied out.
    pub(super) values_left: usize,
    /// Values that may still be computed.
    work_left: usize,
    operands_left: usize,
    steps_left: usize,
    /// Slices by what they are of, start and length.
    pub(super) slices: HashMap<(Id, usize, usize), Id>,
    /// What the bodies of loops compute, as sequences, by loop.
    pub(super) lifted: HashMap<(usize, Id), Id>,
    by_content: HashMap<u64, usize>,
    /// The node that is read, to blame for what is made.
    pub origin: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Derived {
    Product(Vec<Dim>),
    Less(Dim, i64),
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

    /// Takes so many values from what weights may have.
    pub fn spend(&mut self, values: usize) -> Result<(), String> {
        match self.values_left.checked_sub(values) {
            Some(left) => {
                self.values_left = left;
                Ok(())
            }
            None => Err("the graph makes far more weights than its file holds".into()),
        }
    }

    /// Takes so many steps from those that may be looked at.
    pub fn spend_steps(&mut self, steps: usize) -> Result<(), String> {
        let left = self.steps_left.checked_sub(steps);
        self.steps_left = left.ok_or("the graph's steps are too intricate")?;
        Ok(())
    }

    /// A constant. A matrix of zeros is a state to begin with.
    pub fn constant(&mut self, tensor: Tensor) -> Made {
        let shape: Vec<Dim> = tensor.shape.iter().map(|&dim| dim as Dim).collect();
        if shape.len() == 2 && !tensor.data.is_empty() && tensor.data.iter().all(|&value| value.to_bits() == 0) {
            return self.make(Expr::Fill(0), shape);
        }
        let number = self.stored(tensor)?;
        self.make(Expr::Const(number), shape)
    }

    /// The number of a tensor; the same is kept once, as an unrolled loop makes it again at every step.
    pub(super) fn stored(&mut self, tensor: Tensor) -> Result<usize, String> {
        let work = tensor.data.len().saturating_add(1);
        self.work_left = self.work_left.checked_sub(work).ok_or("the graph computes far more weights than it holds")?;
        let mut hasher = DefaultHasher::new();
        tensor.shape.hash(&mut hasher);
        for value in &tensor.data {
            hasher.write_u32(value.to_bits());
        }
        let hash = hasher.finish();
        let alike = self.by_content.get(&hash).copied();
        if let Some(number) = alike.filter(|&number| same(&self.tensors[number], &tensor)) {
            return Ok(number);
        }
        self.spend(tensor.data.len())?;
        self.tensors.push(tensor);
        let number = self.tensors.len() - 1;
        self.by_content.insert(hash, number);
        Ok(number)
    }

    /// The constant tensor behind an expression.
    pub fn tensor(&mut self, id: Id) -> Result<usize, String> {
        match *self.expr(id) {
            Expr::Const(tensor) => Ok(tensor),
            Expr::Fill(bits) => {
                let shape: Option<Vec<usize>> = self.shape(id).iter().map(|&dim| usize::try_from(dim).ok()).collect();
                let shape = shape.ok_or("its shape is not known")?;
                let len = shape.iter().try_fold(1_usize, |product, &dim| product.checked_mul(dim));
                let len = len.ok_or("it is too large")?;
                if len > self.values_left {
                    return Err("it is too large".into());
                }
                self.stored(Tensor { shape, data: vec![number(bits); len] })
            }
            _ => Err("it must be constant".into()),
        }
    }

    /// The values of a constant vector.
    pub fn vector(&self, id: Id) -> &[f32] {
        match *self.expr(id) {
            Expr::Const(tensor) => &self.tensors[tensor].data,
            _ => &[],
        }
    }

    /// The one number that a constant is.
    pub fn scalar(&self, id: Id) -> Option<f32> {
        match *self.expr(id) {
            Expr::Fill(bits) => Some(number(bits)),
            Expr::Const(tensor) => match *self.tensors[tensor].data {
                [value] => Some(value),
                _ => None,
            },
            _ => None,
        }
    }

    pub fn is_constant(&self, id: Id) -> bool {
        matches!(self.expr(id), Expr::Const(_) | Expr::Fill(_))
    }

    pub fn is_zero(&self, id: Id) -> bool {
        matches!(self.expr(id), Expr::Fill(0))
    }

    /// A constant as a vector as wide as `width`.
    pub(super) fn as_vector(&mut self, id: Id, width: usize) -> Result<Id, String> {
        if width > self.values_left {
            return Err("it is too large".into());
        }
        let data = match *self.expr(id) {
            Expr::Fill(bits) => vec![number(bits); width],
            Expr::Const(tensor) => match &*self.tensors[tensor].data {
                &[value] => vec![value; width],
                data if data.len() == width && self.shape(id).last() == Some(&(width as Dim)) => data.to_vec(),
                data => return Err(format!("it has {} values where {width} features need one each", data.len())),
            },
            _ => return Err("it must be constant".into()),
        };
        self.constant(Tensor { shape: vec![width], data })
    }

    pub(super) fn zip(&mut self, a: Id, b: Id, width: usize, apply: impl Fn(f32, f32) -> f32) -> Made {
        let (a, b) = (self.as_vector(a, width)?, self.as_vector(b, width)?);
        let data = self.vector(a).iter().zip(self.vector(b)).map(|(&a, &b)| apply(a, b)).collect();
        self.constant(Tensor { shape: vec![width], data })
    }

    /// Of two constants, element by element.
    pub(super) fn fold(&mut self, a: Id, b: Id, apply: impl Fn(f32, f32) -> f32) -> Made {
        let (shape_a, shape_b) = (self.shape(a).to_vec(), self.shape(b).to_vec());
        let shape = match (shape_a.len(), shape_b.len()) {
            _ if shape_a == shape_b => shape_a,
            _ if self.scalar(b).is_some() && shape_a.len() >= shape_b.len() => shape_a,
            _ if self.scalar(a).is_some() => shape_b,
            (from, to) if from >= to && self.width(a) == self.width(b) => shape_a,
            (from, to) if from < to && self.width(a) == self.width(b) => shape_b,
            _ => return Err("its constants differ in shape".into()),
        };
        if let (&Expr::Fill(a), &Expr::Fill(b)) = (self.expr(a), self.expr(b)) {
            return self.make(Expr::Fill(apply(number(a), number(b)).to_bits()), shape);
        }
        let len = shape.iter().try_fold(1_usize, |len, &dim| len.checked_mul(usize::try_from(dim).ok()?));
        let len = len.filter(|&len| len <= self.values_left).ok_or("it is too large")?;
        let values = |id: Id| match self.scalar(id) {
            Some(value) => vec![value],
            None => self.vector(id).to_vec(),
        };
        let (a, b) = (values(a), values(b));
        let data = a.iter().cycle().zip(b.iter().cycle()).take(len).map(|(&a, &b)| apply(a, b)).collect();
        self.constant(Tensor { shape: shape.iter().map(|&dim| dim as usize).collect(), data })
    }

    /// Of a constant, element by element.
    pub fn map(&mut self, id: Id, apply: impl Fn(f32) -> f32) -> Made {
        match *self.expr(id) {
            Expr::Fill(bits) => {
                let shape = self.shape(id).to_vec();
                self.make(Expr::Fill(apply(number(bits)).to_bits()), shape)
            }
            _ => {
                let tensor = self.tensor(id)?;
                let Tensor { shape, data } = &self.tensors[tensor];
                let mapped = Tensor { shape: shape.clone(), data: data.iter().map(|&value| apply(value)).collect() };
                self.constant(mapped)
            }
        }
    }

    // Dimensions.

    fn derive(&mut self, derived: Derived) -> Result<Dim, String> {
        let k = match self.derived.iter().position(|known| *known == derived) {
            Some(k) => k,
            // A graph that derives many has no pattern that is known; few keep the search short.
            None if self.derived.len() == 1024 => return Err("its shapes are too intricate".into()),
            None => {
                self.derived.push(derived);
                self.derived.len() - 1
            }
        };
        Ok(DERIVED + k as Dim)
    }

    /// Number and symbols of a product.
    pub(super) fn factors(&self, dims: &[Dim]) -> Result<(i64, Vec<Dim>), String> {
        let (mut count, mut symbols) = (1_i64, Vec::new());
        for &dim in dims {
            if !is_symbol(dim) {
                count = count.checked_mul(dim).ok_or("its shape is too large")?;
                continue;
            }
            match usize::try_from(dim.wrapping_sub(DERIVED)).ok().and_then(|k| self.derived.get(k)) {
                Some(Derived::Product(factors)) => {
                    for &factor in factors {
                        match is_symbol(factor) {
                            true => symbols.push(factor),
                            false => count = count.checked_mul(factor).ok_or("its shape is too large")?,
                        }
                    }
                }
                _ => symbols.push(dim),
            }
        }
        symbols.sort_unstable();
        if symbols.len() > 8 { Err("its shapes are too intricate".into()) } else { Ok((count, symbols)) }
    }

    /// The product of dimensions.
    pub fn product(&mut self, dims: &[Dim]) -> Result<Dim, String> {
        let (count, mut symbols) = self.factors(dims)?;
        match (&*symbols, count) {
            ([], _) => known(count),
            (&[symbol], 1) => Ok(symbol),
            _ => {
                if count != 1 {
                    symbols.push(count);
                }
                self.derive(Derived::Product(symbols))
            }
        }
    }

    /// A dimension less a number.
    pub fn less(&mut self, dim: Dim, by: i64) -> Result<Dim, String> {
        match is_symbol(dim) {
            true if by == 0 => Ok(dim),
            true => self.derive(Derived::Less(dim, by)),
            false => dim.checked_sub(by).ok_or_else(|| TOO_LARGE.into()).and_then(known),
        }
    }

    /// Which step of so many.
    pub fn at(&mut self, index: Dim, steps: Dim) -> Result<At, String> {
        if index == -1 || index == self.less(steps, 1)? {
            return Ok(At::Last);
        }
        match usize::try_from(index) {
            Ok(step) if is_symbol(steps) || (step as Dim) < steps => Ok(At::Step(step)),
            _ => Err("it takes a step that the sequence does not have".into()),
        }
    }

    /// Leading dimensions that both may have; a batch fits any.
    pub(super) fn leading(&self, a: Id, b: Id) -> Result<Vec<Dim>, String> {
        let lead = |id: Id| {
            let shape = self.shape(id);
            shape.get(..shape.len().saturating_sub(1)).unwrap_or_default()
        };
        let (a, b) = (lead(a), lead(b));
        if a.len() != b.len() {
            return Err(format!("its operands have {} and {} dimensions", a.len() + 1, b.len() + 1));
        }
        let both = a.iter().zip(b).map(|(&a, &b)| match (a, b) {
            (a, b) if a == b => Ok(a),
            (BATCH, _) | (_, BATCH) => Ok(BATCH),
            _ => Err("its operands differ in shape".to_owned()),
        });
        both.collect()
    }

    /// The values of a part of a matrix.
    pub fn block(&self, block: Block, units: usize) -> Tensor {
        let tensor = &self.tensors[block.tensor];
        let cols = tensor.shape[1];
        let rows = tensor.data.chunks(cols).skip(block.row).take(block.rows);
        let data = rows.flat_map(|row| &row[block.col..block.col + units]).copied().collect();
        Tensor { shape: vec![block.rows, units], data }
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

const TOO_LARGE: &str = "its value is too large";

/// A number that is no symbol.
pub(super) fn known(dim: Dim) -> Result<Dim, String> {
    if (-MAX_DIM..=MAX_DIM).contains(&dim) { Ok(dim) } else { Err(TOO_LARGE.into()) }
}

#[derive(Clone, PartialEq, Eq)]
pub(super) enum Wrap {
    Swap,
    Rows,
    /// With these leading dimensions.
    Reshape(Vec<Dim>),
}

fn same(a: &Tensor, b: &Tensor) -> bool {
    a.shape == b.shape && a.data.iter().zip(&b.data).all(|(a, b)| a.to_bits() == b.to_bits())
}
