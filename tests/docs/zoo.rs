//! The table of `docs/zoo.md`, and the claims of `tools/cli/zoo.json`, which `cargo xtask zoo` writes.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use super::{repository, thousands};

fn entries() -> Vec<Value> {
    let path = repository().join("tools/cli/zoo.json");
    let text = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn text<'v>(entry: &'v Value, name: &str) -> &'v str {
    entry[name].as_str().unwrap_or_else(|| panic!("{entry} has no {name}"))
}

fn number(of: &Value) -> u64 {
    of.as_u64().unwrap_or_else(|| panic!("{of} is not a count"))
}

/// Millions of instructions of a second of sound, with two digits; of a step for a network without a clock.
fn millions(entry: &Value, core: &str) -> String {
    let counts = &entry["figures"]["instructions"][core];
    let all = (number(&counts["step"]) + number(&counts["front_end"])) as f64;
    let step_us = entry["step_us"].as_f64().unwrap_or_else(|| panic!("{entry} has no clock"));
    let (millions, of) = if step_us > 0.0 { (all / step_us, "") } else { (all / 1e6, " a step") };
    let digits = (1 - millions.log10().floor() as i64).clamp(0, 3) as usize;
    format!("{millions:.digits$}{of}")
}

/// `docs/zoo.md`
pub fn table() -> String {
    let row = |entry: &Value| {
        let figures = &entry["figures"];
        let [file, flash, ram, macs] =
            ["file_bytes", "flash_bytes", "ram_bytes", "macs"].map(|name| thousands(number(&figures[name])));
        let [m0plus, m4, m55] = ["m0plus", "m4", "m55"].map(|core| millions(entry, core));
        let arena = figures["arena_bytes"].as_u64().map_or_else(String::new, thousands);
        let numeric = text(figures, "numeric");
        let [name, origin, licence, result] = ["name", "origin", "licence", "result"].map(|name| text(entry, name));
        format!(
            "| {name} | {origin}, {licence} | {file} | `{numeric}` | {flash} | {ram} | {arena} | {macs} | {m0plus} | {m4} | {m55} \
             | {result} |\n"
        )
    };
    let rows: String = entries().iter().map(row).collect();
    format!(
        "| network | origin | bytes of the file | numeric | flash | RAM | arena of TFLM | MACs a step | million instructions, M0+ | M4 | M55 | checked |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|\n{rows}"
    )
}

#[test]
fn every_network_of_the_zoo_is_checked_by_a_test() {
    let entries = entries();
    let origins: BTreeSet<&str> = entries.iter().map(|entry| text(entry, "origin")).collect();
    assert!(entries.len() >= 30 && origins.len() >= 10, "{} networks of {} origins", entries.len(), origins.len());
    let names: BTreeSet<&str> = entries.iter().map(|entry| text(entry, "name")).collect();
    assert_eq!(names.len(), entries.len(), "each has a name of its own");
    let mut tests = String::new();
    for file in fs::read_dir(repository().join("tests")).expect("the folder can be read") {
        let path = file.expect("the folder can be read").path();
        if path.extension().is_some_and(|end| end == "rs") {
            tests += &fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
    }
    for entry in &entries {
        let (name, check) = (text(entry, "name"), text(entry, "check"));
        assert!(tests.contains(&format!("#[test]\nfn {check}() {{")), "{name}: there is no test {check}");
    }
}
