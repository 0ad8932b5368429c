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
    firmware::bundles()?;
    let mut recorded = Vec::new();
    for firmware in firmware::all().chain(firmware::trained()) {
        // One record for all machines.
        let records = overwrite_expected && !recorded.contains(&firmware.name);
        recorded.push(firmware.name);
        step(&firmware.what(), || if records { record(&firmware) } else { compare(&firmware) })?;
    }
    for firmware in same_bits() {
        step(&firmware.what(), || compare_with_host(&firmware))?;
    }
    step("microbit on its serial line", || boards::microbit(overwrite_expected))?;
    twin()
}

/// The program that runs many networks, on every machine.
pub fn same_bits() -> impl Iterator<Item = Firmware> {
    firmware::MACHINES.iter().map(|machine| Firmware { name: firmware::SAME_BITS, machine })
}

/// Fails with the first network whose hash is not the host's.
pub fn compare_with_host(firmware: &Firmware) -> Result<(), Failure> {
    let path = firmware::bundle_dir(firmware.machine.layout).join(format!("{}.txt", firmware.name));
    let host = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let found = firmware.run()?.text;
    let (mut found, mut same) = (found.lines(), 0);
    for line in host.lines() {
        let (expected, network) = line.split_once(' ').unwrap_or((line, ""));
        match found.next() {
            Some(hash) if hash == expected => same += 1,
            hash => return Err(format!("{network}: {}, but the host {expected}", hash.unwrap_or("nothing"))),
        }
    }
    eprintln!("    {same} networks as on the host, bit for bit");
    if same > 0 { Ok(()) } else { Err(format!("{} has no networks", path.display())) }
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
