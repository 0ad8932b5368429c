//! Lists the files in `templates` for `tidegate new`. The source of the runtime is among them, through links that cargo
//! resolves in packages.

use std::error::Error;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("templates");
    let mut files = Vec::new();
    list(&folder, &mut files)?;
    files.sort();
    let mut table = format!("[(&str, &[u8]); {}] = [\n", files.len());
    for file in &files {
        let name = file.strip_prefix(&folder)?.to_str().ok_or("a name that is not UTF-8")?.replace('\\', "/");
        writeln!(table, "({name:?}, include_bytes!({:?})),", file.display().to_string())?;
    }
    let out = PathBuf::from(env::var("OUT_DIR")?).join("templates.rs");
    Ok(fs::write(out, format!("static FILES: {table}];\n"))?)
}

/// Adds all files in a folder and the folders in it.
fn list(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={}", folder.display());
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            list(&path, files)?;
        } else {
            println!("cargo::rerun-if-changed={}", path.display());
            files.push(path);
        }
    }
    Ok(())
}
