//! The memory of a test's own process.

use std::process::Command;

/// The largest address space that this process has had, or 0 where the system does not report it.
pub fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmPeak:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Runs the test `name` again in its own process, so that no other test allocates memory at the same time. Returns
/// `false` in that process, in which the test does its work. `name` is the full path of the test, from
/// [`module_path!`].
///
/// # Panics
/// If the test fails in its own process.
pub fn ran_alone(name: &str) -> bool {
    const ALONE: &str = "TIDEGATE_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return false;
    }
    // The harness lists tests without the name of the crate.
    let (_, test) = name.split_once("::").expect("a path starts with the name of the crate");
    let program = std::env::current_exe().expect("the system knows the path of this program");
    let output =
        Command::new(program).args(["--exact", test]).env(ALONE, "1").output().expect("the program starts again");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}{}", String::from_utf8_lossy(&output.stderr));
    true
}
