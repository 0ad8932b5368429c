//! The firmware under QEMU: what it prints is compared with the record, and the record with the host.

use std::fs;
use std::path::Path;

use crate::firmware::{self, Firmware};
use crate::shell::{cargo, run as run_command, step};
use crate::{Failure, boards, install};

/// Every program, then the host's twin of the keyword spotter.
pub fn run(overwrite_expected: bool) -> Result<(), Failure> {
    install::targets()?;
    install::qemu()?;
    firmware::build()?;
    for firmware in &firmware::ALL {
        step(&format!("{} on {}", firmware.name, firmware.machine.name), || match overwrite_expected {
            true => record(firmware),
            false => compare(firmware),
        })?;
    }
    step("microbit on its serial line", || boards::microbit(overwrite_expected))?;
    twin()
}

/// Fails with the first line that differs.
pub fn compare(firmware: &Firmware) -> Result<(), Failure> {
    same_text(firmware.name, &firmware.expected(), &firmware.run()?.text)
}

/// Fails with the first line that is not the record's.
pub fn same_text(name: &str, path: &Path, found: &str) -> Result<(), Failure> {
    let expected = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    if found == expected {
        eprintln!("    {} lines as expected", expected.lines().count());
        return Ok(());
    }
    let same = found.lines().zip(expected.lines()).take_while(|(found, expected)| found == expected).count();
    let line = |text: &str| text.lines().nth(same).unwrap_or("(nothing)").to_owned();
    Err(format!(
        "{name} printed, on line {},\n  {}\nwhere {} has\n  {}\nIf that is meant: cargo xtask qemu --overwrite-expected",
        same + 1,
        line(found),
        path.display(),
        line(&expected)
    ))
}

fn record(firmware: &Firmware) -> Result<(), Failure> {
    let path = firmware.expected();
    let text = firmware.run()?.text;
    fs::create_dir_all(path.parent().expect("the record lies in a folder")).map_err(|error| error.to_string())?;
    eprintln!("    recording {}", path.display());
    fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
}

/// Shows on how many words host and firmware agree.
pub fn twin() -> Result<(), Failure> {
    // The whole workspace, so that features are as in its own tests and nothing is built twice.
    let test = ["test", "--release", "--workspace", "--test", "firmware_twin", "--", "--nocapture"];
    run_command("the host computes what the firmware printed", cargo(".", &test))
}
