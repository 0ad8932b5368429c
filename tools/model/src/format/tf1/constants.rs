//! Constants of the normal form. Each tensor is stored once, and an expression of constants is folded to a constant. A
//! budget limits files that claim more values than they hold or compute far more than they hold.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::symbol::{Arena, Block, Dim, Expr, Id, Made, fail_if, number};
use crate::canonical::Tensor;

impl Arena {
    /// Subtracts `values` from the budget for weights.
    pub fn spend(&mut self, values: usize) -> Result<(), String> {
        let left = self.values_left.checked_sub(values);
        self.values_left = left.ok_or("the graph makes far more weights than its file holds")?;
        Ok(())
    }

    /// Subtracts `steps` from the budget for examined steps.
    pub fn spend_steps(&mut self, steps: usize) -> Result<(), String> {
        let left = self.steps_left.checked_sub(steps);
        self.steps_left = left.ok_or("the graph's steps are too intricate")?;
        Ok(())
    }

    /// Makes a constant. A matrix of zeros becomes a [`Expr::Fill`], because it can be an initial state.
    pub fn constant(&mut self, tensor: Tensor) -> Made {
        let shape: Vec<Dim> = tensor.shape.iter().map(|&dim| dim as Dim).collect();
        if shape.len() == 2 && !tensor.data.is_empty() && tensor.data.iter().all(|&value| value.to_bits() == 0) {
            return self.make(Expr::Fill(0), shape);
        }
        let number = self.stored(tensor)?;
        self.make(Expr::Const(number), shape)
    }

    /// Stores a tensor and returns its number. An unrolled loop makes equal tensors, which are stored once.
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

    /// The number of the constant tensor that an expression stands for.
    pub fn tensor(&mut self, id: Id) -> Result<usize, String> {
        match *self.expr(id) {
            Expr::Const(tensor) => Ok(tensor),
            Expr::Fill(bits) => {
                let shape = known_shape(self.shape(id))?;
                let len = shape.iter().try_fold(1_usize, |product, &dim| product.checked_mul(dim));
                let len = len.filter(|&len| len <= self.values_left).ok_or("it is too large")?;
                self.stored(Tensor { shape, data: vec![number(bits); len] })
            }
            _ => Err("it must be constant".into()),
        }
    }

    pub fn vector(&self, id: Id) -> &[f32] {
        if let Expr::Const(tensor) = *self.expr(id) { &self.tensors[tensor].data } else { &[] }
    }

    pub fn constant_vector(&self, id: Id) -> Tensor {
        let data = self.vector(id).to_vec();
        Tensor { shape: vec![data.len()], data }
    }

    /// The value of a constant that consists of one number.
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

    /// Broadcasts a constant to a vector of `width` values.
    pub(super) fn as_vector(&mut self, id: Id, width: usize) -> Result<Id, String> {
        fail_if(width > self.values_left, "it is too large")?;
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

    pub(super) fn zip(&mut self, a: Id, b: Id, width: usize, apply: fn(f32, f32) -> f32) -> Made {
        let (a, b) = (self.as_vector(a, width)?, self.as_vector(b, width)?);
        let data = self.vector(a).iter().zip(self.vector(b)).map(|(&a, &b)| apply(a, b)).collect();
        self.constant(Tensor { shape: vec![width], data })
    }

    pub(super) fn fold(&mut self, a: Id, b: Id, apply: fn(f32, f32) -> f32) -> Made {
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
        let values = |id: Id| self.scalar(id).map_or_else(|| self.vector(id).to_vec(), |value| vec![value]);
        let (a, b) = (values(a), values(b));
        let data = a.iter().cycle().zip(b.iter().cycle()).take(len).map(|(&a, &b)| apply(a, b)).collect();
        self.constant(Tensor { shape: shape.iter().map(|&dim| dim as usize).collect(), data })
    }

    pub fn map(&mut self, id: Id, apply: &dyn Fn(f32) -> f32) -> Made {
        match *self.expr(id) {
            Expr::Fill(bits) => {
                let shape = self.shape(id).to_vec();
                self.make(Expr::Fill(apply(number(bits)).to_bits()), shape)
            }
            _ => {
                let tensor = self.tensor(id)?;
                let mut mapped = self.tensors[tensor].clone();
                mapped.data.iter_mut().for_each(|value| *value = apply(*value));
                self.constant(mapped)
            }
        }
    }

    /// Copies a block out of a constant matrix.
    pub fn block(&self, block: Block, units: usize) -> Tensor {
        let tensor = &self.tensors[block.tensor];
        let cols = tensor.shape[1];
        let rows = tensor.data.chunks(cols).skip(block.row).take(block.rows);
        let data = rows.flat_map(|row| &row[block.col..block.col + units]).copied().collect();
        Tensor { shape: vec![block.rows, units], data }
    }
}

/// A shape without symbols.
pub(super) fn known_shape(shape: &[Dim]) -> Result<Vec<usize>, String> {
    let shape: Option<Vec<usize>> = shape.iter().map(|&dim| usize::try_from(dim).ok()).collect();
    shape.ok_or_else(|| "its shape is not known".into())
}

fn same(a: &Tensor, b: &Tensor) -> bool {
    a.shape == b.shape && a.data.iter().zip(&b.data).all(|(a, b)| a.to_bits() == b.to_bits())
}
