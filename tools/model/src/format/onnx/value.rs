//! Values of a graph, element by element: constants, and for other elements their source. Operators that only move
//! elements (slices, transposes, paddings) are evaluated here and add nothing to the network.

use std::rc::Rc;

use super::proto::TensorProto;
use crate::budget::FIXED;
use crate::canonical::Tensor;
use crate::format::refuse::fail_if;

pub(super) const MAX_RANK: usize = 8;
pub(super) const MAX_ELEMENTS: usize = 1 << 24;

/// The number of a graph's input and of one of its dimensions.
pub(super) type Axis = (usize, usize);

/// The source of an element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Element {
    Number(f32),
    /// An input of the graph and a position in it.
    Input(u32, u32),
    /// The output of a layer and a position in it.
    Of(u32, u32),
    /// The final state of a recurrent layer, by its number, and a position in it.
    State(u32, u32),
}

impl Element {
    /// The layer output that it belongs to.
    pub fn made(self) -> Option<u32> {
        match self {
            Self::Of(made, _) => Some(made),
            _ => None,
        }
    }
}

/// The elements of a value in row-major order.
#[derive(Clone, Debug)]
pub(super) enum Data {
    /// Constant integers and booleans.
    Ints(Rc<Vec<i64>>),
    Floats(Rc<Vec<f32>>),
    /// Elements that are not all constant.
    Open(Rc<Vec<Element>>),
}

#[derive(Clone, Debug)]
pub(super) struct Value {
    pub shape: Vec<usize>,
    pub data: Data,
    /// For each dimension, the dimension of an input that it corresponds to.
    pub axes: Vec<Option<Axis>>,
    pub whole: bool,
    /// Whether rows after the end of a sequence are zeros, as in the output of an operator with `sequence_lens`.
    pub padded: bool,
}

pub(super) fn len(shape: &[usize]) -> Result<usize, String> {
    // Empty dimensions count as 1, because nodes select positions in the other dimensions.
    let len = shape.iter().try_fold(1_usize, |len, &dim| len.checked_mul(dim.max(1)));
    match len {
        _ if shape.len() > MAX_RANK => Err(format!("it has more than {MAX_RANK} dimensions")),
        Some(len) if len <= MAX_ELEMENTS => Ok(if shape.contains(&0) { 0 } else { len }),
        _ => Err(format!("it has more than {MAX_ELEMENTS} elements, {FIXED}")),
    }
}

impl Value {
    pub fn new(shape: Vec<usize>, data: Data) -> Self {
        Self { axes: vec![None; shape.len()], shape, whole: matches!(data, Data::Ints(_)), data, padded: false }
    }

    pub fn ints(shape: Vec<usize>, data: Vec<i64>) -> Self {
        Self::new(shape, Data::Ints(Rc::new(data)))
    }

    pub fn floats(shape: Vec<usize>, data: Vec<f32>) -> Self {
        Self::new(shape, Data::Floats(Rc::new(data)))
    }

    pub fn open(shape: Vec<usize>, data: Vec<Element>) -> Self {
        Self::new(shape, Data::Open(Rc::new(data)))
    }

    pub fn with_axes(mut self, axes: Vec<Option<Axis>>) -> Self {
        self.axes = axes;
        self
    }

    /// The value with a dimension that is no longer that of an input, such as the steps of a sequence.
    pub fn without_axis(&self, axis: usize) -> Self {
        let mut axes = self.axes.clone();
        axes[axis] = None;
        self.clone().with_axes(axes)
    }

    /// The value with a further dimension of 1.
    pub fn widened(&self, at: usize) -> Result<Self, String> {
        let (mut shape, mut axes) = (self.shape.clone(), self.axes.clone());
        shape.insert(at, 1);
        axes.insert(at, None);
        Ok(self.reshaped(shape)?.with_axes(axes))
    }

    /// The value without a dimension of 1.
    pub fn narrowed(&self, at: usize) -> Result<Self, String> {
        let (mut shape, mut axes) = (self.shape.clone(), self.axes.clone());
        shape.remove(at);
        axes.remove(at);
        Ok(self.reshaped(shape)?.with_axes(axes))
    }

    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Memory of the elements in bytes; 0 if another value shares them.
    pub fn held(&self) -> usize {
        let (shared, each) = match &self.data {
            Data::Ints(data) => (Rc::strong_count(data), size_of::<i64>()),
            Data::Floats(data) => (Rc::strong_count(data), size_of::<f32>()),
            Data::Open(data) => (Rc::strong_count(data), size_of::<Element>()),
        };
        if shared == 1 { self.len() * each } else { 0 }
    }

    pub fn is_constant(&self) -> bool {
        !matches!(self.data, Data::Open(_))
    }

    /// The graph's input that this value is, if it is a single integer.
    pub fn whole_input(&self) -> Option<usize> {
        match &self.data {
            Data::Open(data) if self.whole => match data.as_slice() {
                &[Element::Input(input, _)] => Some(input as usize),
                _ => None,
            },
            _ => None,
        }
    }

    pub fn known_ints(&self) -> Result<&[i64], String> {
        match &self.data {
            Data::Ints(data) => Ok(data),
            _ => Err("it needs integers that are known when the model is read".into()),
        }
    }

    pub fn known_floats(&self) -> Result<Vec<f32>, String> {
        match &self.data {
            Data::Floats(data) => Ok(data.to_vec()),
            Data::Ints(data) => Ok(data.iter().map(|&value| value as f32).collect()),
            Data::Open(_) => Err("it needs numbers that are known when the model is read".into()),
        }
    }

    pub fn elements(&self) -> Vec<Element> {
        match &self.data {
            Data::Open(data) => data.to_vec(),
            Data::Floats(data) => data.iter().map(|&value| Element::Number(value)).collect(),
            Data::Ints(data) => data.iter().map(|&value| Element::Number(value as f32)).collect(),
        }
    }

    /// A value of the elements at `positions`; `None` becomes `fill`.
    fn taken(
        &self,
        shape: Vec<usize>,
        positions: impl Iterator<Item = Option<usize>>,
        fill: f32,
    ) -> Result<Self, String> {
        let count = len(&shape)?;
        let data = match &self.data {
            Data::Ints(data) => Data::Ints(Rc::new(at(data, count, positions, fill as i64))),
            Data::Floats(data) => Data::Floats(Rc::new(at(data, count, positions, fill))),
            Data::Open(data) => Data::Open(Rc::new(at(data, count, positions, Element::Number(fill)))),
        };
        Ok(Self { axes: vec![None; shape.len()], shape, data, whole: self.whole, padded: self.padded })
    }

    /// The same elements in another shape with the same number of elements.
    pub fn reshaped(&self, shape: Vec<usize>) -> Result<Self, String> {
        fail_if(len(&shape)? != self.len(), format_args!("{:?} cannot be reshaped to {shape:?}", self.shape))?;
        let axes = kept_axes(&self.shape, &self.axes, &shape);
        Ok(Self { axes, shape, data: self.data.clone(), whole: self.whole, padded: self.padded })
    }

    pub fn transposed(&self, order: &[usize]) -> Result<Self, String> {
        let mut seen = vec![false; self.shape.len()];
        for &axis in order {
            match seen.get_mut(axis) {
                Some(seen) if !*seen => *seen = true,
                _ => return Err("its order of dimensions has a duplicate or an unknown dimension".into()),
            }
        }
        fail_if(order.len() != self.shape.len(), "its order of dimensions leaves one out")?;
        let strides = strides(&self.shape);
        let shape: Vec<usize> = order.iter().map(|&axis| self.shape[axis]).collect();
        let moved: Vec<usize> = order.iter().map(|&axis| strides[axis]).collect();
        let positions = positions(&shape, &moved).map(Some);
        let axes = order.iter().map(|&axis| self.axes[axis]).collect();
        Ok(self.taken(shape, positions, 0.0)?.with_axes(axes))
    }

    /// Selects `places` of one dimension; `None` becomes `fill`.
    pub fn picked(&self, axis: usize, places: &[Option<usize>], fill: f32) -> Result<Self, String> {
        let mut shape = self.shape.clone();
        let (before, after) = (shape[..axis].iter().product::<usize>(), shape[axis + 1..].iter().product::<usize>());
        let dim = std::mem::replace(&mut shape[axis], places.len());
        let positions = (0..before).flat_map(|row| {
            let start = move |place: usize| (row * dim + place) * after;
            places.iter().flat_map(move |place| (0..after).map(move |k| place.map(|place| start(place) + k)))
        });
        let whole = places.len() == dim && places.iter().enumerate().all(|(k, place)| *place == Some(k));
        let mut axes = self.axes.clone();
        if !whole {
            axes[axis] = None;
        }
        Ok(self.taken(shape, positions, fill)?.with_axes(axes))
    }

    /// Broadcasts the value to a shape by the rules of ONNX and NumPy.
    pub fn broadcast(&self, shape: &[usize]) -> Result<Self, String> {
        if self.shape == shape {
            return Ok(self.clone());
        }
        let misfit = || format!("{:?} cannot be broadcast to {shape:?}", self.shape);
        let missing = shape.len().checked_sub(self.shape.len()).ok_or_else(misfit)?;
        len(shape)?;
        let mut moved = vec![0; missing];
        for ((&from, &to), stride) in self.shape.iter().zip(&shape[missing..]).zip(strides(&self.shape)) {
            moved.push(match (from, to) {
                (from, to) if from == to => stride,
                (1, _) => 0,
                _ => return Err(misfit()),
            });
        }
        let positions = positions(shape, &moved).map(Some);
        let mut axes = vec![None; missing];
        axes.extend(&self.axes);
        Ok(self.taken(shape.to_vec(), positions, 0.0)?.with_axes(axes))
    }

    pub fn tensor(&self) -> Result<Tensor, String> {
        Ok(Tensor { shape: self.shape.clone(), data: self.known_floats()? })
    }
}

fn at<T: Copy>(data: &[T], count: usize, positions: impl Iterator<Item = Option<usize>>, fill: T) -> Vec<T> {
    let mut all = Vec::with_capacity(count);
    all.extend(positions.map(|at| at.map_or(fill, |at| data[at])));
    all
}

/// The common shape that two shapes broadcast to.
pub(super) fn both(a: &[usize], b: &[usize]) -> Result<Vec<usize>, String> {
    let rank = a.len().max(b.len());
    let dim = |shape: &[usize], k: usize| (k + shape.len()).checked_sub(rank).map_or(1, |k| shape[k]);
    (0..rank)
        .map(|k| match (dim(a, k), dim(b, k)) {
            (a, b) if a == b || b == 1 => Ok(a),
            (1, b) => Ok(b),
            _ => Err(format!("its operands are {a:?} and {b:?}")),
        })
        .collect()
}

/// The order that undoes a transpose by `order`.
pub(super) fn inverse(order: &[usize]) -> Vec<usize> {
    let mut back = vec![0; order.len()];
    for (k, &from) in order.iter().enumerate() {
        back[from] = k;
    }
    back
}

pub(super) fn strides(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis];
    }
    strides
}

/// Positions of the elements of a shape with these strides.
pub(super) fn positions(shape: &[usize], strides: &[usize]) -> impl Iterator<Item = usize> + use<> {
    let count = shape.iter().product();
    let (shape, strides) = (shape.to_vec(), strides.to_vec());
    let mut at = vec![0; shape.len()];
    let mut position = 0;
    (0..count).map(move |_| {
        let here = position;
        for axis in (0..shape.len()).rev() {
            at[axis] += 1;
            position += strides[axis];
            if at[axis] < shape[axis] {
                break;
            }
            position -= shape[axis] * strides[axis];
            at[axis] = 0;
        }
        here
    })
}

/// The input dimensions that a reshape keeps: those of the same length with as many elements before them.
fn kept_axes(from: &[usize], axes: &[Option<Axis>], to: &[usize]) -> Vec<Option<Axis>> {
    let mut kept = vec![None; to.len()];
    let mut next = 0;
    for (axis, of) in axes.iter().enumerate().filter(|(_, of)| of.is_some()) {
        let before: usize = from[..axis].iter().product();
        let place = (next..to.len()).find(|&k| to[k] == from[axis] && to[..k].iter().product::<usize>() == before);
        if let Some(k) = place {
            kept[k] = *of;
            next = k + 1;
        }
    }
    kept
}

pub(super) fn constant(tensor: &TensorProto) -> Result<Value, String> {
    fail_if(tensor.data_location != 0, "its values are in another file")?;
    let shape: Option<Vec<usize>> = tensor.dims.iter().map(|&dim| usize::try_from(dim).ok()).collect();
    let shape = shape.ok_or("its shape has a negative dimension")?;
    let count = len(&shape)?;
    let whole = |data: Vec<i32>, of: fn(i32) -> i64| data.into_iter().map(of).collect();
    Ok(match tensor.data_type {
        elem::FLOAT => Value::floats(shape, values(tensor, &tensor.float_data, count, f32::from_le_bytes)?),
        elem::DOUBLE => {
            let wide = values(tensor, &tensor.double_data, count, f64::from_le_bytes)?;
            Value::floats(shape, wide.into_iter().map(|value| value as f32).collect())
        }
        elem::FLOAT16 => {
            let bits = values(tensor, &tensor.int32_data, count, |word| u16::from_le_bytes(word).into())?;
            let half = |bits: i32| f32::from(half::f16::from_bits(bits as u16));
            Value::floats(shape, bits.into_iter().map(half).collect())
        }
        elem::INT64 => Value::ints(shape, values(tensor, &tensor.int64_data, count, i64::from_le_bytes)?),
        elem::INT32 => {
            Value::ints(shape, whole(values(tensor, &tensor.int32_data, count, i32::from_le_bytes)?, i64::from))
        }
        elem::BOOL => {
            let bytes = values(tensor, &tensor.int32_data, count, |[byte]| byte.into())?;
            Value::ints(shape, whole(bytes, |value| (value != 0).into()))
        }
        other => return Err(format!("its element type is {other}, which is not supported")),
    })
}

/// The values of a tensor: its bytes, or a list if there are none.
fn values<T: Clone, const N: usize>(
    tensor: &TensorProto,
    list: &[T],
    count: usize,
    read: fn([u8; N]) -> T,
) -> Result<Vec<T>, String> {
    let raw = tensor.raw_data.as_slice();
    if raw.is_empty() && count > 0 {
        fail_if(list.len() != count, format_args!("its shape needs {count} values, but it holds {}", list.len()))?;
        return Ok(list.to_vec());
    }
    fail_if(raw.len() != count * N, format_args!("its shape needs {} bytes, but it holds {}", count * N, raw.len()))?;
    Ok(raw.as_chunks::<N>().0.iter().map(|&word| read(word)).collect())
}

/// `TensorProto.DataType`
pub(super) mod elem {
    pub const FLOAT: i32 = 1;
    pub const INT32: i32 = 6;
    pub const INT64: i32 = 7;
    pub const BOOL: i32 = 9;
    pub const FLOAT16: i32 = 10;
    pub const DOUBLE: i32 = 11;
}
