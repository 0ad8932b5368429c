//! What the firmware shares: printing and leaving by semihosting, the panic handler, the board's LED and its
//! microphone, which is a recording.
//!
//! `core::fmt` stays out: it would cost more flash than the network.

#![no_std]

pub mod arch;
pub mod led;
pub mod microphone;
pub mod recording;

use core::panic::PanicInfo;

use cortex_m_semihosting::debug::{self, EXIT_FAILURE, EXIT_SUCCESS};
use cortex_m_semihosting::hio::{self, HostStream};

/// The host's standard output.
pub struct Console(Option<HostStream>);

impl Console {
    /// Opens it. Where nobody listens, what is printed is lost.
    pub fn open() -> Self {
        Self(hio::hstdout().ok())
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

    fn bytes(&mut self, bytes: &[u8]) {
        if let Some(Err(())) = self.0.as_mut().map(|stream| stream.write_all(bytes)) {
            self.0 = None;
        }
    }
}

/// Prints how much stack was used, and ends the program: QEMU's exit code is 0 after `Some`, 1 after `None`.
pub fn exit(result: Option<()>) -> ! {
    let mut console = Console::open();
    console.text("stack ");
    console.hex(arch::stack_bytes());
    console.text("\n");
    leave(result.is_some())
}

fn leave(success: bool) -> ! {
    loop {
        debug::exit(if success { EXIT_SUCCESS } else { EXIT_FAILURE });
    }
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    Console::open().text("panic\n");
    leave(false)
}
