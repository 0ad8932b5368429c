//! NCCL between processes of one machine: every rank has a socket to rank 0, which sums in the order of ranks and sends
//! the same bits to all. No wait exceeds [`LIMIT`]. Calls that wait for other ranks return immediately, like those of a
//! non-blocking communicator, and finish on another thread.
#![expect(unsafe_code, reason = "exported functions have unmangled names")]

use std::collections::BTreeMap;
use std::ffi::{CStr, OsStr, c_char, c_int, c_uint, c_void};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::machine::{Element, machine};
use crate::{Code, Opaque, Out, asked, need, put};

/// `ncclUnhandledCudaError`
const CUDA_ERROR: Code = 1;
/// `ncclSystemError`
pub const SYSTEM_ERROR: Code = 2;
/// `ncclInvalidArgument`
const INVALID_ARGUMENT: Code = 4;
/// `ncclInvalidUsage`
const INVALID_USAGE: Code = 5;
/// `ncclInProgress`
const IN_PROGRESS: Code = 7;
/// 2.99.0, which does not exist.
const VERSION: c_int = 29_900;
/// `ncclFloat32`
const FLOAT: c_uint = 7;
/// `ncclSum`
const SUM: c_uint = 0;
/// Time limit for other ranks.
const LIMIT: Duration = Duration::from_secs(60);
/// Pause between attempts to connect.
const PAUSE: Duration = Duration::from_millis(2);

/// `ncclUniqueId`: the path of rank 0's socket, padded with zeros.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct UniqueId([u8; 128]);

/// `ncclConfig_t` of NCCL 2.14.
#[derive(PartialEq)]
#[repr(C)]
pub struct Config {
    size: usize,
    magic: c_uint,
    version: c_uint,
    blocking: c_int,
}

/// The only supported configuration: calls return immediately.
const CONFIG: Config = Config { size: size_of::<Config>(), magic: 0xcafe_beef, version: 21_400, blocking: 0 };

/// A communicator: a rank's connections to the others.
struct Comm {
    device: c_int,
    is_first: bool,
    /// On rank 0 the connections to all other ranks, in order; on any other rank the connection to rank 0.
    peers: Mutex<Vec<UnixStream>>,
    state: AtomicI32,
}

impl Comm {
    /// Starts work that waits for other ranks.
    fn begin(self: Arc<Self>, work: impl FnOnce(&Self) -> Result<(), Code> + Send + 'static) -> Result<(), Code> {
        self.state.store(IN_PROGRESS, Ordering::Release);
        std::thread::spawn(move || self.state.store(work(&self).err().unwrap_or(0), Ordering::Release));
        Err(IN_PROGRESS)
    }
}

/// Connections to other ranks, or the verdict of rank 0 against them.
type Peers = Result<Vec<UnixStream>, Code>;

static COMMS: Mutex<BTreeMap<usize, Arc<Comm>>> = Mutex::new(BTreeMap::new());

fn comm(handle: Opaque) -> Result<Arc<Comm>, Code> {
    lock(&COMMS).get(&handle.addr()).cloned().ok_or(INVALID_ARGUMENT)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Repeats `look` until it succeeds or the time limit is exceeded.
fn wait_for<T>(mut look: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    use ErrorKind::{ConnectionRefused, NotFound, WouldBlock};

    let started = Instant::now();
    loop {
        match look() {
            Err(error) if started.elapsed() > LIMIT => return Err(error),
            Err(error) if matches!(error.kind(), NotFound | ConnectionRefused | WouldBlock) => sleep(PAUSE),
            found => return found,
        }
    }
}

fn limited(stream: UnixStream) -> io::Result<UnixStream> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.set_write_timeout(Some(LIMIT))?;
    Ok(stream)
}

/// Rank 0: receives the rank and device of every other rank, and answers whether all are valid. No two may use the same
/// device.
fn gather(path: &Path, ranks: usize, device: c_int) -> io::Result<Peers> {
    let listener = UnixListener::bind(path)?;
    let found = meet(&listener, ranks, device);
    std::fs::remove_file(path)?;
    found
}

fn meet(listener: &UnixListener, ranks: usize, device: c_int) -> io::Result<Peers> {
    listener.set_nonblocking(true)?;
    let mut peers = BTreeMap::new();
    let mut devices = vec![device];
    let mut verdict = 0;
    for _ in 1..ranks {
        let mut peer = limited(wait_for(|| listener.accept())?.0)?;
        let mut words = [[0; 4]; 2];
        peer.read_exact(words.as_flattened_mut())?;
        let [rank, device] = words.map(i32::from_le_bytes);
        let twice = peers.insert(rank, peer).is_some();
        if twice || devices.contains(&device) {
            verdict = INVALID_USAGE;
        }
        devices.push(device);
    }
    peers.values_mut().try_for_each(|peer| peer.write_all(&verdict.to_le_bytes()))?;
    Ok(if verdict == 0 { Ok(peers.into_values().collect()) } else { Err(verdict) })
}

/// All other ranks: connects to rank 0.
fn join(path: &Path, rank: c_int, device: c_int) -> io::Result<Peers> {
    let mut first = limited(wait_for(|| UnixStream::connect(path))?)?;
    first.write_all([rank.to_le_bytes(), device.to_le_bytes()].as_flattened())?;
    let mut verdict = [0; 4];
    first.read_exact(&mut verdict)?;
    let verdict = i32::from_le_bytes(verdict);
    Ok(if verdict == 0 { Ok(vec![first]) } else { Err(verdict) })
}

fn send(to: &mut UnixStream, values: &[f32]) -> io::Result<()> {
    to.write_all(&(values.len() as u64).to_le_bytes())?;
    to.write_all(bytemuck::cast_slice(values))
}

/// Receives exactly as many values as this rank has.
fn receive(from: &mut UnixStream, values: &mut [f32]) -> io::Result<()> {
    let mut len = [0; 8];
    from.read_exact(&mut len)?;
    if u64::from_le_bytes(len) != values.len() as u64 {
        return Err(io::Error::new(ErrorKind::InvalidData, "ranks reduce different numbers of values"));
    }
    from.read_exact(bytemuck::cast_slice_mut(values))
}

/// Sums the values of all ranks, in place.
fn reduce(comm: &Comm, values: &mut [f32]) -> io::Result<()> {
    let mut peers = lock(&comm.peers);
    if !comm.is_first {
        let mut first = peers.iter_mut();
        return first.try_for_each(|first| send(first, values).and_then(|()| receive(first, values)));
    }
    let mut other = vec![0.0; values.len()];
    for peer in &mut *peers {
        receive(peer, &mut other)?;
        values.iter_mut().zip(&other).for_each(|(sum, value)| *sum += value);
    }
    peers.iter_mut().try_for_each(|peer| send(peer, values))
}

export! {
    fn ncclGetVersion(version: Out<'_, c_int>) { put(version, VERSION, INVALID_ARGUMENT) }

    fn ncclGetUniqueId(id: Out<'_, UniqueId>) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        let path = std::env::temp_dir().join(format!("tidegate-{}-{now}", std::process::id()));
        let (bytes, mut own) = (path.as_os_str().as_bytes(), [0; 128]);
        own.get_mut(..bytes.len()).ok_or(SYSTEM_ERROR)?.copy_from_slice(bytes);
        put(id, UniqueId(own), INVALID_ARGUMENT)
    }

    fn ncclCommInitRankConfig(
        made: Out<'_, usize>, ranks: c_int, id: UniqueId, rank: c_int, config: Option<&Config>,
    ) {
        need((0..ranks).contains(&rank) && config == Some(&CONFIG), INVALID_ARGUMENT)?;
        let device = machine().current_device().map_err(|_| CUDA_ERROR)?;
        let (peers, state) = (Mutex::default(), AtomicI32::new(0));
        let comm = Arc::new(Comm { device, is_first: rank == 0, peers, state });
        let handle = Arc::as_ptr(&comm).addr();
        lock(&COMMS).insert(handle, comm.clone());
        put(made, handle, INVALID_ARGUMENT)?;
        comm.begin(move |comm| {
            let len = id.0.iter().position(|&byte| byte == 0).unwrap_or(id.0.len());
            let path = Path::new(OsStr::from_bytes(&id.0[..len]));
            let peers = match (rank, ranks) {
                (_, 1) => Ok(Ok(Vec::new())),
                (0, _) => gather(path, ranks as usize, device),
                _ => join(path, rank, device),
            };
            *lock(&comm.peers) = peers.map_err(|_| SYSTEM_ERROR)??;
            Ok(())
        })
    }

    fn ncclCommGetAsyncError(of: Opaque, state: Out<'_, Code>) {
        put(state, comm(of)?.state.load(Ordering::Acquire), INVALID_ARGUMENT)
    }

    fn ncclAllReduce(
        from: *const c_void, to: *mut c_void, count: usize, data_type: c_uint, operation: c_uint,
        of: Opaque, stream: Opaque,
    ) {
        let (comm, from, to) = (comm(of)?, from.addr() as u64, to.addr() as u64);
        need((data_type, operation) == (FLOAT, SUM) && machine().is_stream(stream), INVALID_ARGUMENT)?;
        // A call before the last one is finished is refused.
        need(comm.state.load(Ordering::Acquire) == 0, INVALID_USAGE)?;
        let values = machine().floats(Element::F32, from, count, comm.device);
        let mut values = values.ok_or(INVALID_ARGUMENT)?;
        machine().words(to, count, comm.device).ok_or(INVALID_ARGUMENT)?;
        comm.begin(move |comm| {
            reduce(comm, &mut values).map_err(|_| SYSTEM_ERROR)?;
            if asked("TIDEGATE_STAND_IN_SUMS", "apart") {
                values.iter_mut().for_each(|sum| *sum *= 1.001);
            }
            machine().put_floats(Element::F32, to, &values, comm.device).ok_or(INVALID_ARGUMENT)
        })
    }

    fn ncclCommDestroy(comm: Opaque) { lock(&COMMS).remove(&comm.addr()).map(drop).ok_or(INVALID_ARGUMENT) }
    fn ncclCommAbort(comm: Opaque) { lock(&COMMS).remove(&comm.addr()).map(drop).ok_or(INVALID_ARGUMENT) }
}

#[unsafe(no_mangle)]
extern "C" fn ncclGetErrorString(code: Code) -> *const c_char {
    let text: &CStr = match code {
        0 => c"no error",
        CUDA_ERROR => c"unhandled cuda error",
        SYSTEM_ERROR => c"unhandled system error",
        INVALID_ARGUMENT => c"invalid argument",
        INVALID_USAGE => c"invalid usage",
        _ => c"unknown result code",
    };
    text.as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::MaybeUninit;
    use std::ptr::{null_mut, without_provenance, without_provenance_mut};

    /// Waits for the result of the last call.
    fn end(comm: Opaque) -> Code {
        let mut state = MaybeUninit::new(IN_PROGRESS);
        loop {
            assert_eq!(ncclCommGetAsyncError(comm, Some(&mut state)), 0);
            // SAFETY: `state` was initialized above.
            match unsafe { state.assume_init() } {
                IN_PROGRESS => sleep(PAUSE),
                code => return code,
            }
        }
    }

    /// Runs a rank. Returns the code of its last call and its sums. Without values it leaves before the sum.
    fn rank(id: UniqueId, rank: c_int, device: c_int, values: &[f32]) -> (Code, Vec<f32>) {
        let context = machine().retain(device);
        machine().set_current(context).unwrap();
        let mut comm = MaybeUninit::new(0);
        assert_eq!(ncclCommInitRankConfig(Some(&mut comm), 3, id, rank, Some(&CONFIG)), IN_PROGRESS);
        // SAFETY: `comm` was initialized above.
        let comm = without_provenance_mut(unsafe { comm.assume_init() });
        let code = end(comm);
        if code != 0 || values.is_empty() {
            ncclCommDestroy(comm);
            return (code, Vec::new());
        }
        let address = machine().alloc(4 * values.len()).unwrap();
        machine().put_floats(Element::F32, address, values, device).unwrap();
        let reduce = |count| {
            let at = address as usize;
            ncclAllReduce(without_provenance(at), without_provenance_mut(at), count, FLOAT, SUM, comm, null_mut())
        };
        assert_eq!(reduce(values.len() + 1), INVALID_ARGUMENT);
        assert_eq!(reduce(values.len()), IN_PROGRESS);
        let code = end(comm);
        assert_eq!((ncclCommDestroy(comm), ncclCommDestroy(comm)), (0, INVALID_ARGUMENT));
        (code, machine().floats(Element::F32, address, values.len(), device).unwrap())
    }

    /// Runs three ranks with these devices and values.
    fn all(of: [(c_int, &[f32]); 3]) -> [(Code, Vec<f32>); 3] {
        let mut id = MaybeUninit::new(UniqueId([0; 128]));
        assert_eq!(ncclGetUniqueId(Some(&mut id)), 0);
        // SAFETY: `id` was initialized above.
        let id = unsafe { id.assume_init() };
        std::thread::scope(|scope| {
            let mut numbers = 0..;
            let run = of.map(|(device, values)| {
                let number = numbers.next().unwrap();
                scope.spawn(move || rank(id, number, device, values))
            });
            run.map(|run| run.join().unwrap())
        })
    }

    /// The values are such that another order gives another sum.
    #[test]
    fn all_ranks_get_the_sum_in_the_order_of_ranks() {
        let (big, small): (f32, f32) = (1e8, 1.0);
        let needed = vec![(big + small) - big, 7.0];
        assert_ne!(needed[0], (big - big) + small);
        let found = all([(0, &[big, 1.0]), (1, &[small, 2.0]), (2, &[-big, 4.0])]);
        assert_eq!(found, [(0, needed.clone()), (0, needed.clone()), (0, needed)]);
    }

    #[test]
    fn a_rank_that_leaves_does_not_block_the_others() {
        let found = all([(0, &[1.0]), (1, &[]), (2, &[1.0])]).map(|(code, _)| code);
        assert_eq!(found, [SYSTEM_ERROR, 0, SYSTEM_ERROR]);
    }

    #[test]
    fn two_ranks_on_one_device_are_refused() {
        let found = all([(0, &[1.0]), (1, &[1.0]), (1, &[1.0])]).map(|(code, _)| code);
        assert_eq!(found, [INVALID_USAGE; 3]);
    }
}
