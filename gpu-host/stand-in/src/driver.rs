//! CUDA's driver: the functions that `cudarc` calls for contexts, memory, streams and events. Every call is executed
//! immediately, so streams and events never wait.
#![expect(unsafe_code, reason = "exported functions have unmangled names and take pointers")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use crate::machine::{CURRENT, Object, devices, machine};
use crate::{Code, Opaque, Out, cuda, need, put};

/// Name of a device. Every recording contains it, so that none is mistaken for a GPU's.
const NAME: &CStr = c"a stand-in without a GPU";
/// Reported memory size in bytes.
const TOTAL: usize = 1 << 34;
/// `CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED`
const MEMORY_POOLS_SUPPORTED: c_uint = 115;

fn device(device: c_int) -> Result<c_int, Code> {
    need((0..devices()).contains(&device), cuda::INVALID_DEVICE).map(|()| device)
}

export! {
    fn cuInit(_flags: c_uint) { need(devices() > 0, cuda::NO_DEVICE) }
    fn cuDeviceGetCount(count: Out<'_, c_int>) { put(count, devices(), cuda::INVALID_VALUE) }
    fn cuDeviceGet(found: Out<'_, c_int>, ordinal: c_int) { put(found, device(ordinal)?, cuda::INVALID_VALUE) }

    fn cuDeviceGetAttribute(value: Out<'_, c_int>, attribute: c_uint, of: c_int) {
        device(of)?;
        put(value, c_int::from(attribute == MEMORY_POOLS_SUPPORTED), cuda::INVALID_VALUE)
    }

    fn cuDeviceTotalMem_v2(bytes: Out<'_, usize>, of: c_int) {
        device(of)?;
        put(bytes, TOTAL, cuda::INVALID_VALUE)
    }

    fn cuDevicePrimaryCtxRetain(context: Out<'_, usize>, of: c_int) {
        put(context, machine().retain(device(of)?), cuda::INVALID_VALUE)
    }

    fn cuDevicePrimaryCtxRelease_v2(of: c_int) { machine().release(device(of)?) }
    fn cuCtxGetCurrent(context: Out<'_, usize>) { put(context, CURRENT.get(), cuda::INVALID_VALUE) }
    fn cuCtxSetCurrent(context: Opaque) { machine().set_current(context.addr()) }
    fn cuGetErrorName(code: Code, name: Out<'_, *const c_char>) { put(name, described(code), cuda::INVALID_VALUE) }
    fn cuGetErrorString(code: Code, text: Out<'_, *const c_char>) { put(text, described(code), cuda::INVALID_VALUE) }
    fn cuCtxSynchronize() { machine().current_device().map(drop) }

    fn cuStreamCreate(made: Out<'_, Opaque>, _flags: c_uint) {
        machine().current_device()?;
        put(made, machine().create(Object::Stream), cuda::INVALID_VALUE)
    }

    fn cuStreamDestroy_v2(made: Opaque) {
        machine().destroy(made, |object| matches!(object, Object::Stream)).ok_or(cuda::INVALID_HANDLE)
    }

    fn cuStreamSynchronize(on: Opaque) { stream(on) }
    fn cuStreamWaitEvent(on: Opaque, of: Opaque, _flags: c_uint) { stream(on).and_then(|()| event(of)) }

    fn cuEventCreate(made: Out<'_, Opaque>, _flags: c_uint) {
        machine().current_device()?;
        put(made, machine().create(Object::Event), cuda::INVALID_VALUE)
    }

    fn cuEventDestroy_v2(made: Opaque) {
        machine().destroy(made, |object| matches!(object, Object::Event)).ok_or(cuda::INVALID_HANDLE)
    }

    fn cuEventRecord(of: Opaque, on: Opaque) { stream(on).and_then(|()| event(of)) }
    fn cuEventSynchronize(of: Opaque) { event(of) }
    fn cuEventQuery(of: Opaque) { event(of) }

    fn cuMemGetInfo_v2(free: Out<'_, usize>, total: Out<'_, usize>) {
        put(free, TOTAL, cuda::INVALID_VALUE).and_then(|()| put(total, TOTAL, cuda::INVALID_VALUE))
    }

    fn cuMemAllocAsync(address: Out<'_, u64>, bytes: usize, on: Opaque) {
        stream(on)?;
        put(address, machine().alloc(bytes)?, cuda::INVALID_VALUE)
    }

    fn cuMemFreeAsync(address: u64, on: Opaque) { stream(on).and_then(|()| machine().free(address)) }

    fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, on: Opaque) {
        stream(on)?;
        let mut machine = machine();
        let copy = machine.bytes(from, bytes, None).ok_or(cuda::INVALID_VALUE)?.to_vec();
        machine.bytes(to, bytes, None).ok_or(cuda::INVALID_VALUE)?.copy_from_slice(&copy);
        Ok(())
    }

    fn cuMemsetD8Async(to: u64, value: u8, bytes: usize, on: Opaque) {
        stream(on)?;
        machine().bytes(to, bytes, None).ok_or(cuda::INVALID_VALUE)?.fill(value);
        Ok(())
    }
}

fn stream(stream: Opaque) -> Result<(), Code> {
    machine().current_device()?;
    need(machine().is_stream(stream), cuda::INVALID_HANDLE)
}

fn event(event: Opaque) -> Result<(), Code> {
    need(matches!(machine().object(event), Some(Object::Event)), cuda::INVALID_HANDLE)
}

export! {
    /// # Safety
    /// `name` must be valid for writes of `len` bytes.
    unsafe fn cuDeviceGetName(name: *mut c_char, len: c_int, of: c_int) {
        device(of)?;
        let bytes = NAME.to_bytes_with_nul();
        let fits = usize::try_from(len).is_ok_and(|len| len >= bytes.len());
        need(!name.is_null() && fits, cuda::INVALID_VALUE)?;
        // SAFETY: `name` is valid for `len` bytes, which is at least `bytes.len()`, and does not overlap the constant.
        unsafe { name.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(())
    }

    /// # Safety
    /// `from` must be valid for reads of `bytes` bytes.
    unsafe fn cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, bytes: usize, on: Opaque) {
        stream(on)?;
        let (mut machine, from) = (machine(), from.cast::<u8>());
        let to = machine.bytes(to, bytes, None).filter(|_| !from.is_null()).ok_or(cuda::INVALID_VALUE)?;
        // SAFETY: `from` is valid for `bytes` bytes, and `to`, which has the same size, belongs to this library.
        unsafe { from.copy_to_nonoverlapping(to.as_mut_ptr(), bytes) };
        Ok(())
    }

    /// # Safety
    /// `to` must be valid for writes of `bytes` bytes.
    unsafe fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, bytes: usize, on: Opaque) {
        stream(on)?;
        let (mut machine, to) = (machine(), to.cast::<u8>());
        let from = machine.bytes(from, bytes, None).filter(|_| !to.is_null()).ok_or(cuda::INVALID_VALUE)?;
        // SAFETY: `to` is valid for `bytes` bytes, and `from`, which has the same size, belongs to this library.
        unsafe { to.copy_from_nonoverlapping(from.as_ptr(), bytes) };
        Ok(())
    }
}

const fn described(code: Code) -> *const c_char {
    let text = match code {
        0 => c"no error",
        cuda::INVALID_VALUE => c"invalid argument",
        cuda::OUT_OF_MEMORY => c"out of memory",
        cuda::NO_DEVICE => c"no CUDA-capable device is detected",
        cuda::INVALID_DEVICE => c"invalid device ordinal",
        cuda::INVALID_CONTEXT => c"invalid device context",
        cuda::INVALID_HANDLE => c"invalid resource handle",
        cuda::LAUNCH_FAILED => c"unspecified launch failure",
        _ => c"unknown error",
    };
    text.as_ptr()
}
