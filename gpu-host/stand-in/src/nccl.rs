//! NCCL between processes of one machine: every rank has a socket to rank 0, which adds up in the order of ranks and gives all the
//! same bits. Nobody waits longer than [`LIMIT`].
#![expect(unsafe_code, reason = "what C calls has an unmangled name")]

use std::collections::BTreeMap;
use std::ffi::{CStr, OsStr, c_char, c_int, c_uint, c_void};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::machine::{Element, machine};
use crate::{Code, Opaque, Out, asked, call, put};

/// `ncclUnhandledCudaError`
const CUDA_ERROR: Code = 1;
/// `ncclSystemError`
pub const SYSTEM_ERROR: Code = 2;
/// `ncclInvalidArgument`
const INVALID_ARGUMENT: Code = 4;
/// `ncclInvalidUsage`
const INVALID_USAGE: Code = 5;
/// 2.99.0, which is nobody's.
const VERSION: c_int = 29_900;
/// `ncclFloat32`
const FLOAT: c_uint = 7;
/// `ncclSum`
const SUM: c_uint = 0;
/// How long a rank waits for another.
const LIMIT: Duration = Duration::from_secs(60);
/// Between two looks for another that is not there yet.
const PAUSE: Duration = Duration::from_millis(2);

/// `ncclUniqueId`: the path of rank 0's socket, zeros behind it.
#[derive(Clone, Copy)]
#[repr(C)]
struct UniqueId([u8; 128]);

/// A rank's way to the others.
struct Comm {
    device: c_int,
    /// Of rank 0 all others, in their order; of another rank 0 alone.
    peers: Vec<UnixStream>,
    is_first: bool,
}

/// Ways to others, or why rank 0 will have none of them.
type Peers = Result<Vec<UnixStream>, Code>;

/// By their handles.
static COMMS: Mutex<BTreeMap<usize, Arc<Mutex<Comm>>>> = Mutex::new(BTreeMap::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Looks again and again, for so long.
fn wait_for<T>(mut look: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let started = Instant::now();
    loop {
        match look() {
            Err(error) if started.elapsed() > LIMIT => return Err(error),
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::NotFound | ErrorKind::ConnectionRefused | ErrorKind::WouldBlock
                ) =>
            {
                sleep(PAUSE);
            }
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

/// Rank 0: everybody tells its rank and device, and is told whether all is well. No two ranks may have the same device.
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

/// Another rank.
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

/// As many as there are here, or nothing.
fn receive(from: &mut UnixStream, values: &mut [f32]) -> io::Result<()> {
    let mut len = [0; 8];
    from.read_exact(&mut len)?;
    if u64::from_le_bytes(len) != values.len() as u64 {
        return Err(io::Error::new(ErrorKind::InvalidData, "ranks reduce different numbers of values"));
    }
    from.read_exact(bytemuck::cast_slice_mut(values))
}

/// The sum of all ranks' values, in place.
fn reduce(comm: &mut Comm, values: &mut [f32]) -> io::Result<()> {
    if !comm.is_first {
        let mut first = comm.peers.iter_mut();
        return first.try_for_each(|first| send(first, values).and_then(|()| receive(first, values)));
    }
    let mut other = vec![0.0; values.len()];
    for peer in &mut comm.peers {
        receive(peer, &mut other)?;
        values.iter_mut().zip(&other).for_each(|(sum, value)| *sum += value);
    }
    comm.peers.iter_mut().try_for_each(|peer| send(peer, values))
}

#[unsafe(no_mangle)]
extern "C" fn ncclGetVersion(version: Out<'_, c_int>) -> Code {
    call("ncclGetVersion", || put(version, VERSION, INVALID_ARGUMENT))
}

#[unsafe(no_mangle)]
extern "C" fn ncclGetUniqueId(id: Out<'_, UniqueId>) -> Code {
    call("ncclGetUniqueId", || {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        let path = std::env::temp_dir().join(format!("tidegate-{}-{now}", std::process::id()));
        let (bytes, mut own) = (path.as_os_str().as_bytes(), [0; 128]);
        own.get_mut(..bytes.len()).ok_or(SYSTEM_ERROR)?.copy_from_slice(bytes);
        put(id, UniqueId(own), INVALID_ARGUMENT)
    })
}

#[unsafe(no_mangle)]
extern "C" fn ncclCommInitRank(made: Out<'_, usize>, ranks: c_int, id: UniqueId, rank: c_int) -> Code {
    call("ncclCommInitRank", || {
        if !(0..ranks).contains(&rank) {
            return Err(INVALID_ARGUMENT);
        }
        let device = machine().current_device().map_err(|_| CUDA_ERROR)?;
        let len = id.0.iter().position(|&byte| byte == 0).unwrap_or(id.0.len());
        let path = Path::new(OsStr::from_bytes(&id.0[..len]));
        let peers = match (rank, ranks) {
            (_, 1) => Ok(Ok(Vec::new())),
            (0, _) => gather(path, ranks as usize, device),
            _ => join(path, rank, device),
        };
        let peers = peers.map_err(|_| SYSTEM_ERROR)??;
        let comm = Arc::new(Mutex::new(Comm { device, peers, is_first: rank == 0 }));
        let handle = Arc::as_ptr(&comm).addr();
        lock(&COMMS).insert(handle, comm);
        put(made, handle, INVALID_ARGUMENT)
    })
}

#[unsafe(no_mangle)]
extern "C" fn ncclAllReduce(
    from: *const c_void,
    to: *mut c_void,
    count: usize,
    data_type: c_uint,
    operation: c_uint,
    comm: Opaque,
    stream: Opaque,
) -> Code {
    call("ncclAllReduce", || {
        let comm = lock(&COMMS).get(&comm.addr()).cloned().ok_or(INVALID_ARGUMENT)?;
        let mut comm = lock(&comm);
        if (data_type, operation) != (FLOAT, SUM) || !machine().is_stream(stream) {
            return Err(INVALID_ARGUMENT);
        }
        // The others of this process may go on meanwhile.
        let values = machine().floats(Element::F32, from.addr() as u64, count, comm.device);
        let mut values = values.ok_or(INVALID_ARGUMENT)?;
        machine().words(to.addr() as u64, count, comm.device).ok_or(INVALID_ARGUMENT)?;
        reduce(&mut comm, &mut values).map_err(|_| SYSTEM_ERROR)?;
        if asked("TIDEGATE_STAND_IN_SUMS", "apart") {
            values.iter_mut().for_each(|sum| *sum *= 1.001);
        }
        machine().put_floats(Element::F32, to.addr() as u64, &values, comm.device).ok_or(INVALID_ARGUMENT)
    })
}

#[unsafe(no_mangle)]
extern "C" fn ncclCommDestroy(comm: Opaque) -> Code {
    call("ncclCommDestroy", || lock(&COMMS).remove(&comm.addr()).map(drop).ok_or(INVALID_ARGUMENT))
}

#[unsafe(no_mangle)]
extern "C" fn ncclCommAbort(comm: Opaque) -> Code {
    call("ncclCommAbort", || lock(&COMMS).remove(&comm.addr()).map(drop).ok_or(INVALID_ARGUMENT))
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

    /// The code of a rank's last call, and what came of its values; it goes without a sum if it has none.
    fn rank(id: UniqueId, rank: c_int, device: c_int, values: &[f32]) -> (Code, Vec<f32>) {
        let context = machine().retain(device);
        machine().set_current(context).unwrap();
        let mut comm = MaybeUninit::new(0);
        let code = ncclCommInitRank(Some(&mut comm), 3, id, rank);
        // SAFETY: it was written to before.
        let comm = without_provenance_mut(unsafe { comm.assume_init() });
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
        let code = reduce(values.len());
        assert_eq!((ncclCommDestroy(comm), ncclCommDestroy(comm)), (0, INVALID_ARGUMENT));
        (code, machine().floats(Element::F32, address, values.len(), device).unwrap())
    }

    /// Device and values of each rank.
    fn all(of: [(c_int, &[f32]); 3]) -> [(Code, Vec<f32>); 3] {
        let mut id = MaybeUninit::new(UniqueId([0; 128]));
        assert_eq!(ncclGetUniqueId(Some(&mut id)), 0);
        // SAFETY: it was written to.
        let id = unsafe { id.assume_init() };
        std::thread::scope(|scope| {
            let mut number = 0;
            let run = of.map(|(device, values)| {
                let own = number;
                number += 1;
                scope.spawn(move || rank(id, own, device, values))
            });
            run.map(|run| run.join().unwrap())
        })
    }

    /// Another order of ranks would give another sum.
    #[test]
    fn all_ranks_have_the_same_sum_in_the_order_of_ranks() {
        let (big, small): (f32, f32) = (1e8, 1.0);
        let needed = vec![(big + small) - big, 7.0];
        assert_ne!(needed[0], (big - big) + small);
        let found = all([(0, &[big, 1.0]), (1, &[small, 2.0]), (2, &[-big, 4.0])]);
        assert_eq!(found, [(0, needed.clone()), (0, needed.clone()), (0, needed)]);
    }

    #[test]
    fn nobody_waits_for_a_rank_that_has_gone() {
        let found = all([(0, &[1.0]), (1, &[]), (2, &[1.0])]).map(|(code, _)| code);
        assert_eq!(found, [SYSTEM_ERROR, 0, SYSTEM_ERROR]);
    }

    #[test]
    fn two_ranks_of_one_device_are_refused() {
        let found = all([(0, &[1.0]), (1, &[1.0]), (1, &[1.0])]).map(|(code, _)| code);
        assert_eq!(found, [INVALID_USAGE; 3]);
    }
}
