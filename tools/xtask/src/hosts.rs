//! Checks that the tests of the workspace do not cover: host kernels with NEON under QEMU, addresses of 32 bits, Miri, the
//! thread sanitizer.

use std::process::Command;

use crate::shell::{cargo, root};

const ARM64: &str = "aarch64-unknown-linux-gnu";
pub const HOST: &str = "x86_64-unknown-linux-gnu";
const HOST_32: &str = "i686-unknown-linux-gnu";
/// Rust has the linker and the C library of this target.
pub const NARROW: &str = "i686-unknown-linux-musl";

/// Settings of the NEON tests. Full optimization would take longer than it saves. With debug assertions the tests use
/// samples of their inputs, because under QEMU all inputs take minutes.
const NEON: [&str; 4] = [
    "profile.release.opt-level=1",
    "profile.release.debug-assertions=true",
    "profile.release.debug=false",
    // Build scripts and macros have the settings of the tests of the workspace, so cargo reuses them.
    "profile.release.build-override.debug-assertions=false",
];

/// The tests of the kernels, built for AArch64 and run in QEMU's user mode. They print the instruction sets they test. The
/// second command compares them with `tidegate`.
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
    // The unit tests call no step of `tidegate`.
    let kernels = ["tidegate-fused", "--lib", "--config", "profile.release.package.tidegate.opt-level=0"];
    [test(&kernels), test(&["tidegate-tests", "--test", "fused"])]
}

/// The tests of `tidegate` with the library `micromath`. With debug assertions the activations are sampled, because testing all
/// inputs takes minutes with this library.
pub fn micromath() -> Command {
    let test = ["test", "--release", "--locked", "--package", "tidegate", "--no-default-features"];
    let mut command = cargo(".", &test);
    command.args(["--features", "micromath", "--config", "profile.release.package.tidegate.debug-assertions=true"]);
    command.args(["--config", "profile.release.package.tidegate.overflow-checks=true"]);
    // Full optimization would take longer than it saves.
    command.args(["--config", "profile.release.package.tidegate.opt-level=1"]);
    command.args(["--config", "profile.release.package.tidegate.codegen-units=16"]);
    command
}

/// Tests that loop over so many numbers that they take a minute. They do not depend on the width of addresses.
const OF_NUMBERS: [&str; 3] = ["::exp_of_zero", "::every_logarithm", "::every_magnitude"];

/// The unit tests of `tidegate` and those of images at the borders of their fields, with addresses of 32 bits and with
/// overflow checks.
pub fn narrow() -> Command {
    let test = ["test", "--release", "--locked", "--target", NARROW, "--package", "tidegate", "--lib"];
    let mut command = cargo(".", &test);
    command.args(["--test", "bounds", "--config", "profile.release.package.tidegate.overflow-checks=true"]);
    // Full optimization would take longer than it saves.
    command.args(["--config", "profile.release.package.tidegate.opt-level=1"]);
    command.args(["--config", "profile.release.package.tidegate.codegen-units=16", "--"]);
    command.args(OF_NUMBERS.iter().flat_map(|long| ["--skip", long]));
    command.env("CARGO_TARGET_I686_UNKNOWN_LINUX_MUSL_LINKER", "rust-lld");
    command.env("CARGO_TARGET_I686_UNKNOWN_LINUX_MUSL_RUSTFLAGS", "-Clinker-flavor=ld.lld");
    command.env("TIDEGATE_MUTATION_SECONDS", "10");
    command
}

/// Tests of `tidegate` that Miri can run: those without roots, which are assembly in `libm`, and without powers, which
/// Miri computes with random errors.
const ON_BYTES: [&str; 9] = [
    "detector::",
    "flow::",
    "image::",
    "kernel::",
    "model::tests::a_detector",
    "model::tests::labels",
    "node::",
    "schedule::",
    "text::",
];
/// Tests that loop over so many numbers that Miri takes hours, and tests for which it takes minutes.
const HOURS: [&str; 3] = ["::every_", "::events_are_those", "activation::text::"];
const MINUTES: [&str; 2] = ["flow::", "node::"];

/// Tests of `tidegate` under Miri, with addresses of 32 or 64 bits. With `share`, those that take minutes are skipped.
pub fn miri_core(bits: u32, share: bool) -> Command {
    let target = if bits == 32 { HOST_32 } else { HOST };
    let long = HOURS.iter().chain(MINUTES.iter().filter(|_| share));
    let mut command = miri(&["tidegate", "--lib", "--target", target, "--"]);
    command.args(ON_BYTES).args(long.flat_map(|long| ["--skip", long]));
    command
}

/// The tests of the crate for hosts under Miri: plain Rust, and the part of AVX2 that Miri supports.
pub fn miri_fused() -> Command {
    let mut command = miri(&["tidegate-fused", "--lib", "--test", "streams"]);
    command.env("RUSTFLAGS", "-Ctarget-feature=+avx2,+fma");
    command
}

fn miri(arguments: &[&str]) -> Command {
    let mut command = nightly(".", &["miri", "test", "--locked", "--package"]);
    command.args(arguments).env("MIRIFLAGS", "-Zmiri-disable-isolation");
    command
}

/// A thousand streams over one model, apart and in a pool, on two threads under the thread sanitizer, for a number of
/// seconds.
pub fn races(seconds: u32) -> Command {
    let package = ["--package", "tidegate-fused", "--features", "threads", "--test", "streams"];
    let test = [&["test", "--release", "--locked"][..], &package].concat();
    let mut command = nightly(".", &test);
    // The standard library needs the sanitizer too. With a target, build scripts are built without it.
    command.args(["-Zbuild-std", "--target", HOST]);
    // Optimizing the standard library would take longer than the test.
    command.args(["--config", "profile.release.debug=false", "--config", "profile.release.opt-level=0"]);
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
