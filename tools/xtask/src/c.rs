//! The library for C: its header in both languages, what it does with a host's calls, good and bad, and the example in
//! C, which hears what `kws_stream_f32` hears and must print the same posteriors.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::firmware::{self, MPS2_AN386, Output};
use crate::shell::{self, cargo, run as run_command, step};
use crate::{Failure, install, size};

/// A build of the example on the machine.
#[derive(Debug)]
pub struct Example {
    pub name: &'static str,
    /// The image is in the library, with the code of its cells; else it is parsed, and every cell is there.
    built_in: bool,
}

/// Both ways to link the library.
pub const ALL: [Example; 2] =
    [Example { name: "kws_c", built_in: false }, Example { name: "kws_c_built_in", built_in: true }];

/// What it is in Rust.
const RUST: &str = "kws_stream_f32";

const WARNINGS: [&str; 5] = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror"];
const MACHINE: [&str; 4] = ["-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"];
/// What Rust's library needs of a host that is Linux.
const LIBRARIES: [&str; 3] = ["-lm", "-lpthread", "-ldl"];
const SOURCES: [&str; 3] = ["kws.c", "console.c", "recording.c"];

/// What this page builds.
fn made(name: &str) -> Result<PathBuf, Failure> {
    let folder = firmware::workspace_target_dir().join("c");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(folder.join(name))
}

fn include(folder: &Path) -> String {
    format!("-I{}", folder.display())
}

/// The header, and the compiler's flags for it.
fn compiler(name: &str) -> Command {
    let mut command = Command::new(name);
    command.current_dir(shell::root()).args(WARNINGS).arg(include(Path::new("core/capi/include")));
    command
}

/// What the firmware's build script has made: the image, its header, the recording.
fn assets() -> Result<PathBuf, Failure> {
    // Of the library alone: programs without these kernels would take the place of those that are measured.
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

/// Builds the library; returns where it is.
fn library(profile: &str, target: Option<&str>, image: Option<&Path>) -> Result<PathBuf, Failure> {
    let mut build = cargo(".", &["build", "--package", "tidegate-c", "--locked", "--profile", profile]);
    let mut folder = firmware::workspace_target_dir();
    if let Some(target) = target {
        build.args(["--target", target, "--features", if image.is_some() { "dsp,image" } else { "dsp" }]);
        folder.push(target);
    }
    if let Some(image) = image {
        build.env("TIDEGATE_IMAGE", image);
    }
    run_command("the library for C", build)?;
    Ok(folder.join(profile).join("libtidegate_c.a"))
}

/// What the example must print: what [`RUST`] printed, without its LED.
fn expected() -> Result<String, Failure> {
    let path = firmware::expected_dir().join(format!("{RUST}.run"));
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let lines = text.lines().filter(|line| !line.starts_with("led "));
    Ok(lines.map(|line| format!("{}\n", line.split_once(", ").map_or(line, |(event, _)| event))).collect())
}

/// Fails with the first line that differs.
fn compare(printed: &str) -> Result<(), Failure> {
    let expected = expected()?;
    let pairs = expected.lines().zip(printed.lines().chain(std::iter::repeat("(nothing)")));
    if let Some((wanted, found)) = pairs.into_iter().find(|(wanted, found)| wanted != found) {
        return Err(format!("the example in C printed\n  {found}\nwhere {RUST} printed\n  {wanted}"));
    }
    let (wanted, found) = (expected.lines().count(), printed.lines().count());
    if wanted != found {
        return Err(format!("the example in C printed {found} lines, {RUST} {wanted}"));
    }
    let posteriors = expected.lines().filter(|line| line.starts_with("clip ") || line.starts_with("at ")).count();
    eprintln!("    {posteriors} lines of posteriors as {RUST} prints them, to the bit");
    Ok(())
}

/// The header compiles as C and as C++, the library takes every misuse, and the example on the host prints what it should.
pub fn host() -> Result<(), Failure> {
    let assets = assets()?;
    let library = library("release", None, None)?;
    let api = made("api")?;
    let mut cc = compiler("cc");
    cc.args(["-g", "core/capi/tests/api.c"]).arg(&library).args(LIBRARIES).arg("-o").arg(&api);
    run_command("core/capi/tests/api.c compiles", cc)?;
    let mut test = Command::new(&api);
    test.args(["kws_f32.tgi", "api_i8x16.tgi", "hello.tgi", "api_ports.tgi"].map(|name| assets.join(name)));
    run_command("calls from C, good and bad", test)?;

    match install::answers("c++", &["--version"]) {
        true => in_c_plus_plus(&library)?,
        false => eprintln!("SKIP the header in C++: there is no c++"),
    }
    page(&library, &assets)?;
    let example = made("kws_host")?;
    let mut cc = compiler("cc");
    sources(&mut cc, &assets, &["host.c", "image.S"]);
    cc.arg(&library).args(LIBRARIES).arg("-o").arg(&example);
    run_command("the example compiles for the host", cc)?;
    compare(&shell::output_within(Command::new(&example), firmware::TIME_LIMIT)?)
}

const PAGE: &str = "docs/c.md";

fn page_text() -> Result<String, Failure> {
    fs::read_to_string(shell::root().join(PAGE)).map_err(|error| format!("{PAGE}: {error}"))
}

/// Every row of the page's table of cores: the library is checked for that target with those features.
pub fn check() -> Result<(), Failure> {
    let text = page_text()?;
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split('|').collect()).collect();
    let rows: Vec<&Vec<&str>> = rows.iter().filter(|row| row.len() == 6 && row[2].contains("-none-")).collect();
    if rows.len() < 6 {
        return Err(format!("{PAGE} has lost its table of cores"));
    }
    for row in rows {
        let quoted = |cell: &str| cell.split('`').nth(1).unwrap_or_default().to_owned();
        let (target, features) = (quoted(row[2]), quoted(row[3]));
        let mut clippy =
            cargo(".", &["clippy", "--package", "tidegate-c", "--release", "--locked", "--target", &target]);
        clippy.args(["--features", &features, "--", "-D", "warnings"]);
        if let Some(flags) = row[2].split("RUSTFLAGS=\"").nth(1).and_then(|rest| rest.split('"').next()) {
            clippy.env("RUSTFLAGS", flags);
        }
        run_command(&format!("the library for C: {}", row[1].trim()), clippy)?;
    }
    Ok(())
}

/// The program on docs/c.md compiles and runs, with the image as an array.
fn page(library: &Path, assets: &Path) -> Result<(), Failure> {
    let text = page_text()?;
    let blocks = text.split("```c\n").skip(1).filter_map(|rest| rest.split("```").next());
    let (program, source) = (made("page")?, made("page.c")?);
    fs::write(&source, blocks.collect::<String>()).map_err(|error| format!("{}: {error}", source.display()))?;
    let mut cc = compiler("cc");
    cc.arg(include(assets)).arg(&source).arg(assets.join("kws.c")).arg(library);
    run_command(&format!("the program on {PAGE} compiles"), {
        cc.args(LIBRARIES).arg("-o").arg(&program);
        cc
    })?;
    run_command(&format!("the program on {PAGE} runs"), Command::new(&program))
}

/// The header is C++ too.
fn in_c_plus_plus(library: &Path) -> Result<(), Failure> {
    let plus = made("header.cc")?;
    let text = "#include \"tidegate.h\"\nint main() { return tidegate_version() == TIDEGATE_VERSION ? 0 : 1; }\n";
    fs::write(&plus, text).map_err(|error| format!("{}: {error}", plus.display()))?;
    let mut compile = Command::new("c++");
    compile.current_dir(shell::root()).args(["-std=c++11", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]);
    compile.arg(include(Path::new("core/capi/include"))).arg(&plus).arg(library);
    compile.args(LIBRARIES).arg("-o").arg(made("header")?);
    run_command("the header is C++ too", compile)?;
    run_command("C++ calls the library", Command::new(made("header")?))
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
        let mut gcc = compiler("arm-none-eabi-gcc");
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
    /// The program as `build` leaves it.
    pub fn elf(&self) -> Result<PathBuf, Failure> {
        made(&format!("{}.elf", self.name))
    }

    /// Under QEMU it prints what [`RUST`] printed.
    pub fn compare(&self) -> Result<(), Failure> {
        compare(&self.run()?.text)
    }

    fn run(&self) -> Result<Output, Failure> {
        let printed = shell::output_within(MPS2_AN386.qemu(&self.elf()?), firmware::TIME_LIMIT)?;
        Output::of(self.name, &printed)
    }

    /// Its flash, RAM and stack.
    pub fn measure(&self) -> Result<size::Size, Failure> {
        size::of(&MPS2_AN386, self.name, &self.elf()?, &self.run()?)
    }
}

/// Everything, one after the other.
pub fn run() -> Result<(), Failure> {
    install::targets()?;
    install::qemu()?;
    check()?;
    step("the library for C on the host", host)?;
    build()?;
    for example in &ALL {
        step(&format!("{} on {}", example.name, MPS2_AN386.name), || example.compare())?;
    }
    Ok(())
}
