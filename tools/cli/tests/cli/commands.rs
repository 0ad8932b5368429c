//! Commands of the documentation that no test runs, such as those in sentences: their subcommands and options exist.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Workplace, help, shipped};

/// Commands of cargo other than tasks, and why no test runs them as they stand. `…` stands for any rest.
const OTHERS: [(&str, &str); 11] = [
    ("cargo bench -p tidegate-fused-bench -- load", "a measurement; CI compiles it every third day"),
    ("cargo build --release -p tidegate-gpu --features cudnn", "`cargo xtask check` lints it with this feature"),
    (
        "cargo doc -p tidegate-fused --open",
        "opens a browser; `cargo xtask check` makes the documentation every third day",
    ),
    ("cargo install --path tools/cli", "compiles for minutes; `cargo xtask package` compiles the package"),
    ("cargo run", "in a project; `cargo xtask new` runs it"),
    ("cargo run --release", "in a project; `cargo xtask new --every` runs it"),
    ("cargo run --release -p tidegate-fused --example lesson", "a measurement; CI compiles it"),
    ("cargo run -p tidegate --example many_to_one", "tests/examples.rs runs every example"),
    ("cargo test", "in a project; `cargo xtask new` runs it"),
    ("cargo test --release -p tidegate-gpu --features cudnn --lib", "needs a GPU"),
    ("cargo test --release -p tidegate-tests …", "`cargo xtask test` runs these tests"),
];

fn root() -> PathBuf {
    PathBuf::from(shipped(".."))
}

fn find(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            find(&path, found);
        } else if path.extension().is_some_and(|of| of == "md") {
            found.push(path);
        }
    }
}

/// The commands of a page that no test runs: texts in backticks, indented lines, and lines of `tidegate` in blocks of
/// `text` and `bash`.
fn commands(page: &str) -> Vec<String> {
    // The language of the block.
    let mut block = None;
    let (mut prose, mut found) = (String::new(), Vec::new());
    for line in page.lines() {
        let command = || line.split('#').next().unwrap().trim().to_owned();
        if let Some(language) = line.trim_start().strip_prefix("```") {
            block = if block.is_none() { Some(language) } else { None };
        } else if let Some(language) = block {
            if ["text", "bash"].contains(&language) && line.starts_with("tidegate ") {
                found.push(command());
            }
        } else if line.starts_with("    ") {
            found.push(command());
        } else {
            prose.extend([line, " "]);
        }
    }
    found.extend(prose.split('`').skip(1).step_by(2).map(str::to_owned));
    for command in &mut found {
        *command = command.split_whitespace().collect::<Vec<_>>().join(" ");
        // A variable before the command.
        if let Some((variable, rest)) = command.split_once(' ')
            && variable.starts_with("TIDEGATE_")
        {
            *command = rest.to_owned();
        }
    }
    found.retain(|command| command.starts_with("tidegate ") || command.starts_with("cargo "));
    found
}

/// The tasks of `cargo xtask`, and the text that declares them.
fn tasks() -> (Vec<String>, String) {
    let source = fs::read_to_string(root().join("tools/xtask/src/main.rs")).unwrap();
    let (_, list) = source.split_once("enum Task {").unwrap();
    let (list, _) = list.split_once("\n}").unwrap();
    let name = |line: &str| {
        let line = line.strip_prefix("    ").filter(|line| line.starts_with(|c: char| c.is_ascii_uppercase()))?;
        line.split(['(', ' ', ',']).next().map(str::to_lowercase)
    };
    (list.lines().filter_map(name).collect(), source.clone())
}

#[test]
fn commands_in_sentences_exist() {
    let here = Workplace::new();
    let known = help::commands(&here);
    let (tasks, source) = tasks();
    assert!(tasks.contains(&"book".to_owned()) && tasks.len() > 15, "{tasks:?}");
    let mut pages = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "core/README.md", "tools/cli/README.md"]
        .map(|name| root().join(name))
        .to_vec();
    find(&root().join("docs"), &mut pages);
    let (mut wrong, mut used, mut count) = (Vec::new(), vec![false; OTHERS.len()], 0);
    for page in pages {
        for command in commands(&fs::read_to_string(&page).unwrap()) {
            count += 1;
            let words: Vec<&str> = command.split_whitespace().collect();
            let options = words.iter().filter_map(|word| word.strip_prefix("--").filter(|name| !name.is_empty()));
            let mut options = options.map(|name| name.split('=').next().unwrap());
            let is_there = match words.as_slice() {
                ["tidegate", option] if option.starts_with("--") => ["--help", "--version"].contains(option),
                ["tidegate", name, ..] => {
                    known.iter().any(|known| known == name) && {
                        let help = here.succeed(&[name, "--help"]);
                        options.all(|option| help.contains(&format!("--{option}")))
                    }
                }
                ["cargo", "xtask", "--help"] => true,
                ["cargo", "xtask", name, ..] => {
                    let declared = |option: &str| source.contains(&format!("{}: ", option.replace('-', "_")));
                    tasks.iter().any(|task| task == name) && options.all(declared)
                }
                _ => {
                    let is_row = |other: &str| match other.strip_suffix('…') {
                        Some(start) => command.starts_with(start),
                        None => command == other,
                    };
                    let row = OTHERS.iter().position(|(other, _)| is_row(other));
                    row.inspect(|&row| used[row] = true).is_some()
                }
            };
            if !is_there {
                wrong.push(format!("{}: `{command}`", page.display()));
            }
        }
    }
    assert!(count > 80, "only {count} commands were found");
    assert!(wrong.is_empty(), "these commands do not exist, or lack a row in OTHERS:\n{}", wrong.join("\n"));
    let unused: Vec<&str> = OTHERS.iter().zip(used).filter(|(_, used)| !used).map(|((other, _), _)| *other).collect();
    assert!(unused.is_empty(), "no page has these: {unused:?}");
}

#[test]
fn commands_are_found_in_backticks_and_indented_lines() {
    let page = "Run `tidegate eval\n  --stream`, not `eval`.\n\n    TIDEGATE_SEED=7 cargo test   # seeded\n\n\
                ```sh\ntidegate x\n```\n```text\ntidegate y   # why\ntidegate: an error\n```\n";
    assert_eq!(commands(page), ["cargo test", "tidegate y", "tidegate eval --stream"]);
}
