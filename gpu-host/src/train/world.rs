//! Several processes that train one network: each learns its part of every batch, gradients are added up, and all take the same
//! step. They are told of each other as `torchrun` tells: `WORLD_SIZE`, `RANK`, `LOCAL_RANK`, `MASTER_ADDR` and `MASTER_PORT`.
//!
//! They meet at rank 0 over TCP, which is enough for CPUs; GPUs add up through NCCL. There is no secret and nothing is
//! encrypted: that network must be trusted.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::join::JOIN;

/// No step takes so long.
pub(super) const SILENCE: Duration = Duration::from_secs(600);
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
        "rank {rank} has other settings, data, weights or devices: start all with the same command on the same files"
    )]
    Different {
        /// Which.
        rank: usize,
    },
    /// Another process is this rank.
    #[error("another process is rank {rank}: give each a RANK of its own")]
    Taken {
        /// Which.
        rank: usize,
    },
    /// Another process has learned something else from the same sums.
    #[error(
        "after epoch {epoch} rank {rank} has other weights than rank 0: \
         start all again, with the same program on the same system and kind of processor"
    )]
    Apart {
        /// The first of them.
        rank: usize,
        /// Counted from 1.
        epoch: usize,
    },
    /// Another process says nothing.
    #[error("rank {rank} has said nothing for {seconds} s: see what it does, and start all again")]
    Silent {
        /// Which.
        rank: usize,
        /// Waited.
        seconds: u64,
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
    pub(super) rank: usize,
    pub(super) size: usize,
    pub(super) local_rank: usize,
    pub(super) address: String,
    pub(super) port: u16,
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
        Ok(World { rank: self.rank, size: self.size, peers: self.meet(fingerprint, JOIN)? })
    }
}

/// That a process is gone, or says nothing.
pub(super) fn lost(rank: usize) -> impl Fn(io::Error) -> WorldError {
    move |source| match source.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => WorldError::Silent { rank, seconds: SILENCE.as_secs() },
        io::ErrorKind::UnexpectedEof => WorldError::Lost { rank, source: io::Error::other("its connection is closed") },
        _ => WorldError::Lost { rank, source },
    }
}

/// The processes of a training, one of which this is.
pub(super) struct World {
    rank: usize,
    size: usize,
    /// Rank 0 has all others, the others have rank 0.
    peers: Vec<TcpStream>,
}

impl World {
    /// A process that the others have left.
    #[cfg(test)]
    pub(super) const fn one_of(rank: usize, size: usize) -> Self {
        Self { rank, size, peers: Vec::new() }
    }

    /// Whether it is rank 0.
    pub(super) const fn is_first(&self) -> bool {
        self.rank == 0
    }

    /// Whether there are no others.
    pub(super) const fn is_alone(&self) -> bool {
        self.size == 1
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
        self.sum_all(&mut values, f64::to_le_bytes, f64::from_le_bytes)?;
        Ok(values)
    }

    /// Sees that all have the same weights, by their digest.
    pub(super) fn agree(&mut self, digest: u32, epoch: usize) -> Result<(), WorldError> {
        let mut all = vec![0.0; self.size];
        all[self.rank] = f64::from(digest);
        self.sum_all(&mut all, f64::to_le_bytes, f64::from_le_bytes)?;
        match all.iter().position(|found| *found != all[0]) {
            Some(rank) => Err(WorldError::Apart { rank, epoch }),
            None => Ok(()),
        }
    }

    /// The sum of gradients, in place. They are f32 on the way, which is what they are before and behind it, and f64 in the sum.
    pub(super) fn add_up(&mut self, gradient: &mut [f32]) -> Result<(), WorldError> {
        if self.is_alone() {
            return Ok(());
        }
        let mut sums: Vec<f64> = gradient.iter().copied().map(f64::from).collect();
        let read = |bytes| f64::from(f32::from_le_bytes(bytes));
        self.sum_all(&mut sums, |value| (value as f32).to_le_bytes(), read)?;
        gradient.iter_mut().zip(sums).for_each(|(to, sum)| *to = sum as f32);
        Ok(())
    }

    /// The sums, in place, of numbers that are `N` bytes each on the way.
    fn sum_all<const N: usize>(
        &mut self,
        values: &mut [f64],
        write: fn(f64) -> [u8; N],
        read: fn([u8; N]) -> f64,
    ) -> Result<(), WorldError> {
        let mut bytes = vec![0; N * values.len()];
        let own = |values: &[f64], bytes: &mut [u8]| {
            bytes.as_chunks_mut().0.iter_mut().zip(values).for_each(|(to, &value)| *to = write(value));
        };
        if self.is_first() {
            for (peer, stream) in self.peers.iter_mut().enumerate() {
                stream.read_exact(&mut bytes).map_err(lost(peer + 1))?;
                let theirs = bytes.as_chunks().0.iter().map(|&bytes| read(bytes));
                values.iter_mut().zip(theirs).for_each(|(value, theirs)| *value += theirs);
            }
            own(values, &mut bytes);
            return self.tell(&bytes);
        }
        own(values, &mut bytes);
        for stream in &mut self.peers {
            stream.write_all(&bytes).and_then(|()| stream.read_exact(&mut bytes)).map_err(lost(0))?;
        }
        values.iter_mut().zip(bytes.as_chunks().0).for_each(|(value, &bytes)| *value = read(bytes));
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
            read.map_err(lost(0))?;
        }
        Ok(shared)
    }

    /// Rank 0 tells all others.
    fn tell(&mut self, bytes: &[u8]) -> Result<(), WorldError> {
        for (peer, stream) in self.peers.iter_mut().enumerate() {
            stream.write_all(bytes).map_err(lost(peer + 1))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

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
    fn together<T: Send>(size: usize, work: impl Fn(World) -> T + Sync) -> Vec<T> {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let place = |rank| Place { rank, size, local_rank: 0, address: "127.0.0.1".into(), port };
        let work = &work;
        std::thread::scope(|scope| {
            let run = |rank: usize| scope.spawn(move || work(place(rank).join("same").unwrap()));
            let threads: Vec<_> = (0..size).map(run).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    #[test]
    fn sums_are_the_same_everywhere_and_all_have_what_rank_0_has() {
        let work = |mut world: World| {
            let mut gradient: Vec<f32> = (0..70_000).map(|k| (k * (world.rank + 1)) as f32).collect();
            // In f32 the 1 would be gone.
            gradient[0] = [1e8, 1.0, -1e8][world.rank];
            world.add_up(&mut gradient).unwrap();
            let counts = world.sum([world.rank as f64, 1.0]).unwrap();
            let shared = world.share(vec![world.rank as u8 + 7; 100_000]).unwrap();
            let own: Vec<usize> = world.own((0..8).map(|k| (k, ()))).map(|(k, ())| k).collect();
            (gradient, counts, shared, own)
        };
        let found = together(3, work);
        for (rank, (gradient, counts, shared, own)) in found.into_iter().enumerate() {
            assert!(gradient.iter().enumerate().all(|(k, &sum)| sum == if k == 0 { 1.0 } else { (6 * k) as f32 }));
            assert_eq!((counts, shared), ([3.0, 3.0], vec![7; 100_000]));
            assert_eq!(own, (rank..8).step_by(3).collect::<Vec<_>>());
        }
    }

    /// Four bytes of a gradient go to rank 0, and four come back.
    #[test]
    fn gradients_are_f32_on_the_way() {
        let work = |mut world: World| {
            world.peers[0].set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            let mut sums = [[1.5_f32, 1e-30], [2.0, 1.0]][world.rank];
            if world.is_first() {
                world.add_up(&mut sums).unwrap();
            } else {
                let bytes = sums.map(f32::to_le_bytes);
                world.peers[0].write_all(bytes.as_flattened()).unwrap();
                let mut bytes = [[0; 4]; 2];
                world.peers[0].read_exact(bytes.as_flattened_mut()).unwrap();
                sums = bytes.map(f32::from_le_bytes);
            }
            sums
        };
        assert_eq!(together(2, work), [[3.5, 1.0]; 2]);
    }

    #[test]
    fn who_has_other_weights_is_named_everywhere() {
        let work = |mut world: World| {
            world.agree(u32::MAX, 1).unwrap();
            world.agree(u32::MAX - u32::from(world.rank == 2), 2).unwrap_err().to_string()
        };
        for error in together(3, work) {
            assert!(
                error.starts_with("after epoch 2 rank 2 has other weights than rank 0: start all again"),
                "{error}"
            );
        }
    }

    #[test]
    fn who_is_gone_or_says_nothing_is_named() {
        let leave = |mut world: World| if world.is_first() { Some(world.sum([1.0]).unwrap_err()) } else { None };
        let found = together(2, leave);
        assert!(found[0].as_ref().unwrap().to_string().starts_with("rank 1 is gone ("));

        let ended = std::sync::Barrier::new(2);
        let wait = |mut world: World| {
            let limit = Some(Duration::from_millis(50));
            world.peers.iter().for_each(|peer| peer.set_read_timeout(limit).unwrap());
            let error = world.is_first().then(|| world.sum([1.0]).unwrap_err().to_string());
            ended.wait();
            error
        };
        let found = together(2, wait);
        assert!(found[0].as_ref().unwrap().starts_with("rank 1 has said nothing for"), "{found:?}");
    }
}
