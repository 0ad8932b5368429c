//! One command per file. A command reads its arguments, calls the library, and prints the result.

mod args;
pub mod bench;
pub mod change_key;
pub mod completions;
pub mod demo;
pub mod denoise;
pub mod eval;
pub mod export;
pub mod flash;
mod graph;
pub mod import;
pub mod inspect;
pub mod keygen;
mod keys;
pub mod listen;
pub mod man;
pub mod new;
pub mod pack;
pub mod run;
pub mod sign;
pub mod verify;
pub mod verify_signature;
pub mod zoo;

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tidegate_model::canonical::{Canonical, Tensor};
use tidegate_model::data::one_line;
use tidegate_model::format::checkpoint::index_of;
use tidegate_model::load::Loaded;

/// The result of a command.
pub type Outcome = Result<(), Failure>;

/// Why a command failed: one line for a person.
pub struct Failure {
    message: String,
}

impl Failure {
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }

    /// `file: reason`
    pub fn of(path: &Path, reason: impl fmt::Display) -> Self {
        Self::new(format!("{}: {reason}", path.display()))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&one_line(&self.message))
    }
}

impl<E: Error + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        // Errors of files name the file, so a bare I/O error comes from standard output.
        let is_io = (&error as &(dyn Error + 'static)).is::<io::Error>();
        Self { message: format!("{}{error}", if is_io { "standard output: " } else { "" }) }
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

/// Creates a folder, unless it exists.
fn make_folder(folder: &Path) -> Outcome {
    if folder.exists() && !folder.is_dir() {
        return Err(Failure::of(folder, "is a file, but a folder is needed: give another name"));
    }
    fs::create_dir_all(folder).map_err(|error| Failure::of(folder, format!("cannot be created: {error}")))
}

/// Refuses a picture in any format other than SVG.
fn check_plot(plot: Option<&PathBuf>) -> Outcome {
    let Some(plot) = plot else { return Ok(()) };
    match plot.extension() {
        Some(extension) if !extension.eq_ignore_ascii_case("svg") => {
            let svg = plot.with_extension("svg").display().to_string();
            let reason = format!(
                "pictures are SVG, which browsers show: give --plot {svg}; for another format, convert it with \
                 `rsvg-convert {svg} -o {}`",
                plot.display()
            );
            Err(Failure::of(plot, reason))
        }
        _ => Ok(()),
    }
}

/// Extensions of the files that the program reads or writes. Only an output of that kind may have one, because it could
/// replace a file that was meant as an input.
const KINDS: [&str; 28] = [
    "safetensors",
    "tgi",
    "tgk",
    "pem",
    "onnx",
    "pb",
    "h5",
    "hdf5",
    "keras",
    "pt",
    "pth",
    "ckpt",
    "tflite",
    "rnnn",
    "json",
    "csv",
    "ts",
    "npy",
    "npz",
    "wav",
    "flac",
    "svg",
    "html",
    "htm",
    "txt",
    "h",
    "c",
    "toml",
];

/// Refuses an output whose extension is that of another kind of file than these.
fn check_extension(output: &Path, allowed: &[&str], reason: impl fmt::Display) -> Outcome {
    let is_any =
        |of: &[&str]| output.extension().is_some_and(|found| of.iter().any(|of| found.eq_ignore_ascii_case(of)));
    if is_any(&KINDS) && !is_any(allowed) { Err(Failure::of(output, reason)) } else { Ok(()) }
}

/// The same for an output of one kind, whose usual extension is the first one.
fn check_kind(option: &str, output: Option<&PathBuf>, kind: &str, allowed: &[&str]) -> Outcome {
    let Some(output) = output else { return Ok(()) };
    let usual = output.with_extension(allowed[0]);
    check_extension(output, allowed, format!("{option} writes {kind}: give {option} {}", usual.display()))
}

/// Refuses an option that is given twice for the same name.
fn check_once<'n>(option: &str, names: impl Iterator<Item = &'n str>) -> Outcome {
    let mut seen = BTreeSet::new();
    let mut names = names;
    match names.find(|name| !seen.insert(*name)) {
        Some(name) => Err(Failure::new(format!("{option}: {name} is given twice: leave one out"))),
        None => Ok(()),
    }
}

/// A path as text for JSON; bytes that are not UTF-8 are replaced.
fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// Prints a line for a person on standard error. If that is closed, nobody can be told.
pub fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{}", one_line(line));
}

/// Prints the notes on an import to standard error.
fn print_notes(model: &Path, loaded: &Loaded) {
    for line in loaded.lines() {
        say(&format!("note: {}: {line}", model.display()));
    }
}

/// Prints notes on a data file to standard error.
fn print_file_notes(file: &Path, notes: &[String]) {
    for note in notes {
        say(&format!("note: {}: {note}", file.display()));
    }
}

/// The layers of a model, as in `gru 154, dense 12`.
fn layers(model: &Canonical) -> String {
    let layers = model.architecture.nodes.iter().map(|node| format!("{} {}", node.cell, node.output_size));
    layers.collect::<Vec<_>>().join(", ")
}

/// An output for programs.
fn tensor_json(name: &str, tensor: &Tensor) -> Value {
    json!({ "name": name, "shape": tensor.shape, "values": tensor.data })
}

/// A row of an output.
fn row_text(row: &[f32]) -> String {
    row.iter().map(|value| format!("{value:9.6}")).collect::<Vec<_>>().join(" ")
}
