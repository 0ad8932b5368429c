//! Runs the tests in Python with the library that cargo has built. `cargo xtask python` makes the Python environment.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The environment of `cargo xtask python`, or another one.
fn python() -> Option<PathBuf> {
    let usual = target().join("python/venv/bin/python");
    env::var_os("TIDEGATE_PYTHON").map(PathBuf::from).or_else(|| usual.is_file().then_some(usual))
}

/// The build folder: the tests lie in `release/deps` of it.
fn target() -> PathBuf {
    let own = env::current_exe().expect("the test has a path");
    own.ancestors().nth(3).expect("it lies in target/release/deps").to_owned()
}

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A folder with the package: links to its files in Python, and the library as Python names it.
fn package() -> &'static Path {
    static PACKAGE: OnceLock<PathBuf> = OnceLock::new();
    PACKAGE.get_or_init(|| {
        let place = target().join("python/package");
        let inner = place.join("tidegate");
        let _ = fs::remove_dir_all(&inner);
        fs::create_dir_all(&inner).expect("the build folder can be written");
        for entry in fs::read_dir(folder().join("package/tidegate")).expect("the package is there") {
            let path = entry.expect("the folder can be read").path();
            if path.is_file() {
                fs::copy(&path, inner.join(path.file_name().expect("it is a file"))).expect("the file can be copied");
            }
        }
        let library = format!("{}_native{}", env::consts::DLL_PREFIX, env::consts::DLL_SUFFIX);
        let own = env::current_exe().expect("the test has a path");
        fs::copy(own.with_file_name(library), inner.join("_native.abi3.so")).expect("cargo has built the library");
        place
    })
}

/// Runs Python with the package. Skipped tests are printed as SKIP with their reason.
fn run(arguments: &[&str]) {
    let Some(python) = python() else {
        println!("SKIP there is no Python environment: make it with `cargo xtask python`");
        return;
    };
    let output = Command::new(python)
        .current_dir(folder())
        .args(arguments)
        .env("PYTHONPATH", package())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("MPLBACKEND", "Agg")
        .output()
        .expect("Python starts");
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let skipped: Vec<&str> = said.lines().filter(|line| line.starts_with("SKIPPED ")).collect();
    for line in &skipped {
        println!("SKIP {}", line.rsplit_once(": ").map_or(*line, |(_, reason)| reason));
    }
    // `cargo xtask soak python` has installed everything else.
    let is_excused =
        env::var_os("TIDEGATE_EVERY_TEST").is_none() || skipped.iter().all(|line| line.ends_with(": no GPU"));
    assert!(is_excused, "{skipped:?}");
    // With 5, pytest says that it has run no test.
    let is_skipped = output.status.code() == Some(5) && !skipped.is_empty();
    assert!(output.status.success() || is_skipped, "{said}");
}

fn pytest(files: &[&str]) {
    run(&[&["-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider"], files].concat());
}

#[test]
fn the_package_passes_its_tests() {
    let apart = ["test_torch.py", "test_keras.py", "test_aware_keras.py", "test_types.py"];
    let ignored = apart.map(|file| format!("--ignore=tests/{file}"));
    let files: Vec<&str> = ["tests"].into_iter().chain(ignored.iter().map(String::as_str)).collect();
    pytest(&files);
}

#[test]
fn modules_of_pytorch_in_memory_are_imported_as_their_files() {
    pytest(&["tests/test_torch.py"]);
}

#[test]
fn models_of_keras_in_memory_are_imported_as_their_files() {
    pytest(&["tests/test_keras.py", "tests/test_aware_keras.py"]);
}

#[test]
fn the_types_are_strict() {
    pytest(&["tests/test_types.py"]);
}
