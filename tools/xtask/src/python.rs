//! The package for Python: an environment with NumPy, pyarrow, onnxruntime and pytest in `target/python`, and the tests in it.
//! [`every`] adds PyTorch, Keras and the engines, which take gigabytes, so no CI runs it.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::firmware::workspace_target_dir;
use crate::shell::{self, cargo};
use crate::total::Total;
use crate::{Failure, install};

/// The packages that the tests need.
const PACKAGES: [&str; 5] = ["numpy>=1.26", "onnx>=1.18", "onnxruntime>=1.22", "pyarrow>=15", "pytest>=8"];

/// More packages, for the tests of PyTorch, Keras, notebooks, types and engines.
const FRAMEWORKS: [&str; 8] = [
    "daft>=0.6",
    "keras>=3.10",
    "matplotlib>=3.8",
    "mypy>=1.11",
    "pandas>=2",
    "ray>=2.40",
    "safetensors>=0.4",
    "torch>=2.2",
];

/// Prepares Python, builds the library, and runs the tests.
pub fn run() -> Result<(), Failure> {
    shell::run("tests of the package for Python", tests(&prepare()?))
}

/// Runs all tests in Python: 1,000 random networks for quantization-aware training, a million clips, and the engines. Returns
/// how many suites have passed.
///
/// # Errors
/// If one fails, or skips anything but a test on a GPU.
pub fn every() -> Result<u64, Failure> {
    let python = environment("all", &[&PACKAGES[..], &FRAMEWORKS].concat())?;
    let mut tests = tests(&python);
    tests.envs([("TIDEGATE_QAT_NETS", "1000"), ("TIDEGATE_CLIPS", "1000000"), ("TIDEGATE_FLEET", "1")]);
    tests.env("TIDEGATE_EVERY_TEST", "1");
    let mut total = Total::default();
    total.cargo_tests("all tests of the package for Python", tests)?;
    total.end()?;
    Ok(total.passed)
}

fn tests(python: &Path) -> Command {
    let mut tests = cargo(".", &["test", "--release", "--locked", "--package", "tidegate-python"]);
    tests.args(["--", "--nocapture"]).env(VARIABLE, python);
    tests
}

/// The variable that names Python for the tests.
pub const VARIABLE: &str = "TIDEGATE_PYTHON";

/// Makes the environment, unless it is complete. Returns its Python.
pub fn prepare() -> Result<PathBuf, Failure> {
    environment("venv", &PACKAGES)
}

/// Makes an environment in `target/python`, unless it is complete. Returns its Python.
fn environment(name: &str, packages: &[&str]) -> Result<PathBuf, Failure> {
    let folder = workspace_target_dir().join("python").join(name);
    let python = folder.join("bin/python");
    let modules: Vec<_> = packages.iter().filter_map(|package| package.split('>').next()).collect();
    let has = format!(
        "import sys; from importlib.util import find_spec; assert sys.version_info >= {LEAST}; \
         assert all(find_spec(name) for name in {modules:?})"
    );
    if install::answers(&python.to_string_lossy(), &["-c", &has]) {
        return Ok(python);
    }
    install::python()?;
    let mut make = Command::new("python3");
    make.args(["-m", "venv", "--clear"]).arg(&folder);
    shell::run("making an environment for Python", make)?;
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(packages);
    shell::run(&format!("installing {}", packages.join(", ")), pip)?;
    Ok(python)
}

/// The oldest version of Python that the package runs on.
const LEAST: &str = "(3, 11)";
