//! The program of core/README.md, from an empty crate to its first inference in QEMU, as a reader of that page makes it.

use std::path::Path;
use std::time::Duration;
use std::{env, fs, process};

use crate::shell::{self, about, output_within, root, step, write};
use crate::{Failure, firmware, install};

const PAGE: &str = "core/README.md";
/// Most lines of Rust that the page asks for.
const MOST_LINES: usize = 25;
/// Everything is compiled anew, beside other work.
const LIMIT: Duration = Duration::from_secs(600);

/// Runs the commands and the program of the page, with a shipped model and the crate of this repository.
pub fn first_inference() -> Result<(), Failure> {
    install::targets()?;
    install::qemu()?;
    step("an empty crate and the program of core/README.md", || {
        // `cargo new` in this repository would make the crate a member of its workspace.
        let folder = env::temp_dir().join(format!("tidegate-readme-{}", process::id()));
        fs::create_dir_all(&folder).map_err(about(&folder))?;
        let ran = run(&folder);
        fs::remove_dir_all(&folder).map_err(about(&folder))?;
        ran
    })
}

fn run(folder: &Path) -> Result<(), Failure> {
    let page = shell::read(&root().join(PAGE))?;
    let (_, page) = page.split_once("## On a microcontroller").ok_or("core/README.md has no such section")?;
    let assets = root().join("assets");
    let here = |line: &str| {
        line.replace("model.onnx", &assets.join("hello_edge/GRU_S.pb").display().to_string())
            .replace("clips.csv", &assets.join("speech_commands/index.csv").display().to_string())
            .replace("--git https://github.com/tidegate/tidegate", &format!("--path {}", root().join("core").display()))
    };
    // The tool and the targets are installed already.
    let lines =
        block(page, "sh")?.lines().filter(|line| !line.starts_with("cargo install") && !line.starts_with("rustup"));
    let script = lines.map(here).collect::<Vec<_>>().join("\n");
    let tools = firmware::workspace_target_dir().join("release");
    let path = env::var_os("PATH").unwrap_or_default();
    let paths =
        env::join_paths([tools].into_iter().chain(env::split_paths(&path))).map_err(|error| error.to_string())?;
    let mut shell = super::program("sh", folder, &["-e", "-c", &script]);
    shell.env("PATH", paths);
    output_within(shell, LIMIT)?;

    let program = block(page, "rust,ignore")?;
    let lines = program.lines().filter(|line| !line.trim().is_empty()).count();
    if lines > MOST_LINES {
        return Err(format!("the program of {PAGE} has {lines} lines, more than {MOST_LINES}"));
    }
    let firmware = folder.join("firmware");
    fs::create_dir_all(firmware.join(".cargo")).map_err(about(&firmware))?;
    write(&firmware.join("src/main.rs"), program)?;
    write(&firmware.join("memory.x"), block(page, "text")?)?;
    write(&firmware.join(".cargo/config.toml"), block(page, "toml")?)?;
    let printed = output_within(super::program("cargo", &firmware, &["run", "--release"]), LIMIT)?;
    // The posteriors of twelve labels, at steps 25, 31 and so on up to 97.
    let lists: Vec<Vec<f32>> = printed.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let is_decision = |list: &Vec<f32>| list.len() == 12 && (list.iter().sum::<f32>() - 1.0).abs() < 0.01;
    if lists.len() == 13 && lists.iter().all(is_decision) {
        return Ok(());
    }
    Err(format!("the program of {PAGE} should print 13 lists of posteriors; it printed:\n{printed}"))
}

/// The first block of code in a language.
fn block<'p>(page: &'p str, language: &str) -> Result<&'p str, Failure> {
    let missing = || format!("{PAGE} has no block of {language}");
    let (_, rest) = page.split_once(&format!("```{language}\n")).ok_or_else(missing)?;
    rest.split_once("```").map(|(block, _)| block).ok_or_else(missing)
}
