//! cuDNN's RNN functions, and owning types for its objects. [`Cudnn::load`] loads all functions at once, so that none
//! is missing later. The argument types are those of `cudarc`. Its own functions are not used: they panic if a library
//! or a symbol is missing, and their status is an enum, which a newer cuDNN could violate. Descriptors are in
//! `sys/descriptors.rs`, the forward and backward pass in `sys/compute.rs`.
#![allow(unsafe_code)]

/// Calls [`Owned::new`].
macro_rules! create {
    ($cudnn:expr, $create:ident, $destroy:ident) => {{
        let functions = $cudnn.functions();
        // SAFETY: by its type, the first function creates an object, and the second one destroys such an object.
        unsafe { Owned::new($cudnn, stringify!($create), null_mut(), functions.$create, functions.$destroy) }
    }};
}

/// Calls a function of cuDNN and checks its status. The lines of the arguments are those of the declaration.
macro_rules! call {
    ($cudnn:expr, $name:ident($($arg:expr),* $(,)?)) => {
        ($cudnn.functions().$name)($($arg),*).of(stringify!($name))
    };
}

pub(crate) mod compute;
mod descriptors;
mod memory;
pub mod nccl;

use std::ffi::{c_int, c_ulonglong, c_void};
use std::ptr::null_mut;
use std::sync::Arc;

use cudarc::cudnn::sys::*;
use cudarc::driver::CudaStream;
use libloading::Library;

pub use descriptors::{Algorithm, RnnData, RnnDescriptor};
pub(crate) use memory::{Element, Values, failed};

use crate::library::{Needed, functions, open};
use crate::status::{GpuError, Status};

/// `CUDNN_VERSION` of the first cuDNN 9. cuDNN 8 has the same functions, but other status codes.
const OLDEST: usize = 90_000;

type Result<T, E = GpuError> = std::result::Result<T, E>;
type Create<T> = unsafe extern "C" fn(*mut T) -> Status;
type Destroy<T> = unsafe extern "C" fn(T) -> Status;

functions! {
    /// The functions of cuDNN 9 that are called. `cudnnStatus_t` is a C enum and thus a 32-bit number.
    struct Functions;
    fn cudnnGetVersion() -> usize;
    fn cudnnCreate(handle: *mut cudnnHandle_t) -> Status;
    fn cudnnDestroy(handle: cudnnHandle_t) -> Status;
    fn cudnnSetStream(handle: cudnnHandle_t, stream: cudaStream_t) -> Status;
    fn cudnnCreateTensorDescriptor(tensor: *mut cudnnTensorDescriptor_t) -> Status;
    fn cudnnDestroyTensorDescriptor(tensor: cudnnTensorDescriptor_t) -> Status;
    fn cudnnSetTensorNdDescriptor(
        tensor: cudnnTensorDescriptor_t, data_type: cudnnDataType_t,
        rank: c_int, dims: *const c_int, strides: *const c_int,
    ) -> Status;
    fn cudnnGetTensorNdDescriptor(
        tensor: cudnnTensorDescriptor_t, asked: c_int, data_type: *mut cudnnDataType_t,
        rank: *mut c_int, dims: *mut c_int, strides: *mut c_int,
    ) -> Status;
    fn cudnnCreateDropoutDescriptor(dropout: *mut cudnnDropoutDescriptor_t) -> Status;
    fn cudnnDestroyDropoutDescriptor(dropout: cudnnDropoutDescriptor_t) -> Status;
    fn cudnnSetDropoutDescriptor(
        dropout: cudnnDropoutDescriptor_t, handle: cudnnHandle_t, probability: f32,
        states: *mut c_void, states_bytes: usize, seed: c_ulonglong,
    ) -> Status;
    fn cudnnCreateRNNDescriptor(rnn: *mut cudnnRNNDescriptor_t) -> Status;
    fn cudnnDestroyRNNDescriptor(rnn: cudnnRNNDescriptor_t) -> Status;
    fn cudnnSetRNNDescriptor_v8(
        rnn: cudnnRNNDescriptor_t, algorithm: cudnnRNNAlgo_t, mode: cudnnRNNMode_t, bias: cudnnRNNBiasMode_t,
        direction: cudnnDirectionMode_t, input: cudnnRNNInputMode_t,
        data_type: cudnnDataType_t, precision: cudnnDataType_t, math: cudnnMathType_t,
        input_size: i32, hidden_size: i32, projected_size: i32, layers: i32,
        dropout: cudnnDropoutDescriptor_t, flags: u32,
    ) -> Status;
    fn cudnnRNNSetClip_v9(rnn: cudnnRNNDescriptor_t, mode: cudnnRNNClipMode_t, least: f64, most: f64) -> Status;
    fn cudnnCreateRNNDataDescriptor(data: *mut cudnnRNNDataDescriptor_t) -> Status;
    fn cudnnDestroyRNNDataDescriptor(data: cudnnRNNDataDescriptor_t) -> Status;
    fn cudnnSetRNNDataDescriptor(
        data: cudnnRNNDataDescriptor_t, data_type: cudnnDataType_t, layout: cudnnRNNDataLayout_t,
        longest: c_int, sequences: c_int, features: c_int, lengths: *const c_int, fill: *mut c_void,
    ) -> Status;
    fn cudnnGetRNNWeightSpaceSize(handle: cudnnHandle_t, rnn: cudnnRNNDescriptor_t, bytes: *mut usize) -> Status;
    fn cudnnGetRNNWeightParams(
        handle: cudnnHandle_t, rnn: cudnnRNNDescriptor_t, pseudo_layer: i32,
        weight_bytes: usize, weights: *const c_void, lin_layer_id: i32,
        matrix: cudnnTensorDescriptor_t, matrix_address: *mut *mut c_void,
        bias: cudnnTensorDescriptor_t, bias_address: *mut *mut c_void,
    ) -> Status;
    fn cudnnGetRNNTempSpaceSizes(
        handle: cudnnHandle_t, rnn: cudnnRNNDescriptor_t, mode: cudnnForwardMode_t, x: cudnnRNNDataDescriptor_t,
        work_bytes: *mut usize, reserve_bytes: *mut usize,
    ) -> Status;
    fn cudnnRNNForward(
        handle: cudnnHandle_t, rnn: cudnnRNNDescriptor_t, mode: cudnnForwardMode_t, lengths: *const i32,
        x_data: cudnnRNNDataDescriptor_t, x: *const c_void, y_data: cudnnRNNDataDescriptor_t, y: *mut c_void,
        hidden: cudnnTensorDescriptor_t, hidden_begin: *const c_void, hidden_end: *mut c_void,
        cell: cudnnTensorDescriptor_t, cell_begin: *const c_void, cell_end: *mut c_void,
        weight_bytes: usize, weights: *const c_void,
        work_bytes: usize, work: *mut c_void, reserve_bytes: usize, reserve: *mut c_void,
    ) -> Status;
    fn cudnnRNNBackwardData_v8(
        handle: cudnnHandle_t, rnn: cudnnRNNDescriptor_t, lengths: *const i32,
        y_data: cudnnRNNDataDescriptor_t, y: *const c_void, to_y: *const c_void,
        x_data: cudnnRNNDataDescriptor_t, to_x: *mut c_void,
        hidden: cudnnTensorDescriptor_t, hidden_begin: *const c_void, to_hidden_end: *const c_void,
        to_hidden_begin: *mut c_void,
        cell: cudnnTensorDescriptor_t, cell_begin: *const c_void, to_cell_end: *const c_void,
        to_cell_begin: *mut c_void,
        weight_bytes: usize, weights: *const c_void,
        work_bytes: usize, work: *mut c_void, reserve_bytes: usize, reserve: *mut c_void,
    ) -> Status;
    fn cudnnRNNBackwardWeights_v8(
        handle: cudnnHandle_t, rnn: cudnnRNNDescriptor_t, mode: cudnnWgradMode_t, lengths: *const i32,
        x_data: cudnnRNNDataDescriptor_t, x: *const c_void,
        hidden: cudnnTensorDescriptor_t, hidden_begin: *const c_void,
        y_data: cudnnRNNDataDescriptor_t, y: *const c_void,
        weight_bytes: usize, to_weights: *mut c_void,
        work_bytes: usize, work: *mut c_void, reserve_bytes: usize, reserve: *mut c_void,
    ) -> Status;
}

/// A loaded cuDNN.
#[derive(Clone)]
pub struct Cudnn(Arc<(Functions, Library)>);

impl Cudnn {
    /// Loads cuDNN and all functions that this crate calls.
    pub fn load() -> Result<Self> {
        Self::of(open(Needed::Cudnn)?)
    }

    fn of((library, file): (Library, String)) -> Result<Self> {
        // SAFETY: the types are those of cuDNN 9's headers. The functions are stored with their library, and neither
        // leaves this type.
        let functions = unsafe { Functions::load(&library, &file) }?;
        let cudnn = Self(Arc::new((functions, library)));
        match cudnn.version() {
            found @ ..OLDEST => Err(GpuError::Version { library: file, found }),
            _ => Ok(cudnn),
        }
    }

    fn functions(&self) -> &Functions {
        &self.0.0
    }

    /// `CUDNN_VERSION`, for example 91201 for 9.12.1.
    pub fn version(&self) -> usize {
        // SAFETY: the function has no preconditions.
        unsafe { (self.functions().cudnnGetVersion)() }
    }
}

impl std::fmt::Debug for Cudnn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cuDNN {}", self.version())
    }
}

/// A cuDNN object, which is destroyed on drop.
struct Owned<T: Copy> {
    raw: T,
    destroy: Destroy<T>,
    cudnn: Cudnn,
}

impl<T: Copy> Owned<T> {
    /// # Safety
    /// When `create` succeeds, it must have initialized its argument, and `destroy` must accept that value.
    unsafe fn new(of: &Cudnn, call: &'static str, mut raw: T, create: Create<T>, destroy: Destroy<T>) -> Result<Self> {
        // SAFETY: the caller guarantees the functions; `raw` outlives the call.
        unsafe { create(&mut raw) }.of(call)?;
        Ok(Self { raw, destroy, cudnn: of.clone() })
    }
}

impl<T: Copy> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: `create` made the object and nothing else destroys it; `cudnn` keeps the library loaded. An error
        // could only mean that the device is already gone.
        let _ = unsafe { (self.destroy)(self.raw) };
    }
}

/// A cuDNN handle on a stream, where all work runs in order.
pub struct Handle {
    owned: Owned<cudnnHandle_t>,
    stream: Arc<CudaStream>,
}

impl Handle {
    /// Creates a handle on a stream and makes the stream's context current for this thread.
    pub fn new(cudnn: &Cudnn, stream: &Arc<CudaStream>) -> Result<Self> {
        stream.context().bind_to_thread().map_err(failed("cuCtxSetCurrent"))?;
        let owned = create!(cudnn, cudnnCreate, cudnnDestroy)?;
        // SAFETY: both are alive. The stream outlives the handle, as fields are dropped in order of declaration.
        unsafe { call!(cudnn, cudnnSetStream(owned.raw, stream.cu_stream().cast())) }?;
        Ok(Self { owned, stream: stream.clone() })
    }

    pub(crate) const fn raw(&self) -> (&Cudnn, cudnnHandle_t) {
        (&self.owned.cudnn, self.owned.raw)
    }
}

#[cfg(test)]
mod tests;
