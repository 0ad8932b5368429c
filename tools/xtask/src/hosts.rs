//! Checks of the host kernels that the tests of the workspace do not cover: NEON under QEMU, Miri, the thread sanitizer.

use std::process::Command;

use crate::shell::{cargo, root};

const ARM64: &str = "aarch64-unknown-linux-gnu";
const HOST: &str = "x86_64-unknown-linux-gnu";

/// Settings of the NEON tests. Full optimization would take longer than it saves. With debug assertions the tests use
/// samples of their inputs, because under QEMU all inputs take minutes.
const NEON: [&str; 4] = [
    "profile.release.opt-level=1",
    "profile.release.debug-assertions=true",
    "profile.release.debug=false",
    // Build scripts and macros have the settings of the tests of the workspace, so cargo reuses them.
    "profile.release.build-override.debug-assertions=false",
];

/// The tests of the kernels, built for AArch64 and run in QEMU's user mode. They print the instruction sets they test.
pub fn neon() -> [Command; 2] {
    let of_package = ["test", "--release", "--locked", "--target", ARM64, "--package"];
    let test = |arguments: &[&str]| {
        let mut command = cargo(".", &of_package);
        command.args(arguments).args(NEON.iter().flat_map(|setting| ["--config", setting]));
        // Environment variables, because paths of a machine do not belong in a profile.
        command.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", "aarch64-linux-gnu-gcc");
        command.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", "qemu-aarch64 -L /usr/aarch64-linux-gnu");
        command
    };
    [test(&["tidegate-fused", "--lib"]), test(&["tidegate-tests", "--test", "fused"])]
}

/// The crate's own tests under Miri: plain Rust, and the part of AVX2 that Miri supports.
pub fn miri() -> Command {
    let mut command =
        nightly(&["miri", "test", "--locked", "--package", "tidegate-fused", "--lib", "--test", "streams"]);
    command.env("MIRIFLAGS", "-Zmiri-disable-isolation").env("RUSTFLAGS", "-Ctarget-feature=+avx2,+fma");
    command
}

/// A thousand streams over one model on two threads under the thread sanitizer, for a number of seconds.
pub fn races(seconds: u32) -> Command {
    let test = ["test", "--release", "--locked", "--package", "tidegate-fused", "--test", "streams"];
    let mut command = nightly(&test);
    // The standard library needs the sanitizer too. With a target, build scripts are built without it.
    command.args(["-Zbuild-std", "--target", HOST]);
    command.args(["--config", "profile.release.debug=false", "--config", "profile.release.opt-level=1"]);
    command.env("RUSTFLAGS", "-Zsanitizer=thread").env("TIDEGATE_RACE_SECONDS", seconds.to_string());
    command
}

/// The command that installs the missing tools for [`miri`] and [`races`], or `None` if nothing is missing.
pub fn lacks_nightly() -> Option<String> {
    let has = |component: &str| {
        let list = Command::new("rustup").args(["component", "list", "--installed", "--toolchain", "nightly"]).output();
        list.is_ok_and(|list| String::from_utf8_lossy(&list.stdout).lines().any(|line| line.starts_with(component)))
    };
    let there = cfg!(all(target_arch = "x86_64", target_os = "linux")) && has("miri") && has("rust-src");
    (!there).then(|| "rustup toolchain install nightly --component miri,rust-src (on x86-64 Linux)".to_owned())
}

/// Cargo of the nightly toolchain.
fn nightly(arguments: &[&str]) -> Command {
    let of_cargo = cargo(".", &[]);
    let mut command = Command::new("rustup");
    for (name, value) in of_cargo.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    // The toolchain that runs xtask sets these variables.
    command.env_remove("CARGO").env_remove("RUSTC").env_remove("RUSTDOC").env_remove("RUSTUP_TOOLCHAIN");
    command.current_dir(root()).args(["run", "nightly", "cargo"]).args(arguments);
    command
}
