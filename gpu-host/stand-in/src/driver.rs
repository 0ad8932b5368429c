//! CUDA's driver: what `cudarc` calls of it for contexts, memory, streams and events. Everything is done when it is asked for, so
//! streams and events have nothing to wait for.
#![expect(unsafe_code, reason = "what C calls has an unmangled name and is given pointers")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use crate::machine::{Object, current, devices, machine};
use crate::{Code, Opaque, Out, call, cuda, put};

/// What a device is called. It goes into every record, so that none is taken for a GPU's.
const NAME: &CStr = c"a stand-in without a GPU";
/// Bytes that a device says it has.
const TOTAL: usize = 1 << 34;
/// `CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED`
const MEMORY_POOLS_SUPPORTED: c_uint = 115;

fn device(device: c_int) -> Result<c_int, Code> {
    if (0..devices()).contains(&device) { Ok(device) } else { Err(cuda::INVALID_DEVICE) }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuInit(_flags: c_uint) -> Code {
    call("cuInit", || if devices() > 0 { Ok(()) } else { Err(cuda::NO_DEVICE) })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuDeviceGetCount(count: Out<'_, c_int>) -> Code {
    call("cuDeviceGetCount", || put(count, devices(), cuda::INVALID_VALUE))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuDeviceGet(found: Out<'_, c_int>, ordinal: c_int) -> Code {
    call("cuDeviceGet", || put(found, device(ordinal)?, cuda::INVALID_VALUE))
}

/// # Safety
/// `name` has room for `len` bytes.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuDeviceGetName(name: *mut c_char, len: c_int, of: c_int) -> Code {
    call("cuDeviceGetName", || {
        device(of)?;
        let bytes = NAME.to_bytes_with_nul();
        if name.is_null() || usize::try_from(len).map_or(true, |len| len < bytes.len()) {
            return Err(cuda::INVALID_VALUE);
        }
        // SAFETY: it has room for `len` bytes, which are no fewer; a constant of this library is not what was given.
        unsafe { name.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuDeviceGetAttribute(value: Out<'_, c_int>, attribute: c_uint, of: c_int) -> Code {
    call("cuDeviceGetAttribute", || {
        device(of)?;
        put(value, c_int::from(attribute == MEMORY_POOLS_SUPPORTED), cuda::INVALID_VALUE)
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuDeviceTotalMem_v2(bytes: Out<'_, usize>, of: c_int) -> Code {
    call("cuDeviceTotalMem_v2", || device(of).and_then(|_| put(bytes, TOTAL, cuda::INVALID_VALUE)))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuDevicePrimaryCtxRetain(context: Out<'_, usize>, of: c_int) -> Code {
    call("cuDevicePrimaryCtxRetain", || put(context, machine().retain(device(of)?), cuda::INVALID_VALUE))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuDevicePrimaryCtxRelease_v2(of: c_int) -> Code {
    call("cuDevicePrimaryCtxRelease_v2", || machine().release(device(of)?))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuCtxGetCurrent(context: Out<'_, usize>) -> Code {
    call("cuCtxGetCurrent", || put(context, current(), cuda::INVALID_VALUE))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuCtxSetCurrent(context: Opaque) -> Code {
    call("cuCtxSetCurrent", || machine().set_current(context.addr()))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuCtxSynchronize() -> Code {
    call("cuCtxSynchronize", || machine().current_device().map(drop))
}

fn stream(stream: Opaque) -> Result<(), Code> {
    machine().current_device()?;
    if machine().is_stream(stream) { Ok(()) } else { Err(cuda::INVALID_HANDLE) }
}

fn event(event: Opaque) -> Result<(), Code> {
    let found = matches!(machine().object(event), Some(Object::Event));
    if found { Ok(()) } else { Err(cuda::INVALID_HANDLE) }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuStreamCreate(made: Out<'_, Opaque>, _flags: c_uint) -> Code {
    call("cuStreamCreate", || {
        machine().current_device()?;
        put(made, machine().create(Object::Stream), cuda::INVALID_VALUE)
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuStreamDestroy_v2(made: Opaque) -> Code {
    let destroy = || machine().destroy(made, |object| matches!(object, Object::Stream)).ok_or(cuda::INVALID_HANDLE);
    call("cuStreamDestroy_v2", destroy)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuStreamSynchronize(on: Opaque) -> Code {
    call("cuStreamSynchronize", || stream(on))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuStreamWaitEvent(on: Opaque, of: Opaque, _flags: c_uint) -> Code {
    call("cuStreamWaitEvent", || stream(on).and_then(|()| event(of)))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuEventCreate(made: Out<'_, Opaque>, _flags: c_uint) -> Code {
    call("cuEventCreate", || {
        machine().current_device()?;
        put(made, machine().create(Object::Event), cuda::INVALID_VALUE)
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuEventDestroy_v2(made: Opaque) -> Code {
    let destroy = || machine().destroy(made, |object| matches!(object, Object::Event)).ok_or(cuda::INVALID_HANDLE);
    call("cuEventDestroy_v2", destroy)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuEventRecord(of: Opaque, on: Opaque) -> Code {
    call("cuEventRecord", || stream(on).and_then(|()| event(of)))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuEventSynchronize(of: Opaque) -> Code {
    call("cuEventSynchronize", || event(of))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuEventQuery(of: Opaque) -> Code {
    call("cuEventQuery", || event(of))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemGetInfo_v2(free: Out<'_, usize>, total: Out<'_, usize>) -> Code {
    let get = || put(free, TOTAL, cuda::INVALID_VALUE).and_then(|()| put(total, TOTAL, cuda::INVALID_VALUE));
    call("cuMemGetInfo_v2", get)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemAllocAsync(address: Out<'_, u64>, bytes: usize, on: Opaque) -> Code {
    call("cuMemAllocAsync", || {
        stream(on)?;
        put(address, machine().alloc(bytes)?, cuda::INVALID_VALUE)
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemFreeAsync(address: u64, on: Opaque) -> Code {
    call("cuMemFreeAsync", || stream(on).and_then(|()| machine().free(address)))
}

/// # Safety
/// `from` has `bytes` bytes.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, bytes: usize, on: Opaque) -> Code {
    call("cuMemcpyHtoDAsync_v2", || {
        stream(on)?;
        let (mut machine, from) = (machine(), from.cast::<u8>());
        let to = machine.bytes(to, bytes, None).filter(|_| !from.is_null()).ok_or(cuda::INVALID_VALUE)?;
        // SAFETY: `from` has as many bytes as `to`, which belongs to this library.
        unsafe { from.copy_to_nonoverlapping(to.as_mut_ptr(), bytes) };
        Ok(())
    })
}

/// # Safety
/// `to` has room for `bytes` bytes.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, bytes: usize, on: Opaque) -> Code {
    call("cuMemcpyDtoHAsync_v2", || {
        stream(on)?;
        let (mut machine, to) = (machine(), to.cast::<u8>());
        let from = machine.bytes(from, bytes, None).filter(|_| !to.is_null()).ok_or(cuda::INVALID_VALUE)?;
        // SAFETY: `to` has room for as many bytes as `from` has, which belongs to this library.
        unsafe { to.copy_from_nonoverlapping(from.as_ptr(), bytes) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, on: Opaque) -> Code {
    call("cuMemcpyDtoDAsync_v2", || {
        stream(on)?;
        let mut machine = machine();
        let copy = machine.bytes(from, bytes, None).ok_or(cuda::INVALID_VALUE)?.to_vec();
        machine.bytes(to, bytes, None).ok_or(cuda::INVALID_VALUE)?.copy_from_slice(&copy);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemsetD8Async(to: u64, value: u8, bytes: usize, on: Opaque) -> Code {
    call("cuMemsetD8Async", || {
        stream(on)?;
        machine().bytes(to, bytes, None).ok_or(cuda::INVALID_VALUE)?.fill(value);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuGetErrorName(code: Code, name: Out<'_, *const c_char>) -> Code {
    put(name, described(code).as_ptr(), cuda::INVALID_VALUE).err().unwrap_or(0)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuGetErrorString(code: Code, text: Out<'_, *const c_char>) -> Code {
    put(text, described(code).as_ptr(), cuda::INVALID_VALUE).err().unwrap_or(0)
}

const fn described(code: Code) -> &'static CStr {
    match code {
        0 => c"no error",
        cuda::INVALID_VALUE => c"invalid argument",
        cuda::OUT_OF_MEMORY => c"out of memory",
        cuda::NO_DEVICE => c"no CUDA-capable device is detected",
        cuda::INVALID_DEVICE => c"invalid device ordinal",
        cuda::INVALID_CONTEXT => c"invalid device context",
        cuda::INVALID_HANDLE => c"invalid resource handle",
        cuda::LAUNCH_FAILED => c"unspecified launch failure",
        _ => c"unknown error",
    }
}
