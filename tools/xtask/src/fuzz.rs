//! The fuzz targets of `tests/fuzz`: building them with libFuzzer and the address sanitizer, and running each for a
//! while from the seeds that the tests write to `target/fuzz`.
//!
//! The settings are those of cargo-fuzz, which CI would have to compile first.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;

use serde::{Deserialize, Serialize};
use wait4::{ResUse, Wait4};

use crate::firmware::workspace_target_dir;
use crate::hosts::{self, HOST};
use crate::shell::{about, root, run as run_command};
use crate::{Failure, install};

/// Maximum memory of a target in MiB, and maximum time for one input in seconds.
const MEMORY_MIB: u32 = 2048;
const INPUT_SECONDS: u32 = 10;
/// Maximum length of an input in bytes.
const MAX_LEN: u32 = 1 << 16;

/// Work that a target has done.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub struct Ran {
    /// Number of inputs.
    pub executions: u64,
    /// Processor time.
    pub seconds: u64,
}

/// The names of all targets.
pub fn targets() -> Result<Vec<String>, Failure> {
    let folder = root().join("tests/fuzz/fuzz_targets");
    let mut names = Vec::new();
    for file in fs::read_dir(&folder).map_err(about(&folder))? {
        let path = file.map_err(about(&folder))?.path();
        names.extend(path.file_stem().map(|name| name.to_string_lossy().into_owned()));
    }
    names.sort_unstable();
    Ok(names)
}

/// Builds all targets and runs some, or all if none is named.
pub fn some(names: Vec<String>, seconds: u64) -> Result<(), Failure> {
    install::nightly()?;
    let names = if names.is_empty() { targets()? } else { names };
    build()?;
    run(&names, seconds)
}

/// The build folder of the targets.
fn target_dir() -> PathBuf {
    root().join("tests/fuzz/target")
}

/// Builds all targets.
pub fn build() -> Result<(), Failure> {
    let coverage = [
        "-Cpasses=sancov-module",
        "-Cllvm-args=-sanitizer-coverage-level=4",
        "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
        "-Cllvm-args=-sanitizer-coverage-pc-table",
        "-Cllvm-args=-sanitizer-coverage-trace-compares",
        "-Clink-dead-code",
    ];
    let of_all = ["-Ccodegen-units=16", "-Zsanitizer=address", "--cfg=fuzzing"];
    let checks = ["debug-assertions", "overflow-checks"];
    // Signatures would take nearly all of the time. Flags of a package replace the coverage.
    let signatures = ["curve25519-dalek", "ed25519-dalek", "sha2"];
    let unchecked = signatures.iter().flat_map(|name| {
        let untraced = format!("package.{name}.rustflags=['-Copt-level=3']");
        checks.map(|check| format!("package.{name}.{check}=false")).into_iter().chain([untraced])
    });
    let settings = checks.map(|check| format!("{check}=true")).into_iter().chain(unchecked);
    // With a target, build scripts and macros are built without the sanitizer, and here without the checks.
    let settings = settings.chain(checks.map(|check| format!("build-override.{check}=false")));
    let mut build = hosts::nightly("tests/fuzz", &["build", "--release", "--locked", "--bins", "--target", HOST]);
    // The kernels are large, and none of their branches depends on the bytes of an input.
    let traced = format!("rustflags=[{}]", coverage.map(|flag| format!("'{flag}'")).join(", "));
    let of_host = "build-override.rustflags=['-Cdebug-assertions=false']".to_owned();
    let settings = settings.chain(["package.tidegate-fused.opt-level=1".to_owned(), traced, of_host]);
    build.args(settings.flat_map(|setting| ["--config".to_owned(), format!("profile.release.{setting}")]));
    build.arg("-Zprofile-rustflags").env("CARGO_ENCODED_RUSTFLAGS", of_all.join("\u{1f}"));
    build.env("CARGO_TARGET_DIR", target_dir());
    run_command("fuzz targets with the address sanitizer", build)
}

/// Runs every target of `names` for a number of seconds, as many at a time as there are cores.
fn run(names: &[String], seconds: u64) -> Result<(), Failure> {
    let next = Mutex::new(names.iter());
    let failures = Mutex::new(Vec::new());
    let work = || {
        loop {
            // The lookup is a statement of its own, so that the lock is released before the target runs.
            let Some(name) = next.lock().expect("no thread panics").next() else { return };
            match run_one(name, seconds, 1) {
                Ok(ran) => eprintln!("    {name}: {} inputs in {} s", ran.executions, ran.seconds),
                Err(failure) => failures.lock().expect("no thread panics").push(failure),
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let failures = failures.into_inner().expect("no thread panics");
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n")) }
}

/// The folder of a target's inputs: the seeds, or the inputs that it finds.
fn inputs(of: &str, target: &str) -> Result<PathBuf, Failure> {
    let folder = workspace_target_dir().join(of).join(target);
    fs::create_dir_all(&folder).map_err(about(&folder))?;
    Ok(folder)
}

/// Runs a target for a number of seconds, with the mutations of this seed.
pub fn run_one(target: &str, seconds: u64, seed: u64) -> Result<Ran, Failure> {
    let (seeds, found, failing) =
        (inputs("fuzz", target)?, inputs("fuzz-found", target)?, inputs("fuzz-failed", target)?);
    let program = target_dir().join(HOST).join("release").join(target);
    let log_path = failing.join("log");
    let log = fs::File::create(&log_path).map_err(about(&log_path))?;
    let mut command = Command::new(&program);
    command.args([&found, &seeds]).arg(format!("-seed={seed}")).arg("-print_final_stats=1");
    command.arg(format!("-max_total_time={seconds}")).arg(format!("-max_len={MAX_LEN}"));
    command.arg(format!("-rss_limit_mb={MEMORY_MIB}")).arg(format!("-timeout={INPUT_SECONDS}"));
    command.arg(format!("-artifact_prefix={}/", failing.display()));
    // A target must not hold the terminal. What the tested readers print is dropped.
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    let child = command.spawn().map_err(|error| format!("cannot start {}: {error}", program.display()))?;
    let ResUse { status, rusage } = child.wait4().map_err(about(&program))?;
    let text = fs::read_to_string(&log_path).unwrap_or_default();
    if !status.success() {
        let lines: Vec<&str> = text.lines().collect();
        let end = lines[lines.len().saturating_sub(30)..].join("\n");
        return Err(format!("the fuzz target {target} failed; its input is in {}:\n{end}", failing.display()));
    }
    let executions = executions(&text).ok_or_else(|| format!("{}: there is no count of inputs", log_path.display()))?;
    Ok(Ran { executions, seconds: (rusage.utime + rusage.stime).as_secs().max(1) })
}

/// `stat::number_of_executed_units: 12345`
fn executions(log: &str) -> Option<u64> {
    log.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::executions;

    #[test]
    fn the_count_of_inputs_is_read() {
        assert_eq!(executions("Done\nstat::number_of_executed_units: 321\nstat::peak_rss_mb: 40\n"), Some(321));
        assert_eq!(executions("==12== ERROR: libFuzzer: deadly signal\n"), None);
    }
}
