//! Shared code of the firmware: printing and exiting through semihosting, the panic handler, the board's LED and its
//! microphone, which plays a recording.
//!
//! `core::fmt` is not used: it would need more flash than the network.

#![no_std]

pub mod arch;
pub mod bundle;
pub mod led;
pub mod microphone;
pub mod recording;

use core::mem::ManuallyDrop;
use core::panic::PanicInfo;

use semihosting::fd::{AsFd, OwnedFd};
use semihosting::process::ExitCode;
use semihosting::sys::arm_compat::{OpenMode, sys_open, sys_write_orig};

/// The host's standard output. It is never closed, because closing can panic.
pub struct Console(Option<ManuallyDrop<OwnedFd>>);

impl Console {
    /// Opens the console. Without a host the output is discarded.
    pub fn open() -> Self {
        Self(sys_open(c":tt", OpenMode::WRONLY_TRUNC).ok().map(ManuallyDrop::new))
    }

    /// Prints text as it is.
    pub fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    /// Prints eight hexadecimal digits.
    pub fn hex(&mut self, word: u32) {
        let mut digits = [0; 8];
        for (digit, nibble) in digits.iter_mut().zip((0..32).step_by(4).rev().map(|shift| (word >> shift & 15) as u8)) {
            *digit = nibble + if nibble < 10 { b'0' } else { b'a' - 10 };
        }
        self.bytes(&digits);
    }

    /// Prints the raw bits of every value, each after a space, and ends the line.
    pub fn bits(&mut self, values: &[f32]) {
        for value in values {
            self.text(" ");
            self.hex(value.to_bits());
        }
        self.text("\n");
    }

    /// Prints every value, each after a space, and ends the line.
    pub fn integers(&mut self, values: &[i16]) {
        for &value in values {
            self.text(" ");
            self.hex(i32::from(value).cast_unsigned());
        }
        self.text("\n");
    }

    /// Prints the bytes of stack that a step used.
    pub fn stack_of_step(&mut self, bytes: u32) {
        self.text("stack of step ");
        self.hex(bytes);
        self.text("\n");
    }

    /// Prints the number of instructions of a verification.
    pub fn instructions(&mut self, count: u32) {
        self.text("instructions of verification ");
        self.hex(count);
        self.text("\n");
    }

    /// Prints a hash and ends the line.
    pub fn hash(&mut self, hash: &Hash) {
        self.hex((hash.0 >> 32) as u32);
        self.hex(hash.0 as u32);
        self.text("\n");
    }

    // The crate's `write_all` is not used, because it can panic. `as_fd` cannot panic here, because the descriptor is
    // not -1.
    fn bytes(&mut self, mut bytes: &[u8]) {
        while let Some(stream) = self.0.as_ref().filter(|stream| stream.as_raw_fd() != -1 && !bytes.is_empty()) {
            match sys_write_orig(stream.as_fd(), bytes) {
                Ok(left) => bytes = bytes.get(bytes.len() - left..).unwrap_or_default(),
                Err(_) => self.0 = None,
            }
        }
    }
}

/// FNV-1a over numbers (Fowler, Noll, Vo; draft-eastlake-fnv), 64 bits, low byte first.
pub struct Hash(u64);

impl Default for Hash {
    fn default() -> Self {
        Self(0xCBF2_9CE4_8422_2325)
    }
}

impl Hash {
    /// Adds these numbers.
    pub fn add(&mut self, values: &[i16]) {
        for byte in values.iter().flat_map(|value| value.to_le_bytes()) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
        }
    }
}

/// Runs a program, prints its use of the stack, and exits: QEMU's exit code is 0 after `Some`, 1 after `None`.
pub fn start(program: impl FnOnce() -> Option<()>) -> ! {
    arch::paint();
    let result = program();
    let mut console = Console::open();
    console.text("stack ");
    console.hex(arch::used());
    console.text("\n");
    leave(result.is_some())
}

/// Exits without printing the use of the stack. Painting the stack would appear in a trace.
pub fn exit(result: Option<()>) -> ! {
    leave(result.is_some())
}

fn leave(success: bool) -> ! {
    if success { ExitCode::SUCCESS } else { ExitCode::FAILURE }.exit_process()
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    Console::open().text("panic\n");
    leave(false)
}
