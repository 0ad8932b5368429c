//! How the processes of a training connect: all others connect to rank 0 and send a greeting, which it answers. A peer
//! with another greeting or answer is another program.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use super::place::{Place, SILENCE, WorldError, lost};

/// Time limit for all processes to connect. Some start later or read their data more slowly.
pub(super) const JOIN: Duration = Duration::from_secs(600);
/// Time limit for a greeting, so that a stranger does not block rank 0.
const HELLO: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(50);
const MAGIC: [u8; 8] = *b"tidegate";
/// First bytes of the answer. They differ from a greeting's, as a process may connect to itself by accident.
const ANSWER: [u8; 8] = *b"etagedit";

/// Verdict of rank 0, sent after [`ANSWER`].
const OTHER: u8 = 0;
const WELCOME: u8 = 1;
const TAKEN: u8 = 2;

type Hello = [u8; 20];

impl Place {
    /// Connects to the other processes within `limit`; they must have the same `fingerprint`. Rank 0 gets all others in
    /// order of their ranks, all others get rank 0.
    pub(super) fn meet(&self, fingerprint: &str, limit: Duration) -> Result<Vec<TcpStream>, WorldError> {
        let hello = self.hello(fingerprint);
        match (self.size, self.rank) {
            (1, _) => Ok(Vec::new()),
            (_, 0) => self.listen(&hello, limit),
            _ => Ok(vec![self.connect(&hello, limit)?]),
        }
    }

    fn hello(&self, fingerprint: &str) -> Hello {
        let mut hello = [0; 20];
        let numbers = [self.rank as u32, self.size as u32, crc32c::crc32c(fingerprint.as_bytes())];
        hello[..8].copy_from_slice(&MAGIC);
        for (to, number) in hello[8..].as_chunks_mut::<4>().0.iter_mut().zip(numbers) {
            *to = number.to_le_bytes();
        }
        hello
    }

    /// Addresses for rank 0 to listen on; the first one that works is used. They are the given address if it is a
    /// loopback address, otherwise all addresses of the machine. (The name of a machine often resolves to a loopback
    /// address on the machine itself, and to another one elsewhere.)
    fn listens_at(&self) -> Vec<SocketAddr> {
        let found = (self.address.as_str(), self.port).to_socket_addrs();
        let found: Vec<SocketAddr> = found.map(Iterator::collect).unwrap_or_default();
        let own = self.address == "localhost" || self.address.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
        if own && !found.is_empty() {
            return found;
        }
        let v6 = found.iter().any(SocketAddr::is_ipv6).then_some(Ipv6Addr::UNSPECIFIED.into());
        let all = v6.into_iter().chain([Ipv4Addr::UNSPECIFIED.into()]);
        all.map(|ip| SocketAddr::new(ip, self.port)).collect()
    }

    /// Rank 0: accepts all others and returns them in order.
    fn listen(&self, hello: &Hello, limit: Duration) -> Result<Vec<TcpStream>, WorldError> {
        let places = self.listens_at();
        let failed = |source| WorldError::Listen { at: places[0], source };
        let listener = TcpListener::bind(&places[..]).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let mut peers: Vec<Option<TcpStream>> = (1..self.size).map(|_| None).collect();
        let started = Instant::now();
        while let Some(missing) = peers.iter().position(Option::is_none) {
            if started.elapsed() > limit {
                return Err(WorldError::Absent { missing: missing + 1, seconds: limit.as_secs() });
            }
            match listener.accept() {
                Ok((stream, _)) => welcome(stream, hello, &mut peers)?,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::sleep(PAUSE),
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(peers.into_iter().flatten().collect())
    }

    /// All others: connects to rank 0.
    fn connect(&self, hello: &Hello, limit: Duration) -> Result<TcpStream, WorldError> {
        let until = Instant::now() + limit;
        loop {
            let source = match self.ask(hello, until) {
                Ok((stream, WELCOME)) => return Ok(stream),
                Ok((_, OTHER)) => return Err(WorldError::Different { rank: 0 }),
                Ok((_, TAKEN)) => return Err(WorldError::Taken { rank: self.rank }),
                Ok(_) => io::Error::new(io::ErrorKind::InvalidData, "another program answered"),
                Err(source) => source,
            };
            if Instant::now() > until {
                return Err(WorldError::Join { address: self.address.clone(), port: self.port, source });
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Sends a greeting and returns the verdict of rank 0.
    fn ask(&self, hello: &Hello, until: Instant) -> io::Result<(TcpStream, u8)> {
        let mut stream = talking(TcpStream::connect((self.address.as_str(), self.port))?)?;
        stream.write_all(hello)?;
        let mut answer = [0; 9];
        read_by(&stream, &mut answer, until)?;
        stream.set_read_timeout(Some(SILENCE))?;
        let [magic @ .., verdict] = answer;
        Ok((stream, if magic == ANSWER { verdict } else { u8::MAX }))
    }
}

/// Rank 0: answers one connection.
fn welcome(mut stream: TcpStream, own: &Hello, peers: &mut [Option<TcpStream>]) -> Result<(), WorldError> {
    // Ignore a peer that sends another greeting or none: it is another program.
    let Some((rank, same)) = greeted(&stream, own) else { return Ok(()) };
    let place = peers.get_mut(rank.wrapping_sub(1)).filter(|_| same);
    let verdict = match &place {
        Some(Some(before)) if !is_gone(before) => TAKEN,
        Some(_) => WELCOME,
        None => OTHER,
    };
    let told = stream.write_all(&[&ANSWER[..], &[verdict]].concat());
    match place {
        None => return Err(WorldError::Different { rank }),
        Some(place) if verdict == WELCOME => *place = Some(told.and_then(|()| talking(stream)).map_err(lost(rank))?),
        Some(_) => {}
    }
    Ok(())
}

/// Reads a greeting. Returns the rank of the peer, and whether it trains the same.
fn greeted(stream: &TcpStream, own: &Hello) -> Option<(usize, bool)> {
    let mut hello = [0; 20];
    stream.set_nonblocking(false).ok()?;
    read_by(stream, &mut hello, Instant::now() + HELLO).ok()?;
    let rank = u32::from_le_bytes(*hello[8..].first_chunk()?);
    (hello[..8] == MAGIC).then_some((rank as usize, hello[12..] == own[12..]))
}

/// Fills `bytes` before the deadline, even if they arrive slowly.
fn read_by(mut stream: &TcpStream, mut bytes: &mut [u8], until: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(bytes) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => bytes = &mut bytes[read..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Whether a process that had connected is gone.
fn is_gone(stream: &TcpStream) -> bool {
    let seen = stream.set_nonblocking(true).and_then(|()| stream.peek(&mut [0]));
    let blocks = stream.set_nonblocking(false).is_ok();
    !blocks || seen.map_or_else(|error| error.kind() != io::ErrorKind::WouldBlock, |bytes| bytes == 0)
}

fn talking(stream: TcpStream) -> io::Result<TcpStream> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(SILENCE))?;
    stream.set_write_timeout(Some(SILENCE))?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn free() -> u16 {
        TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
    }

    fn place(rank: usize, address: &str, port: u16) -> Place {
        Place { rank, size: 2, local_rank: 0, address: address.to_owned(), port }
    }

    /// Runs rank 0 beside `other`.
    fn beside<T: Send>(
        port: u16,
        limit: Duration,
        other: impl FnOnce() -> T + Send,
    ) -> (Result<Vec<TcpStream>, WorldError>, Duration, T) {
        std::thread::scope(|scope| {
            let other = scope.spawn(other);
            let started = Instant::now();
            let first = place(0, "127.0.0.1", port).meet("same", limit);
            (first, started.elapsed(), other.join().unwrap())
        })
    }

    #[test]
    fn processes_connect_at_any_address_of_the_machine() {
        for address in ["127.0.0.1", "127.0.1.1", "localhost", "::1", "0.0.0.0"] {
            if cfg!(not(target_os = "linux")) && address == "127.0.1.1" {
                continue;
            }
            if address == "::1" && TcpListener::bind("[::1]:0").is_err() {
                println!("SKIP no IPv6");
                continue;
            }
            let port = free();
            let join = |rank| place(rank, address, port).meet("same", Duration::from_secs(20)).map(drop);
            std::thread::scope(|scope| {
                let other = scope.spawn(|| join(1));
                join(0).unwrap();
                other.join().unwrap().unwrap();
            });
        }
        let at = |address: &str| place(0, address, 1).listens_at().iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(at("127.0.1.1"), ["127.0.1.1:1"]);
        assert_eq!(at("192.0.2.1"), ["0.0.0.0:1"]);
        assert_eq!(at("2001:db8::1"), ["[::]:1", "0.0.0.0:1"]);
    }

    /// Repeated connections do not extend the time limit.
    #[test]
    fn strangers_do_not_delay_rank_0() {
        let port = free();
        let strangers = || {
            let started = Instant::now();
            while started.elapsed() < Duration::from_secs(5) {
                drop(TcpStream::connect(("127.0.0.1", port)));
            }
        };
        let (first, took, ()) = beside(port, Duration::from_millis(300), strangers);
        assert!(first.err().unwrap().to_string().starts_with("rank 1 has not connected after 0 s"));
        assert!(took < Duration::from_secs(4), "{took:?}");
    }

    #[test]
    fn a_greeting_that_arrives_too_slowly_is_refused() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut slow = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                // Until the connection is closed.
                while slow.write_all(&[0]).is_ok() {
                    std::thread::sleep(Duration::from_millis(20));
                }
            });
            let started = Instant::now();
            let read = read_by(&stream, &mut [0; 1000], started + Duration::from_millis(200));
            assert!(read.is_err() && started.elapsed() < Duration::from_secs(2));
            drop(stream);
        });
    }

    /// Neither a stranger's bytes nor its own greeting count as an answer.
    #[test]
    fn another_program_at_the_port_is_not_rank_0() {
        let limit = Duration::from_millis(300);
        for words in [&b"SSH-2.0-OpenSSH_9.6\r\n"[..], &place(1, "", 1).hello("same"), &[1], &[0]] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let port = listener.local_addr().unwrap().port();
            let found = std::thread::scope(|scope| {
                let other = scope.spawn(move || place(1, "127.0.0.1", port).meet("same", limit));
                listener.accept().unwrap().0.write_all(words).unwrap();
                other.join().unwrap()
            });
            let error = found.err().unwrap().to_string();
            assert!(error.starts_with("rank 0 does not answer at 127.0.0.1"), "{error}");
        }
    }

    #[test]
    fn a_second_process_of_the_same_rank_is_refused() {
        let port = free();
        let three = |rank| Place { size: 3, ..place(rank, "127.0.0.1", port) };
        std::thread::scope(|scope| {
            let join = |rank| move || three(rank).meet("same", Duration::from_secs(20));
            let first = scope.spawn(join(0));
            let one = join(1)().unwrap();
            let error = join(1)().err().unwrap().to_string();
            assert_eq!(error, "another process is already rank 1: give each process its own RANK");
            // The place of a process that is gone is free again.
            drop(one);
            let (one, two) = (join(1)().unwrap(), join(2)().unwrap());
            first.join().unwrap().unwrap();
            drop((one, two));
        });
    }

    #[test]
    fn a_process_that_trains_something_else_is_named() {
        let port = free();
        let other = Place { rank: 5, size: 9, ..place(1, "127.0.0.1", port) };
        for (other, fingerprint) in [(place(1, "127.0.0.1", port), "other"), (other, "same")] {
            let rank = other.rank;
            let limit = Duration::from_secs(20);
            let (first, _, error) = beside(port, limit, move || other.meet(fingerprint, limit).err());
            let [first, other] = [first.err(), error].map(|error| error.unwrap().to_string());
            assert!(first.starts_with(&format!("rank {rank} has other settings")), "{first}");
            assert!(other.starts_with("rank 0 has other settings"), "{other}");
        }
    }
}
