//! Requests over a line, repeated until an answer comes.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tidegate_update::wire::{Answer, Request};
use tidegate_update::{FRAME_BYTES, Frames};

use super::port::Port;
use crate::command::Failure;

/// Time after which a request that the device answers at once is sent again.
const SOON: Duration = Duration::from_secs(1);

/// A line to a device.
pub struct Link {
    port: Port,
    path: PathBuf,
    frames: Frames,
    number: u8,
    patience: Duration,
}

impl Link {
    /// Opens a line whose device answers within `patience`.
    pub fn open(path: &Path, baud: u32, patience: Duration) -> Result<Self, Failure> {
        let port = Port::open(path, baud).map_err(|reason| Failure::of(path, reason))?;
        Ok(Self { port, path: path.to_owned(), frames: Frames::new(), number: 0, patience })
    }

    /// The longest time without an answer.
    pub fn patience(&self) -> Duration {
        self.patience
    }

    /// The error for a failure of the device.
    pub fn failed(&self, reason: impl std::fmt::Display) -> Failure {
        Failure::of(&self.path, reason)
    }

    /// The error for a device that answers another request than the one that was sent.
    pub fn confused(&self) -> Failure {
        self.failed("the device gives another answer than expected: reset it and try again")
    }

    /// Sends a request until its answer arrives. Notes that arrive before the answer are passed to `note`.
    pub fn ask(
        &mut self,
        request: Request<'_>,
        note: &mut dyn FnMut(&str) -> std::io::Result<()>,
    ) -> Result<Answer<'static>, Failure> {
        self.number = self.number.wrapping_add(1);
        let mut frame = [0; FRAME_BYTES];
        let frame = request.encode(self.number, &mut frame);
        let quick = matches!(request, Request::Hello | Request::Block { .. });
        let interval = if quick { SOON } else { self.patience / 3 };
        let start = Instant::now();
        while start.elapsed() < self.patience {
            self.port.write(frame, self.patience).map_err(|error| self.broken(&error))?;
            let again = Instant::now() + interval;
            while let Some(left) = again.checked_duration_since(Instant::now()) {
                let mut bytes = [0; 256];
                let len = self.port.read(&mut bytes, left).map_err(|error| self.broken(&error))?;
                for &byte in &bytes[..len] {
                    let Some((number, answer)) = self.frames.push(byte).and_then(Answer::decode) else { continue };
                    match answer.reply() {
                        Ok(answer) if number == self.number => return Ok(answer),
                        // A late answer to an earlier request that was repeated.
                        Ok(_) => {}
                        Err(text) => note(text)?,
                    }
                }
            }
        }
        let seconds = self.patience.as_secs();
        Err(self
            .failed(format!("the device has not answered for {seconds} s: check port and baud rate, then try again")))
    }

    fn broken(&self, error: &std::io::Error) -> Failure {
        match error.kind() {
            ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset => {
                self.failed("the line was closed: connect the device and try again")
            }
            _ => self.failed(format!("{error}: connect the device and try again")),
        }
    }
}
