//! Reads a graph operator by operator and keeps the network value of each tensor.

mod interface;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::cells::Cells;
use super::integers::{Counted, Counts, LIMITS, Multiplier};
use super::malformed;
use super::moment::{FusedNorm, Moment};
use super::rolled::Unrolled;
use super::schema::{Model, Operator};
use super::timeline::{Timeline, is_of_variables};
use crate::format::refuse::unsupported_if;
use crate::format::{Imported, axis::Around, layer::Layer, network::Network, network::Source};
use crate::{budget::Budget, canonical::MAX_NODES, canonical::Schedule, error::ImportError, error::Result};

/// Maximum number of graphs that a note names.
const MOST_NAMED: usize = 4;

/// The note about dynamic range quantization.
const HYBRID: &str = "weights in int8 beside floats (dynamic range quantization) are imported as their real values; TFLite \
                      also rounds the activations to 8 bits before each product, so its outputs differ slightly";

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
    /// Whether the tensor has the rows of the source in reverse order.
    pub reversed: bool,
}

impl Value {
    /// Number of elements in each step or row.
    pub fn features(&self) -> usize {
        self.source.size()
    }
}

/// A tensor whose value has not been taken apart into blocks.
#[derive(Clone, Debug)]
pub struct Blocked {
    /// The block along each axis.
    pub blocks: Vec<usize>,
    /// Zeros that a convolution adds along each axis, without those that `BATCH_TO_SPACE_ND` removes from its output.
    pub around: Vec<Around>,
    /// Whether a convolution has read the blocks.
    pub convolved: bool,
}

/// Operators that are repeated for all steps of a sequence.
#[derive(Clone, Debug)]
pub struct Distributed {
    /// The tensor of the sequence, and its dimension of steps.
    pub sequence: usize,
    pub axis: usize,
    /// The tensor of the first step, the numbers of its operators, and the tensor of their result.
    pub first: usize,
    pub operators: Vec<usize>,
    pub last: usize,
    /// The slices of all steps, and the tensors between them and the operator that joins the steps.
    pub inside: Vec<usize>,
}

/// Converts a graph to a network.
pub struct Reader<'a> {
    pub model: &'a Model<'a>,
    pub network: Network,
    pub values: HashMap<usize, Value>,
    /// Windows over streams, by the name of the stream's source.
    windows: HashMap<String, Source>,
    /// Names of float inputs that are not quantized yet.
    floats: BTreeSet<String>,
    /// Tensors that are rows of streams.
    pub timeline: Timeline,
    /// Number of steps of the sequences, if there are several.
    steps: Option<usize>,
    /// Whether any operator needs more than one step.
    whole: bool,
    pub budget: Budget,
    /// Tensors that are states of loops, which variables keep from call to call.
    pub carried: BTreeSet<usize>,
    /// States of filters, which are kept from call to call too.
    pub filters: BTreeSet<usize>,
    /// Values inside of layer normalizations.
    pub moments: HashMap<usize, Moment>,
    /// Operators that are repeated for all steps, by the tensor that joins their results.
    pub distributed: HashMap<usize, Distributed>,
    /// The size of the first dimension of the tensors that are read, if it counts steps.
    pub batch: usize,
    /// Layer normalizations as Keras 2 writes them, by their outputs.
    pub fused_norms: HashMap<usize, FusedNorm>,
    /// Zeros that convolutions add to the rows and columns of tensors, which their values lack.
    pub padded: HashMap<usize, [Around; 2]>,
    /// The numbers of the operators that join blocks again, by the output of `SPACE_TO_BATCH_ND`.
    pub joins: HashMap<usize, Vec<usize>>,
    /// Tensors that are blocks in the file.
    pub blocks: HashMap<usize, Blocked>,
    /// Tensors that an earlier layer already computes, so that their operators are skipped.
    pub folded: BTreeSet<usize>,
    /// States that are ports, and their cells.
    pub cells: Cells,
    /// Cells whose steps are apart.
    pub unrolled: Option<Unrolled>,
    /// Why steps do not form an unrolled layer, and what to do.
    pub no_loop: Option<(String, &'static str)>,
    /// Inputs that are indices, by the tensors that tables read.
    pub indices: HashMap<usize, usize>,
    /// Numbers of the graphs that others call.
    pub called: Vec<usize>,
    /// Whether the steps of float inputs are the rows of a window.
    in_windows: bool,
    /// Whether any weights are integers beside float activations.
    pub hybrid: bool,
    pub notes: Vec<String>,
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
    /// With `in_windows`, the steps of float inputs are the rows of a window, and all layers run over them.
    pub fn new(model: &'a Model<'a>, budget: Budget, in_windows: bool) -> Self {
        let mut network = Network::new();
        network.fresh = true;
        let (values, windows, floats) = (HashMap::new(), HashMap::new(), BTreeSet::new());
        let (timeline, notes) = (Timeline::default(), Vec::new());
        let (carried, filters) = (BTreeSet::new(), BTreeSet::new());
        let (called, cells) = (Vec::new(), Cells::default());
        let (steps, whole, moments, folded) = (None, false, HashMap::new(), BTreeSet::new());
        Self {
            model,
            network,
            values,
            windows,
            floats,
            timeline,
            steps,
            whole,
            budget,
            carried,
            filters,
            moments,
            distributed: HashMap::new(),
            batch: 1,
            fused_norms: HashMap::new(),
            padded: HashMap::new(),
            joins: HashMap::new(),
            blocks: HashMap::new(),
            folded,
            cells,
            unrolled: None,
            no_loop: None,
            indices: HashMap::new(),
            called,
            in_windows,
            hybrid: false,
            notes,
        }
    }

    /// Imports the graph. `states` names the outputs that are the next values of inputs. `None` if several layers need windows,
    /// so that the whole graph must run in windows: as a stream, a step would end at the first window that is not full.
    pub fn import(mut self, source: &str, states: &BTreeMap<String, String>) -> Result<Option<Imported>> {
        let len = self.model.main.operators.len();
        unsupported_if(len > MAX_NODES, format_args!("a graph of {len} operators, more than {MAX_NODES},"))?;
        let has_variables = self.model.main.operators.iter().any(is_of_variables);
        if has_variables {
            let (carried, mut called) = self.carried_states()?;
            if carried.is_empty() {
                called = self.follow_rows()?;
            }
            self.carried = carried;
            self.called.extend(called);
        }
        let both = has_variables && !states.is_empty();
        unsupported_if(both, "--state with a graph that keeps its states in variables")?;
        if !has_variables {
            self.state_ports(states)?;
            if self.cells.found.is_empty() {
                self.find_distributed()?;
                self.find_unrolled()?;
                self.leave_out_distributed();
            }
        }
        self.find_indices()?;
        self.find_blocks();
        self.find_fused_norms()?;
        for &input in &self.model.main.inputs {
            if !self.cells.inputs.contains(&input) {
                self.input(input)?;
            }
        }
        for operator in &self.model.main.operators {
            let is_moved = |output: &Option<usize>| output.is_some_and(|output| self.timeline.has(output));
            if is_of_variables(operator) || (!operator.outputs.is_empty() && operator.outputs.iter().all(is_moved)) {
                operator.check_options().map_err(|trouble| self.named(operator, trouble))?;
                continue;
            }
            let is_folded = operator.outputs.iter().flatten().any(|output| self.folded.contains(output));
            let is_inside = self.unrolled.as_ref().is_some_and(|unrolled| unrolled.leaves_out(operator));
            if is_folded || is_inside || self.cells.leave_out(operator) {
                continue;
            }
            let cells = self.cell_at(operator).and_then(|cell| match cell {
                None => self.unrolled_at(operator),
                Some(cell) => Ok(vec![cell]),
            });
            let values = match cells {
                Ok(cells) if cells.is_empty() => self.operator(operator),
                cells => cells,
            };
            let explained = |trouble| self.of_no_loop(self.cells.explained(self.named(operator, trouble)));
            let values = values.map_err(explained)?;
            self.values.extend(values);
        }
        self.note_uncalled()?;
        if self.hybrid {
            self.notes.push(HYBRID.to_owned());
        }
        self.outputs()?;
        if self.windows.len() > 1 {
            unsupported_if(self.in_windows, "a graph with windows over several layers of integers")?;
            return Ok(None);
        }
        let Self { network, steps, whole, notes, carried, filters, .. } = self;
        let several = steps.is_some() && !filters.is_empty();
        unsupported_if(several, "filters (SVDF), of which a call is a step, beside layers that read sequences,")?;
        let mut model = network.model(source.to_owned())?;
        if let (Some(frames), true) = (steps, whole) {
            let kept = "a loop that keeps its states from call to call, and layers that read whole windows,";
            unsupported_if(!carried.is_empty(), kept)?;
            let frames = u32::try_from(frames).map_err(|_| malformed("it has too many steps".into()))?;
            model.architecture.schedule = Schedule::Windows { frames, every: frames };
            model.validate()?;
        }
        Ok(Some(Imported { model, notes, assumptions: Vec::new() }))
    }

    /// Notes the graphs that no graph calls.
    fn note_uncalled(&mut self) -> Result<()> {
        let ignored = self.model.uncalled(&self.called)?;
        if !ignored.is_empty() {
            let names = ignored.iter().take(MOST_NAMED).map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
            let count = ignored.len();
            self.notes.push(format!("{count} of its graphs, which nothing calls, are left out: {names}"));
        }
        Ok(())
    }

    /// The name of the operator's output, which TFLite uses as the node's name.
    pub fn node(&self, operator: &Operator<'_>) -> String {
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

    /// The outputs of an operator by their tensors; none if they are constants.
    pub fn operator(&mut self, operator: &Operator<'a>) -> Result<Vec<(usize, Value)>, Trouble> {
        // A half-precision weight has its own operator that converts it to floats.
        if operator.op == "DEQUANTIZE" && operator.inputs.first().is_some_and(|input| self.is_constant(*input)) {
            return Ok(Vec::new());
        }
        if operator.op == "WHILE" {
            let values = self.while_loop(operator)?;
            operator.check_options()?;
            return Ok(values);
        }
        if let &[Some(output)] = operator.outputs.as_slice()
            && let Some(values) = self.fused_norm(output)?
        {
            operator.check_options()?;
            return Ok(values);
        }
        if let Some(values) = self.normalization(operator)? {
            operator.check_options()?;
            return Ok(values);
        }
        if let Some(value) = self.distributed_at(operator)? {
            operator.check_options()?;
            return Ok(vec![value]);
        }
        let value = match (operator.op, self.blocked(operator)) {
            ("RESHAPE" | "SQUEEZE" | "EXPAND_DIMS", Some(of)) => self.reshaped_blocks(operator, of),
            ("BATCH_TO_SPACE_ND", Some(of)) => self.batch_to_space(operator, &of),
            (op, Some(_)) if !matches!(op, "CONV_2D" | "DEPTHWISE_CONV_2D") => {
                Err("its input is in blocks, which only convolutions read".into())
            }
            _ => match self.over_batch(operator) {
                Some(value) => value,
                None => self.unblocked(operator),
            },
        }?;
        operator.check_options()?;
        let &[Some(output)] = operator.outputs.as_slice() else {
            return Err("it does not have exactly one output".into());
        };
        Ok(vec![(output, value)])
    }

    /// The output of an operator that reads no blocks.
    pub fn unblocked(&mut self, operator: &Operator<'a>) -> Refused {
        match operator.op {
            LSTM => self.lstm(operator),
            "SVDF" => self.svdf(operator),
            "FULLY_CONNECTED" => self.dense(operator),
            "CONV_2D" | "DEPTHWISE_CONV_2D" => self.conv(operator),
            "RESHAPE" | "SQUEEZE" | "EXPAND_DIMS" => self.reshape(operator),
            "PAD" => self.pad(operator),
            "SPACE_TO_BATCH_ND" => self.space_to_batch(operator),
            "AVERAGE_POOL_2D" | "MAX_POOL_2D" => self.pool(operator),
            "MEAN" | "REDUCE_MAX" => self.reduction(operator),
            "TRANSPOSE" => self.transpose(operator),
            "REVERSE_V2" => self.reverse(operator),
            "STRIDED_SLICE" | "SLICE" => self.strided_slice(operator),
            "CONCATENATION" => self.concatenation(operator),
            "SOFTMAX" => self.softmax(operator),
            "QUANTIZE" => self.quantize(operator),
            "DEQUANTIZE" => self.dequantize(operator),
            "MUL" | "ADD" | "SUB" => self.arithmetic(operator),
            "SQUARE" => self.square(operator),
            "LOGISTIC" | "TANH" | "RELU" | "RELU6" | "HARD_SWISH" | "ELU" | "EXP" | "LOG" | "GELU" | "LEAKY_RELU" => {
                self.activation(operator)
            }
            "UNPACK" | "PACK" => self.one(operator),
            "GATHER" => self.table(operator),
            "TILE" => self.tile(operator),
            _ => {
                let node = self.node(operator);
                Err(ImportError::UnreadOp { node, op: operator.name() }.into())
            }
        }
    }
}
