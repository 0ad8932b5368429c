//! `PAD`: zeros around a value, which integers represent by their zero point.

use tidegate::internals::cell::CellKind;

use super::conv::{SAME, is_conv};
use super::lower::{Reader, Refused, Trouble, Value};
use super::schema::{Operator, Type};
use crate::canonical::Tensor;
use crate::format::{axis::Around, layer::Layer, refuse::fail_if};

/// The most elements of a row that a gather reads.
const MOST: usize = u16::MAX as usize;
/// Memory of an index in bytes, here and in the model.
const INDEX: usize = 24;

impl Reader<'_> {
    pub(super) fn pad(&mut self, operator: &Operator<'_>) -> Refused {
        let x = self.value(operator, 0)?;
        let (_, by, _) = self.integers(operator, 1, Type::I32)?.ok_or("its paddings are missing")?;
        self.same_counts(operator, &x)?;
        let number = |&by: &i64| usize::try_from(by).ok().filter(|&by| by <= MOST);
        let by: Option<Vec<usize>> = by.iter().map(number).collect();
        let around = by.as_ref().map(|by| by.as_chunks::<2>().0).filter(|around| around.len() == x.shape.len());
        let around = around.ok_or_else(|| format!("its paddings do not fit {:?}", x.shape))?;
        if around.iter().all(|around| *around == [0, 0]) {
            return Ok(x);
        }
        let shape: Vec<usize> = x.shape.iter().zip(around).map(|(dim, [before, after])| dim + before + after).collect();
        self.has_shape(operator, &shape)?;
        if let &[[0, 0], rows, cols, [0, 0]] = around
            && let Some(output) = self.only_read_by_convolutions(operator)?
        {
            self.padded.insert(output, [rows, cols]);
            return Ok(x);
        }
        self.surrounded(x, around, shape)
    }

    /// The output of a `PAD` if only convolutions without padding of their own read it; these then add the zeros.
    fn only_read_by_convolutions(&self, operator: &Operator<'_>) -> Result<Option<usize>, Trouble> {
        let Some(output) = operator.outputs.first().copied().flatten() else { return Ok(None) };
        if self.model.main.outputs.contains(&output) {
            return Ok(None);
        }
        for reader in self.model.main.operators.iter().filter(|of| of.inputs.contains(&Some(output))) {
            let others = reader.inputs.iter().skip(1).any(|&input| input == Some(output));
            if others || !is_conv(reader.op) || reader.option("padding", SAME)? == SAME {
                return Ok(None);
            }
        }
        Ok(Some(output))
    }

    /// A value with zeros around it, by their indices.
    fn surrounded(&mut self, x: Value, around: &[Around], shape: Vec<usize>) -> Refused {
        let along = x.along.axis().filter(|&axis| around[axis] == [0, 0]);
        let x = if along.is_some() { x } else { self.flat(x) };
        // The dimensions of a step.
        let dims = || x.shape.iter().zip(around).enumerate().filter(|&(axis, _)| Some(axis) != along).map(|(_, of)| of);
        let (mut size, mut padded) = (1_usize, 1_usize);
        for (&dim, [before, after]) in dims() {
            (size, padded) = (size.saturating_mul(dim), padded.saturating_mul(dim + before + after));
        }
        fail_if(size != x.features(), format_args!("its input has {size} elements, but {} a step", x.features()))?;
        fail_if(size > MOST, format_args!("its input has {size} elements; at most {MOST} are supported"))?;
        self.take_numbers(padded, INDEX)?;
        let mut index = vec![Some(0)];
        for (&dim, &[before, after]) in dims() {
            let places = |at: Option<usize>| {
                (0..before + dim + after).map(move |k| Some(at? * dim + k.checked_sub(before).filter(|&k| k < dim)?))
            };
            index = index.into_iter().flat_map(places).collect();
        }
        // An index behind the row is a zero.
        let index = index.into_iter().map(|at| at.unwrap_or(size) as f32).collect();
        Ok(self.gathered(x, index, shape))
    }

    /// A value with its dimensions in another order. All of its elements are available at once.
    pub(super) fn reordered(&mut self, x: Value, order: &[usize]) -> Refused {
        let x = self.flat(x);
        let size = x.features();
        fail_if(size > MOST, format_args!("its input has {size} elements; at most {MOST} are supported"))?;
        let all = x.shape.iter().try_fold(1_usize, |all, &dim| all.checked_mul(dim));
        fail_if(all != Some(size), format_args!("its input is {:?}, but has {size} elements a step", x.shape))?;
        self.take_numbers(size, INDEX)?;
        let mut strides = vec![1; x.shape.len()];
        for axis in (1..strides.len()).rev() {
            strides[axis - 1] = strides[axis] * x.shape[axis];
        }
        let mut index = vec![0];
        for &axis in order {
            let along = |at: usize| (0..x.shape[axis]).map(move |k| (k, at));
            index = index.into_iter().flat_map(along).map(|(k, at)| at + k * strides[axis]).collect();
        }
        let shape = order.iter().map(|&axis| x.shape[axis]).collect();
        Ok(self.gathered(x, index.into_iter().map(|at| at as f32).collect(), shape))
    }

    /// The elements of a value, or of each of its steps, repeated along its dimensions of 1.
    pub(super) fn spread(&mut self, x: Value, shape: Vec<usize>) -> Refused {
        let dims = x.shape.iter().zip(&shape).enumerate().filter(|&(axis, _)| Some(axis) != x.along.axis());
        let dims: Vec<(usize, usize)> = dims.map(|(_, (&own, &dim))| (own, dim)).collect();
        let size = dims.iter().try_fold(1_usize, |all, &(_, dim)| all.checked_mul(dim)).unwrap_or(usize::MAX);
        fail_if(size > MOST, format_args!("it repeats its input to {size} elements; at most {MOST} are supported"))?;
        self.take_numbers(size, INDEX)?;
        let mut index = vec![0];
        for (own, dim) in dims {
            let along = |at: usize| (0..dim).map(move |k| at * own + if own == 1 { 0 } else { k });
            index = index.into_iter().flat_map(along).collect();
        }
        Ok(self.gathered(x, index.into_iter().map(|at| at as f32).collect(), shape))
    }

    /// The elements of a value at these positions.
    fn gathered(&mut self, x: Value, index: Vec<f32>, shape: Vec<usize>) -> Value {
        let layer = Layer::new(CellKind::Gather, x.features(), index.len()).extent("rows", 1);
        let layer = layer.tensor("index", Tensor { shape: vec![index.len()], data: index });
        let source = self.network.add(layer, &[&x.source]);
        Value { source, shape, ..x }
    }
}
