//! cuDNN's handle and descriptors.
#![expect(unsafe_code, reason = "what C calls has an unmangled name and is given arrays")]

use std::ffi::{c_int, c_uint, c_ulonglong, c_void};

use half::bf16;
use tidegate_gpu::rnn::{Bias, Cell, Direction, InputMode, Rnn, Settings};

use crate::cudnn::{BAD_PARAM, NOT_INITIALIZED, NOT_SUPPORTED};
use crate::machine::{Data, Described, Element, Machine, Object, Tensor, machine};
use crate::{Code, Opaque, Out, asked, call, number, put};

/// 9.99.0, which is nobody's.
const VERSION: usize = 99_900;
/// `CUDNN_DATA_FLOAT`, in which everything is summed.
const FLOAT: c_uint = 0;
/// `CUDNN_RNN_ALGO_STANDARD`
const STANDARD: c_uint = 0;
/// `CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H`, the last there is.
const LAST_ALGORITHM: c_uint = 3;
/// `CUDNN_RNN_CLIP_MINMAX`
const CLIP_MINMAX: c_uint = 1;
/// `CUDNN_RNN_PADDED_IO_ENABLED`
const PADDED_IO: u32 = 1;
/// Most dimensions of a tensor (`CUDNN_DIM_MAX`).
const MOST_DIMS: usize = 8;

impl Machine {
    /// The device that a handle is on.
    pub fn handle(&self, handle: Opaque) -> Result<c_int, Code> {
        match self.object(handle) {
            Some(Object::Handle(device)) => Ok(*device),
            _ => Err(BAD_PARAM),
        }
    }

    /// A stack that was described, whose dropout descriptor is still there.
    pub fn rnn(&self, descriptor: Opaque) -> Result<Described, Code> {
        match self.object(descriptor) {
            Some(Object::Rnn(Some(described))) if self.is_dropout(described.dropout) => Ok(*described),
            _ => Err(BAD_PARAM),
        }
    }

    /// Whether this is a dropout descriptor that was set.
    fn is_dropout(&self, handle: usize) -> bool {
        matches!(self.object(std::ptr::without_provenance_mut(handle)), Some(Object::Dropout(true)))
    }

    /// A batch that was described.
    pub fn data(&self, descriptor: Opaque) -> Result<&Data, Code> {
        match self.object(descriptor) {
            Some(Object::Data(Some(data))) => Ok(data),
            _ => Err(BAD_PARAM),
        }
    }

    /// A tensor that was described.
    pub fn tensor(&self, descriptor: Opaque) -> Result<&Tensor, Code> {
        match self.object(descriptor) {
            Some(Object::Tensor(Some(tensor))) => Ok(tensor),
            _ => Err(BAD_PARAM),
        }
    }
}

/// A size that is not negative.
pub fn size(size: c_int) -> Result<usize, Code> {
    usize::try_from(size).map_err(|_| BAD_PARAM)
}

fn create(name: &str, made: Out<'_, Opaque>, object: Object) -> Code {
    call(name, || put(made, machine().create(object), BAD_PARAM))
}

fn destroy(name: &str, made: Opaque, is: impl FnOnce(&Object) -> bool) -> Code {
    call(name, || machine().destroy(made, is).ok_or(BAD_PARAM))
}

/// Copies an array of C's.
///
/// # Safety
/// It has `len` elements.
unsafe fn array(values: *const c_int, len: usize) -> Result<Vec<c_int>, Code> {
    if values.is_null() {
        return Err(BAD_PARAM);
    }
    // SAFETY: it has `len` elements, which nobody changes during a call.
    Ok(unsafe { std::slice::from_raw_parts(values, len) }.to_vec())
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cudnnGetVersion() -> usize {
    number("TIDEGATE_STAND_IN_VERSION").unwrap_or(VERSION)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cudnnCreate(made: Out<'_, Opaque>) -> Code {
    call("cudnnCreate", || {
        let mut machine = machine();
        let device = machine.current_device().map_err(|_| NOT_INITIALIZED)?;
        put(made, machine.create(Object::Handle(device)), BAD_PARAM)
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cudnnDestroy(made: Opaque) -> Code {
    destroy("cudnnDestroy", made, |object| matches!(object, Object::Handle(_)))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cudnnSetStream(handle: Opaque, stream: Opaque) -> Code {
    call("cudnnSetStream", || {
        let machine = machine();
        machine.handle(handle)?;
        if machine.is_stream(stream) { Ok(()) } else { Err(BAD_PARAM) }
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cudnnCreateTensorDescriptor(made: Out<'_, Opaque>) -> Code {
    create("cudnnCreateTensorDescriptor", made, Object::Tensor(None))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cudnnDestroyTensorDescriptor(made: Opaque) -> Code {
    destroy("cudnnDestroyTensorDescriptor", made, |object| matches!(object, Object::Tensor(_)))
}

/// # Safety
/// `dims` and `strides` have `rank` elements.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cudnnSetTensorNdDescriptor(
    descriptor: Opaque,
    data_type: c_uint,
    rank: c_int,
    dims: *const c_int,
    strides: *const c_int,
) -> Code {
    call("cudnnSetTensorNdDescriptor", || {
        let rank = size(rank)?;
        let element = Element::of(data_type).ok_or(NOT_SUPPORTED)?;
        if !(3..=MOST_DIMS).contains(&rank) {
            return Err(NOT_SUPPORTED);
        }
        // SAFETY: both have `rank` elements.
        let (dims, strides) = unsafe { (array(dims, rank)?, array(strides, rank)?) };
        if dims.iter().chain(&strides).any(|&value| value <= 0) {
            return Err(BAD_PARAM);
        }
        set_tensor(&mut machine(), descriptor, Tensor { element, dims, strides })
    })
}

/// Describes a tensor.
pub fn set_tensor(machine: &mut Machine, descriptor: Opaque, tensor: Tensor) -> Result<(), Code> {
    match machine.object_mut(descriptor) {
        Some(Object::Tensor(own)) => *own = Some(tensor),
        _ => return Err(BAD_PARAM),
    }
    Ok(())
}

/// # Safety
/// `dims` and `strides` have room for `asked` elements.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cudnnGetTensorNdDescriptor(
    descriptor: Opaque,
    asked: c_int,
    data_type: Out<'_, c_uint>,
    rank: Out<'_, c_int>,
    dims: *mut c_int,
    strides: *mut c_int,
) -> Code {
    call("cudnnGetTensorNdDescriptor", || {
        let (machine, asked) = (machine(), size(asked)?);
        let tensor = machine.tensor(descriptor)?;
        put(data_type, tensor.element.data_type(), BAD_PARAM)?;
        put(rank, tensor.dims.len() as c_int, BAD_PARAM)?;
        if dims.is_null() || strides.is_null() {
            return Err(BAD_PARAM);
        }
        let count = asked.min(tensor.dims.len());
        // SAFETY: both have room for `asked` elements, which are no fewer; the descriptor's own are not what was given.
        unsafe {
            dims.copy_from_nonoverlapping(tensor.dims.as_ptr(), count);
            strides.copy_from_nonoverlapping(tensor.strides.as_ptr(), count);
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cudnnCreateDropoutDescriptor(made: Out<'_, Opaque>) -> Code {
    create("cudnnCreateDropoutDescriptor", made, Object::Dropout(false))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cudnnDestroyDropoutDescriptor(made: Opaque) -> Code {
    destroy("cudnnDestroyDropoutDescriptor", made, |object| matches!(object, Object::Dropout(_)))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cudnnSetDropoutDescriptor(
    descriptor: Opaque,
    handle: Opaque,
    dropout: f32,
    _states: *mut c_void,
    _states_bytes: usize,
    _seed: c_ulonglong,
) -> Code {
    call("cudnnSetDropoutDescriptor", || {
        let mut machine = machine();
        machine.handle(handle)?;
        match machine.object_mut(descriptor) {
            Some(Object::Dropout(_)) if dropout != 0.0 => return Err(NOT_SUPPORTED),
            Some(Object::Dropout(set)) => *set = true,
            _ => return Err(BAD_PARAM),
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cudnnCreateRNNDescriptor(made: Out<'_, Opaque>) -> Code {
    create("cudnnCreateRNNDescriptor", made, Object::Rnn(None))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cudnnDestroyRNNDescriptor(made: Opaque) -> Code {
    destroy("cudnnDestroyRNNDescriptor", made, |object| matches!(object, Object::Rnn(_)))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cudnnSetRNNDescriptor_v8(
    descriptor: Opaque,
    algorithm: c_uint,
    mode: c_uint,
    bias: c_uint,
    direction: c_uint,
    input_mode: c_uint,
    data_type: c_uint,
    precision: c_uint,
    _math: c_uint,
    input_size: i32,
    hidden_size: i32,
    projected_size: i32,
    layers: i32,
    dropout: Opaque,
    flags: u32,
) -> Code {
    call("cudnnSetRNNDescriptor_v8", || {
        let mut machine = machine();
        let dropout = dropout.addr();
        if algorithm > LAST_ALGORITHM || !machine.is_dropout(dropout) {
            return Err(BAD_PARAM);
        }
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
        // Algorithms that keep weights in multiprocessors have no projection.
        if algorithm != STANDARD && (old || settings.projected_size.is_some()) {
            return Err(NOT_SUPPORTED);
        }
        match machine.object_mut(descriptor) {
            Some(Object::Rnn(own)) => {
                *own = Some(Described { element, rnn, algorithm, padded: flags & PADDED_IO != 0, dropout });
            }
            _ => return Err(BAD_PARAM),
        }
        Ok(())
    })
}

/// Of clips only those to plus and minus a number are there.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cudnnRNNSetClip_v9(descriptor: Opaque, mode: c_uint, least: f64, most: f64) -> Code {
    call("cudnnRNNSetClip_v9", || match machine().object_mut(descriptor) {
        Some(Object::Rnn(Some(described))) if mode == CLIP_MINMAX => {
            if -least != most {
                return Err(NOT_SUPPORTED);
            }
            let settings = Settings { cell_clip: Some(most as f32), ..*described.rnn.settings() };
            described.rnn = Rnn::new(settings).map_err(|_| BAD_PARAM)?;
            Ok(())
        }
        _ => Err(BAD_PARAM),
    })
}

/// The variant of a C enum.
fn pick<T: Copy, const N: usize>(all: [T; N], number: c_uint) -> Result<T, Code> {
    all.get(number as usize).copied().ok_or(BAD_PARAM)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cudnnCreateRNNDataDescriptor(made: Out<'_, Opaque>) -> Code {
    create("cudnnCreateRNNDataDescriptor", made, Object::Data(None))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cudnnDestroyRNNDataDescriptor(made: Opaque) -> Code {
    destroy("cudnnDestroyRNNDataDescriptor", made, |object| matches!(object, Object::Data(_)))
}

/// # Safety
/// `lengths` has `sequences` elements; `fill` is null or a number of the data's type.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cudnnSetRNNDataDescriptor(
    descriptor: Opaque,
    data_type: c_uint,
    layout: c_uint,
    longest: c_int,
    sequences: c_int,
    features: c_int,
    lengths: *const c_int,
    fill: *const c_void,
) -> Code {
    call("cudnnSetRNNDataDescriptor", || {
        // `CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED` is the only one that is asked for.
        let element = Element::of(data_type).filter(|_| layout == 0).ok_or(NOT_SUPPORTED)?;
        let (longest, features) = (size(longest)?, size(features)?);
        // SAFETY: it has `sequences` elements.
        let lengths = unsafe { array(lengths, size(sequences)?)? };
        let lengths = lengths.into_iter().map(size).collect::<Result<Vec<_>, _>>()?;
        let sizes = [longest, features, lengths.len()];
        // By the documentation a sequence may be without steps; with this cuDNN's first versions it may not.
        if sizes.contains(&0) || lengths.iter().any(|length| !(1..=longest).contains(length)) {
            return Err(BAD_PARAM);
        }
        // SAFETY: it is null or a number of this type, whose bits are copied.
        let fill = unsafe {
            match element {
                Element::F32 => fill.cast::<f32>().as_ref().copied(),
                Element::Bf16 => fill.cast::<bf16>().as_ref().map(|fill| fill.to_f32()),
            }
        };
        match machine().object_mut(descriptor) {
            Some(Object::Data(own)) => *own = Some(Data { element, longest, features, lengths, fill }),
            _ => return Err(BAD_PARAM),
        }
        Ok(())
    })
}
