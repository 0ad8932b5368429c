//! The library for C: the header compiles as C and C++, calls from C give the right results and errors, and the example
//! in C prints the same posteriors as `kws_stream_f32`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::firmware::{self, MPS2_AN386, Output};
use crate::shell::{self, cargo, run as run_command, step};
use crate::{Failure, install, record, share, updates};

/// A build of the example for the simulated machine.
#[derive(Debug)]
pub struct Example {
    pub name: &'static str,
    /// Whether the library contains the image, and code for its cells only. Otherwise the program parses the image, and
    /// the library contains every cell.
    built_in: bool,
}

/// Both ways to link the library.
pub const ALL: [Example; 2] =
    [Example { name: "kws_c", built_in: false }, Example { name: "kws_c_built_in", built_in: true }];

/// The same program in Rust.
const RUST: &str = "kws_stream_f32";

const WARNINGS: [&str; 4] = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"];
const MACHINE: [&str; 4] = ["-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"];
/// Libraries that Rust's standard library needs on Linux.
const LIBRARIES: [&str; 3] = ["-lm", "-lpthread", "-ldl"];
const SOURCES: [&str; 3] = ["kws.c", "console.c", "recording.c"];

/// The path of a file that this module builds.
fn made(name: &str) -> Result<PathBuf, Failure> {
    let folder = firmware::workspace_target_dir().join("c");
    fs::create_dir_all(&folder).map_err(shell::about(&folder))?;
    Ok(folder.join(name))
}

fn include(folder: &Path) -> String {
    format!("-I{}", folder.display())
}

/// A compiler with its flags and the folder of the header.
fn compiler(name: &str, standard: &str) -> Command {
    let mut command = Command::new(name);
    command.current_dir(shell::root()).arg(standard).args(WARNINGS).arg(include(Path::new("core/capi/include")));
    command
}

/// Compiles a program for the host, links it with the library, and returns its path.
fn host_program(
    name: &str,
    mut compiler: Command,
    library: &Path,
    inputs: impl FnOnce(&mut Command),
) -> Result<PathBuf, Failure> {
    let program = made(name)?;
    inputs(&mut compiler);
    compiler.arg(library).args(LIBRARIES).arg("-o").arg(&program);
    run_command(&format!("{name} compiles for the host"), compiler)?;
    Ok(program)
}

/// The output folder of the firmware's build script: the image, its header, the recording.
fn assets() -> Result<PathBuf, Failure> {
    // Only the library: building the programs without kernels would overwrite those that are measured.
    let build = ["build", "--lib", "--release", "--locked", "--message-format=json-render-diagnostics", "--features"];
    let mut build = firmware::cargo_in_workspace(&build);
    build.args([MPS2_AN386.kernels, "--target", MPS2_AN386.target]);
    let mut found = None;
    let built = shell::stream(build, |line| {
        let Ok(message) = serde_json::from_str::<serde_json::Value>(line) else { return };
        let of = |key: &str| message.get(key).and_then(serde_json::Value::as_str).unwrap_or_default();
        if of("reason") == "build-script-executed" && of("package_id").contains("firmware-examples") {
            found = Some(PathBuf::from(of("out_dir")));
        }
    })?;
    found.filter(|_| built).ok_or_else(|| "the firmware's build script has not run".to_owned())
}

/// Builds the library and returns its path. The library for the host supports updates.
fn library(profile: &str, target: Option<&str>, image: Option<&Path>) -> Result<PathBuf, Failure> {
    let features = match (target, image) {
        (None, _) => "update",
        (Some(_), None) => "dsp",
        (Some(_), Some(_)) => "dsp,image",
    };
    let mut build = cargo(".", &["build", "--package", "tidegate-c", "--locked", "--profile", profile]);
    build.args(["--features", features]);
    let mut folder = firmware::workspace_target_dir();
    match target {
        Some(target) => {
            build.args(["--target", target]);
            folder.push(target);
        }
        // Optimizing `tidegate` would take longer than the programs run.
        None => drop(build.args(["--config", "profile.release.package.tidegate.opt-level=0"])),
    }
    if let Some(image) = image {
        build.env("TIDEGATE_IMAGE", image);
    }
    run_command("the library for C", build)?;
    Ok(folder.join(profile).join("libtidegate_c.a"))
}

/// Compares the output of the example with that of [`RUST`], which also prints the state of its LED.
pub fn compare(printed: &str) -> Result<(), Failure> {
    let text = shell::read(&firmware::expected_dir().join(format!("{RUST}.run")))?;
    let lines = text.lines().filter(|line| !line.starts_with("led "));
    let expected: String =
        lines.map(|line| format!("{}\n", line.split_once(", ").map_or(line, |(event, _)| event))).collect();
    record::same("the example in C", printed, &format!("the output of {RUST}"), &expected)
}

/// Tests the library on the host: the header, calls from C, the page, and the example.
pub fn host() -> Result<(), Failure> {
    let assets = assets()?;
    let library = library("release", None, None)?;
    let c = || compiler("cc", "-std=c99");
    let api = host_program("api", c(), &library, |cc| {
        cc.args(["-g", "core/capi/tests/api.c"]);
    })?;
    let mut test = Command::new(&api);
    test.args(["kws_f32.tgi", "api_i8x16.tgi", "hello.tgi", "api_ports.tgi"].map(|name| assets.join(name)));
    run_command("calls from C, valid and invalid", test)?;
    let update = host_program("update", c(), &library, |cc| {
        cc.args(["-g", "core/capi/tests/update.c"]);
    })?;
    let mut test = Command::new(&update);
    test.arg(&assets);
    run_command("updates from C, with cuts of the power", test)?;

    if install::answers("c++", &["--version"]) {
        let source = made("header.cc")?;
        let text =
            "#include \"tidegate_update.h\"\nint main() { return tidegate_version() == TIDEGATE_VERSION ? 0 : 1; }\n";
        shell::write(&source, text)?;
        let program = host_program("header", compiler("c++", "-std=c++11"), &library, |cc| {
            cc.arg(&source);
        })?;
        run_command("C++ calls the library", Command::new(program))?;
    } else {
        eprintln!("SKIP the header in C++: there is no c++");
    }

    let source = blocks(PAGE, "page.c")?;
    let page = host_program("page", c(), &library, |cc| {
        cc.arg(include(&assets)).arg(&source).arg(assets.join("kws.c"));
    })?;
    run_command(&format!("the program on {PAGE} runs"), Command::new(&page))?;

    let source = blocks(UPDATE_PAGE, "update_page.c")?;
    let page = host_program("update_page", c(), &library, |cc| {
        cc.arg("-Icore/capi/tests").arg(&source).arg("core/capi/tests/board.c");
    })?;
    step(&format!("the program on {UPDATE_PAGE} takes updates from `tidegate flash`"), || {
        takes_updates(&page, &assets)
    })?;

    let example = host_program("kws_host", c(), &library, |cc| sources(cc, &assets, &["host.c", "image.S"]))?;
    compare(&shell::output_within(Command::new(&example), firmware::TIME_LIMIT)?)
}

const PAGE: &str = "docs/c.md";
const UPDATE_PAGE: &str = "docs/update.md";

fn text_of(page: &str) -> Result<String, Failure> {
    shell::read(&shell::root().join(page))
}

/// Writes the blocks in C of a page to a file, and returns its path.
fn blocks(page: &str, name: &str) -> Result<PathBuf, Failure> {
    let (text, source) = (text_of(page)?, made(name)?);
    let blocks = text.split("```c\n").skip(1).filter_map(|rest| rest.split("```").next());
    shell::write(&source, blocks.collect::<String>())?;
    Ok(source)
}

/// Sends images to a program that runs on the simulated board.
fn takes_updates(program: &Path, assets: &Path) -> Result<(), Failure> {
    let line = std::env::temp_dir().join(format!("tidegate-board-{}", std::process::id()));
    let mut board = Command::new(program);
    board.env("BOARD_LINE", &line).env("BOARD_IMAGE", assets.join("update_first.tgi"));
    let mut board = board.spawn().map_err(shell::about(program))?;
    let expected = [
        ("update_old", "is refused: the image has security counter 0, but at least 1 is required"),
        ("update_failing", "the model did not pass its test on the device"),
        ("update_second", ", confirmed, counter 2"),
        ("update_first", "is refused: the image has security counter 1, but at least 2 is required"),
    ];
    let sent = updates::await_line(&line).and_then(|()| {
        expected.into_iter().try_for_each(|(name, expected)| {
            let found = updates::flash(&line, assets, name).unwrap_or_else(|error| error);
            if found.contains(expected) { Ok(()) } else { Err(format!("{name}: not `{expected}`, but `{found}`")) }
        })
    });
    // The process may have ended already.
    let _ = board.kill();
    let _ = board.wait();
    let _ = fs::remove_file(&line);
    sent
}

/// A row of the page's table of cores: how to build the library for a core.
struct Row {
    core: String,
    target: String,
    features: String,
    flags: Option<String>,
}

/// The rows, that of the Cortex-M4 first.
fn rows() -> Result<Vec<Row>, Failure> {
    let text = text_of(PAGE)?;
    let lines = text.lines().map(|line| line.split('|').collect::<Vec<_>>());
    let cells = lines.filter(|cells| cells.len() == 6 && cells[2].contains("-none-"));
    let quoted = |cell: &str| cell.split('`').nth(1).unwrap_or_default().to_owned();
    let flags = |cell: &str| Some(cell.split("RUSTFLAGS=\"").nth(1)?.split('"').next()?.to_owned());
    let row = |cells: Vec<&str>| Row {
        core: cells[1].trim().to_owned(),
        target: quoted(cells[2]),
        features: quoted(cells[3]),
        flags: flags(cells[2]),
    };
    let mut rows: Vec<Row> = cells.map(row).collect();
    rows.sort_by_key(|row| row.target != MPS2_AN386.target);
    match rows.first() {
        Some(first) if first.target == MPS2_AN386.target && rows.len() >= 6 => Ok(rows),
        _ => Err(format!("{PAGE} has lost its table of cores")),
    }
}

impl Row {
    fn what(&self) -> String {
        format!("clippy of the library for C: {}", self.core)
    }

    /// Runs clippy, on the Cortex-M4 with updates too.
    fn check(&self) -> Result<(), Failure> {
        let mut features = self.features.clone();
        if self.target == MPS2_AN386.target {
            features += ",update";
        }
        let mut clippy =
            cargo(".", &["clippy", "--package", "tidegate-c", "--release", "--locked", "--target", &self.target]);
        clippy.args(["--features", &features, "--", "-D", "warnings"]);
        if let Some(flags) = &self.flags {
            clippy.env("RUSTFLAGS", flags);
        }
        run_command(&self.what(), clippy)
    }
}

/// Checks the library for every core.
pub fn check_all() -> Result<(), Failure> {
    rows()?.iter().try_for_each(Row::check)
}

/// Checks the library for the Cortex-M4 and another core, each day for another one.
pub fn check() -> Result<(), Failure> {
    let rows = rows()?;
    let (m4, others) = rows.split_first().ok_or("there is no core")?;
    let what: Vec<String> = others.iter().map(Row::what).collect();
    let today = share::one_of_today(&what, "cargo xtask check")?;
    m4.check()?;
    others[today].check()
}

fn sources(command: &mut Command, assets: &Path, more: &[&str]) {
    command.args(["-Os", "-g", "-ffunction-sections", "-fdata-sections"]).arg(include(assets));
    command.arg(format!("-Wa,-I{}", assets.display()));
    command.args(SOURCES.iter().chain(more).map(|name| format!("firmware-examples/c/{name}")));
}

/// Builds both examples for the machine.
pub fn build() -> Result<(), Failure> {
    install::arm_gcc()?;
    let assets = assets()?;
    for example in &ALL {
        let image = assets.join("kws_f32.tgi");
        let library = library("firmware", Some(MPS2_AN386.target), example.built_in.then_some(&image))?;
        let mut gcc = compiler("arm-none-eabi-gcc", "-std=c99");
        gcc.args(MACHINE);
        sources(&mut gcc, &assets, if example.built_in { &["mps2.c"] } else { &["mps2.c", "image.S"] });
        if example.built_in {
            gcc.arg("-DKWS_BUILT_IN");
        }
        gcc.args(["-nostartfiles", "-T", "firmware-examples/c/mps2.ld", "-Wl,--gc-sections,-z,noexecstack"]);
        gcc.arg(library).arg("-o").arg(example.elf()?);
        run_command(&format!("{} is linked", example.name), gcc)?;
    }
    Ok(())
}

impl Example {
    /// The program that [`build`] has linked.
    pub fn elf(&self) -> Result<PathBuf, Failure> {
        made(&format!("{}.elf", self.name))
    }

    /// Runs it under QEMU.
    pub fn run(&self) -> Result<Output, Failure> {
        let printed = shell::output_within(MPS2_AN386.qemu(&self.elf()?), firmware::TIME_LIMIT)?;
        Output::of(self.name, &printed)
    }
}
