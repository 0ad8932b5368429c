//! Firmware for chips with a HAL, each in its own workspace: a Nucleo board, whose firmware is only built, the Pico, whose
//! firmware is only type-checked, and the micro:bit, which QEMU simulates with its serial line.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::shell::{self, cargo};
use crate::{Failure, firmware, record, share};

/// A workspace in `firmware-examples`.
#[derive(Debug)]
struct Board {
    name: &'static str,
    folder: &'static str,
    target: &'static str,
}

const MICROBIT: Board = Board { name: "microbit", folder: "firmware-examples/microbit", target: "thumbv6m-none-eabi" };
const NUCLEO: Board = Board { name: "board", folder: "firmware-examples/board", target: "thumbv7em-none-eabihf" };
const PICO: Board = Board { name: "pico", folder: "firmware-examples/pico", target: "thumbv6m-none-eabi" };

/// The micro:bit answers three hundred frames within seconds on an idle machine.
const TIME_LIMIT: Duration = Duration::from_secs(300);

impl Board {
    fn cargo(&self, arguments: &[&str]) -> Command {
        let mut command = cargo(self.folder, arguments);
        command.env("CARGO_TARGET_DIR", firmware::target_dir());
        command
    }

    fn format(&self) -> Result<(), Failure> {
        shell::run(&format!("format of {}", self.name), self.cargo(&["fmt", "--all", "--check"]))
    }

    fn lint(&self) -> Result<(), Failure> {
        let clippy = self.cargo(&["clippy", "--release", "--locked", "--", "-D", "warnings"]);
        shell::run(&format!("clippy of {}", self.name), clippy)
    }

    fn build(&self) -> Result<(), Failure> {
        shell::run(&format!("{} builds", self.name), self.cargo(&["build", "--release", "--locked"]))
    }

    fn elf(&self) -> PathBuf {
        firmware::target_dir().join(self.target).join("release").join(format!("{}-spotter", self.name))
    }

    fn expected(&self, extension: &str) -> PathBuf {
        firmware::expected_dir().join(format!("{}.{extension}", self.name))
    }
}

/// Builds the programs of the micro:bit.
pub fn build_microbit() -> Result<(), Failure> {
    MICROBIT.build()
}

/// The program that takes updates.
pub fn microbit_update() -> PathBuf {
    MICROBIT.elf().with_file_name("microbit-update")
}

/// Checks the format of two workspaces, and lints and builds one of them, another one each day. The [`pico`] is left out,
/// because its HAL takes minutes to compile.
pub fn check() -> Result<(), Failure> {
    let boards = [&NUCLEO, &MICROBIT];
    boards.iter().try_for_each(|board| board.format())?;
    let builds = boards.map(|board| format!("clippy and build of {}", board.name));
    let today = share::one_of_today(&builds, "cargo xtask check")?;
    boards[today].lint()?;
    boards[today].build()
}

/// Checks the format of the Pico's firmware, and runs clippy.
pub fn pico() -> Result<(), Failure> {
    PICO.format()?;
    PICO.lint()
}

/// Sends the recorded lines to the micro:bit, and compares its answers up to its restart with the record, or records
/// them.
pub fn microbit(overwrite_expected: bool) -> Result<(), Failure> {
    MICROBIT.build()?;
    let lines = MICROBIT.expected("in");
    let lines = fs::File::open(&lines).map_err(shell::about(&lines))?;
    let mut qemu = Command::new("qemu-system-arm");
    qemu.args(["-machine", MICROBIT.name, "-display", "none", "-monitor", "none", "-serial", "stdio", "-no-reboot"])
        .arg("-kernel")
        .arg(MICROBIT.elf());
    let found = shell::output_from(qemu, lines.into(), TIME_LIMIT)?;
    record::output(MICROBIT.name, &MICROBIT.expected("run"), &found, overwrite_expected)
}
