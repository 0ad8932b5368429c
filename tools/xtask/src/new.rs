//! The projects of `tidegate new`: those for QEMU are built and run by the commands that a user types, within the time that
//! the documentation states; those for boards are linked.

pub mod readme;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use object::{Object, ObjectSegment};
use serde_json::Value;

use crate::shell::{self, step};
use crate::{Failure, boards, firmware, install, share};

/// From a model to outputs in QEMU, with nothing compiled before.
const LIMIT: Duration = Duration::from_secs(180);
/// For a board with a HAL, beside other builds. No page states a time for it.
const LIMIT_OF_BOARD: Duration = Duration::from_secs(600);
const MODEL: &str = "tests/frameworks/keras3/keywords_conv1d.keras";
const QEMU: [&str; 4] = ["qemu-m4", "qemu-m0", "qemu-m55", "qemu-riscv"];
/// Boards, and images with a front end for them.
const BOARDS: [(&str, &str); 6] = [
    ("nrf52840", SOUND_M4),
    ("rp2040", "firmware-examples/microbit/kws.tgi"),
    ("rp2350", SOUND_M4),
    ("stm32f4", SOUND_M4),
    ("stm32h7", SOUND_M4),
    ("esp32c3", "core/examples/kws.tgi"),
];
const SOUND_M4: &str = "firmware-examples/board/kws.tgi";

/// The folder with the projects and their build folders.
fn folder() -> PathBuf {
    firmware::workspace_target_dir().join("new")
}

/// A project that `tidegate new` has written.
struct Project {
    folder: PathBuf,
    /// The flash that it should need.
    flash_bytes: u64,
}

impl Project {
    /// Fails if the program in `elf` has more flash than `tidegate new` told.
    fn fits(&self, elf: &Path) -> Result<(), Failure> {
        let bytes = fs::read(elf).map_err(shell::about(elf))?;
        let object = object::File::parse(bytes.as_slice()).map_err(shell::about(elf))?;
        let bytes: u64 = object.segments().map(|segment| segment.file_range().1).sum();
        let told = self.flash_bytes;
        if (1..=told).contains(&bytes) {
            return Ok(());
        }
        Err(shell::about(elf)(format!("has {bytes} bytes of flash, but tidegate new says {told}")))
    }
}

/// Writes a project named `kws` into an empty folder.
fn write(at: &str, model: &str, board: &str, options: &[&str]) -> Result<Project, Failure> {
    let at = folder().join(at);
    let _ = fs::remove_dir_all(&at);
    fs::create_dir_all(&at).map_err(shell::about(&at))?;
    let mut new = Command::new(firmware::workspace_target_dir().join("release/tidegate"));
    new.current_dir(&at)
        .args(["new", "kws", "--json", "--for", board])
        .args(options)
        .arg("--model")
        .arg(shell::root().join(model));
    let told: Value = serde_json::from_str(&shell::output_within(new, LIMIT)?).map_err(shell::about(&at))?;
    Ok(Project { folder: at.join("kws"), flash_bytes: told["flash_bytes"].as_u64().unwrap_or_default() })
}

/// A program in the folder of a project, without the settings of this process's cargo.
fn program(name: &str, project: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(name);
    for variable in ["RUSTFLAGS", "CARGO_TARGET_DIR", "CARGO_ENCODED_RUSTFLAGS", "RUSTC", "CARGO"] {
        command.env_remove(variable);
    }
    command.current_dir(project).args(arguments);
    command
}

/// Runs a command of the project that must succeed within [`LIMIT`] and without a warning, and returns all that it prints.
fn quietly(command: Command) -> Result<String, Failure> {
    quietly_within(command, LIMIT)
}

fn quietly_within(mut command: Command, limit: Duration) -> Result<String, Failure> {
    let shown = shell::shown(&command);
    shell::say(&format!("    {shown}"));
    let path = folder().join("output");
    let file = File::create(&path).map_err(shell::about(&path))?;
    let errors = file.try_clone().map_err(shell::about(&path))?;
    let child = command.stdin(Stdio::null()).stdout(file).stderr(errors).spawn();
    let mut child = child.map_err(|error| format!("cannot start `{shown}`: {error}"))?;
    let status = shell::end_within(&mut child, &shown, limit)?;
    let printed = shell::read(&path)?;
    if !status.success() || printed.contains("warning") {
        return Err(format!("`{shown}` failed or warned, {status}:\n{printed}"));
    }
    Ok(printed)
}

/// The lines with outputs of the network. Those of a program in C differ in spaces.
fn outputs(printed: &str) -> Result<Vec<String>, Failure> {
    let lines = printed.lines().filter(|line| line.contains(" ms "));
    let lines: Vec<String> = lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    if lines.is_empty() { Err(format!("the project printed no output:\n{printed}")) } else { Ok(lines) }
}

/// The three commands from a model to its outputs in QEMU, within [`LIMIT`]. Returns the outputs.
fn three_commands(board: &str, model: &str, options: &[&str], run: &[&str]) -> Result<Vec<String>, Failure> {
    commands(board, model, options, run).map(|(_, outputs)| outputs)
}

/// [`three_commands`], and the project.
fn commands(board: &str, model: &str, options: &[&str], run: &[&str]) -> Result<(Project, Vec<String>), Failure> {
    let kind = if model == MODEL { "" } else { "_sound" };
    let what = [&[board, kind], options].concat().concat();
    step(&format!("three commands for {what}"), || {
        let start = Instant::now();
        let project = write(&what, model, board, options)?;
        let [name, arguments @ ..] = run else { return Err("no command".to_owned()) };
        let printed = quietly(program(name, &project.folder, arguments))?;
        let taken = start.elapsed();
        if taken > LIMIT {
            return Err(format!("they took {:.0} s, more than {} s", taken.as_secs_f64(), LIMIT.as_secs()));
        }
        Ok((project, outputs(&printed)?))
    })
}

const C: [&str; 4] = ["cmake", "--workflow", "--preset", "run"];

/// The commands of a user for the first board, in Rust and in C, and the test of the same bits.
pub fn first() -> Result<(), Failure> {
    qemu(&QEMU[..1])
}

/// The commands of a user for the first board and a model with a front end.
pub fn first_with_sound() -> Result<(), Failure> {
    install::targets()?;
    hears(&three_commands(QEMU[0], SOUND_M4, &[], &["cargo", "run"])?)
}

/// Fails unless the project heard the word of its recording.
fn hears(outputs: &[String]) -> Result<(), Failure> {
    let heard: Vec<&str> =
        outputs.iter().filter_map(|line| line.split(' ').next_back()).filter(|word| *word == "yes").collect();
    if heard.len() == 1 { Ok(()) } else { Err(format!("it should hear \"yes\" once: {outputs:?}")) }
}

/// Every board of QEMU, their programs with tasks, and a model with a front end in Rust and in C.
pub fn every() -> Result<(), Failure> {
    qemu(&QEMU)?;
    readme::first_inference()?;
    for board in QEMU {
        three_commands(board, MODEL, &["--async"], &["cargo", "run"])?;
        if board == QEMU[0] {
            let sound = three_commands(board, SOUND_M4, &[], &["cargo", "run"])?;
            hears(&sound)?;
            let in_c = three_commands(board, SOUND_M4, &["--c"], &C)?;
            if sound != in_c {
                return Err(format!("over sound {board} prints {sound:?} and, in C, {in_c:?}"));
            }
        }
    }
    Ok(())
}

fn qemu(boards: &[&str]) -> Result<(), Failure> {
    install::targets()?;
    install::qemu()?;
    install::arm_gcc()?;
    install::cmake()?;
    let mut first = None;
    for board in boards {
        let (project, rust) = commands(board, MODEL, &[], &["cargo", "run"])?;
        project.fits(&in_rust(&project.folder)?)?;
        let printed = quietly(program("cargo", &project.folder, &["test"]))?;
        if !printed.contains("values of host and device have the same bits") {
            return Err(format!("the test of {board} compared nothing:\n{printed}"));
        }
        let (project, c) = commands(board, MODEL, &["--c"], &C)?;
        project.fits(&project.folder.join("build/kws.elf"))?;
        refuses_another_header(&project)?;
        let first = first.get_or_insert_with(|| rust.clone());
        if rust != *first || c != *first {
            return Err(format!("{board} prints {rust:?} and, in C, {c:?}; the first board {first:?}"));
        }
    }
    Ok(())
}

/// The program that `cargo run` has built.
fn in_rust(project: &Path) -> Result<PathBuf, Failure> {
    let target = project.join("target");
    let entries = fs::read_dir(&target).map_err(shell::about(&target))?;
    let built = entries.flatten().map(|entry| entry.path().join("debug/kws")).find(|elf| elf.is_file());
    built.ok_or_else(|| shell::about(&target)("has no program"))
}

/// A new image with the header of the old one is refused, with the command that writes the header.
fn refuses_another_header(project: &Project) -> Result<(), Failure> {
    let model = project.folder.join("model.tgi");
    fs::copy(shell::root().join(SOUND_M4), &model).map_err(shell::about(&model))?;
    let build = program("cmake", &project.folder, &["--build", "build"]).output().map_err(shell::about(&model))?;
    // CMake breaks lines.
    let told = String::from_utf8_lossy(&build.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
    match !build.status.success() && told.contains("tidegate inspect model.tgi --c-header model.h") {
        true => Ok(()),
        false => Err(shell::about(&model)(format!("has another header, but CMake says {told}"))),
    }
}

/// Type-checks the project of one board with a front end, because all [`boards()`] take ten minutes. The caller runs this
/// once in `days` days, and each time it takes another board.
pub fn one_board(days: usize) -> Result<(), Failure> {
    install::targets()?;
    install::esp()?;
    let (board, sound) = BOARDS[share::of_today(days * BOARDS.len())? / days];
    step(&format!("{board}, sound"), || {
        let project = write("board", sound, board, &[])?;
        let mut check = program("cargo", &project.folder, &["check"]);
        check.env("CARGO_TARGET_DIR", folder().join("target"));
        quietly_within(check, LIMIT_OF_BOARD).map(drop)
    })
}

/// Links the project of every other board, with a front end and without.
pub fn boards() -> Result<(), Failure> {
    install::targets()?;
    install::esp()?;
    for (board, sound) in BOARDS {
        for (kind, model) in [("features", MODEL), ("sound", sound)] {
            step(&format!("{board}, {kind}"), || {
                let project = write("board", model, board, &[])?;
                let mut build = program("cargo", &project.folder, &["build", "--release"]);
                build.env("CARGO_TARGET_DIR", folder().join("target"));
                quietly_within(build, LIMIT_OF_BOARD).map(drop)
            })?;
        }
    }
    boards::pico()
}
