//! The tasks of the repository. `cargo xtask --help` lists them.

mod boards;
mod book;
mod c;
mod check;
mod circles;
mod code;
mod costs;
mod dependencies;
mod estimate;
mod firmware;
mod fuzz;
mod hosts;
mod icount;
mod install;
mod new;
mod package;
mod public;
mod python;
mod qemu;
mod record;
mod share;
mod shell;
mod size;
mod soak;
mod suites;
mod symbols;
mod test;
mod timing;
mod total;
mod trace;
mod updates;
mod web;
mod wheel;
mod zoo;

use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

/// Why a task failed: a sentence that names the command or the file.
type Failure = String;

/// Checks, tests and measures Tidegate. Installs missing tools (Rust targets, QEMU) where possible, and prints what it
/// installs.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

const EXAMPLES: &str = "\
Examples:
  cargo xtask check                       before every commit
  cargo xtask test                        all tests; the last line is the total
  cargo xtask qemu --overwrite-expected   after a change of the firmware's output; git diff shows it
  cargo xtask size --json                 flash, RAM and stack of every firmware
  cargo xtask icount                      instructions per step on every core, and their upper bounds
  cargo xtask fuzz c_api --seconds 600    ten minutes of one fuzz target";

#[derive(Subcommand)]
enum Task {
    /// Check format, clippy, docs, feature sets, the core for every target, and firmware builds. What takes minutes takes turns
    /// by day
    Check,
    /// Find circles of files that use each other
    Circles,
    /// Pack the published crates and compile the packages
    Package,
    /// Check the licenses, sources and duplicates of all dependencies against deny.toml
    Deny,
    /// Print the bill of materials of a package in CycloneDX
    Sbom {
        /// The package
        #[arg(long, default_value = "tidegate-tools")]
        package: String,
    },
    /// List the public items of `tidegate` and compare them with core/public-items.txt
    Public(Record),
    /// Run the tests: workspace, documentation, host kernels, fuzz targets, firmware under QEMU, its symbols and sizes. What
    /// takes minutes takes turns by day
    Test,
    /// Test with NEON under QEMU, micromath, addresses of 32 bits, Miri and the thread sanitizer
    Hosts,
    /// Run fuzz targets from the seeds that `cargo xtask test` writes
    Fuzz(Targets),
    /// Run for hours what `test` runs for a moment, and record it in tests/soak.json. What it records of the same code is not
    /// repeated
    Soak {
        /// Only these fuzz targets, or `fuzz` for all of them, `wheel`, `python`, `hosts`, `every_input`, `updates`, `cuts`;
        /// everything without names
        names: Vec<String>,
        /// Stop after so many minutes
        #[arg(long)]
        minutes: Option<u64>,
    },
    /// Run the firmware under QEMU and compare its output with firmware-examples/expected
    Qemu(Record),
    /// Count the instructions of a step on every core, model its cycles, and compare with
    /// firmware-examples/expected/icount.json. An optimized xtask reads the traces faster: `cargo run --release --package xtask
    /// -- icount`
    Icount(Figures),
    /// Measure the networks of tools/cli/zoo.json, which are in the test data, and compare with that file
    Zoo {
        /// A part of the names of the networks
        #[arg(default_value = "")]
        part: String,
        #[command(flatten)]
        record: Record,
    },
    /// Count the costs of every kind of layer on every core, and write them into tools/cli/costs.json
    Costs {
        /// The cores to count again; without any, all
        cores: Vec<String>,
    },
    /// Build the book from docs into target/book, and check its links
    Book,
    /// Build the library for C, its tests and its example, and run them on the host and under QEMU
    C,
    /// Build the projects of `tidegate new` for a Cortex-M4F by the commands that a user types, and run them in QEMU
    New {
        /// Every board of QEMU, also with tasks
        #[arg(long)]
        every: bool,
        /// Link the projects for other boards instead
        #[arg(long, conflicts_with = "every")]
        boards: bool,
    },
    /// Build the page in the browser and the npm package into target/web, and test them in Node and Chromium
    Web {
        /// Write pictures of the page to docs/web
        #[arg(long)]
        pictures: bool,
    },
    /// Build the package for Python and run its tests, in an environment in target/python
    Python,
    /// Build the wheel for Python, and check its size, its contents and its import on every CPython of this machine
    Wheel,
    /// Measure flash, RAM and stack of the firmware, and compare with firmware-examples/expected/size.json
    Size(Figures),
}

#[derive(Args)]
struct Targets {
    /// Time for each target
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Names of targets; all without names
    targets: Vec<String>,
}

#[derive(Args)]
struct Record {
    /// Overwrite the record instead of comparing with it
    #[arg(long)]
    overwrite_expected: bool,
}

#[derive(Args)]
struct Figures {
    /// Print one JSON array on standard output
    #[arg(long, conflicts_with = "overwrite_expected")]
    json: bool,
    #[command(flatten)]
    record: Record,
}

fn main() -> ExitCode {
    if let Some(code) = public::rustdoc().or_else(suites::rustc) {
        return code;
    }
    let done = match Arguments::parse().task {
        Task::Check => check::run(),
        Task::Circles => circles::check(),
        Task::Package => package::check(),
        Task::Deny => dependencies::check(),
        Task::Sbom { package } => dependencies::bill(&package),
        Task::Public(record) => public::run(record.overwrite_expected),
        Task::Test => test::run(),
        Task::Hosts => test::hosts(60).map(drop),
        Task::Fuzz(Targets { seconds, targets }) => fuzz::some(targets, seconds),
        Task::Soak { names, minutes } => soak::run(names, minutes),
        Task::Qemu(record) => qemu::run(record.overwrite_expected),
        Task::Zoo { part, record } => zoo::run(&part, record.overwrite_expected),
        Task::Icount(Figures { json, record }) => icount::run(json, record.overwrite_expected),
        Task::Costs { cores } => costs::run(&cores),
        Task::Book => book::run(),
        Task::C => test::library_for_c(),
        Task::New { every, boards } => firmware::build_command_line().and_then(|()| match (every, boards) {
            (_, true) => new::boards(),
            (true, false) => new::every(),
            (false, false) => new::first(),
        }),
        Task::Python => python::run(),
        Task::Wheel => wheel::run(),
        Task::Web { pictures } => web::run(pictures),
        Task::Size(Figures { json, record }) => size::run(json, record.overwrite_expected),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        // `cargo xtask test` has already printed its total as the last line.
        Err(failure) if failure.is_empty() => ExitCode::FAILURE,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}
