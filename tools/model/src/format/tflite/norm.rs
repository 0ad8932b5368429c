//! Layer normalization, which converters take apart into means, squares and a root.

use tidegate::internals::cell::CellKind;

use super::lower::{Reader, Trouble, Value};
use super::moment::{Made, Moment, Operand, made, spread};
use super::schema::{Operator, Type};
use crate::canonical::Tensor;
use crate::format::layer::Layer;
use crate::format::network::Source;
use crate::format::refuse::fail_if;

impl Reader<'_> {
    /// Reads an operator of a normalization; `None` for any other operator.
    pub(super) fn normalization(&mut self, operator: &Operator<'_>) -> Result<Option<Vec<(usize, Value)>>, Trouble> {
        let known = |input: &Option<usize>| input.is_some_and(|input| self.moments.contains_key(&input));
        if !(operator.inputs.iter().any(known) || self.is_mean(operator)?) {
            return Ok(None);
        }
        let &[Some(output)] = operator.outputs.as_slice() else { return Ok(None) };
        if matches!(operator.op, "RESHAPE" | "SQUEEZE" | "EXPAND_DIMS")
            && let Some(moment) = self.moments.get(&self.input_number(operator, 0)?).cloned()
        {
            let count = |shape: Vec<usize>| shape.into_iter().product::<usize>();
            let of_x = self.shape_of(moment.x)?;
            let steps = of_x.split_last().map_or(1, |(_, steps)| steps.iter().product());
            let fits = moment.is_of_a_step() && count(self.input_shape(operator)?) == steps;
            fail_if(!(fits && count(self.shape_of(output)?) == steps), "it changes a value inside of a normalization")?;
            self.moments.insert(output, moment);
            return Ok(Some(Vec::new()));
        }
        self.are_of_the_same_steps(operator)?;
        let a = self.operand(operator, 0)?;
        if operator.op == "MEAN" {
            let shape = self.input_shape(operator)?;
            fail_if(!self.is_over_features(operator, &shape)?, "it is not the mean of the features of a step")?;
        }
        let b =
            if operator.op == "MEAN" || operator.inputs.len() < 2 { None } else { Some(self.operand(operator, 1)?) };
        let moment = match made(operator.op, a, b).ok_or("it is not a known form of layer normalization")? {
            Made::Inside(moment) => {
                operator.limit_is_none()?;
                self.moments.insert(output, moment);
                return Ok(Some(Vec::new()));
            }
            Made::Whole(moment) => moment,
        };
        let x =
            self.values.get(&moment.x).cloned().ok_or("what it normalizes is not computed by an earlier operator")?;
        let is_last = operator.limit_is_none().is_err();
        let (moment, output) = if is_last { (moment, output) } else { self.affine(moment, output)? };
        self.has_shape_of(output, &x)?;
        // Each position of a whole window is normalized by itself.
        let x = if x.is_by_positions() { x } else { x.clone().in_positions().unwrap_or(x) };
        let source = self.layer_norm(&x, moment)?;
        let value = self.activated(operator, Value { source, ..x })?;
        Ok(Some(vec![(output, value)]))
    }

    /// A layer that normalizes the features of each step of a value.
    pub(super) fn layer_norm(&mut self, x: &Value, moment: Moment) -> Result<Source, Trouble> {
        let size = x.features();
        for (name, data) in [("gain", &moment.gain), ("bias", &moment.bias)] {
            let misfit = data.as_ref().is_some_and(|data| ![1, size].contains(&data.len()));
            fail_if(misfit, format_args!("its {name} does not have {size} values"))?;
        }
        let vector = |data: Vec<f32>| Tensor { shape: vec![size], data: spread(data, size) };
        let epsilon = moment.epsilon.ok_or("it has no epsilon")?;
        let mut layer = Layer::new(CellKind::LayerNorm, size, size).param("epsilon", epsilon);
        if let Some(gain) = moment.gain {
            layer = layer.option("gain").tensor("gain", vector(gain));
        }
        let layer = layer.optional("bias", moment.bias.map(vector));
        Ok(self.network.add(layer, &[&x.source]))
    }

    /// Refuses two computed operands unless each number of one is for the same step of the other.
    fn are_of_the_same_steps(&mut self, operator: &Operator<'_>) -> Result<(), Trouble> {
        let &[Some(a), Some(b)] = operator.inputs.as_slice() else { return Ok(()) };
        for [constant, other] in [[a, b], [b, a]] {
            let constant = self.behind(constant);
            if !self.is_constant(Some(constant)) {
                continue;
            }
            // A constant for each feature needs the features, or a dimension of 1 in their place.
            let Some(x) = self.moments.get(&other).map(|moment| moment.x) else { return Ok(()) };
            let (shape, number) = (self.shape_of(other)?, self.shape_of(constant)?.iter().product::<usize>());
            let fits = number == 1
                || shape.iter().all(|&dim| dim == 1)
                || shape.last() == Some(&1)
                || shape == self.shape_of(x)?;
            return Ok(fail_if(!fits, format_args!("its inputs are {shape:?} and {number} numbers"))?);
        }
        let (a, b) = (self.shape_of(a)?, self.shape_of(b)?);
        let single = |shape: &[usize]| shape.iter().all(|&dim| dim == 1);
        let alike = a == b || single(&a) || single(&b) || {
            let steps = |shape: &[usize]| shape.split_last().map_or(Vec::new(), |(_, steps)| steps.to_vec());
            steps(&a) == steps(&b) && (a.last() == Some(&1) || b.last() == Some(&1))
        };
        Ok(fail_if(!alike, format_args!("its inputs are {a:?} and {b:?}, which is no layer normalization"))?)
    }

    /// Refuses a normalized value of another shape.
    fn has_shape_of(&self, output: usize, x: &Value) -> Result<(), Trouble> {
        let found = self.shape_of(output)?;
        Ok(fail_if(found != x.shape, format_args!("its output is {found:?}, not {:?}", x.shape))?)
    }

    /// Whether an operator is the mean of each step's features.
    fn is_mean(&mut self, operator: &Operator<'_>) -> Result<bool, Trouble> {
        if operator.op != "MEAN" {
            return Ok(false);
        }
        let Some(x) = self.port(operator, 0).and_then(|number| self.values.get(&number).cloned()) else {
            return Ok(false);
        };
        let over = self.is_over_features(operator, &x.shape)?;
        let is_float = x.counts.is_none();
        // The last dimension of a whole window may count its steps, of which a pool takes the mean.
        Ok(over && is_float && (x.is_by_positions() || (x.in_positions().is_some() && self.is_subtracted(operator))))
    }

    /// Whether another operator subtracts the output of an operator from its input.
    fn is_subtracted(&self, operator: &Operator<'_>) -> bool {
        let read = [operator.inputs.first(), operator.outputs.first()].map(|number| number.copied().flatten());
        let subtracts = |of: &Operator<'_>| matches!(of.op, "SUB" | "SQUARED_DIFFERENCE");
        let mut others = self.model.main.operators.iter().filter(|of| subtracts(of));
        others.any(|of| read.iter().all(|number| of.inputs.contains(number)))
    }

    /// Whether a `MEAN` of a tensor of this shape is along the last dimension, and perhaps along others of 1.
    fn is_over_features(&mut self, operator: &Operator<'_>, shape: &[usize]) -> Result<bool, Trouble> {
        let axes = self.integers(operator, 1, Type::I32)?.map(|(_, axes, _)| axes).unwrap_or_default();
        let dims = |axis: &i64| {
            let rank = shape.len() as i64;
            usize::try_from(if *axis < 0 { axis.saturating_add(rank) } else { *axis })
                .ok()
                .filter(|&at| at < shape.len())
        };
        let axes: Option<Vec<usize>> = axes.iter().map(dims).collect();
        let last = shape.len().saturating_sub(1);
        Ok(axes.is_some_and(|axes| axes.contains(&last) && axes.iter().all(|&at| at == last || shape[at] == 1)))
    }

    fn operand(&mut self, operator: &Operator<'_>, index: usize) -> Result<Operand, Trouble> {
        let number = self.input_number(operator, index)?;
        if let Some(moment) = self.moments.get(&number) {
            return Ok(Operand::Moment(moment.clone()));
        }
        if self.is_constant(Some(self.behind(number))) {
            let (shape, data) = self.floats(operator, index)?.ok_or("its constant is missing")?;
            let of_features = shape.last().is_none_or(|last| *last == data.len());
            fail_if(!of_features, format_args!("its constant is {shape:?}, not one number for each feature"))?;
            return Ok(Operand::Constant(data));
        }
        Ok(Operand::Tensor(number))
    }

    /// The gain and the bias that follow a normalization, and the last output.
    pub(super) fn affine(&mut self, mut moment: Moment, mut output: usize) -> Result<(Moment, usize), Trouble> {
        for (op, is_gain) in [("MUL", true), ("ADD", false)] {
            let mut readers = self.model.main.operators.iter().filter(|of| of.inputs.contains(&Some(output)));
            let (Some(operator), None) = (readers.next(), readers.next()) else { break };
            let &[Some(next)] = operator.outputs.as_slice() else { break };
            // A factor behind the bias would multiply the bias too.
            let taken = moment.bias.is_some() || (is_gain && moment.gain.is_some());
            if operator.op != op
                || taken
                || operator.limit_is_none().is_err()
                || self.model.main.outputs.contains(&output)
            {
                continue;
            }
            let index = usize::from(operator.inputs.first() == Some(&Some(output)));
            let Ok(Operand::Constant(data)) = self.operand(operator, index) else { continue };
            let width = self.shape_of(output)?.last().copied().unwrap_or(1);
            if ![1, width].contains(&data.len()) || self.shape_of(next)? != self.shape_of(output)? {
                continue;
            }
            operator.check_options()?;
            *(if is_gain { &mut moment.gain } else { &mut moment.bias }) = Some(data);
            self.folded.insert(next);
            output = next;
        }
        Ok((moment, output))
    }
}
