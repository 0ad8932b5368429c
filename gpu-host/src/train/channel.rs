//! A connection between two processes that share a secret. Every message has a tag: an HMAC-SHA-256 under a key that
//! only this direction of this connection has, over the number of the message, its length and its bytes. A message that
//! was changed, repeated, left out, moved or sent back does not have the right tag. Nothing is encrypted.
//!
//! The keys are HMACs under the secret, over the direction and a random number (nonce) of each side. Both sides thus
//! know that the other one has the secret, and that it answers now.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::secret::Secret;

/// Distinguishes these keys from others under the same secret, and from those of another version.
const PURPOSE: &[u8] = b"tidegate-gpu train 1";

/// A random number that one side chooses for a connection.
pub(super) type Nonce = [u8; 32];
pub(super) type Tag = [u8; 32];

/// Side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    First,
    Other,
}

/// One direction of a connection: its key, and the number of messages so far.
struct Way {
    keyed: Hmac<Sha256>,
    count: u64,
}

fn keyed(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("HMAC takes keys of any length")
}

impl Way {
    /// The direction in which `from` sends. The nonces are those of rank 0 and of the other rank.
    fn new(secret: &Secret, from: Side, nonces: [&Nonce; 2]) -> Self {
        let [first, other] = nonces;
        let key = keyed(secret.bytes()).chain_update(PURPOSE).chain_update([from as u8]);
        let key = key.chain_update(first).chain_update(other).finalize().into_bytes();
        Self { keyed: keyed(&key), count: 0 }
    }

    /// The HMAC of the next message.
    fn next(&mut self, message: &[u8]) -> Hmac<Sha256> {
        let numbers = [self.count, message.len() as u64].map(u64::to_le_bytes);
        self.count += 1;
        self.keyed.clone().chain_update(numbers.as_flattened()).chain_update(message)
    }
}

/// A connection on which every message is authenticated.
pub(super) struct Channel<S = TcpStream> {
    pub(super) stream: S,
    sends: Way,
    receives: Way,
}

impl<S: Read + Write> Channel<S> {
    /// `side` is this side; the nonces are those of rank 0 and of the other rank.
    pub(super) fn new(stream: S, secret: &Secret, side: Side, nonces: [&Nonce; 2]) -> Self {
        let theirs = if side == Side::First { Side::Other } else { Side::First };
        let [sends, receives] = [side, theirs].map(|from| Way::new(secret, from, nonces));
        Self { stream, sends, receives }
    }

    /// The tag of the next message to be sent.
    pub(super) fn tag(&mut self, message: &[u8]) -> Tag {
        self.sends.next(message).finalize().into_bytes().into()
    }

    /// Checks the next message that was received.
    ///
    /// # Errors
    /// If it is not what the other side has sent at this point.
    pub(super) fn check(&mut self, message: &[u8], tag: &Tag) -> io::Result<()> {
        // The comparison takes the same time wherever the tags differ.
        let changed = |_| io::Error::new(io::ErrorKind::InvalidData, "a message was changed on its way");
        self.receives.next(message).verify_slice(tag).map_err(changed)
    }

    pub(super) fn send(&mut self, message: &[u8]) -> io::Result<()> {
        let tag = self.tag(message);
        self.stream.write_all(message)?;
        self.stream.write_all(&tag)
    }

    /// Receives a message of a known length into `message`. On an error the contents of `message` must not be used.
    pub(super) fn receive(&mut self, message: &mut [u8]) -> io::Result<()> {
        let mut tag = [0; 32];
        self.stream.read_exact(message)?;
        self.stream.read_exact(&mut tag)?;
        self.check(message, &tag)
    }

    /// Receives a message of `len` bytes. Memory is allocated as the bytes arrive.
    pub(super) fn receive_long(&mut self, len: u64) -> io::Result<Vec<u8>> {
        let (mut message, mut tag) = (Vec::new(), [0; 32]);
        if Read::by_ref(&mut self.stream).take(len).read_to_end(&mut message)? as u64 != len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.stream.read_exact(&mut tag)?;
        self.check(&message, &tag)?;
        Ok(message)
    }
}

impl Channel {
    /// Receives a message before the deadline, even if its bytes arrive slowly.
    pub(super) fn receive_by(&mut self, message: &mut [u8], until: Instant) -> io::Result<()> {
        let mut tag = [0; 32];
        read_by(&self.stream, message, until)?;
        read_by(&self.stream, &mut tag, until)?;
        self.check(message, &tag)
    }
}

/// Fills `bytes` before the deadline, even if they arrive slowly.
pub(super) fn read_by(mut stream: &TcpStream, mut bytes: &mut [u8], until: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        match stream.read(bytes) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => bytes = &mut bytes[read..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    const NONCES: [&Nonce; 2] = [&[1; 32], &[2; 32]];

    fn connected() -> [TcpStream; 2] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let other = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        [listener.accept().unwrap().0, other]
    }

    /// Both ends of a connection, each with its secret and nonces.
    fn ends(secrets: [&str; 2], nonces: [[&Nonce; 2]; 2]) -> [Channel; 2] {
        let [first, other] = connected();
        let [a, b] = secrets.map(Secret::fixed);
        [Channel::new(first, &a, Side::First, nonces[0]), Channel::new(other, &b, Side::Other, nonces[1])]
    }

    #[test]
    fn messages_arrive_in_both_directions() {
        let [mut first, mut other] = ends(["a"; 2], [NONCES; 2]);
        for k in 0..3 {
            let (mut to_other, mut to_first) = ([0; 4], [0; 2]);
            first.send(&[k; 4]).unwrap();
            other.send(&[k + 10; 2]).unwrap();
            other.receive(&mut to_other).unwrap();
            first.receive(&mut to_first).unwrap();
            assert_eq!((to_other, to_first), ([k; 4], [k + 10; 2]));
        }
        first.send(&[7; 300]).unwrap();
        assert_eq!(other.receive_long(300).unwrap(), [7; 300]);
    }

    #[test]
    fn another_secret_or_nonce_gives_other_tags() {
        let refused = |secrets, nonces| {
            let [mut first, mut other] = ends(secrets, nonces);
            first.send(b"message").unwrap();
            other.receive(&mut [0; 7]).is_err_and(|error| error.kind() == io::ErrorKind::InvalidData)
        };
        assert!(!refused(["a"; 2], [NONCES; 2]));
        assert!(refused(["a", "b"], [NONCES; 2]));
        assert!(refused(["a"; 2], [NONCES, [&[1; 32], &[3; 32]]]));
        assert!(refused(["a"; 2], [NONCES, [&[3; 32], &[2; 32]]]));
        assert!(refused(["a"; 2], [NONCES, [&[2; 32], &[1; 32]]]));
    }

    /// A message that is changed, repeated, left out, moved, cut, extended or sent back is refused.
    #[test]
    fn only_the_next_message_of_the_other_side_is_accepted() {
        let tags = |count: usize| {
            let mut sender = ends(["a"; 2], [NONCES; 2]).map(Some)[0].take().unwrap();
            (0..count).map(|k| sender.tag(&[k as u8; 8])).collect::<Vec<Tag>>()
        };
        let tags = tags(3);
        let accepts = |messages: &[(&[u8], Tag)]| {
            let [_, mut other] = ends(["a"; 2], [NONCES; 2]);
            messages.iter().all(|(message, tag)| other.check(message, tag).is_ok())
        };
        let [a, b, c]: [(&[u8], Tag); 3] = [(&[0; 8], tags[0]), (&[1; 8], tags[1]), (&[2; 8], tags[2])];
        assert!(accepts(&[a, b, c]));
        assert!(!accepts(&[a, a]) && !accepts(&[b]) && !accepts(&[a, c]) && !accepts(&[b, a]));
        assert!(!accepts(&[(&[0; 7], tags[0])]) && !accepts(&[(&[0; 9], tags[0])]) && !accepts(&[(&[], tags[0])]));
        for bit in 0..64 {
            let mut changed = [0; 8];
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(!accepts(&[(&changed, tags[0])]), "bit {bit} of the message");
        }
        for bit in 0..256 {
            let mut changed = tags[0];
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(!accepts(&[(&[0; 8], changed)]), "bit {bit} of the tag");
        }
        // Sent back to its sender.
        let [mut first, _] = ends(["a"; 2], [NONCES; 2]);
        assert!(first.check(a.0, &a.1).is_err());
    }

    #[test]
    fn bytes_that_arrive_too_slowly_are_refused() {
        let [stream, mut slow] = connected();
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
}
