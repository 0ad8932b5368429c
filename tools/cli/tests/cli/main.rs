//! Tests of the built binary, run as a person or a script runs it.

mod arch;
mod bad_input;
mod board;
mod commands;
mod cut_off;
mod denoise;
mod device;
mod docs;
mod evaluated;
mod flash;
mod help;
mod hostile;
mod integers;
mod journey;
mod json;
mod labels;
mod new;
mod plot;
#[path = "../../../../tests/update/flash.rs"]
#[allow(dead_code, reason = "other tests cut its power")]
mod ram;
mod sensors;
mod sign;
mod streaming;
mod wake_word;
mod wrong;
mod zoo;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// The lines of standard error other than notes.
fn without_notes(stderr: &[u8]) -> Vec<u8> {
    let lines = stderr.split_inclusive(|&byte| byte == b'\n');
    lines.filter(|line| !line.starts_with(b"note: ")).flatten().copied().collect()
}

/// A temporary folder in which the binary runs.
struct Workplace(TempDir);

impl Workplace {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.path(name), content).unwrap();
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    /// Names of the files in the folder, sorted.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.args(args).current_dir(self.0.path()).env("RUST_BACKTRACE", "1");
        command
    }

    /// Standard error of a run that must succeed.
    fn notes(&self, args: &[&str]) -> String {
        let done = self.command(args).output().unwrap();
        assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stderr).unwrap()
    }

    /// A run; standard error is without notes.
    fn run(&self, args: &[&str]) -> Output {
        let done = self.command(args).output().unwrap();
        Output { stderr: without_notes(&done.stderr), ..done }
    }

    /// Standard output of a run that must succeed without output on standard error.
    fn succeed(&self, args: &[&str]) -> String {
        let Output { status, stdout, stderr } = self.run(args);
        let stderr = String::from_utf8_lossy(&stderr);
        assert!(status.success() && stderr.is_empty(), "{args:?}: {status}, {stderr}");
        String::from_utf8(stdout).unwrap()
    }

    /// Standard output of a `pack` that must succeed with warnings about the quality of the image, and nothing else, on
    /// standard error.
    fn pack_poorly(&self, args: &[&str]) -> String {
        let Output { status, stdout, stderr } = self.run(args);
        let stderr = String::from_utf8_lossy(&stderr);
        let is_quality =
            |line: &str| line.contains(" dB from that of f32") || line.contains("differ from those of f32");
        let warned = stderr.lines().all(|line| line.starts_with("warning: ") && is_quality(line));
        assert!(status.success() && warned && !stderr.is_empty(), "{args:?}: {status}, {stderr}");
        String::from_utf8(stdout).unwrap()
    }

    /// The JSON value that a run prints.
    fn json(&self, args: &[&str]) -> serde_json::Value {
        let text = self.succeed(args);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{args:?}: {error}: {text}"))
    }

    /// A run that must fail: code 1, nothing on standard output, and one line on standard error that begins with
    /// `file` and has every one of `parts`. Nothing may appear or change in the folder.
    fn refuse(&self, args: &[&str], file: &str, parts: &[&str]) {
        let before: Vec<(String, Option<Vec<u8>>)> = self.content();
        let Output { status, stdout, stderr } = self.run(args);
        let stderr = String::from_utf8(stderr).unwrap();
        assert_eq!(status.code(), Some(1), "{args:?}: {stderr}");
        assert!(stdout.is_empty(), "{args:?}: {}", String::from_utf8_lossy(&stdout));
        assert!(stderr.ends_with('\n') && stderr.lines().count() == 1, "{args:?}: {stderr}");
        assert!(stderr.starts_with(&format!("tidegate: {file}: ")), "{args:?}: {stderr}");
        for part in parts {
            assert!(stderr.contains(part), "{args:?}: no {part:?} in: {stderr}");
        }
        for noise in ["panicked", "backtrace", "os error 2)"] {
            assert!(!stderr.contains(noise), "{args:?}: {stderr}");
        }
        assert!(self.content() == before, "{args:?} left {:?}", self.names());
    }

    fn content(&self) -> Vec<(String, Option<Vec<u8>>)> {
        self.names().into_iter().map(|name| (name.clone(), fs::read(self.path(&name)).ok())).collect()
    }

    /// A run whose arguments are refused: code 2, and nothing on standard output.
    fn refuse_use(&self, args: &[&str], part: &str) {
        let Output { status, stdout, stderr } = self.run(args);
        let stderr = String::from_utf8(stderr).unwrap();
        assert_eq!(status.code(), Some(2), "{args:?}: {stderr}");
        assert!(stdout.is_empty() && stderr.contains(part), "{args:?}: {stderr}");
    }
}

/// A shipped file.
fn shipped(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets").join(name);
    fs::canonicalize(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).display().to_string()
}

fn gru_pb() -> String {
    shipped("hello_edge/GRU_S.pb")
}

fn yes_flac() -> String {
    shipped("speech_commands/yes/022cd682_nohash_0.flac")
}
