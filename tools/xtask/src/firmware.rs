//! The firmware: which program runs on which machine, and how to build and run it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use crate::shell::{self, cargo};
use crate::{Failure, suites};

/// A machine that QEMU simulates. `firmware-examples/.cargo/config.toml` has one for each target, for `cargo run`.
#[derive(Debug, PartialEq, Eq)]
pub struct Machine {
    /// QEMU's name.
    pub name: &'static str,
    /// Name of the core in figures.
    pub core: &'static str,
    pub target: &'static str,
    /// The feature with kernels for the core, or an empty string.
    pub kernels: &'static str,
    /// Weight layout of these kernels.
    pub layout: &'static str,
    cpu: &'static str,
}

/// Every machine. QEMU has no board with a Cortex-M0+, so a Cortex-M3 runs its code.
pub const MACHINES: [Machine; 6] = [
    machine("mps2-an385", "m0plus", "thumbv6m-none-eabi", "", "cortex-m0", "cortex-m3"),
    machine("mps2-an385", "m3", "thumbv7m-none-eabi", "thumb2", "portable", "cortex-m3"),
    MPS2_AN386,
    machine("mps2-an500", "m7", "thumbv7em-none-eabihf", "dsp", "cortex-m4", "cortex-m7"),
    machine("mps3-an547", "m55", "thumbv8m.main-none-eabihf", "mve", "cortex-m55", "cortex-m55"),
    machine("virt", "rv32", "riscv32imac-unknown-none-elf", "", "portable", "rv32"),
];

pub const MPS2_AN386: Machine = machine("mps2-an386", "m4", "thumbv7em-none-eabihf", "dsp", "cortex-m4", "cortex-m4");

const fn machine(
    name: &'static str,
    core: &'static str,
    target: &'static str,
    kernels: &'static str,
    layout: &'static str,
    cpu: &'static str,
) -> Machine {
    Machine { name, core, target, kernels, layout, cpu }
}

impl Machine {
    /// Whether the target has instructions for floats.
    pub fn has_fpu(&self) -> bool {
        self.target.ends_with("eabihf")
    }

    /// The QEMU command that runs a program.
    pub fn qemu(&self, elf: &Path) -> Command {
        let is_arm = self.target.starts_with("thumb");
        let mut command = Command::new(if is_arm { "qemu-system-arm" } else { "qemu-system-riscv32" });
        command.args(["-machine", self.name, "-cpu", self.cpu]);
        if !is_arm {
            command.args(["-bios", "none"]);
        }
        command.args(["-nographic", "-semihosting-config", "enable=on,target=native", "-kernel"]).arg(elf);
        command
    }
}

/// Each program, whether it uses the kernels of the core, and the cores that run it. An empty list means all cores.
const PROGRAMS: [(&str, bool, &[&str]); 12] = [
    // Without a network.
    ("bare", false, &["m4"]),
    // The smallest program, without kernels where other programs need such a build of the library too.
    ("hello_step", false, &["m0plus", "m4", "m7", "rv32"]),
    ("hello_step", true, &["m3", "m55"]),
    ("hello_integer", true, &[]),
    // The cell with the highest stack use.
    ("hello_gru", true, &[]),
    // Every cell.
    (ANY, false, &["m4"]),
    (UPDATE, false, &["m4"]),
    ("kws_stream", true, &[]),
    ("wake_word", true, &["m0plus", "m4", "m55", "rv32"]),
    // Two networks behind one front end.
    ("wake_word_gated", true, &["m4"]),
    // These programs need an FPU, and their images do not fit into the instruction memory of the M55.
    ("kws_stream_f32", true, &["m4", "m7"]),
    ("vad", true, &["m4", "m7"]),
];
/// Parses its image at run time.
pub const ANY: &str = "hello_any";
/// As [`ANY`], with verifier and updater, for which it has a feature of its own.
pub const UPDATE: &str = "update";
/// The model trained by `tidegate-gpu train`. One core for each kind of kernels runs it.
const TRAINED: (&str, &[&str]) = ("kws_trained", &["m0plus", "m4", "m55", "rv32"]);
/// Runs on every machine. Its expected output depends on the [`bundles`].
pub const SAME_BITS: &str = "same_bits";

/// A program on a machine.
#[derive(Debug)]
pub struct Firmware {
    pub name: &'static str,
    pub machine: &'static Machine,
}

/// Every program on every machine that runs it.
pub fn all() -> impl Iterator<Item = Firmware> {
    let pairs = MACHINES.iter().flat_map(|machine| PROGRAMS.iter().map(move |program| (machine, program)));
    let pairs = pairs.filter(|(machine, (.., cores))| cores.is_empty() || cores.contains(&machine.core));
    pairs.map(|(machine, &(name, ..))| Firmware { name, machine })
}

/// The trained model on its machines. Its size is not measured, because it has the cells of other programs.
pub fn trained() -> impl Iterator<Item = Firmware> {
    let (name, cores) = TRAINED;
    MACHINES.iter().filter(|machine| cores.contains(&machine.core)).map(|machine| Firmware { name, machine })
}

/// Whether a program uses the kernels of a core.
fn uses_kernels(name: &str, core: &str) -> bool {
    let runs_on = |cores: &[&str]| cores.is_empty() || cores.contains(&core);
    !PROGRAMS.iter().any(|(program, kernels, cores)| *program == name && !kernels && runs_on(cores))
}

const FOLDER: &str = "firmware-examples";
/// The keyword spotter needs up to 10 s on an idle core.
pub const TIME_LIMIT: Duration = Duration::from_secs(300);
/// Starts of the lines with the stack use. It depends on the compiler, so it counts as a size, not as output.
const STACK: &str = "stack ";
const STACK_OF_STEP: &str = "stack of step ";
/// Start of the line with the instructions of a verification, which is a figure too.
const INSTRUCTIONS: &str = "instructions of verification ";

/// The build folder of the firmware. Builds of the firmware and of the main workspace do not wait for each other.
pub fn target_dir() -> PathBuf {
    workspace_target_dir().join("firmware")
}

pub fn workspace_target_dir() -> PathBuf {
    let shared = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    shell::root().join(shared)
}

/// Cargo in the firmware's workspace, with its build folder.
pub fn cargo_in_workspace(arguments: &[&str]) -> Command {
    let mut command = cargo(FOLDER, arguments);
    command.env("CARGO_TARGET_DIR", target_dir());
    command
}

/// The targets of all machines, without duplicates.
pub fn targets() -> Vec<&'static str> {
    let mut targets: Vec<_> = MACHINES.iter().map(|machine| machine.target).collect();
    targets.sort_unstable();
    targets.dedup();
    targets
}

/// A build for small size, as the profile of the workspace defines it.
const SMALL: &[&str] = &["--release"];
/// A build for speed. Code that is not counted is built for small size, so that all cells fit into the instruction
/// memory of the M55.
pub const FAST: &[&str] = &[
    "--release",
    "--config",
    "profile.release.opt-level=3",
    "--config",
    "profile.release.package.firmware-examples.opt-level='s'",
];
/// A build with all checks and without optimization. It is not the dev profile, for which the packer in the build script
/// would be compiled again.
const DEBUG: &[&str] = &[
    "--release",
    "--config",
    "profile.release.opt-level=0",
    "--config",
    WITHOUT_LTO,
    "--config",
    "profile.release.debug-assertions=true",
    "--config",
    "profile.release.overflow-checks=true",
    "--config",
    "profile.release.build-override.debug-assertions=false",
    "--config",
    "profile.release.build-override.overflow-checks=false",
];

/// LTO takes most of the time of such a build, and a debug build of a user has none. These flags turn it off for the
/// target of [`debug`] only: with a setting of the profile, the packer would be compiled again.
const WITHOUT_LTO: &str = "target.thumbv7em-none-eabihf.rustflags=['-Clto=off', '-Clinker-plugin-lto=no']";

/// Builds every program for every target.
pub fn build() -> Result<(), Failure> {
    let same_bits = targets().into_iter().map(|target| (target, SAME_BITS));
    let programs = all().chain(trained()).map(|firmware| (firmware.machine.target, firmware.name));
    build_for(SMALL, programs.chain(same_bits))
}

/// Builds programs, each for a target.
pub fn build_for(how: &[&str], programs: impl Iterator<Item = (&'static str, &'static str)>) -> Result<(), Failure> {
    let mut commands = BTreeMap::<_, BTreeSet<_>>::new();
    for (target, name) in programs {
        let machine = MACHINES.iter().find(|machine| machine.target == target);
        let kernels = machine.filter(|machine| uses_kernels(name, machine.core)).map_or("", |machine| machine.kernels);
        commands.entry((target, kernels)).or_default().insert(name);
    }
    commands.iter().try_for_each(|(&(target, kernels), programs)| build_set(how, target, kernels, programs))
}

fn build_set(how: &[&str], target: &str, kernels: &str, programs: &BTreeSet<&str>) -> Result<(), Failure> {
    let mut build = cargo_in_workspace(&["build", "--locked", "--target", target, "--features", kernels]);
    if programs.contains(UPDATE) {
        build.args(["--features", UPDATE]);
    }
    build.args(how).args(programs.iter().flat_map(|program| ["--bin", program]));
    shell::run(&format!("firmware for {target}"), build)
}

/// Builds a program for small size, with the relocations that [`Program`](crate::code::Program) reads.
pub fn build_with_relocations(machine: &Machine, program: &str) -> Result<(), Failure> {
    let Machine { target, kernels, .. } = *machine;
    let mut build =
        cargo_in_workspace(&["rustc", "--locked", "--target", target, "--features", kernels, "--bin", program]);
    build.args(SMALL).args(["--", "-C", "link-arg=--emit-relocs"]);
    shell::run(&format!("{program} for {target} with relocations"), build)
}

/// The programs that are also built without optimization: those of one machine.
pub fn debug() -> impl Iterator<Item = Firmware> {
    all().filter(|firmware| *firmware.machine == MPS2_AN386)
}

/// Builds the programs of [`debug`], all with kernels, so that their crates are compiled once.
pub fn build_debug() -> Result<(), Failure> {
    let programs = debug().map(|firmware| firmware.name).collect();
    build_set(DEBUG, MPS2_AN386.target, MPS2_AN386.kernels, &programs)
}

/// Writes the networks for `same_bits` and `icount` on the host, one folder for each layout. The first call does the work.
pub fn bundles() -> Result<(), Failure> {
    static WRITTEN: OnceLock<Result<(), Failure>> = OnceLock::new();
    let write = || {
        build_bundles()?;
        let mut write = Command::new(workspace_target_dir().join("release/bundles"));
        write.arg(bundles_dir());
        shell::run("writing networks for the firmware", write)
    };
    WRITTEN.get_or_init(write).clone()
}

/// Builds `tidegate` alone. The tests of the workspace build it with other features, so they do not call this.
pub fn build_command_line() -> Result<(), Failure> {
    let build = cargo(".", &["build", "--release", "--locked", "--package", "tidegate-tools"]);
    shell::run("building the command line", build)
}

/// Builds the program of [`bundles`].
pub fn build_bundles() -> Result<(), Failure> {
    let mut build = suites::command();
    build.args(["--test", "repository", "--no-run"]);
    shell::run("building the program that writes networks for the firmware", build)
}

/// The folder with the [`bundles`] of a layout.
pub fn bundle_dir(layout: &str) -> PathBuf {
    bundles_dir().join(layout)
}

fn bundles_dir() -> PathBuf {
    target_dir().join("bundles")
}

/// The output of a run.
#[derive(Debug)]
pub struct Output {
    /// All lines except those about the stack.
    pub text: String,
    pub stack_bytes: u32,
    /// Stack use of a step, if the program prints it.
    pub stack_of_step: Option<u32>,
    /// Instructions of a verification under `-icount shift=0`, if the program prints them.
    pub instructions: Option<u32>,
}

impl Firmware {
    /// A description for people.
    pub fn what(&self) -> String {
        format!("{} on {} ({})", self.name, self.machine.name, self.machine.core)
    }

    /// The program as last built.
    pub fn elf(&self) -> PathBuf {
        target_dir().join(self.machine.target).join("release").join(self.name)
    }

    /// The expected output, the same on every machine.
    pub fn expected(&self) -> PathBuf {
        expected_dir().join(format!("{}.run", self.name))
    }

    /// The QEMU command that runs the program, in the folder of its [`bundles`] if that exists.
    pub fn qemu(&self) -> Command {
        let mut command = self.machine.qemu(&self.elf());
        let layout = self.machine.layout;
        if bundle_dir(layout).is_dir() {
            command.current_dir(bundle_dir(layout));
        }
        command
    }

    /// Runs the command and returns its output.
    pub fn printed(&self, qemu: Command) -> Result<String, Failure> {
        shell::output_within(qemu, TIME_LIMIT)
    }

    /// Runs the program under QEMU.
    pub fn run(&self) -> Result<Output, Failure> {
        let mut qemu = self.qemu();
        // Timers count instructions. Interrupts then find the same stack in every run, and programs can count.
        qemu.args(["-icount", "shift=0,sleep=off"]);
        Output::of(self.name, &self.printed(qemu)?)
    }
}

impl Output {
    /// Splits the output of a program.
    pub fn of(name: &str, printed: &str) -> Result<Self, Failure> {
        let figure = |line: &str, head: &str| {
            let digits = line.strip_prefix(head)?;
            Some(u32::from_str_radix(digits, 16).map_err(|error| format!("{name} printed `{line}`: {error}")))
        };
        let (mut text, mut stack_bytes, mut stack_of_step, mut instructions) = (String::new(), None, None, None);
        for line in printed.lines() {
            if let Some(bytes) = figure(line, STACK_OF_STEP) {
                stack_of_step = Some(bytes?);
            } else if let Some(bytes) = figure(line, STACK) {
                stack_bytes = Some(bytes?);
            } else if let Some(count) = figure(line, INSTRUCTIONS) {
                instructions = Some(count?);
            } else {
                text.extend([line, "\n"]);
            }
        }
        let stack_bytes =
            stack_bytes.ok_or_else(|| format!("{name} printed no line `{STACK}…`; it printed:\n{printed}"))?;
        Ok(Self { text, stack_bytes, stack_of_step, instructions })
    }
}

/// The folder of the recorded outputs and sizes.
pub fn expected_dir() -> PathBuf {
    shell::root().join(FOLDER).join("expected")
}
