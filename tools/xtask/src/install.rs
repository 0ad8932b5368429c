//! Installs missing tools: Rust targets, QEMU and C compilers. Prints what it installs.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;

use crate::{Failure, hosts, shell};

/// The target for browsers.
pub const BROWSER: &str = "wasm32-unknown-unknown";
/// Targets for which the core must build: M0+, M3, M4F, M33, RISC-V, the browser.
const CORE_TARGETS: [&str; 6] = [
    "thumbv6m-none-eabi",
    "thumbv7m-none-eabi",
    "thumbv7em-none-eabihf",
    "thumbv8m.main-none-eabihf",
    "riscv32imac-unknown-none-elf",
    BROWSER,
];

/// Adds the Rust targets that the toolchain lacks.
pub fn targets() -> Result<(), Failure> {
    add_targets(&CORE_TARGETS)
}

/// Installs the tools for the NEON tests, or returns how to: the Rust target, a linker with the C library, and QEMU's user
/// mode.
pub fn arm64() -> Result<(), Failure> {
    packages("AArch64 tools", &ARM64)?;
    add_targets(&["aarch64-unknown-linux-gnu"])
}

/// Adds the target whose addresses have 32 bits.
pub fn narrow() -> Result<(), Failure> {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return Err("programs with addresses of 32 bits run on x86-64 Linux".to_owned());
    }
    add_targets(&[hosts::NARROW])
}

/// Adds the components of the nightly toolchain that Miri, the sanitizers and the fuzz targets need.
pub fn nightly() -> Result<(), Failure> {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return Err("Miri, the sanitizers and the fuzz targets run on x86-64 Linux".to_owned());
    }
    let mut list = Command::new("rustup");
    list.args(["component", "list", "--installed", "--toolchain", "nightly"]);
    let installed = list.output().map_err(|error| format!("cannot start rustup: {error}"))?;
    let installed = String::from_utf8_lossy(&installed.stdout).into_owned();
    let has = |component: &&&str| installed.lines().any(|line| line.starts_with(**component));
    let missing: Vec<&str> = NIGHTLY.iter().filter(|component| !has(component)).copied().collect();
    if missing.is_empty() {
        return Ok(());
    }
    let mut rustup = Command::new("rustup");
    // Unlike `toolchain install`, this keeps a toolchain that is there.
    rustup.args(["component", "add", "--toolchain", "nightly"]).args(&missing);
    shell::run(&format!("installing {} of the nightly toolchain", missing.join(", ")), rustup)
}

/// The folder of the toolchain.
pub fn sysroot() -> Result<PathBuf, Failure> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let sysroot = Command::new(rustc)
        .current_dir(shell::root())
        .args(["--print", "sysroot"])
        .output()
        .map_err(|error| format!("cannot ask rustc for its sysroot: {error}"))?;
    Ok(String::from_utf8_lossy(&sysroot.stdout).trim().into())
}

fn add_targets(targets: &[&str]) -> Result<(), Failure> {
    let library = sysroot()?.join("lib/rustlib");
    let missing: Vec<&str> =
        targets.iter().copied().filter(|target| !library.join(target).join("lib").is_dir()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let mut rustup = Command::new("rustup");
    rustup.current_dir(shell::root()).args(["target", "add"]).args(&missing);
    shell::run(&format!("installing the Rust targets {}", missing.join(", ")), rustup)
}

/// Components of the nightly toolchain.
const NIGHTLY: [&str; 2] = ["miri", "rust-src"];
/// Each program and its Debian package.
const QEMU: [(&str, &str); 2] = [("qemu-system-arm", "qemu-system-arm"), ("qemu-system-riscv32", "qemu-system-misc")];
/// Programs and packages for AArch64 Linux.
const ARM64: [(&str, &str); 3] = [
    ("qemu-aarch64", "qemu-user"),
    ("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu"),
    ("aarch64-linux-gnu-gcc", "libc6-dev-arm64-cross"),
];
/// The C compiler for Cortex-M, and its library.
const ARM_GCC: [(&str, &str); 2] =
    [("arm-none-eabi-gcc", "gcc-arm-none-eabi"), ("arm-none-eabi-gcc", "libnewlib-arm-none-eabi")];
/// Node, npm and Chromium, for the tests of the page in the browser.
const BROWSERS: [(&str, &str); 3] = [("node", "nodejs"), ("npm", "npm"), ("chromium", "chromium")];

/// CMake and the compilers that projects of `tidegate new` in C need.
const CMAKE: [(&str, &str); 3] =
    [("cmake", "cmake"), ("make", "make"), ("riscv64-unknown-elf-gcc", "gcc-riscv64-unknown-elf")];

/// Installs CMake and the C compiler for RISC-V, or returns how to.
pub fn cmake() -> Result<(), Failure> {
    packages("CMake", &CMAKE)
}

/// Adds the target of the ESP32-C3.
pub fn esp() -> Result<(), Failure> {
    add_targets(&["riscv32imc-unknown-none-elf"])
}

/// Installs Python with its environments, or returns how to.
pub fn python() -> Result<(), Failure> {
    packages("Python", &[("python3", "python3"), ("python3", "python3-venv")])
}

/// Installs QEMU, or returns how to.
pub fn qemu() -> Result<(), Failure> {
    packages("QEMU", &QEMU)
}

/// Installs the C compiler for Cortex-M, or returns how to.
pub fn arm_gcc() -> Result<(), Failure> {
    packages("arm-none-eabi-gcc", &ARM_GCC)
}

/// Installs Node and a browser, or returns how to.
pub fn browser() -> Result<(), Failure> {
    packages("Node and Chromium", &BROWSERS)
}

/// Installs the Debian packages of missing programs. Without root or apt, the error is the command to run.
fn packages(what: &str, programs: &[(&str, &str)]) -> Result<(), Failure> {
    let missing = programs.iter().filter(|(program, _)| !answers(program, &["--version"]));
    let packages: Vec<&str> = missing.map(|&(_, package)| package).collect();
    if packages.is_empty() {
        return Ok(());
    }
    // Several threads install packages, and apt-get refuses to run beside itself.
    static APT: Mutex<()> = Mutex::new(());
    let _turn = APT.lock().map_err(|_| format!("{what} is missing, and installing other tools has panicked"))?;
    if !(is_root() && answers("apt-get", &["--version"])) {
        let packages = packages.join(" ");
        return Err(format!("{what} is missing: sudo apt-get install -y --no-install-recommends {packages}"));
    }
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive").args(arguments);
        command
    };
    shell::run(&format!("installing {what}: the list of packages"), apt(&["update"]))?;
    let mut install = apt(&["install", "-y", "--no-install-recommends"]);
    install.args(&packages);
    shell::run(&format!("installing {}", packages.join(", ")), install)
}

/// Whether a program exists and runs.
pub fn answers(program: &str, arguments: &[&str]) -> bool {
    let status = Command::new(program).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|id| id.stdout.trim_ascii() == b"0")
}
