//! cuDNN's handle and descriptors.
#![expect(unsafe_code, reason = "exported functions have unmangled names and take arrays")]

use std::ffi::{c_int, c_uint, c_ulonglong, c_void};

use half::bf16;
use tidegate_gpu::rnn::{Bias, Cell, Direction, InputMode, Rnn, Settings};

use crate::cudnn::{BAD_PARAM, NOT_INITIALIZED, NOT_SUPPORTED};
use crate::machine::{Data, Described, Element, Machine, Object, Tensor, machine};
use crate::{Code, Opaque, Out, asked, need, number, put};

/// 9.99.0, which does not exist.
const VERSION: usize = 99_900;
/// `CUDNN_DATA_FLOAT`, the only supported type for sums.
const FLOAT: c_uint = 0;
/// `CUDNN_RNN_ALGO_STANDARD`
const STANDARD: c_uint = 0;
/// `CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H`, the last algorithm.
const LAST_ALGORITHM: c_uint = 3;
/// `CUDNN_RNN_CLIP_MINMAX`
const CLIP_MINMAX: c_uint = 1;
/// `CUDNN_RNN_PADDED_IO_ENABLED`
const PADDED_IO: u32 = 1;
/// Largest number of dimensions of a tensor (`CUDNN_DIM_MAX`).
const MOST_DIMS: usize = 8;

impl Machine {
    pub fn handle(&self, handle: Opaque) -> Result<c_int, Code> {
        let Some(Object::Handle(device)) = self.object(handle) else { return Err(BAD_PARAM) };
        Ok(*device)
    }

    /// The stack of a descriptor that is set and whose dropout descriptor is alive.
    pub fn rnn(&self, descriptor: Opaque) -> Result<Described, Code> {
        let Some(Object::Rnn(Some(described))) = self.object(descriptor) else { return Err(BAD_PARAM) };
        need(self.is_dropout(described.dropout), BAD_PARAM).map(|()| *described)
    }

    /// Whether this is a dropout descriptor that is set.
    fn is_dropout(&self, handle: usize) -> bool {
        matches!(self.object(std::ptr::without_provenance_mut(handle)), Some(Object::Dropout(true)))
    }

    /// The batch of a descriptor that is set.
    pub fn data(&self, descriptor: Opaque) -> Result<&Data, Code> {
        let Some(Object::Data(Some(data))) = self.object(descriptor) else { return Err(BAD_PARAM) };
        Ok(data)
    }

    /// The tensor of a descriptor that is set.
    pub fn tensor(&self, descriptor: Opaque) -> Result<&Tensor, Code> {
        let Some(Object::Tensor(Some(tensor))) = self.object(descriptor) else { return Err(BAD_PARAM) };
        Ok(tensor)
    }
}

/// Converts a size, which must not be negative.
pub fn size(size: c_int) -> Result<usize, Code> {
    usize::try_from(size).map_err(|_| BAD_PARAM)
}

fn create(made: Out<'_, Opaque>, object: Object) -> Result<(), Code> {
    put(made, machine().create(object), BAD_PARAM)
}

fn destroy(made: Opaque, is: impl FnOnce(&Object) -> bool) -> Result<(), Code> {
    machine().destroy(made, is).ok_or(BAD_PARAM)
}

/// Copies a C array.
///
/// # Safety
/// `values` must be null or valid for reads of `len` elements.
unsafe fn array(values: *const c_int, len: usize) -> Result<Vec<c_int>, Code> {
    need(!values.is_null(), BAD_PARAM)?;
    // SAFETY: the caller guarantees `len` elements, which nothing changes during the call.
    Ok(unsafe { std::slice::from_raw_parts(values, len) }.to_vec())
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cudnnGetVersion() -> usize {
    number("TIDEGATE_STAND_IN_VERSION").unwrap_or(VERSION)
}

export! {
    fn cudnnCreate(made: Out<'_, Opaque>) {
        let mut machine = machine();
        let device = machine.current_device().map_err(|_| NOT_INITIALIZED)?;
        put(made, machine.create(Object::Handle(device)), BAD_PARAM)
    }

    fn cudnnDestroy(made: Opaque) { destroy(made, |object| matches!(object, Object::Handle(_))) }

    fn cudnnSetStream(handle: Opaque, stream: Opaque) {
        let machine = machine();
        machine.handle(handle)?;
        need(machine.is_stream(stream), BAD_PARAM)
    }

    fn cudnnCreateTensorDescriptor(made: Out<'_, Opaque>) { create(made, Object::Tensor(None)) }
    fn cudnnDestroyTensorDescriptor(made: Opaque) { destroy(made, |object| matches!(object, Object::Tensor(_))) }
    fn cudnnCreateDropoutDescriptor(made: Out<'_, Opaque>) { create(made, Object::Dropout(false)) }
    fn cudnnDestroyDropoutDescriptor(made: Opaque) { destroy(made, |object| matches!(object, Object::Dropout(_))) }

    fn cudnnSetDropoutDescriptor(
        descriptor: Opaque, handle: Opaque, dropout: f32,
        _states: *mut c_void, _states_bytes: usize, _seed: c_ulonglong,
    ) {
        let mut machine = machine();
        machine.handle(handle)?;
        let Some(Object::Dropout(set)) = machine.object_mut(descriptor) else { return Err(BAD_PARAM) };
        need(dropout == 0.0, NOT_SUPPORTED)?;
        *set = true;
        Ok(())
    }

    fn cudnnCreateRNNDescriptor(made: Out<'_, Opaque>) { create(made, Object::Rnn(None)) }
    fn cudnnDestroyRNNDescriptor(made: Opaque) { destroy(made, |object| matches!(object, Object::Rnn(_))) }

    fn cudnnSetRNNDescriptor_v8(
        descriptor: Opaque, algorithm: c_uint, mode: c_uint, bias: c_uint, direction: c_uint, input_mode: c_uint,
        data_type: c_uint, precision: c_uint, _math: c_uint,
        input_size: i32, hidden_size: i32, projected_size: i32, layers: i32, dropout: Opaque, flags: u32,
    ) {
        let mut machine = machine();
        let dropout = dropout.addr();
        need(algorithm <= LAST_ALGORITHM && machine.is_dropout(dropout), BAD_PARAM)?;
        let element = Element::of(data_type).filter(|_| precision == FLOAT).ok_or(NOT_SUPPORTED)?;
        let (hidden, projected) = (size(hidden_size)?, size(projected_size)?);
        let settings = Settings {
            cell: pick([Cell::RnnRelu, Cell::RnnTanh, Cell::Lstm, Cell::Gru], mode)?,
            layers: size(layers)?,
            input_size: size(input_size)?,
            hidden_size: hidden,
            projected_size: (projected != hidden).then_some(projected),
            direction: pick([Direction::Unidirectional, Direction::Bidirectional], direction)?,
            input_mode: pick([InputMode::Linear, InputMode::Skip], input_mode)?,
            bias: pick([Bias::None, Bias::Input, Bias::Both, Bias::Recurrent], bias)?,
            cell_clip: None,
        };
        let rnn = Rnn::new(settings).map_err(|_| BAD_PARAM)?;
        let old = asked("TIDEGATE_STAND_IN_ALGORITHMS", "standard");
        // Persistent algorithms do not support projections.
        need(algorithm == STANDARD || !(old || settings.projected_size.is_some()), NOT_SUPPORTED)?;
        let Some(Object::Rnn(own)) = machine.object_mut(descriptor) else { return Err(BAD_PARAM) };
        *own = Some(Described { element, rnn, algorithm, padded: flags & PADDED_IO != 0, dropout });
        Ok(())
    }

    /// Supports only clips that are symmetric about zero.
    fn cudnnRNNSetClip_v9(descriptor: Opaque, mode: c_uint, least: f64, most: f64) {
        let mut machine = machine();
        let Some(Object::Rnn(Some(described))) = machine.object_mut(descriptor) else { return Err(BAD_PARAM) };
        need(mode == CLIP_MINMAX, BAD_PARAM)?;
        need(-least == most, NOT_SUPPORTED)?;
        let settings = Settings { cell_clip: Some(most as f32), ..*described.rnn.settings() };
        described.rnn = Rnn::new(settings).map_err(|_| BAD_PARAM)?;
        Ok(())
    }

    fn cudnnCreateRNNDataDescriptor(made: Out<'_, Opaque>) { create(made, Object::Data(None)) }
    fn cudnnDestroyRNNDataDescriptor(made: Opaque) { destroy(made, |object| matches!(object, Object::Data(_))) }
}

pub fn set_tensor(machine: &mut Machine, descriptor: Opaque, tensor: Tensor) -> Result<(), Code> {
    let Some(Object::Tensor(own)) = machine.object_mut(descriptor) else { return Err(BAD_PARAM) };
    *own = Some(tensor);
    Ok(())
}

/// Variant of a C enum with this number.
fn pick<T: Copy, const N: usize>(all: [T; N], number: c_uint) -> Result<T, Code> {
    all.get(number as usize).copied().ok_or(BAD_PARAM)
}

export! {
    /// # Safety
    /// `dims` and `strides` must be valid for reads of `rank` elements.
    unsafe fn cudnnSetTensorNdDescriptor(
        descriptor: Opaque, data_type: c_uint, rank: c_int, dims: *const c_int, strides: *const c_int,
    ) {
        let rank = size(rank)?;
        let element = Element::of(data_type).ok_or(NOT_SUPPORTED)?;
        need((3..=MOST_DIMS).contains(&rank), NOT_SUPPORTED)?;
        // SAFETY: the caller guarantees `rank` elements.
        let (dims, strides) = unsafe { (array(dims, rank)?, array(strides, rank)?) };
        need(dims.iter().chain(&strides).all(|&value| value > 0), BAD_PARAM)?;
        set_tensor(&mut machine(), descriptor, Tensor { element, dims, strides })
    }

    /// # Safety
    /// `dims` and `strides` must be valid for writes of `asked` elements.
    unsafe fn cudnnGetTensorNdDescriptor(
        descriptor: Opaque, asked: c_int, data_type: Out<'_, c_uint>, rank: Out<'_, c_int>, dims: *mut c_int,
        strides: *mut c_int,
    ) {
        let (machine, asked) = (machine(), size(asked)?);
        let tensor = machine.tensor(descriptor)?;
        put(data_type, tensor.element as c_uint, BAD_PARAM)?;
        put(rank, tensor.dims.len() as c_int, BAD_PARAM)?;
        need(!dims.is_null() && !strides.is_null(), BAD_PARAM)?;
        let count = asked.min(tensor.dims.len());
        // SAFETY: both are valid for `asked` elements, which is at least `count`, and do not overlap the descriptor's.
        unsafe {
            dims.copy_from_nonoverlapping(tensor.dims.as_ptr(), count);
            strides.copy_from_nonoverlapping(tensor.strides.as_ptr(), count);
        }
        Ok(())
    }

    /// # Safety
    /// `lengths` must be valid for reads of `sequences` elements; `fill` must be null or point to a value of the data type.
    unsafe fn cudnnSetRNNDataDescriptor(
        descriptor: Opaque, data_type: c_uint, layout: c_uint, longest: c_int, sequences: c_int, features: c_int,
        lengths: *const c_int, fill: *const c_void,
    ) {
        // `tidegate-gpu` only uses `CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED`.
        let element = Element::of(data_type).filter(|_| layout == 0).ok_or(NOT_SUPPORTED)?;
        let (longest, features) = (size(longest)?, size(features)?);
        // SAFETY: the caller guarantees `sequences` elements.
        let lengths = unsafe { array(lengths, size(sequences)?)? };
        let lengths = lengths.into_iter().map(size).collect::<Result<Vec<_>, _>>()?;
        let sizes = [longest, features, lengths.len()];
        // The documentation allows empty sequences, but the first versions of cuDNN 9 do not.
        need(!sizes.contains(&0) && lengths.iter().all(|length| (1..=longest).contains(length)), BAD_PARAM)?;
        // SAFETY: the caller guarantees that `fill` is null or points to a value of this type.
        let fill = unsafe {
            match element {
                Element::F32 => fill.cast::<f32>().as_ref().copied(),
                Element::Bf16 => fill.cast::<bf16>().as_ref().map(|fill| fill.to_f32()),
            }
        };
        let mut machine = machine();
        let Some(Object::Data(own)) = machine.object_mut(descriptor) else { return Err(BAD_PARAM) };
        *own = Some(Data { element, longest, features, lengths, fill });
        Ok(())
    }
}
