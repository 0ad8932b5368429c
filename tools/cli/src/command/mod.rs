//! One command per file. A command reads its arguments, calls the library, and prints the result.

mod args;
pub mod bench;
mod calibrate;
pub mod demo;
pub mod denoise;
pub mod eval;
mod graph;
pub mod import;
mod inputs;
pub mod inspect;
pub mod listen;
pub mod new;
pub mod pack;
pub mod run;
mod sound;
pub mod verify;
pub mod zoo;

use std::error::Error;
use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tidegate_model::canonical::Canonical;
use tidegate_model::data::one_line;
use tidegate_model::format::{Assumption, checkpoint::index_of};
use tidegate_model::load::Loaded;

/// The result of a command.
pub type Outcome = Result<(), Failure>;

/// Why a command failed: one line for a person.
pub struct Failure {
    message: String,
    broken_pipe: bool,
}

impl Failure {
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), broken_pipe: false }
    }

    /// `file: reason`
    pub fn of(path: &Path, reason: impl fmt::Display) -> Self {
        Self::new(format!("{}: {reason}", path.display()))
    }

    pub fn is_broken_pipe(&self) -> bool {
        self.broken_pipe
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&one_line(&self.message))
    }
}

impl<E: Error + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        let io = (&error as &(dyn Error + 'static)).downcast_ref::<io::Error>();
        let broken_pipe = io.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
        // Errors of files name the file, so a bare I/O error comes from standard output.
        let of = if io.is_some() { "standard output: " } else { "" };
        Self { message: format!("{of}{error}"), broken_pipe }
    }
}

/// Refuses outputs that would overwrite an input, and two outputs with the same name.
fn check_outputs(outputs: &[Option<&PathBuf>], inputs: &[&Path]) -> Outcome {
    // Every file of a checkpoint counts as the whole checkpoint.
    let file = |path: &Path| index_of(path).as_deref().unwrap_or(path).canonicalize();
    let outputs: Vec<&PathBuf> = outputs.iter().copied().flatten().collect();
    for output in &outputs {
        let is_output =
            |input: &&Path| file(input).is_ok_and(|input| input.is_file() && file(output).is_ok_and(|o| o == input));
        if inputs.iter().any(is_output) {
            return Err(Failure::of(output, "is also an input: give the output another name"));
        }
    }
    let place = |path: &Path| {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let new = |folder: PathBuf| folder.join(path.file_name().unwrap_or_default());
        path.canonicalize().or_else(|_| folder.canonicalize().map(new)).ok()
    };
    let mut taken = Vec::new();
    // Devices and pipes can take several outputs.
    for output in outputs.into_iter().filter(|path| !path.exists() || path.is_file()) {
        let Some(place) = place(output) else { continue };
        if taken.contains(&place) {
            return Err(Failure::of(output, "is the name of two outputs: give each output its own name"));
        }
        taken.push(place);
    }
    Ok(())
}

/// Prints the notes on an import, and the source of the labels. Assumptions go to standard error.
fn print_notes(model: &Path, loaded: &Loaded, out: &mut dyn Write) -> Outcome {
    for Assumption { what, option } in &loaded.assumptions {
        eprintln!("note: {}: {what}; to change this, give {option}", model.display());
    }
    for note in &loaded.notes {
        writeln!(out, "{}", one_line(note))?;
    }
    if let Some(file) = &loaded.labels_from {
        writeln!(out, "{} labels from {}", loaded.model.architecture.labels.len(), file.display())?;
    }
    Ok(())
}

/// The layers of a model, as in `gru 154, dense 12`.
fn layers(model: &Canonical) -> String {
    let layers = model.architecture.nodes.iter().map(|node| format!("{} {}", node.cell, node.output_size));
    layers.collect::<Vec<_>>().join(", ")
}

/// A row of an output.
fn row_text(row: &[f32]) -> String {
    row.iter().map(|value| format!("{value:9.6}")).collect::<Vec<_>>().join(" ")
}
