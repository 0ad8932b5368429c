//! Operators that become layers without state.

use tidegate::internals::{activation::Activation, cell::CellKind};

use super::{
    Role, graph::Session, graph::Stop, made::Layered, made::Made, moves::axis, moves::given, moves::needed,
    value::Value, value::inverse,
};
use crate::canonical::Tensor;
use crate::format::{layer::Layer, refuse::err_if, refuse::fail_if};

impl Session<'_> {
    /// The outputs of a node that becomes a layer.
    pub(super) fn layer(&mut self, op: &str, inputs: &[Option<Value>]) -> Result<Vec<Value>, Stop> {
        if let Some(activation) = self.activation(op)? {
            let x = needed(inputs, 0)?;
            return Ok(vec![self.activated(&x, activation)?]);
        }
        let value = match op {
            "MatMul" => self.mat_mul(inputs)?,
            "Einsum" => self.einsum(inputs)?,
            "Gemm" => self.gemm(inputs)?,
            "Add" | "Sub" | "Mul" | "Div" | "Max" | "Min" | "Pow" => self.binary(op, inputs)?,
            "Abs" => self.magnitude(inputs)?,
            "Reciprocal" => self.reciprocal(inputs)?,
            "PRelu" => self.p_relu(inputs)?,
            "Clip" => self.clip(inputs)?,
            "Conv" => self.conv(inputs)?,
            "ConvTranspose" => self.conv_transpose(inputs)?,
            "MaxPool" | "AveragePool" | "GlobalAveragePool" | "GlobalMaxPool" => self.pool(op, inputs)?,
            "Gather" => self.embedding(inputs)?,
            "Greater" | "GreaterOrEqual" | "Less" | "LessOrEqual" => self.compared(op, inputs)?,
            "Not" => self.negated(inputs)?,
            "Where" => self.where_computed(inputs)?,
            "Softmax" => self.softmax(inputs)?,
            "LogSoftmax" => {
                let shares = self.softmax(inputs)?;
                self.activated(&shares, Activation::Log { alpha: 1.0, beta: 0.0 })?
            }
            "BatchNormalization" => self.batch_norm(inputs)?,
            "LayerNormalization" => self.layer_norm(inputs, false)?,
            "RMSNormalization" => self.layer_norm(inputs, true)?,
            "InstanceNormalization" => self.instance_norm(inputs)?,
            "ReduceMean" | "ReduceSum" | "ReduceMax" => self.reduce(op, inputs)?,
            // An unsupported operator is reported by its name alone.
            _ => return Err(String::new().into()),
        };
        Ok(vec![value])
    }

    pub(super) fn activation(&mut self, op: &str) -> Result<Option<Activation>, Stop> {
        let one = |of: fn(f32) -> Activation, default: f32| -> Result<Option<Activation>, Stop> {
            Ok(Some(of(self.attributes("alpha")?.float("alpha", default)?)))
        };
        let plain = |activation: Activation| self.attributes("").map(|_| Some(activation));
        match op {
            "Relu" => plain(Activation::Relu),
            "Sigmoid" => plain(Activation::Sigmoid),
            "Tanh" => plain(Activation::Tanh),
            "Softplus" => plain(Activation::Softplus),
            "Softsign" => plain(Activation::Softsign),
            "HardSwish" => plain(Activation::HardSwish),
            "Mish" => plain(Activation::Mish),
            "Exp" => plain(Activation::Exp),
            "Sqrt" => plain(Activation::Sqrt),
            "Log" => plain(Activation::Log { alpha: 1.0, beta: 0.0 }),
            "Neg" => plain(Activation::Affine { alpha: -1.0, beta: 0.0 }),
            "LeakyRelu" => one(|alpha| Activation::LeakyRelu { alpha }, 0.01),
            "Elu" => one(|alpha| Activation::Elu { alpha }, 1.0),
            "ThresholdedRelu" => one(|alpha| Activation::ThresholdedRelu { alpha }, 1.0),
            "HardSigmoid" => {
                let attributes = self.attributes("alpha beta")?;
                let (alpha, beta) = (attributes.float("alpha", 0.2)?, attributes.float("beta", 0.5)?);
                Ok(Some(Activation::HardSigmoid { alpha, beta }))
            }
            "Selu" => {
                let attributes = self.attributes("alpha gamma")?;
                let (alpha, gamma) = (attributes.float("alpha", 1.673_263_2)?, attributes.float("gamma", 1.050_701)?);
                let other = (alpha - 1.673_263_2).abs() > 1e-4 || (gamma - 1.050_701).abs() > 1e-4;
                fail_if(other, format_args!("alpha = {alpha} and gamma = {gamma}"))?;
                Ok(Some(Activation::Selu))
            }
            "Gelu" => match self.attributes("approximate")?.text("approximate", "none")?.as_str() {
                "none" => Ok(Some(Activation::Gelu)),
                "tanh" => Ok(Some(Activation::GeluTanh)),
                other => Err(format!("attribute approximate = {other:?}").into()),
            },
            _ => Ok(None),
        }
    }

    /// The time dimension of a value, if it is a sequence.
    pub(super) fn steps_axis(&self, x: &Value) -> Option<usize> {
        self.axis_with(x, Role::Time)
    }

    /// The dimensions that are neither time nor in `these`.
    pub(super) fn others(&self, x: &Value, time: Option<usize>, these: &[usize]) -> Vec<usize> {
        (0..x.shape.len()).filter(|k| Some(*k) != time && !these.contains(k)).collect()
    }

    fn mat_mul(&mut self, inputs: &[Option<Value>]) -> Result<Value, Stop> {
        self.attributes("")?;
        self.mat_mul_of(&needed(inputs, 0)?, &needed(inputs, 1)?)
    }

    pub(super) fn mat_mul_of(&mut self, a: &Value, b: &Value) -> Result<Value, Stop> {
        let misfit = || format!("its operands are {:?} and {:?}", a.shape, b.shape);
        if a.is_constant() && !b.is_constant() {
            err_if(a.shape.len() != 2 || b.shape.len() < 2, misfit)?;
            let mut order: Vec<usize> = (0..b.shape.len()).collect();
            let last = order.len() - 1;
            order.swap(last, last - 1);
            let weights = self.known(a, "its first operand")?;
            let product = self.dense(&b.transposed(&order)?, weights, None)?;
            return Ok(product.transposed(&order)?);
        }
        if !b.is_constant() && !matches!(b.elements().first(), Some(super::value::Element::Input(..))) {
            return self.product(a, b);
        }
        let weights =
            self.known(&b.transposed(&(0..b.shape.len()).rev().collect::<Vec<_>>())?, "its second operand")?;
        err_if(weights.shape.len() != 2 || a.shape.is_empty(), misfit)?;
        self.dense(a, weights, None)
    }

    /// The product of two computed matrices: every pair of a row and a column is multiplied and summed.
    fn product(&mut self, a: &Value, b: &Value) -> Result<Value, Stop> {
        let misfit = || format!("its operands are {:?} and {:?}", a.shape, b.shape);
        let ([.., rows, inner], [.., same, cols]) = (&a.shape[..], &b.shape[..]) else { return Err(misfit().into()) };
        let (rows, inner, cols) = (*rows, *inner, *cols);
        let (before, others) = (&a.shape[..a.shape.len() - 2], &b.shape[..b.shape.len() - 2]);
        err_if(inner != *same || before != others, misfit)?;
        // Over the steps, the product needs the whole sequence.
        let [a, b] = [a, b].map(|value| match self.steps_axis(value) {
            Some(axis) if axis + 2 >= value.shape.len() => value.without_axis(axis),
            _ => value.clone(),
        });
        let shape: Vec<usize> = before.iter().copied().chain([rows, cols, inner]).collect();
        self.room(&shape, false)?;
        let rank = b.shape.len();
        let swapped: Vec<usize> = (0..rank - 2).chain([rank - 1, rank - 2]).collect();
        let wide = |value: &Value, at: usize| value.widened(at)?.broadcast(&[before, &[rows, cols, inner]].concat());
        let (left, right) = (wide(&a, rank - 1)?, wide(&b.transposed(&swapped)?, rank - 2)?);
        let products = self.merge("multiply", &left, &right)?;
        let mut elements = products.elements();
        if inner > 1 && self.steps_axis(&products).is_none() {
            self.of_layers(&mut elements, false)?;
            if let Some(sums) = self.pooled("ReduceSum", &elements, inner)? {
                let axes = products.axes[..rank].to_vec();
                return Ok(sums.reshaped([before, &[rows, cols]].concat())?.with_axes(axes));
            }
        }
        let ones = Tensor { shape: vec![1, inner], data: vec![1.0; inner] };
        let sums = self.over_rows(&products, &[rank], |_| Layer::dense(ones, None, Activation::Identity))?;
        let axes = sums.axes[..rank].to_vec();
        Ok(sums.reshaped([before, &[rows, cols]].concat())?.with_axes(axes))
    }

    fn gemm(&mut self, inputs: &[Option<Value>]) -> Result<Value, Stop> {
        let attributes = self.attributes("alpha beta transA transB")?;
        let (mut a, mut b) = (needed(inputs, 0)?, needed(inputs, 1)?);
        let flat = a.shape.len() == 2 && b.shape.len() == 2;
        fail_if(!flat, format_args!("its operands are {:?} and {:?}", a.shape, b.shape))?;
        if attributes.int("transA", 0)? != 0 {
            a = a.transposed(&[1, 0])?;
        }
        if attributes.int("transB", 0)? == 0 {
            b = b.transposed(&[1, 0])?;
        }
        let mut weights = self.known(&b, "B")?;
        let alpha = attributes.float("alpha", 1.0)?;
        weights.data.iter_mut().for_each(|weight| *weight *= alpha);
        let units = weights.shape[0];
        let bias = match given(inputs, 2) {
            None => None,
            Some(c) => {
                let beta = attributes.float("beta", 1.0)?;
                let c = self.known(&c, "C")?;
                let c = Value::floats(c.shape, c.data).broadcast(&[1, units])?;
                let data = c.known_floats()?.into_iter().map(|value| value * beta).collect();
                Some(Tensor { shape: vec![units], data })
            }
        };
        self.dense(&a, weights, bias)
    }

    /// A dense layer over the last dimension, with weights `[units, features]`.
    fn dense(&mut self, x: &Value, weights: Tensor, bias: Option<Tensor>) -> Result<Value, Stop> {
        let last = x.shape.len() - 1;
        let (units, known, found) = (weights.shape[0], weights.shape[1], x.shape[last]);
        let misfit = known != found || units == 0 || found == 0;
        fail_if(misfit, format_args!("{found} features meet weights for {known}"))?;
        if x.is_constant() {
            let rows = x.len() / found;
            self.room(&[rows, units], false)?;
            self.work(rows.saturating_mul(weights.data.len()))?;
            return Ok(product_of_constants(x, &weights, bias.as_ref())?);
        }
        self.over_rows(x, &[last], |_| Layer::dense(weights, bias, Activation::Identity))
    }

    /// The rows of a constant table that integer inputs select.
    fn embedding(&mut self, inputs: &[Option<Value>]) -> Result<Value, Stop> {
        let (table, index) = (needed(inputs, 0)?, needed(inputs, 1)?);
        let at = axis(self.attributes("axis")?.int("axis", 0)?, table.shape.len())?;
        fail_if(!index.whole, "its indices are computed values")?;
        fail_if(at != 0 || table.shape.len() < 2, "it selects by an input, but not rows of a table")?;
        let table = self.known(&table, "its table")?;
        let (rows, width) = (table.shape[0], table.shape[1..].iter().product::<usize>());
        fail_if(rows == 0 || width == 0, "its table is empty")?;
        let last = index.shape.len();
        let (mut shape, mut axes) = (index.shape.clone(), index.axes.clone());
        shape.push(1);
        axes.push(None);
        let index = index.reshaped(shape)?.with_axes(axes);
        let weights = Tensor { shape: vec![rows, width], data: table.data };
        let found = self.over_rows(&index, &[last], |_| {
            Layer::new(CellKind::Embedding, 1, width).extent("vocabulary", rows).tensor("weights", weights)
        })?;
        let axes: Vec<_> = found.axes[..last].iter().copied().chain(table.shape[1..].iter().map(|_| None)).collect();
        let shape = [&found.shape[..last], &table.shape[1..]].concat();
        Ok(found.reshaped(shape)?.with_axes(axes))
    }

    fn softmax(&mut self, inputs: &[Option<Value>]) -> Result<Value, Stop> {
        let x = needed(inputs, 0)?;
        let rank = x.shape.len();
        let attributes = self.attributes("axis")?;
        let over: Vec<usize> = if self.setup.version < 13 {
            (axis(attributes.int("axis", 1)?, rank)?..rank).collect()
        } else {
            vec![axis(attributes.int("axis", -1)?, rank)?]
        };
        for &k in over.iter().filter(|&&k| x.shape[k] > 1) {
            self.within_sequence(&x, k)?;
        }
        let shares = self.over_rows(&x, &over, |width| Layer::new(CellKind::Softmax, width, width))?;
        // The shares of a sequence are known at its end only.
        Ok(over.iter().filter(|&&k| x.shape[k] > 1).fold(shares, |shares, &k| shares.without_axis(k)))
    }

    /// A layer over the dimensions `over`. If there are several, it has as many outputs as inputs.
    pub(super) fn over_rows(
        &mut self,
        x: &Value,
        over: &[usize],
        layer: impl FnOnce(usize) -> Layer,
    ) -> Result<Value, Stop> {
        let time = self.steps_axis(x).filter(|axis| !over.contains(axis));
        let rows = self.others(x, time, over);
        let order: Vec<usize> = rows.iter().chain(over).copied().collect();
        let operand = self.operand(x, &order, rows.len(), time, false)?;
        let layer = layer(operand.width);
        let mut dims: Vec<usize> = order.iter().map(|&k| x.shape[k]).collect();
        if let (Some(last), [_]) = (dims.last_mut(), over) {
            *last = layer.output_size;
        }
        let made = self.layered(Layered::plain(layer), &operand)?;
        Ok(shaped(made, x, time, &order, &dims)?)
    }

    fn batch_norm(&mut self, inputs: &[Option<Value>]) -> Result<Value, Stop> {
        let x = needed(inputs, 0)?;
        let attributes = self.attributes("epsilon momentum spatial training_mode is_test")?;
        for (name, usual) in [("training_mode", 0), ("spatial", 1)] {
            let given = attributes.int(name, usual)?;
            fail_if(given != usual, format_args!("attribute {name} = {given}"))?;
        }
        fail_if(self.wanted() > 1, "it normalizes by the batch, as in training")?;
        let epsilon = f64::from(attributes.float("epsilon", 1e-5)?);
        let channels = *x.shape.get(1).ok_or("it has no channels")?;
        let mut vectors = Vec::new();
        for (k, name) in ["scale", "B", "input_mean", "input_var"].into_iter().enumerate() {
            let tensor = self.known(&needed(inputs, k + 1)?, name)?;
            let found = tensor.data.len();
            fail_if(found != channels, format_args!("{name} has {found} numbers for {channels} channels"))?;
            vectors.push(tensor.data);
        }
        let gains: Vec<f64> =
            (0..channels).map(|c| f64::from(vectors[0][c]) / (f64::from(vectors[3][c]) + epsilon).sqrt()).collect();
        let shifts: Vec<f64> =
            (0..channels).map(|c| f64::from(vectors[1][c]) - f64::from(vectors[2][c]) * gains[c]).collect();
        let after: usize = x.shape[2..].iter().product();
        let channel = |k: usize| k / after % channels;
        self.affine(&x, &|k| (gains[channel(k)] as f32, shifts[channel(k)] as f32))
    }

    /// With `rms`, normalizes by the root mean square.
    fn layer_norm(&mut self, inputs: &[Option<Value>], rms: bool) -> Result<Value, Stop> {
        let x = needed(inputs, 0)?;
        let rank = x.shape.len();
        let attributes = self.attributes("axis epsilon stash_type")?;
        let stash = attributes.int("stash_type", 1)?;
        fail_if(stash != 1, format_args!("attribute stash_type = {stash} (other numbers than f32)"))?;
        fail_if(self.wanted() > 1, "its mean and deviation are used")?;
        let over: Vec<usize> = (axis(attributes.int("axis", -1)?, rank)?..rank).collect();
        let count: usize = over.iter().map(|&k| x.shape[k]).product();
        for &k in &over {
            self.within_sequence(&x, k)?;
        }
        let epsilon = attributes.float("epsilon", 1e-5)?;
        let mut affine = Vec::new();
        fail_if(rms && given(inputs, 2).is_some(), "it has a bias")?;
        for (k, name) in [(1, "Scale"), (2, "B")] {
            let data = match given(inputs, k) {
                None => vec![if k == 1 { 1.0 } else { 0.0 }; count],
                Some(value) => {
                    let tensor = self.known(&value, name)?;
                    let shape: Vec<usize> = over.iter().map(|&k| x.shape[k]).collect();
                    Value::floats(tensor.shape, tensor.data).broadcast(&shape)?.known_floats()?
                }
            };
            affine.push(Tensor { shape: vec![count], data });
        }
        let [gain, bias] = &affine[..] else { return Err("it has no scale".into()) };
        self.over_rows(&x, &over, |width| {
            let layer = Layer::new(CellKind::LayerNorm, width, width).param("epsilon", epsilon).option("gain");
            let layer = layer.tensor("gain", gain.clone());
            if rms { layer.option("rms") } else { layer.tensor("bias", bias.clone()) }
        })
    }

    /// Each channel of each sequence is normalized over all other dimensions.
    fn instance_norm(&mut self, inputs: &[Option<Value>]) -> Result<Value, Stop> {
        let x = needed(inputs, 0)?;
        let epsilon = self.attributes("epsilon")?.float("epsilon", 1e-5)?;
        let &[_, channels, ref others @ ..] = &x.shape[..] else { return Err("it has no channels".into()) };
        let over: Vec<usize> = (2..x.shape.len()).collect();
        fail_if(over.is_empty(), "it has nothing to normalize over")?;
        for &k in &over {
            self.within_sequence(&x, k)?;
        }
        let mut vectors = Vec::new();
        for (k, name) in [(1, "scale"), (2, "B")] {
            let vector = self.known(&needed(inputs, k)?, name)?.data;
            let found = vector.len();
            fail_if(found != channels, format_args!("{name} has {found} numbers for {channels} channels"))?;
            vectors.push(vector);
        }
        let all = |width: usize, value: f32| Tensor { shape: vec![width], data: vec![value; width] };
        let normal = self.over_rows(&x, &over, |width| {
            let layer = Layer::new(CellKind::LayerNorm, width, width).param("epsilon", epsilon).option("gain");
            layer.tensor("gain", all(width, 1.0)).tensor("bias", all(width, 0.0))
        })?;
        let normal = over.iter().fold(normal, |normal, &k| normal.without_axis(k));
        let after: usize = others.iter().product();
        let channel = |k: usize| k / after % channels;
        self.affine(&normal, &|k| (vectors[0][channel(k)], vectors[1][channel(k)]))
    }

    fn reduce(&mut self, op: &str, inputs: &[Option<Value>]) -> Result<Value, Stop> {
        let x = needed(inputs, 0)?;
        let rank = x.shape.len();
        let attributes = self.attributes("axes keepdims noop_with_empty_axes")?;
        let mut axes = attributes.ints("axes")?;
        if let Some(given) = given(inputs, 1) {
            axes = Some(given.known_ints()?.to_vec());
        }
        let over: Vec<usize> = match axes {
            Some(axes) if !axes.is_empty() => axes.iter().map(|&on| axis(on, rank)).collect::<Result<_, _>>()?,
            _ if attributes.int("noop_with_empty_axes", 0)? != 0 => return Ok(x),
            _ => (0..rank).collect(),
        };
        let keeps = attributes.int("keepdims", 1)? != 0;
        self.reduced(op, &x, &over, keeps)
    }

    /// The sum, the mean or the maximum over some dimensions.
    pub(super) fn reduced(&mut self, op: &str, x: &Value, over: &[usize], keeps: bool) -> Result<Value, Stop> {
        let rank = x.shape.len();
        for &k in over {
            if x.axes[k].is_some_and(|of| self.setup.inputs[of.0].said[of.1].is_none_or(|said| said > 1))
                || x.shape[k] > 1
            {
                self.within_sequence(x, k)?;
            }
        }
        let kept: Vec<usize> = (0..rank).filter(|k| keeps || !over.contains(k)).collect();
        let shape: Vec<usize> = kept.iter().map(|k| if over.contains(k) { 1 } else { x.shape[*k] }).collect();
        let out_axes = kept.iter().map(|k| if over.contains(k) { None } else { x.axes[*k] }).collect();
        let count: usize = over.iter().map(|&k| x.shape[k]).product();
        if count == 1 {
            return Ok(x.reshaped(shape)?.with_axes(out_axes));
        }
        let time = self.steps_axis(x).filter(|axis| !over.contains(axis));
        let rows = self.others(x, time, over);
        let order: Vec<usize> = rows.iter().chain(over).copied().collect();
        if time.is_none() && !x.padded {
            let mut elements = x.transposed(&order)?.elements();
            self.of_layers(&mut elements, false)?;
            if let Some(value) = self.pooled(op, &elements, count)? {
                return Ok(value.reshaped(shape)?.with_axes(out_axes));
            }
        }
        let operand = self.operand(x, &order, rows.len(), time, false)?;
        let layer = match op {
            "ReduceMax" => {
                let pool = Layer::new(CellKind::Pool, count, 1).option("max");
                pool.extent("in_height", count).extent("kernel_height", count)
            }
            _ => {
                let weight = if op == "ReduceMean" { 1.0 / count as f32 } else { 1.0 };
                Layer::dense(Tensor { shape: vec![1, count], data: vec![weight; count] }, None, Activation::Identity)
            }
        };
        let made = self.layered(Layered::plain(layer), &operand)?;
        let dims: Vec<usize> = rows.iter().map(|&k| x.shape[k]).collect();
        let all: Vec<usize> = time.into_iter().chain(rows.iter().copied()).collect();
        let natural: Vec<usize> = time.map(|axis| x.shape[axis]).into_iter().chain(dims).collect();
        // Restores the order of the remaining dimensions; reduced dimensions are 1 if they are kept.
        let mut sorted: Vec<usize> = (0..all.len()).collect();
        sorted.sort_by_key(|&k| all[k]);
        Ok(made.value(natural).transposed(&sorted)?.reshaped(shape)?.with_axes(out_axes))
    }
}

/// A dense layer over the last dimension of a constant.
fn product_of_constants(x: &Value, weights: &Tensor, bias: Option<&Tensor>) -> Result<Value, String> {
    let features = weights.shape[1];
    let sum = |row: &[f32], unit: usize| {
        let own = weights.data[unit * features..].iter().zip(row);
        let bias = bias.map_or(0.0, |bias| f64::from(bias.data[unit]));
        own.map(|(&weight, &x)| f64::from(weight) * f64::from(x)).sum::<f64>() + bias
    };
    let rows = x.known_floats()?;
    let units = weights.shape[0];
    let data = rows.chunks(features).flat_map(|row| (0..units).map(move |unit| sum(row, unit) as f32)).collect();
    let mut shape = x.shape.clone();
    shape.pop();
    shape.push(units);
    Ok(Value::floats(shape, data))
}

/// The output of a layer as a value. `dims` are its dimensions after time, and `order` says which dimensions of
/// `like` they are. The result has the dimension order of `like`.
fn shaped(made: Made, like: &Value, time: Option<usize>, order: &[usize], dims: &[usize]) -> Result<Value, String> {
    let all: Vec<usize> = time.into_iter().chain(order.iter().copied()).collect();
    let shape: Vec<usize> = time.map(|axis| like.shape[axis]).into_iter().chain(dims.iter().copied()).collect();
    let kept = |(k, &from): (usize, &usize)| if shape[k] == like.shape[from] { like.axes[from] } else { None };
    let axes = all.iter().enumerate().map(kept).collect();
    made.value(shape).with_axes(axes).transposed(&inverse(&all))
}
