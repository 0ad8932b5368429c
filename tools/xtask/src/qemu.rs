//! The firmware under QEMU: its output is compared with the record, and the record with the host.

use std::collections::BTreeSet;

use crate::firmware::{self, Firmware, Output};
use crate::shell::{self, run as run_command, step};
use crate::{Failure, boards, install, record, suites, updates};

/// Runs every program on every machine, then compares the keyword spotter with the host.
pub fn run(overwrite_expected: bool) -> Result<(), Failure> {
    install::targets()?;
    install::qemu()?;
    firmware::build()?;
    firmware::bundles()?;
    let mut recorded = BTreeSet::new();
    for firmware in firmware::all().chain(firmware::trained()) {
        // All machines share one record. The first one writes it, and the others are compared.
        let overwrite = overwrite_expected && recorded.insert(firmware.name);
        step(&firmware.what(), || check(&firmware, &firmware.run()?, overwrite))?;
    }
    for firmware in same_bits() {
        step(&firmware.what(), || compare_with_host(&firmware))?;
    }
    step("microbit on its serial line", || boards::microbit(overwrite_expected))?;
    firmware::build_command_line()?;
    step("microbit takes updates", updates::microbit)?;
    twin()
}

/// The firmware that runs many networks, for every machine.
pub fn same_bits() -> impl Iterator<Item = Firmware> {
    firmware::MACHINES.iter().map(|machine| Firmware { name: firmware::SAME_BITS, machine })
}

/// Fails with the first network whose hash differs from the host's.
pub fn compare_with_host(firmware: &Firmware) -> Result<(), Failure> {
    let path = firmware::bundle_dir(firmware.machine.layout).join(format!("{}.txt", firmware.name));
    let host = shell::read(&path)?;
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

/// Fails with the first line of the output that differs from the record.
pub fn compare(firmware: &Firmware, run: &Output) -> Result<(), Failure> {
    check(firmware, run, false)
}

fn check(firmware: &Firmware, run: &Output, overwrite: bool) -> Result<(), Failure> {
    record::output(firmware.name, &firmware.expected(), &run.text, overwrite)
}

/// Shows how many words of output are equal on host and firmware.
pub fn twin() -> Result<(), Failure> {
    let mut test = suites::command();
    test.args(["--test", "repository", "firmware_twin", "--", "--nocapture"]);
    run_command("the host computes what the firmware printed", test)
}
