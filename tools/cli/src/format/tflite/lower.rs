//! A graph, operator after operator: what each tensor is in the network that is made of it.

use std::collections::{BTreeMap, BTreeSet};

use super::schema::{Model, Operator, Quantization, Type, floats, integers, op};
use super::{malformed, unsupported};
use crate::canonical::{MAX_NODES, Schedule};
use crate::error::ImportError;
use crate::format::Imported;
use crate::format::network::{Network, Source};

/// How often the elements of the file may be read: tensors that operators share are read for each.
const MOST_READS: usize = 4;
/// Elements that are read besides.
const SPARE_READS: usize = 1 << 16;

/// What dimension of a tensor enumerates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Along {
    /// None: all of it is there at once.
    Nothing,
    /// This one the steps of the stream.
    Stream(usize),
    /// This one the rows of a window.
    Rows(usize),
}

/// A tensor that is computed.
#[derive(Clone, Debug)]
pub struct Value {
    /// Where its elements are: of a stream those of a step.
    pub source: Source,
    /// As the file has it.
    pub shape: Vec<usize>,
    pub along: Along,
    /// What its integers stand for; none of a float tensor.
    pub counts: Option<Counts>,
}

/// Of a tensor of 8 bits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counts {
    /// What a unit is worth.
    pub scale: f32,
    /// The integer that stands for 0.0.
    pub zero_point: i32,
}

impl Value {
    /// Elements of each step or row.
    pub fn features(&self) -> usize {
        self.source.size()
    }
}

/// The graph on its way into a network.
pub struct Reader<'a> {
    pub model: &'a Model<'a>,
    pub network: Network,
    values: BTreeMap<usize, Value>,
    /// Windows of streams, by the names of what they are of.
    windows: BTreeMap<String, Source>,
    /// Inputs of floats, which count nothing yet.
    floats: BTreeSet<String>,
    /// Steps of the sequences, where there are several.
    steps: Option<usize>,
    /// Whether anything looks at more than a step.
    whole: bool,
    /// Elements that may still be read.
    left: usize,
    notes: Vec<String>,
}

/// The shape and the numbers of a constant.
pub type Floats = (Vec<usize>, Vec<f32>);

/// The same of integers, and what they stand for.
pub type Whole = (Vec<usize>, Vec<i64>, Option<Quantization>);

/// What is wrong with an operator, which is not named yet.
pub type Refused = Result<Value, Trouble>;

/// A reason, or an error that needs no name.
pub enum Trouble {
    Reason(String),
    Whole(ImportError),
}

impl From<ImportError> for Trouble {
    fn from(error: ImportError) -> Self {
        Self::Whole(error)
    }
}

impl From<String> for Trouble {
    fn from(reason: String) -> Self {
        Self::Reason(reason)
    }
}

impl From<&str> for Trouble {
    fn from(reason: &str) -> Self {
        Self::Reason(reason.to_owned())
    }
}

impl<'a> Reader<'a> {
    pub fn new(model: &'a Model<'a>, bytes: usize) -> Self {
        let mut network = Network::new();
        network.fresh = true;
        let left = MOST_READS.saturating_mul(bytes).saturating_add(SPARE_READS);
        Self {
            model,
            network,
            values: BTreeMap::new(),
            windows: BTreeMap::new(),
            floats: BTreeSet::new(),
            steps: None,
            whole: false,
            left,
            notes: Vec::new(),
        }
    }

    /// The network.
    pub fn import(mut self, source: &str) -> Result<Imported, ImportError> {
        if self.model.operators.len() > MAX_NODES {
            let len = self.model.operators.len();
            return Err(unsupported(format!("a graph of {len} operators, more than {MAX_NODES},")));
        }
        for &input in &self.model.inputs {
            self.input(input)?;
        }
        for operator in &self.model.operators {
            let value = self.operator(operator).map_err(|trouble| self.named(operator, trouble))?;
            let &[Some(output)] = operator.outputs.as_slice() else {
                return Err(self.named(operator, "it has another number of outputs than one".into()));
            };
            if let Some(value) = value {
                self.values.insert(output, value);
            }
        }
        self.outputs()?;
        let Self { network, steps, whole, notes, .. } = self;
        let mut model = network.model(source.to_owned())?;
        if let (Some(frames), true) = (steps, whole) {
            let frames = u32::try_from(frames).map_err(|_| malformed("it has too many steps".into()))?;
            model.architecture.schedule = Schedule::Windows { frames, every: frames };
            model.validate()?;
        }
        Ok(Imported { model, notes })
    }

    /// An error with the name of the operator's output, which is what TFLite has for a node's name.
    fn named(&self, operator: &Operator<'_>, trouble: Trouble) -> ImportError {
        let output = operator.outputs.iter().flatten().find_map(|&output| self.model.tensors[output].name().ok());
        let node = output.unwrap_or_default();
        match trouble {
            Trouble::Reason(reason) => ImportError::Node { node, op: operator.name(), reason },
            Trouble::Whole(ImportError::Unsupported(what)) => {
                ImportError::Node { node, op: operator.name(), reason: format!("{what} is not supported") }
            }
            Trouble::Whole(error) => error,
        }
    }

    fn input(&mut self, number: usize) -> Result<(), ImportError> {
        let tensor = &self.model.tensors[number];
        let (name, shape) = (tensor.name()?, tensor.shape()?);
        let of = |what: String| unsupported(format!("input {name:?} {what}"));
        let counts = match tensor.of {
            Type::F32 => None,
            Type::I8 => Some(self.counts(number)?.ok_or_else(|| of("of int8 without a scale".into()))?),
            other => return Err(of(format!("of {}", other.name()))),
        };
        if let Some(axis) = (1..shape.len()).find(|&axis| tensor.open().is_ok_and(|open| open.get(axis) == Some(&true)))
        {
            return Err(of(format!("whose dimension {axis} is open")));
        }
        let has_lstm = self.model.operators.iter().any(|operator| operator.code == op::LSTM);
        let (size, along) = match *shape {
            [1, steps, features] | [steps, 1, features] if steps > 1 && has_lstm => {
                if self.steps.is_some_and(|known| known != steps) {
                    return Err(of(format!("of {steps} steps beside another of {}", self.steps.unwrap_or(1))));
                }
                self.steps = Some(steps);
                (features, Along::Stream(usize::from(shape[0] == 1)))
            }
            [1, ..] => (shape.iter().product(), Along::Nothing),
            _ => return Err(of(format!("of a batch: it is {shape:?}"))),
        };
        if self.network.has_input(&name) {
            return Err(of("is there twice".into()));
        }
        let source = self.network.input(&name, size);
        let value = match counts {
            None => {
                self.floats.insert(name);
                Value { source, shape, along, counts: None }
            }
            Some(counts) => self.entering(Value { source, shape, along, counts: None }, counts),
        };
        self.values.insert(number, value);
        Ok(())
    }

    /// An input as integers, within their bits.
    fn entering(&mut self, value: Value, counts: Counts) -> Value {
        self.floats.remove(value.source.name());
        let port = super::integers::Counted::of(counts);
        self.network.counts(&value.source, port.integers());
        self.brought(value, counts, super::integers::Multiplier::ONE)
    }

    /// Integers of other counts.
    pub fn brought(&mut self, value: Value, counts: Counts, by: super::integers::Multiplier) -> Value {
        let size = value.source.size();
        let source = self.network.add(crate::format::layer::Layer::identity(size), &[&value.source]);
        let integers = super::integers::Counted::of(counts).requantized("", by).limited(counts, [-128, 127]);
        self.network.counts(&source, integers.integers());
        Value { source, counts: Some(counts), ..value }
    }

    /// Whether a value is an input of floats as it came.
    pub fn is_float_input(&self, value: &Value) -> bool {
        self.floats.contains(value.source.name())
    }

    /// The same as integers that count so.
    pub fn quantized_input(&mut self, value: Value, counts: Counts) -> Value {
        self.entering(value, counts)
    }

    fn outputs(&mut self) -> Result<(), ImportError> {
        if self.model.outputs.is_empty() {
            return Err(malformed("it has no output".into()));
        }
        let mut named = BTreeSet::new();
        for &number in &self.model.outputs {
            let name = self.model.tensors[number].name()?;
            let Some(value) = self.values.get(&number).cloned() else {
                return Err(unsupported(format!("output {name:?}, which nothing computes,")));
            };
            // Beside what looks at a whole window a stream is one too.
            let value = if self.whole { self.flat(value) } else { value };
            if !named.insert(name.clone()) {
                return Err(unsupported(format!("output {name:?} of which there are two")));
            }
            self.network.output(&name, &value.source);
        }
        Ok(())
    }

    /// All of a value at once.
    pub fn flat(&mut self, value: Value) -> Value {
        let source = match value.along {
            Along::Nothing => value.source,
            Along::Rows(_) => value.source.flat(),
            Along::Stream(axis) => {
                self.whole = true;
                let (steps, network) = (value.shape[axis], &mut self.network);
                let name = value.source.name().to_owned();
                let window = self.windows.entry(name).or_insert_with(|| network.frames(&value.source, steps, steps, 0));
                window.clone().flat()
            }
        };
        Value { source, along: Along::Nothing, ..value }
    }

    /// A step of a stream that nothing follows is the last of its window.
    pub fn last(&mut self, value: Value) -> Value {
        self.whole = true;
        Value { along: Along::Nothing, ..value }
    }

    /// What an operator gives; none if all of it is known.
    fn operator(&mut self, operator: &Operator<'a>) -> Result<Option<Value>, Trouble> {
        // A weight in half precision stands behind an operator of its own.
        if operator.code == op::DEQUANTIZE && operator.inputs.first().is_some_and(|input| self.is_constant(*input)) {
            return Ok(None);
        }
        let value = match operator.code {
            op::LSTM => self.lstm(operator),
            op::FULLY_CONNECTED => self.dense(operator),
            op::CONV_2D => self.conv(operator),
            op::RESHAPE | op::SQUEEZE | op::EXPAND_DIMS => self.reshape(operator),
            op::TRANSPOSE => self.transpose(operator),
            op::STRIDED_SLICE => self.strided_slice(operator),
            op::SOFTMAX => self.softmax(operator),
            op::QUANTIZE => self.quantize(operator),
            op::DEQUANTIZE => self.dequantize(operator),
            op::LOGISTIC | op::TANH | op::RELU | op::RELU6 => self.activation(operator),
            _ => {
                let node = operator.outputs.iter().flatten().find_map(|&output| self.model.tensors[output].name().ok());
                let node = node.unwrap_or_default();
                return Err(ImportError::UnreadOp { node, op: operator.name() }.into());
            }
        };
        value.map(Some)
    }

    /// The number of input `index` of an operator; none if it is left out.
    pub fn port(&self, operator: &Operator<'_>, index: usize) -> Option<usize> {
        operator.inputs.get(index).copied().flatten()
    }

    /// What is computed, as input `index` of an operator.
    pub fn value(&self, operator: &Operator<'_>, index: usize) -> Result<Value, Trouble> {
        let number = self.port(operator, index).ok_or_else(|| format!("its input {index} is missing"))?;
        match self.values.get(&number) {
            Some(value) => Ok(value.clone()),
            None => {
                let name = self.model.tensors[number].name()?;
                Err(format!("its input {index}, {name:?}, is nothing that an operator before it computes").into())
            }
        }
    }

    /// The shape that the file says the output of an operator has.
    pub fn output_shape(&self, operator: &Operator<'_>) -> Result<Vec<usize>, Trouble> {
        match operator.outputs.first().copied().flatten() {
            Some(output) => Ok(self.model.tensors[output].shape()?),
            None => Err("it has no output".into()),
        }
    }

    /// What the integers of the output of an operator stand for; none if it is one of floats.
    pub fn output_counts(&self, operator: &Operator<'_>) -> Result<Option<Counts>, Trouble> {
        let Some(output) = operator.outputs.first().copied().flatten() else { return Err("it has no output".into()) };
        match self.model.tensors[output].of {
            Type::F32 => Ok(None),
            Type::I8 => match self.counts(output)? {
                Some(counts) => Ok(Some(counts)),
                None => Err("its output is of int8 without a scale".into()),
            },
            other => Err(format!("its output is of {}", other.name()).into()),
        }
    }

    fn is_constant(&self, number: Option<usize>) -> bool {
        number.is_some_and(|number| {
            let tensor = &self.model.tensors[number];
            !self.values.contains_key(&number) && self.model.data(tensor).is_ok_and(|data| data.is_some())
        })
    }

    /// What a tensor of 8 or 16 bits stands for, all of it alike.
    pub fn counts(&self, number: usize) -> Result<Option<Counts>, ImportError> {
        let tensor = &self.model.tensors[number];
        let Some(Quantization { scales, zero_points, .. }) = tensor.quantization()? else { return Ok(None) };
        match (scales.as_slice(), zero_points.as_slice()) {
            ([scale], [zero_point]) if (-128..=127).contains(zero_point) => {
                Ok(Some(Counts { scale: *scale, zero_point: *zero_point as i32 }))
            }
            _ => Err(unsupported(format!("tensor {:?} of several scales, or of such a zero point", tensor.name()?))),
        }
    }

    /// The operator that gives a tensor, if that is a constant brought to floats: then its input, else itself.
    fn behind(&self, number: usize) -> usize {
        let gives = |of: &&Operator<'_>| of.code == op::DEQUANTIZE && of.outputs.first() == Some(&Some(number));
        match self.model.operators.iter().find(gives) {
            Some(of) if self.model.tensors[number].of == Type::F32 => {
                of.inputs.first().copied().flatten().unwrap_or(number)
            }
            _ => number,
        }
    }

    /// Elements that may still be read.
    pub fn left(&self) -> usize {
        self.left
    }

    fn take(&mut self, number: usize) -> Result<(), ImportError> {
        let elements = self.model.tensors[number].shape()?.iter().product();
        match self.left.checked_sub(elements) {
            Some(left) => self.left = left,
            None => return Err(unsupported("a graph whose operators share so many tensors".into())),
        }
        Ok(())
    }

    /// A constant of floats, as input `index` of an operator, and its shape; none if it is left out.
    pub fn floats(&mut self, operator: &Operator<'_>, index: usize) -> Result<Option<Floats>, Trouble> {
        let Some(number) = self.port(operator, index) else { return Ok(None) };
        let number = self.behind(number);
        let tensor = self.model.tensors[number];
        if tensor.of == Type::I8 {
            let name = tensor.name()?;
            return Err(
                format!("its input {index}, {name:?}, is of int8 beside floats (dynamic range quantization)").into()
            );
        }
        self.take(number)?;
        match floats(self.model, &tensor)? {
            Some(values) => Ok(Some((tensor.shape()?, values))),
            None => Err(format!("its input {index}, {:?}, is no constant", tensor.name()?).into()),
        }
    }

    /// A constant of integers, likewise, with the type it must have and what it stands for.
    pub fn integers(&mut self, operator: &Operator<'_>, index: usize, of: Type) -> Result<Option<Whole>, Trouble> {
        let Some(number) = self.port(operator, index) else { return Ok(None) };
        let tensor = self.model.tensors[number];
        if tensor.of != of {
            let (name, found) = (tensor.name()?, tensor.of.name());
            return Err(format!("its input {index}, {name:?}, is of {found}, not {}", of.name()).into());
        }
        self.take(number)?;
        match integers(self.model, &tensor)? {
            Some(values) => Ok(Some((tensor.shape()?, values, tensor.quantization()?))),
            None => Err(format!("its input {index}, {:?}, is no constant", tensor.name()?).into()),
        }
    }
}
