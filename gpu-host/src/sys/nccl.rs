//! NCCL: sums over several GPUs, each of which is another process's. Its functions are loaded as cuDNN's are: `cudarc` looks
//! for it under numbers that it does not have, and panics.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::mem::ManuallyDrop;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use super::compute::to_write;
use super::{Element, Values, failed};
use crate::device::Device;
use crate::library::{Needed, open, symbol};
use crate::status::GpuError;

/// `ncclFloat32` and `ncclSum`.
const FLOAT: c_int = 7;
const SUM: c_int = 0;
/// `ncclInProgress`
const IN_PROGRESS: c_int = 7;

/// `ncclConfig_t` of NCCL 2.14, which later ones read too.
#[repr(C)]
struct Config {
    size: usize,
    magic: c_uint,
    version: c_uint,
    blocking: c_int,
}

impl Config {
    /// Calls come back at once, and [`Nccl::wait`] waits for what they have begun.
    const NOT_BLOCKING: Self = Self { size: size_of::<Self>(), magic: 0xcafe_beef, version: 21_400, blocking: 0 };
}

/// `ncclUniqueId`: what the processes of a training find each other by.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct UniqueId([u8; 128]);

impl UniqueId {
    /// Bytes that another process may be told.
    pub const fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Of another process.
    ///
    /// # Errors
    /// If they are none's.
    pub fn of(bytes: &[u8]) -> Result<Self, GpuError> {
        let refused = GpuError::Buffer { what: "NCCL's id", found: bytes.len(), needed: 128 };
        bytes.try_into().map(Self).map_err(|_| refused)
    }
}

type Comm = *mut c_void;

/// An NCCL that is loaded, and on no device yet.
pub struct Library {
    unique_id: unsafe extern "C" fn(*mut UniqueId) -> c_int,
    init_rank: unsafe extern "C" fn(*mut Comm, c_int, UniqueId, c_int, *mut Config) -> c_int,
    all_reduce: unsafe extern "C" fn(*const c_void, *mut c_void, usize, c_int, c_int, Comm, *mut c_void) -> c_int,
    async_error: unsafe extern "C" fn(Comm, *mut c_int) -> c_int,
    abort: unsafe extern "C" fn(Comm) -> c_int,
    error_string: unsafe extern "C" fn(c_int) -> *const c_char,
    /// It stays in memory: from the first id on threads of its own run in it.
    _library: ManuallyDrop<libloading::Library>,
}

impl Library {
    /// Loads it.
    ///
    /// # Errors
    /// If there is no NCCL, or it lacks a function.
    pub fn load() -> Result<Self, GpuError> {
        let (library, file) = open(Needed::Nccl, Needed::Nccl.files())?;
        // SAFETY: the types above are those of NCCL 2.14's header, with enums as C has them. The library is never closed.
        unsafe {
            Ok(Self {
                unique_id: symbol(&library, &file, "ncclGetUniqueId")?,
                init_rank: symbol(&library, &file, "ncclCommInitRankConfig")?,
                all_reduce: symbol(&library, &file, "ncclAllReduce")?,
                async_error: symbol(&library, &file, "ncclCommGetAsyncError")?,
                abort: symbol(&library, &file, "ncclCommAbort")?,
                error_string: symbol(&library, &file, "ncclGetErrorString")?,
                _library: ManuallyDrop::new(library),
            })
        }
    }

    /// What rank 0 tells the others.
    ///
    /// # Errors
    /// If NCCL refuses.
    pub fn unique_id(&self) -> Result<UniqueId, GpuError> {
        let mut id = UniqueId([0; 128]);
        // SAFETY: the id outlives the call.
        self.of("ncclGetUniqueId", unsafe { (self.unique_id)(&mut id) })?;
        Ok(id)
    }

    fn of(&self, call: &'static str, result: c_int) -> Result<(), GpuError> {
        if result == 0 {
            return Ok(());
        }
        // SAFETY: NCCL gives a text that stays, for every number.
        let reason = unsafe { CStr::from_ptr((self.error_string)(result)) }.to_string_lossy().into_owned();
        Err(GpuError::Nccl { call, reason })
    }
}

/// The GPUs of a training, of which one is this process's.
pub struct Nccl {
    comm: Comm,
    /// As many numbers as were added up last.
    values: Values,
    device: Device,
    limit: Duration,
    library: Library,
}

impl Nccl {
    /// Meets the others: `size` processes call this, each with its `rank` and another GPU. It waits for them for so long, here and
    /// in sums.
    ///
    /// # Errors
    /// If the device fails, NCCL refuses, or others do not come within this time.
    pub fn new(
        library: Library,
        device: &Device,
        (rank, size): (usize, usize),
        id: UniqueId,
        limit: Duration,
    ) -> Result<Self, GpuError> {
        device.handle().bind()?;
        let values = device.handle().values(Element::F32, 1)?;
        let count = |found| c_int::try_from(found).map_err(|_| GpuError::Count { what: "a rank", found });
        let (rank, size) = (count(rank)?, count(size)?);
        let (mut comm, mut config) = (null_mut(), Config::NOT_BLOCKING);
        // SAFETY: `comm` and `config`, which is copied, outlive the call; the device is the thread's.
        let result = unsafe { (library.init_rank)(&mut comm, size, id, rank, &mut config) };
        let nccl = Self { comm, values, device: device.clone(), limit, library };
        nccl.wait("ncclCommInitRankConfig", result, || Ok(true))?;
        Ok(nccl)
    }

    /// Waits until NCCL has begun what `call` asked for, which gave `result`, and it is `done`. One that dies leaves the others in
    /// it.
    fn wait(
        &self,
        call: &'static str,
        mut result: c_int,
        done: impl Fn() -> Result<bool, GpuError>,
    ) -> Result<(), GpuError> {
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
                    format!("another process has said nothing for {seconds} s: see what it said, and start all again");
                return Err(GpuError::Nccl { call, reason });
            }
            std::thread::yield_now();
            // SAFETY: what is under way has its `comm`; `result` outlives the call.
            self.library.of("ncclCommGetAsyncError", unsafe { (self.library.async_error)(self.comm, &mut result) })?;
        }
    }

    /// The sum over all processes, in place.
    ///
    /// # Errors
    /// If the device or NCCL fails, or others do not come to the end in time.
    pub fn sum(&mut self, values: &mut [f32]) -> Result<(), GpuError> {
        let handle = self.device.handle();
        if self.values.len() != values.len() {
            self.values = handle.values(Element::F32, values.len())?;
        }
        handle.write("the gradient", values, &mut self.values)?;
        let on_device = to_write(&mut self.values.bytes);
        // SAFETY: as many numbers are on the device, on the stream on which they are added up and read behind that.
        let result = unsafe {
            let stream = handle.stream().cu_stream().cast();
            (self.library.all_reduce)(on_device, on_device, values.len(), FLOAT, SUM, self.comm, stream)
        };
        self.wait("ncclAllReduce", result, || Ok(true))?;
        let end = handle.stream().record_event(None).map_err(failed("cuEventRecord"))?;
        self.wait("ncclAllReduce", 0, || end.try_is_complete().map_err(failed("cuEventQuery")))?;
        values.copy_from_slice(&handle.read(&self.values)?);
        Ok(())
    }
}

impl Drop for Nccl {
    fn drop(&mut self) {
        // SAFETY: `init_rank` made it, or left it null, and nobody else ends it. To abort does not wait for others, who may be
        // gone, but ends what does; the numbers of a sum are on the device until after this.
        let _ = unsafe { (self.library.abort)(self.comm) };
    }
}
