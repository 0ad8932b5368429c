//! Memory of the device, on the stream of a handle; what fails bears the name of the driver's function.

use cudarc::driver::{CudaSlice, DeviceRepr, DriverError, ValidAsZeroBits};

use super::Handle;
use crate::status::GpuError;

/// The error of a function of the driver.
pub(crate) fn failed(call: &'static str) -> impl FnOnce(DriverError) -> GpuError {
    move |source| GpuError::Cuda { call, source }
}

impl Handle {
    /// So many zeros.
    pub(crate) fn zeros<T: DeviceRepr + ValidAsZeroBits>(&self, len: usize) -> Result<CudaSlice<T>, GpuError> {
        self.stream().alloc_zeros(len).map_err(failed("cuMemAllocAsync"))
    }

    /// These values, in memory of their own.
    pub(crate) fn copied<T: DeviceRepr>(&self, values: &[T]) -> Result<CudaSlice<T>, GpuError> {
        self.stream().clone_htod(values).map_err(failed("cuMemcpyHtoDAsync"))
    }

    /// Writes these values to the front of memory that has at least as many.
    pub(crate) fn write<T: DeviceRepr>(
        &self,
        what: &'static str,
        values: &[T],
        to: &mut CudaSlice<T>,
    ) -> Result<(), GpuError> {
        let (found, needed) = (values.len(), to.len());
        if found > needed {
            return Err(GpuError::Buffer { what, found, needed });
        }
        self.stream().memcpy_htod(values, to).map_err(failed("cuMemcpyHtoDAsync"))
    }

    /// What memory has when all is computed that was asked for.
    pub(crate) fn read(&self, from: &CudaSlice<f32>) -> Result<Vec<f32>, GpuError> {
        let values = self.stream().clone_dtoh(from).map_err(failed("cuMemcpyDtoHAsync"))?;
        self.wait()?;
        Ok(values)
    }

    /// Sets memory to zero.
    pub(crate) fn clear(&self, slice: &mut CudaSlice<f32>) -> Result<(), GpuError> {
        self.stream().memset_zeros(slice).map_err(failed("cuMemsetD8Async"))
    }

    /// Waits until all is computed that was asked for.
    pub(crate) fn wait(&self) -> Result<(), GpuError> {
        self.stream().synchronize().map_err(failed("cuStreamSynchronize"))
    }

    /// Makes the device the thread's.
    pub(crate) fn bind(&self) -> Result<(), GpuError> {
        self.stream().context().bind_to_thread().map_err(failed("cuCtxSetCurrent"))
    }
}
