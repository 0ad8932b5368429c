//! Builds the book: the pages of `docs`, in the order of `docs/SUMMARY.md`, as a site of static files.
//!
//! The pages are plain Markdown, which a code host shows as well. Three things differ in the book:
//!
//! - A page with the line `<!-- book: FILE -->` has the content of that file of the repository instead ([`pages`]).
//! - Links to files that are not pages lead to the repository online ([`links`]).
//! - Blocks in the language `math` become MathML ([`math`]).
//!
//! `tidegate-book REPOSITORY FOLDER` writes the book into the folder. It fails on a warning of mdBook and on a link
//! without a target ([`site`]).

mod links;
mod math;
mod pages;
mod site;
mod warnings;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use mdbook_driver::MDBook;

/// Why the book could not be built: a sentence that names the page.
type Failure = String;

fn main() -> ExitCode {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [repository, folder] = arguments.as_slice() else {
        eprintln!("usage: tidegate-book REPOSITORY FOLDER");
        return ExitCode::from(2);
    };
    match build(repository, folder) {
        Ok(built) => {
            println!("{built}");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn build(repository: &Path, folder: &Path) -> Result<String, Failure> {
    let warnings = warnings::listen();
    let said = |error: mdbook_driver::errors::Error| format!("{error:#}");
    let mut book = MDBook::load(repository.join("tools/book")).map_err(said)?;
    book.config.build.build_dir =
        std::path::absolute(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    pages::prepare(repository, &mut book.book)?;
    book.build().map_err(said)?;
    let said = warnings.take();
    if !said.is_empty() {
        return Err(format!("mdBook warns:\n{}", said.join("\n")));
    }
    let site::Checked { pages, links } = site::check(folder)?;
    Ok(format!("{pages} pages, {links} links within the book, none dead: {}", folder.join("index.html").display()))
}
