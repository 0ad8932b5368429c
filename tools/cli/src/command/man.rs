//! `man`: manual pages.

use std::io::Write;
use std::path::PathBuf;

use clap_mangen::Man;
use serde_json::json;
use tidegate_model::output::{Pending, prepare};

use super::args::JsonArg;
use super::{Outcome, make_folder, shown};

/// Writes a manual page for tidegate and each of its commands
#[derive(clap::Args)]
#[command(after_help = "Example:
  tidegate man man1

`man -l man1/tidegate.1` shows a page. For `man tidegate`, write them to ~/.local/share/man/man1.")]
pub struct Args {
    /// Folder to write the pages to
    folder: PathBuf,
    #[command(flatten)]
    json: JsonArg,
}

pub fn run(args: &Args, command: clap::Command, out: &mut dyn Write) -> Outcome {
    let folder = &args.folder;
    make_folder(folder)?;
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let commands = std::iter::once(&command).chain(command.get_subcommands());
    let mut pages = Vec::new();
    for command in commands {
        let man = Man::new(command.clone());
        let path = folder.join(man.get_filename());
        pages.push((path.clone(), prepare(&path, |file| man.render(file))?));
    }
    let (paths, files): (Vec<PathBuf>, Vec<Pending>) = pages.into_iter().unzip();
    files.into_iter().try_for_each(Pending::keep)?;
    if args.json.json {
        writeln!(out, "{}", json!({ "pages": paths.iter().map(|path| shown(path)).collect::<Vec<_>>() }))?;
    } else {
        writeln!(out, "{} pages in {}", paths.len(), folder.display())?;
    }
    Ok(())
}
