//! cuDNN's RNN functions, and what is made of it owned by types. Functions are loaded once, in [`Cudnn::load`]; after
//! that nothing can be missing. Argument types are `cudarc`'s, whose own functions panic where a library or a symbol is
//! missing and whose status is an enum that a newer cuDNN could leave. Descriptors are in `sys/descriptors.rs`, what computes in `sys/compute.rs`.
#![allow(unsafe_code)]

pub(crate) mod compute;
mod descriptors;
mod memory;
pub mod nccl;

use std::ffi::{c_int, c_ulonglong, c_void};
use std::ptr::null_mut;
use std::sync::Arc;

use cudarc::cudnn::sys::{
    cudaStream_t, cudnnDataType_t, cudnnDirectionMode_t, cudnnDropoutDescriptor_t, cudnnForwardMode_t, cudnnHandle_t,
    cudnnMathType_t, cudnnRNNAlgo_t, cudnnRNNBiasMode_t, cudnnRNNClipMode_t, cudnnRNNDataDescriptor_t,
    cudnnRNNDataLayout_t, cudnnRNNDescriptor_t, cudnnRNNInputMode_t, cudnnRNNMode_t, cudnnTensorDescriptor_t,
};
use cudarc::driver::CudaStream;
use libloading::Library;

pub use descriptors::{Algorithm, Dropout, RnnData, RnnDescriptor};
pub(crate) use memory::{Element, Values, failed};

use crate::library::{Needed, open, symbol};
use crate::status::{GpuError, Status};

/// `CUDNN_VERSION` of the first cuDNN 9. Its predecessor has these functions too, but other statuses.
const OLDEST: usize = 90_000;

type Create<T> = unsafe extern "C" fn(*mut T) -> Status;
type Destroy<T> = unsafe extern "C" fn(T) -> Status;
type SetDropout =
    unsafe extern "C" fn(cudnnDropoutDescriptor_t, cudnnHandle_t, f32, *mut c_void, usize, c_ulonglong) -> Status;
type SetRnn = unsafe extern "C" fn(
    cudnnRNNDescriptor_t,
    cudnnRNNAlgo_t,
    cudnnRNNMode_t,
    cudnnRNNBiasMode_t,
    cudnnDirectionMode_t,
    cudnnRNNInputMode_t,
    cudnnDataType_t,
    cudnnDataType_t,
    cudnnMathType_t,
    i32,
    i32,
    i32,
    i32,
    cudnnDropoutDescriptor_t,
    u32,
) -> Status;
type SetClip = unsafe extern "C" fn(cudnnRNNDescriptor_t, cudnnRNNClipMode_t, f64, f64) -> Status;
type SetRnnData = unsafe extern "C" fn(
    cudnnRNNDataDescriptor_t,
    cudnnDataType_t,
    cudnnRNNDataLayout_t,
    c_int,
    c_int,
    c_int,
    *const c_int,
    *mut c_void,
) -> Status;
type SetStream = unsafe extern "C" fn(cudnnHandle_t, cudaStream_t) -> Status;
type SetTensor =
    unsafe extern "C" fn(cudnnTensorDescriptor_t, cudnnDataType_t, c_int, *const c_int, *const c_int) -> Status;
type GetTensor = unsafe extern "C" fn(
    cudnnTensorDescriptor_t,
    c_int,
    *mut cudnnDataType_t,
    *mut c_int,
    *mut c_int,
    *mut c_int,
) -> Status;
type GetWeightSpaceSize = unsafe extern "C" fn(cudnnHandle_t, cudnnRNNDescriptor_t, *mut usize) -> Status;
type GetWeightParams = unsafe extern "C" fn(
    cudnnHandle_t,
    cudnnRNNDescriptor_t,
    i32,
    usize,
    *const c_void,
    i32,
    cudnnTensorDescriptor_t,
    *mut *mut c_void,
    cudnnTensorDescriptor_t,
    *mut *mut c_void,
) -> Status;
type GetTempSpaceSizes = unsafe extern "C" fn(
    cudnnHandle_t,
    cudnnRNNDescriptor_t,
    cudnnForwardMode_t,
    cudnnRNNDataDescriptor_t,
    *mut usize,
    *mut usize,
) -> Status;

/// The functions, and the library that keeps them in memory.
struct Functions {
    get_version: unsafe extern "C" fn() -> usize,
    create: Create<cudnnHandle_t>,
    destroy: Destroy<cudnnHandle_t>,
    set_stream: SetStream,
    create_tensor: Create<cudnnTensorDescriptor_t>,
    destroy_tensor: Destroy<cudnnTensorDescriptor_t>,
    set_tensor: SetTensor,
    get_tensor: GetTensor,
    create_dropout: Create<cudnnDropoutDescriptor_t>,
    destroy_dropout: Destroy<cudnnDropoutDescriptor_t>,
    set_dropout: SetDropout,
    create_rnn: Create<cudnnRNNDescriptor_t>,
    destroy_rnn: Destroy<cudnnRNNDescriptor_t>,
    set_rnn: SetRnn,
    set_clip: SetClip,
    create_rnn_data: Create<cudnnRNNDataDescriptor_t>,
    destroy_rnn_data: Destroy<cudnnRNNDataDescriptor_t>,
    set_rnn_data: SetRnnData,
    get_weight_space_size: GetWeightSpaceSize,
    get_weight_params: GetWeightParams,
    get_temp_space_sizes: GetTempSpaceSizes,
    forward: compute::RnnForward,
    backward_data: compute::RnnBackwardData,
    backward_weights: compute::RnnBackwardWeights,
    _library: Library,
}

/// A cuDNN that is loaded.
#[derive(Clone)]
pub struct Cudnn(Arc<Functions>);

impl Cudnn {
    /// Loads cuDNN and finds every function that this crate calls.
    ///
    /// # Errors
    /// If there is no cuDNN, or it is older than cuDNN 9 or lacks a function.
    pub fn load() -> Result<Self, GpuError> {
        Self::load_from(Needed::Cudnn.files())
    }

    /// As [`load`](Self::load), from the first of these files that there is.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn load_from(files: Vec<String>) -> Result<Self, GpuError> {
        let (library, file) = open(Needed::Cudnn, files)?;
        // SAFETY: the types above are those of cuDNN 9's headers, with `cudnnStatus_t` as the 32-bit number that a C enum
        // of its values is. The functions and their library are kept together and neither is given away.
        let functions = unsafe {
            Functions {
                get_version: symbol(&library, &file, "cudnnGetVersion")?,
                create: symbol(&library, &file, "cudnnCreate")?,
                destroy: symbol(&library, &file, "cudnnDestroy")?,
                set_stream: symbol(&library, &file, "cudnnSetStream")?,
                create_tensor: symbol(&library, &file, "cudnnCreateTensorDescriptor")?,
                destroy_tensor: symbol(&library, &file, "cudnnDestroyTensorDescriptor")?,
                set_tensor: symbol(&library, &file, "cudnnSetTensorNdDescriptor")?,
                get_tensor: symbol(&library, &file, "cudnnGetTensorNdDescriptor")?,
                create_dropout: symbol(&library, &file, "cudnnCreateDropoutDescriptor")?,
                destroy_dropout: symbol(&library, &file, "cudnnDestroyDropoutDescriptor")?,
                set_dropout: symbol(&library, &file, "cudnnSetDropoutDescriptor")?,
                create_rnn: symbol(&library, &file, "cudnnCreateRNNDescriptor")?,
                destroy_rnn: symbol(&library, &file, "cudnnDestroyRNNDescriptor")?,
                set_rnn: symbol(&library, &file, "cudnnSetRNNDescriptor_v8")?,
                set_clip: symbol(&library, &file, "cudnnRNNSetClip_v9")?,
                create_rnn_data: symbol(&library, &file, "cudnnCreateRNNDataDescriptor")?,
                destroy_rnn_data: symbol(&library, &file, "cudnnDestroyRNNDataDescriptor")?,
                set_rnn_data: symbol(&library, &file, "cudnnSetRNNDataDescriptor")?,
                get_weight_space_size: symbol(&library, &file, "cudnnGetRNNWeightSpaceSize")?,
                get_weight_params: symbol(&library, &file, "cudnnGetRNNWeightParams")?,
                get_temp_space_sizes: symbol(&library, &file, "cudnnGetRNNTempSpaceSizes")?,
                forward: symbol(&library, &file, "cudnnRNNForward")?,
                backward_data: symbol(&library, &file, "cudnnRNNBackwardData_v8")?,
                backward_weights: symbol(&library, &file, "cudnnRNNBackwardWeights_v8")?,
                _library: library,
            }
        };
        let (cudnn, library) = (Self(Arc::new(functions)), file);
        match cudnn.version() {
            found @ ..OLDEST => Err(GpuError::Version { library, found }),
            _ => Ok(cudnn),
        }
    }

    /// `CUDNN_VERSION`: 91201 is 9.12.1.
    pub fn version(&self) -> usize {
        // SAFETY: it has no preconditions.
        unsafe { (self.0.get_version)() }
    }
}

impl std::fmt::Debug for Cudnn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cuDNN {}", self.version())
    }
}

/// Something of cuDNN's that is destroyed with this.
struct Owned<T: Copy> {
    raw: T,
    destroy: Destroy<T>,
    cudnn: Cudnn,
}

impl<T: Copy> Owned<T> {
    /// # Safety
    /// `create` must fill in what it is given when it succeeds, and `destroy` take exactly that.
    unsafe fn new(
        cudnn: &Cudnn,
        call: &'static str,
        mut raw: T,
        create: Create<T>,
        destroy: Destroy<T>,
    ) -> Result<Self, GpuError> {
        // SAFETY: the caller knows the functions; `raw` outlives the call.
        unsafe { create(&mut raw) }.of(call)?;
        Ok(Self { raw, destroy, cudnn: cudnn.clone() })
    }
}

impl<T: Copy> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: `create` made it and nobody else destroys it; the library is still loaded, as `cudnn` lives. What it
        // returns can only say that the device is gone already.
        let _ = unsafe { (self.destroy)(self.raw) };
    }
}

/// A cuDNN on a stream: what it is asked for happens there, one thing after the other.
pub struct Handle {
    owned: Owned<cudnnHandle_t>,
    stream: Arc<CudaStream>,
}

impl Handle {
    /// On a stream, whose context becomes the thread's.
    ///
    /// # Errors
    /// If cuDNN refuses: there is no memory, or the driver is too old for it.
    pub fn new(cudnn: &Cudnn, stream: &Arc<CudaStream>) -> Result<Self, GpuError> {
        stream.context().bind_to_thread().map_err(failed("cuCtxSetCurrent"))?;
        let (create, destroy) = (cudnn.0.create, cudnn.0.destroy);
        // SAFETY: `cudnnCreate` and `cudnnDestroy` belong together.
        let owned = unsafe { Owned::new(cudnn, "cudnnCreate", null_mut(), create, destroy) }?;
        // SAFETY: both are alive, and the stream stays so as long as the handle: fields are dropped in their order.
        unsafe { (cudnn.0.set_stream)(owned.raw, stream.cu_stream().cast()) }.of("cudnnSetStream")?;
        Ok(Self { owned, stream: stream.clone() })
    }

    /// Its stream.
    pub const fn stream(&self) -> &Arc<CudaStream> {
        &self.stream
    }
}

#[cfg(test)]
mod tests;
