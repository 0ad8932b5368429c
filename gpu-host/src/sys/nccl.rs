//! NCCL: sums over several GPUs, each in its own process. Its functions are loaded like cuDNN's, because `cudarc` looks
//! for library versions that do not exist, and panics.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::mem::ManuallyDrop;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use super::compute::to_write;
use super::{Element, Result, Values, failed};
use crate::device::Device;
use crate::library::{Needed, functions, open};
use crate::status::GpuError;

/// `ncclFloat32`, and below `ncclSum`.
const FLOAT: c_int = 7;
const SUM: c_int = 0;
/// `ncclInProgress`
const IN_PROGRESS: c_int = 7;

/// `ncclConfig_t` of NCCL 2.14, which later versions accept too.
#[repr(C)]
struct Config {
    size: usize,
    magic: c_uint,
    version: c_uint,
    blocking: c_int,
}

impl Config {
    /// Calls return immediately; [`Nccl::wait`] waits for them.
    const NOT_BLOCKING: Self = Self { size: size_of::<Self>(), magic: 0xcafe_beef, version: 21_400, blocking: 0 };
}

/// `ncclUniqueId`, by which the processes of a training find each other.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct UniqueId(pub [u8; 128]);

impl UniqueId {
    pub fn of(bytes: &[u8]) -> Result<Self> {
        let refused = GpuError::Buffer { what: "NCCL's id", found: bytes.len(), needed: 128 };
        bytes.try_into().map(Self).map_err(|_| refused)
    }
}

type Comm = *mut c_void;

functions! {
    /// The functions of NCCL 2.14 that are called. C enums are passed as `c_int`.
    struct Functions;
    fn ncclGetUniqueId(id: *mut UniqueId) -> c_int;
    fn ncclCommInitRankConfig(made: *mut Comm, size: c_int, id: UniqueId, rank: c_int, config: *mut Config) -> c_int;
    fn ncclAllReduce(
        from: *const c_void, to: *mut c_void, count: usize, data_type: c_int, operation: c_int,
        comm: Comm, stream: *mut c_void,
    ) -> c_int;
    fn ncclCommGetAsyncError(comm: Comm, state: *mut c_int) -> c_int;
    fn ncclCommAbort(comm: Comm) -> c_int;
    fn ncclGetErrorString(result: c_int) -> *const c_char;
}

/// A loaded NCCL that is not yet connected.
pub struct Library {
    functions: Functions,
    /// Never unloaded: from the first id on, NCCL runs threads of its own.
    _library: ManuallyDrop<libloading::Library>,
}

impl Library {
    pub fn load() -> Result<Self> {
        let (library, file) = open(Needed::Nccl)?;
        // SAFETY: the types are those of NCCL 2.14's header. The library is never closed.
        let functions = unsafe { Functions::load(&library, &file) }?;
        Ok(Self { functions, _library: ManuallyDrop::new(library) })
    }

    /// Creates the id that rank 0 sends to the others.
    pub fn unique_id(&self) -> Result<UniqueId> {
        let mut id = UniqueId([0; 128]);
        // SAFETY: the id outlives the call.
        self.of("ncclGetUniqueId", unsafe { (self.functions.ncclGetUniqueId)(&mut id) })?;
        Ok(id)
    }

    fn of(&self, call: &'static str, result: c_int) -> Result<()> {
        if result == 0 {
            return Ok(());
        }
        // SAFETY: NCCL returns a static string for every number.
        let reason = unsafe { CStr::from_ptr((self.functions.ncclGetErrorString)(result)) };
        Err(GpuError::Nccl { call, reason: reason.to_string_lossy().into_owned() })
    }
}

/// The connected GPUs of a training, seen from the process of one of them.
pub struct Nccl {
    comm: Comm,
    /// Buffer with the size of the previous sum.
    values: Values,
    device: Device,
    limit: Duration,
    library: Library,
}

impl Nccl {
    /// Connects to the others: `size` processes call this, each with its own `rank` and GPU. `limit` is the time limit
    /// for connecting and for each sum.
    pub fn new(
        library: Library,
        device: &Device,
        (rank, size): (usize, usize),
        id: UniqueId,
        limit: Duration,
    ) -> Result<Self> {
        device.handle.bind()?;
        let values = device.handle.values(Element::F32, 1)?;
        let count = |found| c_int::try_from(found).map_err(|_| GpuError::Count { what: "a rank", found });
        let (rank, size) = (count(rank)?, count(size)?);
        let (mut comm, mut config) = (null_mut(), Config::NOT_BLOCKING);
        // SAFETY: `comm` and `config`, which is copied, outlive the call; the device is current for this thread.
        let result = unsafe { (library.functions.ncclCommInitRankConfig)(&mut comm, size, id, rank, &mut config) };
        let nccl = Self { comm, values, device: device.clone(), limit, library };
        nccl.wait("ncclCommInitRankConfig", result, || Ok(true))?;
        Ok(nccl)
    }

    /// Waits until NCCL has started the operation of `call`, which returned `result`, and until `done`. If a process
    /// dies, the operations of the others never finish.
    fn wait(&self, call: &'static str, mut result: c_int, done: impl Fn() -> Result<bool>) -> Result<()> {
        let started = Instant::now();
        loop {
            if result != IN_PROGRESS {
                self.library.of(call, result)?;
                if done()? {
                    return Ok(());
                }
            }
            if started.elapsed() > self.limit {
                let seconds = self.limit.as_secs();
                let reason =
                    format!("no reply from another process for {seconds} s: see its output, and restart all ranks");
                return Err(GpuError::Nccl { call, reason });
            }
            std::thread::yield_now();
            // SAFETY: `comm` exists while an operation is in progress; `result` outlives the call.
            self.library.of("ncclCommGetAsyncError", unsafe {
                (self.library.functions.ncclCommGetAsyncError)(self.comm, &mut result)
            })?;
        }
    }

    /// Sums values over all processes, in place.
    pub fn sum(&mut self, values: &mut [f32]) -> Result<()> {
        let handle = &self.device.handle;
        if self.values.len() != values.len() {
            self.values = handle.values(Element::F32, values.len())?;
        }
        handle.write("the gradient", values, &mut self.values)?;
        let on_device = to_write(&mut self.values.bytes);
        // SAFETY: the buffer has `values.len()` elements and is on the stream on which they are summed and then read.
        let result = unsafe {
            let stream = handle.stream.cu_stream().cast();
            (self.library.functions.ncclAllReduce)(on_device, on_device, values.len(), FLOAT, SUM, self.comm, stream)
        };
        self.wait("ncclAllReduce", result, || Ok(true))?;
        let end = handle.stream.record_event(None).map_err(failed("cuEventRecord"))?;
        self.wait("ncclAllReduce", 0, || end.try_is_complete().map_err(failed("cuEventQuery")))?;
        values.copy_from_slice(&handle.read(&self.values)?);
        Ok(())
    }
}

impl Drop for Nccl {
    fn drop(&mut self) {
        // SAFETY: `ncclCommInitRankConfig` set it or left it null, and nothing else destroys it. Aborting does not wait for other
        // processes, which may be gone, but ends pending operations. The buffer of a sum is freed after this.
        let _ = unsafe { (self.library.functions.ncclCommAbort)(self.comm) };
    }
}
