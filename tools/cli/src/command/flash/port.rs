//! A serial port, a pseudoterminal, or a Unix socket. Reads and writes time out.

use std::io::{Error, ErrorKind, Result};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::termios::{ControlModes, OptionalActions, isatty, tcgetattr, tcsetattr};

/// The open line.
pub struct Port(OwnedFd);

impl Port {
    /// Opens a line.
    ///
    /// # Errors
    /// The reason as a text.
    pub fn open(path: &Path, baud: u32) -> std::result::Result<Self, String> {
        let absent = |_| "there is no such port: connect the device, or give another --port".to_owned();
        let kind = path.metadata().map_err(absent)?.file_type();
        if kind.is_socket() {
            let socket = UnixStream::connect(path).and_then(|socket| socket.set_nonblocking(true).map(|()| socket));
            return Ok(Self(socket.map_err(|error| format!("nobody listens: {error}"))?.into()));
        }
        // Without NONBLOCK, opening waits for the carrier of a modem.
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let port =
            rustix::fs::open(path, flags, Mode::empty()).map_err(|error| format!("cannot be opened: {error}"))?;
        if !isatty(&port) {
            return Err(
                "is neither a serial port nor a socket: give the device's port, such as /dev/ttyACM0".to_owned()
            );
        }
        set_up(&port, baud).map_err(|error| format!("cannot be set to {baud} baud: {error}"))?;
        Ok(Self(port))
    }

    /// Reads what has arrived; 0 bytes if nothing arrives in time.
    pub fn read(&mut self, bytes: &mut [u8], time: Duration) -> Result<usize> {
        if !self.ready(PollFlags::IN, time)? {
            return Ok(0);
        }
        match rustix::io::read(&self.0, bytes) {
            Ok(0) | Err(Errno::IO) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(len) => Ok(len),
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes all bytes.
    pub fn write(&mut self, mut bytes: &[u8], time: Duration) -> Result<()> {
        while !bytes.is_empty() {
            if !self.ready(PollFlags::OUT, time)? {
                return Err(Error::new(ErrorKind::TimedOut, "the line takes no more bytes"));
            }
            match rustix::io::write(&self.0, bytes) {
                Ok(len) => bytes = &bytes[len..],
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(Errno::PIPE | Errno::IO) => return Err(ErrorKind::UnexpectedEof.into()),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn ready(&self, flags: PollFlags, time: Duration) -> Result<bool> {
        let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
        match poll(&mut [PollFd::new(&self.0, flags)], Some(&time)) {
            Ok(count) => Ok(count > 0),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// Configures the port for raw bytes, without flow control.
fn set_up(port: &OwnedFd, baud: u32) -> rustix::io::Result<()> {
    let mut settings = tcgetattr(port)?;
    settings.make_raw();
    settings.control_modes |= ControlModes::CLOCAL | ControlModes::CREAD;
    settings.control_modes &= !ControlModes::CRTSCTS;
    settings.set_speed(baud)?;
    tcsetattr(port, OptionalActions::Flush, &settings)
}
