//! Tensors, operators and their options in TFLite's schema (`schema.fbs`), by field number.

use std::collections::HashMap;

use half::f16;
use tidegate::internals::activation::Activation;

use super::names::{CUSTOM, name_of};
use super::{flat::Table, flat::Vector, malformed, unsupported};
use crate::format::refuse::{limit_if, unsupported_if};
use crate::{budget::Budget, data::one_line, error::Result};

/// Maximum number of tensors, of operators, of operator codes and of graphs.
const MOST: usize = 16_384;
const MOST_DIMS: usize = 8;
const MOST_PORTS: usize = 256;
/// Maximum number of bytes of a name in a message.
const MOST_NAME: usize = 255;
const VERSION: u32 = 3;
/// Fields that hold names.
const TENSOR_NAME: usize = 3;
const GRAPH_NAME: usize = 4;

pub struct Model<'a> {
    codes: Vec<Table<'a>>,
    buffers: Vector<'a>,
    graphs: Vector<'a>,
    signatures: Vector<'a>,
    /// The first graph, which the interpreter runs.
    pub main: Graph<'a>,
    /// Length of the file in bytes.
    pub len: usize,
}

#[derive(Default)]
pub struct Graph<'a> {
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
    U8,
    /// Any other type, by its number.
    Other(i8),
}

impl Type {
    fn of(code: i8) -> Self {
        match code {
            0 => Self::F32,
            1 => Self::F16,
            2 => Self::I32,
            3 => Self::U8,
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
            Self::U8 => "uint8".into(),
            Self::Other(13) => "resource".into(),
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
    /// Name of the operator in the schema; empty if the schema of this version does not have it.
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
        within("operator codes", codes.len())?;
        let codes = (0..codes.len()).map(|k| codes.get(k)).collect::<Result<_, _>>()?;
        let mut model = Self {
            codes,
            buffers: root.tables(4)?,
            graphs,
            signatures: root.tables(7)?,
            main: Graph::default(),
            len: bytes.len(),
        };
        model.main = model.graph(0, budget)?;
        Ok(model)
    }

    /// Names that a signature of the main graph gives to its inputs and outputs, by their tensors.
    pub fn signature(&self) -> Result<[HashMap<usize, String>; 2]> {
        let mut names = [HashMap::new(), HashMap::new()];
        within("signatures", self.signatures.len())?;
        for index in 0..self.signatures.len() {
            let signature = self.signatures.get(index)?;
            if signature.scalar(4, 0_u32)? != 0 {
                continue;
            }
            for (field, names) in names.iter_mut().enumerate() {
                let ports = signature.tables(field)?;
                for port in 0..ports.len().min(MOST_PORTS) {
                    let port = ports.get(port)?;
                    names.insert(port.scalar(1, 0_u32)? as usize, text(port, 0)?);
                }
            }
            break;
        }
        Ok(names)
    }

    /// Names of the graphs other than the main one and those of `called`.
    pub fn uncalled(&self, called: &[usize]) -> Result<Vec<String>> {
        within("graphs", self.graphs.len())?;
        let others = (1..self.graphs.len()).filter(|index| !called.contains(index));
        others.map(|index| text(self.graphs.get(index)?, GRAPH_NAME)).collect()
    }

    /// Reads a graph.
    pub fn graph(&self, index: usize, budget: &mut Budget) -> Result<Graph<'a>> {
        let graph = self.graphs.get(index)?;
        let (tensors, operators) = (graph.tables(0)?, graph.tables(3)?);
        within("tensors", tensors.len())?;
        within("operators", operators.len())?;
        // Graphs may share their tables.
        budget.take(tensors.len(), size_of::<Tensor<'_>>())?;
        budget.take(operators.len(), size_of::<Operator<'_>>())?;
        let tensors = (0..tensors.len()).map(|k| Tensor::read(tensors.get(k)?)).collect::<Result<Vec<_>>>()?;
        let count = tensors.len();
        let port = |number: i32| {
            tensor_number(number, count)?
                .ok_or_else(|| malformed("one of its inputs or outputs is not a tensor".into()))
        };
        let (inputs, outputs) = (graph.numbers(1, MOST_PORTS)?, graph.numbers(2, MOST_PORTS)?);
        let inputs = inputs.into_iter().map(port).collect::<Result<_, _>>()?;
        let outputs = outputs.into_iter().map(port).collect::<Result<_, _>>()?;
        let operators = (0..operators.len()).map(|k| self.operator(operators.get(k)?, count, budget));
        let operators = operators.collect::<Result<_, _>>()?;
        Ok(Graph { tensors, operators, inputs, outputs })
    }

    /// Reads an operator of a graph with `tensors` tensors.
    fn operator(&self, table: Table<'a>, tensors: usize, budget: &mut Budget) -> Result<Operator<'a>> {
        let index = table.scalar(0, 0_u32)?;
        let code =
            self.codes.get(index as usize).ok_or_else(|| malformed(format!("it has no operator code {index}")))?;
        // The older field holds only codes that fit into it; the newer one holds all.
        let (old, new) = (i32::from(code.scalar(0, 0_i8)?), code.scalar(3, 0_i32)?);
        let mut list = |field: usize| -> Result<Vec<Option<usize>>> {
            let numbers = table.numbers(field, MOST_PORTS)?;
            // Operators may share a table.
            budget.take(numbers.len(), size_of::<Option<usize>>())?;
            numbers.into_iter().map(|number| tensor_number(number, tensors)).collect()
        };
        let (code, custom) = (old.max(new), code.bytes(1)?);
        Ok(Operator {
            code,
            op: name_of(code).unwrap_or_default(),
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

/// Refuses more than [`MOST`].
fn within(what: &'static str, len: usize) -> Result<()> {
    limit_if(len > MOST, MOST, what)
}

/// Checks the number of one of `count` tensors; `None` for -1.
fn tensor_number(number: i32, count: usize) -> Result<Option<usize>> {
    match usize::try_from(number) {
        Ok(number) if number < count => Ok(Some(number)),
        Err(_) if number == -1 => Ok(None),
        _ => Err(malformed(format!("it has no tensor {number}"))),
    }
}

/// The name in a field of a table, for a message.
fn text(table: Table<'_>, field: usize) -> Result<String> {
    let name = table.bytes(field)?;
    let name = String::from_utf8_lossy(&name[..name.len().min(MOST_NAME)]);
    Ok(one_line(&name))
}

impl<'a> Tensor<'a> {
    fn read(table: Table<'a>) -> Result<Self> {
        let (of, buffer) = (Type::of(table.scalar(1, 0)?), table.scalar(2, 0_u32)? as usize);
        let tensor = Self { table, of, buffer, is_variable: table.scalar(5, 0_u8)? != 0 };
        match table.table(6)? {
            Some(_) => Err(unsupported(format!("tensor {:?}, which is sparse,", tensor.name()?))),
            None => Ok(tensor),
        }
    }

    pub fn name(&self) -> Result<String> {
        text(self.table, TENSOR_NAME)
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
    /// Name of the operator in the schema, or its number if the schema of this version does not have it.
    pub fn name(&self) -> String {
        match self.op {
            _ if self.code == CUSTOM => {
                let name = String::from_utf8_lossy(&self.custom[..self.custom.len().min(MOST_NAME)]);
                format!("custom operator {:?}", one_line(&name))
            }
            "" => format!("operator {}", self.code),
            name => name.to_owned(),
        }
    }
}

/// The numbers of a tensor as floats; quantized ones are dequantized.
pub fn floats(model: &Model<'_>, tensor: &Tensor<'_>) -> Result<Option<Vec<f32>>> {
    let Some(data) = model.data(tensor)? else { return Ok(None) };
    check_len(tensor, data)?;
    let values = match tensor.of {
        Type::F32 => data.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect(),
        Type::F16 => data.as_chunks::<2>().0.iter().map(|bytes| f16::from_le_bytes(*bytes).to_f32()).collect(),
        Type::I8 => dequantized(tensor, data)?,
        _ => return Err(unsupported(format!("tensor {:?} of {}", tensor.name()?, tensor.of.name()))),
    };
    Ok(Some(values))
}

/// The real values of integers, which may have a scale for each index of one dimension.
fn dequantized(tensor: &Tensor<'_>, data: &[u8]) -> Result<Vec<f32>> {
    let malformed = |what| Err(malformed(format!("tensor {:?} of int8 {what}", tensor.name()?)));
    let Some(Quantization { scales, zero_points, dimension }) = tensor.quantization()? else {
        return malformed("has no scale");
    };
    let shape = tensor.shape()?;
    let (each, count) = match (usize::try_from(dimension).ok().filter(|&axis| axis < shape.len()), scales.len()) {
        (_, 1) => (1, 1),
        (Some(axis), count) if shape[axis] == count => (shape[axis + 1..].iter().product(), count),
        (_, count) => return malformed(&format!("is {shape:?}, but has {count} scales for dimension {dimension}")),
    };
    let real = |(at, byte): (usize, &u8)| {
        let of = at / each % count;
        scales[of] * (i64::from(byte.cast_signed()) - zero_points[of]) as f32
    };
    Ok(data.iter().enumerate().map(real).collect())
}

pub fn integers(model: &Model<'_>, tensor: &Tensor<'_>) -> Result<Option<Vec<i64>>> {
    let Some(data) = model.data(tensor)? else { return Ok(None) };
    check_len(tensor, data)?;
    let values = match tensor.of {
        Type::I8 => data.iter().map(|byte| byte.cast_signed().into()).collect(),
        Type::I16 => data.as_chunks::<2>().0.iter().map(|bytes| i16::from_le_bytes(*bytes).into()).collect(),
        Type::I32 => data.as_chunks::<4>().0.iter().map(|bytes| i32::from_le_bytes(*bytes).into()).collect(),
        Type::I64 => data.as_chunks::<8>().0.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect(),
        _ => return Err(unsupported(format!("tensor {:?} of {}", tensor.name()?, tensor.of.name()))),
    };
    Ok(Some(values))
}

/// Checks that the number of values is that of the shape, before any is read.
fn check_len(tensor: &Tensor<'_>, data: &[u8]) -> Result<()> {
    let width = match tensor.of {
        Type::F32 | Type::I32 => 4,
        Type::F16 | Type::I16 => 2,
        Type::I64 => 8,
        Type::I8 | Type::U8 | Type::Other(_) => 1,
    };
    let (shape, count) = (tensor.shape()?, data.len() / width);
    if shape.iter().product::<usize>() == count || matches!(tensor.of, Type::U8 | Type::Other(_)) {
        return Ok(());
    }
    Err(malformed(format!("tensor {:?} is {shape:?}, but has {count} values", tensor.name()?)))
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
