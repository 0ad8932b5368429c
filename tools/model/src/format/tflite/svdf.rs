//! `SVDF`: filters of the features of a step and of their own last results, which are a state.

use tidegate::internals::{activation::Activation, cell::CellKind};

use super::integers::{Counted, Counts, LIMITS, Multiplier};
use super::lower::{Along, Reader, Refused, Trouble, Value};
use super::lstm::symmetric;
use super::options::FUSED;
use super::schema::{Operator, Type, activation};
use crate::canonical::Tensor;
use crate::format::{layer::Layer, refuse::fail_if};

/// Numbers of the operator's inputs.
mod input {
    pub const X: usize = 0;
    pub const FEATURE_WEIGHTS: usize = 1;
    pub const TIME_WEIGHTS: usize = 2;
    pub const BIAS: usize = 3;
    pub const STATE: usize = 4;
}

/// The layer, and its quantization and integers if it has some.
type Made = (Layer, Option<(Counts, Counted)>);

impl Reader<'_> {
    pub(super) fn svdf(&mut self, operator: &Operator<'_>) -> Refused {
        let x = self.value(operator, input::X)?;
        let one = matches!(*x.shape, [1, _]) && x.along == Along::Nothing && x.source.rows().is_none();
        fail_if(!one, format_args!("its input is {:?}, not the features of one step", x.shape))?;
        let rank = usize::try_from(operator.option("rank", 0_i32)?).unwrap_or(0);
        let (layer, integers) = match x.counts {
            None => (self.float_filters(operator, rank)?, None),
            Some(counts) => self.integer_filters(operator, rank, counts)?,
        };
        let misfit = layer.input_size != x.features();
        fail_if(misfit, format_args!("its weights read {} features of {}", layer.input_size, x.features()))?;
        let shape = vec![1, layer.output_size];
        self.has_shape(operator, &shape)?;
        let (source, counts) = self.counted(layer, &x.source, integers);
        Ok(Value { source, counts, shape, ..x })
    }

    fn float_filters(&mut self, operator: &Operator<'_>, rank: usize) -> Result<Layer, Trouble> {
        fail_if(self.output_counts(operator)?.is_some(), "its input is of float32, but its output is not")?;
        let [feature, time] = [input::FEATURE_WEIGHTS, input::TIME_WEIGHTS].map(|index| self.floats(operator, index));
        let [feature, time] = [feature?, time?].map(|of| of.map(|(shape, data)| Tensor { shape, data }));
        let layer = self.filters(operator, rank, [feature, time], Type::F32)?;
        let layer = match self.floats(operator, input::BIAS)? {
            Some((shape, data)) => with_bias(layer, Tensor { shape, data })?,
            None => layer,
        };
        Ok(layer.activation("activation", operator.limit()?))
    }

    fn integer_filters(&mut self, operator: &Operator<'_>, rank: usize, x: Counts) -> Result<Made, Trouble> {
        let output = self.output_counts(operator)?.ok_or("its input is of int8, but its output is not")?;
        let state = self.input_number(operator, input::STATE)?;
        let state = self.counts(state)?.filter(|state| state.zero_point == 0);
        let state = state.ok_or("its state has no scale, or a zero point other than 0")?;
        let weights = [
            (input::FEATURE_WEIGHTS, Type::I8, "weights of features"),
            (input::TIME_WEIGHTS, Type::I16, "weights over time"),
        ];
        let weights = weights.map(|(index, of, what)| -> Result<_, Trouble> {
            let read = self.integers(operator, index, of)?;
            let (shape, data, quantization) = read.ok_or_else(|| format!("its {what} are missing"))?;
            let scale = symmetric(quantization);
            let scale = scale.ok_or_else(|| format!("its {what} do not have a single scale with the zero point 0"))?;
            Ok((shape, data, scale))
        });
        let [feature, time] = weights;
        let ((feature_shape, feature, of_feature), (time_shape, time, of_time)) = (feature?, time?);
        let real = |shape, data: &[i64], scale: f32| Tensor {
            shape,
            data: data.iter().map(|&integer| integer as f32 * scale).collect(),
        };
        let reals = [real(feature_shape, &feature, of_feature), real(time_shape, &time, of_time)];
        // The integers of the weights over time are kept beside their real values.
        self.take_numbers(time.len(), size_of::<i32>())?;
        let mut layer = self.filters(operator, rank, reals.map(Some), Type::I16)?;
        let units = layer.output_size;
        let bias = match self.integers(operator, input::BIAS, Type::I32)? {
            Some((shape, bias, _)) => {
                layer = with_bias(layer, real(shape, &bias, state.scale * of_time))?;
                bias
            }
            None => vec![0; units],
        };
        let code = operator.option(FUSED, 0_i8)?;
        let other = activation(code) != Some(Activation::Relu);
        fail_if(other, format_args!("attribute {FUSED} is {code}, not RELU, which integers do not support"))?;
        // The integer kernel clamps to 8 bits only, which is a ReLU if 0 is the least integer.
        let moved = output.zero_point != LIMITS[0];
        fail_if(moved, format_args!("its output has the zero point {}, not {}", output.zero_point, LIMITS[0]))?;
        let too_far = "a product of its scales is out of range";
        // In the precision of the scales.
        let feature_by = Multiplier::of((x.scale * of_feature / state.scale).into()).ok_or(too_far)?;
        let by = Multiplier::of((state.scale * of_time / output.scale).into()).ok_or(too_far)?;
        let whole = |data: Vec<i64>| data.into_iter().map(|of| of as i32).collect();
        let counted = Counted::of(output)
            .requantized("feature_", feature_by)
            .requantized("", by)
            .limited(output, LIMITS)
            .scaled("feature_weights", vec![of_feature])
            .rows("time_weights", whole(time))
            .rows("bias", whole(bias));
        Ok((layer.activation("activation", Activation::Relu), Some((output, counted))))
    }

    /// The layer of two matrices, without bias and activation.
    fn filters(
        &mut self,
        operator: &Operator<'_>,
        rank: usize,
        weights: [Option<Tensor>; 2],
        of: Type,
    ) -> Result<Layer, Trouble> {
        let [Some(feature), Some(time)] = weights else { return Err("its weights are missing".into()) };
        let (&[filters, features], &[rows, memory]) = (feature.shape.as_slice(), time.shape.as_slice()) else {
            return Err("its weights are not matrices".into());
        };
        let fit = rank > 0 && filters.is_multiple_of(rank) && rows == filters;
        let shapes = format_args!("its weights {:?} and {:?} do not fit rank {rank}", feature.shape, time.shape);
        fail_if(!fit, shapes)?;
        let number = self.input_number(operator, input::STATE)?;
        let state = self.model.main.tensors[number];
        fail_if(state.of != of, format_args!("its state is of {}, not {}", state.of.name(), of.name()))?;
        let (shape, needed) = (state.shape()?, [1, filters * memory]);
        fail_if(shape != needed, format_args!("its state is {shape:?}, not {needed:?}"))?;
        let set = !state.is_variable || self.model.data(&state)?.is_some();
        fail_if(set, "its state is not a variable that starts at zero")?;
        let shared = self.model.main.inputs.contains(&number) || !self.filters.insert(number);
        fail_if(shared, "its state is an input of the graph, or that of another operator")?;
        let mut layer = Layer::new(CellKind::Svdf, features, filters).extent("memory", memory);
        layer.output_size = filters / rank;
        Ok(layer.tensor("feature_weights", feature).tensor("time_weights", time))
    }
}

fn with_bias(layer: Layer, bias: Tensor) -> Result<Layer, Trouble> {
    let needed = [layer.output_size];
    fail_if(bias.shape != needed, format_args!("its bias is {:?}, not {needed:?}", bias.shape))?;
    Ok(layer.tensor("bias", bias))
}
