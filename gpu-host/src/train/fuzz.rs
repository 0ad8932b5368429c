//! Bodies of the fuzz targets of training: checkpoints, and what the other processes of a training send. They must
//! neither panic nor run long for any bytes. `tests/fuzz` runs them with libFuzzer, the tests below on stable Rust.

use std::io::{self, Cursor, Read, Write};
use std::path::Path;

use super::adam::Adam;
use super::channel::{Channel, Nonce, Side};
use super::error::WorldError;
use super::join::{Greeting, Pending, WELCOME, offer, welcome};
use super::place::Place;
use super::resume::{Progress, seal};
use super::secret::Secret;
use super::world::World;

/// Bits of the first byte of a target's data.
mod flag {
    /// Append the digest or the tags that the bytes need, so that a mutated input is not refused because of them.
    pub const SEAL: u8 = 1;
    /// The bytes are not a checkpoint but choose the lengths and counts of one.
    pub const MADE: u8 = 2;
    /// Make the tags under another secret.
    pub const OTHER_SECRET: u8 = 2;
    /// The bytes come from rank 0.
    pub const FROM_FIRST: u8 = 4;
    /// The processes that have connected are gone.
    pub const GONE: u8 = 8;
}

const FINGERPRINT: &str = "fuzz";
const SECRET: &str = "the secret of the targets";
const OTHER_SECRET: &str = "another secret of targets";
/// Nonces of rank 0 and of the others.
const NONCES: [&Nonce; 2] = [&[1; 32], &[2; 32]];
/// Number of processes.
const SIZE: usize = 3;
/// Number of values of a gradient.
const GRADIENT: usize = 5;

/// The data are a byte of flags, the number of parameters, and a checkpoint. Returns whether the checkpoint is accepted; its
/// values must then be the same after it has been written and read again.
pub fn train_checkpoint(data: &[u8]) -> bool {
    let [flags, size, bytes @ ..] = data else { return false };
    let mut bytes = if flags & flag::MADE != 0 { made(bytes) } else { bytes.to_vec() };
    if flags & (flag::SEAL | flag::MADE) == flag::SEAL {
        seal(&mut bytes);
    }
    let parse = |bytes: &[u8]| Progress::parse(bytes, Path::new("fuzz"), FINGERPRINT, usize::from(*size));
    // Decimals of seconds may change by a rounding error.
    let encode = |found| Progress { seconds: 0.0, ..found }.encode(FINGERPRINT).expect("a checkpoint can be encoded");
    match parse(&bytes) {
        Err(error) => {
            assert_line(&error.to_string());
            false
        }
        Ok(None) => false,
        Ok(Some(found)) => {
            let Adam { first, second, .. } = &found.adam;
            let lens = [&found.params, &found.best, first, second].map(Vec::len);
            assert!(lens == [usize::from(*size); 4], "{lens:?}");
            assert!(found.held_out.is_empty() || found.held_out.get(found.best_epoch).is_some());
            let once = encode(found);
            let again = parse(&once).expect("a checkpoint can be read").expect("it is not empty");
            assert!(encode(again) == once, "the values have changed");
            true
        }
    }
}

/// A checkpoint whose lengths and counts are bytes.
fn made(data: &[u8]) -> Vec<u8> {
    let byte = |at: usize| usize::from(data.get(at).copied().unwrap_or(2));
    let [params, best, first, second] = [0, 1, 2, 3].map(|at| vec![byte(at) as f32; byte(at)]);
    let progress = Progress {
        params,
        best,
        adam: Adam { first, second, steps: byte(4) as u32 },
        steps: vec![[0.5; 2]; byte(5)],
        held_out: vec![[0.5; 2]; byte(6)],
        epochs: byte(7),
        best_epoch: byte(8),
        seconds: byte(9) as f64,
    };
    progress.encode(FINGERPRINT).expect("a checkpoint can be encoded")
}

/// The data are a byte of flags, and the bytes that arrive at rank 0, or from rank 0 at another rank. Returns
/// whether all processes have joined, and have summed and shared numbers.
pub fn join(data: &[u8]) -> bool {
    let Some((&flags, mut rest)) = data.split_first() else { return false };
    if flags & flag::FROM_FIRST != 0 {
        return from_first(flags, rest);
    }
    let mut peers: Vec<Option<Channel<Wire>>> = (1..SIZE).map(|_| None).collect();
    let own = place(0).greeting(FINGERPRINT);
    while let Some(stream) = connection(flags, &mut rest) {
        let Some((channel, greeting)) = greeted(stream) else { continue };
        assert!(flags & (flag::SEAL | flag::OTHER_SECRET) == flag::SEAL, "a stranger has joined");
        let known = (1..SIZE).any(|rank| greeting == place(rank).greeting(FINGERPRINT));
        match welcome(channel, &greeting, &own, &mut peers, |_| flags & flag::GONE != 0) {
            Ok(()) => assert!(known, "a rank with other settings has joined"),
            Err(error) => {
                assert!(!known && matches!(error, WorldError::Different { .. }));
                return false;
            }
        }
    }
    let peers: Vec<_> = peers.into_iter().flatten().collect();
    if peers.len() + 1 < SIZE {
        return false;
    }
    talk(World { rank: 0, size: SIZE, peers })
}

/// Another rank joins. The bytes of rank 0 are its verdict and its messages.
fn from_first(flags: u8, mut rest: &[u8]) -> bool {
    let secret = Secret::fixed(SECRET);
    let Some(stream) = connection(flags, &mut rest) else { return false };
    let mut channel = offer(stream, &place(1).greeting(FINGERPRINT), &secret, NONCES).expect("a wire takes all bytes");
    let mut verdict = [0];
    if channel.receive(&mut verdict).is_err() {
        return false;
    }
    assert!(flags & (flag::SEAL | flag::OTHER_SECRET) == flag::SEAL, "a stranger is rank 0");
    if verdict != [WELCOME] {
        return false;
    }
    talk(World { rank: 1, size: SIZE, peers: vec![channel] })
}

fn place(rank: usize) -> Place {
    Place { rank, size: SIZE, ..Place::default() }
}

/// Receives the greeting of a connection. `None` if rank 0 ignores it.
fn greeted(stream: Wire) -> Option<(Channel<Wire>, Greeting)> {
    let mut pending = Pending::new(stream, *NONCES[0]).expect("a wire takes all bytes");
    while !pending.advance().ok()? {}
    pending.greeting(&Secret::fixed(SECRET)).ok()
}

/// Runs the messages between the processes of a training. Returns whether they succeed. An error is one line.
fn talk(mut world: World<Wire>) -> bool {
    let mut all = || {
        let shared = world.share(b"the bytes of rank 0".to_vec())?;
        assert!(world.rank > 0 || shared == b"the bytes of rank 0");
        world.sum([1.0, 2.0])?;
        world.add_up(&mut [0.5; GRADIENT])?;
        world.agree(7, 1)
    };
    let done = all();
    if let Err(error) = &done {
        assert_line(&error.to_string());
    }
    done.is_ok()
}

fn assert_line(text: &str) {
    assert!(!text.is_empty() && !text.contains(['\n', '\r', '\0', '\u{1b}']), "{text:?}");
}

/// A connection in memory.
struct Wire {
    arrives: Cursor<Vec<u8>>,
    /// Maximum number of bytes that arrive at a time.
    piece: usize,
    is_late: bool,
}

impl Read for Wire {
    /// Every other call fails as if a signal had interrupted it.
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.is_late ^= true;
        if self.is_late {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let len = bytes.len().min(self.piece);
        self.arrives.read(&mut bytes[..len])
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Takes the next connection: the maximum number of bytes that arrive at a time, the number of messages, and each message
/// preceded by its length. `None` at the end of the data.
fn connection(flags: u8, data: &mut &[u8]) -> Option<Wire> {
    let [piece, count] = *take(data, 2)? else { return None };
    let secret = if flags & flag::OTHER_SECRET != 0 { OTHER_SECRET } else { SECRET };
    let side = if flags & flag::FROM_FIRST != 0 { Side::First } else { Side::Other };
    let mut sender = Channel::new(io::empty(), &Secret::fixed(secret), side, NONCES);
    let mut arrives = Vec::new();
    if side == Side::Other && flags & flag::SEAL != 0 {
        arrives.extend(NONCES[1]);
    }
    for _ in 0..count {
        let Some([len]) = take(data, 1) else { break };
        let message = take(data, usize::from(*len).min(data.len()))?;
        arrives.extend(message);
        if flags & flag::SEAL != 0 {
            arrives.extend(sender.tag(message));
        }
    }
    Some(Wire { arrives: Cursor::new(arrives), piece: usize::from(piece).max(1), is_late: false })
}

fn take<'d>(data: &mut &'d [u8], len: usize) -> Option<&'d [u8]> {
    let (taken, rest) = data.split_at_checked(len)?;
    *data = rest;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use tidegate_tests::corpus::Corpus;

    use super::*;

    /// Every seed is accepted, except the named ones.
    fn passes(target: &'static str, seeds: &[(&str, Vec<u8>)], refused: &[&str], body: fn(&[u8]) -> bool) {
        let seeds = seeds.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.clone()));
        let corpus = Corpus { target, seeds: seeds.collect() };
        corpus.write_inputs();
        for (name, bytes) in &corpus.seeds {
            assert_eq!(body(bytes), !refused.contains(&name.as_str()), "{name}");
        }
        corpus.replay(body);
        corpus.mutate(body);
    }

    #[test]
    fn checkpoints_of_every_seed_are_read() {
        let progress = |epochs: usize, size: usize| Progress {
            params: vec![1.5; size],
            best: vec![-0.25; size],
            adam: Adam { first: vec![0.5; size], second: vec![4.0; size], steps: 3 * epochs as u32 },
            epochs,
            best_epoch: epochs.saturating_sub(1),
            steps: vec![[0.5, 0.25]; 3 * epochs],
            held_out: vec![[0.75, 0.5]; epochs],
            seconds: 1.25,
        };
        let seed = |flags: u8, epochs: usize, size: usize| {
            let whole = progress(epochs, size).encode(FINGERPRINT).unwrap();
            let bytes = if flags & flag::SEAL != 0 { &whole[..whole.len() - 32] } else { &whole };
            [&[flags, size as u8], bytes].concat()
        };
        let seeds = [
            ("begun", seed(flag::SEAL, 0, 2)),
            ("one", seed(flag::SEAL, 1, 1)),
            ("long", seed(flag::SEAL, 9, 7)),
            ("none", seed(flag::SEAL, 2, 0)),
            ("as_written", seed(0, 2, 3)),
            ("made", vec![flag::MADE, 3, 3, 3, 3, 3, 6, 6, 2, 2, 1, 9]),
            ("made_begun", vec![flag::MADE, 2, 2, 2, 2, 2, 0, 0, 0, 0, 0, 0]),
            ("unsealed", seed(0, 2, 3)[..90].to_vec()),
        ];
        passes("train_checkpoint", &seeds, &["unsealed"], train_checkpoint);
    }

    /// A connection with these messages.
    fn sends(messages: &[&[u8]]) -> Vec<u8> {
        let message = |message: &&[u8]| [&[message.len() as u8], *message].concat();
        [vec![50, messages.len() as u8], messages.iter().flat_map(message).collect()].concat()
    }

    #[test]
    fn processes_of_every_seed_join() {
        let counts = [1.0_f64, 2.0].map(f64::to_le_bytes);
        let gradient = [0.5_f32; GRADIENT].map(f32::to_le_bytes);
        let weights = |rank: usize| [0, 1, 2].map(|of| if of == rank { 7.0_f64 } else { 0.0 }.to_le_bytes());
        let other = |rank: usize| {
            let greeting = place(rank).greeting(FINGERPRINT);
            sends(&[&greeting, counts.as_flattened(), gradient.as_flattened(), weights(rank).as_flattened()])
        };
        let first = |verdict: u8| {
            let len = 3_u64.to_le_bytes();
            let sums = [&[verdict][..], &len, b"abc", counts.as_flattened(), gradient.as_flattened()];
            sends(&[&sums[..], &[[7.0_f64; SIZE].map(f64::to_le_bytes).as_flattened()]].concat())
        };
        let with = |flags: u8, rest: &[Vec<u8>]| [vec![flags], rest.concat()].concat();
        let both = [other(1), other(2)];
        let recorded = {
            let mut wire = connection(flag::SEAL, &mut &other(1)[..]).unwrap();
            let mut bytes = Vec::new();
            wire.arrives.read_to_end(&mut bytes).unwrap();
            bytes
        };
        let seeds = [
            ("all", with(flag::SEAL, &both)),
            ("twice", with(flag::SEAL, &[other(1), other(1), other(2)])),
            ("gone", with(flag::SEAL | flag::GONE, &[other(2), other(2), other(1)])),
            ("first", with(flag::SEAL | flag::FROM_FIRST, &[first(WELCOME)])),
            ("missing", with(flag::SEAL, &both[..1])),
            ("fourth", with(flag::SEAL, &[other(3)])),
            ("taken", with(flag::SEAL | flag::FROM_FIRST, &[first(WELCOME + 1)])),
            ("other_secret", with(flag::SEAL | flag::OTHER_SECRET, &both)),
            ("other_first", with(flag::SEAL | flag::OTHER_SECRET | flag::FROM_FIRST, &[first(WELCOME)])),
            ("bytes", with(0, &[sends(&[&recorded[..80], &[1; 4]])])),
            ("bytes_of_first", with(flag::FROM_FIRST, &[sends(&[&[WELCOME; 33]])])),
        ];
        let refused = ["missing", "fourth", "taken", "other_secret", "other_first", "bytes", "bytes_of_first"];
        passes("join", &seeds, &refused, join);
    }
}
