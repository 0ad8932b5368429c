//! What TFLite's schema (`schema.fbs`) has, by the numbers of its fields: tensors, operators and their options.

use half::f16;

use super::flat::{Table, Vector};
use super::{malformed, unsupported};
use crate::data::one_line;
use crate::error::ImportError;

/// Most tensors, operators and operator codes that are looked at.
const MOST: usize = 16_384;
/// Most dimensions of a tensor.
const MOST_DIMS: usize = 8;
/// Most inputs of an operator.
const MOST_PORTS: usize = 256;
/// Most bytes of a name that is shown.
const MOST_NAME: usize = 255;
/// The version of the schema.
const VERSION: u32 = 3;

/// A file.
pub struct Model<'a> {
    codes: Vec<Table<'a>>,
    buffers: Vector<'a>,
    /// Of its one graph.
    pub tensors: Vec<Tensor<'a>>,
    /// In execution order.
    pub operators: Vec<Operator<'a>>,
    /// Tensors that go in.
    pub inputs: Vec<usize>,
    /// Tensors that come out.
    pub outputs: Vec<usize>,
}

/// What the elements of a tensor are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    F32,
    F16,
    I32,
    I64,
    I16,
    I8,
    /// By its number.
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

    /// In words.
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

/// What integers stand for: `scale · (q - zero_point)`.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantization {
    /// One, or one for each index of a dimension.
    pub scales: Vec<f32>,
    /// Likewise.
    pub zero_points: Vec<i64>,
    /// Which dimension, where there are several.
    pub dimension: i32,
}

/// A tensor of the graph.
#[derive(Clone, Copy)]
pub struct Tensor<'a> {
    table: Table<'a>,
    /// What its elements are.
    pub of: Type,
    buffer: usize,
    /// Whether it is a state.
    pub is_variable: bool,
}

/// A node of the graph.
pub struct Operator<'a> {
    /// Of the schema's `BuiltinOperator`.
    pub code: i32,
    custom: &'a [u8],
    /// By the numbers of tensors; none where an optional one is left out.
    pub inputs: Vec<Option<usize>>,
    /// Likewise.
    pub outputs: Vec<Option<usize>>,
    /// Tensors that say how its steps in between are counted.
    pub intermediates: Vec<Option<usize>>,
    /// None where all are as usual.
    pub options: Option<Table<'a>>,
}

impl<'a> Model<'a> {
    /// The model in a file.
    pub fn read(bytes: &'a [u8]) -> Result<Self, ImportError> {
        let root = Table::root(bytes)?;
        let version = root.scalar(0, 0_u32)?;
        if version != VERSION {
            return Err(unsupported(format!("version {version} of the schema")));
        }
        let (codes, graphs) = (root.tables(1)?, root.tables(2)?);
        if graphs.len() != 1 {
            return Err(unsupported(format!("a model of {} graphs", graphs.len())));
        }
        let graph = graphs.get(0)?;
        let (tensors, operators) = (graph.tables(0)?, graph.tables(3)?);
        for (what, len) in [("operator codes", codes.len()), ("tensors", tensors.len()), ("operators", operators.len())]
        {
            if len > MOST {
                return Err(malformed(format!("it has {len} {what}, more than {MOST}")));
            }
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
        let port = |number: i32| model.number(number)?.ok_or_else(|| malformed("a port of it is no tensor".into()));
        let (inputs, outputs) = (graph.numbers(1, MOST_PORTS)?, graph.numbers(2, MOST_PORTS)?);
        let inputs = inputs.into_iter().map(port).collect::<Result<_, _>>()?;
        let outputs = outputs.into_iter().map(port).collect::<Result<_, _>>()?;
        let operators = (0..operators.len()).map(|k| model.operator(operators.get(k)?)).collect::<Result<_, _>>()?;
        (model.inputs, model.outputs, model.operators) = (inputs, outputs, operators);
        Ok(model)
    }

    /// The tensor of this number; none for -1.
    fn number(&self, number: i32) -> Result<Option<usize>, ImportError> {
        match usize::try_from(number) {
            Ok(number) if number < self.tensors.len() => Ok(Some(number)),
            Err(_) if number == -1 => Ok(None),
            _ => Err(malformed(format!("it has no tensor {number}"))),
        }
    }

    fn operator(&self, table: Table<'a>) -> Result<Operator<'a>, ImportError> {
        let index = table.scalar(0, 0_u32)?;
        let code =
            self.codes.get(index as usize).ok_or_else(|| malformed(format!("it has no operator code {index}")))?;
        // The older field holds what fits; the newer one all.
        let (old, new) = (i32::from(code.scalar(0, 0_i8)?), code.scalar(3, 0_i32)?);
        let list = |field: usize| -> Result<Vec<Option<usize>>, ImportError> {
            table.numbers(field, MOST_PORTS)?.into_iter().map(|number| self.number(number)).collect()
        };
        Ok(Operator {
            code: old.max(new),
            custom: code.bytes(1)?,
            inputs: list(1)?,
            outputs: list(2)?,
            intermediates: list(8)?,
            options: table.table(4)?,
        })
    }

    /// The bytes that a tensor has in the file; none where it has none.
    pub fn data(&self, tensor: &Tensor<'a>) -> Result<Option<&'a [u8]>, ImportError> {
        if tensor.buffer == 0 {
            return Ok(None);
        }
        let buffer = self.buffers.get(tensor.buffer)?;
        if buffer.scalar(1, 0_u64)? > 1 {
            return Err(unsupported(format!("tensor {:?}, whose data stand behind the model,", tensor.name()?)));
        }
        let data = buffer.bytes(0)?;
        Ok((!data.is_empty()).then_some(data))
    }
}

impl<'a> Tensor<'a> {
    fn text(table: Table<'a>) -> Result<String, ImportError> {
        let name = table.bytes(3)?;
        let name = String::from_utf8_lossy(&name[..name.len().min(MOST_NAME)]);
        Ok(one_line(&name))
    }

    /// Its name, on one line.
    pub fn name(&self) -> Result<String, ImportError> {
        Self::text(self.table)
    }

    /// Its dimensions, at least 1 each.
    pub fn shape(&self) -> Result<Vec<usize>, ImportError> {
        let dims: Vec<i32> = self.table.numbers(0, MOST_DIMS)?;
        let dim = |dim: &i32| usize::try_from(*dim).ok().filter(|&dim| dim > 0);
        let shape = dims.iter().map(dim).collect::<Option<Vec<_>>>();
        match shape.filter(|shape| shape.iter().try_fold(1_usize, |all, &dim| all.checked_mul(dim)).is_some()) {
            Some(shape) => Ok(shape),
            None => Err(malformed(format!("tensor {:?} is {dims:?}", self.name()?))),
        }
    }

    /// Which of its dimensions are open, if it says so.
    pub fn open(&self) -> Result<Vec<bool>, ImportError> {
        let signature: Vec<i32> = self.table.numbers(7, MOST_DIMS)?;
        Ok(signature.iter().map(|&dim| dim < 0).collect())
    }

    /// What its integers stand for; none if nothing says so.
    pub fn quantization(&self) -> Result<Option<Quantization>, ImportError> {
        let Some(table) = self.table.table(4)? else { return Ok(None) };
        let most = crate::canonical::MAX_SIZE;
        let (scales, zero_points): (Vec<f32>, Vec<i64>) = (table.numbers(2, most)?, table.numbers(3, most)?);
        if scales.is_empty() {
            return Ok(None);
        }
        let counts = |scale: &f32| *scale > 0.0 && scale.is_finite();
        if !scales.iter().all(counts) || (zero_points.len() != scales.len() && !zero_points.is_empty()) {
            return Err(malformed(format!("tensor {:?} has scales that count nothing", self.name()?)));
        }
        let zero_points = if zero_points.is_empty() { vec![0; scales.len()] } else { zero_points };
        Ok(Some(Quantization { scales, zero_points, dimension: table.scalar(6, 0)? }))
    }
}

impl Operator<'_> {
    /// A field of its options, or what it is where they do not say.
    pub fn option<T: super::flat::Scalar>(&self, field: usize, default: T) -> Result<T, ImportError> {
        match &self.options {
            Some(options) => options.scalar(field, default),
            None => Ok(default),
        }
    }

    /// Its name in the schema, or of one that is not read its number.
    pub fn name(&self) -> String {
        const CUSTOM: i32 = 32;
        match NAMES.iter().find(|(code, _)| *code == self.code) {
            Some((_, name)) => (*name).to_owned(),
            None if self.code == CUSTOM => {
                let name = String::from_utf8_lossy(&self.custom[..self.custom.len().min(MOST_NAME)]);
                format!("custom operator {:?}", one_line(&name))
            }
            None => format!("operator {}", self.code),
        }
    }
}

/// Numbers of operators, those that are read and those that people may ask for.
pub mod op {
    pub const ADD: i32 = 0;
    pub const CONCATENATION: i32 = 2;
    pub const CONV_2D: i32 = 3;
    pub const DEPTHWISE_CONV_2D: i32 = 4;
    pub const DEQUANTIZE: i32 = 6;
    pub const FULLY_CONNECTED: i32 = 9;
    pub const LOGISTIC: i32 = 14;
    pub const RELU: i32 = 19;
    pub const RELU6: i32 = 21;
    pub const RESHAPE: i32 = 22;
    pub const SOFTMAX: i32 = 25;
    pub const TANH: i32 = 28;
    pub const TRANSPOSE: i32 = 39;
    pub const SQUEEZE: i32 = 43;
    pub const LSTM: i32 = 44;
    pub const STRIDED_SLICE: i32 = 45;
    pub const EXPAND_DIMS: i32 = 70;
    pub const QUANTIZE: i32 = 114;
}

const NAMES: [(i32, &str); 42] = [
    (op::ADD, "ADD"),
    (1, "AVERAGE_POOL_2D"),
    (op::CONCATENATION, "CONCATENATION"),
    (op::CONV_2D, "CONV_2D"),
    (op::DEPTHWISE_CONV_2D, "DEPTHWISE_CONV_2D"),
    (op::DEQUANTIZE, "DEQUANTIZE"),
    (7, "EMBEDDING_LOOKUP"),
    (op::FULLY_CONNECTED, "FULLY_CONNECTED"),
    (op::LOGISTIC, "LOGISTIC"),
    (16, "LSTM"),
    (17, "MAX_POOL_2D"),
    (18, "MUL"),
    (op::RELU, "RELU"),
    (20, "RELU_N1_TO_1"),
    (op::RELU6, "RELU6"),
    (op::RESHAPE, "RESHAPE"),
    (24, "RNN"),
    (op::SOFTMAX, "SOFTMAX"),
    (27, "SVDF"),
    (op::TANH, "TANH"),
    (34, "PAD"),
    (35, "UNIDIRECTIONAL_SEQUENCE_RNN"),
    (36, "GATHER"),
    (op::TRANSPOSE, "TRANSPOSE"),
    (40, "MEAN"),
    (41, "SUB"),
    (42, "DIV"),
    (op::SQUEEZE, "SQUEEZE"),
    (op::LSTM, "UNIDIRECTIONAL_SEQUENCE_LSTM"),
    (op::STRIDED_SLICE, "STRIDED_SLICE"),
    (46, "BIDIRECTIONAL_SEQUENCE_RNN"),
    (49, "SPLIT"),
    (52, "BIDIRECTIONAL_SEQUENCE_LSTM"),
    (53, "CAST"),
    (65, "SLICE"),
    (op::EXPAND_DIMS, "EXPAND_DIMS"),
    (77, "SHAPE"),
    (83, "PACK"),
    (105, "REVERSE_V2"),
    (op::QUANTIZE, "QUANTIZE"),
    (118, "IF"),
    (119, "WHILE"),
];

/// The numbers of a tensor in floats, and of a quantized one what they stand for.
pub fn floats(model: &Model<'_>, tensor: &Tensor<'_>) -> Result<Option<Vec<f32>>, ImportError> {
    let Some(data) = model.data(tensor)? else { return Ok(None) };
    let values = match tensor.of {
        Type::F32 => data.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect(),
        Type::F16 => data.as_chunks::<2>().0.iter().map(|bytes| f16::from_le_bytes(*bytes).to_f32()).collect(),
        _ => return Err(unsupported(format!("tensor {:?} of {}", tensor.name()?, tensor.of.name()))),
    };
    complete(tensor, values).map(Some)
}

/// The integers of a tensor.
pub fn integers(model: &Model<'_>, tensor: &Tensor<'_>) -> Result<Option<Vec<i64>>, ImportError> {
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

/// As many as the shape says.
fn complete<T>(tensor: &Tensor<'_>, values: Vec<T>) -> Result<Vec<T>, ImportError> {
    let shape = tensor.shape()?;
    if shape.iter().product::<usize>() == values.len() {
        return Ok(values);
    }
    Err(malformed(format!("tensor {:?} is {shape:?}, but has {} values", tensor.name()?, values.len())))
}
