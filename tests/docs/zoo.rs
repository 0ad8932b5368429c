//! The table of `docs/zoo.md`, and the claims of `tools/cli/zoo.json`, which `cargo xtask zoo` writes.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;
use tidegate_tests::measured::recorded;
use tidegate_tests::zoo::entries;

use super::{repository, thousands};

fn text<'v>(entry: &'v Value, name: &str) -> &'v str {
    entry[name].as_str().unwrap_or_else(|| panic!("{entry} has no {name}"))
}

fn number(of: &Value) -> u64 {
    of.as_u64().unwrap_or_else(|| panic!("{of} is not a count"))
}

/// Millions of instructions for a second of sound, or for a step of a network without a clock, with two digits.
fn millions(entry: &Value, core: &str) -> String {
    let counts = &entry["figures"]["instructions"][core];
    let all = (number(&counts["step"]) + number(&counts["front_end"])) as f64;
    let step_us = entry["step_us"].as_f64().unwrap_or_else(|| panic!("{entry} has no clock"));
    let (millions, of) = if step_us > 0.0 { (all / step_us, "") } else { (all / 1e6, " a step") };
    let digits = (1 - millions.log10().floor() as i64).clamp(0, 3) as usize;
    format!("{millions:.digits$}{of}")
}

/// The part of real time that a Cortex-M4 is busy; nothing for a network without a clock.
fn share(entry: &Value) -> String {
    let percent = entry["figures"]["share_of_m4"].as_f64().map(|share| 100.0 * share);
    percent.map_or_else(String::new, |percent| format!("{percent:.*} %", if percent < 9.95 { 1 } else { 0 }))
}

/// The arena that TensorFlow Lite Micro uses for a network, by name. `tests/frameworks/tflm_arena.py` measures it.
fn tflm_arenas() -> Value {
    serde_json::from_str(include_str!("../frameworks/tflm_arena.json")).expect("the script has written JSON")
}

/// `docs/zoo.md`
pub fn table() -> String {
    let used = tflm_arenas();
    let row = |entry: &Value| {
        let figures = &entry["figures"];
        let [file, flash, ram, macs] =
            ["file_bytes", "flash_bytes", "ram_bytes", "macs"].map(|name| thousands(number(&figures[name])));
        let [m0plus, m4, m55] = ["m0plus", "m4", "m55"].map(|core| millions(entry, core));
        let [arena, used] = [&figures["arena_bytes"], &used[text(entry, "name")]]
            .map(|bytes| bytes.as_u64().map_or_else(String::new, thousands));
        let numeric = text(figures, "numeric");
        let [name, origin, licence, result] = ["name", "origin", "licence", "result"].map(|name| text(entry, name));
        let (share, accuracy) = (share(entry), entry["accuracy"].as_str().unwrap_or_default());
        format!(
            "| {name} | {origin}, {licence} | {file} | `{numeric}` | {flash} | {ram} | {arena} | {used} | {macs} | {m0plus} | {m4} | {m55} \
             | {share} | {accuracy} | {result} |\n"
        )
    };
    let rows: String = entries().iter().map(row).collect();
    format!(
        "| network | origin | bytes of the file | numeric | flash | RAM | arena of TFLM, stated | arena of TFLM, used | MACs a step | million instructions, M0+ | M4 | M55 \
         | busy, M4 at 120 MHz | accuracy | checked |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n{rows}"
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

/// Every TFLite network of the zoo is measured, and needs less RAM here, its front end included, than the arena that
/// TensorFlow Lite Micro uses for the network alone.
#[test]
fn tflite_networks_need_less_ram_than_the_arena_of_tflm() {
    let (used, entries) = (tflm_arenas(), entries());
    let of_tflite = |entry: &&Value| text(entry, "source").contains(".tflite");
    let found: BTreeSet<&str> = entries.iter().filter(of_tflite).map(|entry| text(entry, "name")).collect();
    let measured: BTreeSet<&str> = used.as_object().expect("names and bytes").keys().map(String::as_str).collect();
    assert!(found.len() >= 16 && found == measured, "{found:?} in the zoo, {measured:?} measured");
    for entry in entries.iter().filter(of_tflite) {
        let (ram, arena) = (number(&entry["figures"]["ram_bytes"]), number(&used[text(entry, "name")]));
        assert!(ram < arena, "{}: {ram} and {arena} bytes", text(entry, "name"));
    }
}

/// The accuracy of each keyword spotter is that of its record. The tests of the other networks compare theirs themselves.
#[test]
fn accuracies_of_keyword_spotters_are_those_of_the_record() {
    let entries = entries();
    for row in recorded("hello_edge_integer").as_array().expect("there are rows") {
        let model = text(row, "model");
        let [right, clips] = ["i8x16", "clips"].map(|column| number(&row[column]));
        let percent = 100.0 * right as f64 / clips as f64;
        let expected = format!("{percent:.1} % of {} clips of Speech Commands", thousands(clips));
        let entry = entries.iter().find(|entry| text(entry, "name") == format!("Hello Edge {model}"));
        let entry = entry.unwrap_or_else(|| panic!("{model} is not in the zoo"));
        assert_eq!(
            (text(&entry["figures"], "numeric"), text(entry, "accuracy")),
            ("i8x16", expected.as_str()),
            "{model}"
        );
    }
    let with: Vec<&str> = entries.iter().filter(|of| of["accuracy"].is_string()).map(|of| text(of, "name")).collect();
    let others = with.into_iter().filter(|name| !name.starts_with("Hello Edge"));
    assert!(others.eq(["MLPerf Tiny streaming wake word", "MNIST rows, float", "MNIST rows, int8"]));
}
