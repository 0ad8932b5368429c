//! Several processes that train one network. Each computes its part of every batch; gradients are summed, and all
//! processes take the same step.
//!
//! All processes connect to rank 0 over TCP, which is fast enough for CPUs; GPUs sum through NCCL. Every message is
//! authenticated ([`Channel`]), and none is encrypted.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::Path;

use super::channel::Channel;
use super::error::WorldError;
use super::join::JOIN;
use super::place::{Place, lost};

/// Maximum number of shared bytes, which is also the limit of any file that is read.
const MOST: u64 = 512 << 20;

impl Place {
    /// Connects to the other processes, which must have the same `fingerprint`. On one machine, the secret of the
    /// training is beside its `checkpoint`.
    pub(super) fn join(&self, fingerprint: &str, checkpoint: &Path) -> Result<World, WorldError> {
        Ok(World { rank: self.rank, size: self.size, peers: self.meet(fingerprint, checkpoint, JOIN)? })
    }
}

/// The processes of a training, seen from one of them.
pub(super) struct World<S = TcpStream> {
    pub(super) rank: usize,
    pub(super) size: usize,
    /// On rank 0 the connections to all other ranks, in order; on any other rank the connection to rank 0.
    pub(super) peers: Vec<Channel<S>>,
}

#[cfg(test)]
impl World {
    /// A process without connections.
    pub(super) const fn one_of(rank: usize, size: usize) -> Self {
        Self { rank, size, peers: Vec::new() }
    }
}

impl<S: Read + Write> World<S> {
    /// Selects this process's share of numbered items.
    pub(super) fn own<T>(&self, all: impl Iterator<Item = (usize, T)>) -> impl Iterator<Item = (usize, T)> {
        let (rank, size) = (self.rank, self.size);
        all.filter(move |(number, _)| number % size == rank)
    }

    pub(super) fn sum<const N: usize>(&mut self, mut values: [f64; N]) -> Result<[f64; N], WorldError> {
        self.sum_all(&mut values, f64::to_le_bytes, f64::from_le_bytes)?;
        Ok(values)
    }

    /// Checks that all processes have the same weights, by a digest.
    pub(super) fn agree(&mut self, digest: u32, epoch: usize) -> Result<(), WorldError> {
        let mut all = vec![0.0; self.size];
        all[self.rank] = f64::from(digest);
        self.sum_all(&mut all, f64::to_le_bytes, f64::from_le_bytes)?;
        match all.iter().position(|found| *found != all[0]) {
            Some(rank) => Err(WorldError::Apart { rank, epoch }),
            None => Ok(()),
        }
    }

    /// Sums gradients in place. They are sent as f32 and added as f64.
    pub(super) fn add_up(&mut self, gradient: &mut [f32]) -> Result<(), WorldError> {
        if self.size == 1 {
            return Ok(());
        }
        let mut sums: Vec<f64> = gradient.iter().copied().map(f64::from).collect();
        let read = |bytes| f64::from(f32::from_le_bytes(bytes));
        self.sum_all(&mut sums, |value| (value as f32).to_le_bytes(), read)?;
        gradient.iter_mut().zip(sums).for_each(|(to, sum)| *to = sum as f32);
        Ok(())
    }

    /// Sums numbers in place; they are sent as `N` bytes each.
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
        if self.rank == 0 {
            for (peer, channel) in self.peers.iter_mut().enumerate() {
                channel.receive(&mut bytes).map_err(lost(peer + 1))?;
                let theirs = bytes.as_chunks().0.iter().map(|&bytes| read(bytes));
                values.iter_mut().zip(theirs).for_each(|(value, theirs)| *value += theirs);
            }
            own(values, &mut bytes);
            return self.broadcast(&bytes);
        }
        own(values, &mut bytes);
        for channel in &mut self.peers {
            channel.send(&bytes).and_then(|()| channel.receive(&mut bytes)).map_err(lost(0))?;
        }
        values.iter_mut().zip(bytes.as_chunks().0).for_each(|(value, &bytes)| *value = read(bytes));
        Ok(())
    }

    /// Returns rank 0's bytes in every process.
    pub(super) fn share(&mut self, bytes: Vec<u8>) -> Result<Vec<u8>, WorldError> {
        if self.rank == 0 {
            self.broadcast(&(bytes.len() as u64).to_le_bytes())?;
            self.broadcast(&bytes)?;
            return Ok(bytes);
        }
        let mut shared = Vec::new();
        for channel in &mut self.peers {
            let mut length = [0; 8];
            let read = channel.receive(&mut length).and_then(|()| match u64::from_le_bytes(length) {
                length @ ..=MOST => channel.receive_long(length),
                _ => Err(io::ErrorKind::FileTooLarge.into()),
            });
            shared = read.map_err(lost(0))?;
        }
        Ok(shared)
    }

    fn broadcast(&mut self, bytes: &[u8]) -> Result<(), WorldError> {
        for (peer, channel) in self.peers.iter_mut().enumerate() {
            channel.send(bytes).map_err(lost(peer + 1))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::time::Duration;

    use super::super::secret::Secret;
    use super::*;

    /// Runs `work` in `size` processes on a free port, as threads.
    fn together<T: Send>(size: usize, work: impl Fn(World) -> T + Sync) -> Vec<T> {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let secret = Some(Secret::fixed("secret"));
        let place =
            |rank| Place { rank, size, local_rank: 0, address: "127.0.0.1".into(), port, secret: secret.clone() };
        let (work, place) = (&work, &place);
        std::thread::scope(|scope| {
            let run = |rank: usize| scope.spawn(move || work(place(rank).join("same", Path::new("")).unwrap()));
            let threads: Vec<_> = (0..size).map(run).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    #[test]
    fn sums_and_shared_bytes_are_equal_in_all_processes() {
        let work = |mut world: World| {
            let mut gradient: Vec<f32> = (0..70_000).map(|k| (k * (world.rank + 1)) as f32).collect();
            // A sum in f32 would lose the 1.
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

    /// Each value of a gradient takes four bytes to rank 0, and four back.
    #[test]
    fn gradients_are_sent_as_f32() {
        let work = |mut world: World| {
            world.peers[0].stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            let mut sums = [[1.5_f32, 1e-30], [2.0, 1.0]][world.rank];
            if world.rank == 0 {
                world.add_up(&mut sums).unwrap();
            } else {
                world.peers[0].send(sums.map(f32::to_le_bytes).as_flattened()).unwrap();
                let mut bytes = [[0; 4]; 2];
                world.peers[0].receive(bytes.as_flattened_mut()).unwrap();
                sums = bytes.map(f32::from_le_bytes);
            }
            sums
        };
        assert_eq!(together(2, work), [[3.5, 1.0]; 2]);
    }

    #[test]
    fn every_process_names_the_one_with_other_weights() {
        let work = |mut world: World| {
            world.agree(u32::MAX, 1).unwrap();
            world.agree(u32::MAX - u32::from(world.rank == 2), 2).unwrap_err().to_string()
        };
        for error in together(3, work) {
            assert!(
                error.starts_with("after epoch 2 the weights of rank 2 differ from those of rank 0: restart all ranks"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_lost_or_silent_process_is_named() {
        let leave = |mut world: World| if world.rank == 0 { Some(world.sum([1.0]).unwrap_err()) } else { None };
        let found = together(2, leave);
        assert!(found[0].as_ref().unwrap().to_string().starts_with("lost rank 1 ("));

        let ended = std::sync::Barrier::new(2);
        let wait = |mut world: World| {
            let limit = Some(Duration::from_millis(50));
            world.peers.iter().for_each(|peer| peer.stream.set_read_timeout(limit).unwrap());
            let error = (world.rank == 0).then(|| world.sum([1.0]).unwrap_err().to_string());
            ended.wait();
            error
        };
        let found = together(2, wait);
        assert!(found[0].as_ref().unwrap().starts_with("no reply from rank 1 for"), "{found:?}");
    }
}
