//! `completions`: scripts that complete commands in a shell.

use std::io::Write;

use clap_complete::{Shell, generate};

use super::Outcome;

/// Prints a script that completes the commands and options of tidegate in a shell
#[derive(clap::Args)]
#[command(after_help = "Examples:
  tidegate completions bash > tidegate.bash
  tidegate completions fish > tidegate.fish

Where shells look for them: bash ~/.local/share/bash-completion/completions/tidegate, zsh a file _tidegate in a folder of
$fpath, fish ~/.config/fish/completions/tidegate.fish.")]
pub struct Args {
    /// The shell
    shell: Shell,
}

pub fn run(args: &Args, mut command: clap::Command, out: &mut dyn Write) -> Outcome {
    // The generator panics if it cannot write.
    let mut script = Vec::new();
    generate(args.shell, &mut command, "tidegate", &mut script);
    Ok(out.write_all(&script)?)
}
