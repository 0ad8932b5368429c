//! All checks that run no program: format, clippy, docs, packages, public items, feature sets, targets, firmware
//! builds.
//!
//! All builds are in the release profile, so that procedural macros and build scripts are compiled once for the checks
//! and the tests.

use crate::firmware::{self, UPDATE, cargo_in_workspace};
use crate::install::{self, BROWSER};
use crate::shell::{self, cargo, root, run as run_command, step};
use crate::{Failure, boards, c, circles, dependencies, package, public, share};

/// Stops at the first failure.
pub fn run() -> Result<(), Failure> {
    install::targets()?;
    for folder in [".", "firmware-examples", "tools/book"] {
        if !root().join(folder).join("Cargo.toml").is_file() {
            eprintln!("SKIP format of {folder}: there is no workspace in it");
            continue;
        }
        run_command(&format!("format of {folder}"), cargo(folder, &["fmt", "--all", "--check"]))?;
    }
    let firmware = shell::beside("firmware", firmware_and_boards)?;
    let workspace = workspace();
    // Joined even if the workspace has failed, because the log of the thread shows its own failures.
    let firmware = firmware.join();
    workspace.and(firmware)
}

/// The firmware and the boards, in a build folder of their own.
fn firmware_and_boards() -> Result<(), Failure> {
    // Clippy runs for one architecture, another one each day. The library for C lints the kernels of the Cortex-M4, and those
    // of another core each day.
    let cores = ["m4", "rv32"];
    let clippy = cores.map(|core| format!("clippy of the firmware for {core}"));
    let today = share::one_of_today(&clippy, "cargo xtask check")?;
    for machine in firmware::MACHINES.iter().filter(|machine| machine.core == cores[today]) {
        let (target, kernels) = (machine.target, machine.kernels);
        let clippy =
            ["clippy", "--release", "--locked", "--target", target, "--features", kernels, "--features", UPDATE];
        let mut clippy = cargo_in_workspace(&clippy);
        clippy.args(["--", "-D", "warnings"]);
        run_command(&format!("clippy of the firmware for {target}"), clippy)?;
    }
    firmware::build()?;
    boards::check()
}

fn workspace() -> Result<(), Failure> {
    step("no circles of files", circles::check)?;
    step("licenses, sources and duplicates of dependencies", dependencies::check)?;
    // Each compiles most of the workspace once more, so they take turns by day.
    let turns = ["packing of the published crates", "docs", "clippy of the fuzz targets"].map(str::to_owned);
    let today = share::one_of_today(&turns, "cargo xtask check")?;
    // CI runs clippy with the build of the tests, which leaves out the fuzz targets.
    if today == 2 || !shell::is_ci() {
        // With every feature that adds code. The docs and the packages are compiled without these features.
        let mut clippy = cargo(".", &["clippy", "--workspace", "--all-targets", "--release", "--locked"]);
        clippy.args(["--features", "tidegate-gpu-measure/cudnn", "--", "-D", "warnings"]);
        // A lint of the fuzz targets needs no libFuzzer, which takes a minute to compile: any file passes for it.
        clippy.env("CUSTOM_LIBFUZZER_PATH", root().join("tests/fuzz/Cargo.toml"));
        run_command("clippy", clippy)?;
    }
    if today == 1 {
        let mut doc = cargo(".", &["doc", "--workspace", "--no-deps", "--release", "--locked"]);
        doc.env("RUSTDOCFLAGS", "-D warnings");
        run_command("docs", doc)?;
    }
    public::run(false)?;
    if today == 0 {
        package::check()?;
    }
    features()?;
    // The firmware is built for all other targets.
    let mut clippy = cargo(".", &["clippy", "--package", "tidegate", "--release", "--locked", "--target", BROWSER]);
    let vectors = format!("target.{BROWSER}.rustflags=['-C', 'target-feature=+simd128']");
    clippy.args(["--config", &vectors, "--", "-D", "warnings"]);
    run_command("clippy of the core for browsers, with vectors", clippy)?;
    // For a target without a standard library.
    let check = ["check", "--package", "tidegate-update", "--release", "--locked", "--target", "thumbv7em-none-eabihf"];
    run_command("updates for a microcontroller", cargo(".", &check))?;
    c::check()
}

/// Feature sets of the core: the empty set, which is for models in integers, and another one each day.
fn features() -> Result<(), Failure> {
    const CORE: [&str; 6] = ["clippy", "--package", "tidegate", "--release", "--locked", "--no-default-features"];
    const OTHERS: [&str; 4] = ["libm", "micromath", "libm,defmt", "libm,micromath"];
    let what = |set| format!("core with the features {set:?}");
    let today = share::one_of_today(&OTHERS.map(what), "cargo xtask check")?;
    for set in ["", OTHERS[today]] {
        let mut clippy = cargo(".", &CORE);
        clippy.args(["--features", set, "--", "-D", "warnings"]);
        run_command(&what(set), clippy)?;
    }
    Ok(())
}
