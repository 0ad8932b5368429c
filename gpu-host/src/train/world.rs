//! Several processes that train one network: each learns its part of every batch, gradients are added up, and all take the same
//! step. They are told of each other as `torchrun` tells: `WORLD_SIZE`, `RANK`, `LOCAL_RANK`, `MASTER_ADDR` and `MASTER_PORT`.
//!
//! They meet at rank 0 over TCP, which is enough for CPUs; GPUs add up through NCCL. There is no secret and nothing is
//! encrypted: that network must be trusted.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// Processes begin apart: some have to be started first, or read their data more slowly.
const JOIN: Duration = Duration::from_secs(600);
/// No step takes so long.
const SILENCE: Duration = Duration::from_secs(600);
/// Who is no process of the training does not keep it waiting.
const HELLO: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(50);
const MAGIC: [u8; 8] = *b"tidegate";
/// Most bytes that are shared at once: more than any checkpoint.
const MOST: u64 = 1 << 34;

/// Why processes do not train together.
#[derive(Debug, thiserror::Error)]
pub enum WorldError {
    /// A variable of the environment.
    #[error("{name} is {found:?}, but must be {needed}: start it with torchrun, or set it")]
    Variable {
        /// Which.
        name: &'static str,
        /// What it is; nothing if it is not set.
        found: String,
        /// What is needed.
        needed: &'static str,
    },
    /// Rank 0 cannot listen.
    #[error("rank 0 cannot listen at {at}: {source}; set MASTER_PORT to a port that is free")]
    Listen {
        /// Where.
        at: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// Rank 0 is not there.
    #[error("rank 0 does not answer at {address}:{port}: {source}; see MASTER_ADDR and MASTER_PORT")]
    Join {
        /// Its address.
        address: String,
        /// Its port.
        port: u16,
        /// Why.
        source: io::Error,
    },
    /// Others have not come.
    #[error("after {seconds} s rank {missing} has not come: start as many processes as WORLD_SIZE says")]
    Absent {
        /// The first of them.
        missing: usize,
        /// Waited.
        seconds: u64,
    },
    /// Another process trains something else.
    #[error(
        "rank {rank} has other settings, data or weights: start all processes with the same command on the same files"
    )]
    Different {
        /// Which.
        rank: usize,
    },
    /// Another process is gone.
    #[error("rank {rank} is gone ({source}): see what it said, and start all again")]
    Lost {
        /// Which.
        rank: usize,
        /// Why.
        source: io::Error,
    },
}

/// Which of the processes this is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    rank: usize,
    size: usize,
    local_rank: usize,
    address: String,
    port: u16,
}

impl Default for Place {
    fn default() -> Self {
        Self { rank: 0, size: 1, local_rank: 0, address: String::new(), port: 0 }
    }
}

impl Place {
    /// What the environment says; the only process where it says nothing.
    ///
    /// # Errors
    /// If a variable is missing or not a number in its range.
    pub fn from_env() -> Result<Self, WorldError> {
        Self::told(|name| std::env::var(name).ok())
    }

    fn told(variable: impl Fn(&str) -> Option<String>) -> Result<Self, WorldError> {
        let wrong = |name, needed| WorldError::Variable { name, found: variable(name).unwrap_or_default(), needed };
        let number = |name: &'static str, needed, least: usize, most: usize| {
            let found = variable(name).and_then(|text| text.trim().parse().ok());
            found.filter(|number| (least..=most).contains(number)).ok_or_else(|| wrong(name, needed))
        };
        if variable("WORLD_SIZE").is_none() {
            return Ok(Self::default());
        }
        let size = number("WORLD_SIZE", "a number from 1 to 65536", 1, 1 << 16)?;
        if size == 1 {
            return Ok(Self::default());
        }
        let rank = number("RANK", "a number below WORLD_SIZE", 0, size - 1)?;
        let local_rank = match variable("LOCAL_RANK") {
            Some(_) => number("LOCAL_RANK", "the number of a GPU, from 0", 0, 1 << 10)?,
            None => 0,
        };
        let address = variable("MASTER_ADDR").filter(|address| !address.is_empty());
        let address = address.ok_or_else(|| wrong("MASTER_ADDR", "the name or address of rank 0's machine"))?;
        let port = number("MASTER_PORT", "a port from 1 to 65534", 1, 65_534)? as u16;
        // Then torchrun itself listens at it.
        let taken = variable("TORCHELASTIC_USE_AGENT_STORE").is_some_and(|text| text == "True");
        Ok(Self { rank, size, local_rank, address, port: port + u16::from(taken) })
    }

    /// Whether it is rank 0, which writes the files.
    pub const fn is_first(&self) -> bool {
        self.rank == 0
    }

    /// Processes of the training.
    pub const fn size(&self) -> usize {
        self.size
    }

    /// The GPU of its machine that is its own.
    pub const fn local_rank(&self) -> usize {
        self.local_rank
    }

    /// Meets the others, who must have the same `fingerprint`.
    pub(super) fn join(&self, fingerprint: &str) -> Result<World, WorldError> {
        let peers = match (self.size, self.rank) {
            (1, _) => Vec::new(),
            (_, 0) => self.listen(fingerprint)?,
            _ => vec![self.connect(fingerprint)?],
        };
        Ok(World { rank: self.rank, size: self.size, peers, gpus: None })
    }

    fn hello(&self, fingerprint: &str) -> [u8; 20] {
        let mut hello = [0; 20];
        let numbers = [self.rank as u32, self.size as u32, crc32c::crc32c(fingerprint.as_bytes())];
        hello[..8].copy_from_slice(&MAGIC);
        for (to, number) in hello[8..].as_chunks_mut::<4>().0.iter_mut().zip(numbers) {
            *to = number.to_le_bytes();
        }
        hello
    }

    /// Rank 0: all others, in their order.
    fn listen(&self, fingerprint: &str) -> Result<Vec<TcpStream>, WorldError> {
        let local = self.addresses().is_ok_and(|all| all.iter().all(|at| at.ip().is_loopback()));
        let host = if local { Ipv4Addr::LOCALHOST } else { Ipv4Addr::UNSPECIFIED };
        let at = SocketAddr::new(IpAddr::V4(host), self.port);
        let failed = |source| WorldError::Listen { at, source };
        let listener = TcpListener::bind(at).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let mut peers: Vec<Option<TcpStream>> = (1..self.size).map(|_| None).collect();
        let started = Instant::now();
        while let Some(missing) = peers.iter().position(Option::is_none) {
            match listener.accept() {
                Ok((stream, _)) => {
                    // Who says something else, or nothing, is none of us.
                    let Some((rank, same)) = greeted(&stream, &self.hello(fingerprint)) else { continue };
                    let lost = |source| WorldError::Lost { rank, source };
                    if let Some(place) = peers.get_mut(rank.wrapping_sub(1)).filter(|place| place.is_none()) {
                        (&stream).write_all(&[u8::from(same)]).map_err(lost)?;
                        if !same {
                            return Err(WorldError::Different { rank });
                        }
                        *place = Some(talking(stream).map_err(lost)?);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if started.elapsed() > JOIN {
                        return Err(WorldError::Absent { missing: missing + 1, seconds: JOIN.as_secs() });
                    }
                    std::thread::sleep(PAUSE);
                }
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(peers.into_iter().flatten().collect())
    }

    fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        Ok((self.address.as_str(), self.port).to_socket_addrs()?.collect())
    }

    /// Any other: rank 0.
    fn connect(&self, fingerprint: &str) -> Result<TcpStream, WorldError> {
        let started = Instant::now();
        loop {
            let joined = TcpStream::connect((self.address.as_str(), self.port)).and_then(|stream| {
                let mut stream = talking(stream)?;
                stream.write_all(&self.hello(fingerprint))?;
                let mut answer = [0];
                stream.read_exact(&mut answer)?;
                Ok((stream, answer))
            });
            match joined {
                Ok((stream, [1])) => return Ok(stream),
                Ok(_) => return Err(WorldError::Different { rank: 0 }),
                Err(source) if started.elapsed() > JOIN => {
                    return Err(WorldError::Join { address: self.address.clone(), port: self.port, source });
                }
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
    }
}

/// Who it is that has come, if it is one of us; and whether it trains the same.
fn greeted(mut stream: &TcpStream, own: &[u8; 20]) -> Option<(usize, bool)> {
    let mut hello = [0; 20];
    stream.set_nonblocking(false).ok()?;
    stream.set_read_timeout(Some(HELLO)).ok()?;
    stream.read_exact(&mut hello).ok()?;
    let rank = u32::from_le_bytes(*hello[8..].first_chunk()?);
    (hello[..8] == MAGIC).then_some((rank as usize, hello[12..] == own[12..]))
}

fn talking(stream: TcpStream) -> io::Result<TcpStream> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(SILENCE))?;
    stream.set_write_timeout(Some(SILENCE))?;
    Ok(stream)
}

/// Adds up gradients beside the processes' own connection.
pub(super) trait Gpus {
    /// The sum over all processes, in place; the same bits in each.
    fn sum(&mut self, values: &mut [f32]) -> Result<(), super::TrainError>;
}

/// The processes of a training, one of which this is.
pub(super) struct World {
    rank: usize,
    size: usize,
    /// Rank 0 has all others, the others have rank 0.
    peers: Vec<TcpStream>,
    gpus: Option<Box<dyn Gpus>>,
}

impl World {
    /// Whether it is rank 0.
    pub(super) const fn is_first(&self) -> bool {
        self.rank == 0
    }

    /// Whether there are others.
    pub(super) const fn is_alone(&self) -> bool {
        self.size == 1
    }

    /// Gradients are added up by these from now on.
    #[cfg(feature = "cudnn")]
    pub(super) fn set_gpus(&mut self, gpus: Box<dyn Gpus>) {
        self.gpus = Some(gpus);
    }

    /// Its number, and how many there are.
    #[cfg(feature = "cudnn")]
    pub(super) const fn rank_of(&self) -> (usize, usize) {
        (self.rank, self.size)
    }

    /// What is this process's of what is numbered.
    pub(super) fn own<T>(&self, all: impl Iterator<Item = (usize, T)>) -> impl Iterator<Item = (usize, T)> {
        let (rank, size) = (self.rank, self.size);
        all.filter(move |(number, _)| number % size == rank)
    }

    /// The sums over all processes, the same in each.
    pub(super) fn sum<const N: usize>(&mut self, mut values: [f64; N]) -> Result<[f64; N], WorldError> {
        self.sum_all(&mut values)?;
        Ok(values)
    }

    /// The sum of gradients, in place, and of two counts.
    pub(super) fn add_up(&mut self, gradient: &mut [f32], counts: [f64; 2]) -> Result<[f64; 2], super::TrainError> {
        if self.is_alone() {
            return Ok(counts);
        }
        if self.gpus.is_some() {
            // First the counts: who is gone is known before GPUs wait for it.
            let sums = self.sum(counts)?;
            self.gpus.iter_mut().try_for_each(|gpus| gpus.sum(gradient))?;
            return Ok(sums);
        }
        let mut values: Vec<f64> = gradient.iter().copied().map(f64::from).chain(counts).collect();
        self.sum_all(&mut values)?;
        gradient.iter_mut().zip(&values).for_each(|(to, &sum)| *to = sum as f32);
        Ok([values[gradient.len()], values[gradient.len() + 1]])
    }

    fn sum_all(&mut self, values: &mut [f64]) -> Result<(), WorldError> {
        let mut bytes = vec![0; size_of_val(values)];
        let own = |values: &[f64], bytes: &mut [u8]| {
            bytes.as_chunks_mut().0.iter_mut().zip(values).for_each(|(to, value)| *to = value.to_le_bytes());
        };
        if self.is_first() {
            for (peer, stream) in self.peers.iter_mut().enumerate() {
                stream.read_exact(&mut bytes).map_err(|source| WorldError::Lost { rank: peer + 1, source })?;
                let theirs = bytes.as_chunks().0.iter().map(|bytes| f64::from_le_bytes(*bytes));
                values.iter_mut().zip(theirs).for_each(|(value, theirs)| *value += theirs);
            }
            own(values, &mut bytes);
            return self.tell(&bytes);
        }
        let lost = |source| WorldError::Lost { rank: 0, source };
        own(values, &mut bytes);
        for stream in &mut self.peers {
            stream.write_all(&bytes).and_then(|()| stream.read_exact(&mut bytes)).map_err(lost)?;
        }
        values.iter_mut().zip(bytes.as_chunks().0).for_each(|(value, bytes)| *value = f64::from_le_bytes(*bytes));
        Ok(())
    }

    /// Rank 0's bytes, in each process.
    pub(super) fn share(&mut self, bytes: Vec<u8>) -> Result<Vec<u8>, WorldError> {
        if self.is_first() {
            self.tell(&(bytes.len() as u64).to_le_bytes())?;
            self.tell(&bytes)?;
            return Ok(bytes);
        }
        let mut shared = Vec::new();
        for stream in &mut self.peers {
            let mut length = [0; 8];
            let read = stream.read_exact(&mut length).and_then(|()| {
                let length = u64::from_le_bytes(length);
                let all = stream.take(length.min(MOST)).read_to_end(&mut shared)? as u64 == length;
                if all { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
            });
            read.map_err(|source| WorldError::Lost { rank: 0, source })?;
        }
        Ok(shared)
    }

    /// Rank 0 tells all others.
    fn tell(&mut self, bytes: &[u8]) -> Result<(), WorldError> {
        for (peer, stream) in self.peers.iter_mut().enumerate() {
            stream.write_all(bytes).map_err(|source| WorldError::Lost { rank: peer + 1, source })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(variables: &[(&str, &str)]) -> Result<Place, WorldError> {
        Place::told(|name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn the_environment_says_which_process_it_is() {
        assert_eq!(told(&[]).unwrap(), Place::default());
        assert_eq!(told(&[("WORLD_SIZE", "1"), ("RANK", "0")]).unwrap(), Place::default());
        let all = [
            ("WORLD_SIZE", "4"),
            ("RANK", "3"),
            ("LOCAL_RANK", "1"),
            ("MASTER_ADDR", "node0"),
            ("MASTER_PORT", "29500"),
            ("TORCHELASTIC_USE_AGENT_STORE", "True"),
        ];
        let place = told(&all).unwrap();
        assert_eq!((place.rank, place.size, place.local_rank, place.port), (3, 4, 1, 29_501));
        assert_eq!(told(&all[..5]).unwrap().port, 29_500);
        let message = |at: usize, value| {
            let mut changed = all;
            changed[at].1 = value;
            told(&changed).unwrap_err().to_string()
        };
        assert_eq!(
            message(1, "4"),
            "RANK is \"4\", but must be a number below WORLD_SIZE: start it with torchrun, or set it"
        );
        assert!(message(0, "0").starts_with("WORLD_SIZE is \"0\""));
        assert!(message(3, "").starts_with("MASTER_ADDR is \"\""));
        assert!(message(4, "65535").starts_with("MASTER_PORT"));
        assert!(told(&all[..4]).unwrap_err().to_string().starts_with("MASTER_PORT is \"\""));
    }

    /// So many processes at a free port, as threads.
    fn together<T: Send>(size: usize, work: impl Fn(World) -> T + Sync, fingerprints: &[&str]) -> Vec<T> {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let place = |rank| Place { rank, size, local_rank: 0, address: "127.0.0.1".into(), port };
        let work = &work;
        std::thread::scope(|scope| {
            let run = |rank: usize| scope.spawn(move || work(place(rank).join(fingerprints[rank]).unwrap()));
            let threads: Vec<_> = (0..size).map(run).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    #[test]
    fn sums_are_the_same_everywhere_and_all_have_what_rank_0_has() {
        let work = |mut world: World| {
            let mut gradient: Vec<f32> = (0..70_000).map(|k| (k * (world.rank + 1)) as f32).collect();
            let counts = world.add_up(&mut gradient, [world.rank as f64, 1.0]).unwrap();
            let shared = world.share(vec![world.rank as u8 + 7; 100_000]).unwrap();
            let own: Vec<usize> = world.own((0..8).map(|k| (k, ()))).map(|(k, ())| k).collect();
            (gradient, counts, shared, own)
        };
        let found = together(3, work, &["same"; 3]);
        for (rank, (gradient, counts, shared, own)) in found.into_iter().enumerate() {
            assert!(gradient.iter().enumerate().all(|(k, &sum)| sum == (6 * k) as f32));
            assert_eq!((counts, shared), ([3.0, 3.0], vec![7; 100_000]));
            assert_eq!(own, (rank..8).step_by(3).collect::<Vec<_>>());
        }
    }

    #[test]
    fn who_is_gone_or_trains_something_else_is_named() {
        let leave = |mut world: World| if world.is_first() { Some(world.sum([1.0]).unwrap_err()) } else { None };
        let found = together(2, leave, &["same"; 2]);
        assert!(found[0].as_ref().unwrap().to_string().starts_with("rank 1 is gone ("));

        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let place = |rank| Place { rank, size: 2, local_rank: 0, address: "127.0.0.1".into(), port };
        let refused = std::thread::scope(|scope| {
            let other = scope.spawn(move || place(1).join("other").err().unwrap().to_string());
            // A stranger is no rank.
            let stranger = scope.spawn(move || {
                loop {
                    if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) {
                        return stream.write_all(b"GET / HTTP/1.1\r\n\r\n").is_ok();
                    }
                }
            });
            let first = place(0).join("one").err().unwrap().to_string();
            drop(stranger);
            [first, other.join().unwrap()]
        });
        assert!(
            refused[0].starts_with("rank 1 has other settings") && refused[1].starts_with("rank 0 has other settings")
        );
    }
}
