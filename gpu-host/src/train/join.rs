//! How the processes of a training connect: all others connect to rank 0 and prove that they have its secret. Rank 0
//! ignores everybody else, and waits for nobody: it reads from all connections in turn, without blocking.
//!
//! ```text
//! rank 0      nonce
//! other rank  nonce, greeting, tag     the greeting: rank, number of ranks, digest of what is trained
//! rank 0      verdict, tag
//! ```

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use super::channel::{Channel, Nonce, Side, read_by};
use super::error::WorldError;
use super::place::{Place, SILENCE};
use super::secret::{Secret, SecretFile, random};

/// Time limit for all processes to connect. Some start later or read their data more slowly.
pub(super) const JOIN: Duration = Duration::from_secs(600);
/// Time limit for a greeting, and for the answer of rank 0, which may be busy with others.
const HELLO: Duration = Duration::from_secs(5);
const ANSWER: Duration = Duration::from_secs(30);
/// Pause after a turn without new connections, and between two attempts to connect.
const PAUSE: Duration = Duration::from_millis(10);
const ATTEMPT: Duration = Duration::from_millis(200);
/// Number of connections that rank 0 waits for at a time. Another one replaces the oldest.
const PENDING: usize = 256;
/// Number of connections accepted in a turn: fewer than [`PENDING`], so that each has several turns to send its greeting.
const ACCEPTED: usize = 16;
/// Shortest time between two reports of ignored connections.
const REPORT: Duration = Duration::from_secs(10);

/// Verdict of rank 0.
const OTHER: u8 = 0;
pub(super) const WELCOME: u8 = 1;
const TAKEN: u8 = 2;

/// Rank and number of ranks, and the SHA-256 of what is trained.
pub(super) type Greeting = [u8; 40];
/// Bytes that another rank sends first: its nonce, the greeting and a tag.
const FIRST: usize = 32 + 40 + 32;

impl Place {
    /// Connects to the other processes within `limit`; they must have the same `fingerprint`. Rank 0 gets a connection to each
    /// other rank, in order; every other rank gets one to rank 0. On one machine, a secret for the training is written beside
    /// its `checkpoint` if none is given.
    pub(super) fn meet(
        &self,
        fingerprint: &str,
        checkpoint: &Path,
        limit: Duration,
    ) -> Result<Vec<Channel>, WorldError> {
        if self.size == 1 {
            return Ok(Vec::new());
        }
        let greeting = self.greeting(fingerprint);
        let found = (self.address.as_str(), self.port).to_socket_addrs().map(Vec::from_iter).unwrap_or_default();
        let on_one_machine = !found.is_empty() && found.iter().all(|at| at.ip().is_loopback());
        if self.secret.is_none() && !on_one_machine {
            return Err(WorldError::NoSecret { address: self.address.clone() });
        }
        let path = SecretFile::path(checkpoint);
        if self.rank > 0 {
            let secret = || self.secret.clone().map_or_else(|| SecretFile::read(&path), Ok);
            return Ok(vec![self.connect(&greeting, secret, limit)?]);
        }
        // The file is deleted at the end of this function.
        let (_file, secret) = match &self.secret {
            Some(secret) => (None, secret.clone()),
            None => SecretFile::write(path).map(|(file, secret)| (Some(file), secret))?,
        };
        self.listen(&found, &greeting, &secret, limit)
    }

    pub(super) fn greeting(&self, fingerprint: &str) -> Greeting {
        let mut greeting = [0; 40];
        greeting[..4].copy_from_slice(&(self.rank as u32).to_le_bytes());
        greeting[4..8].copy_from_slice(&(self.size as u32).to_le_bytes());
        greeting[8..].copy_from_slice(&Sha256::digest(fingerprint));
        greeting
    }

    /// Rank 0: accepts all others at the first of these addresses that works, and returns them in order.
    fn listen(
        &self,
        at: &[SocketAddr],
        own: &Greeting,
        secret: &Secret,
        limit: Duration,
    ) -> Result<Vec<Channel>, WorldError> {
        let at_name = || format!("{}:{}", self.address, self.port);
        let failed = |source| WorldError::Listen { at: at_name(), source };
        let listener = TcpListener::bind(at).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let mut pending = VecDeque::new();
        let mut peers: Vec<Option<Channel>> = (1..self.size).map(|_| None).collect();
        let mut ignored = Ignored::default();
        let started = Instant::now();
        while let Some(missing) = peers.iter().position(Option::is_none) {
            if started.elapsed() > limit {
                return Err(WorldError::Absent { missing: missing + 1, at: at_name(), seconds: limit.as_secs() });
            }
            // An error means that a connection has already ended, or that there is none.
            let new: Vec<TcpStream> = (0..ACCEPTED).map_while(|_| Some(listener.accept().ok()?.0)).collect();
            let is_quiet = new.is_empty();
            for stream in new {
                if pending.len() == PENDING {
                    pending.pop_front();
                    ignored.count += 1;
                }
                match begun(stream) {
                    Ok(new) => pending.push_back(new),
                    Err(_) => ignored.count += 1,
                }
            }
            for _ in 0..pending.len() {
                let Some(mut one) = pending.pop_front() else { break };
                match one.advance() {
                    Ok(false) => pending.push_back(one),
                    Ok(true) => match one.greeting(secret) {
                        Ok((channel, greeting)) if talking(&channel.stream).is_ok() => {
                            welcome(channel, &greeting, own, &mut peers, is_gone)?;
                        }
                        _ => ignored.count += 1,
                    },
                    Err(_) => ignored.count += 1,
                }
            }
            ignored.report();
            if is_quiet {
                std::thread::sleep(PAUSE);
            }
        }
        Ok(peers.into_iter().flatten().collect())
    }

    /// On the other ranks: connects to rank 0.
    fn connect(
        &self,
        greeting: &Greeting,
        secret: impl Fn() -> io::Result<Secret>,
        limit: Duration,
    ) -> Result<Channel, WorldError> {
        let until = Instant::now() + limit;
        loop {
            let source = match secret().and_then(|secret| self.ask(greeting, &secret, until)) {
                Ok((channel, WELCOME)) => return Ok(channel),
                Ok((_, TAKEN)) => return Err(WorldError::Taken { rank: self.rank }),
                Ok(_) => return Err(WorldError::Different { rank: 0 }),
                Err(source) => source,
            };
            if Instant::now() > until {
                return Err(WorldError::Join { address: self.address.clone(), port: self.port, source });
            }
            std::thread::sleep(ATTEMPT);
        }
    }

    /// Sends a greeting and returns the verdict of rank 0.
    fn ask(&self, greeting: &Greeting, secret: &Secret, until: Instant) -> io::Result<(Channel, u8)> {
        let until = until.min(Instant::now() + ANSWER);
        let stream = TcpStream::connect((self.address.as_str(), self.port))?;
        let (mut first, own) = ([0; 32], random()?);
        read_by(&stream, &mut first, until)?;
        talking(&stream)?;
        let mut channel = offer(stream, greeting, secret, [&first, &own])?;
        let mut verdict = [0];
        channel.receive_by(&mut verdict, until)?;
        channel.stream.set_read_timeout(Some(SILENCE))?;
        Ok((channel, verdict[0]))
    }
}

/// On the other ranks: sends the answer to the nonce of rank 0.
pub(super) fn offer<S: Read + Write>(
    stream: S,
    greeting: &Greeting,
    secret: &Secret,
    nonces: [&Nonce; 2],
) -> io::Result<Channel<S>> {
    let mut channel = Channel::new(stream, secret, Side::Other, nonces);
    let tag = channel.tag(greeting);
    channel.stream.write_all(&[&nonces[1][..], greeting, &tag].concat())?;
    Ok(channel)
}

/// A connection to rank 0 whose greeting has not arrived yet.
pub(super) struct Pending<S = TcpStream> {
    stream: S,
    nonce: Nonce,
    received: Vec<u8>,
    since: Instant,
}

/// On rank 0: prepares a new connection. Reads and writes do not block.
fn begun(stream: TcpStream) -> io::Result<Pending> {
    stream.set_nonblocking(true)?;
    Pending::new(stream, random()?)
}

impl<S: Read + Write> Pending<S> {
    /// Sends the nonce, which fits into the buffer of a new connection.
    pub(super) fn new(mut stream: S, nonce: Nonce) -> io::Result<Self> {
        stream.write_all(&nonce)?;
        Ok(Self { stream, nonce, received: Vec::with_capacity(FIRST), since: Instant::now() })
    }

    /// Reads the bytes that have arrived. Returns whether the greeting is complete.
    ///
    /// # Errors
    /// If the connection has ended, or the greeting takes too long.
    pub(super) fn advance(&mut self) -> io::Result<bool> {
        let mut bytes = [0; FIRST];
        let missing = FIRST - self.received.len();
        match self.stream.read(&mut bytes[..missing]) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => {
                self.received.extend(&bytes[..read]);
                Ok(read == missing)
            }
            Err(error) if !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Err(error),
            Err(_) if self.since.elapsed() > HELLO => Err(io::ErrorKind::TimedOut.into()),
            Err(_) => Ok(false),
        }
    }

    /// Checks a complete greeting.
    ///
    /// # Errors
    /// If the greeting does not come from a process with the secret.
    pub(super) fn greeting(self, secret: &Secret) -> io::Result<(Channel<S>, Greeting)> {
        let Self { stream, nonce, received, .. } = self;
        let short = || io::Error::from(io::ErrorKind::UnexpectedEof);
        let (other, rest) = received.split_first_chunk().ok_or_else(short)?;
        let (greeting, rest) = rest.split_first_chunk().ok_or_else(short)?;
        let tag = rest.first_chunk().ok_or_else(short)?;
        let mut channel = Channel::new(stream, secret, Side::First, [&nonce, other]);
        channel.check(greeting, tag)?;
        Ok((channel, *greeting))
    }
}

/// Counts connections that did not send a greeting with the secret.
#[derive(Default)]
struct Ignored {
    count: u64,
    reported: u64,
    last: Option<Instant>,
}

impl Ignored {
    /// Prints the count if it has changed, but not too often.
    fn report(&mut self) {
        if self.count == self.reported || self.last.is_some_and(|last| last.elapsed() < REPORT) {
            return;
        }
        let (count, new) = (self.count, self.count - self.reported);
        eprintln!("tidegate-gpu: ignored {new} connections without the secret of this training, {count} in all");
        (self.reported, self.last) = (count, Some(Instant::now()));
    }
}

/// On rank 0: answers a process that has the secret. `is_gone` tells whether a process that had connected is gone.
pub(super) fn welcome<S: Read + Write>(
    mut channel: Channel<S>,
    greeting: &Greeting,
    own: &Greeting,
    peers: &mut [Option<Channel<S>>],
    is_gone: impl Fn(&S) -> bool,
) -> Result<(), WorldError> {
    let rank = u32::from_le_bytes([greeting[0], greeting[1], greeting[2], greeting[3]]) as usize;
    let place = peers.get_mut(rank.wrapping_sub(1)).filter(|_| greeting[4..] == own[4..]);
    let verdict = match &place {
        Some(Some(before)) if !is_gone(&before.stream) => TAKEN,
        Some(_) => WELCOME,
        None => OTHER,
    };
    let told = channel.send(&[verdict]).is_ok();
    match place {
        None => return Err(WorldError::Different { rank }),
        // A process that did not receive the verdict connects again.
        Some(place) if verdict == WELCOME && told => *place = Some(channel),
        Some(_) => {}
    }
    Ok(())
}

/// Whether the other side of a connection is gone.
fn is_gone(stream: &TcpStream) -> bool {
    let seen = stream.set_nonblocking(true).and_then(|()| stream.peek(&mut [0]));
    let blocks = stream.set_nonblocking(false).is_ok();
    !blocks || seen.map_or_else(|error| error.kind() != io::ErrorKind::WouldBlock, |bytes| bytes == 0)
}

/// Sets up a connection for the messages of a training, which block.
fn talking(stream: &TcpStream) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(SILENCE))?;
    stream.set_write_timeout(Some(SILENCE))
}

#[cfg(test)]
mod tests;
