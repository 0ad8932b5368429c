//! Checks of the host kernels that the tests of the workspace do not cover: NEON under QEMU, Miri, the thread sanitizer.

use std::process::Command;

use crate::shell::{cargo, root};

const ARM64: &str = "aarch64-unknown-linux-gnu";
pub const HOST: &str = "x86_64-unknown-linux-gnu";
const HOST_32: &str = "i686-unknown-linux-gnu";

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

/// The tests under Miri of the crate for hosts: plain Rust, and the part of AVX2 that Miri supports. And of `tidegate`,
/// with addresses of 32 and of 64 bits.
pub fn miri() -> [Command; 3] {
    let miri = |arguments: &[&str]| {
        let mut command = nightly(".", &["miri", "test", "--locked", "--package"]);
        command.args(arguments).env("MIRIFLAGS", "-Zmiri-disable-isolation");
        command
    };
    let mut fused = miri(&["tidegate-fused", "--lib", "--test", "streams"]);
    fused.env("RUSTFLAGS", "-Ctarget-feature=+avx2,+fma");
    [fused, miri(&["tidegate", "--lib", "--target", HOST_32]), miri(&["tidegate", "--lib", "--target", HOST])]
}

/// A thousand streams over one model on two threads under the thread sanitizer, for a number of seconds.
pub fn races(seconds: u32) -> Command {
    let test = ["test", "--release", "--locked", "--package", "tidegate-fused", "--test", "streams"];
    let mut command = nightly(".", &test);
    // The standard library needs the sanitizer too. With a target, build scripts are built without it.
    command.args(["-Zbuild-std", "--target", HOST]);
    command.args(["--config", "profile.release.debug=false", "--config", "profile.release.opt-level=1"]);
    command.env("RUSTFLAGS", "-Zsanitizer=thread").env("TIDEGATE_RACE_SECONDS", seconds.to_string());
    command
}

/// Cargo of the nightly toolchain, in a folder of the repository.
pub fn nightly(folder: &str, arguments: &[&str]) -> Command {
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
    command.current_dir(root().join(folder)).args(["run", "nightly", "cargo"]).args(arguments);
    command
}
