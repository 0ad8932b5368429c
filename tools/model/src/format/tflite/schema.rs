//! Tensors, operators and their options in TFLite's schema (`schema.fbs`), by field number.

use half::f16;
use tidegate::internals::activation::Activation;

use super::{flat::Table, flat::Vector, malformed, unsupported};
use crate::format::refuse::{err_if, unsupported_if};
use crate::{budget::Budget, data::one_line, error::Result};

/// Maximum number of tensors, of operators and of operator codes.
const MOST: usize = 16_384;
const MOST_DIMS: usize = 8;
const MOST_PORTS: usize = 256;
/// Maximum number of bytes of a name in a message.
const MOST_NAME: usize = 255;
const VERSION: u32 = 3;

pub struct Model<'a> {
    codes: Vec<Table<'a>>,
    buffers: Vector<'a>,
    /// Tensors of the model's only graph.
    pub tensors: Vec<Tensor<'a>>,
    pub operators: Vec<Operator<'a>>,
    pub inputs: Vec<usize>,
    pub outputs: Vec<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    F32,
    F16,
    I32,
    I64,
    I16,
    I8,
    /// Any other type, by its number.
    Other(i8),
}

impl Type {
    fn of(code: i8) -> Self {
        match code {
            0 => Self::F32,
            1 => Self::F16,
            2 => Self::I32,
            4 => Self::I64,
            7 => Self::I16,
            9 => Self::I8,
            other => Self::Other(other),
        }
    }

    pub fn name(self) -> String {
        match self {
            Self::F32 => "float32".into(),
            Self::F16 => "float16".into(),
            Self::I32 => "int32".into(),
            Self::I64 => "int64".into(),
            Self::I16 => "int16".into(),
            Self::I8 => "int8".into(),
            Self::Other(3) => "uint8".into(),
            Self::Other(code) => format!("type {code}"),
        }
    }
}

/// Quantization of integers: q represents `scale · (q - zero_point)`.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantization {
    /// One scale, or one for each index of `dimension`.
    pub scales: Vec<f32>,
    /// Zero points, one for each scale.
    pub zero_points: Vec<i64>,
    /// Dimension that several scales belong to.
    pub dimension: i32,
}

#[derive(Clone, Copy)]
pub struct Tensor<'a> {
    table: Table<'a>,
    pub of: Type,
    buffer: usize,
    /// Whether the tensor is a state.
    pub is_variable: bool,
}

pub struct Operator<'a> {
    /// Number in the schema's `BuiltinOperator`.
    code: i32,
    custom: &'a [u8],
    /// Name of the operator in the schema; empty if it is not in the table.
    pub op: &'static str,
    /// Tensor numbers; `None` for an optional input that is left out.
    pub inputs: Vec<Option<usize>>,
    /// Tensor numbers; `None` for an optional output that is left out.
    pub outputs: Vec<Option<usize>>,
    /// Numbers of tensors that hold the quantization of intermediate results.
    pub intermediates: Vec<Option<usize>>,
    /// Number of the options' type in the schema's `BuiltinOptions`.
    pub options_type: u8,
    /// `None` if all options have their defaults.
    pub options: Option<Table<'a>>,
    /// Whether it has options of the schema's second list, `BuiltinOptions2`.
    pub has_more_options: bool,
}

impl<'a> Model<'a> {
    pub fn read(bytes: &'a [u8], budget: &mut Budget) -> Result<Self> {
        let root = Table::root(bytes)?;
        let version = root.scalar(0, 0_u32)?;
        unsupported_if(version != VERSION, format_args!("version {version} of the schema"))?;
        let (codes, graphs) = (root.tables(1)?, root.tables(2)?);
        unsupported_if(graphs.len() != 1, format_args!("a model of {} graphs", graphs.len()))?;
        let graph = graphs.get(0)?;
        let (tensors, operators) = (graph.tables(0)?, graph.tables(3)?);
        for (what, len) in [("operator codes", codes.len()), ("tensors", tensors.len()), ("operators", operators.len())]
        {
            err_if(len > MOST, || malformed(format!("it has {len} {what}, more than {MOST}")))?;
        }
        let mut model = Self {
            codes: (0..codes.len()).map(|k| codes.get(k)).collect::<Result<_, _>>()?,
            buffers: root.tables(4)?,
            tensors: Vec::new(),
            operators: Vec::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
        };
        for k in 0..tensors.len() {
            let table = tensors.get(k)?;
            let (of, buffer) = (Type::of(table.scalar(1, 0)?), table.scalar(2, 0_u32)? as usize);
            if table.table(6)?.is_some() {
                return Err(unsupported(format!("tensor {:?}, which is sparse,", Tensor::text(table)?)));
            }
            model.tensors.push(Tensor { table, of, buffer, is_variable: table.scalar(5, 0_u8)? != 0 });
        }
        let port = |number: i32| {
            model.number(number)?.ok_or_else(|| malformed("one of its inputs or outputs is not a tensor".into()))
        };
        let (inputs, outputs) = (graph.numbers(1, MOST_PORTS)?, graph.numbers(2, MOST_PORTS)?);
        let inputs = inputs.into_iter().map(port).collect::<Result<_, _>>()?;
        let outputs = outputs.into_iter().map(port).collect::<Result<_, _>>()?;
        let operators =
            (0..operators.len()).map(|k| model.operator(operators.get(k)?, budget)).collect::<Result<_, _>>()?;
        (model.inputs, model.outputs, model.operators) = (inputs, outputs, operators);
        Ok(model)
    }

    /// Checks a tensor number; `None` for -1.
    fn number(&self, number: i32) -> Result<Option<usize>> {
        match usize::try_from(number) {
            Ok(number) if number < self.tensors.len() => Ok(Some(number)),
            Err(_) if number == -1 => Ok(None),
            _ => Err(malformed(format!("it has no tensor {number}"))),
        }
    }

    fn operator(&self, table: Table<'a>, budget: &mut Budget) -> Result<Operator<'a>> {
        let index = table.scalar(0, 0_u32)?;
        let code =
            self.codes.get(index as usize).ok_or_else(|| malformed(format!("it has no operator code {index}")))?;
        // The older field holds only codes that fit into it; the newer one holds all.
        let (old, new) = (i32::from(code.scalar(0, 0_i8)?), code.scalar(3, 0_i32)?);
        let mut list = |field: usize| -> Result<Vec<Option<usize>>> {
            let numbers = table.numbers(field, MOST_PORTS)?;
            // Operators may share a table.
            budget.take(numbers.len(), size_of::<Option<usize>>())?;
            numbers.into_iter().map(|number| self.number(number)).collect()
        };
        let (code, custom) = (old.max(new), code.bytes(1)?);
        let mut rows = NAMES.split(", ").filter_map(|row| row.split_once(' '));
        Ok(Operator {
            code,
            op: rows.find(|(number, _)| number.parse() == Ok(code)).map_or("", |(_, name)| name),
            custom,
            inputs: list(1)?,
            outputs: list(2)?,
            intermediates: list(8)?,
            options_type: table.scalar(3, 0)?,
            options: table.table(4)?,
            has_more_options: table.scalar(11, 0_u8)? != 0,
        })
    }

    /// The data of a tensor in the file; `None` if it has no data.
    pub fn data(&self, tensor: &Tensor<'a>) -> Result<Option<&'a [u8]>> {
        if tensor.buffer == 0 {
            return Ok(None);
        }
        let buffer = self.buffers.get(tensor.buffer)?;
        if buffer.scalar(1, 0_u64)? > 1 {
            return Err(unsupported(format!("tensor {:?}, whose data follow the model,", tensor.name()?)));
        }
        let data = buffer.bytes(0)?;
        Ok((!data.is_empty()).then_some(data))
    }
}

impl<'a> Tensor<'a> {
    fn text(table: Table<'a>) -> Result<String> {
        let name = table.bytes(3)?;
        let name = String::from_utf8_lossy(&name[..name.len().min(MOST_NAME)]);
        Ok(one_line(&name))
    }

    pub fn name(&self) -> Result<String> {
        Self::text(self.table)
    }

    /// Dimensions of the tensor, at least 1 each.
    pub fn shape(&self) -> Result<Vec<usize>> {
        let dims: Vec<i32> = self.table.numbers(0, MOST_DIMS)?;
        let dim = |dim: &i32| usize::try_from(*dim).ok().filter(|&dim| dim > 0);
        let shape = dims.iter().map(dim).collect::<Option<Vec<_>>>();
        let shape = shape.filter(|shape| shape.iter().try_fold(1_usize, |all, &dim| all.checked_mul(dim)).is_some());
        shape.map_or_else(|| Err(malformed(format!("tensor {:?} is {dims:?}", self.name()?))), Ok)
    }

    /// Whether each dimension is open; empty if the tensor has no signature.
    pub fn open(&self) -> Result<Vec<bool>> {
        let signature: Vec<i32> = self.table.numbers(7, MOST_DIMS)?;
        Ok(signature.iter().map(|&dim| dim < 0).collect())
    }

    pub fn quantization(&self) -> Result<Option<Quantization>> {
        let Some(table) = self.table.table(4)? else { return Ok(None) };
        let details = table.scalar(4, 0_u8)?;
        if details != 0 {
            return Err(unsupported(format!("tensor {:?} with quantization details of type {details}", self.name()?)));
        }
        let most = crate::canonical::MAX_SIZE;
        let (scales, zero_points): (Vec<f32>, Vec<i64>) = (table.numbers(2, most)?, table.numbers(3, most)?);
        if scales.is_empty() {
            return Ok(None);
        }
        let counts = |scale: &f32| *scale > 0.0 && scale.is_finite();
        if !scales.iter().all(counts) || (zero_points.len() != scales.len() && !zero_points.is_empty()) {
            return Err(malformed(format!("tensor {:?} has invalid scales or zero points", self.name()?)));
        }
        let zero_points = if zero_points.is_empty() { vec![0; scales.len()] } else { zero_points };
        Ok(Some(Quantization { scales, zero_points, dimension: table.scalar(6, 0)? }))
    }
}

impl Operator<'_> {
    /// Name of the operator in the schema, or its number if the operator is not in the table.
    pub fn name(&self) -> String {
        const CUSTOM: i32 = 32;
        match self.op {
            "" if self.code == CUSTOM => {
                let name = String::from_utf8_lossy(&self.custom[..self.custom.len().min(MOST_NAME)]);
                format!("custom operator {:?}", one_line(&name))
            }
            "" => format!("operator {}", self.code),
            name => name.to_owned(),
        }
    }
}

/// Operators by number: those that are supported, and others that users may ask for.
const NAMES: &str = "\
    0 ADD, 1 AVERAGE_POOL_2D, 2 CONCATENATION, 3 CONV_2D, 4 DEPTHWISE_CONV_2D, 6 DEQUANTIZE, 7 EMBEDDING_LOOKUP, \
    9 FULLY_CONNECTED, 14 LOGISTIC, 16 LSTM, 17 MAX_POOL_2D, 18 MUL, 19 RELU, 20 RELU_N1_TO_1, 21 RELU6, 22 RESHAPE, \
    24 RNN, 25 SOFTMAX, 27 SVDF, 28 TANH, 34 PAD, 35 UNIDIRECTIONAL_SEQUENCE_RNN, 36 GATHER, 39 TRANSPOSE, 40 MEAN, \
    41 SUB, 42 DIV, 43 SQUEEZE, 44 UNIDIRECTIONAL_SEQUENCE_LSTM, 45 STRIDED_SLICE, 46 BIDIRECTIONAL_SEQUENCE_RNN, \
    49 SPLIT, 52 BIDIRECTIONAL_SEQUENCE_LSTM, 53 CAST, 65 SLICE, 70 EXPAND_DIMS, 77 SHAPE, 83 PACK, 105 REVERSE_V2, \
    114 QUANTIZE, 118 IF, 119 WHILE";

/// The numbers of a tensor as floats; quantized ones are dequantized.
pub fn floats(model: &Model<'_>, tensor: &Tensor<'_>) -> Result<Option<Vec<f32>>> {
    let Some(data) = model.data(tensor)? else { return Ok(None) };
    let values = match tensor.of {
        Type::F32 => data.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect(),
        Type::F16 => data.as_chunks::<2>().0.iter().map(|bytes| f16::from_le_bytes(*bytes).to_f32()).collect(),
        _ => return Err(unsupported(format!("tensor {:?} of {}", tensor.name()?, tensor.of.name()))),
    };
    complete(tensor, values).map(Some)
}

pub fn integers(model: &Model<'_>, tensor: &Tensor<'_>) -> Result<Option<Vec<i64>>> {
    let Some(data) = model.data(tensor)? else { return Ok(None) };
    let values = match tensor.of {
        Type::I8 => data.iter().map(|byte| byte.cast_signed().into()).collect(),
        Type::I16 => data.as_chunks::<2>().0.iter().map(|bytes| i16::from_le_bytes(*bytes).into()).collect(),
        Type::I32 => data.as_chunks::<4>().0.iter().map(|bytes| i32::from_le_bytes(*bytes).into()).collect(),
        Type::I64 => data.as_chunks::<8>().0.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect(),
        _ => return Err(unsupported(format!("tensor {:?} of {}", tensor.name()?, tensor.of.name()))),
    };
    complete(tensor, values).map(Some)
}

/// Checks that the number of values is that of the shape.
fn complete<T>(tensor: &Tensor<'_>, values: Vec<T>) -> Result<Vec<T>> {
    let shape = tensor.shape()?;
    if shape.iter().product::<usize>() == values.len() {
        return Ok(values);
    }
    Err(malformed(format!("tensor {:?} is {shape:?}, but has {} values", tensor.name()?, values.len())))
}

/// The activation with this number in the schema's `ActivationFunctionType`.
pub fn activation(code: i8) -> Option<Activation> {
    match code {
        0 => Some(Activation::Identity),
        1 => Some(Activation::Relu),
        2 => Some(Activation::HardTanh),
        3 => Some(Activation::Relu6),
        4 => Some(Activation::Tanh),
        _ => None,
    }
}
