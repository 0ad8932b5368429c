//! Tests of the join: which processes rank 0 admits, and which it ignores.

use chacha20::ChaCha8Rng;
use chacha20::rand_core::{Rng, SeedableRng};

use super::*;

const SECRET: &str = "the secret of the tests";
const LIMIT: Duration = Duration::from_secs(20);

fn free() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn place(rank: usize, address: &str, port: u16) -> Place {
    Place { rank, size: 2, local_rank: 0, address: address.to_owned(), port, secret: Some(Secret::fixed(SECRET)) }
}

fn meet(place: &Place, limit: Duration) -> Result<Vec<Channel>, WorldError> {
    place.meet("same", Path::new("unused"), limit)
}

/// Runs rank 0 beside `other`.
fn beside<T: Send>(
    port: u16,
    limit: Duration,
    other: impl FnOnce() -> T + Send,
) -> (Result<Vec<Channel>, WorldError>, Duration, T) {
    std::thread::scope(|scope| {
        let other = scope.spawn(other);
        let started = Instant::now();
        let first = meet(&place(0, "127.0.0.1", port), limit);
        (first, started.elapsed(), other.join().unwrap())
    })
}

/// Connects, as soon as rank 0 listens.
fn connect(port: u16) -> TcpStream {
    let started = Instant::now();
    loop {
        match TcpStream::connect(("127.0.0.1", port)) {
            Ok(stream) => return stream,
            Err(error) => assert!(started.elapsed() < LIMIT, "{error}"),
        }
        std::thread::sleep(PAUSE);
    }
}

#[test]
fn processes_connect_at_any_address_of_the_machine() {
    let folder = tempfile::tempdir().unwrap();
    for address in ["127.0.0.1", "127.0.1.1", "localhost", "::1", "0.0.0.0"] {
        if cfg!(not(target_os = "linux")) && address == "127.0.1.1" {
            continue;
        }
        if address == "::1" && TcpListener::bind("[::1]:0").is_err() {
            println!("SKIP no IPv6");
            continue;
        }
        for given in [true, false] {
            // Other machines can connect to all addresses, so a secret is needed.
            if !given && address == "0.0.0.0" {
                continue;
            }
            let port = free();
            let checkpoint = folder.path().join("model.checkpoint");
            let join = |rank| {
                let place = place(rank, address, port);
                let place = Place { secret: place.secret.clone().filter(|_| given), ..place };
                place.meet("same", &checkpoint, LIMIT).map(drop)
            };
            std::thread::scope(|scope| {
                let other = scope.spawn(|| join(1));
                join(0).unwrap();
                other.join().unwrap().unwrap();
            });
            assert_eq!(folder.path().read_dir().unwrap().count(), 0, "the secret is deleted");
        }
    }
}

/// Rank 0 listens at the address in MASTER_ADDR, not at other addresses of its machine.
#[test]
#[cfg(target_os = "linux")]
fn rank_0_listens_at_its_address_only() {
    let port = free();
    let other = || {
        drop(connect(port));
        let elsewhere = TcpStream::connect(("127.0.0.2", port)).map(drop);
        meet(&place(1, "127.0.0.1", port), LIMIT).unwrap();
        elsewhere
    };
    let (first, _, elsewhere) = beside(port, LIMIT, other);
    assert_eq!(elsewhere.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    first.unwrap();
    // It is not an address of this machine (RFC 5737).
    let error = meet(&place(0, "192.0.2.1", port), LIMIT).err().unwrap().to_string();
    assert!(error.starts_with("rank 0 cannot listen at 192.0.2.1:"), "{error}");
}

#[test]
fn without_a_secret_no_other_machine_can_connect() {
    for address in ["0.0.0.0", "192.0.2.1", "2001:db8::1", "name.invalid"] {
        for rank in [0, 1] {
            let error = meet(&Place { secret: None, ..place(rank, address, 1) }, LIMIT).err().unwrap().to_string();
            assert!(error.starts_with(&format!("other machines can connect to {address}, so all ranks")), "{error}");
        }
    }
}

/// Repeated connections do not extend the time limit.
#[test]
fn strangers_do_not_delay_the_time_limit_of_rank_0() {
    let port = free();
    let strangers = || {
        let started = Instant::now();
        while started.elapsed() < Duration::from_secs(5) {
            drop(TcpStream::connect(("127.0.0.1", port)));
        }
    };
    let (first, took, ()) = beside(port, Duration::from_millis(300), strangers);
    let error = first.err().unwrap().to_string();
    assert!(error.starts_with(&format!("rank 1 has not connected to 127.0.0.1:{port} after 0 s")), "{error}");
    assert!(took < Duration::from_secs(4), "{took:?}");
}

/// More connections than rank 0 waits for stay silent or send a part of a greeting.
#[test]
fn silent_connections_do_not_delay_a_process() {
    let port = free();
    let other = || {
        let mut silent: Vec<TcpStream> = (0..PENDING + 50).map(|_| connect(port)).collect();
        let started = Instant::now();
        for stream in silent.iter_mut().step_by(2) {
            // Rank 0 may have replaced this connection.
            let _ = stream.write_all(&[1; 7]);
        }
        meet(&place(1, "127.0.0.1", port), LIMIT).unwrap();
        let took = started.elapsed();
        drop(silent);
        took
    };
    let (first, _, took) = beside(port, LIMIT, other);
    assert_eq!(first.unwrap().len(), 1);
    assert!(took < HELLO / 2, "{took:?}");
}

/// Neither a stranger's bytes, nor a process with another secret, nor its own greeting count as an answer.
#[test]
fn another_program_at_the_port_is_not_rank_0() {
    let limit = Duration::from_millis(300);
    let ssh = b"SSH-2.0-OpenSSH_9.6\r\n";
    for words in [&ssh.repeat(8)[..], &[], &[0; 65], &[1; 32]] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let found = std::thread::scope(|scope| {
            let other = scope.spawn(move || meet(&place(1, "127.0.0.1", port), limit));
            let mut stream = listener.accept().unwrap().0;
            stream.write_all(words).unwrap();
            if words.len() == 32 {
                // Sends the greeting back.
                let mut greeting = [0; FIRST];
                stream.read_exact(&mut greeting).unwrap();
                stream.write_all(&greeting[32..]).unwrap();
            }
            drop((stream, listener));
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
        let join = |rank| move || meet(&three(rank), LIMIT);
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
        let meet = move || other.meet(fingerprint, Path::new("unused"), LIMIT).err();
        let (first, _, error) = beside(port, LIMIT, meet);
        let [first, other] = [first.err(), error].map(|error| error.unwrap().to_string());
        assert!(first.starts_with(&format!("rank {rank} has other settings")), "{first}");
        assert!(other.starts_with("rank 0 has other settings"), "{other}");
    }
}

/// The answer of a process with this secret to a nonce of rank 0.
fn first_bytes(secret: &str, nonce: &Nonce, own: &Nonce) -> Vec<u8> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let greeting = place(1, "", 1).greeting("same");
    let tag = Channel::new(stream, &Secret::fixed(secret), Side::Other, [nonce, own]).tag(&greeting);
    [&own[..], &greeting, &tag].concat()
}

/// Random bytes, greetings under another secret, greetings that were recorded, changed, cut or extended, and greetings
/// for another connection: rank 0 ignores all of them, and lets in the process that comes after them.
#[test]
fn no_packet_of_a_stranger_ends_rank_0() {
    let port = free();
    let strangers = || {
        let mut random = ChaCha8Rng::seed_from_u64(26);
        let mut recorded: Option<Vec<u8>> = None;
        for round in 0..600 {
            let mut stream = connect(port);
            let mut nonce = [0; 32];
            stream.read_exact(&mut nonce).unwrap();
            let mut own = [0; 32];
            random.fill_bytes(&mut own);
            let right = first_bytes(SECRET, &nonce, &own);
            let any = |random: &mut ChaCha8Rng, most: usize| random.next_u32() as usize % most;
            let packet = match round % 6 {
                0 => {
                    let mut bytes = vec![0; any(&mut random, 300)];
                    random.fill_bytes(&mut bytes);
                    bytes
                }
                1 => first_bytes("another secret of the tests", &nonce, &own),
                2 => recorded.clone().unwrap_or_default(),
                3 => right[..any(&mut random, FIRST)].to_vec(),
                4 => {
                    // Bytes are missing at the end, or there is one too many anywhere.
                    let (mut bytes, at) = (right.clone(), any(&mut random, FIRST));
                    if round % 4 == 0 {
                        bytes.truncate(bytes.len() - 1 - at % 9);
                    } else {
                        bytes.insert(at, !bytes[at]);
                    }
                    bytes
                }
                _ => {
                    let (mut bytes, at) = (right.clone(), any(&mut random, 8 * FIRST));
                    bytes[at / 8] ^= 1 << (at % 8);
                    bytes
                }
            };
            // These bytes were never sent to rank 0 for its own nonce.
            recorded = Some(right);
            // In one or two pieces. Rank 0 may have closed the connection already.
            let (one, two) = packet.split_at(any(&mut random, packet.len() + 1));
            let _ = stream.write_all(one).and_then(|()| stream.write_all(two));
        }
        meet(&place(1, "127.0.0.1", port), LIMIT).unwrap()
    };
    let (first, _, mut other) = beside(port, LIMIT, strangers);
    let mut first = first.unwrap();
    assert_eq!((first.len(), other.len()), (1, 1));
    let mut message = [0; 5];
    other[0].send(b"hello").unwrap();
    first[0].receive(&mut message).unwrap();
    assert_eq!(&message, b"hello");
}

#[test]
fn ignored_connections_are_counted_and_rarely_reported() {
    let mut ignored = Ignored { count: 3, ..Ignored::default() };
    ignored.report();
    assert_eq!(ignored.reported, 3);
    ignored.count = 9;
    ignored.report();
    assert_eq!(ignored.reported, 3, "ten seconds are not over");
    ignored.last = Some(Instant::now() - REPORT);
    ignored.report();
    assert_eq!(ignored.reported, 9);
}
