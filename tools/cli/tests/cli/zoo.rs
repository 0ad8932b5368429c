//! `zoo`: the list of networks, and the sizes in it.

use std::env;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tidegate_tests::data;
use tidegate_tools::zoo;

use super::Workplace;

#[test]
fn the_zoo_lists_every_network_and_says_how_to_get_and_pack_it() {
    let here = Workplace::new();
    let entries = zoo::entries().unwrap();
    let listed = here.succeed(&["zoo"]);
    assert_eq!(listed.lines().count(), 1 + entries.len(), "{listed}");
    for entry in &entries {
        assert!(listed.contains(&entry.name), "{}", entry.name);
    }
    let nabu = here.succeed(&["zoo", "okay nabu, version 2"]);
    for part in [
        "models/v2/okay_nabu.tflite and .json, in the repository esphome/micro-wake-word-models on GitHub",
        "tidegate pack okay_nabu.json -o model.tgi --for cortex-m4",
        "for the front end",
        "million a second",
        "% of the time on a Cortex-M4 at 120 MHz",
    ] {
        assert!(nabu.contains(part), "no {part:?} in {nabu}");
    }
    assert!(here.succeed(&["zoo", "GRU_S"]).contains("accuracy 86.7 % of 1,584 clips"));
    let json = here.json(&["zoo", "gru8", "--json"]);
    assert_eq!(json.as_array().unwrap().len(), 1);
    let done = here.run(&["zoo", "no such network"]);
    let said = String::from_utf8(done.stderr).unwrap();
    assert_eq!(done.status.code(), Some(1));
    assert!(said.contains("no network of the zoo has \"no such network\" in its name"), "{said}");
}

/// Flash and RAM as recorded, for the networks that are here and need no calibration.
#[test]
fn networks_of_the_zoo_have_the_recorded_sizes() {
    let here = Workplace::new();
    let small = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/small");
    let folder = env::var_os("TIDEGATE_DATA_DIR").map_or_else(small, PathBuf::from);
    let mut count = 0;
    for entry in zoo::entries().unwrap() {
        let file = folder.join(&entry.path);
        if !file.is_file() || entry.arguments.iter().any(|argument| argument == "--calibrate") {
            continue;
        }
        let file = file.display().to_string();
        let done = here.run(&entry.packing(&file, "x.tgi"));
        assert!(done.status.success(), "{}: {}", entry.name, String::from_utf8_lossy(&done.stderr));
        let every = (entry.step_us / 1e3).to_string();
        let mut inspect = vec!["inspect", "x.tgi", "--json", "--for", "cortex-m4", "--mhz", "120"];
        if entry.step_us > 0.0 {
            inspect.extend(["--every", &every]);
        }
        // A warning says that a step is too slow.
        let done = here.run(&inspect);
        assert!(done.status.success(), "{}: {}", entry.name, String::from_utf8_lossy(&done.stderr));
        let found: Value = serde_json::from_slice(&done.stdout).unwrap();
        let number = |name: &str| found[name].as_u64().unwrap_or_else(|| panic!("{name} is missing"));
        let ram: u64 =
            ["state_bytes", "scratch_bytes", "front_end_bytes", "detector_bytes"].map(number).into_iter().sum();
        let figures = &entry.figures;
        let recorded = (figures.numeric.as_str(), figures.flash_bytes, figures.ram_bytes, figures.macs);
        let numeric = found["numeric"].as_str().map(str::to_owned);
        let numeric = numeric.as_deref().unwrap_or_default();
        let device = &found["device"];
        let found = (numeric, number("flash_bytes"), ram, number("macs_per_step"));
        assert_eq!(found, recorded, "{}: cargo xtask zoo --overwrite-expected", entry.name);
        let share = device["share"].as_f64().map(|share| (1e4 * share).round() / 1e4);
        assert_eq!(
            (share, device["code_bytes"].as_u64()),
            (figures.share_of_m4, Some(figures.code_bytes)),
            "{}",
            entry.name
        );
        count += 1;
    }
    assert!(count >= if data::is_whole() { 27 } else { 5 }, "{count} networks are here");
}
