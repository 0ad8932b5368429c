//! Device memory on the stream of a handle. Errors name the driver's function.

use std::borrow::Cow;

use bytemuck::{cast_slice, cast_slice_mut};
use cudarc::cudnn::sys::cudnnDataType_t;
use cudarc::driver::{CudaSlice, DeviceRepr, DriverError, ValidAsZeroBits};
use half::bf16;

use super::{Handle, Result};
use crate::rnn::Math;
use crate::status::GpuError;

/// Converts the driver's error for the function `call`.
pub(crate) fn failed(call: &'static str) -> impl FnOnce(DriverError) -> GpuError {
    move |source| GpuError::Cuda { call, source }
}

/// Element type of device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Element {
    F32,
    Bf16,
}

impl Element {
    pub const fn of(math: Math) -> Self {
        match math {
            Math::F32 | Math::Tf32 => Self::F32,
            Math::Bf16 => Self::Bf16,
        }
    }

    pub const fn bytes(self) -> usize {
        match self {
            Self::F32 => size_of::<f32>(),
            Self::Bf16 => size_of::<bf16>(),
        }
    }

    pub const fn data_type(self) -> cudnnDataType_t {
        match self {
            Self::F32 => cudnnDataType_t::CUDNN_DATA_FLOAT,
            Self::Bf16 => cudnnDataType_t::CUDNN_DATA_BFLOAT16,
        }
    }

    /// Values in the device's representation.
    fn encoded(self, values: &[f32]) -> Cow<'_, [u8]> {
        match self {
            Self::F32 => Cow::Borrowed(cast_slice(values)),
            Self::Bf16 => Cow::Owned(values.iter().flat_map(|&value| bf16::from_f32(value).to_ne_bytes()).collect()),
        }
    }
}

pub(crate) struct Values {
    pub bytes: CudaSlice<u8>,
    element: Element,
}

impl Values {
    pub fn len(&self) -> usize {
        self.bytes.len() / self.element.bytes()
    }
}

impl Handle {
    pub(crate) fn zeros<T: DeviceRepr + ValidAsZeroBits>(&self, len: usize) -> Result<CudaSlice<T>> {
        // SAFETY: all elements are written before they are read.
        let mut zeros = unsafe { self.stream.alloc(len) }.map_err(failed("cuMemAllocAsync"))?;
        self.stream.memset_zeros(&mut zeros).map_err(failed("cuMemsetD8Async"))?;
        Ok(zeros)
    }

    /// Copies values to newly allocated memory.
    pub(crate) fn copied<T: DeviceRepr>(&self, all: &[T]) -> Result<CudaSlice<T>> {
        // SAFETY: all elements are written before they are read.
        let mut copy = unsafe { self.stream.alloc(all.len()) }.map_err(failed("cuMemAllocAsync"))?;
        self.stream.memcpy_htod(all, &mut copy).map_err(failed("cuMemcpyHtoDAsync"))?;
        Ok(copy)
    }

    pub(crate) fn values(&self, element: Element, len: usize) -> Result<Values> {
        Ok(Values { bytes: self.zeros(len * element.bytes())?, element })
    }

    /// Writes values to the start of `to`, which may be longer.
    pub(crate) fn write(&self, what: &'static str, values: &[f32], to: &mut Values) -> Result<()> {
        let (found, needed) = (values.len(), to.len());
        if found > needed {
            return Err(GpuError::Buffer { what, found, needed });
        }
        let bytes = to.element.encoded(values);
        self.stream.memcpy_htod(bytes.as_ref(), &mut to.bytes).map_err(failed("cuMemcpyHtoDAsync"))
    }

    /// Reads all values after pending work is done.
    pub(crate) fn read(&self, from: &Values) -> Result<Vec<f32>> {
        let copy = |to: &mut [u8]| self.stream.memcpy_dtoh(&from.bytes, to).map_err(failed("cuMemcpyDtoHAsync"));
        let mut values = vec![0.0; from.len()];
        match from.element {
            Element::F32 => {
                copy(cast_slice_mut(&mut values))?;
                self.wait()?;
            }
            Element::Bf16 => {
                let mut halves = vec![bf16::ZERO; values.len()];
                copy(cast_slice_mut(&mut halves))?;
                self.wait()?;
                values.iter_mut().zip(halves).for_each(|(to, half)| *to = half.to_f32());
            }
        }
        Ok(values)
    }

    pub(crate) fn clear(&self, values: &mut Values) -> Result<()> {
        self.stream.memset_zeros(&mut values.bytes).map_err(failed("cuMemsetD8Async"))
    }

    pub(crate) fn wait(&self) -> Result<()> {
        self.stream.synchronize().map_err(failed("cuStreamSynchronize"))
    }

    pub(crate) fn bind(&self) -> Result<()> {
        self.stream.context().bind_to_thread().map_err(failed("cuCtxSetCurrent"))
    }
}
