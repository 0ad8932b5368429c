//! Updates of the micro:bit under QEMU, whose flash controller it simulates: `tidegate flash` sends signed images over the
//! serial line, and prints what the board says.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::shell;
use crate::{Failure, boards, firmware};

/// A transfer takes seconds on an idle machine.
const TIME_LIMIT: Duration = Duration::from_secs(300);
/// The images in the order in which they are sent.
const SENT: [&str; 5] = ["first", "next", "forged", "third", "next"];
/// The number of the transfer before which the board is reset.
const RESET_BEFORE: usize = 3;

/// Sends the images to the board, and compares what is printed with what the host has computed.
pub fn microbit() -> Result<(), Failure> {
    boards::build_microbit()?;
    let folder = firmware::bundle_dir("microbit");
    let expected = shell::read(&folder.join("updates.txt"))?;
    let mut board = Board::start()?;
    let mut found = String::new();
    for (number, name) in SENT.into_iter().enumerate() {
        if number == RESET_BEFORE {
            board.reset()?;
        }
        found += &flash(&board.line, &folder, name)?;
    }
    let (mut lines, mut heard) = (found.lines(), 0);
    for line in expected.lines() {
        match lines.next() {
            Some(found) if found == line => heard += usize::from(!line.contains(".tgi")),
            found => return Err(format!("the board gives `{}`, but the host `{line}`", found.unwrap_or_default())),
        }
    }
    shell::say(&format!("    {} transfers, {heard} decisions as on the host, bit for bit", SENT.len()));
    match lines.next() {
        None if heard > 0 => Ok(()),
        surplus => Err(format!("the board gives more than the host: `{}`", surplus.unwrap_or_default())),
    }
}

/// A board that is switched on.
struct Board {
    qemu: Child,
    line: PathBuf,
}

impl Board {
    fn start() -> Result<Self, Failure> {
        let line = std::env::temp_dir().join(format!("tidegate-microbit-{}", std::process::id()));
        let mut qemu = Command::new("qemu-system-arm");
        // The chip with 32 KB of RAM, an nRF51822 QFAC.
        qemu.args(["-machine", "microbit", "-global", "nrf51-soc.sram-size=32768"])
            .args(["-display", "none", "-monitor", "stdio", "-serial"])
            .arg(format!("unix:{},server=on,wait=off", line.display()))
            .arg("-kernel")
            .arg(boards::microbit_update());
        shell::say(&format!("    {}", shell::shown(&qemu)));
        let qemu =
            qemu.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(|error| format!("QEMU: {error}"))?;
        let board = Self { qemu, line };
        await_line(&board.line)?;
        Ok(board)
    }

    /// Presses the reset button. The flash keeps its contents.
    fn reset(&mut self) -> Result<(), Failure> {
        let failed = |error| format!("QEMU's monitor: {error}");
        let monitor = self.qemu.stdin.as_mut().expect("it was piped");
        let mut answers = BufReader::new(self.qemu.stdout.as_mut().expect("it was piped"));
        // QEMU reads one byte in each turn of its loop, and resets at the end of the turn.
        monitor.write_all(b"system_reset\ninfo status\n").map_err(failed)?;
        let mut line = String::new();
        while !line.contains("VM status") {
            line.clear();
            if answers.read_line(&mut line).map_err(failed)? == 0 {
                return Err("QEMU has ended".to_owned());
            }
        }
        Ok(())
    }
}

/// Sends an image over a line. Returns the output of `tidegate flash`.
pub fn flash(line: &Path, folder: &Path, name: &str) -> Result<String, Failure> {
    let mut flash = Command::new(firmware::workspace_target_dir().join("release/tidegate"));
    flash.current_dir(folder).args(["flash", &format!("{name}.tgi"), "--port"]).arg(line);
    let done = flash.output().map_err(|error| format!("`{}`: {error}", shell::shown(&flash)))?;
    let [stdout, stderr] = [done.stdout, done.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    match stderr.split_once("the device refuses the image: ") {
        Some((_, reason)) => Ok(format!("{stdout}{name}.tgi is refused: {reason}")),
        None if done.status.success() => Ok(stdout),
        None => Err(format!("`{}` failed: {stderr}", shell::shown(&flash))),
    }
}

/// Waits until a device listens.
///
/// # Errors
/// If no device listens in time.
pub fn await_line(line: &Path) -> Result<(), Failure> {
    let start = Instant::now();
    while UnixStream::connect(line).is_err() {
        if start.elapsed() > TIME_LIMIT {
            return Err(format!("{}: no device listens", line.display()));
        }
        sleep(Duration::from_millis(20));
    }
    Ok(())
}

impl Drop for Board {
    fn drop(&mut self) {
        // QEMU may have ended already.
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
        let _ = fs::remove_file(&self.line);
    }
}
