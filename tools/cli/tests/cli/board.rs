//! A device at the end of a line: banks and journal in memory, and the loop of a firmware that takes updates.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixListener;
use std::thread::{self, sleep};
use std::time::Duration;

use tidegate_model::sign::public_from_pem;
use tidegate_update::wire::{Answer, Request};
use tidegate_update::{Boot, FRAME_BYTES, Frames, Keys, Session, Slots};

use super::Workplace;
use super::ram::{Flash, Log};

type Part = Flash<4, 1024>;
type Device = Slots<Part, Part>;

/// Pages of a bank, which holds the spotter in f32.
const BANK: usize = 340;

/// Faults while the device is switched on.
#[derive(Clone, Copy, Default)]
pub struct Faults {
    /// The number of the request after which the power is cut.
    pub off_after: Option<usize>,
    /// Numbers of requests whose answers are lost.
    pub lost: &'static [usize],
}

/// Listens at `board.sock` with the root key `key.pub.pem`. The device is switched on for each connection.
pub fn listen(here: &Workplace, faults: &'static [Faults]) {
    let listener = UnixListener::bind(here.path("board.sock")).unwrap();
    let keys = keys(here);
    thread::spawn(move || {
        let mut parts = parts();
        for faults in faults {
            let (mut line, _) = listener.accept().unwrap();
            parts = power_on(parts, keys, &mut line, *faults);
        }
    });
}

/// A device at the other end of a pseudoterminal, which stays on.
pub fn attach(here: &Workplace, mut line: std::fs::File) {
    let keys = keys(here);
    thread::spawn(move || {
        power_on(parts(), keys, &mut line, Faults::default());
    });
}

fn keys(here: &Workplace) -> Keys {
    let key = public_from_pem(str::from_utf8(&here.read("key.pub.pem")).unwrap()).unwrap();
    Keys::new(key.as_bytes(), [0; 16]).unwrap()
}

fn parts() -> [Part; 3] {
    let log = Log::default();
    [(0, BANK), (1, BANK), (2, 2)].map(|(number, pages)| Flash::new(number, pages, &log))
}

/// Runs the firmware until the line is closed, or the power is cut.
fn power_on(parts: [Part; 3], keys: Keys, line: &mut (impl Read + Write), faults: Faults) -> [Part; 3] {
    let [first, second, journal] = parts;
    let mut device = Slots::open([first, second], journal, keys).unwrap();
    let mut number = 0;
    loop {
        if device.boot() == Boot::Trial {
            let (active, mut updater) = device.split();
            let active = active.unwrap();
            let mut memory = vec![0; active.model().runner_words()];
            updater.confirm(active.self_test(&mut memory).unwrap()).unwrap();
        }
        if serve(&mut device, line, faults, &mut number).is_none() {
            let ([first, second], journal) = device.into_parts();
            return [first, second, journal];
        }
        device.switch().unwrap();
    }
}

/// Answers requests until another model should run. `None` at the end of the line, or if the power is cut.
fn serve(device: &mut Device, line: &mut (impl Read + Write), faults: Faults, number: &mut usize) -> Option<()> {
    let boot = device.boot();
    let (active, updater) = device.split();
    let mut session = Session::new(updater, active.as_ref().ok(), boot);
    let (mut frames, mut frame, mut bytes) = (Frames::new(), [0; FRAME_BYTES], [0; 64]);
    loop {
        let len = match line.read(&mut bytes) {
            Ok(0) => return None,
            Ok(len) => len,
            // Nobody has opened the other end of the pseudoterminal.
            Err(error) if error.kind() != ErrorKind::ConnectionReset => {
                sleep(Duration::from_millis(1));
                continue;
            }
            Err(_) => return None,
        };
        for &byte in &bytes[..len] {
            let Some((asked, request)) = frames.push(byte).and_then(Request::decode) else { continue };
            *number += 1;
            let answer = session.answer(asked, request);
            let begins = matches!(request, Request::Begin { .. });
            if begins {
                line.write_all(Answer::Note("erased").encode(0, &mut frame)).ok()?;
            }
            if !faults.lost.contains(number) {
                line.write_all(answer.encode(asked, &mut frame)).ok()?;
            }
            if faults.off_after == Some(*number) {
                return None;
            }
            if (request, answer) == (Request::Run, Answer::Done) {
                return Some(());
            }
        }
    }
}
