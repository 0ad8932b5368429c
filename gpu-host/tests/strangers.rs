//! Programs between and beside the processes of a training: none ends rank 0, and none changes what is trained.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Scope};
use std::time::Duration;

use chacha20::ChaCha8Rng;
use chacha20::rand_core::{Rng, SeedableRng};

use crate::lesson::{Lesson, json};
use crate::processes::{ended, place};

const MORE: [&str; 7] = ["--epochs", "4", "--batch", "64", "--noise", "0.2", "--json"];
/// Bytes that rank 0 and the other rank send before rank 0 has admitted the other rank. From then on, a connection that
/// breaks is a lost rank.
const BEFORE: [usize; 2] = [32, 104];
/// Bytes before the first message of the training. Rank 0 sends its nonce, its verdict and a tag.
const JOINED: [usize; 2] = [32 + 1 + 32, 104];

/// A change that a relay makes to the bytes of a direction.
#[derive(Clone, Copy, Debug)]
enum Change {
    Flip { bit: usize },
    Drop { byte: usize },
    Repeat { from: usize, len: usize },
    End { after: usize },
}

impl Change {
    /// The bytes to send in place of `next` after the bytes `seen`, or `None` to end the connection.
    fn apply(self, seen: &[u8], next: u8) -> Option<Vec<u8>> {
        Some(match self {
            Self::Flip { bit } if bit / 8 == seen.len() => vec![next ^ 1 << (bit % 8)],
            Self::Drop { byte } if byte == seen.len() => Vec::new(),
            Self::Repeat { from, len } if from + len == seen.len() => [&seen[from..], &[next]].concat(),
            Self::End { after } if after == seen.len() => return None,
            _ => vec![next],
        })
    }
}

fn copy(mut from: TcpStream, mut to: TcpStream, change: Option<Change>) {
    let (mut seen, mut chunk) = (Vec::new(), [0; 4096]);
    'all: while let Ok(read @ 1..) = from.read(&mut chunk) {
        let mut out = Vec::new();
        for &next in &chunk[..read] {
            match change.map_or_else(|| Some(vec![next]), |change| change.apply(&seen, next)) {
                Some(bytes) => out.extend(bytes),
                None => break 'all,
            }
            seen.push(next);
        }
        if to.write_all(&out).is_err() {
            break;
        }
    }
    // Both sides see the end. One of them may be gone.
    for stream in [from, to] {
        let _ = stream.shutdown(Shutdown::Both);
    }
}

/// Relays connections to a port. Applies `changes(k)[0]` to the bytes that rank 0 sends on connection number k, and
/// `changes(k)[1]` to those in the other direction. Returns the port of the relay.
fn relay<'scope>(
    scope: &'scope Scope<'scope, '_>,
    port: u16,
    changes: impl Fn(usize) -> [Option<Change>; 2] + Send + 'scope,
) -> (u16, &'scope AtomicBool) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let own = listener.local_addr().unwrap().port();
    let over: &AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
    scope.spawn(move || {
        let mut number = 0;
        for client in listener.incoming() {
            if over.load(Ordering::Relaxed) {
                break;
            }
            let client = client.unwrap();
            // Rank 0 may not listen yet.
            let Ok(server) = TcpStream::connect(("127.0.0.1", port)) else { continue };
            let [down, up] = changes(number);
            number += 1;
            let ends = (client.try_clone().unwrap(), server.try_clone().unwrap());
            scope.spawn(move || copy(server, client, down));
            scope.spawn(move || copy(ends.0, ends.1, up));
        }
    });
    (own, over)
}

fn free() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Trains in two processes with these values of MASTER_PORT. Returns their outputs.
fn two(lesson: &Lesson, out: &str, ports: [u16; 2]) -> [std::process::Output; 2] {
    let process = |rank: usize| {
        let mut command = lesson.command(out, &MORE);
        place(&mut command, rank, 2, ports[rank]);
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap()
    };
    ended(vec![process(0), process(1)]).try_into().unwrap()
}

/// Ends the thread that accepts connections.
fn stop((port, over): (u16, &AtomicBool)) {
    over.store(true, Ordering::Relaxed);
    drop(TcpStream::connect(("127.0.0.1", port)));
}

/// Twelve greetings are changed on their way, in both directions, while other programs send random bytes.
#[test]
fn strangers_and_changed_greetings_do_not_change_a_training() {
    let lesson = Lesson::new(8);
    json(&lesson.train("one.safetensors", &MORE));
    let port = free();
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let mut any = |most: usize| random.next_u32() as usize % most;
    let mut planned: Vec<[Option<Change>; 2]> = Vec::new();
    for k in 0..12 {
        let direction = k % 2;
        let change = match k {
            0 => Change::Drop { byte: any(32) },
            1 => Change::Drop { byte: any(BEFORE[1]) },
            2 | 3 => Change::End { after: any(BEFORE[direction]) },
            4 | 5 => Change::Repeat { from: any(32), len: 1 + any(20) },
            _ => Change::Flip { bit: any(8 * BEFORE[direction]) },
        };
        let mut both = [None; 2];
        both[direction] = Some(change);
        planned.push(both);
    }
    let over = AtomicBool::new(false);
    let outputs = thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = ChaCha8Rng::seed_from_u64(2);
            while !over.load(Ordering::Relaxed) {
                if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) {
                    let mut bytes = vec![0; random.next_u32() as usize % 200];
                    random.fill_bytes(&mut bytes);
                    let _ = stream.write_all(&bytes);
                }
                thread::sleep(Duration::from_millis(3));
            }
        });
        let changed = relay(scope, port, |k| planned.get(k).copied().unwrap_or_default());
        let outputs = two(&lesson, "two.safetensors", [port, changed.0]);
        over.store(true, Ordering::Relaxed);
        stop(changed);
        outputs
    });
    let errors = outputs.each_ref().map(|output| String::from_utf8_lossy(&output.stderr).into_owned());
    assert!(outputs.iter().all(|output| output.status.success()), "{errors:?}");
    let counted = |line: &str| line.starts_with("tidegate-gpu: ignored ") && line.contains(" without the secret of");
    assert!(errors[0].lines().count() > 0 && errors[0].lines().all(counted), "{}", errors[0]);
    assert!(errors[0].lines().count() < 10, "few lines for many connections: {}", errors[0]);
    let bytes = |name: &str| std::fs::read(lesson.path(name)).unwrap();
    assert_eq!(bytes("two.safetensors"), bytes("one.safetensors"));
}

/// A message that is changed after the greeting ends the training with one line in each process, and nothing is
/// trained with it.
#[test]
fn a_changed_message_is_never_trained_with() {
    let mut random = ChaCha8Rng::seed_from_u64(3);
    let mut any = |from: usize, to: usize| from + random.next_u32() as usize % (to - from);
    let mut planned = Vec::new();
    for direction in [0, 1, 0, 1] {
        let first = JOINED[direction];
        planned.push((direction, Change::Flip { bit: any(8 * first, 8 * (first + 1500)) }));
    }
    // The two counts of the first step, which have 16 bytes and a tag of 32.
    planned.push((1, Change::Repeat { from: JOINED[1], len: 48 }));
    for (direction, change) in planned {
        let lesson = Lesson::new(8);
        let port = free();
        let outputs = thread::scope(|scope| {
            let changed = relay(scope, port, move |_| {
                let mut both = [None; 2];
                both[direction] = Some(change);
                both
            });
            let outputs = two(&lesson, "two.safetensors", [port, changed.0]);
            stop(changed);
            outputs
        });
        for output in outputs {
            let error = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{change:?}: {error}");
            assert!(error.starts_with("tidegate-gpu: lost rank ") && error.lines().count() == 1, "{change:?}: {error}");
        }
        assert!(!lesson.path("two.safetensors").exists() && !lesson.path("two.checkpoint").exists(), "{change:?}");
    }
}
