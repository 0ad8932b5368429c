//! The table of `docs/hosts.md` from the newest record of `tools/compare/compare.py --record` without `--isa`.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::repository;

/// The columns, and the runs of each column in a record; the fastest run counts.
const COLUMNS: [(&str, &[&str]); 10] = [
    ("Tidegate `f32`", &["tidegate f32"]),
    ("`f16`", &["tidegate f16"]),
    ("`i8x16`", &["tidegate i8x16"]),
    ("ONNX Runtime", &["onnxruntime"]),
    ("OpenVINO", &["openvino"]),
    ("oneDNN", &["onednn"]),
    ("RTNeural", &["rtneural", "rtneural xsimd"]),
    ("tract", &["tract"]),
    ("ONNX Runtime int8", &["onnxruntime int8", "onnxruntime int8-rows"]),
    ("oneDNN int8", &["onednn int8"]),
];

/// Whether a record covers all runtimes at their best. The names of other records end with their `--isa`.
fn is_native(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "json") && !path.to_string_lossy().ends_with("-avx2.json")
}

/// The newest record: file names begin with the date.
fn newest() -> Value {
    let folder = repository().join("tools/compare/results");
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let paths = entries.map(|entry| entry.expect("the folder can be read").path());
    let path = paths.filter(|path| is_native(path)).max();
    let path = path.unwrap_or_else(|| panic!("{} has no record", folder.display()));
    let text = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Nanoseconds with three digits, in a unit that fits.
fn time(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns >= 1e9 => (ns / 1e9, "s"),
        ns if ns >= 1e6 => (ns / 1e6, "ms"),
        ns if ns >= 1e3 => (ns / 1e3, "µs"),
        ns => (ns, "ns"),
    };
    let digits = (2 - value.abs().log10().floor() as i64).clamp(0, 2) as usize;
    format!("{value:.digits$} {unit}")
}

/// The least median of these runs of a workload; `None` if none of them gives the right result.
fn median(runs: &Value, names: &[&str]) -> Option<f64> {
    let of = |name: &&str| Some(&runs[*name]).filter(|run| run["right"] == true)?["median_ns"].as_f64();
    names.iter().filter_map(of).min_by(f64::total_cmp)
}

fn table(record: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{value} is not a text")).to_owned();
    let machine = &record["machine"];
    let results = record["results"].as_object().expect("a record has results");
    let columns: Vec<_> =
        COLUMNS.into_iter().filter(|(_, names)| results.values().any(|runs| median(runs, names).is_some())).collect();
    let bars = record["bars"].as_array().expect("a record has bars");
    let count = |start: &str| bars.iter().filter(|bar| text(&bar["verdict"]).starts_with(start)).count();
    let mut page = format!(
        "{}, {} (family {}, model {}), {} cores.\n\
         {} of {} bars met, {} not met, {} undecided or skipped.\n\n",
        text(&record["date"]),
        text(&machine["cpu"]),
        text(&machine["family"]),
        text(&machine["model"]),
        machine["cores"],
        count("met"),
        bars.len(),
        count("NOT met"),
        bars.len() - count("met") - count("NOT met"),
    );
    page += &format!("| workload |{}\n", columns.iter().map(|(name, _)| format!(" {name} |")).collect::<String>());
    page += &format!("|---|{}\n", "---|".repeat(columns.len()));
    let mut workloads: Vec<(&String, &Value)> = results.iter().collect();
    workloads.sort_by_key(|(name, _)| {
        let (family, size) = name.rsplit_once('-').unwrap_or((name, ""));
        size.parse::<u32>().map_or_else(|_| (name.to_string(), 0), |size| (family.to_owned(), size))
    });
    for (workload, runs) in workloads {
        let cell =
            |names: &[&str]| median(runs, names).map_or_else(|| " |".to_owned(), |ns| format!(" {} |", time(ns)));
        page += &format!("| `{workload}` |{}\n", columns.iter().map(|(_, names)| cell(names)).collect::<String>());
    }
    page
}

/// The table of the newest record.
pub fn newest_table() -> String {
    table(&newest())
}

#[test]
fn the_table_is_not_of_a_record_held_to_an_instruction_set() {
    let is = |name| is_native(Path::new(name));
    assert_eq!(
        [is("2026-11-23-a-17.json"), is("2026-11-26-a-17-avx2.json"), is("2026-11-23-a-17.md")],
        [true, false, false]
    );
}

#[test]
fn a_cell_has_the_fastest_run_that_is_right() {
    let run = |ns: f64, right: bool| serde_json::json!({"median_ns": ns, "right": right});
    let runs =
        serde_json::json!({"rtneural": run(900.0, true), "rtneural xsimd": run(500.0, false), "tract": {"failed": ""}});
    assert_eq!(median(&runs, &["rtneural", "rtneural xsimd"]), Some(900.0));
    assert_eq!((median(&runs, &["tract"]), median(&runs, &["openvino"])), (None, None));
    assert_eq!([6.5, 64.96, 4_420.0, 236e6, 1.25e9].map(time).join(", "), "6.50 ns, 65.0 ns, 4.42 µs, 236 ms, 1.25 s");
}
