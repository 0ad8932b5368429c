//! Elementwise operators: activations, sums, products. Constant operands are folded into the weights of the preceding
//! layer if possible.

use tidegate::internals::{activation::Activation, cell::CellKind};

use super::made::{Layered, Made, MadeOf, Operand};
use super::value::{Element, Value, both, inverse};
use super::{graph::PADDED, graph::Session, graph::Stop, moves::given, moves::needed};
use crate::canonical::Tensor;
use crate::format::{layer::Layer, network::Source, refuse::fail_if};

/// A gain and a shift.
pub(super) type Affine = (f32, f32);

impl Session<'_> {
    pub(super) fn activated(&mut self, x: &Value, activation: Activation) -> Result<Value, Stop> {
        self.each(x, |session, made| session.activate(made, activation), |value| activation.apply(value))
    }

    fn squared(&mut self, x: &Value) -> Result<Value, Stop> {
        self.each(x, Self::square, |value| value * value)
    }

    /// Applies a function to every element: to the whole outputs of layers, and to constants.
    fn each(
        &mut self,
        x: &Value,
        mut of_layer: impl FnMut(&mut Self, Made) -> Result<Made, Stop>,
        of_number: impl Fn(f32) -> f32,
    ) -> Result<Value, Stop> {
        let mut elements = self.layer_elements(x)?;
        let mut last = None;
        for element in &mut elements {
            *element = match *element {
                Element::Of(made, at) => {
                    let (_, to) = match last.filter(|&(from, _)| from == made) {
                        Some(known) => known,
                        None => *last.insert((made, of_layer(self, Made(made))?)),
                    };
                    Element::Of(to.0, at)
                }
                Element::Number(value) => Element::Number(of_number(value)),
                other => other,
            };
        }
        Ok(Value::open(x.shape.clone(), elements).with_axes(x.axes.clone()))
    }

    fn square(&mut self, made: Made) -> Result<Made, Stop> {
        let key = (made, "square".to_owned());
        if let Some(&known) = self.activated.get(&key) {
            return Ok(known);
        }
        let mut operand = self.whole_output(made)?;
        operand.sources.extend(operand.sources.first().cloned());
        let square = self.layered(Layered::plain(Layer::merge("multiply", 2, operand.width)), &operand)?;
        self.activated.insert(key, square);
        Ok(square)
    }

    /// The unchanged output of a layer.
    fn whole_output(&mut self, made: Made) -> Result<Operand, Stop> {
        let source = self.source(made)?;
        let MadeOf { time, rows, width, .. } = self.made[made.0 as usize];
        Ok(Operand { sources: vec![source], time, rows, width })
    }

    /// The elements of a value as elements of layer outputs. Time is the first dimension, if there is one.
    pub(super) fn layer_elements(&mut self, x: &Value) -> Result<Vec<Element>, Stop> {
        fail_if(x.padded, PADDED)?;
        let mut elements = x.elements();
        let timed = self.steps_axis(x).is_some();
        self.of_layers(&mut elements, timed)?;
        Ok(elements)
    }

    /// Applies an activation to a layer's output, within that layer if possible.
    fn activate(&mut self, made: Made, activation: Activation) -> Result<Made, Stop> {
        let key = (made, activation.to_string());
        if let Some(&known) = self.activated.get(&key) {
            return Ok(known);
        }
        let pending = self.pending_layer(made).map(|(layered, _)| layered.layer.clone());
        let folded = pending.and_then(|layer| self.folded(made, layer, activation));
        let result = match folded {
            Some(layer) => self.variant(made, layer)?,
            None => {
                let operand = self.whole_output(made)?;
                let layer = Layer::new(CellKind::Activation, operand.width, operand.width);
                self.layered(Layered::plain(layer.activation("activation", activation)), &operand)?
            }
        };
        self.activated.insert(key, result);
        Ok(result)
    }

    /// The layer with an activation folded in, if it is linear or an affine activation.
    fn folded(&self, made: Made, layer: Layer, activation: Activation) -> Option<Layer> {
        if is_linear(&layer) {
            return Some(layer.activation("activation", activation));
        }
        let &Activation::Affine { alpha, beta } = layer.activations.get("activation")? else { return None };
        let both = match activation {
            Activation::Affine { alpha: gain, beta: shift } => {
                Activation::Affine { alpha: gain * alpha, beta: gain * beta + shift }
            }
            Activation::Log { alpha: 1.0, beta: 0.0 } if alpha >= 0.0 && beta >= 0.0 && self.is_not_negative(made) => {
                Activation::Log { alpha, beta }
            }
            _ => return None,
        };
        (layer.kind == CellKind::Activation).then(|| layer.activation("activation", both))
    }

    /// Whether the layer of a pending output reads values that are never negative.
    fn is_not_negative(&self, made: Made) -> bool {
        let sources = self.pending_layer(made).map_or(&[][..], |(_, sources)| sources);
        let root = |source: &Source| {
            let node = self.network.node(source)?;
            let name = node.activations.get("activation")?;
            Some(matches!(name.as_str(), "relu" | "relu6" | "sigmoid" | "sqrt" | "exp" | "softplus"))
        };
        !sources.is_empty() && sources.iter().all(|source| root(source) == Some(true))
    }

    pub(super) fn binary(&mut self, op: &str, inputs: &[Option<Value>]) -> Result<Value, Stop> {
        self.attributes("")?;
        let (mut a, mut b) = (needed(inputs, 0)?, needed(inputs, 1)?);
        fail_if(inputs.len() != 2, "it has more than two inputs")?;
        self.same_roles(&a, &b)?;
        let shape = both(&a.shape, &b.shape)?;
        self.room(&shape, false)?;
        if a.is_constant() && matches!(op, "Add" | "Mul" | "Max" | "Min") {
            (a, b) = (b, a);
        }
        if !b.is_constant() && a.is_constant() {
            return match op {
                "Div" => {
                    let (a, b) = (a.broadcast(&shape)?, b.broadcast(&shape)?);
                    self.merge("divide", &a, &b)
                }
                "Sub" => {
                    let less = self.affine(&b.broadcast(&shape)?, &|_| (-1.0, 0.0))?;
                    let numbers = a.broadcast(&shape)?.known_floats()?;
                    self.affine(&less, &|k| (1.0, numbers[k]))
                }
                _ => Err("its first operand is a constant".into()),
            };
        }
        let (a, b) = (a.broadcast(&shape)?, b.broadcast(&shape)?);
        if b.is_constant() {
            let numbers = b.known_floats()?;
            return match op {
                "Add" => self.affine(&a, &|k| (1.0, numbers[k])),
                "Sub" => self.affine(&a, &|k| (1.0, -numbers[k])),
                "Mul" => self.affine(&a, &|k| (numbers[k], 0.0)),
                "Div" => self.affine(&a, &|k| (1.0 / numbers[k], 0.0)),
                "Max" if numbers.iter().all(|&value| value == 0.0) => self.activated(&a, Activation::Relu),
                "Max" => self.at_least(&a, &numbers),
                "Min" => {
                    let less = self.affine(&a, &|_| (-1.0, 0.0))?;
                    let numbers: Vec<f32> = numbers.iter().map(|number| -number).collect();
                    let most = self.at_least(&less, &numbers)?;
                    self.affine(&most, &|_| (-1.0, 0.0))
                }
                "Pow" if numbers.iter().all(|&value| value == 1.0) => Ok(a),
                "Pow" if numbers.iter().all(|&value| value == 0.5) => self.activated(&a, Activation::Sqrt),
                "Pow" if numbers.iter().all(|&value| value == 2.0) => self.squared(&a),
                _ => Err("this constant operand is not supported".into()),
            };
        }
        match op {
            "Add" => self.merge("add", &a, &b),
            "Mul" if a.elements() == b.elements() => self.squared(&a),
            "Mul" => self.merge("multiply", &a, &b),
            "Div" => self.merge("divide", &a, &b),
            "Max" => self.merge("maximum", &a, &b),
            "Min" => {
                let (a, b) = (self.affine(&a, &|_| (-1.0, 0.0))?, self.affine(&b, &|_| (-1.0, 0.0))?);
                let most = self.merge("maximum", &a, &b)?;
                self.affine(&most, &|_| (-1.0, 0.0))
            }
            "Sub" => {
                let less = self.affine(&b, &|_| (-1.0, 0.0))?;
                self.merge("add", &a, &less)
            }
            _ => Err("both of its operands are computed".into()),
        }
    }

    /// max(x, least), as least + relu(x - least).
    fn at_least(&mut self, x: &Value, least: &[f32]) -> Result<Value, Stop> {
        let above = self.affine(x, &|k| (1.0, -least[k]))?;
        let above = self.activated(&above, Activation::Relu)?;
        self.affine(&above, &|k| (1.0, least[k]))
    }

    /// |x|, as the greater of x and -x.
    pub(super) fn magnitude(&mut self, inputs: &[Option<Value>]) -> Result<Value, Stop> {
        self.attributes("")?;
        let x = needed(inputs, 0)?;
        let less = self.affine(&x, &|_| (-1.0, 0.0))?;
        self.merge("maximum", &x, &less)
    }

    pub(super) fn reciprocal(&mut self, inputs: &[Option<Value>]) -> Result<Value, Stop> {
        self.attributes("")?;
        let x = needed(inputs, 0)?;
        let ones = Value::floats(x.shape.clone(), vec![1.0; x.len()]).with_axes(x.axes.clone());
        self.merge("divide", &ones, &x)
    }

    /// x, or the slope times x below 0: with one slope a leaky ReLU, otherwise relu(x) - slope ⊙ relu(-x).
    pub(super) fn p_relu(&mut self, inputs: &[Option<Value>]) -> Result<Value, Stop> {
        self.attributes("")?;
        let x = needed(inputs, 0)?;
        let slope = self.known(&needed(inputs, 1)?, "slope")?;
        let slopes = Value::floats(slope.shape, slope.data).broadcast(&x.shape)?.known_floats()?;
        let first = slopes.first().copied().unwrap_or(0.0);
        if slopes.iter().all(|&slope| slope == first) {
            return self.activated(&x, Activation::LeakyRelu { alpha: first });
        }
        let above = self.activated(&x, Activation::Relu)?;
        let below = self.affine(&x, &|_| (-1.0, 0.0))?;
        let below = self.activated(&below, Activation::Relu)?;
        let below = self.affine(&below, &|k| (-slopes[k], 0.0))?;
        self.merge("add", &above, &below)
    }

    /// A clamp to the usual limits of an activation, or to any others.
    pub(super) fn clip(&mut self, inputs: &[Option<Value>]) -> Result<Value, Stop> {
        let x = needed(inputs, 0)?;
        let attributes = self.attributes("min max")?;
        let limit = |at: usize, name: &str, default: f32| -> Result<f32, Stop> {
            match given(inputs, at) {
                None => Ok(attributes.float(name, default)?),
                Some(value) => match *self.known(&value, name)?.data {
                    [limit] if !limit.is_nan() => Ok(limit),
                    _ => Err(format!("{name} is not one number").into()),
                },
            }
        };
        let (min, max) = (limit(1, "min", f32::MIN)?, limit(2, "max", f32::MAX)?);
        fail_if(min >= max, format_args!("it clips to min = {min:e} and max = {max:e}"))?;
        let activation = match (min, max) {
            (0.0, 6.0) => Activation::Relu6,
            (-1.0, 1.0) => Activation::HardTanh,
            (0.0, 1.0) => Activation::HardSigmoid { alpha: 1.0, beta: 0.0 },
            (0.0, max) if max >= f32::MAX => Activation::Relu,
            _ => {
                let x = if min > f32::MIN { self.at_least(&x, &vec![min; x.len()])? } else { x };
                if max >= f32::MAX {
                    return Ok(x);
                }
                let rest = self.affine(&x, &|_| (-1.0, max))?;
                let rest = self.activated(&rest, Activation::Relu)?;
                return self.affine(&rest, &|_| (-1.0, max));
            }
        };
        self.activated(&x, activation)
    }

    pub(super) fn merge(&mut self, how: &'static str, a: &Value, b: &Value) -> Result<Value, Stop> {
        let [a, b] = &self.of_one_kind(a, b);
        let time = self.steps_axis(a).or_else(|| self.steps_axis(b));
        let order = self.others(a, time, &[]);
        let all: Vec<usize> = time.into_iter().chain(order.iter().copied()).collect();
        let dims: Vec<usize> = order.iter().map(|&k| a.shape[k]).collect();
        let (mut left, mut right) = (a.transposed(&all)?, b.transposed(&all)?);
        if time.is_some() {
            // One of the two values may not be marked as a sequence.
            let of = left.axes[0].or(right.axes[0]);
            (left.axes[0], right.axes[0]) = (of, of);
        }
        // Both operands, and their elements side by side.
        self.room(&[2, left.len()], false)?;
        let (left, right) = (self.layer_elements(&left)?, self.layer_elements(&right)?);
        let shaped = |shape: Vec<usize>, elements| -> Result<Value, Stop> {
            let axes = all.iter().map(|&k| a.axes[k].or(b.axes[k])).collect();
            Ok(Value::open(shape, elements).with_axes(axes).transposed(&inverse(&all))?)
        };
        if time.is_none()
            && let Some(elements) = self.merge_stretched(how, &left, &right)?
        {
            return shaped(dims, elements);
        }
        let steps = time.map(|axis| a.shape[axis]);
        let count = left.len() / steps.unwrap_or(1);
        // The positions, sorted by the place of the first operand's elements in their layers.
        let mut places: Vec<usize> = (0..count).collect();
        let key = |&place: &usize| match left[place] {
            Element::Of(made, at) => (made, at),
            _ => (u32::MAX, place as u32),
        };
        places.sort_by_key(key);
        let run = places.windows(2).take_while(|pair| {
            let (a, b) = (key(&pair[0]), key(&pair[1]));
            a.0 == b.0 && a.1 + 1 == b.1
        });
        let run = run.count() + 1;
        let rowed = |rows: usize| -> Vec<Element> {
            let width = count / rows;
            let mut elements = Vec::with_capacity(2 * left.len());
            for t in 0..steps.unwrap_or(1) {
                for row in places.chunks(width) {
                    elements.extend(row.iter().map(|&place| left[t * count + place]));
                    elements.extend(row.iter().map(|&place| right[t * count + place]));
                }
            }
            elements
        };
        let mut rows = 1;
        if count.is_multiple_of(run)
            && run < count
            && !self.is_whole(&rowed(1), steps, 1)
            && self.is_whole(&rowed(count / run), steps, count / run)
        {
            rows = count / run;
        }
        let operand = self.of_elements(rowed(rows), steps, rows)?;
        let made = self.layered(Layered::plain(Layer::merge(how, 2, count / rows)), &operand)?;
        let mut elements = vec![Element::Number(0.0); left.len()];
        for t in 0..steps.unwrap_or(1) {
            for (at, &place) in places.iter().enumerate() {
                elements[t * count + place] = Element::Of(made.0, (t * count + at) as u32);
            }
        }
        shaped(steps.into_iter().chain(dims).collect(), elements)
    }

    /// Two operands. If one of them has elements without a value for each step, both become values of the whole sequence.
    fn of_one_kind(&self, a: &Value, b: &Value) -> [Value; 2] {
        let both = [a, b].map(Value::clone);
        match self.steps_axis(a).or_else(|| self.steps_axis(b)) {
            Some(axis) if a.shape[axis] > 1 && !both.iter().all(|value| self.is_of_steps(value)) => {
                both.map(|value| value.without_axis(axis))
            }
            _ => both,
        }
    }

    /// Whether every element is computed for each step of a sequence, or known.
    fn is_of_steps(&self, x: &Value) -> bool {
        x.elements().iter().all(|element| match *element {
            Element::Number(_) => true,
            Element::Of(made, _) => self.made[made as usize].time.is_some(),
            // A cache holds earlier steps.
            Element::Input(input, _) => {
                let name = &self.setup.inputs[input as usize].name;
                self.time_of(input).is_some() || self.setup.delays.contains_key(name)
            }
            Element::State(..) => false,
        })
    }

    /// `gain · x + shift`, with both given for each position in the value.
    pub(super) fn affine(&mut self, x: &Value, of: &dyn Fn(usize) -> Affine) -> Result<Value, Stop> {
        if (0..x.len()).all(|k| of(k) == (1.0, 0.0)) {
            return Ok(x.clone());
        }
        let elements = self.layer_elements(x)?;
        let mut parts: Vec<(Made, Vec<Option<Affine>>)> = Vec::new();
        for (k, element) in elements.iter().enumerate() {
            let Element::Of(made, at) = *element else {
                return Err("it reads constants beside computed values".into());
            };
            let index = match parts.iter().position(|(of, _)| of.0 == made) {
                Some(index) => index,
                None => {
                    parts.push((Made(made), vec![None; self.made[made as usize].len()]));
                    parts.len() - 1
                }
            };
            let own = of(k);
            if parts[index].1[at as usize].replace(own).is_some_and(|before| before != own) {
                return self.spread(x, of);
            }
        }
        let mut scaled = Vec::new();
        for (made, numbers) in parts {
            scaled.push((made, self.scaled(made, &numbers)?));
        }
        let of = |element: &Element| match *element {
            Element::Of(made, at) => {
                let scaled = scaled.iter().find(|(of, _)| of.0 == made).map_or(made, |(_, scaled)| scaled.0);
                Element::Of(scaled, at)
            }
            other => other,
        };
        let elements = elements.iter().map(of).collect();
        Ok(Value::open(x.shape.clone(), elements).with_axes(x.axes.clone()))
    }

    /// Applies gains and shifts to a layer's output. The result is arbitrary for elements without numbers.
    fn scaled(&mut self, made: Made, numbers: &[Option<Affine>]) -> Result<Made, Stop> {
        let of = self.made[made.0 as usize].clone();
        let pending = self.pending_layer(made).map(|(layered, _)| layered.layer.clone()).filter(takes_affine);
        let step = of.rows * of.width;
        let periods = [1, pending.as_ref().map_or(of.width, |layer| layer.hidden_size), of.width, step];
        let periodic = |period: usize| -> Option<Vec<Affine>> {
            let mut all = vec![None; period];
            for (k, number) in numbers.iter().enumerate() {
                if let Some(number) = number
                    && all[k % period].replace(*number).is_some_and(|before| before != *number)
                {
                    return None;
                }
            }
            Some(all.into_iter().map(|number| number.unwrap_or((1.0, 0.0))).collect())
        };
        let found = periods.iter().filter(|period| **period > 0 && step.is_multiple_of(**period));
        let found = found.copied().find_map(|period| Some((period, periodic(period)?)));
        let (period, numbers) = found.ok_or("its constant differs from step to step")?;
        if let Some(layer) = pending {
            let filters = layer.hidden_size;
            if filters % period == 0 {
                let all: Vec<Affine> = numbers.iter().copied().cycle().take(filters).collect();
                return self.variant(made, with_affine(layer, &all));
            }
        }
        if let (1, &[(alpha, beta)]) = (period, numbers.as_slice()) {
            return self.activate(made, Activation::Affine { alpha, beta });
        }
        let (rows, width) = if of.width.is_multiple_of(period) { (of.rows, of.width) } else { (1, step) };
        let mut elements = Vec::with_capacity(of.len());
        elements.extend((0..of.len() as u32).map(|at| Element::Of(made.0, at)));
        let operand = self.of_elements(elements, of.time, rows)?;
        let vector = |data: Vec<f32>| Tensor { shape: vec![period], data };
        let mut layer = Layer::new(CellKind::Scale, width, width).extent("channels", period);
        if numbers.iter().any(|(gain, _)| *gain != 1.0) {
            layer = layer.option("gain").tensor("gain", vector(numbers.iter().map(|(gain, _)| *gain).collect()));
        }
        layer = layer.tensor("bias", vector(numbers.iter().map(|(_, shift)| *shift).collect()));
        self.layered(Layered::plain(layer), &operand)
    }
}

/// Whether a layer is linear, so that a gain and a shift of its outputs can be folded into its weights.
fn is_linear(layer: &Layer) -> bool {
    let plain = layer.activations.get("activation").is_none_or(|activation| *activation == Activation::Identity);
    plain && matches!(layer.kind, CellKind::Dense | CellKind::Conv)
}

/// Whether a layer ends with a gain and a shift, or can.
fn takes_affine(layer: &Layer) -> bool {
    is_linear(layer) || layer.kind == CellKind::LayerNorm && layer.tensors.contains_key("gain")
}

/// The layer with a gain and a shift for each unit or filter folded in.
fn with_affine(mut layer: Layer, numbers: &[Affine]) -> Layer {
    let units = layer.hidden_size;
    if let Some(weights) = layer.tensors.get_mut("weights") {
        let cols = weights.data.len() / units;
        for (row, (gain, _)) in weights.data.chunks_mut(cols).zip(numbers) {
            row.iter_mut().for_each(|weight| *weight *= gain);
        }
    }
    if let Some(own) = layer.tensors.get_mut("gain") {
        own.data.iter_mut().zip(numbers).for_each(|(own, (gain, _))| *own *= gain);
    }
    let bias = layer.tensors.entry("bias").or_insert_with(|| Tensor { shape: vec![units], data: vec![0.0; units] });
    for (bias, (gain, shift)) in bias.data.iter_mut().zip(numbers) {
        *bias = *bias * gain + shift;
    }
    layer
}
