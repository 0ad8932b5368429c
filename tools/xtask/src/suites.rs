//! The tests of the workspace: the command that builds and runs them.

use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, ExitCode};

use crate::shell::{self, cargo};

/// Cargo's arguments. Every release build of the workspace uses them, because with another set of features cargo would
/// compile everything again.
const ARGUMENTS: [&str; 8] = [
    "test",
    "--workspace",
    "--release",
    "--locked",
    "--features",
    "tidegate-gpu-measure/cudnn",
    "--config",
    "tools/xtask/tests.toml",
];

/// The variable of cargo that names a program to start rustc with.
const WRAPPER: &str = "RUSTC_WRAPPER";

/// The same for the crates of the workspace alone. What was built with another program is built again.
const WORKSPACE_WRAPPER: &str = "RUSTC_WORKSPACE_WRAPPER";

/// The compiler with lints, and how `cargo clippy -- -D warnings` tells it that warnings are errors.
const CLIPPY: &str = "clippy-driver";
const DENY_WARNINGS: (&str, &str) = ("CLIPPY_ARGS", "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__");

/// The crates whose tests are optimized: these try as many values as they can, and fewer if debug assertions are on, which
/// come with code that is not optimized.
const OPTIMIZED: [&str; 2] = ["tidegate", "tidegate-fused"];

/// The command. The libraries are optimized. Most tests are not, so the build takes a third less time. A profile of cargo
/// cannot tell a library from its unit tests, so cargo starts rustc through this program. Cargo does not know of this: the
/// same command without it uses what was built with it, and the other way round. If the variable names another wrapper,
/// such as a cache, that one stays and all tests are optimized.
///
/// In CI the build runs clippy too, which takes 100 s less than a clippy of its own.
pub fn command() -> Command {
    let mut command = cargo(".", &ARGUMENTS);
    if shell::is_ci() && env::var_os(WORKSPACE_WRAPPER).is_none() {
        command.env(WORKSPACE_WRAPPER, CLIPPY).env(DENY_WARNINGS.0, DENY_WARNINGS.1);
    }
    if env::var_os(WRAPPER).is_none()
        && let Ok(own) = env::current_exe()
        && own.is_file()
    {
        command.env(WRAPPER, own);
    }
    command
}

/// Compiles if cargo has started this program as its wrapper: the first argument is the path of rustc, or [`CLIPPY`].
pub fn rustc() -> Option<ExitCode> {
    let mut arguments = env::args_os().skip(1);
    let is_compiler =
        |program: &OsString| Path::new(program).file_stem().is_some_and(|stem| stem == "rustc" || stem == CLIPPY);
    let mut compile = Command::new(arguments.next().filter(is_compiler)?);
    let arguments: Vec<_> = arguments.collect();
    compile.args(&arguments);
    let is_optimized = env::var("CARGO_PKG_NAME").is_ok_and(|package| OPTIMIZED.contains(&package.as_str()));
    if !is_optimized && arguments.iter().any(|argument| argument == "--test") {
        // Behind cargo's level, because the last one counts.
        compile.args(["-C", "opt-level=0"]);
    }
    let is_compiled = compile.status().map(|status| status.success());
    let is_compiled = is_compiled.unwrap_or_else(|error| {
        eprintln!("xtask cannot start {}: {error}", compile.get_program().display());
        false
    });
    Some(if is_compiled { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
