//! The wheel for Python: built by pip as a user builds it, then checked by `tools/python/check_wheel.py` on every CPython that
//! the package supports and that this machine has.

use std::fs;
use std::process::Command;

use crate::firmware::workspace_target_dir;
use crate::{Failure, install, shell};

/// The versions of CPython that the package is for.
const VERSIONS: [&str; 4] = ["python3.11", "python3.12", "python3.13", "python3.14"];

/// Builds the wheel and checks it.
pub fn run() -> Result<(), Failure> {
    install::python()?;
    let folder = workspace_target_dir().join("wheel");
    let _ = fs::remove_dir_all(folder.join("dist"));
    let (environment, dist) = (folder.join("venv"), folder.join("dist"));
    let mut make = Command::new("python3");
    make.args(["-m", "venv", "--clear"]).arg(&environment);
    shell::run("making an environment for Python", make)?;
    let mut pip = Command::new(environment.join("bin/python"));
    pip.args(["-m", "pip", "wheel", "--quiet", "--no-deps", "--disable-pip-version-check", "--wheel-dir"])
        .arg(&dist)
        .arg(shell::root().join("tools/python"));
    shell::run("building the wheel", pip)?;
    let (present, absent): (Vec<&str>, Vec<&str>) =
        VERSIONS.into_iter().partition(|python| install::answers(python, &["-c", "import venv"]));
    if !absent.is_empty() {
        shell::say(&format!("    not on this machine: {}", absent.join(", ")));
    }
    let built = fs::read_dir(&dist).map_err(shell::about(&dist))?.next().ok_or("pip has built no wheel")?;
    let wheel = built.map_err(shell::about(&dist))?.path();
    let mut check = Command::new("python3");
    check.arg(shell::root().join("tools/python/check_wheel.py")).arg(wheel).args(present);
    shell::run("checking the wheel", check)
}
