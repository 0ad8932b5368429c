//! Every test, and their total as the last line.

use std::process::Command;
use std::time::Duration;

use crate::shell::{self, cargo, output_within, root};
use crate::total::Total;
use crate::{
    Failure, boards, book, c, estimate, firmware, hosts, icount, install, new, python, qemu, share, size, suites,
    symbols, updates, web,
};

/// Time limit of the demo, which takes about two minutes with the builds of the firmware.
const DEMO_LIMIT: Duration = Duration::from_secs(900);

/// Seconds of mutations for each fuzz target, and of the thread sanitizer. `cargo xtask soak` takes hours.
const MUTATION_SECONDS: &str = "5";
const RACE_SECONDS: u32 = 10;

/// Tests that compute for minutes. Each day runs one of these shares.
const LONG: [&[&str]; 3] = [
    &["integer_random::random_networks_stay_near_f32_with_rounded_weights"],
    &["integer_random::golden_cases_stay_near_f32_with_rounded_weights"],
    &[
        "hello_edge_integer::no_rounding_is_biased_over_an_hour_of_one_state",
        "hello_edge_integer::an_hour_of_one_state_neither_drifts_nor_saturates",
    ],
];

/// The command for one of these.
const OF_LONG: &str = "cargo test --release -p tidegate-tests --test import ";

/// Tests of [`hosts()`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Host {
    Neon,
    Micromath,
    Miri,
    Races,
    Narrow,
}

impl Host {
    /// Each day, `cargo xtask test` runs one of these.
    const ALL: [Self; 5] = [Self::Neon, Self::Micromath, Self::Miri, Self::Races, Self::Narrow];

    fn what(self) -> &'static str {
        match self {
            Self::Neon => "tests of tidegate-fused for AArch64 under QEMU",
            Self::Micromath => "tests of the core with micromath",
            Self::Miri => "tests under Miri",
            Self::Races => "streams of tidegate-fused under the thread sanitizer",
            Self::Narrow => "tests of tidegate with addresses of 32 bits",
        }
    }

    fn install(self) -> Result<(), Failure> {
        match self {
            Self::Neon => install::arm64(),
            Self::Micromath => Ok(()),
            Self::Miri | Self::Races => install::nightly(),
            Self::Narrow => install::narrow(),
        }
    }

    /// The tests, for the thread sanitizer of a number of seconds. With `share`, only a part of Miri's and of NEON's, which
    /// saves minutes.
    fn tests(self, race_seconds: u32, share: bool) -> Vec<Command> {
        match self {
            Self::Neon => hosts::neon().into_iter().take(if share { 1 } else { usize::MAX }).collect(),
            Self::Micromath => vec![hosts::micromath()],
            Self::Miri if share => vec![hosts::miri_core(32, true)],
            Self::Miri => vec![hosts::miri_core(32, false), hosts::miri_core(64, false), hosts::miri_fused()],
            Self::Races => vec![hosts::races(race_seconds)],
            Self::Narrow => vec![hosts::narrow()],
        }
    }
}

/// Checks of the page, of C and of projects. Each day, `cargo xtask test` runs one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Interface {
    /// The page in the browser and the npm package.
    Page,
    /// The book, the library for C, and debug builds of firmware.
    BookAndC,
    /// The projects of `tidegate new`.
    Projects,
}

impl Interface {
    const ALL: [Self; 3] = [Self::Page, Self::BookAndC, Self::Projects];

    /// The checks, each with the command that runs it on every day.
    fn checks(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Page => &[("the page in the browser and the npm package", "cargo xtask web")],
            Self::BookAndC => &[
                ("the book", "cargo xtask book"),
                ("the library for C", "cargo xtask c"),
                ("every firmware holds its image once in a debug build", "TIDEGATE_DAY=1 cargo xtask test"),
            ],
            Self::Projects => &[
                ("three commands from a model to a project in QEMU", "cargo xtask new --every"),
                ("from an empty crate to the first inference, by core/README.md", "cargo xtask new --every"),
                ("the project of a board", "cargo xtask new --boards"),
            ],
        }
    }
}

/// Continues after a failure, so that the total covers all tests.
pub fn run() -> Result<(), Failure> {
    install::targets()?;
    let mut total = Total::default();
    // Most builds of these threads share no folder with the workspace.
    let cores = icount::of_today()?;
    let interface = Interface::ALL[share::of_today(Interface::ALL.len())?];
    let firmware = shell::beside("firmware", move || early_firmware(&cores, interface == Interface::BookAndC))?;
    let today = Host::ALL[share::of_today(Host::ALL.len())?];
    let hosts = shell::beside("hosts", move || {
        let mut total = Total::default();
        let done = total.host(today, RACE_SECONDS, true);
        for other in Host::ALL.iter().filter(|host| **host != today) {
            total.leaves_out(other.what(), "cargo xtask hosts");
        }
        total.leaves_out("the longer tests under QEMU and Miri", "cargo xtask hosts");
        (total, done)
    })?;
    for (what, command) in Interface::ALL.iter().filter(|other| **other != interface).flat_map(|other| other.checks()) {
        total.leaves_out(what, command);
    }
    let book = (interface == Interface::BookAndC).then(|| shell::beside("book", book::run)).transpose()?;
    let python = shell::beside("python", python::prepare)?;
    let tools = shell::beside("tools", move || {
        install::qemu()?;
        match interface {
            // If this fails, the check of the page says so.
            Interface::Page => install::browser().or(Ok(())),
            Interface::BookAndC => install::arm_gcc(),
            Interface::Projects => install::arm_gcc().and_then(|()| install::cmake()),
        }
    })?;
    // If this build fails, the failure is counted below, where the build is repeated.
    let mut build = suites::command();
    build.arg("--no-run");
    let _ = shell::run("the workspace and its tests are built", build);
    let networks = shell::beside("networks", firmware::bundles)?;
    // The output of tests that pass says what they skip.
    let mut tests = suites::command();
    tests.args(["--no-fail-fast", "--", "--show-output"]);
    let long = share::of_today(LONG.len())?;
    for (_, tests_of_share) in LONG.iter().enumerate().filter(|(number, _)| *number != long) {
        tests.args(tests_of_share.iter().flat_map(|test| ["--skip", test]));
        tests_of_share.iter().for_each(|test| total.leaves_out(test, &format!("{OF_LONG}{test}")));
    }
    tests.env("TIDEGATE_MUTATION_SECONDS", MUTATION_SECONDS);
    match python.join() {
        Ok(python) => drop(tests.env(python::VARIABLE, python)),
        Err(failure) => total.lacks("the package for Python", &failure),
    }
    total.cargo_tests("tests of the workspace", tests)?;
    let (of_hosts, done) = hosts.join();
    total.absorb(of_hosts);
    done?;
    if let Some(book) = book {
        total.check("the book is built", || book.join());
    }
    let (of_firmware, is_counted) = firmware.join();
    total.absorb(of_firmware);
    // The tests have built the command line. A project has a build folder of its own, and the library for C is built with
    // the workspace.
    let tools = total.check("QEMU and today's compilers for C are there", || tools.join());
    let is_even = share::of_today(2)? == 0;
    let others = shell::beside("others", move || {
        let mut total = Total::default();
        match interface {
            Interface::Projects => total.projects(tools, is_even),
            Interface::BookAndC => total.library_for_c(tools),
            Interface::Page => {}
        }
        total
    })?;
    let modules = (interface == Interface::Page)
        .then(|| shell::beside("modules", || web::modules(web::UNOPTIMIZED_IMPORTERS)))
        .transpose()?;
    let ready = total.check("firmware builds", || {
        networks.join()?;
        firmware::build()
    });
    if ready && tools {
        total.firmware(is_counted.then_some(&cores));
    }
    total.absorb(others.join());
    if let Some(modules) = modules {
        total.page(modules.join());
    }
    // This test is counted with those of the workspace; here it prints its figures.
    if let Err(failure) = qemu::twin() {
        eprintln!("{failure}");
    }
    total.end()
}

/// The builds of firmware that the checks of another build leave out, and the check of debug builds. Returns whether the
/// programs that count instructions are built.
fn early_firmware(cores: &[&str], debug: bool) -> (Total, bool) {
    let mut total = Total::default();
    let is_counted = total.check("programs that count instructions are built", || icount::build(cores));
    // If this fails, the checks of the micro:bit say so.
    let _ = boards::build_microbit();
    // Other builds overwrite these programs.
    if debug {
        total.check("every firmware holds its image once in a debug build", || {
            firmware::build_debug()?;
            firmware::debug().try_for_each(|firmware| symbols::image_is_there_once(&firmware))
        });
    }
    (total, is_counted)
}

/// Tests that need other tools: NEON under QEMU, addresses of 32 bits, Miri, the thread sanitizer. Returns how many have
/// passed.
pub fn hosts(race_seconds: u32) -> Result<u64, Failure> {
    let mut total = Total::default();
    Host::ALL.iter().try_for_each(|host| total.host(*host, race_seconds, false))?;
    total.end()?;
    Ok(total.passed)
}

/// The library for C: every core, on the host and under QEMU.
pub fn library_for_c() -> Result<(), Failure> {
    install::targets()?;
    install::qemu()?;
    c::check_all()?;
    firmware::build_command_line()?;
    let mut total = Total::default();
    total.library_for_c(true);
    total.end()
}

/// The tests of functions over every f32 and of integers of every size, of which the usual tests take a sample, and the long
/// tests that take turns. Returns how many have passed.
pub fn every_input() -> Result<u64, Failure> {
    let mut total = Total::default();
    for (package, tests) in [("tidegate", &["--lib", "--test", "activation"][..]), ("tidegate-fused", &["--lib"])] {
        let mut command = cargo(".", &["test", "--release", "--locked", "--package", package]);
        command.args(tests).env("TIDEGATE_EVERY_F32", "1");
        total.cargo_tests(&format!("functions of {package} over every f32"), command)?;
    }
    for (suite, test) in [("engine", "integer::every_cell"), ("fused", "fused_integer::cells_and_dense")] {
        let mut command = suites::command();
        command.args(["--test", suite, "--", test]).env("TIDEGATE_EVERY_SIZE", "1");
        total.cargo_tests(&format!("integers of every size, {suite}"), command)?;
    }
    let mut long = suites::command();
    long.args(["--test", "import", "--", "--exact"]).args(LONG.concat());
    let passed = total.passed;
    total.cargo_tests("long tests", long)?;
    let ran = total.passed - passed;
    if ran < LONG.concat().len() as u64 {
        return Err(format!("{ran} of the {} long tests have passed", LONG.concat().len()));
    }
    total.end()?;
    Ok(total.passed)
}

/// The demo of the README, with the program that the tests have built. `cargo run` would compile it again, because its
/// features differ from those of the tests. Without QEMU the demo omits the firmware; here QEMU is installed.
fn demo() -> Result<(), Failure> {
    let mut demo = Command::new(firmware::workspace_target_dir().join("release/tidegate"));
    demo.current_dir(root()).arg("demo");
    let printed = output_within(demo, DEMO_LIMIT)?;
    match printed.lines().last() {
        Some(line) if line.starts_with("firmware") && line.ends_with("lines have the recorded bits") => Ok(()),
        _ => Err(format!("its last line should say that the firmware has the recorded bits:\n{printed}")),
    }
}

impl Total {
    /// Checks what the firmware prints in QEMU, its symbols, its sizes, and the instructions of some cores.
    fn firmware(&mut self, counted: Option<&[&str]>) {
        for firmware in firmware::all() {
            let what = firmware.what();
            let mut run = Err(format!("{what} did not run"));
            self.check(&format!("{what} prints what is recorded"), || {
                run = firmware.run();
                qemu::compare(&firmware, run.as_ref()?)
            });
            let mut measured = None;
            self.check(&format!("size of {what}"), || {
                let size = size::measure(&firmware, run.as_ref()?)?;
                let compared = size::compare(&size);
                measured = Some(size);
                compared
            });
            // `bare` has no image, and the gated spotter and the update have two.
            if !["bare", firmware::ANY, firmware::UPDATE, "wake_word_gated"].contains(&firmware.name) {
                self.check(&format!("{what} is near its estimate"), || {
                    estimate::near(&firmware, measured.as_ref().ok_or("its size is unknown")?)
                });
            }
            if firmware.name.starts_with("hello") || firmware.name == firmware::UPDATE {
                self.check(&format!("{what} neither panics nor allocates"), || {
                    symbols::neither_panics_nor_allocates(firmware.name, &firmware.elf())
                });
            }
            // Without an FPU, operations on floats are calls to library functions. The integer chain has none.
            if ["kws_stream", "wake_word"].contains(&firmware.name) && !firmware.machine.has_fpu() {
                self.check(&format!("{what} has no code for floats"), || {
                    symbols::has_no_floats(firmware.name, &firmware.elf())
                });
            }
        }
        for firmware in qemu::same_bits() {
            self.check(&format!("{} gives the host's bits", firmware.what()), || qemu::compare_with_host(&firmware));
        }
        if let Some(cores) = counted {
            self.check(&format!("no count of instructions has outgrown its record: {}", cores.join(", ")), || {
                icount::check(cores)
            });
            self.leaves_out("instructions on other cores", "cargo xtask icount");
        }
        self.check("microbit answers as recorded", || boards::microbit(false));
        self.check("microbit takes signed updates, and refuses others", updates::microbit);
        self.check("the demo of README runs to its end, firmware and all", demo);
    }

    /// The projects of `tidegate new`: one for QEMU, in turn with features and with sound, and one for a board.
    fn projects(&mut self, tools: bool, is_even: bool) {
        if tools {
            self.check("from an empty crate to the first inference, by core/README.md", new::readme::first_inference);
        }
        if tools && is_even {
            self.check("three commands from a model to a project's outputs in QEMU, in Rust and in C", new::first);
            self.leaves_out("three commands for a model with a front end", "cargo xtask new --every");
        } else if tools {
            self.check("three commands from a model to what it hears in QEMU", new::first_with_sound);
            self.leaves_out("three commands for a model of features", "cargo xtask new");
        }
        self.check("the project of a board, each time of another, compiles", || new::one_board(Interface::ALL.len()));
        self.leaves_out("the projects of the other boards", "cargo xtask new --boards");
    }

    /// The page and the npm package, with these WebAssembly modules. They measure time, so no other check may run beside them.
    fn page(&mut self, modules: Result<(), Failure>) {
        if !self.check("the WebAssembly modules are built", || modules) {
            return;
        }
        match install::browser() {
            Ok(()) => {
                let mut skipped = Vec::new();
                self.check("the page in the browser and the npm package", || web::check().map(|lines| skipped = lines));
                skipped.iter().for_each(|line| self.skips(line));
            }
            Err(failure) => self.lacks("the page in the browser and the npm package", &failure),
        }
    }

    /// The library for C on the host, and its examples in QEMU if the tools for them are there.
    fn library_for_c(&mut self, tools: bool) {
        self.check("the library for C on the host: calls, good and bad, and the example", c::host);
        let ready = tools && self.check("the example in C is built", c::build);
        for example in c::ALL.iter().filter(|_| ready) {
            let name = example.name;
            let mut run = Err(format!("{name} did not run"));
            self.check(&format!("{name} prints what kws_stream prints"), || {
                run = example.run();
                c::compare(&run.as_ref()?.text)
            });
            self.check(&format!("size of {name}"), || size::compare(&example.measure(run.as_ref()?)?));
            let what = format!("{name} neither panics nor allocates");
            self.check(&what, || symbols::neither_panics_nor_allocates(name, &example.elf()?));
        }
    }

    /// The tests of a [`Host`].
    fn host(&mut self, host: Host, race_seconds: u32, share: bool) -> Result<(), Failure> {
        match host.install() {
            Ok(()) => {
                let tests = host.tests(race_seconds, share);
                tests.into_iter().try_for_each(|tests| self.cargo_tests(host.what(), tests))
            }
            Err(failure) => {
                self.lacks(host.what(), &failure);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Interface;

    #[test]
    fn the_command_of_a_skipped_check_names_the_day_that_runs_it() {
        for (day, interface) in Interface::ALL.iter().enumerate() {
            let days = interface.checks().iter().filter_map(|(_, command)| command.strip_prefix("TIDEGATE_DAY="));
            days.for_each(|rest| assert_eq!(rest, format!("{day} cargo xtask test")));
        }
    }
}
