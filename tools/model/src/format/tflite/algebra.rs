//! The operators of a graph as expressions in the normal form of [`tf1`](crate::format::tf1), in which a cell has the
//! same form however a converter wrote it.
//!
//! The graph computes one step of one sequence: a value is a row, whose elements are in one dimension. In the body of a
//! loop, a list holds the outputs of all steps, and each step writes its own row. An unrolled graph computes all steps of a
//! sequence, whose values are the rows of single steps and the sequences of all rows.

mod rows;
mod sequences;

use std::collections::HashMap;

use tidegate::internals::activation::Activation;

use super::lower::Trouble;
use super::options::FUSED;
use super::schema::{Graph, Model, Operator, Type, floats, integers};
use crate::budget::Budget;
use crate::canonical::Tensor;
use crate::format::refuse::fail_if;
use crate::format::tf1::{Arena, Expr, Id};

pub use sequences::steps_axis;

/// Memory of a number of a constant in bytes: an f32 in the file's order, in the arena and in a layer.
const NUMBER: usize = 12;
/// Maximum number of values for each byte of a file: a weight of int8 as it is in the file, and transposed.
const VALUES: usize = 2;
/// Maximum number of integers of a constant, such as a shape.
pub(super) const MOST_WHOLE: usize = 16;

/// An integer in the body of a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    Is(i64),
    /// The number of the current step plus this offset.
    Turn(i64),
}

/// The value of a tensor.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// A row of elements, or a constant.
    Real(Id),
    Whole(Vec<Count>),
    /// The rows of a sequence, [1, steps, features].
    Sequence(Id),
    /// Rows `from` to `to` of a list, by the number of the list.
    Part {
        list: usize,
        from: Count,
        to: Count,
    },
    /// A list with this value in the row of the current step.
    Written {
        list: usize,
        value: Id,
    },
    /// Whether the number of the step is below this bound.
    Below(i64),
}

/// The values of a graph that have been read.
pub struct Algebra<'r, 'a> {
    model: &'a Model<'a>,
    graph: &'r Graph<'a>,
    budget: &'r mut Budget,
    pub arena: Arena,
    pub items: HashMap<usize, Item>,
    /// Single steps of sequences, by the sequence and the step.
    steps: HashMap<(Id, usize), Id>,
    /// Weights whose columns were rows in the file, by their tensors.
    turned: HashMap<usize, Id>,
    /// Whether any weights are integers beside float activations.
    pub hybrid: bool,
    /// Whether rows of a tensor may be the steps of a sequence.
    pub has_sequences: bool,
}

type Items = Result<Vec<Item>, Trouble>;

impl<'r, 'a> Algebra<'r, 'a> {
    pub fn new(model: &'a Model<'a>, graph: &'r Graph<'a>, budget: &'r mut Budget) -> Self {
        Self {
            model,
            graph,
            budget,
            arena: Arena::new(model.len.saturating_mul(VALUES)),
            items: HashMap::new(),
            steps: HashMap::new(),
            turned: HashMap::new(),
            has_sequences: false,
            hybrid: false,
        }
    }

    /// Reads an operator.
    pub fn read(&mut self, operator: &Operator<'a>) -> Result<(), Trouble> {
        let items = self.apply(operator)?;
        operator.check_options()?;
        let misfit = items.len() != operator.outputs.len();
        fail_if(misfit, format_args!("it has {} outputs, not {}", operator.outputs.len(), items.len()))?;
        for (item, output) in items.into_iter().zip(&operator.outputs) {
            let output = output.ok_or("one of its outputs is missing")?;
            if let Item::Real(id) | Item::Sequence(id) = item
                && !self.arena.is_constant(id)
            {
                let (width, shape) = (self.arena.width(id), self.graph.tensors[output].shape()?);
                let rows = if let Item::Sequence(id) = item { self.arena.shape(id)[1] as usize } else { 1 };
                let size = shape.iter().try_fold(1_usize, |size, &dim| size.checked_mul(dim));
                let other = self.graph.tensors[output].of != Type::F32 || size != width.checked_mul(rows);
                fail_if(other, format_args!("its output is {shape:?}, not {rows} float rows of {width}"))?;
            }
            self.items.insert(output, item);
        }
        Ok(())
    }

    /// The value of a tensor: a constant, or what an operator has computed.
    pub fn item(&mut self, number: usize) -> Result<Item, Trouble> {
        if let Some(item) = self.items.get(&number) {
            return Ok(item.clone());
        }
        let tensor = &self.graph.tensors[number];
        let missing = || tensor.name().map_or_else(Trouble::from, |name| format!("{name:?} is not known").into());
        let shape = tensor.shape()?;
        let item = if matches!(tensor.of, Type::I32 | Type::I64) {
            let many = shape.iter().product::<usize>() > MOST_WHOLE;
            fail_if(many, format_args!("it reads integers of shape {shape:?}"))?;
            let data = integers(self.model, tensor)?.ok_or_else(missing)?;
            Item::Whole(data.into_iter().map(Count::Is).collect())
        } else {
            self.model.data(tensor)?.ok_or_else(missing)?;
            self.budget.take(shape.iter().product(), NUMBER).map_err(crate::error::ImportError::from)?;
            let data = floats(self.model, tensor)?.ok_or_else(missing)?;
            Item::Real(self.arena.constant(Tensor { shape, data })?)
        };
        self.items.insert(number, item.clone());
        Ok(item)
    }

    fn input(&mut self, operator: &Operator<'_>, index: usize) -> Result<Item, Trouble> {
        let number = operator.inputs.get(index).copied().flatten();
        self.item(number.ok_or_else(|| format!("its input {index} is missing"))?)
    }

    fn real(&mut self, operator: &Operator<'_>, index: usize) -> Result<Id, Trouble> {
        match self.input(operator, index)? {
            Item::Real(id) => Ok(id),
            _ => Err(format!("its input {index} is not a row of numbers").into()),
        }
    }

    /// A row, or the rows of a sequence.
    fn rows(&mut self, operator: &Operator<'_>, index: usize) -> Result<Id, Trouble> {
        match self.input(operator, index)? {
            Item::Sequence(id) => Ok(id),
            _ => self.real(operator, index),
        }
    }

    fn has(&self, operator: &Operator<'_>, index: usize) -> bool {
        matches!(operator.inputs.get(index), Some(Some(_)))
    }

    /// Known integers.
    fn whole(&mut self, operator: &Operator<'_>, index: usize) -> Result<Vec<i64>, Trouble> {
        let known = match self.input(operator, index)? {
            Item::Whole(counts) => counts.into_iter().map(|count| match count {
                Count::Is(value) => Some(value),
                Count::Turn(_) => None,
            }),
            _ => return Err(format!("its input {index} is not integers").into()),
        };
        Ok(known.collect::<Option<_>>().ok_or_else(|| format!("its input {index} is not known"))?)
    }

    fn shape(&self, operator: &Operator<'_>, index: usize) -> Result<Vec<usize>, Trouble> {
        let number = operator.inputs.get(index).copied().flatten();
        Ok(self.graph.tensors[number.ok_or_else(|| format!("its input {index} is missing"))?].shape()?)
    }

    fn apply(&mut self, operator: &Operator<'_>) -> Items {
        let first = operator.inputs.first().copied().flatten();
        if let Some(&Item::Sequence(id)) = first.and_then(|first| self.items.get(&first)) {
            match operator.op {
                "RESHAPE" | "SQUEEZE" | "EXPAND_DIMS" | "TRANSPOSE" => return Ok(vec![self.same_steps(operator, id)?]),
                "SLICE" | "STRIDED_SLICE" => return Ok(vec![self.selected(operator, id)?]),
                "UNPACK" => return self.unpacked(operator, id),
                "REVERSE_V2" => return Ok(vec![self.turned(operator, id)?]),
                _ => {}
            }
        }
        if matches!(operator.op, "PACK" | "CONCATENATION")
            && let Some(item) = self.joined(operator)?
        {
            return Ok(vec![item]);
        }
        let real = |id| Ok(vec![Item::Real(id)]);
        match operator.op {
            "FULLY_CONNECTED" | "BATCH_MATMUL" => {
                let sum = self.product(operator)?;
                Ok(vec![self.item_of(sum)])
            }
            "ADD" | "SUB" | "MUL" => self.arithmetic(operator),
            "LOGISTIC" => self.unary(operator, Activation::Sigmoid),
            "TANH" => self.unary(operator, Activation::Tanh),
            "RELU" => self.unary(operator, Activation::Relu),
            "RELU6" => self.unary(operator, Activation::Relu6),
            "RELU_N1_TO_1" => self.unary(operator, Activation::HardTanh),
            "HARD_SWISH" => self.unary(operator, Activation::HardSwish),
            "ELU" => self.unary(operator, Activation::Elu { alpha: 1.0 }),
            "MINIMUM" | "MAXIMUM" => real(self.clip(operator)?),
            "SOFTMAX" if operator.option("beta", 1.0_f32)? == 1.0 => {
                let x = self.rows(operator, 0)?;
                let id = self.arena.softmax(x)?;
                Ok(vec![self.item_of(id)])
            }
            "FILL" => real(self.filled(operator)?),
            "RESHAPE" | "SQUEEZE" | "EXPAND_DIMS" | "PACK" | "UNPACK" | "DEQUANTIZE" => self.same(operator),
            "SPLIT" | "SPLIT_V" => self.split(operator),
            "STRIDED_SLICE" => real(self.strided(operator)?),
            "SLICE" => self.slice(operator),
            "CONCATENATION" => self.concatenation(operator),
            "GATHER" => real(self.gather(operator)?),
            "LESS" | "LOGICAL_AND" => self.condition(operator),
            _ => Err("it is not supported in a recurrent cell".into()),
        }
    }

    /// A product with a constant matrix, and a bias.
    fn product(&mut self, operator: &Operator<'_>) -> Result<Id, Trouble> {
        let dense = operator.op == "FULLY_CONNECTED";
        let x = self.rows(operator, 0)?;
        let packed = dense && operator.option("weights_format", 0_i8)? != 0;
        fail_if(packed, "attribute weights_format is not DEFAULT, which is not supported")?;
        let adjoint = !dense && operator.option("adj_x", 0_u8)? != 0;
        fail_if(adjoint, "attribute adj_x is set, which is not supported")?;
        let rows_first = !dense && operator.option("adj_y", 0_u8)? == 0;
        let weights = self.real(operator, 1)?;
        let number = operator.inputs.get(1).copied().flatten().unwrap_or_default();
        self.hybrid |= self.graph.tensors[number].of == Type::I8;
        fail_if(!self.arena.is_constant(weights), "its weights are not a constant")?;
        let tensor = self.arena.tensor(weights)?;
        let weights = if rows_first {
            weights
        } else if let Some(&turned) = self.turned.get(&number) {
            turned
        } else {
            let [rows, cols] = *self.arena.tensors[tensor].shape else {
                return Err("its weights are no matrix".into());
            };
            let data = &self.arena.tensors[tensor].data;
            let data = (0..cols).flat_map(|col| data.iter().skip(col).step_by(cols).copied()).collect();
            let turned = self.arena.constant(Tensor { shape: vec![cols, rows], data })?;
            self.turned.insert(number, turned);
            turned
        };
        let mut sum = self.arena.matmul(x, weights)?;
        if dense && self.has(operator, 2) {
            let bias = self.real(operator, 2)?;
            fail_if(!self.arena.is_constant(bias), "its bias is not a constant")?;
            sum = self.arena.add(sum, bias)?;
        }
        if dense { self.limited(operator, sum) } else { Ok(sum) }
    }

    /// The fused activation of an operator.
    fn limited(&mut self, operator: &Operator<'_>, x: Id) -> Result<Id, Trouble> {
        match operator.limit()? {
            Activation::Identity => Ok(x),
            activation => Ok(self.arena.unary(activation, x)?),
        }
    }

    fn unary(&mut self, operator: &Operator<'_>, activation: Activation) -> Items {
        let x = self.rows(operator, 0)?;
        let id = self.arena.unary(activation, x)?;
        Ok(vec![self.item_of(id)])
    }

    fn arithmetic(&mut self, operator: &Operator<'_>) -> Items {
        let (a, b) = (self.input(operator, 0)?, self.input(operator, 1)?);
        if let (Item::Whole(a), Item::Whole(b)) = (&a, &b) {
            let sum = match (operator.op, a.as_slice(), b.as_slice()) {
                ("ADD", &[Count::Turn(turn)], &[Count::Is(by)]) | ("ADD", &[Count::Is(by)], &[Count::Turn(turn)]) => {
                    Count::Turn(turn.saturating_add(by))
                }
                _ => return Err("it computes other integers than the next step".into()),
            };
            fail_if(operator.option(FUSED, 0_i8)? != 0, format_args!("attribute {FUSED} is not 0"))?;
            return Ok(vec![Item::Whole(vec![sum])]);
        }
        let (Item::Real(a) | Item::Sequence(a), Item::Real(b) | Item::Sequence(b)) = (a, b) else {
            return Err("its inputs are not rows of numbers".into());
        };
        self.arena.are_alike(a, b)?;
        let id = match operator.op {
            "ADD" => self.arena.add(a, b)?,
            "MUL" => self.arena.mul(a, b)?,
            _ => self.arena.sub(a, b)?,
        };
        let id = self.limited(operator, id)?;
        Ok(vec![self.item_of(id)])
    }

    /// A state before the first step. Its shape follows from a batch of one.
    fn filled(&mut self, operator: &Operator<'_>) -> Result<Id, Trouble> {
        let value = self.real(operator, 1)?;
        let value = self.arena.scalar(value).ok_or("its value is not a constant number")?;
        let output = operator.outputs.first().copied().flatten().ok_or("it has no output")?;
        let width = self.graph.tensors[output].shape()?.iter().try_fold(1_usize, |size, &dim| size.checked_mul(dim));
        let width = width.and_then(|width| i64::try_from(width).ok()).ok_or("it is too large")?;
        Ok(self.arena.make(Expr::Fill(value.to_bits()), vec![1, width])?)
    }

    fn clip(&mut self, operator: &Operator<'_>) -> Result<Id, Trouble> {
        let (a, b) = (self.real(operator, 0)?, self.real(operator, 1)?);
        let (x, bound) = if self.arena.is_constant(a) { (b, a) } else { (a, b) };
        let bound = self.arena.scalar(bound).ok_or("its bound is not a constant number")?;
        let [least, greatest] =
            if operator.op == "MINIMUM" { [f32::NEG_INFINITY, bound] } else { [bound, f32::INFINITY] };
        Ok(self.arena.clip(x, least, greatest)?)
    }

    /// Operators that leave the elements of a row as they are.
    fn same(&mut self, operator: &Operator<'_>) -> Items {
        let several = operator.inputs.len() > 1 && operator.op == "PACK";
        fail_if(several, "it packs several values, which is not supported in a recurrent cell")?;
        let output = operator.outputs.first().copied().flatten().ok_or("it has no output")?;
        let rows = self.has_sequences && steps_axis(&self.graph.tensors[output].shape()?).is_some();
        match self.input(operator, 0)? {
            Item::Real(id) if rows && !self.arena.is_constant(id) => Err("it makes rows of one row".into()),
            item @ (Item::Real(_) | Item::Whole(_)) => Ok(vec![item]),
            _ => Err("it reshapes more than a row".into()),
        }
    }

    /// The condition of a loop.
    fn condition(&mut self, operator: &Operator<'_>) -> Items {
        let below = match (operator.op, self.input(operator, 0)?, self.input(operator, 1)?) {
            ("LESS", Item::Whole(turn), Item::Whole(bound)) => match (turn.as_slice(), bound.as_slice()) {
                (&[Count::Turn(0)], &[Count::Is(bound)]) => Some(bound),
                _ => None,
            },
            ("LOGICAL_AND", Item::Below(a), Item::Below(b)) => Some(a.min(b)),
            _ => None,
        };
        Ok(vec![Item::Below(below.ok_or("it does not compare the number of the step with a known number of steps")?)])
    }

    /// A state of the loop, which starts at zero.
    pub fn state(&mut self, width: usize) -> Result<Id, Trouble> {
        let zeros = self.arena.make(Expr::Fill(0), vec![1, width as i64])?;
        Ok(self.arena.state(0, zeros)?)
    }
}
