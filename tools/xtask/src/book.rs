//! The book: `tools/book` builds it from `docs` with mdBook, and checks its links.

use std::process::Command;

use crate::Failure;
use crate::firmware::workspace_target_dir;
use crate::shell::{cargo, root, run as run_command};

const FOLDER: &str = "tools/book";

/// Tests the builder, and builds the book into `target/book`.
///
/// mdBook is compiled once, in a build folder of its own.
pub fn run() -> Result<(), Failure> {
    run_command("tests of the builder of the book", cargo_for_book(&["test", "--locked"]))?;
    let mut build = cargo_for_book(&["run", "--locked", "--"]);
    build.arg(root()).arg(workspace_target_dir().join("book"));
    run_command("the book has neither a warning nor a dead link", build)
}

fn cargo_for_book(arguments: &[&str]) -> Command {
    let mut command = cargo(FOLDER, arguments);
    command.env("CARGO_TARGET_DIR", workspace_target_dir().join("mdbook"));
    command
}
