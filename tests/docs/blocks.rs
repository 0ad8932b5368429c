//! The code blocks on the pages of the book: for each page and language, the test that runs them, or the reason why no
//! test does. Commands in sentences are in `tools/cli/tests/cli/commands.rs`.

use std::collections::BTreeSet;
use std::fs;

use super::repository;

/// The check of the blocks of a page in one language.
enum Checked {
    /// A file of tests, and a part of it that names the page or its blocks.
    By(&'static str, &'static str),
    /// No test runs them, for this reason.
    Shown(&'static str),
}
use Checked::{By, Shown};

const COMMANDS: &str = "tools/cli/tests/cli/docs.rs";
const NEW: &str = "tools/xtask/src/new.rs";
const C: &str = "tools/xtask/src/c.rs";
const FIRST: &str = "tools/xtask/src/new/readme.rs";
const INSTALLS: &str = "it installs a package that has no release yet";
const NO_PYTHON: &str = "CI has no such framework; the file that it saves is among the test data";
const FRAGMENT: &str = "a fragment; core/README.md has the whole program";

/// Page, language, check. Blocks of `text` are no code, and `equations_of_pages_are_those_of_the_code` reads `math`.
const BLOCKS: [(&str, &str, Checked); 68] = [
    ("README.md", "bash", By("tools/xtask/src/test.rs", "the demo of README")),
    ("README.md", "rust,ignore", Shown(FRAGMENT)),
    ("README.md", "sh", By(COMMANDS, "README.md")),
    ("docs/architecture.md", "json", By(COMMANDS, "docs/architecture.md")),
    (
        "docs/c.md",
        "asm",
        Shown("firmware-examples/c/image.S, which `cargo xtask c` builds, has these lines with another image"),
    ),
    ("docs/c.md", "bash", Shown("`cargo xtask c` runs the same commands with its own folders")),
    ("docs/c.md", "c", By(C, "the program on {PAGE} runs")),
    ("docs/c.md", "sh", By(COMMANDS, "docs/c.md")),
    ("docs/denoise.md", "sh", By(COMMANDS, "docs/denoise.md")),
    ("docs/hosts.md", "bash", By("cpu-fused/server/tests/clients.rs", "server")),
    ("docs/hosts.md", "rust", By("tests/support/lib.rs", "../../docs/hosts.md")),
    ("docs/hosts.md", "rust,no_run", By("tests/support/lib.rs", "../../docs/hosts.md")),
    (
        "docs/integers.md",
        "rust,ignore",
        Shown("a fragment; firmware-examples/src/bin/kws_stream.rs is the whole program"),
    ),
    ("docs/integers.md", "sh", By(COMMANDS, "docs/integers.md")),
    ("docs/json.md", "json", By("tools/cli/tests/cli/json.rs", "../docs/json.md")),
    ("docs/keras.md", "json", By(COMMANDS, "docs/keras.md")),
    ("docs/keras.md", "python", Shown(NO_PYTHON)),
    ("docs/keras.md", "sh", By(COMMANDS, "docs/keras.md")),
    ("docs/new.md", "bash", By(NEW, "--workflow")),
    ("docs/new.md", "sh", By(COMMANDS, "docs/new.md")),
    ("docs/onnx.md", "sh", By(COMMANDS, "docs/onnx.md")),
    ("docs/python.md", "python", By("tools/python/tests/test_docs.py", "python.md")),
    ("docs/python.md", "sh", Shown("it installs into the Python of the machine")),
    ("docs/pytorch.md", "json", By(COMMANDS, "docs/pytorch.md")),
    ("docs/pytorch.md", "python", Shown(NO_PYTHON)),
    ("docs/pytorch.md", "sh", By(COMMANDS, "docs/pytorch.md")),
    ("docs/rnnoise.md", "sh", By(COMMANDS, "docs/rnnoise.md")),
    ("docs/rtneural.md", "sh", By(COMMANDS, "docs/rtneural.md")),
    ("docs/running.md", "rust,ignore", Shown(FRAGMENT)),
    ("docs/running.md", "sh", By(COMMANDS, "docs/running.md")),
    ("docs/start.md", "bash", Shown("installing compiles for minutes; `cargo xtask package` compiles the package")),
    ("docs/start.md", "sh", By(COMMANDS, "docs/start.md")),
    ("docs/start/c.md", "bash", By(NEW, "--workflow")),
    ("docs/start/c.md", "sh", By(COMMANDS, "docs/start/c.md")),
    ("docs/start/python.md", "bash", Shown("it installs into the Python of the machine")),
    ("docs/start/python.md", "python", Shown(NO_PYTHON)),
    ("docs/start/python.md", "sh", By(COMMANDS, "docs/start/python.md")),
    ("docs/start/rust.md", "bash", By(NEW, "\"run\"")),
    ("docs/start/rust.md", "sh", By(COMMANDS, "docs/start/rust.md")),
    ("docs/tensorflow1.md", "json", By(COMMANDS, "docs/tensorflow1.md")),
    ("docs/tensorflow1.md", "python", Shown(NO_PYTHON)),
    ("docs/tensorflow1.md", "sh", By(COMMANDS, "docs/tensorflow1.md")),
    (
        "docs/tf1_graph.md",
        "bash",
        Shown("marvin.pb is a model of others and not in the repository; tests/precise.rs imports it"),
    ),
    ("docs/tf1_graph.md", "python", Shown(NO_PYTHON)),
    ("docs/tf1_graph.md", "sh", By(COMMANDS, "docs/tf1_graph.md")),
    ("docs/tflite.md", "sh", By(COMMANDS, "docs/tflite.md")),
    ("docs/training.md", "bash", Shown("hours, or data that is not in the repository; gpu-host/tests run `train`")),
    ("docs/training.md", "json", By("gpu-host/tests/recipes.rs", "docs/training.md")),
    (
        "docs/update.md",
        "bash",
        Shown(
            "needs a device; tools/cli/tests/cli/flash.rs runs the same command with one, and c.rs builds the library",
        ),
    ),
    ("docs/update.md", "c", By(C, "the program on {UPDATE_PAGE} takes updates")),
    ("docs/update.md", "rust,ignore", Shown("a fragment; the example of `Model::parse_in` is the whole program")),
    ("docs/update.md", "sh", By(COMMANDS, "docs/update.md")),
    ("docs/web.md", "bash", Shown("`cargo xtask web` builds and tests the page; the second command starts a server")),
    ("docs/web.md", "js", Shown("tools/web/test calls the same functions, in Node and in Chromium")),
    ("core/README.md", "rust", By("core/src/lib.rs", "include_str!(\"../README.md\")")),
    ("core/README.md", "rust,ignore", By(FIRST, "\"core/README.md\"")),
    ("core/README.md", "sh", By(FIRST, "\"core/README.md\"")),
    ("core/README.md", "toml", By(FIRST, "\"core/README.md\"")),
    ("core/update/README.md", "rust", By("core/update/src/lib.rs", "include_str!(\"../README.md\")")),
    ("core/update/README.md", "toml", Shown("firmware-examples/Cargo.toml has the same settings")),
    ("cpu-fused/README.md", "rust", By("cpu-fused/src/lib.rs", "include_str!(\"../README.md\")")),
    ("cpu-fused/README.md", "sh", Shown(INSTALLS)),
    ("gpu-host/README.md", "rust", By("gpu-host/src/lib.rs", "include_str!(\"../README.md\")")),
    ("gpu-host/README.md", "sh", By("gpu-host/tests/training.rs", "the_readme_trains_a_model")),
    ("tools/cli/README.md", "sh", Shown(INSTALLS)),
    ("tools/model/README.md", "rust", By("tools/model/src/lib.rs", "include_str!(\"../README.md\")")),
    ("tools/model/README.md", "sh", Shown(INSTALLS)),
    ("tools/python/README.md", "python", Shown("a fragment; docs/python.md has the whole program")),
];

/// The READMEs of packages.
const CRATES: [&str; 7] = [
    "core/README.md",
    "core/update/README.md",
    "cpu-fused/README.md",
    "gpu-host/README.md",
    "tools/cli/README.md",
    "tools/model/README.md",
    "tools/python/README.md",
];

/// The pages of the book, and the README.
pub fn pages() -> Vec<String> {
    let mut files = Vec::new();
    super::pages::files(&repository().join("docs"), "md", &mut files);
    let name = |path: &std::path::PathBuf| {
        path.strip_prefix(repository()).expect("the page is of the repository").display().to_string()
    };
    let mut pages: Vec<String> = files.iter().map(name).collect();
    pages.extend(["README.md".to_owned()]);
    pages.sort();
    pages
}

/// The languages of a page's blocks, with an empty one for a block without a language.
fn languages(text: &str) -> BTreeSet<&str> {
    let fences = text.lines().filter_map(|line| line.trim_start().strip_prefix("```"));
    fences.step_by(2).collect()
}

#[test]
fn every_block_of_code_is_run_or_says_why_not() {
    let (mut wrong, mut used) = (Vec::new(), vec![false; BLOCKS.len()]);
    for page in pages().into_iter().chain(CRATES.map(str::to_owned)) {
        let text = fs::read_to_string(repository().join(&page)).unwrap_or_else(|error| panic!("{page}: {error}"));
        for language in languages(&text).into_iter().filter(|language| !["text", "math"].contains(language)) {
            match BLOCKS.iter().position(|(of, known, _)| *of == page && *known == language) {
                Some(row) => used[row] = true,
                None => wrong.push(format!("{page}: blocks of `{language}` have no row")),
            }
        }
    }
    for ((page, language, checked), used) in BLOCKS.iter().zip(used) {
        if !used {
            wrong.push(format!("{page} has no block of `{language}`"));
        }
        match checked {
            Shown(reason) => assert!(!reason.is_empty(), "{page}: {language}"),
            By(file, part) => {
                let test =
                    fs::read_to_string(repository().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
                if !test.contains(part) {
                    wrong.push(format!("{page}: {file} lacks {part:?}, so nothing runs the blocks of `{language}`"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn blocks_are_found_by_language() {
    assert_eq!(
        languages("```sh\n# a\n```\ntext\n```rust,ignore\n```\n  ```\n  ```\n"),
        ["", "rust,ignore", "sh"].into()
    );
}
