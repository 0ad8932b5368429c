//! The firmware: which programs for which machine, built and run.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::Failure;
use crate::shell::{self, cargo};

/// A machine that QEMU simulates. `firmware-examples/.cargo/config.toml` has one of each target for `cargo run`.
#[derive(Debug, PartialEq, Eq)]
pub struct Machine {
    /// QEMU's name.
    pub name: &'static str,
    /// What the core is called in figures.
    pub core: &'static str,
    pub target: &'static str,
    /// The feature with its kernels; empty: it needs none.
    pub kernels: &'static str,
    /// How the weights lie that they read.
    pub layout: &'static str,
    qemu: &'static str,
    arguments: &'static [&'static str],
}

const ARM: &str = "qemu-system-arm";

/// Every machine. QEMU has no board with a Cortex-M0+: a Cortex-M3 runs its code.
pub const MACHINES: [Machine; 6] = [
    Machine {
        name: "mps2-an385",
        core: "m0plus",
        target: "thumbv6m-none-eabi",
        kernels: "",
        layout: "cortex-m0",
        qemu: ARM,
        arguments: &["-cpu", "cortex-m3"],
    },
    Machine {
        name: "mps2-an385",
        core: "m3",
        target: "thumbv7m-none-eabi",
        kernels: "thumb2",
        layout: "portable",
        qemu: ARM,
        arguments: &["-cpu", "cortex-m3"],
    },
    MPS2_AN386,
    Machine {
        name: "mps2-an500",
        core: "m7",
        target: "thumbv7em-none-eabihf",
        kernels: "dsp",
        layout: "cortex-m4",
        qemu: ARM,
        arguments: &["-cpu", "cortex-m7"],
    },
    Machine {
        name: "mps3-an547",
        core: "m55",
        target: "thumbv8m.main-none-eabihf",
        kernels: "mve",
        layout: "cortex-m55",
        qemu: ARM,
        arguments: &["-cpu", "cortex-m55"],
    },
    Machine {
        name: "virt",
        core: "rv32",
        target: "riscv32imac-unknown-none-elf",
        kernels: "",
        layout: "portable",
        qemu: "qemu-system-riscv32",
        arguments: &["-cpu", "rv32", "-bios", "none"],
    },
];

pub const MPS2_AN386: Machine = Machine {
    name: "mps2-an386",
    core: "m4",
    target: "thumbv7em-none-eabihf",
    kernels: "dsp",
    layout: "cortex-m4",
    qemu: ARM,
    arguments: &["-cpu", "cortex-m4"],
};

impl Machine {
    /// Whether its target computes floats in instructions.
    pub fn has_fpu(&self) -> bool {
        self.target.ends_with("eabihf")
    }
}

/// Each program, whether it has the kernels of the core, and the cores that run it; all if there is none.
const PROGRAMS: [(&str, bool, &[&str]); 8] = [
    // Without a network.
    ("bare", false, &["m4"]),
    // As small as it can be.
    ("hello_step", false, &[]),
    ("hello_integer", true, &[]),
    // The cell whose step needs the most stack.
    ("hello_gru", true, &[]),
    // Every cell there is.
    ("hello_any", false, &["m4"]),
    ("kws_stream", true, &[]),
    // For the FPU; its image does not fit the instruction memory of the M55.
    ("kws_stream_f32", true, &["m4", "m7"]),
    // The same.
    ("vad", true, &["m4", "m7"]),
];
/// What `tidegate-gpu train` has trained; cores with each kind of kernels run it.
const TRAINED: (&str, &[&str]) = ("kws_trained", &["m0plus", "m4", "m55", "rv32"]);
/// Runs on every machine; what it must print depends on the [`bundles`].
pub const SAME_BITS: &str = "same_bits";

/// A program on a machine.
#[derive(Debug)]
pub struct Firmware {
    pub name: &'static str,
    pub machine: &'static Machine,
}

/// Every program on every machine that has it.
pub fn all() -> impl Iterator<Item = Firmware> {
    let pairs = MACHINES.iter().flat_map(|machine| PROGRAMS.iter().map(move |program| (machine, program)));
    let pairs = pairs.filter(|(machine, (.., cores))| cores.is_empty() || cores.contains(&machine.core));
    pairs.map(|(machine, &(name, ..))| Firmware { name, machine })
}

/// What was trained here, whose size says nothing that those of the others do not.
pub fn trained() -> impl Iterator<Item = Firmware> {
    let (name, cores) = TRAINED;
    MACHINES.iter().filter(|machine| cores.contains(&machine.core)).map(|machine| Firmware { name, machine })
}

const FOLDER: &str = "firmware-examples";
/// The spotter needs up to 10 s on an idle core.
pub const TIME_LIMIT: Duration = Duration::from_secs(300);
/// What the programs print of the stack that was used. It depends on the compiler, so it is a size, not output.
const STACK: &str = "stack ";
const STACK_OF_STEP: &str = "stack of step ";

/// Its own folder, as the workspace is: builds of both do not wait for each other.
pub fn target_dir() -> PathBuf {
    workspace_target_dir().join("firmware")
}

pub fn workspace_target_dir() -> PathBuf {
    let shared = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    shell::root().join(shared)
}

/// Arguments of cargo that name the workspace's build folder.
pub fn cargo_in_workspace(arguments: &[&str]) -> Command {
    let mut command = cargo(FOLDER, arguments);
    command.env("CARGO_TARGET_DIR", target_dir());
    command
}

/// The targets, each once.
pub fn targets() -> Vec<&'static str> {
    let mut targets: Vec<_> = MACHINES.iter().map(|machine| machine.target).collect();
    targets.sort_unstable();
    targets.dedup();
    targets
}

/// How a build is made: small, as the workspace's profile has it; fast; or with all checks.
const SMALL: &[&str] = &["--release"];
/// What is not counted is small: every cell has to fit the instruction memory of the M55.
pub const FAST: &[&str] = &[
    "--release",
    "--config",
    "profile.release.opt-level=3",
    "--config",
    "profile.release.package.libm.opt-level='s'",
    "--config",
    "profile.release.package.firmware-examples.opt-level='s'",
];
const DEBUG: &[&str] = &[];

/// Builds every program in release, for every target.
pub fn build() -> Result<(), Failure> {
    targets().into_iter().try_for_each(|target| {
        let programs = all().chain(trained()).filter(|firmware| firmware.machine.target == target);
        let programs = programs.map(|firmware| firmware.name);
        build_for(target, SMALL, programs.chain([SAME_BITS]))
    })
}

/// Builds programs for a target.
pub fn build_for(target: &str, how: &[&str], programs: impl Iterator<Item = &'static str>) -> Result<(), Failure> {
    let plain = |name: &&str| PROGRAMS.iter().any(|(program, kernels, _)| program == name && !kernels);
    let (plain, with_kernels): (Vec<_>, Vec<_>) = programs.partition(plain);
    let machine = MACHINES.iter().find(|machine| machine.target == target);
    let kernels = machine.map(|machine| machine.kernels).unwrap_or_default();
    for (mut programs, features) in [(plain, ""), (with_kernels, kernels)] {
        if programs.is_empty() {
            continue;
        }
        programs.sort_unstable();
        programs.dedup();
        let mut build = cargo_in_workspace(&["build", "--locked", "--target", target]);
        build.args(how).args(["--features", features]).args(programs.iter().flat_map(|program| ["--bin", program]));
        shell::run(&format!("firmware for {target}"), build)?;
    }
    Ok(())
}

/// Those that are built without optimization too: the programs of one machine.
pub fn debug() -> impl Iterator<Item = Firmware> {
    all().filter(|firmware| *firmware.machine == MPS2_AN386)
}

/// Builds them.
pub fn build_debug() -> Result<(), Failure> {
    build_for(MPS2_AN386.target, DEBUG, debug().map(|firmware| firmware.name))
}

/// Has the host write what `same_bits` and `icount` read: a folder for each layout.
pub fn bundles() -> Result<(), Failure> {
    // Built with the tests, so that features are as in theirs and nothing is built twice.
    let build = ["test", "--release", "--locked", "--workspace", "--test", "firmware_twin", "--no-run"];
    shell::run("building what writes networks for the firmware", cargo(".", &build))?;
    let mut write = Command::new(workspace_target_dir().join("release/bundles"));
    write.arg(bundles_dir());
    shell::run("writing networks for the firmware", write)
}

/// The [`bundles`] of a layout.
pub fn bundle_dir(layout: &str) -> PathBuf {
    bundles_dir().join(layout)
}

fn bundles_dir() -> PathBuf {
    target_dir().join("bundles")
}

/// What a run printed.
#[derive(Debug)]
pub struct Output {
    /// All of it but the lines about the stack.
    pub text: String,
    pub stack_bytes: u32,
    /// Of a step alone, where the program tells it.
    pub stack_of_step: Option<u32>,
}

impl Firmware {
    /// For people.
    pub fn what(&self) -> String {
        format!("{} on {} ({})", self.name, self.machine.name, self.machine.core)
    }

    /// The program as it was built last, in `release` or `debug`.
    pub fn elf(&self, folder: &str) -> PathBuf {
        target_dir().join(self.machine.target).join(folder).join(self.name)
    }

    /// What it must print, on every machine.
    pub fn expected(&self) -> PathBuf {
        expected_dir().join(format!("{}.run", self.name))
    }

    /// QEMU that runs it, in the folder of its [`bundles`] if they are there.
    pub fn qemu(&self) -> Command {
        let mut command = self.machine.qemu(&self.elf("release"));
        let layout = self.machine.layout;
        if bundle_dir(layout).is_dir() {
            command.current_dir(bundle_dir(layout));
        }
        command
    }

    /// What such a command prints.
    pub fn printed(&self, qemu: Command) -> Result<String, Failure> {
        shell::output_within(qemu, TIME_LIMIT)
    }

    /// Runs it under QEMU.
    pub fn run(&self) -> Result<Output, Failure> {
        Output::of(self.name, &self.printed(self.qemu())?)
    }
}

impl Machine {
    /// QEMU that runs a program.
    pub fn qemu(&self, elf: &Path) -> Command {
        let mut command = Command::new(self.qemu);
        command
            .args(["-machine", self.name])
            .args(self.arguments)
            .args(["-nographic", "-semihosting-config", "enable=on,target=native", "-kernel"])
            .arg(elf);
        command
    }
}

impl Output {
    /// Of what a program printed.
    pub fn of(name: &str, printed: &str) -> Result<Self, Failure> {
        let figure = |line: &str, head: &str| {
            let digits = line.strip_prefix(head)?;
            Some(u32::from_str_radix(digits, 16).map_err(|error| format!("{name} printed `{line}`: {error}")))
        };
        let (mut text, mut stack_bytes, mut stack_of_step) = (String::new(), None, None);
        for line in printed.lines() {
            if let Some(bytes) = figure(line, STACK_OF_STEP) {
                stack_of_step = Some(bytes?);
            } else if let Some(bytes) = figure(line, STACK) {
                stack_bytes = Some(bytes?);
            } else {
                text.extend([line, "\n"]);
            }
        }
        let stack_bytes =
            stack_bytes.ok_or_else(|| format!("{name} printed no line `{STACK}…`; it printed:\n{printed}"))?;
        Ok(Self { text, stack_bytes, stack_of_step })
    }
}

/// Where the recorded outputs and sizes are.
pub fn expected_dir() -> PathBuf {
    shell::root().join(FOLDER).join("expected")
}
