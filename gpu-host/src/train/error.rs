//! The errors of training in several processes.

use std::io;
use std::path::PathBuf;

/// Why processes cannot train together.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the error texts explain the variants and their fields")]
pub enum WorldError {
    #[error("{name} is {found:?}, but must be {needed}: start the training with torchrun, or set the variable")]
    Variable { name: &'static str, found: String, needed: &'static str },
    #[error(
        "other machines can connect to {address}, so all ranks need the same secret: \
         set TIDEGATE_SECRET or give --secret-file FILE (`openssl rand -hex 32 > FILE` makes one)"
    )]
    NoSecret { address: String },
    #[error("the secret in {from} has {found} bytes, but must have 16 to 4096: make one with `openssl rand -hex 32`")]
    SecretLength { from: String, found: usize },
    #[error("{}: cannot be {what}: {source}", path.display())]
    SecretFile { path: PathBuf, what: &'static str, source: io::Error },
    #[error(
        "rank 0 cannot listen at {at}: {source}; \
         MASTER_ADDR must be an address of its machine, and MASTER_PORT a free port"
    )]
    Listen { at: String, source: io::Error },
    #[error("rank 0 does not answer at {address}:{port}: {source}; check MASTER_ADDR, MASTER_PORT and the secret")]
    Join { address: String, port: u16, source: io::Error },
    #[error(
        "rank {missing} has not connected to {at} after {seconds} s: \
         start as many processes as WORLD_SIZE says, with an address in MASTER_ADDR that they reach"
    )]
    Absent { missing: usize, at: String, seconds: u64 },
    #[error(
        "rank {rank} has other settings, data, weights or devices: \
         start all ranks with the same command on the same files"
    )]
    Different { rank: usize },
    #[error("another process is already rank {rank}: give each process its own RANK")]
    Taken { rank: usize },
    #[error(
        "after epoch {epoch} the weights of rank {rank} differ from those of rank 0: \
        restart all ranks with the same program on the same system and kind of processor"
    )]
    Apart { rank: usize, epoch: usize },
    #[error("no reply from rank {rank} for {seconds} s: check its state, and restart all ranks")]
    Silent { rank: usize, seconds: u64 },
    #[error("lost rank {rank} ({source}): see its output, and restart all ranks")]
    Lost { rank: usize, source: io::Error },
}
