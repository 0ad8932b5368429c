//! The package for Python: an environment with NumPy, pyarrow, onnxruntime and pytest in `target/python`, and the tests in it.

use std::path::PathBuf;
use std::process::Command;

use crate::firmware::workspace_target_dir;
use crate::shell::{self, cargo};
use crate::{Failure, install};

/// The packages that the tests need.
const PACKAGES: [&str; 5] = ["numpy>=1.26", "onnx>=1.18", "onnxruntime>=1.22", "pyarrow>=15", "pytest>=8"];

/// Prepares Python, builds the library, and runs the tests.
pub fn run() -> Result<(), Failure> {
    let python = prepare()?;
    let mut tests = cargo(".", &["test", "--release", "--locked", "--package", "tidegate-python"]);
    tests.args(["--", "--nocapture"]).env(VARIABLE, python);
    shell::run("tests of the package for Python", tests)
}

/// The variable that names Python for the tests.
pub const VARIABLE: &str = "TIDEGATE_PYTHON";

/// Makes the environment, unless it is complete. Returns its Python.
pub fn prepare() -> Result<PathBuf, Failure> {
    let folder = workspace_target_dir().join("python/venv");
    let python = folder.join("bin/python");
    let has = format!("import numpy, onnx, onnxruntime, pyarrow, pytest, sys; assert sys.version_info >= {LEAST}");
    if install::answers(&python.to_string_lossy(), &["-c", &has]) {
        return Ok(python);
    }
    install::python()?;
    let mut make = Command::new("python3");
    make.args(["-m", "venv", "--clear"]).arg(&folder);
    shell::run("making an environment for Python", make)?;
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(PACKAGES);
    shell::run(&format!("installing {}", PACKAGES.join(", ")), pip)?;
    Ok(python)
}

/// The oldest version of Python that the package runs on.
const LEAST: &str = "(3, 11)";
