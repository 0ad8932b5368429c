//! Recorded outputs and figures: comparing with a record, and writing it with `--overwrite-expected`.

use std::path::Path;

use crate::Failure;
use crate::shell;

/// Maximum growth of a figure, in percent, without a new record.
pub const GROWTH_PERCENT: u64 = 3;

/// Whether a figure has grown by more than [`GROWTH_PERCENT`].
pub fn outgrown(found: u64, recorded: u64) -> bool {
    found * 100 > recorded * (100 + GROWTH_PERCENT)
}

/// Writes a record.
pub fn write(path: &Path, text: &str) -> Result<(), Failure> {
    eprintln!("    recording {}", path.display());
    shell::write(path, text)
}

/// Compares the output of a program under QEMU with its record, or overwrites the record.
pub fn output(name: &str, path: &Path, found: &str, overwrite: bool) -> Result<(), Failure> {
    if overwrite { write(path, found) } else { same_lines(name, path, found, "cargo xtask qemu --overwrite-expected") }
}

/// Fails with the first line that differs from the record, and states how to record.
pub fn same_lines(name: &str, path: &Path, found: &str, how_to_record: &str) -> Result<(), Failure> {
    same(name, found, &path.display().to_string(), &shell::read(path)?)
        .map_err(|difference| format!("{difference}\nIf this is intended, record it: {how_to_record}"))
}

/// Fails with the first line in which the output `found` differs from `expected`, the contents of `source`.
pub fn same(name: &str, found: &str, source: &str, expected: &str) -> Result<(), Failure> {
    if found == expected {
        eprintln!("    {} lines as expected", expected.lines().count());
        return Ok(());
    }
    let same = found.lines().zip(expected.lines()).take_while(|(found, expected)| found == expected).count();
    let line = |text: &str| text.lines().nth(same).unwrap_or("(nothing)").to_owned();
    let (number, found, expected) = (same + 1, line(found), line(expected));
    Err(format!("{name} printed, on line {number},\n  {found}\nwhere {source} has\n  {expected}"))
}

#[cfg(test)]
mod tests {
    use super::outgrown;

    #[test]
    fn three_percent_is_the_most() {
        assert!(!outgrown(103, 100) && !outgrown(1030, 1000) && !outgrown(0, 0) && !outgrown(50, 100));
        assert!(outgrown(104, 100) && outgrown(1031, 1000) && outgrown(1, 0));
    }
}
