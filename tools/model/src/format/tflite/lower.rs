//! Reads a graph operator by operator and keeps the network value of each tensor.

use std::collections::{BTreeMap, BTreeSet};

use super::integers::{Counted, Counts, LIMITS, Multiplier};
use super::schema::{Model, Operator, Type};
use super::timeline::{Timeline, is_of_variables, rows_and_size};
use super::{malformed, unsupported};
use crate::format::refuse::{err_if, unsupported_if};
use crate::format::{Imported, layer::Layer, network::Network, network::Source};
use crate::{budget::Budget, canonical::MAX_NODES, canonical::Schedule, error::ImportError, error::Result};

/// Maximum number of graphs that a note names.
const MOST_NAMED: usize = 4;

const LSTM: &str = "UNIDIRECTIONAL_SEQUENCE_LSTM";

/// The dimension of a tensor that counts steps or rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Along {
    /// No dimension: all elements are available at once.
    Nothing,
    /// This dimension counts the steps of the stream.
    Stream(usize),
    /// This dimension counts the rows of a window.
    Rows(usize),
}

impl Along {
    /// The dimension, if there is one.
    pub fn axis(self) -> Option<usize> {
        match self {
            Self::Nothing => None,
            Self::Stream(axis) | Self::Rows(axis) => Some(axis),
        }
    }

    /// The same at the dimension that `moved` maps it to.
    pub fn moved(self, moved: impl Fn(usize) -> usize) -> Self {
        match self {
            Self::Nothing => Self::Nothing,
            Self::Stream(axis) => Self::Stream(moved(axis)),
            Self::Rows(axis) => Self::Rows(moved(axis)),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Value {
    /// The elements in the network; for a stream, those of one step.
    pub source: Source,
    pub shape: Vec<usize>,
    pub along: Along,
    /// Quantization of the integers; `None` for a float tensor.
    pub counts: Option<Counts>,
}

impl Value {
    /// Number of elements in each step or row.
    pub fn features(&self) -> usize {
        self.source.size()
    }
}

/// Converts a graph to a network.
pub struct Reader<'a> {
    pub model: &'a Model<'a>,
    pub network: Network,
    pub values: BTreeMap<usize, Value>,
    /// Windows over streams, by the name of the stream's source.
    windows: BTreeMap<String, Source>,
    /// Names of float inputs that are not quantized yet.
    floats: BTreeSet<String>,
    /// Tensors that are rows of streams.
    pub timeline: Timeline,
    /// Number of steps of the sequences, if there are several.
    steps: Option<usize>,
    /// Whether any operator needs more than one step.
    whole: bool,
    pub budget: Budget,
    notes: Vec<String>,
}

/// The value of an operator, or an error that does not name the operator yet.
pub type Refused = Result<Value, Trouble>;

/// A reason that still needs the operator's name, or a complete error.
pub enum Trouble {
    Reason(String),
    Whole(ImportError),
}

impl From<ImportError> for Trouble {
    fn from(error: ImportError) -> Self {
        Self::Whole(error)
    }
}

impl<T: Into<String>> From<T> for Trouble {
    fn from(reason: T) -> Self {
        Self::Reason(reason.into())
    }
}

impl<'a> Reader<'a> {
    pub fn new(model: &'a Model<'a>, budget: Budget) -> Self {
        let mut network = Network::new();
        network.fresh = true;
        let (values, windows, floats) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        let (timeline, notes) = (Timeline::default(), Vec::new());
        Self { model, network, values, windows, floats, timeline, steps: None, whole: false, budget, notes }
    }

    pub fn import(mut self, source: &str) -> Result<Imported> {
        let len = self.model.main.operators.len();
        unsupported_if(len > MAX_NODES, format_args!("a graph of {len} operators, more than {MAX_NODES},"))?;
        let has_variables = self.model.main.operators.iter().any(is_of_variables);
        let called = if has_variables { self.follow_rows()? } else { Vec::new() };
        let ignored = self.model.uncalled(&called)?;
        if !ignored.is_empty() {
            let names = ignored.iter().take(MOST_NAMED).map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
            let count = ignored.len();
            self.notes.push(format!("{count} of its graphs, which nothing calls, are left out: {names}"));
        }
        for &input in &self.model.main.inputs {
            self.input(input)?;
        }
        for operator in &self.model.main.operators {
            let is_moved = |output: &Option<usize>| output.is_some_and(|output| self.timeline.has(output));
            if is_of_variables(operator) || (!operator.outputs.is_empty() && operator.outputs.iter().all(is_moved)) {
                operator.check_options().map_err(|trouble| self.named(operator, trouble))?;
                continue;
            }
            let value = self.operator(operator).map_err(|trouble| self.named(operator, trouble))?;
            let &[Some(output)] = operator.outputs.as_slice() else {
                return Err(self.named(operator, "it does not have exactly one output".into()));
            };
            self.values.extend(value.map(|value| (output, value)));
        }
        self.outputs()?;
        let Self { network, steps, whole, notes, .. } = self;
        let mut model = network.model(source.to_owned())?;
        if let (Some(frames), true) = (steps, whole) {
            let frames = u32::try_from(frames).map_err(|_| malformed("it has too many steps".into()))?;
            model.architecture.schedule = Schedule::Windows { frames, every: frames };
            model.validate()?;
        }
        Ok(Imported { model, notes, assumptions: Vec::new() })
    }

    /// The name of the operator's output, which TFLite uses as the node's name.
    fn node(&self, operator: &Operator<'_>) -> String {
        let names = operator.outputs.iter().flatten().map(|&output| self.model.main.tensors[output].name());
        names.flatten().next().unwrap_or_default()
    }

    /// An error with the name of the operator.
    pub fn named(&self, operator: &Operator<'_>, trouble: Trouble) -> ImportError {
        let reason = match trouble {
            Trouble::Reason(reason) => reason,
            Trouble::Whole(ImportError::Unsupported(what)) => format!("{what} is not supported"),
            Trouble::Whole(error) => return error,
        };
        ImportError::Node { node: self.node(operator), op: operator.name(), reason }
    }

    fn input(&mut self, number: usize) -> Result<()> {
        let tensor = &self.model.main.tensors[number];
        let (name, shape) = (tensor.name()?, tensor.shape()?);
        let of = |what: String| unsupported(format!("input {name:?} {what}"));
        let counts = match tensor.of {
            Type::F32 => None,
            Type::I8 | Type::U8 => {
                Some(self.counts(number)?.ok_or_else(|| of(format!("of {} without a scale", tensor.of.name())))?)
            }
            other => return Err(of(format!("of {}", other.name()))),
        };
        let open = tensor.open().unwrap_or_default();
        if let Some(axis) = (1..shape.len()).find(|&axis| open.get(axis) == Some(&true)) {
            return Err(of(format!("whose dimension {axis} is open")));
        }
        let has_lstm = self.model.main.operators.iter().any(|operator| operator.op == LSTM);
        let (size, along) = match *shape {
            // A step is a row.
            [1, ..] if self.timeline.has(number) => (rows_and_size(&shape).1, Along::Nothing),
            [1, steps, features] | [steps, 1, features] if steps > 1 && has_lstm => {
                let known = *self.steps.get_or_insert(steps);
                err_if(known != steps, || of(format!("of {steps} steps beside another of {known}")))?;
                (features, Along::Stream(usize::from(shape[0] == 1)))
            }
            [1, ..] => (shape.iter().product(), Along::Nothing),
            _ => return Err(of(format!("of a batch: it is {shape:?}"))),
        };
        err_if(self.network.has_input(&name), || of("occurs twice".into()))?;
        let source = self.network.input(&name, size);
        if self.timeline.has(number) {
            self.network.called_with(&name, rows_and_size(&shape).0);
        }
        let value = match counts {
            None => {
                self.floats.insert(name);
                Value { source, shape, along, counts: None }
            }
            Some(counts) => self.quantized_input(Value { source, shape, along, counts: None }, counts),
        };
        self.values.insert(number, value);
        Ok(())
    }

    /// Quantizes a float input and clamps it to 8 bits.
    pub fn quantized_input(&mut self, value: Value, counts: Counts) -> Value {
        self.floats.remove(value.source.name());
        self.network.counts(&value.source, Counted::of(counts).integers());
        self.brought(value, counts, Multiplier::ONE)
    }

    /// Requantizes integers to another scale and zero point.
    pub fn brought(&mut self, value: Value, counts: Counts, by: Multiplier) -> Value {
        let counted = Counted::of(counts).requantized("", by).limited(counts, LIMITS);
        let layer = Layer::identity(value.source.size());
        let (source, counts) = self.counted(layer, &value.source, Some((counts, counted)));
        Value { source, counts, ..value }
    }

    /// Adds a layer, with the quantization of its output and its integers if it is one of integers.
    pub fn counted(&mut self, layer: Layer, x: &Source, of: Option<(Counts, Counted)>) -> (Source, Option<Counts>) {
        self.counted_of(layer, &[x], of)
    }

    /// [`counted`](Self::counted) with several inputs.
    pub fn counted_of(
        &mut self,
        layer: Layer,
        inputs: &[&Source],
        of: Option<(Counts, Counted)>,
    ) -> (Source, Option<Counts>) {
        let source = self.network.add(layer, inputs);
        let counts = of.map(|(counts, counted)| {
            self.network.counts(&source, counted.integers());
            counts
        });
        (source, counts)
    }

    /// Whether a value is an unchanged float input.
    pub fn is_float_input(&self, value: &Value) -> bool {
        self.floats.contains(value.source.name())
    }

    fn outputs(&mut self) -> Result<()> {
        err_if(self.model.main.outputs.is_empty(), || malformed("it has no output".into()))?;
        let mut named = BTreeSet::new();
        for &number in &self.model.main.outputs {
            let name = self.model.main.tensors[number].name()?;
            let uncomputed = || unsupported(format!("output {name:?}, which nothing computes,"));
            let seen = self.seen(number).map_err(|_| uncomputed())?;
            let value = seen.or_else(|| self.values.get(&number).cloned()).ok_or_else(uncomputed)?;
            // If any operator needs a whole window, streams become windows too.
            let value = if self.whole { self.flat(value) } else { value };
            unsupported_if(!named.insert(name.clone()), format_args!("output {name:?}, which occurs twice,"))?;
            self.network.output(&name, &value.source);
        }
        Ok(())
    }

    /// The value with all of its elements available at once.
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

    /// Takes the current step of a stream as the last step of its window.
    pub fn last(&mut self, value: Value) -> Value {
        self.whole = true;
        Value { along: Along::Nothing, ..value }
    }

    /// The output of an operator; `None` if it is a constant.
    fn operator(&mut self, operator: &Operator<'a>) -> Result<Option<Value>, Trouble> {
        // A half-precision weight has its own operator that converts it to floats.
        if operator.op == "DEQUANTIZE" && operator.inputs.first().is_some_and(|input| self.is_constant(*input)) {
            return Ok(None);
        }
        let value = match operator.op {
            LSTM => self.lstm(operator),
            "FULLY_CONNECTED" => self.dense(operator),
            "CONV_2D" | "DEPTHWISE_CONV_2D" => self.conv(operator),
            "RESHAPE" | "SQUEEZE" | "EXPAND_DIMS" => self.reshape(operator),
            "TRANSPOSE" => self.transpose(operator),
            "STRIDED_SLICE" => self.strided_slice(operator),
            "CONCATENATION" => self.concatenation(operator),
            "SOFTMAX" => self.softmax(operator),
            "QUANTIZE" => self.quantize(operator),
            "DEQUANTIZE" => self.dequantize(operator),
            "MUL" | "ADD" | "SUB" => self.arithmetic(operator),
            "LOGISTIC" | "TANH" | "RELU" | "RELU6" => self.activation(operator),
            _ => {
                let node = self.node(operator);
                return Err(ImportError::UnreadOp { node, op: operator.name() }.into());
            }
        }?;
        operator.check_options()?;
        Ok(Some(value))
    }
}
