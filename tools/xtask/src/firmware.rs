//! The firmware: which programs for which machine, built and run.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::Failure;
use crate::shell::{self, cargo};

/// A machine that QEMU simulates.
#[derive(Debug)]
pub struct Machine {
    /// QEMU's name.
    pub name: &'static str,
    pub cpu: &'static str,
    pub target: &'static str,
}

/// As `firmware-examples/.cargo/config.toml` has it for `cargo run`.
pub const MPS2_AN386: Machine = Machine { name: "mps2-an386", cpu: "cortex-m4", target: "thumbv7em-none-eabihf" };

/// A program on a machine.
#[derive(Debug)]
pub struct Firmware {
    pub name: &'static str,
    pub machine: &'static Machine,
}

/// Every program that is built, run and measured.
pub const ALL: [Firmware; 3] = [
    Firmware { name: "hello_step", machine: &MPS2_AN386 },
    Firmware { name: "hello_any", machine: &MPS2_AN386 },
    Firmware { name: "kws_stream", machine: &MPS2_AN386 },
];

const FOLDER: &str = "firmware-examples";
/// The spotter needs about 3 s on an idle core.
pub const TIME_LIMIT: Duration = Duration::from_secs(300);
/// What the programs print last: how much stack was used. It depends on the compiler, so it is a size, not output.
const STACK: &str = "stack ";

/// Its own folder, as the workspace is: builds of both do not wait for each other.
fn target_dir() -> PathBuf {
    let shared = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    shell::root().join(shared).join("firmware")
}

/// Arguments of cargo that name the workspace's build folder.
pub fn cargo_in_workspace(arguments: &[&str]) -> Command {
    let mut command = cargo(FOLDER, arguments);
    command.env("CARGO_TARGET_DIR", target_dir());
    command
}

/// Builds every program in release.
pub fn build() -> Result<(), Failure> {
    shell::run("firmware builds", cargo_in_workspace(&["build", "--release", "--locked"]))
}

/// Builds every program without optimization.
pub fn build_debug() -> Result<(), Failure> {
    shell::run("firmware builds in the debug profile", cargo_in_workspace(&["build", "--locked"]))
}

/// What a run printed.
#[derive(Debug)]
pub struct Output {
    /// All of it but the last line.
    pub text: String,
    pub stack_bytes: u32,
}

impl Firmware {
    /// The program as `build` leaves it.
    pub fn elf(&self) -> PathBuf {
        target_dir().join(self.machine.target).join("release").join(self.name)
    }

    /// The program as `build_debug` leaves it.
    pub fn debug_elf(&self) -> PathBuf {
        target_dir().join(self.machine.target).join("debug").join(self.name)
    }

    /// What it must print.
    pub fn expected(&self) -> PathBuf {
        expected_dir().join(self.machine.target).join(format!("{}.run", self.name))
    }

    /// Runs it under QEMU.
    pub fn run(&self) -> Result<Output, Failure> {
        self.machine.run(self.name, &self.elf())
    }
}

impl Machine {
    /// Runs a program under QEMU.
    pub fn run(&self, name: &str, elf: &Path) -> Result<Output, Failure> {
        let mut qemu = Command::new("qemu-system-arm");
        qemu.args(["-machine", self.name, "-cpu", self.cpu, "-nographic"])
            .args(["-semihosting-config", "enable=on,target=native", "-kernel"])
            .arg(elf);
        let text = shell::output_within(qemu, TIME_LIMIT)?;
        let (text, stack) =
            text.rsplit_once(STACK).ok_or_else(|| format!("{name} printed no line `{STACK}…`; it printed:\n{text}"))?;
        let stack_bytes = u32::from_str_radix(stack.trim(), 16)
            .map_err(|error| format!("{name} printed `{STACK}{}`: {error}", stack.trim()))?;
        Ok(Output { text: text.to_owned(), stack_bytes })
    }
}

/// Where the recorded outputs and sizes are.
pub fn expected_dir() -> PathBuf {
    shell::root().join(FOLDER).join("expected")
}
